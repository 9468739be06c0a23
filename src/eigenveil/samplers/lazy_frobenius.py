"""Lazy noise that is isotropic in the Frobenius geometry, with a Gamma radius."""

import math
from fractions import Fraction

import numpy as np

from .certified import UNIT_ROUNDOFF, Interval, sqrt_interval
from .lazy import LazyNormals
from .lazy_matrix import SECOND_ORDER, SquaredNorm


class LazyFrobenius:
    """Symmetric N with density ∝ exp(−‖N‖_F/scale).

    z and z′ are p = d(d+1)/2 lazy normals each. The diagonal entries are a·z and those beside it a·z/√2, a =
    scale·(|z|² + |z′|²)/(2|z|): the direction z/|z| is uniform, and the radius scale·(|z|² + |z′|²)/2 is Gamma(p,
    scale) and independent.

    Parameters
    ----------
    n_features : int
    scale : float
        Taken as an exact number.
    generator : numpy.random.Generator

    Examples
    --------
    >>> noise = LazyFrobenius(3, 1.0, np.random.default_rng(0))
    >>> entry = noise.interval(0, 1, 1)
    >>> bool(abs(noise.value[0, 1] - float(entry.low)) <= noise.error)
    True
    """

    def __init__(self, n_features: int, scale: float, generator: np.random.Generator) -> None:
        d, self.scale = n_features, scale
        numbers = d * (d + 1) // 2
        self._direction, other = LazyNormals(numbers, generator), LazyNormals(numbers, generator)
        self._norms = [SquaredNorm(normals) for normals in (self._direction, other)]
        first, second = (norm.value for norm in self._norms)
        factor = scale * ((first + second) / (2 * math.sqrt(first)))
        # Row i of the triangle begins with its diagonal entry, at number i·d − i(i−1)/2.
        self._row_start = [i * d - i * (i - 1) // 2 for i in range(d)]
        self.value = np.zeros((d, d))
        z, beside = self._direction.value, factor * math.sqrt(0.5)
        for i, start in enumerate(self._row_start):
            np.multiply(z[start : start + d - i], beside, out=self.value[i, i:])
        self.value[np.diag_indices(d)] = z[self._row_start] * factor
        relative = sum(norm.relative for norm in self._norms) + 16 * UNIT_ROUNDOFF
        largest = float(np.abs(z).max())
        bound = factor * (largest * relative + self._direction.error) * SECOND_ORDER
        self.error = bound if relative < 2.0**-22 else math.inf

    def interval(self, i: int, j: int, level: int) -> Interval:
        """Return what surely holds entry (i, j), i <= j, from 64·level further digits of its number."""
        bits = 64 * level
        first, second = (norm.interval(level) for norm in self._norms)
        precision = 64 + bits
        while (root := sqrt_interval(first if i == j else first * Interval.point(2), precision)).low <= 0:
            level, precision = level + 1, precision + 64
            first, second = (norm.interval(level) for norm in self._norms)
        size = self._direction.integer(self._row_start[i] + j - i, bits)
        z = Interval(Fraction(size - 1, 2 ** (51 + bits)), Fraction(size + 1, 2 ** (51 + bits)))
        return Interval.point(Fraction(self.scale) / 2) * (first + second) / root * z
