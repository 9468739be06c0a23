"""Directions, uniform or within two opposite caps, as integer vectors of exactly the right distribution.

A direction is a function of real random numbers, known to as many bits as are asked for. Floats with proved error
bounds round it to integers; where the bounds leave a doubt, exact intervals decide. So the integers are the rounded
real direction, and what is proved for real directions holds for them. docs/research/local.md has the error bounds.
"""

import math
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ..numerics import FloatArray
from .certified import UNIT_ROUNDOFF, Interval, power_interval, sqrt_interval
from .lazy import LazyNormals, LazyUniform, WordArray, random_words

# Of exp(log(u)/(d - 1)), where |log u| is below 31 and the library's exp and log are within 4 units in the last place.
_POWER_ERROR = 2.0**-43
# Below so many units of 2^-64 a uniform word has too few bits for floats.
_FEW_BITS = 2**20
# More than the rounding of the float sum in `mass_below`, whose terms are all positive.
_MASS_SLACK = 2.0**-24


def mass_below(n_features: int, threshold: float) -> float:
    """Return a proved lower bound, to 7 digits, on the chance that (u.x)^2 of a uniform direction passes a threshold.

    With b = (d - 1)/2 and v = 1 - threshold it is v^b/(b B(1/2, b)) times the sum of (1/2)_k/k! v^k b/(b + k). No term
    is negative, so a sum that ends early is below, and rounding moves it by a relative 2^-53 an operation at most.
    """
    b, height = (n_features - 1) / 2, 1 - threshold
    k = np.arange(1.0, math.ceil(20 / threshold) + 1)
    terms = np.cumprod((k - 0.5) / k * height) * (b / (b + k))
    # B(1/2, b) from B(1/2, 1/2) = pi or B(1/2, 1) = 2, by B(1/2, b + 1) = B(1/2, b) b/(b + 1/2).
    first, beta = (0.5, math.pi) if n_features % 2 == 0 else (1.0, 2.0)
    steps = np.arange(first, b)
    beta *= float(np.prod(steps / (steps + 0.5)))
    power = power_interval(Interval.point(1 - Fraction(threshold)), Fraction(n_features - 1, 2), 30).low
    return float(power) * (1 + float(terms.sum())) / (b * beta) * (1 - _MASS_SLACK)


class LazySines:
    """Independent sines s of the angle between a direction within a cap and the cap's axis; the cosine is positive.

    v = s^2 has the density v^((d - 3)/2) (1 - v)^(-1/2), up to a constant, below 1 - threshold. So (1 - threshold)
    u^(2/(d - 1)) of a uniform u is proposed, and kept with probability sqrt(threshold/(1 - v)).

    Parameters
    ----------
    size, n_features : int
    threshold : float
    generator : numpy.random.Generator

    Attributes
    ----------
    value, cosine : ndarray of float64
    error, cosine_error : ndarray of float64
        No entry is farther from its number. Infinite where floats say nothing.
    """

    def __init__(self, size: int, n_features: int, threshold: float, generator: np.random.Generator) -> None:
        self._power, self._threshold, self._generator = n_features - 1, threshold, generator
        self._word = np.empty(size, np.uint64)
        self._uniform: dict[int, LazyUniform] = {}
        self.value, self.error, self.cosine, self.cosine_error = (np.empty(size) for _ in range(4))
        pending = np.arange(size)
        while pending.size:
            words, coins = random_words(generator, pending.size), random_words(generator, pending.size)
            self._word[pending] = words
            self.value[pending], self.error[pending] = sine, error = self._floats(words)
            self.cosine[pending] = cosine = np.sqrt(1 - np.square(sine))
            self.cosine_error[pending] = cosine_error = (1.1 * sine * error + 2 * UNIT_ROUNDOFF) / cosine
            chance, uniform = math.sqrt(threshold) / cosine, coins * 2.0**-64
            kept = uniform < chance
            sure = np.abs(uniform - chance) > 1.1 * chance * cosine_error / cosine + 8 * UNIT_ROUNDOFF
            for j in np.flatnonzero(~sure):
                kept[j] = self._kept(int(pending[j]), LazyUniform(int(coins[j]), 64, generator))
            pending = pending[~kept]

    def _floats(self, words: WordArray) -> tuple[FloatArray, FloatArray]:
        """Return the sines that uniform words stand for, and their errors."""
        known = np.maximum(words, _FEW_BITS).astype(np.float64)
        sine = math.sqrt(1 - self._threshold) * np.exp(np.log(known * 2.0**-64) / self._power)
        error = sine * (_POWER_ERROR + 2 / (known * self._power))
        return sine, np.where(words < _FEW_BITS, np.inf, error)

    def _kept(self, index: int, coin: LazyUniform) -> bool:
        """Decide whether a proposal is kept with as many bits as it takes; they stay those of its number."""
        self._uniform[index] = LazyUniform(int(self._word[index]), 64, self._generator)
        while True:
            chance = sqrt_interval(
                Interval.point(self._threshold) / (Interval.point(1) - self.square(index)), coin.bits + 64
            )
            if coin.interval.high <= chance.low:
                return True
            if coin.interval.low >= chance.high:
                del self._uniform[index]  # the next proposal has a number of its own
                return False
            coin.more()
            self._uniform[index].more()

    def square(self, index: int, bits: int = 0) -> Interval:
        """Return an interval for the square of a sine, from at least so many bits of its uniform number."""
        uniform = self._uniform.setdefault(index, LazyUniform(int(self._word[index]), 64, self._generator))
        while uniform.bits < bits or uniform.value == 0:
            uniform.more()
        power = power_interval(uniform.interval, Fraction(2, self._power), 20 + uniform.bits // 3)
        return power * Interval.point(1 - Fraction(self._threshold))


class RoundedDirections:
    """One direction a row: uniform within the two caps around the row and its opposite, or on the whole sphere.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Integers with squares of norms below 2^53.
    aimed : ndarray of bool
        Which directions lie within the caps; their rows are not zero.
    threshold : float
        The caps of x are where (u.x)^2/|x|^2 is above it.
    scale : int
        What stands for 1 in the integers.
    generator : numpy.random.Generator

    Attributes
    ----------
    integers : ndarray of shape (n, d)
    exactly : int
        How many directions floats have left open.
    """

    def __init__(
        self,
        rows: FloatArray,
        aimed: NDArray[np.bool_],
        threshold: float,
        scale: int,
        generator: np.random.Generator,
    ) -> None:
        n, d = rows.shape
        self._rows, self._scale = rows, scale
        self._place = {int(index): place for place, index in enumerate(np.flatnonzero(aimed))}
        self._sines = LazySines(len(self._place), d, threshold, generator)
        self._minus = generator.integers(0, 2, len(self._place)).astype(bool)
        self._normals = LazyNormals(n * d, generator)
        z = self._normals.value.reshape(-1, d)
        # What cannot be computed is NaN, or has an infinite error, and is decided exactly.
        with np.errstate(divide="ignore", invalid="ignore"):
            lengths = np.sqrt(np.einsum("ij,ij->i", z, z))
            points = z / lengths[:, None]
            errors = 4 * math.sqrt(d) * self._normals.error / lengths + (d + 8) * UNIT_ROUNDOFF
            points[aimed], errors[aimed] = self._points_in_caps(rows[aimed], z[aimed])
            points *= scale
            self.integers: FloatArray = np.rint(points)
            sure = np.abs(points - self.integers) < 0.5 - (scale * (errors + 2 * UNIT_ROUNDOFF))[:, None]
        open_ = np.flatnonzero(~sure.all(axis=1))
        self.exactly: int = open_.size
        for index in open_:
            self.integers[index] = self._rounded(int(index))

    def _points_in_caps(self, rows: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the directions within caps: the cosine along the row, and the sine along what is left of z."""
        sines, d = self._sines, rows.shape[1]
        axes = rows / np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
        aside = z - np.einsum("ij,ij->i", z, axes)[:, None] * axes
        lengths, all_of_z = (np.sqrt(np.einsum("ij,ij->i", one, one)) for one in (aside, z))
        lost = 2 * math.sqrt(d) * self._normals.error + (d + 16) * UNIT_ROUNDOFF * all_of_z
        cosine = np.where(self._minus, -sines.cosine, sines.cosine)
        points = cosine[:, None] * axes + (sines.value / lengths)[:, None] * aside
        return points, sines.cosine_error + sines.error + 4 * lost / lengths + (d + 16) * UNIT_ROUNDOFF

    def _rounded(self, index: int) -> list[int]:
        """Return the integers of one direction, from as many bits as it takes."""
        bits = 64
        while True:
            found = [entry.rounded() for entry in self._intervals(index, bits)]
            whole = [number for number in found if number is not None]
            if len(whole) == self._rows.shape[1]:
                return whole
            bits *= 2

    def _intervals(self, index: int, bits: int) -> list[Interval]:
        """Return intervals for the entries of one direction, or none where the bits are too few for its length."""
        d = self._rows.shape[1]
        integers = [self._normals.integer(index * d + j, bits) for j in range(d)]
        # In their units, which cancel out of a direction.
        aside = [Interval(Fraction(n - (n <= 0)), Fraction(n + (n >= 0))) for n in integers]
        place = self._place.get(index)
        row = [0] * d if place is None else [int(entry) for entry in self._rows[index]]
        if place is not None:
            # What is left of z, times |row|^2.
            square = Interval.point(sum(entry * entry for entry in row))
            along = reduce(Interval.__add__, (z * Interval.point(entry) for z, entry in zip(aside, row, strict=True)))
            aside = [z * square - along * Interval.point(entry) for z, entry in zip(aside, row, strict=True)]
        length = reduce(Interval.__add__, (entry * entry for entry in aside))
        if length.low <= 0:
            return []
        sine, forward = Interval.point(self._scale), Interval.point(0)
        if place is not None:
            squared_sine = self._sines.square(place, bits)
            sine = sine * sqrt_interval(squared_sine, 2 * bits)
            cosine = sqrt_interval(Interval.point(1) - squared_sine, 2 * bits) / sqrt_interval(square, 2 * bits)
            forward = cosine * Interval.point(-self._scale if self._minus[place] else self._scale)
        sideways = sine / sqrt_interval(length, 2 * bits)
        return [forward * Interval.point(x) + sideways * z for x, z in zip(row, aside, strict=True)]
