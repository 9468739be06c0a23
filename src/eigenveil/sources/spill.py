"""`Spill`: rows of persons that come in any order, kept within a stated memory, and beyond it on disk.

The file has no name: nobody else can open it, and it is gone when it is closed and when the process ends, however that
ends. Rows lie in it by the first bits of the key of their person, so that a part of it holds whole persons; parts that
are too large for memory are parted again by further bits.
"""

import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..errors import InvalidDataError
from ..rows.persons import Blocks
from .grouping import Grouping, grouped_by_key
from .identifiers import Keys

Records = NDArray[np.uint64]

_BITS = 6  # of a key, by which rows are parted in one step
_MOST_LEVELS = 64 // _BITS
TOO_MANY_ROWS = (
    "The rows of one person do not fit into the memory that is allowed; allow more by memory= of open_table."
)


@dataclass
class _Part:
    """Rows whose keys begin with the same bits: where they lie in the file, or the parts that they are parted into."""

    level: int  # which bits of the key part it further
    pieces: list[tuple[int, int]] = field(default_factory=list)  # offset and number of rows
    parts: "list[_Part] | None" = None

    @property
    def n_rows(self) -> int:
        return sum(n_rows for _, n_rows in self.pieces)

    def fresh(self) -> "list[_Part]":
        return [_Part(self.level + 1) for _ in range(2**_BITS)]


class Spill:
    """Rows with the keys of their persons, put in as they come and taken out person by person, as often as needed.

    Parameters
    ----------
    n_features : int
        Width of a row.
    memory : int
        Bytes to use, beside one batch.

    Examples
    --------
    >>> spill = Spill(1, memory=2**20)
    >>> spill.add(np.array([[9, 0], [1, 0], [9, 0]], np.uint64), np.array([[1.0], [2.0], [3.0]]))
    >>> [(block.rows.ravel().tolist(), block.starts.tolist()) for block in spill.blocks(100)]
    [([2.0, 1.0, 3.0], [0, 1])]
    >>> spill.on_disk
    False
    """

    def __init__(self, n_features: int, memory: int) -> None:
        self._width = n_features + 2
        # What is sorted is there twice, beside keys and positions.
        self._most_rows = max(1, memory // (8 * (2 * self._width + 6)))
        self._waiting: Records = self._room(0)
        self._n_waiting = 0
        self._whole: tuple[Grouping, Records] | None = None
        self._file: Any = None
        self._root = _Part(1)
        self._closed = False

    @property
    def on_disk(self) -> bool:
        """Whether the rows did not fit into memory."""
        return self._file is not None

    def add(self, row_keys: Keys, rows: Any) -> None:
        """Keep rows with the keys of their persons."""
        if scipy.sparse.issparse(rows):
            raise InvalidDataError(
                "Sparse rows that come in parts cannot be sorted by person; give one sparse matrix with an array of "
                "identifiers."
            )
        start = 0
        while start < len(rows):
            if self._n_waiting == self._most_rows:
                self._flush()
            if not len(self._waiting):
                self._waiting = self._room(self._most_rows)  # of which no more is used than is written to
            stop = min(len(rows), start + self._most_rows - self._n_waiting)
            records = self._waiting[self._n_waiting : self._n_waiting + stop - start]
            records[:, :2], _rows(records)[...] = row_keys[start:stop], rows[start:stop]
            self._n_waiting += stop - start
            start = stop

    def blocks(self, step: int) -> Iterator[Blocks]:
        """Yield all rows in batches of whole persons, of about `step` rows each; none can be added any more."""
        if self._closed:
            raise InvalidDataError("These rows were closed; open the table anew.")
        if self.on_disk:
            self._flush()
            self._waiting = self._room(0)
            yield from self._blocks_of(self._root, step)
            return
        if self._whole is None:
            records = self._waiting[: self._n_waiting]
            grouping = grouped_by_key(records[:, :2])
            self._whole = Grouping(None, grouping.starts, grouping.keys), records[grouping.order]
            self._waiting, self._n_waiting = self._room(0), 0
        grouping, records = self._whole
        yield from grouping.blocks(lambda where: _rows(records[where]), step)

    def close(self) -> None:
        """Forget all rows."""
        self._closed, self._waiting, self._n_waiting, self._whole = True, self._room(0), 0, None
        if self._file is not None:
            self._file.close()

    def _blocks_of(self, part: _Part, step: int) -> Iterator[Blocks]:
        if part.n_rows > self._most_rows:
            self._part(part)
        if part.parts is not None:
            for one in part.parts:
                yield from self._blocks_of(one, step)
        elif part.pieces:
            yield from self._sorted(part, step)

    def _sorted(self, part: _Part, step: int) -> Iterator[Blocks]:
        records, start = self._room(part.n_rows), 0
        for offset, n_rows in part.pieces:
            self._read(offset, records[start : start + n_rows])
            start += n_rows
        yield from grouped_by_key(records[:, :2]).blocks(lambda where: _rows(records[where]), step)

    def _flush(self) -> None:
        if not self._n_waiting:
            return
        if self._file is None:
            with _told():
                self._file = tempfile.TemporaryFile()  # noqa: SIM115
            weakref.finalize(self, self._file.close)
            self._root.parts = self._root.fresh()
        self._write(self._waiting[: self._n_waiting], self._root.level, self._root.parts or [])
        self._n_waiting = 0

    def _part(self, part: _Part) -> None:
        """Part rows by further bits of their keys; the room that they had in the file is not used again."""
        first: Keys | None = None
        several, parts = False, part.fresh()
        for offset, n_rows in part.pieces:
            for start in range(0, n_rows, self._most_rows):
                records = self._room(min(self._most_rows, n_rows - start))
                self._read(offset + 8 * self._width * start, records)
                first = records[0, :2].copy() if first is None else first
                several = several or bool((records[:, :2] != first).any())
                self._write(records, part.level, parts)
        if not several or part.level == _MOST_LEVELS:
            raise InvalidDataError(TOO_MANY_ROWS)
        part.pieces, part.parts = [], parts  # at the end: broken off midway, the part is as it was

    def _write(self, records: Records, level: int, parts: list[_Part]) -> None:
        """Append rows to the parts that the bits of this level name."""
        shift = np.uint64(64 - _BITS * level)
        which = ((records[:, 0] >> shift) & np.uint64(2**_BITS - 1)).astype(np.uint8)
        counts = np.bincount(which, minlength=2**_BITS)
        with _told():
            offset = self._file.seek(0, 2)
            self._file.write(records[np.argsort(which, kind="stable")].data.cast("B"))
        for one, count in zip(parts, counts.tolist(), strict=True):
            if count:
                one.pieces.append((offset, count))
            offset += 8 * self._width * count

    def _read(self, offset: int, records: Records) -> None:
        with _told():
            self._file.seek(offset)
            if self._file.readinto(records.data.cast("B")) != records.nbytes:
                raise OSError

    def _room(self, n_rows: int) -> Records:
        return np.empty((n_rows, self._width), dtype=np.uint64)


def _rows(records: Records) -> NDArray[np.float64]:
    return records.view(np.float64)[:, 2:]


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError:
        raise InvalidDataError(
            "There is no room on disk to sort the rows by person; set TMPDIR to a larger place, or allow more memory "
            "by memory= of open_table."
        ) from None
