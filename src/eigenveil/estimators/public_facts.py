"""What is public about the features of a fit, and the bounds, ranges and sizes that follow for each of them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ..errors import MOST_FEATURES, InvalidDataError, InvalidParameterError, column_in_words, integer_between, one_of
from ..guarantee import Relation
from ..laws import LAWS
from ..row_rule import COMPARED, PERSON_WEIGHTS, ROW_RULES
from ..schema import Schema
from ..sources import is_source
from .asked import TRUTH_VALUES, has_own_units, told
from .opening import checked_schema, names_persons
from .preparation import RowPreparation, public_preparation
from .spend_plan import SpendPlan
from .stages import stages_asked

AUTO = "auto"
"""The rule of rows that is chosen by what is public."""
_ANOTHER_PASS = (
    "partial_fit sees every row once, and a private bound would take another pass; give a public norm_bound, bounds or "
    "schema with ranges, or rows='pairs', or call fit."
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
    by_person : bool
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
    by_person: bool = False
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
            by_person = names_persons(estimator, schema)
            if schema is None:
                return cls(d, None, (False,) * d, by_person=by_person)
            kinds = [column.kind for column in schema.columns for _ in column.features]
            one_hot = tuple(fixed for column in schema.columns for fixed in column.one_hot)
            truths = tuple(kind == "boolean" and not fixed for kind, fixed in zip(kinds, one_hot, strict=True))
            n_categorical = sum(column.kind == "category" for column in schema.columns)
            facts = d, schema.feature_names, one_hot, n_categorical, schema
            return cls(*facts, by_person=by_person, truths=truths)
        one_hot = getattr(given, "one_hot", (False,) * given.n_features)
        schema, n_categorical = checked_schema(getattr(given, "schema", None)), getattr(given, "n_categorical", 0)
        optional = ("in_order", "reads_once", "by_person", "most_weight", "truths")
        known = {name: getattr(given, name) for name in optional if hasattr(given, name)}
        return cls(given.n_features, given.feature_names, one_hot, n_categorical, schema, **known)

    def person_weight(self, estimator: Any) -> str | None:
        """Return what counts once where persons are the unit; None where rows are."""
        weight = one_of("weight", estimator.weight, PERSON_WEIGHTS)
        return weight if self.by_person else None

    def counted_as(self, estimator: Any) -> dict[str, Any]:
        """Return what a row or a person counts, as the rule of rows takes it."""
        return {"person_weight": self.person_weight(estimator), "most_weight": self.most_weight}

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


def rows_for(estimator: Any, features: Features | None = None) -> str:
    """Return the rule of rows that was asked for, or that which suits what is public.

    Rows are clipped where a bound is public, where their lengths matter, and where they cannot be compared: under
    add/remove, on an engine or from a query, about the origin, where all rows of persons are pooled, and in two stages
    that were asked for. Else they are compared, and nothing about them need be known.
    """
    asked = one_of("rows", estimator.rows, (AUTO, *ROW_RULES))
    if asked != AUTO:
        return asked
    if _needs_lengths(estimator) or not _comparable(estimator, features) or _has_public_bound(estimator, features):
        return "clip"
    pooled = features is not None and features.person_weight(estimator) == "rows"
    if pooled or stages_asked(estimator.stages) == 2:
        return "clip"
    return "signs" if told(estimator, "standardize") else "pairs"


def _may_find_ranges(estimator: Any, features: Features) -> bool:
    """Return whether a range of every feature may be found privately: rows can be compared, and nothing is public."""
    if estimator.rows != AUTO or (features.schema is not None and features.schema.says_sizes):
        return False
    return _comparable(estimator, features) and not _has_public_bound(estimator, features)


def _needs_lengths(estimator: Any) -> bool:
    return bool(estimator._lengths and not told(estimator, "standardize"))


def _comparable(estimator: Any, features: Features | None) -> bool:
    # Persons stand in the order of their identifiers, each with one of their rows.
    in_order = features is None or features.in_order or features.by_person
    if features is not None and features.most_weight is not None:  # which a comparison of two rows has no place for
        return False
    return in_order and told(estimator, "center") and Relation.parse(estimator.relation) is Relation.REPLACE


def _has_public_bound(estimator: Any, features: Features | None) -> bool:
    schema = estimator.schema if features is None else features.schema
    if estimator.norm_bound is not None or estimator.bounds is not None or getattr(schema, "bounds", None) is not None:
        return True
    return features is not None and _only_indicators(estimator, features)


def _only_indicators(estimator: Any, features: Features) -> bool:
    return not features.without_public_range and estimator.bounds is estimator.norm_bound is None


def rows_pass_once(estimator: Any) -> bool:
    """Return whether nothing about the rows must be found out before they are collected."""
    if rows_for(estimator) == "clip" and not _has_public_bound(estimator, None):
        raise AttributeError(_ANOTHER_PASS)
    return True


def prepared(estimator: Any, features: Features) -> RowPreparation:
    """Return how an estimator's parameters and the public facts of a table prepare its rows."""
    rows = rows_for(estimator, features)
    more = {name: told(estimator, name) for name in TRUTH_VALUES}
    more["own_units"] = has_own_units(estimator, features.schema)
    known = {**_bounds_of(estimator, features, rows), **more, **features.counted_as(estimator)}
    ranges = (
        features.without_public_range if _may_find_ranges(estimator, features) and _needs_lengths(estimator) else ()
    )
    return public_preparation(features.n_features, rows, ranges=ranges, **known)


def prepared_once(estimator: Any, features: Features) -> RowPreparation:
    """Return how rows are prepared that come once; an engine has no public order, and may need a bound after all."""
    if features.by_person:
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
    named = estimator.law in LAWS and LAWS[estimator.law].releases == "subspace"  # which tells nothing about the mean
    if named or features.reads_once or _needs_lengths(estimator) or not _may_find_ranges(estimator, features):
        return None
    own_units = not told(estimator, "standardize")
    return RowPreparation(
        "clip",
        center=True,
        ranges=features.without_public_range,
        own_units=own_units,
        **features.counted_as(estimator),
    )


def _bounds_of(estimator: Any, features: Features, rows: str) -> dict[str, Any]:
    """Return norm_bound, bounds and sizes for all features, from what was given by name or by a schema."""
    schema, norm, bounds = features.schema, estimator.norm_bound, estimator.bounds
    if schema is not None:
        if bounds is not None:
            raise InvalidParameterError("Ranges and scales are declared in the schema; leave out bounds.")
        if rows in COMPARED or schema.bounds is None:  # ranges are sizes to differences, and nothing to signs
            sizes = schema.sizes if rows != "signs" and schema.says_sizes else None
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
    if rows == "clip" and _only_indicators(estimator, features):
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
