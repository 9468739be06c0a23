"""`Split`: how the privacy budget of a fit is divided; every share, and from how many rows on it holds.

Shares follow from public numbers alone. docs/explanation/privacy_budget.md derives the rules, and benchmarks/stages.py
shows them at work.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

from ..accounting.calibration import decimal_below
from ..accounting.sensitivity import sum_squared
from ..errors import CapacityError, InvalidParameterError
from ..guarantee import Adjacency, Guarantee, Numerics
from ..mechanisms import CentralMechanism
from ..mechanisms.budget import MOST_WEIGHT, BudgetShare, at_share
from ..mechanisms.gaussian import Gaussian
from ..moments.counts import NORM_GRID
from ..moments.row_rule import RowRule
from ..releases.file import MEANS

RANGES_SHARES = Fraction(16, 25), Fraction(8, 25), Fraction(4, 25)
"""Of the budget, for ranges of the features that are found privately: the less, the more rows there are.

Of epsilon, or of mu^2 where the mechanism is Gaussian and its budget can be divided."""
NORM_SHARE, GAUSSIAN_NORM_SHARE, NORM_AFTER_RANGES_SHARE = Fraction(1, 10), Fraction(3, 50), Fraction(1, 50)
"""For a norm bound that is found privately: of epsilon; of mu^2; of mu^2 where ranges were found before."""
MEDIAN_SHARES = (
    (300, 2400, Fraction(1, 8), Fraction(1, 20)),
    (1000, 3000, Fraction(1, 25), Fraction(1, 25)),
    (4000, 6000, Fraction(1, 100), Fraction(1, 50)),
)
"""From so many rows on, times d/epsilon and times 1/epsilon: the shares of epsilon for medians within public ranges,
and for norm bounds about the middles of these and about the medians, in equal parts.

Wide ranges have their middle far from the rows. By experiment: docs/explanation/raw_tables.md."""
MEDIAN_PLACES = 128
"""Steps of a public range among which the median is looked for."""
MUCH_SHORTER = 3 / 4
"""Rows are taken about medians where their norm bound is at most this part of that about the middles of ranges."""
SEARCHES = 4
"""Searches for ranges, which share what the ranges cost evenly."""
SEARCHED_PLACES = 2**16
"""The most places that a search looks at."""
MEAN_SHARES = ((20, Fraction(1, 10)), (100, Fraction(1, 20)))
"""From this many rows, times mu and by the root of the features, on: the share of mu^2 for a mean measured first.

With fewer, what the noise leaves of the mean in the rows weighs more than a constant that is appended to them."""
USUAL_ROUNDS = 2
"""Rounds that the share of the mean is for, in equal parts. Further ones, up to `MEANS`, take as much each."""
RESIDUAL_NORM_SHARE, NORM_SEARCHES = Fraction(3, 50), USUAL_ROUNDS + 1
"""The share of mu^2 that finds bounds for rows, before the mean of each round and after the last, in equal parts."""
MUCH_NARROWER = 2 / 5
"""A round whose bound is at most this part of the one before is followed by another: public bounds were far too wide,
and what the noise on the mean of wide rows has left is still large beside the rows. By experiment:
docs/explanation/raw_tables.md."""
PILOT_SHARE, PRECONDITIONED_NORM_SHARE = Fraction(1, 10), Fraction(1, 50)
"""Of what the mean leaves for the matrix: the share of a pilot estimate, and of a bound for preconditioned rows."""
SCREENING_SHARE, TEST_SHARE, SCREENED_FROM = Fraction(1, 4), Fraction(1, 25), 100
"""Of the epsilon of a matrix at delta = 0: for a noisy diagonal that features are screened by, and for a test before
it whether that is worth its share, from this width on."""
SMALL_STEP = 1 / 8
"""A mean that moves rows by no more than this part of their bound leaves the bound as it is, and ends the rounds.

Squared norms change by 1/64 on average, far less than a step of the grid; the shares of a round are worth as much."""
SMALL_ERROR = 1 / 10
"""The rounds end with the first if what its noise leaves in the matrix is at most this part of the noise edge."""
NORM_PLACES, PRECONDITIONED_NORM_PLACES = 128, 64
"""Steps of the grid among which a bound is looked for: 16 octaves, and 8."""
NARROWEST, WIDEST = 3, 2000
"""Features between which preconditioning is tried without being asked for."""
# A mean that is first may cost so much more noise than a constant where there is none to find; where there is, it saves
# many times that.
_NOISIER = 1.05
# Sums of two releases, weighed in integers, must fit int64, with as much to spare as noise may take.
_ROOM = 2**61 // MOST_WEIGHT
_NONE = Fraction(0)


@dataclass(frozen=True)
class Split:
    """Shares of the privacy budget of a fit. The rest of each budget is for the matrix.

    Parameters
    ----------
    ranges, norm : Fraction
        Shares of epsilon: ranges of the features, and a norm bound, that are found privately.
    gaussian_ranges, gaussian_norm : Fraction
        The same as shares of mu^2 of the mechanism.
    medians : Fraction
        Share of epsilon: medians of the features within public ranges.
    mean : Fraction
        Share of mu^2 of the mechanism: a mean that is measured first and subtracted.
    residual_norm : Fraction
        Share of mu^2: bounds for rows without their mean.
    further_rounds : Fraction
        Share of mu^2: further rounds for the mean, where public bounds turn out to be far too wide. Else the matrix
        takes this too.
    pilot : Fraction
        Share of mu^2: a pilot estimate of the matrix, for preconditioning.
    preconditioned_norm : Fraction
        Share of mu^2: a bound for preconditioned rows. Where none are made, the matrix takes this too.

    Examples
    --------
    >>> Split(mean=Fraction(1, 20), residual_norm=Fraction(3, 50)).in_words()
    'up to 0.11 of its mu squared for the mean'
    """

    ranges: Fraction = _NONE
    norm: Fraction = _NONE
    gaussian_ranges: Fraction = _NONE
    gaussian_norm: Fraction = _NONE
    mean: Fraction = _NONE
    residual_norm: Fraction = _NONE
    further_rounds: Fraction = _NONE
    pilot: Fraction = _NONE
    preconditioned_norm: Fraction = _NONE
    medians: Fraction = _NONE

    @property
    def divides_mechanism(self) -> bool:
        """Whether anything is measured at a share of mu^2 before the matrix."""
        return bool(self.mean or self.pilot or self.gaussian_ranges or self.gaussian_norm)

    @property
    def chosen(self) -> tuple[str, ...]:
        """Names of the private choices."""
        ranges, norm = self.ranges or self.gaussian_ranges, self.norm or self.gaussian_norm
        return ("bounds",) * bool(ranges) + ("medians",) * bool(self.medians) + ("norm_bound",) * bool(norm)

    def after(self, ranges: Fraction, norm: Fraction) -> "Split":
        """Return the split of a Gaussian budget of which ranges and a norm bound take these shares first."""
        left = 1 - ranges - norm
        others = ("mean", "residual_norm", "further_rounds", "pilot", "preconditioned_norm")
        shares = {name: getattr(self, name) * left for name in others}
        return replace(self, gaussian_ranges=ranges, gaussian_norm=norm, **shares)

    def choices(self, epsilon: Fraction, adjacency: Adjacency) -> dict[str, Guarantee]:
        """Return the costs of the private choices, by name."""
        return {
            name: Guarantee(decimal_below(epsilon * share), 0.0, adjacency, Numerics.EXACT)
            for name, share in (("bounds", self.ranges), ("medians", self.medians), ("norm_bound", self.norm))
            if share
        }

    def check(self, mechanism: CentralMechanism, rule: RowRule, n_rows: int) -> None:
        """Refuse, before anything is spent, what one of the parts cannot draw."""
        if not isinstance(mechanism, Gaussian):
            return
        if self.gaussian_ranges:
            each = _portion(mechanism, self.gaussian_ranges / SEARCHES / mechanism.n_features)
            each.check_counts(SEARCHED_PLACES, n_rows)
        if self.gaussian_norm:
            _portion(mechanism, self.gaussian_norm).check_counts(NORM_GRID.size, n_rows)
        if self.mean:
            squared_change, largest = sum_squared(mechanism.adjacency) * 16**rule.bits, n_rows * 4**rule.bits
            _portion(mechanism, self.mean / USUAL_ROUNDS).check(mechanism.n_features, squared_change, largest)
            _portion(mechanism, self.residual_norm / NORM_SEARCHES).check_counts(NORM_PLACES, n_rows)
        if self.pilot:
            if n_rows >= rows_without_pilot(rule):
                raise CapacityError(
                    "The plan was made for fewer rows, of which a pilot estimate is taken; make another."
                )
            _portion(mechanism, self.preconditioned_norm).check_counts(PRECONDITIONED_NORM_PLACES, n_rows)
            at_share(mechanism, self.pilot).check_grid(4**rule.bits)

    def one_mean_suffices(self, mechanism: Gaussian, n_rows: int) -> bool:
        """Return whether one round for the mean suffices; docs/explanation/privacy_budget.md derives 2/(s x)."""
        each = SMALL_ERROR * self.mean / USUAL_ROUNDS
        return 2 * math.sqrt(mechanism.n_features) <= each * n_rows * mechanism.total_mu()

    def in_words(self) -> str:
        """Return the shares of the Gaussian budget that are spent before the matrix, as text; empty without any."""
        # The matrix takes what rounds of the mean, and a bound, that are not needed would have had.
        shares = {
            "the ranges of the features": ("up to ", self.gaussian_ranges),
            "the norm bound": ("", self.gaussian_norm),
            "the mean": ("up to ", self.mean + self.residual_norm + self.further_rounds),
            "a pilot estimate": ("", self.pilot),
            "a bound for preconditioned rows": ("up to ", self.preconditioned_norm),
        }
        return ", ".join(
            f"{up_to}{float(share):.4g} of its mu squared for {name}"
            for name, (up_to, share) in shares.items()
            if share
        )

    def to_dict(self) -> dict[str, float]:
        """Return plain types for JSON: the shares that there are."""
        return {name: float(share) for name, share in vars(self).items() if share}


def _portion(mechanism: Gaussian, share: Fraction) -> BudgetShare:
    return BudgetShare(mechanism.epsilon, mechanism.delta, share)


def rows_without_pilot(rule: RowRule) -> int:
    """Return the number of rows at which weighed sums of two releases no longer fit int64: 8 million at 16 bits."""
    return -(-_ROOM // rule.limit_squared)


def check_read_once(stages: object) -> None:
    """Refuse two passes for rows that can be read once only."""
    if stages == 2:
        raise InvalidParameterError(
            "stages=2 reads the rows twice, and moments or rows given in parts are read once; call fit with all rows, "
            "or choose stages='auto'."
        )


def mean_first(mechanism: CentralMechanism, norm: float | None) -> tuple[tuple[int, Fraction], ...]:
    """Return shares for a mean that is measured first, each with the rows from which on it holds; empty without any.

    Parameters
    ----------
    mechanism : CentralMechanism
        That of the rows without a constant.
    norm : float, optional
        The public bound on a row, where there is one.

    Examples
    --------
    >>> mechanism = Gaussian(epsilon=0.9, delta=1e-6, n_features=100)
    >>> [rows for rows, _ in mean_first(mechanism, None)]
    [933, 4662]
    """
    if not isinstance(mechanism, Gaussian) or not mechanism.divisible or not _on_the_grid(norm):
        return ()
    per_row = mechanism.total_mu() / math.sqrt(mechanism.n_features)
    return tuple((math.ceil(least / per_row), share) for least, share in MEAN_SHARES)


def takes_pilot(mechanism: CentralMechanism, rule: RowRule, stages: object) -> bool:
    """Return whether a pilot estimate is taken before the matrix, or refuse stages that cannot be.

    A pilot estimate costs nothing where rows are not preconditioned after it, since both releases are then averaged. So
    it takes little: a mechanism whose budget can be divided, rows that are not compared, and a width at which it pays.
    """
    able = mechanism.divisible and not rule.compares and rule.constant is None and _on_the_grid(rule.norm)
    if stages == 2 and not able:
        raise InvalidParameterError(
            "stages=2 needs mechanism='gaussian' (a delta above 0) with adjacency='replace_one', rows that are not "
            "compared, and a norm from 1e-4 to 5e8; choose these, or stages='auto'."
        )
    return able and stages != 1 and (stages == 2 or NARROWEST <= mechanism.n_features <= WIDEST)


def _on_the_grid(norm: float | None) -> bool:
    # All candidates that a bound is looked for among are there: up to twice the norm, and so many below that.
    return norm is None or bool(NORM_GRID[NORM_PLACES] <= norm <= NORM_GRID[-1] / 2)


@cache  # of the few shares that there are
def divided(mean: Fraction, preconditions: bool) -> Split:
    """Return the division of mu^2 with this share for a mean, with preconditioning or without."""
    norm = RESIDUAL_NORM_SHARE if mean else _NONE
    left = (1 - mean - norm) * preconditions
    return Split(
        mean=mean,
        residual_norm=norm,
        further_rounds=(len(MEANS) - USUAL_ROUNDS) * (mean / USUAL_ROUNDS + norm / NORM_SEARCHES),
        pilot=left * PILOT_SHARE,
        preconditioned_norm=left * PRECONDITIONED_NORM_SHARE,
    )


MechanismsByRows = tuple[tuple[int, CentralMechanism], ...]
DividedByRows = tuple[tuple[int, CentralMechanism, Split], ...]


def undivided(mechanisms: MechanismsByRows) -> DividedByRows:
    """Return the mechanisms, each with all of its budget for the matrix."""
    return tuple((rows, mechanism, Split()) for rows, mechanism in mechanisms)


def divided_by_rows(
    mechanisms_for: Callable[..., MechanismsByRows],
    rule: RowRule,
    norm: float | None,
    stages: object,
    preconditions: bool,
) -> DividedByRows:
    """Return the mechanisms of a fit from a source, and how their budget is divided, each from some rows on.

    Parameters
    ----------
    mechanisms_for : callable
        Returns the mechanisms for rows of a rule; with ``divisible=True`` those whose budget can be divided, if any.
    rule : RowRule
        How rows become integers, with a constant where the mean is wanted.
    norm : float, optional
        The public bound on a row, where there is one.
    stages : {1, 2, "auto"}
    preconditions : bool
        Whether preconditioning may help: directions are wanted, or ``stages=2``, and noise may differ between them.
    """
    mechanisms = mechanisms_for(rule)
    if not rule.knows_corner and stages == 2:
        raise InvalidParameterError(
            "Pooled rows of privacy units and rows with weights are read in one pass; leave out stages."
        )
    if stages == 1 or not rule.knows_corner:
        return undivided(mechanisms)
    plain = rule if rule.constant is None else replace(rule, constant=None)
    try:
        mechanism = (mechanisms if rule == plain else mechanisms_for(plain, divisible=True))[-1][1]
    except CapacityError:  # of a mechanism that was not asked for; the constant does without it
        if stages == 2:
            raise
        return undivided(mechanisms)
    two = preconditions and takes_pilot(mechanism, plain, stages)
    if rule == plain:
        return tuple((rows, one, divided(_NONE, two and isinstance(one, Gaussian))) for rows, one in mechanisms)
    # Without a mean to find, a bound is found in each round, and none after the last.
    spent = MEAN_SHARES[-1][1] + RESIDUAL_NORM_SHARE * USUAL_ROUNDS / NORM_SEARCHES
    first = mechanism.equivalent_sd / math.sqrt(1 - spent)
    with_constant = mechanisms[-1][1].equivalent_sd * rule.limit_squared / 4**rule.bits
    tiers = mean_first(mechanism, norm) if stages == 2 or first <= _NOISIER * with_constant else ()
    if stages == 2 and tiers:  # which takes a mean that is first, however few the rows are
        tiers = ((0, tiers[0][1]), tiers[1])
    fewest = tiers[0][0] if tiers else math.inf
    return (
        *undivided(tuple(one for one in mechanisms if one[0] < fewest)),
        *((rows, mechanism, divided(share, two)) for rows, share in tiers),
    )


def with_room(routes: DividedByRows, rule: RowRule) -> DividedByRows:
    """Leave the pilot estimate out from the number of rows on at which weighed sums would not fit int64."""
    most, found = rows_without_pilot(rule), []
    for at, (rows, mechanism, split) in enumerate(routes):
        until = routes[at + 1][0] if at + 1 < len(routes) else math.inf
        if rows < most or not split.pilot:
            found.append((rows, mechanism, split))
        if split.pilot and until > most:
            found.append((max(rows, most), mechanism, replace(split, pilot=_NONE, preconditioned_norm=_NONE)))
    return tuple(found)
