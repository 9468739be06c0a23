"""Ridge regression of any column on others, from one released second moment."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError, integer_between, positive_number
from .shrinkage import SIMULATION_SEED, WORK, NoiseDraw, noise_edge, released_matrix, shrink

FloatArray = NDArray[np.float64]

# The share of the noise edge that regularizes a well shrunk block; by experiment: docs/explanation/postprocessing.md.
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
    """Regress one column on others from a raw release M = A + N, with the known law of N.

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
