"""`PrivateCovariance`: a differentially private covariance matrix."""

from collections.abc import Sequence

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..releases.record import Release
from ..releases.regression import Regression
from .base import PrivateEstimator, ReleaseAttribute


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
        self.location_ = release.mean
        self.covariance_ = np.asarray(release.covariance)
        release.spectrum.warn_of_features()

    def regress(
        self,
        target: int | str,
        features: Sequence[int | str] | None = None,
        *,
        level: float = 0.95,
        of: str = "data",
    ) -> Regression:
        """Regress one column on others, from the released matrix. This spends no further budget.

        Parameters
        ----------
        target : int or str
            The column to predict, by position or name.
        features : sequence, optional
            The columns to predict from; all others by default.
        level : float
            Confidence level of each interval.
        of : {"data", "population"}
            "data" covers the privacy noise only; "population" also covers sampling error.
        """
        check_is_fitted(self)
        return self.release_.regress(target, features, level=level, of=of)
