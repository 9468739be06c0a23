"""Which ranges and clipping bounds a release was made with, and where each of them comes from."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ..guarantee import Unit
from ..releases.record import Release
from .facts import feature_names
from .html import number


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
    origin, names = release.origin, feature_names(release)
    rule, schema, d = origin.row_rule, origin.schema, len(names)
    if "bounds" in origin.chosen_privately and rule.shift is not None and rule.scale is not None:
        scale = np.array(rule.scale)
        moved = sum(
            release.integers[one] * release.unit[one] for one in ("mean", "mean_again") if one in release.integers
        )
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
