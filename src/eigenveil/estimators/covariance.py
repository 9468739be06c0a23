"""`PrivateCovariance`: one private matrix that others may use freely."""

from collections.abc import Sequence

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..reading import Regression
from ..releases import Release
from .base import MomentsEstimator
from .preparation import FloatArray


class PrivateCovariance(MomentsEstimator):
    """The covariance, or with ``center=False`` the second moment, of sensitive rows.

    Parameters are those of `PrivatePCA`, without `n_components`. With nothing public, ranges of the features are found
    privately, with four tenths of epsilon, or the fit is refused where rows are too few; ``standardize=True`` asks for
    correlations alone, which need none.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        Positive semidefinite, shrunk with the known noise law, in the units of the features; with ``rows="signs"``,
        which tells no units, the same as `correlation_`.
    correlation_ : ndarray of shape (n_features, n_features)
        The same with its diagonal brought to 1.
    location_ : ndarray of shape (n_features,)
        The released mean with ``center=True``, else the middle of the bounds or zero.
    scale_, norm_bound_, guarantee_, release_, law_, n_samples_
        As in `PrivatePCA`; `release_` holds the raw matrix.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> model = PrivateCovariance(epsilon=5.0, norm_bound=10.0).fit(load_iris().data)
    >>> model.covariance_.shape, bool(np.linalg.eigvalsh(model.covariance_).min() > -1e-12)
    ((4, 4), True)
    """

    def _interpret(self, release: Release) -> None:
        self.location_ = release.mean
        self.covariance_ = np.asarray(release.covariance)

    @property
    def correlation_(self) -> FloatArray | None:
        """`covariance_` with its diagonal brought to 1."""
        return self.release_.correlation

    def regress(self, target: int | str, features: Sequence[int | str] | None = None) -> Regression:
        """Regress one column on others, from the released matrix and at no further privacy cost.

        Parameters
        ----------
        target : int or str
            The column to predict, by position or name.
        features : sequence, optional
            The columns to predict from; all others by default.
        """
        check_is_fitted(self)
        return self.release_.regress(target, features)
