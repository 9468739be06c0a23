"""Audit a guarantee.

The code of a mechanism runs many times on neighbouring data, and an attack
estimates epsilon.

An audit reports a lower bound on epsilon with 99 % confidence. It can refute a
claim; it cannot prove one. As a control, the published constants of one mechanism
are known to be too small: the audit must refute them.

Figure: claimed epsilon and lower bound of the audit for four mechanisms.
"""

from eigenveil.audit import audit
from eigenveil.mechanisms import MECHANISMS

size = {"epsilon": 1.0, "n_features": 2}
published = MECHANISMS["wishart"](calibration="paper", allow_unsound=True, **size)
subjects = {
    "laplace": MECHANISMS["laplace"](**size),
    "matrix_laplace": MECHANISMS["matrix_laplace"](**size),
    "gaussian": MECHANISMS["gaussian"](delta=1e-3, **size),
}
reports = {name: audit(one, draws=8_000) for name, one in subjects.items()}
reports["wishart, published"] = audit(published, delta=1e-3, draws=8_000)
for name, one in reports.items():
    print(
        f"{name}: claimed {one.claimed:.2f}, at least {one.epsilon_lower:.2f},",
        end=" ",
    )
    print(one.verdict)

# Figure
import matplotlib.pyplot as plt

from eigenveil.report import plots

plt.style.use(plots.STYLE)
figure, axes = plt.subplots(figsize=(4.2, 2.8))
places = range(len(reports))
bounds = [report.epsilon_lower for report in reports.values()]
claims = [report.claimed for report in reports.values()]
axes.barh(places, bounds, height=0.5, label="lower bound")
axes.plot(claims, places, "|C1", markersize=24, mew=3, label="claimed")
axes.set_yticks(places, [name.replace(", ", ",\n") for name in reports])
axes.invert_yaxis()
axes.set(xlabel="epsilon at the delta of the audit", ylabel="mechanism")
axes.legend(loc="upper right", markerscale=0.4)
figure.savefig("audit.png", dpi=200)
