"""Plan before you spend.

How many rows, and which epsilon, for components that miss at most 5 % of what PCA
would capture?

The forecast fits the estimator to made-up rows of an assumed spectrum. It reads no
data and spends nothing. Take the assumed spectrum from public data of the same
kind, and try a flatter one too. Where rows are many enough a fit changes its rule,
from comparing rows to ranges that it finds privately, so that the loss need not
fall everywhere.

Figure: forecast loss of a private PCA against epsilon for 1,000, 5,000 and 25,000
rows, with bands for nine in ten fits and the target of 5 %.
"""

import matplotlib.pyplot as plt

from eigenveil import PrivatePCA, forecast
from eigenveil.report import plots

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
plan = forecast(PrivatePCA(2, epsilon=1.0), n_features=10, n_rows=5_000, repeats=20)
print(
    f"5,000 rows at epsilon 1: {plan.taken.mechanism} loses {plan.taken.mean:.2%}"
)
wanted = f"{plan.rows_for(0.05):,} rows, or epsilon {plan.epsilon_for(0.05):.2g}"
print("for a loss of 5 %:", wanted)

plt.style.use(plots.STYLE)
figure, axes = plt.subplots()
for colour, n_rows in zip(("C0", "C1", "C2"), (1_000, 5_000, 25_000), strict=True):
    curve = [plan.at(n_rows, epsilon) for epsilon in EPSILONS]
    band = [one.low for one in curve], [one.high for one in curve]
    means = [one.mean for one in curve]
    axes.loglog(EPSILONS, means, f"o-{colour}", label=f"{n_rows:,} rows")
    axes.fill_between(EPSILONS, *band, color=colour, alpha=0.15, linewidth=0)
axes.axhline(0.05, color="C7", linestyle=":", label="target")
axes.set_xticks(EPSILONS, map(str, EPSILONS))
axes.minorticks_off()
axes.set(xlabel="epsilon", ylabel="loss, as a share of the captured variance")
axes.legend()
figure.savefig("planning.png")
