"""Sparse components of wide rows.

Sixty features of which six move together: the noise falls on all, and sparsity
takes most of it off again.

Plain components have a loading on every feature, and in a wide table most of these
are noise. `PrivateSparsePCA` finds components that use few features, from one
released matrix; the penalty follows from the known noise.

Figure: loadings of sixty features by a plain private component, with noise on every
feature, and by a sparse one that is zero for all but six.
"""

import matplotlib.pyplot as plt
import numpy as np

from eigenveil import PrivateSparsePCA
from eigenveil.report import plots

SEED = 0  # for this page: a seeded release promises nothing, so leave it out

rng = np.random.default_rng(0)
direction = np.zeros(60)
direction[[4, 11, 23, 30, 42, 57]] = np.array([1, -1, 1, 1, -1, 1]) / np.sqrt(6)
rows = np.outer(rng.normal(size=3_000), direction) + 0.1 * rng.normal(
    size=(3_000, 60)
)

model = PrivateSparsePCA(1, epsilon=1.0, norm_bound=3.0, random_state=SEED)
model.fit(rows)
print(model.guarantee_)
print("features of the sparse component:", model.support_.tolist())
plain = model.release_.pca(1)  # of the same release, at no further cost
found = {"plain": plain.components[0], "sparse": model.components_[0]}

plt.style.use(plots.STYLE)
figure, panels = plt.subplots(2, 1, sharex=True, sharey=True, figsize=(6.4, 4.6))
for panel, (name, loadings) in zip(panels, found.items(), strict=True):
    loadings = loadings * np.sign(loadings @ direction)
    print(f"{name}: cosine to the true direction {loadings @ direction:.3f}")
    panel.plot(direction, "oC1", mfc="white", ms=7, label="true")
    lines = {"color": "C0", "linewidth": 2, "label": "private, epsilon 1"}
    panel.vlines(range(60), 0, loadings, **lines)
    panel.set(ylabel="loading", title=f"{name} component")
panels[1].set(xlabel="feature, by its number")
handles = panels[0].get_legend_handles_labels()
figure.legend(*handles, loc="outside upper center", ncols=2)
figure.savefig("sparse.png")
