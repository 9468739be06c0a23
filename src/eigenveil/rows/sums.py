"""`RowSums`: the exact sum of bounded integer rows, the statistic behind a mean that is measured first."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .bound import RowBound, finite_rows
from .in_batches import InBatches

# Rows that are quantized at once: integers of at most 2^24, so sums of so many are exact in float64.
_BLOCK = 2**14


class RowSums(InBatches):
    """The number of rows and the sum of their integers, exact, whatever the order, batch, layout or engine.

    Private data like `SecondMoments`, and like it collected in parts, anywhere, and added up.

    Examples
    --------
    >>> sums = RowSums(RowBound(1.0, bits=4), 2).update(np.array([[0.5, 0.0], [0.0, 1.0], [3.0, 4.0]]))
    >>> sums.total, sums.n_rows
    (array([17, 28]), 3)
    """

    def __init__(self, bound: RowBound, n_features: int) -> None:
        self.bound = bound
        self.n_rows = 0
        self.total: NDArray[np.int64] = np.zeros(n_features, dtype=np.int64)

    def update(self, X: Any) -> Self:
        """Add the rows of a dense or SciPy-sparse matrix."""
        rows = finite_rows(X)
        for start in range(0, rows.shape[0], _BLOCK):
            integers = self.bound.quantize(rows[start : start + _BLOCK])
            self.total += integers.sum(axis=0).astype(np.int64)
        self.n_rows += rows.shape[0]
        return self

    def __add__(self, other: Self) -> Self:
        total = type(self)(self.bound, self.total.size)
        total.n_rows = self.n_rows + other.n_rows
        total.total = self.total + other.total
        return total
