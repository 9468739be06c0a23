"""`RowBound`: the public rule that maps a row of numbers to a row of integers of bounded norm.

The rule is the same element by element whatever the order, the layout or the batch, and its bound,
q'q <= 4^bits, is a fact about integers. That is why the norm is taken *after* quantizing: a norm summed in
floating point depends on the order of summation, and one bit of it could move a quantized entry.
"""

from typing import Any

import numpy as np

from ..errors import InvalidDataError, InvalidParameterError
from ..numerics import FloatArray
from .kernels import dense_rows, kernels_for
from .numpy_kernels import EXACT_INTEGER_BITS as EXACT_INTEGER_BITS
from .numpy_kernels import EXACT_LIMIT, SINGLE_BITS, Shortening, clip, squared_norms, units_together, weigh
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
        """Return what `single_integers` makes of dense rows that are all too long for the exact square of a norm."""
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
        """The parameters by which that is done."""
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
