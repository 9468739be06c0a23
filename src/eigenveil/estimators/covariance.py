"""`PrivateCovariance`: one private matrix that others may use freely."""

from collections.abc import Sequence

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..numerics import FloatArray
from ..releases.record import Release
from ..releases.regression import Regression
from .base import PrivateEstimator


class PrivateCovariance(PrivateEstimator):
    """The covariance, or with ``center=False`` the second moment, of sensitive rows.

    Parameters are those of `PrivatePCA`, without `n_components`. With nothing public, ranges of the features are found
    privately, with four tenths of epsilon, or the fit is refused where rows are too few; ``standardize=True`` asks for
    correlations alone, which need none.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        Positive semidefinite, shrunk with the known noise distribution, in the units of the features; with ``statistic="kendall"``,
        which tells no units, the same as `correlation_`.
    correlation_ : ndarray of shape (n_features, n_features)
        The same with its diagonal brought to 1.
    location_ : ndarray of shape (n_features,)
        The released mean with ``center=True``, else the middle of the bounds or zero.
    entry_interval_, correlation_interval_ : ndarray of shape (n_features, n_features, 2) or None
        95 % intervals for every covariance and correlation of the rows as they were used, from the raw release and the
        known noise. `release_.entry_interval(level, of="population")` asks for others; None without a noise distribution.
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

    def _interpret(self, release: Release) -> None:
        self.location_ = release.mean
        self.covariance_ = np.asarray(release.covariance)
        release.warn_of_features()

    @property
    def correlation_(self) -> FloatArray | None:
        """`covariance_` with its diagonal brought to 1."""
        return self.release_.correlation

    @property
    def entry_interval_(self) -> FloatArray | None:
        """95 % intervals for the entries of the covariance of this data set."""
        return self.release_.entry_interval()

    @property
    def correlation_interval_(self) -> FloatArray | None:
        """95 % intervals for the correlations of this data set."""
        return self.release_.correlation_interval()

    @property
    def location_interval_(self) -> FloatArray | None:
        """95 % intervals for the means of this data set."""
        return self.release_.location_interval()

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
