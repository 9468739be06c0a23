"""Rows in any order brought together by privacy unit, within a stated memory and beyond it on disk (`Spill`).

The file on disk has no name: nobody else can open it, and it is gone when it is closed and when the process ends,
however that ends. Rows lie in it by the first bits of the key of their person, so that a part of it holds whole
privacy units; each part must fit into memory.
"""

import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..errors import InvalidDataError, InvalidParameterError, integer_between, quoted
from ..moments.kernels import in_one_piece, put_rows
from ..moments.units import Blocks, side_by_side
from . import arrays
from .base import Reader, batch_rows, choose_columns
from .encoder import Declared
from .frames import TableSource
from .identifiers import Codes, Grouping, Keys, check_keys, grouped, grouped_by_key, keys_of
from .schema import Schema

Records = NDArray[np.uint64]

_BITS = 8  # the first ones of a key, by which rows are parted on disk
TOO_MANY_ROWS = (
    "The rows of some persons do not fit into the memory that is allowed; allow more by memory= of open_table."
)


class Spill:
    """Rows with the keys of their privacy units, added in any order and read unit by unit, as often as needed.

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
        self._parts: list[list[tuple[int, int]]] = [[] for _ in range(2**_BITS)]  # offsets and numbers of rows

    @property
    def on_disk(self) -> bool:
        """Whether the rows did not fit into memory."""
        return self._file is not None

    def add(self, row_keys: Keys, rows: Any) -> None:
        """Keep rows with the keys of their privacy units."""
        if scipy.sparse.issparse(rows):
            raise InvalidDataError(
                "Sparse rows that come in parts cannot be sorted by person; give one sparse matrix with an array of "
                "identifiers."
            )
        start = 0
        while start < rows.shape[0]:
            if self._n_waiting == self._most_rows:
                self._flush()
            if not len(self._waiting):
                self._waiting = self._room(self._most_rows)  # of which no more is used than is written to
            stop = min(rows.shape[0], start + self._most_rows - self._n_waiting)
            records = self._waiting[self._n_waiting : self._n_waiting + stop - start]
            records[:, :2], _rows(records)[...] = row_keys[start:stop], rows[start:stop]
            self._n_waiting += stop - start
            start = stop

    def blocks(self, step: int) -> Iterator[Blocks]:
        """Yield all rows in batches of whole privacy units, of about `step` rows each; none can be added any more."""
        if self.on_disk:
            self._flush()
            self._waiting = self._room(0)
            for pieces in self._parts:
                records = self._read(pieces)
                yield from grouped_by_key(records[:, :2]).blocks(_rows(records).__getitem__, step)
            return
        if self._whole is None:
            records = self._waiting[: self._n_waiting]
            grouping = grouped_by_key(records[:, :2])
            self._whole = replace(grouping, order=None), records[grouping.order]
            self._waiting, self._n_waiting = self._room(0), 0
        grouping, records = self._whole
        yield from grouping.blocks(_rows(records).__getitem__, step)

    def close(self) -> None:
        """Close the file on disk; that of a table that is gone is closed by itself."""
        if self._file is not None:
            self._file.close()

    def _flush(self) -> None:
        if not self._n_waiting:
            return
        if self._file is None:
            with _told():
                self._file = tempfile.TemporaryFile()  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        records = self._waiting[: self._n_waiting]
        which = (records[:, 0] >> np.uint64(64 - _BITS)).astype(np.int64)
        counts = np.bincount(which, minlength=2**_BITS)
        with _told():
            offset = self._file.seek(0, 2)
            self._file.write(records[np.argsort(which, kind="stable")].data.cast("B"))
        for pieces, count in zip(self._parts, counts.tolist(), strict=True):
            if count:
                pieces.append((offset, count))
            offset += 8 * self._width * count
        self._n_waiting = 0

    def _read(self, pieces: list[tuple[int, int]]) -> Records:
        """Return the rows of one part of the file."""
        n_rows = sum(count for _, count in pieces)
        if n_rows > self._most_rows:
            raise InvalidDataError(TOO_MANY_ROWS)
        records, start = self._room(n_rows), 0
        for offset, count in pieces:
            with _told():
                self._file.seek(offset)
                if self._file.readinto(records[start : start + count].data.cast("B")) != 8 * self._width * count:
                    raise OSError
            start += count
        return records

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


MEMORY = 2**30
"""Bytes that rows may take while they are sorted by person, unless `memory` says otherwise."""
PARTITION_MEMORY = 2**28
"""The same for the rows of one partition on an engine, of which a worker may hold several."""
_LEAST_MEMORY = 2**16
IDS_NEED_MEMORY = "A list of identifiers needs data in memory. Give the name of the column of the privacy unit instead."


class UnitTable(TableSource):
    """The rows of a table in batches of whole privacy units, `Blocks`.

    Parameters
    ----------
    parts : list of Reader
        At least one.
    declared : Declared
        Which columns to read, and which of them identifies the privacy unit.
    ids : ndarray, list or narwhals Series, optional
        The identifier of every row, where they are beside the table, which is then held in memory.
    memory : int
        Bytes to sort rows in.
    """

    by_unit = True

    def __init__(self, parts: Sequence[Reader], declared: Declared, ids: Any = None, memory: int = MEMORY) -> None:
        super().__init__(parts, declared)
        self._memory = integer_between("memory", memory, _LEAST_MEMORY)
        self._privacy_unit = declared.unit_in(parts[0].columns, parts[0].where)
        for part in parts[1:]:
            choose_columns(part.columns, [self._privacy_unit], part.where)
        self._held = parts[0] if len(parts) == 1 and parts[0].holds_rows else None
        if ids is not None and self._held is None:
            raise InvalidParameterError(IDS_NEED_MEMORY)
        if ids is not None and len(ids) != parts[0].n_rows_hint:
            raise InvalidDataError("There must be one identifier for every row, in the same order.")
        self._ids = ids
        # Where a person stands depends on the rows of others. What came once is kept. The number of rows is private.
        self.came_once: bool = self.reads_once
        self.in_order, self.reads_once, self.n_rows_hint = False, False, None
        self._grouping: Grouping | None = None
        self._rows: NDArray[np.float64] | None = None
        self._spill: Spill | None = None

    @property
    def n_privacy_units(self) -> int | None:
        """The number of privacy units of a table in memory; else None."""
        if self._held is None:
            return None
        if self._grouping is None:
            self._grouping = self._held_grouping(self._held)
        return len(self._grouping.keys)

    def _blocks(self) -> Iterator[Blocks]:
        # A generator, so that all that is raised here is raised where batches are read.
        step = batch_rows(self.n_features)
        if self._held is not None:
            yield from self._held_blocks(self._held, step)
            return
        if self._spill is None:
            self._spill = spilled(self._encoded(step), self.n_features, self._memory)
        yield from self._spill.blocks(step)

    # Held in memory.

    def _held_blocks(self, part: Any, step: int) -> Iterator[Blocks]:
        grouping = self._held_grouping(part) if self._grouping is None else self._grouping
        pick = part.picker(self._encoder)
        if isinstance(part, arrays.SparseReader):
            self._grouping = grouping
            return grouping.blocks(pick, arrays.SPARSE_BATCH_ENTRIES, part.entries)
        if self._rows is None:
            self._rows = self._whole_rows(part, pick, step, grouping.order)
        # Rows that are held lie unit after unit.
        self._grouping = grouping if self._rows is None else replace(grouping, order=None)
        if self._rows is None:
            return grouping.blocks(pick, step)
        return self._grouping.blocks(self._rows.__getitem__, arrays.view_rows(*self._rows.shape))

    def _whole_rows(
        self, part: Any, pick: Callable[[Any], Any], step: int, order: NDArray[np.integer[Any]] | None
    ) -> NDArray[np.float64] | None:
        """Return all rows, unit after unit: as they lie, or as a copy; None where that would be too large."""
        n_rows, columns, plain = part.n_rows_hint, self._encoder.columns, self._encoder.plain
        if order is None and n_rows and not part.by_column and plain and list(columns) == list(part.columns):
            whole = next(part.read(columns, n_rows))
            if in_one_piece(whole):
                return np.asarray(whole)
        if 8 * self.n_features * n_rows > self._memory:
            return None
        # Every reading would collect rows that lie scattered, which takes longer than one whole copy.
        rows, places = np.empty((n_rows, self.n_features)), np.arange(n_rows)
        if order is not None:
            places[order] = np.arange(n_rows)
        size = max(1, arrays.view_rows(*rows.shape)) if plain else step
        parts = (slice(start, start + size) for start in range(0, n_rows, size))

        def put(part: tuple[Any, NDArray[np.int64]]) -> None:
            put_rows(*part, rows)

        for _ in side_by_side(put, ((pick(where), places[where]) for where in parts)):
            pass
        return rows

    def _held_grouping(self, part: Any) -> Grouping:
        if self._ids is not None:
            return grouped(*_checked_keys(self._ids, "The array of identifiers"))
        return grouped(*_checked_keys(part.column(self._privacy_unit), self._told(part)))

    # From pieces.

    def _told(self, part: Reader) -> str:
        return f"The column {quoted(self._privacy_unit)} of {part.where}"

    def _encoded(self, step: int) -> Iterator[tuple[Keys, Any]]:
        """Yield the key of the privacy unit of every row of a batch, and the rows."""
        for part in self._parts:
            for batch in part.read([*self._encoder.columns, self._privacy_unit], step):
                ids, rest = _split(batch, self._privacy_unit)
                codes, keys = _checked_keys(ids, self._told(part))
                yield keys[codes], self._encoder.rows(rest, part.where)


def spilled(batches: Iterable[tuple[Keys, Any]], n_features: int, memory: int) -> Spill:
    """Return the rows of batches, each with the key of its privacy unit, ready to be read unit by unit."""
    spill = Spill(n_features, memory)
    try:
        for row_keys, rows in batches:
            spill.add(row_keys, rows)
    except BaseException:
        spill.close()
        raise
    return spill


def unit_and_ids(privacy_unit: Any, schema: Schema | None) -> tuple[Any, Any]:
    """Return the column that identifies the privacy unit, and the identifiers that were given beside the table."""
    if privacy_unit is None or privacy_unit is False or isinstance(privacy_unit, str):
        return privacy_unit, None
    if isinstance(privacy_unit, Integral) and not isinstance(privacy_unit, bool | np.bool_):
        return int(privacy_unit), None
    if isinstance(schema, Schema) and schema.privacy_unit is not None:
        raise InvalidParameterError(
            "The schema names the column that identifies the privacy unit; leave out privacy_unit."
        )
    return False, _as_identifiers(privacy_unit)


def _as_identifiers(given: Any) -> Any:
    import narwhals as nw

    if isinstance(given, list | tuple):
        return list(given)
    if type(given) is np.ndarray and given.ndim == 1:
        return given
    if hasattr(given, "__arrow_c_array__") and not hasattr(given, "__arrow_c_stream__"):  # an array of Arrow alone
        import pyarrow as pa

        given = pa.chunked_array([given])
    series = nw.from_native(given, allow_series=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series
    array = np.asarray(given)
    if array.ndim != 1 or isinstance(series, nw.DataFrame | nw.LazyFrame) or isinstance(given, np.ma.MaskedArray):
        raise InvalidParameterError("privacy_unit must be a column of the table, or a list of identifiers, one a row.")
    return array


def _checked_keys(ids: Any, told: str) -> tuple[Codes, Keys]:
    codes, keys = keys_of(ids)
    check_keys(keys, told)
    return codes, keys


def _split(batch: Any, privacy_unit: Any) -> tuple[Any, Any]:
    """Return the identifiers of a batch, and the batch without them; in a matrix they are the last column."""
    if scipy.sparse.issparse(batch):
        return batch[:, [-1]].toarray().ravel(), batch[:, :-1]
    if isinstance(batch, np.ndarray):
        return batch[:, -1], batch[:, :-1]
    import narwhals as nw

    return nw.from_native(batch, eager_only=True).get_column(privacy_unit), batch
