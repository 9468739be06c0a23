"""Numbers in CSV and TSV files where PyArrow is not installed: the same numbers as with it, more slowly."""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError
from .base import FileReader, one_sentence
from .places import opened
from .text import EMPTY_FILE, MARKS, UNEQUAL_ROWS, check_header, has_named, whole_rows

# What PyArrow takes for a missing value.
_MARKS_OF_NOTHING = "#N/A #NA -1.#IND -1.#QNAN -NaN -nan 1.#IND 1.#QNAN N/A NA NULL NaN n/a nan null"
_MISSING = frozenset(("", "#N/A N/A", *_MARKS_OF_NOTHING.split()))


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
            name = repr(self.columns[unread[0]]) if self.names_public else f"number {unread[0] + 1}"
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
        if text in _MISSING:
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
