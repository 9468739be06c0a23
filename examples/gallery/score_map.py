"""A private map of scores.

Scores of private rows must not be released. A histogram of them with noise can be.

The grid follows from the release and costs nothing. The map has its own epsilon.

Figure: private histogram of the scores, in which four groups can be seen.
"""

import numpy as np

from eigenveil import PrivatePCA, score_map

rng = np.random.default_rng(0)
centres = np.zeros((4, 5))
centres[:, :2] = [[3, 0], [-3, 1], [0, 4], [0, -3]]
rows = centres[rng.integers(4, size=10_000)] + rng.normal(size=(10_000, 5)) * 0.7

release = PrivatePCA(2, epsilon=1.0, bounds=(-7, 7)).fit(rows).release_
private_map = score_map(rows, release, epsilon=0.5)
print(private_map.guarantee)
print("cells:", private_map.counts.shape[1:])
print(f"standard deviation of the noise: {private_map.noise_sd:.1f} rows")

# Figure
import matplotlib.pyplot as plt

from eigenveil.report import plots

plt.style.use(plots.STYLE)
figure, axes = plt.subplots(figsize=(4.2, 3.2))
counts = np.where(private_map.counts[0] > 0, private_map.counts[0], np.nan)
image = axes.pcolormesh(*private_map.edges, counts.T, cmap="Blues")
axes.set(xlabel="score on component 1", ylabel="score on component 2")
axes.grid(False)
figure.colorbar(image, ax=axes, label="rows in a cell")
figure.savefig("score_map.png", dpi=200)
