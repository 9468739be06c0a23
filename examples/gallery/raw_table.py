"""A raw table without bounds.

30 measurements of 569 tumours in different units. No range, scale or mean is given.

With few rows and no bounds, the statistic uses only the direction of differences
between rows. It needs no clipping bound. `"above_noise"` keeps the components that
are distinguishable from noise.

Figure: eight largest loadings of the private component with 95 % intervals, and
PCA.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA

from eigenveil import PrivatePCA

table = load_breast_cancer(as_frame=True).data
pca = PrivatePCA("above_noise", epsilon=1.0).fit(table)
print(pca.guarantee_)
print("components above the noise:", pca.n_components_)
low, high = pca.explained_variance_ratio_interval_[0]
print(f"explained variance: {low:.0%} to {high:.0%}")

private, true = pca.components_[0], PCA(1).fit(table).components_[0]
true *= np.sign(true @ private)
print(f"cosine to PCA without privacy: {true @ private:.3f}")

# Figure
import matplotlib.pyplot as plt

from eigenveil.report import plots

largest = np.argsort(-np.abs(private))[:8][::-1]
error = 1.96 * pca.release_.spectrum.loading_errors().standard_errors[0, largest]
places = range(8)
plt.style.use(plots.STYLE)
figure, axes = plt.subplots(figsize=(4.2, 2.8))
dots = {"fmt": "o", "capsize": 3, "label": "private, ε = 1"}
axes.errorbar(private[largest], places, xerr=error, **dots)
circles = {"mfc": "white", "ms": 7, "zorder": 0, "label": "PCA"}
axes.plot(true[largest], places, "oC1", **circles)
axes.set_yticks(places, table.columns[largest])
axes.set(xlabel="loading on component 1", ylabel="column")
axes.legend(loc="lower right")
figure.savefig("raw_table.png", dpi=200)
