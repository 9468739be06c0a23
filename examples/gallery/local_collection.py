"""Local differential privacy.

Every device adds noise to its own report. The server never sees a row.

Noise is added once for each device, so this model needs many reports: the error
falls with the square root of their number.

Figure: angle error of the released subspace against the number of reports.
"""

import numpy as np

from eigenveil.local import LocalProtocol, aggregate, encode_many

rng = np.random.default_rng(0)
protocol = LocalProtocol(n_features=8, epsilon=2.0, norm_bound=4.0)
totals = None
print("bytes of a report:", protocol.report_bytes)

counts, angles = [], []
for batch in (250, 250, 500, 1_000, 2_000, 4_000, 8_000):
    rows = rng.normal(size=(batch, 8)) * [2.0, 1.4, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]
    reports = encode_many(protocol, rows)  # a device calls encode
    totals = aggregate(protocol, reports, earlier=totals)
    release = totals.release(n_components=2)
    # The first two features span the true subspace.
    cosine = np.linalg.svd(release.components[:, :2])[1].min()
    counts.append(release.n_rows)
    angles.append(np.degrees(np.arccos(min(cosine, 1.0))))
    print(f"{release.n_rows:6,} reports: angle error {angles[-1]:4.1f}°")
print(release.guarantee)

# Figure
import matplotlib.pyplot as plt

from eigenveil.report import plots

plt.style.use(plots.STYLE)
figure, axes = plt.subplots(figsize=(4.2, 2.8))
slope = angles[-1] * np.sqrt(counts[-1] / np.array(counts))
axes.loglog(counts, angles, "o-", label="released subspace")
axes.loglog(counts, slope, "--", color="C6", label="slope 1/√n")
axes.set_xticks(counts[1::2], [f"{count:,}" for count in counts[1::2]])
axes.set_yticks([5, 10, 20, 50], ["5°", "10°", "20°", "50°"])
axes.minorticks_off()
axes.set(xlabel="reports", ylabel="angle error")
axes.legend()
figure.savefig("local_collection.png", dpi=200)
