"""Sections on what was released, each a function from what is shown to markup; None where there is nothing to say."""

from typing import Any

from ..with_error import LEGEND, MAY_BE_NOISE, NOT_DETERMINED, around, for_readers, holds_zero, marked, with_error
from . import charts
from .cards import card, figure, table
from .markup import Html, element, fixed, number
from .shown import SHOWN_COMPONENTS, SHOWN_EIGENVALUES, Shown


def spectrum(shown: Shown) -> Html | None:
    """Return the scree plot and the shares of variance."""
    released, values = shown.released_eigenvalues, shown.variances
    if released is None:
        return None
    count = min(SHOWN_EIGENVALUES, released.size)
    said = f"The first {count} of {len(shown.names)} eigenvalues. " if count < len(shown.names) else ""
    if shown.intervals is not None:
        said += "Dots: the variance of the rows along each component, which is less than the noise makes of it. "
    if shown.may_be_noise is not None:
        lost = int(shown.may_be_noise.sum())
        said += f"May be noise: {lost or 'none'} of {len(shown.may_be_noise)} components. "
        said += "The noise swamps the signal. " if lost == len(shown.may_be_noise) else ""
    if shown.level is not None:
        may = "be that of uncorrelated features" if shown.of_correlation else "be noise alone"
        said += f"Below the noise level {number(shown.level)} a released eigenvalue may {may}. "
    if shown.needs_root_scale:
        said += "The axis is stretched near zero (square-root scale)."
    rows = []
    for i in range(count):
        row = [marked(str(i + 1), values is not None and i < values.size and shown.lost(i))]
        row.append("" if values is None or i >= values.size else _told(float(values[i]), shown.intervals, i))
        rows.append((*row, number(released[i]), *_angle(shown, i)))
    columns = (
        "component",
        "variance along it",
        "eigenvalue as released",
        *(["off by"] if shown.angles is not None else []),
    )
    scree = figure(charts.scree(shown), said, columns, rows)
    pair = [element("div", element("h2", "Eigenvalues"), scree, class_="card")]
    if shown.shares is not None and shown.running is not None:
        pair.append(element("div", element("h2", "Explained variance"), _variance(shown), class_="card"))
    return element("section", pair, class_="pair", aria_label="Eigenvalues and explained variance")


def _variance(shown: Shown) -> Html:
    assert shown.shares is not None
    assert shown.running is not None
    count = min(SHOWN_EIGENVALUES, shown.shares.size)
    rows = [
        (
            marked(str(i + 1), shown.lost(i)),
            _told(float(shown.shares[i]), shown.share_intervals, i, percent=True),
            _told(float(shown.running[i]), shown.running_intervals, i, percent=True),
        )
        for i in range(count)
    ]
    what = "of the sparse components in the total variance" if shown.sparse else "of the total variance"
    caption = f"Bars: share {what}. Line: running total."
    return figure(charts.shares(shown), caption, ("component", "share", "running total"), rows)


def _told(value: float, intervals: Any, i: int, *, percent: bool = False) -> str:
    return for_readers(with_error(value, charts.interval_of(intervals, i), percent=percent))


def _angle(shown: Shown, i: int) -> list[str]:
    if shown.angles is None or shown.angle_bounds is None:
        return []
    if i >= shown.angles.size:
        return [""]
    lost = shown.angle_bounds[i] >= 90
    return ["any angle" if lost else f"{shown.angles[i]:.1f}° (< {shown.angle_bounds[i]:.1f}°)"]


def correlations(shown: Shown) -> Html | None:
    """Return the correlations of the leading features, where the matrix is what was asked for."""
    if shown.correlations is None:
        return None
    features, ends = shown.leading_features(charts.CORRELATED_FEATURES), shown.correlation_intervals
    said = "Correlations in the released matrix; columns are numbered like the rows."
    if ends is not None:
        said += " They are shrunk to remove noise, and without colour where they may be 0."
    if len(features) < len(shown.names):
        said += f" Shown are {len(features)} of {len(shown.names)} features; the release has all of them."
    columns = ["feature", *(shown.names[j] for j in features)]

    def cell(j: int, i: int) -> str:
        assert shown.correlations is not None
        value = float(shown.correlations[j, i])
        if ends is None or i == j:
            return fixed(value)
        return marked(for_readers(with_error(value, ends[j, i])), holds_zero(ends[j, i]))

    rows = [(shown.names[j], *(cell(j, i) for i in features)) for j in features]
    return card("matrix", "Correlations", figure(charts.correlations(shown), said, columns, rows, "wide"))


def regression(shown: Shown) -> Html | None:
    """Return the coefficients of a regression, where one was asked for."""
    fit = shown.regression
    if fit is None:
        return None
    said = (
        f"Prediction of {shown.names[fit.target]} from {len(fit.features)} features, in their own units: intercept "
        f"plus coefficients times features. R² = {with_error(fit.r2, tuple(fit.r2_interval))}, in the matrix shrunk to "
        f"remove noise. Regularization alpha = {number(fit.alpha)}, on the scale of one row. Intervals of "
        "coefficients are for least squares, which a ridge draws to 0."
    )
    if len(shown.predictors) < len(fit.features):
        said += f" Shown are the {len(shown.predictors)} that move the prediction most; the release has all of them."
    rows = [("intercept", _coefficient(fit.intercept, around(fit.intercept, fit.intercept_error)))]
    for j in shown.predictors:
        ends = tuple(fit.coef_interval[j])
        rows.append((shown.names[fit.features[j]], marked(_coefficient(float(fit.coef[j]), ends), holds_zero(ends))))
    listed = table("Coefficients of the regression", ("feature", "coefficient"), rows)
    warned = None if fit.determined else element("p", NOT_DETERMINED)
    return card("regression", "Regression", element("p", said), warned, listed)


def _coefficient(value: float, ends: tuple[float, float]) -> str:
    return for_readers(with_error(value, ends))


def loadings(shown: Shown) -> Html | None:
    """Return the heat map of the loadings, and bars for each component."""
    k, d = shown.components.shape
    if k == 0:
        return None
    count = min(k, SHOWN_COMPONENTS)
    features = shown.leading_features()
    said = "Loadings say how much each feature counts in a component; blue is positive, orange is negative. "
    if len(features) < d:
        said += f"Shown are the {len(features)} of {d} features with the largest loadings. "
    if count < k:
        said += f"Shown are the first {count} of {k} components; the release has all of them. "
    if shown.loading_errors is not None:
        said += "Those that may be 0 are without colour. "
    said += "The sign of a whole component has no meaning."
    columns = ["feature", *(f"component {i + 1}" for i in range(count))]
    rows = [(shown.names[j], *(charts.loading_text(shown, i, j) for i in range(count))) for j in features]
    chart = figure(charts.heat_map(shown), said, columns, rows, "wide")
    each = [element("figure", element("h3", _component_title(shown, i)), charts.bars(shown, i)) for i in range(count)]
    return element(
        "section",
        element("div", element("h2", "Loadings"), chart, class_="card"),
        element(
            "div", element("h2", "Largest loadings, by component"), element("div", each, class_="many"), class_="card"
        ),
        aria_label="Loadings",
    )


def notes(shown: Shown) -> Html | None:
    """Return what a reader should know about the numbers above."""
    lines = list(shown.notes)
    if any(known is not None for known in (shown.intervals, shown.correlation_intervals, shown.regression)):
        lines.insert(0, LEGEND)
    if shown.angles is not None:
        lines.append(
            "A component is off by the angle between the released direction and the true one of the same rank; any "
            "angle where the noise may have turned it into whatever direction."
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
    if shown.lost(i):
        return f"{title}, {MAY_BE_NOISE}"
    return title + "".join(f", off by {angle}" for angle in _angle(shown, i))
