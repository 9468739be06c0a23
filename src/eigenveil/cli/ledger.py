"""The privacy budget: what a command will spend, shown and confirmed, and `eigenveil ledger`."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import InvalidParameterError
from ..guarantee import Guarantee, Unit
from .messages import (
    REFUSED,
    facts_table,
    in_own_options,
    new_table,
    note_console,
    output_console,
    print_json,
    print_table,
)
from .options import Adjacency, AsJson, FitOptions, Quiet

if TYPE_CHECKING:
    from ..accounting.ledger import PrivacyLedger
    from ..estimators.base import PrivateEstimator
    from ..estimators.plan import Plan


def open_ledger(path: Path | None) -> "PrivacyLedger | None":
    """Open the ledger at a path; it must exist."""
    return None if path is None else _existing(path)


def _existing(path: Path) -> "PrivacyLedger":
    from ..accounting.ledger import PrivacyLedger

    if not path.exists():
        raise InvalidParameterError(
            f"The ledger {path} does not exist; make it with `eigenveil ledger create {path} --epsilon ... --data-set "
            "...`."
        )
    return PrivacyLedger(path)


def ledger_files(path: Path | None) -> list[Path]:
    """Return the files of a ledger, which no output may overwrite."""
    if path is None:
        return []
    from ..accounting.ledger import DATABASE

    return [path, path / DATABASE]


def guarantee_fields(guarantee: "Guarantee") -> dict[str, Any]:
    """Return a guarantee for JSON."""
    return {
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "adjacency": guarantee.adjacency.value,
        "unit": guarantee.unit.value,
        "numerics": guarantee.numerics.value,
        "assumptions": list(guarantee.assumptions),
        "weakness": guarantee.weakness,
        "text": str(guarantee),
    }


def count_fields(guarantee: "Guarantee", n: int | None) -> dict[str, int | None]:
    """Return n for JSON; with a privacy unit it counts units, and the number of rows stays private."""
    by_row = guarantee.unit.value == "row"
    return {"n_rows": n if by_row else None, "n_privacy_units": None if by_row else n}


def plan_for(model: "PrivateEstimator", source: Any, quiet: bool) -> "Plan":
    """Return the plan that runs; if it depends on the number of rows, which is public, they are counted first."""
    from ..moments.column_counts import ColumnCounts
    from ..tables.open import collect

    plan = model.plan(source)
    if len(plan.routes) == 1 or getattr(source, "reads_once", False):
        return plan
    counted = collect(source, partial(ColumnCounts, (), ()), False if quiet else None, f"counting {plan.unit.counted}")
    return model.plan(source, counted.n_rows)


def confirm_fit(
    plan: "Plan",
    ledger: "PrivacyLedger | None",
    options: FitOptions,
    about_rows: int | None = None,
    identifiers: str | None = None,
) -> dict[str, Any]:
    """Show what a fit will spend, check the ledger, and ask where somebody can answer.

    `about_rows` estimates the number of rows where they were not counted, and `identifiers` is a sentence about
    columns that may identify people. Returns the plan for JSON.
    """
    from ..estimators.parameters import delta_of_a_unit

    for name, guarantee in plan.guarantees.items():
        if not guarantee.is_private:
            raise InvalidParameterError(
                f"--mechanism {name} is not private; choose one that `eigenveil mechanisms` lists as private."
            )
        if ledger is not None:
            ledger.check(guarantee)
    facts = []
    for heading, text in plan.in_words():
        if heading != "guarantee":
            facts.append(("Method" if heading == "plan" else heading.capitalize(), in_own_options(text)))
    large = delta_of_a_unit(plan.guarantee, plan.n_rows or about_rows or 0)
    facts += [("Warning", in_own_options(one)) for one in (large, identifiers) if one is not None]
    accounts = confirm(
        plan.guarantee,
        ledger,
        facts,
        options.output,
        yes=options.yes,
        dry_run=options.dry_run,
        hidden=options.quiet or (options.dry_run and options.as_json),  # whose result is the plan
    )
    return {
        "guarantee": guarantee_fields(plan.guarantee),
        "mechanisms": list(plan.guarantees),
        "routes": plan.to_dict()["routes"],
        "n_features": plan.n_features,
        "n_rows": plan.n_rows,
        "ledger": accounts,
    }


def confirm(
    guarantee: Guarantee,
    ledger: "PrivacyLedger | None",
    facts: list[tuple[str, str]],
    output: Path,
    *,
    yes: bool,
    dry_run: bool = False,
    hidden: bool = False,
) -> dict[str, Any] | None:
    """Show what will be spent, ask where somebody can answer, and return the state of the ledger for JSON."""
    accounts = None if ledger is None else ledger_fields(ledger, guarantee)
    asks = not (yes or dry_run) and somebody_answers()
    if asks or not hidden:
        weakness = [] if guarantee.weakness is None else [("Warning", in_own_options(guarantee.weakness))]
        shown = [("Privacy", str(guarantee)), *facts, *(("Assumes", one) for one in guarantee.assumptions), *weakness]
        shown += [("Ledger", ledger_in_words(accounts)), ("Output", str(output))]
        title = "This would be spent:" if dry_run else "This will be spent:"
        print_table(note_console(), title, facts_table(shown))
    if asks:
        ask()
    return accounts


def somebody_answers() -> bool:
    """Return whether there is a terminal to ask on."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask() -> None:
    """Ask whether to spend, and stop unless the answer is yes."""
    typer.echo("Continue? [y/N] ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        typer.echo("Nothing was spent.", err=True)
        raise typer.Exit(REFUSED)


def ledger_fields(ledger: "PrivacyLedger", planned: "Guarantee | None" = None) -> dict[str, Any]:
    """Return the state of a ledger for JSON, and its state after a planned spend."""
    fields: dict[str, Any] = {
        "path": str(ledger.path),
        "data_set": ledger.data_set,
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "adjacency": ledger.adjacency.value,
        "unit": ledger.unit.value,
        "composition": ledger.composition,
        "entries": len(ledger.entries()),
        "spent": list(ledger.spent),
        "remaining": list(ledger.remaining),
        "remaining_rho": ledger.remaining_rho,
        "seal": ledger.seal,
    }
    if planned is not None:
        fields["spent_after"] = list(ledger.spent_with(planned))
    return fields


def budget(numbers: Any) -> str:
    """Return (epsilon, delta) as text.

    Examples
    --------
    >>> budget((1.0, 0.0)), budget((0.5, 1e-6))
    ('ε = 1', 'ε = 0.5, δ = 1e-06')
    """
    epsilon, delta = numbers
    return f"ε = {epsilon:.6g}" + (f", δ = {delta:.3g}" if delta else "")


def ledger_in_words(accounts: dict[str, Any] | None) -> str:
    """Return the sentence on a ledger that is shown before a spend.

    `accounts` are the `ledger_fields` of the planned spend.

    Examples
    --------
    >>> ledger_in_words(None)
    'No ledger: this spend is not tracked.'
    """
    if accounts is None:
        return "No ledger: this spend is not tracked."
    limit, after = (accounts["epsilon"], accounts["delta"]), accounts["spent_after"]
    basic = accounts["composition"] == "basic"  # or what is left is not a difference
    now = [max(0.0, most - spent) if basic else spent for most, spent in zip(limit, after, strict=True)]
    shares = [f"ε = {now[0]:.6g} of {limit[0]:.6g}", *([f"δ = {now[1]:.3g} of {limit[1]:.3g}"] if limit[1] else [])]
    done = "left" if basic else "spent"
    return f"{accounts['path']} (data set {accounts['data_set']}), {', '.join(shares)} {done} after this"


# `eigenveil ledger`.

LedgerFolder = Annotated[Path, typer.Argument(metavar="LEDGER", help="Folder of the ledger.")]
Composition = Literal["basic", "zcdp"]
Units = Literal["row", "person"]


def create(
    path: LedgerFolder,
    epsilon: Annotated[float, typer.Option(help="Total privacy budget ε of all releases.")],
    data_set: Annotated[str, typer.Option(help="Public name of the data set.")],
    delta: Annotated[float, typer.Option(help="Total privacy budget δ of all releases.")] = 0.0,
    adjacency: Adjacency = "replace_one",
    unit: Annotated[Units, typer.Option(help="Privacy unit: a row, or person for all rows of a person.")] = "row",
    composition: Annotated[
        Composition, typer.Option(help="zcdp is tighter for many releases and needs a δ.")
    ] = "basic",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make a ledger with a total privacy budget. It cannot be changed later."""
    from ..accounting.ledger import PrivacyLedger

    if path.exists():
        raise InvalidParameterError(f"LEDGER {path} already exists; give another path.")
    made = PrivacyLedger.create(
        path, epsilon=epsilon, delta=delta, adjacency=adjacency, unit=unit, composition=composition, data_set=data_set
    )
    _show(ledger_fields(made), as_json, quiet)


def show(path: LedgerFolder, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Show the total budget, what was spent and what is left."""
    _show(ledger_fields(_existing(path)), as_json, quiet)


def history(path: LedgerFolder, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """List all spends, oldest first."""
    ledger = _existing(path)
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


def check(
    path: LedgerFolder,
    epsilon: Annotated[float, typer.Option(help="ε of the planned release.")],
    delta: Annotated[float, typer.Option(help="δ of the planned release.")] = 0.0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check whether a release still fits into the budget. Exit code 1: it does not. Spends nothing."""
    ledger = _existing(path)
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


def _show(fields: dict[str, Any], as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(fields)
    elif not quiet:
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
