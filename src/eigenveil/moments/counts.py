"""Counts in exact integers: of norms on the grid of bounds, of cells of a score map; of privacy units met before."""

import functools
import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError, one_of
from ..numerics import FloatArray, IntArray
from ..releases.score_map import ENTRY_BITS, ScoreGrid
from . import kernels, numpy_kernels
from .bound import MAP_BITS, RowBound, finite_rows, integer_rows, mapped_integers, target_exponent
from .kernels import Rows, dense_rows, kernels_for, rows_as_they_lie
from .numpy_kernels import Candidates, split_mix, squared_norms, unit_sizes
from .row_rule import UNIT_WEIGHTS
from .units import NOT_WHOLE_UNITS, TWICE, Blocks, InBatches, InThreads, Units, units_of, without_weights

# Grid points are the powers of 2^(1/8) from 2^-30 to 2^30: a public range wide enough for most units, and steps as fine
# as a bound needs. Roots of powers of two round alike on all machines of a cluster, and so does the product with
# another.
_STEPS = 8
_LOWEST, _HIGHEST = -30 * _STEPS, 30 * _STEPS
_EIGHTHS = np.arange(_LOWEST, _HIGHEST + 1)
NORM_GRID = np.ldexp(np.sqrt(np.sqrt(np.sqrt(2.0 ** np.arange(_STEPS))))[_EIGHTHS % _STEPS], _EIGHTHS // _STEPS)
# Squared grid points are 2^(j/4): the first four of these numbers, each a float64 taken as exact, times powers of two.
_QUARTERS = np.sqrt(np.sqrt(2.0 ** np.arange(5)))
_WHOLE_QUARTERS = [int(quarter * 2.0**52) for quarter in _QUARTERS]
# A float64 is looked up by its exponent and the first bits of its mantissa.
_CELL_BITS = 12
_CELL_SHIFT = 52 - _CELL_BITS
_FIRST_CELL = (1023 + _LOWEST // 4) << _CELL_BITS


def norm_candidates(rows: FloatArray, starts: IntArray | None = None, average: bool = False) -> IntArray:
    """Return the place of the first candidate bound that is no shorter than each row; above the grid, one more.

    The grid point is that of the exact `integer_rows`. A norm in floats is asked first, and believed where no grid
    point is near it: which rows are asked twice depends on the batch, what they come to does not.

    With `starts`, where the rows of every person begin, it is the root of the sum of their squared norms that is
    compared with grid points, or of the average.

    Examples
    --------
    >>> NORM_GRID[norm_candidates(np.array([[0.6, 0.8], [1.0, 1.0], [2.0, 0.1]]))].round(2).tolist()
    [1.0, 1.41, 2.18]
    >>> NORM_GRID[norm_candidates(np.array([[1.0], [1.0], [0.5]]), np.array([0, 2]))].round(2).tolist()
    [1.41, 0.5]
    """
    with np.errstate(over="ignore", under="ignore"):
        squared = squared_norms(rows)
        if starts is None:
            return _candidates(squared, doubt(rows.shape[1]), lambda near: _exact_steps(rows[near]))
        squared = np.add.reduceat(squared, starts)
    return _unit_candidates(squared, Units(rows, starts), average, lambda rows: rows)


def _unit_candidates(
    squared: FloatArray, units: Units, average: bool, changed: Callable[[Any], FloatArray]
) -> IntArray:
    """Return the grid points of units by their sums of squares in floats; `changed` rows are what is measured."""
    sizes = units.sizes
    # A sum in any order, and a quotient; rounded up to a power of two, since a table is made for every margin.
    margin = doubt(units.rows.shape[1]) + 2.0 ** (int(sizes.max(initial=1)).bit_length() - 51)

    def exactly(near: NDArray[np.intp]) -> IntArray:
        asked = units.some(near)
        return np.asarray(_exact_steps_together(changed(asked.rows), asked.sizes, average))

    with np.errstate(over="ignore", under="ignore"):
        return _candidates(squared / (sizes if average else 1), margin, exactly)


def _candidates(squared: FloatArray, margin: float, exactly: Callable[[NDArray[np.intp]], IntArray]) -> IntArray:
    """Return the grid points of squared norms in floats; `exactly` of those that are this near to another one."""
    candidates = norm_table(margin, np.empty((0, 0))).of(squared)
    if candidates.size:
        # The first one once more, for nothing: so the time does not tell whether any is near a grid point.
        near = np.append(np.flatnonzero(candidates < 0), 0)
        candidates[near[:-1]] = _candidates_of_steps(exactly(near))[:-1]
    return candidates


def _candidates_of_steps(steps: IntArray) -> IntArray:
    """Return the grid points of the least j with a squared norm at most 2^(j/4)."""
    return np.minimum(np.maximum(steps, _LOWEST), _HIGHEST + 1) - _LOWEST


@functools.lru_cache(maxsize=4)
def _candidates_of_cells(margin: float) -> NDArray[np.int16]:
    """Return the grid point of all squared norms of a cell, from 2^-60 to 2^60; -1 if one may be near another.

    A cell is what numbers with the same exponent and the same first bits of the mantissa lie in. The first and the last
    one stand for all beyond, zero, infinity and NaN too.
    """
    edges = 1 + np.arange(2**_CELL_BITS + 1) / 2**_CELL_BITS
    below, above = edges[:-1] * (1 - margin), edges[1:] * (1 + margin)
    quarters, others = (np.searchsorted(_QUARTERS, ends) for ends in (below, above))
    candidates = np.add.outer(4 * np.arange(_LOWEST // 4, _HIGHEST // 4 + 1) - _LOWEST, quarters)
    candidates[:, quarters != others] = -1
    found: NDArray[np.int16] = np.minimum(candidates, NORM_GRID.size).ravel().astype(np.int16)
    found[[0, -1]] = -1
    return found


def norm_table(margin: float, factors: FloatArray) -> Candidates:
    """Return the table of the grid of candidate bounds, for squared norms that may be this far, relatively, off."""
    return Candidates(_candidates_of_cells(margin), _FIRST_CELL, _CELL_SHIFT, factors)


def doubt(n_features: int) -> float:
    """Return the largest relative error of a squared norm in floats, beside that of `integer_rows`.

    Truncation takes less than 1 from every entry of an integer row of norm 2^(e-1) or more, so at most a share of
    2 sqrt(d) / 2^(e-1) of its square; summation in any order is off by d 2^-52 at most. Twice both.
    """
    truncation = 2 * math.sqrt(n_features) * math.ldexp(1.0, 1 - target_exponent(n_features))
    return 2 * (truncation + n_features * 2.0**-52)


def _exact_steps(rows: FloatArray) -> IntArray:
    """Return the least j with |x|^2 <= 2^(j/4) for the integer rows: floats are compared, and nothing is rounded."""
    infinite = np.asarray(np.isinf(rows).any(axis=1))  # where scaling overflowed: above the grid of candidate bounds
    _, exponents, squared = integer_rows(np.where(infinite[:, None], 0.0, rows))
    mantissas, powers = np.frexp(squared)  # m 2^p, m from 1/2 to 1, is at most 2^(j/4) from this j on
    steps: IntArray = 4 * (powers.astype(np.int64) - 1) + np.searchsorted(_QUARTERS, 2 * mantissas) + 8 * exponents
    steps[squared == 0] = _LOWEST
    steps[infinite] = _HIGHEST + 1
    return steps


def _exact_steps_together(rows: FloatArray, sizes: IntArray, average: bool) -> list[int]:
    """Return the least j with each person's sum, or average, of squared norms of integer rows at most 2^(j/4)."""
    infinite = np.asarray(np.isinf(rows).any(axis=1))
    _, exponents, squared = integer_rows(np.where(infinite[:, None], 0.0, rows))
    numbers = list(zip(squared.astype(np.int64).tolist(), exponents.tolist(), strict=True))
    found: dict[tuple[int, int], int] = {}  # where many are as long as a grid point, such as rows of zeros and ones
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
    """Return the least j with a quotient at most 2^(j/4), in integers alone; of zero, any number."""
    power = numerator.bit_length() - denominator.bit_length()
    power += _at_least(numerator, denominator, power)
    quarters = sum(not _at_least(quarter * denominator, numerator, 53 - power) for quarter in _WHOLE_QUARTERS)
    return 4 * (power - 1) + quarters


def _at_least(numerator: int, denominator: int, power: int) -> bool:
    """Return whether a quotient is at least a power of two."""
    return numerator << max(-power, 0) >= denominator << max(power, 0)


def scaled_rows(batch: Any, shift: FloatArray | None, scale: FloatArray | None) -> FloatArray:
    """Return scale * (x - shift), dense; both steps round element by element."""
    rows = finite_rows(batch)
    with np.errstate(over="ignore", invalid="ignore"):
        if shift is not None:
            rows = rows - shift
        return rows if scale is None else rows * scale


class RowSizes(InThreads):
    """Counts of the norms of ``scale * (x - shift)`` on the public grid.

    Integers like `SecondMoments`, so it too is collected in parts, anywhere, and added up; and like it private data,
    also when pickled.

    Parameters
    ----------
    shift, scale : array, optional
        Public location and scale of every feature.
    unit_weight : {None, "equal", "by_rows"}
        Where privacy units are the unit, the norm is that of all of a person's rows: the root of the average or of the
        sum of their squared norms, as `RowRule` has it. A constant that is appended to rows is not part of it.

    Examples
    --------
    >>> sizes = RowSizes(None, None).update(np.array([[3.0, 4.0], [0.3, 0.4]]))
    >>> (sizes + sizes).n_rows, int(sizes.above()[NORM_GRID.searchsorted(2.0)])
    (4, 1)
    """

    n_rows: int

    def __init__(self, shift: FloatArray | None, scale: FloatArray | None, unit_weight: str | None = None) -> None:
        if unit_weight is not None:
            one_of("unit_weight", unit_weight, UNIT_WEIGHTS)
        self._shift, self._scale, self._weight = shift, scale, unit_weight
        self.n_rows = 0
        # The last bin holds what is above the grid of candidate bounds.
        self._bins = np.zeros(NORM_GRID.size + 1, dtype=np.int64)

    def _of(self, X: Any) -> Any:
        """Return the bins of a batch."""
        units = units_of(self._weight is not None, without_weights(X))
        if units.starts is not None:
            return np.bincount(self._candidates_of(units), minlength=NORM_GRID.size + 1)
        rows = rows_as_they_lie(units.rows)
        counted = self._counted_by(rows.shape[1])
        return self._with_left(rows, counted[-1], kernels_for(rows, counted[1]).count_by_norm(rows, *counted))

    def _counted_by(self, n_features: int) -> tuple[FloatArray | None, FloatArray, Candidates, IntArray]:
        """Return the shift, the scale and the table by which norms are counted, and counts of none."""
        scale = np.asarray(1.0 if self._scale is None else self._scale)
        table = norm_table(doubt(n_features), np.empty((0, 0)))
        return self._shift, scale, table, np.zeros(NORM_GRID.size + 1, dtype=np.int64)

    def _with_left(self, rows: Rows, counts: IntArray, left: IntArray) -> IntArray:
        """Return counts with those of rows that were left, whose places are given."""
        if rows.shape[0]:
            # The first row once more, for nothing: so the time does not tell whether any was left. One with NaN or
            # infinity is refused here: it has no ordinary square.
            counts += np.bincount(self._exact_candidates(rows[np.append(left, 0)])[:-1], minlength=counts.size)
        return counts

    def _exact_candidates(self, rows: FloatArray) -> IntArray:
        """Return the grid points of the norms of dense rows, none of which floats are asked for."""
        return _candidates_of_steps(_exact_steps(scaled_rows(rows, self._shift, self._scale)))

    def _candidates_of(self, units: Units) -> IntArray:
        """Return the grid points of the norms of all rows of every privacy unit."""
        starts, scale = units.starts, np.asarray(1.0 if self._scale is None else self._scale)
        assert starts is not None
        units = units.with_rows(dense_rows(units.rows))
        squared = (kernels.compiled() or numpy_kernels).unit_squares(units.rows, starts, self._shift, scale)
        # Refused where one of them has NaN or infinity: such a unit has no ordinary square.
        changed = functools.partial(scaled_rows, shift=self._shift, scale=self._scale)
        return _unit_candidates(squared, units, self._weight == "equal", changed)

    def _add(self, part: Any) -> None:
        self._bins += part
        self.n_rows += int(part.sum())

    def above(self) -> IntArray:
        """Return the number of rows above each grid point."""
        return self.n_rows - np.cumsum(self._bins)[:-1]

    def __add__(self, other: Self) -> Self:
        total = type(self)(self._shift, self._scale, self._weight)
        total.n_rows, total._bins = self.n_rows + other.n_rows, self._bins + other._bins
        return total


class MappedSizes(RowSizes):
    """Counts of the norms of mapped rows, on the grid of candidate bounds of `RowSizes`."""

    def __init__(self, before: RowBound, integers: IntArray) -> None:
        super().__init__(None, None, unit_weight=before.unit_weight)
        self._before, self._map = before, integers

    def _of(self, X: Any) -> IntArray:
        units = units_of(self._before.takes_units, X)
        mapped = mapped_integers(self._before, self._map, units.with_rows(finite_rows(units.rows)))
        mapped *= math.ldexp(self._before.norm, -MAP_BITS - self._before.bits)
        candidates = norm_candidates(mapped, units.starts)  # an average has been divided already
        return np.bincount(candidates, minlength=NORM_GRID.size + 1)

    def __add__(self, other: Self) -> Self:
        total = type(self)(self._before, self._map)
        total.n_rows = self.n_rows + other.n_rows
        total._bins = self._bins + other._bins
        return total


Keys = NDArray[np.uint64]


class KeySet:
    """A set of keys that only grows. It knows 64 bits made of every key: two that share them are taken for one.

    Examples
    --------
    >>> seen = KeySet()
    >>> seen.add(np.array([[7, 0], [3, 0]], np.uint64)), seen.add(np.array([[7, 0]], np.uint64))
    (True, False)
    """

    def __init__(self) -> None:
        self._sorted: list[Keys] = []  # each more than twice as long as the next

    def __len__(self) -> int:
        return sum(part.size for part in self._sorted)

    def add(self, keys: Keys) -> bool:
        """Add keys, and tell whether all of them are new; if not, none is added."""
        return self._take(np.sort(keys[:, 0] + split_mix(keys[:, 1])))

    def joined(self, other: Self) -> Self | None:
        """Return the keys of both; None where they have one in common."""
        total = type(self)()
        total._sorted = list(self._sorted)
        return total if all(total._take(part) for part in other._sorted) else None

    def _take(self, new: Keys) -> bool:
        if (new[1:] == new[:-1]).any():
            return False
        for part in self._sorted:
            places = np.minimum(np.searchsorted(part, new), part.size - 1)
            if (part[places] == new).any():
                return False
        if new.size:
            self._sorted.append(new)
        while len(self._sorted) > 1 and self._sorted[-2].size <= 2 * self._sorted[-1].size:
            joined = np.concatenate([self._sorted.pop(), self._sorted.pop()])
            joined.sort(kind="stable")  # which merges what is sorted already
            self._sorted.append(joined)
        return True


class ScoreCounts(InBatches):
    """Counts of rows, or of privacy units by their average row, in the cells of a grid. Private data.

    A person counts in a group where all of their rows do.

    Parameters
    ----------
    grid : ScoreGrid
    by_unit : bool
        Whether batches are of whole privacy units.

    Examples
    --------
    >>> ends = np.array([[-1.0, 1.0], [-1.0, 1.0]])
    >>> grid = ScoreGrid.of(np.zeros(2), np.ones(2), np.eye(2), ends, (2, 2), (0, 1))
    >>> ScoreCounts(grid).update(np.array([[0.5, 0.5], [-9.0, 0.1], [-0.1, 0.2]])).in_cells.tolist()
    [[[0, 2], [0, 1]]]
    """

    n_units: int
    grid: ScoreGrid
    by_unit: bool

    def __init__(self, grid: ScoreGrid, by_unit: bool = False) -> None:
        self.grid, self.by_unit = grid, by_unit
        self.n_units = 0
        self._seen = KeySet()
        self._in_cells: NDArray[np.int64] = np.zeros(grid.shape, dtype=np.int64)

    @property
    def in_cells(self) -> NDArray[np.int64]:
        """The private counts, by group and cell."""
        return self._in_cells

    def update(self, X: Any) -> Self:
        """Add the rows of a dense or SciPy-sparse matrix, or the privacy units of `Blocks`."""
        starts = None
        if isinstance(X, Blocks) != self.by_unit:
            raise InvalidDataError(
                NOT_WHOLE_UNITS if self.by_unit else "The unit is one row; give rows, not privacy units."
            )
        if isinstance(X, Blocks):
            X.checked()
            if not self._seen.add(X.keys):
                raise InvalidDataError(TWICE)
            starts, X = X.starts, X.rows
        rows = finite_rows(without_weights(X))
        if rows.shape[1] != len(self.grid.shift):
            raise InvalidDataError(f"The rows have {rows.shape[1]} features, and the map {len(self.grid.shift)}.")
        integers, places = self._integers(rows), self._groups(rows)
        if starts is not None:
            sizes = unit_sizes(starts, len(rows))
            integers = np.trunc(np.add.reduceat(integers.astype(np.int64), starts) / sizes[:, None])
            lowest, highest = (ends.reduceat(places, starts) for ends in (np.minimum, np.maximum))
            places = np.where(lowest == highest, lowest, -1)
        x, y = self._bins(integers)
        kept = places >= 0
        flat = np.ravel_multi_index((places[kept], x[kept], y[kept]), self.grid.shape)
        self._in_cells += np.bincount(flat, minlength=self._in_cells.size).reshape(self.grid.shape)
        self.n_units += len(places)
        return self

    def __add__(self, other: Self) -> Self:
        total = type(self)(self.grid, self.by_unit)
        seen = self._seen.joined(other._seen)
        if other.grid != self.grid or other.by_unit != self.by_unit or seen is None:
            raise InvalidDataError(TWICE if seen is None else "Counts of different maps do not add up.")
        total.n_units, total._seen = self.n_units + other.n_units, seen
        total._in_cells = self._in_cells + other._in_cells
        return total

    def _integers(self, rows: FloatArray) -> FloatArray:
        """Return rows as integers, entry by entry."""
        with np.errstate(over="ignore"):
            scaled = (rows - np.asarray(self.grid.shift)) * np.asarray(self.grid.factor)
        return np.asarray(np.trunc(np.clip(scaled, -(2.0**ENTRY_BITS), 2.0**ENTRY_BITS)))

    def _bins(self, integers: FloatArray) -> list[NDArray[np.int64]]:
        """Return the cells of integer rows along both directions; all sums are integers below 2^53, so exact."""
        found = []
        scores = (integers @ np.array(self.grid.weights, dtype=np.float64).T).astype(np.int64)
        for column, (low, high), count in zip(scores.T, self.grid.frame, self.grid.bins, strict=True):
            found.append(np.clip((np.clip(column, low, high) - low) * count // (high - low), 0, count - 1))
        return found

    def _groups(self, rows: FloatArray) -> NDArray[np.int64]:
        """Return the group of every row; -1 where it is in none."""
        if not self.grid.groups:
            return np.zeros(len(rows), dtype=np.int64)
        places = np.full(len(rows), -1, dtype=np.int64)
        for place, (_, where) in enumerate(self.grid.groups):
            hit = np.all([rows[:, feature] == value for feature, value in where], axis=0)
            places[hit & (places < 0)] = place
        return places
