"""`PrivatePCA`: scikit-learn's PCA with a privacy guarantee; `PrivateSparsePCA`: components that use few features."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..errors import InvalidParameterError, integer_between
from ..numerics import FloatArray
from ..releases.intervals import HIDDEN_ROWS
from ..releases.multivariate import precision
from ..releases.origin import Request, SparseRequest
from ..releases.record import Release
from .base import (
    PrivateEstimator,
    ReleaseAttribute,
    ReleaseEstimator,
    available_where,
    checked_array,
    names_unknown_parameters,
    of_rows,
)
from .parameters import Estimator, Needs, components_needs, components_request

_Value = TypeVar("_Value")


def _with_known_noise(read: Callable[[Release], _Value | None]) -> Callable[[Release], _Value]:
    """Let a function of a release raise an `AttributeError` where it returns None because the noise is unknown."""

    def known(release: Release) -> _Value:
        value = read(release)
        if value is None:
            raise AttributeError(
                HIDDEN_ROWS
                if release.matrix.rows_hidden
                else f"{release.origin.mechanism} releases no variances with noise of a known distribution, so their "
                "error is unknown."
            )
        return value

    return known


def _has_density(estimator: Estimator) -> None:
    """Raise an `AttributeError` where the release of a fitted estimator has no mean and matrix for a likelihood."""
    release: Release | None = getattr(estimator, "release_", None)
    if release is not None and (release.matrix.of_signs or not (release.matrix.centred and release.matrix.has_matrix)):
        raise AttributeError(
            "A likelihood needs a released mean and matrix. Fit with bounds or a norm_bound, center=True and a "
            "mechanism that releases a matrix."
        )


class ComponentsEstimator(TransformerMixin, ReleaseEstimator):
    """Base class of the estimators of principal components: their attributes, and projections on the components."""

    components_ = ReleaseAttribute(
        lambda release: release.matrix.of_all(release.components, 0.0), "Principal directions of the scaled features."
    )
    mean_ = ReleaseAttribute(
        lambda release: release.matrix.of_all(release.mean, 0.0), "The mean that `transform` subtracts."
    )
    n_components_ = ReleaseAttribute(lambda release: len(release.components), "Number of components.")
    covariance_ = ReleaseAttribute(
        lambda release: release.covariance,
        "The released matrix, shrunk, in the units of the features; None where only a subspace was released.",
    )
    correlation_ = ReleaseAttribute(
        lambda release: release.correlation, "Correlations: `covariance_` scaled to a diagonal of 1."
    )
    explained_variance_ = ReleaseAttribute(
        lambda release: release.explained_variance,
        "Variances along the components, of the scaled features; None where none were released.",
    )
    explained_variance_ratio_ = ReleaseAttribute(
        lambda release: release.explained_variance_ratio,
        "Share of the total variance for each component; None where no variances were released.",
    )
    explained_variance_interval_ = ReleaseAttribute(
        _with_known_noise(lambda release: release.explained_variance_interval),
        "95 % confidence intervals for the variances along the components (see `release_.intervals.about`).",
    )
    explained_variance_interval_kind_ = ReleaseAttribute(
        _with_known_noise(lambda release: release.spectrum.explained_variance_interval_kind),
        'For each interval "exact distribution" or "approximate".',
    )
    explained_variance_ratio_interval_ = ReleaseAttribute(
        _with_known_noise(lambda release: release.spectrum.explained_variance_ratio_interval),
        "95 % confidence intervals for the shares of the components (see `release_.intervals.about`).",
    )
    captured_variance_ = ReleaseAttribute(
        lambda release: release.spectrum.captured_variance,
        "Variance along all components together; None where no variances were released.",
    )
    captured_variance_ratio_ = ReleaseAttribute(
        lambda release: release.spectrum.captured_variance_ratio,
        "Share of the total variance for all components together; None where no variances were released.",
    )
    captured_variance_interval_ = ReleaseAttribute(
        _with_known_noise(lambda release: release.spectrum.captured_variance_interval),
        "95 % confidence interval for the variance along all components together.",
    )
    captured_variance_ratio_interval_ = ReleaseAttribute(
        _with_known_noise(lambda release: release.spectrum.captured_variance_ratio_interval),
        "95 % confidence interval for the share of all components together.",
    )
    above_noise_ = ReleaseAttribute(
        _with_known_noise(lambda release: release.above_noise),
        "Whether each component is distinguishable from noise; the probability of too many is at most 5 %.",
    )
    angle_ = ReleaseAttribute(
        _with_known_noise(lambda release: getattr(release.spectrum.loading_errors(), "angle", None)),
        "Expected angles between the components and the true ones, in degrees; 90 if undetermined.",
    )
    angle_bound_ = ReleaseAttribute(
        _with_known_noise(lambda release: getattr(release.spectrum.loading_errors(), "angle_bound", None)),
        "95 % bounds on these angles, in degrees; 90 if undetermined.",
    )
    get_feature_names_out = ClassNamePrefixFeaturesOutMixin.get_feature_names_out

    def transform(self, X: Any) -> Any:
        """Project rows, in any form that `fit` takes, on the components.

        The projections of private rows are private data; do not publish them. For Dask and Spark data the result is a
        lazy Dask array or Spark data frame.
        """
        release = self._fitted_release
        options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        return of_rows(self, X, release.origin.schema, release.transform, self.get_feature_names_out(), **options)

    def inverse_transform(self, X: Any) -> FloatArray:
        """Map projections back to the space of the features."""
        return self._fitted_release.inverse_transform(checked_array(X, dtype=[np.float64, np.float32]))

    def get_covariance(self) -> FloatArray:
        """Return the released covariance matrix, shrunk, in the units of the features."""
        release = self._fitted_release
        if release.covariance is None:
            raise InvalidParameterError(f"{release.origin.mechanism} releases a subspace and no covariance matrix.")
        return release.covariance

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@names_unknown_parameters
@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePCA(ComponentsEstimator, PrivateEstimator):
    """Differentially private principal component analysis.

    Fits the same model as `sklearn.decomposition.PCA` and adds noise, so that the result satisfies (epsilon,
    delta)-differential privacy. Without `bounds`, `norm_bound` or `schema`, no public knowledge of the data is needed:
    the fit uses a statistic without bounds, or estimates clipping bounds privately with part of the budget.

    Parameters
    ----------
    n_components : int, float, "above_noise" or None
        Number of components. A float in (0, 1) keeps enough components to explain that share of the variance.
        "above_noise" keeps the components that are distinguishable from noise, at least one. None keeps all.
    whiten : bool
        Whether `transform` divides projections by the released standard deviations, as in scikit-learn.
    epsilon : float
        Privacy budget of one fit. Every call of `fit` spends it again.
    delta : float
        0 is pure differential privacy.
    statistic : {"auto", "clipped", "normalized", "spatial_sign", "kendall"}
        The statistic of the rows that is released. ``"clipped"``: second moments of rows clipped to the norm bound.
        ``"normalized"``: the same of rows scaled to length 1. ``"spatial_sign"``: normalized differences of
        neighbouring rows; robust, needs no bounds and no mean. ``"kendall"``: Kendall's tau from the signs of these
        differences; also needs no scale, and releases correlations only. ``"auto"``: "clipped" if bounds are public,
        otherwise chosen by the number of rows; `plan` shows the choice. See docs/explanation/raw_tables.md.
    norm_bound : float, optional
        Public clipping bound on the Euclidean norm of a row. If it is needed and None, it is estimated privately with
        part of epsilon. Do not compute it from the rows.
    bounds : (low, high) or dict, optional
        Public range of the features: two numbers, two arrays, or (low, high) by name. Values outside are clipped.
        Components keep the original units. With a `norm_bound`, that bound is for features mapped to [-1, 1].
    schema : Schema, optional
        Public facts about the columns, in place of `bounds`: ranges, scales, categories, missing values and the privacy
        unit. Raw tables are encoded with it. Array columns are matched by position.
    privacy_unit : str or int, optional
        Column that identifies the privacy unit, usually a person, if a unit can have several rows. The guarantee then
        covers all rows of one unit, and the column is not a feature. Lists of identifiers go to `fit`.
    unit_weight : {"equal", "by_rows"}
        How privacy units with several rows count: "equal" uses the average row of each unit; "by_rows" uses every row,
        up to a bound per unit. See docs/explanation/privacy_units.md.
    standardize : bool
        Use the correlation matrix, as after scikit-learn's ``StandardScaler``. The scales come from the same release
        and cost nothing extra.
    center : bool
        Whether components are about the mean. False uses the origin.
    mechanism : str
        ``"auto"`` or a name from `eigenveil.mechanisms.MECHANISMS`.
    mechanism_options : dict, optional
        Further keyword arguments of the mechanism.
    adjacency : {"replace_one", "add_or_remove_one"}
        Which data sets are neighbours.
    stages : {"auto", 1, 2}
        Preconditioning for fits with delta > 0: a pilot estimate, then a second pass over rescaled rows with less
        noise. 1 never uses it, 2 always tries it, "auto" uses it if the forecast loss is at least a fifth lower.
    ledger : PrivacyLedger or path, optional
        Ledger that records the spend before noise is sampled.
    random_state : None, int or numpy.random.Generator
        None samples secure noise. Anything else makes the fit reproducible **and not private**: for tests only.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Principal directions of the features times `scale_`, by decreasing variance (in no order for "ppca").
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,) or None
        Private estimates of the variance along each component, and of its share of the total. None if the mechanism
        releases no variances.
    singular_values_, noise_variance_ : ndarray of shape (n_components,), float; or None
        The same as singular values, and the mean variance beside the components, as in scikit-learn.
    explained_variance_interval_ : ndarray of shape (n_components, 2)
        95 % confidence intervals for these variances, for the privacy noise: of the clipped rows, or of Kendall's tau
        with ``statistic="kendall"``. `release_.intervals.about` says which.
    explained_variance_interval_kind_ : tuple of str
        "exact distribution" or "approximate" for each interval. See docs/explanation/uncertainty.md for coverage.
    captured_variance_, captured_variance_ratio_, captured_variance_interval_ : float, float, ndarray of shape (2,)
        The same for all components together.
    above_noise_ : ndarray of bool, of shape (n_components,)
        Whether each component is distinguishable from noise. The probability of too many is at most 5 %.
    angle_, angle_bound_ : ndarray of shape (n_components,)
        Expected angle between a component and the true one, in degrees, and its 95 % bound; 90 if undetermined.
    covariance_, correlation_ : ndarray of shape (n_features, n_features) or None
        The released matrix, shrunk to be positive semidefinite, in the units of the features; and its correlations.
    mean_ : ndarray of shape (n_features,)
        The mean that `transform` subtracts: the released mean, or else the middle of the bounds or zero.
    scale_ : ndarray of shape (n_features,)
        The factors that `transform` multiplies by: one over the scales or the released standard deviations, or ones.
    norm_bound_ : float
        The clipping bound that was used, for the scaled rows.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.
    release_ : Release
        The released values; save it to share the result.
    mechanism_ : str
        The mechanism that was used.
    n_samples_ : int or None
        Number of rows or privacy units; noisy under "add_or_remove_one".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> pca = PrivatePCA(1, epsilon=1.0).fit(load_breast_cancer().data)
    >>> pca.components_.shape
    (1, 30)
    >>> print(pca.guarantee_)
    1-DP (pure), replace-one adjacency, unit: one row; assumes row order independent of values; exact sampling
    """

    n_components: int | float | str | None = field(default=None, kw_only=False)
    whiten: bool = False

    singular_values_ = ReleaseAttribute(
        lambda release: release.spectrum.singular_values,
        "Singular values of the centred, scaled rows; None where no variances were released.",
    )
    noise_variance_ = ReleaseAttribute(
        lambda release: release.spectrum.noise_variance,
        "Mean variance beside the components, as in probabilistic PCA; None where no variances were released.",
    )

    @classmethod
    def from_release(cls, release: Release) -> Self:
        """Return a fitted estimator from a release, for example to `transform` new rows.

        Raw tables are encoded with the schema of the release. Nothing is spent. Parameters have their defaults.

        Examples
        --------
        >>> from eigenveil import load_release
        >>> rows = np.random.default_rng(0).normal(size=(500, 3))
        >>> path = PrivatePCA(1, epsilon=9.0).fit(rows).release_.save(getfixture("tmp_path") / "rows.npz")
        >>> PrivatePCA.from_release(load_release(path)).transform(rows).shape
        (500, 1)
        """
        return cls()._fitted_by(release)

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None, n_targets: int | None = None) -> Request:
        return components_request(self.n_components, self.whiten, self.standardize, n_features)

    def _needs(self) -> Needs:
        return components_needs(type(self).__name__, self.n_components, self.whiten)

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Fit and return the projections of the same rows. The projections are private data; do not publish them."""
        self._check_read_again(X, options.get("schema"), options.get("privacy_unit"))
        return self._fit(X, **options, needs=replace(self._needs(), units=True)).transform(X)

    def _interpret(self, release: Release) -> None:
        _ = release.components  # warns of those that are not distinguishable from noise

    def get_precision(self) -> FloatArray:
        """Return the inverse of the covariance, in which no variance is below the noise."""
        return precision(self._fitted_release)

    @available_where(_has_density)
    def score_samples(self, X: Any) -> Any:
        """Return the log-likelihood of each row for the released mean and covariance.

        The likelihoods of private rows are private data; do not publish them. ``release_.to_sklearn()`` has those of
        the model with `n_components` alone.
        """
        inverse, release = self.get_precision(), self.release_
        constant = np.linalg.slogdet(inverse)[1] - len(inverse) * np.log(2 * np.pi)

        def likelihoods(rows: Any) -> FloatArray:
            return np.asarray((constant - release.mahalanobis(rows)) / 2)

        return of_rows(self, X, release.origin.schema, likelihoods, ["log_likelihood"], dtype=np.float64)

    @available_where(_has_density)
    def score(self, X: Any, y: Any = None) -> float:
        """Return the average log-likelihood of rows; that of private rows is private data."""
        return float(np.mean(self.score_samples(X)))


@names_unknown_parameters
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSparsePCA(PrivatePCA):
    """Differentially private sparse PCA: principal components that use few features.

    Fantope projection and selection on one released matrix. At ``delta=0`` and from 100 features on, 4 % of epsilon
    tests whether few features have most of the variance. If they do, a quarter of epsilon measures the variances of all
    features, and the matrix is released for those with the largest variances only, with less noise. `standardize` or a
    named `mechanism` turns this screening off. The parameters are those of `PrivatePCA`, with an integer
    `n_components`, and the following.

    Parameters
    ----------
    penalty : float, optional
        Weight of the l1 norm of the projection, on the scale of the released matrix. Default: the standard deviation of
        the noise times sqrt(log d).
    tol, max_iter : float, int
        Accuracy of the optimization.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal directions; zero for features that are not in the support.
    support_ : ndarray of int
        Positions of the features with a nonzero loading.
    kept_ : ndarray of int
        Features that the release describes: all, or those that were chosen privately. `components_`, `mean_` and
        `scale_` have an entry for every feature of the table (0, 0 and 1 if it was not kept); `covariance_` and shares
        of the variance are about the kept features.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the shrunk matrix along the components; the intervals are for the variance of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 30)) * 0.1
    >>> X[:, :3] += rng.normal(size=(20_000, 1))
    >>> PrivateSparsePCA(1, epsilon=1.0, norm_bound=3.0, penalty=0.03).fit(X).support_
    array([0, 1, 2])
    """

    n_components: int = field(default=1, kw_only=False)
    whiten: bool = field(default=False, init=False)
    penalty: float | None = None
    tol: float = 1e-4
    max_iter: int = 500
    stages: int | str = field(default="auto", init=False)

    kept_ = ReleaseAttribute(lambda release: _kept(release), "Features that the release describes.")
    support_ = ReleaseAttribute(
        lambda release: _kept(release)[release.spectrum.sparse.support], "Features with a nonzero loading."
    )
    n_iter_ = ReleaseAttribute(lambda release: release.spectrum.sparse.n_iter, "Iterations of the optimization.")

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None, n_targets: int | None = None) -> Request:
        k = integer_between("n_components", self.n_components, 1, n_features)
        return SparseRequest(k, self.penalty, self.tol, self.max_iter, correlation=bool(self.standardize))

    def _needs(self) -> Needs:
        # The penalty is the same for all entries, and so must be the noise.
        k = int(self.n_components) if isinstance(self.n_components, Integral) else None
        return Needs(type(self).__name__, known_noise=True, lengths=False, even_noise=True, n_sparse=k)


def _kept(release: Release) -> NDArray[np.int_]:
    screening = release.origin.screening
    return np.array(range(release.n_features) if screening is None else screening.kept)
