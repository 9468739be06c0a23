"""One record of facts about a release, for data-protection officers; the page, its JSON and the registry are templates.

First what the data owner states (`Statement`), then what the release and the ledger record (`Record`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self

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

# Statements of the data owner.

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
    """Statements of the data owner about a release. A field that is None is printed as a blank line to fill in.

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
    >>> Statement.of({"porpose": "Annual report"})
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
            value = getattr(self, one.name)
            if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
                value = "\n".join(value)
            elif isinstance(value, date | int | float) and not isinstance(value, bool):
                value = str(value)
            if value is not None and (not isinstance(value, str) or len(value) > _LONGEST_FIELD):
                got = f"{len(value):,} characters" if isinstance(value, str) else type(value).__name__
                raise InvalidParameterError(
                    f"{one.name} must be a text of at most {_LONGEST_FIELD:,} characters, or a list of texts; "
                    f"got {got}."
                )
            object.__setattr__(self, one.name, None if value is None else value.strip() or None)

    @classmethod
    def of(cls, given: "Statement | Mapping[str, Any] | str | PathLike[str] | None") -> Self:
        """Return a statement that was given as such, as a mapping, as the path of a YAML file, or not at all."""
        if isinstance(given, cls):
            return given
        content: Any = given
        if isinstance(given, str | PathLike):
            import yaml

            path = Path(given)
            text = read_bounded(path, "The statement", InvalidParameterError)
            try:
                content = yaml.safe_load(text.decode("utf-8"))
            except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
                mark = getattr(error, "problem_mark", None)
                where = "" if mark is None else f" near line {mark.line + 1}"
                raise InvalidParameterError(
                    f"{path} is not valid YAML{where}; check indentation and quotes."
                ) from error
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


# The record.

Source = Literal["caller", "schema", "private", "computed"]
"""Origin of a range or of a clipping bound; "computed" means from the ranges or categories, without any data."""
PRIORS = (0.01, 0.1, 0.5, 0.9)
"""Beliefs about one person before the release, for which a report states the beliefs after it."""


@dataclass(frozen=True)
class Range:
    """The range of one feature; no ends where none was found privately."""

    feature: str
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ClippingBound:
    """One bound on the norm of rows, with its source, also in words."""

    what: str
    value: float
    source: Source
    text: str


@dataclass(frozen=True)
class Bounds:
    """All ranges (empty where none were used) and clipping bounds (empty where no row was clipped) of a release.

    Attributes
    ----------
    ranges : sequence of Range
    ranges_source : Source or None
    ranges_text : str
        The source of the ranges, or why there are none.
    clipping : sequence of ClippingBound
    estimated_privately : mapping of str to mapping
        The epsilon of each private estimate and its share of the whole epsilon; None where this is not recorded.
    """

    ranges: Sequence[Range]
    ranges_source: Source | None
    ranges_text: str
    clipping: Sequence[ClippingBound]
    estimated_privately: Mapping[str, Mapping[str, float | None] | None]


@dataclass(frozen=True)
class Spend:
    """One ledger entry, or a release of this report that the ledger does not have."""

    entry: int | None
    spent_at: str | None
    what: str
    epsilon: float
    delta: float
    in_this_report: bool


@dataclass(frozen=True)
class Spending:
    """The total spend on the same data, as far as it is known.

    Attributes
    ----------
    total : mapping or None
        Epsilon and delta of the ledger and of all releases in this report; None where they cannot be added.
    text : str
    over_limit : bool
    ledger : mapping or None
        Data set, composition, unit, adjacency, limit, spend and rest of the ledger.
    entries : sequence of Spend
    not_in_ledger : sequence of str
        Releases of this report that the ledger does not have.
    not_included : str
    """

    total: Mapping[str, float] | None
    text: str
    over_limit: bool
    ledger: Mapping[str, Any] | None
    entries: Sequence[Spend]
    not_in_ledger: Sequence[str]
    not_included: str


@dataclass(frozen=True)
class Record:
    """Everything that a data-protection officer is told about a release; its fields are those of the JSON record.

    Attributes
    ----------
    statement : Statement
    released : mapping
        The released arrays with their shapes and descriptions, also in one sentence; the number of rows, or None.
    privacy_unit : mapping
        The unit and the neighbouring data sets of the guarantee, and whether one row is one person.
    meaning : mapping
        The guarantee in words, as a factor on odds, and as ranges of an attacker's belief.
    assumptions, not_protected : sequence of str
    bounds : Bounds
    spending : Spending
    """

    statement: Statement
    released: Mapping[str, Any]
    privacy_unit: Mapping[str, Any]
    meaning: Mapping[str, Any]
    assumptions: Sequence[str]
    bounds: Bounds
    spending: Spending
    not_protected: Sequence[str]


def read_record(
    release: Release,
    ledger: PrivacyLedger | None = None,
    scores: ScoreMap | None = None,
    statement: Statement | None = None,
) -> Record:
    """Return the facts that the page, the JSON record and the registry share."""
    guarantee, bounds = release.guarantee, _bounds(release)
    arrays, (before, *after) = list(_arrays(release, scores)), released_in_words(release)
    listed = "; ".join(one["description"] for one in arrays)
    beliefs = []
    for prior in PRIORS if guarantee.is_private else ():
        low, high = belief_range(prior, guarantee.epsilon)
        beliefs.append({"prior_odds": prior_odds(prior), "prior": prior, "lowest": low, "highest": high})
    return Record(
        statement=Statement() if statement is None else statement,
        released={
            "summary": f"{before} {listed}. {' '.join(after)}",
            "arrays": arrays,
            "n": release.n_rows,
            "counted": counted(release),
        },
        privacy_unit=_privacy_unit(release),
        meaning={
            "odds_factor": math.exp(guarantee.epsilon) if guarantee.is_private and guarantee.epsilon < 700 else None,
            "sentences": list(guarantee.in_words()),
            "beliefs": beliefs,
        },
        assumptions=_assumptions(release, bounds),
        bounds=bounds,
        spending=_spending(release, ledger, scores),
        not_protected=_not_protected(release),
    )


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
    return asdict(read_record(release, ledger, scores, statement))


def budget(epsilon: float, delta: float) -> str:
    """Return a budget in words."""
    return f"epsilon = {epsilon:.6g}" + (f" and delta = {delta:.3g}" if delta else "")


# Released arrays, rows and privacy units.

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


def released_in_words(release: Release) -> list[str]:
    """Return the sentence before the list of released arrays, and the sentences after it."""
    of = "" if count(release) is None else f" from {count(release)} {counted(release)}"
    if not release.guarantee.is_private:
        return [f"These values were released{of}:", "They are not private. This page is computed from them."]
    return [
        f"These values with random noise were released{of}:",
        "No row and no other statistic was released.",
        "All other numbers on this page are computed from these values and from public parameters.",
    ]


def _arrays(release: Release, cloud: ScoreMap | None) -> Iterator[dict[str, Any]]:
    """Yield the released arrays, the matrix first, then the largest."""
    kendall = release.origin.row_rule.statistic == "kendall"
    matrix = "matrix of Kendall's tau" if kendall else "second-moment matrix"
    pieces = sorted(release.integers.items(), key=lambda piece: (piece[0] != "matrix", -piece[1].size, piece[0]))
    for name, value in pieces:
        size, words = " × ".join(map(str, value.shape)), _ARRAYS.get(name, plain_words(name))  # noqa: RUF001
        if not value.shape:
            said = f"one integer: the {words}"
        elif name == "matrix":
            said = f"a {size} {matrix} of integers"
            said += "; its last row and column contain the mean" if release.origin.centred else ""
        else:
            said = f"{size} integers: the {words}"
        yield {"name": name, "shape": list(value.shape), "description": said}
    if cloud is not None:
        groups, cells = cloud.integers.shape[0], " × ".join(map(str, cloud.grid.bins))  # noqa: RUF001
        many = f"{groups} score maps" if groups > 1 else "a score map"
        said = f"{many} of {cells} counts with noise, released separately"
        yield {"name": "score_map", "shape": list(cloud.integers.shape), "description": said}


def count(release: Release) -> str | None:
    """Return the number of rows, privacy units or reports, where it is public or was released with noise."""
    if release.n_rows is None:
        return None
    # Where it is not public it was released with noise, unless nothing is private at all.
    noisy = release.origin.n_rows is None and math.isfinite(release.guarantee.epsilon)
    return f"{release.n_rows:,}{' (noisy)' if noisy else ''}"


def counted(release: Release) -> str:
    """Return the word for the things that are counted: rows, pairs of rows, privacy units or reports."""
    if release.origin.model == "local":
        return "reports"
    rows = release.origin.row_rule
    return "pairs of rows" if rows.compares and not rows.compares_neighbours else release.guarantee.unit.counted


def plain_words(name: str) -> str:
    """Return the name of a parameter in words."""
    return str(name).replace("_", " ")


def weights_in_words(release: Release) -> str | None:
    """Return the weights of rows where a privacy unit may have several; the number of these is never released."""
    return {
        None: None,
        "equal": "every privacy unit has the same weight, however many rows it has",
        "by_rows": "every row has the same weight, so privacy units with many rows count more, up to the clipping "
        "bound",
    }[release.origin.row_rule.unit_weight]


def _privacy_unit(release: Release) -> dict[str, Any]:
    guarantee, schema, local = release.guarantee, release.origin.schema, release.origin.model == "local"
    given = guarantee.unit is not Unit.ROW
    column = None if schema is None else schema.privacy_unit
    if local:
        answer = (
            "Yes. Each client sends one report about one person, and each report is private before it is sent. A "
            "person who sends several reports has a weaker guarantee."
        )
    elif given:
        named, weights = f" (column {column})" if column else "", weights_in_words(release)
        answer = (
            f"Not necessarily. A privacy unit was given{named}, which is usually a person. The guarantee covers all "
            "rows of one privacy unit together, however many there are."
        ) + (f" Weights: {weights}." if weights else "")
    else:
        answer = "This is assumed. No privacy unit was given, so the guarantee covers one row. "
        if guarantee.is_private:
            once, twice = odds_factor(guarantee.epsilon), odds_factor(2 * guarantee.epsilon)
            more = ", and delta grows too" if guarantee.delta else ""
            answer += (
                f"A person with several rows has a weaker guarantee: with two rows the factor {once} becomes "
                f"{twice}{more}. If people have several rows, fit again with privacy_unit."
            )
        else:
            answer += "This release has no guarantee."
    return {
        "unit": guarantee.unit.value,
        "given": given,
        "column": column,
        "adjacency": guarantee.adjacency.value,
        "neighbours": guarantee.neighbours,
        "assumes_one_row_per_person": not given and not local,
        "answer": answer,
    }


# Meaning, assumptions and limits of the guarantee.


def prior_odds(prior: float) -> str:
    """Return a probability as odds.

    Examples
    --------
    >>> [prior_odds(prior) for prior in PRIORS]
    ['1:99', '1:9', '1:1', '9:1']
    """
    ratio = prior / (1 - prior)
    return f"{ratio:.3g}:1" if ratio >= 1 else f"1:{1 / ratio:.3g}"


def belief_range(prior: float, epsilon: float) -> tuple[float, float]:
    """Return the least and the largest belief after a change of the odds by at most e^epsilon.

    Examples
    --------
    >>> [round(end, 3) for end in belief_range(0.5, 1.0)]
    [0.269, 0.731]
    """
    odds = math.log(prior / (1 - prior))
    low, high = (0.5 * (1 + math.tanh((odds + shift) / 2)) for shift in (-epsilon, epsilon))
    return low, high


def _assumptions(release: Release, bounds: Bounds) -> list[str]:
    """Return everything that the guarantee assumes, one sentence or two each."""
    guarantee, origin = release.guarantee, release.origin
    if not guarantee.is_private:
        return ["This release has no privacy guarantee, whatever is assumed."]
    stated = [sentence.removeprefix("Assumes that ") for sentence in guarantee.assumptions]
    found = [f"{sentence[:1].upper()}{sentence[1:]}" for sentence in stated]
    if guarantee.unit is Unit.ROW and origin.model != "local":
        found.append("One row is one person.")
    if guarantee.adjacency is Adjacency.REPLACE_ONE and count(release) is not None:
        found.append(f"The number of {counted(release)} ({count(release)}) is public.")
    public = "The names of the features" + ("" if origin.schema is None else " and the schema")
    found.append(f"{public} are public and were not chosen by looking at the rows.")
    if {bounds.ranges_source, *(one.source for one in bounds.clipping)} & {"caller", "schema"}:
        found.append("The ranges and bounds that were given were chosen without looking at the rows.")
    if origin.total_weight is not None:
        found.append("The weights of the rows are public.")
    if guarantee.numerics is Numerics.EXACT:
        found.append("The random generator of the operating system is secure.")
    found.append("An attacker sees the released values, but not the running time or memory of the program.")
    return list(dict.fromkeys(found))


def _not_protected(release: Release) -> list[str]:
    if not release.guarantee.is_private:
        return ["Nothing is protected: this release has no privacy guarantee."]
    found = [
        "Facts about people in general. A release may show that a trait is common, and an attacker can apply this to a "
        "person whether or not that person is in the table.",
        "Other releases from the same data. Their factors multiply with the factor of this release.",
        "The rows themselves: who can access them, and how they are stored.",
    ]
    if release.guarantee.unit is Unit.ROW and release.origin.model != "local":
        found.insert(1, "Several rows of the same person together. The factor applies once per row.")
    return found


# Ranges and clipping bounds.


def _bounds(release: Release) -> Bounds:
    """Return the ranges and clipping bounds of a release, from its public origin."""
    origin, rule, parts = release.origin, release.origin.row_rule, release.guarantee.parts
    costs: dict[str, Mapping[str, float | None] | None] = dict.fromkeys(origin.chosen_privately)
    if len(parts) == len(costs) + 1:
        whole = release.guarantee.epsilon
        for name, part in zip(origin.chosen_privately, parts, strict=False):
            share = part.epsilon / whole if whole > 0 and np.isfinite(whole) else None
            costs[name] = {"epsilon": part.epsilon, "share": share}
    if origin.model == "local":
        protocol = ClippingBound("norm of a row", rule.row_norm, "caller", "given in the protocol")
        return Bounds([], None, "No ranges were used.", [protocol], costs)
    if not rule.keeps_lengths:
        if rule.statistic == "kendall":
            used = "The statistic uses only the signs of differences between rows (Kendall's tau)."
        else:
            used = f"The statistic uses only the directions of {'differences between ' if rule.compares else ''}rows."
        sizes = "" if rule.scale is None else " Features were divided by the sizes in the schema."
        return Bounds([], None, f"No ranges and no clipping bounds were needed. {used}{sizes}", [], costs)
    privately = {name: _privately(cost) for name, cost in costs.items()}
    ranges, source = _ranges(release)
    schema = origin.schema
    if source == "private" or "bounds" in privately:
        said = f"The ranges of the features were {privately['bounds']}."
    elif source == "caller":
        said = "The ranges of the features were given by the caller."
    elif source == "schema":
        said = f"The ranges of the features were declared in the schema{_declared_by(release)}."
    elif rule.scale is not None and schema is not None:
        said = f"No ranges were used. Features were divided by the scales in the schema{_declared_by(release)}."
    elif rule.scale is not None:
        said = "The file of this release does not record the ranges of the features."
    else:
        said = "No ranges were used: features are in their own units."
    return Bounds(ranges, source, said, list(_clipping(release, source, privately.get("norm_bound"))), costs)


def _privately(cost: Mapping[str, float | None] | None) -> str:
    if cost is None:
        return "estimated privately from part of the budget"
    share = "" if cost["share"] is None else f" ({100 * cost['share']:.3g} % of the budget)"
    return f"estimated privately with epsilon = {cost['epsilon']:.6g}{share}"


def _declared_by(release: Release) -> str:
    schema = release.origin.schema
    assert schema is not None
    on = f" on {schema.declared_on}" if schema.declared_on else ""
    return f" by {schema.declared_by}{on}" if schema.declared_by else f"{on}; the schema does not state by whom"


def _ranges(release: Release) -> tuple[list[Range], Source | None]:
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
        return found, "private"
    if schema is not None and schema.bounds is not None:
        fixed = [one for column in schema.columns for one in column.one_hot]
        low = [0.0 if is_fixed else end for end, is_fixed in zip(schema.bounds[0], fixed, strict=True)]
        return list(map(Range, names, low, schema.bounds[1])), "schema"
    if origin.given_bounds is not None:
        pairs = origin.given_bounds * (d if len(origin.given_bounds) == 1 else 1)
        return [Range(name, *pair) for name, pair in zip(names, pairs, strict=True)], "caller"
    return [], None


def _clipping(release: Release, ranges: Source | None, privately: str | None) -> Iterator[ClippingBound]:
    """Yield the clipping bounds; `privately` is the private estimate of the norm bound in words, if there was one."""
    origin, rule = release.origin, release.origin.row_rule
    scaled = "norm of a row" if rule.scale is None else "norm of a scaled row"
    what = scaled if rule.unit is Unit.ROW else f"{scaled}, over all rows of one privacy unit"
    share, within = origin.parameters.get("share"), " from part of the mechanism's budget"
    if isinstance(share, float) and 0 < share < 1:
        within = (
            f" from the {100 * (1 - share):.2g} % of the mechanism's budget (as a share of mu²) that was spent before "
            "the matrix"
        )
    given: tuple[Source, str] = ("caller", "given by the caller")
    if "mean" in release.integers:
        if origin.given_norm_bound is not None:
            yield ClippingBound(f"{what}, before the mean was subtracted", origin.given_norm_bound, *given)
        again = f"estimated privately{within}" if privately is None else f"{privately}, then estimated again{within}"
        yield ClippingBound(f"{what}, after the mean was subtracted", rule.row_norm, "private", again)
    elif privately is not None:
        yield ClippingBound(what, rule.row_norm, "private", privately)
    elif origin.given_norm_bound is None and origin.model == "federated":
        yield ClippingBound(what, rule.row_norm, "caller", "agreed by the sites")
    elif origin.given_norm_bound is None and origin.estimator is not None and (ranges or origin.schema) is not None:
        largest = "computed from the ranges: no row within them has a larger norm"
        text = "computed from the declared columns" if ranges is None else largest
        yield ClippingBound(what, rule.row_norm, "computed", text)
    else:
        yield ClippingBound(what, rule.row_norm, *given)
    if rule.mapped_from is not None:
        after = f"estimated privately{within}"
        yield ClippingBound("norm of a preconditioned row", rule.norm, "private", after)


# The budget.


def together(release: Release, cloud: ScoreMap) -> Guarantee | None:
    """Return the guarantee of a release and its score map together; None where they cannot be added."""
    if not (release.guarantee.is_private and cloud.guarantee.is_private):
        return None
    alike = all(getattr(cloud.guarantee, one) == getattr(release.guarantee, one) for one in ("adjacency", "unit"))
    return compose([release.guarantee, cloud.guarantee]) if alike else None


def _spending(release: Release, ledger: PrivacyLedger | None, cloud: ScoreMap | None) -> Spending:
    """Return the spend in the ledger, and that of releases in this report that the ledger lacks."""
    if ledger is None:
        total, words = _spend_of_this_report(release, cloud)
        unknown = "Not included: other releases of the same data. Add the ledger to this report, or list them here."
        return Spending(total, f"Total known spend: {words}.", False, None, [], [], unknown)
    missing = {"this release": (release.origin.ledger_entry, release.guarantee)}
    if cloud is not None:
        missing["its score map"] = (cloud.ledger_entry, cloud.guarantee)
    entries = []
    for one in ledger.entries():
        guarantee, same = one.guarantee, [name for name, paid in missing.items() if paid == (one.entry, one.guarantee)]
        missing = {name: paid for name, paid in missing.items() if name not in same}
        entries.append(
            Spend(one.entry, str(one.spent_at) or None, one.what, guarantee.epsilon, guarantee.delta, bool(same))
        )
    beside = {name: guarantee for name, (_, guarantee) in missing.items()}
    entries += [Spend(None, None, name, one.epsilon, one.delta, True) for name, one in beside.items()]
    limit, words = (ledger.epsilon, ledger.delta), f"{budget(*ledger.spent)} in the ledger"
    total, over = None, False
    try:
        sums = ledger.spent_with(*beside.values())
    except EigenveilError:  # of another adjacency or unit, without a rho, or not private
        words += ", and a spend that is not in the ledger and cannot be added to it"
    else:
        total, over = _named(sums), sums[0] > limit[0] or sums[1] > limit[1]
        if beside:
            words = f"{budget(*sums)}: {words}, the rest not in the ledger"
            words += f". This exceeds the limit of {budget(*limit)}" if over else ""
    return Spending(
        total=total,
        text=f"Total known spend: {words}.",
        over_limit=over,
        ledger={
            "data_set": ledger.data_set,
            "composition": ledger.composition,
            "unit": ledger.unit.value,
            "adjacency": ledger.adjacency.value,
            "limit": _named(limit),
            "spent": _named(ledger.spent),
            "remaining": _named(ledger.remaining),
            "remaining_rho": ledger.remaining_rho,
        },
        entries=entries,
        not_in_ledger=list(beside),
        not_included="Not included: releases of the same data that this ledger does not record. List them here.",
    )


def _spend_of_this_report(release: Release, cloud: ScoreMap | None) -> tuple[dict[str, float] | None, str]:
    spent = release.guarantee.epsilon, release.guarantee.delta
    if not release.guarantee.is_private:
        return None, "unlimited, because this release is not private"
    if cloud is None:
        return _named(spent), f"{budget(*spent)}, by this release"
    both = together(release, cloud)
    if both is not None:
        spent = both.epsilon, both.delta
        return _named(spent), f"{budget(*spent)}, by this release and its score map"
    return None, (
        f"{budget(*spent)} by this release. The spend of its score map cannot be added: its adjacency, unit or "
        "guarantee differs"
    )


def _named(spent: tuple[float, float]) -> dict[str, float]:
    return {"epsilon": spent[0], "delta": spent[1]}
