"""Multivariate methods on a released covariance matrix: PCA, whitening, LDA, CCA and factor analysis.

All are post-processing and spend no budget. Variances that are not distinguishable from noise are raised to the noise
level before anything is divided by them.
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
from ..postprocess.spectrum import Eigensystem, row_signs, sorted_eigh
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
    scores = (rows - release.mean) * release.scale @ inverse_root(covariance, _floor(release))
    return np.asarray(np.square(scores).sum(axis=1))


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
    # Fisher's discriminants: E[x | l] = E[x] + cov(x, l)/P(l), so covariances with the labels give the class means.
    size, shifts = scale[used], (across / priors).T
    means, between = release.mean[used] * size + shifts, (shifts.T * priors) @ shifts
    within = covariance[np.ix_(used, used)] - between
    values, vectors = scipy.linalg.eigh(within)
    if values[0] < 0:
        within = (vectors * np.maximum(values, 0.0)) @ vectors.T
    root = inverse_root(within, _floor(release))
    ratios, vectors = scipy.linalg.eigh(root @ between @ root)
    order = slice(None, -min(len(priors) - 1, len(used)) - 1, -1)
    directions = (root @ vectors[:, order]).T
    solved = means @ root @ root
    return LinearDiscriminant(
        classes=tuple(names),
        features=tuple(used),
        priors=priors,
        means=means / size,
        coef=solved * size,
        intercept=np.log(priors) - 0.5 * np.sum(means * solved, axis=1),
        directions=directions * row_signs(directions) * size,
        ratios=np.maximum(ratios[order], 0.0),
    )


def cca(release: "Release", first: Columns, second: Columns) -> CanonicalCorrelations:
    """Return Hotelling's canonical correlations of two blocks of columns, with weights in the units of the features."""
    covariance, blocks = _usable(release), [release.matrix.positions(first), release.matrix.positions(second)]
    if {*blocks[0]} & {*blocks[1]} or not all(blocks):
        raise InvalidParameterError("first and second must be different columns, at least one each.")
    roots = [inverse_root(covariance[np.ix_(block, block)], _floor(release)) for block in blocks]
    left, values, right = np.linalg.svd(roots[0] @ covariance[np.ix_(*blocks)] @ roots[1], full_matrices=False)
    weights = (roots[0] @ left).T
    signs = row_signs(weights)
    scales = release.scale[blocks[0]], release.scale[blocks[1]]
    return CanonicalCorrelations(
        np.minimum(values, 1.0), weights * signs * scales[0], right @ roots[1] * signs * scales[1]
    )


def factor_analysis(release: "Release", n_factors: int, *, tol: float = 1e-8, max_iter: int = 2000) -> Factors:
    """Return the maximum-likelihood factor analysis, with loadings in the units of the features.

    For fixed variances p of the features' own noise the best loadings follow from the eigenvalues of
    p^(-1/2) S p^(-1/2); then p is what they leave of the diagonal. Both steps are repeated.

    Parameters
    ----------
    n_factors : int
    tol : float
        It stops where the log-likelihood of a row gains no more.
    max_iter : int
    """
    covariance = _usable(release)
    k = integer_between("n_factors", n_factors, 1, release.n_features)
    diagonal = np.diag(covariance)
    least = np.maximum(max(_floor(release), _TINY * float(diagonal.max(initial=0.0))), _TINY * diagonal)
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
    return Factors(loadings * row_signs(loadings) / release.scale, own / release.scale**2, n_iter)


# Blocks of the matrix.


def _floor(release: "Release") -> float:
    """Return the least variance of the scaled features that is distinguishable from noise."""
    return release.noise_sd or 0.0


def _usable(release: "Release") -> FloatArray:
    if not release.matrix.has_matrix:
        raise InvalidDataError("This release has directions only, no matrix.")
    return release.matrix.scaled_covariance
