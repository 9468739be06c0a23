"""Which integers can come out of float64 arithmetic: the questions behind attacks on last bits.

Each function answers for many integers at once. A wrong answer makes an audit weak and never wrong, so all of them lean
to "yes" where an answer would be slow.
"""

import numpy as np
from numpy.typing import NDArray

from ..laws.base import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

# Trailing zeros are counted up to here: a random integer has more with probability 2^-16.
_MOST_ZEROS = 16
# Below this the steps of products and squares of float64 are finer than half a unit, and nothing is missed.
_ALL_REACHED = 2**50
_ULPS = 4
# Uniform numbers tried on either side of the one that an integer asks for.
_NEARBY = 3


def trailing_zeros(integers: IntArray) -> IntArray:
    """Return how often two divides each integer, 16 at most.

    Examples
    --------
    >>> trailing_zeros(np.array([1, -2, 12, 0])).tolist()
    [0, 1, 2, 16]
    """
    bits = np.asarray(integers, dtype=np.int64).view(np.uint64)
    lowest = bits & (~bits + np.uint64(1))
    return np.minimum(np.bitwise_count(lowest - np.uint64(1)), _MOST_ZEROS).astype(np.int64)


def is_float(integers: IntArray) -> BoolArray:
    """Return whether each integer is a float64: all up to 2^53, the even ones up to 2^54, and so on.

    Examples
    --------
    >>> is_float(np.array([2**53 - 1, 2**53 + 1, 2**53 + 2])).tolist()
    [True, False, True]
    """
    return np.asarray(integers.astype(np.float64).astype(np.int64) == integers)


def is_scaled_float(integers: IntArray, scale: float) -> BoolArray:
    """Return whether each integer is a float64 times `scale`, rounded: a product skips floats near the upper end.

    Examples
    --------
    >>> near = np.arange(2**53 - 8, 2**53 - 2)
    >>> is_scaled_float(near, 1.75).tolist()
    [True, False, True, False, True, False]
    """
    found = np.abs(integers) < _ALL_REACHED
    asked = integers[~found]
    quotient = asked / scale
    hit = np.zeros(asked.shape, dtype=bool)
    for factor in (quotient, np.nextafter(quotient, -np.inf), np.nextafter(quotient, np.inf)):
        hit |= np.rint(factor * scale).astype(np.int64) == asked
    found[~found] = hit
    return found


def is_float_square(integers: IntArray) -> BoolArray:
    """Return whether each integer is the square of a float64, with any last bits that a float64 does not have.

    Examples
    --------
    >>> is_float_square(np.array([9, -1, 6**22, 6**22 + 20])).tolist()
    [True, False, True, False]
    """
    root = np.sqrt(np.maximum(integers, 0).astype(np.longdouble)).astype(np.float64)
    found = (integers >= 0) & (integers < _ALL_REACHED)
    for ulps in range(-_ULPS, _ULPS + 1):
        factor = root + ulps * np.spacing(root)
        square = factor * factor
        miss = (integers.astype(np.longdouble) - square).astype(np.float64)
        half = np.maximum(1.0, np.spacing(square)) / 2
        # A tie at half a unit may have been rounded either way; last bits drawn at random end below half a spacing.
        found |= (integers >= 0) & (miss >= -half) & np.where(half > 0.5, miss < half, miss <= half)
    return np.asarray(found)


def is_float_laplace(integers: IntArray, centre: FloatArray, scale: float) -> BoolArray:
    """Return whether each integer is centre + L rounded, L a Laplace number made of a uniform one of 53 bits.

    NumPy's Laplace numbers are scale log(2U) and -scale log(2 - U - U) for U a multiple of 2^-53. Around their scale
    these steps are as wide as the spacing of float64, so that a sum on a grid as fine has values that no U reaches
    (Mironov 2012).

    Examples
    --------
    >>> generator, scale = np.random.default_rng(0), 2.0**55
    >>> drawn = np.rint(3.0 + generator.laplace(0.0, scale, 1000)).astype(np.int64)
    >>> float(is_float_laplace(drawn, np.full(1000, 3.0), scale).mean())
    1.0
    >>> bool(is_float_laplace(drawn, np.full(1000, 2.0**40 + 1), scale).mean() < 0.7)
    True
    """
    noise = (integers - centre.astype(np.longdouble)).astype(np.float64)
    wanted = np.exp(-np.abs(noise) / scale) * 2.0**52
    width = np.maximum(1.0, np.spacing(np.abs(integers.astype(np.float64))))
    found = np.asarray(wanted * width > _NEARBY * scale)
    asked = ~found
    at, above, target = centre[asked], noise[asked] > 0, integers[asked]
    nearest = np.rint(np.where(above, 2.0**53 - wanted[asked], wanted[asked]))
    hit = np.zeros(target.shape, dtype=bool)
    for offset in range(-_NEARBY, _NEARBY + 1):
        uniform = np.clip(nearest + offset, 1.0, 2.0**53 - 1) * 2.0**-53
        size = -scale * np.log(np.where(above, 2.0 - uniform - uniform, uniform + uniform))
        # The logarithm of NumPy's arrays may differ in the last place from that of its random numbers.
        for one in (size, np.nextafter(size, 0.0), np.nextafter(size, np.inf)):
            hit |= np.rint(at + np.where(above, one, -one)).astype(np.int64) == target
    found[asked] = hit
    return found
