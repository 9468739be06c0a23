"""scikit-learn's checks of what the user gives, in our words: its own texts quote rows, cells and counts of rows."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_X_y, validate_data

from ..errors import InvalidDataError, NotNumbersError, own_words
from ..sources.arrays import NO_MASKS, NOT_NUMBERS

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
    (r"y should be a 1d array", "y must be one column, a number for each row."),
    (r"[\w ]*requires y to be passed", "The estimator requires y to be passed, but the target y is None."),
)


def checked_array(X: Any, **options: Any) -> Any:
    """Return what `sklearn.utils.check_array` does."""
    _refuse_what_sklearn_takes(X)
    return _told(lambda: check_array(X, **options))


def checked_pair(X: Any, y: Any, **options: Any) -> tuple[Any, NDArray[np.float64]]:
    """Return what `sklearn.utils.check_X_y` does."""
    _refuse_what_sklearn_takes(X)
    _refuse_what_sklearn_takes(y)
    rows, target = _told(lambda: check_X_y(X, y, **options))
    return rows, target


def checked_rows(estimator: Any, X: Any, *, reset: bool = False, **options: Any) -> Any:
    """Return what `sklearn.utils.validation.validate_data` does: its array, with names and width checked or kept."""
    rows = checked_array(X, estimator=estimator, **options)
    # Names and widths are public, and scikit-learn's words about them are what its users look for.
    validate_data(estimator, X if hasattr(X, "columns") else rows, reset=reset, skip_check_array=True)
    return rows


def _refuse_what_sklearn_takes(data: Any) -> None:
    """Refuse what the sources refuse and scikit-learn reads: what is under a mask, and dates as nanoseconds."""
    if isinstance(data, np.ma.MaskedArray):
        raise InvalidDataError(NO_MASKS)
    if isinstance(data, np.ndarray) and data.dtype.kind in "mM":
        raise NotNumbersError(NOT_NUMBERS)


@own_words
def _told(check: Callable[[], Any]) -> Any:
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
