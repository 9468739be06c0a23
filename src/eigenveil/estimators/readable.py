"""Rows for `transform` and `predict`, of whatever `fit` takes."""

import os
from typing import Any

import numpy as np
import scipy.sparse

from ..errors import InvalidDataError
from ..schema import Schema
from ..sources import is_source, open_table
from ..sources.on_engine import EngineSource
from .checking import checked_array, checked_rows

_ON_ENGINE = (
    "Rows on an engine stay there; call release_.transform on the rows of each partition, as by map_partitions."
)


def readable_rows(estimator: Any, X: Any, schema: Schema | None, **options: Any) -> Any:
    """Return the rows of X as a checked matrix of the features that a fitted estimator knows.

    Arrays and frames of numbers are what scikit-learn checks. Anything else that `fit` takes is read as it read it: by
    the schema of the release, or by the names of the features.
    """
    if schema is None and _for_sklearn(X):
        return checked_rows(estimator, X, **options)
    names = getattr(estimator, "feature_names_in_", None)
    if is_source(X):
        source = open_table(X)
    elif schema is None:
        source = open_table(X, None if names is None else list(names))
    else:
        source = open_table(X, schema=schema)
    if source.n_features != estimator.n_features_in_:
        raise InvalidDataError(
            f"X has {source.n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    if names is not None and source.feature_names is not None and source.feature_names != tuple(names):
        raise InvalidDataError("The features of X are not those of the fit, in the same order; open the same columns.")
    if isinstance(source, EngineSource):
        raise InvalidDataError(_ON_ENGINE)
    blocks = list(source.batches())
    if not blocks:
        raise InvalidDataError("The data have no rows; give at least one.")
    stacked = scipy.sparse.vstack(blocks, format="csr") if scipy.sparse.issparse(blocks[0]) else np.vstack(blocks)
    return checked_array(stacked, estimator=estimator, **options)


def _for_sklearn(X: Any) -> bool:
    """Tell what scikit-learn checks itself: arrays, sparse matrices, frames in memory, and nested lists of numbers."""
    if isinstance(X, list | tuple):
        return not any(isinstance(part, str | os.PathLike) for part in X)
    return hasattr(X, "__array__") or scipy.sparse.issparse(X) or (np.isscalar(X) and not isinstance(X, str))
