"""`PrivateCovariance`: one private matrix that others may use freely."""

from collections.abc import Sequence

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..releases.record import Release
from ..releases.regression import Regression
from .base import PrivateEstimator, ReleaseAttribute


class PrivateCovariance(PrivateEstimator):
    """The covariance, or with ``center=False`` the second moment, of sensitive rows.

    Parameters are those of `PrivatePCA`, without `n_components`. With nothing public, ranges of the features are found
    privately, with part of epsilon, or the fit is refused where rows are too few; ``standardize=True`` asks for
    correlations alone, which need none.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        Positive semidefinite, shrunk with the known noise distribution, in the units of the features. The same as
        `correlation_` with ``statistic="kendall"``, which tells no units.
    correlation_ : ndarray of shape (n_features, n_features)
        The same with its diagonal brought to 1.
    location_ : ndarray of shape (n_features,)
        The released mean with ``center=True``, else the middle of the bounds or zero.
    entry_interval_, correlation_interval_ : ndarray of shape (n_features, n_features, 2) or None
        95 % intervals for every covariance and correlation of the clipped rows, with ``statistic="kendall"`` for
        sin(pi tau / 2) of Kendall's tau, from the raw release and the known noise; None without a noise distribution.
        `release_.intervals.about` says which, and `release_.intervals.covariance(level, of="population")` returns
        others.
    location_interval_ : ndarray of shape (n_features, 2) or None
        The same for the mean; None where none was released.
    scale_, norm_bound_, guarantee_, release_, mechanism_, n_samples_
        As in `PrivatePCA`; `release_` holds the raw matrix.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> model = PrivateCovariance(epsilon=50.0, bounds=(0, 8)).fit(load_iris().data)
    >>> model.covariance_.shape, bool(np.linalg.eigvalsh(model.covariance_).min() > -1e-12)
    ((4, 4), True)
    """

    correlation_ = ReleaseAttribute(
        lambda release: release.correlation, "`covariance_` with its diagonal brought to 1."
    )
    entry_interval_ = ReleaseAttribute(
        lambda release: release.intervals.covariance(),
        "95 % intervals for the covariances of the clipped rows, or of Kendall's tau: `release_.intervals.about`.",
    )
    correlation_interval_ = ReleaseAttribute(
        lambda release: release.intervals.correlation(),
        "95 % intervals for the correlations of the clipped rows, or of Kendall's tau: `release_.intervals.about`.",
    )
    location_interval_ = ReleaseAttribute(
        lambda release: release.intervals.mean(), "95 % intervals for the means of the clipped rows."
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
        """Regress one column on others, from the released matrix and at no further privacy cost.

        Parameters
        ----------
        target : int or str
            The column to predict, by position or name.
        features : sequence, optional
            The columns to predict from; all others by default.
        level : float
            Coverage of each interval.
        of : {"data", "population"}
            Whether intervals are about the rows of this data set, or about the population that they come from.
        """
        check_is_fitted(self)
        return self.release_.regress(target, features, level=level, of=of)
