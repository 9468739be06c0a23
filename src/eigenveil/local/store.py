"""The state of a collection in SQLite: totals, counts, and the identifiers of counted reports.

A report's identifier and its contribution to the totals are committed in one transaction, so after a crash it is
counted once or not at all, and sending it again is always safe.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

import numpy as np

from ..errors import EigenveilError
from ..laws.local.base import Totals
from .protocol import LocalProtocol, law_of

_FORMAT = 1
_APPLICATION_ID = 0x65766C63  # "evlc": tells a collection from any other SQLite file
_WAIT_SECONDS = 60.0
_SCHEMA = (
    """CREATE TABLE collection (
        only INTEGER PRIMARY KEY CHECK (only = 1), format INTEGER NOT NULL, protocol TEXT NOT NULL,
        n_reports INTEGER NOT NULL, n_seeded INTEGER NOT NULL, ones INTEGER NOT NULL, sums BLOB NOT NULL)""",
    "CREATE TABLE report (id BLOB PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE refused (reason TEXT PRIMARY KEY, count INTEGER NOT NULL)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
)


class CollectionError(EigenveilError):
    """A collection file cannot be used, or two collections cannot be merged."""


class Store:
    """One collection's file; without a path, a temporary one that SQLite deletes by itself.

    Parameters
    ----------
    path : path, optional
    protocol : LocalProtocol, optional
        Needed for a new file; for one that is there it must agree.
    """

    def __init__(self, path: str | PathLike[str] | None, protocol: LocalProtocol | None) -> None:
        self.path = None if path is None else Path(path)
        new = self.path is None or not self.path.exists() or self.path.stat().st_size == 0
        if new and protocol is None:
            raise CollectionError(f"There is no collection at {self.path}; give a protocol to start one.")
        # "" is SQLite's name for a temporary database that spills to disk when it grows.
        name = "" if self.path is None else str(self.path)
        try:
            self.connection = sqlite3.connect(name, timeout=_WAIT_SECONDS, isolation_level=None)
            # Looked at before anything is written: another program's database stays as it is.
            found = self.connection.execute("PRAGMA application_id").fetchone()[0]
            if self._n_tables() and found != _APPLICATION_ID:
                raise CollectionError(f"The file {self.path} is not a collection of eigenveil.")
            if self.path is not None:
                self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = FULL")
            if protocol is not None:
                with self.transaction():
                    if self._n_tables() == 0:
                        self._create(protocol)
            form, text = self.connection.execute("SELECT format, protocol FROM collection").fetchone()
        except sqlite3.Error as error:
            raise CollectionError(f"The collection {self.path} cannot be opened.") from error
        if form != _FORMAT:
            raise CollectionError(f"The collection {self.path} has a format that this version does not read.")
        self.protocol = LocalProtocol.from_json(text)
        if protocol is not None and protocol != self.protocol:
            raise CollectionError(f"The collection {self.path} was started for another protocol.")

    def _n_tables(self) -> int:
        return int(self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])

    def _create(self, protocol: LocalProtocol) -> None:
        for statement in _SCHEMA:
            self.connection.execute(statement)
        sums = Totals.empty(law_of(protocol).n_matrices, protocol.n_features).sums
        self.connection.execute(
            "INSERT INTO collection VALUES (1, ?, ?, 0, 0, 0, ?)", (_FORMAT, protocol.to_json(), sums.tobytes())
        )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all that happens inside, or nothing of it."""
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            yield
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise CollectionError(
                f"The collection {self.path} could not be written, and nothing of this batch was counted."
            ) from error
        finally:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Hold one state for all reads inside, whatever other processes commit meanwhile."""
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.execute("ROLLBACK")

    def totals(self) -> Totals:
        """Return the committed totals (inside a transaction: the current ones)."""
        n_reports, n_seeded, ones, blob = self.connection.execute(
            "SELECT n_reports, n_seeded, ones, sums FROM collection"
        ).fetchone()
        d = self.protocol.n_features
        sums = np.frombuffer(blob, dtype="<i8").reshape(law_of(self.protocol).n_matrices, d, d)
        return Totals(sums.astype(np.int64), ones, n_reports, n_seeded)

    def write_totals(self, totals: Totals) -> None:
        """Replace the totals; inside a transaction."""
        self.connection.execute(
            "UPDATE collection SET n_reports = ?, n_seeded = ?, ones = ?, sums = ?",
            (totals.n_reports, totals.n_seeded, totals.ones, totals.sums.astype("<i8").tobytes()),
        )

    def claim(self, identifier: bytes) -> bool:
        """Record an identifier, and return whether it is new; inside a transaction."""
        cursor = self.connection.execute("INSERT OR IGNORE INTO report VALUES (?)", (identifier,))
        return cursor.rowcount == 1

    def identifiers(self) -> Iterator[bytes]:
        """Yield the identifiers of all counted reports, a few at a time."""
        cursor = self.connection.execute("SELECT id FROM report")
        while block := cursor.fetchmany(4096):
            yield from (identifier for (identifier,) in block)

    def refused(self) -> dict[str, int]:
        """Return how many reports were refused, by reason."""
        return dict(self.connection.execute("SELECT reason, count FROM refused ORDER BY reason").fetchall())

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
