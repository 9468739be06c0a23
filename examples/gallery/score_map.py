"""The cloud of scores, privately.

What people want from PCA is the cloud. Scores of private rows do not leave; a
histogram of them with noise does.

The grid follows from the release alone, so it costs nothing, and its cells are as
many as the number of rows and the noise suggest. The map spends an epsilon of its
own, beside that of the components.

Figure: left, the scores of made-up rows in four groups; right, the private map of
them, in which the four groups can be seen.
"""

import matplotlib.pyplot as plt
import numpy as np

from eigenveil import PrivatePCA, score_map
from eigenveil.report import plots

SEED = 0  # for this page: a seeded release promises nothing, so leave it out

rng = np.random.default_rng(0)
centres = np.zeros((4, 5))
centres[:, :2] = [[3, 0], [-3, 1], [0, 4], [0, -3]]
rows = centres[rng.integers(4, size=10_000)] + rng.normal(size=(10_000, 5)) * 0.7

pca = PrivatePCA(2, epsilon=1.0, bounds=(-7, 7), random_state=SEED).fit(rows)
release = pca.release_
cloud = score_map(rows, release, epsilon=0.5, random_state=SEED)
print(cloud.guarantee)
print("cells:", cloud.counts.shape[1:])
print(f"standard deviation of the noise on every count: {cloud.noise_sd:.1f}")

plt.style.use(plots.STYLE)
both = {"sharex": True, "sharey": True}
figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.9), **both)
left.plot(*release.transform(rows).T, ".", markersize=1.5, alpha=0.3)
left.set(title="scores: private, never released", ylabel="score on component 2")
counts = np.where(cloud.counts[0] > 0, cloud.counts[0], np.nan)
image = right.pcolormesh(*cloud.edges, counts.T, cmap="Blues")
x, y = cloud.edges
right.set(title="private map, epsilon 0.5", xlim=x[[0, -1]], ylim=y[[0, -1]])
right.grid(False)
told = f"rows in a cell; noise ± {cloud.noise_sd:.1f}"
figure.colorbar(image, ax=right, label=told)
for panel in (left, right):
    panel.set(xlabel="score on component 1")
figure.savefig("score_map.png")
