"""Standardized columns.

Grams, millimetres and years in one table: PCA of the correlation matrix.

A `StandardScaler` that is fitted to the rows would leak information about them.
`standardize=True` gives the components of the correlation matrix, at no cost
beyond the release itself.

Figure: loadings of eight columns on two private components and those of PCA.
"""

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from eigenveil import PrivatePCA

rng = np.random.default_rng(0)
size, age = rng.normal(size=(2, 40_000))  # two causes of eight measurements
measured = {
    "height mm": (1_700, 90, 0.9 * size - 0.1 * age),
    "mass g": (75_000, 13_000, 0.8 * size + 0.2 * age),
    "waist mm": (900, 120, 0.7 * size + 0.4 * age),
    "grip N": (400, 90, 0.6 * size - 0.5 * age),
    "age years": (52, 16, 0.95 * age),
    "systolic mmHg": (128, 17, 0.2 * size + 0.7 * age),
    "glucose mg/dl": (99, 18, 0.6 * age - 0.35 * size),
    "pulse 1/min": (70, 10, -0.2 * size),
}
people = pd.DataFrame()
for name, (mean, sd, cause) in measured.items():
    people[name] = mean + sd * (cause + 0.4 * rng.normal(size=40_000))

pca = PrivatePCA(2, epsilon=1.0, standardize=True).fit(people)
print(pca.guarantee_)
for low, high in pca.explained_variance_ratio_interval_:
    print(f"explained variance: {low:.1%} to {high:.1%}")

private = pca.components_
true = PCA(2).fit(StandardScaler().fit_transform(people)).components_
true *= np.sign((true * private).sum(axis=1, keepdims=True))
print("cosines to PCA:", (true * private).sum(axis=1).round(5).tolist())

# Figure
import matplotlib.pyplot as plt

from eigenveil.report import plots

plt.style.use(plots.STYLE)
figure, axes = plt.subplots(figsize=(4.2, 3.2))
axes.plot(*true, "oC1", mfc="white", ms=8, label="PCA")
axes.plot(*private, "oC0", ms=4, label="private, ε = 1")
for name, (x, y) in zip(people.columns, private.T, strict=True):
    side = "right" if x < 0 else "left"
    axes.annotate(f"  {name.split()[0]}  ", (x, y), ha=side, va="center")
axes.margins(x=0.3, y=0.1)
axes.set(xlabel="loading on component 1", ylabel="loading on component 2")
axes.legend(loc="upper center", bbox_to_anchor=(0.35, 0.75))
figure.savefig("standardized.png", dpi=200)
