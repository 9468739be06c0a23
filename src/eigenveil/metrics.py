"""How good a released subspace or matrix is, measured against the truth (for research: it reads the truth)."""

import numpy as np
from numpy.typing import ArrayLike


def captured_variance(covariance: ArrayLike, components: ArrayLike) -> float:
    """Return qF = tr(V A V') for orthonormal rows V: the variance that the directions capture.

    Examples
    --------
    >>> captured_variance(np.diag([3.0, 1.0]), [[1.0, 0.0]])
    3.0
    """
    rows = np.atleast_2d(np.asarray(components, dtype=np.float64))
    return float(np.einsum("ki,ij,kj->", rows, np.asarray(covariance, dtype=np.float64), rows, optimize=True))


def correlation(truth: ArrayLike, estimate: ArrayLike) -> float:
    """Return qA = |<v1, u1>| for the first directions of both."""
    first, second = (np.atleast_2d(np.asarray(rows, dtype=np.float64))[0] for rows in (truth, estimate))
    return float(abs(first @ second))


def subspace_distance(truth: ArrayLike, estimate: ArrayLike) -> float:
    """Return the Frobenius norm of the difference of the two projections, sqrt(2) times the sine distance."""
    first, second = (np.atleast_2d(np.asarray(rows, dtype=np.float64)) for rows in (truth, estimate))
    overlap = float(np.sum((first @ second.T) ** 2))
    return float(np.sqrt(max(0.0, first.shape[0] + second.shape[0] - 2 * overlap)))


def frobenius_error(truth: ArrayLike, estimate: ArrayLike) -> float:
    """Return the Frobenius norm of the difference of two matrices."""
    return float(np.linalg.norm(np.asarray(truth, dtype=np.float64) - np.asarray(estimate, dtype=np.float64)))
