"""From the batches of a table to rows of numbers: numeric columns, categories one-hot, missing numbers.

The names of columns and the categories are part of the public schema. Categories are never read off the data: which
values occur is private. A value that is not among them, or a missing one, becomes a block of zeros and no error, so
nothing is told about it. A row has at most one 1 for each categorical column: m of them add at most sqrt(m) to
its norm.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..errors import EigenveilError, InvalidDataError, InvalidParameterError

Categories = Mapping[str, Sequence[Any]]


class Encoder:
    """The public rule that makes rows of tables.

    Parameters
    ----------
    columns : list of str or int
        The columns of the table, in the order of the row.
    categories : mapping of str to list, optional
        The public categories of the columns to encode one-hot; the others hold numbers or truth values.
    missing : float, optional
        A public number to put where a number is missing, which is NaN without it.
    quote_names : bool
        Whether errors may quote the names of columns; otherwise they count them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = pa.table({"age": [30.0, None, 50.0], "sex": ["F", "M", "?"]})
    >>> encoder = Encoder(["age", "sex"], {"sex": ["F", "M"]}, missing=40.0)
    >>> encoder.names
    ['age', 'sex=F', 'sex=M']
    >>> encoder.rows(people, "people")
    array([[30.,  1.,  0.],
           [40.,  0.,  1.],
           [50.,  0.,  0.]])
    """

    def __init__(
        self,
        columns: Sequence[Any],
        categories: Categories | None = None,
        missing: float | None = None,
        *,
        quote_names: bool = True,
    ) -> None:
        if missing is not None and not np.isfinite(missing):
            raise InvalidParameterError("missing must be a finite number.")
        self.columns = list(columns)
        self.categories = {column: _labels(column, labels) for column, labels in (categories or {}).items()}
        self._missing, self._quote_names = missing, quote_names
        for column in self.categories:
            if column not in self.columns:
                raise InvalidParameterError(f"There are categories for {column!r}, which is not among the columns.")
        self.names = [name for column in self.columns for name in self._names_of(column)]
        for name, count in Counter(self.names).items():
            if count > 1:
                raise InvalidDataError(f"Two features would have the name {name!r}; rename a column.")

    @property
    def one_hot(self) -> tuple[bool, ...]:
        """Which features are 0 or 1 by construction."""
        return tuple(column in self.categories for column in self.columns for _ in self._names_of(column))

    def _told(self, column: Any) -> str:
        return repr(column) if self._quote_names else f"number {self.columns.index(column) + 1}"

    def _names_of(self, column: Any) -> list[Any]:
        return [f"{column}={label}" for label in self.categories[column]] if column in self.categories else [column]

    def check(self, types: Mapping[Any, Any], where: str) -> None:
        """Refuse numbers that are none, and categories that a column of numbers or truth values cannot have."""
        for column in self.columns:
            if column not in self.categories and not _is_number(types[column]):
                raise InvalidDataError(
                    f"The column {self._told(column)} of {where} does not hold numbers; encode it, or choose other "
                    "columns with columns=."
                )
        for column, labels in self.categories.items():
            # Two labels of one value, as 1 and 1.0, would give a row two ones.
            if len({_value(types[column], label, column) for label in labels}) < len(labels):
                raise InvalidParameterError(f"Two categories of {column!r} are the same value; leave out one.")

    def rows(self, batch: Any, where: str) -> Any:
        """Return the rows of a table as float64; a matrix, dense or sparse, is made of rows already."""
        if not (isinstance(batch, np.ndarray) or scipy.sparse.issparse(batch)):
            batch = self._matrix(batch, where)
        return batch if self._missing is None else _filled(batch, self._missing)

    def _matrix(self, table: Any, where: str) -> NDArray[np.float64]:
        import narwhals as nw

        frame = nw.from_native(table, eager_only=True)
        # Columns are contiguous in every frame library, and so they are written to contiguous memory.
        matrix = np.empty((len(frame), len(self.names)), order="F")
        position = 0
        for column in self.columns:
            try:
                for feature in _features(frame.get_column(column), self.categories.get(column)):
                    matrix[:, position] = feature
                    position += 1
            except (MemoryError, EigenveilError):
                raise
            except Exception:  # whatever the library says may quote a cell
                raise InvalidDataError(
                    f"The column {self._told(column)} of {where} cannot be read; make it a column of plain numbers or "
                    "text."
                ) from None
        return matrix


def _features(values: Any, labels: Sequence[str] | None) -> Iterator[Any]:
    """Yield the features of one column: itself, or one for each category."""
    import narwhals as nw

    kind = values.dtype
    if labels is None:
        # NumPy has no missing truth values, no decimals and no 128-bit integers.
        no_numpy_type = isinstance(kind, nw.Boolean | nw.Decimal | nw.Int128 | nw.UInt128)
        yield (values.cast(nw.Float64()) if no_numpy_type else values).to_numpy()
        return
    if _is_number(kind):
        values = values.cast(nw.Float64())
    else:
        values = (values if kind == nw.String() else values.cast(nw.String())).str.strip_chars()
    for label in labels:
        yield (values == _value(kind, label)).fill_null(False).cast(nw.Float64()).to_numpy()


def _is_number(kind: Any) -> bool:
    import narwhals as nw

    return bool(kind.is_numeric() or kind == nw.Boolean())


def _value(kind: Any, label: str, column: str = "") -> float | str:
    """Return what a label is in a column of this kind: a number, or text as it stands."""
    import narwhals as nw

    if not _is_number(kind):
        return label
    try:
        return {"true": 1.0, "false": 0.0}[label.lower()] if kind == nw.Boolean() else float(label)
    except (KeyError, ValueError):
        kinds = "truth values" if kind == nw.Boolean() else "numbers"
        raise InvalidParameterError(
            f"The column {column!r} holds {kinds}, so {label!r} cannot be one of its categories."
        ) from None


def _filled(rows: Any, missing: float) -> Any:
    """Return the rows with a number in place of NaN; the matrix may be the caller's, and is left alone."""
    sparse = scipy.sparse.issparse(rows)
    holes = np.isnan(rows.data if sparse else rows)
    if holes.any():
        rows = rows.copy()
        (rows.data if sparse else rows)[holes] = missing
    return rows


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
