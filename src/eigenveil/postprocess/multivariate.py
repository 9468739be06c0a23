"""Textbook methods on one covariance matrix: whitening, distances, discriminants, canonical correlations, factors.

Arrays in, arrays out. A released matrix has directions whose variance is not distinguishable from noise; their
variances are raised to a floor that the caller gives, so that nothing is divided by noise. Without noise the floor is
0, and all of these are the methods of the textbooks.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..errors import InvalidParameterError
from ..numerics import FloatArray
from .shrinkage import compose
from .spectrum import Eigensystem, sorted_eigh

_TINY = 2.0**-40
"""Variances below this share of the largest are rounding."""


def inverse_root(covariance: FloatArray, floor: float = 0.0) -> FloatArray:
    """Return the symmetric W with W S W = 1 for a positive semidefinite S, variances below `floor` raised to it.

    Examples
    --------
    >>> inverse_root(np.diag([4.0, 0.01]), floor=1.0)
    array([[0.5, 0. ],
           [0. , 1. ]])
    """
    values, rows = sorted_eigh(covariance)
    return compose(1 / np.sqrt(_raised(values, floor)), rows)


def inverse(values: FloatArray, system: Eigensystem, floor: float = 0.0) -> FloatArray:
    """Return the inverse of a positive semidefinite matrix, variances below `floor` raised to it.

    Where few are above it, that is a multiple of the identity but for as many directions.

    Parameters
    ----------
    values : ndarray of shape (d,)
        Its eigenvalues, descending.
    system : Eigensystem
        With its eigenvectors.
    floor : float

    Examples
    --------
    >>> inverse(np.array([4.0, 0.01]), Eigensystem(np.diag([4.0, 0.01])), floor=1.0)
    array([[0.25, 0.  ],
           [0.  , 1.  ]])
    """
    inverses = 1 / _raised(values, floor)
    few = int(np.count_nonzero(inverses < inverses[-1]))
    if few > values.size // 8:
        return compose(inverses, system.rows())
    found = -compose(inverses[-1] - inverses[:few], system.rows(few))
    found.flat[:: values.size + 1] += inverses[-1]
    return found


def _raised(values: FloatArray, floor: float) -> FloatArray:
    least = max(floor, _TINY * float(max(values[0], 0.0)))
    if least <= 0:
        raise InvalidParameterError("The covariance is 0, so nothing can be divided by it.")
    return np.maximum(values, least)


def squared_distances(centred: FloatArray, covariance: FloatArray, floor: float = 0.0) -> FloatArray:
    """Return x' S^-1 x for rows x about the mean.

    Examples
    --------
    >>> squared_distances(np.array([[2.0, 0.0], [0.0, 3.0]]), np.diag([4.0, 1.0]))
    array([1., 9.])
    """
    return np.asarray(np.square(centred @ inverse_root(covariance, floor)).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Discriminant:
    """What `discriminant` returns.

    Attributes
    ----------
    priors : ndarray of shape (c,)
    means : ndarray of shape (c, p)
        Of the classes.
    within : ndarray of shape (p, p)
        The covariance inside of the classes.
    directions : ndarray of shape (m, p)
        Along which classes differ most, first to last; the variance inside of the classes is 1 along each.
    ratios : ndarray of shape (m,)
        Variance between the classes over that inside of them.
    """

    priors: FloatArray
    means: FloatArray
    within: FloatArray
    directions: FloatArray
    ratios: FloatArray


def discriminant(
    covariance: FloatArray, mean: FloatArray, with_labels: FloatArray, priors: FloatArray, floor: float = 0.0
) -> Discriminant:
    """Return Fisher's linear discriminants from second moments of features and one-hot labels.

    E[x | l] = E[x] + cov(x, l)/P(l), so the means of the classes are in the covariance of features and labels.

    Parameters
    ----------
    covariance, mean : ndarray of shape (p, p), (p,)
        Of the features.
    with_labels : ndarray of shape (p, c)
        Covariances of the features with the labels; every row has one label.
    priors : ndarray of shape (c,)
        Shares of the labels, all above 0, of sum 1.
    floor : float
        The least variance inside of the classes in any direction.

    Examples
    --------
    >>> found = discriminant(np.diag([2.0, 1.0]), np.zeros(2), np.array([[0.5, -0.5], [0, 0]]), np.array([0.5, 0.5]))
    >>> found.means[:, 0], found.within[0, 0], found.ratios
    (array([ 1., -1.]), np.float64(1.0), array([1.]))
    """
    shifts = (with_labels / priors).T
    between = (shifts.T * priors) @ shifts
    within = _semidefinite(covariance - between)
    root = inverse_root(within, floor)
    count = min(len(priors) - 1, len(mean))
    ratios, vectors = scipy.linalg.eigh(root @ between @ root)
    order = slice(None, -count - 1, -1)
    directions = _signed((root @ vectors[:, order]).T)
    return Discriminant(priors, mean + shifts, within, directions, np.maximum(ratios[order], 0.0))


@dataclass(frozen=True, eq=False)
class CanonicalCorrelations:
    """What `canonical_correlations` returns, strongest first.

    Attributes
    ----------
    correlations : ndarray of shape (m,)
    first, second : ndarray of shape (m, p), (m, q)
        Weights of the features of both blocks; the variance along each is 1.
    """

    correlations: FloatArray
    first: FloatArray
    second: FloatArray


def canonical_correlations(
    first: FloatArray, second: FloatArray, across: FloatArray, floors: tuple[float, float] = (0.0, 0.0)
) -> CanonicalCorrelations:
    """Return Hotelling's canonical correlations of two blocks from their covariances and those across.

    Examples
    --------
    >>> found = canonical_correlations(np.eye(1), np.eye(2), np.array([[0.0, 0.5]]))
    >>> found.correlations, found.first, found.second + 0.0
    (array([0.5]), array([[1.]]), array([[0., 1.]]))
    """
    roots = inverse_root(first, floors[0]), inverse_root(second, floors[1])
    left, values, right = np.linalg.svd(roots[0] @ across @ roots[1], full_matrices=False)
    weights = (roots[0] @ left).T
    signs = _signs(weights)
    others = right @ roots[1] * signs[:, None]
    return CanonicalCorrelations(np.minimum(values, 1.0), weights * signs[:, None], others)


@dataclass(frozen=True, eq=False)
class Factors:
    """What `factors` returns: covariance = loadings' loadings + diag(noise_variance), as nearly as k factors can.

    Attributes
    ----------
    loadings : ndarray of shape (k, d)
        In the order of their strength beside the noise of the features, the entry of largest size positive.
    noise_variance : ndarray of shape (d,)
        What each feature has by itself.
    n_iter : int
    """

    loadings: FloatArray
    noise_variance: FloatArray
    n_iter: int


def factors(covariance: FloatArray, k: int, *, floor: float = 0.0, tol: float = 1e-8, max_iter: int = 2000) -> Factors:
    """Return the maximum-likelihood factor analysis of a covariance matrix.

    For fixed variances p of the features' own noise the best loadings follow from the eigenvalues of
    p^(-1/2) S p^(-1/2); then p is what they leave of the diagonal. Both steps are repeated.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        Positive semidefinite.
    k : int
    floor : float
        The least variance of a feature's own noise.
    tol : float
        It stops where the log-likelihood of a row gains no more.
    max_iter : int

    Examples
    --------
    >>> loadings = np.array([[1.0, 2.0, 3.0, 1.0]])
    >>> found = factors(loadings.T @ loadings + np.diag([0.5, 0.2, 0.3, 0.4]), 1, tol=1e-12)
    >>> found.loadings.round(3), found.noise_variance.round(3)
    (array([[1., 2., 3., 1.]]), array([0.5, 0.2, 0.3, 0.4]))
    """
    diagonal = np.diag(covariance)
    least = np.maximum(max(floor, _TINY * float(diagonal.max(initial=0.0))), _TINY * diagonal)
    if not np.all(least > 0):
        raise InvalidParameterError("The covariance is 0, so it has no factors.")
    own, before = np.maximum(diagonal, least), -np.inf
    loadings, n_iter = np.zeros((k, len(diagonal))), 0
    while n_iter < max_iter:
        n_iter += 1
        size = np.sqrt(own)
        values, vectors = scipy.linalg.eigh(covariance / np.outer(size, size))
        top, rest = values[::-1][:k], values[::-1][k:]
        loadings = np.sqrt(np.maximum(top - 1, 0.0))[:, None] * vectors.T[::-1][:k] * size
        kept = np.maximum(top, 1.0)
        # Twice the log-likelihood of one row, but for a constant.
        likelihood = -float(np.log(own).sum() + (np.log(kept) + top / kept).sum() + rest.sum())
        if likelihood - before < tol:
            break
        before = likelihood
        own = np.maximum(diagonal - np.square(loadings).sum(axis=0), least)
    return Factors(_signed(loadings), own, n_iter)


def _semidefinite(matrix: FloatArray) -> FloatArray:
    values, vectors = scipy.linalg.eigh(matrix)
    return matrix if values[0] >= 0 else np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _signs(rows: FloatArray) -> FloatArray:
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.where(largest < 0, -1.0, 1.0)


def _signed(rows: FloatArray) -> FloatArray:
    return np.asarray(rows * _signs(rows)[:, None])
