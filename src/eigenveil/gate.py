"""The gate: the only place where a mechanism meets private statistics.

Private sums come in, a `Release` goes out. In between, everything that can be refused is refused, the spend is recorded
in the ledger in a committed transaction, and only then is anything drawn. Units are converted here, once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from . import __version__
from .accounting.ledger import LedgerOrPath, opened_ledger
from .accounting.sensitivity import sum_squared
from .errors import CapacityError, InvalidDataError, InvalidParameterError, NoiseWarning, PrivacyWarning, warn_caller
from .guarantee import Adjacency, Guarantee, Unit
from .mechanisms.base import CentralMechanism, Integers
from .mechanisms.budget import Budget, BudgetShare, averaged
from .mechanisms.choices import CountMechanism, DiagonalMechanism, PureSearch, Search
from .mechanisms.federated import FederatedMechanism
from .mechanisms.gaussian import Gaussian
from .moments.column_counts import ColumnCounts
from .moments.counts import NORM_GRID, RowSizes, ScoreCounts
from .moments.row_rule import RowRule
from .moments.second_moments import SecondMoments
from .moments.sums import SumsByNorm
from .numerics import IntArray
from .releases.origin import ComponentsRequest, Origin, Request, Screening
from .releases.record import Release
from .releases.score_map import ScoreMap
from .sampling.matrices import FARTHEST
from .sampling.randomness import is_secure, secure_generator
from .tables.schema import Schema


@dataclass(frozen=True)
class Payment:
    """The mechanism that will draw, the guarantee of the whole fit, the public origin, and the entry of the ledger."""

    mechanism: CentralMechanism
    guarantee: Guarantee
    origin: Origin
    entry: int | None = None


def release(
    mechanism: CentralMechanism,
    moments: SecondMoments,
    *,
    generator: np.random.Generator | None = None,
    ledger: LedgerOrPath | None = None,
) -> Release:
    """Release private moments with a mechanism. Every call spends the budget of the mechanism again.

    Parameters
    ----------
    mechanism : CentralMechanism
        A mechanism from `eigenveil.mechanisms.MECHANISMS`.
    moments : SecondMoments
        The private statistic.
    generator : numpy.random.Generator, optional
        The secure generator by default. Any other generator marks the release as not private.
    ledger : PrivacyLedger or path, optional
        Ledger that records the spend before noise is sampled.

    Examples
    --------
    >>> from eigenveil import RowBound
    >>> from eigenveil.mechanisms import MECHANISMS
    >>> moments = SecondMoments(RowBound(1.0), 3).update(np.eye(3))
    >>> drawn = release(MECHANISMS["laplace"](epsilon=1.0, n_features=3), moments)
    >>> drawn.integers["matrix"].shape, str(drawn.guarantee)
    ((3, 3), '1-DP (pure), replace-one adjacency, unit: one row; exact sampling')
    """
    generator = secure_generator() if generator is None else generator
    ledger = opened_ledger(ledger)
    check(mechanism, moments)
    promise = mechanism.guarantee().for_unit(moments.bound.unit)
    if moments.bound.compares:
        promise = promise.of_compared_units()
    origin = expected_origin(mechanism, moments.bound.rule, moments.n_features, moments.feature_names)
    payment = pay(mechanism, promise, generator, ledger, f"{mechanism.name} release", origin)
    return draw(moments, generator, payment)


def check(mechanism: CentralMechanism, moments: SecondMoments) -> None:
    """Refuse moments that a mechanism cannot release, before any budget is spent."""
    if moments.width != mechanism.n_features:
        raise InvalidDataError(
            f"The moments are {moments.width} wide where the mechanism was made for {mechanism.n_features}."
        )
    moments.check_whole()
    check_rule(mechanism, moments.bound)
    # Under add/remove, how many rows there are is private, none included, and gets no error of its own.
    if mechanism.adjacency is Adjacency.REPLACE_ONE and moments.n_samples == 0:
        raise InvalidDataError(f"The moments have no {moments.bound.unit.counted}. Update the moments first.")
    check_capacity(mechanism, moments.bound.rule, moments.n_samples)
    if moments.total_weight == 0:
        raise InvalidDataError("All weights are 0, or vanish beside the largest that is allowed.")


def check_capacity(mechanism: CentralMechanism, rule: RowRule, n_rows: int) -> None:
    """Refuse more rows than the integers of a release hold; only where their number is public.

    Where it is private, what is beyond these integers is cut off after the noise was added.
    """
    if mechanism.adjacency is Adjacency.REPLACE_ONE and not rule.fits(n_rows):
        counted = rule.unit.counted
        raise CapacityError(
            f"More {counted} than int64 can hold exactly at bits={rule.bits}; declare the number of {counted} by "
            "fit(data, plan=estimator.plan(n_features, n_rows=...)), or use fewer bits in the RowBound."
        )


def check_rule(mechanism: CentralMechanism, rule: RowRule) -> None:
    """Refuse a mechanism for rows made by this rule; public facts alone."""
    mechanism.check_accepted()
    if rule.compares and mechanism.adjacency is not Adjacency.REPLACE_ONE:
        raise InvalidParameterError(
            f"statistic='{rule.statistic}' needs adjacency='replace_one', since an added {rule.unit} would come "
            "between others."
        )
    if rule.compares_neighbours and mechanism.needs_rank_one:
        raise InvalidParameterError(
            f"{mechanism.name} hides one integer row, and statistic='{rule.statistic}' makes several of each; choose "
            "another mechanism."
        )
    if rule.unit is Unit.PERSON and mechanism.needs_rank_one:
        raise InvalidParameterError(
            f"{mechanism.name} hides one integer row, and a person may have several; choose another mechanism, or "
            "leave privacy_unit out."
        )
    if rule.most_weight is not None and mechanism.adjacency is not Adjacency.REPLACE_ONE:
        raise InvalidParameterError(
            "Weights of rows need adjacency='replace_one', since they tell how many rows there are."
        )
    if rule.needs_matrix and mechanism.releases == "subspace":
        about = "about the mean" if rule.constant is not None else "of a correlation matrix"
        raise InvalidParameterError(
            f"{mechanism.name} releases no matrix, so it cannot tell components {about}; choose another mechanism."
        )
    rule.check_sizes()
    mechanism.check_grid(rule.limit_squared)


def expected_origin(
    mechanism: CentralMechanism,
    rule: RowRule,
    n_features: int,
    feature_names: tuple[str, ...] | None,
    *,
    request: Request | None = None,
    estimator: str | None = None,
    chosen_privately: tuple[str, ...] = (),
    schema: Schema | None = None,
    given_bounds: tuple[tuple[float, float], ...] | None = None,
    given_norm_bound: float | None = None,
    screening: Screening | None = None,
) -> Origin:
    """Return the origin of a release, as far as it is public before the spend; refuse one that no file holds.

    The mechanism and the rule of the rows may still change by what is found privately; `draw` puts in those it used.
    """
    origin = Origin(
        mechanism=mechanism.name,
        parameters=mechanism.parameters(),
        row_rule=rule,
        feature_names=feature_names,
        estimator=estimator,
        request=ComponentsRequest(min(mechanism.n_components, n_features)) if request is None else request,
        chosen_privately=chosen_privately,
        schema=schema,
        given_bounds=given_bounds,
        given_norm_bound=given_norm_bound,
        screening=screening,
        package_version=__version__,
    )
    origin.check_writable(n_features)
    return origin


def pay(
    mechanism: CentralMechanism,
    guarantee: Guarantee,
    generator: np.random.Generator,
    ledger: LedgerOrPath | None,
    what: str,
    origin: Origin,
) -> Payment:
    """Record a spend before the draw; a process killed in between has paid for nothing, which is safe.

    `guarantee` is that of the whole fit, in which this mechanism draws the release; `origin` is by `expected_origin`.
    """
    promise, entry = _charged(guarantee, generator, ledger, what)
    return Payment(mechanism, promise, origin, entry)


def _charged(
    guarantee: Guarantee, generator: np.random.Generator, ledger: LedgerOrPath | None, what: str
) -> tuple[Guarantee, int | None]:
    """Return the guarantee that this generator keeps, and the entry of the ledger; warn first of a weak one."""
    promise, book = guarantee if is_secure(generator) else guarantee.marked_reproducible(), opened_ledger(ledger)
    if promise.weakness is not None:
        warn_caller(promise.weakness, PrivacyWarning)
    return promise, None if book is None else book.spend(promise, what).entry


@dataclass(frozen=True, eq=False)
class Pilot:
    """A first release of moments, at a share of the budget."""

    mechanism: Gaussian
    integers: Integers
    second_moment: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Drawn:
    """The values that a fit has drawn before the matrix.

    Parameters
    ----------
    also : mapping of str to (ndarray of int64, float)
        Integers that leave beside the matrix, each with the value of one.
    pilot : Pilot, optional
        A first release of the same moments, to be averaged with the second.
    mean_sd : float, optional
        The noise on each entry of a mean that was measured first.
    screening : Screening, optional
        The features that the moments are about, where these were chosen by a noisy diagonal.
    mechanism : CentralMechanism, optional
        What draws the matrix, where it is for fewer features than were paid for, or has epsilon that was left over.
    """

    also: Mapping[str, tuple[IntArray, float]] = field(default_factory=dict)
    pilot: Pilot | None = None
    mean_sd: float | None = None
    screening: Screening | None = None
    mechanism: CentralMechanism | None = None


NOTHING = Drawn()


def draw(
    moments: SecondMoments,
    generator: np.random.Generator,
    payment: Payment,
    *,
    without_range: tuple[int, ...] = (),
    budget: Budget | None = None,
    drawn: Drawn = NOTHING,
) -> Release:
    """Draw a release by the mechanism that was paid for, or by what is left of its budget after `drawn`."""
    mechanism = payment.mechanism if budget is None else budget.mechanism(budget.left)
    mechanism = drawn.mechanism or mechanism
    check(mechanism, moments)
    rule = moments.bound.rule
    if rule.unit is not payment.guarantee.unit:
        raise InvalidParameterError(
            f"The paid privacy unit is {payment.guarantee.unit.in_words}, that of these moments {rule.unit.in_words}."
        )
    integers = mechanism.draw(moments.gram, rule.limit_squared, moments.n_samples, generator)
    units = mechanism.units(rule.limit_squared, rule.unit_squared)
    if drawn.pilot is not None and isinstance(mechanism, Gaussian):
        mechanism, integers, divisor = averaged([(drawn.pilot.mechanism, drawn.pilot.integers), (mechanism, integers)])
        units = {name: one / divisor for name, one in units.items()}
    integers = {**integers, **{name: value for name, (value, _) in drawn.also.items()}}
    units |= {name: one for name, (_, one) in drawn.also.items()}
    given = payment.origin.given_bounds
    origin = replace(
        payment.origin,
        mechanism=mechanism.name,
        parameters=mechanism.parameters(),
        row_rule=rule,
        n_rows=moments.n_samples if mechanism.adjacency is Adjacency.REPLACE_ONE else None,
        feature_names=moments.feature_names if drawn.screening is None else drawn.screening.kept_names,
        screening=drawn.screening,
        given_bounds=given if drawn.screening is None else drawn.screening.ranges_of_kept(given),
        without_range=without_range,
        total_weight=moments.total_weight,
        mean_sd=drawn.mean_sd,
        ledger_entry=payment.entry,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    made = Release(integers, {name: units[name] for name in integers}, payment.guarantee, origin, drawn_by=mechanism)
    if any(max(value.max(), -value.min()) >= FARTHEST for value in made.integers.values()):
        warn_caller(
            "A sum is beyond the integers that a release holds and was cut off; use fewer bits in the RowBound.",
            NoiseWarning,
        )
    return made


# What is measured at a portion of a budget that was paid for.


def draw_pilot(mechanism: Gaussian, moments: SecondMoments, generator: np.random.Generator) -> Pilot:
    """Return a pilot release of moments, and its second moment for rows of norm at most 1."""
    check(mechanism, moments)
    grid = moments.bound.limit_squared
    integers = mechanism.draw(moments.gram, grid, moments.n_samples, generator)
    values = {name: np.asarray(value / grid) for name, value in integers.items()}
    return Pilot(mechanism, integers, mechanism.second_moment(values, moments.n_samples))


def noisy_unevenness(
    moments: SecondMoments, mechanism: DiagonalMechanism, generator: np.random.Generator
) -> tuple[int, int]:
    """Return the excess of the largest tenth of the features, and of half, over average ones, with paid noise."""
    return mechanism.draw_unevenness(_diagonal(moments), moments.bound.feature_limit_squared, generator)


def _diagonal(moments: SecondMoments) -> IntArray:
    moments.check_whole()
    return np.diagonal(moments.gram)[: moments.n_features]


def noisy_diagonal(moments: SecondMoments, mechanism: DiagonalMechanism, generator: np.random.Generator) -> IntArray:
    """Return the diagonal of the features with noise; what it costs has been paid.

    Examples
    --------
    >>> from eigenveil import RowBound
    >>> moments = SecondMoments(RowBound(1.0, bits=4), 2).update(np.eye(2))
    >>> noisy_diagonal(moments, DiagonalMechanism(1.0, 0.1, Adjacency.REPLACE_ONE), np.random.default_rng(0)).shape
    (2,)
    """
    return mechanism.draw(_diagonal(moments), moments.bound.feature_limit_squared, generator)


def noisy_sum(sums: SumsByNorm, norm: float, portion: BudgetShare, generator: np.random.Generator) -> IntArray:
    """Return the sum of rows under a public norm with noise, in units of 4^-bits of it, as fine as those of a matrix.

    One replaced row moves the sum by at most twice the largest norm of a row, 4^bits.
    """
    return portion.measured(sums.within(norm), sum_squared(Adjacency.REPLACE_ONE) * 16**sums.bound.bits, generator)


def find_norm(
    counts: RowSizes, candidates: range, most_above: int, portion: BudgetShare, generator: np.random.Generator
) -> float:
    """Return the first candidate bound that about `most_above` rows exceed."""
    above = counts.above()[candidates.start : candidates.stop]
    return float(NORM_GRID[candidates[portion.first_at_most(above, most_above, generator)]])


def choose_norm(counts: RowSizes, most_above: int, epsilon: Fraction, generator: np.random.Generator) -> float:
    """Return the first candidate bound that about `most_above` rows exceed.

    Parameters
    ----------
    counts : RowSizes
        The private counts of norms of rows.
    most_above : int
        A public number.
    epsilon : Fraction
        The cost of the choice; it has been paid.
    generator : numpy.random.Generator

    Formal guarantee
    ----------------
    Pure epsilon, for both relations. A replaced, added or removed row moves the numbers of rows above all grid points
    one way, each by at most 1, and `first_at_most` asks them with epsilon. The answer is a point of a public grid.

    Examples
    --------
    >>> counts = RowSizes(None, None).update(np.repeat([1.0, 30.0], [900, 100])[:, None])
    >>> choose_norm(counts, 500, Fraction(1), np.random.default_rng(0))
    1.0
    """
    return float(NORM_GRID[PureSearch(epsilon).places([counts.above()], most_above, generator)[0]])


def choose_places(
    counts: ColumnCounts,
    most_above: int,
    search: Search,
    generator: np.random.Generator,
    only: Sequence[int] | None = None,
) -> IntArray:
    """Return the place, in every column, of the first point that about `most_above` numbers exceed.

    Parameters
    ----------
    counts : ColumnCounts
        The private counts.
    most_above : int
        A public number.
    search : PureSearch or GaussianSearch
        The search, all columns together; it has been paid.
    generator : numpy.random.Generator
    only : sequence of int, optional
        The positions of the columns to search, where not all of them are.

    Formal guarantee
    ----------------
    That of the search. A replaced row moves the numbers above all points of a column one way, each by at most 1.

    Examples
    --------
    >>> counts = ColumnCounts([np.array([1.0, 2.0, 3.0])]).update(np.repeat([[1.5], [2.5]], 300, axis=0))
    >>> choose_places(counts, 300, PureSearch(Fraction(1)), np.random.default_rng(0))
    array([1])
    """
    above = counts.above()
    return search.places(above if only is None else [above[one] for one in only], most_above, generator)


def release_scores(
    mechanism: CountMechanism,
    counts: ScoreCounts,
    *,
    generator: np.random.Generator | None = None,
    ledger: LedgerOrPath | None = None,
    assumptions: tuple[str, ...] = (),
) -> ScoreMap:
    """Draw one map of scores; every call spends the full budget of the mechanism again.

    Parameters
    ----------
    mechanism : CountMechanism
    counts : ScoreCounts
        The private statistic.
    generator : numpy.random.Generator, optional
        The secure generator by default. Any other marks the map as reproducible and not private.
    ledger : PrivacyLedger or path, optional
        Records the spend, durably, before anything is drawn.
    assumptions : tuple of str
        What the guarantee assumes of the table.
    """
    generator = secure_generator() if generator is None else generator
    book = opened_ledger(ledger)
    unit = Unit.PERSON if counts.by_unit else Unit.ROW
    public = mechanism.adjacency is Adjacency.REPLACE_ONE
    if public and counts.n_units == 0:
        raise InvalidDataError(f"There are no {unit.counted} to draw a map of; give some.")
    mechanism.check(counts.in_cells.size, counts.n_units if public else 0)
    promise = mechanism.guarantee(unit).with_assumption(*assumptions)
    promise, entry = _charged(promise, generator, book, "score map")
    return ScoreMap(
        mechanism.draw(counts.in_cells, generator),
        counts.grid,
        mechanism,
        promise,
        n_units=counts.n_units if public else None,
        ledger_entry=entry,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        package_version=__version__,
    )


def check_site_rule(mechanism: FederatedMechanism, rule: RowRule) -> None:
    """Refuse a rule of rows by which the sums of several sites would not be those of all rows together."""
    if rule.compares:
        raise InvalidParameterError(
            f"statistic='{rule.statistic}' compares rows with one another, and those of different sites do not meet; "
            "give public "
            "bounds, a schema with ranges or a norm_bound, so that rows are clipped."
        )
    if rule.mapped_from is not None or rule.most_weight is not None:
        raise InvalidParameterError("Sites add up rows as they are, neither mapped nor weighted; release in one pass.")
    mechanism.check_grid(rule.limit_squared)


def check_site(mechanism: FederatedMechanism, moments: SecondMoments) -> None:
    """Refuse the sums of a site that cannot be released, before any budget is spent."""
    check_site_rule(mechanism, moments.bound.rule)
    check(mechanism, moments)
    public = mechanism.adjacency is Adjacency.REPLACE_ONE
    if public and moments.n_samples > mechanism.site_capacity(moments.bound.limit_squared):
        raise CapacityError(
            f"This site has more {moments.bound.unit.counted} than one of {mechanism.n_sites} may have at "
            f"bits={moments.bound.bits}; agree on fewer bits."
        )


def pay_for_share(
    mechanism: FederatedMechanism,
    moments: SecondMoments,
    generator: np.random.Generator,
    ledger: LedgerOrPath | None,
    what: str,
) -> Payment:
    """Record the spend of a share in the ledger of the site; refuse moments that cannot be released before that."""
    check_site(mechanism, moments)
    origin = expected_origin(mechanism, moments.bound.rule, moments.n_features, moments.feature_names)
    return pay(mechanism, mechanism.guarantee().for_unit(moments.bound.unit), generator, ledger, what, origin)


def site_share(moments: SecondMoments, place: int, generator: np.random.Generator, payment: Payment) -> Integers:
    """Return the noisy numbers of the site at this place of the round, to be masked before they leave.

    Parameters
    ----------
    moments : SecondMoments
        The private sums of the site.
    place : int
        Of the site in the round.
    generator : numpy.random.Generator
    payment : Payment
        By `pay_for_share`.

    Formal guarantee
    ----------------
    That of the mechanism, for the sum over all sites, against `mechanism.n_colluding` of them and whoever adds up.
    """
    mechanism = payment.mechanism
    if not isinstance(mechanism, FederatedMechanism) or payment.guarantee.unit is not moments.bound.unit:
        raise InvalidParameterError("What was paid for is no share of a sum about this unit; nothing was drawn.")
    check_site(mechanism, moments)
    return mechanism.site_draw(moments.gram, moments.bound.limit_squared, moments.n_samples, place, generator)
