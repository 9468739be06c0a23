"""What charts are drawn with: inline SVG without a style attribute, colours from the classes of the page."""

import math
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .markup import Html, element, fixed, number

FloatArray = NDArray[np.float64]

# Drawn narrow, so that letters stay readable where a phone scales the figure down.
WIDTH = 420
LEVELS = 5
"""Steps of colour on either side of zero; the classes `p1`..`p5` and `n1`..`n5` of the page."""
_NAME_WIDTH = 9.6  # in letters as high as the text


def svg(identifier: str, height: float, title: str, description: str, shapes: list[Html], width: int = WIDTH) -> Html:
    """Return a chart that a screen reader can name and describe."""
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


def axis(top: float, lower: float, upper: float, root: bool) -> Callable[[float], float]:
    """Return the map from values between 0 and `top` to heights; `root` stretches it near zero."""

    def y(value: float) -> float:
        share = min(max(value, 0.0) / top, 1.0)
        return lower - (lower - upper) * (math.sqrt(share) if root else share)

    return y


def ticks(top: float, y: Callable[[float], float], root: bool) -> list[float]:
    """Return round numbers from 0 to `top`, far enough apart to be read."""
    power = 10.0 ** math.floor(math.log10(top))
    if not root:
        step = next(unit for unit in (power / 10 * m for m in (1, 2, 5, 10, 20, 50)) if top / unit <= 6)
        return [step * i for i in range(int(top / step) + 1)]
    found = [0.0]
    for exponent in range(-3, 1):
        for digit in (1, 2, 5):
            value = digit * power * 10.0**exponent
            if value <= top and y(found[-1]) - y(value) >= 26:
                found.append(value)
    return found


def grid(ticks: list[float], y: Callable[[float], float], left: float, right: float) -> list[Html]:
    """Return lines across the figure, with their numbers on the left."""
    lines = [element("line", x1=left, x2=right, y1=y(tick), y2=y(tick), class_="grid") for tick in ticks]
    return lines + [label(left - 6, y(tick) + 4, number(tick, 3), "end", "soft") for tick in ticks]


def whisker(x: float, low: float, high: float) -> str:
    """Return the path of an interval."""
    return f"M{x:.1f} {low:.1f}V{high:.1f}M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8"


def label(x: float, y: float, text: object, anchor: str, class_: str | None = None) -> Html:
    """Return text in a figure."""
    return element("text", text, x=float(x), y=float(y), text_anchor=anchor, class_=class_)


def feature_name(name: str, x: float, y: float) -> Html:
    """Return the name of a feature, cut to its column; the whole of it is shown on hovering."""
    short = _shortened(name)
    full = element("title", name) if short != name else None
    return element("text", short, full, x=float(x), y=float(y), text_anchor="end")


def legend(keys: list[tuple[str, str]]) -> Html:
    """Return the key of a figure, in two columns above it."""
    shapes = []
    for place, (kind, text) in enumerate(keys):
        x, y = (66, 276)[place % 2], 10 + 20 * (place // 2)
        if kind in ("point", "ring"):
            shapes.append(element("circle", cx=x, cy=y, r=4.5 if kind == "point" else 3.0, class_=kind))
        elif kind == "whisker":
            shapes.append(element("path", d=whisker(x, y + 6, y - 6), class_=kind))
        else:
            shapes.append(element("line", x1=x - 8, x2=x + 8, y1=y, y2=y, class_=kind))
        shapes.append(label(x + 14, y + 4, text, "start", "small"))
    return element("g", shapes)


def tiles(
    identifier: str,
    title: str,
    description: str,
    values: FloatArray,
    names: Sequence[str],
    reach: float,
    faded: NDArray[np.bool_],
) -> Html:
    """Draw a matrix as coloured tiles under a scale from -reach to reach, `faded` ones as 0; numbers where they fit."""
    left, upper, row = 134, 22, 22
    columns = values.shape[1]
    cell = min(64.0, (WIDTH - left) / columns)
    shapes = [label(left + cell * (i + 0.5), 14, i + 1, "middle", "soft small") for i in range(columns)]
    for line, name in enumerate(names):
        y = upper + row * line
        shapes.append(feature_name(name, left - 8, y + 15))
        for i, value in enumerate(values[line]):
            level, x = "zero" if faded[line, i] else colour_level(float(value), reach), left + cell * i
            shapes.append(element("rect", x=x, y=y, width=cell - 1.5, height=row - 1.5, rx=2, class_=f"cell {level}"))
            if cell >= 38:
                text = fixed(float(value))
                shapes.append(label(x + cell / 2 - 0.75, y + 14.5, text, "middle", f"{level}-text small"))
    bottom, tile, start = upper + row * len(names) + 12, 18, left + 30
    steps = range(-LEVELS, LEVELS + 1)
    for place, step in enumerate(steps):
        level = colour_level(step, LEVELS)
        shapes.append(element("rect", x=start + tile * place, y=bottom, width=tile, height=16, class_=f"cell {level}"))
    shapes.append(label(start - 6, bottom + 12, fixed(-reach), "end", "soft small"))
    shapes.append(label(start + tile * len(steps) + 6, bottom + 12, fixed(reach), "start", "soft small"))
    return svg(identifier, bottom + 24, title, description, shapes)


def colour_level(value: float, scale: float) -> str:
    """Return the class of a value on a scale from -scale to scale.

    Examples
    --------
    >>> colour_level(0.9, 1.0), colour_level(0.01, 1.0), colour_level(-2.0, 1.0)
    ('p4', 'zero', 'n5')
    """
    level = round(LEVELS * value / scale)
    return "zero" if level == 0 else f"{'p' if level > 0 else 'n'}{min(abs(level), LEVELS)}"


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
