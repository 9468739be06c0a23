"""Tables whose unit is a person: from any order of rows to batches of whole persons.

Held data are grouped where they are. A file whose rows lie person after person streams, and one row of it is held back
at least: who comes next may be the same person. That they lie so is found by a pass over the identifiers alone, and
every later pass must meet the same persons in the same order. All else goes through a `Spill`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse

from ..errors import InvalidDataError, InvalidParameterError, integer_between
from ..rows.persons import Blocks
from ..rows.seen import SeenKeys
from ..schema import Schema
from .base import FileReader, Reader, batch_rows, choose_columns
from .declared import Declared
from .grouping import Grouping, grouped, grouped_by_key, run_starts
from .identifiers import Codes, Keys, check_keys, keys_of
from .spill import TOO_MANY_ROWS, Spill
from .tables import TableSource

MEMORY = 2**30
"""Bytes that rows may take while they are sorted by person, unless `memory` says otherwise."""
_LEAST_MEMORY = 2**16
IDS_NEED_MEMORY = (
    "Identifiers beside a table are for data held in memory; give the name of the column that tells persons apart."
)


@dataclass(frozen=True, eq=False, repr=False)
class RowKeys:
    """The key of the person of every row, where they were made before; errors call their column as `told`."""

    keys: Keys
    told: str

    def __len__(self) -> int:
        return len(self.keys)


class PersonTable(TableSource):
    """The rows of a table in batches of whole persons, `Blocks`.

    Parameters
    ----------
    parts : list of Reader
        At least one.
    declared : Declared
        Which columns to read, and which of them tells persons apart.
    ids : ndarray, list, narwhals Series or RowKeys, optional
        The identifier of every row, where they are beside the table, which is then held in memory.
    memory : int
        Bytes to sort rows in.
    """

    by_person = True

    def __init__(self, parts: Sequence[Reader], declared: Declared, ids: Any = None, memory: int = MEMORY) -> None:
        super().__init__(parts, declared)
        self._memory = integer_between("memory", memory, _LEAST_MEMORY)
        self._person = declared.person_in(parts[0].columns, parts[0].where)
        for part in parts[1:]:
            choose_columns(part.columns, [self._person], part.where)
        self._held = parts[0] if len(parts) == 1 and getattr(parts[0], "holds_rows", False) else None
        if ids is not None and self._held is None:
            raise InvalidParameterError(IDS_NEED_MEMORY)
        if ids is not None and len(ids) != parts[0].n_rows_hint:
            raise InvalidDataError("There must be one identifier for every row, in the same order.")
        self._ids = ids
        # Where a person stands depends on the rows of others. What came once is kept. The number of rows is private.
        self.came_once = self.reads_once
        self.in_order, self.reads_once, self.n_rows_hint = False, False, None
        self._grouping: Grouping | None = None
        self._sorted: Any = None
        self._spill: Spill | None = None
        self._clustered: bytes | None = None

    def close(self) -> None:
        """Forget what was kept of the rows, in memory or on disk; a table that is gone is closed by itself."""
        if self._spill is not None:
            self._spill.close()
        self._sorted = self._grouping = None

    def _blocks(self) -> Iterator[Blocks]:
        # A generator, so that all that is raised here is raised where batches are read.
        yield from self._whole_persons(batch_rows(self.n_features))

    def _whole_persons(self, step: int) -> Iterator[Blocks]:
        if self._held is not None:
            return self._held_blocks(self._held, step)
        if (
            self._spill is None
            and self._clustered is None
            and all(isinstance(part, FileReader) for part in self._parts)
        ):
            self._clustered = self._order_of_persons()
        if self._clustered is not None:
            return self._streamed(step, self._clustered)
        if self._spill is None:
            self._spill = self._spilled(step)
        return self._spill.blocks(step)

    # Held in memory.

    def _held_blocks(self, part: Any, step: int) -> Iterator[Blocks]:
        self._grouping = self._held_grouping(part) if self._grouping is None else self._grouping
        grouping, pick = self._grouping, part.picker(self._encoder)
        limit, weights = part.batch_limit(step)
        size = 8 * self.n_features * part.n_rows_hint
        if grouping.order is None or not part.by_column or size > self._memory:
            return grouping.blocks(pick, limit, weights)
        # Rows of a frame lie scattered over its columns: to collect them one by one takes longer than one whole copy.
        if self._sorted is None:
            places = np.empty(grouping.order.size, dtype=np.int64)
            places[grouping.order] = np.arange(places.size)
            rows = np.empty((places.size, self.n_features))
            for start in range(0, places.size, step):
                where = slice(start, start + step)
                rows[places[where]] = pick(where)
            self._sorted = rows
        kept = self._sorted
        return Grouping(None, grouping.starts, grouping.keys).blocks(lambda where: kept[where], limit)

    def _held_grouping(self, part: Any) -> Grouping:
        if isinstance(self._ids, RowKeys):
            check_keys(self._ids.keys, self._ids.told)
            return grouped_by_key(self._ids.keys)
        if self._ids is not None:
            return grouped(*_checked_keys(self._ids, "The array of identifiers"))
        return grouped(*_checked_keys(part.column(self._person), self._told(part)))

    # From pieces.

    def _told(self, part: Reader) -> str:
        return f"The column {self._person!r} of {part.where}"

    def _identified(self, step: int, columns: Sequence[Any]) -> Iterator[tuple[Codes, Keys, Any, Reader]]:
        """Yield the persons of the rows of every batch, and the batch without their column."""
        for part in self._parts:
            for batch in part.read([*columns, self._person], step):
                ids, rest = _split(batch, self._person)
                yield *_checked_keys(ids, self._told(part)), rest, part

    def _encoded(self, step: int) -> Iterator[tuple[Keys, Any]]:
        for codes, keys, batch, part in self._identified(step, self._encoder.columns):
            yield keys[codes], self._encoder.rows(batch, part.where)

    def _order_of_persons(self) -> bytes | None:
        """Return a digest of the persons in their order, or None unless the rows of each lie together."""
        seen, order = SeenKeys(), PersonOrder()
        for codes, keys, _, _ in self._identified(batch_rows(1), []):
            if not seen.add(order.add(keys[codes])) or seen.nbytes > self._memory:
                return None
        return order.digest()

    def _streamed(self, step: int, expected: bytes) -> Iterator[Blocks]:
        order = PersonOrder()
        yield from clustered_blocks(self._encoded(step), order.add, self._memory)
        if order.digest() != expected:
            raise InvalidDataError(f"{self._parts[0].where} was changed while it was read; read it again.")

    def _spilled(self, step: int) -> Spill:
        spill = Spill(self.n_features, self._memory)
        try:
            for row_keys, rows in self._encoded(step):
                spill.add(row_keys, rows)
        except BaseException:
            spill.close()
            raise
        return spill


class PersonOrder:
    """The persons that rows belong to, one after the other."""

    def __init__(self) -> None:
        self._last: Keys | None = None
        self._hash = blake2b()

    def add(self, row_keys: Keys) -> Keys:
        """Take the keys of further rows, and return those of the persons that begin with them."""
        starts = run_starts(row_keys)
        if self._last is not None and starts.size and (row_keys[0] == self._last).all():
            starts = starts[1:]
        if len(row_keys):
            self._last = row_keys[-1].copy()
        begun = row_keys[starts]
        self._hash.update(begun.tobytes())
        return begun

    def digest(self) -> bytes:
        """Return what stands for all of them in their order."""
        return self._hash.digest()


def clustered_blocks(
    batches: Iterator[tuple[Keys, Any]], begin: Callable[[Keys], Any], memory: int
) -> Iterator[Blocks]:
    """Yield batches of whole persons from rows that lie person after person; only the last person is held back.

    Parameters
    ----------
    batches : iterator
        The key of the person of every row, and the rows.
    begin : callable
        Takes the keys of the rows of every batch; it sees to it that nobody comes twice.
    memory : int
        Bytes that the rows of one person may take.
    """
    waiting: list[Any] = []
    open_key: Keys | None = None
    for row_keys, rows in batches:
        begin(row_keys)
        starts = run_starts(row_keys)
        last = int(starts[-1])
        same = open_key is not None and bool((row_keys[0] == open_key).all())
        if last or (waiting and not same):  # somebody is complete
            whole = _stacked([*waiting, rows[:last]])
            before = sum(piece.shape[0] for piece in waiting)
            first = starts[1 if same else 0 : -1] + before
            keys = row_keys[starts[1 if same else 0 : -1]]
            if waiting and open_key is not None:
                first, keys = np.append(0, first), np.concatenate([open_key[None], keys])
            yield Blocks(whole, first, keys)
            waiting = []
        waiting.append(rows[last:].copy())  # a view would hold all rows of the batch
        open_key = row_keys[-1].copy()
        if sum(8 * piece.shape[0] * piece.shape[1] for piece in waiting) > memory:
            raise InvalidDataError(TOO_MANY_ROWS)
    if waiting and open_key is not None:
        yield Blocks(_stacked(waiting), np.zeros(1, dtype=np.int64), open_key[None])


def person_and_ids(person: Any, schema: Schema | None) -> tuple[Any, Any]:
    """Return the column that tells persons apart, and the identifiers that were given beside the table."""
    if person is None or person is False or isinstance(person, str):
        return person, None
    if isinstance(person, Integral) and not isinstance(person, bool | np.bool_):
        return int(person), None
    if isinstance(schema, Schema) and schema.person is not None:
        raise InvalidParameterError("The schema names the column that tells persons apart; leave out person.")
    return False, _as_identifiers(person)


def _as_identifiers(given: Any) -> Any:
    import narwhals as nw

    if isinstance(given, list | tuple):
        return list(given)
    if hasattr(given, "__arrow_c_array__") and not hasattr(given, "__arrow_c_stream__"):  # an array of Arrow alone
        import pyarrow as pa

        given = pa.chunked_array([given])
    series = nw.from_native(given, allow_series=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series
    array = np.asarray(given)
    if array.ndim != 1 or isinstance(series, nw.DataFrame | nw.LazyFrame) or isinstance(given, np.ma.MaskedArray):
        raise InvalidParameterError("person must be a column of the table, or a list of identifiers, one a row.")
    return array


def _checked_keys(ids: Any, told: str) -> tuple[Codes, Keys]:
    codes, keys = keys_of(ids)
    check_keys(keys, told)
    return codes, keys


def _split(batch: Any, person: Any) -> tuple[Any, Any]:
    """Return the identifiers of a batch, and the batch without them; in a matrix they are the last column."""
    if scipy.sparse.issparse(batch):
        return batch[:, [-1]].toarray().ravel(), batch[:, :-1]
    if isinstance(batch, np.ndarray):
        return batch[:, -1], batch[:, :-1]
    import narwhals as nw

    return nw.from_native(batch, eager_only=True).get_column(person), batch


def _stacked(pieces: Sequence[Any]) -> Any:
    if any(map(scipy.sparse.issparse, pieces)):
        return scipy.sparse.vstack(pieces, format="csr")
    return np.concatenate(pieces)
