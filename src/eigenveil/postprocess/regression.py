"""Ridge regression of any column on others from one released second moment, with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.special import chdtri

from ..errors import InvalidParameterError, integer_between, positive_number
from ..numerics import FloatArray
from .entries import MatrixError
from .shrinkage import SIMULATION_SEED, WORK, NoiseDraw, noise_edge, released_matrix, shrink

# The share of the noise edge that regularizes a well shrunk block; by experiment: docs/research/postprocessing.md.
EDGE_SHARE = 0.3
# Below this share of the fit that pure noise has on average, the coefficients are 0; by experiment: the same page.
NOTHING_BELOW = 0.5
# Beside entries of size 1: where the noise is so small that its edge vanishes.
_NO_NOISE = 2.0**-50


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """What `ridge_from_covariance` returns.

    Attributes
    ----------
    coef : ndarray of shape (len(features),)
        Prediction of the target is the sum of coef times features; there is no intercept.
    alpha : float
        Regularization on the scale of A (per row): scikit-learn's `Ridge` would need n times as much.
    r2 : float
        Share of the target's second moment explained, in the shrunk release; 0 where there is no evidence.
    target : int
    features : tuple of int
    evidence : float
        1 less the share of the fit that pure noise would have had on average, and 0 where that is all of it.
    target_moment, target_sd : float
        The released second moment of the target, and the standard deviation of its noise.
    """

    coef: FloatArray
    alpha: float
    r2: float
    target: int
    features: tuple[int, ...]
    evidence: float
    target_moment: float
    target_sd: float


def ridge_from_covariance(
    matrix: FloatArray,
    target: int,
    features: Sequence[int] | None = None,
    *,
    noise_draw: NoiseDraw,
    alpha: float | None = None,
) -> RidgeFit:
    """Regress one column on others from a raw release M = A + N, with the known distribution of N.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
        The released second moment, raw: it is shrunk here, on the block of the columns in use.
    target : int
        Column to predict.
    features : sequence of int, optional
        Columns to predict from; all others by default.
    noise_draw : callable
        Maps a generator to one draw of N, d by d.
    alpha : float, optional
        Of a plain ridge. By default from the noise edge of the feature block, 0.3 of it for many features, all of it
        for one, and the ridge is then boosted.

    Notes
    -----
    Over all noise of spectral norm at most e, the worst mean squared error of coefficients b is that in M plus
    e(|b|² + 1): so a ridge with alpha = e is minimax on the raw release. Shrinking removes most of the noise of
    a large block, and 0.3 e is enough there.

    The fitted variance of M_xy is compared with its average over simulated noise. Below half of that there is
    nothing to learn from, and the coefficients are 0: the prediction is the mean. Above all of it, a second ridge on
    what the first has left over is added, damped by the same filter once more and by the evidence.

    `r2` is 1 - (mean squared error)/(mean square of the target) with both taken in the shrunk release, so it
    lies in [0, 1]. It is optimistic where the noise is moderate, pessimistic where it is large.

    Examples
    --------
    >>> def draw(generator):
    ...     entries = generator.standard_normal((3, 3))
    ...     return 1e-6 * (entries + entries.T)
    >>> A = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0], [2.0, -1.0, 5.5]])
    >>> fit = ridge_from_covariance(A, 2, noise_draw=draw)
    >>> fit.coef.round(3), round(fit.r2, 3)
    (array([ 2., -1.]), 0.909)
    """
    released = released_matrix(matrix)
    d = released.shape[0]
    target = integer_between("target", target, 0, d - 1)
    others = [j for j in range(d) if j != target] if features is None else list(features)
    columns = tuple(integer_between("features", j, 0, d - 1) for j in others)
    if not columns or target in columns or len(set(columns)) < len(columns):
        raise InvalidParameterError("features must be distinct columns other than the target, at least one.")
    used = np.ix_([*columns, target], [*columns, target])
    p = len(columns)

    def block(generator: np.random.Generator) -> FloatArray:
        return noise_draw(generator)[used]

    def feature_block(generator: np.random.Generator) -> FloatArray:
        return noise_draw(generator)[used][:p, :p]

    boosted = alpha is None
    if alpha is None:
        # `shrink` goes (d - 2)/d of the way: what it leaves of the noise keeps its minimax weight.
        alpha = (1 - (1 - EDGE_SHARE) * (p - 1) / (p + 1)) * noise_edge(feature_block)
        alpha = max(alpha, _NO_NOISE * float(np.abs(released).max()), _NO_NOISE**2)
    alpha = positive_number("alpha", alpha)
    moment = shrink(released[used], block).covariance
    values, vectors = np.linalg.eigh(moment[:p, :p])
    values = np.maximum(values, 0.0)  # of a positive semidefinite block, but for rounding
    weights = values / (values + alpha) / (values + alpha)  # whose square may underflow

    def fitted_variance(correlations: FloatArray) -> float:
        return float(np.sum(weights * (vectors.T @ correlations) ** 2))

    generator = np.random.default_rng(SIMULATION_SEED)
    borders = [block(generator)[:, p] for _ in range(int(np.clip(WORK // p, 4, 100)))]
    by_chance = float(np.mean([fitted_variance(border[:p]) for border in borders]))
    of_target = float(released[target, target]), float(np.std([border[p] for border in borders]))
    fitted = fitted_variance(released[used][:p, p])
    evidence = 1 - by_chance / fitted if fitted > by_chance else 0.0
    if fitted <= NOTHING_BELOW * by_chance or moment[p, p] <= 0:
        return RidgeFit(np.zeros(p), alpha, 0.0, target, columns, evidence, *of_target)
    kept = values / (values + alpha)
    gain = 1 + evidence * kept * (1 - kept) if boosted else 1.0
    coef: FloatArray = vectors @ (gain * (vectors.T @ moment[:p, p]) / (values + alpha))
    residual = np.append(coef, -1.0)
    r2 = float(np.clip(1 - residual @ moment @ residual / moment[p, p], 0.0, 1.0))
    return RidgeFit(coef, alpha, r2, target, columns, evidence, *of_target)


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
    >>> from eigenveil.postprocess.entries import plain_error
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
