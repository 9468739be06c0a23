"""Regression from one release.

One private covariance matrix answers two regressions. The second one costs nothing.

The 95 % intervals are for the coefficients of least squares on the same rows.

Figure: coefficients of a regression of rent with 95 % intervals, and least squares.
"""

import numpy as np
import pandas as pd

from eigenveil import PrivateCovariance

rng = np.random.default_rng(0)
n = 30_000
size, age = rng.uniform(20, 150, n), rng.uniform(0, 100, n)
distance = rng.uniform(0, 20, n)
flats = pd.DataFrame({"size": size, "age": age, "distance": distance})
flats["rent"] = 150 + 9 * size - 2 * age - 25 * distance + rng.normal(0, 120, n)
flats["heating"] = 20 + 0.9 * size + 0.5 * age + rng.normal(0, 20, n)

bounds = {"size": (0, 200), "age": (0, 120), "distance": (0, 30)}  # public
bounds |= {"rent": (0, 2_000), "heating": (0, 300)}
release = PrivateCovariance(epsilon=1.0, bounds=bounds).fit(flats).release_
print(release.guarantee)

features = ["size", "age", "distance"]
design = np.column_stack([flats[features], np.ones(n)])
for target in ("heating", "rent"):
    fit = release.regress(target, features=features)
    true = np.linalg.lstsq(design, flats[target])[0][:3]
    print("{}: R² {:.2f} to {:.2f}".format(target, *fit.r2_interval))
    for name, (low, high), exact in zip(
        features, fit.coef_interval, true, strict=True
    ):
        print(f"  {name:8} {low:7.2f} to {high:6.2f}, true {exact:6.2f}")

# Figure
import matplotlib.pyplot as plt

from eigenveil.report import plots

places = range(3)
plt.style.use(plots.STYLE)
figure, axes = plt.subplots(figsize=(4.2, 2.8))
lines = {"color": "C0", "linewidth": 2, "label": "95 % interval"}
axes.hlines(places, *fit.coef_interval.T, **lines)
axes.plot(fit.coef, places, "oC0", label="private, ε = 1")
axes.plot(true, places, "oC1", mfc="none", ms=8, label="least squares")
axes.set(xlabel="euro of rent for one more unit", ylabel="feature")
axes.set_yticks(places, ["size, m²", "age, years", "distance, km"])
axes.margins(y=0.2)
axes.legend(loc="lower left")
figure.savefig("regression.png", dpi=200)
