"""The parts of a page: markup that escapes all text, numbers, cards, figures and tables."""

import html
from collections.abc import Sequence
from typing import Any

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
    written = ""
    for key, value in attributes.items():
        if value is not None:
            # Coordinates need no more than two decimals.
            text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
            written += f' {key.rstrip("_").replace("_", "-")}="{html.escape(text)}"'
    return Html(f"<{name}{written}>" if name in _VOID else f"<{name}{written}>{join(*children)}</{name}>")


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


# From so many columns on, a row becomes a list of its own where the window is narrow.
_STACKED = 4
# A longer table scrolls within itself.
_WHOLE = 12
_BEGINS_A_NUMBER = tuple("0123456789\N{MINUS SIGN}-")


def card(identifier: str, title: str, *children: Any, class_: str = "card") -> Html:
    """Return a section of the page with a heading."""
    heading = element("h2", title, id=identifier)
    return element("section", heading, children, class_=class_, aria_labelledby=identifier)


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
    body = []
    for line, row in enumerate(rows):
        cells = [element("th", row[0], scope="row", role="rowheader", data_column=columns[0])]
        for name, cell, kind in zip(columns[1:], row[1:], kinds[1:], strict=True):
            # A number breaks between its words only.
            breaks = "number" if str(cell).startswith(_BEGINS_A_NUMBER) else None
            text = element("span", cell, class_=breaks)
            cells.append(element("td", text, role="cell", class_=kind, data_column=name))
        body.append(element("tr", cells, role="row", class_="this" if marked and line in marked else None))
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
