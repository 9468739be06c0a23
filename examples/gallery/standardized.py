"""Columns of unlike units, standardized.

Grams, millimetres and years in one table: components of the correlations, as after
a `StandardScaler`.

A scaler that is fitted to the rows would leak them. With `standardize=True` the
components are those of the correlation matrix, and nothing is spent on scales: here
nothing is public, so ranges are found privately first, and the released matrix is
brought to a unit diagonal.

Figure: the loadings of eight columns on the two first private components, each
beside that without privacy.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from eigenveil import PrivatePCA
from eigenveil.report import plots

SEED = 0  # for this page: a seeded release promises nothing, so leave it out

rng = np.random.default_rng(0)
size, age = rng.normal(size=(2, 40_000))  # two hidden causes of eight measurements
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
for name, (middle, spread, cause) in measured.items():
    people[name] = middle + spread * (cause + 0.4 * rng.normal(size=40_000))

pca = PrivatePCA(2, epsilon=1.0, standardize=True, random_state=SEED).fit(people)
print(pca.guarantee_)
for low, high in pca.explained_variance_ratio_interval_:
    print(f"share of the variance: {low:.1%} to {high:.1%} (95 % interval)")

# The rows are made up, so the truth may stand beside the release.
private = pca.components_
truth = PCA(2).fit(StandardScaler().fit_transform(people)).components_
truth *= np.sign((truth * private).sum(axis=1, keepdims=True))
cosines = (truth * private).sum(axis=1)
print("cosines to PCA without privacy:", cosines.round(6).tolist())

plt.style.use(plots.STYLE)
figure, axes = plt.subplots(figsize=(6.4, 5.0))
axes.plot(*truth, "oC1", mfc="white", ms=8, label="without privacy")
axes.plot(*private, "oC0", label="private, epsilon 1")
for name, (x, y) in zip(people.columns, private.T, strict=True):
    side = "right" if x < 0 else "left"
    axes.annotate(f"  {name}  ", (x, y), ha=side, va="bottom")
axes.margins(x=0.38, y=0.1)
axes.set_xlabel("loading on the first component")
axes.set_ylabel("loading on the second component")
axes.legend()
figure.savefig("standardized.png")
