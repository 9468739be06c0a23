"""The figures of released values as inline SVG: no plotting package, nothing to load."""

import numpy as np

from .drawing import WIDTH, axis, feature_name, grid, label, legend, svg, ticks, tiles, whisker
from .markup import Html, element, fixed, number, percent
from .shown import SHOWN_COMPONENTS, SHOWN_EIGENVALUES, Shown

CORRELATED_FEATURES = 12
BAR_FEATURES = 8


def scree(shown: Shown) -> Html:
    """Draw eigenvalues with their intervals, the released ones beside them, and the noise edge."""
    assert shown.eigenvalues is not None
    assert shown.released_eigenvalues is not None
    count = min(SHOWN_EIGENVALUES, shown.eigenvalues.size)
    values, released = shown.eigenvalues[:count], shown.released_eigenvalues[:count]
    edge, intervals = shown.edge, shown.intervals
    debiased = shown.alignments is not None
    top, root = shown.top(count) * 1.04 or 1.0, shown.needs_root_scale
    left, right, upper, lower = 56, WIDTH - 8, 54, 254
    y = axis(top, lower, upper, root)
    step = (right - left) / count

    shapes = grid(ticks(top, y, root), y, left, right)
    if edge is not None:
        height = lower - y(edge)
        shapes.append(element("rect", x=left, y=y(edge), width=right - left, height=height, class_="swamp"))
        shapes.append(element("line", x1=left, x2=right, y1=y(edge), y2=y(edge), class_="edge"))
    for i in range(count):
        x = left + step * (i + 0.5)
        hidden = edge is not None and released[i] <= edge
        shade = "point faint" if hidden else "point"
        if intervals is not None:
            low, high = (y(float(end)) for end in intervals[i])
            shapes.append(element("path", d=whisker(x, low, high), class_="whisker faint" if hidden else "whisker"))
        shapes.append(element("circle", cx=x, cy=y(float(values[i])), r=4.5, class_=shade))
        if debiased and released[i] >= 0:
            shapes.append(element("circle", cx=x + 8, cy=y(float(released[i])), r=3, class_="ring"))
        if count <= 10 or i % 2 == 0:
            shapes.append(label(x, lower + 16, i + 1, "middle"))
    shapes.append(label((left + right) / 2, lower + 34, "component", "middle", "soft"))
    keys = [("point", "estimate" if debiased else "as released")]
    keys += [("whisker", "95 % interval")] if intervals is not None else []
    keys += [("ring", "as released")] if debiased else []
    keys += [("edge", "noise edge")] if edge is not None else []
    shapes.append(legend(keys))
    description = f"The first {count} eigenvalues fall from {number(values[0])} to {number(values[-1])}."
    if edge is not None:
        description += f" The noise edge is {number(edge)}; {shown.n_visible} released eigenvalues are above it."
    return svg("scree", 294, "Scree plot", description, shapes)


def shares(shown: Shown) -> Html:
    """Draw the share of variance of every component, and the running total."""
    part, running = shown.shares, shown.running_shares
    assert part is not None
    assert running is not None
    count = min(SHOWN_EIGENVALUES, part.size)
    part, running = part[:count], running[:count]
    left, right, upper, lower = 48, WIDTH - 8, 18, 212
    y = axis(1.0, lower, upper, False)
    step = (right - left) / count
    shapes = [
        shape
        for tick in (0.0, 0.25, 0.5, 0.75, 1.0)
        for shape in (
            element("line", x1=left, x2=right, y1=y(tick), y2=y(tick), class_="grid"),
            label(left - 6, y(tick) + 4, f"{100 * tick:.0f} %", "end", "soft"),
        )
    ]
    width = min(34.0, 0.7 * step)
    for i in range(count):
        x, height = left + step * (i + 0.5), lower - y(float(part[i]))
        shapes.append(element("rect", x=x - width / 2, y=lower - height, width=width, height=height, class_="bar"))
        if count <= 10 or i % 2 == 0:
            shapes.append(label(x, lower + 16, i + 1, "middle"))
    points = [(left + step * (i + 0.5), y(float(running[i]))) for i in range(count)]
    shapes.append(element("path", d="M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in points), class_="running"))
    shapes += [element("circle", cx=px, cy=py, r=2.5, class_="running-point") for px, py in points]
    shapes.append(label((left + right) / 2, lower + 34, "component", "middle", "soft"))
    description = (
        f"The first component explains {percent(float(part[0]))} of the variance, the first {count} together "
        f"{percent(float(running[-1]))}."
    )
    return svg("shares", 252, "Explained variance", description, shapes)


def heat_map(shown: Shown) -> Html:
    """Draw loadings, one row a feature and one column a component, as colours with their numbers."""
    features = shown.leading_features()
    loadings = shown.components[:SHOWN_COMPONENTS][:, features].T
    reach = float(np.abs(loadings).max()) or 1.0
    description = (
        f"Loadings of {len(features)} features on {loadings.shape[1]} components, from {fixed(-reach)} (orange) over 0 "
        f"to {fixed(reach)} (blue). The table below has the same numbers."
    )
    names = [shown.names[j] for j in features]
    return tiles("loadings", "Loadings", description, loadings, names, reach)


def correlations(shown: Shown) -> Html:
    """Draw the correlations of the leading features; columns are numbered like the rows."""
    assert shown.correlations is not None
    features = shown.leading_features(CORRELATED_FEATURES)
    values = shown.correlations[np.ix_(features, features)]
    names = [f"{line + 1} {shown.names[j]}" for line, j in enumerate(features)]
    description = f"Correlations of {len(features)} features, from minus 1 (orange) over 0 to 1 (blue)."
    return tiles("correlations", "Correlations", description, values, names, 1.0)


def bars(shown: Shown, component: int) -> Html:
    """Draw the largest loadings of one component as bars to either side of zero."""
    loadings = shown.components[component]
    largest = np.argsort(-np.abs(loadings), kind="stable")[:BAR_FEATURES]
    if shown.sparse:
        largest = largest[loadings[largest] != 0]
    width, left, row, room = 320, 134, 24, 44
    below, above = max(0.0, -float(loadings[largest].min())), max(0.0, float(loadings[largest].max()))
    # Each side gets its share of the width, and room for its numbers.
    start, end = left + (room if below else 0), width - (room if above else 0)
    length = (end - start) / ((below + above) or 1.0)
    zero = start + below * length
    shapes = []
    for line, j in enumerate(largest):
        value, y = float(loadings[j]), row * line
        size = abs(value) * length
        x = zero if value >= 0 else zero - size
        side = "p4" if value >= 0 else "n4"
        shapes.append(feature_name(shown.names[j], left - 8, y + 15))
        shapes.append(element("rect", x=x, y=y + 3, width=max(size, 0.5), height=row - 8, rx=2, class_=f"cell {side}"))
        anchor, place = ("start", x + size + 5) if value >= 0 else ("end", x - 5)
        shapes.append(label(place, y + 15, fixed(value), anchor, "small"))
    shapes.append(element("line", x1=zero, x2=zero, y1=0, y2=row * len(largest), class_="axis"))
    title = f"Largest loadings of component {component + 1}"
    described = ", ".join(f"{shown.names[j]} {fixed(float(loadings[j]))}" for j in largest)
    return svg(f"bars-{component + 1}", row * len(largest) + 2, title, described + ".", shapes, width)
