"""Numbers with their error as text, and small HTML tables for notebooks, with all text escaped."""

import html
import math
from collections.abc import Iterable, Mapping
from typing import Any

from .limits import ANY, SHARE, Limits


def notebook_table(title: str, facts: Mapping[str, object], notes: Iterable[str] = (), more: str = "") -> str:
    """Return a titled table of names and values as HTML; what is None is left out.

    Parameters
    ----------
    title : str
    facts : mapping
    notes : iterable of str
        Sentences below the table.
    more : str
        HTML that was made safe already, such as the face of a guarantee.

    Examples
    --------
    >>> notebook_table("Plan", {"mechanism": "<b>"})
    '<div><strong>Plan</strong><table><tr><th>mechanism</th><td>&lt;b&gt;</td></tr></table></div>'
    """
    rows = "".join(
        f"<tr><th>{html.escape(str(name))}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
        if value is not None
    )
    told = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    listed = f"<ul>{told}</ul>" if told else ""
    return f"<div><strong>{html.escape(title)}</strong><table>{rows}</table>{listed}{more}</div>"


def notebook_grid(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return rows of cells under headings as HTML.

    Examples
    --------
    >>> notebook_grid(["mechanism"], [["a & b"]])
    '<table><tr><th>mechanism</th></tr><tr><td>a &amp; b</td></tr></table>'
    """
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


MAY_BE_NOISE, NOT_ABOVE_NOISE = "may be noise", "not above noise"
LEGEND = (
    "± and (from to) are 95 % intervals for the rows of this data set, as they were used: they tell what the noise of "
    "the release may have done, and not how another sample would differ."
)
INTERVAL = "95 % interval"
NOT_DETERMINED = (
    "The noise passes the smallest variance that the features have in any direction, so least-squares coefficients are "
    "not determined; more rows, a larger epsilon or fewer features would help."
)
# What 95 of 100 standard normals are within.
_Z = 1.96
# Sides of an interval that differ by no more than this are told as one.
_ALIKE = 1.25
# A share whose error is smaller beside it is told as one without: as where nearly all components are asked for.
_NO_ERROR = 1e-6
_PLAIN = (-3, 9)  # powers of ten that are written out
_MINUS = str.maketrans("-", "\N{MINUS SIGN}")


def with_error(value: float, interval: Iterable[float] | None, limits: Limits = ANY, *, percent: bool = False) -> str:
    """Return a number with its 95 % interval; by itself to four digits where there is none.

    Parameters
    ----------
    value : float
    interval : (low, high) or None
        It may be infinite.
    limits : (low, high)
        What such a number can be. An interval that ends at a limit is told by its ends, and so is one that ± would
        take beyond, so that no number is shown that cannot be.
    percent : bool
        Whether the value is a share, told as a percentage; its limits are those of shares.

    Examples
    --------
    >>> with_error(0.31416, (0.2741, 0.3542)), with_error(31416.0, (31000.0, 31900.0))
    ('0.31 ± 0.05', '31,400 ± 500')
    >>> with_error(0.02, (0.0, 0.11)), with_error(1.5e-7, (1.2e-7, 1.8e-7))
    ('0.02 (0 to 0.11)', '(1.5 ± 0.3)e-07')
    >>> with_error(0.3512, (0.3312, 0.3712), percent=True), with_error(0.3512, None, percent=True)
    ('35 ± 2 %', '35.1 %')
    >>> with_error(0.6, (0.1, 1.0), percent=True), with_error(0.956, (0.913, 0.999), (-1.0, 1.0))
    ('60 (10 to 100) %', '0.96 (0.91 to 1.00)')
    >>> with_error(0.02, (0.0, 0.0))
    '0.02 (0 to 0)'
    >>> with_error(1.0, (0.99999999987, 1.0), percent=True)
    '100.0 %'
    >>> with_error(2.0, (-math.inf, math.inf)), with_error(2.0, (0.5, math.inf)), with_error(0.123456, None)
    ('2 (any number)', '2 (0.5 or more)', '0.1235')
    """
    factor, unit = (100.0, " %") if percent else (1.0, "")
    least, most = (factor * limit for limit in (SHARE if percent else limits))
    value *= factor
    if interval is None:
        return f"{value:.1f} %" if percent else f"{value:.4g}"
    low, high = (factor * float(end) for end in interval)
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{value:.3g} ({_open(low, high)}){unit}"
    width = max(high - value, value - low)
    if width <= (_NO_ERROR * abs(value) if percent else 0):
        return f"{value:.1f} %" if percent else f"{value:.4g}"
    sides = sorted((high - value, value - low))
    size = math.floor(math.log10(max(abs(value), width)))
    power = 0 if _PLAIN[0] <= size < _PLAIN[1] else size
    shift = 10.0**-power
    error, places = _rounded_up(width * shift)
    middle = round(value * shift, places)
    within = least < low and high < most and least * shift <= middle - error and middle + error <= most * shift
    if within and sides[1] <= _ALIKE * sides[0]:
        text = f"{_fixed(value * shift, places)} ± {_fixed(error, places)}"
        return f"({text})e{power:+03d}{unit}" if power else f"{text}{unit}"
    # An interval of no width, as one that was all below 0, tells no digits.
    _, places = _rounded_up(((high - low) / 2 or width) * shift)
    told = [_fixed(number * shift, places) if number else "0" for number in (value, low, high)]
    ending = f"e{power:+03d}" if power else ""
    return f"{told[0]} ({told[1]} to {told[2]}){ending}{unit}"


def marked(text: str, noted: bool, mark: str = MAY_BE_NOISE) -> str:
    """Return a text with a mark behind it, or as it is.

    Examples
    --------
    >>> marked("3", True), marked("3", False)
    ('3 (may be noise)', '3')
    """
    return f"{text} ({mark})" if noted else text


def angle_in_words(angle: float, bound: float) -> str:
    """Return how far a component is from the true one: the angle to be expected, and what it stays below.

    Examples
    --------
    >>> angle_in_words(12.34, 23.46), angle_in_words(90.0, 90.0)
    ('12.3° (< 23.5°)', 'not determined')
    """
    return "not determined" if bound >= 90 else f"{angle:.1f}° (< {bound:.1f}°)"


def holds_zero(interval: Iterable[float]) -> bool:
    """Return whether an interval leaves it open if a number is 0."""
    low, high = interval
    return bool(low <= 0 <= high)


def around(value: float, standard_error: float, limits: Limits = ANY) -> tuple[float, float]:
    """Return the 95 % interval of a number with a normal error, within the limits of such a number.

    Examples
    --------
    >>> around(1.0, 0.0)
    (1.0, 1.0)
    >>> with_error(1.0, around(1.0, 0.1))
    '1.0 ± 0.2'
    >>> around(0.9, 0.1, (-1.0, 1.0))[1]
    1.0
    """
    low, high = value - half_width(standard_error), value + half_width(standard_error)
    return max(low, min(limits[0], value)), min(high, max(limits[1], value))


def half_width(standard_error: Any) -> Any:
    """Return half of the 95 % interval of numbers with a normal error.

    Examples
    --------
    >>> half_width(1.0)
    1.96
    """
    return _Z * standard_error


def for_readers(text: str) -> str:
    """Return such a text with true minus signs, for pages."""
    return text.translate(_MINUS)


def _rounded_up(error: float) -> tuple[float, int]:
    """Return an error with one digit, or two where the first is a 1, never smaller; and its decimals."""
    exponent = math.floor(math.log10(error) + 1e-9)
    if error < 1.95 * 10.0**exponent:
        exponent -= 1
    whole = math.ceil(error / 10.0**exponent - 1e-6)
    return whole * 10.0**exponent, -exponent


def _fixed(number: float, places: int) -> str:
    """Return a number with so many decimals, or rounded to so many places before the point."""
    text = f"{round(number, places):,.{max(0, places)}f}"
    return text.lstrip("-") if not text.strip("-0.,") else text


def _open(low: float, high: float) -> str:
    if math.isfinite(low):
        return f"{low:.3g} or more"
    return f"{high:.3g} or less" if math.isfinite(high) else "any number"
