"""`PairDirections`: normalized differences of disjoint pairs of rows, which need neither a bound nor a mean.

Rows pair in order of arrival, a public rule. One changed row changes one pair, so n rows give n/2 rows of norm 1
with the usual sensitivities. For elliptical data the second moment of the directions (the spatial sign covariance)
has the eigenvectors of the covariance, in the same order, and an outlier counts no more than any other row.

The length of a difference is the root of a sum of squares of integers, which is exact. A sum in floats would depend on
the batch that a pair lies in, and one changed row could then move other pairs too.
"""

from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError
from .bound import finite_rows, integer_rows

FloatArray = NDArray[np.float64]


class PairDirections:
    """Turns batches of rows into directions of consecutive pairs, whatever the cuts between batches.

    It holds a raw row between batches, and so it is neither pickled nor copied.

    Parameters
    ----------
    scale : array, optional
        Public scale of every feature.

    Examples
    --------
    >>> pairs = PairDirections()
    >>> pairs.push([[1.0, 0.0], [4.0, 4.0], [7.0, 7.0]])
    array([[-0.6, -0.8]])
    >>> pairs.push([[7.0, 5.0]])
    array([[0., 1.]])
    """

    def __init__(self, scale: FloatArray | None = None) -> None:
        self._scale = scale
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
        if self._scale is not None:
            # The mantissa and the exponent apart: scaled numbers may leave the range of float64, directions do not.
            largest = np.abs(difference).max(axis=1, keepdims=True, initial=0.0)
            difference = np.ldexp(difference, -np.frexp(largest)[1]) * (self._scale / self._scale.max())
        integers, _, squared = integer_rows(difference)
        np.divide(integers, np.sqrt(squared)[:, None], out=integers, where=squared[:, None] > 0)
        return integers

    def branch(self) -> Self:
        """Return another one that goes on from here, and leaves this one as it is."""
        other = type(self)(self._scale)
        other._left_over = self._left_over
        return other

    def _refuse_copy(self, *_: Any) -> NoReturn:
        raise InvalidDataError("Pairs in the making hold a private row and cannot be copied or pickled.")

    __reduce__ = __reduce_ex__ = __getstate__ = _refuse_copy
