"""Intervals that surely hold a number, and the rounding errors that floats may make.

Exact samplers decide in floats where a proved error bound leaves no doubt, and in these intervals elsewhere, with as
many digits as it takes. Decimal's exp and ln are correctly rounded, which is what their bounds rest on.
"""

import decimal
import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import NamedTuple, Self

UNIT_ROUNDOFF = 2.0**-53


def rounding_of_sum(terms: int) -> float:
    """Return gamma_n = nu/(1 - nu): the relative error of a sum of n products, in any order, with FMA or without.

    Higham, Accuracy and Stability of Numerical Algorithms (2002), section 3.1: the computed x'y differs from the true
    one by at most gamma_n |x|'|y|, for every order of summation and so for blocked BLAS; not for Strassen's products.

    Examples
    --------
    >>> rounding_of_sum(1000) < 1.2e-13
    True
    """
    product = terms * UNIT_ROUNDOFF
    return product / (1 - product) * (1 + 2.0**-40)


class Interval(NamedTuple):
    """All numbers from `low` to `high`, with exact ends.

    Examples
    --------
    >>> third = Interval.point(1) / Interval.point(3)
    >>> (third * Interval(Fraction(-1), Fraction(2))).high
    Fraction(2, 3)
    """

    low: Fraction
    high: Fraction

    @classmethod
    def point(cls, value: Fraction | int | float) -> Self:
        """Return the interval that holds one number."""
        return cls(Fraction(value), Fraction(value))

    def __add__(self, other: "Interval") -> "Interval":  # type: ignore[override]
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: "Interval") -> "Interval":
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other: "Interval") -> "Interval":  # type: ignore[override]
        ends = [mine * theirs for mine in self for theirs in other]
        return Interval(min(ends), max(ends))

    def __truediv__(self, other: "Interval") -> "Interval":
        if other.low <= 0:
            raise ZeroDivisionError("only intervals above 0 divide")
        return self * Interval(1 / other.high, 1 / other.low)

    def rounded(self) -> int | None:
        """Return the one integer that all of the interval rounds to (halves go up); None where there are several."""
        low, high = ((end + Fraction(1, 2)).__floor__() for end in self)
        return low if low == high else None


@contextmanager
def _precision(digits: int) -> Iterator[None]:
    with decimal.localcontext(prec=digits) as context:
        context.Emin, context.Emax = decimal.MIN_EMIN, decimal.MAX_EMAX
        yield


def _decimal(number: Fraction) -> decimal.Decimal:
    return decimal.Decimal(number.numerator) / decimal.Decimal(number.denominator)


def exp_interval(x: Interval, digits: int) -> Interval:
    """Return an interval that holds exp of every number of `x`, to about so many digits.

    The quotient is rounded before exp, which moves the result by a relative 10^(1 - digits) |x|, and exp once more.

    Examples
    --------
    >>> bounds = exp_interval(Interval.point(-1), 20)
    >>> bounds.low < Fraction("0.36787944117144232159552377") < bounds.high
    True
    """
    # Far below, a power of ten of so many places says nothing that "nearly zero" does not, and more digits look deeper.
    floor = Fraction(-1000 * digits)
    if x.low < floor:
        nothing = Fraction(0)
        return Interval(nothing, exp_interval(Interval.point(max(x.high, floor)), digits).high)
    with _precision(digits):
        low, high = (Fraction(_decimal(end).exp()) for end in x)
    slack = [Fraction(1, 10 ** (digits - 3)) * (1 + abs(end)) for end in x]
    return Interval(max(Fraction(0), low * (1 - slack[0])), high * (1 + slack[1]))


def ln_interval(x: Interval, digits: int) -> Interval:
    """Return an interval that holds ln of every number of `x`, all above 0, to about so many digits.

    Examples
    --------
    >>> bounds = ln_interval(Interval.point(2), 20)
    >>> bounds.low < Fraction("0.69314718055994530941723") < bounds.high
    True
    """
    with _precision(digits):
        low, high = (Fraction(_decimal(end).ln()) for end in x)
    slack = [Fraction(1, 10 ** (digits - 4)) * (1 + abs(end)) for end in (low, high)]
    return Interval(low - slack[0], high + slack[1])


def sqrt_interval(x: Interval, bits: int) -> Interval:
    """Return an interval that holds the root of every number of `x`, none below 0, to within 2^-bits.

    Examples
    --------
    >>> bounds = sqrt_interval(Interval.point(2), 30)
    >>> bounds.low**2 < 2 < bounds.high**2
    True
    """
    low, high = (math.isqrt((end.numerator << 2 * bits) // end.denominator) for end in x)
    return Interval(Fraction(low, 2**bits), Fraction(high + 1, 2**bits))


def power_interval(x: Interval, exponent: Fraction, digits: int) -> Interval:
    """Return an interval that holds x^exponent for every number of `x`, all above 0, to about so many digits.

    Examples
    --------
    >>> bounds = power_interval(Interval.point(8), Fraction(1, 3), 20)
    >>> bounds.low < 2 < bounds.high
    True
    """
    return exp_interval(ln_interval(x, digits) * Interval.point(exponent), digits)
