"""Files by the end of their name: the table of formats, from which options and errors take what they list.

Readers quote the cell they stumbled over, and a cell is private: no text of theirs reaches the user. Their
exceptions are replaced by one sentence that names the file and, where it is known, the column.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import InvalidDataError
from .base import COMPRESSIONS, FileReader, Place, Reader, StandardInput, TextFormat, has_arrow, need_arrow
from .binary import ArrowFile, NpyFile, ParquetFile
from .delimited import CsvFile, PlainCsvFile, PlainTsvFile, TextFile, TsvFile
from .encoder import Declared
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


def open_files(data: Any, declared: Declared, text_format: TextFormat | None = None) -> list[Reader] | None:
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


def open_file(path: Place, suffix: str, declared: Declared, text_format: TextFormat | None) -> FileReader:
    """Return the reader of a file; without PyArrow only numbers are read, from .npy and files of text."""
    reader = FORMATS[suffix]
    if reader.needs_arrow and not has_arrow():
        if reader not in _PLAIN or suffix.endswith(".zst"):
            need_arrow(str(path))
        if declared.text or declared.unit_column is not None:
            need_arrow(f"Categories, truth values, dates and privacy units in {path}")
        reader = _PLAIN[reader]
    return reader(path, suffix, declared, text_format)
