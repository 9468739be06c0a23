"""Rows in files of text: CSV, TSV and JSON lines, plain or compressed.

A file of text has no types but those that are declared: every other column holds numbers, whatever its cells say.

In CSV only a quote that begins a field opens quoting. Python's own `csv` module finds where rows end in blocks of text
that have a quote, and PyArrow parses the blocks: docs/explanation/decisions/0009-delimited-text.md.

Keys of JSON lines are part of somebody's row. So the caller names the columns, and every value is read by itself. A key
that a line does not have is a missing value; a key that nobody declared is not looked at. Python's `json` reads line by
line. PyArrow would take two objects in a line for two rows, and it refuses a column that holds text in one line and a
number in another.
"""

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import math
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError, InvalidParameterError, column_in_words, one_of
from .base import FileReader, has_arrow, one_sentence
from .encoder import Declared

if TYPE_CHECKING:
    from .files import Place

_BLOCK = 2**22
# A row of text longer than this is taken for a quote that was never closed.
_LONGEST_ROW = 2**25
_UNEQUAL_ROWS = "has rows of different lengths; each must have one field for every name in the header"
# Digits of an integer beyond all floats.
_MOST_DIGITS = 400
# Beyond this a float64 stands for several whole numbers.
_WHOLE_FLOATS = 2**53
# The rows of a table that were parsed from text are kept for further readings, if they need no more memory.
_KEPT_BYTES = 2**27


def _zstd(raw: BinaryIO) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(raw, "zstd")


# A further compression is one more line.
COMPRESSIONS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".xz": partial(lzma.LZMAFile, format=lzma.FORMAT_XZ),
    ".bz2": bz2.BZ2File,
    ".zst": _zstd,
}


@dataclass(frozen=True)
class TextFormat:
    """The format of a file of text.

    Parameters
    ----------
    delimiter : str, optional
        One character between the fields: a comma in .csv and a tab in .tsv files by default.
    decimal : str
        The decimal sign of its numbers.
    encoding : str
        As Python names it.

    Examples
    --------
    >>> TextFormat(delimiter=";", decimal=",", encoding="latin-1") == TextFormat()
    False
    """

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        for name, sign in (("delimiter", self.delimiter), ("decimal", self.decimal)):
            if sign is not None and (not isinstance(sign, str) or len(sign) != 1 or sign in '"\r\n' or ord(sign) > 127):
                raise InvalidParameterError(f"{name} must be one plain character, such as a comma.")
        if self.delimiter == self.decimal or (self.delimiter is None and self.decimal == ","):
            raise InvalidParameterError("delimiter and decimal must differ; with a decimal comma, give delimiter=';'.")
        try:
            "a".encode(self.encoding)
        except (LookupError, TypeError):
            raise InvalidParameterError(
                "encoding must be one that Python knows, such as utf-8, latin-1 or utf-16."
            ) from None


DEFAULT_FORMAT = TextFormat()


def text_format(given: Mapping[str, Any]) -> TextFormat:
    """Return the format that keyword arguments describe; None says nothing."""
    for name in given:
        one_of("The options of files of text", name, ("delimiter", "decimal", "encoding"))
    return TextFormat(**{name: value for name, value in given.items() if value is not None})


def pieces(place: "Place", suffix: str, encoding: str = "utf-8", size: int | None = None) -> Iterator[bytes]:
    """Yield the text of a file piece by piece, at least one: decompressed, in UTF-8, without its byte order mark."""
    size = _BLOCK if size is None else size
    decompress = next((made for end, made in COMPRESSIONS.items() if suffix.endswith(end)), None)
    if decompress is not None and place.stat().st_size == 0:
        raise EOFError  # gzip would take it for a file of no text
    with ExitStack() as stack:
        stream: Any = stack.enter_context(place.open("rb"))
        if decompress is not None:
            stream = stack.enter_context(decompress(stream))
        if codecs.lookup(encoding).name != "utf-8":
            stream = stack.enter_context(io.TextIOWrapper(stream, encoding, newline=""))
        head = b""
        while len(head) < len(codecs.BOM_UTF8) and (piece := stream.read(size)):
            head += piece.encode() if isinstance(piece, str) else piece
        yield head.removeprefix(codecs.BOM_UTF8)
        while piece := stream.read(size):
            yield piece.encode() if isinstance(piece, str) else piece


class TextFile(FileReader):
    """Base of the readers of text, which takes longer to parse than rows take to be used.

    Parameters
    ----------
    path, suffix, declared
        As in `FileReader`.
    text_format : TextFormat
        How the text is written.
    """

    kept_bytes = _KEPT_BYTES  # less where the file is one of several of a table
    _kept: tuple[Any, list[Any]] | None = None

    def __init__(self, path: "Place", suffix: str, declared: Declared, text_format: TextFormat) -> None:
        self.text_format = text_format
        super().__init__(path, suffix, declared)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the rows: a pickle says where a file is, not what is in it."""
        return {**self.__dict__, "_kept": None}

    def read(self, columns: Sequence[str], step: int) -> Iterator[Any]:
        """Yield PyArrow tables or matrices: a block of text each, or slices of it."""
        with one_sentence(self.where):
            for block in self._blocks_of(columns):
                # One-hot rows are wide where text was narrow: a block may hold too many rows for one batch.
                for start in range(0, len(block), step):
                    yield block[start : start + step] if isinstance(block, np.ndarray) else block.slice(start, step)

    def _blocks_of(self, columns: Sequence[str]) -> Iterator[Any]:
        status = self.path.stat()
        version = (*columns, status.st_size, getattr(status, "st_mtime_ns", 0))
        if self._kept is not None and self._kept[0] == version:
            yield from self._kept[1]
            return
        self._kept = None
        kept: list[Any] = []
        room = self.kept_bytes if 8 * len(columns) * (self.n_rows_hint or 0) <= self.kept_bytes else 0
        for block in self._parsed(columns):
            room -= block.nbytes
            if room < 0:
                kept.clear()
            else:
                kept.append(block)
            yield block
        if room >= 0:
            self._kept = version, kept

    @abstractmethod
    def _parsed(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield some columns of all rows, block by block, as PyArrow tables or matrices."""

    def _pieces(self) -> Iterator[bytes]:
        return pieces(self.path, self.suffix, self.text_format.encoding)

    def _declared_schema(self, names: Sequence[str]) -> Any:
        """Return the PyArrow schema: text where something else than a number is declared."""
        import pyarrow as pa

        as_text = {*self.declared.text, self.declared.unit_column}
        return pa.schema([(name, pa.string() if name in as_text else pa.float64()) for name in names])

    def _no_number_in(self, name: str) -> str:
        """Say that a column of numbers holds something else, and never what."""
        which = column_in_words(name, list(self.columns).index(name), self.names_public)
        return (
            f"{self.path} has something else than numbers in the column {which}; declare it boolean, category or date "
            "in a schema, which tables.draft_schema(data) drafts, or choose other columns with columns= of open_table."
        )


class CsvFile(TextFile):
    """A CSV file with a header.

    A blank line is no row, except in a file of one column: there it is a row whose value is missing. Skipped, it would
    be distinguished from a number by the number of rows, which is public.
    """

    delimiter: ClassVar[str] = ","
    names_public = False
    _one_column = False

    def __init__(self, path: "Place", suffix: str, declared: Declared, text_format: TextFormat) -> None:
        self.sign: str = text_format.delimiter or self.delimiter
        super().__init__(path, suffix, declared, text_format)

    def _read_schema(self) -> Sequence[str]:
        block, _ = next(whole_rows(self._pieces(), self.sign, self._one_column, self.where), (b"", None))
        if not block:
            raise InvalidDataError(f"{self.path} is empty; its first line must name the columns.")
        header = block[: next(_records(block, self.sign))[1]].decode()
        names = next(csv.reader(io.StringIO(header, newline=""), delimiter=self.sign, strict=True))
        check_header(names, self.where, self.declared.named)
        self.names_public = has_named(names, self.declared.named)
        self._one_column = len(names) == 1
        if self.suffix.count(".") == 1:  # not compressed
            self.n_rows_hint = round(block.count(b"\n") * self.path.stat().st_size / len(block))
        self._schema = self._declared_schema(names) if has_arrow() else None
        return names

    def _parsed(self, columns: Sequence[str]) -> Iterator[Any]:
        below_header = False
        for block, counted in whole_rows(self._pieces(), self.sign, self._one_column, self.where):
            rows, n_rows = block, counted
            if not below_header:
                rows, n_rows = block[next(_records(block, self.sign))[1] :], None if counted is None else counted - 1
                below_header = True
            if not (rows if self._one_column else rows.strip(b"\r\n")):
                continue
            table = self._parse(rows, columns) if has_arrow() else self._numbers(rows, columns)
            if n_rows not in (None, len(table)):
                raise InvalidDataError(
                    f"{self.path} has quotes that can be read in two ways; write it anew with another program."
                )
            yield table

    def _parse(self, block: bytes, columns: Sequence[str]) -> Any:
        import pyarrow as pa

        for use_threads in (True, False):  # threads fail in any order, so the error would depend on their timing
            try:
                return self._converted(block, columns, use_threads)
            except pa.ArrowInvalid as error:
                # Its message quotes a cell or a row, and is left behind.
                column = re.match(r"In CSV column #(\d+):", str(error))
        if column is None:
            raise InvalidDataError(f"{self.path} {_UNEQUAL_ROWS}.")
        name = self.columns[int(column[1])]
        if self._schema.field(name).type == pa.string():
            raise InvalidDataError(f"{self.path} has text that is not in the encoding {self.text_format.encoding}.")
        raise InvalidDataError(self._no_number_in(name))

    def _converted(self, block: bytes, columns: Sequence[str], use_threads: bool) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        return csv.read_csv(
            pa.BufferReader(block),
            read_options=csv.ReadOptions(block_size=len(block) + 1, column_names=self.columns, use_threads=use_threads),
            parse_options=csv.ParseOptions(
                delimiter=self.sign, newlines_in_values=True, ignore_empty_lines=not self._one_column
            ),
            convert_options=csv.ConvertOptions(
                decimal_point=self.text_format.decimal,
                include_columns=list(columns),
                column_types={name: self._schema.field(name).type for name in columns},
            ),
        )

    def _numbers(self, block: bytes, columns: Sequence[str]) -> NDArray[np.float64]:
        """Return rows of numbers without quotes, which can be read without PyArrow."""
        if b'"' in block:
            raise InvalidDataError(
                f"{self.path} has quotes; write it without, or run pip install 'eigenveil[files]' to read them."
            )
        rows = [line.split(self.sign) for line in block.decode().splitlines() if line or self._one_column]
        if any(len(row) != len(self.columns) for row in rows):
            raise InvalidDataError(f"{self.path} {_UNEQUAL_ROWS}.")
        matrix = np.empty((len(rows), len(columns)), order="F")
        for position, name in enumerate(columns):
            place = list(self.columns).index(name)
            try:
                matrix[:, position] = [number(row[place], self.text_format.decimal) for row in rows]
            except ValueError:
                raise InvalidDataError(self._no_number_in(name)) from None
        return matrix


# What PyArrow takes for a missing value.
_MARKS_OF_NOTHING = "#N/A #NA -1.#IND -1.#QNAN -NaN -nan 1.#IND 1.#QNAN N/A NA NULL NaN n/a nan null"
_MISSING_CELLS = frozenset(("", "#N/A N/A", *_MARKS_OF_NOTHING.split()))


def number(cell: str, decimal: str) -> float:
    """Return the number that a cell spells, NaN where it is missing; ValueError where it spells none."""
    text = cell.strip()
    if text in _MISSING_CELLS:
        return math.nan
    if "_" in text or not text.isascii() or (decimal != "." and "." in text):  # a number to Python alone
        raise ValueError
    return float(text.replace(decimal, "."))


class TsvFile(CsvFile):
    """A file of text with tabs between its fields, in all else as CSV."""

    delimiter = "\t"


def whole_rows(
    text: Iterable[bytes], delimiter: str, keep_blank: bool, where: str
) -> Iterator[tuple[bytes, int | None]]:
    r"""Cut a text into blocks that end with a row, and count the rows of those that have a quote.

    Parameters
    ----------
    text : iterable of bytes
        The text in UTF-8, piece by piece. Blank lines before the first row are left out.
    delimiter : str
        What stands between two fields.
    keep_blank : bool
        Whether a blank line counts as a row.
    where : str
        What errors call it.

    Examples
    --------
    >>> text = b'size,note\n5" pipe,"two\nlines"\n'
    >>> list(whole_rows([text], ",", False, "pipes.csv"))
    [(b'size,note\n5" pipe,"two\nlines"\n', 2)]
    """
    rest, begun = b"", False
    try:
        for piece in text:
            rest = rest + piece if begun else (rest + piece).lstrip(b"\r\n")
            # A carriage return that stands last may be the first half of a line end.
            lines = rest[: max(rest.rfind(b"\n"), rest.rfind(b"\r", 0, -1)) + 1]
            end, n_rows = _cut(lines, delimiter, keep_blank)
            if end:
                begun = True
                yield rest[:end], n_rows
                rest = rest[end:]
            if len(rest) > _LONGEST_ROW:
                raise InvalidDataError(f"{where} has a row of more than {_LONGEST_ROW} bytes or an open quote.")
        if rest:
            rest += b"\n"
            end, n_rows = _cut(rest, delimiter, keep_blank)
            if end < len(rest):
                raise InvalidDataError(f"{where} has an open quote: one that begins a field and is never closed.")
            yield rest, n_rows
    except csv.Error:
        raise InvalidDataError(
            f"{where} has text after a closing quote, a quote that is never closed, or a field of more than "
            f"{csv.field_size_limit()} characters; "
            "write a quote within quotes twice."
        ) from None


def _cut(lines: bytes, delimiter: str, keep_blank: bool) -> tuple[int, int | None]:
    """Return the end of the last row that whole lines hold, and the number of rows where there is a quote."""
    if b'"' not in lines:
        return len(lines), None
    end = n_rows = 0
    for row, end in _records(lines, delimiter):  # noqa: B007
        n_rows += bool(row) or keep_blank
    return end, n_rows


def _records(lines: bytes, delimiter: str) -> Iterator[tuple[list[str], int]]:
    """Yield the rows that whole lines hold, byte by byte, and where each ends; but none whose quote is still open."""
    end, ended = 0, False

    def fed() -> Iterator[str]:
        nonlocal end, ended
        # One character for every byte; signs of the format are the same in UTF-8.
        for line in io.StringIO(lines.decode("latin-1"), newline=""):
            end += len(line)
            yield line
        ended = True

    try:
        for row in csv.reader(fed(), delimiter=delimiter, strict=True):
            yield row, end
    except csv.Error:
        if not ended:  # else the lines end within quotes
            raise


_NUMBER = re.compile(r"[-+]?(\d[\d_ ,.]*|\.\d+)([eE][-+]?\d+)?%?")
# What readers take for a missing value, an infinity or a truth value.
_MISSING = ("", "nan", "-nan", "na", "n/a", "#n/a", "#na", "null", "?", "-")
MARKS = frozenset((*_MISSING, "inf", "-inf", "infinity", "-infinity", "true", "false"))
"""What stands for a value and is no word, in small letters."""


def check_header(names: Sequence[str], where: str, named: Collection[Any] = ()) -> None:
    """Refuse a first line that may be a row of data: private values must not become the names of features.

    That is any line with a number in it, or of nothing but marks of missing or truth values. Fine are the numbers
    0, 1, 2, ... that pandas writes, and any line that has all columns that the caller `named`.

    >>> check_header(["country", "gdp"], "data.csv")
    >>> check_header(["country", "2024"], "data.csv", ["2024"])
    >>> check_header(["34", "Berlin"], "data.csv")
    Traceback (most recent call last):
        ...
    eigenveil.errors.InvalidDataError: data.csv has no header, or one with numbers in it; its first line must name the \
columns, and numbers that are names must be listed with columns=.
    """
    if list(names) == [str(position) for position in range(len(names))] or has_named(names, named):
        return
    words = [name.strip() for name in names]
    numbers = [word for word in words if _NUMBER.fullmatch(word)]
    if numbers or all(word.lower() in MARKS for word in words):
        raise InvalidDataError(
            f"{where} has no header, or one with numbers in it; its first line must name the columns, and numbers that "
            "are names must be listed with columns=."
        )


def has_named(names: Sequence[str], named: Collection[Any]) -> bool:
    """Tell whether a first line has all columns that the caller named."""
    return bool(named) and set(named) <= set(names)


class JsonLinesFile(TextFile):
    """A file with one JSON object a line, plain or compressed."""

    def _read_schema(self) -> Sequence[str]:
        if self.text_format.delimiter is not None or self.text_format.decimal != ".":
            raise InvalidDataError(f"{self.path} holds JSON, which has no delimiter and no decimal comma.")
        listed = self.declared.listed
        if listed is None:
            raise InvalidDataError(
                f"The columns of {self.path} are not declared, and the keys of JSON lines may differ from row to row; "
                "list them with columns=."
            )
        names = [name for name in listed if isinstance(name, str)]
        self._schema = self._declared_schema(names)
        return names

    def _parsed(self, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        chosen = pa.schema([self._schema.field(name) for name in columns])
        kinds = [_as_text if field.type == pa.string() else _as_number for field in chosen]
        for lines in whole_lines(self._pieces(), self.where):
            rows = [object_of(line, self.where) for line in lines]
            values = [self._values(rows, name, kind) for name, kind in zip(columns, kinds, strict=True)]
            yield pa.table([pa.array(one, field.type) for one, field in zip(values, chosen, strict=True)], chosen)

    def _values(self, rows: list[dict[str, Any]], name: str, kind: Callable[[Any], Any]) -> list[Any]:
        try:
            return [kind(row.get(name)) for row in rows]
        except TypeError:
            which = column_in_words(name, list(self.columns).index(name))
            raise InvalidDataError(
                self._no_number_in(name)
                if kind is _as_number
                else f"{self.path} has a list or an object in the column {which}; give text or numbers."
            ) from None


def _as_number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf if value > 0 else -math.inf


def _as_text(value: Any) -> str | None:
    """Return a value as text, and one text for 1 and 1.0."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE_FLOATS:
        return str(int(value))
    if isinstance(value, int | float):
        return str(value)
    raise TypeError


def object_of(line: bytes, where: str) -> dict[str, Any]:
    """Return the object of a line."""

    def integer(digits: str) -> int | float:  # Python refuses to read thousands of digits
        return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)

    try:
        found = json.loads(line.decode(), parse_int=integer)
    except (ValueError, RecursionError):  # whose text has the line in it
        found = None
    if not isinstance(found, dict):
        raise InvalidDataError(f"{where} has a line that is no JSON object; each line must be one.")
    return found


def whole_lines(text: Iterable[bytes], where: str) -> Iterator[list[bytes]]:
    """Yield the lines of a text in blocks, without blank ones."""
    rest = b""
    for piece in text:
        *lines, rest = (rest + piece).split(b"\n")
        if lines := [line for line in lines if line.strip()]:
            yield lines
        if len(rest) > _LONGEST_ROW:
            raise InvalidDataError(
                f"{where} has a line of more than {_LONGEST_ROW} bytes; it must hold one row a line."
            )
    if rest.strip():
        yield [rest]
