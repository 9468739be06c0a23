"""Regressions from one release.

One private covariance answers every later question about linear structure: here two
regressions at no further cost.

Coefficients come with 95 % intervals for those of least squares on the same rows,
from the known noise. A second target costs nothing: it reads the same release.

Figure: coefficients of two regressions with 95 % intervals, beside least squares
without privacy.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from eigenveil import PrivateCovariance
from eigenveil.report import plots

SEED = 0  # for this page: a seeded release promises nothing, so leave it out

rng = np.random.default_rng(0)
n = 30_000
size, age = rng.uniform(20, 150, n), rng.uniform(0, 100, n)
distance = rng.uniform(0, 20, n)
flats = pd.DataFrame({"size": size, "age": age, "distance": distance})
flats["rent"] = 150 + 9 * size - 2 * age - 25 * distance + rng.normal(0, 120, n)
flats["heating"] = 20 + 0.9 * size + 0.5 * age + rng.normal(0, 20, n)

known = {"size": (0, 200), "age": (0, 120), "distance": (0, 30)}  # public ranges
known |= {"rent": (0, 2_000), "heating": (0, 300)}
model = PrivateCovariance(epsilon=1.0, bounds=known, random_state=SEED).fit(flats)
print(model.guarantee_)

features = {"size": "size, m²", "age": "age, years", "distance": "distance, km"}
places = range(3)
plt.style.use(plots.STYLE)
figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.4), sharey=True)
for panel, target in zip(panels, ["rent", "heating"], strict=True):
    fit = model.release_.regress(target, features=list(features))
    design = np.column_stack([flats[list(features)], np.ones(n)])
    truth = np.linalg.lstsq(design, flats[target])[0][
        :3
    ]  # rows are made up: it may be shown
    told = "{:.2f} to {:.2f} (95 % interval)".format(*fit.r2_interval)
    print(f"{target}: R2 of {told}")
    for name, (low, high), exact in zip(
        features, fit.coef_interval, truth, strict=True
    ):
        print(f"  {name:8} {low:7.2f} to {high:6.2f}, without privacy {exact:6.2f}")
    lines = {"color": "C0", "linewidth": 2, "label": "95 % interval"}
    panel.hlines(places, *fit.coef_interval.T, **lines)
    panel.plot(fit.coef, places, "oC0", label="private, epsilon 1")
    panel.plot(truth, places, "oC1", mfc="none", ms=8, label="without privacy")
    panel.set(xlabel="euro a month, for one more unit of the feature", title=target)
panels[0].set_yticks(places, features.values())
panels[0].set(ylabel="feature")
panels[0].margins(y=0.2)
panels[0].legend(loc="lower left")
figure.savefig("regression.png")
