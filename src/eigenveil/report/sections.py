"""Sections on the released values, each a function from the shown values to markup; None where there are none."""

from collections.abc import Sequence

import numpy as np

from ..notebook import printable
from ..releases.record import Release
from ..releases.regression import Regression
from ..releases.score_map import ScoreMap
from ..uncertainty import (
    CORRELATION,
    NOT_ABOVE_NOISE,
    NOT_DETERMINED,
    SHARE,
    SIZE,
    around,
    for_readers,
    holds_zero,
    marked,
    with_error,
)
from . import charts
from .charts import NAMED_FEATURES, Strip, biplot, score_panel, strip_table
from .estimates import SHOWN_COMPONENTS, SHOWN_EIGENVALUES, SHOWN_LOADINGS, Estimates
from .html import Html, card, element, figure, fixed, folded, number, table

BAR_FEATURES = 8
_ALL_BARS = 12
_SHOWN_CELLS = 24
# Summaries of wider matrices take seconds; `eigenveil summary` prints them.
_SUMMARIZED = 100


def spectrum(estimates: Estimates) -> Html | None:
    """Return the variances of the components: drawn against the noise level, and as numbers."""
    released, variances = estimates.released_eigenvalues, estimates.variances
    shares, running = estimates.shares, estimates.running
    if released is None or variances is None or shares is None or running is None:
        return None
    count = min(SHOWN_EIGENVALUES, released.size)
    said = f"{count} of {len(estimates.names)} eigenvalues shown. " if count < len(estimates.names) else ""
    if estimates.has_intervals:
        said += "Dots: variance of the rows along each component. Circles: released eigenvalues, which include noise. "
    if estimates.above_noise is not None:
        above = int(estimates.above_noise.sum()) or "none"
        said += f"Above the noise: {above} of {len(estimates.above_noise)} components. "
    if estimates.edges is not None:
        may = "uncorrelated features and noise" if estimates.of_correlation else "noise"
        said += f"Dashed: largest eigenvalue that {may} alone would give ({number(estimates.edges[0])} for the first). "
    if estimates.needs_root_scale:
        said += "The axis has a square-root scale."
    columns, rows = ["component", "variance", "explained variance", "cumulative"], []
    columns += ["angle error"] if estimates.angles is not None else []
    for i in range(min(count, len(estimates.components))):
        row = [
            marked(str(i + 1), estimates.not_above(i), NOT_ABOVE_NOISE),
            variances.in_words(i, SIZE),
            shares.in_words(i, percent=True),
            running.in_words(i, percent=True),
        ]
        rows.append(row if estimates.angles is None else [*row, for_readers(estimates.angle_in_words(i))])
    numbers = table("Variances of the components", columns, rows)
    eigenvalues = [(str(i + 1), number(released[i])) for i in range(count)]
    listed = folded("Released eigenvalues", table("Released eigenvalues", ("component", "eigenvalue"), eigenvalues))
    chart = figure(charts.scree(estimates), said, listed)
    return card("spectrum", "Explained variance", element("div", chart, numbers, class_="pair drawn"))


def plane(estimates: Estimates) -> Html | None:
    """Return the biplot of the first two components."""
    undetermined = [False] if estimates.angle_bounds is None else [bound >= 90 for bound in estimates.angle_bounds[:2]]
    if min(estimates.components.shape) < 2 or all(undetermined):
        return None
    said = "Arrows: loadings of the features on the first two components. "
    said += "Features whose arrows point the same way are positively correlated in this plane. "
    if len(estimates.names) > NAMED_FEATURES:
        said += f"{NAMED_FEATURES} of {len(estimates.names)} features are named; the others are dots. "
    if estimates.loading_errors is not None:
        said += "Ellipses: 95 % confidence intervals. "
        said += "A component without them is not determined. " if any(undetermined) else ""
    else:
        said += "The errors of these loadings are not known. "
    return card("plane", "Biplot of the first two components", figure(biplot(estimates), said, class_="wide"))


def scores(cloud: ScoreMap | None) -> Html | None:
    """Return the score map that was released with the components."""
    if cloud is None:
        return None
    counted, reach = cloud.guarantee.unit.counted, cloud.mechanism.level(1)
    said = (
        f"Number of {counted} in each cell of two components: darker where it is larger, hatched where it is not "
        f"distinguishable from noise. The error of a count is at most {number(reach, 2)} with probability 95 %. Counts "
        f"up to {number(cloud.noise_level, 2)} may be noise. Values outside the frame are counted in the border cells."
    )
    panels = [
        element("figure", element("h3", printable(name)) if name else None, score_panel(cloud, group))
        for group, name in enumerate(cloud.groups)
    ]
    (across, up), rows = cloud.edges, []
    counts = np.where(cloud.may_be_empty, 0.0, cloud.counts)
    for place in np.argsort(-counts, axis=None, kind="stable")[: min(_SHOWN_CELLS, int((counts > 0).sum()))]:
        group, i, j = np.unravel_index(place, counts.shape)
        name = f"{printable(cloud.groups[group])}: " if cloud.groups[group] else ""
        value = float(cloud.noisy_counts[group, i, j])
        text = for_readers(with_error(value, (max(0.0, value - reach), value + reach), SIZE))
        cell = [f"{number(float(ends[p]), 3)} to {number(float(ends[p + 1]), 3)}" for ends, p in ((across, i), (up, j))]
        rows.append((name + cell[0], cell[1], text))
    listed = element("p", "No cell is distinguishable from noise.")
    if rows:
        listed = table("The fullest cells", (*(f"component {axis + 1}" for axis in cloud.grid.axes), counted), rows)
    below = [element("p", said, class_="soft"), folded(f"The {len(rows)} fullest cells", listed)]
    if len(panels) > 1:
        return card("scores", "Score map", element("div", panels, class_="many"), below)
    return card("scores", "Score map", element("div", panels, element("div", below), class_="pair drawn"))


def correlations(estimates: Estimates) -> Html | None:
    """Return the correlations of the leading features, where the matrix was requested."""
    if estimates.correlations is None:
        return None
    features, ends = charts.ordered_features(estimates), estimates.correlation_intervals
    said = "Correlations in the released matrix. Columns are numbered like rows, and correlated features are adjacent."
    if ends is not None:
        said += " They are shrunk to reduce noise, and hatched where they are not significantly different from 0."
    if len(features) < len(estimates.names):
        said += f" {len(features)} of {len(estimates.names)} features shown; the release file has all."
    rows = []
    for line, j in enumerate(features):
        for i in features[:line]:
            value, interval = float(estimates.correlations[j, i]), None if ends is None else ends[j, i]
            text = fixed(value) if interval is None else for_readers(with_error(value, interval, CORRELATION))
            rows.append(
                (estimates.names[j], estimates.names[i], marked(text, interval is not None and holds_zero(interval)))
            )
    numbers = folded(
        "The numbers as a table", table("Correlations as numbers", ("feature", "with", "correlation"), rows)
    )
    chart = figure(charts.correlations(estimates), said, numbers if rows else None, "wide")
    return card("matrix", "Correlations", chart)


def means(estimates: Estimates) -> Html | None:
    """Return the mean of every leading feature, and its standard deviation where the matrix was requested."""
    if estimates.means is None:
        return None
    features = estimates.leading_features()
    columns, rows = ["feature", "mean"], []
    columns += ["standard deviation"] if estimates.spreads is not None else []
    for j in features:
        row = [estimates.names[j], estimates.means.in_words(j)]
        row += [] if estimates.spreads is None else [estimates.spreads.in_words(j, SIZE)]
        rows.append(row)
    said = "In the units of the features."
    if len(features) < len(estimates.names):
        said += f" {len(features)} of {len(estimates.names)} features shown; the release file has all."
    return card(
        "means",
        "Means" if estimates.spreads is None else "Means and standard deviations",
        element("p", said, class_="soft"),
        table("Means as numbers", columns, rows, class_="narrow"),
    )


def regression(estimates: Estimates) -> Html | None:
    """Return the coefficients of the regressions that were requested, and of the parts of them that are resolved."""
    parts: list[Html] = []
    for fit in estimates.regressions:
        predictors = estimates.predictors(fit)
        parts += [element("h3", estimates.names[fit.target])] if estimates.regressions[1:] else []
        parts += [] if fit.determined else [element("p", NOT_DETERMINED)]
        parts += _coefficients(estimates, fit, predictors)
        if fit.reduced is not None:
            places = {feature: place for place, feature in enumerate(fit.reduced.features)}
            kept = [places[fit.features[j]] for j in predictors if fit.features[j] in places]
            parts += [element("h3", "Features that can be resolved"), *_coefficients(estimates, fit.reduced, kept)]
    return card("regression", "Regression", *parts) if parts else None


def _coefficients(estimates: Estimates, fit: Regression, predictors: Sequence[int]) -> list[Html]:
    said = (
        f"Prediction of {estimates.names[fit.target]} from {len(fit.features)} features in their own units. "
        f"R² = {with_error(fit.r2, tuple(fit.r2_interval), SHARE)}, computed from the "
        f"{'shrunk' if fit.alpha else 'released'} matrix. Regularization alpha = {number(fit.alpha)}, on the scale of "
        "one row."
    )
    if len(predictors) < len(fit.features):
        said += f" {len(predictors)} of {len(fit.features)} coefficients shown: those with the largest effect."
    rows = []
    for j in predictors:
        ends, feature, value = fit.coef_interval[j], fit.features[j], float(fit.coef[j])
        spread = 1.0 if estimates.spreads is None else float(estimates.spreads.values[feature])
        text = marked(for_readers(with_error(value, ends)), holds_zero(ends))
        low, high = (float(end) * spread if spread else 0.0 for end in ends)
        rows.append(Strip(estimates.names[feature], text, value * spread, (low, high)))
    if estimates.spreads is not None:
        said += " Bars: effect of one standard deviation of the feature on the prediction."
    intercept = for_readers(with_error(fit.intercept, around(fit.intercept, fit.intercept_error)))
    return [
        strip_table("Coefficients of the regression", ("feature", "coefficient", estimates.interval_name), rows),
        element("p", f"Intercept: {intercept}."),
        element("p", " ".join([said, *fit.notes]), class_="soft"),
    ]


def summary(release: Release) -> Html | None:
    """Return the tables of the summary, with sampling errors and simultaneous intervals; not of wide matrices."""
    if release.n_features > _SUMMARIZED:
        return None
    found = release.summary()
    parts = []
    for one in found.tables:
        columns, lines = one.lines(SHOWN_LOADINGS)
        estimates = [[for_readers(cell) for cell in line] for line in lines]
        more = f" ({len(estimates)} of {len(one.rows)} rows)" if len(estimates) < len(one.rows) else ""
        parts += [table(f"{one.title}{more}", [column.heading for column in columns], estimates)]
    notes = element("ul", [element("li", note) for note in found.notes])
    said = element("p", "Standard errors and intervals for the privacy noise and for sampling.", class_="soft")
    return card("summary", "Summary tables", said, folded("All tables", element("div", parts, notes)))


def loadings(estimates: Estimates) -> Html:
    """Return the largest loadings of each component with their intervals, and a table of all loadings."""
    k, d = estimates.components.shape
    count, features = min(k, SHOWN_COMPONENTS), estimates.leading_features(SHOWN_LOADINGS)
    said = "A loading is the weight of a feature in a component: blue is positive, orange is negative. "
    if estimates.loading_errors is not None:
        said += "Grey loadings are not significantly different from 0. "
    if count < k:
        said += f"{count} of {k} components shown; the release file has all. "
    said += "The sign of a whole component has no meaning."
    columns = ["feature", *(f"component {i + 1}" for i in range(count))]
    rows = [(estimates.names[j], *(loading_text(estimates, i, j) for i in range(count))) for j in features]
    summary = (
        f"Loadings of {len(features)} of {d} features"
        if len(features) < d
        else f"All loadings of {d} feature{'' if d == 1 else 's'}"
    )
    return card(
        "loadings",
        "Sparse loadings" if estimates.sparse else "Loadings",
        element("p", said, class_="soft"),
        element("div", [_component(estimates, i) for i in range(count)], class_="many"),
        folded(summary, table("Loadings as numbers", columns, rows)),
    )


def _component(estimates: Estimates, i: int) -> Html:
    """Return the title of a component and its largest loadings, each with a bar."""
    direction, kind = estimates.components[i], "nonzero loadings" if estimates.sparse else "loadings"
    used = np.flatnonzero(direction) if estimates.sparse else np.arange(direction.size)
    largest = used[np.argsort(-np.abs(direction[used]), kind="stable")]
    largest = largest[: direction.size if direction.size <= _ALL_BARS else BAR_FEATURES]
    rows = [
        Strip(
            estimates.names[j],
            loading_text(estimates, i, int(j)),
            float(direction[j]),
            estimates.loading_interval(i, int(j)),
        )
        for j in largest
    ]
    columns = ("feature", "loading", estimates.interval_name if any(row.ends for row in rows) else "size")
    listed = strip_table(f"Largest loadings of component {i + 1}", columns, rows, estimates.not_above(i))
    title = f"Component {i + 1}"
    if estimates.shares is not None:
        title += f": {estimates.shares.in_words(i, percent=True)} of variance"
    if estimates.sparse:
        title += f", {used.size} of {len(estimates.names)} features"
    if estimates.not_above(i):
        title += f", {NOT_ABOVE_NOISE}"
    angle = for_readers(estimates.angle_in_words(i))
    if angle:
        title += f", {'direction' if angle == 'not determined' else 'angle error'} {angle}"
    cut = f"{len(rows)} of {used.size} {kind} shown, the largest." if len(rows) < used.size else ""
    return element(
        "div", element("h3", title), listed, element("p", cut or f"All {used.size} {kind} shown.", class_="soft")
    )


def loading_text(estimates: Estimates, component: int, feature: int) -> str:
    """Return a loading with its error in words."""
    value, ends = float(estimates.components[component, feature]), estimates.loading_interval(component, feature)
    return fixed(value) if ends is None else for_readers(with_error(value, ends, CORRELATION))


def notes(estimates: Estimates) -> Html | None:
    """Return notes on the numbers above."""
    lines = list(estimates.notes)
    if estimates.regressions or estimates.has_intervals or estimates.correlation_intervals is not None:
        lines.insert(0, estimates.legend)
    if estimates.angles is not None:
        lines.append(
            "The angle error is the angle between a released component and the true component of the same rank. The "
            "value in brackets is a 95 % bound. A component is not determined if this bound is 90°."
        )
    if estimates.above_noise is not None:
        alone = "noise and uncorrelated features" if estimates.of_correlation else "noise"
        lines.append(
            f"A component is above the noise if {alone} alone would not give its eigenvalue. The test counts too many "
            "components in at most 1 of 20 releases."
        )
    if not lines:
        return None
    return card("notes", "Notes", element("ul", [element("li", line) for line in lines]))
