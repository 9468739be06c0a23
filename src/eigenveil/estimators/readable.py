"""Rows for `transform` and `predict`, of whatever `fit` takes."""

import os
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..errors import InvalidDataError
from ..guarantee import Unit
from ..schema import Schema
from ..sources import is_source, on_engine, open_table
from ..sources.on_engine import EngineSource
from .checking import checked_array, checked_rows

FloatArray = NDArray[np.float64]


def of_rows(
    estimator: Any,
    X: Any,
    schema: Schema | None,
    function: Callable[[Any], FloatArray],
    names: Sequence[str],
    **options: Any,
) -> Any:
    """Return what a function makes of the rows of X: an array; or, where they are on an engine, its collection."""
    rows = readable_rows(estimator, X, schema, **options)
    return rows.mapped(function, names) if isinstance(rows, EngineSource) else function(rows)


def readable_rows(estimator: Any, X: Any, schema: Schema | None, **options: Any) -> Any:
    """Return the rows of X as a checked matrix of the features that a fitted estimator knows; or their engine's source.

    Arrays and frames of numbers are what scikit-learn checks. Anything else that `fit` takes is read as it read it: by
    the schema of the release, or by the names of the features.
    """
    if schema is None and _for_sklearn(X) and not on_engine(X):
        return checked_rows(estimator, _without_persons(estimator, X), **options)
    names = getattr(estimator, "feature_names_in_", None)
    if is_source(X):
        _check_rows_in_order(X)
        source = open_table(X)
    elif schema is None:
        source = open_table(X, None if names is None else list(names), person=False)
        kept = _features_beside(estimator, source.n_features)
        source = source if kept is None else open_table(X, kept, person=False)
    else:
        source = open_table(X, schema=schema, person=False)  # every row by itself
    if source.n_features != estimator.n_features_in_:
        raise InvalidDataError(
            f"X has {source.n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    if names is not None and source.feature_names is not None and source.feature_names != tuple(names):
        raise InvalidDataError("The features of X are not those of the fit, in the same order; open the same columns.")
    if isinstance(source, EngineSource):
        return source
    blocks = list(source.batches())
    if not blocks:
        raise InvalidDataError("The data have no rows; give at least one.")
    stacked = scipy.sparse.vstack(blocks, format="csr") if scipy.sparse.issparse(blocks[0]) else np.vstack(blocks)
    return checked_array(stacked, estimator=estimator, **options)


def check_read_again(source: Any, given: Any) -> None:
    """Refuse, before anything is spent, rows that cannot be projected once they have been fitted."""
    if getattr(source, "reads_once", False) or getattr(source, "came_once", False):
        raise InvalidDataError("These rows come once only, and fit_transform reads them twice; call fit.")
    if is_source(given):
        _check_rows_in_order(given)


def _check_rows_in_order(source: Any) -> None:
    if getattr(source, "by_person", False):
        raise InvalidDataError(
            "This table was opened person by person, and not in the order of its rows; open it with person=False."
        )


def _without_persons(estimator: Any, X: Any) -> Any:
    """Return X without the column that tells persons apart, where it is there."""
    person, columns = getattr(estimator, "person", None), getattr(X, "columns", None)
    if columns is not None:
        names = getattr(estimator, "feature_names_in_", columns)
        others = [name for name in columns if name not in names]
        others = [person] if person is not None and person in columns else others
        # fit may have been told the column, or the release comes from a file; features are known by their names.
        if len(others) != 1 or estimator.release_.origin.rows.unit is not Unit.PERSON:
            return X
        import narwhals as nw

        return nw.from_native(X, eager_only=True).drop(others).to_native()
    if not isinstance(person, Integral):
        return X
    rows = X if hasattr(X, "shape") else np.asarray(X, dtype=object)
    kept = _features_beside(estimator, rows.shape[1] if len(rows.shape) == 2 else 0)
    return X if kept is None else rows[:, kept]


def _features_beside(estimator: Any, width: int) -> list[int] | None:
    """Return the positions of the features in rows of this width with the column of persons; None without it."""
    person = getattr(estimator, "person", None)
    if not isinstance(person, Integral) or width != estimator.n_features_in_ + 1:
        return None
    return [position for position in range(width) if position != person]


def _for_sklearn(X: Any) -> bool:
    """Tell what scikit-learn checks itself: arrays, sparse matrices, frames in memory, and nested lists of numbers."""
    if isinstance(X, list | tuple):
        return not any(isinstance(part, str | os.PathLike) for part in X)
    return hasattr(X, "__array__") or scipy.sparse.issparse(X) or (np.isscalar(X) and not isinstance(X, str))
