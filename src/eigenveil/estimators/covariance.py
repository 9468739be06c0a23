"""`PrivateCovariance`: a differentially private covariance matrix."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..errors import InvalidDataError, one_of
from ..numerics import FloatArray
from ..releases.multivariate import precision
from ..releases.record import Release
from ..releases.regression import Regression
from ..releases.summary import Summary
from .base import PrivateEstimator, ReleaseAttribute
from .inputs import checked_array, of_rows

# By their names in scikit-learn.
_NORMS: dict[str, Any] = dict(frobenius="fro", spectral=2)  # noqa: C408


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

    covariance_: ClassVar[ReleaseAttribute[FloatArray]] = ReleaseAttribute(
        lambda release: np.asarray(release.covariance), "The released matrix, shrunk, in the units of the features."
    )
    precision_: ClassVar[ReleaseAttribute[FloatArray]] = ReleaseAttribute(
        precision, "The inverse of `covariance_`, in which no variance is below the noise."
    )
    location_: ClassVar[ReleaseAttribute[FloatArray]] = ReleaseAttribute(
        lambda release: release.mean, "The released mean, or the middle of the bounds or zero."
    )
    correlation_: ClassVar[ReleaseAttribute[FloatArray | None]] = ReleaseAttribute(
        lambda release: release.correlation, "Correlations: `covariance_` scaled to a diagonal of 1."
    )
    entry_interval_: ClassVar[ReleaseAttribute[FloatArray | None]] = ReleaseAttribute(
        lambda release: release.intervals.covariance(),
        "95 % confidence intervals for the covariances of the clipped rows (see `release_.intervals.about`).",
    )
    correlation_interval_: ClassVar[ReleaseAttribute[FloatArray | None]] = ReleaseAttribute(
        lambda release: release.intervals.correlation(),
        "95 % confidence intervals for the correlations of the clipped rows, or of Kendall's tau.",
    )
    location_interval_: ClassVar[ReleaseAttribute[FloatArray | None]] = ReleaseAttribute(
        lambda release: release.intervals.mean(), "95 % confidence intervals for the means of the clipped rows."
    )

    def _interpret(self, release: Release) -> None:
        _ = release.matrix.scaled_matrix  # warns of correlations that are not distinguishable from noise
        release.spectrum.warn_of_features()

    def get_precision(self) -> FloatArray:
        """Return `precision_`."""
        check_is_fitted(self)
        return self.precision_

    def mahalanobis(self, X: Any) -> Any:
        """Return the squared Mahalanobis distances of rows from `location_`; those of private rows are private data."""
        check_is_fitted(self)
        release = self.release_
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
        check_is_fitted(self)
        other, own = checked_array(comp_cov, dtype=np.float64), self.covariance_
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
        check_is_fitted(self)
        return self.release_.regress(target, features, alpha=alpha, **more)

    def summary(
        self,
        target: int | str | Sequence[int | str] | None = None,
        features: Sequence[int | str] | None = None,
        *,
        alpha: float | None = None,
        base: Mapping[str, str] | None = None,
    ) -> Summary:
        """Return tables of means, standard deviations and correlations, or of a regression, with their errors.

        Parameters as in `eigenveil.releases.summary.summarize`. Nothing is spent.
        """
        check_is_fitted(self)
        return self.release_.summary(target, features, alpha=alpha, base=base)
