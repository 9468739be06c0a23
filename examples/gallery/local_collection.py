"""Collect from devices that trust nobody.

Every device makes its own report private before it is sent; the server never sees a
row.

The price is the number of devices: noise is added once for each of them, so the
directions sharpen with the square root of their number. The release costs nothing
beyond the reports, and may be drawn as often as one likes while they come in.
Reports of this page are drawn from a seed, and say so in their header.

Figure: the angle between the released subspace and the true one against the number
of reports, on logarithmic axes, falling from near a right angle to a few degrees.
"""

import matplotlib.pyplot as plt
import numpy as np

from eigenveil.local import Aggregator, LocalProtocol, encode_many
from eigenveil.report import plots

rng = np.random.default_rng(0)
protocol = LocalProtocol(n_features=8, epsilon=2.0, norm_bound=4.0)
server = Aggregator(protocol)  # in memory; give it a folder to survive a crash
print("bytes of a report:", protocol.report_bytes)

counts, angles = [], []
for batch in (250, 250, 500, 1_000, 2_000, 4_000, 8_000):
    rows = rng.normal(size=(batch, 8)) * [2.0, 1.4, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]
    # On a device it is encode(protocol, row), and no generator is handed over.
    server.add_many(encode_many(protocol, rows, generator=rng))
    release = server.release(n_components=2)
    # The truth is known here: the first two features span the largest variances.
    cosine = np.linalg.svd(release.components[:, :2])[1].min()
    counts.append(release.n_rows)
    angles.append(np.degrees(np.arccos(min(cosine, 1.0))))
    print(f"{release.n_rows:6,} reports: {angles[-1]:4.1f} degrees off")
print(release.guarantee)

plt.style.use(plots.STYLE)
figure, axes = plt.subplots()
slope = angles[-1] * np.sqrt(counts[-1] / np.array(counts))
axes.loglog(counts, angles, "o-", label="released subspace")
axes.loglog(counts, slope, "--", color="C6", label="slope of 1/√n")
axes.set_xticks(counts, [f"{count:,}" for count in counts])
axes.set_yticks([5, 10, 20, 50], ["5", "10", "20", "50"])
axes.minorticks_off()
axes.set(xlabel="reports", ylabel="largest angle to the true subspace, degrees")
axes.legend()
figure.savefig("local_collection.png")
