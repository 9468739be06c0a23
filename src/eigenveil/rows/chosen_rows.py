"""`ChosenRows`: one row of every person, chosen by a public rule that does not depend on the order of rows.

What stands for a person where rows are compared, or counted one by one. The rule hashes a person's rows, their
identifier with them, and takes the row of the least hash: of two rows that are the same, each has a hash of its own, so
that a row that comes often is chosen as often. It is as good as chance, is a function of that person's rows and
identifier alone, and is the same whatever the order, the batch, the layout or the engine.
"""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError
from .bound import finite_rows
from .in_batches import InBatches
from .mixing import split_mix
from .persons import TWICE, Blocks
from .units import Units

FloatArray = NDArray[np.float64]
HashArray = NDArray[np.uint64]

# Entries that are handed on at once, and that are hashed at once: so many fit a cache.
_BATCH_ENTRIES, _PIECE_ENTRIES = 2**20, 2**17


class ChosenRows(InBatches):
    """One row of every person, in the order of their identifiers.

    Collected in parts, anywhere, and added up, like `SecondMoments`; and **like it private data, also when pickled**.
    It holds as many rows as there are persons, 8 bytes an entry.

    Parameters
    ----------
    n_features : int
        Width of a row.

    Examples
    --------
    >>> batch = Blocks(np.array([[1.0], [2.0], [5.0]]), np.array([0, 2]), np.array([[9, 0], [3, 0]], dtype=np.uint64))
    >>> chosen = ChosenRows(1).update(batch)
    >>> [rows.shape for rows in chosen.batches()], next(chosen.batches())[0]
    ([(2, 1)], array([5.]))
    """

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features
        self._rows: tuple[FloatArray, ...] = ()
        self._keys: tuple[HashArray, ...] = ()

    @property
    def n_rows(self) -> int:
        """How many persons there are."""
        return sum(keys.shape[0] for keys in self._keys)

    def update(self, X: Any) -> Self:
        """Add one row of each person of `Blocks`."""
        if not isinstance(X, Blocks) or X.rows.shape[1] != self._n_features:
            raise InvalidDataError("One row of every person is chosen from batches of whole persons, of one width.")
        self._rows, self._keys = (*self._rows, chosen_rows(X)), (*self._keys, X.keys)
        return self

    def __add__(self, other: Self) -> Self:
        total = type(self)(self._n_features)
        total._rows, total._keys = self._rows + other._rows, self._keys + other._keys
        return total

    def batches(self) -> Iterator[FloatArray]:
        """Yield the rows in the order of the persons' identifiers; raise where a person was given in two parts."""
        if not self._keys:
            return
        keys, rows = np.concatenate(self._keys), np.concatenate(self._rows)
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        keys = keys[order]
        if (keys[1:] == keys[:-1]).all(axis=1).any():
            raise InvalidDataError(TWICE)
        size = max(1, _BATCH_ENTRIES // self._n_features)
        for start in range(0, order.size, size):
            yield rows[order[start : start + size]]


def chosen_rows(blocks: Blocks) -> FloatArray:
    """Return one row of every person, in the order of the batch.

    Examples
    --------
    >>> keys = np.array([[9, 0]], dtype=np.uint64)
    >>> rows = np.array([[1.0, 0.0], [2.0, 3.0], [2.0, 3.0]])
    >>> same = (chosen_rows(Blocks(part, np.array([0]), keys)) for part in (rows, rows[::-1]))
    >>> np.array_equal(*same)
    True
    """
    chosen = np.empty((blocks.checked().n_persons, blocks.rows.shape[1]))
    first = 0
    for part in Units(blocks.rows, blocks.starts).pieces(max(1, _PIECE_ENTRIES // chosen.shape[1]), chosen.shape[0]):
        end = first + part.n_units
        chosen[first:end] = _chosen(finite_rows(part.rows) + 0.0, part, blocks.keys[first:end])  # -0.0 is 0.0
        first = end
    return chosen


def _chosen(rows: FloatArray, part: Units, keys: HashArray) -> FloatArray:
    starts = np.zeros(0, dtype=np.int64) if part.starts is None else part.starts
    sizes = np.diff(starts, append=rows.shape[0])
    persons = np.repeat(np.arange(sizes.size), sizes)
    hashes = split_mix(_row_hashes(rows) + split_mix(keys[:, 0] + split_mix(keys[:, 1]))[persons])
    order = _without_ties(rows, hashes, persons, np.lexsort((hashes, persons)))
    # Equal rows have equal hashes: the first, the second, ... of them get hashes of their own.
    hashes = hashes[order]
    new = np.append(True, (hashes[1:] != hashes[:-1]) | (persons[1:] != persons[:-1]))
    places = np.arange(order.size)
    repeats = places - np.maximum.accumulate(np.where(new, places, 0))
    hashes = split_mix(hashes + split_mix(repeats.astype(np.uint64)))
    return np.asarray(rows[order[np.lexsort((hashes, persons))[starts]]])


def _row_hashes(rows: FloatArray) -> HashArray:
    """Return a hash of the numbers of every row."""
    bits = np.array(rows, order="C").view(np.uint64)
    bits ^= bits >> np.uint64(32)
    bits *= split_mix(np.arange(1, rows.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    bits ^= bits >> np.uint64(32)
    return np.asarray(bits.sum(axis=1, dtype=np.uint64))


def _without_ties(
    rows: FloatArray, hashes: HashArray, persons: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the order with different rows of one hash, which chance hardly makes but a person may, by entries."""
    before, after = order[:-1], order[1:]
    same = np.flatnonzero((hashes[before] == hashes[after]) & (persons[before] == persons[after]))
    apart = same[(rows[before[same]] != rows[after[same]]).any(axis=1)]
    for person in np.unique(persons[before[apart]]):
        low, high = np.searchsorted(persons[order], [person, person + 1])
        part = order[low:high]
        order[low:high] = part[np.lexsort((*rows[part].T[::-1], hashes[part]))]
    return order
