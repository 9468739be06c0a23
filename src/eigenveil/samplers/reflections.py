"""The complement of released directions, by reflections that are exactly orthogonal.

A Householder reflection H = I − 2vvᵀ/vᵀv with an integer vector v is orthogonal as a rational matrix, whatever v is. So
nothing about orthogonality is to be certified. How far the complement is from being orthogonal to a direction depends
on the rounding of v alone, and that is bounded by public numbers (`complement_tilt`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .certified import UNIT_ROUNDOFF, rounding_of_sum

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

VECTOR_BITS = 29
"""Vectors of reflections have norms near 2·2²⁹, so that their entries are below 2³¹."""


@dataclass(frozen=True)
class Reflection:
    """H = I − 2vvᵀ/vᵀv, of an integer vector.

    Examples
    --------
    >>> Reflection(np.array([1, 1])).exactly([5, 0])
    ([0, -10], 2)
    """

    vector: IntArray

    @cached_property
    def square(self) -> int:
        """Return vᵀv."""
        return sum(int(x) ** 2 for x in self.vector)

    def floats(self, numbers: FloatArray) -> FloatArray:
        """Return H times a vector, within `float_error` of its norm."""
        vector = self.vector.astype(np.float64)
        return np.asarray(numbers - vector * (2.0 * float(vector @ numbers) / self.square))

    @property
    def float_error(self) -> float:
        """Bound of the error of `floats` for a vector of norm 1.

        The product vᵀx is within γ_m|v|, its multiple by 2/vᵀv takes three roundings, that by v one more, and the
        difference is rounded once: 2γ_m + 2·4u + 3u, and a little for their products.
        """
        return (2 * rounding_of_sum(self.vector.size) + 12 * UNIT_ROUNDOFF) * (1 + 2.0**-20)

    def exactly(self, numbers: Sequence[int]) -> tuple[list[int], int]:
        """Return vᵀv·H times integers, and vᵀv."""
        vector = [int(x) for x in self.vector]
        twice = 2 * sum(x * y for x, y in zip(vector, numbers, strict=True))
        return [self.square * y - twice * x for x, y in zip(vector, numbers, strict=True)], self.square


def reflection_to_axis(direction: Sequence[Any]) -> Reflection:
    """Return a reflection that takes a vector (public numbers) nearly to a multiple of the first axis.

    Examples
    --------
    >>> image, scale = reflection_to_axis([3, 4]).exactly([3, 4])
    >>> image[0] / scale, abs(image[1] / scale) < 1e-8
    (-5.0, True)
    """
    x = np.array([float(y) for y in direction])
    x /= np.linalg.norm(x)
    x[0] += math.copysign(1.0, x[0])
    return Reflection(np.rint(np.ldexp(x, VECTOR_BITS)).astype(np.int64))


def complement_tilt(width: int) -> Fraction:
    """Return a bound of |qᵀu| for a released direction q and a unit vector u of the complement.

    The vector before rounding, a = x + sign(x₁)e₁ for a unit x, has norm at least √2. It is rounded by at most
    ½·2⁻²⁹√m + m·2⁻⁵⁰ =: r in norm. For unit multiples of a and v the reflections differ by at most 4·|angle|, the angle
    is at most 1.01·r/√2, and |q| ≤ 1 + 2⁻²⁵√m ≤ 1.01: so the tilt is below 3r, which is less than 2⁻²⁸√m·0.8.

    Examples
    --------
    >>> float(complement_tilt(100)) < 4e-8
    True
    """
    return Fraction(math.isqrt(width - 1) + 1, 2**28) if width > 1 else Fraction(0)


class Complement:
    """The orthogonal complement of released directions, as a chain of reflections: u = H₁(0, H₂(0, … w)).

    Parameters
    ----------
    width : int
        Number of features.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.chain: list[Reflection] = []

    @property
    def dimension(self) -> int:
        """Number of directions that are left."""
        return self.width - len(self.chain)

    def leave_out(self, direction: IntArray) -> Reflection:
        """Take a released direction out of the complement and return the reflection that does it."""
        numbers, scale = [int(x) for x in direction], 1
        for reflection in self.chain:
            numbers, factor = reflection.exactly(numbers)
            numbers, scale = numbers[1:], scale * factor
        reflection = reflection_to_axis([Fraction(x, scale) for x in numbers])
        self.chain.append(reflection)
        return reflection

    def floats(self, inner: FloatArray) -> FloatArray:
        """Return the vector of the whole space, within `float_error` of the norm."""
        for reflection in reversed(self.chain):
            inner = reflection.floats(np.concatenate([[0.0], inner]))
        return inner

    @property
    def float_error(self) -> float:
        """Bound of the error of `floats` for a vector of norm 1."""
        return sum(reflection.float_error for reflection in self.chain) * (1 + 2.0**-20)

    def exactly(self, inner: Sequence[int]) -> tuple[list[int], int]:
        """Return an integer multiple of the vector of the whole space, and the multiple."""
        numbers, scale = list(inner), 1
        for reflection in reversed(self.chain):
            numbers, factor = reflection.exactly([0, *numbers])
            scale *= factor
        return numbers, scale
