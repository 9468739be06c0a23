"""`MixedRing`: rows that stand on the ring in a public order of their own, and not in that of the table.

Tables are sorted by something more often than not, and a row then resembles its neighbours: their differences tell how
rows vary within a stretch of the table, and not in all of it. So rows are mixed before they are compared, in blocks of
a fixed size. The order depends on places alone, never on what stands there: one replaced row still takes part in its
own k comparisons and in no others.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..row_rule import RowRule
from .bound import finite_rows
from .differences import FloatArray, HoldsRows, Ring

# Entries of a block, 32 MiB: rows of a longer table are compared within their block, and so much is held at a time.
BLOCK_ENTRIES = 2**22
_FEWEST_ROWS = 2**10


def block_rows(n_features: int) -> int:
    """Return how many rows are mixed with one another.

    Examples
    --------
    >>> block_rows(10), block_rows(784)
    (419430, 5348)
    """
    return max(_FEWEST_ROWS, BLOCK_ENTRIES // n_features // 2 * 2)  # even, so that pairs lie within a block


def public_order(n_rows: int, block: int = 0) -> NDArray[np.int64]:
    """Return the order in which the rows of a block stand on the ring: that of the hashes of their places.

    Integers alone, so that it is the same on every machine and in every version.

    Examples
    --------
    >>> public_order(6).tolist()
    [2, 4, 5, 1, 0, 3]
    """
    hashes = np.arange(1, n_rows + 1, dtype=np.uint64) + (np.uint64(block) << np.uint64(32))
    return np.argsort(split_mix(hashes), kind="stable")


def split_mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64-bit words mixed by SplitMix64 (Steele et al. 2014): as good as chance, and no two words alike."""
    words = words * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(words ^ (words >> np.uint64(31)))


class Mixer(HoldsRows):
    """Puts rows in `public_order`, block by block, the same blocks whatever the cuts between batches.

    Examples
    --------
    >>> mixer = Mixer()
    >>> [*mixer.push([[0.0]]), *mixer.push([[1.0], [2.0]])]
    []
    >>> [block.tolist() for block in mixer.rest()]
    [[[2.0], [1.0], [0.0]]]
    """

    def __init__(self) -> None:
        self._waiting: tuple[FloatArray, ...] = ()
        self._blocks = 0

    def push(self, batch: Any) -> list[FloatArray]:
        """Return the blocks that this batch completes."""
        rows = finite_rows(batch)
        size = block_rows(rows.shape[1])
        complete = []
        while (room := size - sum(part.shape[0] for part in self._waiting)) <= rows.shape[0]:
            complete.append(self._mixed((*self._waiting, rows[:room])))
            self._waiting, rows, self._blocks = (), rows[room:], self._blocks + 1
        if rows.shape[0]:
            self._waiting = (*self._waiting, rows.copy())
        return complete

    def rest(self) -> list[FloatArray]:
        """Return what waits for more rows as a block of its own, and leave it waiting."""
        return [self._mixed(self._waiting)] if self._waiting else []

    def branch(self) -> Self:
        """Return another one that goes on from here, and leaves this one as it is."""
        other = type(self)()
        other._waiting, other._blocks = self._waiting, self._blocks
        return other

    def _mixed(self, parts: tuple[FloatArray, ...]) -> FloatArray:
        rows = np.concatenate(parts)
        return np.asarray(rows[public_order(rows.shape[0], self._blocks)])


def mixed_blocks(batches: Iterable[Any]) -> Iterator[FloatArray]:
    """Yield the rows of all batches, block by block in their public order."""
    mixer = Mixer()
    for batch in batches:
        yield from mixer.push(batch)
    yield from mixer.rest()


class MixedRing(Ring):
    """A ring of rows in `public_order`, the same comparisons whatever the cuts between batches.

    It holds up to a block of raw rows, and so it is neither pickled nor copied.

    Examples
    --------
    >>> rule = RowRule(1.0, rows="pairs", comparisons=2)
    >>> rows = np.array([[0.0], [1.0], [4.0]])
    >>> ring, mixed = Ring(rule), MixedRing(rule)
    >>> plain = [*ring.push(rows[public_order(3)]), *ring.closing()]
    >>> [*mixed.push(rows[:1]), *mixed.push(rows[1:])]
    []
    >>> all(map(np.array_equal, mixed.closing(), plain))
    True
    """

    def __init__(self, rule: RowRule) -> None:
        super().__init__(rule)
        self._mixer = Mixer()

    def push(self, batch: Any) -> Iterator[FloatArray]:
        """Return the comparisons of those blocks that this batch completes."""
        return chain.from_iterable([super(MixedRing, self).push(block) for block in self._mixer.push(batch)])

    def closing(self) -> Iterator[FloatArray]:
        """Return the comparisons of what waits and those that close the ring, and leave it open for more rows."""
        last = self.branch()
        for block in last._mixer.rest():
            yield from (part for part in Ring.push(last, block) if part.shape[0])
        yield from Ring.closing(last)

    def branch(self) -> Self:
        """Return another one that goes on from here, and leaves this one as it is."""
        other = super().branch()
        other._mixer = self._mixer.branch()
        return other
