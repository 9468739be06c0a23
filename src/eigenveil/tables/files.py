"""Files by the end of their name: the table of formats, the readers of binary ones, and standard input.

Parquet, Feather (Arrow) and .npy files are read in batches and never whole; text is in `eigenveil.tables.text`. Readers
quote the cell they stumbled over, and a cell is private: no text of theirs reaches the user. Their exceptions are
replaced by one sentence that names the file and, where it is known, the column.
"""

import io
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError
from .arrays import take_columns
from .base import FileReader, Reader, has_arrow, need_arrow, one_sentence
from .encoder import Declared
from .text import COMPRESSIONS, DEFAULT_FORMAT, CsvFile, JsonLinesFile, TextFile, TextFormat, TsvFile, pieces

# Parquet reads every column chunk through a buffer of its own; without buffers it loads the chunks whole.
_PARQUET_BUFFERS = 2**21
_IN_MEMORY = 2**26
# First bytes of compressed and of binary files.
_BEGINS = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
}


class StandardInput:
    """Bytes that a command reads from a pipe, kept so that they can be read twice; long ones in a file without a name.

    It behaves as the path of a file as far as the readers need one.
    """

    def __init__(self, stream: BinaryIO) -> None:
        begin = b""
        while len(begin) <= _IN_MEMORY and (piece := stream.read(_IN_MEMORY)):
            begin += piece
        self.on_disk: bool = len(begin) > _IN_MEMORY
        self._kept: Any = begin
        if self.on_disk:
            self._kept = tempfile.TemporaryFile()  # noqa: SIM115
            weakref.finalize(self, self._kept.close)  # when nobody reads it any more, and when the process ends
            self._kept.write(begin)
            shutil.copyfileobj(stream, self._kept)
            self._kept.flush()
        self.suffixes: str = next((end for known, end in _BEGINS.items() if begin.startswith(known)), "")
        if not self.suffixes or self.suffixes in COMPRESSIONS:
            head = next(pieces(self, self.suffixes, size=64))
            self.suffixes = (".jsonl" if head.lstrip().startswith(b"{") else ".csv") + self.suffixes

    def open(self, mode: str = "rb") -> BinaryIO:
        """Return a reader from the beginning; only one can be in use."""
        if not self.on_disk:
            return io.BytesIO(self._kept)
        stream = os.fdopen(os.dup(self._kept.fileno()), mode)
        stream.seek(0)
        return cast(BinaryIO, stream)

    def stat(self) -> Any:
        """Return the size, as of a file."""
        return os.fstat(self._kept.fileno()) if self.on_disk else SimpleNamespace(st_size=len(self._kept))

    def __str__(self) -> str:
        return "standard input"


Place = Path | StandardInput


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
            version = np.lib.format.read_magic(raw)
            read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, self._by_column, self._dtype = read_header[version](raw)
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


class ParquetFile(FileReader):
    """A Parquet file, whose row groups may be larger than memory."""

    counts_rows = True

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


_TEXT: dict[str, type[FileReader]] = {
    ".csv": CsvFile,
    ".tsv": TsvFile,
    ".jsonl": JsonLinesFile,
    ".ndjson": JsonLinesFile,
}
# A further format is one more line. Text is also read compressed.
FORMATS: dict[str, type[FileReader]] = {
    **_TEXT,
    ".parquet": ParquetFile,
    ".feather": ArrowFile,
    ".arrow": ArrowFile,
    ".npy": NpyFile,
    **{suffix + end: reader for suffix, reader in _TEXT.items() for end in COMPRESSIONS},
}


def suffix_of(name: str, suffixes: Iterable[str]) -> str | None:
    """Return the suffix that a name has, or None.

    Examples
    --------
    >>> suffix_of("Part-1.CSV.gz", FORMATS)
    '.csv.gz'
    """
    return next((suffix for suffix in suffixes if name.lower().endswith(suffix)), None)


def has_numbered_columns(path: str) -> bool:
    """Tell whether the columns of a file have positions and no names, by its suffix."""
    suffix = suffix_of(path, FORMATS)
    return suffix is not None and FORMATS[suffix].numbered


def is_place(data: Any) -> bool:
    """Tell whether data are the place of a file: a path, or standard input."""
    return isinstance(data, str | os.PathLike | StandardInput)


def open_files(data: Any, declared: Declared, text_format: TextFormat = DEFAULT_FORMAT) -> list[Reader] | None:
    """Return the readers of a path or of a list of paths, or None for anything else."""
    places = places_of(data)
    if places is None:
        return None
    readers = [open_file(*located(place), declared, text_format) for place in places]
    for reader in readers:
        if isinstance(reader, TextFile):
            reader.kept_bytes //= len(readers)
    return list[Reader](readers)


def places_of(data: Any) -> list[Any] | None:
    """Return a path or a list of paths as a list, or None for anything else."""
    places = list(data) if isinstance(data, list | tuple) else [data]
    if not any(is_place(place) for place in places):
        return None
    if not all(is_place(place) for place in places):
        raise InvalidDataError("A list of files must hold paths only.")
    return places


def located(given: Any) -> tuple[Place, str]:
    """Return a file that is there, and the end of its name, which gives its format."""
    if isinstance(given, StandardInput):
        return given, given.suffixes
    path = Path(given)
    suffix = suffix_of(path.name, FORMATS)
    if suffix is None:
        # A list of text may be meant as rows: what is no file at all is not quoted.
        told = str(path) if os.path.exists(path) else "What was given as a path"
        plain = [end for end in FORMATS if not end.endswith(tuple(COMPRESSIONS))]
        raise InvalidDataError(
            f"{told} is of no known kind; its name must end in {', '.join(plain)}, text also with "
            f"{', '.join(COMPRESSIONS)} after it."
        )
    if path.is_dir():
        raise InvalidDataError(f"{path} is a directory; give the list of the files in it.")
    if not path.exists():
        raise InvalidDataError(f"There is no file {path}; check the path.")
    if not path.is_file():  # a pipe may never end, and is gone after a first reading
        raise InvalidDataError(f"{path} is no regular file; copy it to one, or on the command line give - for a pipe.")
    return path, suffix


def open_file(path: Place, suffix: str, declared: Declared, text_format: TextFormat) -> FileReader:
    """Return the reader of a file; without PyArrow only numbers are read, from .npy and files of text."""
    reader = FORMATS[suffix]
    if reader is not NpyFile and not has_arrow():
        if not issubclass(reader, CsvFile) or suffix.endswith(".zst"):
            need_arrow(str(path))
        if declared.text or declared.unit_column is not None:
            need_arrow(f"Categories, truth values, dates and privacy units in {path}")
    if issubclass(reader, TextFile):
        return reader(path, suffix, declared, text_format)
    if text_format != DEFAULT_FORMAT:
        raise InvalidDataError(f"{path} is no file of text; leave out delimiter, decimal and encoding.")
    return reader(path, suffix, declared)
