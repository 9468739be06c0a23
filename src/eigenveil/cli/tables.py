"""Open the table that the options describe: files, columns, categories, ranges."""

import csv
import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidDataError, InvalidParameterError, quoted
from .options import FitOptions, note_console
from .terminal import standard_input

STANDARD = "-"


@dataclass(frozen=True)
class Table:
    """An opened source, and the files it reads."""

    paths: list[str]
    source: Any

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features; their positions where they have none."""
        return tuple(self.source.feature_names or map(str, range(self.source.n_features)))


def open_data(data: list[str], options: FitOptions, targets: Sequence[str] = ()) -> Table:
    """Open the files and check their schema; no row is read."""
    paths = expand(data)
    declared = _by_schema(options) if options.schema is not None else _by_options(options, paths[0], targets)
    written = text_format(options.delimiter, options.decimal, options.encoding)
    return open_declared(paths, declared, written, options.engine, options.quiet)


def open_declared(
    paths: list[str], declared: dict[str, Any], written: dict[str, Any], engine: str | None, quiet: bool
) -> Table:
    """Open files, here or on an engine, with these declarations and this text format."""
    from ..tables.open import open_table, open_with_engine

    files: Any = read_from(paths, quiet) if engine is None else open_with_engine(paths, engine)
    return Table(paths, open_table(files, **declared, **written))


def read_from(paths: list[str], quiet: bool = False) -> list[Any]:
    """Return the paths to read; a dash becomes standard input."""
    from ..tables.files import StandardInput

    if paths.count(STANDARD) > 1:
        raise InvalidParameterError("Standard input can be read only once; give - only once.")
    places: list[Any] = list(paths)
    if STANDARD in paths:
        with standard_input() as stream:
            places[paths.index(STANDARD)] = StandardInput(stream)
    if any(isinstance(place, StandardInput) and place.on_disk for place in places):
        note_console(quiet).print(
            "eigenveil: standard input is large; it is kept in an unnamed temporary file until this command ends.",
            soft_wrap=True,
        )
    return places


def text_format(delimiter: str | None, decimal: str | None, encoding: str | None) -> dict[str, Any]:
    r"""Return the arguments for the format of text files; a tab may be spelled out.

    Examples
    --------
    >>> text_format("tab", None, "latin-1")
    {'delimiter': '\t', 'encoding': 'latin-1'}
    """
    spelled = "\t" if delimiter in ("tab", "\\t") else delimiter
    given = {"delimiter": spelled, "decimal": decimal, "encoding": encoding}
    return {name: value for name, value in given.items() if value is not None}


def _by_schema(options: FitOptions) -> dict[str, Any]:
    """Return the schema of the table; other options must not repeat it."""
    from ..tables.schema import Schema

    for name in ("columns", "categories", "missing", "bounds", "privacy_unit"):
        if getattr(options, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise InvalidParameterError(f"{option} cannot be combined with --schema; put it into the schema file.")
    assert options.schema is not None
    return {"schema": Schema.load(options.schema)}


def _by_options(options: FitOptions, path: str, targets: Sequence[str]) -> dict[str, Any]:
    """Return columns, categories, fill value and privacy unit from the options."""
    from ..tables.files import has_numbered_columns

    declared: dict[str, Any] = {}
    columns: list[Any] | None = split_list(options.columns)
    numbered = has_numbered_columns(path)
    if columns is not None:
        columns += [target for target in targets if target not in columns]
        declared["columns"] = [_position(column, path) for column in columns] if numbered else columns
    if options.privacy_unit is not None:
        if options.privacy_unit in (*targets, *(columns or ())):
            raise InvalidParameterError(
                f"--privacy-unit {quoted(options.privacy_unit)} cannot also be a feature; take it out of --columns and "
                "--target."
            )
        declared["privacy_unit"] = _position(options.privacy_unit, path) if numbered else options.privacy_unit
    categories = {}
    for given in options.categories or []:
        column, labels = _named("--categories", given)
        categories[column] = split_list([labels]) or []
    if not categories.keys().isdisjoint(targets):
        raise InvalidParameterError("--target must be a numeric column; take it out of --categories.")
    if categories:
        declared["categories"] = categories
    return declared if options.missing is None else {**declared, "missing": options.missing}


def public_bounds(table: Table, options: FitOptions) -> dict[str, Any]:
    """Return bounds for an estimator, by the names of the numeric columns, or their positions where they have none."""
    if not options.bounds:
        return {"bounds": None}
    one_hot = getattr(table.source, "one_hot", (False,) * table.source.n_features)
    numeric = [name for name, encoded in zip(table.names, one_hot, strict=True) if not encoded]
    bounds = _bounds_by_column(options.bounds, numeric)
    for name in numeric:
        if name not in bounds:
            raise InvalidParameterError(
                f"--bounds has no range for {quoted(name)}; add COLUMN=LOW:HIGH for it, or LOW:HIGH for all columns."
            )
    named = table.source.feature_names is not None
    return {"bounds": bounds if named else {int(position): limits for position, limits in bounds.items()}}


def expand(data: list[str]) -> list[str]:
    """Return the files, with patterns that the shell did not expand expanded in order of name.

    Examples
    --------
    >>> expand(["a.csv", "b.csv"])
    ['a.csv', 'b.csv']
    """
    paths = []
    for text in data:
        pattern = glob.has_magic(text) and not os.path.exists(text)
        found = sorted(glob.glob(text, recursive=True)) if pattern else [text]
        if not found:
            raise InvalidDataError(f"No file matches {text}; check the folder and the pattern.")
        paths += found
    return paths


def split_list(given: list[str] | None) -> list[str] | None:
    """Return the names of lists like ``a,b``; quotes protect a comma.

    Examples
    --------
    >>> split_list(["age,mass", '"height, cm"'])
    ['age', 'mass', 'height, cm']
    """
    if not given:
        return None
    return [name.strip() for row in csv.reader(given, skipinitialspace=True) for name in row]


def _named(option: str, text: str) -> tuple[str, str]:
    column, sign, value = text.partition("=")
    if not sign or not column.strip() or not value.strip():
        raise InvalidParameterError(f"{option} must have the form COLUMN=..., got {quoted(text)}.")
    return column.strip(), value


def _position(text: str, path: str) -> int:
    if not text.isdigit():
        raise InvalidParameterError(f"{path} has no column names; give a position from 0 instead of {quoted(text)}.")
    return int(text)


def _bounds_by_column(given: list[str], names: list[str]) -> dict[str, tuple[float, float]]:
    """Return the range of every column; a range without a name is for all columns without one of their own."""
    ranges: dict[str, tuple[float, float]] = {}
    default = None
    for text in given:
        if "=" not in text:
            default = _range(text)
            continue
        column, limits = _named("--bounds", text)
        if column not in names:
            raise InvalidParameterError(
                f"Unknown column in --bounds: {quoted(column)}; give the name of a numeric column that is read."
            )
        ranges[column] = _range(limits)
    return ranges if default is None else {name: ranges.get(name, default) for name in names}


def _range(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    if not colon:
        raise InvalidParameterError(f"--bounds must be LOW:HIGH or COLUMN=LOW:HIGH, got {quoted(text)}.")
    try:
        return float(low), float(high)
    except ValueError:
        raise InvalidParameterError(
            f"--bounds must be LOW:HIGH with two numbers, such as 0:100, got {quoted(text)}."
        ) from None
