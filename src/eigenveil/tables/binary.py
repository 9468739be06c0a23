"""Rows in Parquet, Feather (Arrow) and .npy files, read in batches and never whole."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError
from .arrays import take_columns
from .base import FileReader, StandardInput, one_sentence

# Parquet reads every column chunk through a buffer of its own; without buffers it loads the chunks whole.
_PARQUET_BUFFERS = 2**23


class NpyFile(FileReader):
    """A 2-D array saved by `numpy.save`, in C or Fortran order; never one that needs pickle."""

    numbered = True
    n_rows_hint: int

    def _read_schema(self) -> Sequence[int]:
        rows = self._map()
        if rows.ndim != 2 or rows.dtype.kind not in "fiub":
            raise InvalidDataError(f"{self.path} does not hold a 2-D array of real numbers.")
        self.n_rows_hint = int(rows.shape[0])
        return range(rows.shape[1])

    def _map(self) -> NDArray[Any]:
        if isinstance(self.path, StandardInput):
            raise InvalidDataError("A .npy file cannot come from standard input; give its path.")
        return np.lib.format.open_memmap(self.path, mode="r")

    def read(self, columns: Sequence[int], step: int) -> Iterator[NDArray[Any]]:
        """Yield blocks of rows: read-only views of the file, or copies where columns were chosen."""
        for start in range(0, self.n_rows_hint, step):
            # Mapped anew for every batch, so that the pages already read do not stay with the process.
            with one_sentence(self.where):
                block = self._map()[start : start + step]
            yield take_columns(block, columns)


class ParquetFile(FileReader):
    """A Parquet file, whose row groups may be larger than memory."""

    needs_arrow = True

    def _read_schema(self) -> Sequence[str]:
        import pyarrow.parquet as pq

        with self.path.open("rb") as raw, pq.ParquetFile(raw) as file:
            self._schema = file.schema_arrow
            self.n_rows_hint = file.metadata.num_rows
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
