"""`RowBound`: the public rule that maps a row of numbers to a row of integers of bounded norm.

The rule is the same element by element whatever the order, the layout or the batch, and its bound,
q'q <= 4^bits, is a fact about integers. That is why the norm is taken *after* quantizing: a norm summed in
floating point depends on the order of summation, and one bit of it could move a quantized entry.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidDataError, InvalidParameterError, integer_between, one_of, positive_number

FloatArray = NDArray[np.float64]

# Below 2^53 every integer is a float64, so a sum of squares below it is exact in any order of summation;
# one that reaches it stays at or above it in any order, so the test "N < 2^53" is exact too.
EXACT_INTEGER_BITS = 53
_EXACT_LIMIT = float(2**EXACT_INTEGER_BITS)
NOT_FINITE = (
    "The data contain NaN or infinity; clean them first, or count such rows as zero with a RowBound of "
    "on_invalid='zero'."
)


@dataclass(frozen=True)
class RowBound:
    """A public bound on rows, and the exact integer grid they are put on.

    A row x becomes ``trunc(2^bits * scale * (x - shift) / norm)``, and is shortened to norm ``2^bits`` where
    it is longer. All parameters must be chosen without looking at the private rows.

    Parameters
    ----------
    norm : float
        Euclidean norm, in the units of ``scale * (x - shift)``, beyond which rows are clipped.
    bits : int
        Resolution of the grid: one unit is ``norm / 2^bits``.
    shift, scale : sequence of float, optional
        Public location and positive scale of every feature.
    on_invalid : {"error", "zero"}
        What a row with NaN or infinity does: raise, or count as the zero row.
    constant : float, optional
        A public number appended to every row, in the units of `norm`: the second moment then carries the mean.

    Examples
    --------
    >>> RowBound(5.0, bits=4).quantize(np.array([[3.0, 4.0], [30.0, 40.0]]))
    array([[ 9., 12.],
           [ 9., 12.]])
    """

    norm: float
    bits: int = 16
    shift: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    on_invalid: str = "error"
    constant: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", positive_number("norm", self.norm))
        object.__setattr__(self, "bits", integer_between("bits", self.bits, 2, 24))
        object.__setattr__(self, "shift", _per_feature("shift", self.shift))
        object.__setattr__(self, "scale", _per_feature("scale", self.scale))
        one_of("on_invalid", self.on_invalid, ("error", "zero"))
        if self.constant is not None:
            object.__setattr__(self, "constant", positive_number("constant", self.constant))
            if not 1 <= self.constant_units <= 2**self.bits:
                raise InvalidParameterError("constant must be at most norm, and not vanish on the grid.")
        if self.scale is not None and min(self.scale) <= 0:
            raise InvalidParameterError("scale must be above 0 for every feature.")
        if self.shift is not None and self.scale is not None and len(self.shift) != len(self.scale):
            raise InvalidParameterError("shift and scale must have one entry for every feature each.")
        factor = self.grid_factor
        if not np.all(np.isfinite(factor) & (factor > 0)):
            raise InvalidParameterError("norm and scale are too far apart for float64; give both in units nearer to 1.")

    @property
    def limit_squared(self) -> int:
        """The largest squared norm of a quantized row: 4^bits, and the square of the constant."""
        return int(4**self.bits) + self.constant_units**2

    @property
    def constant_units(self) -> int:
        """The appended integer, or 0 where none is appended."""
        return 0 if self.constant is None else round(2.0**self.bits * (self.constant / self.norm))

    @property
    def grid_factor(self) -> FloatArray:
        """Grid units per unit of a feature: a 0-d array, or one entry a feature."""
        scale = np.asarray(1.0 if self.scale is None else self.scale, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(2.0**self.bits * (scale / self.norm))

    @property
    def unit_squared(self) -> float:
        """The value of one unit of the integer second moment, in squared units of the scaled row."""
        return (self.norm / 2.0**self.bits) ** 2

    def check_width(self, n_features: int) -> None:
        """Raise if shift or scale is not as long as a row."""
        for name, entries in (("shift", self.shift), ("scale", self.scale)):
            if entries is not None and len(entries) != n_features:
                raise InvalidParameterError(
                    f"{name} has {len(entries)} entries for {n_features} features; give one for each."
                )

    def quantize(self, rows: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Return the integer rows, as float64, of a block of dense rows.

        `out`, a buffer of the same shape, saves the allocation.
        """
        shift = None if self.shift is None else np.asarray(self.shift)
        return quantize_values(self, rows, self.grid_factor, shift, rows.shape[1], out)


def quantize_values(
    bound: RowBound,
    rows: FloatArray,
    factor: FloatArray,
    shift: FloatArray | None,
    n_features: int,
    out: FloatArray | None = None,
) -> FloatArray:
    """Quantize rows that list some of their entries, the others being zero.

    `factor` and `shift` broadcast against `rows`. This is the one implementation of the rule: dense blocks
    list all entries, sparse ones list the stored entries padded with zeros, and both get the same integers.
    """
    with np.errstate(all="ignore"):  # infinities and NaN are found below by their squared norm
        if shift is None:
            grid = np.multiply(rows, factor, out=out)
        else:
            grid = np.subtract(rows, shift, out=out)
            grid *= factor
        np.trunc(grid, out=grid)
        squared = _squared_norms(grid)
    clipped = ~(squared <= 4**bound.bits)  # the negation also catches NaN
    if not clipped.any():
        return grid
    long_rows = np.flatnonzero(~(squared < _EXACT_LIMIT))
    if long_rows.size:
        grid[long_rows] = _rescaled(bound, rows, factor, shift, n_features, long_rows)
        squared[long_rows] = _squared_norms(grid[long_rows])
    _clip(grid, squared, clipped, bound.bits)
    return grid


def finite_rows(batch: Any) -> FloatArray:
    """Return a batch as dense float64, or raise where it has NaN or infinity."""
    rows = np.asarray(batch.toarray() if hasattr(batch, "toarray") else batch, dtype=np.float64)
    if not np.isfinite(rows).all():
        raise InvalidDataError(NOT_FINITE)
    return rows


def _squared_norms(rows: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _clip(grid: FloatArray, squared: FloatArray, clipped: NDArray[np.bool_], bits: int) -> None:
    """Bring the `clipped` ones of integer rows of exact squared norm `squared` to norm 2^bits or just below."""
    # The zero row (from on_invalid="zero") divides by one instead of zero. Where many rows are clipped all are
    # multiplied, the others by one: that is in place, and memory for copies costs more than the arithmetic.
    factors = np.where(clipped, 2.0**bits / np.sqrt(np.maximum(squared, 1.0)), 1.0)[:, None]
    which: Any = slice(None) if 4 * np.count_nonzero(clipped) > clipped.size else np.flatnonzero(clipped)
    part = grid[which]
    part *= factors[which]
    np.trunc(part, out=part)
    too_long = np.flatnonzero(_squared_norms(part) > 4**bits)
    # Three roundings of 2^-53 lengthen a row too little for an integer above 4^bits while bits <= 24. Checked all the
    # same, since every sensitivity rests on it; one unit off every entry takes at least sqrt(N) from N.
    part[too_long] -= np.sign(part[too_long])
    grid[which] = part


def _rescaled(
    bound: RowBound,
    rows: FloatArray,
    factor: FloatArray,
    shift: FloatArray | None,
    n_features: int,
    which: NDArray[np.intp],
) -> FloatArray:
    """Return the directions of very long rows as integers whose squared norm is exact.

    Works on mantissas and exponents apart, so nothing overflows, and brings the largest entry of every row
    just below 2^e with d * 4^e <= 2^53.
    """
    chosen = rows[which].astype(np.float64)
    finite = np.isfinite(chosen).all(axis=1)
    if bound.on_invalid == "error" and not finite.all():
        raise InvalidDataError(NOT_FINITE)
    # Halved before subtracting: the difference of two floats of 1e308 must not overflow.
    centred = chosen * 0.5 if shift is None else chosen * 0.5 - shift * 0.5
    centred[~finite] = 0.0
    mantissa, exponent = np.frexp(centred)
    factor_mantissa, factor_exponent = np.frexp(factor[which] if factor.ndim == 2 else factor)
    mantissa, carry = np.frexp(mantissa * factor_mantissa)
    exponent = exponent + factor_exponent + carry
    exponent[mantissa == 0] = np.iinfo(exponent.dtype).min // 4
    target = (EXACT_INTEGER_BITS - math.ceil(math.log2(n_features))) // 2
    steps = exponent - exponent.max(axis=1, keepdims=True) + target
    return np.asarray(np.trunc(np.ldexp(mantissa, np.maximum(steps, -2000))))


def _per_feature(name: str, value: Sequence[float] | FloatArray | None) -> tuple[float, ...] | None:
    if value is None:
        return None
    try:
        entries = np.asarray(value)
    except ValueError:
        raise InvalidParameterError(f"{name} must be a list of numbers, one a feature.") from None
    if entries.ndim != 1 or entries.size == 0 or entries.dtype.kind not in "fiu":
        raise InvalidParameterError(f"{name} must be a list of numbers, one a feature.")
    if not np.isfinite(entries.astype(np.float64)).all():
        raise InvalidParameterError(f"{name} must be finite for every feature.")
    return tuple(float(entry) for entry in entries)
