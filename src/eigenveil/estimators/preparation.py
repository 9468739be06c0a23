"""How the rows of a fit become integers: from declared parameters, an estimator's needs and public facts of a table."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import CapacityError, InvalidDataError, InvalidParameterError, positive_number, quoted
from ..guarantee import Adjacency
from ..mechanisms import MECHANISMS
from ..moments import RowBound
from ..moments.comparisons import COMPARISONS, most_untied
from ..moments.counts import NORM_GRID
from ..moments.row_rule import COMPARED
from ..numerics import FloatArray
from ..tables.schema import Schema
from .parameters import AUTO, Estimator, Features, FitParameters, Needs

MOST_BITS, LEAST_BITS = 16, 8
"""Resolution of the grid of integer rows: as fine as their public number allows. 16 bits do for 8.6e8 clipped rows."""
CHOICES = {
    "bounds": "the ranges of the features",
    "medians": "the medians of the features",
    "norm_bound": "the norm bound",
}
"""What may be chosen privately, in words."""
INSTEAD = {"bounds": "public bounds, or a schema with ranges", "norm_bound": "a public norm_bound, or bounds"}
"""What to give in place of it."""
LEAST_REACH = 0.25
"""How far a feature reaches at least, beside features in the mean, where they are read in their own units."""
POOLED_CONSTANT = 0.125
"""The constant of pooled rows in units of a person's norm: half of what a row has where a person has sixteen."""
_ANOTHER_PASS = (
    "partial_fit sees every row once, and a private bound would take another pass; give a public norm_bound, bounds or "
    "schema with ranges, or statistic='spatial_sign', or call fit."
)


@dataclass(frozen=True, eq=False)
class RowPreparation:
    """Map of rows to integers. A norm of None is found privately, and so are the ranges of the features in `ranges`.

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
    half : ndarray, optional
        Half the widths of public ranges, whose middles are `shift`.
    medians : tuple of int
        Features of which a median is to be found within the public range, in case rows are shorter about it.
    without_range : tuple of int
        Features for which none was found.
    own_units : bool
        Whether what is asked for is asked of the features in their own units, and ranges serve to bound rows alone.
    unit_weight : {None, "equal", "by_rows"}
        What counts once where a privacy unit is given, as in `RowRule`.
    most_weight : float, optional
        The largest public weight of a row, where rows have weights.
    given : mapping
        The bounds that the caller gave, as `Origin` records them.
    most_untied, bits : int, optional
        As in `RowRule`.
    """

    statistic: str = "clipped"
    shift: FloatArray | None = None
    scale: FloatArray | None = None
    norm: float | None = None
    center: bool = False
    ranges: tuple[int, ...] = ()
    longest: float | None = None
    half: FloatArray | None = None
    medians: tuple[int, ...] = ()
    without_range: tuple[int, ...] = ()
    own_units: bool = False
    unit_weight: str | None = None
    most_weight: float | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    most_untied: int | None = None
    bits: int = MOST_BITS

    @property
    def chosen(self) -> tuple[str, ...]:
        """Names of the private choices."""
        return ("bounds",) * bool(self.ranges) + ("norm_bound",) * (self.norm is None)

    def for_rows(self, n_rows: int | None) -> "RowPreparation":
        """Return the preparation on the finest grid on which the sums of so many rows fit int64, or refuse them.

        Where their number is not public, or not known, the grid stays as it is.
        """
        bits = MOST_BITS
        while n_rows is not None and bits >= LEAST_BITS:
            rule = replace(self, bits=bits).bound.rule
            if rule.fits(n_rows):
                break
            bits -= 1
        if bits < LEAST_BITS:
            raise CapacityError(
                f"The sums of {n_rows:,} rows do not fit int64, not even on a grid of {LEAST_BITS} bits; use fewer "
                "rows."
            )
        return self if bits == self.bits else replace(self, bits=bits)

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

    def about(self, medians: FloatArray) -> "RowPreparation":
        """Return the preparation about these medians in place of the middles of public ranges."""
        assert self.shift is not None
        assert self.longest is not None
        moved = float(np.linalg.norm((medians - self.shift) * (1.0 if self.scale is None else self.scale)))
        return replace(self, shift=medians, longest=self.longest + moved, half=None, medians=())

    def with_norm(self, norm: float) -> "RowPreparation":
        """Return the preparation with a norm bound that was found."""
        return replace(self, norm=norm if self.longest is None else min(norm, self.longest))

    @cached_property
    def without_constant(self) -> "RowPreparation":
        """The preparation of rows whose mean is measured by itself."""
        return replace(self, center=False) if self.center else self

    @cached_property
    def ends(self) -> tuple[RowBound, ...]:
        """The rules of the least and of the largest norm that may be found, or an error if there is none."""
        norms = (float(NORM_GRID[0]), float(NORM_GRID[-1])) if self.norm is None else (self.norm,)
        return tuple((self if one.norm == self.norm else one).bound for one in map(self.with_norm, norms))

    @cached_property
    def bound(self) -> RowBound:
        """The rule at work; with norm 1 where it is not found yet, on the same grid."""
        # Pooled rows of a person share the norm, their constants with them.
        share = POOLED_CONSTANT if self.unit_weight == "by_rows" else 0.5
        bound = RowBound(
            self.norm_or_one,
            bits=self.bits,
            shift=None if self.shift is None else tuple(self.shift.tolist()),
            scale=None if self.scale is None else tuple(self.scale.tolist()),
            constant=self.norm_or_one * share if self.center else None,
            statistic=self.statistic,
            comparisons=COMPARISONS if self.statistic in COMPARED else 1,
            unit_weight=self.unit_weight,
            most_weight=self.most_weight,
            most_untied=self.most_untied,
        )
        bound.check_sizes()
        return bound

    @property
    def norm_or_one(self) -> float:
        """The norm of `bound`, which is not made for it."""
        return 1.0 if self.norm is None else self.norm


def _check_target(statistic: str, standardize: bool, center: bool) -> None:
    """Refuse parameters that contradict each other."""
    if standardize and not center:
        raise InvalidParameterError(
            "standardize=True releases correlations, which are about the mean. Leave out center=False."
        )
    if standardize and statistic in ("normalized", "spatial_sign"):
        raise InvalidParameterError(
            f"statistic={statistic!r} cannot release correlations. Use statistic='auto', or leave out standardize."
        )
    if statistic in COMPARED and not center:
        raise InvalidParameterError(
            f"statistic={statistic!r} uses differences of rows, so its result is about the mean. Leave out "
            "center=False."
        )
    if statistic == "normalized" and center:
        raise InvalidParameterError("statistic='normalized' uses directions from the origin. Add center=False.")


def _bounds(bounds: Any, d: int) -> tuple[FloatArray, FloatArray]:
    """Return the low and the high ends of every feature, or refuse bounds that are none."""
    try:
        low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), d) for side in bounds)
    except (TypeError, ValueError, OverflowError):
        problem = "bounds must be (low, high), each one number or one for every feature."
    else:
        if np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all():
            return low, high
        problem = "bounds must be finite, with low below high for every feature."
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        pairs = np.asarray(bounds, dtype=np.float64)
        if pairs.ndim == 2 and pairs.shape[1] == 2 and (pairs[:, 0] < pairs[:, 1]).all():
            problem = (
                "bounds must be (low, high) or {column: (low, high)}, and a list of pairs is neither; use "
                "dict(zip(columns, bounds)), or dict(enumerate(bounds)) for columns without names."
            )
    raise InvalidParameterError(problem)


def has_own_units(parameters: FitParameters, needs: Needs, schema: Schema | None) -> bool:
    """Return whether public ranges bound rows alone, and the release is about features in their own units.

    Not of matrices in the units of the features anyway, nor of correlations. About the origin with a norm of mapped
    features, those are what is asked for: a mechanism may draw their directions, and no matrix.
    """
    if needs.lengths or parameters.standardize:
        return False
    ranges = parameters.bounds is not None or getattr(schema, "bounds", None) is not None
    return ranges and (parameters.center or parameters.norm_bound is None)


def statistic_for(parameters: FitParameters, needs: Needs, features: Features | None = None) -> str:
    """Return the statistic that was named, or that which suits what is public.

    Rows are clipped where a bound is public, where their lengths matter, and where they cannot be compared: under
    add/remove, on an engine or from a query, about the origin, where all rows of privacy units are pooled, and where
    ``stages=2``. Else they are compared, and nothing about them need be known.
    """
    if parameters.statistic != AUTO:
        return parameters.statistic
    if (
        _uses_lengths(parameters, needs)
        or not _comparable(parameters, features)
        or _has_public_bound(parameters, features)
    ):
        return "clipped"
    pooled = features is not None and features.by_unit and parameters.unit_weight == "by_rows"
    if pooled or parameters.stages == 2:
        return "clipped"
    return "kendall" if parameters.standardize else "spatial_sign"


def _may_find_ranges(parameters: FitParameters, features: Features) -> bool:
    """Return whether a range of every feature may be found privately: rows can be compared, and nothing is public."""
    if parameters.statistic != AUTO or (features.schema is not None and features.schema.says_sizes):
        return False
    return _comparable(parameters, features) and not _has_public_bound(parameters, features)


def _uses_lengths(parameters: FitParameters, needs: Needs) -> bool:
    return needs.lengths and not parameters.standardize


def _comparable(parameters: FitParameters, features: Features | None) -> bool:
    # Privacy units stand in the order of their identifiers, each with one of their rows.
    in_order = features is None or features.in_order or features.by_unit
    if features is not None and features.most_weight is not None:  # which a comparison of two rows has no place for
        return False
    return in_order and parameters.center and parameters.adjacency is Adjacency.REPLACE_ONE


def _has_public_bound(parameters: FitParameters, features: Features | None) -> bool:
    schema = parameters.schema if features is None else features.schema
    declared = parameters.norm_bound, parameters.bounds, getattr(schema, "bounds", None)
    if any(bound is not None for bound in declared):
        return True
    return features is not None and _only_indicators(parameters, features)


def _only_indicators(parameters: FitParameters, features: Features) -> bool:
    return not features.without_public_range and parameters.bounds is parameters.norm_bound is None


def check_published(parameters: FitParameters, features: Features) -> None:
    """Refuse the constants of a paper for rows of which no bound is public: the papers have rows of norm at most 1."""
    options = parameters.mechanism_options
    published = isinstance(options, Mapping) and options.get("calibration") == "paper"
    if published and not _has_public_bound(parameters, features):
        raise InvalidParameterError(
            "calibration='paper' is for rows of bounded norm, as the papers have them; give norm_bound (and "
            "center=False, since the papers do not centre), or leave calibration out."
        )


def check_one_pass(estimator: Estimator) -> None:
    """Raise an `AttributeError` where something about the rows must be found out before they are collected."""
    parameters, needs = FitParameters.of(estimator), estimator._needs()
    if statistic_for(parameters, needs) == "clipped" and not _has_public_bound(parameters, None):
        raise AttributeError(_ANOTHER_PASS)


def prepared(parameters: FitParameters, needs: Needs, features: Features) -> RowPreparation:
    """Return the preparation of the rows of a table, from declared parameters and public facts."""
    statistic = statistic_for(parameters, needs, features)
    if statistic in COMPARED and not (features.in_order or features.by_unit):
        raise InvalidDataError(
            f"These rows come in no public order, so statistic='{statistic}' cannot compare them; use "
            "statistic='clipped', give them as a file or an array, or open a query with public_order=True if its order "
            "does not depend on values."
        )
    norm_bound, bounds, sizes = _bounds_of(parameters, features, statistic)
    _check_target(statistic, parameters.standardize, parameters.center)
    d, center, counted_as = features.n_features, parameters.center, features.counted_as(parameters)
    scale = None if sizes is None else np.array([1 / size for size in sizes])
    if statistic != "clipped":
        if norm_bound is not None or bounds is not None:
            raise InvalidParameterError(f"statistic={statistic!r} needs no norm_bound and no bounds; leave them out.")
        if statistic == "kendall":
            return RowPreparation(statistic, norm=d**0.5, most_untied=most_untied(d), **counted_as)
        return RowPreparation(statistic, scale=scale, norm=1.0, **counted_as)
    norm = None if norm_bound is None else positive_number("norm_bound", norm_bound)
    given: dict[str, Any] = {
        "given_bounds": None,
        "given_norm_bound": None if parameters.norm_bound is None else float(parameters.norm_bound),
    }
    if bounds is None:
        finds_ranges = _may_find_ranges(parameters, features) and _uses_lengths(parameters, needs)
        ranges = features.without_public_range if finds_ranges else ()
        return RowPreparation(statistic, None, scale, norm, center, ranges, given=given, **counted_as)
    low, high = _bounds(bounds, d)
    if features.schema is None:
        pairs = tuple(zip(low.tolist(), high.tolist(), strict=True))
        given["given_bounds"] = pairs[:1] if len(set(pairs)) == 1 else pairs
    middle, half = (low + high) / 2, (high - low) / 2
    own_units = has_own_units(parameters, needs, features.schema)
    scale = 1 / half
    if own_units and norm is None:
        # A feature reaches as far out as the root of its half width, where the noise about the mean is least in own
        # units (docs/explanation/raw_tables.md); narrow features reach a little farther, which costs little. About the
        # origin a mechanism may draw directions, and scaling would change them.
        scale = np.sqrt(np.maximum(half, half.mean() * LEAST_REACH**2)) / half if center else np.ones_like(half)
    if norm is None and counted_as["unit_weight"] != "by_rows":  # pooled rows are as many as a person has
        reach = half * scale
        if features.schema is not None:
            norm = features.schema.longest(reach.tolist())
        elif isinstance(parameters.bounds, Mapping):
            norm = features.longest(reach.tolist())
        else:
            norm = float(np.linalg.norm(reach))
    counted_as |= {"own_units": own_units, "given": given}
    return RowPreparation(statistic, middle, scale, norm, center, half=half, **counted_as)


def prepared_once(parameters: FitParameters, needs: Needs, features: Features) -> RowPreparation:
    """Return the preparation of rows that are read once, or refuse rows that need a private bound."""
    if features.by_unit:
        raise InvalidDataError(
            "partial_fit cannot tell whether a person has rows in another call, and would count them twice; give all "
            "rows to fit."
        )
    preparation = prepared(parameters, needs, features)
    if preparation.norm is None:
        raise InvalidDataError(_ANOTHER_PASS)
    return preparation


def prepared_with_ranges(parameters: FitParameters, needs: Needs, features: Features) -> RowPreparation | None:
    """Return the preparation with private ranges, for so many rows that it beats comparing them; or None."""
    # A mechanism that draws a subspace tells nothing about the mean.
    subspace = parameters.mechanism in MECHANISMS and MECHANISMS[parameters.mechanism].releases == "subspace"
    if subspace or features.reads_once or _uses_lengths(parameters, needs):
        return None
    if not _may_find_ranges(parameters, features):
        return None
    return RowPreparation(
        "clipped",
        center=True,
        ranges=features.without_public_range,
        own_units=not parameters.standardize,
        **features.counted_as(parameters),
    )


def prepared_about_medians(parameters: FitParameters, needs: Needs, features: Features) -> RowPreparation | None:
    """Return the preparation of rows within public ranges about private medians, with a private norm; or None.

    At pure epsilon; a Gaussian budget has a mean that is measured first. For components and regressions: a covariance
    is of rows that are not shortened.
    """
    preparation = prepared(parameters, needs, features)
    wanted = needs.n_directions is not None or needs.target
    pure = parameters.mechanism == AUTO and parameters.delta == 0 and parameters.stages != 1
    if preparation.half is None or preparation.norm is None or parameters.norm_bound is not None:
        return None
    if not (wanted and pure and preparation.center and features.without_public_range) or features.reads_once:
        return None
    if parameters.adjacency is not Adjacency.REPLACE_ONE or preparation.most_weight is not None:
        return None
    return replace(preparation, norm=None, longest=preparation.norm, medians=features.without_public_range)


def _bounds_of(
    parameters: FitParameters, features: Features, statistic: str
) -> tuple[float | None, Any, Sequence[float] | None]:
    """Return norm_bound, bounds and sizes of all features, from what was given by name or by a schema."""
    schema, norm, bounds = features.schema, parameters.norm_bound, parameters.bounds
    if schema is not None:
        if bounds is not None:
            raise InvalidParameterError("Ranges and scales are declared in the schema; leave out bounds.")
        if statistic not in COMPARED and schema.bounds is not None:
            return norm, schema.bounds, None
        # Ranges are sizes to differences, and nothing to signs.
        sizes = schema.sizes if statistic != "kendall" and schema.says_sizes else None
        if sizes is not None and schema.without_size and norm is None:  # beside those, its unit would be a size
            raise InvalidParameterError(
                f"The schema has ranges or scales, but none for the column {quoted(schema.without_size[0])}; "
                "declare one for every number and date, or for none of them, and ranges are found privately."
            )
        return norm, None, sizes
    if isinstance(bounds, Mapping):
        pairs = features.bounds_by_name(bounds)
        if not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in pairs):
            raise InvalidParameterError("bounds by name must be (low, high) for every feature.")
        return norm, ([pair[0] for pair in pairs], [pair[1] for pair in pairs]), None
    if statistic == "clipped" and _only_indicators(parameters, features):
        return math.sqrt(features.n_categorical), None, None
    return norm, bounds, None
