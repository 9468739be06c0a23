"""Guesses at the columns and kinds of files of text, for drafts of schemas alone.

They are inferred from the first rows, which are private. So a draft is a proposal to a person, and nothing that leads
to a release may import this module; a test reads all imports.
"""

import csv
import io
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ..errors import InvalidDataError
from .base import Columns, Place, TextFormat, choose_columns, one_sentence, opened, with_names
from .delimited import MARKS, DelimitedFile, number, whole_rows
from .encoder import Declared
from .files import FORMATS, located, open_file, places_of
from .json_lines import JsonLinesFile, object_of, whole_lines

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
    if not FORMATS[suffix].takes_text_format:
        return None
    if FORMATS[suffix] is JsonLinesFile:
        return _of_json_lines(place, suffix, columns, text_format)
    return _of_delimited(place, suffix, columns, text_format)


def _of_json_lines(place: Place, suffix: str, columns: Columns, text_format: TextFormat) -> dict[str, Any]:
    with one_sentence(str(place)), opened(place, suffix, text_format.encoding) as stream:
        rows = [object_of(line, str(place)) for line in next(whole_lines(stream, str(place)), [])]
    keys = list(dict.fromkeys(key for row in rows for key in row)) if columns is None else columns
    # Read as a fit would, so that what it refuses is refused.
    part = open_file(place, suffix, Declared(keys), text_format)
    chosen = choose_columns(with_names(part.columns), columns, part.where)
    return {name: _type(row.get(name) for row in rows) for name in chosen}


def _of_delimited(place: Place, suffix: str, columns: Columns, text_format: TextFormat) -> dict[str, Any]:
    names, rows = _first_rows(place, suffix, text_format)
    named = names if columns is None and _has_years(names) else columns
    part = open_file(place, suffix, Declared(named), text_format)
    assert isinstance(part, DelimitedFile)
    rows = [row for row in rows if len(row) == len(part.columns)]
    values = [[_value(row[at], text_format.decimal) for row in rows] for at in range(len(part.columns))]
    kinds = list(map(_type, values))
    if columns is None and not any(map(_is_word_above, part.columns, kinds, values)):
        if len(names) == 1 and text_format.delimiter is None:
            _refuse_other_delimiter(names[0], part.where)
        raise InvalidDataError(
            f"The first line of {part.where} may be a row, whose values must not become names; list the "
            "columns with columns= if it names them."
        )
    chosen = choose_columns(with_names(part.columns), columns, part.where)
    return {name: kinds[list(part.columns).index(name)] for name in chosen}


def _first_rows(place: Place, suffix: str, text_format: TextFormat) -> tuple[list[str], list[list[str]]]:
    """Return the fields of the first line and of some rows below it; nothing where the file is empty."""
    kind = FORMATS[suffix]
    assert issubclass(kind, DelimitedFile)
    sign, where = text_format.delimiter or kind.delimiter, str(place)
    with one_sentence(where), opened(place, suffix, text_format.encoding) as stream:
        block, _ = next(whole_rows(stream, sign, False, where), (b"", None))
        names, *rows = [*csv.reader(io.StringIO(block.decode(), newline=""), delimiter=sign)] or [[]]
    return names, rows


def _has_years(names: list[str]) -> bool:
    """Tell whether the numbers in a first line are years, one after the other, as names of columns are.

    Examples
    --------
    >>> _has_years(["country", "1960", "1961", "1962"]), _has_years(["Peru", "1960", "1961", "1962", "34"])
    (True, False)
    """
    found = [name.strip() for name in names if isinstance(_value(name, "."), float)]
    if len(found) < _A_RUN or not all(word.isdecimal() and len(word) == len("1960") for word in found):
        return False
    return [int(word) for word in found] == list(range(int(found[0]), int(found[0]) + len(found)))


def _refuse_other_delimiter(line: str, where: str) -> None:
    """Refuse a first line of one field that another delimiter cuts into several, and name that delimiter."""
    for sign in _DELIMITERS:
        if sign in line:
            raise InvalidDataError(
                f"{where} has one column by its commas; if something else separates its fields, give "
                f"delimiter={sign!r}."
            )


def _value(cell: str, decimal: str) -> Any:
    """Return what a cell seems to say; None where it says nothing."""
    if cell.strip().lower() in _TRUTHS:
        return _TRUTHS[cell.strip().lower()]
    try:
        found = number(cell, decimal)
    except ValueError:
        return cell.strip()
    return None if found != found else found


def _type(values: Iterable[Any]) -> Any:
    """Return the type that all values have, None where they are numbers or missing."""
    import narwhals as nw

    there = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in there):
        return nw.Boolean() if there else None
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        return None
    return nw.Date() if all(map(_is_date, there)) else nw.String()


def _is_date(value: Any) -> bool:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True


def _is_word_above(name: str, kind: Any, values: list[Any]) -> bool:
    """Tell whether a name cannot be one of the values that stand below it."""
    import narwhals as nw

    if name.strip().lower() in MARKS or kind == nw.String() or all(value is None for value in values):
        return False
    return kind != nw.Date() or not any(map(str.isdigit, name))
