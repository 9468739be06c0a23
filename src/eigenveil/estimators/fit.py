"""From a source to private statistics, and from these to a preparation that was paid for."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .. import gate
from ..accounting.sensitivity import sum_squared
from ..errors import InvalidDataError, own_words
from ..guarantee import Adjacency
from ..mechanisms import CentralMechanism
from ..mechanisms.budget import Budget, Portion
from ..mechanisms.gaussian import Gaussian
from ..moments.comparisons import MixedDifferences
from ..moments.counts import NORM_GRID, ColumnCounts, RowSizes
from ..moments.preconditioned import MAP_BITS, MappedSizes, integer_map, mapped_bound
from ..moments.row_rule import RowRule
from ..moments.second_moments import SecondMoments
from ..moments.sums import SumsByNorm
from ..numerics import FloatArray
from ..postprocess.preconditioning import map_after
from ..tables.open import collect
from .plan import SpendPlan, balanced_rows
from .preparation import CHOICES, RowPreparation
from .ranges import found_ranges, pair_sizes, rows_to_compare
from .split import MAPPED_NORM_PLACES, MEANS, NORM_PLACES, NORM_SEARCHES, SMALL_STEP, Stages

_SIZES = f"finding {CHOICES['norm_bound']}"
ADDING = "adding up rows"
"""What rows are read for in the end, in words for a progress bar."""


@own_words
def collected_moments(source: Any, preparation: RowPreparation, differences_buffer: MixedDifferences) -> SecondMoments:
    """Return the exact moments of all rows of a source; `ring` keeps those that are not yet compared with all."""
    make = partial(SecondMoments, preparation.bound, source.n_features, source.feature_names)
    if preparation.bound.compares:
        return make().update_from(_comparisons(source, differences_buffer))
    moments: SecondMoments = collect(source, make, purpose=ADDING)
    return moments


def _comparisons(source: Any, differences_buffer: MixedDifferences) -> Iterator[FloatArray]:
    for batch in rows_to_compare(source, ADDING):
        yield from (part for part in differences_buffer.push(batch) if part.shape[0])


def whole_moments(source: Any, preparation: RowPreparation) -> SecondMoments:
    """Return the exact moments of all rows of a source, to which no more will come."""
    differences_buffer = MixedDifferences(preparation.bound)
    return with_last_differences(collected_moments(source, preparation, differences_buffer), differences_buffer)


def with_last_differences(moments: SecondMoments, differences_buffer: MixedDifferences) -> SecondMoments:
    """Return the moments with the last rows compared with the first; `moments` and `ring` stay open for more rows."""
    if not moments.bound.compares:
        return moments
    seam = SecondMoments(moments.bound, moments.n_features, moments.feature_names)
    return moments + seam.update_from(differences_buffer.closing())


def row_sizes(source: Any, preparation: RowPreparation, progress: bool | None = None) -> RowSizes:
    """Return counts of the norms of rows."""
    make = partial(RowSizes, preparation.shift, preparation.scale, unit_weight=preparation.unit_weight)
    sizes: RowSizes = collect(source, make, progress, _SIZES)
    return sizes


def sums_by_norm(source: Any, preparation: RowPreparation, progress: bool | None = None) -> SumsByNorm:
    """Return counts of the norms of rows, and what their mean under any bound is found from."""
    make = partial(SumsByNorm, preparation.without_constant.bound, source.n_features)
    sums: SumsByNorm = collect(source, make, progress, f"{_SIZES} and the mean")
    return sums


def found_privately(
    source: Any,
    plan: SpendPlan,
    preparation: RowPreparation,
    counts: RowSizes | ColumnCounts,
    generator: np.random.Generator,
) -> tuple[RowPreparation, RowSizes]:
    """Return the preparation with ranges and norm chosen privately, which has been paid for, and counts of its rows."""
    if isinstance(counts, ColumnCounts):
        if preparation.ranges:  # else they were counted for a plan of more rows than there are
            preparation = preparation.within(*found_ranges(source, counts, plan.cost("bounds"), generator))
        counts = (sums_by_norm if plan.measures_mean else row_sizes)(source, preparation, progress=False)
    beyond, epsilon = plan.rows_beyond(counts.n_rows), plan.cost("norm_bound")
    norm = float(gate.choose_magnitudes(counts, beyond, epsilon, generator)[0])
    return preparation.with_norm(norm), counts


CheckSize = Callable[[CentralMechanism, RowRule, int], None]
Pay = Callable[[SpendPlan, int, np.random.Generator], gate.Payment]


def _moved(preparation: RowPreparation, mean: FloatArray) -> RowPreparation:
    """Return the preparation that takes a mean of scaled rows off, and appends no constant any more."""
    shift = mean / (1.0 if preparation.scale is None else preparation.scale)
    return replace(preparation, shift=shift if preparation.shift is None else preparation.shift + shift, center=False)


class StagedFit:
    """A fit from a source: everything up to the draw of the matrix, in as many stages as the plan has.

    Parameters
    ----------
    source : Source
        Read once, and once more by every stage.
    plan : SpendPlan
    generator : numpy.random.Generator
    check_size : callable
        Refuses, given the mechanism, the rule of the rows and their number, so few rows that nothing can be learned.
    pay : callable
        Records the whole fit, given the plan, the number of rows and the generator, before the first draw.

    Attributes
    ----------
    plan : SpendPlan
        The one that runs on these rows.
    payment : Payment
    budget : Budget or None
        What is left for the matrix; None where the mechanism draws with all that was paid.
    drawn : Drawn
        What was drawn before the matrix.
    without_range : tuple of int
        Features for which no range was found privately.
    """

    payment: gate.Payment
    stages: Stages

    def __init__(
        self, source: Any, plan: SpendPlan, generator: np.random.Generator, check_size: CheckSize, pay: Pay
    ) -> None:
        self.source, self.plan, self.generator = source, plan, generator
        self._check_size, self._pay = check_size, pay
        self.budget: Budget | None = None
        self.drawn = gate.NOTHING
        self.without_range: tuple[int, ...] = ()

    def moments(self, n_components: int | None) -> SecondMoments:
        """Return the moments that the matrix is drawn from, all else being found, paid for and drawn before."""
        source, plan = self.source, self.plan
        preparation = plan.preparation_for(source.n_features)
        counts: RowSizes | ColumnCounts | None = None
        n_rows: int | None = None
        if preparation.ranges:
            n_rows, counts = pair_sizes(source, preparation.ranges)
        elif plan.choices or plan.measures_mean:
            counts = (sums_by_norm if plan.measures_mean else row_sizes)(source, preparation)
            n_rows = counts.n_rows
        if n_rows is not None:
            self._refuse_empty(n_rows)
            self.plan = plan = plan.at(n_rows).checked(n_rows)
            preparation = plan.preparation_for(source.n_features)
            if plan.choices or plan.stages_for(n_rows).mean:
                SecondMoments(preparation.bound, source.n_features).check_capacity(n_rows)
                self._paid(n_rows)
        if counts is not None and plan.choices:
            preparation, counts = found_privately(source, plan, preparation, counts, self.generator)
            self.without_range = preparation.without_range
        if self.budget is not None and self.stages.mean and isinstance(counts, SumsByNorm):
            preparation = self.without_mean(self.budget, preparation, counts)
        moments = whole_moments(source, preparation)
        if not hasattr(self, "payment"):
            n_rows = moments.n_samples
            self._refuse_empty(n_rows)
            gate.check(plan.mechanism(n_rows), moments)
            plan.checked(n_rows)
            self._paid(n_rows)
        if self.budget is not None and self.stages.first:
            return self.mapped(self.budget, moments, n_components)
        return moments

    def _paid(self, n_rows: int) -> None:
        """Pay for everything, once, before the first draw."""
        mechanism = self.plan.mechanism(n_rows)
        self.n_rows, self.stages = n_rows, self.plan.stages_for(n_rows)
        self._check_size(mechanism, self.plan.preparation_for(self.source.n_features).bound.rule, n_rows)
        self.payment = self._pay(self.plan, n_rows, self.generator)
        if isinstance(mechanism, Gaussian) and self.stages != Stages():
            self.budget = Budget(mechanism)

    def _refuse_empty(self, n_rows: int) -> None:
        # Where the number of rows is private, so is whether there are any.
        if n_rows == 0 and self.plan.adjacency is Adjacency.REPLACE_ONE:
            raise InvalidDataError(
                "The data have too few rows; give at least one, and more than one sample for pairs and signs."
            )

    def without_mean(self, budget: Budget, preparation: RowPreparation, sums: SumsByNorm) -> RowPreparation:
        """Return the preparation whose rows are freed of a private mean, and bounded anew: in one round or in two.

        A round finds a bound, unless the first has a private one, and the mean under it: both come of one reading. The
        second, of rows that are much shorter where the first mean was large, finds what its noise has left. A round
        that moves the rows by little is the last, and its bound stays; what was kept for more is left to the matrix.
        """
        left = 0.0
        for name in MEANS:
            again = name != MEANS[0]
            if again:
                sums = sums_by_norm(self.source, preparation, progress=False)
            if again or not self.plan.choices:
                preparation = self._bounded(budget, preparation, sums, 1 + again)
            preparation, left, moved = self._without(name, budget, preparation, sums, left)
            self.drawn = replace(self.drawn, mean_sd=math.sqrt(left))
            enough = again or self.stages.one_mean_may_do(budget.whole, self.n_rows)
            if enough and moved <= SMALL_STEP * preparation.norm_or_one:
                return preparation
        return self._bounded(budget, preparation, row_sizes(self.source, preparation, progress=False), 2)

    def _without(
        self, name: str, budget: Budget, preparation: RowPreparation, sums: SumsByNorm, left: float
    ) -> tuple[RowPreparation, float, float]:
        """Return the preparation without a mean that is measured now, the variance left in it, and how far it is.

        What a mean before has left, in the variance of an entry, is a prior of mean zero: both are weighed by their
        precision. 0 says that there was none, so that all of this one counts.
        """
        norm, portion = preparation.norm_or_one, budget.take(self.stages.mean / len(MEANS))
        noisy = gate.noisy_sum(sums, norm, portion, self.generator)
        variance = (portion.scale(sum_squared(Adjacency.REPLACE_ONE)) * norm / self.n_rows) ** 2
        weight = left / (left + variance) if left else 1.0
        unit = weight * norm / 4.0**sums.bound.bits / self.n_rows
        self.drawn = replace(self.drawn, also={**self.drawn.also, name: (noisy, unit)})
        mean = np.asarray(noisy * unit, np.float64)
        mean[list(preparation.without_range)] = 0.0  # where the median is the better guess
        return _moved(preparation, mean), weight * variance, float(np.linalg.norm(mean))

    def _bounded(self, budget: Budget, preparation: RowPreparation, counts: RowSizes, reach: int) -> RowPreparation:
        """Return the preparation with a bound for its rows that is found now, up to `reach` times the one it has."""
        most = reach * preparation.norm_or_one
        top = int(np.searchsorted(NORM_GRID, most))
        portion = budget.take(self.stages.norm / NORM_SEARCHES)
        found = self._norm(budget, counts, top, NORM_PLACES, portion)
        return preparation.with_norm(min(found, most))

    def _norm(self, budget: Budget, counts: RowSizes, top: int, places: int, portion: Portion) -> float:
        """Return a bound that about as many rows pass as the noise of the mechanism suggests."""
        top = min(max(top, places - 1), NORM_GRID.size - 1)
        rule = self.plan.preparation_for(self.source.n_features).without_constant.bound  # on the grid of all stages
        most = max(float(balanced_rows(budget.whole, rule)), 2 * portion.count_sd(places))
        most = math.floor(min(most, self.n_rows / 2))
        return gate.find_norm(counts, range(top + 1 - places, top + 1), most, portion, self.generator)

    def mapped(self, budget: Budget, moments: SecondMoments, n_components: int | None) -> SecondMoments:
        """Return the moments that the matrix is drawn from: those of mapped rows where a map promises enough."""
        mechanism = budget.mechanism(self.stages.first)
        first = gate.look(mechanism, moments, self.generator)
        left = budget.left
        one_shot, second = (
            budget.at(share).noise_sd(self.n_rows)
            for share in (left + self.stages.first, left - self.stages.mapped_norm)
        )
        chosen = map_after(first.second_moment, mechanism.noise_sd(self.n_rows), n_components, one_shot, second)
        self.drawn = replace(self.drawn, first=first)
        if chosen is None:
            return moments
        integers = integer_map(chosen.matrix)
        sizes = partial(MappedSizes, moments.bound, integers)
        counts: RowSizes = collect(self.source, sizes, False, "finding a bound for mapped rows")
        before = moments.bound.norm
        top = int(np.searchsorted(NORM_GRID, before))
        portion = budget.take(self.stages.mapped_norm)
        norm = self._norm(budget, counts, top, MAPPED_NORM_PLACES, portion)
        if not chosen.keeps_promise((norm / before) ** 2):
            return moments
        self.drawn = replace(self.drawn, first=None, also={**self.drawn.also, "map": (integers, 2.0**-MAP_BITS)})
        bound = mapped_bound(moments.bound, integers, norm)
        make = partial(SecondMoments, bound, self.source.n_features, self.source.feature_names)
        again: SecondMoments = collect(self.source, make, False, "adding up mapped rows")
        return again
