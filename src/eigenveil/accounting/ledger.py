"""`PrivacyLedger`: an append-only file of what was spent, shared by any number of processes.

A release records its spend in a committed transaction and only then samples. A process killed in between has
spent budget for nothing, which is safe; the other order would be a release that nobody paid for.
"""

import math
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Self

from ..errors import (
    BudgetError,
    InvalidParameterError,
    LedgerError,
    one_of,
    positive_number,
    probability_below_one,
)
from ..guarantee import Guarantee, Relation, Unit
from ..notebook import notebook_grid, notebook_table
from .calibration import decimal_above, decimal_below, exact, zcdp_epsilon, zcdp_rho
from .composition import concentrated_rho
from .ledger_file import LedgerEntry, LedgerFile

__all__ = ["LedgerEntry", "LedgerOrPath", "PrivacyLedger", "opened_ledger"]

_COMPOSITIONS = ("basic", "zcdp")
_LONGEST_NAME = 200
_SHOWN_ENTRIES = 10


class PrivacyLedger:
    """A budget kept in a SQLite file, safe under crashes and races, and chained by hash.

    ``PrivacyLedger(path)`` opens a ledger and `create` makes one: a ledger that was deleted is never begun anew in
    silence.

    Parameters
    ----------
    path : path
        The ledger file, which must be there.

    Attributes
    ----------
    epsilon, delta : float
        The limit.
    relation : Relation
        The neighbouring relation of every spend.
    unit : Unit
        Whose data every spend is about: one row, as in all ledgers of before there was a choice, or one person.
    composition : str
        How spends add up.
    data_set : str
        The name of the data set that the budget is for.

    Examples
    --------
    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "study.ledger")
    ...     ledger = PrivacyLedger.create(path, epsilon=1.0, data_set="digits")
    ...     _ = ledger.spend(Guarantee(0.25), "first look")
    ...     PrivacyLedger(path).remaining
    (0.75, 0.0)
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._file = LedgerFile(self.path)
        head = self._file.head
        try:
            self.epsilon = positive_number("epsilon", float(head.epsilon))
            self.delta = probability_below_one("delta", float(head.delta))
            self.relation = Relation.parse(head.relation)
            self.unit = Unit.ROW if head.unit is None else Unit.parse(head.unit)
            self.composition = one_of("composition", head.composition, _COMPOSITIONS)
            self.data_set = _name(head.data_set)
            self._limits = self._counted_limits()
        except (ValueError, TypeError, ArithmeticError) as error:
            raise LedgerError(f"The ledger {self.path} is damaged; restore it from a backup.") from error

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """Open the ledger at `path`, as ``PrivacyLedger(path)`` does; where none is, raise `LedgerError`."""
        return cls(path)

    @classmethod
    def create(
        cls,
        path: str | PathLike[str],
        *,
        epsilon: float,
        delta: float = 0.0,
        relation: Relation | str = Relation.REPLACE,
        unit: Unit | str = Unit.ROW,
        composition: str = "basic",
        data_set: str,
    ) -> Self:
        """Make a ledger where there is none, and open it; nothing in it can be changed afterwards.

        Parameters
        ----------
        path : path
            A file that is not there yet.
        epsilon : float
            The limit.
        delta : float
            0 is pure differential privacy.
        relation : Relation or str
            The neighbouring relation of every spend.
        unit : Unit or str
            ``"row"``, or ``"person"`` for fits with ``person=``, which protect a person with all of their rows.
        composition : {"basic", "zcdp"}
            How spends add up. ``"basic"``: epsilons and deltas, in exact decimals. ``"zcdp"``: rho, against the
            largest rho that implies (epsilon, delta); better for many small or Gaussian releases. Both hold when later
            spends are chosen by looking at earlier releases (a privacy filter).
        data_set : str
            What the budget is for: a public name, in one line.
        """
        positive_number("epsilon", epsilon)
        probability_below_one("delta", delta)
        terms = {
            "epsilon": repr(float(epsilon)),
            "delta": repr(float(delta)),
            "relation": Relation.parse(relation).value,
            "composition": one_of("composition", composition, _COMPOSITIONS),
            "data_set": _name(data_set),
            "unit": Unit.parse(unit).value,
        }
        if composition == "zcdp" and not delta:
            raise LedgerError("A ledger with composition='zcdp' needs a delta above 0.")
        LedgerFile.create(Path(path), terms)
        return cls(path)

    def spend(self, guarantee: Guarantee, what: str) -> LedgerEntry:
        """Record a spend durably and return its entry, or raise `BudgetError` with nothing written."""
        return self._file.append(guarantee, str(what), lambda entries: self._check(guarantee, entries))

    def check(self, guarantee: Guarantee) -> None:
        """Raise what `spend` would raise, and spend nothing (another process may still come first)."""
        self._check(guarantee, self.entries())

    def entries(self) -> list[LedgerEntry]:
        """Return all spends, oldest first."""
        return self._file.entries()

    @property
    def seal(self) -> str:
        """The last link of the chain: whoever keeps it elsewhere can tell that nothing before it was rewritten."""
        entries = self.entries()
        return entries[-1].hash if entries else self._file.head.hash

    @property
    def spent(self) -> tuple[float, float]:
        """The (epsilon, delta) spent so far, by the ledger's composition."""
        total = self._total(self.entries())
        if self.composition == "zcdp":
            return zcdp_epsilon(decimal_above(total[0]), self.delta), self.delta if total[0] else 0.0
        return decimal_above(total[0]), decimal_above(total[1])

    @property
    def remaining(self) -> tuple[float, float]:
        """The largest pure epsilon, and the delta, that one more spend may have."""
        spent = self._total(self.entries())
        left = [max(limit - total, Fraction(0)) for limit, total in zip(self._limits, spent, strict=True)]
        if self.composition == "zcdp":
            return math.sqrt(2 * left[0]) * (1 - 1e-15), self.delta
        return decimal_below(left[0]), decimal_below(left[1])

    def __repr__(self) -> str:
        return (
            f"<PrivacyLedger {str(self.path)!r}, epsilon={self.epsilon:g}, delta={self.delta:g}, "
            f"relation={self.relation.value!r}, unit={self.unit.value!r}, composition={self.composition!r}, "
            f"data_set={self.data_set!r}>"
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the limit, what is left of it, and the last spends."""
        entries, left = self.entries(), self.remaining
        facts = {
            "data set": self.data_set,
            "limit": f"epsilon {self.epsilon:g}, delta {self.delta:g}",
            "spent": f"epsilon {self.spent[0]:.6g}, delta {self.spent[1]:.3g}",
            "left for one more": f"epsilon {left[0]:.6g}, delta {left[1]:.3g}",
            "counts": f"{self.relation.value}, {self.unit.in_words}, {self.composition} composition",
        }
        spends = [[entry.entry, entry.what, str(entry.guarantee)] for entry in entries[-_SHOWN_ENTRIES:]]
        more = notebook_grid(["entry", "for", "guarantee"], spends) if spends else ""
        return notebook_table("Privacy ledger", facts, more=more)

    # What is counted: (epsilon, delta) for basic composition, (rho,) for zCDP, always in exact fractions.

    def _amounts(self, guarantee: Guarantee) -> tuple[Fraction, ...]:
        if self.composition == "basic":
            return exact(guarantee.epsilon), exact(guarantee.delta)
        rho = concentrated_rho(guarantee)
        if rho is None:
            raise LedgerError(
                "A ledger with composition='zcdp' cannot count a bare (epsilon, delta) release; use one with "
                "composition='basic'."
            )
        return (exact(rho),)

    def _counted_limits(self) -> tuple[Fraction, ...]:
        if self.composition == "basic":
            return exact(self.epsilon), exact(self.delta)
        return (exact(zcdp_rho(self.epsilon, self.delta)),)

    def _total(self, entries: list[LedgerEntry]) -> tuple[Fraction, ...]:
        amounts = [self._amounts(entry.guarantee) for entry in entries]
        return tuple(sum(column, Fraction(0)) for column in zip(*amounts, strict=True)) or tuple(
            Fraction(0) for _ in self._limits
        )

    def _check(self, guarantee: Guarantee, entries: list[LedgerEntry]) -> None:
        if guarantee.relation is not self.relation:
            raise LedgerError(
                f"This ledger counts the relation '{self.relation}', and the release is for "
                f"'{guarantee.relation}'; use a ledger of that relation."
            )
        if guarantee.unit is not self.unit:
            raise LedgerError(
                f"This ledger counts what is spent on {self.unit.in_words}, and the release is about "
                f"{guarantee.unit.in_words}, which does not add up; use a ledger of unit='{guarantee.unit}'."
            )
        if not guarantee.is_private:
            raise BudgetError(
                "A release that is not private (drawn from a seed, or with no finite epsilon) cannot be paid "
                "for by a ledger; draw it from a secure generator, or without a ledger."
            )
        total = self._total(entries)
        cost = self._amounts(guarantee)
        if any(spent + more > limit for spent, more, limit in zip(total, cost, self._limits, strict=True)):
            names = ("epsilon", "delta") if self.composition == "basic" else ("rho",)
            needed = " and ".join(f"{name} = {float(c):.6g}" for name, c in zip(names, cost, strict=True))
            left = " and ".join(
                f"{name} = {float(limit - spent):.6g}"
                for name, limit, spent in zip(names, self._limits, total, strict=True)
            )
            raise BudgetError(f"This release needs {needed}, but {left} is left; nothing was spent.")


LedgerOrPath = PrivacyLedger | str | PathLike[str]


def opened_ledger(ledger: LedgerOrPath | None) -> PrivacyLedger | None:
    """Return a ledger that was given, or the one at a path; anything else is refused."""
    if ledger is None or isinstance(ledger, PrivacyLedger):
        return ledger
    if isinstance(ledger, str | PathLike):
        return PrivacyLedger(ledger)
    raise InvalidParameterError(f"ledger must be a PrivacyLedger or the path of its file, not {type(ledger).__name__}.")


def _name(data_set: object) -> str:
    """Return the name of a data set, or refuse it."""
    text = data_set.strip() if isinstance(data_set, str) else ""
    if not text or len(text) > _LONGEST_NAME or not text.isprintable():
        raise InvalidParameterError(
            f"data_set must be a public name in one line of at most {_LONGEST_NAME} characters."
        )
    return text
