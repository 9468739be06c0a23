"""Guesses at the columns and kinds of files of text, for drafts of schemas alone.

They are inferred from the first rows, which are private. So a draft is a proposal to a person, and nothing that leads
to a release may import this module; a test reads all imports.
"""

import csv
import io
import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ..errors import InvalidDataError
from .base import Columns, choose_columns, one_sentence, with_names
from .encoder import Declared
from .files import FORMATS, located, open_file, places_of
from .text import (
    MARKS,
    CsvFile,
    JsonLinesFile,
    TextFile,
    TextFormat,
    number,
    object_of,
    pieces,
    whole_lines,
    whole_rows,
)

_TRUTHS = {"true": True, "false": False}
# So many years in a row are names of columns, and not the values of a person.
_A_RUN = 3
_DELIMITERS = ";\t|"


def guessed_types(data: Any, columns: Columns, text_format: TextFormat) -> dict[str, Any] | None:
    """Return columns of a file of text, and narwhals types of what their first values are; None is that of a number.

    Parameters
    ----------
    data : path or list of paths
        The first one is looked at. None is returned for anything else than files of text.
    columns : list of str, optional
        The columns to draft; by default those of the header, or the keys of the first lines.
    text_format : TextFormat
        How the file is written.
    """
    places = places_of(data)
    if places is None:
        return None
    place, suffix = located(places[0])
    kind, where = FORMATS[suffix], str(place)
    if not issubclass(kind, TextFile):
        return None
    text = pieces(place, suffix, text_format.encoding)
    if issubclass(kind, JsonLinesFile):
        with one_sentence(where):
            objects = [object_of(line, where) for line in next(whole_lines(text, where), [])]
        keys = list(dict.fromkeys(key for row in objects for key in row)) if columns is None else columns
        # Read as a fit would, so that what it refuses is refused.
        part = open_file(place, suffix, Declared(keys), text_format)
        chosen = choose_columns(with_names(part.columns), columns, where)
        return {name: _type(row.get(name) for row in objects) for name in chosen}

    assert issubclass(kind, CsvFile)
    sign = text_format.delimiter or kind.delimiter
    with one_sentence(where):
        block, _ = next(whole_rows(text, sign, False, where), (b"", None))
        names, *rows = [*csv.reader(io.StringIO(block.decode(), newline=""), delimiter=sign)] or [[]]
    named = names if columns is None and _has_years(names) else columns
    part = open_file(place, suffix, Declared(named), text_format)
    rows = [row for row in rows if len(row) == len(part.columns)]
    values = [[_value(row[at], text_format.decimal) for row in rows] for at in range(len(part.columns))]
    kinds = list(map(_type, values))
    if columns is None and not any(map(_is_word_above, part.columns, kinds, values)):
        other = next((one for one in _DELIMITERS if one in names[0]), None)
        if len(names) == 1 and text_format.delimiter is None and other is not None:
            raise InvalidDataError(
                f"{where} has one column by its commas; if something else separates its fields, give "
                f"delimiter={other!r}."
            )
        raise InvalidDataError(
            f"The first line of {where} may be a row, whose values must not become names; list the columns with "
            "columns= if it names them."
        )
    chosen = choose_columns(with_names(part.columns), columns, where)
    return {name: kinds[list(part.columns).index(name)] for name in chosen}


def _has_years(names: list[str]) -> bool:
    """Tell whether the numbers in a first line are years, one after the other, as names of columns are."""
    found = [name.strip() for name in names if isinstance(_value(name, "."), float)]
    if len(found) < _A_RUN or not all(word.isdecimal() and len(word) == len("1960") for word in found):
        return False
    return [int(word) for word in found] == list(range(int(found[0]), int(found[0]) + len(found)))


def _value(cell: str, decimal: str) -> Any:
    """Return a truth value, a number or text; None for a missing value."""
    text = cell.strip()
    if text.lower() in _TRUTHS:
        return _TRUTHS[text.lower()]
    try:
        found = number(cell, decimal)
    except ValueError:
        return text
    return None if math.isnan(found) else found


def _type(values: Iterable[Any]) -> Any:
    """Return the type that all values have, None where they are numbers or missing."""
    import narwhals as nw

    there = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in there):
        return nw.Boolean() if there else None
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        return None
    try:
        for value in there:
            datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return nw.String()
    return nw.Date()


def _is_word_above(name: str, kind: Any, values: list[Any]) -> bool:
    """Tell whether a name cannot be one of the values that stand below it."""
    import narwhals as nw

    if name.strip().lower() in MARKS or kind == nw.String() or all(value is None for value in values):
        return False
    return kind != nw.Date() or not any(map(str.isdigit, name))
