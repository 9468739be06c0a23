"""Three hospitals, one release.

None may send rows, or even exact sums: each writes one masked file, and whoever
adds the files gets one release.

Noise comes in shares, and masks cancel only in the sum of all files. Each hospital
has patients of its own kind, so that one of them alone tells of its own patients,
however sharply, and not of all. Nothing here is seeded: keys and noise are secret,
so the numbers of this page change a little whenever it is made. Needs
`eigenveil[federation]`.

Figure: loadings of the first component by one hospital alone and by the three
together, with 95 % intervals, beside those of all patients without privacy: the
three together are near them.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from eigenveil import PrivatePCA, Schema
from eigenveil.federation import SiteKeys, combine, contribute, invite
from eigenveil.report import plots
from eigenveil.tables.schema import Column

rng = np.random.default_rng(0)
names = ["age", "pulse", "systolic", "bmi", "glucose"]
ends = [(0, 120), (30, 180), (60, 220), (10, 60), (40, 240)]  # public ranges
kinds = {
    "north": [16, 2, 15, 0, 2],
    "south": [8, 12, 9, 3, 12],
    "east": [3, 14, 6, -5, 20],
}
sites = {}
for site, kind in kinds.items():
    rows = rng.normal(size=(6_000, 1)) * kind + 4 * rng.normal(size=(6_000, 5))
    sites[site] = pd.DataFrame(np.add(rows, [55, 85, 130, 28, 110]), columns=names)

columns = [Column(name, range=pair) for name, pair in zip(names, ends, strict=True)]
schema = Schema(tuple(columns), declared_by="the three hospitals")
model = PrivatePCA(1, epsilon=1.0, delta=1e-6, schema=schema)
draft = invite(model, list(sites))
# Keys are made at each site, and stay there.
keys = {site: SiteKeys.create(site, draft.terms) for site in sites}
first, *others = (own.join(draft) for own in keys.values())
agreed = first.close(others)
for site, own in keys.items():
    own.save(f"{site}.key")
    contribute(agreed, f"{site}.key", sites[site], f"{site}.contribution")
together = combine(agreed, [f"{site}.contribution" for site in sites])
print(together.guarantee)

# The patients are made up, so the truth may stand beside the release.
truth = np.linalg.eigh(np.cov(pd.concat(sites.values()).T))[1][:, -1]
truth *= np.sign(truth.sum())
plt.style.use(plots.STYLE)
figure, axes = plt.subplots()
places = np.arange(5)
found = {
    "north alone": model.fit(sites["north"]).release_,
    "the three together": together,
}
for colour, (name, release) in zip(("C6", "C0"), found.items(), strict=True):
    private = release.components[0] * np.sign(release.components[0] @ truth)
    error = 1.96 * release.loading_errors().standard_errors[0]
    print(f"{name}: cosine to the component of all patients {private @ truth:.3f}")
    dots = {"fmt": "o", "capsize": 3, "color": colour, "label": name}
    axes.errorbar(private, places, xerr=error, **dots)
axes.plot(truth, places, "oC1", mfc="none", ms=9, label="all, without privacy")
axes.set_yticks(places, names)
axes.set(xlabel="loading on the first component", ylabel="column", ylim=(-0.5, 6))
axes.legend(loc="upper left")
figure.savefig("federation.png")
