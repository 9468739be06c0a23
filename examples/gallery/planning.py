"""Plan before you spend.

How many rows, and which epsilon, for a loss of at most 5 % of the captured
variance?

The forecast fits the estimator to synthetic rows with an assumed spectrum. It reads
no data and spends nothing. With enough rows the fit estimates clipping bounds
instead, so the loss need not fall everywhere.

Figure: forecast loss against epsilon for three numbers of rows, with 90 % bands.
"""

from eigenveil import PrivatePCA, forecast

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
plan = forecast(PrivatePCA(2, epsilon=1.0), n_features=10, n_rows=5_000, repeats=20)
print("mechanism:", plan.taken.mechanism)
print(f"loss with 5,000 rows at epsilon 1: {plan.taken.mean:.2%}")
print(f"rows for a loss of 5 %: {plan.rows_for(0.05):,}")
print(f"epsilon for a loss of 5 %: {plan.epsilon_for(0.05):.2g}")

curves = {}
for n_rows in (1_000, 5_000, 25_000):
    curves[n_rows] = [plan.at(n_rows, epsilon) for epsilon in EPSILONS]

# Figure
import matplotlib.pyplot as plt

from eigenveil.report import plots

plt.style.use(plots.STYLE)
figure, axes = plt.subplots(figsize=(4.2, 3.0))
for colour, (n_rows, curve) in zip(("C0", "C1", "C2"), curves.items(), strict=True):
    band = [one.low for one in curve], [one.high for one in curve]
    means = [one.mean for one in curve]
    axes.loglog(EPSILONS, means, f"o-{colour}", label=f"{n_rows:,} rows")
    axes.fill_between(EPSILONS, *band, color=colour, alpha=0.15, linewidth=0)
axes.axhline(0.05, color="C7", linestyle=":", label="target")
axes.set_xticks(EPSILONS, map(str, EPSILONS))
axes.minorticks_off()
axes.set(xlabel="epsilon", ylabel="loss (share of variance)")
axes.legend()
figure.savefig("planning.png", dpi=200)
