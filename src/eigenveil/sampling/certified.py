"""Certified arithmetic: intervals that hold a number, error bounds of sums, exact products, a self-test of BLAS.

Exact samplers decide in floats where a proved error bound leaves no doubt, and in these intervals elsewhere, with as
many digits as it takes. Decimal's exp and ln are correctly rounded, which is what their bounds rest on.
"""

import decimal
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..numerics import FloatArray, IntArray, available_cores, one_blas_thread

UNIT_ROUNDOFF = 2.0**-53


def rounding_of_sum(terms: int) -> float:
    """Return gamma_n = nu/(1 - nu): the relative error of a sum of n products, in any order, with FMA or without.

    Higham, Accuracy and Stability of Numerical Algorithms (2002), section 3.1: the computed x'y differs from the true
    one by at most gamma_n |x|'|y|, for every order of summation and so for blocked BLAS; not for Strassen's products.
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
    """Return an interval that holds the root of every number of `x`, none below 0, to within 2^-bits."""
    low, high = (math.isqrt((end.numerator << 2 * bits) // end.denominator) for end in x)
    return Interval(Fraction(low, 2**bits), Fraction(high + 1, 2**bits))


def power_interval(x: Interval, exponent: Fraction, digits: int) -> Interval:
    """Return an interval that holds x^exponent for every number of `x`, all above 0, to about so many digits."""
    return exp_interval(ln_interval(x, digits) * Interval.point(exponent), digits)


# Larger than the blocks from which libraries switch to fast products; and what small products are tested by, which do
# not wait for that.
_TESTED_ROWS, _SMALL = 512, 64
# Rows of one product: few, so that little above a diagonal is multiplied, and enough for BLAS.
_BLOCK = 128
_THREADS_FROM = 3  # blocks; fewer take less time than the start of a thread


def weighted_grams(triangles: Sequence[FloatArray], weights: Sequence[float]) -> tuple[FloatArray, list[float]]:
    """Return the sum of weight·rows·rowsᵀ, and for each term the largest diagonal entry of rows·rowsᵀ.

    The upper triangle of the sum counts. Blocks above the diagonal of `rows` are not read, which saves two of three
    operations. Every entry of a product is a plain sum of at most as many terms as there are columns.
    """
    d = triangles[0].shape[0]
    total = np.zeros((d, d))

    def fill(low: int) -> list[float]:
        high, squares = min(low + _BLOCK, d), []
        for rows, weight in zip(triangles, weights, strict=True):
            part = plain_product(rows[low:high, :high], rows[low:, :high].T)
            squares.append(float(part.diagonal().max()))
            part *= weight
            total[low:high, low:] += part
        return squares

    conventional_blas(d + 1)  # tested with the threads that it has
    blocks = range(0, d, _BLOCK)
    # Threads of our own: those of BLAS would meet after each of many small products.
    with one_blas_thread() if d > _SMALL else nullcontext():  # BLAS multiplies small ones by one thread anyway
        if len(blocks) < _THREADS_FROM:
            squares = [fill(low) for low in blocks]
        else:
            with ThreadPoolExecutor(available_cores()) as pool:
                squares = list(pool.map(fill, blocks))
    return total, [max(column) for column in zip(*squares, strict=True)]


def plain_product(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return first·second, every entry by a plain sum of products: of a matrix and a matrix, or a vector."""
    if conventional_blas(max(*first.shape, *second.shape)):
        return np.asarray(first @ second)
    return np.asarray(np.einsum("ij,j->i" if second.ndim == 1 else "ij,jk->ik", first, second, optimize=False))


def conventional_blas(side: int) -> bool:
    """Return whether the BLAS at hand multiplies matrices of at most this side by plain sums in float64.

    Tested once, at first use. NumPy has one routine for a matrix times its own transpose, another for two matrices, and
    a third for vectors.
    """
    return _is_conventional(_SMALL if side <= _SMALL else _TESTED_ROWS)


@cache
def _is_conventional(n_rows: int) -> bool:
    ways: tuple[Callable[[FloatArray, IntArray], FloatArray], ...] = (
        lambda rows, chosen: (rows @ rows.T)[:, chosen],
        lambda rows, chosen: (rows @ rows.T.copy())[:, chosen],
        lambda rows, chosen: np.stack([rows @ row for row in rows[chosen]], axis=1),
    )
    return are_conventional(*ways, n_rows=n_rows)


def are_conventional(*ways: Callable[[FloatArray, IntArray], FloatArray], n_rows: int = _TESTED_ROWS) -> bool:
    """Return whether all of them compute some columns of rows·rowsᵀ by plain sums in float64, in whatever order.

    The rows of the test are integers of 21 bits times powers of two that differ from row to row. A sum of products, in
    any order, is then exact in float64. Products in lower precision lose bits of the integers; products in the manner
    of Strassen add rows of different size and lose the small ones.
    """
    generator = np.random.default_rng(14)  # public: the test of a library, not a draw
    whole = generator.integers(-(2**21), 2**21, (n_rows, n_rows + 1))
    scales = 2.0 ** generator.integers(-60, 60, n_rows)
    chosen = np.r_[0:n_rows:32, n_rows - 1]
    exact = (whole @ whole[chosen].T).astype(np.float64) * scales[:, None] * scales[chosen]  # sums below 2^52
    return all(np.array_equal(multiply(whole * scales[:, None], chosen), exact) for multiply in ways)


Pair = tuple[FloatArray, FloatArray]
"""A number as an unevaluated sum of two floats."""

LIMB = 20
_MASK = 2**LIMB - 1
_OTHER_LIMB = 18
WIDEST = 2**15
"""So many columns at most: 20 + 18 + 15 bits."""
PAIR_ERROR = 2.0**-98
"""Relative error of `times`, against |M||A|: at most 15 sums of pairs, each within 2⁻¹⁰³ of the sizes it adds."""
REFLECTION_ERROR = 1.01 * 2.0**-LIMB
"""No entry of a reflected matrix is farther from the true one."""


def two_sum(a: FloatArray, b: FloatArray) -> Pair:
    """Return a + b rounded, and what the rounding lost, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: FloatArray, b: float) -> Pair:
    """Return a·b rounded, and what the rounding lost, exactly (Dekker); numbers far from overflow."""
    product = a * b
    split_a, split_b = a * 134217729.0, b * 134217729.0
    high_a, high_b = split_a - (split_a - a), split_b - (split_b - b)
    low_a, low_b = a - high_a, b - high_b
    return product, ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b


def add_pairs(first: Pair, second: Pair) -> Pair:
    """Return the sum of two pairs, within 2⁻¹⁰³ (|first| + |second|)."""
    total, lost = two_sum(first[0], second[0])
    return two_sum(total, lost + (first[1] + second[1]))


@dataclass(frozen=True)
class ExactMatrix:
    """The symmetric matrix `whole` + `fraction`·2⁻²⁰.

    Parameters
    ----------
    whole : ndarray of int64 or of Python's integers
        Of int64, entries below 2⁶² in size.
    fraction : ndarray of int64, optional
        From 0 to 2²⁰ − 1.
    """

    whole: IntArray
    fraction: IntArray | None = None

    @property
    def width(self) -> int:
        """Number of rows and columns."""
        return int(self.whole.shape[0])

    @cached_property
    def floats(self) -> FloatArray:
        """The entries as floats, each within a relative 2.01·2⁻⁵³."""
        if self.fraction is None:
            return self.whole.astype(np.float64)
        return np.asarray(self.whole + self.fraction * 2.0**-LIMB, dtype=np.float64)

    @cached_property
    def objects(self) -> NDArray[Any]:
        """The entries times 2²⁰, as Python's integers."""
        scaled = self.whole.astype(object) << LIMB
        return scaled if self.fraction is None else scaled + self.fraction.astype(object)

    @cached_property
    def limbs(self) -> list[tuple[int, FloatArray]]:
        """Powers of two and signed limbs: the matrix is the sum of 2^power·limb."""
        fraction = np.zeros_like(self.whole) if self.fraction is None else self.fraction
        negative = self.whole < 0
        size = np.where(negative, -self.whole - (fraction > 0), self.whole)
        part = np.where(negative, -fraction & _MASK, fraction)
        sign = np.where(negative, -1.0, 1.0)
        shifts = range(0, max(4 * LIMB, int(size.max()).bit_length()), LIMB)
        cut = [part, *((size >> shift) & _MASK for shift in shifts)]
        powers = (-LIMB, *shifts)
        return [
            (power, np.asarray(limb * sign, dtype=np.float64))
            for power, limb in zip(powers, cut, strict=True)
            if limb.any()
        ]

    def times(self, integers: IntArray) -> Pair:
        """Return the product with a matrix of integers below 2⁵⁴, within `PAIR_ERROR` of |M||A|."""
        sign, size = np.sign(integers).astype(np.float64), np.abs(integers)
        cut = [(shift, ((size >> shift) & (2**_OTHER_LIMB - 1)) * sign) for shift in (0, _OTHER_LIMB, 2 * _OTHER_LIMB)]
        total: Pair = np.zeros(integers.shape), np.zeros(integers.shape)
        for power, limb in self.limbs:
            for shift, other in cut:
                term = np.ldexp(plain_product(limb, other), power + shift)
                total = add_pairs(total, (term, np.zeros_like(term)))
        return total

    def times_vector(self, vector: IntArray) -> list[int]:
        """Return the product with a vector of integers below 2³⁶, times 2²⁰, exactly."""
        total = [0] * self.width
        for shift in (0, _OTHER_LIMB):
            other = ((np.abs(vector) >> shift) & (2**_OTHER_LIMB - 1)) * np.sign(vector).astype(np.float64)
            for power, limb in self.limbs:
                total = [
                    x + (int(y) << (shift + power + LIMB))
                    for x, y in zip(total, plain_product(limb, other), strict=True)
                ]
        return total

    def reflected(self, vector: IntArray) -> Self:
        """Return HMH for H = I − 2vvᵀ/vᵀv, every entry rounded down within `REFLECTION_ERROR`.

        HMH = M − vpᵀ − pvᵀ with p = βMv − (β²/2)(vᵀMv)v and β = 2/vᵀv. The vector's entries are below 2³¹; p is rounded
        to multiples of 2⁻⁶⁰, which moves an entry by 2⁻²⁹, and the low limbs are carried, so only the last cut is seen.
        """
        v = [int(x) for x in vector]
        square = sum(x * x for x in v)
        image = self.times_vector(vector)  # in units of 2^-20
        form = sum(x * y for x, y in zip(v, image, strict=True))
        # p = (2 square·Mv − 2 (v'Mv) v)/square²
        p = [
            round(Fraction((2 * square * y - 2 * form * x) << 40, square * square))
            for x, y in zip(v, image, strict=True)
        ]
        carry = np.zeros(self.whole.shape, dtype=np.int64)
        # As limbs of 20 bits, least first, the last one signed; at least four.
        places = max(4, -(-max(x.bit_length() for x in p) // LIMB))
        limbs = [np.array([(x >> (LIMB * i)) & _MASK for x in p]) for i in range(places - 1)]
        limbs.append(np.array([x >> (LIMB * (places - 1)) for x in p]))
        outer = [np.multiply.outer(vector, limb) for limb in limbs]
        terms: list[IntArray] = [product + product.T for product in outer]
        for low in terms[:2]:
            carry = (carry + low) >> LIMB
        last = (0 if self.fraction is None else self.fraction) - (terms[2] + carry)
        whole = self.whole + (last >> LIMB)
        for place, term in enumerate(terms[3:]):
            # Modulo 2^64 where these are int64, and the result is below 2^63.
            whole = whole - (term.astype(whole.dtype, copy=False) << (LIMB * place))
        return type(self)(whole, last & _MASK)

    def without_first(self) -> Self:
        """Return the matrix without its first row and column."""
        return type(self)(self.whole[1:, 1:], None if self.fraction is None else self.fraction[1:, 1:])
