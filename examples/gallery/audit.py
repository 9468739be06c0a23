"""Audit the claims.

The code of a mechanism runs many times on neighbouring data, and an experiment
tries to refute its epsilon.

An audit ends in a number that epsilon cannot be below, with a confidence of 99 %.
It can refute a claim and never proves one. Three mechanisms are tried at the claims
of this package, and one at the constants of the paper it is from, which are known
to be too small: that claim must be refuted, or the audit would be worth nothing.

Figure: for each mechanism the epsilon that is claimed and the lower bound found by
the audit; only the published constants of wishart lie below their bound.
"""

import matplotlib.pyplot as plt

from eigenveil.audit import audit
from eigenveil.mechanisms import MECHANISMS
from eigenveil.report import plots

size = {"epsilon": 1.0, "n_features": 2}
published = MECHANISMS["wishart"](calibration="paper", allow_unsound=True, **size)
reports = {
    "laplace": audit(MECHANISMS["laplace"](**size), draws=8_000, seed=0),
    "matrix_laplace": audit(
        MECHANISMS["matrix_laplace"](**size), draws=8_000, seed=0
    ),
    "gaussian": audit(
        MECHANISMS["gaussian"](delta=1e-3, **size), draws=8_000, seed=0
    ),
    "wishart, as published": audit(published, delta=1e-3, draws=8_000, seed=0),
}
for name, report in reports.items():
    told = f"{report.claimed:.2f} claimed, not below {report.epsilon_lower:.2f}"
    print(f"{name}: {told}, {report.verdict}")

plt.style.use(plots.STYLE)
figure, axes = plt.subplots()
places = range(len(reports))
bounds = [report.epsilon_lower for report in reports.values()]
claims = [report.claimed for report in reports.values()]
axes.barh(places, bounds, height=0.5, label="not below, by the audit")
axes.plot(claims, places, "|C1", markersize=28, mew=3, label="claimed")
axes.set_yticks(places, reports)
axes.invert_yaxis()
axes.set(xlabel="epsilon, at the delta of the audit", ylabel="mechanism")
axes.legend(loc="upper right", markerscale=0.4)
figure.savefig("audit.png")
