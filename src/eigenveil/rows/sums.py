"""`SumsByNorm`: exact sums of bounded integer rows, the statistic behind a mean that is measured first.

The rows of every rung of the ladder of norms are summed apart. So the sum of rows under a bound that is found
privately, from the counts of the same reading, needs no reading more. A row on the rung of norm L is put on the grid of
a bound L, which depends on that row alone. Under a bound B it is weighed by a whole number of at most 2^bits min(1,
L/B): it then is no longer than 4^bits whatever the bound, a fact about integers, so that a bound may depend on what was
drawn before.
"""

from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError
from .bound import RowBound, dense_rows, quantize_values
from .norm_counts import LADDER, RowSizes, doubt, norm_table
from .numpy_passes import add_by_group
from .one_pass import NormSums, Rungs, add_by_norm
from .persons import units_of
from .shortening import squared_norms, to_the_bound
from .units import Units

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_NORMS = np.append(LADDER, LADDER[-1])
"""That of every rung; what is above the ladder is shortened to its end."""


class SumsByNorm(RowSizes):
    """Counts of the norms of rows, and the exact sum of the rows on every rung of the ladder.

    Parameters
    ----------
    bound : RowBound
        The grid, the shift and the scale of the rows; its norm is not used.
    n_features : int

    Examples
    --------
    >>> sums = SumsByNorm(RowBound(1.0, bits=8), 1).update(np.array([[0.5], [2.0], [4.0]]))
    >>> (sums.within(2.0) / 4**8).tolist()
    [2.25]
    >>> int(sums.above()[0, LADDER.searchsorted(2.0)])
    1
    """

    def __init__(self, bound: RowBound, n_features: int) -> None:
        check_summed(bound)
        shift, scale = (None if part is None else np.asarray(part) for part in (bound.shift, bound.scale))
        super().__init__(shift, scale, person_weight=bound.person_weight)
        self.bound = bound
        self._totals: IntArray = np.zeros((LADDER.size + 1, n_features), dtype=np.int64)

    def _of(self, X: Any) -> tuple[IntArray, IntArray, IntArray]:
        """Return the bins, the rungs that there are, and the sums of their rows."""
        units = units_of(self.bound.takes_persons, X)
        left = units.with_rows(dense_rows(units.rows))
        sums = NormSums(np.zeros(LADDER.size + 1, dtype=np.int64), np.zeros(self._totals.shape))
        asked = self.bound.by_one_factor
        if asked:
            scale = np.asarray(1.0 if self._scale is None else self._scale)
            rows = left.rows
            left = Units(rows[add_by_norm(rows, self._shift, scale, self.bound.bits, self._rungs, sums)])
        if left.n_units:
            # Floats have left few rows, and are not asked for these again.
            rungs = self._exact_rungs(left.rows) if asked else self._rungs_of(left)
            sizes = None if left.starts is None else np.diff(left.starts, append=left.rows.shape[0])
            factors = self._rungs.factors[rungs if sizes is None else np.repeat(rungs, sizes)]
            integers = _unit_integers(self.bound, left, factors)
            if asked:  # so few that to touch all totals, as a product does, takes longer
                np.add.at(sums.totals, rungs, integers)
            else:
                add_by_group(integers, rungs, sums.totals)
            sums.counts[:] += np.bincount(rungs, minlength=sums.counts.size)
        found = np.flatnonzero(sums.counts)
        return sums.counts[None], found, sums.totals[found].astype(np.int64)

    @cached_property
    def _rungs(self) -> Rungs:
        """The table of rungs; rows on one of them are put on the grid of a bound of its norm."""
        shape, scale = self._totals.shape, 1.0 if self._scale is None else self._scale
        factors = 2.0**self.bound.bits * (scale / _NORMS[:, None])
        return norm_table(doubt(shape[1]), np.ascontiguousarray(np.broadcast_to(factors, shape)))

    def _add(self, part: tuple[IntArray, IntArray, IntArray]) -> None:
        bins, found, sums = part
        super()._add(bins)
        self._totals[found] += sums

    def within(self, norm: float) -> IntArray:
        """Return the sum of rows shortened to a norm, in units of 2^-bits of those of a grid for that norm.

        Those beyond it come to a norm within a step of the ladder below it.
        """
        weights = np.minimum(np.floor(np.ldexp(_NORMS / norm, self.bound.bits)), 2**self.bound.bits).astype(np.int64)
        return np.asarray(weights @ self._totals)

    def __add__(self, other: Self) -> Self:
        total = type(self)(self.bound, self._totals.shape[1])
        total.n_rows = self.n_rows + other.n_rows
        total._bins, total._totals = self._bins + other._bins, self._totals + other._totals
        return total


def check_summed(bound: RowBound) -> None:
    """Refuse rows whose sum would not be that of equal units."""
    if bound.most_weight is not None:
        raise InvalidParameterError("The mean of weighted rows is not measured first; append a constant.")
    if bound.person_weight == "rows":
        raise InvalidParameterError(
            "The number of pooled rows is private, so their mean is not measured first; append a constant."
        )


def _unit_integers(bound: RowBound, units: Units, factor: FloatArray) -> FloatArray:
    """Return the integers of every unit: of a row, or the truncated average of a person's, shortened."""
    shift = None if bound.shift is None else np.asarray(bound.shift)
    integers = quantize_values(bound, units.rows, factor, shift, units.rows.shape[1])
    if units.starts is None:
        return integers
    # Rows of norm 2^26 at most, and no more than 2^26 of a person: their sum is exact in float64, and their average
    # is no longer than the longest of them, so that its square is exact too.
    sizes = np.diff(units.starts, append=integers.shape[0])
    averages = np.trunc(np.add.reduceat(integers, units.starts, axis=0) / sizes[:, None])
    to_the_bound(averages, squared_norms(averages), bound.bits)
    return np.asarray(averages)
