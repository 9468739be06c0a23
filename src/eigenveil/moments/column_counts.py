"""Counts of columns, in exact integers: the statistics behind ranges and medians that are found privately.

One row adds one to one count of each column, by comparisons alone, so the counts above all points of a column move one
way and by at most 1 where a row is replaced. Where privacy units are the unit, one row of each is counted.

"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from ..errors import InvalidDataError
from ..numerics import FloatArray, IntArray
from .bound import NOT_FINITE
from .comparisons import block_rows, chosen_rows, public_order
from .counts import RowSizes
from .kernels import Rows, kernels_for, rows_as_they_lie
from .numpy_kernels import SIZES, VALUES, empty_pair_bins
from .units import Blocks, InThreads, side_by_side, units_of, without_weights


class ColumnCounts(InThreads):
    """Counts of the numbers of every column, between public points of its own.

    Private data like `SecondMoments`, and like it collected in parts, anywhere, and added up.

    Parameters
    ----------
    points : sequence of ndarray
        Ascending points, one array a column.
    columns : sequence of int, optional
        The columns that are counted; all by default.

    Examples
    --------
    >>> counts = ColumnCounts([np.array([0.0, 1.0]), np.array([5.0])]).update(np.array([[0.5, 5.0], [2.0, 6.0]]))
    >>> [column.tolist() for column in counts.above()]
    [[2, 1], [1]]
    """

    def __init__(self, points: Sequence[FloatArray], columns: Sequence[int] | None = None) -> None:
        self.points = tuple(points)
        self.columns = tuple(range(len(self.points)) if columns is None else columns)
        self.n_rows = 0
        self._bins = [np.zeros(places.size + 1, dtype=np.int64) for places in self.points]

    @classmethod
    def of(
        cls, points: Sequence[FloatArray], columns: Sequence[int], n_rows: int, bins: Iterable[IntArray]
    ) -> "ColumnCounts":
        """Return counts that were made elsewhere."""
        made = cls(points, columns)
        made.n_rows, made._bins = n_rows, list(bins)
        return made

    def _of(self, X: Any) -> tuple[int, list[IntArray]]:
        """Return the number of rows of a batch and their bins; of `Blocks`, one row of each person is counted."""
        rows = chosen_rows(X) if isinstance(X, Blocks) else rows_as_they_lie(without_weights(X))
        bins = kernels_for(rows).between(rows, self.points, self.columns)
        if bins is None:
            raise InvalidDataError(NOT_FINITE)
        return rows.shape[0], bins

    def _add(self, part: tuple[int, list[IntArray]]) -> None:
        n_rows, counted = part
        for bins, more in zip(self._bins, counted, strict=True):
            bins += more
        self.n_rows += n_rows

    def __add__(self, other: Self) -> Self:
        total = type(self)(self.points, self.columns)
        total.n_rows = self.n_rows + other.n_rows
        total._bins = [mine + its for mine, its in zip(self._bins, other._bins, strict=True)]
        return total

    def above(self) -> tuple[IntArray, ...]:
        """Return the number of rows above each point, one array a column."""
        return tuple(self.n_rows - np.cumsum(bins)[:-1] for bins in self._bins)


class SizesAndColumns(RowSizes):
    """Counts of the norms of rows, as `RowSizes` has them, and of the numbers of their columns, in one reading.

    Parameters
    ----------
    shift, scale, unit_weight
        Those of `RowSizes`.
    points, columns
        Those of `ColumnCounts`, of numbers as they are.

    Examples
    --------
    >>> counts = SizesAndColumns(None, None, None, [np.array([0.0, 1.0])], [1]).update(np.array([[3.0, 4.0]]))
    >>> counts.n_rows, counts.columns.above()[0].tolist()
    (1, [1, 1])
    """

    def __init__(
        self,
        shift: FloatArray | None,
        scale: FloatArray | None,
        unit_weight: str | None,
        points: Sequence[FloatArray],
        columns: Sequence[int],
    ) -> None:
        super().__init__(shift, scale, unit_weight=unit_weight)
        self.columns = ColumnCounts(points, columns)

    def _of(self, X: Any) -> Any:
        if isinstance(X, Blocks):  # of a person one row is counted, and the norm of all rows
            return super()._of(X), self.columns._of(X)
        rows = rows_as_they_lie(units_of(self._weight is not None, without_weights(X)).rows)
        counted = self._counted_by(rows.shape[1])
        both = kernels_for(rows, counted[1]).norms_and_between
        left, bins = both(rows, *counted, self.columns.points, self.columns.columns)
        sizes = self._with_left(rows, counted[-1], left)
        if bins is None:
            raise InvalidDataError(NOT_FINITE)
        return sizes, (rows.shape[0], bins)

    def _add(self, part: Any) -> None:
        sizes, columns = part
        super()._add(sizes)
        self.columns._add(columns)

    def __add__(self, other: Self) -> Self:
        total = type(self)(self._shift, self._scale, self._weight, self.columns.points, self.columns.columns)
        total.n_rows, total._bins = self.n_rows + other.n_rows, self._bins + other._bins
        total.columns = self.columns + other.columns
        return total


class RangeCounts:
    """All that ranges are found from but their last steps, in one reading: sizes of differences, and of numbers.

    Rows stand in their public order, and disjoint pairs of them are compared: the first with the second, the third with
    the fourth. A replaced row changes one pair, and its own numbers.

    Parameters
    ----------
    columns : sequence of int
        The columns that are counted.

    Examples
    --------
    >>> counts = RangeCounts([0]).update_from([np.array([[1.0], [4.0]]), np.array([[9.0]])])
    >>> counts.n_rows, counts.pairs.n_rows
    (3, 1)
    >>> [column.tolist() for column in counts.at([np.array([-2.0, 2.0, 4.0])]).above()]
    [[3, 2, 1]]
    """

    def __init__(self, columns: Sequence[int]) -> None:
        self.columns, self.n_rows = tuple(columns), 0
        self._n_pairs = 0
        self._pairs, self._values = empty_pair_bins(len(self.columns))

    def update_from(self, batches: Iterable[Any]) -> Self:
        """Add the rows of all batches, in this one call; one must stay as it is while the next ones are read."""
        for n_rows, pairs, values in side_by_side(self._counted, _blocks(batches)):
            self.n_rows += n_rows
            self._n_pairs += n_rows // 2
            self._pairs += pairs
            self._values += values
        return self

    def _counted(self, block: tuple[int, list[Rows]]) -> tuple[int, IntArray, IntArray]:
        """Return the number of rows of a block, and the bins of pairs and of numbers."""
        number, parts = block
        order = public_order(sum(part.shape[0] for part in parts), number)
        bins = kernels_for(parts[0]).count_pairs(parts, order, self.columns)
        if bins is None:
            raise InvalidDataError(NOT_FINITE)
        return order.size, *bins

    @property
    def pairs(self) -> ColumnCounts:
        """Counts of half the distances of disjoint pairs, between `SIZES`."""
        return ColumnCounts.of([SIZES] * len(self.columns), self.columns, self._n_pairs, self._pairs)

    def at(self, points: Sequence[FloatArray]) -> ColumnCounts:
        """Return counts of the numbers between points that are plus or minus a power of the root of 2.

        Such a power is from 2^-100 to 2^161.
        """
        made = []
        # Positive numbers beyond a point, and negative ones at it or beyond it.
        beyond = np.cumsum(self._values[:, :, ::-1], axis=2)[:, :, -2::-1]
        for column, places in zip(beyond, points, strict=True):
            at = np.searchsorted(VALUES, np.abs(places))
            assert np.array_equal(VALUES[at], np.abs(places))
            ends = np.empty(places.size + 2, dtype=np.int64)
            ends[0], ends[-1] = 0, self.n_rows
            ends[1:-1] = np.where(places > 0, self.n_rows - column[0, at], column[1, at])
            made.append(ends[1:] - ends[:-1])
        return ColumnCounts.of(points, self.columns, self.n_rows, made)


def _blocks(batches: Iterable[Any]) -> Iterator[tuple[int, list[Rows]]]:
    """Yield the blocks of `public_order` with their numbers, each as parts of batches, which are not copied."""
    parts: list[Rows] = []
    there, number = 0, 0
    for batch in batches:
        rows = rows_as_they_lie(batch)
        size = block_rows(rows.shape[1])
        while (room := size - there) <= rows.shape[0]:
            yield number, [*parts, rows[:room]]
            parts, there, number, rows = [], 0, number + 1, rows[room:]
        parts.append(rows)
        there += rows.shape[0]
    if there:
        yield number, parts
