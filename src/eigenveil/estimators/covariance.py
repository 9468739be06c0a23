"""`PrivateCovariance`: one private matrix that others may use freely."""

from collections.abc import Sequence

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..errors import InvalidParameterError
from ..mechanisms import Mechanism, ReleasedMatrix
from ..postprocess import RidgeFit, ridge_from_covariance
from ..rows import RowBound
from .base import MomentsEstimator


class PrivateCovariance(MomentsEstimator):
    """The second moment, or with ``center=True`` the covariance, of sensitive rows.

    Parameters are those of `PrivatePCA`, without `n_components`.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        Positive semidefinite, shrunk with the known noise law, of the scaled features.
    location_ : ndarray of shape (n_features,)
        The released mean with ``center=True``, else the middle of the bounds or zero.
    scale_, norm_bound_, guarantee_, release_, mechanism_, n_samples_
        As in `PrivatePCA`; `release_` holds the raw matrix.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> model = PrivateCovariance(epsilon=5.0, norm_bound=10.0, center=True).fit(load_iris().data)
    >>> model.covariance_.shape, bool(np.linalg.eigvalsh(model.covariance_).min() > -1e-12)
    ((4, 4), True)
    """

    def _interpret(self, mechanism: Mechanism, bound: RowBound) -> None:
        self._matrix = matrix = ReleasedMatrix(self.release_, mechanism)
        shift = np.zeros(self.n_features_in_) if bound.shift is None else np.asarray(bound.shift)
        self.location_ = shift + matrix.mean / self.scale_
        self.covariance_ = matrix.shrunk

    def regress(self, target: int | str, features: Sequence[int | str] | None = None) -> RidgeFit:
        """Regress one column on others, from the released matrix and at no further privacy cost.

        Parameters
        ----------
        target : int or str
            The column to predict, by position or name.
        features : sequence, optional
            The columns to predict from; all others by default.
        """
        check_is_fitted(self)
        positions = None if features is None else [self._position(feature) for feature in features]
        return ridge_from_covariance(
            self._matrix.value, self._position(target), positions, noise_draw=self._matrix.noise_draw
        )

    def _position(self, column: int | str) -> int:
        if isinstance(column, str):
            names = list(getattr(self, "feature_names_in_", ()))
            if column not in names:
                raise InvalidParameterError(f"There is no feature {column!r}.")
            return names.index(column)
        return int(column)
