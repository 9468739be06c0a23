"""Multivariate methods on a released covariance matrix: PCA, whitening, LDA, CCA and factor analysis.

All are post-processing and spend no budget. Variances that are not distinguishable from noise are raised to the noise
level before anything is divided by them. The functions of arrays take that level as a floor; with a floor of 0 they are
the methods of the textbooks.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..errors import InvalidDataError, InvalidParameterError, integer_between, one_of
from ..numerics import FloatArray
from ..postprocess.noise_spectrum import ABOVE_NOISE
from ..postprocess.shrinkage import compose
from ..postprocess.spectrum import Eigensystem, sorted_eigh
from .matrix import ABOUT_THE_MEAN, Columns, real_rows
from .origin import ComponentsRequest, SparseRequest

if TYPE_CHECKING:
    from .record import Release


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
    """Fisher's linear discriminants, in the units of the covariance they were computed from.

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
    within = covariance - between
    values, rows = scipy.linalg.eigh(within)
    if values[0] < 0:
        within = (rows * np.maximum(values, 0.0)) @ rows.T
    root = inverse_root(within, floor)
    count = min(len(priors) - 1, len(mean))
    ratios, vectors = scipy.linalg.eigh(root @ between @ root)
    order = slice(None, -count - 1, -1)
    directions = _signed((root @ vectors[:, order]).T)
    return Discriminant(priors, mean + shifts, within, directions, np.maximum(ratios[order], 0.0))


@dataclass(frozen=True, eq=False)
class CanonicalCorrelations:
    """Canonical correlations of two blocks of columns, strongest first.

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
    """A factor model: covariance = loadings' loadings + diag(noise_variance), as nearly as k factors can.

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


def _signs(rows: FloatArray) -> FloatArray:
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.where(largest < 0, -1.0, 1.0)


def _signed(rows: FloatArray) -> FloatArray:
    return np.asarray(rows * _signs(rows)[:, None])


@dataclass(frozen=True, eq=False)
class LinearDiscriminant:
    """Linear discriminant analysis of a release, in the units of the features; returned by `Release.lda`.

    Attributes
    ----------
    classes : tuple of str
    features : tuple of int
        Positions of the features that are used.
    priors, means : ndarray of shape (c,), (c, p)
    coef, intercept : ndarray of shape (c, p), (c,)
        Of the linear scores. The class with the largest score is predicted.
    directions, ratios : ndarray of shape (m, p), (m,)
        Directions along which classes differ most, and the ratios of between-class to within-class variance.
    """

    classes: tuple[str, ...]
    features: tuple[int, ...]
    priors: FloatArray
    means: FloatArray
    coef: FloatArray
    intercept: FloatArray
    directions: FloatArray
    ratios: FloatArray

    def decision(self, X: Any) -> FloatArray:
        """Return the linear scores of rows of these features, one for each class."""
        return np.asarray(real_rows(X, self.coef.shape[1]) @ self.coef.T + self.intercept)

    def predict(self, X: Any) -> NDArray[np.object_]:
        """Return the most probable class of each row of these features."""
        return np.array(self.classes, dtype=object)[self.decision(X).argmax(axis=1)]  # type: ignore[no-any-return]

    def transform(self, X: Any) -> FloatArray:
        """Project rows of these features on the directions, about the mean of all classes."""
        return np.asarray((real_rows(X, self.means.shape[1]) - self.priors @ self.means) @ self.directions.T)


def pca(
    release: "Release", n_components: int | float | str | None = None, *, correlation: bool | None = None
) -> "Release":
    """Ask a release for other principal components. Spends no budget.

    Parameters
    ----------
    n_components : int, float, "above_noise" or None
        As in `PrivatePCA`.
    correlation : bool, optional
        Whether to use the correlation matrix; by default as in the release.
    """
    wanted, most = n_components, release.n_features
    if release.spectrum.drawn_directions is not None and not correlation:
        most = len(release.spectrum.drawn_directions)
    if isinstance(wanted, str):
        one_of("n_components", wanted, (ABOVE_NOISE,))
    elif isinstance(wanted, float | np.floating):
        wanted = float(wanted)
        if not 0 < wanted < 1:
            raise InvalidParameterError("n_components must be an integer, or a float between 0 and 1.")
    elif wanted is not None:
        wanted = integer_between("n_components", wanted, 1, most)
    if not isinstance(wanted, int | None) and not release.matrix.has_matrix:
        raise InvalidParameterError("This release has directions only. Give n_components as an integer.")
    request = release.origin.request
    standardized = request.correlation if correlation is None else bool(correlation)
    if release.matrix.of_signs and not standardized and correlation is not None:
        raise InvalidParameterError("statistic='kendall' releases correlations only. Leave out correlation=False.")
    if standardized and not release.matrix.of_signs and not (release.matrix.centred and release.matrix.has_matrix):
        raise InvalidParameterError(ABOUT_THE_MEAN)
    # A release that was made for components keeps their units; of a covariance they are those of the features.
    own_units = request.own_units
    if not isinstance(request, ComponentsRequest | SparseRequest):
        own_units = (
            release.matrix.has_matrix
            and release.origin.row_rule.keeps_lengths
            and release.spectrum.drawn_directions is None
        )
    whitened = isinstance(request, ComponentsRequest) and request.whiten
    asked = ComponentsRequest(wanted, whitened, correlation=standardized, own_units=own_units)
    return replace(release, origin=replace(release.origin, request=asked))


def whiten(release: "Release", X: Any) -> FloatArray:
    """Project rows on the components and scale the scores to variance 1, as ``PCA(whiten=True)`` does.

    The projections of private rows are private data; do not publish them.
    """
    spectrum = release.spectrum
    return np.asarray(spectrum.transform(X) * (spectrum.divisors / spectrum.deviations))


def precision(release: "Release") -> FloatArray:
    """Return the inverse of the covariance in the units of the features, its variances at least those of the noise."""
    matrix = release.matrix
    if matrix.has_known_noise and not matrix.of_correlation and not release.origin.without_range:
        values, system = matrix.estimate.shrunk_eigenvalues, matrix.system  # which nothing was changed in since
    else:
        system = Eigensystem(_usable(release))
        values = system.values
    found = inverse(values, system, _floor(release))
    found *= np.outer(release.scale, release.scale)
    return found


def mahalanobis(release: "Release", X: Any) -> FloatArray:
    """Return the squared Mahalanobis distances of rows from the mean, as scikit-learn's covariances do."""
    release.matrix.check_units()
    covariance = _usable(release)
    rows = np.asarray(release.matrix.rows(X), dtype=np.float64)
    return squared_distances((rows - release.mean) * release.scale, covariance, _floor(release))


def lda(release: "Release", labels: Columns, features: Columns | None = None) -> LinearDiscriminant:
    """Return the linear discriminant analysis of one-hot labels that are columns of the release.

    Parameters
    ----------
    labels : str, int or sequence
        The columns that are 0 or 1, one of them 1 in every row; or a column of the schema, for all its categories;
        or a single column of 0 and 1, for two classes.
    features : sequence, optional
        The columns to use; all others by default.
    """
    release.matrix.check_units()
    covariance, scale = _usable(release), release.scale
    if not release.matrix.centred:
        raise InvalidParameterError(ABOUT_THE_MEAN)
    classes = release.matrix.positions(labels)
    used = [one for one in range(release.n_features) if one not in classes]
    used = used if features is None else release.matrix.positions(features)
    if {*used} & {*classes} or not used:
        raise InvalidParameterError("labels and features must be different columns, at least one each.")
    known = release.feature_names
    names = [f"x{one}" if known is None else str(known[one]) for one in classes]
    priors, ends = release.mean[classes], release.intervals.mean()
    priors = np.where((priors if ends is None else ends[classes, 0]) > 0, priors, 0.0)  # 0 where it may be noise
    across = covariance[np.ix_(used, classes)] / scale[classes]
    if len(classes) == 1:
        priors, across = np.append(1 - priors, priors), np.hstack([-across, across])
        names = [f"not {names[0]}", names[0]]
    if not np.all(priors > 0):
        raise InvalidParameterError(
            "The frequency of some labels is not distinguishable from noise. Leave out these labels, or merge them."
        )
    priors = priors / priors.sum()
    across = across - across.sum(axis=1, keepdims=True) * priors  # which is 0 but for noise
    size = scale[used]
    found = discriminant(covariance[np.ix_(used, used)], release.mean[used] * size, across, priors, _floor(release))
    root = inverse_root(found.within, _floor(release))
    solved = found.means @ root @ root
    intercept = np.log(priors) - 0.5 * np.sum(found.means * solved, axis=1)
    return LinearDiscriminant(
        tuple(names),
        tuple(used),
        priors,
        found.means / size,
        solved * size,
        intercept,
        found.directions * size,
        found.ratios,
    )


def cca(release: "Release", first: Columns, second: Columns) -> CanonicalCorrelations:
    """Return the canonical correlations of two blocks of columns, with weights in the units of the features."""
    covariance, blocks = _usable(release), [release.matrix.positions(first), release.matrix.positions(second)]
    if {*blocks[0]} & {*blocks[1]} or not all(blocks):
        raise InvalidParameterError("first and second must be different columns, at least one each.")
    own = [covariance[np.ix_(block, block)] for block in blocks]
    across = covariance[np.ix_(*blocks)]
    found = canonical_correlations(own[0], own[1], across, (_floor(release), _floor(release)))
    weights = [one * release.scale[block] for one, block in zip((found.first, found.second), blocks, strict=True)]
    return CanonicalCorrelations(found.correlations, weights[0], weights[1])


def factor_analysis(release: "Release", n_factors: int, *, tol: float = 1e-8, max_iter: int = 2000) -> Factors:
    """Return the maximum-likelihood factor analysis, with loadings in the units of the features."""
    covariance = _usable(release)
    k = integer_between("n_factors", n_factors, 1, release.n_features)
    found = factors(covariance, k, floor=_floor(release), tol=tol, max_iter=max_iter)
    return Factors(found.loadings / release.scale, found.noise_variance / release.scale**2, found.n_iter)


# Blocks of the matrix.


def _floor(release: "Release") -> float:
    """Return the least variance of the scaled features that is distinguishable from noise."""
    return release.noise_sd or 0.0


def _usable(release: "Release") -> FloatArray:
    if not release.matrix.has_matrix:
        raise InvalidDataError("This release has directions only, no matrix.")
    return release.matrix.scaled_covariance
