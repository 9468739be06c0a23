"""The parts of a page: markup that escapes all text, parts of charts, cards, tables."""

import html
import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

_VOID = {"meta", "br"}


class Html(str):
    """A piece of finished markup."""

    __slots__ = ()


def element(name: str, /, *children: Any, **attributes: Any) -> Html:
    """Return an element; children that are not `Html` are escaped, None is left out.

    Examples
    --------
    >>> print(element("p", "a < b", element("b", 1), class_="note"))
    <p class="note">a &lt; b<b>1</b></p>
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(*children)}</{name}>")


def join(*children: Any) -> Html:
    """Return children one after the other; lists and tuples are taken apart."""
    pieces: list[str] = []
    for child in children:
        if isinstance(child, list | tuple):
            pieces.append(join(*child))
        elif child is not None:
            # A percent sign stays on the line of its number.
            text = str(child).replace(" %", "\N{NO-BREAK SPACE}%")
            pieces.append(child if isinstance(child, Html) else html.escape(text))
    return Html("".join(pieces))


def _text(value: Any) -> str:
    # Coordinates need no more than two decimals.
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, digits: int = 4) -> str:
    """Return a number for readers: a few significant digits, powers of ten where needed, a true minus sign.

    Examples
    --------
    >>> number(0.123456), number(-1234567.0), number(1.5e-7), number(0.0)
    ('0.1235', '−1,235,000', '1.5 × 10⁻⁷', '0')
    """
    if value == 0:
        return "0"
    magnitude = abs(value)
    if 1e-3 <= magnitude < 1e9:
        rounded = float(f"{magnitude:.{digits}g}")
        text = f"{rounded:,.10f}".rstrip("0").rstrip(".")
    else:
        mantissa, exponent = f"{magnitude:.{digits - 1}e}".split("e")
        text = f"{mantissa.rstrip('0').rstrip('.')} × {power_of_ten(int(exponent))}"  # noqa: RUF001
    return ("\N{MINUS SIGN}" if value < 0 else "") + text


def power_of_ten(exponent: int) -> str:
    """Return a power of ten as it is written by hand."""
    return f"10{str(exponent).translate(_SUPERSCRIPT)}"


def fixed(value: float, places: int = 2) -> str:
    """Return a number with a fixed number of decimals and a true minus sign."""
    text = f"{abs(value):.{places}f}"
    return ("\N{MINUS SIGN}" if value < 0 and text.strip("0.") else "") + text


# Drawn narrow, so that letters stay readable where a phone scales the figure down.
WIDTH = 420
LEVELS = 5
"""Steps of colour on either side of zero; the classes `p1`..`p5` and `n1`..`n5` of the page."""
LETTER = 13
"""Height of the letters in a figure, as the page has it."""
LINE = 16
"""From one line of text to the next."""
# Powers of ten that ticks are written out for; others stand at the axis, once.
_PLAIN = (-1, 5)


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


def ticks_between(low: float, high: float, most: int) -> list[float]:
    """Return at most so many round numbers from `low` to `high`.

    Examples
    --------
    >>> ticks_between(-3.2, 4.1, 5)
    [-2.0, 0.0, 2.0, 4.0]
    """
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(power * m for m in (1, 2, 5, 10, 20) if (high - low) / (power * m) < most)
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


def hatch(x: float, y: float, width: float, height: float) -> str:
    """Return the path of slanted lines over a box, from its lower left to its upper right."""
    lines = []
    for start in np.arange(-height + 3, width, 6):
        left, right = max(0.0, start), min(width, start + height)
        lines.append(
            f"M{x + left:.1f} {y + height - (left - start):.1f}L{x + right:.1f} {y + height - right + start:.1f}"
        )
    return "".join(lines)


def label(x: float, y: float, text: object, anchor: str, class_: str | None = None) -> Html:
    """Return text in a figure."""
    return element("text", text, x=float(x), y=float(y), text_anchor=anchor, class_=class_)


def lines_of_text(x: float, y: float, lines: Sequence[str], anchor: str, class_: str | None = None) -> list[Html]:
    """Return lines of text around a height, none of them cut."""
    first = y - LINE * (len(lines) - 1) / 2 + 4
    return [label(x, first + LINE * place, line, anchor, class_) for place, line in enumerate(lines)]


def legend(keys: Sequence[tuple[str, str]]) -> Html:
    """Return the key of a figure above it, in as many lines as its texts need."""
    shapes, x, y = [], 12.0, 10.0
    for kind, text in keys:
        if x + 14 + text_width(text) > WIDTH:
            x, y = 12.0, y + 20
        if kind in ("point", "hollow"):
            shapes.append(element("circle", cx=x, cy=y, r=4.5 if kind == "point" else 3.0, class_=kind))
        elif kind == "whisker":
            shapes.append(element("path", d=whisker(x, y + 6, y - 6), class_=kind))
        else:
            shapes.append(element("line", x1=x - 8, x2=x + 8, y1=y, y2=y, class_=kind))
        shapes.append(label(x + 14, y + 4, text, "start"))
        x += 14 + text_width(text) + 26
    return element("g", shapes)


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
    """Return how wide a text may be in a figure, by the widths of letters in a wide font."""
    return LETTER * sum(map(_letter_width, text))


def wrapped(text: str, room: float) -> list[str]:
    """Return a text in lines that are no wider than `room`: broken at blanks and signs where there are any.

    Examples
    --------
    >>> wrapped("mean concave points", 110), wrapped("points", 32)
    (['mean concave', 'points'], ['poin', 'ts'])
    """
    lines, line = [], ""
    for piece in _pieces(text, room):
        if line and text_width((line + piece).rstrip()) > room:
            lines.append(line.rstrip())
            line = ""
        line += piece
    return [*lines, line.rstrip()]


def _pieces(text: str, room: float) -> Iterator[str]:
    """Yield what a line may end after; a piece that is too wide for a line is taken apart."""
    piece = ""
    for letter in text:
        joined = unicodedata.category(letter) in ("Mn", "Me", "Mc", "Cf")  # belongs to the letter before it
        if piece and not joined and text_width(piece + letter) > room:
            yield piece
            piece = ""
        piece += letter
        if letter in " _-=./,;:)":
            yield piece
            piece = ""
    if piece:
        yield piece


def _letter_width(letter: str) -> float:
    """Return the width of a letter in heights of the text."""
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.category(letter) == "So":
        return 1.45
    if unicodedata.east_asian_width(letter) in "WF" or letter in "MW@%mw":
        return 1.03
    if letter.isupper() or letter in "<>=+&#~":
        return 0.84
    if letter in "cksvxyz":
        return 0.6
    return 0.42 if letter in "fijlrt .,:;|'()[]" else 0.65


# From so many columns on, a row becomes a list of its own where the window is narrow.
_STACKED = 4
# A longer table scrolls within itself.
_WHOLE = 12
_BEGINS_A_NUMBER = tuple("0123456789\N{MINUS SIGN}-")


def card(identifier: str, title: str, *children: Any, class_: str = "card") -> Html:
    """Return a section of the page with a heading."""
    heading = element("h2", title, id=identifier)
    return element("section", heading, children, class_=class_, aria_labelledby=identifier)


def question(identifier: str, title: str, *children: Any) -> Html:
    """Return one question with its answer."""
    return element("section", element("h3", title, id=identifier), children, aria_labelledby=identifier)


def figure(chart: Html, caption: Any, numbers: Html | None = None, class_: str | None = None) -> Html:
    """Return a chart with its caption, and what else stands below it."""
    return element("figure", chart, element("figcaption", element("p", caption), numbers), class_=class_)


def folded(summary: str, *children: Any) -> Html:
    """Return content that is folded until the reader opens it."""
    return element("details", element("summary", summary), children)


def table(
    label: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    marked: set[int] | None = None,
    class_: str | None = None,
) -> Html:
    """Return a table of which a narrow window shows every column; `marked` rows stand out.

    Roles are set explicitly, because a browser drops table semantics once rows are laid out as lists.
    """
    # A column of words reads from the left, a column of numbers from the right.
    kinds = ["text" if rows and str(cell)[:1].isalpha() else None for cell in (rows[0] if rows else columns)]
    head = [
        element("th", name, scope="col", role="columnheader", class_=kind)
        for name, kind in zip(columns, kinds, strict=True)
    ]
    body = [
        element(
            "tr",
            element("th", row[0], scope="row", role="rowheader", data_column=columns[0]),
            [
                element("td", element("span", cell, class_=_kind(cell)), role="cell", class_=kind, data_column=name)
                for name, cell, kind in zip(columns[1:], row[1:], kinds[1:], strict=True)
            ],
            role="row",
            class_="this" if marked and line in marked else None,
        )
        for line, row in enumerate(rows)
    ]
    whole = element(
        "table",
        element("thead", element("tr", head, role="row"), role="rowgroup"),
        element("tbody", body, role="rowgroup"),
        role="table",
        aria_label=label,
        class_=" ".join(filter(None, ["stack" if len(columns) >= _STACKED else "", class_])) or None,
    )
    if len(rows) <= _WHOLE:
        return whole
    # Focusable, so that the arrow keys scroll what is too long.
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=label)


def _kind(cell: Any) -> str | None:
    """Return the class of a number, which breaks between its words only."""
    return "number" if str(cell)[:1] in _BEGINS_A_NUMBER else None
