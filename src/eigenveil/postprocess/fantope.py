"""Sparse principal components by Fantope projection and selection, from one released matrix."""

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..errors import InvalidParameterError, integer_between, positive_number
from ..numerics import FloatArray
from .shrinkage import released_matrix
from .spectrum import row_signs, sorted_eigh

# From this size on, Lanczos for the few eigenvalues that matter beats the full solver.
PARTIAL_FROM = 400
# Eigenvalues asked for beyond the rank of the last step; doubled while they do not suffice.
SPARE = 2
# Residual balancing: the penalty of the splitting moves by FACTOR when one residual is IMBALANCE times the other.
IMBALANCE, FACTOR, REVIEW_EVERY = 5.0, 2.0, 5


@dataclass(frozen=True, eq=False)
class SparseComponents:
    """Sparse components and the state of the solver that found them.

    Attributes
    ----------
    components : ndarray of shape (k, p)
        Orthonormal basis of the k leading eigenvectors of `projection`, with exact zeros off its support, turned
        so that the matrix S is diagonal on it, largest first.
    projection : ndarray of shape (p, p)
        The sparse iterate Y.
    objective : float
        <S, X> - penalty |X|_1 at the feasible iterate X.
    penalty : float
        The weight of the l1 norm.
    n_iter : int
    converged : bool
        Whether |X - Y|_F/sqrt(k), and the change of Y in units of the release, are at most `tol`.
    dual, step : ndarray, float
        The scaled dual variable and the penalty of the splitting: step times dual certifies the objective.
    """

    components: FloatArray
    projection: FloatArray
    objective: float
    penalty: float
    n_iter: int
    converged: bool
    dual: FloatArray
    step: float

    @property
    def support(self) -> NDArray[np.intp]:
        """Indices of the features that take part in some component."""
        return np.flatnonzero(np.any(self.components != 0, axis=0))


def fantope_components(
    matrix: FloatArray,
    n_components: int,
    *,
    penalty: float | None = None,
    noise_sd: float | None = None,
    tol: float = 1e-4,
    max_iter: int = 500,
    screen: int | None = None,
) -> SparseComponents:
    """Maximize <S, X> - penalty |X|_1 over the Fantope {0 <= X <= I, tr X = k}, by ADMM.

    Parameters
    ----------
    matrix : ndarray of shape (p, p)
        The released second moment S, raw: thresholding is the treatment of its noise.
    n_components : int
        k.
    penalty : float, optional
        At least 0. By default noise_sd sqrt(log p), the size of the largest of p noise entries up to sqrt(2).
    noise_sd : float, optional
        Off-diagonal standard deviation of the noise in S, public; needed where `penalty` is not given.
    tol : float
        Tolerance on both residuals.
    max_iter : int
        A ConvergenceWarning is issued where it is reached.
    screen : int, optional
        Where there are more features, solve on this many, and leave zeros for the others: those with the largest
        entries beside the diagonal, where a direction that stands out of the noise has its features. It spares the
        solver the crowded spectrum of the thousands of others. The default penalty is that of all features.

    Examples
    --------
    >>> S = np.zeros((6, 6))
    >>> S[:2, :2] = 1.0
    >>> S += 0.05 * np.cos(np.add.outer(np.arange(6), np.arange(6)))
    >>> result = fantope_components(S, 1, penalty=0.1)
    >>> result.support
    array([0, 1])
    """
    S = released_matrix(matrix)
    p = S.shape[0]
    k = integer_between("n_components", n_components, 1, p)
    if penalty is None and noise_sd is None:
        raise InvalidParameterError("Either penalty or noise_sd must be given.")
    if penalty is None:
        # Where no entry beside the diagonal is determined, as of signs that are all ties, there is no noise in them.
        penalty = 0.0 if noise_sd == 0 else positive_number("noise_sd", noise_sd) * math.sqrt(math.log(p))
    weight = 0.0 if penalty == 0 else positive_number("penalty", penalty)
    tol = positive_number("tol", tol)
    max_iter = integer_between("max_iter", max_iter, 1)
    if screen is not None and screen < p:
        sizes = np.abs(S)
        np.fill_diagonal(sizes, 0.0)
        chosen = np.sort(np.argsort(-sizes.max(axis=1), kind="stable")[: max(screen, k)])
        block = np.ascontiguousarray(S[np.ix_(chosen, chosen)])
        found = fantope_components(block, k, penalty=weight, tol=tol, max_iter=max_iter)
        components = np.zeros((k, p))
        components[:, chosen] = found.components
        return replace(found, components=components)
    top = _largest(S, k, None, 0.01 * tol)
    scale = float(np.abs(top[0]).max()) or 1.0
    Y: FloatArray = top[1] @ top[1].T
    U, step = np.zeros((p, p)), scale
    rank, start = k, None
    primal = dual = math.inf
    X, n_iter = Y, 0
    for n_iter in range(1, max_iter + 1):
        X, rank, start = _project(Y - U + S / step, k, rank, start, 0.01 * tol)
        shifted = X + U
        previous, Y = Y, np.sign(shifted) * np.maximum(np.abs(shifted) - weight / step, 0.0)
        U = shifted - Y
        primal = float(np.linalg.norm(X - Y)) / math.sqrt(k)
        dual = float(np.linalg.norm(Y - previous)) * step / (scale * math.sqrt(k))
        if max(primal, dual) <= tol:
            break
        # Reviewed ever more rarely: a fixed penalty in the end is what the convergence proof asks for.
        if n_iter % REVIEW_EVERY == 0 and n_iter < max_iter // 2:
            factor = FACTOR if primal > IMBALANCE * dual else 1 / FACTOR if dual > IMBALANCE * primal else 1.0
            step, U = step * factor, U / factor
    converged = max(primal, dual) <= tol
    if not converged:
        from sklearn.exceptions import ConvergenceWarning  # the rest of scikit-learn is not needed here

        warnings.warn(
            f"Fantope selection stopped after {n_iter} iterations with residuals above tol; raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=2,
        )
    objective = float(np.sum(S * X) - weight * np.abs(X).sum())
    return SparseComponents(_leading(S, Y, X, k), Y, objective, weight, n_iter, converged, U, step)


def fantope_shift(values: FloatArray, k: int) -> float:
    """Return the s at which the clipped values clip(v - s, 0, 1) sum to k, exactly.

    The sum falls piecewise linearly in s with kinks at v and v - 1: find the piece, then solve on it.

    Examples
    --------
    >>> fantope_shift(np.array([2.0, 0.5, 0.25]), 1)
    0.5
    """
    kinks = np.unique(np.concatenate([values, values - 1.0]))
    sums = np.clip(values[None, :] - kinks[:, None], 0.0, 1.0).sum(axis=1)
    right = int(np.searchsorted(-sums, -float(k), side="left"))
    if right == 0:
        return float(kinks[0])
    low, high = kinks[right - 1], kinks[right]
    fall = sums[right - 1] - sums[right]
    return float(low + (sums[right - 1] - k) * (high - low) / fall)


def _project(
    matrix: FloatArray, k: int, rank: int, start: FloatArray | None, accuracy: float
) -> tuple[FloatArray, int, FloatArray | None]:
    """Return the nearest point of the Fantope, its rank, and a start vector for the next solve."""
    p = matrix.shape[0]
    wanted = rank + SPARE
    while True:
        wanted = p if p < PARTIAL_FROM or wanted > p // 8 else wanted
        values, vectors = _largest(matrix, wanted, start, accuracy)
        shift = fantope_shift(values, k)
        # What was not computed lies below values.min(); where that is clipped to 0, nothing is missing.
        if wanted == p or values.min() <= shift:
            break
        wanted *= 2
    weights = np.clip(values - shift, 0.0, 1.0)
    used = weights > 0
    columns = vectors[:, used] * np.sqrt(weights[used])
    return columns @ columns.T, int(used.sum()), vectors[:, used].sum(axis=1)


def _largest(
    matrix: FloatArray, count: int, start: FloatArray | None, accuracy: float
) -> tuple[FloatArray, FloatArray]:
    """Return the `count` largest eigenvalues (in any order) and their eigenvectors as columns.

    The spare eigenvalues lie in the crowded bulk of the noise, where full accuracy would cost several times more.
    """
    p = matrix.shape[0]
    if p >= PARTIAL_FROM and count <= p // 8:
        from scipy.sparse.linalg import ArpackNoConvergence, eigsh  # which take long to load

        # A fixed start keeps the result deterministic; ARPACK would draw one from its own generator.
        v0 = np.random.default_rng(p).standard_normal(p) if start is None else start
        try:
            values, vectors = eigsh(matrix, k=count, which="LA", v0=v0, ncv=2 * count + 20, tol=accuracy)
            return values, vectors
        except ArpackNoConvergence:
            pass
    values, vectors = scipy.linalg.eigh(matrix, driver="evd")
    return values[p - count :], vectors[:, p - count :]


def _leading(S: FloatArray, Y: FloatArray, X: FloatArray, k: int) -> FloatArray:
    """Return the leading eigenspace of Y, solved on its support so that zeros are exact, in the order of S.

    Y is close to a projection, whose eigenvectors have no order of their own: S turns them inside the subspace.
    """
    support = np.flatnonzero(np.any(Y != 0, axis=0))
    if support.size < k:  # a penalty so large that the selection is empty: the feasible iterate still has k
        support, Y = np.arange(S.shape[0]), X
    block = np.ix_(support, support)
    basis = sorted_eigh(Y[block], k)[1]
    rows = sorted_eigh(basis @ S[block] @ basis.T)[1] @ basis
    components = np.zeros((k, S.shape[0]))
    components[:, support] = rows * row_signs(rows)
    return components
