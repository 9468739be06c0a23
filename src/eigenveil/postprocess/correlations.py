"""From a released Kendall matrix to correlations: the sine rule, without the bias that known noise has on a sine.

For elliptical data the correlation is sin(pi tau / 2). docs/explanation/kendall.md derives what stands here.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..numerics import FloatArray
from .shrinkage import released_matrix

# Shares of untied comparisons count as determined from so many standard deviations on.
DETERMINED_FROM = 5.0
# A share within so many standard deviations of 1 is that of a feature without ties.
TIES_SHOW_BEYOND = 2.0
# How strongly features with an uncertain share are damped; chosen by experiment: docs/explanation/kendall.md.
_DAMPING = 2.0
# Where the mean cosine of the noise is below it, the sine of the release tells nothing any more.
_SMALLEST_COSINE = 0.1
# Where it is below this, many sines end at 1, and intervals say nothing; by experiment: benchmarks/coverage.py.
_SATURATED = 0.92


@dataclass(frozen=True, eq=False)
class SignCorrelation:
    """Correlations estimated from a Kendall matrix, with what is known of their noise.

    Attributes
    ----------
    matrix : ndarray of shape (d, d)
        Estimates of the correlations, each between -1 and 1, with a diagonal of ones; not yet semidefinite.
    cosine : ndarray of shape (d, d)
        What the noise has multiplied the sines by, on average.
    noise_sd : float
        As in `correlation_from_signs`.
    ties : UntiedShares
    largest_share : float
        As in `correlation_from_signs`.
    """

    matrix: FloatArray
    cosine: FloatArray
    noise_sd: float
    ties: "UntiedShares"
    largest_share: float

    @property
    def saturated(self) -> bool:
        """Whether the noise is so large that correlations are cut off at 1: no longer the true value plus noise."""
        return bool(self.cosine.min() < _SATURATED)

    @cached_property
    def undetermined(self) -> tuple[int, ...]:
        """Features with so many ties that their share of untied comparisons is not distinguishable from 0."""
        return tuple(int(position) for position in np.flatnonzero(self.ties.undetermined))

    @property
    def roots(self) -> FloatArray:
        """Square roots of the estimated shares of untied comparisons."""
        return np.sqrt(self.ties.shares)

    @cached_property
    def noise_ratio(self) -> FloatArray:
        """The factor from noise of the Kendall matrix to noise of `matrix`, entry by entry."""
        return self._ratio(self.matrix**2)

    @cached_property
    def cautious_ratio(self) -> FloatArray:
        """The noise ratio for intervals: not smaller where noise may have made a correlation large.

        The variance falls with the squared correlation, which noise raises: twice what that is at 0 is taken off.
        """
        raised = (1 - self.cosine**4) / self.cosine**2
        return self._ratio(np.maximum(self.matrix**2 - raised, 0.0))

    def _ratio(self, squares: FloatArray) -> FloatArray:
        """Return the ratio for squared correlations, from the variance of the sine of Gaussian noise."""
        if not self.noise_sd > 0:
            return np.zeros_like(squares)
        variance = ((1 - (1 - 2 * squares) * self.cosine**4) / 2 - squares * self.cosine**2) / self.cosine**2
        ratio = np.sqrt(np.maximum(variance, 0.0)) / self.noise_sd
        np.fill_diagonal(ratio, 0.0)
        return np.asarray(ratio)

    @property
    def tie_shift(self) -> FloatArray:
        """The excess of correlations in the case that all apparent ties that may be noise are noise."""
        missing = np.maximum(1 - self.ties.shares, 0.0)
        seen = np.where(missing < DETERMINED_FROM * self.ties.sd, missing, 0.0)
        shift = -self._share_slope * seen[:, None]
        return np.asarray(shift + shift.T)

    @property
    def _share_slope(self) -> FloatArray:
        slope = -0.5 * np.arcsin(self.matrix) * np.sqrt(1 - self.matrix**2)
        known = (self.ties.shares < self.largest_share) & ~self.ties.undetermined
        slope[known] /= self.ties.shares[known, None]
        slope[~known] = 0.0
        return np.asarray(slope)

    def noise(self, error: FloatArray) -> FloatArray:
        """Turn errors of the Kendall matrix into errors of `matrix`, for intervals; 0 on the diagonal."""
        by_ties = self._share_slope * self.ties.kept * np.diagonal(error, axis1=-2, axis2=-1)[..., None]
        found = error * self.cautious_ratio
        found += by_ties
        found += by_ties.swapaxes(-1, -2)
        return found


def correlation_from_signs(
    tau: FloatArray,
    noise_sd: float = 0.0,
    *,
    heaviness: float = 0.0,
    spread: float | None = None,
    largest_share: float = 1.0,
) -> SignCorrelation:
    """Estimate correlations from a released matrix of mean products of signs.

    Parameters
    ----------
    tau : ndarray of shape (d, d)
        The mean of s s' over signs s of differences, plus noise. Its diagonal is 1 but for ties. Where comparisons with
        many untied features were shortened, they count less, and so the mean of the diagonal is 1 but for ties.
    noise_sd : float
        Standard deviation of the noise beside the diagonal.
    heaviness : float
        Its kurtosis over that of a normal number, less 1.
    spread : float, optional
        Standard deviation of the noise of the diagonal about the mean of that noise; by default sqrt(2) times
        `noise_sd`, as for noise that has the same distribution in every basis.
    largest_share : float
        The largest that an entry of the diagonal can be without noise.

    Examples
    --------
    >>> tau = np.array([[1.0, 1 / 3], [1 / 3, 1.0]])
    >>> correlation_from_signs(tau).matrix.round(3).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    tau = released_matrix(tau)
    spread = math.sqrt(2) * noise_sd if spread is None else spread
    ties = untied_shares(np.diag(tau), spread, largest_share)
    frequency = math.pi / 2 * np.outer(ties.weights, ties.weights)
    cosine = np.maximum(mean_cosine(frequency * noise_sd, heaviness), _SMALLEST_COSINE)
    # Beyond a right angle a sine falls again, so that a large correlation would come out small.
    angle = np.clip(frequency * tau, -math.pi / 2, math.pi / 2)
    matrix = np.clip(np.sin(angle) / cosine, -1.0, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return SignCorrelation(matrix, cosine, noise_sd, ties, largest_share)


@dataclass(frozen=True, eq=False)
class UntiedShares:
    """Estimated shares of comparisons without ties, one a feature.

    Attributes
    ----------
    shares : ndarray of shape (d,)
        Estimated shares of comparisons without a tie, in units of a table without ties.
    sd : float
        Standard deviation of their errors.
    kept : float
        What an error of the released diagonal is multiplied by in `shares`.
    """

    shares: FloatArray
    sd: float
    kept: float

    @property
    def undetermined(self) -> NDArray[np.bool_]:
        """Whether a feature has ties, and so many that its share is not distinguishable from 0."""
        with_ties = (self.shares < 1 - TIES_SHOW_BEYOND * self.sd) | (self.shares == 0)
        return np.asarray(with_ties & (self.shares <= DETERMINED_FROM * self.sd))

    @property
    def weights(self) -> FloatArray:
        """Factors for signs: one over the root of the share, less where the share is uncertain.

        A Wiener filter: s^2 / (s^2 + u^2) of one over the root of s, for an uncertainty of u; 1 for a share of 1.
        """
        squares, uncertain = self.shares**2, (_DAMPING * self.sd) ** 2
        divisor = np.where(squares > 0, squares + uncertain, 1.0)
        return np.asarray(self.shares**1.5 * (1 + uncertain) / divisor)


def untied_shares(diagonal: FloatArray, spread: float, largest: float = 1.0) -> UntiedShares:
    """Estimate all shares of untied comparisons together, from the diagonal of a released Kendall matrix.

    Their mean is known far better than each of them, since the trace has little noise. So shares are shrunk towards
    their mean, by how much the diagonal varies beyond its noise.

    Parameters
    ----------
    diagonal : ndarray of shape (d,)
    spread : float
        Standard deviation of the noise of the diagonal about the mean of that noise.
    largest : float
        The largest that a share can be; their mean is at most 1.

    Examples
    --------
    >>> untied_shares(np.array([1.2, 0.8, 1.1, 0.9]), 0.2).shares.tolist()
    [1.0, 1.0, 1.0, 1.0]
    >>> untied_shares(np.array([1.0, 1.0, 0.5]), 0.0).shares.tolist()
    [1.0, 1.0, 0.5]
    """
    if diagonal.size == 1:
        return UntiedShares(np.ones(1), 0.0, 0.0)
    mean = float(diagonal.mean())
    beyond = max(0.0, float(diagonal.var(ddof=1)) - spread**2)
    kept = beyond / (beyond + spread**2) if spread > 0 else 1.0
    shares = np.clip(min(1.0, max(0.0, mean)) + kept * (diagonal - mean), 0.0, largest)
    # The mean of the noise is at most as large as that of independent numbers.
    return UntiedShares(shares, spread * math.sqrt(kept + (1 - kept) / diagonal.size), kept)


def mean_cosine(angle: FloatArray, heaviness: float = 0.0) -> FloatArray:
    """Return E cos(t e) for noise e, what noise multiplies a sine by; `angle` is t times its standard deviation.

    Normal noise has exp(-angle^2/2). Other noise is taken for normal of a variance that has a gamma distribution of
    shape k, 1/k its heaviness: (1 + angle^2/(2k))^(-k). For `laplace` and independent Wisharts that is exact.

    Examples
    --------
    >>> mean_cosine(np.array([0.5]), 0.0).round(4), mean_cosine(np.array([0.5]), 0.2).round(4)
    (array([0.8825]), array([0.8839]))
    """
    half = np.asarray(angle) ** 2 / 2
    return np.asarray(np.exp(-half) if heaviness == 0 else (1 + half * heaviness) ** (-1 / heaviness))


@dataclass(frozen=True, eq=False)
class Standardized:
    """Correlations estimated from a covariance, with the standard deviations that were divided by.

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
        """Turn errors of the covariance into errors of `matrix`, to first order; 0 on the diagonal.

        Examples
        --------
        >>> found = correlation_from_covariance(np.array([[4.0, 1.0], [1.0, 1.0]]))
        >>> found.noise(np.diag([0.4, 0.0])).round(3).tolist()
        [[0.0, -0.025], [-0.025, 0.0]]
        """
        scaled = error / np.outer(self.sizes, self.sizes)
        own = np.diagonal(scaled, axis1=-2, axis2=-1).copy()
        own[..., list(self.undetermined)] = 0.0  # which were divided by a public number
        scaled -= 0.5 * self.matrix * (own[..., None] + own[..., None, :])
        np.einsum("...ii->...i", scaled)[...] = 0.0
        return np.asarray(scaled)


def correlation_from_covariance(covariance: FloatArray, variance_sds: FloatArray | float = 0.0) -> Standardized:
    """Estimate correlations from a released covariance.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        The covariance, plus noise.
    variance_sds : float or ndarray of shape (d,)
        Standard deviations of the noise of the variances.

    Examples
    --------
    >>> found = correlation_from_covariance(np.array([[4.0, 1.0], [1.0, 1.0]]))
    >>> found.matrix.tolist(), found.sizes.tolist()
    ([[1.0, 0.5], [0.5, 1.0]], [2.0, 1.0])
    """
    covariance = released_matrix(covariance)
    variances = np.diag(covariance)
    floor = DETERMINED_FROM * np.broadcast_to(variance_sds, variances.shape)
    hidden = ~(variances > floor)
    # A feature that does not vary at all, and has no noise, correlates with nothing.
    sizes = np.sqrt(np.where(hidden, np.where(floor > 0, floor, 1.0), variances))
    matrix = np.clip(covariance / np.outer(sizes, sizes), -1.0, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return Standardized(matrix, sizes, tuple(int(position) for position in np.flatnonzero(hidden)))
