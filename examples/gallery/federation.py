"""Three hospitals, one release.

No hospital sends rows or exact sums. Each writes one masked file.

The masks cancel only in the sum of all files. The patients of each hospital differ,
so one hospital alone does not estimate the component of all. Needs
`eigenveil[federation]`.

Figure: loadings of one hospital, of three together, and of all patients without
privacy.
"""

import numpy as np
import pandas as pd

from eigenveil import PrivatePCA, Schema
from eigenveil.federation import SiteKeys, combine, contribute, invite
from eigenveil.tables.schema import Column

rng = np.random.default_rng(0)
names = ["age", "pulse", "systolic", "bmi", "glucose"]
ranges = [(0, 120), (30, 180), (60, 220), (10, 60), (40, 240)]  # public
kinds = {"north": [16, 2, 15, 0, 2], "south": [8, 12, 9, 3, 12]}
kinds["east"] = [3, 14, 6, -5, 20]
sites = {}
for site, kind in kinds.items():
    rows = rng.normal(size=(6_000, 1)) * kind + 4 * rng.normal(size=(6_000, 5))
    sites[site] = pd.DataFrame(np.add(rows, [55, 85, 130, 28, 110]), columns=names)

columns = [
    Column(name, range=pair) for name, pair in zip(names, ranges, strict=True)
]
schema = Schema(tuple(columns), declared_by="the three hospitals")
model = PrivatePCA(1, epsilon=1.0, delta=1e-6, schema=schema)
draft = invite(model, list(sites))
keys = {
    site: SiteKeys.create(site, draft.terms) for site in sites
}  # stay at the site
first, *others = (own.join(draft) for own in keys.values())
agreed = first.close(others)
for site, own in keys.items():
    own.save(f"{site}.key")
    contribute(agreed, f"{site}.key", sites[site], f"{site}.contribution")
together = combine(agreed, [f"{site}.contribution" for site in sites])
print(together.guarantee)

true = np.linalg.eigh(np.cov(pd.concat(sites.values()).T))[1][:, -1]
releases = {"north alone": model.fit(sites["north"]).release_, "together": together}
for name, release in releases.items():
    cosine = abs(release.components[0] @ true)
    print(f"{name}: cosine to the component of all patients {cosine:.3f}")

# Figure
import matplotlib.pyplot as plt

from eigenveil.report import plots

true *= np.sign(true.sum())
plt.style.use(plots.STYLE)
figure, axes = plt.subplots(figsize=(4.2, 2.8))
places = np.arange(5)
for colour, (name, release) in zip(("C6", "C0"), releases.items(), strict=True):
    private = release.components[0] * np.sign(release.components[0] @ true)
    error = 1.96 * release.spectrum.loading_errors().standard_errors[0]
    dots = {"fmt": "o", "capsize": 3, "color": colour, "label": name}
    axes.errorbar(private, places, xerr=error, **dots)
axes.plot(true, places, "oC1", mfc="none", ms=9, label="all, without privacy")
axes.set_yticks(places, names)
axes.set(xlabel="loading on component 1", ylabel="column", ylim=(-0.5, 7.6))
axes.legend(loc="upper left")
figure.savefig("federation.png", dpi=200)
