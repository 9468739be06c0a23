"""Rows in Parquet, Feather (Arrow) and .npy files, read in batches and never whole."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError
from .arrays import take_columns
from .base import FileReader, StandardInput, one_sentence

# Parquet reads every column chunk through a buffer of its own; without buffers it loads the chunks whole.
_PARQUET_BUFFERS = 2**21


class NpyFile(FileReader):
    """A 2-D array saved by `numpy.save`, in C or Fortran order; never one that needs pickle.

    It is read, not mapped: a file that somebody cuts while it is mapped ends the process.
    """

    numbered = counts_rows = True
    n_rows_hint: int

    def _read_schema(self) -> Sequence[int]:
        if isinstance(self.path, StandardInput):
            raise InvalidDataError("A .npy file cannot come from standard input; give its path.")
        with self.path.open("rb") as raw:
            shape, self._by_column, self._dtype = _npy_header(raw)
            self._begin = raw.tell()
        if len(shape) != 2 or self._dtype.kind not in "fiub":
            raise InvalidDataError(f"{self.path} does not hold a 2-D array of real numbers.")
        self.n_rows_hint, width = shape
        return range(width)

    def read(self, columns: Sequence[int], step: int) -> Iterator[NDArray[Any]]:
        """Yield blocks of rows."""
        with one_sentence(self.where), self.path.open("rb") as raw:
            for start in range(0, self.n_rows_hint, step):
                stop = min(start + step, self.n_rows_hint)
                if self._by_column:
                    block = np.empty((stop - start, len(columns)), self._dtype, order="F")
                    for place, column in enumerate(columns):
                        self._fill(raw, block[:, place], column * self.n_rows_hint + start)
                    yield block
                else:
                    rows = np.empty((stop - start, len(self.columns)), self._dtype)
                    self._fill(raw, rows, start * len(self.columns))
                    yield take_columns(rows, columns)

    def _fill(self, raw: Any, numbers: NDArray[Any], first: int) -> None:
        """Read contiguous numbers, beginning with the `first` of the file."""
        raw.seek(self._begin + first * self._dtype.itemsize)
        free = numbers.reshape(-1).view(np.uint8).data
        while free:
            read = raw.readinto(free)
            if not read:
                raise EOFError
            free = free[read:]


def _npy_header(raw: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape of a saved array, whether it lies column after column, and its type."""
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    return read[np.lib.format.read_magic(raw)](raw)


class ParquetFile(FileReader):
    """A Parquet file, whose row groups may be larger than memory."""

    needs_arrow = counts_rows = True

    def _read_schema(self) -> Sequence[str]:
        import pyarrow.parquet as pq

        with self.path.open("rb") as raw, pq.ParquetFile(raw) as file:
            self._schema = file.schema_arrow
            self.n_rows_hint: int | None = file.metadata.num_rows
        return list(self._schema.names)

    def read(self, columns: Sequence[str], step: int) -> Iterator[Any]:
        """Yield PyArrow tables."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        n_read = 0
        buffer = max(2**12, min(2**20, _PARQUET_BUFFERS // len(columns)))
        options = {"pre_buffer": False, "buffer_size": buffer, "page_checksum_verification": True}
        with one_sentence(self.where), self.path.open("rb") as raw, pq.ParquetFile(raw, **options) as file:
            for batch in file.iter_batches(step, columns=columns):
                n_read += batch.num_rows
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])
        if n_read != self.n_rows_hint:
            raise InvalidDataError(f"{self.path} is damaged: its rows are not as many as it says.")


class ArrowFile(FileReader):
    """A Feather or Arrow file: the file format of Arrow, or its stream."""

    needs_arrow = True

    def _read_schema(self) -> Sequence[str]:
        with self.path.open("rb") as raw:
            self._schema = self._opened(raw).schema
        return list(self._schema.names)

    def _opened(self, raw: Any) -> Any:
        import pyarrow as pa

        begin = raw.read(6)
        raw.seek(0)
        return pa.ipc.open_file(raw) if begin == b"ARROW1" else pa.ipc.open_stream(raw)

    def read(self, columns: Sequence[str], step: int) -> Iterator[Any]:
        """Yield PyArrow tables."""
        import pyarrow as pa

        with one_sentence(self.where), self.path.open("rb") as raw:
            file = self._opened(raw)
            batches = (
                file if not hasattr(file, "num_record_batches") else map(file.get_batch, range(file.num_record_batches))
            )
            for batch in batches:
                table = pa.Table.from_batches([batch]).select(columns)
                for start in range(0, table.num_rows, step):
                    yield table.slice(start, step)
