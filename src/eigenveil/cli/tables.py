"""From what was typed to a source of rows: files, columns, categories, ranges."""

import csv
import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from eigenveil.errors import InvalidDataError, InvalidParameterError

from .options import FitOptions

_OPTIONS_FOR = {
    "encode it": "encode it with --categories",
    "columns=": "--columns",
    "count such rows as zero with a RowBound of on_invalid='zero'": "give a public number for them with --missing",
}


@dataclass(frozen=True)
class Table:
    """An opened source, and which of its features are 0 or 1 by construction."""

    paths: list[str]
    source: Any
    one_hot: tuple[bool, ...]
    n_categorical: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features; their positions where they have none."""
        return tuple(self.source.feature_names or map(str, range(self.source.n_features)))


def open_data(data: list[str], options: FitOptions, target: str | None = None) -> Table:
    """Open the files and check their schema; no row is read."""
    from eigenveil.sources import TableSource, open_table, open_with_engine
    from eigenveil.sources.files import has_numbered_columns

    paths = expand(data)
    columns: list[Any] | None = split_list(options.columns)
    if columns is not None and target is not None and target not in columns:
        columns = [*columns, target]
    if columns is not None and has_numbered_columns(paths[0]):
        columns = [_position(column, paths[0]) for column in columns]
    categories = {}
    for given in options.categories or []:
        column, labels = _named("--categories", given)
        categories[column] = split_list([labels]) or []
    if target in categories:
        raise InvalidParameterError("The target must be a number; leave it out of --categories.")
    if options.engine is not None and (categories or options.missing is not None):
        raise InvalidParameterError("--categories and --missing do not work with --engine; encode and fill before.")
    files: Any = paths if len(paths) > 1 else paths[0]
    with told_for_commands():
        if options.engine is not None:
            files = open_with_engine(paths, options.engine, columns or ())
        source = open_table(files, columns, categories=categories, missing=options.missing)
    one_hot = source.one_hot if isinstance(source, TableSource) else (False,) * source.n_features
    return Table(paths, source, one_hot, len(categories))


@contextmanager
def told_for_commands() -> Iterator[None]:
    """Let errors about the data name options where they name arguments of Python."""
    try:
        yield
    except InvalidDataError as error:  # one of ours: its text is changed in place, so that no second error holds it
        told = str(error)
        for argument, option in _OPTIONS_FOR.items():
            told = told.replace(argument, option)
        error.args = (told,)
        raise


def public_bounds(table: Table, options: FitOptions) -> dict[str, Any]:
    """Return norm_bound, bounds and feature_scale for an estimator."""
    norm = options.norm_bound
    numeric = [name for name, encoded in zip(table.names, table.one_hot, strict=True) if not encoded]
    bounds = None
    if options.bounds:
        ranges = _by_column("--bounds", options.bounds, numeric, _range)
        for name in numeric:
            if name not in ranges:
                raise InvalidParameterError(f"The column {name!r} has no range; give one for it, or one for all.")
        # A one-hot block keeps its zeros and its one, so m of them have norm sqrt(m), and a range maps to [-1, 1].
        pairs = [ranges.get(name, (-1.0, 1.0)) for name in table.names]
        bounds = ([low for low, _ in pairs], [high for _, high in pairs])
        norm = (len(numeric) + table.n_categorical) ** 0.5 if norm is None else norm
    elif not numeric and norm is None and not (options.standardize or options.feature_scale):
        norm = table.n_categorical**0.5  # a fact of the encoding
    sizes = None
    if options.feature_scale:
        by_name = _by_column("--feature-scale", options.feature_scale, numeric, _number)
        sizes = [by_name.get(name, 1.0) for name in table.names]
    return {"norm_bound": norm, "bounds": bounds, "feature_scale": sizes}


def expand(data: list[str]) -> list[str]:
    """Return the files that were meant, with patterns that the shell left alone expanded in order.

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
            raise InvalidDataError(f"No file matches {text}.")
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
        raise InvalidParameterError(f"{option} must look like COLUMN=..., got {text!r}.")
    return column.strip(), value


def _position(text: str, path: str) -> int:
    if not text.isdigit():
        raise InvalidParameterError(f"The columns of {path} are numbered from 0, so {text!r} is none of them.")
    return int(text)


def _by_column(option: str, given: list[str], names: list[str], parse: Any) -> dict[str, Any]:
    """Return one value a column: a value without a name is for all that have none of their own."""
    values: dict[str, Any] = {}
    default = None
    for text in given:
        if "=" not in text:
            default = parse(option, text)
            continue
        column, value = _named(option, text)
        if column not in names:
            raise InvalidParameterError(f"{option} names {column!r}, which is no numeric column that is read.")
        values[column] = parse(option, value)
    return values if default is None else {name: values.get(name, default) for name in names}


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidParameterError(f"{option} needs a number, got {text!r}.") from None


def _range(option: str, text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    if not colon:
        raise InvalidParameterError(f"{option} must look like LOW:HIGH, got {text!r}.")
    return _number(option, low), _number(option, high)
