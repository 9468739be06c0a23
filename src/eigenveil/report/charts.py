"""Charts of released values as inline SVG: no plotting package, nothing to load."""

import numpy as np

from ..with_error import for_readers, holds_zero, with_error
from .drawing import (
    LEVELS,
    LINE,
    WIDTH,
    axis,
    colour_level,
    hatch,
    label,
    legend,
    lines_of_text,
    svg,
    text_width,
    ticks,
    told_ticks,
    whisker,
    wrapped,
)
from .markup import Html, element, fixed, number
from .shown import SHOWN_EIGENVALUES, FloatArray, Shown

CORRELATED_FEATURES = 12
# A tile that is narrower has no room for its number.
_TILE_WITH_NUMBER = 38


def scree(shown: Shown) -> Html:
    """Draw variances along the components with their intervals, the released eigenvalues, and the noise level."""
    released, values, level = shown.released_eigenvalues, shown.variances, shown.level
    assert released is not None
    count = min(SHOWN_EIGENVALUES, released.size)
    top, root = shown.top(count) * 1.04 or 1.0, shown.needs_root_scale
    upper, lower = 76, 276
    y = axis(top, lower, upper, root)
    marks = ticks(top, y, root)
    texts, power = told_ticks(marks)
    left, right = 14 + max(map(text_width, texts)), WIDTH - 8
    step = (right - left) / count

    shapes = [element("line", x1=left, x2=right, y1=y(mark), y2=y(mark), class_="grid") for mark in marks]
    shapes += [label(left - 6, y(mark) + 4, text, "end", "soft") for mark, text in zip(marks, texts, strict=True)]
    shapes.append(label(2, upper - 14, f"variance{power}", "start", "soft"))
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
    edge = "noise, uncorrelated" if shown.of_correlation else "noise level"
    keys += [("edge", edge)] if level is not None else []
    shapes.append(legend(keys))
    description = (
        f"The first {count} released eigenvalues fall from {number(released[0])} to {number(released[count - 1])}."
    )
    if values is not None:
        told = [with_error(values[i], interval_of(shown.intervals, i)) for i in range(min(count, values.size))]
        description += f" Variances along the components are {for_readers('; '.join(told))}."
    if level is not None:
        description += f" The noise level is {number(level)}."
    return svg("scree", lower + 40, "Scree plot", description, shapes)


def interval_of(intervals: FloatArray | None, i: int) -> FloatArray | None:
    """Return one of some intervals; None where there are none."""
    return None if intervals is None else intervals[i]


def ordered_features(shown: Shown) -> list[int]:
    """Return the features of the heat map, those beside each other that go together, whichever way."""
    features = shown.leading_features(CORRELATED_FEATURES)
    if len(features) < 3:
        return features
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    assert shown.correlations is not None
    values = np.nan_to_num(shown.correlations[np.ix_(features, features)])
    apart = np.clip(1 - np.abs(values + values.T) / 2, 0.0, 1.0)
    np.fill_diagonal(apart, 0.0)
    order = leaves_list(linkage(squareform(apart, checks=False), "average", optimal_ordering=True))
    return [features[place] for place in order]


def correlations(shown: Shown) -> Html:
    """Draw the correlations of the leading features below the diagonal, hatched where they may be 0."""
    assert shown.correlations is not None
    features = ordered_features(shown)
    values = shown.correlations[np.ix_(features, features)]
    names = [f"{line + 1} {shown.names[j]}" for line, j in enumerate(features)]
    room, least = 150, 24
    cell = min(64.0, (WIDTH - room) / len(features))
    shapes: list[Html] = []
    y = 2.0
    for line, j in enumerate(features):
        told = wrapped(names[line], room - 10)
        height = max(least, LINE * len(told) + 6)
        shapes += lines_of_text(room - 8, y + height / 2, told, "end")
        # On the diagonal, where all are 1, stands the number of the column below.
        shapes.append(label(room + cell * (line + 0.5), y + height / 2 + 5, line + 1, "middle", "soft"))
        for i, value in enumerate(values[line, :line]):
            ends = None if shown.correlation_intervals is None else shown.correlation_intervals[j, features[i]]
            shapes += _tile(room + cell * i, y, cell - 1.5, height - 1.5, float(value), ends)
        y += height
    shapes += _scale(room, y + 12)
    unsure = sum(
        holds_zero(shown.correlation_intervals[j, i])
        for line, j in enumerate(features)
        for i in features[:line]
        if shown.correlation_intervals is not None
    )
    description = (
        f"Correlations of {len(features)} features, from minus 1 (orange) over 0 to 1 (blue); {unsure} of "
        f"{len(features) * (len(features) - 1) // 2} may be 0 and are hatched. The table has the same numbers."
    )
    return svg("correlations", y + 56, "Correlations", description, shapes)


def _tile(x: float, y: float, width: float, height: float, value: float, ends: FloatArray | None) -> list[Html]:
    unsure = ends is not None and holds_zero(ends)
    level = colour_level(value, 1.0)
    ground = "zero" if unsure else level
    shapes = [element("rect", x=x, y=y, width=width, height=height, rx=2, class_=f"cell {ground}")]
    if unsure:
        shapes.append(element("path", d=hatch(x, y, width, height), class_="hatch"))
    elif width >= _TILE_WITH_NUMBER:
        text = fixed(value)
        shapes.append(label(x + width / 2, y + height / 2 + 5, text, "middle", f"{level}-text"))
    return shapes


def _scale(left: float, y: float) -> list[Html]:
    """Return the key of colours from -1 to 1, and of hatched tiles."""
    tile, start = 16, left + 18
    steps = range(-LEVELS, LEVELS + 1)
    shapes = [
        element("rect", x=start + tile * place, y=y, width=tile, height=16, class_=f"cell {colour_level(step, LEVELS)}")
        for place, step in enumerate(steps)
    ]
    end = start + tile * len(steps)
    shapes += [label(start - 6, y + 13, "\N{MINUS SIGN}1", "end", "soft"), label(end + 6, y + 13, "1", "start", "soft")]
    shapes.append(element("rect", x=start, y=y + 22, width=tile, height=16, class_="cell zero"))
    shapes.append(element("path", d=hatch(start, y + 22, tile, 16), class_="hatch"))
    shapes.append(label(start + tile + 6, y + 35, "may be 0", "start", "soft"))
    return shapes
