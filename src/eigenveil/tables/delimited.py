"""Rows in CSV and TSV files, plain or compressed."""

import csv
import io
import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError, column_in_words, quoted
from .base import FileReader, one_sentence, opened

_CSV_BLOCK = 2**22
# A row of text longer than this is taken for a quote that was never closed.
_LONGEST_CSV_ROW = 2**25
EMPTY_FILE = "is empty; its first line must name the columns"
UNEQUAL_ROWS = "has rows of different lengths; each must have one field for every name in the header"


class CsvFile(FileReader):
    """A CSV file with a header, plain or compressed.

    The text is decompressed and cut into blocks of whole rows here, and PyArrow parses block after block.
    (PyArrow can stream by itself, but with a Python file object it may hang for ever when that raises, as
    it does at the end of a truncated file.)

    A blank line is no row, except in a file of one column: there it is a row whose value is missing. Skipped, it would
    be told apart from a number by the number of rows, which is public.
    """

    needs_arrow = True
    takes_text_format = True
    delimiter: ClassVar[str] = ","
    _one_column = False

    def _read_schema(self) -> Sequence[str]:
        import pyarrow as pa

        with opened(self.path, self.suffix, self.text_format.encoding) as stream:
            block = next(whole_rows(stream, self.where, False), b"")
        table = self._parse(block)
        names: list[str] = list(table.column_names)
        self._one_column = len(names) == 1
        check_header(names, self.where, self._named)
        # A word above numbers, truth values or dates is of another kind than the rows below it, so the first line is
        # none of them.
        self.names_public = has_named(names, self._named) or any(map(_is_word_above, names, table.schema.types))
        # Numbers are all read as float64: the first rows do not tell whether a fraction comes later, nor
        # what a column will hold that is empty so far.
        is_number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
        types = [pa.float64() if any(test(kind) for test in is_number) else kind for kind in table.schema.types]
        as_text = {*self._text, self._privacy_unit}
        types = [pa.string() if name in as_text else kind for name, kind in zip(names, types, strict=True)]
        self._schema = pa.schema(zip(names, types, strict=True))
        if self.suffix.count(".") == 1:  # not compressed
            self.n_rows_hint = round(table.num_rows * self.path.stat().st_size / len(block))
        return names

    def _parse(self, block: bytes, **options: Any) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        try:
            return csv.read_csv(
                pa.BufferReader(block),
                read_options=csv.ReadOptions(block_size=len(block) + 1, column_names=options.pop("column_names", None)),
                parse_options=csv.ParseOptions(
                    delimiter=self.text_format.delimiter or self.delimiter,
                    newlines_in_values=True,
                    ignore_empty_lines=not self._one_column,
                ),
                convert_options=csv.ConvertOptions(decimal_point=self.text_format.decimal, **options),
            )
        except pa.ArrowInvalid as error:
            problem = self._problem(str(error))
        raise InvalidDataError(f"{self.path} {problem}.")

    def _problem(self, message: str) -> str:
        """Say what PyArrow's message says, without the cell or the row that it quotes."""
        column = re.match(r"In CSV column #(\d+):", message)
        if column is not None:
            position = int(column[1])
            name = column_in_words(self.columns[position], position, self.names_public)
            return f"has something else than numbers in the column {name}; encode it, or leave it out"
        if "Empty CSV" in message:
            return EMPTY_FILE
        return UNEQUAL_ROWS

    def read(self, columns: Sequence[str], step: int) -> Iterator[Any]:
        """Yield PyArrow tables: a block of text each, or slices of it."""
        types = {name: self._schema.field(name).type for name in columns}
        options: dict[str, Any] = {"include_columns": list(columns), "column_types": types}
        with one_sentence(self.where), opened(self.path, self.suffix, self.text_format.encoding) as stream:
            for block in whole_rows(stream, self.where, self._one_column):
                table = self._parse(block, **options)
                # One-hot rows are wide where text was narrow: a block may hold too many rows for one batch.
                for start in range(0, table.num_rows, step):
                    yield table.slice(start, step)
                options["column_names"] = self.columns  # only the first block has the header


class TsvFile(CsvFile):
    """A file of text with tabs between its fields, in all else as CSV."""

    delimiter = "\t"


def whole_rows(stream: BinaryIO, path: str, keep_blank: bool) -> Iterator[bytes]:
    """Cut a text into blocks that end with a row; before the header, and unless they are kept, blank lines are none."""
    rest, begun = b"", False
    while piece := stream.read(_CSV_BLOCK):
        rest = rest + piece if begun else (rest + piece).lstrip(b"\r\n")
        cut = _last_row_end(rest)
        if cut:
            begun = True
            if keep_blank or rest[:cut].strip():
                yield rest[:cut]
            rest = rest[cut:]
        elif len(rest) > _LONGEST_CSV_ROW:
            raise InvalidDataError(f"{path} has a row of more than {_LONGEST_CSV_ROW} bytes or an open quote.")
    if rest.strip() or (keep_blank and rest):
        yield rest + b"\n"


def _last_row_end(text: bytes) -> int:
    r"""Return where the last whole row of `text` ends; a line break between quotes ends no row.

    >>> _last_row_end(b'1,2\n3,"a\nb"')
    4
    """
    end = text.rfind(b"\n")
    while end >= 0 and text.count(b'"', 0, end) % 2:
        end = text.rfind(b"\n", 0, text.rfind(b'"', 0, end))
    return end + 1


_NUMBER = re.compile(r"[-+]?(\d[\d_ ,.]*|\.\d+)([eE][-+]?\d+)?%?")
# What readers take for a missing value, an infinity or a truth value.
_MISSING = ("", "nan", "-nan", "na", "n/a", "#n/a", "#na", "null", "?", "-")
MARKS = frozenset((*_MISSING, "inf", "-inf", "infinity", "-infinity", "true", "false"))
"""What stands for a value and is no word, in small letters."""


def _is_word_above(name: str, kind: Any) -> bool:
    """Tell whether a name cannot be a value of the kind that stands below it."""
    import pyarrow as pa

    if name.strip().lower() in MARKS:
        return False
    if pa.types.is_temporal(kind):
        return not any(map(str.isdigit, name))
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


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


class PlainCsvFile(FileReader):
    """A CSV file with a header, plain or compressed, whose columns hold numbers where they are read."""

    takes_text_format = True
    delimiter: ClassVar[str] = ","
    _one_column = False

    def _read_schema(self) -> Sequence[str]:
        with opened(self.path, self.suffix, self.text_format.encoding) as stream:
            block = next(whole_rows(stream, self.where, False), b"")
        names, *rows = self._cells(block) or [[]]
        if not names:
            raise InvalidDataError(f"{self.path} {EMPTY_FILE}.")
        self._one_column = len(names) == 1
        check_header(names, self.where, self._named)
        # A word above numbers is no row, as in `CsvFile`.
        self.names_public = has_named(names, self._named) or any(
            name.strip().lower() not in MARKS and self._holds_numbers(rows, place) for place, name in enumerate(names)
        )
        if self.suffix.count(".") == 1:  # not compressed
            self.n_rows_hint = round(len(rows) * self.path.stat().st_size / len(block))
        return names

    def read(self, columns: Sequence[str], step: int) -> Iterator[NDArray[np.float64]]:
        """Yield matrices of numbers."""
        places = [list(self.columns).index(column) for column in columns]
        with one_sentence(self.where), opened(self.path, self.suffix, self.text_format.encoding) as stream:
            first = 1  # only the first block has the header
            for block in whole_rows(stream, self.where, self._one_column):
                rows = self._cells(block)[first:]
                first = 0
                for start in range(0, len(rows), step):
                    yield self._matrix(rows[start : start + step], places)

    def _cells(self, block: bytes) -> list[list[str]]:
        sign = self.text_format.delimiter or self.delimiter
        rows = list(csv.reader(io.StringIO(block.decode("utf-8-sig"), newline=""), delimiter=sign))
        # A blank line is no row, except in a file of one column.
        rows = [row or [""] for row in rows if row or self._one_column]
        if any(len(row) != len(rows[0]) for row in rows):
            raise InvalidDataError(f"{self.path} {UNEQUAL_ROWS}.")
        return rows

    def _matrix(self, rows: list[list[str]], places: Sequence[int]) -> NDArray[np.float64]:
        matrix = np.empty((len(rows), len(places)), order="F")
        unread = []
        for position, place in enumerate(places):
            try:
                matrix[:, position] = [self._number(row[place]) for row in rows]
            except ValueError:
                unread.append(place)
        if unread:
            name = quoted(self.columns[unread[0]]) if self.names_public else f"number {unread[0] + 1}"
            raise InvalidDataError(
                f"{self.path} has something else than numbers in the column {name}; leave it out, or run pip install "
                "'eigenveil[files]' to read text, truth values and dates."
            )
        return matrix

    def _holds_numbers(self, rows: list[list[str]], place: int) -> bool:
        try:
            return any(not math.isnan(self._number(row[place])) for row in rows)
        except ValueError:
            return False

    def _number(self, cell: str) -> float:
        text = cell.strip()
        if text in _MISSING_CELLS:
            return math.nan
        if self.text_format.decimal != ".":
            if "." in text:
                raise ValueError
            text = text.replace(self.text_format.decimal, ".")
        if "_" in text or not text.isascii():  # a number to Python alone
            raise ValueError
        return float(text)


class PlainTsvFile(PlainCsvFile):
    """A file of text with tabs between its fields, in all else as CSV."""

    delimiter = "\t"
