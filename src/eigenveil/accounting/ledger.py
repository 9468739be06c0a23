"""`PrivacyLedger`: an append-only file of what was spent, shared by any number of processes.

A release records its spend in a committed transaction and only then samples. A process killed in between has
spent budget for nothing, which is safe; the other order would be a release that nobody paid for.
"""

import json
import math
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from os import PathLike
from pathlib import Path

from ..errors import (
    BudgetError,
    LedgerError,
    one_of,
    positive_number,
    probability_below_one,
)
from ..guarantee import Guarantee, Relation
from .calibration import decimal_above, exact, zcdp_epsilon, zcdp_rho
from .composition import concentrated_rho

_FORMAT = 1
_APPLICATION_ID = 0x65766C67  # "evlg": tells a ledger from any other SQLite file
_WAIT_SECONDS = 60.0

_SCHEMA = (
    """CREATE TABLE ledger (
        only INTEGER PRIMARY KEY CHECK (only = 1), format INTEGER NOT NULL, epsilon TEXT NOT NULL,
        delta TEXT NOT NULL, relation TEXT NOT NULL, composition TEXT NOT NULL, created TEXT NOT NULL)""",
    """CREATE TABLE spend (
        entry INTEGER PRIMARY KEY AUTOINCREMENT, spent_at TEXT NOT NULL, what TEXT NOT NULL,
        guarantee TEXT NOT NULL)""",
    *(
        f"CREATE TRIGGER {table}_{action} BEFORE {action} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END"
        for table in ("ledger", "spend")
        for action in ("UPDATE", "DELETE")
    ),
    """CREATE TRIGGER spend_again BEFORE INSERT ON spend
        WHEN EXISTS (SELECT 1 FROM spend WHERE entry = NEW.entry)
        BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END""",
    """CREATE TRIGGER ledger_again BEFORE INSERT ON ledger WHEN (SELECT count(*) FROM ledger) > 0
        BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END""",
    f"PRAGMA application_id = {_APPLICATION_ID}",
)


@dataclass(frozen=True)
class LedgerEntry:
    """One recorded spend: its number, when (UTC), what for, and the guarantee it paid for."""

    entry: int
    spent_at: str
    what: str
    guarantee: Guarantee


class PrivacyLedger:
    """A budget kept in a SQLite file, safe under crashes and races.

    Parameters
    ----------
    path : path
        The ledger file; made if it is not there.
    epsilon : float, optional
        The limit. Needed to make a ledger; for one that is there they may be left out, else they must agree.
    delta : float, optional
        0 is pure differential privacy.
    relation : Relation or str, optional
        The neighbouring relation of every spend ("replace" for a new ledger).
    composition : {"basic", "zcdp"}, optional
        How spends add up. ``"basic"`` (for a new ledger): epsilons and deltas, in exact decimals. ``"zcdp"``:
        rho, against the largest rho that implies (epsilon, delta); better for many small or Gaussian
        releases. Both hold when later spends are chosen by looking at earlier releases (a privacy filter).

    Examples
    --------
    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = PrivacyLedger(os.path.join(folder, "study.ledger"), epsilon=1.0)
    ...     _ = ledger.spend(Guarantee(0.25), "first look")
    ...     ledger.remaining
    (0.75, 0.0)
    """

    def __init__(
        self,
        path: str | PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        relation: Relation | str | None = None,
        composition: str | None = None,
    ) -> None:
        self.path = Path(path)
        if epsilon is not None:
            positive_number("epsilon", epsilon)
        if delta is not None:
            probability_below_one("delta", delta)
        if relation is not None:
            relation = Relation.parse(relation)
        if composition is not None:
            one_of("composition", composition, ("basic", "zcdp"))
        try:
            missing = not self.path.exists()
        except OSError as error:
            raise LedgerError(f"The ledger {self.path} cannot be read; give this user access to its folder.") from error
        if missing:
            if epsilon is None:
                raise LedgerError(f"There is no ledger at {self.path}; give epsilon (and delta) to make one.")
            if composition == "zcdp" and not delta:
                raise LedgerError("A ledger with composition='zcdp' needs a delta above 0.")
            self._create(epsilon, delta or 0.0, relation or Relation.REPLACE, composition or "basic")
        with self._connection() as connection:
            row = self._header(connection)
        try:
            self.epsilon = positive_number("epsilon", float(row["epsilon"]))
            self.delta = probability_below_one("delta", float(row["delta"]))
            self.relation = Relation.parse(row["relation"])
            self.composition = one_of("composition", row["composition"], ("basic", "zcdp"))
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise LedgerError(f"The ledger {self.path} is damaged; restore it from a backup.") from error
        asked = {"epsilon": epsilon, "delta": delta, "relation": relation, "composition": composition}
        for name, value in asked.items():
            if value is not None and value != getattr(self, name):
                raise LedgerError(
                    f"The ledger {self.path} was made with {name} = {getattr(self, name)!s}, not {value!s}; "
                    "open it without that argument or use another file."
                )

    def spend(self, guarantee: Guarantee, what: str) -> LedgerEntry:
        """Record a spend durably and return its entry, or raise `BudgetError` with nothing written."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")  # from here on, no other process can spend
            self._check(guarantee, self._read(connection))
            now = datetime.now(UTC).isoformat(timespec="seconds")
            cursor = connection.execute(
                "INSERT INTO spend (spent_at, what, guarantee) VALUES (?, ?, ?)",
                (now, str(what), json.dumps(guarantee.to_dict())),
            )
            connection.execute("COMMIT")
        return LedgerEntry(cursor.lastrowid or 0, now, str(what), guarantee)

    def check(self, guarantee: Guarantee) -> None:
        """Raise what `spend` would raise, and spend nothing (another process may still come first)."""
        self._check(guarantee, self.entries())

    def entries(self) -> list[LedgerEntry]:
        """Return all spends, oldest first."""
        with self._connection() as connection:
            return self._read(connection)

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
        left = [limit - total for limit, total in zip(self._limits, self._total(self.entries()), strict=True)]
        if self.composition == "zcdp":
            return math.sqrt(2 * left[0]) * (1 - 1e-15), self.delta
        return float(left[0]), float(left[1])

    def __repr__(self) -> str:
        return (
            f"PrivacyLedger({str(self.path)!r}, epsilon={self.epsilon:g}, delta={self.delta:g}, "
            f"relation={self.relation.value!r}, composition={self.composition!r})"
        )

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

    @property
    def _limits(self) -> tuple[Fraction, ...]:
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

    # The file.

    @contextmanager
    def _connection(self, mode: str = "rw", path: Path | None = None) -> Iterator[sqlite3.Connection]:
        try:
            uri = f"{(path or self.path).resolve().as_uri()}?mode={mode}"
            # No implicit transactions: BEGIN and COMMIT stand where they matter, and SQLite's default journal
            # with full synchronization makes a commit survive a kill or a power cut.
            connection = sqlite3.connect(uri, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
            try:
                connection.row_factory = sqlite3.Row
                yield connection
            finally:
                connection.close()  # rolls back what was not committed
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the text of a damaged file need not be UTF-8
            raise LedgerError(self._explain(error)) from error

    def _explain(self, error: Exception) -> str:
        text = str(error)
        if "readonly" in text or "unable to open" in text:
            return f"The ledger {self.path} cannot be written; give this user write access to it and its folder."
        if "locked" in text:
            return f"The ledger {self.path} is busy with another process; nothing was spent, try again."
        return f"The file {self.path} is not a readable ledger ({text}); restore it from a backup."

    def _create(self, epsilon: float, delta: float, relation: Relation, composition: str) -> None:
        # Made whole under a name of its own, then linked into place: nobody ever sees half a ledger, an emptied
        # file is not mistaken for a new one, and of several makers the first wins.
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}.{threading.get_ident()}.part")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        header = (1, _FORMAT, repr(float(epsilon)), repr(float(delta)), relation.value, composition, now)
        try:
            with self._connection("rwc", draft) as connection:
                connection.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?)", header)
                connection.execute("COMMIT")
            with suppress(FileExistsError):
                os.link(draft, self.path)
        except OSError as error:
            raise LedgerError(f"The ledger {self.path} cannot be made: {error.strerror}.") from error
        finally:
            with suppress(OSError):
                draft.unlink()

    def _header(self, connection: sqlite3.Connection) -> sqlite3.Row:
        if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
            raise LedgerError(f"The file {self.path} is not a ledger of eigenveil; name another file.")
        if connection.execute("PRAGMA quick_check").fetchone()[0] != "ok":
            raise LedgerError(f"The ledger {self.path} is damaged; restore it from a backup.")
        row: sqlite3.Row | None = connection.execute("SELECT * FROM ledger").fetchone()
        if row is None or "format" not in row.keys() or row["format"] != _FORMAT:  # noqa: SIM118
            raise LedgerError(f"The ledger {self.path} has a format that this version does not read.")
        return row

    def _read(self, connection: sqlite3.Connection) -> list[LedgerEntry]:
        rows = connection.execute("SELECT entry, spent_at, what, guarantee FROM spend ORDER BY entry")
        try:
            return [
                LedgerEntry(
                    row["entry"],
                    row["spent_at"],
                    row["what"],
                    Guarantee.from_dict(json.loads(row["guarantee"])),
                )
                for row in rows
            ]
        except (ValueError, LookupError, TypeError) as error:
            raise LedgerError(f"The ledger {self.path} is damaged; restore it from a backup.") from error
