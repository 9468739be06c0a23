"""Sections on what was released, each a function from what is shown to markup; None where there is nothing to say."""

from . import charts
from .cards import card, figure, table
from .markup import Html, element, fixed, number, percent
from .shown import SHOWN_COMPONENTS, SHOWN_EIGENVALUES, Shown


def spectrum(shown: Shown) -> Html | None:
    """Return the scree plot and the shares of variance."""
    values, released = shown.eigenvalues, shown.released_eigenvalues
    shares, running = shown.shares, shown.running_shares
    if values is None or released is None or shares is None or running is None:
        return None
    count = min(SHOWN_EIGENVALUES, values.size)
    said = f"The first {count} of {values.size} eigenvalues. " if count < values.size else ""
    if shown.alignments is not None:
        said += "Estimates are freed of the bias that the noise has on eigenvalues. "
    if shown.edge is not None:
        seen = shown.n_visible
        said += f"Above the noise edge {number(shown.edge)}: {seen or 'none'} of {values.size} released eigenvalues. "
        said += "Below it there may be noise alone. " if seen else "The noise swamps the signal. "
    if shown.needs_root_scale:
        said += "The axis is stretched near zero (square-root scale)."
    columns = ["component", "estimate", "as released"]
    cells = [range(1, count + 1), map(number, values[:count]), map(number, released[:count])]
    if shown.intervals is not None:
        columns += ["95 % from", "to"]
        cells += [map(number, shown.intervals[:count, end]) for end in (0, 1)]
    if shown.edge is not None:
        columns.append("above the edge")
        cells.append("yes" if value > shown.edge else "no" for value in released[:count])
    if shown.alignments is not None:
        columns.append("alignment")
        cells.append(f"{alignment:.2f}" for alignment in shown.alignments[:count])
    scree = figure(charts.scree(shown), said, columns, list(zip(*cells, strict=True)))
    rows = [(i + 1, percent(float(shares[i])), percent(float(running[i]))) for i in range(min(count, shares.size))]
    what = "of the sparse components in the total variance" if shown.sparse else "of the total variance"
    caption = f"Bars: share {what}, from the estimates. Line: running total."
    variance = figure(charts.shares(shown), caption, ("component", "share", "running total"), rows)
    return element(
        "section",
        element("div", element("h2", "Eigenvalues"), scree, class_="card"),
        element("div", element("h2", "Explained variance"), variance, class_="card"),
        class_="pair",
        aria_label="Eigenvalues and explained variance",
    )


def correlations(shown: Shown) -> Html | None:
    """Return the correlations of the leading features, where the matrix is what was asked for."""
    if shown.correlations is None:
        return None
    features = shown.leading_features(charts.CORRELATED_FEATURES)
    shrunk = ", shrunk to remove noise" if shown.alignments is not None else ""
    said = f"Correlations in the released matrix{shrunk}; columns are numbered like the rows."
    if len(features) < len(shown.names):
        said += f" Shown are {len(features)} of {len(shown.names)} features; the release has all of them."
    columns = ["feature", *(shown.names[j] for j in features)]
    rows = [(shown.names[j], *(fixed(float(shown.correlations[j, i])) for i in features)) for j in features]
    return card("matrix", "Correlations", figure(charts.correlations(shown), said, columns, rows, "wide"))


def regression(shown: Shown) -> Html | None:
    """Return the coefficients of a regression, where one was asked for."""
    fit = shown.regression
    if fit is None:
        return None
    said = (
        f"Prediction of {shown.names[fit.target]} from {len(fit.features)} features, in their own units: intercept "
        f"plus coefficients times features. R² = {fixed(fit.r2)}, in the matrix shrunk to remove noise. "
        f"Regularization alpha = {number(fit.alpha)}, on the scale of one row."
    )
    if len(shown.predictors) < len(fit.features):
        said += f" Shown are the {len(shown.predictors)} that move the prediction most; the release has all of them."
    rows = [("intercept", number(fit.intercept))]
    rows += [(shown.names[fit.features[j]], number(float(fit.coef[j]))) for j in shown.predictors]
    listed = table("Coefficients of the regression", ("feature", "coefficient"), rows)
    return card("regression", "Regression", element("p", said), listed)


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
    said += "The sign of a whole component has no meaning."
    columns = ["feature", *(f"component {i + 1}" for i in range(count))]
    rows = [(shown.names[j], *(fixed(float(v), 4) for v in shown.components[:count, j])) for j in features]
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
    if shown.alignments is not None:
        lines.append(
            "Alignment is the estimated squared cosine between a released direction and the true one of the same rank: "
            "1 is the same direction, 0 is unrelated."
        )
    if not lines:
        return None
    return card("notes", "Reading these numbers", element("ul", [element("li", line) for line in lines]))


def _component_title(shown: Shown, i: int) -> str:
    title = f"Component {i + 1}"
    shares, released = shown.shares, shown.released_eigenvalues
    if shares is not None and i < shares.size:
        title += f": {percent(float(shares[i]))} of variance"
    if shown.sparse:
        used = int((shown.components[i] != 0).sum())
        return f"{title}, {used} of {len(shown.names)} features"
    if shown.edge is not None and released is not None and released[i] <= shown.edge:
        return title + ", may be noise"
    if shown.alignments is not None:
        title += f", alignment {shown.alignments[i]:.2f}"
    return title
