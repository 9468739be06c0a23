"""Tables: opened as the options describe, and `eigenveil schema`, which drafts a schema file or shows one."""

import csv
import glob
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InvalidDataError, InvalidParameterError, quoted
from .messages import facts_table, new_table, note_console, output_console, print_json, print_table
from .options import AsJson, Decimal, Delimiter, Encoding, FitOptions, Force, Quiet, check_output
from .terminal import standard_input

if TYPE_CHECKING:
    from ..tables.schema import Schema

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
    if options.schema is None:
        declared = _by_options(options, paths[0], targets)
    else:
        from ..tables.schema import Schema

        for name in ("columns", "categories", "missing", "bounds", "privacy_unit"):
            if getattr(options, name) is not None:
                option = f"--{name.replace('_', '-')}"
                raise InvalidParameterError(f"{option} cannot be combined with --schema; put it into the schema file.")
        declared = {"schema": Schema.load(options.schema)}
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
        places[paths.index(STANDARD)] = StandardInput(standard_input())
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
    """Return bounds for an estimator, by the names of the numeric columns, or their positions where they have none.

    A range without a name is for all columns without one of their own.
    """
    if not options.bounds:
        return {"bounds": None}
    one_hot = getattr(table.source, "one_hot", (False,) * table.source.n_features)
    numeric = [name for name, encoded in zip(table.names, one_hot, strict=True) if not encoded]
    ranges: dict[str, tuple[float, float]] = {}
    default = None
    for text in options.bounds:
        if "=" not in text:
            default = _range(text)
            continue
        column, limits = _named("--bounds", text)
        if column not in numeric:
            raise InvalidParameterError(
                f"Unknown column in --bounds: {quoted(column)}; give the name of a numeric column that is read."
            )
        ranges[column] = _range(limits)
    bounds: dict[str | int, tuple[float, float]] = {}
    for name in numeric:
        limits_of_name = ranges.get(name, default)
        if limits_of_name is None:
            raise InvalidParameterError(
                f"--bounds has no range for {quoted(name)}; add COLUMN=LOW:HIGH for it, or LOW:HIGH for all columns."
            )
        bounds[name if table.source.feature_names is not None else int(name)] = limits_of_name
    return {"bounds": bounds}


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


# `eigenveil schema`.

_SUFFIXES = (".yaml", ".yml")


def schema(
    data: Annotated[
        list[str],
        typer.Argument(help="Files of one table; or a schema file (.yaml) to show."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Schema file to write (.yaml). Default: the name of the table."),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option(metavar="A,B,C", help="Columns to declare. Default: all.")
    ] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Draft a schema for a table, or show a schema file."""
    from ..tables.open import draft_schema
    from ..tables.schema import Schema

    if Path(data[0]).suffix in _SUFFIXES:
        if len(data) > 1 or output is not None or columns is not None:
            raise InvalidParameterError(f"{data[0]} is a schema file and can only be shown; give only its name.")
        declared = Schema.load(data[0])
        declared.check_complete()
        _show(data[0], declared, as_json, quiet)
        return
    paths = expand(data)
    file = output or Path(f"{Path(paths[0]).name.strip('-').partition('.')[0] or 'table'}.yaml")
    check_output(file, force, paths)
    written = text_format(delimiter, decimal, encoding)
    draft = draft_schema(read_from(paths, quiet), split_list(columns), **written)
    draft.save(file, overwrite=force)
    spelled = [word for key, value in written.items() for word in (f"--{key}", "tab" if value == "\t" else value)]
    files = [f"./{name}" if name.startswith("-") and name != STANDARD else name for name in data]  # no option
    goal = ["-k", "above-noise", "--epsilon", "1", "--standardize", "--schema", str(file)]
    command = shlex.join(["eigenveil", "pca", *files, *goal, *spelled])
    if as_json:
        print_json({**_fields(draft), "output": str(file), "next_command": command})
    elif not quiet:
        console = output_console()
        steps = [
            "which columns identify a person (they must not be features)",
            "which ranges and categories are public",
            "which value replaces missing values",
        ]
        console.print(f"Draft schema written to {file}.\n\nCheck every column:", soft_wrap=True)
        for step in steps if draft.used else ["no column is a feature yet: declare at least one", *steps]:
            console.print(f"  - {step}", soft_wrap=True)
        console.print(f"\nThen change the first line to draft: false, and run:\n\n  {command}\n", soft_wrap=True)


def _fields(declared: "Schema") -> dict[str, Any]:
    names = list(declared.feature_names)
    return {**declared.to_dict(), "feature_names": names, "n_features": declared.n_features}


def _show(file: str, declared: "Schema", as_json: bool, quiet: bool) -> None:
    """Print what a schema declares."""
    if as_json:
        print_json(_fields(declared))
    elif not quiet:
        grid = new_table("Column", "Kind", "Declared", "Features", left=3)
        for column in declared.columns:
            grid.add_row(column.name, column.kind, column.in_words(), str(len(column.features)))
        unit = "one row" if declared.privacy_unit is None else f"all rows with the same {declared.privacy_unit}"
        facts = [
            ("Features", str(declared.n_features)),
            ("Table", declared.table or "not named"),
            ("Period", declared.period or "not given"),
            ("Declared by", f"{declared.declared_by or 'nobody yet'}, {declared.declared_on or 'no date'}"),
            ("Privacy unit", unit),
        ]
        if declared.draft:
            facts.append(("Status", "draft: change the first line to draft: false before you use it"))
        console = output_console()
        print_table(console, f"Schema {file}", grid)
        console.print("")
        console.print(facts_table(facts))
