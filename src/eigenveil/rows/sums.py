"""`RowSums`: the exact sum of bounded integer rows, the statistic behind a mean that is measured first."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError
from .bound import RowBound, dense_rows
from .in_batches import InThreads
from .persons import units_of
from .shortening import squared_norms, to_the_bound
from .units import Units

# Units that are added at once: integers of at most 2^26, so sums of so many are exact in float64. And entries: so many
# stay in a core's cache.
_BLOCK, _BLOCK_ENTRIES = 2**14, 2**18


class RowSums(InThreads):
    """The number of rows and the sum of their integers, exact, whatever the order, batch, layout or engine.

    Where persons are the unit it is their number, and the sum of their averages, each of norm at most 2^bits.

    Private data like `SecondMoments`, and like it collected in parts, anywhere, and added up.

    Examples
    --------
    >>> sums = RowSums(RowBound(1.0, bits=4), 2).update(np.array([[0.5, 0.0], [0.0, 1.0], [3.0, 4.0]]))
    >>> sums.total, sums.n_rows
    (array([17, 28]), 3)
    """

    def __init__(self, bound: RowBound, n_features: int) -> None:
        if bound.most_weight is not None:
            raise InvalidParameterError("The mean of weighted rows is not measured first; append a constant.")
        if bound.person_weight == "rows":
            raise InvalidParameterError(
                "The number of pooled rows is private, so their mean is not measured first; append a constant."
            )
        self.bound = bound
        self.n_rows = 0
        self.total: NDArray[np.int64] = np.zeros(n_features, dtype=np.int64)

    def _of(self, X: Any) -> tuple[int, NDArray[np.int64]]:
        units = units_of(self.bound.takes_persons, X)
        dense = units.with_rows(dense_rows(units.rows))
        buffer, total = np.empty((0, self.total.size)), np.zeros_like(self.total)
        for part in dense.pieces(max(1, _BLOCK_ENTRIES // self.total.size), _BLOCK):
            if buffer.shape[0] < part.rows.shape[0]:
                buffer = np.empty(part.rows.shape)
            integers = self._integers(part, buffer[: part.rows.shape[0]])
            total += (np.ones(part.n_units) @ integers).astype(np.int64)
        return units.n_units, total

    def _add(self, part: tuple[int, NDArray[np.int64]]) -> None:
        self.n_rows += part[0]
        self.total += part[1]

    def _integers(self, part: Units, buffer: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the integers of every unit: of a row, or the truncated average of a person's, shortened."""
        integers = self.bound.single_integers(part.rows, buffer)
        if part.starts is None:
            return integers
        # Rows of norm 2^26 at most, and no more than 2^26 of a person: their sum is exact in float64, and their average
        # is no longer than the longest of them, so that its square is exact too.
        sizes = np.diff(part.starts, append=integers.shape[0])
        averages = np.trunc(np.add.reduceat(integers, part.starts, axis=0) / sizes[:, None])
        to_the_bound(averages, squared_norms(averages), self.bound.bits)
        return np.asarray(averages)

    def __add__(self, other: Self) -> Self:
        total = type(self)(self.bound, self.total.size)
        total.n_rows = self.n_rows + other.n_rows
        total.total = self.total + other.total
        return total
