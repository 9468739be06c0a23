"""From a released Kendall matrix to correlations: the sine rule, without the bias that known noise has on a sine.

For elliptical data the correlation is sin(pi tau / 2). docs/explanation/kendall.md derives what stands here.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..numerics import FloatArray
from .shrinkage import SIMULATION_SEED, NoiseDraw, released_matrix

# A released diagonal within so many standard deviations of 1 is that of a feature without ties.
TIES_SHOW_BEYOND = 2.0
# With ties, a diagonal below so many standard deviations is too small to divide by.
DETERMINED_FROM = 5.0
# Entries of simulated noise: they are brought to their known size, so they tell the shape of the distribution alone.
_FEWEST_ENTRIES, _MOST_ENTRIES = 500, 20_000
_FREQUENCIES = 65
# Where the mean cosine of the noise is below it, the sine of the release tells nothing any more.
_SMALLEST_COSINE = 0.1
# Where it is below this, many sines end at 1, and intervals say nothing; by experiment: benchmarks/coverage.py.
_SATURATED = 0.92


@dataclass(frozen=True, eq=False)
class SignCorrelation:
    """What `correlation_from_signs` returns.

    Attributes
    ----------
    matrix : ndarray of shape (d, d)
        Estimates of the correlations, each between -1 and 1, with a diagonal of ones; not yet semidefinite.
    noise_ratio : ndarray of shape (d, d)
        What to multiply noise of the Kendall matrix by, to have noise as large as that of `matrix`.
    cautious_ratio : ndarray of shape (d, d)
        The same for intervals: not smaller where it may be noise that made a correlation large.
    tie_slope : ndarray of shape (d, d)
        What an error of the diagonal of the Kendall matrix at i changes the correlation at (i, j) by.
    tie_shift : ndarray of shape (d, d)
        How much too large correlations are if it was noise that looked like ties, wherever it may have been.
    saturated : bool
        Whether the noise is so large that correlations are cut off at 1, and no more the truth plus noise.
    undetermined : tuple of int
        Features with so many ties that their number is not distinguishable from noise; their correlations are 0.
    roots : ndarray of shape (d,)
        What signs were divided by: the root of the released diagonal where it shows ties, else 1.
    """

    matrix: FloatArray
    noise_ratio: FloatArray
    cautious_ratio: FloatArray
    tie_slope: FloatArray
    tie_shift: FloatArray
    saturated: bool
    undetermined: tuple[int, ...]
    roots: FloatArray

    def noise(self, error: FloatArray) -> FloatArray:
        """Return what an error of the Kendall matrix is in `matrix`, for intervals; nothing on the diagonal."""
        by_ties = self.tie_slope * np.diag(error)[:, None]
        return np.asarray(error * self.cautious_ratio + by_ties + by_ties.T)


def correlation_from_signs(
    tau: FloatArray, noise_sd: float = 0.0, noise_draw: NoiseDraw | None = None
) -> SignCorrelation:
    """Estimate correlations from a released matrix of mean products of signs.

    Parameters
    ----------
    tau : ndarray of shape (d, d)
        The mean of s s' over signs s of differences, plus noise. Its diagonal is 1 but for ties.
    noise_sd : float
        Standard deviation of the noise beside the diagonal.
    noise_draw : callable, optional
        Maps a generator to one noise matrix; without it the release is taken as it is.

    Examples
    --------
    >>> tau = np.array([[1.0, 1 / 3], [1 / 3, 1.0]])
    >>> correlation_from_signs(tau).matrix.round(3).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    tau = released_matrix(tau)
    diagonal_sd, entries = (0.0, np.zeros(1)) if noise_draw is None else _simulated(tau.shape[0], noise_sd, noise_draw)
    diagonal = np.diag(tau)
    tied = diagonal < 1 - TIES_SHOW_BEYOND * diagonal_sd
    lost = tied & (diagonal <= DETERMINED_FROM * diagonal_sd)
    roots = np.sqrt(np.where(tied & ~lost, diagonal, 1.0))
    frequency = math.pi / 2 / np.outer(roots, roots)
    cosine = _mean_cosine(frequency, entries)
    matrix = np.clip(np.sin(frequency * tau) / cosine, -1.0, 1.0)
    matrix[lost] = matrix[:, lost] = 0.0
    # The variance of the sine of Gaussian noise about its mean, over the square of what the mean was divided by. It
    # falls with the squared correlation, which noise raises: with caution, twice what that is at 0 is taken off.
    raised = (1 - cosine**4) / cosine**2
    ratios = []
    for squares in (matrix**2, np.maximum(matrix**2 - raised, 0.0)):
        variance = ((1 - (1 - 2 * squares) * cosine**4) / 2 - squares * cosine**2) / cosine**2
        ratio = np.sqrt(np.maximum(variance, 0.0)) / noise_sd if noise_sd > 0 else np.zeros_like(tau)
        ratio[lost] = ratio[:, lost] = 0.0
        np.fill_diagonal(ratio, 0.0)
        ratios.append(ratio)
    np.fill_diagonal(matrix, 1.0)
    slope = -0.5 * np.arcsin(matrix) * np.sqrt(1 - matrix**2) / roots[:, None] ** 2
    slope[~tied | lost] = 0.0
    seen = np.where(1 - diagonal < DETERMINED_FROM * diagonal_sd, 1 - diagonal, 0.0)
    shift = -slope * seen[:, None]
    shift += shift.T.copy()
    undetermined = tuple(int(position) for position in np.flatnonzero(lost))
    saturated = bool(cosine.min() < _SATURATED)
    return SignCorrelation(matrix, ratios[0], ratios[1], slope, shift, saturated, undetermined, roots)


def _simulated(d: int, noise_sd: float, noise_draw: NoiseDraw) -> tuple[float, FloatArray]:
    """Return the standard deviation on the diagonal, and entries beside it, of simulated noise."""
    generator = np.random.default_rng(SIMULATION_SEED)
    beside = np.triu_indices(d, 1)
    draws = [noise_draw(generator) for _ in range(math.ceil(_FEWEST_ENTRIES / max(1, beside[0].size)))]
    diagonal_sd = float(np.sqrt(np.mean([np.diag(noise) ** 2 for noise in draws])))
    entries = np.concatenate([noise[beside] for noise in draws])[:_MOST_ENTRIES]
    size = math.sqrt(np.mean(entries**2)) if entries.size else 0.0
    return diagonal_sd, entries * (noise_sd / size) if size > 0 else np.zeros(1)


def _mean_cosine(frequency: FloatArray, entries: FloatArray) -> FloatArray:
    """Return the mean of cos(t e) over entries e of noise, for each frequency t: what noise multiplies a sine by."""
    known = np.linspace(frequency.min(), frequency.max(), _FREQUENCIES)
    means = np.array([np.cos(one * entries).mean() for one in known])
    return np.asarray(np.maximum(np.interp(frequency, known, means), _SMALLEST_COSINE))


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
        Features whose variance is not distinguishable from noise. They were divided by more than their standard
        deviation may be, so their correlations are too small.
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
