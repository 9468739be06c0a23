"""`eigenveil schema`: drafts a schema file for a table, or shows one."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InvalidParameterError
from .options import (
    AsJson,
    Decimal,
    Delimiter,
    Encoding,
    Force,
    Quiet,
    check_output,
    facts_table,
    new_table,
    output_console,
    print_json,
    print_table,
)
from .tables import STANDARD, expand, read_from, split_list, text_format

if TYPE_CHECKING:
    from ..tables.schema import Schema

_SUFFIXES = (".yaml", ".yml")


def schema(
    data: Annotated[
        list[str],
        typer.Argument(help="Files of one table; or a schema file (.yaml) to show."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Schema file to write, or draft to continue (.yaml). Default: the name of the table."
        ),
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
    before = None if force else _draft_there(file)
    check_output(file, force or before is not None, paths)
    written = text_format(delimiter, decimal, encoding)
    draft = draft_schema(read_from(paths, quiet), split_list(columns), **written)
    done = f"Draft schema written to {file}."
    if before is not None:
        draft, added = _continued(before, draft)
        done = f"Draft schema {file} continued: {added} new column{'' if added == 1 else 's'}."
    if draft != before:
        draft.save(file, overwrite=force or before is not None)
    command = _next_command(data, file, written)
    if as_json:
        print_json({**_fields(draft), "output": str(file), "next_command": command})
    elif not quiet:
        console = output_console()
        steps = [
            "which columns identify a person (they must not be features)",
            "which ranges and categories are public",
            "which value replaces missing values",
        ]
        console.print(f"{done}\n\nCheck every column:", soft_wrap=True)
        for step in steps if draft.used else ["no column is a feature yet: declare at least one", *steps]:
            console.print(f"  - {step}", soft_wrap=True)
        console.print(f"\nThen change the first line to draft: false, and run:\n\n  {command}\n", soft_wrap=True)


def _draft_there(file: Path) -> "Schema | None":
    """Return the draft of an earlier run, which may have been edited."""
    from ..tables.schema import Schema

    if file.suffix not in _SUFFIXES or not file.is_file():
        return None
    try:
        there = Schema.load(file)
    except InvalidParameterError as error:
        raise InvalidParameterError(
            f"{str(error)[:-1]}; correct it, give another --output, or add --force to overwrite it."
        ) from None
    return there if there.draft else None


def _continued(before: "Schema", draft: "Schema") -> tuple["Schema", int]:
    """Return a draft with the new columns added, and their number."""
    known = {column.name for column in before.columns}
    new = tuple(column for column in draft.columns if column.name not in known)
    return replace(before, columns=(*before.columns, *new)), len(new)


def _next_command(data: list[str], file: Path, written: dict[str, Any]) -> str:
    """Return the command for a fit with the schema, quoted for the shell."""
    spelled = [word for key, value in written.items() for word in (f"--{key}", "tab" if value == "\t" else value)]
    goal = ["-k", "above-noise", "--epsilon", "1", "--standardize", "--schema", str(file)]
    files = [f"./{name}" if name.startswith("-") and name != STANDARD else name for name in data]  # no option
    return shlex.join(["eigenveil", "pca", *files, *goal, *spelled])


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
