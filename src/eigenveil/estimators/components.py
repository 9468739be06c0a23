"""What estimators with components share: everything about them is read off the release, in one place."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..errors import InvalidParameterError
from ..numerics import FloatArray
from ..releases.intervals import HIDDEN_ROWS
from ..releases.record import Release
from .base import ReleaseDisplay
from .inputs import checked_array, of_rows

_Told = TypeVar("_Told")


class ComponentsMixin(ReleaseDisplay, ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Components, their variances, and projections on them, of central and local estimators alike."""

    release_: Release
    components_: FloatArray

    @property
    def covariance_(self) -> FloatArray | None:
        """The released matrix, shrunk, in the units of the features; None where only a subspace was released."""
        return self.release_.covariance

    @property
    def correlation_(self) -> FloatArray | None:
        """`covariance_` with its diagonal brought to 1."""
        return self.release_.correlation

    @property
    def explained_variance_(self) -> FloatArray | None:
        """Variances along the components, of the scaled features; None where none were released."""
        return self.release_.explained_variance

    @property
    def explained_variance_ratio_(self) -> FloatArray | None:
        """Shares of the components in the total; None where no variances were released."""
        return self.release_.explained_variance_ratio

    @property
    def explained_variance_interval_(self) -> FloatArray:
        """95 % intervals for the variances along the components, from the public distribution of the noise."""
        return self._told(self.release_.explained_variance_interval)

    @property
    def explained_variance_interval_kind_(self) -> tuple[str, ...]:
        """What each of these intervals rests on: "exact distribution", or "approximate"."""
        return self._told(self.release_.explained_variance_interval_kind)

    @property
    def captured_variance_(self) -> float | None:
        """Variance along all components together; None where no variances were released."""
        return self.release_.captured_variance

    @property
    def captured_variance_ratio_(self) -> float | None:
        """Its share of the total; None where no variances were released."""
        return self.release_.captured_variance_ratio

    @property
    def captured_variance_interval_(self) -> FloatArray:
        """95 % interval for the variance along all components together."""
        return self._told(self.release_.captured_variance_interval)

    @property
    def explained_variance_ratio_interval_(self) -> FloatArray:
        """95 % intervals for the shares of the components, with the error of the total."""
        return self._told(self.release_.explained_variance_ratio_interval)

    @property
    def captured_variance_ratio_interval_(self) -> FloatArray:
        """95 % interval for the share of all components together."""
        return self._told(self.release_.captured_variance_ratio_interval)

    @property
    def above_noise_(self) -> NDArray[np.bool_]:
        """Which components are above the noise, and surely have more than an average share of the variance."""
        return self._told(self.release_.above_noise)

    @property
    def may_be_noise_(self) -> NDArray[np.bool_]:
        """Which components may be noise alone: not `above_noise_`, and of no known direction."""
        return self._told(self.release_.may_be_noise)

    def _told(self, value: _Told | None) -> _Told:
        if value is None:
            mechanism = self.release_.origin.mechanism
            raise AttributeError(
                HIDDEN_ROWS
                if self.release_.rows_hidden
                else f"{mechanism} releases no variances with noise of a known distribution, so nothing tells their error."
            )
        return value

    def transform(self, X: Any) -> Any:
        """Project rows, of whatever `fit` takes, on the components.

        The projections of private rows are private data themselves. Rows on an engine stay there: a Dask array or a
        Spark data frame is returned, which computes when it is asked to.
        """
        check_is_fitted(self)
        options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        names = list(self.get_feature_names_out())
        return of_rows(self, X, self.release_.origin.schema, self.release_.transform, names, **options)

    def inverse_transform(self, X: Any) -> FloatArray:
        """Map projections back to the space of the features."""
        check_is_fitted(self)
        return self.release_.inverse_transform(checked_array(X, dtype=[np.float64, np.float32]))

    def get_covariance(self) -> FloatArray:
        """Return the released matrix, shrunk, in the units of the features."""
        check_is_fitted(self)
        if self.covariance_ is None:
            raise InvalidParameterError(f"{self.release_.origin.mechanism} releases a subspace and no covariance.")
        return self.covariance_

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
