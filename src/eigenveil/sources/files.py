"""Rows in files: CSV (also .gz and .xz), Parquet and .npy, read in batches and never whole.

Readers quote the cell they stumbled over, and a cell is private: no text of theirs reaches the user. Their
exceptions are replaced by one sentence that names the file and, where it can be told, the column.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError
from .arrays import check_numeric, to_matrix
from .base import Columns, Source, TableFile, batch_rows, one_sentence
from .text import CsvFile

# Parquet reads every column chunk through a buffer of its own; without buffers it loads the chunks whole.
_PARQUET_BUFFERS = 2**23


class NpyFile(TableFile):
    """A 2-D array saved by `numpy.save`, in C or Fortran order; never one that needs pickle."""

    n_rows_hint: int

    def _read_schema(self) -> Sequence[int]:
        rows = self._map()
        if rows.ndim != 2 or rows.dtype.kind not in "fiub":
            raise InvalidDataError(f"{self.path} does not hold a 2-D array of real numbers.")
        self.n_rows_hint = int(rows.shape[0])
        return range(rows.shape[1])

    def _map(self) -> NDArray[Any]:
        return np.lib.format.open_memmap(self.path, mode="r")

    def batches(self) -> Iterator[NDArray[Any]]:
        """Yield blocks of rows: read-only views of the file, or copies where columns were chosen."""
        step = batch_rows(self.n_features)
        all_in_order = self._chosen == list(self.all_columns)
        for start in range(0, self.n_rows_hint, step):
            # Mapped anew for every batch, so that the pages already read do not stay with the process.
            with one_sentence(self.path):
                block = self._map()[start : start + step]
            yield block if all_in_order else block[:, self._chosen]


class ParquetFile(TableFile):
    """A Parquet file, whose row groups may be larger than memory."""

    def __init__(self, path: Path, columns: Columns = None) -> None:
        super().__init__(path, columns)
        self.feature_names = tuple(self._chosen)
        check_numeric(self._schema.empty_table().select(self._chosen), self._chosen, str(path))

    def _read_schema(self) -> Sequence[str]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            self._schema = file.schema_arrow
            self.n_rows_hint = file.metadata.num_rows
        return list(self._schema.names)

    def batches(self) -> Iterator[NDArray[np.float64]]:
        """Yield blocks of rows as float64."""
        with one_sentence(self.path):
            for table in self.read_tables(self._chosen, batch_rows(self.n_features)):
                if table.num_rows:
                    yield to_matrix(table, self._chosen, str(self.path))

    def read_tables(self, columns: list[str], step: int) -> Iterator[Any]:
        """Yield PyArrow tables of these columns, of `step` rows."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        n_read = 0
        buffer = max(2**12, min(2**20, _PARQUET_BUFFERS // len(columns)))
        options = {"pre_buffer": False, "buffer_size": buffer, "page_checksum_verification": True}
        with one_sentence(self.path), pq.ParquetFile(self.path, **options) as file:
            for batch in file.iter_batches(step, columns=columns):
                n_read += batch.num_rows
                yield pa.Table.from_batches([batch])
        if n_read != self.n_rows_hint:
            raise InvalidDataError(f"{self.path} is damaged: its rows are not as many as it says.")


class Parts:
    """Files that are parts of one table: the same columns in each, in any order."""

    def __init__(self, paths: Sequence[Path], columns: Columns = None) -> None:
        first = _open_file(paths[0], columns)
        names = first.feature_names
        self._parts = [first]
        for path in paths[1:]:
            part = _open_file(path, columns if columns is not None or names is None else names)
            if columns is None and (odd := set(part.all_columns) ^ set(first.all_columns)):
                column = min(odd, key=str)
                raise InvalidDataError(
                    f"{path} and {first.path} are not parts of one table: only one of them has the column {column!r}."
                )
            if part.feature_names != names:
                raise InvalidDataError(
                    f"{path} and {first.path} are not parts of one table: only one of them names its columns."
                )
            self._parts.append(part)
        self.n_features = first.n_features
        self.feature_names = names
        hints = [part.n_rows_hint for part in self._parts]
        self.n_rows_hint = None if None in hints else sum(hint or 0 for hint in hints)

    def batches(self) -> Iterator[NDArray[Any]]:
        """Yield the blocks of one file after the other."""
        for part in self._parts:
            yield from part.batches()


_READERS: dict[str, Callable[[Path, Columns], TableFile]] = {
    ".csv": CsvFile,
    ".csv.gz": CsvFile,
    ".csv.xz": CsvFile,
    ".parquet": ParquetFile,
    ".npy": NpyFile,
}


def open_files(data: Any, columns: Columns) -> Source | None:
    """Return the source of a path or of a list of paths, or None for anything else."""
    if isinstance(data, str | os.PathLike):
        return _open_file(Path(data), columns)
    if isinstance(data, list | tuple) and any(isinstance(part, str | os.PathLike) for part in data):
        if not all(isinstance(part, str | os.PathLike) for part in data):
            raise InvalidDataError("A list of files must hold paths only.")
        return Parts([Path(part) for part in data], columns)
    return None


def _open_file(path: Path, columns: Columns) -> TableFile:
    reader = next((_READERS[suffix] for suffix in _READERS if path.name.lower().endswith(suffix)), None)
    if reader is None:
        raise InvalidDataError(f"{path} is of no known kind; its name must end in {', '.join(_READERS)}.")
    if path.is_dir():
        raise InvalidDataError(f"{path} is a directory; give the list of the files in it.")
    if not path.exists():
        raise InvalidDataError(f"There is no file {path}.")
    return reader(path, columns)
