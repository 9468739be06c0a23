"""`NeighbourDifferences`: rows compared with their neighbours, which needs neither a bound nor a mean.

Rows stand in a circle in a public order, and each is compared with the h rows after it: so with h on
either side, k = 2h comparisons a row and n*h in all. One replaced row changes its own k comparisons and no other, and
docs/explanation/kendall.md proves what that costs. Of at most h rows, the steps go around again without meeting
themselves, so that these numbers hold from two rows on.

A comparison is a function of its two rows alone, to the last bit: `spatial_sign` divides a difference by the root of a
sum of squares of integers, which is exact (in floats it would depend on the batch), and `kendall` asks which number is
larger.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError
from ..numerics import FloatArray
from . import kernels, numpy_kernels
from .bound import NOT_FINITE, finite_rows
from .kernels import Rows, put_rows, rows_as_they_lie
from .numpy_kernels import Comparing, compared, compared_rows, split_mix
from .row_rule import RowRule
from .units import TWICE, Blocks, InBatches, Units

COMPARISONS = 8
"""How many comparisons a row takes part in."""
# Chosen by experiment: docs/explanation/kendall.md.
_UNTIED_SHARE, _FEWEST_UNTIED = 4, 3


def most_untied(n_features: int) -> int:
    """Return the number of untied features beyond which signs are shortened: a quarter of all, or three.

    Noise is as large as the longest comparisons need. Without ties all of them are shortened alike, which changes
    nothing; with ties the bound comes nearer to the comparisons that there are.

    Examples
    --------
    >>> [most_untied(d) for d in (1, 4, 13, 40)]
    [1, 3, 4, 10]
    """
    return max(-(-n_features // _UNTIED_SHARE), min(n_features, _FEWEST_UNTIED))


class HoldsRows:
    """Base of holders of private rows, which are neither copied nor pickled."""

    def _refuse_copy(self, *_: Any) -> NoReturn:
        raise InvalidDataError("Comparisons in the making hold private rows and cannot be copied or pickled.")

    __reduce__ = __reduce_ex__ = __getstate__ = _refuse_copy


class Compared(HoldsRows):
    """Comparisons that are made when they are asked for: as an array of floats, or by a kernel as integers.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    places : range
        Which comparisons, in the count of `Comparing`.
    how : Comparing
    """

    ndim, dtype = 2, np.dtype(np.float64)

    def __init__(self, rows: FloatArray, places: range, how: Comparing) -> None:
        self.rows, self.places, self.how = rows, places, how

    @property
    def shape(self) -> tuple[int, int]:
        """Number of comparisons and of features."""
        return len(self.places), self.rows.shape[1]

    def __getitem__(self, part: slice) -> "Compared":
        return Compared(self.rows, self.places[part], self.how)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        del copy
        return compared(self.rows, self.places, self.how).astype(dtype or self.dtype, copy=False)


class NeighbourDifferences(HoldsRows):
    """Turns batches of rows into comparisons of neighbours, the same ones whatever the cuts between batches.

    It holds raw rows, the first h and the last h, and so it is neither pickled nor copied.

    Parameters
    ----------
    rule : RowRule
        What is compared, how often, and the public scale of every feature.

    Examples
    --------
    >>> ring = NeighbourDifferences(RowRule(1.0, statistic="spatial_sign", comparisons=2))
    >>> [np.asarray(part).tolist() for part in ring.push([[1.0, 0.0], [4.0, 4.0], [4.0, 7.0]])]
    [[[0.6, 0.8], [0.0, 1.0]]]
    >>> [part.shape for part in ring.closing()]
    [(1, 2)]
    """

    def __init__(self, rule: RowRule) -> None:
        self._rule = rule
        self._first: FloatArray | None = None
        self._last: FloatArray | None = None
        self._closed_up_to = 0  # so many of the last rows are compared with one another

    @property
    def _half(self) -> int:
        return self._rule.comparisons // 2

    @property
    def _how(self) -> Comparing:
        rule = self._rule
        scale = None if rule.scale is None else np.asarray(rule.scale)
        return Comparing(self._half, rule.statistic == "kendall", scale, float(rule.grid_factor), rule.bits)

    def push(self, batch: Any) -> "Iterator[FloatArray | Compared]":
        """Return the comparisons that this batch completes."""
        return self._pushed(np.ascontiguousarray(finite_rows(batch)))

    def _pushed(self, rows: FloatArray) -> "Iterator[FloatArray | Compared]":
        """Return the comparisons that these rows complete, which are finite and lie in one piece."""
        half, seam = self._half, []
        if self._last is not None and self._closed_up_to and rows.shape[0] > half:
            # The first of them with one another and with the last ones before, so that the others need not be copied.
            seam = [Compared(np.concatenate([self._last, rows[:half]]), range(half**2), self._how)]
        elif self._last is not None:
            rows = np.concatenate([self._last, rows])
        length = rows.shape[0]
        if self._closed_up_to == 0:
            self._first = rows[:half].copy()
        self._last = rows[max(0, length - half) :].copy()
        if length <= half:  # so few may be all there are, and then others are compared
            return iter(())
        self._closed_up_to = half
        return iter([*seam, Compared(rows, range((length - half) * half), self._how)])

    def closing(self) -> "Iterator[FloatArray | Compared]":
        """Return the comparisons of the first rows, which wrap around, and leave it open for more rows."""
        if self._first is None or self._last is None:
            return
        if self._closed_up_to == 0:
            rows = self._first
            for step in range(self._half if rows.shape[0] > 1 else 0):
                yield compared_rows(rows, np.roll(rows, 1 + step % (rows.shape[0] - 1), axis=0), self._how)
            return
        seam = np.concatenate([self._last, self._first])  # the first rows with one another and with the last
        yield Compared(seam, range(self._half**2), self._how)

    def branch(self) -> Self:
        """Return another one that goes on from here, and leaves this one as it is."""
        other = type(self)(self._rule)
        other._first, other._last, other._closed_up_to = self._first, self._last, self._closed_up_to
        return other


# Entries of a block, 32 MiB: rows of a longer table are compared within their block, and so much is held at a time.
BLOCK_ENTRIES = 2**22
_FEWEST_ROWS = 2**10


def block_rows(n_features: int) -> int:
    """Return the number of rows that are mixed with one another.

    Examples
    --------
    >>> block_rows(10), block_rows(784)
    (419430, 5348)
    """
    return max(_FEWEST_ROWS, BLOCK_ENTRIES // n_features // 2 * 2)  # even, so that pairs lie within a block


def public_order(n_rows: int, block: int = 0) -> NDArray[np.int64]:
    """Return the order in which the rows of a block are compared: that of the hashes of their places.

    Integers alone, so that it is the same on every machine and in every version.

    Examples
    --------
    >>> public_order(6).tolist()
    [2, 4, 5, 1, 0, 3]
    """
    return (kernels.compiled() or numpy_kernels).places_by_hash((block << 32) + 1, n_rows)


class Mixer(HoldsRows):
    """Puts rows in `public_order`, block by block, the same blocks whatever the cuts between batches.

    `lasting` batches stay as they are as long as this does, so that rows that wait need not be copied.

    Examples
    --------
    >>> mixer = Mixer()
    >>> [*mixer.push([[0.0]]), *mixer.push([[1.0], [2.0]])]
    []
    >>> [block.tolist() for block in mixer.rest()]
    [[[2.0], [1.0], [0.0]]]
    """

    def __init__(self, lasting: bool = False) -> None:
        self._lasting = lasting
        self._waiting: tuple[Rows, ...] = ()
        self._blocks = 0

    def push(self, batch: Any) -> list[FloatArray]:
        """Return the blocks that this batch completes."""
        rows = rows_as_they_lie(batch)
        size = block_rows(rows.shape[1])
        complete = []
        while (room := size - self.n_waiting) <= rows.shape[0]:
            complete.append(self._mixed((*self._waiting, rows[:room])))
            self._waiting, rows, self._blocks = (), rows[room:], self._blocks + 1
        if rows.shape[0]:
            kept = rows if self._lasting else _placed((rows,), np.arange(rows.shape[0]))
            self._waiting = (*self._waiting, kept)
        return complete

    @property
    def n_waiting(self) -> int:
        """Number of rows that wait for more."""
        return sum(part.shape[0] for part in self._waiting)

    def rest(self, again: int = 0) -> list[FloatArray]:
        """Return the waiting rows as a block of its own, and leave them waiting.

        The first rows of the block come again at its end: so many of them.
        """
        return [self._mixed(self._waiting, again)] if self._waiting else []

    def branch(self) -> Self:
        """Return another one that goes on from here, and leaves this one as it is."""
        other = type(self)(self._lasting)
        other._waiting, other._blocks = self._waiting, self._blocks
        return other

    def _mixed(self, parts: tuple[Rows, ...], again: int = 0) -> FloatArray:
        order = public_order(sum(part.shape[0] for part in parts), self._blocks)
        places = np.empty_like(order)
        places[order] = np.arange(order.size)
        return _placed(parts, places, again)


def _placed(parts: tuple[Rows, ...], places: NDArray[np.int64], again: int = 0) -> FloatArray:
    """Return a copy of rows, each at its place and some of the first once more; raise where one is not finite."""
    rows, start = np.empty((places.size + again, parts[0].shape[1])), 0
    for part in parts:
        end = start + part.shape[0]
        if not put_rows(part, places[start:end], rows):
            raise InvalidDataError(NOT_FINITE)
        start = end
    rows[start:] = rows[:again]
    return rows


class MixedDifferences(NeighbourDifferences):
    """Rows in cyclic order in `public_order`, the same comparisons whatever the cuts between batches.

    It holds up to a block of raw rows, and so it is neither pickled nor copied. `lasting` is as for `Mixer`.

    Examples
    --------
    >>> rule = RowRule(1.0, statistic="spatial_sign", comparisons=2)
    >>> rows = np.array([[0.0], [1.0], [4.0]])
    >>> ring, mixed = NeighbourDifferences(rule), MixedDifferences(rule)
    >>> plain = [*ring.push(rows[public_order(3)]), *ring.closing()]
    >>> [*mixed.push(rows[:1]), *mixed.push(rows[1:])]
    []
    >>> np.array_equal(np.vstack(list(map(np.asarray, mixed.closing()))), np.vstack(list(map(np.asarray, plain))))
    True
    """

    def __init__(self, rule: RowRule, lasting: bool = False) -> None:
        super().__init__(rule)
        self._mixer = Mixer(lasting)

    def push(self, batch: Any) -> "Iterator[FloatArray | Compared]":
        """Return the comparisons of those blocks that this batch completes."""
        return chain.from_iterable([self._pushed(block) for block in self._mixer.push(batch)])

    def closing(self) -> "Iterator[FloatArray | Compared]":
        """Return the comparisons of what waits and those that wrap around, and leave it open for more rows."""
        if self._last is None and self._mixer.n_waiting > self._half:  # they are all there are
            ring = self._mixer.rest(self._half)[0]
            yield Compared(ring, range((ring.shape[0] - self._half) * self._half), self._how)
            return
        last = self.branch()
        for block in last._mixer.rest():
            yield from (part for part in last._pushed(block) if part.shape[0])
        yield from NeighbourDifferences.closing(last)

    def branch(self) -> Self:
        """Return another one that goes on from here, and leaves this one as it is."""
        other = super().branch()
        other._mixer = self._mixer.branch()
        return other


HashArray = NDArray[np.uint64]

# Entries that are handed on at once, and that are hashed at once.
_BATCH_ENTRIES, _PIECE_ENTRIES = 2**20, 2**20


class ChosenRows(InBatches):
    """One row of every person, in the order of their identifiers.

    Collected in parts, anywhere, and added up, like `SecondMoments`; and **like it private data, also when pickled**.
    It holds as many rows as there are privacy units, 8 bytes an entry.

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
        """Number of privacy units."""
        return sum(keys.shape[0] for keys in self._keys)

    def update(self, X: Any) -> Self:
        """Add one row of each person of `Blocks`."""
        if not isinstance(X, Blocks) or X.rows.shape[1] != self._n_features:
            raise InvalidDataError(
                "One row of every person is chosen from batches of whole privacy units, of one width."
            )
        self._rows, self._keys = (*self._rows, chosen_rows(X)), (*self._keys, X.keys)
        return self

    def __add__(self, other: Self) -> Self:
        total = type(self)(self._n_features)
        total._rows, total._keys = self._rows + other._rows, self._keys + other._keys
        return total

    def batches(self) -> Iterator[FloatArray]:
        """Yield the rows in the order of their identifiers; raise if a privacy unit was given in two parts."""
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
    rows, starts = blocks.rows, blocks.checked().starts
    hashes = split_mix(blocks.keys[:, 0] + split_mix(blocks.keys[:, 1]))
    smallest_hashes = (kernels.compiled() or numpy_kernels).smallest_hashes
    places, first = np.empty(starts.size, dtype=np.int64), 0
    for part in Units(rows, starts).pieces(max(1, _PIECE_ENTRIES // rows.shape[1]), starts.size):
        end = first + part.n_units
        assert part.starts is not None
        places[first:end] = smallest_hashes(finite_rows(part.rows), part.starts, hashes[first:end]) + starts[first]
        first = end
    # At positions `take` needs a third of the time of an index.
    chosen = finite_rows(rows.take(places, axis=0) if isinstance(rows, np.ndarray) else rows[places])
    chosen += 0.0  # -0.0 is 0.0
    return chosen
