"""Ridge regression of any column on others, from one released second moment."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..errors import InvalidParameterError, integer_between, positive_number
from .shrinkage import NoiseDraw, noise_edge, released_matrix, shrink

FloatArray = NDArray[np.float64]

# The share of the noise edge that regularizes a well shrunk block; by experiment: docs/explanation/postprocessing.md.
EDGE_SHARE = 0.3


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
        Share of the target's second moment explained, in the shrunk release; 0 where nothing passes the edge.
    target : int
    features : tuple of int
    """

    coef: FloatArray
    alpha: float
    r2: float
    target: int
    features: tuple[int, ...]


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
        By default from the noise edge of the feature block: 0.3 of it for many features, all of it for one.

    Notes
    -----
    Over all noise of spectral norm at most e, the worst mean squared error of coefficients b is that in M plus
    e(|b|² + 1): so a ridge with alpha = e is minimax on the raw release. Shrinking removes most of the noise of
    a large block, and 0.3 e is enough there. Where no eigenvalue of the block passes its noise edge there is
    nothing to learn from, and the coefficients are 0.

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

    if alpha is None:
        # `shrink` goes (d - 2)/d of the way: what it leaves of the noise keeps its minimax weight.
        alpha = (1 - (1 - EDGE_SHARE) * (p - 1) / (p + 1)) * noise_edge(feature_block)
    alpha = positive_number("alpha", alpha)
    shrunk = shrink(released[used], block)
    moment = shrunk.covariance
    if shrunk.n_visible == 0 or moment[p, p] <= 0:
        return RidgeFit(np.zeros(p), alpha, 0.0, target, columns)
    # The shrunk block is positive semidefinite and alpha is above 0, so the system is never singular.
    coef: FloatArray = scipy.linalg.solve(moment[:p, :p] + alpha * np.eye(p), moment[:p, p], assume_a="pos")
    residual = np.append(coef, -1.0)
    r2 = float(np.clip(1 - residual @ moment @ residual / moment[p, p], 0.0, 1.0))
    return RidgeFit(coef, alpha, r2, target, columns)
