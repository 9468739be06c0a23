"""Before a command spends: what it will spend, computed without data, and the question whether it may."""

import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from eigenveil.errors import InvalidParameterError

from .common import REFUSED, note_console
from .options import FitOptions

if TYPE_CHECKING:
    from eigenveil.accounting.ledger import PrivacyLedger
    from eigenveil.guarantee import Guarantee

_MANY_ROWS = 2**40
_CHOICES = {"feature_scale": "the sizes of the features", "norm_bound": "the norm bound"}


@dataclass(frozen=True)
class Plan:
    """What a fit will promise, by the mechanisms it may use, and the parts of epsilon for private choices."""

    guarantees: "dict[str, Guarantee]"
    choices: dict[str, float]

    @property
    def guarantee(self) -> "Guarantee":
        """The one that says least: the mechanisms of one plan differ in their numerics."""
        return max(self.guarantees.values(), key=lambda guarantee: (guarantee.epsilon, guarantee.numerics.gap))


def plan_spend(estimator: Any, n_features: int) -> Plan:
    """Return what a fit will spend, from public parameters alone.

    With ``mechanism="auto"`` the choice may turn on the number of rows, once: then there are two mechanisms.
    Everything that can be refused without rows is refused here.
    """
    from eigenveil.accounting.calibration import decimal_below, exact
    from eigenveil.accounting.composition import compose
    from eigenveil.errors import positive_number
    from eigenveil.guarantee import Guarantee, Numerics
    from eigenveil.moments import SecondMoments

    relation = estimator._relation()
    preparation = estimator._preparation(n_features)
    costs = preparation.cost(exact(positive_number("epsilon", estimator.epsilon)))
    parts = {name: Guarantee(decimal_below(cost), 0.0, relation, Numerics.EXACT) for name, cost in costs.items()}
    probe = SecondMoments(estimator._row_bound(replace(preparation, norm=preparation.norm or 1.0)), n_features)
    found = {}
    for n_rows in (1, _MANY_ROWS):
        probe.n_rows = n_rows
        mechanism = estimator._mechanism(probe, parts)
        mechanism.check(probe)
        found[mechanism.name] = compose([*parts.values(), mechanism.guarantee()])
    return Plan(found, {name: part.epsilon for name, part in parts.items()})


def open_ledger(path: Path | None) -> "PrivacyLedger | None":
    """Open the ledger that was named; it must be there."""
    if path is None:
        return None
    from eigenveil.accounting.ledger import PrivacyLedger

    if not path.exists():
        raise InvalidParameterError(
            f"There is no ledger at {path}; make it with `eigenveil ledger create {path} --epsilon ...`."
        )
    return PrivacyLedger(path)


def guarantee_fields(guarantee: "Guarantee") -> dict[str, Any]:
    """Return a guarantee for JSON."""
    return {
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "relation": guarantee.relation.value,
        "numerics": guarantee.numerics.value,
        "caveats": list(guarantee.caveats),
        "text": str(guarantee),
    }


def confirm_spend(estimator: Any, n_features: int, options: FitOptions) -> dict[str, Any]:
    """Show what is about to be spent, check the ledger, and ask where somebody can answer.

    Returns the plan for JSON. Nothing has been read but the schema.
    """
    plan = plan_spend(estimator, n_features)
    for name, guarantee in plan.guarantees.items():
        if not guarantee.is_private:
            raise InvalidParameterError(f"The mechanism {name} is not private; it is for comparisons in Python only.")
        if estimator.ledger is not None:
            estimator.ledger.check(guarantee)
    accounts = None if estimator.ledger is None else ledger_fields(estimator.ledger, plan.guarantee)
    asks = not (options.yes or options.dry_run) and somebody_answers()
    # --json --dry-run prints the plan as its result.
    if asks or not (options.quiet or (options.dry_run and options.as_json)):
        _show(plan, options, accounts)
    if asks:
        ask()
    return {
        "guarantee": guarantee_fields(plan.guarantee),
        "mechanisms": list(plan.guarantees),
        "private_choices": plan.choices,
        "n_features": n_features,
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
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "relation": ledger.relation.value,
        "composition": ledger.composition,
        "entries": len(ledger.entries()),
        "spent": list(ledger.spent),
        "remaining": list(ledger.remaining),
    }
    if planned is not None:
        fields["spent_after"] = list(_spent_after(ledger, planned))
    return fields


def _spent_after(ledger: "PrivacyLedger", planned: "Guarantee") -> tuple[float, float]:
    from eigenveil.accounting.calibration import decimal_above, exact, zcdp_epsilon
    from eigenveil.accounting.composition import concentrated_rho

    guarantees = [*(entry.guarantee for entry in ledger.entries()), planned]
    if ledger.composition == "zcdp":  # which the ledger has checked: every one of them has a rho
        rho = sum((exact(concentrated_rho(one) or 0.0) for one in guarantees), Fraction(0))
        return zcdp_epsilon(decimal_above(rho), ledger.delta), ledger.delta
    sums = [sum((exact(getattr(one, name)) for one in guarantees), Fraction(0)) for name in ("epsilon", "delta")]
    return decimal_above(sums[0]), decimal_above(sums[1])


def budget(numbers: Any) -> str:
    """Return (epsilon, delta) as text."""
    epsilon, delta = numbers
    return f"epsilon {epsilon:.6g}" + (f", delta {delta:.3g}" if delta else "")


def _show(plan: Plan, options: FitOptions, accounts: dict[str, Any] | None) -> None:
    table = Table(title="Would spend" if options.dry_run else "About to spend", show_header=False)
    table.add_row("guarantee", str(plan.guarantee))
    names = " or ".join(plan.guarantees)
    several = len(plan.guarantees) > 1
    table.add_row("mechanism", f"{names}, by the number of rows, which is public" if several else names)
    for name, epsilon in plan.choices.items():
        table.add_row("of which", f"epsilon {epsilon:.4g} to choose {_CHOICES[name]} privately")
    for caveat in plan.guarantee.caveats:
        table.add_row("caveat", caveat)
    if accounts is None:
        table.add_row("ledger", "none: nothing adds up what is spent on these rows")
    else:
        table.add_row("ledger", accounts["path"])
        spent, after, limit = (
            budget(accounts["spent"]),
            budget(accounts["spent_after"]),
            (accounts["epsilon"], accounts["delta"]),
        )
        table.add_row("", f"spent {spent}, after this {after}, of {budget(limit)}")
    table.add_row("output", str(options.output))
    note_console().print(table)
