"""`Ring`: rows compared with their neighbours on a public ring, which needs neither a bound nor a mean.

Rows stand on the ring in order of arrival, a public rule, and each is compared with the h rows after it: so with h on
either side, k = 2h comparisons a row and n*h in all. One replaced row changes its own k comparisons and no other, and
docs/explanation/comparisons.md proves what that costs. Of at most h rows, the steps go around again without meeting
themselves, so that these numbers hold from two rows on.

A comparison is a function of its two rows alone, to the last bit: `pairs` divides a difference by the root of a sum of
squares of integers, which is exact (in floats it would depend on the batch), and `signs` asks which number is larger.
"""

from collections.abc import Iterator
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError
from ..row_rule import RowRule
from .bound import finite_rows, integer_rows

FloatArray = NDArray[np.float64]

COMPARISONS = 8
"""How many comparisons a row takes part in."""


class HoldsRows:
    """What holds private rows, and so can be neither copied nor pickled."""

    def _refuse_copy(self, *_: Any) -> NoReturn:
        raise InvalidDataError("Comparisons in the making hold private rows and cannot be copied or pickled.")

    __reduce__ = __reduce_ex__ = __getstate__ = _refuse_copy


class Ring(HoldsRows):
    """Turns batches of rows into comparisons of neighbours, the same ones whatever the cuts between batches.

    It holds raw rows, the first h and the last h, and so it is neither pickled nor copied.

    Parameters
    ----------
    rule : RowRule
        What is compared, how often, and the public scale of every feature.

    Examples
    --------
    >>> ring = Ring(RowRule(1.0, rows="pairs", comparisons=2))
    >>> [part.tolist() for part in ring.push([[1.0, 0.0], [4.0, 4.0], [4.0, 7.0]])]
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

    def push(self, batch: Any) -> Iterator[FloatArray]:
        """Return the comparisons that this batch completes, a part for each distance between two rows."""
        rows, half = finite_rows(batch), self._half
        if self._last is not None:
            rows = np.concatenate([self._last, rows])
        start, length = self._closed_up_to, rows.shape[0]
        if start == 0:
            self._first = rows[:half].copy()
        self._last = rows[max(0, length - half) :].copy()
        if length <= half:  # so few may be all there are, and then others are compared
            return iter(())
        self._closed_up_to = half
        return (
            self._compared(rows[max(start, step) :], rows[max(start, step) - step : length - step])
            for step in range(1, half + 1)
        )

    def closing(self) -> Iterator[FloatArray]:
        """Return the comparisons that close the ring, and leave it open for more rows."""
        if self._first is None or self._last is None:
            return
        if self._closed_up_to == 0:
            rows = self._first
            for step in range(self._half if rows.shape[0] > 1 else 0):
                yield self._compared(rows, np.roll(rows, 1 + step % (rows.shape[0] - 1), axis=0))
            return
        seam = np.concatenate([self._last, self._first])
        for step in range(1, self._half + 1):
            yield self._compared(seam[self._half : self._half + step], seam[self._half - step : self._half])

    def branch(self) -> Self:
        """Return another one that goes on from here, and leaves this one as it is."""
        other = type(self)(self._rule)
        other._first, other._last, other._closed_up_to = self._first, self._last, self._closed_up_to
        return other

    def _compared(self, rows: FloatArray, others: FloatArray) -> FloatArray:
        if self._rule.rows == "signs":
            return np.asarray((rows > others) * 1.0 - (rows < others), dtype=np.float64)
        return _directions(rows, others, self._rule.scale)


def _directions(rows: FloatArray, others: FloatArray, scale: tuple[float, ...] | None) -> FloatArray:
    """Return the normalized differences of scaled rows; zero where two rows are the same."""
    # Halved first, so that the difference of two numbers of 1e308 does not overflow.
    difference = 0.5 * rows - 0.5 * others
    if scale is not None:
        # The mantissa and the exponent apart: scaled numbers may leave the range of float64, directions do not.
        largest = np.abs(difference).max(axis=1, keepdims=True, initial=0.0)
        difference = np.ldexp(difference, -np.frexp(largest)[1]) * (np.asarray(scale) / max(scale))
    integers, _, squared = integer_rows(difference)
    np.divide(integers, np.sqrt(squared)[:, None], out=integers, where=squared[:, None] > 0)
    return integers
