"""What a command will spend: shown, confirmed, and recorded in the ledger."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InvalidParameterError
from ..guarantee import Guarantee
from .messages import in_own_options
from .options import REFUSED, FitOptions, facts_table, note_console, print_table

if TYPE_CHECKING:
    from ..accounting.ledger import PrivacyLedger
    from ..estimators.base import PrivateEstimator
    from ..estimators.plan import Plan
    from .charging import ChargedLedger


def open_ledger(path: Path | None) -> "ChargedLedger | None":
    """Open the ledger at a path; it must exist."""
    if path is None:
        return None
    from .charging import ChargedLedger

    if not path.exists():
        raise InvalidParameterError(
            f"The ledger {path} does not exist; make it with `eigenveil ledger create {path} --epsilon ... --data-set "
            "...`."
        )
    return ChargedLedger(path)


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


def in_words(guarantee: "Guarantee") -> str:
    """Return a guarantee in one line, with a warning if it is weak."""
    return str(guarantee) if guarantee.weakness is None else f"{guarantee}. Warning: {guarantee.weakness}"


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


def confirm_spend(
    plan: "Plan",
    ledger: "PrivacyLedger | None",
    options: FitOptions,
    about_rows: int | None = None,
    identifiers: str | None = None,
) -> dict[str, Any]:
    """Show what is about to be spent, check the ledger, and ask where somebody can answer.

    `about_rows` estimates the number of rows where they were not counted, and `identifiers` is a sentence about
    columns that may identify people. Returns the plan for JSON.
    """
    from ..estimators.parameters import delta_of_a_unit

    guarantees = plan.guarantees
    for name, guarantee in guarantees.items():
        if not guarantee.is_private:
            raise InvalidParameterError(
                f"--mechanism {name} is not private; choose one that `eigenveil mechanisms` lists as private."
            )
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
    """Return what a planned spend does to a ledger, from `ledger_fields`.

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


def _show(plan: "Plan", options: FitOptions, accounts: dict[str, Any] | None, warnings: tuple[str | None, ...]) -> None:
    facts = []
    for heading, text in plan.in_words():
        name = {"guarantee": "Privacy", "plan": "Method"}.get(heading, heading.capitalize())
        facts.append((name, in_own_options(text)))
    facts += [("Assumes", assumption) for assumption in plan.guarantee.assumptions]
    facts += [("Warning", in_own_options(one)) for one in (plan.guarantee.weakness, *warnings) if one is not None]
    facts += [("Ledger", ledger_in_words(accounts)), ("Output", str(options.output))]
    title = "This would be spent:" if options.dry_run else "This will be spent:"
    print_table(note_console(), title, facts_table(facts))
