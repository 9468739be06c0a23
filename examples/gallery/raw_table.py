"""A raw table, and nothing said about it.

Thirty measurements of 569 tumours, in unlike units: no range, no scale and no mean
is given.

With so few rows, rows are compared with one another: only the direction of a
difference counts, so that no bound on a row is needed. `"above_noise"` keeps the
components that rise above the noise, here the first. It comes out close to PCA
without privacy. A direction counts an outlier no more than any other row, so that a
small difference would remain at any epsilon.

Figure: the eight largest loadings of the first private component with 95 %
intervals, beside those of PCA without privacy.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA

from eigenveil import PrivatePCA
from eigenveil.report import plots

SEED = 0  # for this page: a seeded release promises nothing, so leave it out

table = load_breast_cancer(as_frame=True).data
pca = PrivatePCA("above_noise", epsilon=1.0, random_state=SEED).fit(table)
print(pca.guarantee_)
print("components above the noise:", pca.n_components_)
low, high = pca.explained_variance_ratio_interval_[0]
print(f"share of the variance: {low:.0%} to {high:.0%} (95 % interval)")

# The table is public, so the truth may stand beside the release.
private, truth = pca.components_[0], PCA(1).fit(table).components_[0]
truth *= np.sign(truth @ private)
print(f"cosine to PCA without privacy: {truth @ private:.3f}")

largest = np.argsort(-np.abs(private))[:8][::-1]
error = 1.96 * pca.release_.loading_errors().standard_errors[0, largest]
places = range(8)
plt.style.use(plots.STYLE)
figure, axes = plt.subplots()
dots = {"fmt": "o", "capsize": 3, "label": "private, epsilon 1"}
rings = {"mfc": "white", "ms": 7, "zorder": 0, "label": "without privacy"}
axes.errorbar(private[largest], places, xerr=error, **dots)
axes.plot(truth[largest], places, "oC1", **rings)
axes.set_yticks(places, table.columns[largest])
axes.set(xlabel="loading on the first component", ylabel="column of the table")
axes.legend(loc="lower right")
figure.savefig("raw_table.png")
