"""Data frames of every kind that narwhals knows, Arrow streams and chunks; imports neither pandas nor Polars."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..errors import InvalidDataError, column_in_words, iterated_in_own_words
from ..moments.kernels import RowsByColumn
from .arrays import ArrayReader, SparseReader, view_rows
from .base import Reader, arrow_types, batch_rows, choose_columns, need_arrow
from .encoder import Declared, Encoder, is_plain_number, kinds_of, same_kind
from .text import TextFile

if TYPE_CHECKING:
    import narwhals as nw


class FrameReader(Reader):
    """A data frame; Polars' lazy frames stream, other lazy ones are refused.

    Examples
    --------
    >>> import pyarrow as pa
    >>> reader = FrameReader(as_frame(pa.table({"age": [30, 40], "mass": [60.5, 70.5]})))
    >>> [len(part) for part in reader.read(["mass"], step=1)]
    [1, 1]
    """

    where, by_column = "the frame", True

    def __init__(self, frame: "nw.DataFrame[Any] | nw.LazyFrame[Any]") -> None:
        import narwhals as nw

        self._frame = frame
        self._picked: tuple[Encoder, Callable[[Any], Any]] | None = None
        lazy = isinstance(frame, nw.LazyFrame)
        self.holds_rows = self.in_order = not lazy  # a query may sort by what is private
        if lazy and not hasattr(frame.to_native(), "collect_batches"):
            raise InvalidDataError(
                "This lazy frame cannot be read in batches; collect it first, or save it as Parquet and give the path."
            )
        try:
            self._types: Mapping[Any, Any] = kinds_of(frame)
        except nw.exceptions.DuplicateError:
            raise _same_name() from None
        except Exception:
            raise InvalidDataError("The schema of the frame cannot be read; collect it to see why.") from None
        self.columns = list(self._types)
        self.n_rows_hint = None if lazy else len(frame)  # type: ignore[arg-type]

    def types(self, columns: Sequence[Any]) -> Mapping[Any, Any]:
        """Return the narwhals types of the columns."""
        return self._types

    def read(self, columns: Sequence[Any], step: int) -> "Iterator[nw.DataFrame[Any]]":
        """Yield slices of the frame; held ones keep columns that nobody asked for, which costs nothing."""
        import narwhals as nw

        if isinstance(self._frame, nw.DataFrame):
            for start in range(0, len(self._frame), step):
                yield self._frame[start : start + step]
            return
        native = self._frame.select(*columns).to_native()
        try:
            for part in native.collect_batches(chunk_size=step, maintain_order=True):
                frame = nw.from_native(part, eager_only=True)
                for start in range(0, len(frame), step):
                    yield frame[start : start + step]
        except Exception:  # whatever the engine says may quote a cell
            raise InvalidDataError("The lazy frame cannot be computed; collect it to see why.") from None

    def column(self, column: Any) -> Any:
        """Return one column of a held frame."""
        return self._frame.get_column(column)  # type: ignore[union-attr]

    def picker(self, encoder: Encoder) -> Callable[[Any], Any]:
        """Return a function from a slice or positions to encoded rows of a held frame, the same for all readings."""
        if self._picked is None or self._picked[0] is not encoder:
            columns = self._columns_at_once(encoder.columns) if encoder.plain else None
            pick = encoder.picker(self._frame, self.where) if columns is None else RowsByColumn(columns).__getitem__
            self._picked = encoder, pick
        return self._picked[1]

    def _columns_at_once(self, names: Sequence[Any]) -> list[NDArray[Any]] | None:
        """Return the columns of Polars, or of one array under pandas, without narwhals around each; None for others."""
        native: Any = self._frame.to_native()
        if self._frame.implementation.is_polars():
            plain = all(is_plain_number(self._types[name]) for name in names)
            return [np.asarray(native.get_column(name)) for name in names] if plain else None
        if not self._frame.implementation.is_pandas():
            return None
        of_names = {name: place for place, name in enumerate(self.columns)}
        places = [of_names[name] for name in names]
        start, stop = min(places), max(places) + 1
        some = stop - start < len(self.columns)
        first = native.iloc[:1]  # of which a copy costs nothing: one is made if columns lie apart or have several types
        # pandas below 3 may copy when it selects, too.
        one, again = ((first.iloc[:, start:stop] if some else first).to_numpy() for _ in range(2))
        if one.dtype.kind not in "fiu" or not np.may_share_memory(one, again):
            return None
        by_place = (native.iloc[:, start:stop] if some else native).to_numpy().T
        return [by_place[place - start] for place in places]


class ColumnsReader(Reader):
    """Columns of float64 under public names, each an array of its own: a frame that nothing is copied for.

    Parameters
    ----------
    columns : mapping of str to ndarray
        At least one, all of one length.

    Examples
    --------
    >>> reader = ColumnsReader({"age": np.array([30.0, 40.0]), "mass": np.array([60.5, 70.5])})
    >>> reader.shape, reader.column("mass").tolist()
    ((2, 2), [60.5, 70.5])
    """

    where, holds_rows, by_column = "the frame", True, True

    def __init__(self, columns: Mapping[str, NDArray[np.float64]]) -> None:
        self._columns = columns
        self.columns = list(columns)
        self.n_rows_hint: int = len(columns[self.columns[0]])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns, as of the array that it stands for."""
        return self.n_rows_hint, len(self.columns)

    def types(self, columns: Sequence[Any]) -> Mapping[Any, Any]:
        """Return the narwhals types of the columns."""
        import narwhals as nw

        return dict.fromkeys(columns, nw.Float64())

    def read(self, columns: Sequence[Any], step: int) -> Iterator[NDArray[np.float64]]:
        """Yield blocks of rows."""
        rows = self._rows(columns)
        for start in range(0, self.n_rows_hint, step):
            yield np.asarray(rows[start : start + step])

    def column(self, column: Any) -> NDArray[np.float64]:
        """Return one column."""
        return self._columns[column]

    def picker(self, encoder: Encoder) -> Callable[[Any], Any]:
        """Return a function from a slice or positions to rows, which are numbers as they are."""
        return self._rows(encoder.columns).__getitem__

    def _rows(self, columns: Sequence[Any]) -> RowsByColumn:
        return RowsByColumn([self._columns[name] for name in columns])


def as_frame(data: Any) -> "nw.DataFrame[Any] | nw.LazyFrame[Any] | None":
    """Return the narwhals frame around `data`, or None for what is no frame."""
    if isinstance(data, np.ndarray | list | tuple):
        return None
    import narwhals as nw

    try:
        frame: Any = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise _same_name() from None
    return frame if isinstance(frame, nw.DataFrame | nw.LazyFrame) else None


def _same_name() -> InvalidDataError:
    return InvalidDataError("Two columns of the frame have the same name; rename one.")


_READ_BEFORE = (
    "These rows come once only, and were read before; make the stream anew, or give a table or a file in its place."
)


class ArrowStreamReader(Reader):
    """Whatever hands out Arrow streams: DuckDB relations, record-batch readers and others.

    Parameters
    ----------
    data : object
        With the method ``__arrow_c_stream__`` of Arrow's interface. One that also gives its batches one by one, as a
        record-batch reader does, can be read once; others hand out a new stream each time. Whatever is no table is
        taken for a query, such as a relation of DuckDB, whose rows come in no public order.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"age": [30, 40], "mass": [60.5, 70.5]})
    >>> reader = ArrowStreamReader(table.to_reader())
    >>> reader.columns, reader.reads_once, reader.in_order
    (['age', 'mass'], True, False)
    """

    where = "the stream"

    def __init__(self, data: Any) -> None:
        need_arrow("Arrow streams")
        import pyarrow as pa

        self._data = data
        # A query may sort by what is private, or give its rows as its threads come to them.
        self.in_order = isinstance(data, pa.Table | pa.RecordBatch)
        self.reads_once = hasattr(data, "read_next_batch") or hasattr(data, "__next__")
        # What can be read once is opened once: to ask a reader for its schema may use it up. Of a query nothing is kept
        # open, since that would block its connection for everything else.
        stream = _stream_of(data)
        self._schema = stream.schema
        self._stream: Any = stream if self.reads_once else None
        self.columns = list(self._schema.names)

    def types(self, columns: Sequence[Any]) -> Mapping[Any, Any]:
        """Return the narwhals types of the columns."""
        return arrow_types(self._schema, columns)

    def read(self, columns: Sequence[Any], step: int) -> Iterator[Any]:
        """Yield PyArrow tables."""
        import pyarrow as pa

        stream, self._stream = self._stream, None
        if stream is None:
            if self.reads_once:
                raise InvalidDataError(_READ_BEFORE)
            stream = _stream_of(self._data)
        for batch in stream:
            table = pa.Table.from_batches([batch]).select(columns)
            for start in range(0, table.num_rows, step):
                yield table.slice(start, step)


class ChunksReader(Reader):
    """An iterator of frames or arrays, the parts of one table, as pandas gives them with `chunksize`; it is read once.

    Parameters
    ----------
    chunks : iterator
        The first chunk is fetched for its names and types.
    held : callable
        Makes the reader of one chunk.
    """

    where, reads_once = "the chunks", True

    def __init__(self, chunks: Any, held: Any) -> None:
        first = next(chunks, None)
        if first is None:
            raise InvalidDataError("There are no chunks of rows; give at least one.")
        self._held = held
        self._first: Reader = held(first)
        self._chunks: Any = chunks
        self.columns = self._first.columns
        self.in_order = self._first.in_order

    def types(self, columns: Sequence[Any]) -> Mapping[Any, Any] | None:
        """Return the types of the first chunk; a later one of other types is refused when it comes."""
        return self._first.types(columns)

    def read(self, columns: Sequence[Any], step: int) -> Iterator[Any]:
        """Yield the batches of every chunk."""
        if self._chunks is None:
            raise InvalidDataError(_READ_BEFORE)
        chunks, self._chunks = self._chunks, None
        for reader in chain([self._first], map(self._held, chunks)):
            if list(reader.columns) != list(self.columns):
                raise InvalidDataError("The chunks are not parts of one table: their columns differ.")
            check_same_types(reader, self.types(columns), columns)
            yield from reader.read(columns, step)


def check_same_types(reader: Reader, types: Mapping[Any, Any] | None, columns: Sequence[Any]) -> None:
    """Refuse a later part of a table whose columns have other types than those of the first part."""
    own = reader.types(columns)
    same = (own is None) == (types is None)
    if own is not None and types is not None:
        same = all(same_kind(own[name], types[name]) for name in columns)
    if not same:
        raise InvalidDataError(
            "A later part of the table has a column of another type than the first part; give all parts the same "
            "types, as by dtype= of pandas.read_csv."
        )


def stream_reader(data: Any, held: Any) -> Reader | None:
    """Return the reader of what comes in parts by itself, or None for anything else."""
    if hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__array__"):  # one column alone has both
        return ArrowStreamReader(data)
    return ChunksReader(data, held) if hasattr(data, "__next__") else None


def _stream_of(data: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.RecordBatchReader):
        return data
    try:
        return pa.RecordBatchReader.from_stream(data)
    except Exception:  # whatever the engine says may quote a cell
        raise InvalidDataError(
            "The query cannot be run: it fails, or its connection still has an unfinished result; finish that first, "
            "or run the query on connection.cursor()."
        ) from None


class TableSource:
    """The rows of a table in one part or several: the same columns in each, in any order.

    Parameters
    ----------
    parts : list of Reader
        At least one.
    declared : Declared, optional
        Which columns to read, and the rules of the `Encoder`; by default all columns, which hold numbers.
    public_order : bool
        Whether the rows come in an order that does not depend on their values, whatever they come from.
    types : mapping, optional
        The narwhals types that an earlier part of the same table has; by default those of the parts.

    Examples
    --------
    >>> source = TableSource([held([[1.0, 2.0]]), held([[3.0, 4.0]])], Declared(columns=[1]))
    >>> [block.tolist() for block in source.batches()]
    [[[2.0]], [[4.0]]]
    """

    by_unit = False  # whether batches are `Blocks`, of whole privacy units

    def __init__(
        self,
        parts: Sequence[Reader],
        declared: Declared | None = None,
        *,
        public_order: bool = False,
        types: Mapping[Any, Any] | None = None,
    ) -> None:
        declared = Declared() if declared is None else declared
        chosen, rules = declared.resolve(parts[0].columns, parts[0].where)
        first, all_columns = parts[0], declared.columns is None and declared.schema is None
        for part in parts[1:]:
            if declared.schema is not None:
                declared.resolve(part.columns, part.where)
            if all(isinstance(column, str) for column in chosen):
                choose_columns(part.columns, chosen, part.where)
            odd = set(part.columns) ^ set(first.columns) if all_columns else set(chosen) - set(part.columns)
            if odd:
                public = part.names_public and first.names_public
                first_odd = min(odd, key=str)
                told = column_in_words(first_odd, 0, public)
                which = f"the column {told}" if told == repr(first_odd) else "some column"
                raise InvalidDataError(
                    f"{part.where} and {first.where} are not parts of one table: only one of them has {which}."
                )
        self._parts = parts
        # The first line of a file of text may be somebody's row: its words are not quoted unless the caller knows them.
        self.names_public: bool = all(part.names_public for part in parts)
        self.columns_listed: bool = declared.listed is not None
        self._encoder = Encoder(chosen, rules, quote_names=self.names_public)
        kinds_of_parts = [part.types(chosen) if types is None else types for part in parts]
        for part, kinds in zip(parts, kinds_of_parts, strict=True):
            self._encoder.check(kinds, part.where)
        self.truths: tuple[bool, ...] = self._encoder.truths
        # Text has no types but those that are declared, and a matrix has one for all.
        self.typed: bool = any(
            kinds is not None and not isinstance(part, TextFile)
            for part, kinds in zip(parts, kinds_of_parts, strict=True)
        )
        names = self._encoder.names
        self.n_features: int = len(names)
        # pandas numbers the columns that nobody named: those numbers are positions, not names.
        self.feature_names: tuple[Any | str, ...] | None = (
            tuple(names) if all(isinstance(name, str) for name in names) else None
        )
        hints = [part.n_rows_hint for part in parts]
        self.n_rows_hint = None if None in hints else sum(hint or 0 for hint in hints)
        self.holds_rows: bool = all(part.holds_rows for part in parts)
        counted = all(part.holds_rows or part.counts_rows for part in parts)
        self.n_rows = self.n_rows_hint if counted else None
        self.reads_once = any(part.reads_once for part in parts)
        self.in_order = public_order or all(part.in_order for part in parts)
        self.schema = declared.schema
        self.one_hot: tuple[bool, ...] = self._encoder.one_hot
        self.n_categorical: int = self._encoder.n_categorical

    def batches(self) -> Iterator[Any]:
        """Yield blocks of rows, one part after the other."""
        return iterated_in_own_words(self._blocks())

    def _blocks(self) -> Iterator[Any]:
        step = batch_rows(self.n_features)
        for part in self._parts:
            if part.holds_rows and part.by_column and part.n_rows_hint:
                # Views of columns, as many rows at once as of an array.
                size = view_rows(part.n_rows_hint, self.n_features) if self._encoder.plain else step
                held_part: Any = part
                pick = held_part.picker(self._encoder)
                yield from (pick(slice(start, start + size)) for start in range(0, part.n_rows_hint, size))
                continue
            for batch in part.read(self._encoder.columns, step):
                yield self._encoder.rows(batch, part.where)


def held(data: Any) -> Reader:
    """Return the reader of an object: a sparse matrix, a frame, a stream, or anything that NumPy makes an array of."""
    if isinstance(data, ColumnsReader):
        return data
    if scipy.sparse.issparse(data):
        return SparseReader(data)
    frame = as_frame(data)
    if frame is None:
        return stream_reader(data, held) or ArrayReader(data)
    # A lazy frame that hands out streams, as a relation of DuckDB, is read as these.
    lazy = not hasattr(frame, "get_column") and not hasattr(data, "collect_batches")
    return (stream_reader(data, held) if lazy else None) or FrameReader(frame)
