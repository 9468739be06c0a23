"""From a released covariance to correlations: divided by the standard deviations that it tells, at no privacy cost.

docs/explanation/raw_tables.md derives what stands here.
"""

import math
from dataclasses import dataclass

import numpy as np

from .shrinkage import SIMULATION_SEED, FloatArray, NoiseDraw, released_matrix

DETERMINED_FROM = 5.0
"""A variance below so many standard deviations of its noise is taken to be that large."""
# Entries of simulated diagonals, and draws of them.
_ENTRIES, _FEWEST, _MOST = 2000, 8, 50


@dataclass(frozen=True, eq=False)
class Standardized:
    """What `correlation_from_covariance` returns.

    Attributes
    ----------
    matrix : ndarray of shape (d, d)
        Correlations, each between -1 and 1, with a diagonal of ones; not yet semidefinite.
    sizes : ndarray of shape (d,)
        The standard deviations that were divided by, all above 0.
    undetermined : tuple of int
        Features whose variance the noise hides. They were divided by more than their standard deviation may be, so
        their correlations are too small.
    """

    matrix: FloatArray
    sizes: FloatArray
    undetermined: tuple[int, ...]

    def noise(self, error: FloatArray) -> FloatArray:
        """Return what an error of the covariance is in `matrix`, to first order; nothing on the diagonal.

        Examples
        --------
        >>> found = correlation_from_covariance(np.array([[4.0, 1.0], [1.0, 1.0]]))
        >>> found.noise(np.diag([0.4, 0.0])).round(3).tolist()
        [[0.0, -0.025], [-0.025, 0.0]]
        """
        scaled = error / np.outer(self.sizes, self.sizes)
        own = np.diag(scaled).copy()
        own[list(self.undetermined)] = 0.0  # which were divided by a public number
        scaled -= 0.5 * self.matrix * (own[:, None] + own)
        np.fill_diagonal(scaled, 0.0)
        return np.asarray(scaled)


def correlation_from_covariance(covariance: FloatArray, noise_draw: NoiseDraw | None = None) -> Standardized:
    """Estimate correlations from a released covariance.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        The covariance, plus noise.
    noise_draw : callable, optional
        Maps a generator to one noise matrix; without it the release is taken as it is.

    Examples
    --------
    >>> found = correlation_from_covariance(np.array([[4.0, 1.0], [1.0, 1.0]]))
    >>> found.matrix.tolist(), found.sizes.tolist()
    ([[1.0, 0.5], [0.5, 1.0]], [2.0, 1.0])
    """
    covariance = released_matrix(covariance)
    variances = np.diag(covariance)
    floor = DETERMINED_FROM * _diagonal_sd(variances.size, noise_draw)
    hidden = ~(variances > floor)
    # A feature that does not vary at all, and has no noise, correlates with nothing.
    sizes = np.sqrt(np.where(hidden, np.where(floor > 0, floor, 1.0), variances))
    matrix = np.clip(covariance / np.outer(sizes, sizes), -1.0, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return Standardized(matrix, sizes, tuple(int(position) for position in np.flatnonzero(hidden)))


def _diagonal_sd(d: int, noise_draw: NoiseDraw | None) -> FloatArray:
    """Return the standard deviation of the noise of every variance, by simulation."""
    if noise_draw is None:
        return np.zeros(d)
    generator = np.random.default_rng(SIMULATION_SEED)
    draws = min(_MOST, max(_FEWEST, math.ceil(_ENTRIES / d)))
    squares = np.mean([np.diag(noise_draw(generator)) ** 2 for _ in range(draws)], axis=0)
    return np.asarray(np.sqrt(squares))
