"""How the rows of a fit become integers: from declared parameters, an estimator's needs and public facts of a table."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Self

import numpy as np

from ..errors import (
    MOST_FEATURES,
    CapacityError,
    InvalidDataError,
    InvalidParameterError,
    column_in_words,
    integer_between,
    listed,
    one_of,
    positive_number,
    quoted,
    truth_value,
)
from ..guarantee import TYPES_ASSUMPTION, Adjacency
from ..mechanisms import MECHANISMS, CentralMechanism
from ..moments import RowBound
from ..moments.comparisons import COMPARISONS, most_untied
from ..moments.counts import NORM_GRID
from ..moments.row_rule import COMPARED, STATISTICS, UNIT_WEIGHTS, RowRule
from ..numerics import FloatArray
from ..postprocess.noise_spectrum import ABOVE_NOISE
from ..releases.origin import ComponentsRequest
from ..tables.base import Source
from ..tables.schema import Schema, identifies
from .inputs import Estimator, checked_schema, checked_unit_column
from .split import checked_stages

AUTO = "auto"
"""The statistic that is chosen by what is public."""
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
# The noise on the mean of the target that a regression may have, over the size of a feature at the bound (with ranges:
# half of the target's). It takes 0.04 of R² where the target fills its range evenly, 0.2 where its deviation is
# an eighth of it; beyond, hardly any table has more to gain from its features: docs/research/postprocessing.md.
_MEAN_NOISE = 1 / 9
# In such units the noise edge is d times the noise on a mean, and may be this many √d: the largest variance of any
# direction was 0.02 to 0.63 √d on the tables of benchmarks/ridge.py.
_EDGE_NOISE = 0.7
_ANOTHER_PASS = (
    "partial_fit sees every row once, and a private bound would take another pass; give a public norm_bound, bounds or "
    "schema with ranges, or statistic='spatial_sign', or call fit."
)


@dataclass(frozen=True, eq=False)
class FitParameters:
    """The parameters of an estimator that decide about a fit, each checked by itself.

    They are those of `PrivatePCA`, which documents them.
    """

    epsilon: float
    delta: float
    statistic: str
    standardize: bool
    center: bool
    norm_bound: float | None
    bounds: Any
    schema: Any
    privacy_unit: str | int | None
    unit_weight: str
    mechanism: str
    mechanism_options: Mapping[str, Any] | None
    adjacency: Adjacency
    stages: object

    @classmethod
    def of(cls, estimator: Estimator) -> Self:
        """Return the parameters of an estimator, or refuse one that has no meaning."""
        given = {name: getattr(estimator, name) for name in cls.__dataclass_fields__}
        checked = {
            "statistic": one_of("statistic", given["statistic"], (AUTO, *STATISTICS)),
            "standardize": truth_value("standardize", given["standardize"], "; give public sizes by a schema"),
            "center": truth_value("center", given["center"], "; give a public middle by bounds"),
            "privacy_unit": checked_unit_column(given["privacy_unit"]),
            "unit_weight": one_of("unit_weight", given["unit_weight"], UNIT_WEIGHTS),
            "adjacency": Adjacency.parse(given["adjacency"]),
            "stages": checked_stages(given["stages"]),
        }
        return cls(**given | checked)


@dataclass(frozen=True)
class Needs:
    """What an estimator needs of a release: all that planning and fitting know about it.

    Parameters
    ----------
    estimator : str
        Its name.
    matrix : bool
        Whether it needs a matrix; else directions alone will do.
    variances : bool
        Whether the number of components is computed from their variances.
    known_noise : bool
        Whether it needs noise of a known distribution.
    lengths : bool
        Whether the lengths of rows matter, and not only their directions.
    n_directions : int, optional
        How many directions are wanted, where these will do.
    even_noise : bool
        Whether noise must not differ between directions.
    target : bool
        Whether one column is predicted from the others.
    public_ranges : bool
        Whether ranges of the features must be public.
    units : bool
        Whether rows are transformed right after the fit, in the units of the table.
    n_sparse : int, optional
        How many components are wanted that use few features, so that features may be screened first.
    """

    estimator: str
    matrix: bool = True
    variances: bool = False
    known_noise: bool = False
    lengths: bool = True
    n_directions: int | None = None
    even_noise: bool = False
    target: bool = False
    public_ranges: bool = False
    units: bool = False
    n_sparse: int | None = None

    def check_mechanism(self, mechanism: CentralMechanism) -> None:
        """Refuse a mechanism that releases too little."""
        if self.variances and mechanism.releases == "subspace":
            raise InvalidParameterError(
                f"{mechanism.name} releases no eigenvalues to choose n_components from; give a number."
            )
        if self.known_noise and not mechanism.adds_noise:
            instead = "give n_components as a number, or " if self.variances else ""
            raise InvalidParameterError(
                f"{mechanism.name} adds no noise of a known distribution, which {self.estimator} needs here; {instead}"
                "choose a mechanism that adds noise."
            )
        if self.matrix and mechanism.releases == "subspace":
            raise InvalidParameterError(f"{mechanism.name} releases no matrix; choose another mechanism.")

    def check_rule(self, rule: RowRule, standardize: bool) -> None:
        """Refuse rows that were made by a rule that has too little in them."""
        if self.public_ranges and rule.shift is None:
            raise InvalidParameterError(f"{self.estimator} needs public ranges; give bounds, or a schema with ranges.")
        if self.target and not rule.keeps_lengths:
            raise InvalidParameterError("A regression needs the lengths of rows, not directions; collect the rows.")
        if standardize and not rule.needs_matrix:
            raise InvalidParameterError(
                "Correlations need rows with a constant appended, or signs of differences; collect the moments so."
            )

    def check_rows(self, mechanism: CentralMechanism, rule: RowRule, n_rows: int) -> None:
        """Refuse too few rows for a regression."""
        if not self.target or rule.constant is None or mechanism.adjacency is not Adjacency.REPLACE_ONE:
            return
        # The noise that the mean has by a constant in the rows; one that is measured first is asked for as many.
        root = (mechanism.n_features - 1) ** 0.5
        noise = (
            (mechanism.noise_sd(max(n_rows, 1)) or 0.0) * rule.reach_squared / rule.constant_value / (rule.norm / root)
        )
        most = min(_MEAN_NOISE, _EDGE_NOISE / root)
        if noise > most:
            factor = math.ceil(10 * noise / most) / 10
            raise InvalidDataError(
                "The noise would hide even the mean of the target, and with it all that could be learned about it: "
                f"{factor:g} times the {rule.unit.counted} (there are {n_rows}) or the epsilon (the release has "
                f"{mechanism.epsilon:g}) would do, or fewer features."
            )


def components_request(n_components: Any, whiten: Any, standardize: Any, n_features: int) -> ComponentsRequest:
    """Return the request of a `PrivatePCA` with these parameters; raise if it is invalid."""
    wanted: int | float | str | None = _chosen_later(n_components)
    if wanted is None and n_components is not None:
        wanted = integer_between("n_components", n_components, 1, n_features)
    return ComponentsRequest(wanted, truth_value("whiten", whiten), correlation=bool(standardize))


def components_needs(estimator: str, n_components: Any, whiten: Any) -> Needs:
    """Return what an estimator of this name needs of a release, with these parameters of a `PrivatePCA`."""
    k, whiten = n_components, truth_value("whiten", whiten)
    return Needs(
        estimator,
        matrix=whiten,
        variances=isinstance(k, str | float | np.floating),
        known_noise=isinstance(k, str),
        lengths=whiten,
        n_directions=int(k) if isinstance(k, Integral) else None,
    )


def _chosen_later(k: Any) -> float | str | None:
    """Return n_components if the number is chosen from the release: a share of variance, or "above_noise"."""
    if isinstance(k, str):
        return one_of("n_components", k, (ABOVE_NOISE,))
    if isinstance(k, float | np.floating):
        if not 0 < k < 1:
            raise InvalidParameterError(
                f"n_components must be an integer, a float between 0 and 1, or {ABOVE_NOISE!r}."
            )
        return float(k)
    return None


@dataclass(frozen=True, eq=False, kw_only=True)
class PCAParameters(FitParameters):
    """The parameters of a `PrivatePCA` that decide about a fit.

    `forecast` takes them in place of one, for which scikit-learn has to be loaded.
    """

    n_components: int | float | str | None
    whiten: bool = False

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None) -> ComponentsRequest:
        del feature_names
        return components_request(self.n_components, self.whiten, self.standardize, n_features)

    def _needs(self) -> Needs:
        return components_needs("PrivatePCA", self.n_components, self.whiten)


@dataclass(frozen=True)
class Features:
    """The public facts about the features of a table.

    Parameters
    ----------
    n_features : int
    names : tuple of str, optional
    one_hot : tuple of bool
        Which of them are 0 or 1 by construction.
    n_categorical : int
        How many columns these come from: a row has at most one 1 for each.
    schema : Schema, optional
        What was declared of the columns.
    in_order : bool
        Whether rows come in a public order, so that neighbours can be compared.
    reads_once : bool
        Whether rows come once only.
    by_unit : bool
        Whether the unit is a person with all of their rows.
    most_weight : float, optional
        The largest of the public weights of rows, where they have such.
    truths : tuple of bool
        Which of them are truth values, 0 or 1 each by itself; none by default.
    typed : bool
        Whether the columns have types of their own, as those of a data frame.
    names_public : bool
        Whether the names can be no row of data: see `column_in_words`.
    columns_listed : bool
        Whether the caller said which columns are features.
    """

    n_features: int
    names: tuple[str, ...] | None
    one_hot: tuple[bool, ...]
    n_categorical: int = 0
    schema: Schema | None = None
    in_order: bool = True
    reads_once: bool = False
    by_unit: bool = False
    most_weight: float | None = None
    truths: tuple[bool, ...] = ()
    typed: bool = False
    names_public: bool = True
    columns_listed: bool = True

    @classmethod
    def declared(cls, n_features: object, parameters: FitParameters) -> Self:
        """Return so many features, of which nothing is known but by an estimator's parameters."""
        d, schema = integer_between("n_features", n_features, 1, MOST_FEATURES), checked_schema(parameters.schema)
        if schema is not None and d != schema.n_features:
            raise InvalidParameterError(
                f"The schema has {schema.n_features} features and not {d}; give n_features=schema.n_features."
            )
        if schema is None:
            names = _names_of(parameters.bounds, d)
            return cls(d, names, (False,) * d, by_unit=parameters.privacy_unit is not None)
        kinds = [column.kind for column in schema.columns for _ in column.features]
        one_hot = tuple(fixed for column in schema.columns for fixed in column.one_hot)
        return cls(
            d,
            schema.feature_names,
            one_hot,
            n_categorical=sum(column.kind == "category" for column in schema.columns),
            schema=schema,
            by_unit=parameters.privacy_unit is not None or schema.privacy_unit is not None,
            truths=tuple(kind == "boolean" and not fixed for kind, fixed in zip(kinds, one_hot, strict=True)),
        )

    @classmethod
    def of(cls, source: Source) -> Self:
        """Return the features of an opened table."""
        one_hot = getattr(source, "one_hot", (False,) * source.n_features)
        schema, n_categorical = checked_schema(getattr(source, "schema", None)), getattr(source, "n_categorical", 0)
        if schema is not None:  # a source of somebody's own may carry a draft
            schema.check_confirmed()
        optional = (
            "in_order",
            "reads_once",
            "by_unit",
            "most_weight",
            "truths",
            "typed",
            "names_public",
            "columns_listed",
        )
        known = {name: getattr(source, name) for name in optional if hasattr(source, name)}
        return cls(source.n_features, source.feature_names, one_hot, n_categorical, schema, **known)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a guarantee about this table assumes of it."""
        return (TYPES_ASSUMPTION,) if self.typed else ()

    def counted_as(self, parameters: FitParameters) -> dict[str, Any]:
        """Return what a row or a person counts, as the rule of rows takes it."""
        return {"unit_weight": parameters.unit_weight if self.by_unit else None, "most_weight": self.most_weight}

    @property
    def without_public_range(self) -> tuple[int, ...]:
        """Features that are not 0 or 1 by construction."""
        truths = self.truths or (False,) * self.n_features
        return tuple(at for at, known in enumerate(zip(self.one_hot, truths, strict=True)) if not any(known))

    def longest(self, reach: Sequence[float]) -> float:
        """Return the norm that no row is beyond whose features reach so far; a one-hot block has a single 1."""
        squares = sum(far**2 for far, fixed in zip(reach, self.one_hot, strict=True) if not fixed)
        return math.sqrt(squares + self.n_categorical)

    def bounds_by_name(self, given: Mapping[Any, Any]) -> list[Any]:
        """Return bounds in the order of the features; what is 0 or 1 anyway gets (-1, 1), which leaves it as it is."""
        names: Sequence[Any] = range(self.n_features) if self.names is None else self.names
        for name in given:
            if name not in names:
                hint = "" if self.names is not None else "; where there are no names, plan and fit need positions"
                raise InvalidParameterError(f"bounds names {quoted(name)}, which is no feature that is read{hint}.")
        for position, (name, fixed) in enumerate(zip(names, self.one_hot, strict=True)):
            if name not in given and not fixed:
                feature = column_in_words(name, position, self.names_public)
                raise InvalidParameterError(f"bounds has nothing for the feature {feature}; name every feature.")
        return [given.get(name, (-1.0, 1.0)) for name in names]

    def identifiers_in_words(self, bounds: object) -> str | None:
        """Return a sentence about features that are identifiers by their names, where nobody chose them; or None.

        Values are not looked at: whether they are all distinct is private. Who gives `bounds` by name chose the names.
        """
        if self.names is None or self.columns_listed or isinstance(bounds, Mapping):
            return None
        found = [column_in_words(name, at, self.names_public) for at, name in enumerate(self.names) if identifies(name)]
        if not found:
            return None
        return (
            f"By name, {listed('column', found, found)} may identify people, and would be used like a measurement; "
            "leave out such columns, or name the one that identifies the privacy unit by privacy_unit=."
        )


def public_rows(source: Source, adjacency: Adjacency) -> int | None:
    """Return the number of rows, or None where it is private or not known before they are read.

    None for a table without rows too, which the fit refuses.
    """
    if adjacency is not Adjacency.REPLACE_ONE or getattr(source, "by_unit", False):
        return None
    return getattr(source, "n_rows", None) or None


def _names_of(bounds: object, d: int) -> tuple[str, ...] | None:
    """Return the names of so many features by which bounds are given, in that order; None without names."""
    if not isinstance(bounds, Mapping) or not all(isinstance(name, str) for name in bounds):
        return None
    if len(bounds) != d:
        raise InvalidParameterError(
            f"bounds names {len(bounds)} features and not {d}; name every feature, or plan for an opened table."
        )
    return tuple(bounds)


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
        """What is to be found privately."""
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

    def without_mean(self, mean: FloatArray) -> "RowPreparation":
        """Return the preparation that subtracts a mean of scaled rows, and appends no constant any more."""
        shift = mean / (1.0 if self.scale is None else self.scale)
        return replace(self, shift=shift if self.shift is None else self.shift + shift, center=False)

    @cached_property
    def without_constant(self) -> "RowPreparation":
        """The preparation of rows whose mean is measured by itself."""
        return replace(self, center=False) if self.center else self

    def check_ends(self) -> None:
        """Refuse, before anything is spent, what some outcome of the private choices could not be combined with."""
        _ = self._ends

    @cached_property
    def _ends(self) -> tuple[RowBound, ...]:
        """The rules of the least and of the largest norm that may be found; made once for all fits of a plan."""
        norms = (float(NORM_GRID[0]), float(NORM_GRID[-1])) if self.norm is None else (self.norm,)
        return tuple((self if one.norm == self.norm else one).bound for one in map(self.with_norm, norms))

    @cached_property
    def bound(self) -> RowBound:
        """The rule at work; with norm 1 where it is not found yet, on the same grid."""
        bound = RowBound(
            self.norm_or_one,
            bits=self.bits,
            shift=None if self.shift is None else tuple(self.shift.tolist()),
            scale=None if self.scale is None else tuple(self.scale.tolist()),
            constant=self.norm_or_one * self._constant_share if self.center else None,
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

    `sizes` are what to divide features by that have no bounds, `longest` is the norm that no row exceeds where
    features reach so far from the middle of their ranges, and `counted_as` what a row or a person counts.
    """
    _check_target(statistic, standardize, center)
    scale = None if sizes is None else np.array([1 / size for size in sizes])
    if statistic != "clipped":
        if norm_bound is not None or bounds is not None:
            raise InvalidParameterError(f"statistic={statistic!r} needs no norm_bound and no bounds; leave them out.")
        if statistic == "kendall":
            return RowPreparation(statistic, norm=d**0.5, most_untied=most_untied(d), **counted_as)
        return RowPreparation(statistic, scale=scale, norm=1.0, **counted_as)
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
    return RowPreparation(statistic, middle, scale, norm, bool(center), half=half, own_units=own_units, **counted_as)


def own_scale(half: FloatArray, center: bool) -> FloatArray:
    """Return what features with these half widths are multiplied by where they are read in their own units.

    By nothing about the origin, where a mechanism may draw directions, which stay what they are only in rows that are
    not scaled. About the mean so that they reach as far out as the root of the half width, which is where the noise is
    least, in own units (docs/explanation/raw_tables.md); the narrow ones a little farther, which costs little.
    """
    if not center:
        return np.ones_like(half)
    return np.asarray(np.sqrt(np.maximum(half, half.mean() * LEAST_REACH**2)) / half)


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
    try:
        low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), d) for side in bounds)
    except (TypeError, ValueError, OverflowError):
        problem = "bounds must be (low, high), each one number or one for every feature."
    else:
        if np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all():
            return low, high
        problem = "bounds must be finite, with low below high for every feature."
    raise InvalidParameterError(_LIST_OF_PAIRS if _are_pairs(bounds) else problem)


_LIST_OF_PAIRS = (
    "bounds must be (low, high) or {column: (low, high)}, and a list of pairs is neither; use dict(zip(columns, "
    "bounds)), or dict(enumerate(bounds)) for columns without names."
)


def _are_pairs(bounds: Any) -> bool:
    """Return whether bounds are pairs of a low and a high number, as where each feature was given one."""
    try:
        pairs = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return False
    return pairs.ndim == 2 and pairs.shape[1] == 2 and bool((pairs[:, 0] < pairs[:, 1]).all())


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


def check_one_pass(parameters: FitParameters, needs: Needs) -> None:
    """Raise an `AttributeError` where something about the rows must be found out before they are collected."""
    if statistic_for(parameters, needs) == "clipped" and not _has_public_bound(parameters, None):
        raise AttributeError(_ANOTHER_PASS)


def prepared(parameters: FitParameters, needs: Needs, features: Features) -> RowPreparation:
    """Return how declared parameters and the public facts of a table prepare its rows."""
    statistic = statistic_for(parameters, needs, features)
    if statistic in COMPARED and not (features.in_order or features.by_unit):
        raise InvalidDataError(
            f"These rows come in no public order, so statistic='{statistic}' cannot compare them; use "
            "statistic='clipped', give them as a file or an array, or open a query with public_order=True if its order "
            "does not depend on values."
        )
    finds_ranges = _may_find_ranges(parameters, features) and _uses_lengths(parameters, needs)
    bounds_of = _bounds_of(parameters, features, statistic)
    preparation = public_preparation(
        features.n_features,
        statistic,
        **bounds_of,
        standardize=parameters.standardize,
        center=parameters.center,
        ranges=features.without_public_range if finds_ranges else (),
        own_units=has_own_units(parameters, needs, features.schema),
        **features.counted_as(parameters),
    )
    if statistic != "clipped":
        return preparation
    ranges = bounds_of["bounds"] if features.schema is None else None
    return replace(preparation, given=_given(parameters.norm_bound, ranges, features.n_features))


def _given(norm_bound: Any, bounds: Any, d: int) -> dict[str, Any]:
    """Return the bounds that the caller gave, as `Origin` records them: a single range where all are the same."""
    pairs = None if bounds is None else tuple(zip(*(side.tolist() for side in _bounds(bounds, d)), strict=True))
    alike = pairs is not None and len(set(pairs)) == 1
    return {
        "given_bounds": pairs[:1] if pairs is not None and alike else pairs,
        "given_norm_bound": None if norm_bound is None else float(norm_bound),
    }


def prepared_once(parameters: FitParameters, needs: Needs, features: Features) -> RowPreparation:
    """Return how rows are prepared that come once; an engine has no public order, and may need a bound after all."""
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
    """Return how rows are prepared where there are so many that ranges pay, in place of comparing them; or None."""
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
    """Return how rows within public ranges are prepared where medians and a norm are found privately; or None.

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


def _bounds_of(parameters: FitParameters, features: Features, statistic: str) -> dict[str, Any]:
    """Return norm_bound, bounds and sizes for all features, from what was given by name or by a schema."""
    schema, norm, bounds = features.schema, parameters.norm_bound, parameters.bounds
    if schema is not None:
        if bounds is not None:
            raise InvalidParameterError("Ranges and scales are declared in the schema; leave out bounds.")
        if statistic in COMPARED or schema.bounds is None:  # ranges are sizes to differences, and nothing to signs
            sizes = schema.sizes if statistic != "kendall" and schema.says_sizes else None
            if sizes is not None and schema.without_size and norm is None:  # beside those, its unit would be a size
                raise InvalidParameterError(
                    f"The schema has ranges or scales, but none for the column {quoted(schema.without_size[0])}; "
                    "declare one for every number and date, or for none of them, and ranges are found privately."
                )
            return {"norm_bound": norm, "bounds": None, "sizes": sizes}
        return {"norm_bound": norm, "bounds": schema.bounds, "longest": schema.longest}
    if isinstance(bounds, Mapping):
        pairs = features.bounds_by_name(bounds)
        if not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in pairs):
            raise InvalidParameterError("bounds by name must be (low, high) for every feature.")
        bounds = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        return {"norm_bound": norm, "bounds": bounds, "longest": features.longest}
    if statistic == "clipped" and _only_indicators(parameters, features):
        return {"norm_bound": math.sqrt(features.n_categorical), "bounds": None}
    return {"norm_bound": norm, "bounds": bounds}


def possible_preparations(parameters: FitParameters, needs: Needs, features: Features) -> Iterator[RowPreparation]:
    """Yield how rows of a table may be prepared, depending on their number."""
    preparation = prepared(parameters, needs, features)
    yield preparation
    for more in (prepared_with_ranges, prepared_about_medians):
        many = more(parameters, needs, features)
        if many is not None:
            yield many
    if preparation.norm is None and not preparation.center:
        yield preparation.of_unit_rows()
