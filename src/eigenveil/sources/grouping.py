"""Rows brought together person by person, and cut into batches between persons."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..rows.persons import Blocks
from .identifiers import Codes, Keys


@dataclass(frozen=True, eq=False, repr=False)
class Grouping:
    """Where the rows of every person are.

    Parameters
    ----------
    order : ndarray, optional
        The rows, person after person, and those of one person in the order in which they came; None where they lie so.
    starts : ndarray of int64
        Where in that order the rows of every person begin; its last entry is the number of rows.
    keys : ndarray of uint64, of shape (persons, 2)
    """

    order: NDArray[np.integer[Any]] | None
    starts: NDArray[np.int64]
    keys: Keys

    def blocks(
        self,
        pick: Callable[[Any], Any],
        limit: int,
        weights: NDArray[np.int64] | None = None,
    ) -> Iterator[Blocks]:
        """Yield batches of whole persons.

        Parameters
        ----------
        pick : callable
            Takes a slice or an array of positions, and returns these rows.
        limit : int
            How much one batch may hold, unless one person has more.
        weights : ndarray of int64, optional
            How much every row adds to that; 1 by default.
        """
        filled = self.starts
        if weights is not None:
            ordered = weights if self.order is None else weights[self.order]
            filled = np.concatenate([[0], np.cumsum(ordered)])[self.starts]
        low, n_persons = 0, len(self.keys)
        while low < n_persons:
            full = int(np.searchsorted(filled, filled[low] + limit, side="right")) - 1
            high = min(max(full, low + 1), n_persons)
            where = slice(int(self.starts[low]), int(self.starts[high]))
            rows = pick(where if self.order is None else self.order[where])
            yield Blocks(rows, self.starts[low:high] - self.starts[low], self.keys[low:high])
            low = high


def grouped(codes: Codes, keys: Keys) -> Grouping:
    """Return the grouping of rows by the codes of their persons, which are numbered by first appearance.

    Examples
    --------
    >>> grouping = grouped(np.array([0, 1, 0]), np.zeros((2, 2), np.uint64))
    >>> grouping.order.tolist(), grouping.starts.tolist()
    ([0, 2, 1], [0, 2, 3])
    """
    if not (codes[1:] < codes[:-1]).any():
        changes = np.flatnonzero(np.diff(codes, prepend=-1, append=len(keys)))
        return Grouping(None, changes.astype(np.int64), keys)
    # A sparse matrix with one entry a row, turned on its side, is a counting sort.
    entries = np.ones(codes.size, dtype=np.int8), codes, np.arange(codes.size + 1)
    by_person = scipy.sparse.csr_array(entries, shape=(codes.size, len(keys))).tocsc()
    return Grouping(by_person.indices, by_person.indptr.astype(np.int64), keys)


def grouped_by_key(row_keys: Keys) -> Grouping:
    """Return the grouping of rows by the keys of their persons, in the order of keys.

    Examples
    --------
    >>> grouped_by_key(np.array([[9, 0], [1, 0], [9, 0]], np.uint64)).order.tolist()
    [1, 0, 2]
    """
    order = np.argsort(row_keys[:, 0], kind="stable")
    ordered = row_keys[order]
    same_half = ordered[1:, 0] == ordered[:-1, 0]
    if (same_half & (ordered[1:, 1] != ordered[:-1, 1])).any():  # two persons share half of their key
        order = np.lexsort((row_keys[:, 1], row_keys[:, 0]))
        ordered = row_keys[order]
    starts = run_starts(ordered)
    return Grouping(order, np.append(starts, len(row_keys)), ordered[starts])


def run_starts(row_keys: Keys) -> NDArray[np.int64]:
    """Return where rows begin that belong to another person than the row before."""
    changes = (row_keys[1:] != row_keys[:-1]).any(axis=1)
    return np.flatnonzero(np.concatenate([np.ones(min(1, len(row_keys)), np.bool_), changes]))
