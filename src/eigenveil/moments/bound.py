"""`RowBound`: the public rule that maps a row of numbers to a row of integers of bounded norm.

The rule is the same element by element whatever the order, the layout or the batch, and its bound,
q'q <= 4^bits, is a fact about integers. That is why the norm is taken *after* quantizing: a norm summed in
floating point depends on the order of summation, and one bit of it could move a quantized entry.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import InvalidDataError, InvalidParameterError
from ..numerics import FloatArray, IntArray
from .kernels import dense_rows, kernels_for
from .numpy_kernels import EXACT_INTEGER_BITS as EXACT_INTEGER_BITS
from .numpy_kernels import (
    EXACT_LIMIT,
    SINGLE_BITS,
    Shortening,
    clip,
    squared_norms,
    to_the_bound,
    units_together,
    weigh,
)
from .numpy_kernels import integer_rows as integer_rows
from .numpy_kernels import target_exponent as target_exponent
from .row_rule import RowRule
from .units import NOT_WHOLE_UNITS, SHARE_BITS, Units

NOT_FINITE = (
    "The data contain NaN or infinity; clean them first, or give a public value for missing ones by a schema, by "
    "missing= of open_table, or by a RowBound of on_invalid='zero'."
)


class RowBound(RowRule):
    """A public bound on rows, and the exact integer grid they are put on.

    The parameters are those of `RowRule`, the public record that travels with a release; this is the rule at work.

    Examples
    --------
    >>> RowBound(5.0, bits=4).quantize(np.array([[3.0, 4.0], [30.0, 40.0]]))
    array([[ 9., 12.],
           [ 9., 12.]])
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compares and not self.compares_neighbours:
            raise InvalidParameterError("Disjoint pairs are read from older files alone; give comparisons=8.")

    def quantize(self, rows: FloatArray) -> FloatArray:
        """Return the integer rows, as float64, of a block of dense rows, each of them a unit."""
        return self.quantize_units(Units(rows))[0]

    def quantize_units(self, units: Units) -> tuple[FloatArray, FloatArray]:
        """Return the integer rows of dense units, and the constant that is appended to each row."""
        integers = self.single_integers(np.asarray(units.rows))
        return integers, self.bound_units(integers, units)

    def single_integers(self, rows: FloatArray) -> FloatArray:
        """Return dense rows as integers, each held to norm 2^`single_bits` by itself."""
        shift = None if self.shift is None else np.asarray(self.shift)
        return quantize_values(self, rows, self.grid_factor, shift, rows.shape[1])

    def long_integers(self, rows: FloatArray) -> FloatArray:
        """Return the integers of dense rows, each of which is too long for an exact squared norm."""
        shift = None if self.shift is None else np.asarray(self.shift)
        return _rescaled(self, rows, self.grid_factor, shift, rows.shape[1])

    def bound_units(self, integers: FloatArray, units: Units) -> FloatArray:
        """Bring the integer rows of `quantize_values` to the bound of whole units, in place; return their constants."""
        if units.starts is None:
            if self.takes_units:
                raise InvalidDataError(NOT_WHOLE_UNITS)
            if units.shares is None:
                return np.full(integers.shape[0], float(self.constant_units))
            return weigh(integers, np.sqrt(np.ldexp(units.shares, -SHARE_BITS)), self.constant_units)
        average = self.unit_weight == "equal"
        return units_together(integers, units.starts, self.bits, self.constant_units, average)

    @property
    def by_one_factor(self) -> bool:
        """Whether rows, as units, are moved, multiplied by `grid_factor`, truncated and clipped, and no more."""
        return self.statistic == "clipped" and not self.takes_units

    @property
    def shortens_units(self) -> bool:
        """Whether all rows of a unit are moved, multiplied by `grid_factor`, truncated and clipped together."""
        return self.statistic == "clipped" and self.takes_units

    @property
    def shortening(self) -> Shortening:
        """The parameters by which the rows of a unit are shortened together."""
        shift = None if self.shift is None else np.asarray(self.shift)
        return Shortening(shift, self.grid_factor, self.bits, self.constant_units, self.unit_weight == "equal")

    @property
    def single_bits(self) -> int:
        """Rows are held to norm 2^this one by one: all of the bound, or room for what a person's rows share."""
        return SINGLE_BITS if self.takes_units and self.statistic == "clipped" else self.bits


def quantize_values(
    bound: RowBound,
    rows: FloatArray,
    factor: FloatArray,
    shift: FloatArray | None,
    n_features: int,
) -> FloatArray:
    """Return dense rows as integers; those of privacy units are still to be shortened together, by `bound_units`.

    `factor` and `shift` broadcast against `rows`.
    """
    bits = bound.single_bits
    if rows.dtype.itemsize > 8:  # long doubles: in a list, one of them would change how the others are rounded
        rows = rows.astype(np.float64)
    grid = np.empty(rows.shape)
    every = bound.statistic == "normalized"  # rows of any length become directions
    squared = kernels_for(rows, factor).integers(rows, shift, factor, None if every else bits, grid)
    if rows.shape[0] == 0:
        return grid
    long_rows = np.flatnonzero(every | ~(squared < EXACT_LIMIT))  # the negation also catches NaN
    # The first row once more, for nothing: so the time does not tell whether any row is long.
    which = np.append(long_rows, 0)
    grid[long_rows] = _rescaled(
        bound, rows[which].astype(np.float64), factor[which] if factor.ndim == 2 else factor, shift, n_features
    )[:-1]
    return grid


def finite_rows(batch: Any) -> FloatArray:
    """Return a batch as dense float64, or raise where it has NaN or infinity."""
    rows = dense_rows(batch)
    if not np.isfinite(rows).all():
        raise InvalidDataError(NOT_FINITE)
    return rows


# Below every exponent that is compared: that of zero.
_NO_EXPONENT = np.iinfo(np.intc).min // 4


def _rescaled(
    bound: RowBound, rows: FloatArray, factor: FloatArray, shift: FloatArray | None, n_features: int
) -> FloatArray:
    """Return rows of any length as integers, brought to norm 2^`single_bits` or just below.

    Works on mantissas and exponents apart, so nothing overflows, and brings the largest entry of every row
    just below 2^e with d * 4^e <= 2^53 first: so its squared norm is exact.
    """
    finite = np.isfinite(rows)
    if bound.on_invalid == "error" and not finite.all():
        raise InvalidDataError(NOT_FINITE)
    centred = rows * 0.5
    if shift is not None:  # halved before subtracting: the difference of two floats of 1e308 must not overflow
        centred -= shift * 0.5
    if bound.on_invalid == "zero":
        centred[~finite.all(axis=1)] = 0.0
    mantissa, exponent = np.frexp(centred)
    factor_mantissa, factor_exponent = np.frexp(factor)
    mantissa, carry = np.frexp(mantissa * factor_mantissa)
    exponent += factor_exponent
    exponent += carry
    exponent[mantissa == 0] = _NO_EXPONENT
    exponent += target_exponent(n_features) - exponent.max(axis=1, keepdims=True)
    directions = np.asarray(np.trunc(np.ldexp(mantissa, np.maximum(exponent, -2000))))
    clip(directions, squared_norms(directions), np.True_, bound.single_bits)
    return directions


# Rows of a second pass: mapped by a public matrix of integers, and bounded again. The product of integers is exact in
# float64, so what a row becomes depends on that row alone: not on its neighbours, its layout, or the engine.
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
