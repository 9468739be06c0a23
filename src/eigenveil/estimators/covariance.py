"""`PrivateCovariance`, a private covariance matrix, and `PrivateScaler`, which scales by its diagonal."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..errors import InvalidDataError, NoiseWarning, one_of, warn_caller
from ..numerics import FloatArray
from ..releases.multivariate import precision
from ..releases.record import Release
from ..releases.regression import Regression
from .base import PrivateEstimator, ReleaseAttribute, checked_array, names_unknown_parameters, of_rows
from .parameters import Needs

# By their names in scikit-learn.
_NORMS: dict[str, Any] = dict(frobenius="fro", spectral=2)  # noqa: C408
# A variance below so many standard deviations of its noise is not distinguishable from noise.
_DISTINGUISHABLE = 2.0


class PrivateCovariance(PrivateEstimator):
    """Differentially private covariance and correlation matrix.

    The parameters are those of `PrivatePCA`, without `n_components`. With ``center=False`` the second moment about the
    origin is released. Without public bounds, clipping bounds are estimated privately with part of epsilon; a fit with
    too few rows for that is refused. ``standardize=True`` releases correlations only, which need no bounds.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        Private estimate of the covariance, positive semidefinite, in the units of the features. Equal to
        `correlation_` for ``statistic="kendall"``.
    correlation_ : ndarray of shape (n_features, n_features)
        Private estimate of the correlations.
    precision_ : ndarray of shape (n_features, n_features)
        The inverse of `covariance_`, in which no variance is below the noise.
    location_ : ndarray of shape (n_features,)
        The released mean with ``center=True``, or else the middle of the bounds or zero.
    entry_interval_, correlation_interval_ : ndarray of shape (n_features, n_features, 2) or None
        95 % confidence intervals for each covariance and correlation of the clipped rows (of Kendall's tau with
        ``statistic="kendall"``), for the privacy noise; None if the noise distribution is unknown.
        `release_.intervals.covariance(level, of="population")` includes sampling error.
    location_interval_ : ndarray of shape (n_features, 2) or None
        The same for the mean; None if no mean was released.
    scale_, norm_bound_, guarantee_, release_, mechanism_, n_samples_
        As in `PrivatePCA`. `release_` has the unshrunk matrix.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> model = PrivateCovariance(epsilon=50.0, bounds=(0, 8)).fit(load_iris().data)
    >>> model.covariance_.shape, bool(np.linalg.eigvalsh(model.covariance_).min() > -1e-12)
    ((4, 4), True)
    """

    covariance_ = ReleaseAttribute(
        lambda release: np.asarray(release.covariance), "The released matrix, shrunk, in the units of the features."
    )
    precision_ = ReleaseAttribute(precision, "The inverse of `covariance_`, in which no variance is below the noise.")
    location_ = ReleaseAttribute(
        lambda release: release.mean, "The released mean, or the middle of the bounds or zero."
    )
    correlation_ = ReleaseAttribute(
        lambda release: release.correlation, "Correlations: `covariance_` scaled to a diagonal of 1."
    )
    entry_interval_ = ReleaseAttribute(
        lambda release: release.intervals.covariance(),
        "95 % confidence intervals for the covariances of the clipped rows (see `release_.intervals.about`).",
    )
    correlation_interval_ = ReleaseAttribute(
        lambda release: release.intervals.correlation(),
        "95 % confidence intervals for the correlations of the clipped rows, or of Kendall's tau.",
    )
    location_interval_ = ReleaseAttribute(
        lambda release: release.intervals.mean(), "95 % confidence intervals for the means of the clipped rows."
    )

    def _interpret(self, release: Release) -> None:
        _ = release.matrix.scaled_matrix  # warns of correlations that are not distinguishable from noise
        release.spectrum.warn_of_features()

    def get_precision(self) -> FloatArray:
        """Return `precision_`."""
        return precision(self._fitted_release)

    def mahalanobis(self, X: Any) -> Any:
        """Return the squared Mahalanobis distances of rows from `location_`; those of private rows are private data."""
        release = self._fitted_release
        return of_rows(self, X, release.origin.schema, release.mahalanobis, ["mahalanobis"], dtype=np.float64)

    def error_norm(self, comp_cov: Any, norm: str = "frobenius", scaling: bool = True, squared: bool = True) -> float:
        """Return the norm of the difference between `covariance_` and another matrix.

        Parameters
        ----------
        comp_cov : array of shape (n_features, n_features)
            If it was computed from private rows, so was the norm.
        norm : {"frobenius", "spectral"}
        scaling : bool
            Whether to divide the squared norm by the number of features.
        squared : bool
            Whether to return the squared norm.
        """
        own, other = np.asarray(self._fitted_release.covariance), checked_array(comp_cov, dtype=np.float64)
        if other.shape != own.shape:
            raise InvalidDataError(f"comp_cov must have the shape {own.shape} of covariance_.")
        order = _NORMS[one_of("norm", norm, tuple(_NORMS))]
        found = float(np.linalg.norm(other - own, order)) ** 2 / (len(own) if scaling else 1)
        return found if squared else float(np.sqrt(found))

    @overload
    def regress(
        self, target: int | str, features: Sequence[int | str] | None = None, *, alpha: float | None = 0.0, **more: Any
    ) -> Regression: ...
    @overload
    def regress(
        self,
        target: Sequence[int | str],
        features: Sequence[int | str] | None = None,
        *,
        alpha: float | None = 0.0,
        **more: Any,
    ) -> tuple[Regression, ...]: ...
    def regress(
        self,
        target: int | str | Sequence[int | str],
        features: Sequence[int | str] | None = None,
        *,
        alpha: float | None = 0.0,
        **more: Any,
    ) -> Regression | tuple[Regression, ...]:
        """Regress columns on others by least squares, from the released matrix. This spends no further budget.

        Parameters
        ----------
        target : int, str or list of these
            The column to predict, by position or name.
        features : sequence, optional
            The columns to predict from; all others by default.
        alpha : float, optional
            Regularization per row; None chooses it from the noise scale.
        **more
            `level`, `of`, `bound` and `base`, as in `Release.regress`.
        """
        return self._fitted_release.regress(target, features, alpha=alpha, **more)


@names_unknown_parameters
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateScaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    """Differentially private `StandardScaler`: subtract the mean and divide by the standard deviation.

    Use it in pipelines, where scikit-learn's `StandardScaler` would invalidate the guarantee of later private steps.
    `PrivatePCA` needs no scaler; use its `standardize`.

    Parameters
    ----------
    epsilon, delta, mechanism, mechanism_options, adjacency, ledger, random_state
        As in `PrivatePCA`. Later private steps of a pipeline spend their own budget.
    bounds : (low, high) or dict
        Public ranges of the features. Either `bounds` or a `schema` with ranges is required.
    schema : Schema
        Public facts about the columns, with ranges.

    Attributes
    ----------
    mean_, var_, scale_ : ndarray of shape (n_features,)
        The released mean and variance, and the standard deviation that rows are divided by. The standard deviation is
        raised to the noise level where it is not distinguishable from noise.
    guarantee_, release_, mechanism_, n_samples_
        As in `PrivatePCA`.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal([40, 1], [12, 0.2], size=(20_000, 2))
    >>> scaler = PrivateScaler(epsilon=1.0, bounds={0: (0, 100), 1: (0, 2)}).fit(rows)
    >>> scaler.transform(rows).std(axis=0).round(1)
    array([1., 1.])
    """

    standardize: bool = field(default=False, init=False)
    center: bool = field(default=True, init=False)
    norm_bound: float | None = field(default=None, init=False)
    statistic: str = field(default="clipped", init=False)
    stages: int | str = field(default="auto", init=False)

    mean_ = ReleaseAttribute(lambda release: release.mean, "The released mean.")
    var_ = ReleaseAttribute(lambda release: _variances(release), "The released variances, shrunk.")
    scale_ = ReleaseAttribute(
        lambda release: np.sqrt(np.maximum(_variances(release), _least(release))),
        "The standard deviations that rows are divided by, at least those that are distinguishable from noise.",
    )

    def _needs(self) -> Needs:
        return Needs(type(self).__name__, public_ranges=True)

    def _interpret(self, release: Release) -> None:
        raw = np.diag(release.matrix.scaled_matrix) / release.scale**2
        n_below = int(np.sum(raw < _least(release)))
        if n_below:
            warn_caller(
                f"The variances of {n_below} of {len(raw)} features are not distinguishable from noise; their scale "
                "is a bound from the noise. Use more rows, a larger epsilon, or narrower ranges.",
                NoiseWarning,
            )

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Fit and return the scaled rows. The scaled rows are private data; do not publish them."""
        self._check_read_again(X, options.get("schema"), options.get("privacy_unit"))
        return super().fit_transform(X, y, **options)

    def transform(self, X: Any) -> Any:
        """Return the scaled rows, in any form that `fit` takes. The scaled rows are private data."""
        schema, mean, scale = self._fitted_release.origin.schema, self.mean_, self.scale_

        def scaled(rows: Any) -> FloatArray:
            return np.asarray((rows - mean.astype(rows.dtype)) / scale.astype(rows.dtype))

        names = list(self.get_feature_names_out())
        return of_rows(self, X, schema, scaled, names, dtype=[np.float64, np.float32])

    def inverse_transform(self, X: Any) -> FloatArray:
        """Map scaled rows back to the original units."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X) * self.scale_ + self.mean_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _variances(release: Release) -> FloatArray:
    return np.diag(np.asarray(release.covariance)).copy()


def _least(release: Release) -> FloatArray:
    """Return the least variances that are distinguishable from noise."""
    return np.asarray(_DISTINGUISHABLE * (release.noise_sd or 0.0) / release.scale**2)
