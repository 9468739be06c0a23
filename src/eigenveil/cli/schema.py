"""`eigenveil schema draft | check`: what is publicly known of a table, in a file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as Grid

from .common import AsJson, Force, Quiet, check_output, note_console, output_console, print_json
from .options import Decimal, Delimiter, Encoding
from .tables import expand, read_from, split_list, text_format

schema_app = typer.Typer(help="Declare what is publicly known of a table.", no_args_is_help=True)


@schema_app.command()
def draft(
    data: Annotated[list[str], typer.Argument(help="Files of one table; the first one tells names and types.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write (.yaml); by default it is printed.")
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option(metavar="A,B,C", help="Columns to declare; all by default.")
    ] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write names and types of the columns, and never a value, for you to fill in ranges and categories."""
    from eigenveil.sources import draft_schema

    paths = expand(data)
    if output is not None:
        check_output(output, force, paths)
    written = text_format(delimiter, decimal, encoding)
    schema = draft_schema(read_from(paths, quiet), split_list(columns), **written)
    if output is None:
        typer.echo(schema.to_yaml(), nl=False)
        return
    schema.save(output, overwrite=force)
    note_console(quiet).print(
        f"Written to {output}: names and types alone; fill in what is public, then `eigenveil schema check {output}`.",
        soft_wrap=True,
    )


@schema_app.command()
def check(
    file: Annotated[Path, typer.Argument(help="Schema file (.yaml).")], as_json: AsJson = False, quiet: Quiet = False
) -> None:
    """Tell what a schema says, or the first thing that is wrong with it; the exit code is then 1."""
    from eigenveil.schema import Schema

    schema = Schema.load(file)
    schema.check_complete()
    if as_json:
        print_json({**schema.to_dict(), "feature_names": list(schema.feature_names), "n_features": schema.n_features})
    elif not quiet:
        grid = Grid(title=f"Schema {file}")
        for heading in ("column", "kind", "declared", "features"):
            grid.add_column(heading)
        for column in schema.columns:
            grid.add_row(column.name, column.kind, column.told(), str(len(column.features)))
        console = output_console()
        console.print(grid)
        about = (schema.table or "no table is named", schema.period or "no period")
        console.print(f"About: {about[0]}; {about[1]}.", soft_wrap=True)
        by, on = schema.declared_by or "nobody yet", schema.declared_on or "no date"
        console.print(f"{schema.n_features} features; declared by {by}, {on}.", soft_wrap=True)
        if schema.person is not None:
            console.print(
                f"Persons are told apart by {schema.person}: fits protect one person with all of their rows.",
                soft_wrap=True,
            )
