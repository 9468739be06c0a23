"""Tables with categories: columns one-hot by publicly given categories, and a public number for missing values.

The names of columns and the categories are part of the public schema. Categories are never read off the data: which
values occur is private. A value that is not among them, or a missing one, becomes a block of zeros and no error, so
nothing is told about it. A row has at most one 1 for each categorical column: m of them add at most sqrt(m) to
its norm.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InvalidDataError, InvalidParameterError
from .arrays import to_matrix
from .base import Columns, Source, batch_rows
from .tables import equals, open_parts

Categories = Mapping[str, Sequence[Any]]


class OneHotTable:
    """The rows of a data frame, of a CSV or Parquet file or of several, with categorical columns one-hot.

    Parameters
    ----------
    data : data frame, path or list of paths
        Where the columns have names.
    columns : list of str, optional
        The columns to read, categorical ones among them, in this order; all by default.
    categories : mapping of str to list
        The public categories of each categorical column. Text is compared without the blanks around it, numbers as
        numbers, truth values as ``true`` and ``false``; in a CSV file everything is text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = pa.table({"age": [30.0, 40.0, 50.0], "sex": ["F", "M", "?"]})
    >>> source = OneHotTable(people, categories={"sex": ["F", "M"]})
    >>> source.feature_names
    ('age', 'sex=F', 'sex=M')
    >>> next(source.batches())
    array([[30.,  1.,  0.],
           [40.,  0.,  1.],
           [50.,  0.,  0.]])
    """

    n_rows_hint: int | None

    def __init__(self, data: Any, columns: Columns = None, *, categories: Categories) -> None:
        self._categories = {name: _labels(name, labels) for name, labels in categories.items()}
        self._parts = open_parts(data, columns)
        self._columns: list[str] = self._parts[0].chosen
        for name in self._categories:
            if name not in self._columns:
                raise InvalidParameterError(f"There are categories for {name!r}, which is not among the columns.")
        for part in self._parts:
            part.prepare(self._columns, self._categories)
        names = [name for column in self._columns for name in self._names_of(column)]
        for name, count in Counter(names).items():
            if count > 1:
                raise InvalidDataError(f"Two features would have the name {name!r}; rename a column.")
        self.feature_names = tuple(names)
        self.n_features = len(names)
        hints = [part.n_rows_hint for part in self._parts]
        self.n_rows_hint = None if None in hints else sum(hint or 0 for hint in hints)

    @property
    def one_hot(self) -> tuple[bool, ...]:
        """Which features are 0 or 1 by construction."""
        return tuple(column in self._categories for column in self._columns for _ in self._names_of(column))

    @property
    def n_categorical(self) -> int:
        """The number of categorical columns, m: their features have together a norm of at most sqrt(m)."""
        return len(self._categories)

    def batches(self) -> Iterator[Any]:
        """Yield blocks of rows as float64."""
        import narwhals as nw

        step = batch_rows(self.n_features)
        for part in self._parts:
            for table in part.tables(step):
                frame = nw.from_native(table, eager_only=True)
                # One-hot rows are wide where text was narrow: a block of text may hold too many rows for one batch.
                for start in range(0, len(frame), step):
                    yield to_matrix(
                        self._encoded(frame[start : start + step], part.where), self.feature_names, part.where
                    )

    def _names_of(self, column: str) -> list[str]:
        if column not in self._categories:
            return [column]
        return [f"{column}={label}" for label in self._categories[column]]

    def _encoded(self, frame: Any, where: str) -> Any:
        import narwhals as nw

        expressions = []
        for column in self._columns:
            values = nw.col(column)
            if column not in self._categories:
                expressions.append(values)
                continue
            kind = frame.schema[column]
            for label in self._categories[column]:
                expressions.append(equals(values, kind, label).alias(f"{column}={label}"))
        try:
            return frame.select(*expressions)
        except Exception:  # whatever the library says may quote a cell
            raise InvalidDataError(f"The categorical columns of {where} cannot be read.") from None


class FilledSource:
    """Any source, with a public number in place of missing values (NaN)."""

    def __init__(self, source: Source, missing: float) -> None:
        if not np.isfinite(missing):
            raise InvalidParameterError("missing must be a finite number.")
        self._source, self._missing = source, float(missing)
        self.n_features, self.feature_names = source.n_features, source.feature_names
        self.n_rows_hint = source.n_rows_hint

    def batches(self) -> Iterator[Any]:
        """Yield the blocks of the source, filled."""
        for batch in self._source.batches():
            values = batch.data if hasattr(batch, "toarray") else batch
            if values.dtype.kind == "f" and np.isnan(values).any():
                batch = batch.copy()
                values = batch.data if hasattr(batch, "toarray") else batch
                values[np.isnan(values)] = self._missing
            yield batch


def open_table(
    data: Any, columns: Columns = None, *, categories: Categories | None = None, missing: float | None = None
) -> Source:
    """Return a source of chosen columns, for `fit` and `second_moments`, which take it in place of data.

    Parameters
    ----------
    data, columns
        As in `open_source`.
    categories : mapping of str to list, optional
        Public categories of the columns to encode one-hot; see `OneHotTable`.
    missing : float, optional
        A public number to put where a number is missing. Without it, such rows are what `RowBound` makes of them.

    Examples
    --------
    >>> next(open_table([[1.0, float("nan")]], missing=0.5).batches())
    array([[1. , 0.5]])
    """
    from . import open_source

    source: Source
    source = OneHotTable(data, columns, categories=categories) if categories else open_source(data, columns)
    return source if missing is None else FilledSource(source, missing)


def open_opened(data: Any, columns: Columns) -> Source | None:
    """Return `data` if it is a source already, or None."""
    if not (callable(getattr(data, "batches", None)) and hasattr(data, "n_rows_hint")):
        return None
    if columns is not None:
        raise InvalidParameterError("The columns of a source were chosen when it was opened; leave out columns.")
    source: Source = data
    return source


def _labels(column: str, labels: Sequence[Any]) -> tuple[str, ...]:
    texts = [] if isinstance(labels, str) else [_label(label) for label in labels]
    if not texts:
        raise InvalidParameterError(f"The categories of {column!r} must be a list of at least one.")
    for text, count in Counter(texts).items():
        if count > 1:
            raise InvalidParameterError(f"The categories of {column!r} list {text!r} more than once.")
    return tuple(texts)


def _label(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool | np.bool_) else str(value).strip()
