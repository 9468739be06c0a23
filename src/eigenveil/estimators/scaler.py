"""`PrivateScaler`: scikit-learn's StandardScaler with a privacy guarantee."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..errors import NoiseWarning, warn_caller
from ..numerics import FloatArray
from ..releases.record import Release
from .base import PrivateEstimator, ReleaseAttribute, names_unknown_parameters, of_rows
from .parameters import Needs

# A variance below so many standard deviations of its noise is not distinguishable from noise.
_DISTINGUISHABLE = 2.0


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

    mean_: ClassVar[ReleaseAttribute[FloatArray]] = ReleaseAttribute(lambda release: release.mean, "The released mean.")
    var_: ClassVar[ReleaseAttribute[FloatArray]] = ReleaseAttribute(
        lambda release: _variances(release), "The released variances, shrunk."
    )
    scale_: ClassVar[ReleaseAttribute[FloatArray]] = ReleaseAttribute(
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
        check_is_fitted(self)
        mean, scale = self.mean_, self.scale_

        def scaled(rows: Any) -> FloatArray:
            return np.asarray((rows - mean.astype(rows.dtype)) / scale.astype(rows.dtype))

        names = list(self.get_feature_names_out())
        return of_rows(self, X, self.release_.origin.schema, scaled, names, dtype=[np.float64, np.float32])

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
