"""The state of a collection in SQLite: totals, counts, and the identifiers of counted reports.

A report's identifier and its contribution to the totals are committed in one transaction, so after a crash it is
counted once or not at all, and sending it again is always safe.

The seal of `collection_file` is compared whenever the totals are read, and the identifiers are counted and added up
again when a collection is opened, merged or released. So damage is found before it changes a release.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

import numpy as np

from ..errors import EigenveilError
from ..laws.local.base import Totals
from ..whole_file import sync_folder
from . import collection_file as content
from .collection_file import CollectionError, State, rows
from .protocol import LocalProtocol, law_of


class Store:
    """One collection's file; without a path, a temporary one that SQLite deletes by itself.

    Any thread may use it, one after the other; another process opens the file for itself.

    Parameters
    ----------
    path : path, optional
    protocol : LocalProtocol, optional
        Needed for a new file; for one that is there it must agree.
    """

    def __init__(self, path: str | PathLike[str] | None, protocol: LocalProtocol | None) -> None:
        self.path = None if path is None else Path(path)
        self._file = None if self.path is None else self.path.resolve()  # the same wherever the process goes
        self._lock, self._process = threading.RLock(), os.getpid()
        self._nonce, self._least, self._ids = "", 0, 0
        self._place: tuple[int, int] | None = None
        self._size = 0
        if self._file is not None and not self._file.exists():
            if protocol is None:
                raise CollectionError(f"There is no collection at {self.path}; give a protocol to start one.")
            content.make(self._file, protocol)
        self._check_place()
        try:
            self.connection = content.connected(self._file)
        except content.UNREADABLE as error:
            raise self._unopened() from error
        try:
            self.protocol = self._opened(protocol)
        except BaseException:
            self.connection.close()  # and leave no lock
            raise

    def _opened(self, protocol: LocalProtocol | None) -> LocalProtocol:
        """Check everything there is, and return the protocol in the file."""
        try:
            if self._file is None and protocol is not None:
                content.fill(self.connection, protocol)
            # Looked at before anything is written: another program's database stays as it is.
            if rows(self.connection, "PRAGMA application_id") != [(content.APPLICATION_ID,)]:
                raise CollectionError(f"The file {self.path} is not a collection of eigenveil.")
            if self._file is not None:  # which earlier versions kept in a write-ahead log
                rows(self.connection, "PRAGMA journal_mode = DELETE")
        except content.UNREADABLE as error:
            raise self._unopened() from error
        found = self._read_protocol()
        if protocol is not None and protocol != found:
            raise CollectionError(f"The collection {self.path} was started for another protocol.")
        self.check_whole()
        return found

    def _read_protocol(self) -> LocalProtocol:
        with self.snapshot():
            found = rows(self.connection, "SELECT format, protocol FROM collection")
        if len(found) != 1 or found[0][0] != content.FORMAT:
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
            content.seal(self.connection, self._ids)
        self._check_place()  # a file that was moved away meanwhile has the batch, and the one at the path has not

    @contextmanager
    def _written(self) -> Iterator[None]:
        with self._alone():
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield
                self.connection.execute("COMMIT")
                if self._file is not None:
                    sync_folder(self._file)  # SQLite commits without it where it cannot open the folder
            except (*content.UNREADABLE, OSError) as error:
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
            except content.UNREADABLE as error:
                raise self._damaged() from error
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
        if not self._lock.acquire(timeout=content.WAIT_SECONDS):
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
            found = self._file.stat()
        except OSError as error:
            raise CollectionError(f"The collection {self.path} cannot be read: {error.strerror}.") from error
        if found.st_size == 0:
            raise CollectionError(f"The collection {self.path} has been emptied; restore it from a backup.")
        place = found.st_dev, found.st_ino
        if self._place not in (None, place):
            raise self._replaced()
        self._place = place

    def _state(self) -> State:
        """Return what stands in the file, if its seal is right and it is what was opened."""
        with self._intact():
            state = content.read_state(self.connection)
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
            if (state.n_reports, int(state.ids, 16)) != content.summed_ids(self.connection):
                raise self._damaged()

    def totals(self) -> Totals:
        """Return the committed totals (inside a transaction: those before it)."""
        with self.snapshot(), self._intact():
            state, d = self._state(), self.protocol.n_features
            sums = np.frombuffer(state.sums, dtype="<i8").reshape(law_of(self.protocol).n_matrices, d, d)
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
            self._ids = content.added(self._ids, identifier)
        return new

    def identifiers(self) -> Iterator[bytes]:
        """Yield the identifiers of all counted reports, a few at a time; inside a snapshot."""
        return content.identifiers(self.connection)

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

    def _damaged(self) -> CollectionError:
        return CollectionError(f"The collection {self.path} is damaged; restore it from a backup.")

    def _replaced(self) -> CollectionError:
        return CollectionError(
            f"The file {self.path} is not the collection that was opened, or was set back to an earlier state; restore "
            "it from a backup."
        )
