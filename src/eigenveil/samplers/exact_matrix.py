"""A symmetric matrix that is known exactly: products of it to a hundred bits, and its reflection at a hyperplane.

Floats multiply integers exactly while a sum stays below 2⁵³. So the matrix is cut into limbs of 20 bits, what it meets
into limbs of 18, BLAS multiplies limbs, and the products are added in pairs of floats ("double-double"). Limbs carry
the sign of their entry, so that they add up without cancellation: the sum of |limb| is the entry's size.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .products import plain_product

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
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
    whole : ndarray of int64
        Entries below 2⁶² in size.
    fraction : ndarray of int64, optional
        From 0 to 2²⁰ − 1.

    Examples
    --------
    >>> matrix = ExactMatrix(np.array([[2, 1], [1, 2]])).reflected(np.array([1, 0]))
    >>> matrix.whole
    array([[ 2, -1],
           [-1,  2]])
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
        return self.whole + self.fraction * 2.0**-LIMB

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
        cut = [part, *((size >> shift) & _MASK for shift in (0, LIMB, 2 * LIMB, 3 * LIMB))]
        powers = range(-LIMB, 4 * LIMB, LIMB)
        return [(power, limb * sign) for power, limb in zip(powers, cut, strict=True) if limb.any()]

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
        carry = np.zeros_like(self.whole)
        limbs = _vector_limbs(p)
        outer = [np.multiply.outer(vector, limb) for limb in limbs]
        terms: list[IntArray] = [product + product.T for product in outer]
        for low in terms[:2]:
            carry = (carry + low) >> LIMB
        last = (0 if self.fraction is None else self.fraction) - (terms[2] + carry)
        whole = self.whole + (last >> LIMB)
        for place, term in enumerate(terms[3:]):
            whole = whole - (term << (LIMB * place))  # modulo 2^64, and the result is below 2^63
        return type(self)(whole, last & _MASK)

    def without_first(self) -> Self:
        """Return the matrix without its first row and column."""
        return type(self)(self.whole[1:, 1:], None if self.fraction is None else self.fraction[1:, 1:])


def _vector_limbs(numbers: list[int]) -> list[IntArray]:
    """Return integers as limbs of 20 bits, least first, the last one signed; at least four."""
    count = max(4, -(-max(x.bit_length() for x in numbers) // LIMB))
    cut = [np.array([(x >> (LIMB * i)) & _MASK for x in numbers]) for i in range(count - 1)]
    return [*cut, np.array([x >> (LIMB * (count - 1)) for x in numbers])]
