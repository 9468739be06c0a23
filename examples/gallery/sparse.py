"""Sparse PCA of wide rows.

60 features, of which six vary together. A sparse component uses few features.

A plain component has a loading on every feature, and most of them are noise. The
default penalty follows from the known noise.

Figure: loadings of 60 features: plain component with noise on every feature, sparse
component.
"""

import numpy as np

from eigenveil import PrivateSparsePCA

rng = np.random.default_rng(0)
direction = np.zeros(60)
direction[[4, 11, 23, 30, 42, 57]] = np.array([1, -1, 1, 1, -1, 1]) / np.sqrt(6)
noise = 0.1 * rng.normal(size=(8_000, 60))
rows = np.outer(rng.normal(size=8_000), direction) + noise

model = PrivateSparsePCA(1, epsilon=1.0, norm_bound=3.0).fit(rows)
print(model.guarantee_)
print("features of the sparse component:", model.support_.tolist())
plain = model.release_.pca(1)  # same release, no further cost
found = {"plain": plain.components[0], "sparse": model.components_[0]}
for name, loadings in found.items():
    print(f"{name}: cosine to the true direction {abs(loadings @ direction):.3f}")

# Figure
import matplotlib.pyplot as plt

from eigenveil.report import plots

plt.style.use(plots.STYLE)
figure, panels = plt.subplots(2, 1, sharex=True, sharey=True, figsize=(4.2, 3.2))
for panel, (name, loadings) in zip(panels, found.items(), strict=True):
    loadings = loadings * np.sign(loadings @ direction)
    panel.plot(direction, "oC1", mfc="white", ms=6, label="true")
    lines = {"color": "C0", "linewidth": 2, "label": "private, ε = 1"}
    panel.vlines(range(60), 0, loadings, **lines)
    panel.set(ylabel="loading", title=f"{name} component")
panels[1].set(xlabel="feature number")
handles = panels[0].get_legend_handles_labels()
figure.legend(*handles, loc="outside upper center", ncols=2)
figure.savefig("sparse.png", dpi=200)
