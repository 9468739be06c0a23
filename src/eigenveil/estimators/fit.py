"""`Fit`: the one pipeline from a source to a release: check, pay, prepare, measure, draw.

Ranges of the features are found in three searches by `first_at_most` (AboveThreshold), each of all features: the size
of differences of disjoint pairs; the octave of the median, in units of that size; the place of the median within the
octave. Features that are 0 or 1 by construction are not searched. docs/explanation/raw_tables.md derives the numbers,
docs/explanation/privacy_budget.md those of a mean that is measured first and of preconditioning.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, Self

import numpy as np

from .. import gate
from ..accounting.calibration import decimal_below, exact
from ..accounting.ledger import LedgerOrPath
from ..accounting.sensitivity import sum_squared
from ..errors import (
    InvalidDataError,
    InvalidParameterError,
    NoiseWarning,
    PrivacyWarning,
    features_in_words,
    own_words,
    warn_caller,
)
from ..guarantee import Adjacency, Guarantee
from ..mechanisms.budget import Budget, BudgetShare, at_share
from ..mechanisms.choices import PureSearch, Search
from ..mechanisms.gaussian import Gaussian
from ..moments.bound import MAP_BITS, integer_map, mapped_bound
from ..moments.column_counts import ColumnCounts, RangeCounts, SizesAndColumns
from ..moments.comparisons import ChosenRows, MixedDifferences
from ..moments.counts import NORM_GRID, MappedSizes, RowSizes
from ..moments.numpy_kernels import SIZES
from ..moments.second_moments import SecondMoments
from ..moments.sums import SumsByNorm
from ..moments.units import in_blocks
from ..numerics import FloatArray, IntArray
from ..postprocess.preconditioning import preconditioner_after
from ..postprocess.screening import kept_features, worth_screening
from ..releases.file import MEANS
from ..releases.matrix import FOR_UNITS, without_units
from ..releases.origin import Request, Screening
from ..releases.record import Release
from ..sampling.randomness import is_secure
from ..tables.base import Source, tracked_batches
from ..tables.open import collect
from ..tables.schema import Schema
from .parameters import Features, Needs, check_delta
from .plan import Plan, Route, balanced_rows
from .preparation import CHOICES, RowPreparation
from .split import (
    MEDIAN_PLACES,
    MUCH_NARROWER,
    MUCH_SHORTER,
    NORM_PLACES,
    NORM_SEARCHES,
    PRECONDITIONED_NORM_PLACES,
    SEARCHED_PLACES,
    SEARCHES,
    SMALL_STEP,
    USUAL_ROUNDS,
)

ADDING = "adding up rows"
"""What rows are read for in the end, in words for a progress bar."""
_FINDING_RANGES, _FINDING_NORM = f"finding {CHOICES['bounds']}", f"finding {CHOICES['norm_bound']}"
# Of `SIZES`: what is found below 2^-100 is no size, since almost all rows agree in that feature. A search that stops
# before it meets any difference does so there, where most steps are. Nor is the last step one: what lies beyond it ends
# there too.
_NO_SIZE_BELOW, _NO_SIZE_FROM = 1800, 2200
# Octaves of the median beyond the size of its feature, and steps within an octave. Numbers that differ at all differ by
# 2^-53 of themselves; only where rows agree may the median lie farther out.
_OCTAVES, _OCTAVES_WITHOUT = 60, 230
# Half the width of a feature without a range, which is read as constant: so wide that it lengthens no row.
_NO_RANGE = 2.0**300


class FitCount:
    """The fits of an estimator and its clones, without those that a ledger adds up.

    Clones and copies share one count. A pickle contains nothing of it, so its bytes are the same before and after a
    fit: a pipeline with a `memory` looks fits up by the hash of these bytes.
    """

    def __init__(self) -> None:
        self.cloned_unseeded = False
        self._paid: list[tuple[float, float]] = []
        self._numbers = itertools.count(1)  # each number once in all threads, and without a lock that a fork could hold

    def warn(self, estimator: str, guarantee: Guarantee, *, seeded: bool, tracked: bool) -> None:
        """Count a fit before it is paid for; warn of the second, and of a seed that a clone was given."""
        if seeded and self.cloned_unseeded:
            warn_caller(
                f"This {estimator} is a clone of one without random_state, and was given one: its noise can be "
                "computed from the seed, so its release is not private.",
                PrivacyWarning,
            )
        if seeded or tracked:
            return
        self._paid.append((guarantee.epsilon, guarantee.delta))
        if next(self._numbers) == 2:
            epsilon, delta = (math.fsum(one) for one in zip(*self._paid, strict=True))
            warn_caller(
                f"{estimator} was fitted {len(self._paid)} times without a ledger: the guarantees add up to epsilon = "
                f"{epsilon:g}{f' and delta = {delta:g}' if delta else ''}. Give ledger= to track the total.",
                PrivacyWarning,
            )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> Any:
        return type(self), ()


def pay(
    route: Route,
    needs: Needs,
    n_rows: int,
    generator: np.random.Generator,
    ledger: LedgerOrPath | None,
    *,
    n_features: int,
    feature_names: tuple[str, ...] | None,
    request: Request,
    schema: Schema | None,
    count: FitCount | None,
) -> gate.Payment:
    """Record a whole fit in the ledger, once, before the first draw; refuse what could not be saved."""
    check_delta(route.guarantee, n_rows)
    # No release has more to tell about the features that were kept than if all of them were.
    screening = None if route.screening is None else Screening(n_features, tuple(range(n_features)), feature_names)
    origin = gate.expected_origin(
        route.mechanism,
        route.rule,
        n_features,
        feature_names if screening is None else screening.kept_names,
        request=request,
        estimator=needs.estimator,
        chosen_privately=route.chosen_privately,
        schema=schema,
        **({} if route.preparation is None else route.preparation.given),
        screening=screening,
    )
    if count is not None:
        count.warn(needs.estimator, route.guarantee, seeded=not is_secure(generator), tracked=ledger is not None)
    return gate.pay(route.mechanism, route.guarantee, generator, ledger, f"{needs.estimator}.fit", origin)


@contextmanager
def noting_payment(payment: gate.Payment) -> Iterator[None]:
    """Let an error between the payment and the release tell the entry of the ledger."""
    try:
        yield
    except BaseException as error:
        if payment.entry is not None:
            error.add_note(f"Entry {payment.entry} of the ledger has been paid for, and no release came of it.")
        raise


@dataclass(eq=False)
class Fit:
    """A fit of a source by a plan: `run` does everything, from the first check to the draw.

    Parameters
    ----------
    source : Source
        Read once, and once more for everything that is found or measured before the matrix.
    plan : Plan
    generator : numpy.random.Generator
    features : Features
        Of the source.
    needs : Needs
        Of the estimator.
    request : Request
        The request.
    ledger : PrivacyLedger or path, optional
        Where the whole fit is recorded before the first draw.
    count : FitCount, optional
        The fits of the estimator and its clones; None for a simulation.
    """

    source: Source
    plan: Plan
    generator: np.random.Generator
    features: Features
    needs: Needs
    request: Request
    ledger: LedgerOrPath | None
    count: FitCount | None = None
    route: Route = field(init=False)
    n_rows: int = field(init=False)
    payment: gate.Payment = field(init=False)
    budget: Budget | None = field(default=None, init=False)  # what is left for the matrix, where it is divided
    drawn: gate.Drawn = field(default=gate.NOTHING, init=False)

    def run(self) -> Release:
        """Return the release; everything that can be refused is refused before the spend."""
        source, plan = self.source, self.plan
        preparation = plan.preparation_for(source.n_features)
        if self.features.reads_once and any(route.split.divides_mechanism for _, route in plan.routes):
            raise InvalidParameterError(
                "The plan reads the rows twice, and these come once only; make it from this table."
            )
        if self.features.reads_once and any(route.split.chosen for _, route in plan.routes):
            raise InvalidDataError(
                "These rows are read once only, and a private choice of bounds reads them twice; give norm_bound, "
                "bounds or a schema with ranges, or a table or a file in place of the stream or the database."
            )
        if self.features.by_unit:
            if plan.n_rows is None and plan.most_rows.mechanism.adjacency is Adjacency.REPLACE_ONE:
                n_units = known_units(source)
                # A route without a transform is refused later, with the number of units that it takes.
                if n_units and not (self.needs.units and not plan.route(n_units).can_transform):
                    plan = self.plan = plan.for_rows(n_units, self.needs)
            preparation = plan.preparation_for(source.n_features)
        counts: RowSizes | RangeCounts | None = None
        if preparation.ranges:
            counts = range_counts(source, preparation.ranges)
            preparation = self._take_route(counts.n_rows)
        elif plan.most_rows.split.chosen or plan.measures_mean:
            read = sums_by_norm if plan.measures_mean else sizes_and_columns if preparation.medians else row_sizes
            counts = read(source, preparation)
            preparation = self._take_route(counts.n_rows)
        if counts is not None and (self.route.split.chosen or self.route.split.mean):
            gate.check_capacity(self.route.mechanism, self.route.rule, self.n_rows)
            self._pay()
            with noting_payment(self.payment):
                preparation = self._found_privately(preparation, counts)
                return self._draw(whole_moments(source, preparation), preparation)
        moments = whole_moments(source, preparation)
        if counts is None:  # all routes prepare the rows in this way
            self._take_route(moments.n_samples)
        self._refuse_empty(moments.n_samples)  # one row can be counted, and not compared
        gate.check(self.route.mechanism, moments)
        self._pay()
        with noting_payment(self.payment):
            return self._draw(moments, preparation)

    def _take_route(self, n_rows: int) -> RowPreparation:
        """Choose the route by the number of rows, or refuse it; return how it prepares the rows."""
        self._refuse_empty(n_rows)
        self.n_rows, route, assumptions = n_rows, self.plan.route(n_rows), self.features.assumptions
        # A plan may have been made without the table.
        self.route = route if route.assumptions == assumptions else replace(route, assumptions=assumptions)
        if n_rows != self.plan.n_rows:  # for which the plan was checked
            self.route.check(self.needs, n_rows)
        if self.needs.units and not self.route.can_transform:
            enough = next((rows for rows, route in self.plan.routes if route.can_transform), None)
            more = "" if enough is None else f", or at least {enough:,} {self.plan.unit.counted}"
            raise InvalidParameterError(f"{without_units(self.request)}; give {FOR_UNITS}{more}.")
        assert self.route.preparation is not None
        return self.route.preparation

    def _refuse_empty(self, n_rows: int) -> None:
        # Where the number of rows is private, so is whether there are any.
        if n_rows == 0 and self.plan.most_rows.mechanism.adjacency is Adjacency.REPLACE_ONE:
            raise InvalidDataError(
                "The data have too few rows; give at least one, and more than one sample for pairs and signs."
            )

    def _pay(self) -> None:
        mechanism = self.route.mechanism
        assert self.route.preparation is not None
        self.payment = pay(
            self.route,
            self.needs,
            self.n_rows,
            self.generator,
            self.ledger,
            n_features=self.source.n_features,
            feature_names=self.source.feature_names,
            request=replace(self.request, own_units=True) if self.route.preparation.own_units else self.request,
            schema=self.features.schema,
            count=self.count,
        )
        if isinstance(mechanism, Gaussian) and self.route.split.divides_mechanism:
            self.budget = Budget(mechanism)

    def _found_privately(self, preparation: RowPreparation, counts: RowSizes | RangeCounts) -> RowPreparation:
        """Return the preparation with everything that is found before the matrix: ranges, norm and mean."""
        route = self.route
        if isinstance(counts, RangeCounts):
            if preparation.ranges:  # else they were counted for a route of more rows than there are
                preparation = preparation.within(*found_ranges(self.source, counts, self._search, self.generator))
            counts = (sums_by_norm if route.split.mean else row_sizes)(self.source, preparation, progress=False)
        if route.split.gaussian_norm and self.budget is not None and isinstance(counts, RowSizes):
            portion, places = self.budget.take(route.split.gaussian_norm), NORM_GRID.size
            preparation = preparation.with_norm(self._norm(self.budget, counts, places - 1, places, portion))
        elif preparation.medians:
            # A norm bound is found about the middles of public ranges and about medians. Both are paid for.
            assert isinstance(counts, SizesAndColumns)
            public = self._with_norm(preparation, counts)
            search = PureSearch(self.route.cost("medians"))
            moved = preparation.about(found_medians(counts.columns, preparation, search, self.generator))
            moved = self._with_norm(moved, row_sizes(self.source, moved, progress=False))
            preparation = moved if moved.norm_or_one <= MUCH_SHORTER * public.norm_or_one else public
        elif route.choices:
            preparation = self._with_norm(preparation, counts)
        if self.budget is not None and route.split.mean and isinstance(counts, SumsByNorm):
            return self._without_mean(self.budget, preparation, counts)
        return preparation

    def _with_norm(self, preparation: RowPreparation, counts: RowSizes) -> RowPreparation:
        """Return the preparation with a norm bound that is found at its share of epsilon."""
        beyond, epsilon = self.route.rows_beyond(counts.n_rows), self.route.norm_cost
        return preparation.with_norm(gate.choose_norm(counts, beyond, epsilon, self.generator))

    def _search(self) -> Search:
        """Return the next search for ranges, at a share of what was paid."""
        if self.budget is None or not self.route.split.gaussian_ranges:
            return self.route.range_search()
        return self.route.range_search(self.budget.take(self.route.split.gaussian_ranges / SEARCHES))

    def _without_mean(self, budget: Budget, preparation: RowPreparation, sums: SumsByNorm) -> RowPreparation:
        """Return the preparation whose rows are without a private mean, and bounded anew: in one round or several.

        A round that moves the rows by little is the last, and its bound stays; so is the second, unless its rows are
        far shorter than the first's. What was kept for more is left to the matrix.
        """
        left = 0.0
        for at, name in enumerate(MEANS):
            before = preparation.norm_or_one
            if at:
                sums = sums_by_norm(self.source, preparation, progress=False)
            if at or not self.route.split.chosen:
                preparation = self._bounded(budget, preparation, sums, 1 + bool(at))
            norm = preparation.norm_or_one
            preparation, left, moved = self._subtracted(name, budget, preparation, sums, left)
            self.drawn = replace(self.drawn, mean_sd=math.sqrt(left))
            enough = at or self.route.split.one_mean_suffices(budget.whole, self.n_rows)
            if enough and moved <= SMALL_STEP * norm:
                return preparation
            if at + 1 >= USUAL_ROUNDS and norm > MUCH_NARROWER * before:
                break
        return self._bounded(budget, preparation, row_sizes(self.source, preparation, progress=False), 2)

    def _subtracted(
        self, name: str, budget: Budget, preparation: RowPreparation, sums: SumsByNorm, left: float
    ) -> tuple[RowPreparation, float, float]:
        """Return the preparation without a mean that is measured now, the variance left in it, and how far it is.

        What a mean before has left, in the variance of an entry, is a prior of mean zero: both are weighed by their
        precision. 0 says that there was none, so that all of this one counts.
        """
        norm, portion = preparation.norm_or_one, budget.take(self.route.split.mean / USUAL_ROUNDS)
        noisy = gate.noisy_sum(sums, norm, portion, self.generator)
        variance = (portion.scale(sum_squared(Adjacency.REPLACE_ONE)) * norm / self.n_rows) ** 2
        weight = left / (left + variance) if left else 1.0
        unit = weight * norm / 4.0**sums.bound.bits / self.n_rows
        self.drawn = replace(self.drawn, also={**self.drawn.also, name: (noisy, unit)})
        mean = np.asarray(noisy * unit, np.float64)
        mean[list(preparation.without_range)] = 0.0  # where the median is the better guess
        shift = mean / (1.0 if preparation.scale is None else preparation.scale)
        if preparation.shift is not None:
            shift = preparation.shift + shift
        preparation = replace(preparation, shift=shift, center=False)
        return preparation, weight * variance, float(np.linalg.norm(mean))

    def _bounded(self, budget: Budget, preparation: RowPreparation, counts: RowSizes, reach: int) -> RowPreparation:
        """Return the preparation with a bound for its rows that is found now, up to `reach` times the one it has."""
        most = reach * preparation.norm_or_one
        top = int(np.searchsorted(NORM_GRID, most))
        portion = budget.take(self.route.split.residual_norm / NORM_SEARCHES)
        found = self._norm(budget, counts, top, NORM_PLACES, portion)
        return preparation.with_norm(min(found, most))

    def _norm(self, budget: Budget, counts: RowSizes, top: int, places: int, portion: BudgetShare) -> float:
        """Return a bound that about as many rows pass as the noise of the mechanism suggests."""
        top = min(max(top, places - 1), NORM_GRID.size - 1)
        assert self.route.preparation is not None
        rule = self.route.preparation.without_constant.bound  # on the grid of everything that is measured
        # Among all candidates nothing limits a search that goes astray, so it hardly ever may.
        margin = 4 if places == NORM_GRID.size else 2
        most = max(float(balanced_rows(budget.whole, rule)), margin * portion.count_sd(places))
        most = math.floor(min(most, self.n_rows / 2))
        return gate.find_norm(counts, range(top + 1 - places, top + 1), most, portion, self.generator)

    def _preconditioned(self, budget: Budget, moments: SecondMoments) -> SecondMoments:
        """Return the moments of the matrix: those of preconditioned rows if that reduces the loss enough."""
        split = self.route.split
        mechanism = budget.mechanism(split.pilot)
        pilot = gate.draw_pilot(mechanism, moments, self.generator)
        left = budget.left
        one_shot, second = (
            at_share(budget.whole, share).noise_sd(self.n_rows)
            for share in (left + split.pilot, left - split.preconditioned_norm)
        )
        n_directions = self.needs.n_directions
        chosen = preconditioner_after(
            pilot.second_moment, mechanism.noise_sd(self.n_rows), n_directions, one_shot, second
        )
        self.drawn = replace(self.drawn, pilot=pilot)
        if chosen is None:
            return moments
        integers = integer_map(chosen.matrix)
        sizes = partial(MappedSizes, moments.bound, integers)
        counts: RowSizes = collect(self.source, sizes, False, "finding a bound for preconditioned rows")
        before = moments.bound.norm
        top = int(np.searchsorted(NORM_GRID, before))
        portion = budget.take(split.preconditioned_norm)
        norm = self._norm(budget, counts, top, PRECONDITIONED_NORM_PLACES, portion)
        if not chosen.is_good_enough((norm / before) ** 2):
            return moments
        self.drawn = replace(self.drawn, pilot=None, also={**self.drawn.also, "map": (integers, 2.0**-MAP_BITS)})
        bound = mapped_bound(moments.bound, integers, norm)
        make = partial(SecondMoments, bound, self.source.n_features, self.source.feature_names)
        return collect(self.source, make, False, "adding up preconditioned rows")

    def _draw(self, moments: SecondMoments, preparation: RowPreparation) -> Release:
        if self.budget is not None and self.route.split.pilot:
            moments = self._preconditioned(self.budget, moments)
        if self.route.screening is not None:
            moments, self.drawn = screened(moments, self.route, self.needs, self.generator)
        return gate.draw(
            moments,
            self.generator,
            self.payment,
            budget=self.budget,
            drawn=self.drawn,
            without_range=preparation.without_range,
        )


def screened(
    moments: SecondMoments, route: Route, needs: Needs, generator: np.random.Generator
) -> tuple[SecondMoments, gate.Drawn]:
    """Return the moments of the features that were chosen by a noisy diagonal, and the mechanism that draws them.

    All features are kept where the diagonal is so even that noise would choose among them: the diagonal is then not
    drawn, and what it would have cost is left to the matrix. Everything has been paid. The choice is post-processing,
    and the moments are a part of those that were collected.
    """
    assert route.screening is not None
    assert needs.n_sparse is not None
    bound, constants = moments.bound, moments.width - moments.n_features
    scale = route.screening.scale(bound.feature_limit_squared)
    tenth, half = gate.noisy_unevenness(moments, route.screening, generator)
    if not worth_screening(tenth, half, moments.n_features, scale):
        left = exact(route.mechanism.epsilon) + exact(route.screening.epsilon)
        return moments, gate.Drawn(mechanism=route.mechanism.with_epsilon(decimal_below(left)))

    def noise_sd(count: int) -> float:
        return route.mechanism.of_width(count + constants).equivalent_sd * bound.limit_squared

    noisy = gate.noisy_diagonal(moments, route.screening, generator).astype(np.float64)
    kept = tuple(kept_features(noisy, scale, needs.n_sparse, noise_sd).tolist())
    part = moments.of_features(kept)
    screening = Screening(moments.n_features, kept, moments.feature_names)
    return part, gate.Drawn(screening=screening, mechanism=route.mechanism.of_width(part.width))


@own_words
def known_units(source: Source) -> int | None:
    """Return the number of privacy units if it is known without reading a row."""
    n_units: int | None = getattr(source, "n_privacy_units", None)
    return n_units


@own_words
def collected_moments(
    source: Source, preparation: RowPreparation, differences_buffer: MixedDifferences
) -> SecondMoments:
    """Return the exact moments of all rows of a source; the buffer keeps those that are not yet compared with all."""
    make = partial(SecondMoments, preparation.bound, source.n_features, source.feature_names)
    if preparation.bound.compares:
        batches = rows_to_compare(source, ADDING)
        return make().update_from(part for batch in batches for part in differences_buffer.push(batch) if part.shape[0])
    return collect(source, make, purpose=ADDING)


def whole_moments(source: Source, preparation: RowPreparation) -> SecondMoments:
    """Return the exact moments of all rows of a source, to which no more will come."""
    differences_buffer = MixedDifferences(preparation.bound, lasting=getattr(source, "holds_rows", False))
    moments = collected_moments(source, preparation, differences_buffer)
    return _closed(moments, differences_buffer) if moments.bound.compares else moments


def with_last_differences(moments: SecondMoments, differences_buffer: MixedDifferences) -> SecondMoments:
    """Return the moments with the last rows compared with the first; both arguments stay open for more rows."""
    if not moments.bound.compares:
        return moments
    return moments + _closed(
        SecondMoments(moments.bound, moments.n_features, moments.feature_names), differences_buffer
    )


def _closed(moments: SecondMoments, differences_buffer: MixedDifferences) -> SecondMoments:
    """Add the comparisons of the last rows with the first, one part after the other."""
    for part in differences_buffer.closing():
        moments.update(part)
    return moments


def row_sizes(source: Source, preparation: RowPreparation, progress: bool | None = None) -> RowSizes:
    """Return counts of the norms of rows."""
    make = partial(RowSizes, preparation.shift, preparation.scale, unit_weight=preparation.unit_weight)
    return collect(source, make, progress, _FINDING_NORM)


def sizes_and_columns(source: Source, preparation: RowPreparation) -> SizesAndColumns:
    """Return counts of the norms of rows, and those that medians within public ranges are found from."""
    assert preparation.shift is not None
    searched = list(preparation.medians)
    steps, offsets = _median_steps(preparation)
    points = [preparation.shift[at] + steps[at] * offsets for at in searched]
    of_rows = preparation.shift, preparation.scale, preparation.unit_weight
    make = partial(SizesAndColumns, *of_rows, points, searched)
    return collect(source, make, purpose=f"{_FINDING_NORM} and {CHOICES['medians']}")


def sums_by_norm(source: Source, preparation: RowPreparation, progress: bool | None = None) -> SumsByNorm:
    """Return counts of the norms of rows, and what their mean under any bound is found from."""
    make = partial(SumsByNorm, preparation.without_constant.bound, source.n_features)
    return collect(source, make, progress, f"{_FINDING_NORM} and the mean")


def rows_to_compare(source: Source, purpose: str) -> Iterator[Any]:
    """Yield the rows that are compared in batches: all of a table, or one of every person by their identifiers."""
    if getattr(source, "by_unit", False):
        return collect(source, partial(ChosenRows, source.n_features), purpose=purpose).batches()
    return in_blocks(tracked_batches(source, purpose=purpose))


@own_words
def range_counts(source: Source, features: Sequence[int]) -> RangeCounts:
    """Return counts of half the distances of disjoint pairs of rows in these features, and of their numbers."""
    return RangeCounts(features).update_from(rows_to_compare(source, _FINDING_RANGES))


def found_ranges(
    source: Source, counts: RangeCounts, search: Callable[[], Search], generator: np.random.Generator
) -> tuple[FloatArray, FloatArray, tuple[int, ...]]:
    """Return middles and half widths of ranges, and the features that have none; what they cost has been paid.

    A feature of which no pairs were counted is 0 or 1, and keeps that; a truth value has the range [0, 1].

    Parameters
    ----------
    source : Source
    counts : RangeCounts
    search : callable
        Returns the next search, at a share of what was paid.
    generator : numpy.random.Generator
    """
    pairs = counts.pairs
    at = _searched(pairs, search(), generator, range(len(pairs.points)))
    lost = np.flatnonzero(at < _NO_SIZE_BELOW)
    if lost.size:  # too few pairs differ for the first search; these features share a second one
        at[lost] = _searched(pairs, search(), generator, lost.tolist())
    sizes, known = 2 * SIZES[at], (at >= _NO_SIZE_BELOW) & (at < _NO_SIZE_FROM)
    units = np.where(known, sizes, SIZES[_NO_SIZE_BELOW])  # without a size, in what is worth knowing
    octaves = [_octaves(unit, of_known) for unit, of_known in zip(units, known, strict=True)]
    searched, middle = list(counts.columns), counts.n_rows // 2
    places = gate.choose_places(counts.at(octaves), middle, search(), generator)
    steps = [_within_octave(*found) for found in zip(units, octaves, map(int, places), strict=True)]
    column_counts = collect(source, partial(ColumnCounts, steps, searched), False, _FINDING_RANGES)
    places = gate.choose_places(column_counts, middle, search(), generator)
    chosen = [(points[place], points[1] - points[0]) for points, place in zip(steps, places, strict=True)]
    medians, widths = np.array(chosen).T
    middles, half = np.zeros(source.n_features), np.ones(source.n_features)
    truths = np.flatnonzero(getattr(source, "truths", ()))
    middles[truths] = half[truths] = 0.5
    middles[searched] = medians - widths / 2
    # A median that is known up to a step only needs a range that is no narrower than that.
    half[searched] = np.where(known, np.maximum(sizes, widths), _NO_RANGE)
    return middles, half, tuple(feature for feature, of_known in zip(searched, known, strict=True) if not of_known)


def found_medians(
    counts: ColumnCounts, preparation: RowPreparation, search: Search, generator: np.random.Generator
) -> FloatArray:
    """Return medians of the features within their public ranges; what they cost has been paid.

    Of some features, that is: the others keep the middle of their range.

    Parameters
    ----------
    counts : ColumnCounts
        As `sizes_and_columns` has them.
    preparation : RowPreparation
    search : Search
    generator : numpy.random.Generator
    """
    assert preparation.shift is not None
    searched = list(preparation.medians)
    middles, (steps, offsets) = preparation.shift.copy(), _median_steps(preparation)
    places = gate.choose_places(counts, counts.n_rows // 2, search, generator)
    middles[searched] += steps[searched] * (offsets[places] - 0.5)
    return middles


def _median_steps(preparation: RowPreparation) -> tuple[FloatArray, FloatArray]:
    """Return the steps of every feature between which its median is looked for, and their ends in units of it."""
    assert preparation.half is not None
    return preparation.half / (MEDIAN_PLACES / 2), np.arange(1.0, MEDIAN_PLACES + 1) - MEDIAN_PLACES / 2


def warn_of_features_without_range(source: Source, positions: tuple[int, ...]) -> None:
    """Name features without a range, once the release is there; that they have none has been paid for too."""
    if not positions:
        return
    names = features_in_words(source.feature_names, source.n_features)
    listed = ", ".join(str(names[position]) for position in positions)
    warn_caller(
        f"No range was found of {listed}: almost all rows agree in it to within 1e-29, or too many differ by more than "
        "1e30. It is read as if all agreed; give bounds, or leave it out.",
        NoiseWarning,
    )


def _searched(pairs: ColumnCounts, search: Search, generator: np.random.Generator, only: Sequence[int]) -> IntArray:
    """Return the places of sizes of some features: about as many pairs differ by more as the noise hardly passes."""
    beyond = min(search.margin(len(only), SIZES.size), Fraction(3 * pairs.n_rows, 4))
    return gate.choose_places(pairs, math.floor(beyond), search, generator, only)


def _octaves(size: float, known: bool) -> FloatArray:
    """Return the points between which a median is looked for first: all octaves in units of the size."""
    positive = size * 2.0 ** np.arange((_OCTAVES if known else _OCTAVES_WITHOUT) + 1)
    return np.concatenate([-positive[::-1], positive])


def _within_octave(size: float, points: FloatArray, place: int) -> FloatArray:
    """Return equal steps up to one of the octaves' points, from the one before, each about a size."""
    high, low = points[place], points[place - 1] if place else 2 * points[0]
    count = int(min(SEARCHED_PLACES, max(2, math.ceil((high - low) / size))))
    return np.asarray(low + (high - low) * np.arange(1, count + 1) / count)
