"""Scores kept in a file block by block, so that an audit that was stopped goes on where it was."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError

FloatArray = NDArray[np.float64]

_APPLICATION_ID = 0x65766176  # "evav"; "evau" had no digests
_SCHEMA = (
    "CREATE TABLE audit (only INTEGER PRIMARY KEY CHECK (only = 1), settings TEXT NOT NULL)",
    "CREATE TABLE block (key TEXT PRIMARY KEY, columns INTEGER NOT NULL, scores BLOB NOT NULL, digest BLOB NOT NULL)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
)


class Checkpoint:
    """A SQLite file of finished blocks; a block is there whole or not at all, and never twice.

    Parameters
    ----------
    path : path or None
        None keeps the blocks in memory.
    settings : mapping
        Everything that the scores depend on, in JSON types; a file made with other settings is refused.
    """

    def __init__(self, path: str | PathLike[str] | None, settings: Mapping[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        text = json.dumps(settings, sort_keys=True)
        if self.path is not None and self.path.exists() and not self.path.is_file():
            raise InvalidDataError(f"The checkpoint {self.path} is no regular file; name another.")
        with self._usable():
            self._connection = sqlite3.connect(":memory:" if self.path is None else self.path, isolation_level=None)
            try:
                self._open(text)
            except BaseException:
                self._connection.close()  # and leave no lock
                raise

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise InvalidDataError(f"The checkpoint {self.path} cannot be used; name another file.") from error

    def _open(self, text: str) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute("INSERT INTO audit VALUES (1, ?)", (text,))
        connection.execute("COMMIT")
        ours = connection.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION_ID
        if not ours or connection.execute("SELECT settings FROM audit").fetchone()[0] != text:
            raise InvalidDataError(f"The checkpoint {self.path} belongs to another audit; name another file.")

    def __contains__(self, key: str) -> bool:
        with self._usable():
            found = self._connection.execute("SELECT 1 FROM block WHERE key = ?", (key,)).fetchone()
        return found is not None

    def put(self, key: str, scores: FloatArray) -> None:
        """Keep a block; one that is there already stays as it is."""
        columns = 0 if scores.ndim == 1 else scores.shape[1]
        content = np.ascontiguousarray(scores, dtype="<f8").tobytes()
        row = (key, columns, content, _digest(key, columns, content))
        with self._usable():
            self._connection.execute("INSERT OR IGNORE INTO block VALUES (?, ?, ?, ?)", row)

    def get(self, key: str) -> FloatArray:
        """Return a block as it was kept; one that was changed since is refused."""
        try:
            columns, content, digest = self._connection.execute(
                "SELECT columns, scores, digest FROM block WHERE key = ?", (key,)
            ).fetchone()
            whole = digest == _digest(key, columns, content)
        except (sqlite3.Error, TypeError, ValueError):
            whole = False
        if not whole:
            raise InvalidDataError(f"The checkpoint {self.path} is damaged; name another file.")
        scores = np.frombuffer(content, dtype="<f8")
        return scores.reshape(-1, columns) if columns else scores

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _digest(key: str, columns: int, content: bytes) -> bytes:
    return hashlib.sha256(f"{key}\n{columns}\n".encode() + content).digest()
