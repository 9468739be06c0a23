"""Files by the end of their name: the table of formats, from which options and errors take what they list.

Readers quote the cell they stumbled over, and a cell is private: no text of theirs reaches the user. Their
exceptions are replaced by one sentence that names the file and, where it can be told, the column.
"""

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from ..errors import InvalidDataError
from .base import COMPRESSIONS, FileReader, Place, Reader, StandardInput, TextFormat, has_arrow, need_arrow
from .binary import ArrowFile, NpyFile, ParquetFile
from .delimited import CsvFile, PlainCsvFile, PlainTsvFile, TsvFile
from .json_lines import JsonLinesFile

_TEXT: dict[str, type[FileReader]] = {
    ".csv": CsvFile,
    ".tsv": TsvFile,
    ".jsonl": JsonLinesFile,
    ".ndjson": JsonLinesFile,
}
# A further format is one more line. Text is read compressed too.
FORMATS: dict[str, type[FileReader]] = {
    **_TEXT,
    ".parquet": ParquetFile,
    ".feather": ArrowFile,
    ".arrow": ArrowFile,
    ".npy": NpyFile,
    **{suffix + end: reader for suffix, reader in _TEXT.items() for end in COMPRESSIONS},
}
# Who reads numbers in files of text without PyArrow.
_PLAIN: dict[type[FileReader], type[FileReader]] = {CsvFile: PlainCsvFile, TsvFile: PlainTsvFile}


def suffix_of(name: str, suffixes: Iterable[str]) -> str | None:
    """Return which of the suffixes a name has, or None.

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


def open_files(
    data: Any,
    text: Collection[str] = (),
    named: Collection[Any] = (),
    text_format: TextFormat | None = None,
    privacy_unit: Any = None,
) -> list[Reader] | None:
    """Return the readers of a path or of a list of paths, or None for anything else."""
    places = data if isinstance(data, list | tuple) else [data]
    if not any(is_place(place) for place in places):
        return None
    if not all(is_place(place) for place in places):
        raise InvalidDataError("A list of files must hold paths only.")
    return [_open_file(_as_place(place), text, named, text_format, privacy_unit) for place in places]


def _as_place(given: Any) -> Place:
    return given if isinstance(given, StandardInput) else Path(given)


def _open_file(
    path: Place, text: Collection[str], named: Collection[Any], text_format: TextFormat | None, privacy_unit: Any
) -> FileReader:
    if isinstance(path, StandardInput):
        return _reader(path, path.suffixes, text, privacy_unit)(
            path, path.suffixes, text, named, text_format, privacy_unit
        )
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
        raise InvalidDataError(f"There is no file {path}.")
    if not path.is_file():  # a pipe may never end, and is gone after a first reading
        raise InvalidDataError(f"{path} is no regular file; copy it to one, or on the command line give - for a pipe.")
    return _reader(path, suffix, text, privacy_unit)(path, suffix, text, named, text_format, privacy_unit)


def _reader(path: Place, suffix: str, text: Collection[str], privacy_unit: Any) -> type[FileReader]:
    """Return who reads a file; without PyArrow only numbers are read, from .npy and files of text."""
    reader = FORMATS[suffix]
    if not reader.needs_arrow or has_arrow():
        return reader
    if reader not in _PLAIN or suffix.endswith(".zst"):
        need_arrow(str(path))
    if text or privacy_unit is not None:
        need_arrow(f"Categories, truth values, dates and persons in {path}")
    return _PLAIN[reader]
