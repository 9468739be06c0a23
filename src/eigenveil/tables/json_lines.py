"""Rows in files of JSON lines: one object a line, read by what is declared and never by the keys that are there.

Keys are part of somebody's row. So the caller names the columns, their kinds follow from the declaration, and every
value is read by itself. A key that a line does not have, or that no line has, is a missing value; a key that nobody
declared is not looked at. Python's `json` reads line by line. PyArrow would take two objects in a line for two rows,
and it refuses a column that holds text in one line and a number in another.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from ..errors import InvalidDataError, column_in_words
from .base import opened, pieces
from .delimited import TextFile

_BLOCK = 2**22
_LONGEST_ROW = 2**25
_MOST_DIGITS = 400
# Beyond this a float64 stands for several whole numbers.
_WHOLE_FLOATS = 2**53


class JsonLinesFile(TextFile):
    """A file with one JSON object a line, plain or compressed."""

    needs_arrow = True

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
        with opened(self.path, self.suffix, self.text_format.encoding) as stream:
            for lines in whole_lines(stream, self.where):
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
    """Return a value as text, and one text for 1 and 1.0.

    >>> [_as_text(value) for value in ("F", True, 1, 1.0, 0.5, None)]
    ['F', 'true', '1', '1', '0.5', None]
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE_FLOATS:
        return str(int(value))
    if isinstance(value, int | float):
        return str(value)
    raise TypeError


def _integer(text: str) -> int | float:
    """Return a whole number; one beyond all floats, whose thousands of digits Python refuses to read, is infinite."""
    return int(text) if len(text) <= _MOST_DIGITS else float(text)


def object_of(line: bytes, where: str) -> dict[str, Any]:
    """Return the object of a line."""
    try:
        found = json.loads(line.decode(), parse_int=_integer)
    except (ValueError, RecursionError):  # whose text has the line in it
        found = None
    if not isinstance(found, dict):
        raise InvalidDataError(f"{where} has a line that is no JSON object; each line must be one.")
    return found


def whole_lines(stream: BinaryIO, where: str) -> Iterator[list[bytes]]:
    """Yield the lines of a text in blocks, without blank ones."""
    rest = b""
    for piece in pieces(stream, _BLOCK):
        *lines, rest = (rest + piece).split(b"\n")
        if lines := [line for line in lines if line.strip()]:
            yield lines
        if len(rest) > _LONGEST_ROW:
            raise InvalidDataError(
                f"{where} has a line of more than {_LONGEST_ROW} bytes; it must hold one row a line."
            )
    if rest.strip():
        yield [rest]
