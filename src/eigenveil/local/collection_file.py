"""The file of a collection: its tables, and the seal over what stands in them.

The seal is the SHA-256 over the protocol, the totals, the counts of refused reports, and the sum of all identifiers.
Their number is that of the reports. It finds damage; whoever may write the file can also write a seal.

What never changes meaning: what the seal is taken over, and the words in the columns. A new meaning gets a new number
of the format.
"""

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import EigenveilError
from ..laws.local.base import Totals
from ..whole_file import linked_into_place
from .protocol import LocalProtocol, law_of
from .wire import ID_BYTES

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
    """A collection file cannot be used, or two collections cannot be merged."""


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


def make(file: Path, protocol: LocalProtocol) -> None:
    """Make the file of an empty collection, unless somebody else has just made one."""
    try:
        with linked_into_place(file) as draft, closing(connected(draft, "rwc")) as connection:
            fill(connection, protocol)
    except FileExistsError:
        pass
    except (OSError, sqlite3.Error) as error:
        raise CollectionError(f"The collection {file} cannot be made; name a folder that can be written.") from error


def fill(connection: sqlite3.Connection, protocol: LocalProtocol) -> None:
    """Write the state of an empty collection into an empty database."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA:
        connection.execute(statement)
    sums = Totals.empty(law_of(protocol).n_matrices, protocol.n_features).sums.tobytes()
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
