"""What a command that fits will spend: shown, confirmed, and charged to the ledger that was named."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from ..errors import InvalidParameterError
from ..guarantee import Guarantee, Unit
from .options import REFUSED, FitOptions, note_console
from .terminal import in_own_options

if TYPE_CHECKING:
    from ..accounting.ledger import PrivacyLedger
    from ..estimators.base import PrivateEstimator
    from ..estimators.plan import Plan
    from .charging import ChargedLedger


def open_ledger(path: Path | None) -> "ChargedLedger | None":
    """Open the ledger that was named; it must be there."""
    if path is None:
        return None
    from .charging import ChargedLedger

    if not path.exists():
        raise InvalidParameterError(
            f"There is no ledger at {path}; make it with `eigenveil ledger create {path} --epsilon ... --data-set ...`."
        )
    return ChargedLedger(path)


def ledger_files(path: Path | None) -> list[Path]:
    """Return what no output may be written over: the folder of a ledger, and the database in it."""
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


def in_words(guarantee: "Guarantee") -> str:
    """Return a guarantee in one line, with what makes it a weak one."""
    return str(guarantee) if guarantee.weakness is None else f"{guarantee}. Warning: {guarantee.weakness}"


def count_fields(guarantee: "Guarantee", n: int | None) -> dict[str, int | None]:
    """Return n for JSON, by what it counts: that of rows is told to nobody where persons are the unit."""
    counted = "n_rows" if guarantee.unit is Unit.ROW else "n_persons"
    return {name: n if name == counted else None for name in ("n_rows", "n_persons")}


def plan_for(model: "PrivateEstimator", source: Any, quiet: bool) -> "Plan":
    """Return the plan that runs: where the route depends on the public number of rows, they are counted first."""
    from ..moments.counts import ColumnCounts
    from ..tables.open import collect

    plan = model.plan(source)
    if len(plan.routes) == 1 or getattr(source, "reads_once", False):
        return plan
    counted = collect(source, partial(ColumnCounts, (), ()), False if quiet else None, f"counting {plan.unit.counted}")
    return model.plan(source, counted.n_rows)


def confirm_spend(
    plan: "Plan",
    ledger: "PrivacyLedger | None",
    options: FitOptions,
    about_rows: int | None = None,
    identifiers: str | None = None,
) -> dict[str, Any]:
    """Show what is about to be spent, check the ledger, and ask where somebody can answer.

    `about_rows` is how many the table seems to have, where they were not counted, and `identifiers` a sentence about
    columns that may identify persons. Returns the plan for JSON.
    """
    from ..estimators.inputs import delta_of_a_unit

    guarantees = plan.guarantees
    for name, guarantee in guarantees.items():
        if not guarantee.is_private:
            raise InvalidParameterError(f"The mechanism {name} is not private; it is for comparisons in Python only.")
        if ledger is not None:
            ledger.check(guarantee)
    accounts = None if ledger is None else ledger_fields(ledger, plan.guarantee)
    asks = not (options.yes or options.dry_run) and somebody_answers()
    # --json --dry-run prints the plan as its result.
    if asks or not (options.quiet or (options.dry_run and options.as_json)):
        _show(plan, options, accounts, (delta_of_a_unit(plan.guarantee, plan.n_rows or about_rows or 0), identifiers))
    if asks:
        ask()
    return {
        "guarantee": guarantee_fields(plan.guarantee),
        "mechanisms": list(guarantees),
        "routes": plan.to_dict()["routes"],
        "n_features": plan.n_features,
        "n_rows": plan.n_rows,
        "ledger": accounts,
    }


def somebody_answers() -> bool:
    """Tell whether there is a terminal to ask on."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask() -> None:
    """Ask whether to spend, and leave unless the answer is yes."""
    typer.echo("Spend it? [y/N] ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        typer.echo("Nothing was spent.", err=True)
        raise typer.Exit(REFUSED)


def ledger_fields(ledger: "PrivacyLedger", planned: "Guarantee | None" = None) -> dict[str, Any]:
    """Return the state of a ledger for JSON, with what it will be after a planned spend."""
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
    """Return (epsilon, delta) as text."""
    epsilon, delta = numbers
    return f"epsilon {epsilon:.6g}" + (f", delta {delta:.3g}" if delta else "")


def _show(plan: "Plan", options: FitOptions, accounts: dict[str, Any] | None, warnings: tuple[str | None, ...]) -> None:
    table = Table(title="Would spend" if options.dry_run else "About to spend", show_header=False)
    for heading, text in plan.in_words():
        table.add_row(heading, in_own_options(text))
    for assumption in plan.guarantee.assumptions:
        table.add_row("assumption", assumption)
    for warning in (plan.guarantee.weakness, *warnings):
        if warning is not None:
            table.add_row("warning", in_own_options(warning))
    if accounts is None:
        table.add_row("ledger", f"none: nothing adds up what is spent on these {plan.unit.counted}")
    else:
        table.add_row("ledger", f"{accounts['path']}, for the data set {accounts['data_set']}")
        spent, after, limit = (
            budget(accounts["spent"]),
            budget(accounts["spent_after"]),
            (accounts["epsilon"], accounts["delta"]),
        )
        table.add_row("", f"spent {spent}, after this {after}, of {budget(limit)}")
    table.add_row("output", str(options.output))
    note_console().print(table)
