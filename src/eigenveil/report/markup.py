"""Markup that escapes by itself: whatever is not `Html` already is text."""

import html
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
