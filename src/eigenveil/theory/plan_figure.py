"""The picture of a plan: loss against the number of rows, for every law."""

import math
from typing import TYPE_CHECKING

import numpy as np

from ..errors import EigenveilError
from ..laws.table import LAWS
from .forecast import MOST_ROWS
from .plan import Plan, tracked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POINTS = 7
_SPAN = 30.0  # the rows run from a thirtieth of what was asked about to thirty times as much


def plan_figure(plan: Plan, *, progress: bool = False) -> "Figure":
    """Return the mean loss of every law against n, with the band that holds nine in ten fits.

    Needs matplotlib: ``pip install 'eigenveil[report]'``. It simulates again at other n, so it takes several times as
    long as the plan did; `progress` shows a bar on a terminal. `Figure.savefig` writes it to a file.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise EigenveilError("A plot needs matplotlib; install it with pip install 'eigenveil[report]'.") from None

    low, high = max(2.0, plan.n_rows / _SPAN), min(float(MOST_ROWS), plan.n_rows * _SPAN)
    rows = sorted({round(n) for n in np.geomspace(low, max(high, 2 * low), _POINTS)} | {plan.n_rows})
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    axes = figure.add_subplot()
    for shown in tracked(plan.forecasts, "plot", progress):
        if LAWS[shown.law].baseline:
            # The same at every n; what loses nothing has no place on a logarithmic axis.
            if shown.guarantee.is_private:
                axes.axhline(shown.mean, color="0.5", linestyle="--", label=shown.law)
            continue
        curve = [plan.scenario.forecast(shown.law, n, plan.epsilon) for n in rows]
        chosen = shown.law == plan.recommended
        means = [forecast.mean or math.nan for forecast in curve]
        (line,) = axes.plot(rows, means, marker="o", markersize=3, linewidth=2.5 if chosen else 1.2)
        line.set_label(shown.law + (" (recommended)" if chosen else "") + ("" if shown.as_asked else " *"))
        if shown.low is not None:
            lower, upper = ([getattr(forecast, side) or math.nan for forecast in curve] for side in ("low", "high"))
            axes.fill_between(rows, lower, upper, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.axvline(plan.n_rows, color="0.7", linewidth=1)
    if plan.target_loss is not None:
        axes.axhline(plan.target_loss, color="black", linestyle=":", label=f"target {plan.target_loss:g}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rows")
    axes.set_ylabel("loss: share of the captured variance")
    scenario = plan.scenario
    axes.set_title(
        f"{scenario.n_features} features, {scenario.n_components} components, epsilon {plan.epsilon:g}, "
        f"delta {scenario.delta:g}; assumed spectrum",
        fontsize=10,
    )
    if any(not forecast.as_asked for forecast in plan.forecasts if not LAWS[forecast.law].baseline):
        figure.supxlabel("* not recommended: privacy not proved, or another guarantee than asked for", fontsize=8)
    axes.legend(fontsize=8)
    return figure
