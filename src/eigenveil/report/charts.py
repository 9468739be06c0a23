"""Charts of released values as inline SVG: no plotting package, nothing to load."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..display import NOT_ABOVE_NOISE, for_readers, half_width, holds_zero, with_error
from ..limits import SIZE
from ..numerics import FloatArray
from ..releases.score_map import ScoreMap
from .facts import SHOWN_EIGENVALUES, Shown
from .html import (
    LEVELS,
    LINE,
    WIDTH,
    Html,
    axis,
    colour_level,
    element,
    fixed,
    hatch,
    label,
    legend,
    lines_of_text,
    number,
    svg,
    table,
    text_width,
    tick_texts,
    ticks,
    ticks_between,
    whisker,
    wrapped,
)

CORRELATED_FEATURES = 12
# A tile that is narrower has no room for its number.
_TILE_WITH_NUMBER = 38


def scree(shown: Shown) -> Html:
    """Draw variances along the components with their intervals, the released eigenvalues, and the noise level."""
    released, values, edges = shown.released_eigenvalues, shown.variances, shown.edges
    assert released is not None
    count = min(SHOWN_EIGENVALUES, released.size)
    top, root = shown.top(count) * 1.04 or 1.0, shown.needs_root_scale
    upper, lower = 76, 276
    y = axis(top, lower, upper, root)
    marks = ticks(top, y, root)
    texts, power = tick_texts(marks)
    left, right = 14 + max(map(text_width, texts)), WIDTH - 8
    step = (right - left) / count

    shapes = [element("line", x1=left, x2=right, y1=y(mark), y2=y(mark), class_="grid") for mark in marks]
    shapes += [label(left - 6, y(mark) + 4, text, "end", "soft") for mark, text in zip(marks, texts, strict=True)]
    shapes.append(label(2, upper - 14, f"variance{power}", "start", "soft"))
    for i, edge in enumerate([] if edges is None else edges[:count].tolist()):
        begin, end = left + step * i, left + step * (i + 1)
        shapes.append(element("rect", x=begin, y=y(edge), width=step, height=lower - y(edge), class_="below"))
        shapes.append(element("line", x1=begin, x2=end, y1=y(edge), y2=y(edge), class_="edge"))
    for i in range(count):
        x = left + step * (i + 0.5)
        if values is not None and i < values.size:
            faint = " faint" if shown.not_above(i) else ""
            if shown.intervals is not None:
                low, high = (y(float(end)) for end in shown.intervals[i])
                shapes.append(element("path", d=whisker(x, low, high), class_="whisker" + faint))
            shapes.append(element("circle", cx=x, cy=y(float(values[i])), r=4.5, class_="point" + faint))
        if released[i] >= 0:
            shapes.append(element("circle", cx=x + 8, cy=y(float(released[i])), r=3, class_="hollow"))
        if count <= 10 or i % 2 == 0:
            shapes.append(label(x, lower + 16, i + 1, "middle"))
    shapes.append(label((left + right) / 2, lower + 34, "component", "middle", "soft"))
    keys = [] if values is None else [("point", "variance")]
    keys += [("whisker", shown.interval_name)] if shown.intervals is not None else []
    keys += [("hollow", "released eigenvalue")]
    keys += [] if edges is None else [("edge", "noise level, uncorrelated" if shown.of_correlation else "noise level")]
    shapes.append(legend(keys))
    description = (
        f"The first {count} released eigenvalues fall from {number(released[0])} to {number(released[count - 1])}."
    )
    if values is not None:
        texts = [with_error(values[i], interval_of(shown.intervals, i), SIZE) for i in range(min(count, values.size))]
        description += f" Variances along the components are {for_readers('; '.join(texts))}."
    if edges is not None:
        description += f" The noise level is {number(edges[0])} for the first."
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
        text = wrapped(names[line], room - 10)
        height = max(least, LINE * len(text) + 6)
        shapes += lines_of_text(room - 8, y + height / 2, text, "end")
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


_WIDTH, _HEIGHT, _EDGE = 120, 18, 4


@dataclass(frozen=True)
class Strip:
    """One row: a name, its number in words, and what to draw of it.

    Attributes
    ----------
    name, text : str
    value : float
    ends : (low, high), optional
        Its interval; ends may be infinite.
    """

    name: str
    text: str
    value: float
    ends: tuple[float, float] | None = None


def strip_table(label: str, columns: tuple[str, str, str], rows: Sequence[Strip], lost: bool = False) -> Html:
    """Return a table of names and numbers, each beside its bar and interval on one common axis through 0."""
    low, high = _reach(rows)
    class_ = "strips lost" if lost else "strips"
    cells = [(row.name, row.text, _drawn(row, low, high)) for row in rows]
    return table(label, columns, cells, class_=class_)


def _reach(rows: Sequence[Strip]) -> tuple[float, float]:
    """Return the ends of the axis: what is drawn, 0, and no interval that is far wider than all values."""
    values = [row.value for row in rows if math.isfinite(row.value)]
    farthest = 3 * max(map(abs, values), default=0.0)
    drawn = [0.0, *values, *(end for row in rows for end in row.ends or () if abs(end) <= farthest)]
    return (min(drawn), max(drawn)) if min(drawn) < max(drawn) else (0.0, 1.0)


def _drawn(row: Strip, low: float, high: float) -> Html:
    width = (high - low) or 1.0

    def x(value: float) -> float:
        return _EDGE + (_WIDTH - 2 * _EDGE) * min(max((value - low) / width, 0.0), 1.0)

    middle, zero = _HEIGHT / 2, x(0.0)
    unsure = row.ends is not None and row.ends[0] <= 0 <= row.ends[1]
    side = "zero-bar" if unsure else "p4" if row.value >= 0 else "n4"
    start, end = sorted((zero, x(row.value)))
    shapes = [element("rect", x=start, y=middle - 4, width=max(end - start, 1.0), height=8, class_=f"cell {side}")]
    if row.ends is not None and row.ends[0] < row.ends[1]:
        left, right = x(row.ends[0]), x(row.ends[1])
        # An end beyond the axis is an arrow, and no end.
        first = "l3 -3m-3 3l3 3" if row.ends[0] < low else "m0 -3v6"
        last = "l-3 -3m3 3l-3 3" if row.ends[1] > high else "m0 -3v6"
        path = f"M{left:.1f} {middle}H{right:.1f}M{left:.1f} {middle}{first}M{right:.1f} {middle}{last}"
        shapes.append(element("path", d=path, class_="error"))
    shapes.append(element("line", x1=zero, x2=zero, y1=0, y2=_HEIGHT, class_="axis"))
    return element("svg", shapes, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", aria_hidden="true", class_="strip")


NAMED_FEATURES = 10
_PLANE = 200  # width and height of the plane of the biplot; names stand to either side
_MARGIN = 20  # of a side without names
_MAP = 320


def biplot(shown: Shown) -> Html:
    """Draw features as arrows in the plane of the first two components."""
    tips = shown.components[:2].T
    lengths = np.hypot(*tips.T)
    named = [int(j) for j in np.argsort(-lengths, kind="stable")[:NAMED_FEATURES] if lengths[j] > 0]
    errors = _errors(shown)
    reach = min(1.05, max((np.abs(tips[named]) + errors[named]).max(initial=0.0), lengths.max()) * 1.04) or 1.0
    sides = [[j for j in named if (tips[j, 0] < 0) == left] for left in (True, False)]
    # A side without names leaves its room to the other.
    free = WIDTH - _PLANE
    rooms = [free / 2, free / 2] if all(sides) else [_MARGIN, free - _MARGIN] if sides[1] else [free - _MARGIN, _MARGIN]
    names = {j: wrapped(shown.names[j], room - 14) for side, room in zip(sides, rooms, strict=True) for j in side}
    height = max(_PLANE, *(sum(LINE * len(names[j]) + 4 for j in side) for side in sides)) + 52
    centre, middle, scale = rooms[0] + _PLANE / 2, (height - 36) / 2 + 2, _PLANE / 2 / reach

    def x(value: float) -> float:
        return centre + scale * value

    def y(value: float) -> float:
        return middle - scale * value

    half = _PLANE / 2
    shapes = [element("line", x1=centre - half, x2=centre + half, y1=middle, y2=middle, class_="axis")]
    shapes.append(element("line", x1=centre, x2=centre, y1=middle - half, y2=middle + half, class_="axis"))
    radius = next(size for size in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02) if size <= reach or size == 0.02)
    shapes.append(element("circle", cx=centre, cy=middle, r=radius * scale, class_="circle"))
    faint = " faint" if shown.not_above(1) or shown.not_above(0) else ""
    for j in range(len(tips)):
        if j not in names:
            shapes.append(element("circle", cx=x(tips[j, 0]), cy=y(tips[j, 1]), r=1.8, class_="other"))
    for j in named:
        tip = x(tips[j, 0]), y(tips[j, 1])
        if errors[j].any():
            rx, ry = errors[j] * scale
            shapes.append(element("ellipse", cx=tip[0], cy=tip[1], rx=float(rx), ry=float(ry), class_="doubt"))
        shapes.append(element("path", d=_arrow(centre, middle, *tip), class_=f"arrow{faint}"))
    for left, side in zip((True, False), sides, strict=True):
        edge = rooms[0] - 8 if left else WIDTH - rooms[1] + 8
        heights = [LINE * len(names[j]) + 4 for j in side]
        order = sorted(range(len(side)), key=lambda place: -tips[side[place], 1])
        wanted = [y(tips[side[place], 1]) for place in order]
        for place, at in zip(order, _spread(wanted, [heights[p] for p in order], height - 40), strict=True):
            j = side[place]
            shapes.append(
                element("path", d=f"M{x(tips[j, 0]):.1f} {y(tips[j, 1]):.1f}L{edge:.1f} {at:.1f}", class_="leader")
            )
            shapes += lines_of_text(edge + (-3 if left else 3), at, names[j], "end" if left else "start")
    shapes.append(label(centre, height - 8, _axis_title(shown, 0, "across"), "middle", "soft"))
    shapes.append(label(centre, height - 26, _axis_title(shown, 1, "up"), "middle", "soft"))
    listed = "; ".join(f"{shown.names[j]} {fixed(tips[j, 0])} and {fixed(tips[j, 1])}" for j in named)
    description = f"Loadings on components 1 and 2: {listed}. The circle has the radius {radius:g}."
    return svg("biplot", height, "Biplot of components 1 and 2", description, shapes)


def _errors(shown: Shown) -> FloatArray:
    """Return half the 95 % intervals of the loadings on the first two components; 0 where they are not known."""
    errors = np.zeros((len(shown.names), 2))
    for i in (0, 1):
        if shown.loading_errors is not None and shown.angle_bounds is not None and shown.angle_bounds[i] < 90:
            errors[:, i] = half_width(shown.loading_errors[i])
    return errors


def _axis_title(shown: Shown, i: int, way: str) -> str:
    return f"{way}: component {i + 1}" + (f" ({NOT_ABOVE_NOISE})" if shown.not_above(i) else "")


def _arrow(x0: float, y0: float, x1: float, y1: float) -> str:
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    size = min(6.0, length / 2)
    barbs = [(x1 - size * ux + side * size * uy / 2, y1 - size * uy - side * size * ux / 2) for side in (1, -1)]
    head = "".join(f"M{x1:.1f} {y1:.1f}L{bx:.1f} {by:.1f}" for bx, by in barbs)
    return f"M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}{head}"


def _spread(wanted: Sequence[float], heights: Sequence[float], lowest: float) -> list[float]:
    """Return places near those wanted, in their order, that leave every text its height."""
    places: list[float] = []
    ground = 2.0
    for at, height in zip(wanted, heights, strict=True):
        places.append(max(at, ground + height / 2))
        ground = places[-1] + height / 2
    for place in range(len(places) - 1, -1, -1):
        places[place] = min(places[place], lowest - heights[place] / 2)
        lowest = places[place] - heights[place] / 2
    return places


def score_panel(cloud: ScoreMap, group: int) -> Html:
    """Draw one group of a score map, with its cells in the units of scores."""
    counts, unsure = cloud.counts[group], cloud.may_be_empty[group]
    (across, up), top = cloud.edges, float(cloud.counts.max()) or 1.0
    lower, upper, right = 292.0, 26.0, _MAP - 10.0
    rows = ticks_between(float(up[0]), float(up[-1]), 6)
    texts, power = tick_texts(rows)
    left = 14 + max(map(text_width, texts), default=0.0)
    columns = ticks_between(float(across[0]), float(across[-1]), 5)
    under, power_across = tick_texts(columns)
    x = left + (right - left) * (across - across[0]) / (across[-1] - across[0])
    y = lower - (lower - upper) * (up - up[0]) / (up[-1] - up[0])
    shapes = [element("rect", x=left, y=upper, width=right - left, height=lower - upper, class_="frame")]
    for i, j in np.argwhere(counts > 0):
        wide, high = float(x[i + 1] - x[i]), float(y[j] - y[j + 1])
        box = {"x": float(x[i]), "y": float(y[j + 1]), "width": wide, "height": high}
        if unsure[i, j]:
            shapes.append(element("path", d=hatch(**box), class_="hatch"))
        else:
            level = max(1, math.ceil(LEVELS * math.sqrt(float(counts[i, j]) / top)))
            shapes.append(element("rect", **box, class_=f"cell p{level}"))
    for tick, text in zip(rows, texts, strict=True):
        at = lower - (lower - upper) * (tick - up[0]) / (up[-1] - up[0])
        shapes.append(element("line", x1=left - 4, x2=left, y1=float(at), y2=float(at), class_="axis"))
        shapes.append(label(left - 7, at + 4, text, "end", "soft"))
    for tick, text in zip(columns, under, strict=True):
        at = left + (right - left) * (tick - across[0]) / (across[-1] - across[0])
        shapes.append(element("line", x1=float(at), x2=float(at), y1=lower, y2=lower + 4, class_="axis"))
        half = text_width(text) / 2
        shapes.append(label(min(max(at, half), _MAP - half), lower + 18, text, "middle", "soft"))
    first, second = (f"component {place + 1}" for place in cloud.grid.axes)
    shapes.append(label(2, 14, f"{second}{power}", "start", "soft"))
    shapes.append(label((left + right) / 2, lower + 36, f"{first}{power_across}", "middle", "soft"))
    found = int((~unsure & (counts > 0)).sum())
    description = (
        f"{found} of {counts.size} cells are distinguishable from noise; the fullest has about "
        f"{number(float(counts.max()), 3)} {cloud.guarantee.unit.counted}, of {number(float(counts.sum()), 4)}."
    )
    name = cloud.groups[group]
    return svg(
        f"scores-{group + 1}", lower + 42, f"Score map{f' of {name}' if name else ''}", description, shapes, _MAP
    )
