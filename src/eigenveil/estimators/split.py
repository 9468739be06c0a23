"""Into which parts a Gaussian budget is divided, a mean first, a first look and bounds; public numbers alone.

docs/explanation/stages.md derives the rules, and benchmarks/stages.py shows them at work.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

from ..accounting.sensitivity import sum_squared
from ..errors import CapacityError, InvalidParameterError, shown
from ..mechanisms import CentralMechanism
from ..mechanisms.budget import MOST_WEIGHT, Portion, at_share
from ..mechanisms.gaussian import Gaussian
from ..moments.counts import NORM_GRID
from ..moments.row_rule import RowRule

STAGES = (1, 2, "auto")
MEAN_SHARES = ((20, Fraction(1, 10)), (100, Fraction(1, 20)))
"""From this many rows, times mu and by the root of the features, on: the share of mu^2 for a mean that is first.

With fewer, what the noise leaves of the mean in the rows weighs more than a constant that is appended to them."""
MEANS = ("mean", "mean_again")
"""A mean is measured in so many rounds at most, each with an equal part of its share, and leaves under these names."""
NORM_SHARE, NORM_SEARCHES = Fraction(3, 50), len(MEANS) + 1
"""The share of mu^2 that finds bounds for rows, before the mean of each round and after the last, in equal parts."""
SMALL_STEP = 1 / 8
"""A mean that moves rows by no more than this part of their bound leaves the bound as it is, and ends the rounds.

Squared norms change by 1/64 on average, far less than a rung, and the shares of a round are worth as much."""
SMALL_ERROR = 1 / 10
"""The rounds end with the first if what its noise leaves in the matrix is at most this part of the noise edge."""
FIRST_SHARE, MAPPED_NORM_SHARE = Fraction(1, 10), Fraction(1, 50)
"""Of what is left for the matrix: the share of a first look, and of a bound for rows that are mapped after it."""
NORM_PLACES, MAPPED_NORM_PLACES = 128, 64
"""Rungs of the ladder among which a bound is looked for: 16 octaves, and 8."""
NARROWEST, WIDEST = 3, 2000
"""Features between which a second stage is tried without being asked for."""
# A mean that is first may cost so much more noise than a constant where there is none to find; where there is, it saves
# many times that.
_NOISIER = 1.05
# Sums of two releases, weighed in integers, must fit int64, with as much to spare as noise may take.
_ROOM = 2**61 // MOST_WEIGHT


@dataclass(frozen=True)
class Stages:
    """The shares of mu^2 of everything that is measured before the matrix, which takes the rest.

    Parameters
    ----------
    mean : Fraction
        A mean that rows are freed of; 0 where none is measured.
    norm : Fraction
        Bounds for rows without their mean.
    first : Fraction
        A first look at the matrix; 0 where there is one stage only.
    mapped_norm : Fraction
        A bound for rows that are mapped after the first look. Where they are not, the matrix takes this too.
    """

    mean: Fraction = Fraction(0)
    norm: Fraction = Fraction(0)
    first: Fraction = Fraction(0)
    mapped_norm: Fraction = Fraction(0)

    def check(self, mechanism: CentralMechanism, rule: RowRule, n_rows: int) -> None:
        """Refuse, before anything is spent, what one of the parts cannot draw."""
        if not isinstance(mechanism, Gaussian):
            return
        if self.mean:
            squared_change, largest = sum_squared(mechanism.adjacency) * 16**rule.bits, n_rows * 4**rule.bits
            _portion(mechanism, self.mean / len(MEANS)).check(mechanism.n_features, squared_change, largest)
            _portion(mechanism, self.norm / NORM_SEARCHES).check_counts(NORM_PLACES, n_rows)
        if self.first:
            _portion(mechanism, self.mapped_norm).check_counts(MAPPED_NORM_PLACES, n_rows)
            at_share(mechanism, self.first).check_grid(4**rule.bits)

    def one_mean_may_do(self, mechanism: Gaussian, n_rows: int) -> bool:
        """Return whether the noise of the first mean leaves little; docs/explanation/stages.md derives 2/(s x)."""
        return (
            2 * math.sqrt(mechanism.n_features) <= SMALL_ERROR * self.mean / len(MEANS) * n_rows * mechanism.total_mu()
        )

    def for_rows(self, n_rows: int, rule: RowRule) -> "Stages":
        """Return the stages of so many rows: with more than 8 million at 16 bits, weighed sums would not fit int64."""
        fits = n_rows * rule.limit_squared < _ROOM
        return self if fits else replace(self, first=Fraction(0), mapped_norm=Fraction(0))

    def in_words(self) -> str:
        """Return what a mean and a first look take of the Gaussian budget; empty where there is neither."""
        parts = {"the mean": self.mean + self.norm, "a first look": self.first}
        up_to = {"the mean": "up to "}  # the matrix takes what rounds that are not needed would have had
        return " and ".join(
            f"{up_to.get(name, '')}{float(share):.2g} of its mu squared for {name}"
            for name, share in parts.items()
            if share
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON: shares of mu squared, of those parts that there are."""
        return {name: float(share) for name, share in vars(self).items() if share}


def _portion(mechanism: Gaussian, share: Fraction) -> Portion:
    return Portion(mechanism.epsilon, mechanism.delta, share)


def stages_asked(stages: object) -> object:
    """Return the parameter if it is one of `STAGES`, also as the text that a command line has."""
    named = {str(one): one for one in STAGES}
    if isinstance(stages, bool) or str(stages) not in named:
        raise InvalidParameterError(f"stages must be 1, 2 or 'auto', got {shown(stages)}.")
    return named[str(stages)]


def check_read_once(stages: object) -> None:
    """Refuse two stages for rows that can be read once only."""
    if stages == 2:
        raise InvalidParameterError(
            "stages=2 reads the rows twice, and moments or rows given in parts are read once; call fit with all rows, "
            "or choose stages='auto'."
        )


def mean_first(mechanism: CentralMechanism, norm: float | None) -> tuple[tuple[int, Fraction], ...]:
    """Return from how many rows on a mean is measured first, and at which shares; empty where it never is.

    Parameters
    ----------
    mechanism : CentralMechanism
        That of the rows without a constant.
    norm : float, optional
        The public bound on a row, where there is one.

    Examples
    --------
    >>> mechanism = Gaussian(epsilon=0.9, delta=1e-6, n_features=100)
    >>> [(rows, float(share)) for rows, share in mean_first(mechanism, None)]
    [(933, 0.1), (4662, 0.05)]
    """
    if not isinstance(mechanism, Gaussian) or not mechanism.divisible or not _on_the_grid(norm):
        return ()
    per_row = mechanism.total_mu() / math.sqrt(mechanism.n_features)
    return tuple((math.ceil(least / per_row), share) for least, share in MEAN_SHARES)


def second_stage(mechanism: CentralMechanism, rule: RowRule, asked: object) -> bool:
    """Return whether a first look is taken before the matrix, or refuse what was asked for.

    A first look costs nothing where no map comes of it, since both releases are then averaged; so little is asked for:
    a mechanism whose budget can be divided, rows as they are, and a width at which a map may pay.
    """
    able = mechanism.divisible and not rule.compares and rule.constant is None and _on_the_grid(rule.norm)
    if asked == 2 and not able:
        raise InvalidParameterError(
            "stages=2 needs mechanism='gaussian' (a delta above 0) with adjacency='replace_one', rows that are not compared, "
            "and a norm from 1e-4 to 5e8; choose these, or stages='auto'."
        )
    return able and asked != 1 and (asked == 2 or NARROWEST <= mechanism.n_features <= WIDEST)


def _on_the_grid(norm: float | None) -> bool:
    # All rungs that a bound is looked for among are there: up to twice the norm, and so many below that.
    return norm is None or bool(NORM_GRID[NORM_PLACES] <= norm <= NORM_GRID[-1] / 2)


def _quieter(mechanism: CentralMechanism, constant: CentralMechanism, rule: RowRule) -> bool:
    """Return whether a mean that is first has no more noise than a constant, even for rows without a mean to find."""
    # Where there is no mean to find, a bound is found in each round, and none after the last.
    spent = MEAN_SHARES[-1][1] + NORM_SHARE * len(MEANS) / NORM_SEARCHES
    first = mechanism.equivalent_sd / math.sqrt(1 - spent)
    return bool(first <= _NOISIER * constant.equivalent_sd * rule.limit_squared / 4**rule.bits)


@cache  # of the few shares that there are
def divided(mean: Fraction, two: bool) -> Stages:
    """Return the stages of a fit with this share for a mean, with a first look or without."""
    norm = NORM_SHARE if mean else Fraction(0)
    left = 1 - mean - norm
    return Stages(mean, norm, left * FIRST_SHARE * two, left * MAPPED_NORM_SHARE * two)


MechanismsByRows = tuple[tuple[int, CentralMechanism], ...]


def in_stages(
    mechanisms_for: Callable[..., MechanismsByRows], rule: RowRule, norm: float | None, asked: object, maps: bool
) -> tuple[MechanismsByRows, tuple[tuple[int, Stages], ...]]:
    """Return the mechanisms of a fit from a source, and into which stages their budget is divided, each from some rows on.

    Parameters
    ----------
    mechanisms_for : callable
        Returns the mechanisms for rows of a rule; with ``divided=True`` those that a budget can be divided for, if any.
    rule : RowRule
        How rows become integers, with a constant where the mean is wanted.
    norm : float, optional
        The public bound on a row, where there is one.
    asked : {1, 2, "auto"}
        The parameter `stages`.
    maps : bool
        Whether a map may help: directions are wanted, or it was asked for, and noise that differs between them does no
        harm.
    """
    mechanisms = mechanisms_for(rule)
    if not rule.knows_corner and asked == 2:
        raise InvalidParameterError(
            "Pooled rows of persons and rows with weights are read in one stage; leave out stages."
        )
    if asked == 1 or not rule.knows_corner:
        return mechanisms, ()
    plain = rule if rule.constant is None else replace(rule, constant=None)
    try:
        mechanism = (mechanisms if rule == plain else mechanisms_for(plain, divided=True))[-1][1]
    except CapacityError:  # of a mechanism that was not asked for; the constant does without it
        if asked == 2:
            raise
        return mechanisms, ()
    two = maps and second_stage(mechanism, plain, asked)
    if rule == plain:
        return mechanisms, ((0, divided(Fraction(0), two)),)
    tiers = mean_first(mechanism, norm) if asked == 2 or _quieter(mechanism, mechanisms[-1][1], rule) else ()
    if asked == 2 and tiers:  # which takes a mean that is first, however few the rows are
        tiers = ((0, tiers[0][1]), tiers[1])
    stages = tuple((rows, divided(share, two)) for rows, share in tiers)
    few = () if tiers and tiers[0][0] == 0 else mechanisms
    return (*few, *((rows, mechanism) for rows, _ in tiers)), ((0, Stages()), *stages)
