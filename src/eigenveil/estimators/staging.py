"""The stages of a fit at work: the mean that is measured first, and the rows that are mapped after a first look."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .. import gate
from ..accounting.sensitivity import sum_squared
from ..errors import InvalidDataError
from ..guarantee import Relation
from ..laws import CentralLaw
from ..laws.gaussian import Gaussian
from ..laws.portions import Budget, Portion
from ..moments import SecondMoments
from ..postprocess.preconditioning import map_after
from ..row_rule import RowRule
from ..rows.column_counts import ColumnCounts
from ..rows.mapped import MAP_BITS, MappedSizes, integer_map, mapped_bound
from ..rows.norm_counts import LADDER, RowSizes
from ..rows.sums import RowSums, SumsByNorm
from ..sources import collect
from .clipping import balanced_rows
from .collecting import found_privately, row_sizes, row_sums, sums_by_norm, whole_moments
from .preparation import FloatArray, RowPreparation
from .ranging import pair_sizes
from .spend_plan import SpendPlan
from .stages import MAPPED_NORM_PLACES, MEANS, NORM_PLACES, SMALL_STEP, Stages

CheckSize = Callable[[CentralLaw, RowRule, int], None]
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
        Refuses, given the law, the rule of the rows and their number, so few rows that nothing can be learned.
    pay : callable
        Records the whole fit, given the plan, the number of rows and the generator, before the first draw.

    Attributes
    ----------
    plan : SpendPlan
        The one that runs on these rows.
    payment : Payment
    budget : Budget or None
        What is left for the matrix; None where the law draws with all that was paid.
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
        counts: RowSums | RowSizes | ColumnCounts | None = None
        n_rows: int | None = None
        if preparation.ranges:
            n_rows, counts = pair_sizes(source, preparation.ranges)
        elif plan.choices:
            counts = (sums_by_norm if plan.measures_mean else row_sizes)(source, preparation)
            n_rows = counts.n_rows
        elif plan.measures_mean:
            counts = row_sums(source, preparation)
            n_rows = counts.n_rows
        if n_rows is not None:
            self._refuse_empty(n_rows)
            self.plan = plan = plan.at(n_rows).checked(n_rows)
            preparation = plan.preparation_for(source.n_features)
            if plan.choices or plan.stages_for(n_rows).mean:
                SecondMoments(preparation.bound, source.n_features).check_capacity(n_rows)
                self._paid(n_rows)
        if isinstance(counts, RowSizes | ColumnCounts) and plan.choices:
            preparation, counts = found_privately(source, plan, preparation, counts, self.generator)
            self.without_range = preparation.without_range
        if self.budget is not None and self.stages.mean and isinstance(counts, RowSums | SumsByNorm):
            preparation = self.without_mean(self.budget, preparation, counts)
        moments = whole_moments(source, preparation)
        if not hasattr(self, "payment"):
            n_rows = moments.n_samples
            self._refuse_empty(n_rows)
            gate.check(plan.law(n_rows), moments)
            plan.checked(n_rows)
            self._paid(n_rows)
        if self.budget is not None and self.stages.first:
            return self.mapped(self.budget, moments, n_components)
        return moments

    def _paid(self, n_rows: int) -> None:
        """Pay for everything, once, before the first draw."""
        law = self.plan.law(n_rows)
        self.n_rows, self.stages = n_rows, self.plan.stages_for(n_rows)
        self._check_size(law, self.plan.preparation_for(self.source.n_features).bound.rule, n_rows)
        self.payment = self._pay(self.plan, n_rows, self.generator)
        if isinstance(law, Gaussian) and self.stages != Stages():
            self.budget = Budget(law)

    def _refuse_empty(self, n_rows: int) -> None:
        # Where the number of rows is private, so is whether there are any.
        if n_rows == 0 and self.plan.relation is Relation.REPLACE:
            raise InvalidDataError(
                "The data have too few rows; give at least one, and more than one sample for pairs and signs."
            )

    def without_mean(self, budget: Budget, preparation: RowPreparation, sums: RowSums | SumsByNorm) -> RowPreparation:
        """Return the preparation whose rows are freed of a private mean, and bounded anew: twice over.

        The second mean, of rows that are much shorter where the first was large, finds what the noise of the first has
        left. It is that of the rows which the bound between both was found from, so they take one reading. The last
        bound is looked for if the second mean has moved rows by enough to matter; else its share is left to the matrix.
        """
        first, left, _ = self._without(MEANS[0], budget, preparation, sums, 0.0)
        again = sums_by_norm(self.source, first, progress=False)
        bounded = self._bounded(budget, first, again)
        second, left, moved = self._without(MEANS[1], budget, bounded, again, left)
        self.drawn = replace(self.drawn, mean_sd=math.sqrt(left))
        if moved <= SMALL_STEP * bounded.norm_or_one:
            return second
        return self._bounded(budget, second, row_sizes(self.source, second, progress=False))

    def _without(
        self,
        name: str,
        budget: Budget,
        preparation: RowPreparation,
        sums: RowSums | SumsByNorm,
        left: float,
    ) -> tuple[RowPreparation, float, float]:
        """Return the preparation without a mean that is measured now, the variance left in it, and how far it is.

        What a mean before has left, in the variance of an entry, is a prior of mean zero: both are weighed by their
        precision. 0 says that there was none, so that all of this one counts.
        """
        norm, portion = preparation.norm_or_one, budget.take(self.stages.mean / len(MEANS))
        noisy = gate.noisy_sum(sums, norm, portion, self.generator)
        variance = (portion.scale(sum_squared(Relation.REPLACE)) * norm / self.n_rows) ** 2
        weight = left / (left + variance) if left else 1.0
        unit = weight * norm / 4.0**sums.bound.bits / self.n_rows
        self.drawn = replace(self.drawn, also={**self.drawn.also, name: (noisy, unit)})
        mean = np.asarray(noisy * unit, np.float64)
        mean[list(preparation.without_range)] = 0.0  # where the median is the better guess
        return _moved(preparation, mean), weight * variance, float(np.linalg.norm(mean))

    def _bounded(self, budget: Budget, preparation: RowPreparation, counts: RowSizes) -> RowPreparation:
        """Return the preparation with a bound for its rows that is found now, up to twice the one that it has."""
        top = int(np.searchsorted(LADDER, 2 * preparation.norm_or_one))
        portion = budget.take(self.stages.norm / len(MEANS))
        return preparation.with_norm(self._norm(budget, counts, top, NORM_PLACES, portion))

    def _norm(self, budget: Budget, counts: RowSizes, top: int, places: int, portion: Portion) -> float:
        """Return a bound that about as many rows pass as the noise of the law suggests."""
        top = min(max(top, places - 1), LADDER.size - 1)
        rule = self.plan.preparation_for(self.source.n_features).without_constant.bound  # on the grid of all stages
        most = max(float(balanced_rows(budget.whole, rule)), 2 * portion.count_sd(places))
        most = math.floor(min(most, self.n_rows / 2))
        return gate.find_norm(counts, range(top + 1 - places, top + 1), most, portion, self.generator)

    def mapped(self, budget: Budget, moments: SecondMoments, n_components: int | None) -> SecondMoments:
        """Return the moments that the matrix is drawn from: those of mapped rows where a map promises enough."""
        law = budget.law(self.stages.first)
        first = gate.look(law, moments, self.generator)
        left = budget.left
        one_shot, second = (
            budget.at(share).noise_sd(self.n_rows)
            for share in (left + self.stages.first, left - self.stages.mapped_norm)
        )
        chosen = map_after(first.second_moment, law.noise_sd(self.n_rows), n_components, one_shot, second)
        self.drawn = replace(self.drawn, first=first)
        if chosen is None:
            return moments
        integers = integer_map(chosen.matrix)
        sizes = partial(MappedSizes, moments.bound, integers)
        counts: RowSizes = collect(self.source, sizes, False, "finding a bound for mapped rows")
        before = moments.bound.norm
        top = int(np.searchsorted(LADDER, before))
        portion = budget.take(self.stages.mapped_norm)
        norm = self._norm(budget, counts, top, MAPPED_NORM_PLACES, portion)
        if not chosen.keeps_promise((norm / before) ** 2):
            return moments
        self.drawn = replace(self.drawn, first=None, also={**self.drawn.also, "map": (integers, 2.0**-MAP_BITS)})
        bound = mapped_bound(moments.bound, integers, norm)
        make = partial(SecondMoments, bound, self.source.n_features, self.source.feature_names)
        again: SecondMoments = collect(self.source, make, False, "adding up mapped rows")
        return again
