"""Multivariate methods on a released covariance matrix: PCA, whitening, LDA, CCA and factor analysis.

All are post-processing and spend no budget. Variances that are not distinguishable from noise are raised to the noise
level before anything is divided by them.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError, InvalidParameterError, integer_between, one_of
from ..numerics import FloatArray
from ..postprocess.multivariate import (
    CanonicalCorrelations,
    Factors,
    canonical_correlations,
    discriminant,
    factors,
    inverse,
    inverse_root,
    squared_distances,
)
from ..postprocess.spectrum import Eigensystem
from .matrix import ABOUT_THE_MEAN, Columns, real_rows
from .origin import ComponentsRequest, SparseRequest

if TYPE_CHECKING:
    from .record import Release


_ABOVE_NOISE = "above_noise"


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
    """Return the same release with other principal components. Spends no budget.

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
        one_of("n_components", wanted, (_ABOVE_NOISE,))
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
    names = [_name(release, one) for one in classes]
    priors, across = _shares_of(release, classes), covariance[np.ix_(used, classes)] / scale[classes]
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


def _name(release: "Release", position: int) -> str:
    return str(release.feature_names[position]) if release.feature_names is not None else f"x{position}"


def _shares_of(release: "Release", labels: list[int]) -> FloatArray:
    """Return the shares of labels, 0 where they are not distinguishable from noise."""
    shares, ends = release.mean[labels], release.intervals.mean()
    return np.where((shares if ends is None else ends[labels, 0]) > 0, shares, 0.0)
