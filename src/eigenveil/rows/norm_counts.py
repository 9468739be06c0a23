"""`MagnitudeCounts` and `RowSizes`: how many rows lie below each of a public ladder of magnitudes, in exact integers.

The statistic behind a privately chosen norm bound or feature scale. One row adds one count to each column.
"""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .bound import finite_rows

FloatArray = NDArray[np.float64]

# Candidates are the powers of sqrt(2) from 2^-30 to 2^30: a public range wide enough for most units, and steps as fine
# as a bound needs.
LADDER = 2.0 ** (np.arange(-60, 61) / 2)


class MagnitudeCounts:
    """Counts of magnitudes (norms of rows, or sizes of features) on the public ladder.

    Examples
    --------
    >>> counts = MagnitudeCounts(1).update(np.array([[0.9], [1.1], [3.0]]))
    >>> counts.at_most()[0, LADDER.searchsorted(2.0)]
    np.int64(2)
    """

    def __init__(self, n_columns: int) -> None:
        self.n_rows = 0
        # The last bin holds what is above the ladder.
        self._bins = np.zeros((n_columns, LADDER.size + 1), dtype=np.int64)

    def update(self, magnitudes: FloatArray) -> Self:
        """Add rows of nonnegative numbers, one for each column; NaN counts as above the ladder."""
        bins = np.searchsorted(LADDER, magnitudes, side="left")
        for column in range(self._bins.shape[0]):
            self._bins[column] += np.bincount(bins[:, column], minlength=LADDER.size + 1)
        self.n_rows += magnitudes.shape[0]
        return self

    def at_most(self) -> NDArray[np.int64]:
        """Return, for each column and candidate, the number of rows at or below it."""
        return np.cumsum(self._bins, axis=1)[:, :-1]


def row_norms(batch: Any, shift: FloatArray | None, scale: FloatArray | None) -> FloatArray:
    """Return the norms of scale * (x - shift) as one column; infinity where they overflow."""
    rows = scaled_rows(batch, shift, scale)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None])


def scaled_rows(batch: Any, shift: FloatArray | None, scale: FloatArray | None) -> FloatArray:
    """Return scale * (x - shift), dense."""
    rows = finite_rows(batch)
    with np.errstate(over="ignore", invalid="ignore"):
        if shift is not None:
            rows = rows - shift
        return rows if scale is None else rows * scale


class RowSizes(MagnitudeCounts):
    """Counts of how large ``scale * (x - shift)`` is: in norm, or feature by feature.

    Integers like `SecondMoments`, so it too is collected in parts, anywhere, and added up.

    Parameters
    ----------
    shift, scale : array, optional
        Public location and scale of every feature.
    features : int, optional
        The number of features, where each of them is counted by itself; None counts norms.

    Examples
    --------
    >>> sizes = RowSizes(None, None).update(np.array([[3.0, 4.0]]))
    >>> (sizes + sizes).n_rows
    2
    """

    def __init__(self, shift: FloatArray | None, scale: FloatArray | None, features: int | None = None) -> None:
        super().__init__(1 if features is None else features)
        self._shift, self._scale, self._features = shift, scale, features

    def update(self, X: Any) -> Self:
        """Add the rows of a dense or SciPy-sparse matrix."""
        if self._features is None:
            return super().update(row_norms(X, self._shift, self._scale))
        return super().update(np.abs(scaled_rows(X, self._shift, self._scale)))

    def update_from(self, batches: Iterable[Any]) -> Self:
        """Add the rows of all batches."""
        for batch in batches:
            self.update(batch)
        return self

    def __add__(self, other: Self) -> Self:
        total = type(self)(self._shift, self._scale, self._features)
        total.n_rows = self.n_rows + other.n_rows
        total._bins = self._bins + other._bins
        return total
