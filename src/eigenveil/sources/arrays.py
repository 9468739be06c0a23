"""Rows held in memory: NumPy arrays, SciPy sparse matrices, and every data frame that narwhals knows.

Frames are converted a block of rows at a time, so the extra memory is one batch whatever the length. Neither
pandas nor Polars is imported here: narwhals works with the library the frame came from.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..errors import EigenveilError, InvalidDataError, NotNumbersError
from .base import BATCH_BYTES, Columns, Source, batch_rows, choose_columns

if TYPE_CHECKING:
    import narwhals as nw

# A stored entry of a CSR matrix takes a value and a column index.
_SPARSE_BATCH_ENTRIES = BATCH_BYTES // 4


class ArraySource:
    """The rows of a 2-D array, or of anything that `numpy.asarray` makes one of.

    Examples
    --------
    >>> source = ArraySource(np.arange(6.0).reshape(2, 3), columns=[2, 0])
    >>> next(source.batches())
    array([[2., 0.],
           [5., 3.]])
    """

    feature_names = None

    def __init__(self, data: Any, columns: Columns = None) -> None:
        if isinstance(data, np.ma.MaskedArray):
            raise InvalidDataError("Masked arrays are not supported; fill the masked entries first.")
        self._rows = _table(_as_array(data))
        self._chosen = choose_columns(range(self._rows.shape[1]), columns, _numbered(self._rows))
        self._all = columns is None
        self.n_features = len(self._chosen)
        self.n_rows_hint = int(self._rows.shape[0])

    def batches(self) -> Iterator[NDArray[Any]]:
        """Yield blocks of rows: views where all columns are read, copies otherwise."""
        step = batch_rows(self.n_features)
        for start in range(0, self._rows.shape[0], step):
            block = self._rows[start : start + step]
            yield block if self._all else block[:, self._chosen]


class SparseSource:
    """The rows of a SciPy sparse matrix, of any format; they stay sparse.

    Examples
    --------
    >>> source = SparseSource(scipy.sparse.coo_array(np.eye(3)))
    >>> [(batch.format, batch.shape) for batch in source.batches()]
    [('csr', (3, 3))]
    """

    feature_names = None

    def __init__(self, data: Any, columns: Columns = None) -> None:
        self._rows = _table(data).tocsr()
        self._chosen = choose_columns(range(self._rows.shape[1]), columns, _numbered(self._rows))
        self._all = columns is None
        self.n_features = len(self._chosen)
        self.n_rows_hint = int(self._rows.shape[0])

    def batches(self) -> Iterator[Any]:
        """Yield CSR blocks of about equally many stored entries."""
        n_rows = self._rows.shape[0]
        pointers = self._rows.indptr
        start = 0
        while start < n_rows:
            full = int(np.searchsorted(pointers, pointers[start] + _SPARSE_BATCH_ENTRIES, side="right")) - 1
            stop = min(max(full, start + 1), n_rows)
            block = self._rows[start:stop]
            yield block if self._all else block[:, self._chosen]
            start = stop


class FrameSource:
    """The rows of a data frame; Polars' lazy frames stream, other lazy ones are refused."""

    def __init__(self, frame: "nw.DataFrame[Any] | nw.LazyFrame[Any]", columns: Columns = None) -> None:
        import narwhals as nw

        self._frame = frame
        lazy = isinstance(frame, nw.LazyFrame)
        if lazy and not hasattr(frame.to_native(), "collect_batches"):
            raise InvalidDataError(
                "This lazy frame cannot be read in batches; collect it first, or save it as Parquet and give the path."
            )
        try:
            schema = list(frame.collect_schema())
        except nw.exceptions.DuplicateError:
            raise InvalidDataError("Two columns of the frame have the same name; rename one.") from None
        except Exception:
            raise InvalidDataError("The schema of the frame cannot be read.") from None
        self._names = choose_columns(schema, columns, "the frame")
        check_numeric(frame, self._names, "the frame")
        self.n_features = len(self._names)
        # pandas numbers the columns that nobody named: those numbers are positions, not names.
        named = all(isinstance(name, str) for name in self._names)
        self.feature_names = tuple(self._names) if named else None
        self.n_rows_hint = None if lazy else len(frame)  # type: ignore[arg-type]

    def batches(self) -> Iterator[NDArray[np.float64]]:
        """Yield blocks of rows as float64."""
        step = batch_rows(self.n_features)
        for frame in self._eager_parts(step):
            for start in range(0, len(frame), step):
                yield to_matrix(frame[start : start + step], self._names, "the frame")

    def _eager_parts(self, step: int) -> "Iterator[nw.DataFrame[Any]]":
        import narwhals as nw

        if isinstance(self._frame, nw.DataFrame):
            yield self._frame
            return
        native = self._frame.select(*self._names).to_native()
        try:
            for part in native.collect_batches(chunk_size=step):
                yield nw.from_native(part, eager_only=True)
        except Exception:  # whatever the engine says may quote a cell
            raise InvalidDataError("The lazy frame cannot be computed; collect it to see why.") from None


def check_numeric(frame: Any, names: Sequence[Any], where: str) -> None:
    """Raise, naming the column, unless every one of `names` holds numbers or truth values."""
    import narwhals as nw

    schema = nw.from_native(frame).collect_schema()
    for name in names:
        if not (schema[name].is_numeric() or schema[name] == nw.Boolean()):
            raise InvalidDataError(
                f"The column {name!r} of {where} does not hold numbers; encode it, or choose other columns "
                "with columns=."
            )


def to_matrix(table: Any, names: Sequence[Any], where: str) -> NDArray[np.float64]:
    """Return the columns `names` of a frame as a float64 matrix, with NaN where a value is missing."""
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True)
    # Columns are contiguous in every frame library, and so they are written to contiguous memory.
    matrix = np.empty((len(frame), len(names)), order="F")
    # NumPy has no missing truth values, no decimals and no 128-bit integers.
    no_numpy_type = (nw.Boolean, nw.Decimal, nw.Int128, nw.UInt128)
    for position, name in enumerate(names):
        try:
            column = frame.get_column(name)
            if isinstance(column.dtype, no_numpy_type):
                column = column.cast(nw.Float64())
            matrix[:, position] = column.to_numpy()
        except (MemoryError, EigenveilError):
            raise
        except Exception:  # whatever the library says may quote a cell
            raise InvalidDataError(f"The column {name!r} of {where} cannot be read as numbers.") from None
    return matrix


def open_sparse(data: Any, columns: Columns) -> Source | None:
    """Return the source of a SciPy sparse matrix, or None for anything else."""
    return SparseSource(data, columns) if scipy.sparse.issparse(data) else None


def open_frame(data: Any, columns: Columns) -> Source | None:
    """Return the source of a frame that narwhals knows, or None for anything else."""
    if isinstance(data, np.ndarray | list | tuple):
        return None
    frame = as_frame(data)
    return None if frame is None else FrameSource(frame, columns)


def as_frame(data: Any) -> Any:
    """Return the narwhals frame around `data`, or None for what is no frame."""
    import narwhals as nw

    try:
        frame = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise InvalidDataError("Two columns of the frame have the same name; rename one.") from None
    return frame if isinstance(frame, nw.DataFrame | nw.LazyFrame) else None


def open_array(data: Any, columns: Columns) -> Source:
    """Return the source of an array, or of anything that NumPy can make one of."""
    return ArraySource(data, columns)


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
        except (TypeError, ValueError):  # whose text quotes a cell
            raise NotNumbersError(
                "Every argument must be an array, a table or a path; text, or a string beside numbers, is no number."
            ) from None
    if rows.dtype.kind not in "fiub":
        raise InvalidDataError(
            f"The data, a {type(data).__name__}, must be an array of real numbers, a sparse matrix, a data "
            "frame or a path to a file."
        )
    return rows


def _table(rows: Any) -> Any:
    if rows.ndim != 2:
        raise InvalidDataError(
            f"The data must be a table of rows, but have {rows.ndim} dimension(s); Reshape your data."
        )
    if rows.shape[1] == 0:
        raise InvalidDataError(f"0 feature(s) (shape=({rows.shape[0]}, 0)) while a minimum of 1 is required.")
    return rows


def _numbered(rows: Any) -> str:
    return f"the array, whose columns are numbered from 0 to {rows.shape[1] - 1}"
