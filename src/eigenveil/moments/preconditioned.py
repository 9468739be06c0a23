"""Rows mapped by a public matrix of integers, and bounded again: the rows of a second pass.

A row is put on its integer grid first, multiplied by integers, and brought to a second bound. The product is exact in
float64, so what a row becomes depends on that row alone: not on its neighbours, its layout, or the engine.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from ..numerics import FloatArray, IntArray
from .bound import EXACT_INTEGER_BITS, RowBound, finite_rows
from .counts import NORM_GRID, RowSizes, norm_candidates
from .numpy_kernels import squared_norms, to_the_bound, units_together
from .units import Units, units_of

MAP_BITS = 24
"""A map leaves as integers of 2^-24."""
FARTHEST_SHORTER = 8
"""A second bound is at most this many octaves below the first, so that squared norms of mapped rows are exact."""


def integer_map(matrix: FloatArray) -> IntArray:
    """Return a symmetric map of norm at most 1 as integers of 2^-24."""
    return np.rint(np.ldexp((matrix + matrix.T) / 2, MAP_BITS)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class MappedBound(RowBound):
    """The rule of mapped rows: r = round(q M / 2^24 * norm before / norm), shortened to norm 2^bits where it is longer.

    Parameters
    ----------
    before : RowBound
        The rule that makes the integers q.
    map : ndarray of int64
        The symmetric matrix M, of norm about 2^24 at most.

    The others are those of `RowRule`: `norm` is that of mapped rows, and `mapped_from` that of the rule before.

    Notes
    -----
    By Cauchy and Schwarz a partial sum of an entry of q M is at most |q| times the norm of a column of M. This is
    checked to lie below 2^53, so that each of them is an integer that float64 holds, and the product is the same in any
    order of summation. The factor and the rounding work element by element.

    Examples
    --------
    >>> bound = mapped_bound(RowBound(1.0, bits=4), integer_map(np.diag([0.25, 1.0])), 0.5)
    >>> bound.quantize(np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([[ 8.,  0.],
           [ 0., 16.]])
    """

    before: Any = None  # a RowBound; without a default it could not follow fields that have one
    map: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = np.sqrt(np.square(self.map.astype(np.float64)).sum(axis=0)).max()
        if columns * 2.0**self.bits >= 2.0 ** (EXACT_INTEGER_BITS - 1):
            raise ValueError("The map is too large for exact products.")
        if self.before.norm > self.norm * 2.0**FARTHEST_SHORTER:
            raise ValueError("The second bound is too far below the first.")
        if 2 * (self.bits + FARTHEST_SHORTER) >= EXACT_INTEGER_BITS:
            raise ValueError("The grid is too fine for exact norms of mapped rows; use at most 18 bits.")

    by_one_factor = shortens_units = False

    def quantize_units(self, units: Units) -> tuple[FloatArray, FloatArray]:
        """Return the integer rows of dense units, and the constant that is appended to each row."""
        mapped = mapped_integers(self.before, self.map, units)
        mapped *= math.ldexp(self.before.norm / self.norm, -MAP_BITS)
        np.rint(mapped, out=mapped)
        if units.starts is None:
            to_the_bound(mapped, squared_norms(mapped), self.bits)
        else:  # where privacy units are averaged, their rows have been divided already
            units_together(mapped, units.starts, self.bits, 0, average=False)
        return mapped, np.full(len(mapped), float(self.constant_units))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MappedBound):
            return NotImplemented
        return self.rule == other.rule and self.before == other.before and np.array_equal(self.map, other.map)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]


def mapped_bound(before: RowBound, integers: IntArray, norm: float) -> MappedBound:
    """Return the rule of rows that are mapped by `integers` and then bounded by `norm`."""
    facts = before.to_dict() | {"norm": norm, "mapped_from": before.norm}
    return MappedBound(**facts, before=before, map=integers)


def mapped_integers(before: RowBound, integers: IntArray, units: Units) -> FloatArray:
    """Return q M, exact integers as float64."""
    return np.asarray(before.quantize_units(units)[0] @ integers.astype(np.float64))


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
