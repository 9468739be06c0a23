"""`PrivateScaler`: scikit-learn's StandardScaler with a privacy guarantee."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..accounting.ledger import LedgerOrPath
from ..errors import InvalidParameterError, NoiseWarning, warn_caller
from ..moments.row_rule import RowRule
from ..numerics import FloatArray
from ..releases.record import Release
from ..tables.schema import Schema
from .base import MomentsEstimator
from .inputs import check_read_again, of_rows, opened

# A variance below so many standard deviations of its noise is not told from none.
_TOLD = 2.0


class PrivateScaler(OneToOneFeatureMixin, TransformerMixin, MomentsEstimator):
    """Subtract the mean and divide by the standard deviation, both from one private release.

    For a pipeline that has to scale before a step of its own: a `StandardScaler` there voids the guarantee of whatever
    private follows. `PrivatePCA` by itself needs no scaler; see its `standardize`.

    Parameters
    ----------
    epsilon, delta, mechanism, mechanism_options, adjacency, ledger, random_state
        As in `PrivatePCA`. What follows in a pipeline spends its own budget, which adds up.
    bounds : (low, high) or dict
        Public ranges of the features; or
    schema : Schema
        with ranges. One of them is needed: nothing is read off the rows for free.

    Attributes
    ----------
    mean_, var_, scale_ : ndarray of shape (n_features,)
        The released mean and variance, and what is divided by: the root of the variance, or of what noise can hide
        where that is more.
    guarantee_, release_, mechanism_, n_samples_
        As in `PrivatePCA`.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal([40, 1], [12, 0.2], size=(20_000, 2))
    >>> scaler = PrivateScaler(epsilon=1.0, bounds={0: (0, 100), 1: (0, 2)}).fit(rows)
    >>> scaler.transform(rows).std(axis=0).round(1)
    array([1., 1.])
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: tuple[Any, Any] | Mapping[Any, tuple[float, float]] | None = None,
        schema: Schema | None = None,
        privacy_unit: str | int | None = None,
        unit_weight: str = "equal",
        mechanism: str = "auto",
        mechanism_options: Mapping[str, Any] | None = None,
        adjacency: str = "replace_one",
        ledger: LedgerOrPath | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            statistic="clipped",
            standardize=False,
            center=True,
            bounds=bounds,
            schema=schema,
            privacy_unit=privacy_unit,
            unit_weight=unit_weight,
            mechanism=mechanism,
            mechanism_options=mechanism_options,
            adjacency=adjacency,
            ledger=ledger,
            random_state=random_state,
        )

    def _check_rows(self, rule: RowRule) -> None:
        if rule.shift is None:
            raise InvalidParameterError("PrivateScaler needs public ranges; give bounds, or a schema with ranges.")

    def _interpret(self, release: Release) -> None:
        self.mean_, self.var_ = release.mean, np.diag(np.asarray(release.covariance)).copy()
        hidden = _TOLD * (release.noise_sd or 0.0) / release.scale**2
        drowned = int(np.sum(self.var_ < hidden))
        if drowned:
            warn_caller(
                f"The noise hides the variance of {drowned} of {len(hidden)} features, which are divided by what it "
                "can hide; more rows, a larger epsilon or narrower ranges would help.",
                NoiseWarning,
            )
        self.scale_ = np.sqrt(np.maximum(self.var_, hidden))

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Fit and return the scaled rows, which are private data; see `fit` and `transform`."""
        check_read_again(opened(self, X, schema=options.get("schema"), privacy_unit=options.get("privacy_unit")), X)
        return super().fit_transform(X, y, **options)

    def transform(self, X: Any) -> Any:
        """Return the scaled rows, of whatever `fit` takes; they are private data as the rows are."""
        check_is_fitted(self)
        mean, scale = self.mean_, self.scale_

        def scaled(rows: Any) -> FloatArray:
            return np.asarray((rows - mean.astype(rows.dtype)) / scale.astype(rows.dtype))

        names = list(self.get_feature_names_out())
        return of_rows(self, X, self.release_.origin.schema, scaled, names, dtype=[np.float64, np.float32])

    def inverse_transform(self, X: Any) -> FloatArray:
        """Map scaled rows back."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X) * self.scale_ + self.mean_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
