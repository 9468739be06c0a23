"""Rows held in memory as numbers: NumPy arrays and SciPy sparse matrices, in blocks."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError, InvalidParameterError, NotNumbersError, positive_number
from ..moments.units import Weighted, canonical_rows
from ..numerics import available_cores
from .base import BATCH_BYTES, Reader
from .encoder import Encoder

# 32 MiB: what is made of a view on the way may be as large.
_MOST_VIEWED, _FEW_VIEWED = 2**22, 2**21
# A stored entry of a CSR matrix takes a value and a column index.
SPARSE_BATCH_ENTRIES = BATCH_BYTES // 4
NO_MASKS = "Masked arrays are not supported; fill the masked entries first."
# scikit-learn's contract asks for the words "argument must be", "string" and "number".
NOT_NUMBERS = "Every argument must be an array, a table or a path; text, or a string beside numbers, is no number."


class _MatrixReader(Reader):
    """A matrix in memory, whose columns have positions and no names."""

    holds_rows = True
    n_rows_hint: int

    def __init__(self, rows: Any) -> None:
        if rows.ndim != 2:
            raise InvalidDataError(
                f"The data must be a table of rows, but have {rows.ndim} dimension(s); Reshape your data."
            )
        n_rows, width = rows.shape
        if width == 0:
            raise InvalidDataError("0 feature(s) (shape=(, 0)) while a minimum of 1 is required.")
        self._rows = rows
        self.where = f"the array, whose columns are numbered from 0 to {width - 1}"
        self.columns = range(width)
        self.n_rows_hint = int(n_rows)

    def types(self, columns: Sequence[int]) -> None:
        """Return None: all columns are numbers."""

    def column(self, column: int) -> NDArray[Any]:
        """Return one column."""
        return np.asarray(self._rows[:, column])

    def picker(self, encoder: Encoder) -> Callable[[Any], Any]:
        """Return a function from a slice or positions to encoded rows."""
        return lambda rows: encoder.rows(take_columns(self._at(rows), encoder.columns), self.where)

    def _at(self, rows: Any) -> Any:
        return self._rows[rows]


class ArrayReader(_MatrixReader):
    """A 2-D array, or anything that `numpy.asarray` makes one of.

    Examples
    --------
    >>> reader = ArrayReader(np.arange(6.0).reshape(2, 3))
    >>> next(reader.read([2, 0], step=100))
    array([[2., 0.],
           [5., 3.]])
    """

    def __init__(self, data: Any) -> None:
        check_masks(data)
        super().__init__(_as_array(data))

    def read(self, columns: Sequence[int], step: int) -> Iterator[NDArray[Any]]:
        """Yield blocks of rows: views where all columns are read, copies otherwise."""
        if step < self.n_rows_hint and list(columns) == list(self.columns):
            step = view_rows(*self._rows.shape)
        for start in range(0, self.n_rows_hint, step):
            yield take_columns(self._rows[start : start + step], columns)

    def _at(self, rows: Any) -> Any:
        # At positions `take` needs a third of the time of an index.
        return self._rows[rows] if isinstance(rows, slice) else self._rows.take(rows, axis=0)


def view_rows(n_rows: int, width: int) -> int:
    """Return the rows of a view: a core's share of them, in as few views as have no more entries than allowed.

    Views take no memory, and threads that work on few large ones seldom wait for one another. Few entries are one view,
    since threads take longer to begin than to help.
    """
    if n_rows * width <= _FEW_VIEWED:
        return n_rows
    cores = available_cores()
    return math.ceil(n_rows / (cores * math.ceil(n_rows * width / (cores * _MOST_VIEWED))))


class SparseReader(_MatrixReader):
    """A SciPy sparse matrix, of any format; its rows stay sparse.

    Examples
    --------
    >>> import scipy.sparse
    >>> reader = SparseReader(scipy.sparse.coo_array(np.eye(3)))
    >>> [(block.format, block.shape) for block in reader.read([0, 1], step=100)]
    [('csr', (3, 2))]
    """

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self._rows = canonical_rows(data)

    @property
    def entries(self) -> NDArray[np.int64]:
        """The number of stored entries of every row."""
        return np.asarray(np.diff(self._rows.indptr), dtype=np.int64)

    def column(self, column: int) -> NDArray[Any]:
        """Return one column."""
        return np.asarray(self._rows[:, [column]].toarray().ravel())

    def read(self, columns: Sequence[int], step: int) -> Iterator[Any]:
        """Yield CSR blocks of about equally many stored entries, whatever the `step`."""
        pointers = self._rows.indptr
        start = 0
        while start < self.n_rows_hint:
            full = int(np.searchsorted(pointers, pointers[start] + SPARSE_BATCH_ENTRIES, side="right")) - 1
            stop = min(max(full, start + 1), self.n_rows_hint)
            whole = stop - start == self.n_rows_hint  # of which a slice would be a copy
            yield take_columns(self._rows if whole else self._rows[start:stop], columns)
            start = stop


def take_columns(block: Any, columns: Sequence[int]) -> Any:
    """Return a matrix of some columns; the matrix itself where they are all."""
    return block if list(columns) == list(range(block.shape[1])) else block[:, list(columns)]


def check_masks(data: Any) -> None:
    """Refuse masked arrays, also in a list: NumPy would make an array of what is under the masks."""
    rows = data if isinstance(data, list | tuple) else [data]
    if any(isinstance(row, np.ma.MaskedArray) for row in rows):
        raise InvalidDataError(NO_MASKS)


def _as_array(data: Any) -> NDArray[Any]:
    try:
        rows = np.asarray(data)
    except Exception:
        raise InvalidDataError(f"The data, a {type(data).__name__}, cannot be made an array.") from None
    if rows.dtype.kind == "c":
        raise InvalidDataError("Complex data not supported; give real numbers.")
    if rows.dtype.kind == "O" and rows.ndim == 2:
        try:
            return rows.astype(np.float64)
        except Exception:  # whose text quotes a cell; what an object's __float__ raises may be of any kind
            raise NotNumbersError(NOT_NUMBERS) from None
    if rows.dtype.kind not in "fiub":
        raise InvalidDataError(
            f"The data, a {type(data).__name__}, must be an array of real numbers, a sparse matrix, a data "
            "frame or a path to a file."
        )
    return rows


_ONE_EACH = "sample_weight must be one number for every row, finite and at least 0."


class WeightedTable:
    """The rows of a source in batches of `Weighted`.

    Parameters
    ----------
    source : Source
        Rows that come in a public order, each a unit by itself.
    weights : array of shape (n_rows,)
        Public numbers of at least 0.
    most_weight : float, optional
        The largest weight there may be; by default the largest that there is.

    Examples
    --------
    >>> from eigenveil.tables.open import open_table
    >>> table = WeightedTable(open_table([[1.0], [2.0]]), [0.5, 2.0])
    >>> [batch.weights.tolist() for batch in table.batches()], table.most_weight
    ([[0.5, 2.0]], 2.0)
    """

    by_unit = False

    def __init__(self, source: Any, weights: Any, most_weight: float | None = None) -> None:
        if getattr(source, "by_unit", False):
            raise InvalidParameterError(
                "Rows of privacy units have no weights of their own; give either privacy units or weights."
            )
        if not getattr(source, "in_order", True):
            raise InvalidParameterError("Weights need rows in a public order; give the rows as files or an array.")
        try:
            self._weights = np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidDataError(_ONE_EACH) from None
        numbers = self._weights
        if numbers.ndim != 1 or not numbers.size or not (np.isfinite(numbers).all() and numbers.min() >= 0):
            raise InvalidDataError(_ONE_EACH)
        if not numbers.any():
            raise InvalidDataError("All weights of rows are zero; leave out sample_weight, or give one above 0.")
        self._source = source
        self.most_weight: float = positive_number("most_weight", numbers.max() if most_weight is None else most_weight)
        if self.most_weight < numbers.max():
            raise InvalidDataError("A weight is above most_weight, which no weight may be.")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._source, name)

    def batches(self) -> Iterator[Weighted]:
        """Yield blocks of rows with their weights."""
        start = 0
        for rows in self._source.batches():
            end = start + rows.shape[0]
            if end > self._weights.size:
                raise InvalidDataError(_ONE_EACH)
            yield Weighted(rows, self._weights[start:end])
            start = end
        if start != self._weights.size:
            raise InvalidDataError(_ONE_EACH)
