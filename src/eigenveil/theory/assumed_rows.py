"""Rows that a plan assumes: Gaussian, of a public spectrum, so few that drawing them is quick.

Nothing private is near: they are drawn from seeded random numbers. What becomes of them by the rule of a fit is a
sample moment T beside the covariance S that the same rows have, and both are brought to the number of rows that was
asked about: sampling errors fall with its root.
"""

import math
from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np
import scipy.stats

from ..errors import InvalidParameterError
from ..moments.row_rule import RowRule
from ..numerics import FloatArray
from ..sampling.matrix_bingham import haar_orthogonal
from ..sampling.randomness import seeded_generator

Statistic = Callable[[FloatArray], FloatArray]

AXES, FEATURES, CORRELATION = "axes", "features", "correlation"
"""Where the eigenvectors lie: along the features, turned at random, or so that the diagonal is 1."""
# Numbers drawn for one sample, and rows of it; more rows are told by these.
_NUMBERS, _FEWEST, _MOST = 2**17, 256, 4096
# Rows whose lengths tell how many pass a bound.
_LENGTHS = 2**16


class AssumedRows:
    """Samples of Gaussian rows with mean zero, one for each simulated fit.

    Parameters
    ----------
    spectrum : tuple of float
        Eigenvalues of their covariance.
    draws : int
        Number of samples.
    seed : int
    frame : {"axes", "features", "correlation"}
        Where the eigenvectors lie.

    Examples
    --------
    >>> rows = AssumedRows((2.0, 1.0), draws=3, seed=0, frame=AXES)
    >>> rows.sample(0, 10).shape, rows.covariance.tolist()
    ((10, 2), [[2.0, 0.0], [0.0, 1.0]])
    """

    def __init__(self, spectrum: tuple[float, ...], draws: int, seed: int, frame: str) -> None:
        self.spectrum, self.draws, self.frame = np.asarray(spectrum), draws, frame
        self._generators = seeded_generator(seed).spawn(draws + 1)
        self._samples: dict[int, FloatArray] = {}
        self._moments: dict[tuple[object, int], FloatArray] = {}

    @property
    def most(self) -> int:
        """The rows of a sample."""
        return int(min(max(_NUMBERS // self.spectrum.size, _FEWEST), _MOST))

    @cached_property
    def basis(self) -> FloatArray:
        """The eigenvectors, as columns."""
        d = self.spectrum.size
        if self.frame == AXES or d == 1:
            return np.eye(d)
        generator = self._generators[-1]
        if self.frame == FEATURES:
            return np.asarray(haar_orthogonal(1, d, d, generator)[0])
        shares = self.spectrum * (d / self.spectrum.sum())
        correlation = scipy.stats.random_correlation.rvs(shares, random_state=generator, tol=1e-6)
        return np.asarray(np.linalg.eigh(correlation)[1][:, ::-1])

    @cached_property
    def covariance(self) -> FloatArray:
        """The covariance that rows are drawn from."""
        return np.asarray((self.basis * self.spectrum) @ self.basis.T)

    def sample(self, draw: int, n_rows: int) -> FloatArray:
        """Return up to so many rows of one sample: the first of those that any number of rows is told by."""
        if draw not in self._samples:
            # Drawn once for every n and epsilon, so that forecasts move smoothly with both.
            normals = np.random.default_rng(self._generators[draw].integers(2**63)).standard_normal(
                (self.most, self.spectrum.size)
            )
            self._samples[draw] = (normals * np.sqrt(self.spectrum)) @ self.basis.T
        return self._samples[draw][:n_rows]

    def lengths(self, sizes: FloatArray | float, place: FloatArray | float) -> FloatArray:
        """Return the lengths of the rows of all samples, in units of sizes and moved to a place, ascending."""
        every = (self.sample(b, self.most) / sizes + place for b in range(min(self.draws, _LENGTHS // self.most)))
        return np.sort(np.concatenate([np.linalg.norm(rows, axis=1) for rows in every]))

    def used(self, draw: int, n_rows: int, key: object, statistic: Statistic) -> FloatArray:
        """Return a mean over rows as it would be of n of them: that of a sample, with smaller errors for larger n.

        `key` names the statistic, which is made once for each sample.
        """
        size = min(n_rows, self.most)
        if size == n_rows:
            return self._moment(draw, size, key, statistic)
        mean = self._mean(size, key, statistic)
        return np.asarray(mean + (self._moment(draw, size, key, statistic) - mean) * math.sqrt(size / n_rows))

    def true(self, draw: int, n_rows: int, about_mean: bool) -> FloatArray:
        """Return the covariance, or the second moment about the origin, that n such rows have."""
        size = min(n_rows, self.most)
        own = self._moment(draw, size, ("true", about_mean), covariance if about_mean else second_moment)
        return np.asarray(self.covariance + (own - self.covariance) * math.sqrt(size / n_rows))

    def _moment(self, draw: int, size: int, key: object, statistic: Statistic) -> FloatArray:
        place = (draw, key), size
        if place not in self._moments:
            self._moments[place] = statistic(self.sample(draw, size))
        return self._moments[place]

    def _mean(self, size: int, key: object, statistic: Statistic) -> FloatArray:
        place = ("mean", key), size
        if place not in self._moments:
            mean = np.mean([self._moment(b, size, key, statistic) for b in range(self.draws)], axis=0)
            # Gaussian rows along their axes are as likely with any sign, whatever their lengths become.
            self._moments[place] = np.diag(np.diag(mean)) if self.frame == AXES else mean
        return self._moments[place]


@lru_cache(maxsize=8)
def assumed_rows(spectrum: tuple[float, ...], draws: int, seed: int, frame: str) -> AssumedRows:
    """Return the rows, the same ones for the same numbers."""
    return AssumedRows(spectrum, draws, seed, frame)


def second_moment(rows: FloatArray) -> FloatArray:
    """Return the mean of x x'."""
    return np.asarray(rows.T @ rows / rows.shape[0])


def covariance(rows: FloatArray) -> FloatArray:
    """Return the covariance of a data set, not of a population."""
    return second_moment(rows - rows.mean(axis=0))


def clipped(norm: float, about_mean: bool, sizes: FloatArray | float, place: FloatArray | float) -> Statistic:
    """Return the moment of rows in units of sizes, moved to a place and shortened to a norm, as a function of rows."""

    def statistic(rows: FloatArray) -> FloatArray:
        moved = rows / sizes + place
        moved *= (norm / np.maximum(np.linalg.norm(moved, axis=1), norm))[:, None]
        return covariance(moved) if about_mean else second_moment(moved)

    return statistic


def of_directions(rule: RowRule) -> Statistic:
    """Return the mean of what a rule makes of rows whose lengths it does not ask for, as a function of rows."""

    def statistic(rows: FloatArray) -> FloatArray:
        if not rule.compares:
            return second_moment(rows / np.linalg.norm(rows, axis=1, keepdims=True))
        n, half = rows.shape[0], rule.comparisons // 2
        if n < 2:
            raise InvalidParameterError("Rows that are compared must be two at the least.")
        total = np.zeros((rows.shape[1], rows.shape[1]))
        for step in range(half):
            difference = rows - np.roll(rows, 1 + step % (n - 1), axis=0)
            if rule.rows == "signs":
                difference = np.sign(difference)
            else:
                difference /= np.linalg.norm(difference, axis=1, keepdims=True)
            total += second_moment(difference)
        return np.asarray(total / half)

    return statistic
