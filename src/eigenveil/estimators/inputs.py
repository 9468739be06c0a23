"""What an estimator is given: rows as scikit-learn or a table has them."""

import os
import re
from collections.abc import Callable, Sequence
from numbers import Integral
from types import MethodType
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..errors import InvalidDataError, InvalidParameterError, NotNumbersError, PrivacyWarning, own_words, warn_caller
from ..guarantee import Adjacency, Guarantee, Unit
from ..numerics import FloatArray
from ..tables.arrays import NOT_NUMBERS, WeightedTable, check_masks
from ..tables.base import EngineSource, Source
from ..tables.open import is_source, on_engine, open_table
from ..tables.schema import Schema

Estimator: TypeAlias = Any
"""An estimator with the interface of scikit-learn, which has no type information."""


class Available:
    """A method that an instance has where a check passes; else the check's `AttributeError` is what the caller sees.

    scikit-learn's `available_if` hides the reason behind "has no attribute".

    Examples
    --------
    >>> def small(model):
    ...     if model.size > 1:
    ...         raise AttributeError("grow needs a size of at most 1.")
    >>> class Model:
    ...     def __init__(self, size):
    ...         self.size = size
    ...     @available_where(small)
    ...     def grow(self):
    ...         return self.size + 1
    >>> Model(1).grow(), hasattr(Model(2), "grow")
    (2, False)
    >>> Model(2).grow()
    Traceback (most recent call last):
        ...
    AttributeError: grow needs a size of at most 1.
    """

    def __init__(self, method: Callable[..., Any], check: Callable[[Any], object]) -> None:
        self._method, self._check = method, check
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self._method
        self._check(instance)
        return MethodType(self._method, instance)


def available_where(check: Callable[[Any], object]) -> Callable[[Callable[..., Any]], Any]:
    """Make a method available where `check`, called with the instance, raises no `AttributeError`."""

    def decorate(method: Callable[..., Any]) -> Any:
        return Available(method, check)

    return decorate


def opened(
    data: Any,
    schema: Any,
    privacy_unit: Any,
    *,
    fit_schema: Any = None,
    fit_privacy_unit: Any = None,
    sample_weight: Any = None,
) -> Source:
    """Return the source of data, encoded by a schema, with its privacy units or weights.

    Parameters
    ----------
    data : array, data frame, path, ...
        What `fit` takes.
    schema, privacy_unit : optional
        The parameters of the estimator.
    fit_schema, fit_privacy_unit, sample_weight : optional
        Those of the call of `fit`.
    """
    known = checked_schema(_given_once("schema", schema, fit_schema))
    source = _opened(data, known, _privacy_unit(checked_unit_column(privacy_unit), fit_privacy_unit))
    return source if sample_weight is None else WeightedTable(source, sample_weight)


def _opened(data: Any, schema: Schema | None, privacy_unit: Any) -> Source:
    if is_source(data):
        if schema is not None and getattr(data, "schema", None) != schema:
            raise InvalidParameterError(
                "The table was opened without the schema of the estimator; give it to one of them."
            )
        if privacy_unit is not None and not getattr(data, "by_unit", False):
            raise InvalidParameterError(
                "The table was opened without its privacy units; give privacy_unit to open_table."
            )
        return open_table(data)
    try:
        return open_table(data, schema=schema, privacy_unit=privacy_unit)
    except InvalidDataError as error:  # one of ours: its text is changed in place, so that no second error holds it
        # An estimator has no columns=; its caller opens the table, or declares its columns.
        ways = " tables.open_table(data, columns=...), or by a schema, which tables.draft_schema(data) drafts"
        error.args = (str(error).replace(" columns=", ways),)
        raise


def _given_once(name: str, of_estimator: Estimator, of_fit: Any) -> Any:
    if of_estimator is not None and of_fit is not None and of_estimator != of_fit:
        raise InvalidParameterError(f"fit was given another {name} than the estimator has; give it to one of them.")
    return of_fit if of_estimator is None else of_estimator


def checked_unit_column(privacy_unit: Any) -> str | int | None:
    """Return the column that the parameter `privacy_unit` names, or None; identifiers are no parameter."""
    if privacy_unit is None or isinstance(privacy_unit, str):
        return privacy_unit
    if isinstance(privacy_unit, Integral) and not isinstance(privacy_unit, bool | np.bool_):
        return int(privacy_unit)
    # A parameter is printed, copied and pickled; identifiers of privacy units must not be.
    raise InvalidParameterError("privacy_unit of an estimator must be a column. Give a list of identifiers to fit.")


def _privacy_unit(column: str | int | None, of_fit: Any) -> Any:
    if of_fit is None or column is None:
        return column if of_fit is None else of_fit
    if isinstance(of_fit, str | Integral):
        return _given_once("privacy_unit", column, of_fit)
    raise InvalidParameterError(
        "privacy_unit was given twice. Leave out the list of identifiers in fit, or the column of the estimator."
    )


def checked_schema(schema: Any) -> Schema | None:
    """Return the schema of an estimator, or refuse what cannot be read with it."""
    if schema is None:
        return None
    if not isinstance(schema, Schema):
        raise InvalidParameterError("schema must be a Schema; Schema.load reads one from a file.")
    schema.check_complete()
    return schema


# What scikit-learn says, and what is said in its place. Of its text only a number of features or of dimensions is
# kept; those are public.
_SAID: tuple[tuple[str, str], ...] = (
    (r"Input (?:X )?contains (?:NaN|infinity)", "Input X contains NaN or infinity; clean the data first."),
    (r"Input y contains NaN", "Input y contains NaN; clean the data first."),
    (r"Input y contains", "Input y contains infinity or a value too large for dtype('float64')."),
    (r"Complex data not supported", "Complex data not supported; give real numbers."),
    (
        r"Expected 2D array, got (\d)D array",
        "The data must be a table of rows, but have {} dimension(s); Reshape your data.",
    ),
    (r"Expected 2D array, got scalar", "The data must be a table of rows, but are one value; Reshape your data."),
    (r"Found array with dim (\d)", "The data must be a table of rows, but have {} dimension(s); Reshape your data."),
    (
        r"Found array with (\d+) feature\(s\) \(shape=\(\d+, \d+\)\) while a minimum of (\d+)",
        "The data have {0} feature(s) (shape=(, {0})) while a minimum of {1} is required.",
    ),
    (r"Found array with 0 sample", "The data have no rows; give at least one."),
    (
        r"Found input variables with inconsistent",
        "X and y have different numbers of rows; give one target for each row.",
    ),
    (r"Sparse data was passed", "Sparse data was passed where dense data is required; use .toarray()."),
    (r"Singleton array", "y must have one number, or one row of numbers, for each row of X."),
    (r"[\w ]*requires y to be passed", "The estimator requires y to be passed, but the target y is None."),
)


def checked_array(X: Any, **options: Any) -> Any:
    """Return what `sklearn.utils.check_array` does."""
    from sklearn.utils.validation import check_array  # a plan is made without scikit-learn, which takes long to load

    _refuse_what_sklearn_takes(X)
    return _checked(lambda: check_array(X, **options))


def checked_pair(X: Any, y: Any, **options: Any) -> tuple[Any, NDArray[np.float64]]:
    """Return what `sklearn.utils.check_X_y` does, with numbers for y: one column, or a table."""
    _refuse_what_sklearn_takes(X)
    _refuse_what_sklearn_takes(y)
    rows, target = _checked(lambda: _pair(X, y, options))
    return rows, target


def _pair(X: Any, y: Any, options: dict[str, Any]) -> tuple[Any, NDArray[np.float64]]:
    from sklearn.utils.validation import check_X_y

    shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    if len(shape) == 2 and shape[0] == 0:  # which scikit-learn refuses; whether there are rows may be private
        return check_X_y(X, np.empty(0), **options)[0], np.empty(shape)
    rows, target = check_X_y(X, y, multi_output=len(shape) == 2, **options)
    if scipy.sparse.issparse(target):
        raise TypeError("Sparse data was passed")
    if target.dtype.kind not in "biuf":
        raise TypeError
    return rows, np.asarray(target, np.float64)


def checked_rows(estimator: Estimator, X: Any, *, reset: bool = False, **options: Any) -> Any:
    """Return what `sklearn.utils.validation.validate_data` does: its array, with names and width checked or kept."""
    from sklearn.utils.validation import validate_data

    rows = checked_array(X, estimator=estimator, **options)
    # Names and widths are public, and scikit-learn's words about them are what its users look for.
    validate_data(estimator, X if hasattr(X, "columns") else rows, reset=reset, skip_check_array=True)
    return rows


def _refuse_what_sklearn_takes(data: Any) -> None:
    """Refuse what the sources refuse and scikit-learn reads: what is under a mask, and dates as nanoseconds."""
    check_masks(data)
    if isinstance(data, np.ndarray) and data.dtype.kind in "mM":
        raise NotNumbersError(NOT_NUMBERS)


@own_words
def _checked(check: Callable[[], Any]) -> Any:
    try:
        return check()
    except Exception as error:
        raise _in_our_words(error) from None


def _in_our_words(error: Exception) -> InvalidDataError:
    text = error.args[0] if error.args and isinstance(error.args[0], str) else ""
    for pattern, sentence in _SAID:
        found = re.match(pattern, text)
        if found is not None:
            return InvalidDataError(sentence.format(*found.groups()))
    return NotNumbersError(NOT_NUMBERS)


def of_rows(
    estimator: Estimator,
    X: Any,
    schema: Schema | None,
    function: Callable[[Any], FloatArray],
    names: Sequence[str],
    **options: Any,
) -> Any:
    """Return what a function makes of the rows of X: an array; or, where they are on an engine, its collection."""
    rows = readable_rows(estimator, X, schema, **options)
    return rows.mapped(function, names) if isinstance(rows, EngineSource) else function(rows)


def readable_rows(estimator: Estimator, X: Any, schema: Schema | None, **options: Any) -> Any:
    """Return the rows of X as a checked matrix of the features that a fitted estimator knows; or their engine's source.

    Arrays and frames of numbers are what scikit-learn checks. Anything else that `fit` takes is read as it read it: by
    the schema of the release, or by the names of the features.
    """
    if schema is None and _for_sklearn(X) and not on_engine(X):
        return checked_rows(estimator, _without_units(estimator, X), **options)
    names = getattr(estimator, "feature_names_in_", None)
    if is_source(X):
        _check_rows_in_order(X)
        source = open_table(X)
    elif schema is None:
        source = open_table(X, None if names is None else list(names), privacy_unit=False)
        kept = _features_beside(estimator, source.n_features)
        source = source if kept is None else open_table(X, kept, privacy_unit=False)
    else:
        source = open_table(X, schema=schema, privacy_unit=False)  # every row by itself
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
    if getattr(source, "by_unit", False):
        raise InvalidDataError(
            "This table was opened person by person, and not in the order of its rows; open it with privacy_unit=False."
        )


def _without_units(estimator: Estimator, X: Any) -> Any:
    """Return X without the column that identifies the privacy unit, where it is there."""
    privacy_unit, columns = getattr(estimator, "privacy_unit", None), getattr(X, "columns", None)
    if columns is not None:
        names = getattr(estimator, "feature_names_in_", columns)
        others = [name for name in columns if name not in names]
        others = [privacy_unit] if privacy_unit is not None and privacy_unit in columns else others
        # fit may have been told the column, or the release comes from a file; features are known by their names.
        if len(others) != 1 or estimator.release_.origin.row_rule.unit is not Unit.PERSON:
            return X
        import narwhals as nw

        return nw.from_native(X, eager_only=True).drop(others).to_native()
    if not isinstance(privacy_unit, Integral):
        return X
    rows = X if hasattr(X, "shape") else np.asarray(X, dtype=object)
    kept = _features_beside(estimator, rows.shape[1] if len(rows.shape) == 2 else 0)
    return X if kept is None else rows[:, kept]


def _features_beside(estimator: Estimator, width: int) -> list[int] | None:
    """Return the positions of the features in rows of this width with the column of privacy units; None without it."""
    privacy_unit = getattr(estimator, "privacy_unit", None)
    if not isinstance(privacy_unit, Integral) or width != estimator.n_features_in_ + 1:
        return None
    return [position for position in range(width) if position != privacy_unit]


def _for_sklearn(X: Any) -> bool:
    """Tell what scikit-learn checks itself: arrays, sparse matrices, frames in memory, and nested lists of numbers."""
    if isinstance(X, list | tuple):
        return not any(isinstance(part, str | os.PathLike) for part in X)
    return hasattr(X, "__array__") or scipy.sparse.issparse(X) or (np.isscalar(X) and not isinstance(X, str))


def check_delta(promise: Guarantee, n: int) -> None:
    """Warn, before the spend, of a delta that is too large to protect single units."""
    large = delta_of_a_unit(promise, n)
    if large is not None:
        warn_caller(large, PrivacyWarning)


def delta_of_a_unit(promise: Guarantee, n: int) -> str | None:
    """Return a sentence about a delta of at least 1/n, or None; n is public under replace alone."""
    delta, unit = promise.delta, promise.unit
    if promise.adjacency is not Adjacency.REPLACE_ONE or delta * n < 1:
        return None
    return (
        f"delta = {delta:g} is at least 1/n for these {n:,} {unit.counted}, which even the publication of "
        f"{unit.in_words}, taken at random, would satisfy; choose one far below 1/n."
    )
