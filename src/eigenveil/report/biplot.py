"""Two components at once: the biplot of features, and the map of scores where one was released beside them."""

import math
from collections.abc import Sequence

import numpy as np

from ..score_maps import ScoreMap
from ..with_error import MAY_BE_NOISE, around
from .drawing import (
    LEVELS,
    LINE,
    WIDTH,
    hatch,
    label,
    lines_of_text,
    svg,
    text_width,
    ticks_between,
    told_ticks,
    wrapped,
)
from .markup import Html, element, fixed, number
from .shown import FloatArray, Shown

NAMED_FEATURES = 10
_PLANE = 200  # width and height of the plane of the biplot; names stand to either side
_MARGIN = 20  # of a side without names
_MAP = 320


def biplot(shown: Shown, cloud: ScoreMap | None = None) -> Html:
    """Draw features as arrows in the plane of the first two components, over the cloud of scores where there is one."""
    tips = shown.components[:2].T
    lengths = np.hypot(*tips.T)
    named = [int(j) for j in np.argsort(-lengths, kind="stable")[:NAMED_FEATURES] if lengths[j] > 0]
    errors = _errors(shown)
    reach = min(1.05, max((np.abs(tips[named]) + errors[named]).max(initial=0.0), lengths.max()) * 1.04) or 1.0
    sides = [[j for j in named if (tips[j, 0] < 0) == left] for left in (True, False)]
    # A side without names leaves its room to the other.
    free = WIDTH - _PLANE
    rooms = [free / 2, free / 2] if all(sides) else [_MARGIN, free - _MARGIN] if sides[1] else [free - _MARGIN, _MARGIN]
    told = {j: wrapped(shown.names[j], room - 14) for side, room in zip(sides, rooms, strict=True) for j in side}
    height = max(_PLANE, *(sum(LINE * len(told[j]) + 4 for j in side) for side in sides)) + 52
    centre, middle, scale = rooms[0] + _PLANE / 2, (height - 36) / 2 + 2, _PLANE / 2 / reach

    def x(value: float) -> float:
        return centre + scale * value

    def y(value: float) -> float:
        return middle - scale * value

    shapes = [] if cloud is None else _ground(cloud, centre, middle)
    half = _PLANE / 2
    shapes.append(element("line", x1=centre - half, x2=centre + half, y1=middle, y2=middle, class_="axis"))
    shapes.append(element("line", x1=centre, x2=centre, y1=middle - half, y2=middle + half, class_="axis"))
    ring = next(size for size in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02) if size <= reach or size == 0.02)
    shapes.append(element("circle", cx=centre, cy=middle, r=ring * scale, class_="ring-line"))
    faint = " faint" if shown.lost(1) or shown.lost(0) else ""
    for j in range(len(tips)):
        if j not in told:
            shapes.append(element("circle", cx=x(tips[j, 0]), cy=y(tips[j, 1]), r=1.8, class_="other"))
    for j in named:
        tip = x(tips[j, 0]), y(tips[j, 1])
        if errors[j].any():
            rx, ry = errors[j] * scale
            shapes.append(element("ellipse", cx=tip[0], cy=tip[1], rx=float(rx), ry=float(ry), class_="doubt"))
        shapes.append(element("path", d=_arrow(centre, middle, *tip), class_=f"arrow{faint}"))
    for left, side in zip((True, False), sides, strict=True):
        edge = rooms[0] - 8 if left else WIDTH - rooms[1] + 8
        heights = [LINE * len(told[j]) + 4 for j in side]
        order = sorted(range(len(side)), key=lambda place: -tips[side[place], 1])
        wanted = [y(tips[side[place], 1]) for place in order]
        for place, at in zip(order, _spread(wanted, [heights[p] for p in order], height - 40), strict=True):
            j = side[place]
            shapes.append(
                element("path", d=f"M{x(tips[j, 0]):.1f} {y(tips[j, 1]):.1f}L{edge:.1f} {at:.1f}", class_="leader")
            )
            shapes += lines_of_text(edge + (-3 if left else 3), at, told[j], "end" if left else "start")
    shapes.append(label(centre, height - 8, _axis_title(shown, 0, "across"), "middle", "soft"))
    shapes.append(label(centre, height - 26, _axis_title(shown, 1, "up"), "middle", "soft"))
    listed = "; ".join(f"{shown.names[j]} {fixed(tips[j, 0])} and {fixed(tips[j, 1])}" for j in named)
    description = f"Loadings on components 1 and 2: {listed}. The circle has the radius {ring:g}."
    return svg("biplot", height, "Biplot of components 1 and 2", description, shapes)


def _errors(shown: Shown) -> FloatArray:
    """Return half the 95 % intervals of the loadings on the first two components; 0 where nothing tells them."""
    errors = np.zeros((len(shown.names), 2))
    for i in (0, 1):
        if shown.loading_errors is not None and shown.angle_bounds is not None and shown.angle_bounds[i] < 90:
            errors[:, i] = around(0.0, shown.loading_errors[i])[1]
    return errors


def _axis_title(shown: Shown, i: int, way: str) -> str:
    return f"{way}: component {i + 1}" + (f" ({MAY_BE_NOISE})" if shown.lost(i) else "")


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


def _ground(cloud: ScoreMap, centre: float, middle: float) -> list[Html]:
    """Return the cloud of scores around the middle of the biplot, in its own units."""
    counts, edges = cloud.counts.sum(axis=0), cloud.edges
    scale = _PLANE / 2 / max(float(np.abs(ends).max()) for ends in edges)
    x, y = centre + scale * edges[0], middle - scale * edges[1]
    return _cells(counts, np.zeros(counts.shape, bool), x, y, "cloud")


def _cells(
    counts: FloatArray, unsure: FloatArray, x: FloatArray, y: FloatArray, class_: str, top: float | None = None
) -> list[Html]:
    """Return tiles for what is counted, stronger where it is more, hatched where it may be none."""
    top = float(counts.max()) if top is None else top
    shapes = []
    for i, j in np.argwhere(counts > 0):
        level = max(1, math.ceil(LEVELS * math.sqrt(float(counts[i, j]) / top)))
        box = {
            "x": float(x[i]),
            "y": float(y[j + 1]),
            "width": float(x[i + 1] - x[i]),
            "height": float(y[j] - y[j + 1]),
        }
        if unsure[i, j]:
            shapes.append(element("path", d=hatch(**box), class_="hatch"))
        else:
            shapes.append(element("rect", **box, class_=f"{class_} p{level}"))
    return shapes


def score_panel(cloud: ScoreMap, group: int) -> Html:
    """Draw one group of a map of scores, with its cells in the units of scores."""
    counts, unsure = cloud.counts[group], cloud.may_be_empty[group]
    (across, up), top = cloud.edges, float(cloud.counts.max()) or 1.0
    lower, upper, right = 292.0, 26.0, _MAP - 10.0
    rows = ticks_between(float(up[0]), float(up[-1]), 6)
    texts, power = told_ticks(rows)
    left = 14 + max(map(text_width, texts), default=0.0)
    columns = ticks_between(float(across[0]), float(across[-1]), 5)
    under, power_across = told_ticks(columns)
    x = left + (right - left) * (across - across[0]) / (across[-1] - across[0])
    y = lower - (lower - upper) * (up - up[0]) / (up[-1] - up[0])
    shapes = [element("rect", x=left, y=upper, width=right - left, height=lower - upper, class_="frame")]
    shapes += _cells(counts, unsure, x, y, "cell", top)
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
        f"{found} of {counts.size} cells hold more than noise; the fullest about {number(float(counts.max()), 3)} "
        f"{cloud.guarantee.unit.counted}, of {number(float(counts.sum()), 4)}."
    )
    name = cloud.groups[group]
    return svg(
        f"scores-{group + 1}", lower + 42, f"Score map{f' of {name}' if name else ''}", description, shapes, _MAP
    )
