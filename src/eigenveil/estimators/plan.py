"""How many rows a privately found bound should leave beyond it; public numbers alone.

docs/explanation/row_bound.md derives the numbers, and benchmarks/clip_bound.py shows them at work.
"""

import math
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, Self

from .. import gate
from ..accounting.calibration import decimal_below, exact
from ..accounting.composition import compose
from ..display import notebook_table
from ..errors import (
    MOST_FEATURES,
    InvalidDataError,
    InvalidParameterError,
    budget_delta,
    budget_epsilon,
    column_in_words,
    integer_between,
    one_of,
)
from ..guarantee import Adjacency, Guarantee, Unit
from ..mechanisms import MECHANISMS, CentralMechanism, choose_mechanism, mechanism_with
from ..mechanisms.base import made_once
from ..mechanisms.choices import noise_scale
from ..moments.row_rule import COMPARED, STATISTICS, UNIT_WEIGHTS, RowRule
from ..tables.open import is_source
from ..tables.schema import Schema
from .inputs import checked_schema, names_units
from .preparation import CHOICES, INSTEAD, TRUTH_VALUES, RowPreparation, has_own_units, public_preparation, told
from .ranges import SEARCHES, rows_for_ranges
from .split import MechanismsByRows, Stages, check_read_once, in_stages, stages_asked

CLIPPED_PER_NOISE = 4
"""Rows to clip, in units of d times the noise of unit rows beside the diagonal: there bias and noise balance."""
# In units of one over the epsilon of the choice: rows beyond the bound, so that the noise of the threshold does not
# carry the search past the longest row; rows within it, so that none of the rungs below all rows stops it.
_BEYOND, _WITHIN = 6, 16
LEAST_ROWS = 20
"""Rows times epsilon below which nothing is found: a search goes astray in more than one of twenty."""


def rows_beyond(mechanism: CentralMechanism, rule: RowRule, epsilon: Fraction, n_rows: int) -> int:
    """Return how many rows should lie beyond the bound that a choice of this epsilon looks for.

    Parameters
    ----------
    mechanism : CentralMechanism
        The mechanism that will draw.
    rule : RowRule
        How rows become integers; its norm plays no role.
    epsilon : Fraction
        What the choice costs.
    n_rows : int
        Looked at under replace only, where it is public.

    Examples
    --------
    >>> from eigenveil.mechanisms import MECHANISMS
    >>> mechanism = MECHANISMS["gaussian"](epsilon=0.9, delta=1e-6, n_features=10)
    >>> [rows_beyond(mechanism, RowRule(1.0), Fraction(1, 10), n) for n in (300, 100_000)]
    [140, 186]
    """
    wanted = max(balanced_rows(mechanism, rule), _BEYOND / epsilon)
    if mechanism.adjacency is Adjacency.REPLACE_ONE:
        wanted = min(wanted, Fraction(n_rows, 2), max(Fraction(0), n_rows - _WITHIN / epsilon))
    return math.floor(wanted)


def too_few_to_clip(mechanism: CentralMechanism, rule: RowRule, epsilon: Fraction) -> Fraction:
    """Return the number of rows below which a bound would clip more than half of them, or not be found."""
    return max(2 * balanced_rows(mechanism, rule), LEAST_ROWS / epsilon)


def balanced_rows(mechanism: CentralMechanism, rule: RowRule) -> Fraction:
    """Return the number of clipped rows whose bias is about the noise of the mechanism, however many rows there are."""
    noise = Fraction(mechanism.equivalent_sd) * Fraction(rule.limit_squared, 4**rule.bits)
    return CLIPPED_PER_NOISE * mechanism.n_features * noise


def check_enough(n: int, counted: str, epsilon: Fraction, takes: Fraction, what: str, instead: str) -> None:
    """Refuse, before anything is spent, to look for what so few rows or persons do not show at this epsilon."""
    if n < takes:
        raise InvalidDataError(
            f"{n:,} {counted} are too few to find {what} privately: the share of epsilon for it, {float(epsilon):.3g}, "
            f"takes {math.ceil(takes):,}; give {instead}, or more epsilon."
        )


# More rows than any table has: the last mechanism of a plan holds from its number of rows on.
_MANY_ROWS = 2**50


@dataclass(frozen=True, eq=False)
class SpendPlan:
    """The parts of a budget, and the mechanism or mechanisms that may draw the release.

    Parameters
    ----------
    n_features : int
    preparation : RowPreparation, optional
        How rows become integers, and what of it is yet to be found privately; None for rows that were collected before.
    choices : mapping of str to Guarantee
        What is found privately before the release, and what each of them costs.
    mechanisms : tuple of (int, CentralMechanism)
        The mechanism that draws, from this many rows on. There are several only where the number of rows is public and
        decides between them.
    asked : bytes
        The parameters of the estimator that made it.
    few : (int, SpendPlan), optional
        Where there are fewer rows than this, that plan runs: of rows that need no bound.
    stages : tuple of (int, Stages)
        Into which parts the budget of the mechanism is divided, from this many rows on.
    compared : bool
        Whether rows are compared with one another, for the release or for their ranges.
    unit : Unit
        Whose data the promise is about.

    Examples
    --------
    >>> from eigenveil import PrivatePCA
    >>> plan = PrivatePCA(1, epsilon=1.0, statistic="clipped", center=False).plan(50)
    >>> [(rows, mechanism.name) for rows, mechanism in plan.mechanisms]
    [(0, 'ppca'), (445, 'matrix_laplace')]
    >>> {name: part.epsilon for name, part in plan.choices.items()}
    {'norm_bound': 0.1}
    """

    n_features: int
    preparation: RowPreparation | None
    choices: Mapping[str, Guarantee]
    mechanisms: tuple[tuple[int, CentralMechanism], ...]
    asked: bytes = b""
    few: tuple[int, "SpendPlan"] | None = None
    stages: tuple[tuple[int, Stages], ...] = ()
    compared: bool = False
    unit: Unit = Unit.ROW

    def check_made_for(self, asked: bytes) -> None:
        """Refuse to be executed by an estimator of other parameters than the plan was made for."""
        if asked != self.asked:
            raise InvalidParameterError("The plan was made for other parameters; make another one.")

    def unless_few(self, plan: "SpendPlan") -> "SpendPlan":
        """Return this plan with another one for so few rows that a bound would clip more than half of them."""
        preparation, epsilon = plan.preparation_for(self.n_features), self.cost("norm_bound")
        below = _crossing(lambda n: n < too_few_to_clip(plan.mechanism(n), preparation.bound, epsilon))
        return replace(self, few=(below, plan))

    def from_many(self, plan: "SpendPlan", times: int) -> "SpendPlan":
        """Return `plan`, which finds ranges, for so many times the rows that this takes; this one is for fewer."""
        takes = rows_for_ranges(plan.cost("bounds"), self.n_features)  # all of them: all have noise, searched or not
        return replace(plan, few=(math.ceil(times * takes), self))

    def at(self, n_rows: int) -> "SpendPlan":
        """Return the plan that runs on so many rows."""
        if self.few is None:
            return self
        return self.few[1] if n_rows < self.few[0] else replace(self, few=None)

    def mechanism(self, n_rows: int) -> CentralMechanism:
        """Return the mechanism that draws the release of so many rows."""
        return next(mechanism for rows, mechanism in reversed(self.at(n_rows).mechanisms) if rows <= n_rows)

    def stages_for(self, n_rows: int) -> Stages:
        """Return into which parts the budget is divided for so many rows."""
        stages = next((parts for rows, parts in reversed(self.stages) if rows <= n_rows), Stages())
        return stages if self.preparation is None else stages.for_rows(n_rows, self.preparation.bound)

    @property
    def measures_mean(self) -> bool:
        """Whether a mean is measured first where there are rows enough."""
        return any(stages.mean for _, stages in self.stages)

    @property
    def in_stages(self) -> bool:
        """Whether rows are read again after something was measured, where there are rows enough."""
        return any(stages != Stages() for _, stages in self.stages)

    @property
    def adjacency(self) -> Adjacency:
        """The adjacency of the whole fit."""
        return self.mechanisms[0][1].adjacency

    def cost(self, choice: str) -> Fraction:
        """Return the epsilon of a private choice."""
        return exact(self.choices[choice].epsilon)

    def rows_beyond(self, n_rows: int) -> int:
        """Return how many of so many rows a norm bound that is found privately should leave beyond it."""
        preparation = self.preparation_for(self.n_features)
        return rows_beyond(self.mechanism(n_rows), preparation.bound, self.cost("norm_bound"), n_rows)

    def checked(self, n_rows: int | None) -> Self:
        """Return the plan, or refuse what cannot be found privately: at all, or in so many rows where that is known."""
        preparation = self.preparation_for(self.n_features)
        preparation.check_ends()
        for name in self.choices:
            epsilon = self.cost(name)
            noise_scale(epsilon / (10 * SEARCHES * self.n_features))  # and to spare
            if n_rows is not None and self.adjacency is Adjacency.REPLACE_ONE:
                searched = len(preparation.ranges)
                takes = LEAST_ROWS / epsilon if name == "norm_bound" else rows_for_ranges(epsilon, searched)
                check_enough(n_rows, self.unit.counted, epsilon, takes, CHOICES[name], INSTEAD[name])
        if n_rows is not None:
            self.stages_for(n_rows).check(self.mechanism(n_rows), preparation.bound, n_rows)
        return self

    def guarantee_of(self, mechanism: CentralMechanism) -> Guarantee:
        """Return what a whole fit promises whose release is drawn by this mechanism."""
        return _promised((*self.choices.values(), mechanism.guarantee()), self.unit, self.compared)

    @property
    def guarantees(self) -> dict[str, Guarantee]:
        """What a whole fit promises, by the name of the mechanism, whatever the number of rows."""
        few = {} if self.few is None else self.few[1].guarantees
        return {**few, **{mechanism.name: self.guarantee_of(mechanism) for _, mechanism in self.mechanisms}}

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee that says least: the mechanisms of one plan differ in their numerics."""
        return max(self.guarantees.values(), key=lambda promise: (promise.epsilon, promise.numerics.gap))

    def preparation_for(self, n_features: int) -> RowPreparation:
        """Return how the rows are prepared, or refuse data that the plan was not made for."""
        if self.preparation is None or n_features != self.n_features:
            raise InvalidParameterError(
                f"The plan is for {self.n_features} features, and the data have {n_features}; make another plan."
            )
        return self.preparation

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the mechanism or mechanisms, the parts of the budget, and the promise."""
        counted = self.unit.counted
        mechanisms = [
            f"{mechanism.name}, from {rows:,} {counted} on" if rows else mechanism.name
            for rows, mechanism in self.mechanisms
        ]
        parts = {f"to choose {CHOICES[name]}": f"epsilon {part.epsilon:.4g}" for name, part in self.choices.items()}
        few = None if self.few is None else f"another plan below {self.few[0]:,} {counted}"
        stages = "; ".join(filter(None, (stage.in_words() for _, stage in self.stages))) or None
        facts = {
            "features": self.n_features,
            "mechanism": "; ".join(mechanisms),
            **parts,
            "stages": stages,
            "few rows": few,
        }
        return notebook_table("Plan of a fit", facts, more=self.guarantee._repr_html_())

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return {
            "n_features": self.n_features,
            "guarantee": self.guarantee.to_dict(),
            "choices": {name: part.epsilon for name, part in self.choices.items()},
            "mechanisms": [
                {"from_rows": rows, "mechanism": mechanism.name, "parameters": mechanism.parameters()}
                for rows, mechanism in self.mechanisms
            ],
            "stages": [{"from_rows": rows, **parts.to_dict()} for rows, parts in self.stages],
            "few": None if self.few is None else {"below_rows": self.few[0], **self.few[1].to_dict()},
        }


@lru_cache(maxsize=128)  # of public records, which are the same in the next fit
def _promised(parts: tuple[Guarantee, ...], unit: Unit, compared: bool) -> Guarantee:
    promise = compose(parts).for_unit(unit)
    return promise.of_compared_units() if compared else promise


def mechanisms_by_rows(
    choose: Callable[[int], str], make: Callable[[str], CentralMechanism], n_rows: int | None
) -> tuple[tuple[int, CentralMechanism], ...]:
    """Return the mechanisms that a choice by the number of rows leads to, each with the rows from which on it holds.

    The choice changes once at most as the rows grow, and the place is found by bisection.
    """
    if n_rows is not None:
        return ((0, make(choose(integer_between("n_rows", n_rows, 0)))),)
    few, many = choose(0), choose(_MANY_ROWS)
    if few == many:
        return ((0, make(few)),)
    return (0, make(few)), (_crossing(lambda n: choose(n) == few), make(many))


def _crossing(few: Callable[[int], bool]) -> int:
    """Return the number of rows from which on a condition that holds for none of them no longer does, by bisection."""
    low, high = 0, _MANY_ROWS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if few(middle) else (low, middle)
    return high


def asked_by(estimator: Any) -> bytes:
    """Return the parameters that decide about a plan, as bytes that are equal where they are."""
    asked = [(name, getattr(estimator, name)) for name in _deciding(estimator.__class__)]
    return pickle.dumps((type(estimator).__qualname__, asked))


@cache  # scikit-learn reads the signature at every call
def _deciding(kind: Any) -> tuple[str, ...]:
    return tuple(name for name in sorted(kind._get_param_names()) if name not in ("ledger", "random_state"))


AUTO = "auto"
"""The rule of rows that is chosen by what is public."""
_ANOTHER_PASS = (
    "partial_fit sees every row once, and a private bound would take another pass; give a public norm_bound, bounds or "
    "schema with ranges, or statistic='spatial_sign', or call fit."
)


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

    @classmethod
    def of(cls, given: Any, estimator: Any = None) -> Self:
        """Return the features of a source, or so many of which nothing is known but by an estimator's parameters."""
        if not is_source(given):
            d, schema = integer_between("n_features", given, 1, MOST_FEATURES), checked_schema(estimator.schema)
            if schema is not None and d != schema.n_features:
                raise InvalidParameterError(
                    f"The schema has {schema.n_features} features and not {d}; give n_features=schema.n_features."
                )
            by_unit = names_units(estimator, schema)
            if schema is None:
                return cls(d, None, (False,) * d, by_unit=by_unit)
            kinds = [column.kind for column in schema.columns for _ in column.features]
            one_hot = tuple(fixed for column in schema.columns for fixed in column.one_hot)
            truths = tuple(kind == "boolean" and not fixed for kind, fixed in zip(kinds, one_hot, strict=True))
            n_categorical = sum(column.kind == "category" for column in schema.columns)
            facts = d, schema.feature_names, one_hot, n_categorical, schema
            return cls(*facts, by_unit=by_unit, truths=truths)
        one_hot = getattr(given, "one_hot", (False,) * given.n_features)
        schema, n_categorical = checked_schema(getattr(given, "schema", None)), getattr(given, "n_categorical", 0)
        optional = ("in_order", "reads_once", "by_unit", "most_weight", "truths")
        known = {name: getattr(given, name) for name in optional if hasattr(given, name)}
        return cls(given.n_features, given.feature_names, one_hot, n_categorical, schema, **known)

    def unit_weight(self, estimator: Any) -> str | None:
        """Return what counts once where persons are the unit; None where rows are."""
        weight = one_of("unit_weight", estimator.unit_weight, UNIT_WEIGHTS)
        return weight if self.by_unit else None

    def counted_as(self, estimator: Any) -> dict[str, Any]:
        """Return what a row or a person counts, as the rule of rows takes it."""
        return {"unit_weight": self.unit_weight(estimator), "most_weight": self.most_weight}

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
                raise InvalidParameterError(f"bounds names {name!r}, which is no feature that is read{hint}.")
        for position, (name, fixed) in enumerate(zip(names, self.one_hot, strict=True)):
            if name not in given and not fixed:
                told = column_in_words(name, position)
                raise InvalidParameterError(f"bounds has nothing for the feature {told}; name every feature.")
        return [given.get(name, (-1.0, 1.0)) for name in names]


def statistic_for(estimator: Any, features: Features | None = None) -> str:
    """Return the rule of rows that was asked for, or that which suits what is public.

    Rows are clipped where a bound is public, where their lengths matter, and where they cannot be compared: under
    add/remove, on an engine or from a query, about the origin, where all rows of persons are pooled, and in two stages
    that were asked for. Else they are compared, and nothing about them need be known.
    """
    asked = one_of("statistic", estimator.statistic, (AUTO, *STATISTICS))
    if asked != AUTO:
        return asked
    if _needs_lengths(estimator) or not _comparable(estimator, features) or _has_public_bound(estimator, features):
        return "clipped"
    pooled = features is not None and features.unit_weight(estimator) == "by_rows"
    if pooled or stages_asked(estimator.stages) == 2:
        return "clipped"
    return "kendall" if told(estimator, "standardize") else "spatial_sign"


def _may_find_ranges(estimator: Any, features: Features) -> bool:
    """Return whether a range of every feature may be found privately: rows can be compared, and nothing is public."""
    if estimator.statistic != AUTO or (features.schema is not None and features.schema.says_sizes):
        return False
    return _comparable(estimator, features) and not _has_public_bound(estimator, features)


def _needs_lengths(estimator: Any) -> bool:
    return bool(estimator._lengths and not told(estimator, "standardize"))


def _comparable(estimator: Any, features: Features | None) -> bool:
    # Persons stand in the order of their identifiers, each with one of their rows.
    in_order = features is None or features.in_order or features.by_unit
    if features is not None and features.most_weight is not None:  # which a comparison of two rows has no place for
        return False
    return in_order and told(estimator, "center") and Adjacency.parse(estimator.adjacency) is Adjacency.REPLACE_ONE


def _has_public_bound(estimator: Any, features: Features | None) -> bool:
    schema = estimator.schema if features is None else features.schema
    if estimator.norm_bound is not None or estimator.bounds is not None or getattr(schema, "bounds", None) is not None:
        return True
    return features is not None and _only_indicators(estimator, features)


def _only_indicators(estimator: Any, features: Features) -> bool:
    return not features.without_public_range and estimator.bounds is estimator.norm_bound is None


def rows_pass_once(estimator: Any) -> bool:
    """Return whether nothing about the rows must be found out before they are collected."""
    if statistic_for(estimator) == "clipped" and not _has_public_bound(estimator, None):
        raise AttributeError(_ANOTHER_PASS)
    return True


def prepared(estimator: Any, features: Features) -> RowPreparation:
    """Return how an estimator's parameters and the public facts of a table prepare its rows."""
    statistic = statistic_for(estimator, features)
    more = {name: told(estimator, name) for name in TRUTH_VALUES}
    more["own_units"] = has_own_units(estimator, features.schema)
    known = {**_bounds_of(estimator, features, statistic), **more, **features.counted_as(estimator)}
    ranges = (
        features.without_public_range if _may_find_ranges(estimator, features) and _needs_lengths(estimator) else ()
    )
    return public_preparation(features.n_features, statistic, ranges=ranges, **known)


def prepared_once(estimator: Any, features: Features) -> RowPreparation:
    """Return how rows are prepared that come once; an engine has no public order, and may need a bound after all."""
    if features.by_unit:
        raise InvalidDataError(
            "partial_fit cannot tell whether a person has rows in another call, and would count them twice; give all "
            "rows to fit."
        )
    preparation = prepared(estimator, features)
    if preparation.norm is None:
        raise InvalidDataError(_ANOTHER_PASS)
    return preparation


def prepared_for_many(estimator: Any, features: Features) -> RowPreparation | None:
    """Return how rows are prepared where there are so many that ranges pay, in place of comparing them; or None."""
    named = (
        estimator.mechanism in MECHANISMS and MECHANISMS[estimator.mechanism].releases == "subspace"
    )  # which tells nothing about the mean
    if named or features.reads_once or _needs_lengths(estimator) or not _may_find_ranges(estimator, features):
        return None
    own_units = not told(estimator, "standardize")
    return RowPreparation(
        "clipped",
        center=True,
        ranges=features.without_public_range,
        own_units=own_units,
        **features.counted_as(estimator),
    )


def _bounds_of(estimator: Any, features: Features, statistic: str) -> dict[str, Any]:
    """Return norm_bound, bounds and sizes for all features, from what was given by name or by a schema."""
    schema, norm, bounds = features.schema, estimator.norm_bound, estimator.bounds
    if schema is not None:
        if bounds is not None:
            raise InvalidParameterError("Ranges and scales are declared in the schema; leave out bounds.")
        if statistic in COMPARED or schema.bounds is None:  # ranges are sizes to differences, and nothing to signs
            sizes = schema.sizes if statistic != "kendall" and schema.says_sizes else None
            if sizes is not None and schema.without_size and norm is None:  # beside those, its unit would be a size
                raise InvalidParameterError(
                    f"The schema has ranges or scales, but none for the column {schema.without_size[0]!r}; declare one "
                    "for every number and date, or for none of them, and ranges are found privately."
                )
            return {"norm_bound": norm, "bounds": None, "sizes": sizes}
        return {"norm_bound": norm, "bounds": schema.bounds, "longest": schema.longest}
    if isinstance(bounds, Mapping):
        pairs = features.bounds_by_name(bounds)
        if not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in pairs):
            raise InvalidParameterError("bounds by name must be (low, high) for every feature.")
        bounds = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        return {"norm_bound": norm, "bounds": bounds, "longest": features.longest}
    if statistic == "clipped" and _only_indicators(estimator, features):
        if not any(features.truths):
            return {"norm_bound": math.sqrt(features.n_categorical), "bounds": None}
        bounds = [-1.0 * fixed for fixed in features.one_hot], [1.0] * features.n_features
        return {"norm_bound": None, "bounds": bounds, "longest": features.longest}
    return {"norm_bound": norm, "bounds": bounds}


def check_passes(source: Any, plan: SpendPlan) -> None:
    """Refuse, before anything is spent, a plan that takes more passes than a table has."""
    features = Features.of(source)
    if features.reads_once and plan.in_stages:
        raise InvalidParameterError("The plan reads the rows twice, and these come once only; make it from this table.")
    if features.reads_once and plan.choices:
        raise InvalidDataError(
            "These rows come once only, and a private choice of bounds reads them twice; give norm_bound, bounds or a "
            "schema with ranges, or a table or a file in place of the stream."
        )


def check_prepared_alike(estimator: Any, source: Any, plan: SpendPlan) -> None:
    """Refuse, before anything is spent, a plan that was made before, for other facts than those of a table."""
    features, made_for = Features.of(source), plan.preparation_for(source.n_features)
    # Of few rows or of many: a plan for a number of rows is one of them, and does not tell which.
    for here in _ways_to_prepare(estimator, features):
        if made_for.bound == here.bound and made_for.ranges == here.ranges:
            return
    raise InvalidParameterError("The plan was made without the schema or the names of this table; make it from them.")


def _ways_to_prepare(estimator: Any, features: Features) -> Iterator[RowPreparation]:
    """Yield how rows of a table may be prepared, depending on their number."""
    preparation, many = prepared(estimator, features), prepared_for_many(estimator, features)
    yield preparation
    if many is not None:
        yield many
    if preparation.norm is None and not preparation.center:
        yield preparation.of_unit_rows()


def planned(
    estimator: Any,
    d: int,
    preparation: RowPreparation | None,
    rule: RowRule,
    n_rows: int | None,
    *,
    reads_once: bool = False,
) -> SpendPlan:
    """Return the plan of a fit, or refuse what public numbers show to be impossible.

    Parameters
    ----------
    estimator : MomentsEstimator
    d : int
        Number of features.
    preparation : RowPreparation, optional
        How rows become integers; None where they did already.
    rule : RowRule
        The same, as a public record.
    n_rows : int, optional
        Number of rows, where it is known and public.
    reads_once : bool
        Whether the rows come once only, which leaves room for one stage.
    """
    adjacency, delta = Adjacency.parse(estimator.adjacency), budget_delta(estimator.delta)
    whole = exact(budget_epsilon(estimator.epsilon))
    choices = {} if preparation is None else preparation.choices(whole, adjacency)
    epsilon = decimal_below(whole - sum((exact(part.epsilon) for part in choices.values()), Fraction(0)))
    name = one_of("mechanism", estimator.mechanism, ("auto", *MECHANISMS))
    stages = stages_asked(estimator.stages)

    def mechanisms_for(rule: RowRule, divided: bool = False) -> MechanismsByRows:
        width = d + (rule.constant is not None)
        shared: dict[str, Any] = {"epsilon": epsilon, "n_features": width, "adjacency": adjacency}

        def choose(rows: int) -> str:
            wanted = None if rule.needs_matrix else estimator._directions_wanted()
            n = rule.full_rows(rows)
            return choose_mechanism(n_rows=n, n_components=wanted, delta=delta, divided=divided, **shared)

        def make(chosen: str) -> CentralMechanism:
            # A pure mechanism that wins against the Gaussian leaves delta unspent.
            used = delta if name != "auto" or MECHANISMS[chosen].needs_delta else 0.0
            k = None if rule.needs_matrix else estimator._directions_released(d)
            parameters, options = {**shared, "delta": used, "n_components": k}, estimator.mechanism_options
            mechanism = (
                made_once(MECHANISMS[chosen], **parameters)
                if options is None
                else mechanism_with(chosen, options, **parameters)
            )
            estimator._check_mechanism(mechanism)
            gate.check_rule(mechanism, rule)
            return mechanism

        return mechanisms_by_rows(choose, make, n_rows) if name == "auto" else ((0, make(name)),)

    estimator._check_rows(rule)
    compared = rule.compares or (preparation is not None and bool(preparation.ranges))
    facts: dict[str, Any] = {"compared": compared, "unit": rule.unit}
    if preparation is None or reads_once:
        check_read_once(stages)
        return SpendPlan(d, preparation, choices, mechanisms_for(rule), asked_by(estimator), **facts)
    maps = estimator._maps and (stages == 2 or estimator._directions_wanted() is not None)
    mechanisms, parts = in_stages(mechanisms_for, rule, preparation.norm, stages, maps)
    return SpendPlan(d, preparation, choices, mechanisms, asked_by(estimator), stages=parts, **facts)
