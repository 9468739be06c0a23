"""Numbers with a small picture of each: one row a feature, so that no name is cut and no number leaves its axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .cards import table
from .markup import Html, element

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
