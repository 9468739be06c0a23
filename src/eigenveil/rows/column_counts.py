"""`ColumnCounts`: how many numbers of each column lie above each of its public points, in exact integers.

The statistic behind a range that is found privately. One row adds one to one count of each column, by comparisons
alone, so the counts above all points of a column move one way and by at most 1 where a row is replaced. Where persons
are the unit, one row of each is counted.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .bound import finite_rows
from .chosen_rows import chosen_rows
from .in_batches import InBatches
from .persons import Blocks
from .weighted import without_weights

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class ColumnCounts(InBatches):
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

    def update(self, X: Any) -> Self:
        """Add the rows of a dense or SciPy-sparse matrix, or one row of each person of `Blocks`."""
        rows = chosen_rows(X) if isinstance(X, Blocks) else finite_rows(without_weights(X))
        for bins, places, column in zip(self._bins, self.points, self.columns, strict=True):
            bins += np.bincount(np.searchsorted(places, rows[:, column], side="left"), minlength=bins.size)
        self.n_rows += rows.shape[0]
        return self

    def __add__(self, other: Self) -> Self:
        total = type(self)(self.points, self.columns)
        total.n_rows = self.n_rows + other.n_rows
        total._bins = [mine + its for mine, its in zip(self._bins, other._bins, strict=True)]
        return total

    def above(self) -> tuple[IntArray, ...]:
        """Return, for each column, the number of rows above each of its points."""
        return tuple(self.n_rows - np.cumsum(bins)[:-1] for bins in self._bins)


def half_differences(blocks: Iterable[FloatArray]) -> Iterator[FloatArray]:
    """Yield half the distance of the numbers of disjoint pairs of rows, column by column.

    The first row of a block is paired with the second, the third with the fourth; an odd one at its end has no partner.
    Halves, so that numbers of 1e308 do not overflow. A replaced row changes one pair.

    Examples
    --------
    >>> [pairs.tolist() for pairs in half_differences([np.array([[1.0], [4.0], [9.0]])])]
    [[[1.5]]]
    """
    for rows in blocks:
        half = 0.5 * rows[: rows.shape[0] // 2 * 2]
        yield np.abs(half[::2] - half[1::2])
