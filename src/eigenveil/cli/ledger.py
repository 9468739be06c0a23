"""`eigenveil ledger create | show | history | check`: the privacy budget of a data set."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..errors import InvalidParameterError
from .messages import Group
from .options import Adjacency, AsJson, Quiet, facts_table, new_table, output_console, print_json, print_table
from .spending import budget, guarantee_fields, ledger_fields, open_ledger

ledger_app = typer.Typer(
    help="Track the privacy budget of a data set.", cls=Group, rich_markup_mode=None, no_args_is_help=True
)

LedgerFolder = Annotated[Path, typer.Argument(metavar="LEDGER", help="Folder of the ledger.")]
Composition = Literal["basic", "zcdp"]
Units = Literal["row", "person"]


@ledger_app.command()
def create(
    path: LedgerFolder,
    epsilon: Annotated[float, typer.Option(help="Total privacy budget ε of all releases.")],
    data_set: Annotated[str, typer.Option(help="Public name of the data set.")],
    delta: Annotated[float, typer.Option(help="Total privacy budget δ of all releases.")] = 0.0,
    adjacency: Adjacency = "replace_one",
    unit: Annotated[
        Units, typer.Option(help="Privacy unit: row (default), or person for all rows of a person.")
    ] = "row",
    composition: Annotated[
        Composition, typer.Option(help="basic (default), or zcdp, which is tighter for many releases and needs a δ.")
    ] = "basic",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make a ledger with a total privacy budget, which cannot be changed later."""
    from ..accounting.ledger import PrivacyLedger

    if path.exists():
        raise InvalidParameterError(f"LEDGER {path} already exists; give another path.")
    made = PrivacyLedger.create(
        path, epsilon=epsilon, delta=delta, adjacency=adjacency, unit=unit, composition=composition, data_set=data_set
    )
    _show(ledger_fields(made), as_json, quiet)


@ledger_app.command()
def show(path: LedgerFolder, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Show the total budget, what was spent and what is left."""
    _show(ledger_fields(_open(path)), as_json, quiet)


@ledger_app.command()
def history(path: LedgerFolder, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """List all spends, oldest first."""
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
        table = new_table("Entry", "Time (UTC)", "Release", "Privacy", "Hash", left=5)
        for entry in entries:
            table.add_row(str(entry.entry), entry.spent_at, entry.what, str(entry.guarantee), entry.hash[:12])
        title = f"Ledger {path} of data set {ledger.data_set}, entries: {len(entries)}"
        print_table(output_console(), title, table)


@ledger_app.command()
def check(
    path: LedgerFolder,
    epsilon: Annotated[float, typer.Option(help="ε of the planned release.")],
    delta: Annotated[float, typer.Option(help="δ of the planned release.")] = 0.0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check whether a release still fits into the budget. Exit code 1: it does not. Spends nothing."""
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
        output_console().print(
            f"It fits: {after} of {limit} would be spent on data set {ledger.data_set}.", soft_wrap=True
        )


def _open(path: Path) -> Any:
    return open_ledger(path)


def _show(fields: dict[str, Any], as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(fields)
    elif not quiet:
        from ..guarantee import Unit

        rho = fields["remaining_rho"]
        facts = [
            ("Data set", fields["data_set"]),
            ("Budget", budget((fields["epsilon"], fields["delta"]))),
            ("Spent", f"{budget(fields['spent'])} (releases: {fields['entries']})"),
            ("Left", f"{budget(fields['remaining'])}{'' if rho is None else f' (rho = {rho:.6g})'}"),
            ("Adjacency", fields["adjacency"]),
            ("Privacy unit", Unit(fields["unit"]).in_words),
            ("Composition", fields["composition"]),
            ("Seal", fields["seal"]),
        ]
        print_table(output_console(), f"Ledger {fields['path']}", facts_table(facts))
