"""`PairDirections`: normalized differences of disjoint pairs of rows, which need neither a bound nor a mean.

Rows pair in order of arrival, a public rule. One changed row changes one pair, so n rows give n/2 rows of norm 1
with the usual sensitivities. For elliptical data the second moment of the directions (the spatial sign covariance)
has the eigenvectors of the covariance, in the same order, and an outlier counts no more than any other row.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bound import finite_rows

FloatArray = NDArray[np.float64]


class PairDirections:
    """Turns batches of rows into directions of consecutive pairs, whatever the cuts between batches.

    Examples
    --------
    >>> pairs = PairDirections()
    >>> pairs.push([[1.0, 0.0], [4.0, 4.0], [7.0, 7.0]])
    array([[-0.6, -0.8]])
    >>> pairs.push([[7.0, 5.0]])
    array([[0., 1.]])
    """

    def __init__(self) -> None:
        self._left_over: FloatArray | None = None

    def push(self, batch: Any) -> FloatArray:
        """Return the directions of the pairs that this batch completes; a last odd row waits for the next."""
        rows = finite_rows(batch)
        if self._left_over is not None:
            rows = np.concatenate([self._left_over, rows])
        paired = rows.shape[0] // 2 * 2
        self._left_over = rows[paired:].copy() if paired < rows.shape[0] else None
        # Halved first, so that the difference of two numbers of 1e308 does not overflow.
        difference = 0.5 * rows[0:paired:2] - 0.5 * rows[1:paired:2]
        largest = np.abs(difference).max(axis=1, keepdims=True, initial=0.0)
        np.divide(difference, largest, out=difference, where=largest > 0)
        length = np.linalg.norm(difference, axis=1, keepdims=True)
        np.divide(difference, length, out=difference, where=length > 0)
        return difference
