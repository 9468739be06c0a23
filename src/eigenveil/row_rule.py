"""`RowRule`: the public record of how rows become integers; it holds no row and reads none.

`eigenveil.rows.RowBound` is the same rule at work on rows. This half stands by itself, so that a release can tell how
its rows were made, and whoever reads it can convert units, with no way to a row.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidParameterError, integer_between, one_of, positive_number

FloatArray = NDArray[np.float64]

ROW_RULES = ("clip", "pairs")


@dataclass(frozen=True)
class RowRule:
    """The public bound on rows, and the integer grid they are put on.

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

    rows : {"clip", "pairs"}
        What is clipped: the rows themselves, or with ``"pairs"`` the normalized differences of disjoint pairs of scaled
        rows, which have norm 1 and need no shift.

    Examples
    --------
    >>> rule = RowRule(5.0, bits=4)
    >>> rule.limit_squared, rule.unit_squared
    (256, 0.09765625)
    """

    norm: float
    bits: int = 16
    shift: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    on_invalid: str = "error"
    constant: float | None = None
    rows: str = "clip"

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
        if one_of("rows", self.rows, ROW_RULES) == "pairs" and (
            self.norm != 1 or self.shift is not None or self.constant is not None
        ):
            raise InvalidParameterError("Pairs of rows have norm 1, and neither a shift nor a constant.")
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
        scaled_before = self.scale is None or self.rows == "pairs"  # a direction is made of scaled rows
        scale = np.asarray(1.0 if scaled_before else self.scale, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(2.0**self.bits * (scale / self.norm))

    @property
    def unit_squared(self) -> float:
        """The value of one unit of the integer second moment, in squared units of the scaled row."""
        return (self.norm / 2.0**self.bits) ** 2

    @property
    def reach_squared(self) -> float:
        """The square of the longest row, its constant included, in squared units of the scaled row."""
        return self.limit_squared * self.unit_squared

    @property
    def constant_value(self) -> float:
        """The appended constant as it stands on the grid, in units of the scaled row."""
        return self.constant_units * self.norm / 2.0**self.bits

    @property
    def rule(self) -> "RowRule":
        """The public record alone, without the code that reads rows."""
        return RowRule(**asdict(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return asdict(self)

    def check_width(self, n_features: int) -> None:
        """Raise if shift or scale is not as long as a row."""
        for name, entries in (("shift", self.shift), ("scale", self.scale)):
            if entries is not None and len(entries) != n_features:
                raise InvalidParameterError(
                    f"{name} has {len(entries)} entries for {n_features} features; give one for each."
                )


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
