"""`RowRule`: the public record of how rows become integers; it holds no row and reads none.

`eigenveil.moments.RowBound` is the same rule at work on rows. This half stands by itself, so that a release can tell
how its rows were made, and whoever reads it can convert units, with no way to a row.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import InvalidParameterError, integer_between, one_of, positive_number
from ..guarantee import Unit
from ..numerics import FloatArray

STATISTICS = ("clipped", "normalized", "spatial_sign", "kendall")
COMPARED = ("spatial_sign", "kendall")
"""Rules by which rows are compared with one another."""
UNIT_WEIGHTS = ("equal", "by_rows")
"""What counts once where a privacy unit is given: a person's average, or every row."""
_MOST_COMPARISONS = 2**10
MOST_SUM = 2**62
"""Sums that may reach it are no longer kept in int64, whose other half is room for noise."""
# What is computed from a release raises norms to their eighth power and scales to their second.
_LARGEST_NORM, _LARGEST_SCALE = 1e30, 1e140


@dataclass(frozen=True)
class RowRule:
    """The public bound on rows, and the integer grid they are put on.

    A row x becomes ``trunc(2^bits * scale * (x - shift) / norm)``, and is shortened to norm ``2^bits`` where
    it is longer. All parameters must be chosen without looking at the private rows.

    Where rows are compared, what becomes integers is comparisons of two rows each (docs/explanation/kendall.md).

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
    statistic : {"clipped", "normalized", "spatial_sign", "kendall"}
        What becomes integers: the rows themselves; with ``"normalized"`` their directions, so that rows of every length
        come to norm 1; normalized differences of scaled rows, of norm 1; or the signs of such differences, of norm
        sqrt(d). The last two need neither shift nor constant.
    comparisons : int
        How many comparisons a row takes part in: an even number where rows stand with cyclic neighbours. 1 for rows
        that are not compared, and for the disjoint pairs of older files, whose number of rows is that of pairs.
    mapped_from : float, optional
        Where clipped rows were mapped by a public matrix, "map" of the release: the norm that they were clipped to
        before. Then `norm` is that of mapped rows.
    unit_weight : {None, "equal", "by_rows"}
        None: the unit is one row, and `norm` is a row's. Else it is one person with all of their rows, which are
        shortened together (docs/explanation/privacy_units.md). ``"equal"``: every person's average counts once, and
        `norm` is that of a person, the root of the mean of the squared norms of their rows. ``"by_rows"``: rows are
        pooled, and `norm` is the root of the sum of the squared norms of a person's rows.
    most_weight : float, optional
        Where rows have public weights: the largest that is allowed. A row of weight w is multiplied by
        ``sqrt(w / most_weight)`` after it was bounded.
    most_untied : int, optional
        Where rows are signs: one with more untied features than this many, b, is shortened to the norm of b signs. With
        m untied features it then counts d / max(b, m) times, so that the trace of a comparison is d at most. None for b
        = d, as in older files.

    Examples
    --------
    >>> rule = RowRule(5.0, bits=4)
    >>> rule.limit_squared, rule.unit_squared
    (256, 0.09765625)
    >>> RowRule(1.0, bits=4, statistic="spatial_sign", comparisons=8).limit_squared
    2048
    """

    norm: float
    bits: int = 16
    shift: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    on_invalid: str = "error"
    constant: float | None = None
    statistic: str = "clipped"
    comparisons: int = 1
    mapped_from: float | None = None
    unit_weight: str | None = None
    most_weight: float | None = None
    most_untied: int | None = None

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
        one_of("statistic", self.statistic, STATISTICS)
        if self.unit_weight is not None:
            one_of("unit_weight", self.unit_weight, UNIT_WEIGHTS)
        if self.most_weight is not None:
            object.__setattr__(self, "most_weight", positive_number("most_weight", self.most_weight))
        object.__setattr__(self, "comparisons", integer_between("comparisons", self.comparisons, 1, _MOST_COMPARISONS))
        self._check_kind()
        factor = self.grid_factor
        if not (factor.min() > 0 and factor.max() < math.inf):  # nor NaN, which is neither
            raise InvalidParameterError("norm and scale are too far apart for float64; give both in units nearer to 1.")

    def _check_kind(self) -> None:
        if self.statistic in ("normalized", "spatial_sign") and (self.row_norm != 1 or self.constant is not None):
            raise InvalidParameterError("Directions of rows and of pairs have norm 1, and no constant.")
        if self.statistic == "spatial_sign" and self.shift is not None:
            raise InvalidParameterError("Pairs of rows have no shift.")
        if self.statistic == "kendall" and not (self.shift is None and self.scale is None and self.constant is None):
            raise InvalidParameterError("Signs of differences have neither a shift nor a scale nor a constant.")
        if self.most_untied is not None:
            if self.statistic != "kendall":
                raise InvalidParameterError("most_untied is about signs of differences; leave it out.")
            object.__setattr__(self, "most_untied", integer_between("most_untied", self.most_untied, 1, self._n_signs))
        if self.mapped_from is not None and self.compares:
            raise InvalidParameterError("Comparisons of rows are not mapped.")
        if (self.comparisons % 2 or not self.compares) if self.compares_neighbours else self.statistic == "kendall":
            raise InvalidParameterError("comparisons must be an even number for pairs and signs, and 1 for other rows.")
        if self.unit_weight is not None and self.mapped_from is not None and self.constant is not None:
            raise InvalidParameterError("Rows of privacy units with a constant are not mapped; measure the mean first.")
        if self.unit_weight == "by_rows" and self.compares:
            raise InvalidParameterError(
                f"statistic='{self.statistic}' compares one row of every person, so that a person takes part in as "
                "many comparisons as any other; use unit_weight='equal'."
            )
        if self.unit_weight == "by_rows" and self.statistic == "normalized":
            raise InvalidParameterError("Directions of rows are averaged over each person; use unit_weight='equal'.")
        if self.most_weight is None:
            return
        if self.unit_weight is not None:
            raise InvalidParameterError(
                "Rows of privacy units have no weights of their own; give either privacy units or weights."
            )
        if self.compares:
            raise InvalidParameterError(
                f"statistic='{self.statistic}' compares rows, which have no weights then; use statistic='clipped'."
            )
        if self.mapped_from is not None:
            raise InvalidParameterError("Rows with weights are not mapped; release them in one pass.")

    @property
    def unit(self) -> Unit:
        """Whose data one unit is: a row's, or a person's with all of their rows."""
        return Unit.ROW if self.unit_weight is None else Unit.PERSON

    @property
    def takes_units(self) -> bool:
        """Whether all rows of a privacy unit become integers together; for differences, one row per unit is used."""
        return self.unit_weight is not None and not self.compares

    @property
    def knows_corner(self) -> bool:
        """Whether every unit adds the whole square of the constant to the corner, so that its value is public."""
        return self.unit_weight != "by_rows" and self.most_weight is None

    @property
    def compares(self) -> bool:
        """Whether what becomes integers is comparisons of two rows each."""
        return self.statistic in COMPARED

    @property
    def compares_neighbours(self) -> bool:
        """Whether every row is compared with several others; else it takes part in one integer row alone."""
        return self.comparisons > 1

    @property
    def needs_matrix(self) -> bool:
        """Whether what is computed from a release is made of a whole matrix: one about the mean, or a correlation."""
        return self.constant is not None or self.statistic == "kendall"

    @property
    def keeps_lengths(self) -> bool:
        """Whether rows have a length in the units of the table, up to the norm; else they are directions."""
        return self.statistic == "clipped"

    @cached_property
    def limit_squared(self) -> int:
        """The largest trace that one row has a part in, which mechanisms hide: that of all of its comparisons."""
        return self.comparisons * self.row_limit_squared

    @cached_property
    def row_limit_squared(self) -> int:
        """The largest squared norm of one integer row: 4^bits, and the square of the constant."""
        return int(4**self.bits) + self.constant_units**2

    @property
    def feature_limit_squared(self) -> int:
        """The largest trace that one unit has a part in, of the features alone, without the constant."""
        return self.limit_squared - (self.constant_units**2 if self.knows_corner else 0)

    @cached_property
    def constant_units(self) -> int:
        """The appended integer, or 0 where none is appended."""
        return 0 if self.constant is None else round(2.0**self.bits * (self.constant / self.norm))

    @cached_property
    def grid_factor(self) -> FloatArray:
        """Grid units per unit of a feature: a 0-d array, or one entry a feature."""
        if self.statistic == "kendall":
            factor = np.asarray(float(self._sign_units))
        else:
            scaled_before = self.scale is None or self.statistic == "spatial_sign"  # a direction is of scaled rows
            scale = np.asarray(1.0 if scaled_before else self.scale, dtype=np.float64)
            with np.errstate(over="ignore", under="ignore"):
                factor = np.asarray(2.0**self.bits * (scale / self.norm))
        factor.flags.writeable = False
        return factor

    @property
    def row_norm(self) -> float:
        """The norm that rows were clipped to, before a map if there was one."""
        return self.norm if self.mapped_from is None else self.mapped_from

    @cached_property
    def unit_squared(self) -> float:
        """The value of one unit of the integer second moment, in squared units of the scaled row.

        The sum of n rows over n is then the mean; with cyclic neighbours that of n * comparisons / 2 comparisons.
        """
        signs = self.statistic == "kendall"
        unit = math.sqrt(self.largest_share) / self._sign_units if signs else self.norm / 2.0**self.bits
        return unit**2 * (2 / self.comparisons if self.compares_neighbours else 1.0)

    @cached_property
    def reach_squared(self) -> float:
        """The square of the longest row, its constant included, in squared units of the scaled row.

        With cyclic neighbours twice that of a comparison, since each is shared by two rows.
        """
        return self.limit_squared * self.unit_squared

    def fits(self, n_rows: int) -> bool:
        """Return whether sums over so many rows stay within int64, whatever the rows are.

        Examples
        --------
        >>> [RowRule(1.0, bits=bits).fits(10**12) for bits in (16, 12, 11)]
        [False, False, True]
        """
        n_integer_rows = n_rows * self.comparisons // 2 if self.compares_neighbours else n_rows
        return n_integer_rows * self.row_limit_squared < MOST_SUM

    @property
    def largest_share(self) -> float:
        """The largest that an entry of the diagonal of a mean of signs can be."""
        return 1.0 if self.most_untied is None else self._n_signs / self.most_untied

    @property
    def _n_signs(self) -> int:
        return max(1, round(self.norm**2))

    @property
    def _sign_units(self) -> int:
        """The integer that stands for a sign: the largest u with b u^2 <= 4^bits."""
        return math.isqrt(4**self.bits // (self._n_signs if self.most_untied is None else self.most_untied))

    @property
    def constant_value(self) -> float:
        """The appended constant as it stands on the grid, in units of the scaled row."""
        return self.constant_units * self.norm / 2.0**self.bits

    @cached_property
    def rule(self) -> "RowRule":
        """The public record alone, without the code that reads rows."""
        record = object.__new__(RowRule)
        vars(record).update(self.to_dict())  # which were checked when this was made
        return record

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return {name: getattr(self, name) for name in _FIELDS}

    def check_sizes(self) -> None:
        """Refuse sizes whose squares would overflow or vanish when a release is read, which is paid for by then."""
        norms = [self.norm, self.row_norm, 1.0 if self.most_weight is None else self.most_weight]
        scales = (1.0,) if self.scale is None else self.scale
        shift = (0.0,) if self.shift is None else self.shift
        fit = min(norms) >= 1 / _LARGEST_NORM and max(norms) <= _LARGEST_NORM
        fit &= min(scales) > 1 / _LARGEST_SCALE and max(scales) < _LARGEST_SCALE
        if not (fit and max(max(shift), -min(shift)) <= _LARGEST_SCALE):
            raise InvalidParameterError("norm and scale are too far apart for float64; give both in units nearer to 1.")

    def check_width(self, n_features: int) -> None:
        """Raise if shift or scale is not as long as a row, or signs are bounded for another width."""
        if self.statistic == "kendall" and round(self.norm**2) != n_features:
            raise InvalidParameterError("Signs of differences have the norm sqrt(d), d the number of features.")
        for name, entries in (("shift", self.shift), ("scale", self.scale)):
            if entries is not None and len(entries) != n_features:
                raise InvalidParameterError(
                    f"{name} has {len(entries)} entries for {n_features} features; give one for each."
                )


_FIELDS = tuple(one.name for one in fields(RowRule))


def _per_feature(name: str, value: Sequence[float] | FloatArray | None) -> tuple[float, ...] | None:
    if value is None:
        return None
    try:
        entries = np.asarray(value)
    except ValueError:
        raise InvalidParameterError(f"{name} must be a list of numbers, one a feature.") from None
    if entries.ndim != 1 or entries.size == 0 or entries.dtype.kind not in "fiu":
        raise InvalidParameterError(f"{name} must be a list of numbers, one a feature.")
    numbers = entries.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise InvalidParameterError(f"{name} must be finite for every feature.")
    return tuple(numbers.tolist())
