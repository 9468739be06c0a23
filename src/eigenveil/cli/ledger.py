"""`eigenveil ledger create | show | history | check`: a budget for a data set."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from ..errors import InvalidParameterError
from .options import Adjacency, AsJson, Quiet, output_console, print_json
from .spending import budget, guarantee_fields, ledger_fields, open_ledger

ledger_app = typer.Typer(help="Keep a privacy budget for a data set.", no_args_is_help=True)

LedgerFolder = Annotated[Path, typer.Argument(metavar="LEDGER", help="Folder of the ledger.")]
Composition = Literal["basic", "zcdp"]
Units = Literal["row", "person"]


@ledger_app.command()
def create(
    path: LedgerFolder,
    epsilon: Annotated[float, typer.Option(help="Limit on epsilon over all releases.")],
    data_set: Annotated[str, typer.Option(help="Public name of the data set that the budget is for.")],
    delta: Annotated[float, typer.Option(help="Limit on delta over all releases.")] = 0.0,
    adjacency: Adjacency = "replace_one",
    unit: Annotated[
        Units, typer.Option(help="Whose data the budget is for: one row, or one person with all of their rows.")
    ] = "row",
    composition: Annotated[
        Composition, typer.Option(help="How spends add up; zcdp is better for many releases, and needs a delta.")
    ] = "basic",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make a ledger with a limit; it can never be changed."""
    from ..accounting.ledger import PrivacyLedger

    if path.exists():
        raise InvalidParameterError(f"{path} is already there; name another.")
    made = PrivacyLedger.create(
        path, epsilon=epsilon, delta=delta, adjacency=adjacency, unit=unit, composition=composition, data_set=data_set
    )
    _show(ledger_fields(made), as_json, quiet)


@ledger_app.command()
def show(path: LedgerFolder, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Show the limit, what was spent and what is left."""
    _show(ledger_fields(_open(path)), as_json, quiet)


@ledger_app.command()
def history(path: LedgerFolder, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """List every spend, oldest first."""
    ledger = _open(path)
    entries = ledger.entries()
    if as_json:
        print_json(
            [
                {
                    "entry": entry.entry,
                    "spent_at": entry.spent_at,
                    "what": entry.what,
                    "guarantee": guarantee_fields(entry.guarantee),
                    "hash": entry.hash,
                }
                for entry in entries
            ]
        )
    elif not quiet:
        table = Table(title=f"Spends of {path}, on the data set {ledger.data_set}")
        for heading in ("entry", "when (UTC)", "what", "guarantee", "hash"):
            table.add_column(heading)
        for entry in entries:
            table.add_row(str(entry.entry), entry.spent_at, entry.what, str(entry.guarantee), entry.hash[:12])
        output_console().print(table)


@ledger_app.command()
def check(
    path: LedgerFolder,
    epsilon: Annotated[float, typer.Option(help="Epsilon of the release you think of.")],
    delta: Annotated[float, typer.Option(help="Its delta.")] = 0.0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Tell whether a release would still fit, and spend nothing; the exit code is 1 where it would not."""
    from ..guarantee import Guarantee

    ledger = _open(path)
    planned = Guarantee(epsilon, delta, ledger.adjacency, unit=ledger.unit)
    ledger.check(planned)
    fields = ledger_fields(ledger, planned)
    if as_json:
        print_json({**fields, "fits": True})
    elif not quiet:
        limit = budget((ledger.epsilon, ledger.delta))
        after = budget(fields["spent_after"])
        output_console().print(f"It fits: {after} of {limit} would be spent on {ledger.data_set}.", soft_wrap=True)


def _open(path: Path) -> Any:
    return open_ledger(path)


def _show(fields: dict[str, Any], as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(fields)
    elif not quiet:
        from ..guarantee import Unit

        table = Table(title=f"Ledger {fields['path']}", show_header=False)
        table.add_row("data set", fields["data_set"])
        table.add_row("limit", budget((fields["epsilon"], fields["delta"])))
        table.add_row("spent", f"{budget(fields['spent'])}, in {fields['entries']} releases")
        rho = fields["remaining_rho"]
        table.add_row("left", f"{'' if rho is None else f'rho {rho:.6g}: '}{budget(fields['remaining'])}")
        table.add_row("adjacency", fields["adjacency"])
        table.add_row("unit", Unit(fields["unit"]).in_words)
        table.add_row("composition", fields["composition"])
        table.add_row("seal", fields["seal"])
        output_console().print(table)
