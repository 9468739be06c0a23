"""The database of a collection, in a folder as that of a ledger: its tables, and the seal over what stands in them.

The seal is the SHA-256 over the protocol, the totals, the counts of refused reports, and the sum of all identifiers.
Their number is that of the reports. It finds damage; whoever may write the file can also write a seal.

What never changes meaning: what the seal is taken over, and the words in the columns. A new meaning gets a new number
of the format.
"""

import hashlib
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import EigenveilError
from ..files import folder_in_place, given_path, sole_name, sync_database
from ..mechanisms.local.base import Totals
from .protocol import LocalProtocol, mechanism_of
from .wire import ID_BYTES

DATABASE = "collection.sqlite"
"""The file in the folder of a collection."""
FORMAT = 2
APPLICATION_ID = 0x65766C63  # "evlc": tells a collection from any other SQLite file
WAIT_SECONDS = 60.0
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises; it quotes a damaged file, whose text need not be UTF-8."""
_SCHEMA = (
    """CREATE TABLE collection (
        only INTEGER PRIMARY KEY CHECK (only = 1), format INTEGER NOT NULL, protocol TEXT NOT NULL,
        n_reports INTEGER NOT NULL, n_seeded INTEGER NOT NULL, ones INTEGER NOT NULL, sums BLOB NOT NULL)""",
    "CREATE TABLE report (id BLOB PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE refused (reason TEXT PRIMARY KEY, count INTEGER NOT NULL)",
    """CREATE TABLE seal (
        only INTEGER PRIMARY KEY CHECK (only = 1), nonce TEXT NOT NULL, ids TEXT NOT NULL, hash TEXT NOT NULL)""",
    f"PRAGMA application_id = {APPLICATION_ID}",
)
# A rollback journal, as of a ledger: what was acknowledged stands in the file itself, and in no log beside it that
# could be deleted. Its removal must be on the disk too, which is what EXTRA adds.
_DURABLE = "PRAGMA synchronous = EXTRA"


class CollectionError(EigenveilError):
    """A collection cannot be used, or two collections cannot be merged."""


@dataclass(frozen=True)
class State:
    """Everything in a collection but the identifiers themselves, as it stands in the file."""

    format: int
    protocol: str
    n_reports: int
    n_seeded: int
    ones: int
    sums: bytes
    nonce: str
    ids: str
    refused: list[tuple[str, int]]
    seal: str

    @property
    def hash(self) -> str:
        """What the seal must be."""
        sums = hashlib.sha256(self.sums).hexdigest()
        content = [*list(vars(self).values())[:5], sums, self.nonce, self.ids, self.refused]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def rows(connection: sqlite3.Connection, statement: str, *values: object) -> list[Any]:
    """Run a statement to its end, and return its rows."""
    with closing(connection.execute(statement, values)) as cursor:
        return cursor.fetchall()


def connected(file: Path | None, mode: str = "rw") -> sqlite3.Connection:
    """Open a database that any thread may use, one after the other; without a file, a temporary one."""
    # "" is SQLite's name for a temporary database that spills to disk when it grows.
    name = "" if file is None else f"{file.as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        name, uri=bool(name), timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute(_DURABLE)
    except BaseException:
        connection.close()
        raise
    return connection


def make(folder: Path, protocol: LocalProtocol) -> None:
    """Make the folder of an empty collection, unless somebody else has just made one."""
    try:
        with folder_in_place(folder) as draft, closing(connected(draft / DATABASE, "rwc")) as connection:
            fill(connection, protocol)
    except FileExistsError:
        pass
    except (OSError, sqlite3.Error) as error:
        raise CollectionError(f"The collection {folder} cannot be made; name a folder that can be written.") from error


def fill(connection: sqlite3.Connection, protocol: LocalProtocol) -> None:
    """Write the state of an empty collection into an empty database."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA:
        connection.execute(statement)
    sums = Totals.empty(mechanism_of(protocol).n_matrices, protocol.n_features).sums.tobytes()
    rows(connection, "INSERT INTO collection VALUES (1, ?, ?, 0, 0, 0, ?)", FORMAT, protocol.to_json(), sums)
    # A random number tells this collection from all others.
    rows(connection, "INSERT INTO seal VALUES (1, ?, '', '')", secrets.token_hex(16))
    seal(connection, 0)
    connection.execute("COMMIT")


def seal(connection: sqlite3.Connection, ids: int) -> None:
    """Seal the state as it stands now; `ids` is the sum of all identifiers."""
    rows(connection, "UPDATE seal SET ids = ?", f"{ids:0{2 * ID_BYTES}x}")
    rows(connection, "UPDATE seal SET hash = ?", read_state(connection).hash)


def read_state(connection: sqlite3.Connection) -> State:
    """Return what stands in the file, or raise ValueError where it is not one state."""
    (head,) = list[tuple[Any, Any, Any, Any, Any, Any]](
        rows(connection, "SELECT format, protocol, n_reports, n_seeded, ones, sums FROM collection")
    )
    ((nonce, ids, found),) = rows(connection, "SELECT nonce, ids, hash FROM seal")
    refused = rows(connection, "SELECT reason, count FROM refused ORDER BY reason")
    return State(*head, nonce, ids, refused, found)


def identifiers(connection: sqlite3.Connection) -> Iterator[bytes]:
    """Yield the identifiers of all counted reports, a few at a time."""
    with closing(connection.execute("SELECT id FROM report")) as cursor:
        while block := cursor.fetchmany(4096):
            yield from (identifier for (identifier,) in block)


def added(ids: int, identifier: bytes) -> int:
    """Return the sum of identifiers with one more."""
    return (ids + int.from_bytes(identifier)) % (1 << 8 * ID_BYTES)


def summed_ids(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return the number and the sum of all identifiers, or raise ValueError where one is not in its place."""
    count, ids, before = 0, 0, b""
    for identifier in identifiers(connection):
        # In any other order a search would miss some of them, which could then count again.
        if not isinstance(identifier, bytes) or len(identifier) != ID_BYTES or identifier <= before:
            raise ValueError("identifiers stand in order")
        count, ids, before = count + 1, added(ids, identifier), identifier
    return count, ids


class Store:
    """One collection's database; without a path, a temporary one that SQLite deletes by itself.

    Any thread may use it, one after the other; another process opens it for itself.

    Parameters
    ----------
    path : path, optional
    protocol : LocalProtocol, optional
        Needed for a new collection; for one that is there it must agree.
    """

    def __init__(self, path: str | PathLike[str] | None, protocol: LocalProtocol | None) -> None:
        self.path: Path | None = None if path is None else given_path(path)
        # The same wherever the process goes.
        self._file = None if self.path is None else self.path.resolve() / DATABASE
        self._lock, self._process = threading.RLock(), os.getpid()
        self._nonce, self._least, self._ids = "", 0, 0
        self._place: tuple[int, int] | None = None
        self._size = 0
        if self._file is not None and not os.path.lexists(self._file.parent):
            if protocol is None:
                raise CollectionError(f"There is no collection at {self.path}; give a protocol to start one.")
            make(self._file.parent, protocol)
        self._check_place()
        try:
            self.connection = connected(self._file)
        except UNREADABLE as error:
            raise self._unopened() from error
        try:
            self.protocol: LocalProtocol = self._opened(protocol)
        except BaseException:
            self.connection.close()  # and leave no lock
            raise

    def _opened(self, protocol: LocalProtocol | None) -> LocalProtocol:
        """Check everything there is, and return the protocol in the file."""
        try:
            if self._file is None and protocol is not None:
                fill(self.connection, protocol)
            # Looked at before anything is written: another program's database stays as it is.
            if rows(self.connection, "PRAGMA application_id") != [(APPLICATION_ID,)]:
                raise CollectionError(f"The database in {self.path} is not a collection of eigenveil.")
        except UNREADABLE as error:
            raise self._unopened() from error
        found = self._read_protocol()
        if protocol is not None and protocol != found:
            raise CollectionError(f"The collection {self.path} was started for another protocol.")
        self.check_whole()
        return found

    def _read_protocol(self) -> LocalProtocol:
        with self.snapshot():
            found = rows(self.connection, "SELECT format, protocol FROM collection")
        if len(found) != 1 or found[0][0] != FORMAT:
            raise CollectionError(f"The collection {self.path} has a format that this version does not read.")
        try:
            return LocalProtocol.from_json(found[0][1])
        except (EigenveilError, TypeError) as error:
            raise self._damaged() from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all that happens inside, or nothing of it."""
        with self._written():
            self._ids = int(self._state().ids, 16)
            yield
            seal(self.connection, self._ids)
        self._check_place()  # a file that was moved away meanwhile has the batch, and the one at the path has not

    @contextmanager
    def _written(self) -> Iterator[None]:
        with self._alone():
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield
                self.connection.execute("COMMIT")
                if self._file is not None:
                    sync_database(self._file)
            except (*UNREADABLE, OSError) as error:
                raise CollectionError(
                    f"The collection {self.path} could not be written; send this batch again, and it counts once."
                ) from error
            finally:
                self._roll_back()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Hold one state for all reads inside, whatever other processes commit meanwhile."""
        with self._alone():
            if self.connection.in_transaction:
                yield
                return
            try:
                self.connection.execute("BEGIN")
                yield
            except UNREADABLE as error:
                raise self._unread(error) from error
            finally:
                self._roll_back()

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            with suppress(sqlite3.Error):  # whoever opens the file next finds the journal, and rolls back
                self.connection.execute("ROLLBACK")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads out, and refuse other processes and other files."""
        if os.getpid() != self._process:
            raise CollectionError("The collection was opened by another process; open it again in this one.")
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            raise CollectionError(f"The collection {self.path} is busy in another thread; nothing was counted.")
        try:
            self._check_place()
            yield
        finally:
            self._lock.release()

    def _check_place(self) -> None:
        """Refuse a file that is not the one that was opened, or is empty."""
        if self._file is None:
            return
        try:
            found = sole_name(self._file)
        except NotADirectoryError as error:
            raise CollectionError(f"{self.path} is a file, and a collection is a folder; name another.") from error
        except OSError as error:
            raise CollectionError(f"The collection {self.path} cannot be used: {error.strerror}.") from error
        if found.st_size == 0:
            raise CollectionError(f"The collection {self.path} has been emptied; restore it from a backup.")
        place = found.st_dev, found.st_ino
        if self._place not in (None, place):
            raise self._replaced()
        self._place = place

    def _state(self) -> State:
        """Return what stands in the file, if its seal is right and it is what was opened."""
        with self._intact():
            state = read_state(self.connection)
            if state.seal != state.hash:
                raise self._damaged()
        if (self._nonce and state.nonce != self._nonce) or state.n_reports < self._least:
            raise self._replaced()
        self._nonce, self._least = state.nonce, state.n_reports
        self._check_size()
        return state

    def _check_size(self) -> None:
        """Refuse a file that has become shorter, which it never does; nobody writes it inside a transaction."""
        try:
            size = 0 if self._file is None else self._file.stat().st_size
        except OSError as error:
            raise self._replaced() from error
        if size < self._size:  # SQLite may have it in memory still
            raise self._replaced()
        self._size = size

    def check_whole(self) -> None:
        """Refuse a collection whose identifiers are not all those that were counted, each in its place."""
        with self.snapshot(), self._intact():
            state = self._state()
            if (state.n_reports, int(state.ids, 16)) != summed_ids(self.connection):
                raise self._damaged()

    def totals(self) -> Totals:
        """Return the committed totals (inside a transaction: those before it)."""
        with self.snapshot(), self._intact():
            state, d = self._state(), self.protocol.n_features
            sums = np.frombuffer(state.sums, dtype="<i8").reshape(mechanism_of(self.protocol).n_matrices, d, d)
            return Totals(sums.astype(np.int64), state.ones, state.n_reports, state.n_seeded)

    def write_totals(self, totals: Totals) -> None:
        """Replace the totals; inside a transaction."""
        sums = totals.sums.astype("<i8").tobytes()
        columns = "n_reports = ?, n_seeded = ?, ones = ?, sums = ?"
        values = totals.n_reports, totals.n_seeded, totals.ones, sums
        rows(self.connection, f"UPDATE collection SET {columns}", *values)

    def claim(self, identifier: bytes) -> bool:
        """Record an identifier, and return whether it is new; inside a transaction."""
        new = self.connection.execute("INSERT OR IGNORE INTO report VALUES (?)", (identifier,)).rowcount == 1
        if new:
            self._ids = added(self._ids, identifier)
        return new

    def identifiers(self) -> Iterator[bytes]:
        """Yield the identifiers of all counted reports, a few at a time; inside a snapshot."""
        return identifiers(self.connection)

    def refused(self) -> dict[str, int]:
        """Return how many reports were refused, by reason."""
        with self.snapshot():
            return dict(self._state().refused)

    def add_refused(self, counts: dict[str, int]) -> None:
        """Add to the counts of refused reports; inside a transaction."""
        self.connection.executemany(
            "INSERT INTO refused VALUES (?, ?) ON CONFLICT (reason) DO UPDATE SET count = count + excluded.count",
            list(counts.items()),
        )

    def close(self) -> None:
        """Close the file; what was committed stays."""
        self.connection.close()

    def __del__(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()

    @contextmanager
    def _intact(self) -> Iterator[None]:
        """Tell values that cannot be as damage."""
        try:
            yield
        except (ValueError, TypeError) as error:
            raise self._damaged() from error

    def _unopened(self) -> CollectionError:
        return CollectionError(f"The collection {self.path} cannot be opened.")

    def _unread(self, error: Exception) -> CollectionError:
        if "out of memory" in str(error):  # as SQLite says it
            return CollectionError(f"There is not enough memory to read the collection {self.path}; try again.")
        return self._damaged()

    def _damaged(self) -> CollectionError:
        return CollectionError(f"The collection {self.path} is damaged; restore it from a backup.")

    def _replaced(self) -> CollectionError:
        return CollectionError(
            f"{self.path} is not the collection that was opened, or was set back to an earlier state; restore "
            "it from a backup."
        )
