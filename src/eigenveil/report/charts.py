"""The figures of released values as inline SVG: no plotting package, nothing to load."""

import numpy as np

from ..with_error import for_readers, with_error
from .drawing import WIDTH, axis, feature_name, grid, label, legend, svg, ticks, tiles, whisker
from .markup import Html, element, fixed, number
from .shown import SHOWN_COMPONENTS, SHOWN_EIGENVALUES, FloatArray, Shown

CORRELATED_FEATURES = 12
BAR_FEATURES = 8


def scree(shown: Shown) -> Html:
    """Draw variances along the components with their intervals, the released eigenvalues, and the noise level."""
    released, values, level = shown.released_eigenvalues, shown.variances, shown.level
    assert released is not None
    count = min(SHOWN_EIGENVALUES, released.size)
    top, root = shown.top(count) * 1.04 or 1.0, shown.needs_root_scale
    left, right, upper, lower = 56, WIDTH - 8, 54, 254
    y = axis(top, lower, upper, root)
    step = (right - left) / count

    shapes = grid(ticks(top, y, root), y, left, right)
    if level is not None:
        height = lower - y(level)
        shapes.append(element("rect", x=left, y=y(level), width=right - left, height=height, class_="swamp"))
        shapes.append(element("line", x1=left, x2=right, y1=y(level), y2=y(level), class_="edge"))
    for i in range(count):
        x = left + step * (i + 0.5)
        if values is not None and i < values.size:
            faint = " faint" if shown.lost(i) else ""
            if shown.intervals is not None:
                low, high = (y(float(end)) for end in shown.intervals[i])
                shapes.append(element("path", d=whisker(x, low, high), class_="whisker" + faint))
            shapes.append(element("circle", cx=x, cy=y(float(values[i])), r=4.5, class_="point" + faint))
        if released[i] >= 0:
            shapes.append(element("circle", cx=x + 8, cy=y(float(released[i])), r=3, class_="ring"))
        if count <= 10 or i % 2 == 0:
            shapes.append(label(x, lower + 16, i + 1, "middle"))
    shapes.append(label((left + right) / 2, lower + 34, "component", "middle", "soft"))
    keys = [] if values is None else [("point", "variance along it")]
    keys += [("whisker", "95 % interval")] if shown.intervals is not None else []
    keys += [("ring", "eigenvalue as released")]
    keys += [("edge", "noise level")] if level is not None else []
    shapes.append(legend(keys))
    description = (
        f"The first {count} released eigenvalues fall from {number(released[0])} to {number(released[count - 1])}."
    )
    if values is not None:
        told = [with_error(values[i], interval_of(shown.intervals, i)) for i in range(min(count, values.size))]
        description += f" Variances along the components are {for_readers('; '.join(told))}."
    if level is not None:
        description += f" The noise level is {number(level)}."
    return svg("scree", 294, "Scree plot", description, shapes)


def shares(shown: Shown) -> Html:
    """Draw the share of variance of every component, and the running total, with their intervals."""
    part, running = shown.shares, shown.running
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
    middles = [left + step * (i + 0.5) for i in range(count)]
    if shown.running_intervals is not None:
        ends = [
            [(x, y(float(end))) for x, end in zip(middles, side[:count], strict=True)]
            for side in shown.running_intervals.T
        ]
        shapes.append(element("path", d=_path([*ends[0], *ends[1][::-1]]) + "Z", class_="band"))
    for i, x in enumerate(middles):
        height = lower - y(float(part[i]))
        shade = "bar faint" if shown.lost(i) else "bar"
        shapes.append(element("rect", x=x - width / 2, y=lower - height, width=width, height=height, class_=shade))
        if shown.share_intervals is not None:
            low, high = (y(float(end)) for end in shown.share_intervals[i])
            shapes.append(element("path", d=whisker(x, low, high), class_="error"))
        if count <= 10 or i % 2 == 0:
            shapes.append(label(x, lower + 16, i + 1, "middle"))
    points = [(x, y(float(total))) for x, total in zip(middles, running, strict=True)]
    shapes.append(element("path", d=_path(points), class_="running"))
    shapes += [element("circle", cx=px, cy=py, r=2.5, class_="running-point") for px, py in points]
    shapes.append(label((left + right) / 2, lower + 34, "component", "middle", "soft"))
    first = with_error(part[0], interval_of(shown.share_intervals, 0), percent=True)
    together = with_error(running[-1], interval_of(shown.running_intervals, count - 1), percent=True)
    description = f"The first component has {first} of the variance, the first {count} together {together}."
    return svg("shares", 252, "Explained variance", description, shapes)


def interval_of(intervals: FloatArray | None, i: int) -> FloatArray | None:
    """Return one of some intervals; None where there are none."""
    return None if intervals is None else intervals[i]


def _path(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in points)


def heat_map(shown: Shown) -> Html:
    """Draw loadings, one row a feature and one column a component, as colours with their numbers."""
    features = shown.leading_features()
    loadings = shown.components[:SHOWN_COMPONENTS][:, features].T
    reach = float(np.abs(loadings).max()) or 1.0
    description = (
        f"Loadings of {len(features)} features on {loadings.shape[1]} components, from {fixed(-reach)} (orange) over 0 "
        f"to {fixed(reach)} (blue); without colour where a loading may be 0. The table below has the same numbers."
    )
    names = [shown.names[j] for j in features]
    faded = np.array([[shown.loading_may_be_zero(i, j) for i in range(loadings.shape[1])] for j in features])
    return tiles("loadings", "Loadings", description, loadings, names, reach, faded)


def correlations(shown: Shown) -> Html:
    """Draw the correlations of the leading features; columns are numbered like the rows."""
    assert shown.correlations is not None
    features = shown.leading_features(CORRELATED_FEATURES)
    values = shown.correlations[np.ix_(features, features)]
    names = [f"{line + 1} {shown.names[j]}" for line, j in enumerate(features)]
    description = (
        f"Correlations of {len(features)} features, from minus 1 (orange) over 0 to 1 (blue); without colour where a "
        "correlation may be 0."
    )
    faded = np.zeros(values.shape, bool)
    if shown.correlation_intervals is not None:
        low, high = np.moveaxis(shown.correlation_intervals[np.ix_(features, features)], -1, 0)
        faded = (low <= 0) & (high >= 0)
    return tiles("correlations", "Correlations", description, values, names, 1.0, faded)


def loading_text(shown: Shown, component: int, feature: int) -> str:
    """Return a loading with its error in words."""
    value, ends = float(shown.components[component, feature]), shown.loading_interval(component, feature)
    return fixed(value) if ends is None else for_readers(with_error(value, ends))


def bars(shown: Shown, component: int) -> Html:
    """Draw the largest loadings of one component as bars to either side of zero."""
    loadings = shown.components[component]
    largest = np.argsort(-np.abs(loadings), kind="stable")[:BAR_FEATURES]
    if shown.sparse:
        largest = largest[loadings[largest] != 0]
    width, left, row, room = 320, 134, 24, 44
    intervals = [shown.loading_interval(component, int(j)) or (float(loadings[j]),) * 2 for j in largest]
    below, above = max(0.0, *(-low for low, _ in intervals)), max(0.0, *(high for _, high in intervals))
    # Each side gets its share of the width, and room for its numbers.
    start, end = left + (room if below else 0), width - (room if above else 0)
    length = (end - start) / ((below + above) or 1.0)
    zero = start + below * length
    shapes = []
    for line, (j, ends) in enumerate(zip(largest, intervals, strict=True)):
        value, y = float(loadings[j]), row * line
        size, (low, high) = abs(value) * length, (zero + side * length for side in ends)
        x = zero if value >= 0 else zero - size
        side = "p4" if value >= 0 else "n4"
        shapes.append(feature_name(shown.names[j], left - 8, y + 15))
        shapes.append(element("rect", x=x, y=y + 3, width=max(size, 0.5), height=row - 8, rx=2, class_=f"cell {side}"))
        if low < high:
            shapes.append(element("path", d=f"M{low:.1f} {y + 11}H{high:.1f}", class_="error"))
        anchor, place = ("start", high + 5) if value >= 0 else ("end", low - 5)
        shapes.append(label(place, y + 15, fixed(value), anchor, "small"))
    shapes.append(element("line", x1=zero, x2=zero, y1=0, y2=row * len(largest), class_="axis"))
    title = f"Largest loadings of component {component + 1}"
    described = ", ".join(f"{shown.names[j]} {loading_text(shown, component, int(j))}" for j in largest)
    return svg(f"bars-{component + 1}", row * len(largest) + 2, title, described + ".", shapes, width)
