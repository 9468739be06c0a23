"""Checked parameters of estimators, their needs of a release, and public facts about the columns of a table."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Number
from typing import Any, Self, TypeAlias

import numpy as np

from ..errors import (
    MOST_FEATURES,
    InvalidDataError,
    InvalidParameterError,
    PrivacyWarning,
    column_in_words,
    integer_between,
    listed,
    one_of,
    quoted,
    shown,
    truth_value,
    warn_caller,
)
from ..guarantee import TYPES_ASSUMPTION, Adjacency, Guarantee
from ..mechanisms import CentralMechanism
from ..moments.row_rule import STATISTICS, UNIT_WEIGHTS, RowRule
from ..postprocess.noise_spectrum import ABOVE_NOISE
from ..releases.origin import ComponentsRequest
from ..tables.base import Source
from ..tables.schema import Schema, identifies

Estimator: TypeAlias = Any
"""An estimator with the interface of scikit-learn, which has no type information."""
AUTO = "auto"
"""The statistic or the mechanism that is chosen by what is public."""
STAGES = (1, 2, AUTO)
# The noise on the mean of the target that a regression may have, over the size of a feature at the bound (with ranges:
# half of the target's). It takes 0.04 of R² where the target fills its range evenly, 0.2 where its deviation is
# an eighth of it; beyond, hardly any table has more to gain from its features: docs/research/postprocessing.md.
_MEAN_NOISE = 1 / 9
# In such units the noise edge is d times the noise on a mean, and may be this many √d: the largest variance of any
# direction was 0.02 to 0.63 √d on the tables of benchmarks/ridge.py.
_EDGE_NOISE = 0.7


@dataclass(frozen=True, eq=False)
class FitParameters:
    """The parameters of an estimator that decide about a fit, each checked by itself.

    `PrivatePCA` documents them. Records are equal where all values are, arrays and mappings by their numbers: plans are
    kept by these records.
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
        stages = {str(one): one for one in STAGES}  # also as the text that a command line has
        if isinstance(given["stages"], bool) or str(given["stages"]) not in stages:
            raise InvalidParameterError(f"stages must be 1, 2 or 'auto', got {shown(given['stages'])}.")
        checked = {
            "statistic": one_of("statistic", given["statistic"], (AUTO, *STATISTICS)),
            "standardize": truth_value("standardize", given["standardize"], "; give public sizes by a schema"),
            "center": truth_value("center", given["center"], "; give a public middle by bounds"),
            "privacy_unit": checked_unit_column(given["privacy_unit"]),
            "unit_weight": one_of("unit_weight", given["unit_weight"], UNIT_WEIGHTS),
            "adjacency": Adjacency.parse(given["adjacency"]),
            "stages": stages[str(given["stages"])],
        }
        return cls(**given | checked)

    @cached_property
    def _values(self) -> tuple[Hashable, ...]:
        return tuple(_hashable(getattr(self, name)) for name in FitParameters.__dataclass_fields__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FitParameters) and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._values)


def _hashable(value: Any) -> Hashable:
    """Return a parameter as nested tuples of plain values and their types; what has none is equal to nothing."""
    if isinstance(value, Mapping):
        return Mapping, *((_hashable(name), _hashable(one)) for name, one in value.items())
    if hasattr(value, "__array__"):
        value = np.asarray(value).tolist()
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    if value is None or isinstance(value, str | Number | Adjacency | Schema):
        return type(value), value  # 1 and True are equal, and mean different things
    return object()


@dataclass(frozen=True)
class Needs:
    """Needs of an estimator: all that planning and fitting know about it.

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
    wanted: int | float | str | None = n_components
    if isinstance(n_components, str):
        wanted = one_of("n_components", n_components, (ABOVE_NOISE,))
    elif isinstance(n_components, float | np.floating):
        wanted = float(n_components)
        if not 0 < wanted < 1:
            raise InvalidParameterError(
                f"n_components must be an integer, a float between 0 and 1, or {ABOVE_NOISE!r}."
            )
    elif n_components is not None:
        wanted = integer_between("n_components", n_components, 1, n_features)
    return ComponentsRequest(wanted, truth_value("whiten", whiten), correlation=bool(standardize))


def components_needs(estimator: str, n_components: Any, whiten: Any) -> Needs:
    """Return the needs of an estimator of this name, with these parameters of a `PrivatePCA`."""
    k, whiten = n_components, truth_value("whiten", whiten)
    return Needs(
        estimator,
        matrix=whiten,
        variances=isinstance(k, str | float | np.floating),
        known_noise=isinstance(k, str),
        lengths=whiten,
        n_directions=int(k) if isinstance(k, Integral) else None,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class PCAParameters(FitParameters):
    """The parameters of a `PrivatePCA` that decide about a fit.

    `forecast` takes them in place of one, for which scikit-learn has to be loaded.
    """

    n_components: int | float | str | None
    whiten: bool = False

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None) -> ComponentsRequest:
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
        """Return the facts that an estimator's parameters declare about so many features."""
        d, schema = integer_between("n_features", n_features, 1, MOST_FEATURES), checked_schema(parameters.schema)
        if schema is not None and d != schema.n_features:
            raise InvalidParameterError(
                f"The schema has {schema.n_features} features and not {d}; give n_features=schema.n_features."
            )
        if schema is None:
            bounds, names = parameters.bounds, None
            if isinstance(bounds, Mapping) and all(isinstance(name, str) for name in bounds):
                names = tuple(bounds)
                if d != len(names):
                    raise InvalidParameterError(
                        f"bounds names {len(names)} features and not {d}; name every feature, or plan for an opened "
                        "table."
                    )
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
        """Assumptions of a guarantee about this table."""
        return (TYPES_ASSUMPTION,) if self.typed else ()

    def counted_as(self, parameters: FitParameters) -> dict[str, Any]:
        """Return the weight of a row or a person, as arguments of a row rule."""
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


def checked_unit_column(privacy_unit: Any) -> str | int | None:
    """Return the column that the parameter `privacy_unit` names, or None; identifiers are no parameter."""
    if privacy_unit is None or isinstance(privacy_unit, str):
        return privacy_unit
    if isinstance(privacy_unit, Integral) and not isinstance(privacy_unit, bool | np.bool_):
        return int(privacy_unit)
    # A parameter is printed, copied and pickled; identifiers of privacy units must not be.
    raise InvalidParameterError("privacy_unit of an estimator must be a column. Give a list of identifiers to fit.")


def checked_schema(schema: Any) -> Schema | None:
    """Return the schema of an estimator, or refuse what cannot be read with it."""
    if schema is None:
        return None
    if not isinstance(schema, Schema):
        raise InvalidParameterError("schema must be a Schema; Schema.load reads one from a file.")
    schema.check_complete()
    return schema


def check_delta(promise: Guarantee, n: int) -> None:
    """Warn, before the spend, of a delta that is too large to protect single units."""
    large = delta_of_a_unit(promise, n)
    if large is not None:
        warn_caller(large, PrivacyWarning)


def delta_of_a_unit(promise: Guarantee, n: int) -> str | None:
    """Return a sentence about a delta of at least 1/n, or None; n is public under replace alone."""
    delta, unit = promise.delta, promise.unit
    if promise.adjacency is not Adjacency.REPLACE_ONE or delta * n < 1:
        return None
    return (
        f"delta = {delta:g} is at least 1/n for these {n:,} {unit.counted}, which even the publication of "
        f"{unit.in_words}, taken at random, would satisfy; choose one far below 1/n."
    )
