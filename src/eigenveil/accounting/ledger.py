"""`PrivacyLedger`: a privacy budget in a folder with an append-only SQLite database, chained by hash.

The head binds the limits, the adjacency, the unit, the composition and the name of the data set. Every entry holds the
SHA-256 over its own content and the hash before it, so an entry that was changed, removed or slipped in breaks the
chain. A handle remembers which database it opened and the last hash it has seen: one that was deleted, replaced or
rolled back under it is refused, and a change of the working directory does not lead it to another one.

A ledger is a folder because SQLite keeps its journal beside the database: whoever finds the one must find the other.

What never changes meaning: what the hashes are taken over, and the words in the columns. A new meaning gets a new
number of the format.
"""

import hashlib
import json
import os
import secrets
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Self

from ..errors import BudgetError, InvalidParameterError, LedgerError, one_of, positive_number, probability_below_one
from ..files import folder_in_place, given_path, sole_name, sync_database
from ..guarantee import Adjacency, Guarantee, Unit
from .calibration import decimal_above, decimal_below, exact, safe_boundary, zcdp_epsilon, zcdp_rho
from .composition import concentrated_rho

DATABASE = "ledger.sqlite"
"""The file in the folder of a ledger."""
_FORMAT = 3
_APPLICATION_ID = 0x65766C67  # "evlg": tells a ledger from any other SQLite file
_WAIT_SECONDS = 60.0
# A commit is the removal of the rollback journal: EXTRA brings that removal to the disk too before anything is drawn.
_DURABLE = "PRAGMA synchronous = EXTRA"

_SCHEMA = (
    """CREATE TABLE ledger (
        only INTEGER PRIMARY KEY CHECK (only = 1), format INTEGER NOT NULL, epsilon TEXT NOT NULL,
        delta TEXT NOT NULL, adjacency TEXT NOT NULL, composition TEXT NOT NULL, data_set TEXT NOT NULL,
        created TEXT NOT NULL, nonce TEXT NOT NULL, unit TEXT NOT NULL, hash TEXT NOT NULL)""",
    """CREATE TABLE spend (
        entry INTEGER PRIMARY KEY AUTOINCREMENT, spent_at TEXT NOT NULL, what TEXT NOT NULL,
        guarantee TEXT NOT NULL, hash TEXT NOT NULL)""",
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
    """One recorded spend: its number, when (UTC), what for, the guarantee it paid for, and its link of the chain."""

    entry: int
    spent_at: str
    what: str
    guarantee: Guarantee
    hash: str = ""


@dataclass(frozen=True)
class LedgerHead:
    """The terms of a ledger, as text, fixed when it is made; the nonce tells ledgers with the same limits apart."""

    epsilon: str
    delta: str
    adjacency: str
    composition: str
    data_set: str
    created: str
    nonce: str
    unit: str

    @property
    def written(self) -> list[object]:
        """The number of the format, and what that format writes."""
        return [_FORMAT, *(getattr(self, one.name) for one in fields(self))]

    @property
    def hash(self) -> str:
        """The first link of the chain."""
        return _digest(self.written)


def _digest(content: list[object]) -> str:
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def entry_hash(before: str, entry: int, spent_at: str, what: str, guarantee: str) -> str:
    """Return the link of an entry: over the link before it, and over everything that stands in its row."""
    return _digest([before, entry, spent_at, what, guarantee])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class LedgerFile:
    """The database of an existing ledger, open for reading and appending.

    Parameters
    ----------
    path : Path
        The folder. It must be there: `LedgerFile.create` makes one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        instead = "make one with PrivacyLedger.create, or name another"
        try:
            if not stat.S_ISDIR(os.stat(path).st_mode):
                raise LedgerError(f"{path} is a file, but a ledger is a folder; {instead}.")
            os.lstat(path / DATABASE)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise LedgerError(f"There is no ledger at {path}; {instead}.") from error
        except OSError as error:
            raise self._unreadable() from error
        self._file = path.resolve() / DATABASE  # which stays the same file wherever the process goes
        self._opened = self._identity()
        with self._connection() as connection:
            if _rows(connection, "PRAGMA quick_check")[0][0] != "ok":
                raise self._damaged()
            self.head = self._read_head(connection)
        self._seen = 0, self.head.hash  # the number of entries read so far, and the last link
        self.entries()

    @classmethod
    def create(cls, path: Path, terms: Mapping[str, str]) -> None:
        """Make a ledger of these terms (a `LedgerHead` without time and nonce) where nothing is yet."""
        # An emptied folder is so not mistaken for a new one.
        head = LedgerHead(**terms, created=_now(), nonce=secrets.token_hex(16))
        row = (1, *head.written, head.hash)
        try:
            with folder_in_place(path) as draft, _connected(path, draft.absolute() / DATABASE, "rwc") as connection:
                connection.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute(f"INSERT INTO ledger VALUES ({', '.join('?' * len(row))})", row)
                connection.execute("COMMIT")
        except FileExistsError as error:
            raise LedgerError(f"{path} is already there; open it with PrivacyLedger(path), or name another.") from error
        except PermissionError as error:
            raise LedgerError(_explained(path, "readonly")) from error
        except OSError as error:
            raise LedgerError(f"The ledger {path} cannot be made: {error.strerror}.") from error

    def entries(self) -> list[LedgerEntry]:
        """Return all entries, oldest first, after a check of the whole chain."""
        seen = self._seen  # before the file is looked at: another thread may spend meanwhile
        with self._connection() as connection:
            connection.execute("BEGIN")  # one state of the file for all that is compared
            return self._read(connection, seen)

    def append(self, guarantee: Guarantee, what: str, allow: Callable[[list[LedgerEntry]], None]) -> LedgerEntry:
        """Check the chain, ask `allow` (which raises where it refuses), and commit one more entry."""
        seen = self._seen
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")  # from here on, no other process or thread can spend
            entries = self._read(connection, seen)
            allow(entries)
            content = (len(entries) + 1, _now(), what, json.dumps(guarantee.to_dict()))
            link = entry_hash(entries[-1].hash if entries else self.head.hash, *content)
            connection.execute("INSERT INTO spend VALUES (?, ?, ?, ?, ?)", (*content, link))
            connection.execute("COMMIT")
            sync_database(self._file)
        # A database that was moved away or replaced meanwhile has the entry, and the one at the path has not.
        if self._identity() != self._opened:
            raise self._replaced()
        self._seen = content[0], link
        return LedgerEntry(*content[:3], guarantee, link)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._identity() != self._opened:
            raise self._replaced()
        with _connected(self.path, self._file, "rw") as connection:
            yield connection

    def _read(self, connection: sqlite3.Connection, seen: tuple[int, str]) -> list[LedgerEntry]:
        """Read the file inside a transaction, check all of it, and remember how far it went."""
        if self._read_head(connection) != self.head:
            raise self._replaced()
        link, entries, links = self.head.hash, [], [self.head.hash]
        try:
            for row in _rows(connection, "SELECT * FROM spend ORDER BY entry"):
                content = row["entry"], row["spent_at"], row["what"], row["guarantee"]
                link = entry_hash(link, *content)
                if row["entry"] != len(links) or row["hash"] != link:
                    raise self._broken(f"entry {len(links)}")
                guarantee = Guarantee.from_dict(json.loads(row["guarantee"]))
                entries.append(LedgerEntry(*content[:3], guarantee, link))
                links.append(link)
        except (ValueError, LookupError, TypeError) as error:
            raise self._damaged() from error
        # SQLite counts the entries that were ever made in a table of its own, so the last ones are missed too.
        made = _rows(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'spend'")
        if len(entries) != (made[0][0] if made else 0):
            raise self._broken("the last entry")
        number, last = seen
        if number >= len(links) or links[number] != last:
            raise self._replaced()
        self._seen = len(entries), link
        return entries

    def _read_head(self, connection: sqlite3.Connection) -> LedgerHead:
        if _rows(connection, "PRAGMA application_id")[0][0] != _APPLICATION_ID:
            raise LedgerError(f"The database in {self.path} is not a ledger of eigenveil; name another folder.")
        rows = _rows(connection, "SELECT * FROM ledger")
        row = rows[0] if len(rows) == 1 else None
        found = None if row is None or "format" not in row.keys() else row["format"]  # noqa: SIM118
        if row is None or found != _FORMAT:
            raise LedgerError(f"The ledger {self.path} has a format that this version does not read.")
        try:
            head = LedgerHead(**{one.name: row[one.name] for one in fields(LedgerHead)})
            intact = row["hash"] == head.hash
        except (LookupError, TypeError) as error:
            raise self._damaged() from error
        if not intact:
            raise self._broken("its head")
        return head

    def _identity(self) -> tuple[int, int]:
        """Return the device and the inode of the database, or refuse it; asked before every use."""
        try:
            found = sole_name(self._file)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise LedgerError(f"There is no ledger at {self.path} any more; restore it from a backup.") from error
        except PermissionError as error:
            raise self._unreadable() from error
        except OSError as error:
            raise LedgerError(f"The ledger {self.path} cannot be used: {error.strerror}.") from error
        return found.st_dev, found.st_ino

    def _damaged(self) -> LedgerError:
        return LedgerError(f"The ledger {self.path} is damaged; restore it from a backup.")

    def _unreadable(self) -> LedgerError:
        return LedgerError(f"The ledger {self.path} cannot be read; give this user access to its folder.")

    def _broken(self, where: str) -> LedgerError:
        return LedgerError(
            f"The chain of the ledger {self.path} breaks at {where}, so something was changed, removed or inserted; "
            "restore it from a backup."
        )

    def _replaced(self) -> LedgerError:
        return LedgerError(
            f"{self.path} is not the ledger that was opened, or was set back to an earlier state; restore it "
            "from a backup."
        )


@contextmanager
def _connected(path: Path, file: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Connect to a database; errors speak of the ledger at `path`."""
    try:
        # No implicit transactions: BEGIN and COMMIT stand where they matter.
        uri = f"{file.as_uri()}?mode={mode}"
        with closing(sqlite3.connect(uri, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)) as connection:
            connection.execute(_DURABLE)
            connection.row_factory = sqlite3.Row
            yield connection  # what was not committed is rolled back
    except MemoryError as error:  # which is how Python tells most of SQLite's
        raise LedgerError(_explained(path, _NO_MEMORY)) from error
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:  # the text of a damaged file need not be UTF-8
        raise LedgerError(_explained(path, str(error))) from error


def _rows(connection: sqlite3.Connection, statement: str) -> list[sqlite3.Row]:
    """Return all rows of a statement, and end it.

    Closing a connection waits for statements that are still at work: one that met damage, kept by nothing more than
    the frames of its error, would leave the file open and locked.
    """
    with closing(connection.execute(statement)) as cursor:
        return cursor.fetchall()


_NO_MEMORY = "out of memory"  # as SQLite says it


def _explained(path: Path, text: str) -> str:
    if _NO_MEMORY in text:
        return f"There is not enough memory to use the ledger {path}; nothing was drawn, try again."
    if "readonly" in text or "unable to open" in text:
        return f"The ledger {path} cannot be written; give this user write access to it and its folder."
    if "locked" in text:
        return f"The ledger {path} is busy with another process; nothing was spent, try again."
    if "full" in text or "I/O" in text or "Errno" in text:
        return f"The disk of the ledger {path} is full or fails; nothing was drawn."
    return f"The ledger {path} is not readable; restore it from a backup."


__all__ = ["LedgerEntry", "LedgerOrPath", "PrivacyLedger", "opened_ledger"]

_COMPOSITIONS = ("basic", "zcdp")
_LONGEST_NAME = 200


class PrivacyLedger:
    """A privacy budget for one data set, tracked across fits, processes and crashes.

    `create` makes a ledger and ``PrivacyLedger(path)`` opens one. Every spend is recorded before noise is sampled, in a
    SQLite database whose entries are chained by hash. A deleted ledger is never replaced silently.

    Parameters
    ----------
    path : path
        The folder of an existing ledger.

    Attributes
    ----------
    epsilon, delta : float
        The total budget.
    adjacency : Adjacency
        The adjacency of all spends.
    unit : Unit
        The privacy unit of all spends.
    composition : str
        The composition rule.
    data_set : str
        The name of the data set.

    Examples
    --------
    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "study.ledger")
    ...     ledger = PrivacyLedger.create(path, epsilon=1.0, data_set="digits")
    ...     _ = ledger.spend(Guarantee(0.25), "first fit")
    ...     PrivacyLedger(path).remaining
    (0.75, 0.0)
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path: Path = given_path(path)
        self._file = LedgerFile(self.path)
        head = self._file.head
        try:
            self.epsilon: float = positive_number("epsilon", float(head.epsilon))
            self.delta: float = probability_below_one("delta", float(head.delta))
            self.adjacency: Adjacency = Adjacency.parse(head.adjacency)
            self.unit: Unit = Unit.parse(head.unit)
            self.composition: str = one_of("composition", head.composition, _COMPOSITIONS)
            self.data_set: str = _name(head.data_set)
            self._limits: tuple[Fraction, ...] = exact(self.epsilon), exact(self.delta)
            if self.composition == "zcdp":
                self._limits = (exact(zcdp_rho(self.epsilon, self.delta)),)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise LedgerError(f"The ledger {self.path} is damaged; restore it from a backup.") from error

    @classmethod
    def create(
        cls,
        path: str | PathLike[str],
        *,
        epsilon: float,
        delta: float = 0.0,
        adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
        unit: Unit | str = Unit.ROW,
        composition: str = "basic",
        data_set: str,
    ) -> Self:
        """Make a new ledger and open it. Its budget cannot be changed afterwards.

        Parameters
        ----------
        path : path
            The folder to make; it must not exist.
        epsilon : float
            The total budget.
        delta : float
            0 is pure differential privacy.
        adjacency : Adjacency or str
            The adjacency of all spends.
        unit : Unit or str
            ``"row"``, or ``"person"`` for fits with ``privacy_unit=``.
        composition : {"basic", "zcdp"}
            ``"basic"`` adds epsilons and deltas. ``"zcdp"`` adds rho, up to the largest rho that implies (epsilon,
            delta); better for many small or Gaussian releases. Both are valid for adaptive composition.
        data_set : str
            A public name of the data set, in one line.
        """
        positive_number("epsilon", epsilon)
        probability_below_one("delta", delta)
        terms = {
            "epsilon": repr(float(epsilon)),
            "delta": repr(float(delta)),
            "adjacency": Adjacency.parse(adjacency).value,
            "composition": one_of("composition", composition, _COMPOSITIONS),
            "data_set": _name(data_set),
            "unit": Unit.parse(unit).value,
        }
        if composition == "zcdp" and not delta:
            raise LedgerError("A ledger with composition='zcdp' needs a delta above 0.")
        LedgerFile.create(given_path(path), terms)
        return cls(path)

    def spend(self, guarantee: Guarantee, what: str) -> LedgerEntry:
        """Record a spend and return its entry; raise `BudgetError` if it exceeds the budget."""
        try:
            stated = isinstance(what, str) and bool(what.encode())
        except UnicodeEncodeError:  # half of a character, which no database keeps
            stated = False
        if not stated:
            raise InvalidParameterError("what must be a text that states what the spend is for.")
        return self._file.append(guarantee, what, lambda entries: self._check(guarantee, entries))

    def check(self, guarantee: Guarantee) -> None:
        """Raise what `spend` would raise, without spending."""
        self._check(guarantee, self.entries())

    def entries(self) -> list[LedgerEntry]:
        """Return all spends, oldest first."""
        return self._file.entries()

    @property
    def seal(self) -> str:
        """The last hash of the chain. A copy of it proves later that no earlier entry was changed."""
        entries = self.entries()
        return entries[-1].hash if entries else self._file.head.hash

    @property
    def spent(self) -> tuple[float, float]:
        """The (epsilon, delta) spent so far, under the composition rule of the ledger."""
        return self.spent_with()

    def spent_with(self, *others: Guarantee) -> tuple[float, float]:
        """Return the (epsilon, delta) of all spends and of further releases, under the composition rule of the ledger.

        The budget is not checked. Guarantees that this ledger cannot count are refused.
        """
        for guarantee in others:
            self._check_countable(guarantee)
        total = self._total([*(entry.guarantee for entry in self.entries()), *others])
        if self.composition == "zcdp":
            return zcdp_epsilon(decimal_above(total[0]), self.delta), self.delta if total[0] else 0.0
        return decimal_above(total[0]), decimal_above(total[1])

    @property
    def remaining(self) -> tuple[float, float]:
        """The remaining (epsilon, delta).

        For ``"basic"`` the largest further spend. For ``"zcdp"`` the epsilon that `remaining_rho` implies at the delta
        of the ledger: possible for a Gaussian release; a pure release can have less.
        """
        left = self._left()
        if self.composition == "basic":
            return decimal_below(left[0]), decimal_below(left[1])
        implied = zcdp_epsilon(decimal_below(left[0]), self.delta)  # which is rounded up, and is to be spent
        return safe_boundary(lambda epsilon: exact(zcdp_rho(epsilon, self.delta)) <= left[0], 0.0, implied), self.delta

    @property
    def remaining_rho(self) -> float | None:
        """The remaining rho of a ledger with ``composition="zcdp"``, or None."""
        return decimal_below(self._left()[0]) if self.composition == "zcdp" else None

    def _left(self) -> list[Fraction]:
        spent = self._total([entry.guarantee for entry in self.entries()])
        return [max(limit - total, Fraction(0)) for limit, total in zip(self._limits, spent, strict=True)]

    def __repr__(self) -> str:
        return (
            f"<PrivacyLedger {str(self.path)!r}, epsilon={self.epsilon:g}, delta={self.delta:g}, "
            f"adjacency={self.adjacency.value!r}, unit={self.unit.value!r}, composition={self.composition!r}, "
            f"data_set={self.data_set!r}>"
        )

    # What is counted: (epsilon, delta) for basic composition, (rho,) for zCDP, always in exact fractions.

    def _amounts(self, guarantee: Guarantee) -> tuple[Fraction, ...]:
        if self.composition == "basic":
            return exact(guarantee.epsilon), exact(guarantee.delta)
        rho = concentrated_rho(guarantee)
        if rho is None:
            raise LedgerError(
                "A ledger with composition='zcdp' cannot count an (epsilon, delta) release without rho. Use a ledger "
                "with composition='basic'."
            )
        return (exact(rho),)

    def _total(self, guarantees: list[Guarantee]) -> tuple[Fraction, ...]:
        amounts = [self._amounts(guarantee) for guarantee in guarantees]
        return tuple(sum(column, Fraction(0)) for column in zip(*amounts, strict=True)) or tuple(
            Fraction(0) for _ in self._limits
        )

    def _check_countable(self, guarantee: Guarantee) -> None:
        if not isinstance(guarantee, Guarantee):
            raise InvalidParameterError(f"guarantee must be a Guarantee, not {type(guarantee).__name__}.")
        if guarantee.adjacency is not self.adjacency:
            raise LedgerError(
                f"The ledger has adjacency='{self.adjacency}', the release adjacency='{guarantee.adjacency}'. Use a "
                "ledger with the same adjacency."
            )
        if guarantee.unit is not self.unit:
            raise LedgerError(
                f"The privacy unit of the ledger is {self.unit.in_words}, that of the release is "
                f"{guarantee.unit.in_words}. Use a ledger with unit='{guarantee.unit}'."
            )
        if not guarantee.is_private:
            raise BudgetError(
                "A release that is not private (seeded noise, or no finite epsilon) cannot be recorded in a ledger. "
                "Leave out random_state, or leave out the ledger."
            )

    def _check(self, guarantee: Guarantee, entries: list[LedgerEntry]) -> None:
        self._check_countable(guarantee)
        total = self._total([entry.guarantee for entry in entries])
        cost = self._amounts(guarantee)
        if any(spent + more > limit for spent, more, limit in zip(total, cost, self._limits, strict=True)):
            names = ("epsilon", "delta") if self.composition == "basic" else ("rho",)
            needed = " and ".join(f"{name} = {float(c):.6g}" for name, c in zip(names, cost, strict=True))
            left = " and ".join(
                f"{name} = {float(limit - spent):.6g}"
                for name, limit, spent in zip(names, self._limits, total, strict=True)
            )
            raise BudgetError(
                f"This release needs {needed}, but {left} is left in the ledger; spend less (nothing was spent)."
            )


LedgerOrPath = PrivacyLedger | str | PathLike[str]


def opened_ledger(ledger: LedgerOrPath | None) -> PrivacyLedger | None:
    """Return the given ledger, or open the one at a path."""
    if ledger is None or isinstance(ledger, PrivacyLedger):
        return ledger
    if isinstance(ledger, str | PathLike):
        return PrivacyLedger(ledger)
    raise InvalidParameterError(f"ledger must be a PrivacyLedger or the path of one, not {type(ledger).__name__}.")


def _name(data_set: object) -> str:
    """Return the name of a data set, or refuse it."""
    text = data_set.strip() if isinstance(data_set, str) else ""
    if not text or len(text) > _LONGEST_NAME or not text.isprintable():
        raise InvalidParameterError(
            f"data_set must be a public name in one line of at most {_LONGEST_NAME} characters."
        )
    return text
