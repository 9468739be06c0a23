"""The facts for a data-protection officer, as sentences and as plain types: for the page and for `--json`.

First what the data owner states (`Statement`), then the ranges and clipping bounds with their sources (`bounds_used`),
then everything else that the release and the ledger record (`report_record`).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date
from difflib import get_close_matches
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..accounting.composition import compose
from ..accounting.ledger import PrivacyLedger
from ..errors import EigenveilError, InvalidParameterError, quoted
from ..files import read_bounded
from ..guarantee import Adjacency, Guarantee, Numerics, Unit, odds_factor
from ..releases.file import MEANS
from ..releases.record import Release
from ..releases.score_map import ScoreMap
from ..releases.summary import shown_names
from .html import PRIORS, belief_range, budget, number, prior_odds

NOT_IN_LEDGER = "not in the ledger"
WEIGHTS = {
    "equal": "every privacy unit has the same weight, however many rows it has",
    "by_rows": "every row has the same weight, so privacy units with many rows count more, up to the clipping bound",
}
"""How rows are weighted where a privacy unit has several rows, in words."""

# What the data owner states.

LABELS = {
    "purpose": "Purpose",
    "recipients": "Recipients",
    "responsible": "Responsible person",
    "approval": "Approval",
    "other_releases": "Other releases of the same data",
}
"""The fields of a statement, as a report names them."""
_LONGEST_FIELD = 10_000


@dataclass(frozen=True)
class Statement:
    """What the data owner states about a release. A field that is None is printed as a blank line to fill in.

    Parameters
    ----------
    purpose : str, optional
        Why the values are released.
    recipients : str, optional
        Who receives them.
    responsible : str, optional
        The person who is responsible for the release.
    approval : str, optional
        Who approved it, when, and under which reference.
    other_releases : str, optional
        Releases of the same data that no ledger records.

    Examples
    --------
    >>> Statement(purpose="Annual report", recipients="Public").purpose
    'Annual report'
    >>> Statement.from_dict({"porpose": "Annual report"})
    Traceback (most recent call last):
        ...
    eigenveil.errors.InvalidParameterError: Unknown key 'porpose' in the statement; did you mean purpose.
    """

    purpose: str | None = None
    recipients: str | None = None
    responsible: str | None = None
    approval: str | None = None
    other_releases: str | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, _field_text(one.name, getattr(self, one.name)))

    @classmethod
    def from_dict(cls, content: Any) -> Self:
        """Return the statement that a mapping of its fields makes; unknown keys are refused."""
        if content is None:
            return cls()
        if not isinstance(content, Mapping):
            raise InvalidParameterError(f"A statement must be a mapping with the keys {', '.join(LABELS)}.")
        for key in content:
            if key not in LABELS:
                near = get_close_matches(str(key), list(LABELS), 1)
                hint = f"did you mean {near[0]}" if near else f"known keys are {', '.join(LABELS)}"
                raise InvalidParameterError(f"Unknown key {quoted(key)} in the statement; {hint}.")
        return cls(**content)

    @classmethod
    def of(cls, given: "Statement | Mapping[str, Any] | str | PathLike[str] | None") -> Self:
        """Return a statement that was given as such, as a mapping, as the path of a YAML file, or not at all."""
        if isinstance(given, cls):
            return given
        return cls.from_dict(_read_yaml(Path(given)) if isinstance(given, str | PathLike) else given)

    def to_dict(self) -> dict[str, str | None]:
        """Return all fields; those that nobody filled in are None."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def _read_yaml(path: Path) -> Any:
    import yaml

    content = read_bounded(path, "The statement", InvalidParameterError)
    try:
        return yaml.safe_load(content.decode("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" near line {mark.line + 1}"
        raise InvalidParameterError(f"{path} is not valid YAML{where}; check indentation and quotes.") from error


def _field_text(name: str, value: Any) -> str | None:
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        value = "\n".join(value)
    if isinstance(value, date | int | float) and not isinstance(value, bool):
        value = str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str) or len(value) > _LONGEST_FIELD:
        raise InvalidParameterError(
            f"{name} must be a text of at most {_LONGEST_FIELD:,} characters, or a list of texts; got "
            f"{type(value).__name__ if not isinstance(value, str) else f'{len(value):,} characters'}."
        )
    return value.strip()


# Ranges and clipping bounds.


class Source(StrEnum):
    """Where a range or a clipping bound comes from."""

    CALLER = "caller"
    SCHEMA = "schema"
    PRIVATE = "private"
    COMPUTED = "computed"
    """From the ranges or categories, without any data."""


@dataclass(frozen=True)
class Range:
    """The range of one feature; no ends where none was found privately."""

    feature: str
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ClippingBound:
    """One bound on the norm of rows: what it bounds, its value, its source, and the source in words."""

    what: str
    value: float
    source: Source
    in_words: str


@dataclass(frozen=True)
class Bounds:
    """All ranges and clipping bounds of a release.

    Attributes
    ----------
    ranges : tuple of Range
        In the order of the features; empty where no ranges were used.
    ranges_source : Source or None
    ranges_in_words : str
        Where the ranges come from; or why there are none.
    clipping : tuple of ClippingBound
        Empty where no row was clipped.
    clipping_in_words : str
        What the bounds do to rows.
    """

    ranges: tuple[Range, ...]
    ranges_source: Source | None
    ranges_in_words: str
    clipping: tuple[ClippingBound, ...]
    clipping_in_words: str

    @property
    def common(self) -> Range | None:
        """The one range that all of several features have, or None."""
        alike = len(self.ranges) > 1 and len({(one.low, one.high) for one in self.ranges}) == 1
        return self.ranges[0] if alike else None

    @property
    def given(self) -> bool:
        """Whether any of them was given by the caller or by a schema, and not estimated."""
        sources = {self.ranges_source, *(one.source for one in self.clipping)}
        return bool(sources & {Source.CALLER, Source.SCHEMA})


def bounds_used(release: Release) -> Bounds:
    """Return the ranges and clipping bounds of a release, from its public origin."""
    rule = release.origin.row_rule
    if release.origin.model == "local":
        bound = ClippingBound("norm of a row", rule.row_norm, Source.CALLER, "given in the protocol")
        clipped = "Each client scales its own row down if its norm is larger than this bound."
        return Bounds((), None, "No ranges were used.", (bound,), clipped)
    if not rule.keeps_lengths:
        return Bounds((), None, _without_bounds(release), (), "No row was clipped.")
    ranges, source = _ranges(release)
    return Bounds(ranges, source, _ranges_in_words(release, source), tuple(_clipping(release, source)), _clips(release))


def private_cost(release: Release, choice: str) -> tuple[float, float | None] | None:
    """Return the epsilon that a private estimate cost, and its share of the whole epsilon; None where not recorded."""
    chosen, parts = release.origin.chosen_privately, release.guarantee.parts
    if choice not in chosen or len(parts) != len(chosen) + 1:
        return None
    cost, whole = parts[chosen.index(choice)].epsilon, release.guarantee.epsilon
    return cost, cost / whole if whole > 0 and np.isfinite(whole) else None


def _privately(release: Release, choice: str) -> str:
    cost = private_cost(release, choice)
    if cost is None:
        return "estimated privately from part of the budget"
    share = "" if cost[1] is None else f" ({100 * cost[1]:.3g} % of the budget)"
    return f"estimated privately with epsilon = {cost[0]:.6g}{share}"


def _without_bounds(release: Release) -> str:
    rule = release.origin.row_rule
    if rule.statistic == "kendall":
        used = "The statistic uses only the signs of differences between rows (Kendall's tau)."
    elif rule.compares:
        used = "The statistic uses only the directions of differences between rows."
    else:
        used = "The statistic uses only the directions of rows."
    sizes = "" if rule.scale is None else " Features were divided by the sizes in the schema."
    return f"No ranges and no clipping bounds were needed. {used}{sizes}"


def _ranges(release: Release) -> tuple[tuple[Range, ...], Source | None]:
    origin, names = release.origin, shown_names(release)
    rule, schema, d = origin.row_rule, origin.schema, len(names)
    if "bounds" in origin.chosen_privately and rule.shift is not None and rule.scale is not None:
        scale = np.array(rule.scale)
        moved = sum(release.integers[one] * release.unit[one] for one in MEANS if one in release.integers)
        shift = np.zeros(d) + moved
        shift[list(origin.without_range)] = 0.0
        middle, half = np.array(rule.shift) - shift / scale, 1 / scale
        ends = zip((middle - half).tolist(), (middle + half).tolist(), strict=True)
        found = [
            Range(name, *((None, None) if j in origin.without_range else pair))
            for j, (name, pair) in enumerate(zip(names, ends, strict=True))
        ]
        return tuple(found), Source.PRIVATE
    declared = None if schema is None else schema.bounds
    if declared is not None:
        fixed = [one for column in schema.columns for one in column.one_hot] if schema is not None else []
        low = [0.0 if is_fixed else end for end, is_fixed in zip(declared[0], fixed, strict=True)]
        return tuple(map(Range, names, low, declared[1])), Source.SCHEMA
    if origin.given_bounds is not None:
        pairs = origin.given_bounds * (d if len(origin.given_bounds) == 1 else 1)
        return tuple(Range(name, *pair) for name, pair in zip(names, pairs, strict=True)), Source.CALLER
    plain = rule.shift is not None and rule.scale is not None and schema is None and not origin.request.own_units
    if plain and "mean" not in release.integers:
        middle, half = np.array(rule.shift), 1 / np.array(rule.scale)
        return tuple(map(Range, names, (middle - half).tolist(), (middle + half).tolist())), Source.CALLER
    return (), None


def _ranges_in_words(release: Release, source: Source | None) -> str:
    schema, rule = release.origin.schema, release.origin.row_rule
    if source is Source.PRIVATE or "bounds" in release.origin.chosen_privately:
        return f"The ranges of the features were {_privately(release, 'bounds')}."
    if source is Source.CALLER:
        return "The ranges of the features were given by the caller."
    if source is Source.SCHEMA and schema is not None:
        return f"The ranges of the features were declared in the schema{declared_by(release)}."
    if rule.scale is not None and schema is not None:
        return f"No ranges were used. Features were divided by the scales in the schema{declared_by(release)}."
    if rule.scale is not None:
        return "The file of this release does not record the ranges of the features."
    return "No ranges were used: features are in their own units."


def declared_by(release: Release) -> str:
    """Return who declared the schema and when, as the end of a sentence."""
    schema = release.origin.schema
    if schema is None:
        return ""
    on = f" on {schema.declared_on}" if schema.declared_on else ""
    return f" by {schema.declared_by}{on}" if schema.declared_by else f"{on}; the schema does not state by whom"


def _clipping(release: Release, ranges: Source | None) -> Iterator[ClippingBound]:
    origin, rule = release.origin, release.origin.row_rule
    scaled = "norm of a row" if rule.scale is None else "norm of a scaled row"
    what = scaled if rule.unit is Unit.ROW else f"{scaled}, over all rows of one privacy unit"
    within = _mechanism_share(release)
    if "mean" in release.integers:
        if origin.given_norm_bound is not None:
            yield ClippingBound(
                f"{what}, before the mean was subtracted", origin.given_norm_bound, Source.CALLER, "given by the caller"
            )
        moved = f"{what}, after the mean was subtracted"
        first = f"{_privately(release, 'norm_bound')}, then " if "norm_bound" in origin.chosen_privately else ""
        again = f"{first}estimated again{within}" if first else f"estimated privately{within}"
        yield ClippingBound(moved, rule.row_norm, Source.PRIVATE, again)
    elif "norm_bound" in origin.chosen_privately:
        yield ClippingBound(what, rule.row_norm, Source.PRIVATE, _privately(release, "norm_bound"))
    elif origin.given_norm_bound is not None:
        yield ClippingBound(what, rule.row_norm, Source.CALLER, "given by the caller")
    elif origin.model == "federated":
        yield ClippingBound(what, rule.row_norm, Source.CALLER, "agreed by the sites")
    elif ranges is not None and origin.estimator is not None:
        largest = "computed from the ranges: no row within them has a larger norm"
        yield ClippingBound(what, rule.row_norm, Source.COMPUTED, largest)
    elif origin.estimator is not None and origin.schema is not None:
        yield ClippingBound(what, rule.row_norm, Source.COMPUTED, "computed from the declared columns")
    else:
        yield ClippingBound(what, rule.row_norm, Source.CALLER, "given by the caller")
    if rule.mapped_from is not None:
        after = f"estimated privately{within}"
        yield ClippingBound("norm of a preconditioned row", rule.norm, Source.PRIVATE, after)


def _mechanism_share(release: Release) -> str:
    """Return which part of the mechanism's budget was spent before the matrix, as the end of a sentence."""
    share = release.origin.parameters.get("share")
    if not isinstance(share, float) or not 0 < share < 1:
        return " from part of the mechanism's budget"
    return (
        f" from the {100 * (1 - share):.2g} % of the mechanism's budget (as a share of mu²) that was spent before the "
        "matrix"
    )


def _clips(release: Release) -> str:
    whose = "A row" if release.origin.row_rule.unit is Unit.ROW else "The rows of a privacy unit"
    return (
        f"{whose} with a larger norm {'is' if whose == 'A row' else 'are'} scaled down to this bound. Single values "
        "are not clipped."
    )


def range_in_words(one: Range) -> str:
    """Return a range as a table shows it.

    Examples
    --------
    >>> range_in_words(Range("age", 0.0, 120.0))
    '0 to 120'
    """
    if one.low is None or one.high is None:
        return "none found: treated as constant"
    return f"{number(one.low, 6)} to {number(one.high, 6)}"


# All facts.


def report_record(
    release: Release,
    *,
    ledger: PrivacyLedger | None = None,
    scores: ScoreMap | None = None,
    statement: Statement | None = None,
) -> dict[str, Any]:
    """Return the facts of a report in plain types, for JSON.

    Parameters
    ----------
    release : Release
    ledger : PrivacyLedger, optional
        For the total spend.
    scores : ScoreMap, optional
        A score map of this release.
    statement : Statement, optional
        What the data owner states. Fields that nobody filled in are None.

    Examples
    --------
    >>> import numpy as np
    >>> from eigenveil import PrivateCovariance
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 3))
    >>> release = PrivateCovariance(epsilon=2.0, bounds=(-4, 4)).fit(rows).release_
    >>> record = report_record(release)
    >>> record["bounds"]["ranges"][0], record["bounds"]["ranges_source"], record["privacy_unit"]["given"]
    ({'feature': 'x0', 'low': -4.0, 'high': 4.0}, 'caller', False)
    """
    stated = Statement() if statement is None else statement
    bounds, guarantee, spent = bounds_used(release), release.guarantee, spending(release, ledger, scores)
    arrays, (opening, *more) = released_arrays(release, scores), released_in_words(release)
    costs = {name: private_cost(release, name) for name in release.origin.chosen_privately}
    return {
        "statement": stated.to_dict(),
        "released": {
            "summary": f"{opening} {'; '.join(one['description'] for one in arrays)}. {' '.join(more)}",
            "arrays": arrays,
            "n": release.n_rows,
            "counted": counted(release),
        },
        "privacy_unit": privacy_unit(release),
        "meaning": {
            "odds_factor": math.exp(guarantee.epsilon) if guarantee.is_private and guarantee.epsilon < 700 else None,
            "sentences": list(guarantee.in_words()),
            "beliefs": [
                {"prior_odds": prior_odds(prior), "prior": prior, "lowest": low, "highest": high}
                for prior in (PRIORS if guarantee.is_private else ())
                for low, high in [belief_range(prior, guarantee.epsilon)]
            ],
        },
        "assumptions": list(assumptions(release)),
        "bounds": {
            "ranges": [{"feature": one.feature, "low": one.low, "high": one.high} for one in bounds.ranges],
            "ranges_source": None if bounds.ranges_source is None else bounds.ranges_source.value,
            "ranges_text": bounds.ranges_in_words,
            "clipping": [
                {"what": one.what, "value": one.value, "source": one.source.value, "text": one.in_words}
                for one in bounds.clipping
            ],
            "estimated_privately": {
                name: None if cost is None else {"epsilon": cost[0], "share": cost[1]} for name, cost in costs.items()
            },
        },
        "spending": spent.to_dict(),
        "not_protected": list(limits(release)),
    }


# What was released.


def released_in_words(release: Release) -> list[str]:
    """Return what was released: a sentence before the list of arrays, and sentences after it."""
    of = "" if count(release) is None else f" from {count(release)} {counted(release)}"
    if not release.guarantee.is_private:
        return [f"These values were released{of}:", "They are not private. This page is computed from them."]
    said = [f"These values with random noise were released{of}:", "No row and no other statistic was released."]
    return [*said, "All other numbers on this page are computed from these values and from public parameters."]


def released_arrays(release: Release, cloud: ScoreMap | None = None) -> list[dict[str, Any]]:
    """Return every released array with its name, its shape and a description."""
    found = [
        {"name": name, "shape": list(value.shape), "description": _described(release, name, value.shape)}
        for name, value in sorted(
            release.integers.items(), key=lambda piece: (piece[0] != "matrix", -piece[1].size, piece[0])
        )
    ]
    if cloud is not None:
        groups, cells = cloud.integers.shape[0], " × ".join(map(str, cloud.grid.bins))  # noqa: RUF001
        many = f"{groups} score maps" if groups > 1 else "a score map"
        said = f"{many} of {cells} counts with noise, released separately"
        found.append({"name": "score_map", "shape": list(cloud.integers.shape), "description": said})
    return found


def _described(release: Release, name: str, shape: tuple[int, ...]) -> str:
    size = " × ".join(map(str, shape))  # noqa: RUF001
    if not shape:
        return f"one integer: the {_ARRAYS.get(name, plain_words(name))}"
    if name == "matrix":
        mean = "; its last row and column contain the mean" if release.origin.centred else ""
        return f"a {size} {_matrix_name(release)} of integers{mean}"
    return f"{size} integers: the {_ARRAYS.get(name, plain_words(name))}"


def _matrix_name(release: Release) -> str:
    rule = release.origin.row_rule
    return "matrix of Kendall's tau" if rule.statistic == "kendall" else "second-moment matrix"


_ARRAYS = {
    "trace": "trace of the matrix, measured a second time",
    "count": "number of rows",
    "slack": "number of rows minus the trace",
    "directions": "sampled directions",
    "quotients": "variances along the directions, and the remaining variance",
    "sums": "sums of the private reports",
    "ones": "number of ones in the private reports",
    "mean": "mean of the rows",
    "mean_again": "mean of the rows, second estimate",
    "mean_third": "mean of the rows, third estimate",
    "mean_fourth": "mean of the rows, fourth estimate",
    "map": "preconditioning matrix, computed from a noisy pilot estimate",
}


def count(release: Release) -> str | None:
    """Return the number of rows, privacy units or reports, where it is public or was released with noise."""
    if release.n_rows is None:
        return None
    # Where it is not public it was released with noise, unless nothing is private at all.
    noisy = release.origin.n_rows is None and math.isfinite(release.guarantee.epsilon)
    return f"{release.n_rows:,}{' (noisy)' if noisy else ''}"


def counted(release: Release) -> str:
    """Return what is counted, in words."""
    if release.origin.model == "local":
        return "reports"
    rows = release.origin.row_rule
    return "pairs of rows" if rows.compares and not rows.compares_neighbours else release.guarantee.unit.counted


def plain_words(name: str) -> str:
    """Return the name of a parameter in words."""
    return str(name).replace("_", " ")


def table_in_words(release: Release, data_set: str | None) -> str:
    """Return which table and period the release is about."""
    schema = release.origin.schema
    table, period = (None, None) if schema is None else (schema.table, schema.period)
    said = f"Table: {table or 'not stated'}. Period: {period or 'not stated'}."
    if data_set is not None:
        said += f" Data set in the ledger: {data_set}."
    if not (table and period):
        said += " Set table and period in the schema to state both."
    return said


# Whose data.


def privacy_unit(release: Release) -> dict[str, Any]:
    """Return whether one row is one person: whether a privacy unit was given, and the answer in words."""
    guarantee, schema = release.guarantee, release.origin.schema
    given = guarantee.unit is not Unit.ROW
    column = None if schema is None else schema.privacy_unit
    if release.origin.model == "local":
        answer = (
            "Yes. Each client sends one report about one person, and each report is private before it is sent. A "
            "person who sends several reports has a weaker guarantee."
        )
    elif given:
        named = f" (column {column})" if column else ""
        answer = (
            f"Not necessarily. A privacy unit was given{named}, which is usually a person. The guarantee covers all "
            "rows of one privacy unit together, however many there are."
        )
        weight = weights_in_words(release)
        answer += f" Weights: {weight}." if weight else ""
    else:
        answer = "This is assumed. No privacy unit was given, so the guarantee covers one row. " + _several(guarantee)
    return {
        "unit": guarantee.unit.value,
        "given": given,
        "column": column,
        "adjacency": guarantee.adjacency.value,
        "neighbours": guarantee.neighbours,
        "assumes_one_row_per_person": not given and release.origin.model != "local",
        "answer": answer,
    }


def _several(guarantee: Guarantee) -> str:
    if not guarantee.is_private:
        return "This release has no guarantee."
    once, twice = odds_factor(guarantee.epsilon), odds_factor(2 * guarantee.epsilon)
    more = ", and delta grows too" if guarantee.delta else ""
    return (
        f"A person with several rows has a weaker guarantee: with two rows the factor {once} becomes {twice}{more}. If "
        "people have several rows, fit again with privacy_unit."
    )


def weights_in_words(release: Release) -> str | None:
    """Return how rows are weighted where a privacy unit has several; how many these are is never released."""
    weight = release.origin.row_rule.unit_weight
    return None if weight is None else WEIGHTS[weight]


def model_in_words(release: Release) -> str | None:
    """Return who had access to rows, where it is not one data owner."""
    if release.origin.model == "local":
        return "local: rows were private before they were collected"
    sites = () if release.origin.collection is None else release.origin.collection.sites
    return f"federated: each of {', '.join(sites)} kept its own rows" if sites else None


# What is assumed, and what is not protected.


def assumptions(release: Release) -> tuple[str, ...]:
    """Return everything that the guarantee assumes, one sentence or two each."""
    guarantee, origin, bounds = release.guarantee, release.origin, bounds_used(release)
    if not guarantee.is_private:
        return ("This release has no privacy guarantee, whatever is assumed.",)
    found = [_as_fact(sentence) for sentence in guarantee.assumptions]
    if guarantee.unit is Unit.ROW and origin.model != "local":
        found.append("One row is one person.")
    if guarantee.adjacency is Adjacency.REPLACE_ONE and count(release) is not None:
        found.append(f"The number of {counted(release)} ({count(release)}) is public.")
    public = "The names of the features" + ("" if origin.schema is None else " and the schema")
    found.append(f"{public} are public and were not chosen by looking at the rows.")
    if bounds.given:
        found.append("The ranges and bounds that were given were chosen without looking at the rows.")
    if origin.total_weight is not None:
        found.append("The weights of the rows are public.")
    if guarantee.numerics is Numerics.EXACT:
        found.append("The random generator of the operating system is secure.")
    found.append("An attacker sees the released values, but not the running time or memory of the program.")
    return tuple(dict.fromkeys(found))


def _as_fact(sentence: str) -> str:
    """Return an assumption as a sentence of its own, for a list of assumptions."""
    fact = sentence.removeprefix("Assumes that ")
    return f"{fact[:1].upper()}{fact[1:]}"


def limits(release: Release) -> tuple[str, ...]:
    """Return what the guarantee does not cover."""
    if not release.guarantee.is_private:
        return ("Nothing is protected: this release has no privacy guarantee.",)
    found = [
        "Facts about people in general. A release may show that a trait is common, and an attacker can apply this to a "
        "person whether or not that person is in the table.",
        "Other releases from the same data. Their factors multiply with the factor of this release.",
        "The rows themselves: who can access them, and how they are stored.",
    ]
    if release.guarantee.unit is Unit.ROW and release.origin.model != "local":
        found.insert(1, "Several rows of the same person together. The factor applies once per row.")
    return tuple(found)


# What was spent.


@dataclass(frozen=True)
class Spend:
    """One line of the history: a ledger entry, or a release of this report that the ledger does not have."""

    number: str
    spent_at: str
    what: str
    epsilon: float
    delta: float
    shown_as: str | None = None


@dataclass(frozen=True)
class Spending:
    """The total spend on the same data, as far as it is known.

    Attributes
    ----------
    total : (float, float) or None
        Epsilon and delta of the ledger and of all releases in this report; None where they cannot be added.
    total_in_words : str
    over_limit : bool
    sentences : tuple of str
        The limit of the ledger, and what is left.
    entries : tuple of Spend
        Of the ledger, and of what is missing in it.
    missing : tuple of str
        Releases of this report that the ledger does not have.
    unknown : str
        What is not included in the total.
    ledger : mapping or None
        Limit and rest, for JSON.
    """

    total: tuple[float, float] | None
    total_in_words: str
    over_limit: bool
    sentences: tuple[str, ...]
    entries: tuple[Spend, ...]
    missing: tuple[str, ...]
    unknown: str
    ledger: Mapping[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        total = None if self.total is None else {"epsilon": self.total[0], "delta": self.total[1]}
        entries = [
            {
                "entry": int(one.number) if one.number else None,
                "spent_at": one.spent_at or None,
                "what": one.what,
                "epsilon": one.epsilon,
                "delta": one.delta,
                "in_this_report": one.shown_as is not None,
            }
            for one in self.entries
        ]
        return {
            "total": total,
            "text": self.total_in_words,
            "over_limit": self.over_limit,
            "ledger": self.ledger,
            "entries": entries,
            "not_in_ledger": list(self.missing),
            "not_included": self.unknown,
        }


def spending(release: Release, ledger: PrivacyLedger | None, cloud: ScoreMap | None) -> Spending:
    """Return what was spent on the same data: by the ledger, and by what this report shows and the ledger lacks."""
    paid = release.origin.ledger_entry
    shown = [("this release", paid, release.guarantee)]
    shown += [] if cloud is None else [("its score map", cloud.ledger_entry, cloud.guarantee)]
    if ledger is None:
        return _without_ledger(release, cloud, paid)
    entries = ledger.entries()
    marks = {
        line: name
        for line, entry in enumerate(entries)
        for name, number, guarantee in shown
        if entry.entry == number and entry.guarantee == guarantee
    }
    beside = {name: guarantee for name, _, guarantee in shown if name not in marks.values()}
    rows = [
        Spend(str(e.entry), str(e.spent_at), e.what, e.guarantee.epsilon, e.guarantee.delta, shown_as=marks.get(line))
        for line, e in enumerate(entries)
    ]
    rows += [Spend("", "", name, one.epsilon, one.delta, name) for name, one in beside.items()]
    left, rho = budget(*ledger.remaining), ledger.remaining_rho
    only = " (by its entries alone)" if beside else ""
    rest = f"One more release may spend {left}" if rho is None else f"Remaining: rho = {rho:.6g}, that is {left}"
    sentences = (
        f"The ledger of the data set {ledger.data_set} allows {budget(ledger.epsilon, ledger.delta)} in total "
        f"({ledger.composition} composition), for {ledger.unit.in_words}.",
        f"{rest}{only}.",
    )
    total = _sum(ledger, beside)
    return Spending(
        total=total,
        total_in_words=f"Total known spend: {known_total(ledger, beside)}.",
        over_limit=total is not None and _over(ledger, total),
        sentences=sentences,
        entries=tuple(rows),
        missing=tuple(beside),
        unknown="Not included: releases of the same data that this ledger does not record. List them here.",
        ledger={
            "data_set": ledger.data_set,
            "composition": ledger.composition,
            "unit": ledger.unit.value,
            "adjacency": ledger.adjacency.value,
            "limit": {"epsilon": ledger.epsilon, "delta": ledger.delta},
            "spent": dict(zip(("epsilon", "delta"), ledger.spent, strict=True)),
            "remaining": dict(zip(("epsilon", "delta"), ledger.remaining, strict=True)),
            "remaining_rho": rho,
        },
    )


def _without_ledger(release: Release, cloud: ScoreMap | None, paid: int | None) -> Spending:
    guarantee, total = release.guarantee, None
    if not guarantee.is_private:
        words = "Total known spend: unlimited, because this release is not private."
    elif cloud is None:
        total = guarantee.epsilon, guarantee.delta
        words = f"Total known spend: {budget(*total)}, by this release."
    else:
        both = together(release, cloud)
        total = None if both is None else (both.epsilon, both.delta)
        words = (
            f"Total known spend: {budget(*total)}, by this release and its score map."
            if total is not None
            else f"Total known spend: {budget(guarantee.epsilon, guarantee.delta)} by this release. The spend of its "
            "score map cannot be added: its adjacency, unit or guarantee differs."
        )
    book = (
        f"This release is entry {paid} of a ledger that is not part of this report."
        if paid is not None
        else "No ledger: this spend is not tracked."
    )
    unknown = "Not included: other releases of the same data. Add the ledger to this report, or list them here."
    return Spending(total, words, False, (book,), (), (), unknown, None)


def together(release: Release, cloud: ScoreMap) -> Guarantee | None:
    """Return the guarantee of a release and its score map together; None where they cannot be added."""
    if not (release.guarantee.is_private and cloud.guarantee.is_private):
        return None
    alike = all(getattr(cloud.guarantee, one) == getattr(release.guarantee, one) for one in ("adjacency", "unit"))
    return compose([release.guarantee, cloud.guarantee]) if alike else None


def _sum(ledger: PrivacyLedger, beside: Mapping[str, Guarantee]) -> tuple[float, float] | None:
    try:
        return ledger.spent_with(*beside.values())
    except EigenveilError:  # of another adjacency or unit, without a rho, or not private
        return None


def _over(ledger: PrivacyLedger, total: tuple[float, float]) -> bool:
    return total[0] > ledger.epsilon or total[1] > ledger.delta


def known_total(ledger: PrivacyLedger, beside: Mapping[str, Guarantee]) -> str:
    """Return the spend of a ledger together with that of releases which it does not record, in words."""
    by_entries = f"{budget(*ledger.spent)} in the ledger"
    if not beside:
        return by_entries
    total = _sum(ledger, beside)
    if total is None:
        return f"{by_entries}, and a spend that is {NOT_IN_LEDGER} and cannot be added to it"
    text = f"{budget(*total)}: {by_entries}, the rest {NOT_IN_LEDGER}"
    return f"{text}. This exceeds the limit of {budget(ledger.epsilon, ledger.delta)}" if _over(ledger, total) else text
