"""The figure of a plan: expected loss and reported variance, against the number of rows and against epsilon."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..display import tracked
from ..mechanisms.table import MECHANISMS
from .plots import GREY, INK, SILVER, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..estimators.forecast import Forecast, Forecasts


_POINTS = 7
_SPAN = 30.0  # both axes run from 1/30 of the planned value to 30 times that value


@styled()
def plan_figure(plan: "Forecasts", *, progress: bool = False) -> "Figure":
    """Return the mean loss of every mechanism, and the variance that the fit will report, against n and epsilon.

    Bands of the loss contain nine of ten fits; bands of the variance are its confidence intervals. Needs matplotlib:
    ``pip install 'eigenveil[report]'``. It simulates at other n and epsilon, so it takes many times as long as the
    plan; `progress` shows a bar on a terminal. `Figure.savefig` writes it to a file.
    """
    rows = sorted({round(n) for n in _around(plan.n_rows, 2.0, float(plan.MOST_ROWS))} | {plan.n_rows})
    epsilons = sorted({*_around(plan.epsilon, *plan.EPSILON_RANGE), plan.epsilon})
    figure = new_figure(9.0, 7.0)
    places = figure.subplots(2, 2, sharex="col", sharey="row")
    shown = [(forecast, column) for forecast in plan.forecasts for column in range(2)]
    for forecast, column in tracked(shown, "plot", progress):
        name = forecast.mechanism
        curve: list[tuple[float, Forecast | str]]
        if MECHANISMS[name].baseline:  # the same at every n and epsilon
            curve = []
        elif column == 0:
            curve = [(n, plan.at(n, plan.epsilon, name)) for n in rows]
        else:
            curve = [(epsilon, plan.at(plan.n_rows, epsilon, name)) for epsilon in epsilons]
        _draw(plan, forecast, places[:, column], curve)
    for column, (what, asked) in enumerate((("rows", plan.n_rows), ("epsilon", plan.epsilon))):
        for axes in places[:, column]:
            axes.axvline(asked, color=SILVER, linewidth=1)
            axes.set_xscale("log")
        if plan.target_loss is not None:
            places[0, column].axhline(plan.target_loss, color=INK, linestyle=":", label=f"target {plan.target_loss:g}")
        places[1, column].set_xlabel(what)
    places[0, 0].set_yscale("log")
    places[0, 0].set_ylabel("loss: share of the captured variance")
    places[1, 0].set_ylabel(f"share of the variance, by {plan.taken.mechanism}")
    places[1, 0].set_ylim(0, 1)
    figure.suptitle(
        f"{plan.n_rows:,} rows, {plan.n_features} features, {plan.wanted_in_words}, epsilon {plan.epsilon:g}, "
        f"delta {plan.delta:g}; assumed spectrum",
    )
    if any(not forecast.as_asked for forecast in plan.forecasts if not MECHANISMS[forecast.mechanism].baseline):
        figure.supxlabel("* not recommended: privacy not proved, or another guarantee than requested", fontsize=8)
    for axes in places[:, 0]:
        axes.legend(fontsize=8)
    return figure


def _around(asked: float, least: float, most: float) -> list[float]:
    low, high = max(least, asked / _SPAN), min(most, asked * _SPAN)
    return [float(f"{value:.3g}") for value in np.geomspace(low, max(high, 2 * low), _POINTS)]


def _draw(plan: "Forecasts", shown: "Forecast", places: Any, curve: "Sequence[tuple[float, Forecast | str]]") -> None:
    """Draw the loss of one mechanism, and for the mechanism of the fit the variance that it reports."""
    losses, reports = places
    if MECHANISMS[shown.mechanism].baseline:
        # A loss of 0 has no place on a logarithmic axis.
        if shown.guarantee.is_private:
            losses.axhline(shown.mean, color=GREY, linestyle="--", label=shown.mechanism)
        return
    where = [value for value, one in curve if not isinstance(one, str)]
    forecasts = [one for _, one in curve if not isinstance(one, str)]
    if not forecasts:
        return
    chosen = shown.mechanism == plan.recommended
    means = [forecast.mean or math.nan for forecast in forecasts]
    (line,) = losses.plot(where, means, marker="o", linewidth=2.5 if chosen else 1.2)
    line.set_label(shown.mechanism + (" (recommended)" if chosen else "") + ("" if shown.as_asked else " *"))
    if shown.low is not None:
        lower, upper = ([getattr(one, side) or math.nan for one in forecasts] for side in ("low", "high"))
        losses.fill_between(where, lower, upper, color=line.get_color(), alpha=0.15, linewidth=0)
    if shown.mechanism != plan.taken.mechanism or shown.total is None:
        return
    total = np.array([math.nan if one.total is None else one.total for one in forecasts])
    half = np.array([one.total_half_width or 0.0 for one in forecasts])
    reports.plot(where, total, marker="o", label="reported for all components")
    reports.fill_between(where, np.maximum(total - half, 0), np.minimum(total + half, 1), alpha=0.15, linewidth=0)
    captured = [math.nan if one.captured is None else one.captured for one in forecasts]
    reports.plot(where, captured, linestyle="--", label="true variance of the rows along them")
    d = plan.n_features
    above = [math.nan if one.above_noise is None else one.above_noise / d for one in forecasts]
    reports.plot(where, above, linestyle=":", label=f"components above the noise, of {d}")
