"""From the parameters of an estimator and the rule of its rows to what a fit will spend."""

from fractions import Fraction
from typing import Any

from .. import gate
from ..accounting.calibration import decimal_below, exact
from ..errors import budget_delta, budget_epsilon, one_of
from ..guarantee import Relation
from ..laws import LAWS, CentralLaw, choose_law, law_with
from ..laws.central import made_once
from ..row_rule import RowRule
from .preparation import RowPreparation
from .spend_plan import SpendPlan, asked_by, laws_by_rows
from .stages import LawsByRows, check_read_once, in_stages, stages_asked


def planned(
    estimator: Any,
    d: int,
    preparation: RowPreparation | None,
    rule: RowRule,
    n_rows: int | None,
    *,
    reads_once: bool = False,
) -> SpendPlan:
    """Return the plan of a fit, or refuse what public numbers show to be impossible.

    Parameters
    ----------
    estimator : MomentsEstimator
    d : int
        Number of features.
    preparation : RowPreparation, optional
        How rows become integers; None where they did already.
    rule : RowRule
        The same, as a public record.
    n_rows : int, optional
        Number of rows, where it is known and public.
    reads_once : bool
        Whether the rows come once only, which leaves room for one stage.
    """
    relation, delta = Relation.parse(estimator.relation), budget_delta(estimator.delta)
    whole = exact(budget_epsilon(estimator.epsilon))
    choices = {} if preparation is None else preparation.choices(whole, relation)
    epsilon = decimal_below(whole - sum((exact(part.epsilon) for part in choices.values()), Fraction(0)))
    name = one_of("law", estimator.law, ("auto", *LAWS))
    stages = stages_asked(estimator.stages)

    def laws_for(rule: RowRule, divided: bool = False) -> LawsByRows:
        width = d + (rule.constant is not None)
        shared: dict[str, Any] = {"epsilon": epsilon, "n_features": width, "relation": relation}

        def choose(rows: int) -> str:
            wanted = None if rule.needs_matrix else estimator._directions_wanted()
            n = rule.full_rows(rows)
            return choose_law(n_rows=n, n_components=wanted, delta=delta, divided=divided, **shared)

        def make(chosen: str) -> CentralLaw:
            # A pure law that wins against the Gaussian leaves delta unspent.
            used = delta if name != "auto" or LAWS[chosen].needs_delta else 0.0
            k = None if rule.needs_matrix else estimator._directions_released(d)
            parameters, options = {**shared, "delta": used, "n_components": k}, estimator.law_options
            law = made_once(LAWS[chosen], **parameters) if options is None else law_with(chosen, options, **parameters)
            estimator._check_law(law)
            gate.check_rule(law, rule)
            return law

        return laws_by_rows(choose, make, n_rows) if name == "auto" else ((0, make(name)),)

    estimator._check_rows(rule)
    compared = rule.compares or (preparation is not None and bool(preparation.ranges))
    facts: dict[str, Any] = {"compared": compared, "unit": rule.unit}
    if preparation is None or reads_once:
        check_read_once(stages)
        return SpendPlan(d, preparation, choices, laws_for(rule), asked_by(estimator), **facts)
    maps = estimator._maps and (stages == 2 or estimator._directions_wanted() is not None)
    laws, parts = in_stages(laws_for, rule, preparation.norm, stages, maps)
    return SpendPlan(d, preparation, choices, laws, asked_by(estimator), stages=parts, **facts)
