"""`PrivatePCA`: scikit-learn's PCA with a privacy guarantee."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..errors import InvalidParameterError, integer_between, one_of
from ..numerics import FloatArray
from ..postprocess.above_noise import ABOVE_NOISE
from ..releases.intervals import HIDDEN_ROWS
from ..releases.origin import ComponentsRequest, Request
from ..releases.record import Release
from .base import PrivateEstimator, ReleaseAttribute, names_unknown_parameters
from .inputs import check_read_again, checked_array, of_rows
from .preparation import Needs

_Value = TypeVar("_Value")


def with_known_noise(read: Callable[[Release], _Value | None]) -> Callable[[Release], _Value]:
    """Return the same reading of a release, which is an `AttributeError` where nothing tells the error."""

    def known(release: Release) -> _Value:
        value = read(release)
        if value is None:
            raise AttributeError(
                HIDDEN_ROWS
                if release.matrix.rows_hidden
                else f"{release.origin.mechanism} releases no variances with noise of a known distribution, so nothing "
                "tells their error."
            )
        return value

    return known


def projections(estimator: BaseEstimator, X: Any) -> Any:
    """Return the projections of rows, of whatever `fit` takes, on the components of a fitted estimator."""
    check_is_fitted(estimator)
    release, names = estimator.release_, list(estimator.get_feature_names_out())
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
    return of_rows(estimator, X, release.origin.schema, release.transform, names, **options)


def rows_of_projections(estimator: BaseEstimator, X: Any) -> FloatArray:
    """Return the rows, in the space of the features, that have these projections."""
    check_is_fitted(estimator)
    release: Release = estimator.release_
    return release.inverse_transform(checked_array(X, dtype=[np.float64, np.float32]))


def released_covariance(estimator: BaseEstimator) -> FloatArray:
    """Return the released matrix of a fitted estimator, shrunk, or refuse it where there is none."""
    check_is_fitted(estimator)
    release: Release = estimator.release_
    if release.covariance is None:
        raise InvalidParameterError(f"{release.origin.mechanism} releases a subspace and no covariance.")
    return release.covariance


def _angles(release: Release, name: str) -> FloatArray | None:
    errors = release.spectrum.loading_errors()
    return None if errors is None else getattr(errors, name)


@names_unknown_parameters
@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePCA(TransformerMixin, PrivateEstimator):
    """Principal components of sensitive rows, with a differential privacy guarantee.

    Parameters
    ----------
    n_components : int, float, "above_noise" or None
        Number of components; or the share of variance they should explain: the least number that captures it, by the
        variances along released directions; or those that rise above the noise, at least one (more of them than the
        rank of the rows with a probability of at most 5 %); or all features.
    epsilon : float
        The budget of one fit. Every call of `fit` spends it again.
    delta : float
        0 is pure differential privacy.
    statistic : {"auto", "clipped", "normalized", "spatial_sign", "kendall"}
        ``"auto"`` goes by what is public: ``"clipped"`` with a norm, ranges or a schema with ranges, and where rows
        cannot be compared (under add/remove, on an engine or from a query, about the origin, with ``stages=2``); else
        ``"kendall"`` with `standardize` and ``"spatial_sign"`` without, or ``"clipped"`` to ranges that are found
        privately, with part of epsilon, where there are rows enough for that to pay; `plan` prints the shares.
        ``"clipped"`` shortens rows to the norm bound. ``"normalized"`` brings all rows to length 1, and needs no bound.
        ``"spatial_sign"`` uses normalized differences of rows, which need no bound and no mean and resist outliers.
        Without lengths, explained variances are relative.
        ``"kendall"`` uses the signs of these differences alone, which need no scale either: the components are those of
        the correlation matrix, as after scikit-learn's ``StandardScaler``. It releases neither means nor standard
        deviations, so there is no `transform`, which `plan` says.
        Clipped rows may come in any order. Rows are compared by their places, so the place of a row must not depend on
        what is in it: shuffle a table that is sorted by a private column, by no fixed seed.
    norm_bound : float, optional
        Public bound on the norm of a row; longer rows are shortened to it. Where rows are clipped, None finds one
        privately with part of epsilon, or with ``center=False`` takes ``statistic="normalized"`` where it would clip
        more than half of the rows. It must not be computed from the rows.
    bounds : (low, high) or dict, optional
        Public range of the features: numbers, or one for each feature, or (low, high) by name. They bound the rows, and
        components are those of the features in their own units all the same, as scikit-learn's ``PCA`` has them. Beside
        them a `norm_bound` is that of features mapped to [-1, 1]; with ``center=False`` and one, components are those
        of the mapped features.
    schema : Schema, optional
        What is publicly known of the columns, in place of `bounds`: raw tables are encoded by it, and its ranges are
        used as `bounds` are. Where some numbers have a scale and no range, all are divided by sizes, and components are
        those of the divided features. Where it has a column of kind privacy_unit, persons are the unit. Columns of an
        array are those of the schema in the same order, unless it names them by their positions.
    privacy_unit : str or int, optional
        The column that tells persons apart, where a person may have many rows: the promise is then made to one person
        with all of their rows, and the column is no feature. Identifiers beside the table go to `fit`.
    unit_weight : {"equal", "by_rows"}
        What counts once where persons are the unit: every person's average, whatever the number of their rows; or every
        row, up to the bound on all rows of a person together (docs/explanation/privacy_units.md).
    standardize : bool
        Components of the correlation matrix, as after scikit-learn's ``StandardScaler``: nothing is spent on scales,
        which are read off the release. To `transform` raw rows takes public ranges or a norm bound, or so many rows
        that ranges are found privately; `fit_transform` and pipelines refuse before the spend where there are none.
    center : bool
        Components about the mean; False takes them about the origin, as the papers do. Where rows are clipped, the mean
        is part of the same release; with a delta above 0 and rows enough it is measured first and taken off.
    mechanism : str
        ``"auto"`` or a name from `eigenveil.mechanisms.MECHANISMS`.
    mechanism_options : dict, optional
        Further keyword arguments of the mechanism.
    adjacency : {"replace_one", "add_or_remove_one"}
        The adjacency.
    stages : {"auto", 1, 2}
        Whether a fit with a delta above 0 uses preconditioning: after a pilot estimate rows may be rescaled, read again
        and released with less noise. "auto" tries it where a number of components is given, and uses it where the
        forecast is a fifth less loss. 1 is one release of one matrix; 2 always tries preconditioning, or refuses.
    ledger : PrivacyLedger or path, optional
        Where the spend is recorded before anything is sampled.
    random_state : None, int or numpy.random.Generator
        None draws secure noise. Anything else makes the fit reproducible **and not private**: for tests only.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Directions, most important first (in no order for "ppca"): of the features times `scale_`.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,) or None
        Variances of the rows, as they were used, along the components, and their share of the total: not the
        eigenvalues, which the noise raises. None where the mechanism releases no variances.
    explained_variance_interval_ : ndarray of shape (n_components, 2)
        95 % intervals for these variances, from the known noise; free of privacy cost. They are of the clipped rows,
        or of Kendall's tau with ``statistic="kendall"``: `release_.intervals.about` says so.
    explained_variance_interval_kind_ : tuple of str
        For each component "exact distribution" or "approximate"; docs/explanation/uncertainty.md has their coverage.
    captured_variance_, captured_variance_ratio_, captured_variance_interval_ : float, float, ndarray of shape (2,)
        The same for all components together, which near ties do not blur.
    above_noise_ : ndarray of bool, of shape (n_components,)
        Whether a component is above the noise: there is something beside noise beyond those before it. More components
        are said to be above the noise than there are with a probability of at most 5 %.
    angle_, angle_bound_ : ndarray of shape (n_components,)
        The angle to be expected between a component and the true one of the same rank, in degrees, and what it stays
        below in 95 of 100 releases; 90 where the direction is not determined.
    covariance_, correlation_ : ndarray of shape (n_features, n_features) or None
        The released matrix, shrunk to be positive semidefinite, in the units of the features; and the same with its
        diagonal brought to 1.
    mean_ : ndarray of shape (n_features,)
        What `transform` subtracts: the released mean where there is one, else the middle of the bounds or zero.
    scale_ : ndarray of shape (n_features,)
        What `transform` multiplies by: one over the sizes of the features, with `standardize` over their released
        standard deviations, or ones.
    norm_bound_ : float
        The bound that was used, on rows as they were scaled for the release.
    guarantee_ : Guarantee
    release_ : Release
    mechanism_ : str
        The mechanism that drew the release.
    n_samples_ : int or None
        Number of rows, or of persons where these are the unit; under "add_or_remove_one" its released noisy value.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> pca = PrivatePCA(1, epsilon=1.0).fit(load_breast_cancer().data)
    >>> pca.components_.shape
    (1, 30)
    >>> print(pca.guarantee_)
    1-differentially private (replace one row), exact numerics; see assumptions
    """

    n_components: int | float | str | None = field(default=None, kw_only=False)

    covariance_ = ReleaseAttribute(
        lambda release: release.covariance,
        "The released matrix, shrunk, in the units of the features; None where only a subspace was released.",
    )
    correlation_ = ReleaseAttribute(
        lambda release: release.correlation, "`covariance_` with its diagonal brought to 1."
    )
    explained_variance_ = ReleaseAttribute(
        lambda release: release.explained_variance,
        "Variances along the components, of the scaled features; None where none were released.",
    )
    explained_variance_ratio_ = ReleaseAttribute(
        lambda release: release.explained_variance_ratio,
        "Shares of the components in the total; None where no variances were released.",
    )
    explained_variance_interval_ = ReleaseAttribute(
        with_known_noise(lambda release: release.explained_variance_interval),
        "95 % intervals for the variances along the components: of what, `release_.intervals.about` says.",
    )
    explained_variance_interval_kind_ = ReleaseAttribute(
        with_known_noise(lambda release: release.spectrum.explained_variance_interval_kind),
        'What each of these intervals rests on: "exact distribution", or "approximate".',
    )
    explained_variance_ratio_interval_ = ReleaseAttribute(
        with_known_noise(lambda release: release.spectrum.explained_variance_ratio_interval),
        "95 % intervals for the shares of the components: of what, `release_.intervals.about` says.",
    )
    captured_variance_ = ReleaseAttribute(
        lambda release: release.spectrum.captured_variance,
        "Variance along all components together; None where no variances were released.",
    )
    captured_variance_ratio_ = ReleaseAttribute(
        lambda release: release.spectrum.captured_variance_ratio,
        "Its share of the total; None where no variances were released.",
    )
    captured_variance_interval_ = ReleaseAttribute(
        with_known_noise(lambda release: release.spectrum.captured_variance_interval),
        "95 % interval for the variance along all components together.",
    )
    captured_variance_ratio_interval_ = ReleaseAttribute(
        with_known_noise(lambda release: release.spectrum.captured_variance_ratio_interval),
        "95 % interval for the share of all components together.",
    )
    above_noise_ = ReleaseAttribute(
        with_known_noise(lambda release: release.above_noise),
        "Which components are above the noise: more than there are with a probability of at most 5 %.",
    )
    angle_ = ReleaseAttribute(
        with_known_noise(lambda release: _angles(release, "angle")),
        "Angles to be expected between the components and the true ones, in degrees; 90 where not determined.",
    )
    angle_bound_ = ReleaseAttribute(
        with_known_noise(lambda release: _angles(release, "angle_bound")),
        "What these angles stay below in 95 of 100 releases; 90 where the direction is not determined.",
    )
    get_feature_names_out = ClassNamePrefixFeaturesOutMixin.get_feature_names_out

    @classmethod
    def from_release(cls, release: Release) -> Self:
        """Return an estimator that is fitted by a release, as of a file: it projects whatever its `fit` took.

        Raw tables are encoded by the schema of the release. Nothing is spent, and parameters are the default ones.

        Examples
        --------
        >>> from eigenveil import load_release
        >>> rows = np.random.default_rng(0).normal(size=(500, 3))
        >>> path = PrivatePCA(1, epsilon=9.0).fit(rows).release_.save(getfixture("tmp_path") / "rows.npz")
        >>> PrivatePCA.from_release(load_release(path)).transform(rows).shape
        (500, 1)
        """
        return cls()._fitted_by(release)

    def _read_off(self) -> float | str | None:
        """Return n_components where it says how the number is to be read off the release: a share, or above noise."""
        k = self.n_components
        if isinstance(k, str):
            return one_of("n_components", k, (ABOVE_NOISE,))
        if isinstance(k, float | np.floating):
            if not 0 < k < 1:
                raise InvalidParameterError(
                    f"n_components must be a whole number, a share between 0 and 1, or {ABOVE_NOISE!r}."
                )
            return float(k)
        return None

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None) -> Request:
        del feature_names
        wanted: int | float | str | None = self._read_off()
        if wanted is None and self.n_components is not None:
            wanted = integer_between("n_components", self.n_components, 1, n_features)
        return ComponentsRequest(wanted, correlation=bool(self.standardize))

    def _needs(self) -> Needs:
        k = self.n_components
        return Needs(
            type(self).__name__,
            matrix=False,
            variances=isinstance(k, str | float | np.floating),
            known_noise=isinstance(k, str),
            lengths=False,
            n_directions=int(k) if isinstance(k, Integral) else None,
        )

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Fit and return the projections of the same rows, which are private data; see `fit` and `transform`."""
        del y
        check_read_again(self._opened(X, options.get("schema"), options.get("privacy_unit")), X)
        return self._fit(X, **options, needs=replace(self._needs(), units=True)).transform(X)

    def _interpret(self, release: Release) -> None:
        self.components_, self.mean_ = release.components, release.mean
        self.n_components_ = len(self.components_)

    def transform(self, X: Any) -> Any:
        """Project rows, of whatever `fit` takes, on the components.

        The projections of private rows are private data themselves. Rows on an engine stay there: a Dask array or a
        Spark data frame is returned, which computes when it is asked to.
        """
        return projections(self, X)

    def inverse_transform(self, X: Any) -> FloatArray:
        """Map projections back to the space of the features."""
        return rows_of_projections(self, X)

    def get_covariance(self) -> FloatArray:
        """Return the released matrix, shrunk, in the units of the features."""
        return released_covariance(self)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
