"""What an estimator is asked for by its parameters: what is true or false, and in whose units."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ..accounting.calibration import decimal_below
from ..errors import InvalidParameterError, positive_number, truth_value
from ..guarantee import Adjacency, Guarantee, Numerics
from ..moments import RowBound
from ..moments.comparisons import COMPARISONS
from ..moments.counts import NORM_GRID
from ..moments.row_rule import COMPARED
from ..numerics import FloatArray
from ..tables.schema import Schema

TRUTH_VALUES = {"standardize": "; give public sizes by a schema", "center": "; give a public middle by bounds"}
"""Parameters that are true or false, with what to do for who means numbers."""


def told(estimator: Any, name: str) -> bool:
    """Return a parameter that is true or false, or refuse it."""
    return truth_value(name, getattr(estimator, name), TRUTH_VALUES[name])


def has_own_units(estimator: Any, schema: Schema | None) -> bool:
    """Return whether public ranges bound rows alone, and what is asked for is asked of features in their own units.

    Not of matrices in the units of the features anyway, nor of correlations. About the origin with a norm of mapped
    features, those are what is asked for: a mechanism may draw their directions, and no matrix.
    """
    if estimator._lengths or told(estimator, "standardize"):
        return False
    ranges = estimator.bounds is not None or getattr(schema, "bounds", None) is not None
    return ranges and (told(estimator, "center") or estimator.norm_bound is None)


NORM_SHARE = Fraction(1, 10)
"""Share of epsilon for a privately chosen norm bound."""
RANGES_SHARE = Fraction(3, 10)
"""Share of epsilon for privately found ranges of the features: a tenth for each of three searches."""
CHOICES = {"bounds": "the ranges of the features", "norm_bound": "the norm bound"}
"""What may be chosen privately, in words."""
INSTEAD = {"bounds": "public bounds, or a schema with ranges", "norm_bound": "a public norm_bound, or bounds"}
"""What to give in place of it."""
LEAST_REACH = 0.25
"""How far a feature reaches at least, beside features in the mean, where they are read in their own units."""
POOLED_CONSTANT = 0.125
"""The constant of pooled statistic in units of a person's norm: half of what a row has where a person has sixteen."""


def euclidean(reach: FloatArray) -> float:
    """Return the norm of a row whose features all are as far out as they reach."""
    return float(np.linalg.norm(reach))


@dataclass(frozen=True, eq=False)
class RowPreparation:
    """Where the rows are mapped to; a norm of None is found privately, and so are ranges that are asked for.

    Parameters
    ----------
    statistic : {"clipped", "normalized", "spatial_sign", "kendall"}
    shift, scale : ndarray, optional
        Public location and scale of every feature.
    norm : float, optional
        Bound on the norm of a row.
    center : bool
        Append a constant, so that the mean is part of the release.
    ranges : tuple of int
        Features of which a range is to be found, which then says shift and scale; the others are 0 or 1.
    longest : float, optional
        A norm that is found need not be larger.
    without_range : tuple of int
        Features for which none was found.
    own_units : bool
        Whether what is asked for is asked of the features in their own units, and ranges serve to bound rows alone.
    unit_weight : {None, "equal", "by_rows"}
        What counts once where persons are the unit, as in `RowRule`.
    most_weight : float, optional
        The largest public weight of a row, where rows have weights.
    """

    statistic: str = "clipped"
    shift: FloatArray | None = None
    scale: FloatArray | None = None
    norm: float | None = None
    center: bool = False
    ranges: tuple[int, ...] = ()
    longest: float | None = None
    without_range: tuple[int, ...] = ()
    own_units: bool = False
    unit_weight: str | None = None
    most_weight: float | None = None

    def choices(self, epsilon: Fraction, adjacency: Adjacency) -> dict[str, Guarantee]:
        """Return what the private choices cost, by what is chosen."""
        shares = {"bounds": RANGES_SHARE if self.ranges else Fraction(0)}
        shares["norm_bound"] = NORM_SHARE if self.norm is None else Fraction(0)
        return {
            name: Guarantee(decimal_below(epsilon * share), 0.0, adjacency, Numerics.EXACT)
            for name, share in shares.items()
            if share
        }

    def of_unit_rows(self) -> "RowPreparation":
        """Return the preparation that takes the directions of the statistic, whatever their lengths."""
        return replace(self, statistic="normalized", norm=1.0)

    def within(self, middle: FloatArray, half: FloatArray, without: tuple[int, ...]) -> "RowPreparation":
        """Return the preparation with ranges that were found, which are mapped to [-1, 1]."""
        # Rows far beyond their ranges are few, but in own units they may have most of the variance.
        # How many rows are pooled, a range does not say.
        unknown = self.own_units or self.unit_weight == "by_rows"
        longest = None if unknown else float(middle.size**0.5)
        return replace(self, shift=middle, scale=1 / half, ranges=(), longest=longest, without_range=without)

    def with_norm(self, norm: float) -> "RowPreparation":
        """Return the preparation with a norm bound that was found."""
        return replace(self, norm=norm if self.longest is None else min(norm, self.longest))

    @cached_property
    def without_constant(self) -> "RowPreparation":
        """The preparation of rows whose mean is measured by itself."""
        return replace(self, center=False) if self.center else self

    def check_ends(self) -> None:
        """Refuse, before anything is spent, what some outcome of the private choices could not be combined with."""
        for norm in (float(NORM_GRID[0]), float(NORM_GRID[-1])) if self.norm is None else (self.norm,):
            one = self.with_norm(norm)
            _ = (self if one.norm == self.norm else one).bound

    @cached_property
    def bound(self) -> RowBound:
        """The rule at work; with norm 1 where it is not found yet, on the same grid."""
        bound = RowBound(
            self.norm_or_one,
            shift=None if self.shift is None else tuple(self.shift.tolist()),
            scale=None if self.scale is None else tuple(self.scale.tolist()),
            constant=self.norm_or_one * self._constant_share if self.center else None,
            statistic=self.statistic,
            comparisons=COMPARISONS if self.statistic in COMPARED else 1,
            unit_weight=self.unit_weight,
            most_weight=self.most_weight,
        )
        bound.check_sizes()
        return bound

    @property
    def norm_or_one(self) -> float:
        """The norm of `bound`, which is not made for it."""
        return 1.0 if self.norm is None else self.norm

    @property
    def _constant_share(self) -> float:
        """The constant in units of the norm, which pooled rows of a person share, their constants with them."""
        return POOLED_CONSTANT if self.unit_weight == "by_rows" else 0.5


def public_preparation(
    d: int,
    statistic: str,
    *,
    norm_bound: Any,
    bounds: Any,
    standardize: bool,
    center: bool,
    sizes: Sequence[float] | None = None,
    ranges: tuple[int, ...] = (),
    own_units: bool = False,
    longest: Callable[[FloatArray], float] = euclidean,
    **counted_as: Any,
) -> RowPreparation:
    """Read the public bounds for rows of d features; without any, `ranges` of these features may be found privately.

    `sizes` are what to divide features by that have no bounds, `longest` tells the norm that no row is beyond where
    features reach so far from the middle of their ranges, and `counted_as` what a row or a person counts.
    """
    _check_target(statistic, standardize, center)
    scale = None if sizes is None else np.array([1 / size for size in sizes])
    if statistic != "clipped":
        if norm_bound is not None or bounds is not None:
            raise InvalidParameterError(f"statistic={statistic!r} needs no norm_bound and no bounds; leave them out.")
        norm = d**0.5 if statistic == "kendall" else 1.0
        return RowPreparation(statistic, scale=scale, norm=norm, **counted_as)
    norm = None if norm_bound is None else positive_number("norm_bound", norm_bound)
    if bounds is None:
        return RowPreparation(statistic, None, scale, norm, bool(center), ranges, **counted_as)
    low, high = _bounds(bounds, d)
    half = (high - low) / 2
    scale = 1 / half if norm is not None or not own_units else own_scale(half, center)
    if (
        norm is None and counted_as.get("unit_weight") != "by_rows"
    ):  # of pooled rows a range says nothing about how many there are
        norm = longest(half * scale)
    middle = (low + high) / 2
    return RowPreparation(statistic, middle, scale, norm, bool(center), own_units=own_units, **counted_as)


def own_scale(half: FloatArray, center: bool) -> FloatArray:
    """Return what features with these half widths are multiplied by where they are read in their own units.

    By nothing about the origin, where a mechanism may draw directions, which stay what they are only in rows that are not
    scaled. About the mean so that they reach as far out as the root of the half width, which is where the noise is
    least, in own units (docs/explanation/raw_tables.md); the narrow ones a little farther, which costs little.
    """
    if not center:
        return np.ones_like(half)
    return np.asarray(np.sqrt(np.maximum(half, half.mean() * LEAST_REACH**2)) / half)


def _check_target(statistic: str, standardize: bool, center: bool) -> None:
    """Refuse to be asked for two things at once."""
    if standardize and not center:
        raise InvalidParameterError("standardize=True asks for correlations, which are about the mean; leave center.")
    if standardize and statistic in ("normalized", "spatial_sign"):
        raise InvalidParameterError(f"statistic={statistic!r} tells no correlations; leave rows out, or standardize.")
    if statistic in COMPARED and not center:
        raise InvalidParameterError(
            f"statistic={statistic!r} compares rows with one another, so what it tells is about the mean; leave out center=False."
        )
    if statistic == "normalized" and center:
        raise InvalidParameterError(
            "statistic='normalized' takes directions from the origin, not from the mean; add center=False."
        )


def _bounds(bounds: Any, d: int) -> tuple[FloatArray, FloatArray]:
    try:
        low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), d) for side in bounds)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameterError("bounds must be (low, high), each one number or one for every feature.") from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise InvalidParameterError("bounds must be finite, with low below high for every feature.")
    return low, high
