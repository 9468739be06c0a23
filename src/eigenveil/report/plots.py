"""Figures of a release and of a plan by matplotlib (the extra ``report``), and one style for all figures.

The colours are those of the report (``report/page.css``, light), on white. Curves that differ by colour alone are
distinguishable with any kind of colour blindness; ``tests/report/test_figure_style.py`` has the distances.
"""

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError, InvalidParameterError, integer_between
from ..mechanisms.table import MECHANISMS
from ..notebook import tracked
from ..numerics import FloatArray
from ..releases.record import Release
from ..releases.score_map import ScoreMap
from ..uncertainty import CORRELATION, NOT_ABOVE_NOISE, half_width
from .estimates import SHOWN_COMPONENTS, SHOWN_EIGENVALUES, SHOWN_FEATURES, Estimates, read_estimates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..estimators.forecast import Forecast, Forecasts

BLUE, BROWN, GREEN, VIOLET, GOLD, PINK = "#1f5f8b", "#a65c2e", "#5cba86", "#7a3cc4", "#c9ac1d", "#dd77d8"
INK, GREY, SILVER, MIST = "#1d2430", "#545e6d", "#8a93a0", "#e9e6df"
COLOURS = (BLUE, BROWN, GREEN, VIOLET, GOLD, PINK, SILVER, INK)  # in this order where a figure has several curves

STYLE: Any = {  # for ``matplotlib.rc_context`` and ``pyplot.style.use``
    "figure.figsize": (6.4, 3.8),
    "figure.dpi": 110,
    "figure.facecolor": "white",
    "savefig.dpi": "figure",
    "figure.constrained_layout.use": True,
    "figure.titlesize": 11,
    "figure.labelsize": 10,
    "font.size": 10,
    "text.color": INK,
    "axes.prop_cycle": f"cycler(color={list(COLOURS)})",
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": MIST,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.markersize": 4,
    "lines.linewidth": 1.5,
    "hatch.color": SILVER,
    "hatch.linewidth": 0.6,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in this style within a block, or, as ``@styled()``, within a function; matplotlib is loaded then."""
    try:
        import matplotlib.figure
    except ImportError:
        raise InvalidParameterError(
            "Figures need matplotlib; install it with pip install 'eigenveil[report]'."
        ) from None
    with matplotlib.rc_context(STYLE):
        yield


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of so many inches, outside of pyplot's list, that a notebook can show."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    return NotebookFigure(figsize=(width, height), layout="constrained")


# Matrices up to this size have their numbers in a heat map.
_NUMBERED = 12
# A plan is drawn at so many values of n and epsilon, from 1/30 of the planned value to 30 times that value.
_POINTS, _SPAN = 7, 30.0


@styled()
def scree(release: Release, *, n_components: int | None = None) -> "Figure":
    """Plot the variances along the components with 95 % intervals, the released eigenvalues and the noise level.

    Parameters
    ----------
    release : Release
        With a covariance.
    n_components : int, optional
        How many eigenvalues, at most 15; as many as possible by default.
    """
    estimates = read_estimates(release)
    if estimates.released_eigenvalues is None or estimates.variances is None:
        raise InvalidDataError("The release has directions only, so there are no eigenvalues to plot.")
    count = _count(estimates.released_eigenvalues.size, n_components)
    figure, axes = _figure()
    ranks, values = np.arange(1, count + 1), estimates.variances.values[:count]
    if estimates.variances.intervals is not None:
        low, high = estimates.variances.intervals[:count].T
        axes.vlines(ranks[: values.size], low, high, color=BLUE, linewidth=2, label=estimates.interval_name)
    axes.plot(ranks[: values.size], values, "o", color=BLUE, label="variance")
    _mark(axes, ranks, values, estimates)
    released = np.maximum(estimates.released_eigenvalues[:count], 0.0)
    axes.plot(ranks + 0.2, released, "o", mfc="white", mec=GREY, markersize=4, label="released eigenvalue")
    if estimates.edges is not None:
        ends, heights = np.arange(count + 1) + 0.5, np.append(estimates.edges[:count], estimates.edges[count - 1])
        axes.fill_between(ends, heights, step="post", color=BROWN, alpha=0.08, linewidth=0)
        axes.step(ends, heights, where="post", color=BROWN, linestyle="--", label="noise level")
    if estimates.needs_root_scale:
        axes.set_yscale("function", functions=(lambda y: np.sqrt(np.maximum(y, 0.0)), np.square))
    axes.set(xlabel="component", ylabel="variance", ylim=(0, 1.08 * estimates.top(count) or 1.0))
    axes.legend()
    return figure


@styled()
def explained_variance(release: Release, *, n_components: int | None = None) -> "Figure":
    """Plot the explained variance of every component and the cumulative sum, with 95 % intervals."""
    estimates = read_estimates(release)
    total, running = estimates.shares, estimates.running
    if total is None or running is None:
        raise InvalidDataError("The release has no variances of components, so there are no shares to plot.")
    count = _count(total.values.size, n_components)
    figure, axes = _figure()
    ranks, shares = np.arange(1, count + 1), total.values[:count]
    axes.bar(ranks, shares, color=BLUE, label="share")
    if total.intervals is not None:
        low, high = total.intervals[:count].T
        axes.errorbar(ranks, shares, [shares - low, high - shares], fmt="none", ecolor=GREY, capsize=3)
    if running.intervals is not None:
        axes.fill_between(ranks, *running.intervals[:count].T, color=BROWN, alpha=0.18, linewidth=0)
    _mark(axes, ranks, shares, estimates)
    axes.plot(ranks, running.values[:count], "o-", color=BROWN, markersize=4, label="cumulative")
    axes.set(xlabel="component", ylabel="explained variance (share)", ylim=(0, 1.02))
    axes.legend(title=None if total.intervals is None else f"with {estimates.interval_name}")
    return figure


@styled()
def loadings(release: Release) -> "Figure":
    """Plot the loadings of the leading features on the first components as a heat map; hatched where they may be 0."""
    estimates = read_estimates(release)
    features = estimates.leading_features()
    weights = estimates.components[:SHOWN_COMPONENTS][:, features]
    figure, axes = _figure(height=max(2.6, 1.5 + 0.25 * len(features)))
    reach = float(np.abs(weights).max()) or 1.0
    faded = [[estimates.loading_may_be_zero(i, j) for j in features] for i in range(len(weights))]
    image = _heat_map(axes, weights.T, np.array(faded).T, reach, [estimates.names[j] for j in features])
    axes.set_xticks(range(len(weights)), [str(i + 1) for i in range(len(weights))])
    axes.set(xlabel="component", ylabel="feature")
    figure.colorbar(image, label="loading")
    return figure


@styled()
def loading_errors(release: Release, component: int = 0) -> "Figure":
    """Plot the largest loadings of one component with their 95 % intervals.

    Parameters
    ----------
    release : Release
        By a mechanism that adds noise: errors of sampled directions and of sparse ones are not known.
    component : int
        Its position, from 0.
    """
    estimates = read_estimates(release)
    if estimates.loading_errors is None:
        raise InvalidDataError("The errors of the loadings of this release are not known; use loadings.")
    i = integer_between("component", component, 0, len(estimates.components) - 1)
    weights = estimates.components[i]
    largest = np.argsort(-np.abs(weights), kind="stable")[:SHOWN_FEATURES][::-1]
    figure, axes = _figure(height=1.5 + 0.25 * len(largest))
    reach = half_width(estimates.loading_errors[i, largest])
    low, high = (np.clip(weights[largest] + side * reach, *CORRELATION) for side in (-1, 1))
    sure = estimates.angle_bounds is not None and estimates.angle_bounds[i] < 90
    axes.errorbar(
        weights[largest],
        range(len(largest)),
        xerr=(weights[largest] - low, high - weights[largest]),
        fmt="o",
        color=BLUE if sure else GREY,
        capsize=3,
    )
    axes.axvline(0, color=GREY, linewidth=1)
    axes.set_yticks(range(len(largest)), [estimates.names[j] for j in largest], parse_math=False)
    text = f"loading on component {i + 1}, with {estimates.interval_name}" + (
        "" if sure else " (direction not determined)"
    )
    axes.set(xlabel=text, ylabel="feature")
    return figure


@styled()
def correlations(release: Release, *, fdr: float | None = None) -> "Figure":
    """Plot the correlations of the leading features as a heat map; hatched where they may be 0.

    Parameters
    ----------
    release : Release
        Made for the matrix.
    fdr : float, optional
        Hatch the correlations that `release.intervals.correlation_tests(fdr)` does not find, so that at most this share
        of the others is expected to be 0. By default each correlation is judged by its own 95 % interval.
    """
    estimates = read_estimates(release)
    if estimates.correlations is None:
        raise InvalidDataError("This release was made for components; use loadings.")
    features = estimates.leading_features()
    figure, axes = _figure(height=max(4.2, 2.4 + 0.25 * len(features)))
    chosen = np.ix_(features, features)
    faded = np.zeros((len(features), len(features)), bool)
    tests = None if fdr is None else release.intervals.correlation_tests(fdr)
    if tests is not None:
        faded = ~tests.rejected[chosen] & ~np.eye(len(features), dtype=bool)
    elif estimates.correlation_intervals is not None:
        low, high = np.moveaxis(estimates.correlation_intervals[chosen], -1, 0)
        faded = (low <= 0) & (high >= 0)
    names = [estimates.names[j] for j in features]
    image = _heat_map(axes, estimates.correlations[chosen], faded, 1.0, names)
    axes.set_xticks(range(len(features)), names, rotation=90, parse_math=False)
    axes.set(xlabel="feature", ylabel="feature")
    figure.colorbar(image, label="correlation")
    return figure


@styled()
def score_map(cloud: ScoreMap) -> "Figure":
    """Plot a score map with the standard deviation of its noise, one panel per group; empty cells are white.

    Parameters
    ----------
    cloud : ScoreMap
        As returned by `eigenveil.score_map`.
    """
    counts = np.where(cloud.counts > 0, cloud.counts, np.nan)
    names, (x, y) = cloud.groups, cloud.edges
    figure, axes = _panels(4.2, len(names))
    top = float(np.nanmax(counts)) if np.isfinite(counts).any() else 1.0
    image: Any = None
    for panel, name, cells in zip(axes, names, counts, strict=True):
        image = panel.pcolormesh(x, y, cells.T, cmap="Blues", vmin=0, vmax=top)
        panel.set(xlabel=f"score on component {cloud.grid.axes[0] + 1}", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        panel.set_title(name, parse_math=False)
        panel.grid(False)  # an empty cell is white
    axes[0].set(ylabel=f"score on component {cloud.grid.axes[1] + 1}")
    counted = cloud.guarantee.unit.counted
    figure.colorbar(image, ax=axes, label=f"{counted} in a cell; noise has standard deviation {cloud.noise_sd:.2g}")
    return figure


def _heat_map(axes: "Axes", values: FloatArray, faded: NDArray[np.bool_], reach: float, names: list[str]) -> Any:
    """Draw a matrix as colours; entries that may be 0 are hatched, and signs are written for a grey print."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Patch, Rectangle

    colours = LinearSegmentedColormap.from_list("signed", ["#8f4200", "#f0efec", "#1b5a94"])
    axes.grid(False)
    image = axes.imshow(np.ma.array(values, mask=faded), cmap=colours, vmin=-reach, vmax=reach, aspect="auto")
    for i, j in np.transpose(np.nonzero(faded)):
        axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor="white", edgecolor=SILVER, hatch="////", lw=0))
    if faded.any():
        hatched = Patch(facecolor="white", edgecolor=SILVER, hatch="////", label="may be 0")
        axes.legend(handles=[hatched], loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
    few = max(values.shape) <= _NUMBERED
    for i, j in np.transpose(np.nonzero(~faded)):
        label = f"{values[i, j]:+.2f}" if few else "\N{MINUS SIGN}" if values[i, j] < 0 else ""
        dark = abs(values[i, j]) > 0.5 * reach
        axes.text(j, i, label, ha="center", va="center", size=8, color="white" if dark else INK)
    # Names are text and never mathematics, whatever dollar signs they hold.
    axes.set_yticks(range(len(names)), names, parse_math=False)
    return image


def _mark(axes: "Axes", ranks: NDArray[np.int64], heights: FloatArray, estimates: Estimates) -> None:
    """Cross out what is not above the noise."""
    lost = [i for i in range(heights.size) if estimates.not_above(i)]
    if lost:
        axes.plot(ranks[lost], heights[lost], "x", color=BROWN, markersize=9, label=NOT_ABOVE_NOISE)


def _count(known: int, n_components: int | None) -> int:
    most = min(SHOWN_EIGENVALUES, known)
    return most if n_components is None else integer_between("n_components", n_components, 1, most)


def _figure(height: float = 3.8) -> tuple["Figure", "Axes"]:
    """Return a figure of its own with one pair of axes, for whole numbers along the first."""
    from matplotlib.ticker import MaxNLocator

    figure, (axes,) = _panels(height, 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, axes


def _panels(height: float, count: int) -> tuple["Figure", list["Axes"]]:
    """Return a figure of its own with panels side by side, of one height."""
    figure = new_figure(max(6.4, 3.4 * count), height)
    return figure, list(figure.subplots(1, count, sharey=True, squeeze=False)[0])


# Plans.


@styled()
def plan_figure(plan: "Forecasts", *, progress: bool = False) -> "Figure":
    """Return the mean loss of every mechanism, and the variance that the fit will report, against n and epsilon.

    Bands of the loss contain nine of ten fits; bands of the variance are its confidence intervals. Needs matplotlib:
    ``pip install 'eigenveil[report]'``. It simulates at other n and epsilon, so it takes many times as long as the
    plan; `progress` shows a bar on a terminal. `Figure.savefig` writes it to a file.
    """

    def around(asked: float, least: float, most: float) -> list[float]:
        low, high = max(least, asked / _SPAN), min(most, asked * _SPAN)
        return [float(f"{value:.3g}") for value in np.geomspace(low, max(high, 2 * low), _POINTS)]

    rows = sorted({round(n) for n in around(plan.n_rows, 2.0, float(plan.MOST_ROWS))} | {plan.n_rows})
    epsilons = sorted({*around(plan.epsilon, *plan.EPSILON_RANGE), plan.epsilon})
    figure = new_figure(9.0, 7.0)
    places = figure.subplots(2, 2, sharex="col", sharey="row")
    drawn = [(forecast, column) for forecast in plan.forecasts for column in range(2)]
    for forecast, column in tracked(drawn, "plot", progress):
        name, (losses, reports) = forecast.mechanism, places[:, column]
        if MECHANISMS[name].baseline:  # the same at every n and epsilon; a loss of 0 has no place on a logarithmic axis
            if forecast.guarantee.is_private:
                losses.axhline(forecast.mean, color=GREY, linestyle="--", label=name)
            continue
        if column == 0:
            curve = [(float(n), plan.at(n, plan.epsilon, name)) for n in rows]
        else:
            curve = [(epsilon, plan.at(plan.n_rows, epsilon, name)) for epsilon in epsilons]
        known = [(value, one) for value, one in curve if not isinstance(one, str)]
        if known:
            _draw_loss(losses, plan, forecast, known)
            if name == plan.taken.mechanism and forecast.total is not None:
                _draw_reported(reports, plan.n_features, known)
    for column, (what, asked) in enumerate((("rows", plan.n_rows), ("epsilon", plan.epsilon))):
        for axes in places[:, column]:
            axes.axvline(asked, color=SILVER, linewidth=1)
            axes.set_xscale("log")
        if plan.target_loss is not None:
            places[0, column].axhline(plan.target_loss, color=INK, linestyle=":", label=f"target {plan.target_loss:g}")
        places[1, column].set_xlabel(what)
    places[0, 0].set(yscale="log", ylabel="loss: share of the captured variance")
    places[1, 0].set(ylim=(0, 1), ylabel=f"share of the variance, by {plan.taken.mechanism}")
    figure.suptitle(
        f"{plan.n_rows:,} rows, {plan.n_features} features, {plan.wanted_in_words}, epsilon {plan.epsilon:g}, "
        f"delta {plan.delta:g}; assumed spectrum",
    )
    if any(not forecast.as_asked for forecast in plan.forecasts if not MECHANISMS[forecast.mechanism].baseline):
        figure.supxlabel("* not recommended: privacy not proved, or another guarantee than requested", fontsize=8)
    for axes in places[:, 0]:
        axes.legend(fontsize=8)
    return figure


_Curve: TypeAlias = "Sequence[tuple[float, Forecast]]"


def _draw_loss(axes: Any, plan: "Forecasts", forecast: "Forecast", curve: _Curve) -> None:
    chosen = forecast.mechanism == plan.recommended
    name = forecast.mechanism + (" (recommended)" if chosen else "") + ("" if forecast.as_asked else " *")
    where = [value for value, _ in curve]
    # A loss of 0 has no place on a logarithmic axis.
    means = [one.mean or math.nan for _, one in curve]
    (line,) = axes.plot(where, means, marker="o", linewidth=2.5 if chosen else 1.2, label=name)
    if forecast.low is not None:
        lower, upper = ([getattr(one, side) or math.nan for _, one in curve] for side in ("low", "high"))
        axes.fill_between(where, lower, upper, color=line.get_color(), alpha=0.15, linewidth=0)


def _draw_reported(axes: Any, d: int, curve: _Curve) -> None:
    """Draw the variance that the mechanism of the fit reports, the true one, and the components above the noise."""
    where = [value for value, _ in curve]
    total = np.array([math.nan if one.total is None else one.total for _, one in curve])
    half = np.array([one.total_half_width or 0.0 for _, one in curve])
    captured = [math.nan if one.captured is None else one.captured for _, one in curve]
    above = [math.nan if one.above_noise is None else one.above_noise / d for _, one in curve]
    axes.plot(where, total, marker="o", label="reported for all components")
    axes.fill_between(where, np.maximum(total - half, 0), np.minimum(total + half, 1), alpha=0.15, linewidth=0)
    axes.plot(where, captured, linestyle="--", label="true variance of the rows along them")
    axes.plot(where, above, linestyle=":", label=f"components above the noise, of {d}")
