"""Numbers with their 95 % confidence intervals as text, and the limits that such numbers lie within."""

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

Limits: TypeAlias = tuple[float, float]
ANY: Limits = (float("-inf"), float("inf"))
SIZE: Limits = (0.0, float("inf"))
"""Of variances, standard deviations and counts."""
SHARE: Limits = (0.0, 1.0)
"""Of shares of a variance: those of components, and R² of least squares in the rows that they were fitted to."""
CORRELATION: Limits = (-1.0, 1.0)
"""Of correlations, and of loadings of a direction of length 1."""
ANGLE: Limits = (0.0, 90.0)

MAY_BE_NOISE, NOT_ABOVE_NOISE = "may be noise", "not above noise"
LEGEND = "± and (from to) are 95 % confidence intervals for the privacy noise. Sampling error is not included."
INTERVAL = "95 % interval"
NOT_DETERMINED = (
    "The coefficients are not determined: the noise is larger than the smallest variance of the features in any "
    "direction. Use more rows, a larger epsilon or fewer features."
)
# 95 % of a standard normal distribution is within ± this value.
_Z = 1.96
# Sides of an interval that differ by no more than this factor are written as ±.
_ALIKE = 1.25
# A relative error below this is not written, as where nearly all components are requested.
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
        Smallest and largest possible value. An interval that reaches a limit, or would with ±, is written by its
        ends.
    percent : bool
        Whether the value is a share, which is written as a percentage; its limits are 0 and 1.

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
    # An interval of width 0, such as one that was below 0 and was cut, does not say how many digits to write.
    _, places = _rounded_up(((high - low) / 2 or width) * shift)
    texts = [_fixed(number * shift, places) if number else "0" for number in (value, low, high)]
    ending = f"e{power:+03d}" if power else ""
    return f"{texts[0]} ({texts[1]} to {texts[2]}){ending}{unit}"


def marked(text: str, noted: bool, mark: str = MAY_BE_NOISE) -> str:
    """Return a text with a mark behind it, or as it is.

    Examples
    --------
    >>> marked("3", True), marked("3", False)
    ('3 (may be noise)', '3')
    """
    return f"{text} ({mark})" if noted else text


def angle_in_words(angle: float, bound: float) -> str:
    """Return the angle error of a component: the expected angle to the true one, and its 95 % bound.

    Examples
    --------
    >>> angle_in_words(12.34, 23.46), angle_in_words(90.0, 90.0)
    ('12.3° (at most 23.5°)', 'not determined')
    """
    return "not determined" if bound >= 90 else f"{angle:.1f}° (at most {bound:.1f}°)"


def holds_zero(interval: Iterable[float]) -> bool:
    """Return whether an interval contains 0."""
    low, high = interval
    return bool(low <= 0 <= high)


def around(value: float, standard_error: float, limits: Limits = ANY) -> tuple[float, float]:
    """Return the 95 % confidence interval of a number with a normal error, within the limits of such a number.

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
    """Return a text with true minus signs, for pages."""
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
