"""The figures of a report as inline SVG: no plotting package, no style attribute, colours from the page's classes."""

import math
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .markup import Html, element, fixed, number, percent
from .reading import SHOWN_EIGENVALUES, Reading

FloatArray = NDArray[np.float64]

# Drawn narrow, so that letters stay readable where a phone scales the figure down.
WIDTH = 420
SHOWN_COMPONENTS = 6
SHOWN_FEATURES = 24
CORRELATED_FEATURES = 12
BAR_FEATURES = 8
LEVELS = 5
"""Steps of colour on either side of zero; the classes `p1`..`p5` and `n1`..`n5` of the page."""
_NAME_WIDTH = 9.6  # in letters as high as the text


def scree(reading: Reading) -> Html:
    """Draw eigenvalues with their intervals, the released ones beside them, and the noise edge."""
    assert reading.eigenvalues is not None
    assert reading.released_eigenvalues is not None
    count = min(SHOWN_EIGENVALUES, reading.eigenvalues.size)
    values, released = reading.eigenvalues[:count], reading.released_eigenvalues[:count]
    edge, intervals = reading.edge, reading.intervals
    debiased = reading.alignments is not None
    ends = [values, released] if debiased else [values]
    top = max(float(np.max(end)) for end in (*ends, *([] if intervals is None else [intervals[:, 1]])))
    top = max(top, 0.0 if edge is None else edge) * 1.04 or 1.0
    root = needs_root_scale(reading)
    left, right, upper, lower = 56, WIDTH - 8, 54, 254
    y = _axis(top, lower, upper, root)
    step = (right - left) / count

    shapes = _grid(_ticks(top, y, root), y, left, right)
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
            shapes.append(element("path", d=_whisker(x, low, high), class_="whisker faint" if hidden else "whisker"))
        shapes.append(element("circle", cx=x, cy=y(float(values[i])), r=4.5, class_=shade))
        if debiased and released[i] >= 0:
            shapes.append(element("circle", cx=x + 8, cy=y(float(released[i])), r=3, class_="ring"))
        if count <= 10 or i % 2 == 0:
            shapes.append(_label(x, lower + 16, i + 1, "middle"))
    shapes.append(_label((left + right) / 2, lower + 34, "component", "middle", "soft"))
    keys = [("point", "estimate" if debiased else "as released")]
    keys += [("whisker", "95 % interval")] if intervals is not None else []
    keys += [("ring", "as released")] if debiased else []
    keys += [("edge", "noise edge")] if edge is not None else []
    shapes.append(_legend(keys))
    description = f"The first {count} eigenvalues fall from {number(values[0])} to {number(values[-1])}."
    if edge is not None:
        description += f" The noise edge is {number(edge)}; {reading.n_visible} released eigenvalues are above it."
    return _svg("scree", 294, "Scree plot", description, shapes)


def needs_root_scale(reading: Reading) -> bool:
    """Return whether the first eigenvalue would flatten all others on a linear axis."""
    assert reading.eigenvalues is not None
    values = reading.eigenvalues[:SHOWN_EIGENVALUES]
    return bool(values[values.size // 2] < 0.05 * values[0])


def shares(reading: Reading) -> Html:
    """Draw the share of variance of every component, and the running total."""
    part = reading.shares
    assert part is not None
    count = min(SHOWN_EIGENVALUES, part.size)
    part, running = part[:count], np.minimum(np.cumsum(part)[:count], 1.0)
    left, right, upper, lower = 48, WIDTH - 8, 18, 212
    y = _axis(1.0, lower, upper, False)
    step = (right - left) / count
    shapes = [
        join
        for tick in (0.0, 0.25, 0.5, 0.75, 1.0)
        for join in (
            element("line", x1=left, x2=right, y1=y(tick), y2=y(tick), class_="grid"),
            _label(left - 6, y(tick) + 4, f"{100 * tick:.0f} %", "end", "soft"),
        )
    ]
    width = min(34.0, 0.7 * step)
    for i in range(count):
        x, height = left + step * (i + 0.5), lower - y(float(part[i]))
        shapes.append(element("rect", x=x - width / 2, y=lower - height, width=width, height=height, class_="bar"))
        if count <= 10 or i % 2 == 0:
            shapes.append(_label(x, lower + 16, i + 1, "middle"))
    points = [(left + step * (i + 0.5), y(float(running[i]))) for i in range(count)]
    shapes.append(element("path", d="M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in points), class_="running"))
    shapes += [element("circle", cx=px, cy=py, r=2.5, class_="running-point") for px, py in points]
    shapes.append(_label((left + right) / 2, lower + 34, "component", "middle", "soft"))
    description = (
        f"The first component explains {percent(float(part[0]))} of the variance, the first {count} together "
        f"{percent(float(running[-1]))}."
    )
    return _svg("shares", 252, "Explained variance", description, shapes)


def heat_map(reading: Reading) -> Html:
    """Draw loadings, one row a feature and one column a component, as colours with their numbers."""
    features = leading_features(reading)
    shown = reading.components[:SHOWN_COMPONENTS][:, features].T
    reach = float(np.abs(shown).max()) or 1.0
    description = (
        f"Loadings of {len(features)} features on {shown.shape[1]} components, from {fixed(-reach)} (orange) over 0 to "
        f"{fixed(reach)} (blue). The table below has the same numbers."
    )
    names = [reading.names[j] for j in features]
    return _tiles("loadings", "Loadings", description, shown, names, reach)


def correlations(reading: Reading) -> Html:
    """Draw the correlations of the leading features; columns are numbered like the rows."""
    assert reading.correlations is not None
    features = leading_features(reading, CORRELATED_FEATURES)
    shown = reading.correlations[np.ix_(features, features)]
    names = [f"{line + 1} {reading.names[j]}" for line, j in enumerate(features)]
    description = f"Correlations of {len(features)} features, from minus 1 (orange) over 0 to 1 (blue)."
    return _tiles("correlations", "Correlations", description, shown, names, 1.0)


def _tiles(
    identifier: str, title: str, description: str, values: FloatArray, names: Sequence[str], reach: float
) -> Html:
    """Draw a matrix as coloured tiles under a scale from -reach to reach; numbers where they fit."""
    left, upper, row = 134, 22, 22
    columns = values.shape[1]
    cell = min(64.0, (WIDTH - left) / columns)
    shapes = [_label(left + cell * (i + 0.5), 14, i + 1, "middle", "soft small") for i in range(columns)]
    for line, name in enumerate(names):
        y = upper + row * line
        shapes.append(_name(name, left - 8, y + 15))
        for i, value in enumerate(values[line]):
            level, x = _level(float(value), reach), left + cell * i
            shapes.append(element("rect", x=x, y=y, width=cell - 1.5, height=row - 1.5, rx=2, class_=f"cell {level}"))
            if cell >= 38:
                text = fixed(float(value))
                shapes.append(_label(x + cell / 2 - 0.75, y + 14.5, text, "middle", f"{level}-text small"))
    bottom, tile, start = upper + row * len(names) + 12, 18, left + 30
    steps = range(-LEVELS, LEVELS + 1)
    for place, step in enumerate(steps):
        level = _level(step, LEVELS)
        shapes.append(element("rect", x=start + tile * place, y=bottom, width=tile, height=16, class_=f"cell {level}"))
    shapes.append(_label(start - 6, bottom + 12, fixed(-reach), "end", "soft small"))
    shapes.append(_label(start + tile * len(steps) + 6, bottom + 12, fixed(reach), "start", "soft small"))
    return _svg(identifier, bottom + 24, title, description, shapes)


def bars(reading: Reading, component: int) -> Html:
    """Draw the largest loadings of one component as bars to either side of zero."""
    loadings = reading.components[component]
    largest = np.argsort(-np.abs(loadings), kind="stable")[:BAR_FEATURES]
    width, left, row, label = 320, 134, 24, 44
    below, above = max(0.0, -float(loadings[largest].min())), max(0.0, float(loadings[largest].max()))
    # Each side gets its share of the width, and room for its numbers.
    start, end = left + (label if below else 0), width - (label if above else 0)
    length = (end - start) / ((below + above) or 1.0)
    zero = start + below * length
    shapes = []
    for line, j in enumerate(largest):
        value, y = float(loadings[j]), row * line
        size = abs(value) * length
        x = zero if value >= 0 else zero - size
        side = "p4" if value >= 0 else "n4"
        shapes.append(_name(reading.names[j], left - 8, y + 15))
        shapes.append(element("rect", x=x, y=y + 3, width=max(size, 0.5), height=row - 8, rx=2, class_=f"cell {side}"))
        anchor, place = ("start", x + size + 5) if value >= 0 else ("end", x - 5)
        shapes.append(_label(place, y + 15, fixed(value), anchor, "small"))
    shapes.append(element("line", x1=zero, x2=zero, y1=0, y2=row * len(largest), class_="axis"))
    title = f"Largest loadings of component {component + 1}"
    described = ", ".join(f"{reading.names[j]} {fixed(float(loadings[j]))}" for j in largest)
    return _svg(f"bars-{component + 1}", row * len(largest) + 2, title, described + ".", shapes, width)


def beliefs(epsilon: float, priors: Sequence[float] = (0.01, 0.1, 0.5, 0.9)) -> Html:
    """Draw how far a belief can move under a factor of e^epsilon on its odds."""
    left, right, row, upper = 110, WIDTH - 22, 28, 24

    def x(belief: float) -> float:
        return left + (right - left) * belief

    shapes = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        shapes.append(element("line", x1=x(tick), x2=x(tick), y1=upper, y2=upper + row * len(priors), class_="grid"))
        shapes.append(_label(x(tick), 14, f"{100 * tick:.0f} %", "middle", "soft small"))
    for line, prior in enumerate(priors):
        low, high = belief_range(prior, epsilon)
        y = upper + row * line + row / 2
        shapes.append(_label(left - 12, y + 4, f"before: {100 * prior:.0f} %", "end"))
        shapes.append(
            element("rect", x=x(low), y=y - 7, width=max(x(high) - x(low), 1.0), height=14, rx=7, class_="range")
        )
        shapes.append(element("circle", cx=x(prior), cy=y, r=4.5, class_="point"))
    described = "; ".join(
        f"a belief of {100 * prior:.0f} % stays between {100 * low:.2g} and {100 * high:.3g} %"
        for prior in priors
        for low, high in [belief_range(prior, epsilon)]
    )
    return _svg("beliefs", upper + row * len(priors) + 4, "How far a belief can move", described + ".", shapes)


def belief_range(prior: float, epsilon: float) -> tuple[float, float]:
    """Return the least and the largest belief after a change of the odds by at most e^epsilon.

    Examples
    --------
    >>> [round(end, 3) for end in belief_range(0.5, 1.0)]
    [0.269, 0.731]
    """
    odds = math.log(prior / (1 - prior))
    low, high = (0.5 * (1 + math.tanh((odds + shift) / 2)) for shift in (-epsilon, epsilon))
    return low, high


def leading_features(reading: Reading, count: int = SHOWN_FEATURES) -> list[int]:
    """Return the features with the largest loadings on the shown components, in their own order."""
    weight = (reading.components[:SHOWN_COMPONENTS] ** 2).sum(axis=0)
    return sorted(int(j) for j in np.argsort(-weight, kind="stable")[:count])


def _svg(identifier: str, height: float, title: str, description: str, shapes: list[Html], width: int = WIDTH) -> Html:
    return element(
        "svg",
        element("title", title, id=f"{identifier}-title"),
        element("desc", description, id=f"{identifier}-desc"),
        shapes,
        viewBox=f"0 0 {width} {height:g}",
        role="img",
        aria_labelledby=f"{identifier}-title {identifier}-desc",
        class_="chart",
    )


def _axis(top: float, lower: float, upper: float, root: bool) -> Callable[[float], float]:
    def y(value: float) -> float:
        share = min(max(value, 0.0) / top, 1.0)
        return lower - (lower - upper) * (math.sqrt(share) if root else share)

    return y


def _ticks(top: float, y: Callable[[float], float], root: bool) -> list[float]:
    """Return round numbers from 0 to `top`, far enough apart to be read."""
    power = 10.0 ** math.floor(math.log10(top))
    if not root:
        step = next(unit for unit in (power / 10 * m for m in (1, 2, 5, 10, 20, 50)) if top / unit <= 6)
        return [step * i for i in range(int(top / step) + 1)]
    ticks = [0.0]
    for exponent in range(-3, 1):
        for digit in (1, 2, 5):
            value = digit * power * 10.0**exponent
            if value <= top and y(ticks[-1]) - y(value) >= 26:
                ticks.append(value)
    return ticks


def _grid(ticks: list[float], y: Callable[[float], float], left: float, right: float) -> list[Html]:
    lines = [element("line", x1=left, x2=right, y1=y(tick), y2=y(tick), class_="grid") for tick in ticks]
    return lines + [_label(left - 6, y(tick) + 4, number(tick, 3), "end", "soft") for tick in ticks]


def _whisker(x: float, low: float, high: float) -> str:
    return f"M{x:.1f} {low:.1f}V{high:.1f}M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8"


def _label(x: float, y: float, text: object, anchor: str, class_: str | None = None) -> Html:
    return element("text", text, x=float(x), y=float(y), text_anchor=anchor, class_=class_)


def _name(name: str, x: float, y: float) -> Html:
    short = _shortened(name)
    full = element("title", name) if short != name else None
    return element("text", short, full, x=float(x), y=float(y), text_anchor="end")


def _shortened(name: str) -> str:
    """Cut a name to the width of its column, by the widths of letters in a wide font."""
    room = _NAME_WIDTH
    for place, letter in enumerate(name):
        wide = unicodedata.east_asian_width(letter) in "WF" or letter in "MW@%mw"
        broad, narrow = letter.isupper() or letter in "<>=+&#~", letter in "fijlrt .,:;|'()[]"
        room -= 1.03 if wide else 0.84 if broad else 0.42 if narrow else 0.64
        if room < 0:
            return name[: place - 1] + "…"
    return name


def _legend(keys: list[tuple[str, str]]) -> Html:
    """Return the key of a figure, in two columns above it."""
    shapes = []
    for place, (kind, text) in enumerate(keys):
        x, y = (66, 276)[place % 2], 10 + 20 * (place // 2)
        if kind in ("point", "ring"):
            shapes.append(element("circle", cx=x, cy=y, r=4.5 if kind == "point" else 3.0, class_=kind))
        elif kind == "whisker":
            shapes.append(element("path", d=_whisker(x, y + 6, y - 6), class_=kind))
        else:
            shapes.append(element("line", x1=x - 8, x2=x + 8, y1=y, y2=y, class_=kind))
        shapes.append(_label(x + 14, y + 4, text, "start", "small"))
    return element("g", shapes)


def _level(value: float, scale: float) -> str:
    level = round(LEVELS * value / scale)
    return "zero" if level == 0 else f"{'p' if level > 0 else 'n'}{min(abs(level), LEVELS)}"
