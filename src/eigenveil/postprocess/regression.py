"""Ridge regression of any column on others from one released second moment."""

import math
from dataclasses import dataclass

import numpy as np

from ..errors import positive_number
from ..numerics import FloatArray
from .entries import MatrixError
from .noise_spectrum import edge_quantile, mapped_reach
from .shrinkage import Shrunk

# The share of the noise edge that regularizes a well shrunk block; by experiment: docs/research/postprocessing.md.
EDGE_SHARE = 0.2
# Below this share of the fit that pure noise has on average, the coefficients are 0; by experiment: the same page.
NOTHING_BELOW = 0.5
# Beside entries of size 1: where the noise is so small that its edge vanishes.
_NO_NOISE = 2.0**-50


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """A ridge regression of one column, with the evidence for it.

    Attributes
    ----------
    coef : ndarray of shape (p,)
        Prediction of the target is the sum of coef times features; there is no intercept.
    alpha : float
        Regularization on the scale of A (per row): scikit-learn's `Ridge` would need n times as much.
    r2 : float
        Share of the target's second moment explained, in the shrunk release; 0 where there is no evidence.
    evidence : float
        1 less the share of the fit that pure noise would have had on average, and 0 where that is all of it.
    target_moment, target_sd : float
        The released second moment of the target, and the standard deviation of its noise.
    """

    coef: FloatArray
    alpha: float
    r2: float
    evidence: float
    target_moment: float
    target_sd: float


def ridge_from_covariance(
    matrix: FloatArray, moment: Shrunk, error: MatrixError, *, excess: float = 0.0, alpha: float | None = None
) -> RidgeFit:
    """Regress the last column on all others from a raw release M = A + N, with the known distribution of N.

    Parameters
    ----------
    matrix : ndarray of shape (p + 1, p + 1)
        The released second moment, raw.
    moment : Shrunk
        The same, shrunk, as by `shrink`.
    error : MatrixError
        Of M.
    excess : float
        Of N, as in `NoiseFacts`.
    alpha : float, optional
        By default from the noise edge of the feature block, 0.2 of it for many features, all of it for one.

    Notes
    -----
    Over all noise of spectral norm at most e, the worst mean squared error of coefficients b is that in M plus
    e(|b|² + 1): so a ridge with alpha = e is minimax on the raw release. Shrinking removes most of the noise of
    a large block, and 0.2 e is enough there.

    The fitted variance of M_xy is compared with its average over noise alone. Below half of that there is
    nothing to learn from, and the coefficients are 0: the prediction is the mean.

    `r2` is 1 - (mean squared error)/(mean square of the target) with both taken in the shrunk release, so it
    lies in [0, 1]. It is optimistic where the noise is moderate, pessimistic where it is large.

    Examples
    --------
    >>> from eigenveil.postprocess.entries import plain_error
    >>> from eigenveil.postprocess.shrinkage import shrink
    >>> A = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0], [2.0, -1.0, 5.5]])
    >>> fit = ridge_from_covariance(A, shrink(A, 0.0), plain_error(3, 1e-6, level=0.95))
    >>> fit.coef.round(2), round(fit.r2, 3)
    (array([ 2., -1.]), 0.909)
    """
    p = len(matrix) - 1
    if alpha is None:
        # The edge of noise that is the same in every basis, which for small blocks is too far out, times how much
        # farther the noise reaches after its map: passed once in 20 times.
        share, sizes = excess * p / (p + 1), error.product_sizes(p)
        edge = math.sqrt(error.beside) * edge_quantile(p, 1.0, share) / (1 + (0.4 + 0.8 * share) / p)
        edge *= float(sizes[0]) if p == 1 else mapped_reach(sizes) / (2 * math.sqrt(p - 1))
        # `shrink` goes (d - 1)/d of the way: what it leaves of the noise keeps its minimax weight.
        alpha = (EDGE_SHARE + (1 - EDGE_SHARE) / p) * edge
        alpha = max(alpha, _NO_NOISE * float(np.abs(matrix).max()), _NO_NOISE**2)
    alpha = positive_number("alpha", alpha)
    ridge = _Ridge(moment, alpha)
    target = np.append(np.zeros(p), 1.0)
    factor, columns, covariance = error.residual_terms(target)
    by_chance = factor * ridge.fit_of_products(error) + float(np.sum(covariance * ridge.fits(columns)))
    of_target = float(matrix[p, p]), math.sqrt(error.variance_along(target))
    fitted = float(ridge.fits(matrix[:, p:])[0, 0])
    evidence = 1 - by_chance / fitted if fitted > by_chance else 0.0
    if fitted <= NOTHING_BELOW * by_chance or ridge.target_moment <= 0:
        return RidgeFit(np.zeros(p), alpha, 0.0, evidence, *of_target)
    r2 = float(np.clip(1 - ridge.residual_moment / ridge.target_moment, 0.0, 1.0))
    return RidgeFit(ridge.coef, alpha, r2, evidence, *of_target)


class _Ridge:
    """A ridge on a shrunk moment S of the features and the target, in the basis of its eigenvectors.

    With K the inverse of S + alpha, and k its column of the target, k_y on its diagonal: the inverse of S_xx + alpha is
    the block of P = K - kk'/k_y, whose other entries are 0, so that the coefficients are -k_x/k_y. In this basis S and
    K are diagonal, and nothing is to be decomposed or multiplied once more.
    """

    def __init__(self, moment: Shrunk, alpha: float) -> None:
        self._moments, self._system = moment.shrunk_eigenvalues, moment.system
        target = np.zeros((self._moments.size, 1))
        target[-1] = 1.0
        self._of_target = self._system.coordinates(target)[:, 0]
        self._inverse = 1 / (self._moments + alpha)
        self._column = self._inverse * self._of_target
        self._corner = float(self._column @ self._of_target)
        self.coef: FloatArray = self._system.combined(self._column)[:-1] / -self._corner

    @property
    def target_moment(self) -> float:
        return float(self._moments @ self._of_target**2)

    @property
    def residual_moment(self) -> float:
        return float(self._moments @ (self._column / self._corner) ** 2)

    def fits(self, columns: FloatArray) -> FloatArray:
        """Return V'PSPV for covariances V with the features: on its diagonal, how much is fitted to each."""
        solved = self._inverse[:, None] * self._along(columns)
        solved += np.outer(self._column, self.coef @ columns[:-1])
        return np.asarray((solved.T * self._moments) @ solved)

    def _along(self, columns: FloatArray) -> FloatArray:
        """Return the products of the eigenvectors with columns, as if they had nothing for the target."""
        return self._system.coordinates(np.vstack([columns[:-1], np.zeros_like(columns[-1:])]))

    def fit_of_products(self, error: MatrixError) -> float:
        """Return the trace of PSPG, for the products G of an error: what is fitted to noise with that covariance."""
        coef = np.append(self.coef, 0.0)
        traces = error.traces_times(coef)
        weights = self._moments * self._inverse
        if error.even:
            sizes = error.traces[0] * (1 - self._of_target**2)
        else:
            sizes = error.traces_along(self._system.rows() * np.append(np.ones(coef.size - 1), 0.0), 0)[1]
        found = float((weights * self._inverse) @ sizes)
        found += 2 * float((weights * self._column) @ self._along(traces[:, None])[:, 0])
        found += self.residual_moment * self._corner**2 * float(coef @ traces)
        return max(0.0, found) + float(self.fits(error.lever[:, None])[0, 0])


def shrunk_mean(mean: FloatArray, sd: float) -> FloatArray:
    """Return a released mean drawn towards the middle of the public ranges, by the noise it is known to have.

    Parameters
    ----------
    mean : ndarray of shape (d,)
        About the middle of the ranges.
    sd : float
        Standard deviation of the noise on every entry.

    Notes
    -----
    The empirical Bayes rule for d means of a common variance about the middle: the factor is 1 - d sd²/|mean|², and 0
    where that is below 0, so a mean that is all noise does not place predictions anywhere.

    Examples
    --------
    >>> shrunk_mean(np.array([2.0, 0.0]), 1.0), shrunk_mean(np.array([0.5, 0.5]), 1.0)
    (array([1., 0.]), array([0., 0.]))
    """
    square = float(mean @ mean)
    return mean * max(0.0, 1 - mean.size * sd**2 / square) if square > 0 else mean
