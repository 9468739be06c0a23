"""Files by the end of their name: the table of formats, from which options and errors take what they list.

Readers quote the cell they stumbled over, and a cell is private: no text of theirs reaches the user. Their
exceptions are replaced by one sentence that names the file and, where it can be told, the column.
"""

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from ..errors import InvalidDataError
from .base import FileReader, Reader
from .binary import NpyFile, ParquetFile
from .text import CsvFile

# A further format is one more line.
FORMATS: dict[str, type[FileReader]] = {
    ".csv": CsvFile,
    ".csv.gz": CsvFile,
    ".csv.xz": CsvFile,
    ".parquet": ParquetFile,
    ".npy": NpyFile,
}


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


def open_files(data: Any, text: Collection[str] = (), named: Collection[Any] = ()) -> list[Reader] | None:
    """Return the readers of a path or of a list of paths, or None for anything else."""
    if isinstance(data, str | os.PathLike):
        return [_open_file(Path(data), text, named)]
    if isinstance(data, list | tuple) and any(isinstance(part, str | os.PathLike) for part in data):
        if not all(isinstance(part, str | os.PathLike) for part in data):
            raise InvalidDataError("A list of files must hold paths only.")
        return [_open_file(Path(part), text, named) for part in data]
    return None


def _open_file(path: Path, text: Collection[str], named: Collection[Any]) -> FileReader:
    suffix = suffix_of(path.name, FORMATS)
    if suffix is None:
        # A list of text may be meant as rows: what is no file at all is not quoted.
        told = str(path) if os.path.exists(path) else "What was given as a path"
        raise InvalidDataError(f"{told} is of no known kind; its name must end in {', '.join(FORMATS)}.")
    if path.is_dir():
        raise InvalidDataError(f"{path} is a directory; give the list of the files in it.")
    if not path.exists():
        raise InvalidDataError(f"There is no file {path}.")
    return FORMATS[suffix](path, text, named)
