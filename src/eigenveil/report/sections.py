"""Sections on what was released, each a function from what is shown to markup; None where there is nothing to say."""

from typing import Any

import numpy as np

from ..display import NOT_ABOVE_NOISE, NOT_DETERMINED, around, for_readers, holds_zero, marked, with_error
from ..limits import ANY, CORRELATION, SHARE, SIZE, Limits
from ..releases.score_map import ScoreMap
from . import charts
from .charts import NAMED_FEATURES, Strip, biplot, score_panel, strip_table
from .facts import SHOWN_COMPONENTS, SHOWN_EIGENVALUES, Shown, printable
from .html import Html, card, element, figure, fixed, folded, number, table

BAR_FEATURES = 8
_SHOWN_CELLS = 24


def spectrum(shown: Shown) -> Html | None:
    """Return the variances along the components: drawn against the noise, and as numbers."""
    released, values = shown.released_eigenvalues, shown.variances
    if released is None:
        return None
    count = min(SHOWN_EIGENVALUES, released.size)
    said = f"The first {count} of {len(shown.names)} eigenvalues. " if count < len(shown.names) else ""
    if shown.intervals is not None:
        said += "Dots: the variance of the rows along each component, which is less than the noise makes of it. "
    if shown.above_noise is not None:
        said += f"Above the noise: {int(shown.above_noise.sum()) or 'none'} of {len(shown.above_noise)} components. "
    if shown.edges is not None:
        may = "uncorrelated features with noise" if shown.of_correlation else "noise alone"
        said += f"Dashed: what a released eigenvalue must pass to be more than {may}; {number(shown.edges[0])} first. "
    if shown.needs_root_scale:
        said += "The axis is stretched near zero (square-root scale)."
    columns, rows = _spectrum_table(shown, count)
    numbers = table("Variances along the components", columns, rows)
    eigenvalues = [(str(i + 1), number(released[i])) for i in range(count)]
    listed = folded(
        "Eigenvalues as released", table("Eigenvalues as released", ("component", "eigenvalue"), eigenvalues)
    )
    body = [figure(charts.scree(shown), said, listed), numbers if values is not None else None]
    return card("spectrum", "Variance along the components", element("div", body, class_="pair drawn"))


def _spectrum_table(shown: Shown, count: int) -> tuple[list[str], list[list[str]]]:
    columns = ["component", "variance along it", "share of variance", "running total"]
    columns += ["off by"] if shown.angles is not None else []
    rows: list[list[str]] = []
    if shown.variances is None or shown.shares is None or shown.running is None:
        return columns, rows
    for i in range(min(count, shown.variances.size)):
        row = [
            marked(str(i + 1), shown.not_above(i), NOT_ABOVE_NOISE),
            _told(float(shown.variances[i]), shown.intervals, i, SIZE),
        ]
        row.append(_told(float(shown.shares[i]), shown.share_intervals, i, percent=True))
        row.append(_told(float(shown.running[i]), shown.running_intervals, i, percent=True))
        rows.append(row if shown.angles is None else [*row, for_readers(shown.angle_in_words(i))])
    return columns, rows


def _told(value: float, intervals: Any, i: int, limits: Limits = ANY, *, percent: bool = False) -> str:
    return for_readers(with_error(value, charts.interval_of(intervals, i), limits, percent=percent))


def plane(shown: Shown, cloud: ScoreMap | None) -> Html | None:
    """Return the biplot of the first two components."""
    if min(shown.components.shape) < 2 or all(_undetermined(shown)):
        return None  # what points anywhere is not drawn
    beneath = cloud if cloud is not None and cloud.grid.axes == (0, 1) else None
    said = "Arrows: the loadings of features on the first two components; those that point the same way go together. "
    if len(shown.names) > NAMED_FEATURES:
        said += f"The {NAMED_FEATURES} longest are named, the others are dots. "
    if shown.loading_errors is not None:
        said += "Around each tip: where 95 % intervals end. "
        said += "A component without them may point anywhere. " if any(_undetermined(shown)) else ""
    else:
        said += "Nothing tells the errors of these loadings. "
    if beneath is not None:
        said += "Tiles: the released cloud of scores, stronger where it is denser, on a scale of its own."
    chart = figure(biplot(shown, beneath), said, class_="wide")
    return card("plane", "Features in the plane of two components", chart)


def _undetermined(shown: Shown) -> list[bool]:
    """Return which of the first two components may point anywhere."""
    return [False] if shown.angle_bounds is None else [bool(bound >= 90) for bound in shown.angle_bounds[:2]]


def scores(cloud: ScoreMap | None) -> Html | None:
    """Return the map of scores that was released beside the components."""
    if cloud is None:
        return None
    counted, reach = cloud.guarantee.unit.counted, cloud.mechanism.level(1)
    said = (
        f"How many {counted} lie in each cell of two components: stronger where there are more, blank where there are "
        f"none, hatched where noise may be all there is. Each count is off by at most {number(reach, 2)} in 95 of 100 "
        f"maps, and no empty cell passes {number(cloud.noise_level, 2)}. What lies beyond the frame counts in the "
        "cells at its border."
    )
    panels = [
        element("figure", element("h3", printable(name)) if name else None, score_panel(cloud, group))
        for group, name in enumerate(cloud.groups)
    ]
    ends, rows = cloud.edges, []
    counts = np.where(cloud.may_be_empty, 0.0, cloud.counts)
    for place in np.argsort(-counts, axis=None, kind="stable")[:_SHOWN_CELLS]:
        group, i, j = (int(at) for at in np.unravel_index(place, counts.shape))
        if counts[group, i, j] <= 0:
            break
        name = printable(cloud.groups[group])
        place_of = [
            f"{number(float(e[p]), 3)} to {number(float(e[p + 1]), 3)}" for e, p in zip(ends, (i, j), strict=True)
        ]
        value = float(cloud.noisy_counts[group, i, j])
        told = for_readers(with_error(value, (max(0.0, value - reach), value + reach), SIZE))
        rows.append((f"{name}: {place_of[0]}" if name else place_of[0], place_of[1], told))
    axes = [f"component {axis + 1}" for axis in cloud.grid.axes]
    listed = (
        table("The fullest cells", (*axes, counted), rows) if rows else element("p", "No cell rises above the noise.")
    )
    text = [element("p", said, class_="soft"), folded(f"The {len(rows)} fullest cells, as they left", listed)]
    if len(panels) > 1:
        return card("scores", "The cloud of scores", element("div", panels, class_="many"), text)
    return card("scores", "The cloud of scores", element("div", panels, element("div", text), class_="pair drawn"))


def correlations(shown: Shown) -> Html | None:
    """Return the correlations of the leading features, where the matrix is what was asked for."""
    if shown.correlations is None:
        return None
    features, ends = charts.ordered_features(shown), shown.correlation_intervals
    said = "Correlations in the released matrix; columns are numbered like rows, and what is alike stands together."
    if ends is not None:
        said += " They are shrunk to remove noise, and hatched where they may be 0."
    if len(features) < len(shown.names):
        said += f" Shown are {len(features)} of {len(shown.names)} features; the release has all of them."
    rows = []
    for line, j in enumerate(features):
        for i in features[:line]:
            value, interval = float(shown.correlations[j, i]), None if ends is None else ends[j, i]
            told = fixed(value) if interval is None else for_readers(with_error(value, interval, CORRELATION))
            rows.append((shown.names[j], shown.names[i], marked(told, interval is not None and holds_zero(interval))))
    numbers = folded(
        "The numbers as a table", table("Correlations as numbers", ("feature", "with", "correlation"), rows)
    )
    chart = figure(charts.correlations(shown), said, numbers if rows else None, "wide")
    return card("matrix", "Correlations", chart)


def means(shown: Shown) -> Html | None:
    """Return the mean of every leading feature, and its standard deviation where the matrix was asked for."""
    if shown.means is None:
        return None
    features = shown.leading_features()
    columns, rows = ["feature", "mean"], []
    columns += ["standard deviation"] if shown.spreads is not None else []
    for j in features:
        row = [shown.names[j], _told(float(shown.means[j]), shown.mean_intervals, j)]
        row += [] if shown.spreads is None else [_told(float(shown.spreads[j]), shown.spread_intervals, j, SIZE)]
        rows.append(row)
    said = "In the units of the features."
    if len(features) < len(shown.names):
        said += f" Shown are {len(features)} of {len(shown.names)} features; the release has all of them."
    return card(
        "means",
        "The mean",
        element("p", said, class_="soft"),
        table("Means as numbers", columns, rows, class_="narrow"),
    )


def regression(shown: Shown) -> Html | None:
    """Return the coefficients of a regression, where one was asked for."""
    fit = shown.regression
    if fit is None:
        return None
    said = (
        f"Prediction of {shown.names[fit.target]} from {len(fit.features)} features, in their own units: intercept "
        f"plus coefficients times features. R² = {with_error(fit.r2, tuple(fit.r2_interval), SHARE)}, in the matrix "
        f"shrunk to remove noise. Regularization alpha = {number(fit.alpha)}, on the scale of one row. Intervals of "
        "coefficients are for least squares, which a ridge draws to 0; they are widened to hold what is shown."
    )
    if len(shown.predictors) < len(fit.features):
        said += f" Shown are the {len(shown.predictors)} that move the prediction most; the release has all of them."
    rows = []
    for j in shown.predictors:
        ends, spread = fit.coef_interval[j], 1.0 if shown.spreads is None else float(shown.spreads[fit.features[j]])
        told = marked(for_readers(with_error(float(fit.coef[j]), ends)), holds_zero(ends))
        low, high = (float(end) * spread if spread else 0.0 for end in ends)
        rows.append(Strip(shown.names[fit.features[j]], told, float(fit.coef[j]) * spread, (low, high)))
    if shown.spreads is not None:
        said += " Bars: what one standard deviation of the feature adds to the prediction."
    intercept = for_readers(with_error(fit.intercept, around(fit.intercept, fit.intercept_error)))
    return card(
        "regression",
        "Regression",
        None if fit.determined else element("p", NOT_DETERMINED),
        strip_table("Coefficients of the regression", ("feature", "coefficient", shown.interval_name), rows),
        element("p", f"Intercept: {intercept}."),
        element("p", said, class_="soft"),
    )


def loadings(shown: Shown) -> Html | None:
    """Return the largest loadings of each component with their intervals, and a table of all that are shown."""
    k, d = shown.components.shape
    if k == 0:
        return None
    count, features = min(k, SHOWN_COMPONENTS), shown.leading_features()
    said = "Loadings say how much each feature counts in a component; blue is positive, orange is negative. "
    if shown.loading_errors is not None:
        said += "Those that may be 0 are grey. "
    if count < k:
        said += f"Shown are the first {count} of {k} components; the release has all of them. "
    said += "The sign of a whole component has no meaning."
    columns = ["feature", *(f"component {i + 1}" for i in range(count))]
    rows = [(shown.names[j], *(loading_text(shown, i, j) for i in range(count))) for j in features]
    summary = (
        f"Loadings of the {len(features)} of {d} features with the largest" if len(features) < d else "All loadings"
    )
    return card(
        "loadings",
        "Sparse loadings" if shown.sparse else "Loadings",
        element("p", said, class_="soft"),
        element("div", [_component(shown, i) for i in range(count)], class_="many"),
        folded(f"{summary}, in one table", table("Loadings as numbers", columns, rows)),
    )


def _component(shown: Shown, i: int) -> Html:
    direction = shown.components[i]
    largest = np.argsort(-np.abs(direction), kind="stable")[:BAR_FEATURES]
    if shown.sparse:
        largest = largest[direction[largest] != 0]
    rows = [
        Strip(shown.names[j], loading_text(shown, i, int(j)), float(direction[j]), shown.loading_interval(i, int(j)))
        for j in largest
    ]
    drawn = shown.interval_name if any(row.ends for row in rows) else "size"
    title = f"Largest loadings of component {i + 1}"
    listed = strip_table(title, ("feature", "loading", drawn), rows, shown.not_above(i))
    return element("div", element("h3", _component_title(shown, i)), listed)


def loading_text(shown: Shown, component: int, feature: int) -> str:
    """Return a loading with its error in words."""
    value, ends = float(shown.components[component, feature]), shown.loading_interval(component, feature)
    return fixed(value) if ends is None else for_readers(with_error(value, ends, CORRELATION))


def notes(shown: Shown) -> Html | None:
    """Return what a reader should know about the numbers above."""
    lines = list(shown.notes)
    if any(known is not None for known in (shown.intervals, shown.correlation_intervals, shown.regression)):
        lines.insert(0, shown.legend)
    if shown.angles is not None:
        lines.append(
            "A component is off by the angle between the released direction and the true one of the same rank; it is "
            "not determined where the noise may have turned it into whatever direction."
        )
    if shown.above_noise is not None:
        beside = ", and beside uncorrelated features," if shown.of_correlation else ""
        lines.append(
            f"A component is above the noise if what is left beside the components before it{beside} is more than "
            "noise reaches; too many are said to be so at most once in 20 releases."
        )
    if not lines:
        return None
    return card("notes", "Reading these numbers", element("ul", [element("li", line) for line in lines]))


def _component_title(shown: Shown, i: int) -> str:
    title = f"Component {i + 1}"
    if shown.shares is not None:
        title += f": {_told(float(shown.shares[i]), shown.share_intervals, i, percent=True)} of variance"
    if shown.sparse:
        title += f", {int((shown.components[i] != 0).sum())} of {len(shown.names)} features"
    if shown.not_above(i):
        title += f", {NOT_ABOVE_NOISE}"
    angle = for_readers(shown.angle_in_words(i))
    return f"{title}, {'direction ' if angle == 'not determined' else 'off by '}{angle}" if angle else title
