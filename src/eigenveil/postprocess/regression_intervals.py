"""Intervals for the least-squares regression behind a raw release: its coefficients, intercept and R².

docs/explanation/intervals_of_entries.md derives every formula.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.special import chdtri

from .entry_intervals import FloatArray, MatrixError

# The largest eigenvalue of a block of noise in units of the deviation beside the diagonal is about 2 sqrt(p) and
# fluctuates; one number fluctuates by sqrt(2). Below so much, quotients are no longer near to normal.
_BULK, _BEYOND = 2.4, 5.0
# A target whose variance is below so many deviations of its noise has no share of it to explain.
_VISIBLE = 5.0


@dataclass(frozen=True, eq=False)
class RegressionIntervals:
    """What `regression_intervals` returns; of the features in the units of the matrix.

    Attributes
    ----------
    coef_interval : ndarray of shape (p, 2)
        Of the least-squares coefficients; infinite where the noise leaves them open.
    intercept_error : float
        Standard error of the intercept; infinite where the coefficients are not determined.
    r2_interval : ndarray of shape (2,)
        Of the share of variance that these coefficients explain.
    determined : bool
        Whether the smallest variance of any combination of the features rises above the noise. Where not, coefficients
        are answered by test inversion: all that the release does not contradict.
    """

    coef_interval: FloatArray
    intercept_error: float
    r2_interval: FloatArray
    determined: bool


def regression_intervals(
    matrix: FloatArray,
    error: MatrixError,
    mean: FloatArray,
    *,
    level: float,
    sampled: float = 0.0,
) -> RegressionIntervals:
    """Return intervals for the regression of the last column of M = A + N on all others.

    Parameters
    ----------
    matrix : ndarray of shape (p + 1, p + 1)
        M, raw.
    error : MatrixError
        Of M.
    mean : ndarray of shape (p + 1,)
        Of the columns, about where the intercept is asked for; zeros where none is fitted.
    level : float
        Of every interval by itself; the one of `error` too.
    sampled : float
        One over the number of rows where the answer is about the population they come from; 0 where it is about them.

    Examples
    --------
    >>> from eigenveil.postprocess.entry_intervals import plain_error
    >>> A = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0], [2.0, -1.0, 5.5]])
    >>> found = regression_intervals(A, plain_error(3, 1e-4, level=0.95), np.zeros(3), level=0.95)
    >>> found.coef_interval.round(2), found.determined
    (array([[ 1.94,  2.06],
           [-1.05, -0.95]]), True)
    """
    middle = matrix - np.diag(error.mean_bias)
    p = len(matrix) - 1
    if not _determined(middle, error, p):
        coef_interval = _contradicted_beyond(middle, error, level, sampled)
        return RegressionIntervals(coef_interval, math.inf, np.array([0.0, 1.0]), False)
    inverse = np.asarray(np.linalg.inv(middle[:p, :p]), np.float64)
    coef = inverse @ middle[:p, p]
    towards = np.append(-coef, 1.0)
    noise = error.residual_covariance(towards)[:p, :p]
    quiet = float(np.sum(inverse * noise))  # the residual variance comes out too small by so much
    residual = max(0.0, float(towards @ middle @ towards) + quiet)
    spread = np.diag(inverse @ noise @ inverse)
    quantile = max(error.quantiles)
    reach = np.sqrt(quantile**2 * spread + error.normal**2 * sampled * residual * np.diag(inverse))
    return RegressionIntervals(
        np.stack([coef - reach, coef + reach], axis=-1),
        _intercept_error(inverse, error, towards, mean, sampled * residual),
        _r2_interval(middle, error, towards, inverse @ noise, sampled),
        True,
    )


def _determined(middle: FloatArray, error: MatrixError, p: int) -> bool:
    """Return whether the least eigenvalue of the features is above the noise, each direction in units of its own."""
    try:
        least = float(
            scipy.linalg.eigh(middle[:p, :p], error.products[:p, :p], eigvals_only=True, subset_by_index=(0, 0))[0]
        )
    except np.linalg.LinAlgError:  # a mean so far off that the features cannot be told apart beside it
        return False
    own = error.beside + float(np.max(error.extra, initial=0.0)) / 2
    return least > math.sqrt(own) * max(_BULK * math.sqrt(p), 2 * math.sqrt(p) + _BEYOND) and least > 0


def _contradicted_beyond(middle: FloatArray, error: MatrixError, level: float, sampled: float) -> FloatArray:
    """Return, for every coefficient, the range of all vectors b of them that M_xy - M_xx b does not contradict.

    The covariance of that residual is at most (g'Hg) H_xx, g = (-b, 1), so the set has the quadratic bound
    |M_xy - M_xx b|^2 <= q g'Hg, in the norm of H_xx: an ellipsoid, or unbounded.
    """
    p = len(middle) - 1
    values, vectors = np.linalg.eigh(middle)
    own = max(0.0, float(np.max(error.extra, initial=0.0)))
    size = math.sqrt(2 * error.beside + max(error.shared, 0.0) + own)
    # No true variance is below 0, and each may be larger than it came out by what noise has at most.
    farthest = 2 * size * math.sqrt(len(middle)) * np.max(np.diag(error.products))
    above = (vectors * (np.maximum(values, 0.0) + farthest)) @ vectors.T
    H = size * error.products + (math.sqrt(sampled) + math.sqrt(error.count)) * above
    quantile = float(chdtri(p, 1 - level)) * (max(error.quantiles) / error.normal) ** 2
    open_ended = np.tile([-math.inf, math.inf], (p, 1))
    try:
        whitened = np.linalg.solve(H[:p, :p], middle[:p])
        A = middle[:p, :p] @ whitened[:, :p] - quantile * H[:p, :p]
        scipy.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return open_ended
    linear = middle[:p, :p] @ whitened[:, p] - quantile * H[:p, p]
    constant = float(middle[:p, p] @ whitened[:, p] - quantile * H[p, p])
    inverse = np.linalg.inv(A)
    centre = inverse @ linear
    radius = np.sqrt(np.maximum((linear @ centre - constant) * np.diag(inverse), 0.0))
    return np.stack([centre - radius, centre + radius], axis=-1)


def _intercept_error(
    inverse: FloatArray, error: MatrixError, towards: FloatArray, mean: FloatArray, sampling: float
) -> float:
    """Return the standard error of (mean of the target) - (means of the features)'b."""
    p = len(inverse)
    lean = np.append(inverse @ mean[:p], 0.0)
    weights = (np.outer(lean, towards) + np.outer(towards, lean)) / 2
    together = 4 * error.beside / error.constant * float(towards @ weights @ error.lever) if error.constant else 0.0
    noise = error.mean * float(towards @ towards) + error.variance(weights) + together
    noise += error.count * float(towards @ mean) ** 2
    return math.sqrt(max(0.0, noise) + sampling * (1 + float(mean[:p] @ inverse @ mean[:p])))


def _r2_interval(
    middle: FloatArray, error: MatrixError, towards: FloatArray, product: FloatArray, sampled: float
) -> FloatArray:
    """Return an interval for the share of the target's variance that least squares explain.

    The residual variance g'Mg is stationary in b, so that its first-order error is g'Ng alone; to second order it comes
    out too small by e'M_xx^(-1)e, where e is the noise of the residual.
    """
    p, total = len(product), float(middle[-1, -1])
    if total <= _VISIBLE * math.sqrt(float(error.entry_variances()[-1, -1])):
        return np.array([0.0, 1.0])
    residual = float(towards @ middle @ towards)
    weights = -np.outer(towards, towards) / total
    weights[-1, -1] += residual / total**2
    each = sampled * residual / total
    r2 = 1 - (residual + float(np.trace(product))) / total - each * p
    noise = error.variance(weights) + 2 * float(np.sum(product * product.T)) / total**2
    share = min(max(r2, 0.0), 1.0)
    chance = 4 * sampled * share * (1 - share) ** 2 + 2 * each**2 * p
    quantile = max(error.quantiles)
    square = quantile**2 * noise + error.normal**2 * chance
    # A larger share has a larger error than this one, from 0 on like its root: so the upper end solves
    # (r - r2)^2 = square + growth (r - share), and the lower end need not.
    steepest = float(np.max(np.real(np.linalg.eigvals(product)))) / total
    growth = 4 * (1 - share) ** 2 * (quantile**2 * steepest + error.normal**2 * each)
    below = share - r2
    inside = (growth / 2 - below) ** 2 + square - below**2
    upper = share + max(growth / 2 - below + math.sqrt(max(inside, 0.0)), math.sqrt(square) - below)
    return np.clip([r2 - math.sqrt(square), upper], 0.0, 1.0)
