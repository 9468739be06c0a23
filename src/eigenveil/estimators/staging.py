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
from ..rows.sums import RowSums
from ..sources import collect
from .clipping import balanced_rows
from .collecting import found_privately, row_sizes, whole_moments
from .preparation import FloatArray, RowPreparation
from .ranging import pair_sizes
from .spend_plan import SpendPlan
from .stages import MAPPED_NORM_PLACES, MEANS, NORM_PLACES, Stages

CheckSize = Callable[[CentralLaw, RowRule, int], None]
Pay = Callable[[SpendPlan, int, np.random.Generator], gate.Payment]


def row_sums(source: Any, preparation: RowPreparation) -> RowSums:
    """Return the exact sum of the bounded rows of a source."""
    without = replace(preparation, center=False)
    make = partial(RowSums, without.bound, source.n_features)
    sums: RowSums = collect(source, make, False, "measuring the mean")
    return sums


def _moved(preparation: RowPreparation, mean: FloatArray) -> RowPreparation:
    """Return the preparation that takes a mean of scaled rows off, and appends no constant any more."""
    shift = mean / (1.0 if preparation.scale is None else preparation.scale)
    shift[list(preparation.without_range)] = 0.0  # where the median is the better guess
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
        sums: RowSums | None = None
        counts: RowSizes | ColumnCounts | None = None
        n_rows: int | None = None
        if preparation.ranges:
            n_rows, counts = pair_sizes(source, preparation.ranges)
        elif plan.choices:
            counts = row_sizes(source, preparation)
            n_rows = counts.n_rows
        elif plan.measures_mean:
            sums = row_sums(source, preparation)
            n_rows = sums.n_rows
        if n_rows is not None:
            self._refuse_empty(n_rows)
            self.plan = plan = plan.at(n_rows).checked(n_rows)
            preparation = plan.preparation_for(source.n_features)
            if plan.choices or plan.stages_for(n_rows).mean:
                SecondMoments(preparation.bound, source.n_features).check_capacity(n_rows)
                self._paid(n_rows)
        if counts is not None and plan.choices:
            preparation = found_privately(source, plan, preparation, counts, self.generator)
            self.without_range = preparation.without_range
        if self.budget is not None and self.stages.mean:
            preparation = self.without_mean(self.budget, preparation, sums)
        moments = whole_moments(source, preparation)
        if not hasattr(self, "payment"):
            n_rows = moments.n_samples
            self._refuse_empty(n_rows)
            gate.check(plan.law(n_rows), moments)
            plan.checked(n_rows)
            self._paid(n_rows)
        if self.budget is not None and self.stages.first:
            return self.mapped(self.budget, moments, preparation, n_components)
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

    def without_mean(self, budget: Budget, preparation: RowPreparation, sums: RowSums | None) -> RowPreparation:
        """Return the preparation whose rows are freed of a private mean, and bounded anew: twice over.

        The second mean, of rows that are much shorter where the first was large, finds what the noise of the first has
        left; both are weighed by their precision, as if the first were a prior of mean zero for what it left.
        """
        left = 0.0  # the variance that is left in an entry of the mean; none yet, so that all of the first counts
        for name in MEANS:
            sums = row_sums(self.source, preparation) if sums is None else sums
            portion = budget.take(self.stages.mean / len(MEANS))
            noisy = gate.noisy_sum(sums, portion, self.generator)
            norm = sums.bound.norm
            variance = (portion.scale(sum_squared(Relation.REPLACE)) * norm / self.n_rows) ** 2
            weight = left / (left + variance) if left else 1.0
            left = weight * variance
            unit = weight * norm / 4.0**sums.bound.bits / self.n_rows
            self.drawn = replace(self.drawn, also={**self.drawn.also, name: (noisy, unit)})
            preparation = _moved(preparation, np.asarray(noisy * unit, np.float64))
            counts = row_sizes(self.source, preparation, progress=False)
            top = int(np.searchsorted(LADDER, 2 * norm))
            portion = budget.take(self.stages.norm / len(MEANS))
            preparation = preparation.with_norm(self._norm(budget, counts, top, NORM_PLACES, portion, preparation))
            sums = None
        self.drawn = replace(self.drawn, mean_sd=math.sqrt(left))
        return preparation

    def _norm(
        self,
        budget: Budget,
        counts: RowSizes,
        top: int,
        places: int,
        portion: Portion,
        preparation: RowPreparation,
    ) -> float:
        """Return a bound that about as many rows pass as the noise of the law suggests."""
        top = min(max(top, places - 1), LADDER.size - 1)
        most = max(float(balanced_rows(budget.whole, preparation.bound)), 2 * portion.count_sd(places))
        most = math.floor(min(most, self.n_rows / 2))
        return gate.find_norm(counts, range(top + 1 - places, top + 1), most, portion, self.generator)

    def mapped(
        self, budget: Budget, moments: SecondMoments, preparation: RowPreparation, n_components: int | None
    ) -> SecondMoments:
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
        norm = self._norm(budget, counts, top, MAPPED_NORM_PLACES, portion, preparation)
        if not chosen.keeps_promise((norm / before) ** 2):
            return moments
        self.drawn = replace(self.drawn, first=None, also={**self.drawn.also, "map": (integers, 2.0**-MAP_BITS)})
        bound = mapped_bound(moments.bound, integers, norm)
        make = partial(SecondMoments, bound, self.source.n_features, self.source.feature_names)
        again: SecondMoments = collect(self.source, make, False, "adding up mapped rows")
        return again
