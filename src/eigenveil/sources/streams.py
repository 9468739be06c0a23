"""Tables that come in parts by themselves: Arrow streams, data sets, and iterators of chunks.

None of the libraries that make them is imported here: what they offer is enough to know them by.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ..errors import InvalidDataError
from .arrow import need_arrow
from .base import Reader

_READ_BEFORE = (
    "These rows come once only, and were read before; make the stream anew, or give a table or a file in its place."
)


class ArrowStreamReader:
    """Whatever hands out Arrow streams: DuckDB relations, record-batch readers and others.

    Parameters
    ----------
    data : object
        With the method ``__arrow_c_stream__`` of Arrow's interface. One that also gives its batches one by one, as a
        record-batch reader does, can be read once; others hand out a new stream each time. What is no table or reader
        of Arrow's own is taken for a query, such as a relation of DuckDB, whose rows come in no public order.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"age": [30, 40], "mass": [60.5, 70.5]})
    >>> reader = ArrowStreamReader(table.to_reader())
    >>> reader.columns, reader.reads_once, reader.in_order
    (['age', 'mass'], True, True)
    """

    where, n_rows_hint = "the stream", None

    def __init__(self, data: Any) -> None:
        need_arrow("Arrow streams")
        import pyarrow as pa

        self._data = data
        # A query may sort by what is private, or give its rows as its threads come to them.
        self.in_order = isinstance(data, pa.RecordBatchReader | pa.Table | pa.RecordBatch)
        self.reads_once = hasattr(data, "read_next_batch") or hasattr(data, "__next__")
        # What can be read once is opened once: to ask a reader for its schema may use it up. Of a query nothing is kept
        # open, since that would block its connection for everything else.
        stream = _stream_of(data)
        self._schema = stream.schema
        self._stream: Any = stream if self.reads_once else None
        self.columns: Sequence[Any] = list(self._schema.names)

    def types(self, columns: Sequence[Any]) -> Mapping[Any, Any]:
        """Return the narwhals types of the columns."""
        import narwhals as nw

        types: Mapping[Any, Any] = nw.from_native(self._schema.empty_table().select(columns)).collect_schema()
        return types

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


class DataSetReader:
    """A data set of Hugging Face, by its Arrow format: rows that were selected or shuffled stay so."""

    where, reads_once = "the data set", False

    def __init__(self, data: Any) -> None:
        if data.features is None:
            raise InvalidDataError("The features of the data set are not known; give them when it is loaded.")
        self._data, self._schema = data, data.features.arrow_schema
        self.columns: Sequence[Any] = list(self._schema.names)
        self.n_rows_hint: int | None = len(data) if hasattr(data, "__len__") else None

    types = ArrowStreamReader.types

    def read(self, columns: Sequence[Any], step: int) -> Iterator[Any]:
        """Yield PyArrow tables."""
        for table in self._data.with_format("arrow").iter(batch_size=step):
            if table.num_rows:
                yield table.select(columns)


class ChunksReader:
    """An iterator of frames or arrays, the parts of one table, as pandas gives them with `chunksize`; it is read once.

    Parameters
    ----------
    chunks : iterator
        The first chunk is fetched for its names and types.
    held : callable
        Makes the reader of one chunk.
    """

    n_rows_hint, reads_once = None, True

    def __init__(self, chunks: Any, held: Any) -> None:
        first = next(chunks, None)
        if first is None:
            raise InvalidDataError("There are no chunks of rows; give at least one.")
        self._held, self._first = held, held(first)
        self._chunks: Any = chunks
        self.where = "the chunks"
        self.columns: Sequence[Any] = self._first.columns
        self.in_order = getattr(self._first, "in_order", True)

    def types(self, columns: Sequence[Any]) -> Mapping[Any, Any] | None:
        """Return the types of the first chunk; a chunk that cannot be encoded by them is refused when it comes."""
        types: Mapping[Any, Any] | None = self._first.types(columns)
        return types

    def read(self, columns: Sequence[Any], step: int) -> Iterator[Any]:
        """Yield the batches of every chunk."""
        if self._chunks is None:
            raise InvalidDataError(_READ_BEFORE)
        chunks, self._chunks = self._chunks, None
        for reader in chain([self._first], map(self._held, chunks)):
            if list(reader.columns) != list(self.columns):
                raise InvalidDataError("The chunks are not parts of one table: their columns differ.")
            yield from reader.read(columns, step)


def stream_reader(data: Any, held: Any) -> Reader | None:
    """Return the reader of what comes in parts by itself, or None for anything else."""
    if hasattr(data, "features") and hasattr(data, "with_format") and hasattr(data, "iter"):
        return DataSetReader(data)
    if hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__array__"):  # one column alone has both
        return ArrowStreamReader(data)
    return ChunksReader(data, held) if hasattr(data, "__next__") else None


def _stream_of(data: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.RecordBatchReader):
        return data
    return pa.RecordBatchReader.from_stream(data)
