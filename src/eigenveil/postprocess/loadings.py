"""How far released components may be from the true ones: angles, and standard errors of loadings."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from ..numerics import FloatArray
from .entries import MatrixError


@dataclass(frozen=True)
class Rest:
    """Eigenvalues that were not computed: how many, their mean and their variance, computed from the matrix."""

    count: int
    mean: float
    variance: float

    @classmethod
    def of(cls, matrix: FloatArray, values: FloatArray) -> "Rest | None":
        """Return what is left of the eigenvalues of a matrix; None where all are known."""
        count = len(matrix) - len(values)
        if count == 0:
            return None
        mean = (float(np.trace(matrix)) - float(values.sum())) / count
        square = (float(np.sum(np.square(matrix))) - float(values @ values)) / count
        return cls(count, mean, max(0.0, square - mean**2))

    def mean_inverse_square(self, values: FloatArray) -> FloatArray:
        """Return the mean of 1/(value - l)^2 over the rest, as if it were the semicircle of noise; infinite inside."""
        z = values - self.mean
        outside = z > 2 * math.sqrt(self.variance)
        root = np.sqrt(np.where(outside, z**2 - 4 * self.variance, 1.0))
        return np.where(outside, 1 / np.where(outside, root * (z + root) / 2, 1.0), np.inf)


@dataclass(frozen=True, eq=False)
class LoadingErrors:
    """What `loading_errors` returns, an entry a component.

    Attributes
    ----------
    angle : ndarray of shape (k,)
        The angle to the true component that is to be expected, in degrees; 90 where it may be any.
    angle_bound : ndarray of shape (k,)
        What the angle stays below at the level asked for; 90 where the direction is not determined.
    undetermined : ndarray of bool, shape (k,)
        Whether the noise may have turned it into any direction: its eigenvalue is too near to another.
    standard_errors : ndarray of shape (k, d)
        Of the loadings; at most the root of what is left of 1.
    subspace_bound : float
        What the largest angle between the span of all k and that of the true ones stays below; ties among them do not
        matter to it. 90 where the noise may have turned it out altogether.
    """

    angle: FloatArray
    angle_bound: FloatArray
    undetermined: NDArray[np.bool_]
    standard_errors: FloatArray
    subspace_bound: float


def loading_errors(
    values: FloatArray,
    rows: FloatArray,
    k: int,
    error: MatrixError,
    *,
    level: float,
    sampled: float = 0.0,
    rest: Rest | None = None,
) -> LoadingErrors:
    """Return angles of the first k eigenvectors of M = A + N to those of A, with bounds, and errors of loadings.

    Parameters
    ----------
    values, rows : ndarray of shape (m,), (m, d)
        Eigenvalues of M, descending, and its eigenvectors as rows: all of them, or the largest, more than k.
    k : int
    error : MatrixError
    level : float
        Of the bounds.
    sampled : float
        As for `covariance_intervals`.
    rest : Rest, optional
        The eigenvalues that are not among `values`.

    Notes
    -----
    To first order the true component i is off by N_ij/(l_i - l_j) along the released direction j, so the squared
    tangent is a sum of w_j = var N_ij/(l_i - l_j)^2 times squares of normal numbers: its mean is the sum of w, and its
    upper quantile that of a chi-square of the same mean and variance, to which the error of l_i adds. For
    the largest eigenvalues over a bulk of noise this is the known limit, and no approximation for small noise.

    Two eigenvalues that are the same without noise come out farther apart than g with probability
    exp(-g^2/(8 var N_ij)): a component nearer than that to another, at the level asked for, may be any mix of them.

    Examples
    --------
    >>> from eigenveil.postprocess.entries import plain_error
    >>> errors = loading_errors(np.array([3.0, 1.0, 0.9]), np.eye(3), 3, plain_error(3, 0.01, level=0.95), level=0.95)
    >>> errors.angle.round(1), errors.undetermined
    (array([ 3.9, 90. , 90. ]), array([False,  True,  True]))
    """
    levers, (traces, own) = rows @ error.lever, error.traces_along(rows, k)
    both = np.outer(levers[:k], levers)
    across, along = traces + both, own + levers**2
    variances = error.beside * (along[:k, None] * along + across**2 - 2 * both**2) + error.shared * traces**2
    kept = np.maximum(values, 0.0)
    variances = np.maximum(variances, 0.0) + sampled * np.outer(kept[:k], kept)
    gaps = np.abs(values[:k, None] - values)
    itself = np.arange(k)
    gaps[itself, itself] = np.inf
    with np.errstate(divide="ignore"):
        w = variances / gaps**2
    nearest = 1 / (8 * math.log(1 / (1 - level)))
    tied = (w > nearest).any(axis=1)
    others = np.zeros(k)  # for each of the rest, as large as their mean
    if rest is not None:
        size = (error.total - float(along.sum())) / rest.count
        others = rest.mean_inverse_square(values[:k]) * (
            error.beside * along[:k] * size + sampled * kept[:k] * max(rest.mean, 0.0)
        )
        tied |= ~(others <= nearest)
    missing = 0 if rest is None else rest.count
    # Of the span, what leaves it: the squared tangents add up to no less than the largest.
    leaving = w[:, k:].ravel()
    left, heavier = float(leaving.sum() + missing * others.sum()), (max(error.quantiles) / error.normal) ** 2
    spread = float(np.square(leaving).sum() + missing * np.square(others).sum()) + error.common_size * left**2 / 2
    bound_of_span = _upper(np.array(left), np.array(spread), level) * heavier if np.isfinite(left) else np.inf
    torn = bool((leaving > nearest).any() or (others > nearest).any() or not bound_of_span < 1)
    span = 90.0 if torn else float(np.degrees(np.arctan(np.sqrt(bound_of_span))))
    w, others = np.where(tied[:, None], 0.0, w), np.where(tied, 0.0, others)
    # The eigenvalue itself is off too, and with it all of its distances.
    own = variances[itself, itself] + sampled * kept[:k] ** 2
    apart = np.where(tied[:, None], np.inf, gaps)  # exact ties are 0 apart
    moved = (w / apart).sum(axis=1) + missing * others / np.maximum(values[:k] - values[-1], np.finfo(float).tiny)
    mean = w.sum(axis=1) + missing * others
    square = np.square(w).sum(axis=1) + missing * others**2 + 2 * own * moved**2 + error.common_size * mean**2 / 2
    bound = heavier * _upper(mean, square, level)
    lost = tied | (bound >= 1)
    turned = np.where(lost, 90.0, np.degrees(np.arctan(np.sqrt(mean))))
    farthest = np.where(lost, 90.0, np.degrees(np.arctan(np.sqrt(bound))))
    errors = np.sqrt(np.minimum(w @ rows**2 + others[:, None] * (1 - np.square(rows).sum(axis=0)), 1.0))
    errors[lost] = np.sqrt(np.maximum(1.0 - rows[:k][lost] ** 2, 0.0))
    return LoadingErrors(turned, farthest, lost, errors, span)


def largest_loading_error(values: FloatArray, rows: FloatArray, errors: LoadingErrors) -> Callable[[FloatArray], float]:
    """Return a function from an error of M to the largest error of a loading, in standard errors, to first order.

    Parameters
    ----------
    values, rows
        All eigenvalues and eigenvectors, as for `loading_errors`.
    errors : LoadingErrors
        Components that are not determined do not count.
    """
    known = np.flatnonzero(~errors.undetermined)
    gaps = values[known, None] - values
    gaps[np.arange(known.size), known] = np.inf
    deviations = np.maximum(errors.standard_errors[known], np.finfo(float).tiny)

    def largest(drawn: FloatArray) -> float:
        moved = (rows[known] @ drawn @ rows.T / gaps) @ rows
        return float(np.max(np.abs(moved) / deviations, initial=0.0))

    return largest


def _upper(mean: FloatArray, square: FloatArray, level: float) -> FloatArray:
    """Return the upper quantile of a chi-square number with this mean and half of this variance."""
    degrees = np.where(square > 0, mean**2 / np.maximum(square, np.finfo(float).tiny), 1.0)
    return np.where(mean > 0, mean / degrees * chdtri(degrees, 1 - level), 0.0)
