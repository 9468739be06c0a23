"""Lazy Wishart matrices: one, the difference of two, and the balanced difference of the matrix Laplace law."""

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from itertools import chain

import numpy as np

from .certified import UNIT_ROUNDOFF, Interval, power_interval, rounding_of_sum
from .lazy import LazyUniform, random_word
from .lazy_matrix import SECOND_ORDER, SquaredNorm
from .lazy_triangle import LazyTriangle, lazy_triangles
from .products import weighted_grams

_THREADS_FROM = 300  # features; below, the start of a thread takes longer than the numbers
_UNDERFLOW = 2.0**-900  # what products below the least normal number lose, many times over


class LazyWishart:
    """scale·L Lᵀ with a lazy triangle L of `n_features` rows: Wishart(degrees, scale·I).

    docs/explanation/exact_sampling.md derives `error`. Subclasses combine two such products.

    Parameters
    ----------
    n_features : int
    degrees : int
    scale : float
        Taken as an exact number.
    generator : numpy.random.Generator

    Examples
    --------
    >>> noise = LazyWishart(2, 3, 1.0, np.random.default_rng(0))
    >>> entry = noise.interval(0, 1, 1)
    >>> bool(abs(noise.value[0, 1] - float(entry.low)) <= noise.error)
    True
    """

    n_factors = 1

    def __init__(self, n_features: int, degrees: int, scale: float, generator: np.random.Generator) -> None:
        self.d, self.degrees, self.scale = n_features, degrees, scale
        self.factors: list[LazyTriangle] = []
        for triangle in self._drawn(generator):
            self._take(triangle)
        weights, relative = self._weights(generator)
        self.value, longest = weighted_grams(
            [triangle.value.reshape(n_features, -1) for triangle in self.factors], weights
        )
        size = rows_error = 0.0
        for triangle, weight, squared in zip(self.factors, weights, longest, strict=True):
            triangle.forget_values()  # floats are not needed any more, and a wide matrix wants the memory
            # Every row is at most `length`, and at most `length * moved` from the row of the true numbers.
            length = math.sqrt(squared) * (1 + rounding_of_sum(degrees + 4))
            moved = triangle.error * math.sqrt(degrees) / length * (1 + 4 * UNIT_ROUNDOFF)
            rows_error = max(rows_error, 2 * moved + moved**2)
            size += abs(weight) * length**2
        bound = size * (rounding_of_sum(degrees) + rows_error + relative + 4 * UNIT_ROUNDOFF)
        small = max(rows_error, relative) < 2.0**-22
        self.error = bound * SECOND_ORDER + _UNDERFLOW if small else math.inf

    def _drawn(self, generator: np.random.Generator) -> Iterable[LazyTriangle]:
        """Return the factors: wide ones on all cores, each by a generator of its own, as in `symmetric`."""
        draw = partial(lazy_triangles, n_features=self.d, degrees=self.degrees)
        if self.n_factors == 1 or self.d < _THREADS_FROM:
            return draw(self.n_factors, generator=generator)
        with ThreadPoolExecutor(self.n_factors) as pool:
            drawn = pool.map(lambda own: draw(1, generator=own), generator.spawn(self.n_factors))
            return chain.from_iterable(list(drawn))

    def _take(self, triangle: LazyTriangle) -> None:
        """Note a factor that was drawn, while its floats are there."""
        self.factors.append(triangle)

    def _weights(self, generator: np.random.Generator) -> tuple[list[float], float]:
        """Return the factors of the products, and by which share of themselves they may be wrong."""
        del generator
        return [self.scale], 0.0

    def _weight_intervals(self, level: int) -> list[Interval]:
        """Return what surely holds the factors of the products."""
        del level
        return [Interval.point(self.scale)]

    def interval(self, i: int, j: int, level: int) -> Interval:
        """Return what surely holds entry (i, j), from 64·level further digits of its two rows."""
        total = Interval.point(0)
        for weight, triangle in zip(self._weight_intervals(level), self.factors, strict=True):
            total += weight * self._product(triangle, i, j, 64 * level)
        return total

    def _product(self, triangle: LazyTriangle, i: int, j: int, bits: int) -> Interval:
        """Return what surely holds the product of rows i <= j: each number is within one unit of its integer."""
        width, terms = triangle.columns, min(i + 1, triangle.columns)
        first = [triangle.integer(i * width + k, bits) for k in range(terms)]
        second = first if i == j else [triangle.integer(j * width + k, bits) for k in range(terms)]
        middle = sum(x * y for x, y in zip(first, second, strict=True))
        slack = sum(abs(x) + abs(y) + 1 for x, y in zip(first, second, strict=True))
        unit = 4 ** (51 + bits)
        return Interval(Fraction(middle - slack, unit), Fraction(middle + slack, unit))


class LazyWishartDifference(LazyWishart):
    """scale·(L₁L₁ᵀ − L₂L₂ᵀ): joint density of the two terms ∝ exp(−(tr W₁ + tr W₂)/(2 scale)) at d + 1 degrees."""

    n_factors = 2

    def _weights(self, generator: np.random.Generator) -> tuple[list[float], float]:
        del generator
        return [self.scale, -self.scale], 0.0

    def _weight_intervals(self, level: int) -> list[Interval]:
        del level
        return [Interval.point(self.scale), Interval.point(-self.scale)]


class LazyBalancedDifference(LazyWishartDifference):
    """W₁ − W₂ with joint density ∝ exp(−max(tr W₁, tr W₂)/(2 scale)), at d + 1 degrees.

    With n_i = ‖L_i‖², p = d(d+1)/2 and U uniform it is ±scale·((1 + n₂/n₁)·L₁L₁ᵀ − U^(1/p)·(1 + n₁/n₂)·L₂L₂ᵀ).
    """

    def __init__(self, n_features: int, scale: float, generator: np.random.Generator) -> None:
        self._norms: list[SquaredNorm] = []
        super().__init__(n_features, n_features + 1, scale, generator)

    def _take(self, triangle: LazyTriangle) -> None:
        super()._take(triangle)
        self._norms.append(SquaredNorm(triangle))

    def _weights(self, generator: np.random.Generator) -> tuple[list[float], float]:
        self._sign = 1 - 2 * (random_word(generator) >> 63)
        self._uniform = LazyUniform(random_word(generator), 64, generator)
        while self._uniform.value < 2**54:  # so that it is known to a share of 2^-54
            self._uniform.more()
        log_share = math.log(self._uniform.value / 2**self._uniform.bits) * 2 / (self.d * (self.d + 1))
        share = math.exp(log_share)
        share_error = 2.0**-49 * (1 + abs(log_share))  # log and exp within 4 units of the last place
        first, second = (norm.value for norm in self._norms)
        weights = [
            self._sign * self.scale * (1 + second / first),
            -self._sign * self.scale * share * (1 + first / second),
        ]
        return weights, sum(norm.relative for norm in self._norms) + share_error + 16 * UNIT_ROUNDOFF

    def _shrinkage(self) -> Interval:
        """Return what surely holds U^(1/p), by which the smaller of the two traces is smaller."""
        exponent = Fraction(2, self.d * (self.d + 1))
        return power_interval(self._uniform.interval, exponent, 20 + self._uniform.bits // 3)

    def _weight_intervals(self, level: int) -> list[Interval]:
        while self._uniform.bits < 64 * level:
            self._uniform.more()
        # The norms of all numbers cost most and come last; where floats know too little of them, earlier.
        first, second = (norm.interval(level) for norm in self._norms)
        while min(first.low, second.low) <= 0:
            level += 1
            first, second = (norm.interval(level) for norm in self._norms)
        one, scale = Interval.point(1), Interval.point(self._sign * Fraction(self.scale))
        return [
            scale * (one + second / first),
            Interval.point(-1) * scale * self._shrinkage() * (one + first / second),
        ]
