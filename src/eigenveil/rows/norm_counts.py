"""`MagnitudeCounts` and `RowSizes`: how many rows lie below each of a public ladder of magnitudes, in exact integers.

The statistic behind a privately chosen norm bound or feature scale. One row adds one count to each column, and which
one depends on that row alone: norms are compared as integers. A norm summed in floats depends on the batch
that its row lies in, so that one added row could move another row to the next rung, and a count by two. The same holds
for persons: one adds one count, and which one depends on that person's rows alone, in any order.
"""

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError, one_of
from ..row_rule import PERSON_WEIGHTS
from .bound import dense_rows, finite_rows, integer_rows, target_exponent
from .in_batches import InThreads
from .one_pass import Rungs, squares
from .persons import units_of
from .shortening import squared_norms
from .units import Units
from .weighted import without_weights

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Rungs are the powers of 2^(1/8) from 2^-30 to 2^30: a public range wide enough for most units, and steps as fine as a
# bound needs. Roots of powers of two round alike on all machines of a cluster, and so does the product with another.
_STEPS = 8
_LOWEST, _HIGHEST = -30 * _STEPS, 30 * _STEPS
_EIGHTHS = np.arange(_LOWEST, _HIGHEST + 1)
LADDER = np.ldexp(np.sqrt(np.sqrt(np.sqrt(2.0 ** np.arange(_STEPS))))[_EIGHTHS % _STEPS], _EIGHTHS // _STEPS)
# Squared rungs are 2^(j/4): the first four of these numbers, each a float64 taken as exact, times powers of two.
_QUARTERS = np.sqrt(np.sqrt(2.0 ** np.arange(5)))
# A float64 is looked up by its exponent and the first bits of its mantissa.
_CELL_BITS = 12
_CELL_SHIFT = 52 - _CELL_BITS
_FIRST_CELL = (1023 + _LOWEST // 4) << _CELL_BITS


class MagnitudeCounts(InThreads):
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

    def _of(self, X: Any) -> Any:
        """Return the bins of rows of nonnegative numbers, one for each column; NaN counts as above the ladder."""
        return self._binned(np.searchsorted(LADDER, X, side="left"))

    def _binned(self, rungs: IntArray) -> IntArray:
        """Return the bins of rows of rungs, one for each column."""
        columns = (np.bincount(rungs[:, column], minlength=LADDER.size + 1) for column in range(self._bins.shape[0]))
        return np.array(list(columns))

    def _add(self, part: Any) -> None:
        self._bins += part
        self.n_rows += int(part[0].sum())

    def at_most(self) -> IntArray:
        """Return, for each column and rung, the number of rows at or below it."""
        return np.cumsum(self._bins, axis=1)[:, :-1]

    def above(self) -> IntArray:
        """Return, for each column and rung, the number of rows above it."""
        return self.n_rows - self.at_most()


def norm_rungs(rows: FloatArray, starts: IntArray | None = None, average: bool = False) -> IntArray:
    """Return, as one column, the first rung of the ladder that is no shorter than each row; one more above the ladder.

    The rung is that of the exact `integer_rows`. A norm in floats is asked first, and believed where no rung is
    near it: which rows are asked twice depends on the batch, what they come to does not.

    With `starts`, where the rows of every person begin, it is the root of the sum of their squared norms that is
    compared with rungs, or of the average.

    Examples
    --------
    >>> LADDER[norm_rungs(np.array([[0.6, 0.8], [1.0, 1.0], [2.0, 0.1]]))[:, 0]].round(2).tolist()
    [1.0, 1.41, 2.18]
    >>> LADDER[norm_rungs(np.array([[1.0], [1.0], [0.5]]), np.array([0, 2]))[:, 0]].round(2).tolist()
    [1.41, 0.5]
    """
    margin = doubt(rows.shape[1])
    with np.errstate(over="ignore", under="ignore"):
        squared = squared_norms(rows)
        if starts is None:
            return _rungs(squared, margin, lambda near: _exact_steps(rows[near]))
        sizes = np.diff(starts, append=rows.shape[0])
        squared = np.add.reduceat(squared, starts) / (sizes if average else 1)
    margin += int(sizes.max()) * 2.0**-51  # a sum in any order, and a quotient

    def exactly(near: NDArray[np.intp]) -> IntArray:
        asked = np.isin(np.arange(starts.size), near).repeat(sizes)
        return np.asarray(_exact_steps_together(rows[asked], sizes[near], average))

    return _rungs(squared, margin, exactly)


def _rungs(squared: FloatArray, margin: float, exactly: Callable[[NDArray[np.intp]], IntArray]) -> IntArray:
    """Return the rungs of squared norms in floats, and of those `exactly` that may be this far, relatively, off."""
    rungs = norm_table(margin, np.empty((0, 0))).of(squared)
    near = np.flatnonzero(rungs < 0)
    if near.size:
        rungs[near] = _rungs_of_steps(exactly(near))
    return np.asarray(rungs[:, None])


def _rungs_of_steps(steps: IntArray) -> IntArray:
    """Return the rungs of the least j with a squared norm at most 2^(j/4)."""
    return np.minimum(np.maximum(steps, _LOWEST), _HIGHEST + 1) - _LOWEST


@functools.lru_cache(maxsize=4)
def _rungs_of_cells(margin: float) -> NDArray[np.int16]:
    """Return the rung of all squared norms of a cell, from 2^-60 to 2^60; -1 where one may be near another rung.

    A cell is what numbers with the same exponent and the same first bits of the mantissa lie in. The first and the last
    one stand for all beyond, zero, infinity and NaN too.
    """
    edges = 1 + np.arange(2**_CELL_BITS + 1) / 2**_CELL_BITS
    below, above = edges[:-1] * (1 - margin), edges[1:] * (1 + margin)
    quarters, others = (np.searchsorted(_QUARTERS, ends) for ends in (below, above))
    rungs = np.add.outer(4 * np.arange(_LOWEST // 4, _HIGHEST // 4 + 1) - _LOWEST, quarters)
    rungs[:, quarters != others] = -1
    found: NDArray[np.int16] = np.minimum(rungs, LADDER.size).ravel().astype(np.int16)
    found[[0, -1]] = -1
    return found


def norm_table(margin: float, factors: FloatArray) -> Rungs:
    """Return the table of the ladder, for squared norms that may be this far, relatively, off."""
    return Rungs(_rungs_of_cells(margin), _FIRST_CELL, _CELL_SHIFT, factors)


def _steps(mantissa: FloatArray, power: NDArray[np.int32]) -> IntArray:
    """Return the least j with m 2^p <= 2^(j/4), the square of rung j; m is from 1/2 to 1, or a little beside."""
    return np.asarray(4 * (power.astype(np.int64) - 1) + np.searchsorted(_QUARTERS, 2 * mantissa, side="left"))


def doubt(n_features: int) -> float:
    """Return how far, relatively, a squared norm in floats may be from that of `integer_rows`, and to spare.

    Truncation takes less than 1 from every entry of an integer row of norm 2^(e-1) or more, so at most a share of
    2 sqrt(d) / 2^(e-1) of its square; summation in any order is off by d 2^-52 at most. Twice both.
    """
    truncation = 2 * math.sqrt(n_features) * math.ldexp(1.0, 1 - target_exponent(n_features))
    return 2 * (truncation + n_features * 2.0**-52)


def _exact_steps(rows: FloatArray) -> IntArray:
    """Return the least j with |x|^2 <= 2^(j/4) for the integer rows: floats are compared, and nothing is rounded."""
    infinite = np.asarray(np.isinf(rows).any(axis=1))  # where scaling overflowed: above the ladder
    _, exponents, squared = integer_rows(np.where(infinite[:, None], 0.0, rows))
    steps: IntArray = _steps(*np.frexp(squared)) + 8 * exponents
    steps[squared == 0] = _LOWEST
    steps[infinite] = _HIGHEST + 1
    return steps


def _exact_steps_together(rows: FloatArray, sizes: IntArray, average: bool) -> list[int]:
    """Return the least j with each person's sum, or average, of squared norms of integer rows at most 2^(j/4)."""
    infinite = np.asarray(np.isinf(rows).any(axis=1))
    _, exponents, squared = integer_rows(np.where(infinite[:, None], 0.0, rows))
    numbers = list(zip(squared.astype(np.int64).tolist(), exponents.tolist(), strict=True))
    found: dict[tuple[int, int], int] = {}  # where many are as long as a rung, such as rows of zeros and ones
    steps, start = [], 0
    for size in sizes.tolist():
        end = start + size
        lowest = min(exponent for _, exponent in numbers[start:end])
        total = sum(number << 2 * (exponent - lowest) for number, exponent in numbers[start:end])
        value = total, size if average else 1
        if value not in found:
            found[value] = _least_step(*value)
        steps.append(_HIGHEST + 1 if infinite[start:end].any() else found[value] + 8 * lowest if total else _LOWEST)
        start = end
    return steps


def _least_step(numerator: int, denominator: int) -> int:
    """Return the least j with a quotient at most 2^(j/4), in fractions; of zero, any number."""
    value = Fraction(numerator, denominator)
    power = value.numerator.bit_length() - value.denominator.bit_length()
    power += value >= Fraction(2) ** power
    quarters = sum(Fraction(quarter) < 2 * value / Fraction(2) ** power for quarter in _QUARTERS)
    return 4 * (power - 1) + quarters


def scaled_rows(batch: Any, shift: FloatArray | None, scale: FloatArray | None) -> FloatArray:
    """Return scale * (x - shift), dense; both steps round element by element."""
    rows = finite_rows(batch)
    with np.errstate(over="ignore", invalid="ignore"):
        if shift is not None:
            rows = rows - shift
        return rows if scale is None else rows * scale


class RowSizes(MagnitudeCounts):
    """Counts of how large ``scale * (x - shift)`` is: in norm, or feature by feature.

    Integers like `SecondMoments`, so it too is collected in parts, anywhere, and added up; and like it private data,
    also when pickled.

    Parameters
    ----------
    shift, scale : array, optional
        Public location and scale of every feature.
    features : int, optional
        The number of features, where each of them is counted by itself; None counts norms.
    person_weight : {None, "persons", "rows"}
        Where persons are the unit, the norm is that of all of a person's rows: the root of the average or of the sum of
        their squared norms, as `RowRule` has it. A constant that is appended to rows is not part of it.

    Examples
    --------
    >>> sizes = RowSizes(None, None).update(np.array([[3.0, 4.0]]))
    >>> (sizes + sizes).n_rows
    2
    """

    def __init__(
        self,
        shift: FloatArray | None,
        scale: FloatArray | None,
        features: int | None = None,
        person_weight: str | None = None,
    ) -> None:
        super().__init__(1 if features is None else features)
        if person_weight is not None:
            one_of("person_weight", person_weight, PERSON_WEIGHTS)
            if features is not None:
                raise InvalidParameterError("Sizes of single features are counted of rows, not of persons.")
        self._shift, self._scale, self._features, self._weight = shift, scale, features, person_weight

    def _of(self, X: Any) -> Any:
        units = units_of(self._weight is not None, without_weights(X))
        if self._features is not None:
            return super()._of(np.abs(scaled_rows(units.rows, self._shift, self._scale)))
        return self._binned(self._rungs_of(units.with_rows(dense_rows(units.rows)))[:, None])

    def _exact_rungs(self, rows: FloatArray) -> IntArray:
        """Return the rungs of the norms of dense rows, none of which floats are asked for."""
        return _rungs_of_steps(_exact_steps(scaled_rows(rows, self._shift, self._scale)))

    def _rungs_of(self, units: Units) -> IntArray:
        """Return the rungs of the norms of dense units."""
        rows = units.rows
        if units.starts is not None:
            rows = scaled_rows(rows, self._shift, self._scale)
            return norm_rungs(rows, units.starts, self._weight == "persons")[:, 0]
        squared = squares(rows, self._shift, np.asarray(1.0 if self._scale is None else self._scale))

        def exactly(near: NDArray[np.intp]) -> IntArray:
            # Refused where one of them has NaN or infinity: such a row has no ordinary square.
            return _exact_steps(scaled_rows(rows[near], self._shift, self._scale))

        return _rungs(squared, doubt(rows.shape[1]), exactly)[:, 0]

    def __add__(self, other: Self) -> Self:
        total = type(self)(self._shift, self._scale, self._features, self._weight)
        total.n_rows = self.n_rows + other.n_rows
        total._bins = self._bins + other._bins
        return total
