"""Rows in CSV and TSV files, plain or compressed.

A file of text has no types but those that are declared: every other column holds numbers, whatever its cells say. Only
a quote that begins a field opens quoting. Python's own `csv` module finds where rows end in blocks of text that have a
quote, and PyArrow parses the blocks: docs/explanation/decisions/0009-delimited-text.md.
"""

import csv
import io
import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError
from .base import FileReader, one_sentence, opened, pieces

_BLOCK = 2**22
# A row of text longer than this is taken for a quote that was never closed.
_LONGEST_ROW = 2**25
_EMPTY = "is empty; its first line must name the columns"
_UNEQUAL_ROWS = "has rows of different lengths; each must have one field for every name in the header"


KEPT_BYTES = 2**27
"""The rows of a table that were parsed from text are kept for further readings, if they need no more memory."""


class TextFile(FileReader):
    """Base of the readers of text, which takes longer to parse than rows take to be used."""

    takes_text_format = True
    kept_bytes = KEPT_BYTES  # less where the file is one of several of a table
    _kept: tuple[Any, list[Any]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the rows: a pickle says where a file is, not what is in it."""
        return {**self.__dict__, "_kept": None}

    def read(self, columns: Sequence[str], step: int) -> Iterator[Any]:
        """Yield PyArrow tables or matrices: a block of text each, or slices of it."""
        with one_sentence(self.where):
            for block in self._blocks_of(columns):
                # One-hot rows are wide where text was narrow: a block may hold too many rows for one batch.
                for start in range(0, len(block), step):
                    end = start + step
                    yield block[start:end] if isinstance(block, np.ndarray) else block.slice(start, step)

    def _parsed(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield these columns of all rows, block by block: PyArrow tables or matrices."""
        raise NotImplementedError

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


class DelimitedFile(TextFile):
    """What both readers of CSV share: the header, and blocks of whole rows below it.

    A blank line is no row, except in a file of one column: there it is a row whose value is missing. Skipped, it would
    be distinguished from a number by the number of rows, which is public.
    """

    delimiter: ClassVar[str] = ","
    names_public = False
    _one_column = False

    @property
    def sign(self) -> str:
        """What stands between two fields."""
        return self.text_format.delimiter or self.delimiter

    def _read_schema(self) -> Sequence[str]:
        with opened(self.path, self.suffix, self.text_format.encoding) as stream:
            block, _ = next(self._whole_rows(stream), (b"", None))
        if not block:
            raise InvalidDataError(f"{self.path} {_EMPTY}.")
        header = block[: self._header_end(block)].decode()
        names = next(csv.reader(io.StringIO(header, newline=""), delimiter=self.sign, strict=True))
        check_header(names, self.where, self.declared.named)
        self.names_public = has_named(names, self.declared.named)
        self._one_column = len(names) == 1
        if self.suffix.count(".") == 1:  # not compressed
            self.n_rows_hint = round(block.count(b"\n") * self.path.stat().st_size / len(block))
        return names

    def _header_end(self, block: bytes) -> int:
        return next(end for _, end in _records(block, self.sign))

    def _whole_rows(self, stream: BinaryIO) -> Iterator[tuple[bytes, int | None]]:
        return whole_rows(stream, self.sign, self._one_column, self.where)

    def _blocks(self) -> Iterator[tuple[bytes, int | None]]:
        """Yield blocks of rows below the header, and how many rows they have where they were counted."""
        with opened(self.path, self.suffix, self.text_format.encoding) as stream:
            begun = False
            for whole, counted in self._whole_rows(stream):
                block, n_rows = whole, counted
                if not begun:
                    block, n_rows = whole[self._header_end(whole) :], None if counted is None else counted - 1
                    begun = True
                if block if self._one_column else block.strip(b"\r\n"):
                    yield block, n_rows


class CsvFile(DelimitedFile):
    """A CSV file with a header, plain or compressed."""

    needs_arrow = True

    def _read_schema(self) -> Sequence[str]:
        names = super()._read_schema()
        self._schema = self._declared_schema(names)
        return names

    def _parsed(self, columns: Sequence[str]) -> Iterator[Any]:
        for block, n_rows in self._blocks():
            table = self._parse(block, columns)
            if n_rows not in (None, table.num_rows):
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


class TsvFile(CsvFile):
    """A file of text with tabs between its fields, in all else as CSV."""

    delimiter = "\t"


def whole_rows(stream: BinaryIO, delimiter: str, keep_blank: bool, where: str) -> Iterator[tuple[bytes, int | None]]:
    r"""Cut a text into blocks that end with a row, and count the rows of those that have a quote.

    Parameters
    ----------
    stream : binary file
        The text in UTF-8. Blank lines before the first row are left out.
    delimiter : str
        What stands between two fields.
    keep_blank : bool
        Whether a blank line counts as a row.
    where : str
        What errors call it.

    Examples
    --------
    >>> text = io.BytesIO(b'size,note\n5" pipe,"two\nlines"\n')
    >>> list(whole_rows(text, ",", False, "pipes.csv"))
    [(b'size,note\n5" pipe,"two\nlines"\n', 2)]
    """
    rest, begun = b"", False
    try:
        for piece in pieces(stream, _BLOCK):
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
    """Return where the last row ends that whole lines hold, and, where there is a quote, the number of rows."""
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


# What PyArrow takes for a missing value.
_MARKS_OF_NOTHING = "#N/A #NA -1.#IND -1.#QNAN -NaN -nan 1.#IND 1.#QNAN N/A NA NULL NaN n/a nan null"
_MISSING_CELLS = frozenset(("", "#N/A N/A", *_MARKS_OF_NOTHING.split()))


class PlainCsvFile(DelimitedFile):
    """A CSV file of numbers with a header and without quotes, plain or compressed: what is read without PyArrow."""

    def _whole_rows(self, stream: BinaryIO) -> Iterator[tuple[bytes, int | None]]:
        for block, n_rows in super()._whole_rows(stream):
            if n_rows is not None:
                raise InvalidDataError(
                    f"{self.path} has quotes; write it without, or run pip install 'eigenveil[files]' to read them."
                )
            yield block, None

    def _parsed(self, columns: Sequence[str]) -> Iterator[NDArray[np.float64]]:
        places = [list(self.columns).index(column) for column in columns]
        for block, _ in self._blocks():
            lines = [line.decode() for line in block.splitlines() if line or self._one_column]
            rows = [line.split(self.sign) for line in lines]
            if any(len(row) != len(self.columns) for row in rows):
                raise InvalidDataError(f"{self.path} {_UNEQUAL_ROWS}.")
            yield self._matrix(rows, places)

    def _matrix(self, rows: list[list[str]], places: Sequence[int]) -> NDArray[np.float64]:
        matrix = np.empty((len(rows), len(places)), order="F")
        unread = []
        for position, place in enumerate(places):
            try:
                matrix[:, position] = [number(row[place], self.text_format.decimal) for row in rows]
            except ValueError:
                unread.append(place)
        if unread:
            raise InvalidDataError(self._no_number_in(self.columns[unread[0]]))
        return matrix


class PlainTsvFile(PlainCsvFile):
    """A file of text with tabs between its fields, in all else as CSV."""

    delimiter = "\t"


def number(cell: str, decimal: str) -> float:
    """Return the number that a cell spells, NaN where it is missing; ValueError where it spells none."""
    text = cell.strip()
    if text in _MISSING_CELLS:
        return math.nan
    if decimal != ".":
        if "." in text:
            raise ValueError
        text = text.replace(decimal, ".")
    if "_" in text or not text.isascii():  # a number to Python alone
        raise ValueError
    return float(text)
