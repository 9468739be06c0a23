"""Charts of released values as inline SVG: no plotting package, nothing to load."""

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..releases.score_map import ScoreMap
from ..uncertainty import NOT_ABOVE_NOISE, SIZE, half_width, holds_zero
from .estimates import SHOWN_EIGENVALUES, Estimates
from .html import Html, element, fixed, number, power_of_ten, table

# Drawn narrow, so that letters stay readable where a phone scales the figure down.
WIDTH = 420
LEVELS = 5
"""Steps of colour on either side of zero; the classes `p1`..`p5` and `n1`..`n5` of the page."""
LETTER = 13
"""Height of the letters in a figure, as the page has it."""
LINE = 16
"""Distance between two lines of text."""
NAMED_FEATURES = 10
_CORRELATED_FEATURES = 12
# A tile that is narrower has no room for its number.
_TILE_WITH_NUMBER = 38
# Powers of ten that ticks are written out for; others stand at the axis, once.
_PLAIN = (-1, 5)

# Parts of charts.


def svg(
    identifier: str, height: float, title: str, description: str, shapes: Sequence[Html], width: int = WIDTH
) -> Html:
    """Return a chart that a screen reader can name and describe."""
    return element(
        "svg",
        element("title", title, id=f"{identifier}-title"),
        element("desc", description, id=f"{identifier}-desc"),
        list(shapes),
        viewBox=f"0 0 {width} {height:g}",
        role="img",
        aria_labelledby=f"{identifier}-title {identifier}-desc",
        class_="chart",
    )


def label(x: float, y: float, text: object, anchor: str, class_: str | None = None) -> Html:
    """Return text in a figure."""
    return element("text", text, x=float(x), y=float(y), text_anchor=anchor, class_=class_)


def line(start: tuple[float, float], end: tuple[float, float], class_: str) -> Html:
    """Return a straight line in a figure."""
    return element("line", x1=start[0], x2=end[0], y1=start[1], y2=end[1], class_=class_)


def lines_of_text(x: float, y: float, lines: Sequence[str], anchor: str) -> list[Html]:
    """Return lines of text around a height, none of them cut."""
    first = y - LINE * (len(lines) - 1) / 2 + 4
    return [label(x, first + LINE * place, text, anchor) for place, text in enumerate(lines)]


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers from `low` to `high`, at most `most` steps apart.

    Examples
    --------
    >>> ticks(-3.2, 4.1, 5)
    [-2.0, 0.0, 2.0, 4.0]
    """
    power = 10.0 ** math.floor(math.log10(high - low))
    step = next(unit for unit in (power / 10 * m for m in (1, 2, 5, 10, 20, 50)) if (high - low) / unit <= most)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def tick_texts(ticks: Sequence[float]) -> tuple[list[str], str]:
    """Return ticks as short texts, and their common power of ten for the title of the axis.

    Examples
    --------
    >>> tick_texts([0.0, 50.0, 100.0]), tick_texts([0.0, 5e14, 1e15])
    ((['0', '50', '100'], ''), (['0', '0.5', '1'], ' × 10¹⁵'))
    """
    largest = max(map(abs, ticks), default=0.0)
    power = math.floor(math.log10(largest)) if largest else 0
    if _PLAIN[0] <= power < _PLAIN[1]:
        return [number(tick, 3) for tick in ticks], ""
    return [number(tick / 10.0**power, 3) for tick in ticks], f" × {power_of_ten(power)}"  # noqa: RUF001


def whisker(x: float, low: float, high: float) -> str:
    """Return the path of an interval."""
    return f"M{x:.1f} {low:.1f}V{high:.1f}M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8"


def hatch(x: float, y: float, width: float, height: float) -> Html:
    """Return slanted lines over a box, from its lower left to its upper right."""
    path = ""
    for start in np.arange(-height + 3, width, 6):
        left, right = max(0.0, start), min(width, start + height)
        path += f"M{x + left:.1f} {y + height - (left - start):.1f}L{x + right:.1f} {y + height - right + start:.1f}"
    return element("path", d=path, class_="hatch")


def colour_level(value: float, scale: float) -> str:
    """Return the class of a value on a scale from -scale to scale.

    Examples
    --------
    >>> colour_level(0.9, 1.0), colour_level(0.01, 1.0), colour_level(-2.0, 1.0)
    ('p4', 'zero', 'n5')
    """
    level = round(LEVELS * value / scale)
    return "zero" if level == 0 else f"{'p' if level > 0 else 'n'}{min(abs(level), LEVELS)}"


def text_width(text: str) -> float:
    """Return an upper bound of the width of a text in a figure, by the widths of letters in a wide font."""
    width = 0.0
    for letter in text:
        kind = unicodedata.category(letter)
        if kind == "So":
            width += 1.45
        elif unicodedata.east_asian_width(letter) in "WF" or letter in "MW@%mw":
            width += 1.03
        elif letter.isupper() or letter in "<>=+&#~":
            width += 0.84
        elif letter in "fijlrt .,:;|'()[]":
            width += 0.42
        elif kind not in ("Mn", "Me", "Cf"):
            width += 0.6 if letter in "cksvxyz" else 0.65
    return LETTER * width


def wrapped(text: str, room: float) -> list[str]:
    """Return a text in lines that are no wider than `room`: broken at blanks and signs where there are any.

    Examples
    --------
    >>> wrapped("mean concave points", 110), wrapped("points", 32)
    (['mean concave', 'points'], ['poin', 'ts'])
    """
    lines = [""]
    for piece in re.findall(r"[^ _=./,;:)-]*[ _=./,;:)-]?", text):
        # A piece that is too wide for a line is broken anywhere.
        for part in [piece] if text_width(piece.rstrip()) <= room else piece:
            if lines[-1] and text_width((lines[-1] + part).rstrip()) > room:
                lines.append("")
            lines[-1] += part
    return [one.rstrip() for one in lines]


# Eigenvalues.


def scree(estimates: Estimates) -> Html:
    """Draw variances along the components with their intervals, the released eigenvalues, and the noise level."""
    released, variances, edges = estimates.released_eigenvalues, estimates.variances, estimates.edges
    assert released is not None
    assert variances is not None  # wherever there are eigenvalues
    count = min(SHOWN_EIGENVALUES, released.size)
    top, root = estimates.top(count) * 1.04 or 1.0, estimates.needs_root_scale
    upper, lower = 76, 276

    def y(value: float) -> float:
        share = min(max(value, 0.0) / top, 1.0)
        return lower - (lower - upper) * (math.sqrt(share) if root else share)

    marks = ticks(0.0, top, 6)
    if root:
        power, marks = 10.0 ** math.floor(math.log10(top)), [0.0]
        for value in (digit * power * 10.0**exponent for exponent in range(-3, 1) for digit in (1, 2, 5)):
            if value <= top and y(marks[-1]) - y(value) >= 26:
                marks.append(value)
    texts, axis_power = tick_texts(marks)
    left, right = 14 + max(map(text_width, texts)), WIDTH - 8
    step = (right - left) / count

    shapes = [line((left, y(mark)), (right, y(mark)), "grid") for mark in marks]
    shapes += [label(left - 6, y(mark) + 4, text, "end", "soft") for mark, text in zip(marks, texts, strict=True)]
    shapes.append(label(2, upper - 14, f"variance{axis_power}", "start", "soft"))
    for i, edge in enumerate([] if edges is None else edges[:count].tolist()):
        begin, end = left + step * i, left + step * (i + 1)
        shapes.append(element("rect", x=begin, y=y(edge), width=step, height=lower - y(edge), class_="below"))
        shapes.append(line((begin, y(edge)), (end, y(edge)), "edge"))
    for i in range(count):
        x = left + step * (i + 0.5)
        if i < variances.values.size:
            faint = " faint" if estimates.not_above(i) else ""
            if variances.intervals is not None:
                low, high = (y(float(end)) for end in variances.intervals[i])
                shapes.append(element("path", d=whisker(x, low, high), class_="whisker" + faint))
            shapes.append(element("circle", cx=x, cy=y(float(variances.values[i])), r=4.5, class_="point" + faint))
        if released[i] >= 0:
            shapes.append(element("circle", cx=x + 8, cy=y(float(released[i])), r=3, class_="hollow"))
        if count <= 10 or i % 2 == 0:
            shapes.append(label(x, lower + 16, i + 1, "middle"))
    shapes.append(label((left + right) / 2, lower + 34, "component", "middle", "soft"))
    shapes.append(_legend(estimates))
    listed = "; ".join(variances.in_words(i, SIZE) for i in range(min(count, variances.values.size)))
    description = (
        f"The first {count} released eigenvalues fall from {number(released[0])} to {number(released[count - 1])}. "
        f"Variances along the components are {listed}."
    )
    if edges is not None:
        description += f" The noise level is {number(edges[0])} for the first."
    return svg("scree", lower + 40, "Scree plot", description, shapes)


def _legend(estimates: Estimates) -> Html:
    """Return the key of the scree plot above it, in as many lines as its texts need."""
    keys = [("point", "variance")]
    keys += [("whisker", estimates.interval_name)] if estimates.has_intervals else []
    keys += [("hollow", "released eigenvalue")]
    level = "noise level, uncorrelated" if estimates.of_correlation else "noise level"
    keys += [] if estimates.edges is None else [("edge", level)]
    shapes, x, y = [], 12.0, 10.0
    for kind, text in keys:
        width = text_width(text)
        if x + 14 + width > WIDTH:
            x, y = 12.0, y + 20
        if kind == "whisker":
            shapes.append(element("path", d=whisker(x, y + 6, y - 6), class_=kind))
        elif kind == "edge":
            shapes.append(line((x - 8, y), (x + 8, y), kind))
        else:
            shapes.append(element("circle", cx=x, cy=y, r=4.5 if kind == "point" else 3.0, class_=kind))
        shapes.append(label(x + 14, y + 4, text, "start"))
        x += 40 + width
    return element("g", shapes)


# Correlations.


def ordered_features(estimates: Estimates) -> list[int]:
    """Return the features of the heat map, correlated ones beside each other, whatever the sign."""
    features = estimates.leading_features(_CORRELATED_FEATURES)
    if len(features) < 3:
        return features
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    assert estimates.correlations is not None
    values = np.nan_to_num(estimates.correlations[np.ix_(features, features)])
    apart = np.clip(1 - np.abs(values + values.T) / 2, 0.0, 1.0)
    np.fill_diagonal(apart, 0.0)
    order = leaves_list(linkage(squareform(apart, checks=False), "average", optimal_ordering=True))
    return [features[place] for place in order]


def correlations(estimates: Estimates) -> Html:
    """Draw the correlations of the leading features below the diagonal, hatched where they may be 0."""
    assert estimates.correlations is not None
    features, intervals = ordered_features(estimates), estimates.correlation_intervals
    room, least, gap = 150, 24, 1.5
    cell = min(64.0, (WIDTH - room) / len(features))
    width = cell - gap
    shapes: list[Html] = []
    y, unsure = 2.0, 0
    for row, j in enumerate(features):
        text = wrapped(f"{row + 1} {estimates.names[j]}", room - 10)
        height = max(least, LINE * len(text) + 6)
        shapes += lines_of_text(room - 8, y + height / 2, text, "end")
        # On the diagonal, where all are 1, stands the number of the column below.
        shapes.append(label(room + cell * (row + 0.5), y + height / 2 + 5, row + 1, "middle", "soft"))
        for column, i in enumerate(features[:row]):
            x, value = room + cell * column, float(estimates.correlations[j, i])
            may_be_zero = intervals is not None and holds_zero(intervals[j, i])
            level = "zero" if may_be_zero else colour_level(value, 1.0)
            box = {"x": x, "y": y, "width": width, "height": height - gap}
            shapes.append(element("rect", **box, rx=2, class_=f"cell {level}"))
            if may_be_zero:
                unsure += 1
                shapes.append(hatch(**box))
            elif width >= _TILE_WITH_NUMBER:
                middle = x + width / 2, y + (height - gap) / 2 + 5
                shapes.append(label(*middle, fixed(value), "middle", f"{level}-text"))
        y += height
    # The key of colours from -1 to 1, and of hatched tiles.
    y, tile, start = y + 12, 16, room + 18
    for place, step in enumerate(range(-LEVELS, LEVELS + 1)):
        level = colour_level(step, LEVELS)
        shapes.append(element("rect", x=start + tile * place, y=y, width=tile, height=16, class_=f"cell {level}"))
    end = start + tile * (2 * LEVELS + 1)
    shapes.append(label(start - 6, y + 13, "\N{MINUS SIGN}1", "end", "soft"))
    shapes.append(label(end + 6, y + 13, "1", "start", "soft"))
    shapes.append(element("rect", x=start, y=y + 22, width=tile, height=16, class_="cell zero"))
    shapes.append(hatch(start, y + 22, tile, 16))
    shapes.append(label(start + tile + 6, y + 35, "may be 0", "start", "soft"))
    description = (
        f"Correlations of {len(features)} features, from minus 1 (orange) over 0 to 1 (blue); {unsure} of "
        f"{len(features) * (len(features) - 1) // 2} may be 0 and are hatched. The table has the same numbers."
    )
    return svg("correlations", y + 44, "Correlations", description, shapes)


# Numbers with a bar beside each.

_WIDTH, _HEIGHT, _EDGE = 120, 18, 4


@dataclass(frozen=True)
class Strip:
    """One row: a name, its number in words, the number itself, and its interval, whose ends may be infinite."""

    name: str
    text: str
    value: float
    ends: tuple[float, float] | None = None


def strip_table(label: str, columns: tuple[str, str, str], rows: Sequence[Strip], lost: bool = False) -> Html:
    """Return a table of names and numbers, each beside its bar and interval on one common axis through 0."""
    values = [row.value for row in rows if math.isfinite(row.value)]
    # An interval that is far wider than all values is cut.
    farthest = 3 * max(map(abs, values), default=0.0)
    drawn = [0.0, *values, *(end for row in rows for end in row.ends or () if abs(end) <= farthest)]
    low, high = (min(drawn), max(drawn)) if min(drawn) < max(drawn) else (0.0, 1.0)
    cells = [(row.name, row.text, _drawn(row, low, high)) for row in rows]
    return table(label, columns, cells, class_="strips lost" if lost else "strips")


def _drawn(row: Strip, low: float, high: float) -> Html:
    def x(value: float) -> float:
        return _EDGE + (_WIDTH - 2 * _EDGE) * min(max((value - low) / (high - low), 0.0), 1.0)

    middle, zero = _HEIGHT / 2, x(0.0)
    side = "p4" if row.value >= 0 else "n4"
    if row.ends is not None and holds_zero(row.ends):
        side = "zero-bar"
    start, end = sorted((zero, x(row.value)))
    shapes = [element("rect", x=start, y=middle - 4, width=max(end - start, 1.0), height=8, class_=f"cell {side}")]
    if row.ends is not None and row.ends[0] < row.ends[1]:
        left, right = x(row.ends[0]), x(row.ends[1])
        # An end beyond the axis is an arrow, and no end.
        first = "l3 -3m-3 3l3 3" if row.ends[0] < low else "m0 -3v6"
        last = "l-3 -3m3 3l-3 3" if row.ends[1] > high else "m0 -3v6"
        path = f"M{left:.1f} {middle}H{right:.1f}M{left:.1f} {middle}{first}M{right:.1f} {middle}{last}"
        shapes.append(element("path", d=path, class_="error"))
    shapes.append(line((zero, 0), (zero, _HEIGHT), "axis"))
    return element("svg", shapes, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", aria_hidden="true", class_="strip")


# The plane of two components.

_PLANE = 200  # width and height of the plane of the biplot; names stand to either side
_MARGIN = 20  # of a side without names
_MAP = 320


def biplot(estimates: Estimates) -> Html:
    """Draw features as arrows in the plane of the first two components."""
    tips = estimates.components[:2].T
    lengths = np.hypot(*tips.T)
    named = [int(j) for j in np.argsort(-lengths, kind="stable")[:NAMED_FEATURES] if lengths[j] > 0]
    # Half the 95 % intervals of the loadings; 0 where they are not known.
    errors = np.zeros((len(estimates.names), 2))
    for i in (0, 1):
        if (
            estimates.loading_errors is not None
            and estimates.angle_bounds is not None
            and estimates.angle_bounds[i] < 90
        ):
            errors[:, i] = half_width(estimates.loading_errors[i])
    reach = min(1.05, max((np.abs(tips[named]) + errors[named]).max(initial=0.0), lengths.max()) * 1.04) or 1.0
    sides = [[j for j in named if (tips[j, 0] < 0) == left] for left in (True, False)]
    # A side without names leaves its room to the other.
    free = WIDTH - _PLANE
    rooms = [free / 2, free / 2] if all(sides) else [_MARGIN, free - _MARGIN] if sides[1] else [free - _MARGIN, _MARGIN]
    names = {j: wrapped(estimates.names[j], room - 14) for side, room in zip(sides, rooms, strict=True) for j in side}
    height = max(_PLANE, *(sum(LINE * len(names[j]) + 4 for j in side) for side in sides)) + 52
    half = _PLANE / 2
    centre, middle, scale = rooms[0] + half, (height - 36) / 2 + 2, half / reach
    x, y = centre + scale * tips[:, 0], middle - scale * tips[:, 1]

    shapes = [line((centre - half, middle), (centre + half, middle), "axis")]
    shapes.append(line((centre, middle - half), (centre, middle + half), "axis"))
    radius = next(size for size in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02) if size <= reach or size == 0.02)
    shapes.append(element("circle", cx=centre, cy=middle, r=radius * scale, class_="circle"))
    faint = " faint" if estimates.not_above(1) or estimates.not_above(0) else ""
    for j in range(len(tips)):
        if j not in names:
            shapes.append(element("circle", cx=x[j], cy=y[j], r=1.8, class_="other"))
    for j in named:
        if errors[j].any():
            rx, ry = (float(size) for size in errors[j] * scale)
            shapes.append(element("ellipse", cx=x[j], cy=y[j], rx=rx, ry=ry, class_="doubt"))
        shapes.append(element("path", d=_arrow(centre, middle, x[j], y[j]), class_=f"arrow{faint}"))
    for left, side in zip((True, False), sides, strict=True):
        edge = rooms[0] - 8 if left else WIDTH - rooms[1] + 8
        order = sorted(side, key=lambda j: -tips[j, 1])
        heights = [LINE * len(names[j]) + 4 for j in order]
        for j, at in zip(order, _spread([y[j] for j in order], heights, height - 40), strict=True):
            shapes.append(element("path", d=f"M{x[j]:.1f} {y[j]:.1f}L{edge:.1f} {at:.1f}", class_="leader"))
            shapes += lines_of_text(edge + (-3 if left else 3), at, names[j], "end" if left else "start")
    for i, (way, above) in enumerate((("across", 8), ("up", 26))):
        title = f"{way}: component {i + 1}" + (f" ({NOT_ABOVE_NOISE})" if estimates.not_above(i) else "")
        shapes.append(label(centre, height - above, title, "middle", "soft"))
    listed = "; ".join(f"{estimates.names[j]} {fixed(tips[j, 0])} and {fixed(tips[j, 1])}" for j in named)
    description = f"Loadings on components 1 and 2: {listed}. The circle has the radius {radius:g}."
    return svg("biplot", height, "Biplot of components 1 and 2", description, shapes)


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
    counts, unsure, name = cloud.counts[group], cloud.may_be_empty[group], cloud.groups[group]
    (across, up), top = cloud.edges, float(cloud.counts.max()) or 1.0
    columns, rows = ticks(float(across[0]), float(across[-1]), 5), ticks(float(up[0]), float(up[-1]), 6)
    (under, power_across), (beside, power_up) = tick_texts(columns), tick_texts(rows)
    lower, upper, right = 292.0, 26.0, _MAP - 10.0
    left = 14 + max(map(text_width, beside), default=0.0)

    def x(score: float) -> float:
        return left + (right - left) * float((score - across[0]) / (across[-1] - across[0]))

    def y(score: float) -> float:
        return lower - (lower - upper) * float((score - up[0]) / (up[-1] - up[0]))

    shapes = [element("rect", x=left, y=upper, width=right - left, height=lower - upper, class_="frame")]
    for i, j in np.argwhere(counts > 0):
        box = {"x": x(across[i]), "y": y(up[j + 1])}
        box |= {"width": x(across[i + 1]) - box["x"], "height": y(up[j]) - box["y"]}
        if unsure[i, j]:
            shapes.append(hatch(**box))
        else:
            level = max(1, math.ceil(LEVELS * math.sqrt(float(counts[i, j]) / top)))
            shapes.append(element("rect", **box, class_=f"cell p{level}"))
    for tick, text in zip(rows, beside, strict=True):
        shapes.append(line((left - 4, y(tick)), (left, y(tick)), "axis"))
        shapes.append(label(left - 7, y(tick) + 4, text, "end", "soft"))
    for tick, text in zip(columns, under, strict=True):
        shapes.append(line((x(tick), lower), (x(tick), lower + 4), "axis"))
        half = text_width(text) / 2
        shapes.append(label(min(max(x(tick), half), _MAP - half), lower + 18, text, "middle", "soft"))
    first, second = (f"component {place + 1}" for place in cloud.grid.axes)
    shapes.append(label(2, 14, f"{second}{power_up}", "start", "soft"))
    shapes.append(label((left + right) / 2, lower + 36, f"{first}{power_across}", "middle", "soft"))
    found = int((~unsure & (counts > 0)).sum())
    description = (
        f"{found} of {counts.size} cells are distinguishable from noise; the fullest has about "
        f"{number(float(counts.max()), 3)} {cloud.guarantee.unit.counted}, of {number(float(counts.sum()), 4)}."
    )
    title = f"Score map of {name}" if name else "Score map"
    return svg(f"scores-{group + 1}", lower + 42, title, description, shapes, _MAP)
