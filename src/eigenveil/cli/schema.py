"""`eigenveil schema`: drafts what is publicly known of a table, in a file; or shows such a file."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as Grid

from ..errors import InvalidParameterError
from .options import AsJson, Decimal, Delimiter, Encoding, Force, Quiet, check_output, output_console, print_json
from .tables import STANDARD, expand, read_from, split_list, text_format

if TYPE_CHECKING:
    from ..tables.schema import Schema

_SUFFIXES = (".yaml", ".yml")


def schema(
    data: Annotated[
        list[str],
        typer.Argument(help="Files of one table, of which the first one tells names and types; or a schema (.yaml)."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write, or draft to go on with (.yaml); by default named after the table."
        ),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option(metavar="A,B,C", help="Columns to declare; all by default.")
    ] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Draft a schema from the names and types of a table, for you to check; or show a schema file."""
    from ..tables.open import draft_schema
    from ..tables.schema import Schema

    if Path(data[0]).suffix in _SUFFIXES:
        if len(data) > 1 or output is not None or columns is not None:
            raise InvalidParameterError(f"{data[0]} is a schema, which is only shown; give nothing but its name.")
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
    done = f"Draft written to {file}."
    if before is not None:
        draft, added = _continued(before, draft)
        done = f"Draft {file} kept, with {added} new column{'' if added == 1 else 's'}."
    if draft != before:
        draft.save(file, overwrite=force or before is not None)
    command = _next_command(data, file, written)
    if as_json:
        print_json({**_fields(draft), "output": str(file), "next_command": command})
    elif not quiet:
        console = output_console()
        first = "" if draft.used else "No column is a feature yet, so declare one. "
        console.print(
            f"{done} {first}Check every line of it: which columns identify a person, what stands for missing values, "
            "which ranges and categories are public. Then change its first line to draft: false, and run:\n\n"
            f"  {command}\n",
            soft_wrap=True,
        )


def _draft_there(file: Path) -> "Schema | None":
    """Return the draft that an earlier run has left, as a person may have filled it in."""
    from ..tables.schema import Schema

    if file.suffix not in _SUFFIXES or not file.is_file():
        return None
    try:
        there = Schema.load(file)
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{str(error)[:-1]}; correct it, name another --output, or add --force.") from None
    return there if there.draft else None


def _continued(before: "Schema", draft: "Schema") -> tuple["Schema", int]:
    """Return a draft with the columns that it lacks, and how many these are."""
    known = {column.name for column in before.columns}
    new = tuple(column for column in draft.columns if column.name not in known)
    return replace(before, columns=(*before.columns, *new)), len(new)


def _next_command(data: list[str], file: Path, written: dict[str, Any]) -> str:
    """Return the fit that the draft is for, quoted for the shell."""
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
        grid = Grid(title=f"Schema {file}")
        for heading in ("column", "kind", "declared", "features"):
            grid.add_column(heading)
        for column in declared.columns:
            grid.add_row(column.name, column.kind, column.in_words(), str(len(column.features)))
        console = output_console()
        console.print(grid)
        about = (declared.table or "no table is named", declared.period or "no period")
        console.print(f"About: {about[0]}; {about[1]}.", soft_wrap=True)
        by, on = declared.declared_by or "nobody yet", declared.declared_on or "no date"
        console.print(f"{declared.n_features} features; declared by {by}, {on}.", soft_wrap=True)
        if declared.draft:
            console.print(
                "This is a draft: no table is read by it until its first line says draft: false.", soft_wrap=True
            )
        if declared.privacy_unit is not None:
            console.print(
                f"Persons are told apart by {declared.privacy_unit}: fits protect one person with all of their rows.",
                soft_wrap=True,
            )
