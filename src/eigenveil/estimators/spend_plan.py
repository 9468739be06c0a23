"""`SpendPlan`: what a fit will spend, on what, by which law; made of public numbers alone, and it is what runs."""

import math
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, Self

from ..accounting.calibration import exact
from ..accounting.composition import compose
from ..errors import InvalidParameterError, integer_between
from ..guarantee import Guarantee, Relation, Unit
from ..laws import CentralLaw
from ..laws.above_threshold import noise_scale
from ..notebook import notebook_table
from .clipping import LEAST_ROWS, check_enough, rows_beyond, too_few_to_clip
from .preparation import CHOICES, INSTEAD, RowPreparation
from .ranging import SEARCHES, rows_for_ranges
from .stages import Stages

# More rows than any table has: the last law of a plan holds from its number of rows on.
_MANY_ROWS = 2**50


@dataclass(frozen=True, eq=False)
class SpendPlan:
    """The parts of a budget, and the law or laws that may draw the release.

    Parameters
    ----------
    n_features : int
    preparation : RowPreparation, optional
        How rows become integers, and what of it is yet to be found privately; None for rows that were collected before.
    choices : mapping of str to Guarantee
        What is found privately before the release, and what each of them costs.
    laws : tuple of (int, CentralLaw)
        The law that draws, from this many rows on. There are several only where the number of rows is public and
        decides between them.
    asked : bytes
        The parameters of the estimator that made it.
    few : (int, SpendPlan), optional
        Where there are fewer rows than this, that plan runs: of rows that need no bound.
    stages : tuple of (int, Stages)
        Into which parts the budget of the law is divided, from this many rows on.
    compared : bool
        Whether rows are compared with one another, for the release or for their ranges.
    unit : Unit
        Whose data the promise is about.

    Examples
    --------
    >>> from eigenveil import PrivatePCA
    >>> plan = PrivatePCA(1, epsilon=1.0, rows="clip", center=False).plan(50)
    >>> [(rows, law.name) for rows, law in plan.laws]
    [(0, 'ppca'), (445, 'matrix_laplace')]
    >>> {name: part.epsilon for name, part in plan.choices.items()}
    {'norm_bound': 0.1}
    """

    n_features: int
    preparation: RowPreparation | None
    choices: Mapping[str, Guarantee]
    laws: tuple[tuple[int, CentralLaw], ...]
    asked: bytes = b""
    few: tuple[int, "SpendPlan"] | None = None
    stages: tuple[tuple[int, Stages], ...] = ()
    compared: bool = False
    unit: Unit = Unit.ROW

    def check_made_for(self, asked: bytes) -> None:
        """Refuse to be executed by an estimator of other parameters than the plan was made for."""
        if asked != self.asked:
            raise InvalidParameterError("The plan was made for other parameters; make another one.")

    def unless_few(self, plan: "SpendPlan") -> "SpendPlan":
        """Return this plan with another one for so few rows that a bound would clip more than half of them."""
        preparation, epsilon = plan.preparation_for(self.n_features), self.cost("norm_bound")
        below = _crossing(lambda n: n < too_few_to_clip(plan.law(n), preparation.bound, epsilon))
        return replace(self, few=(below, plan))

    def from_many(self, plan: "SpendPlan", times: int) -> "SpendPlan":
        """Return `plan`, which finds ranges, for so many times the rows that this takes; this one is for fewer."""
        takes = rows_for_ranges(plan.cost("bounds"), self.n_features)  # all of them: all have noise, searched or not
        return replace(plan, few=(math.ceil(times * takes), self))

    def at(self, n_rows: int) -> "SpendPlan":
        """Return the plan that runs on so many rows."""
        if self.few is None:
            return self
        return self.few[1] if n_rows < self.few[0] else replace(self, few=None)

    def law(self, n_rows: int) -> CentralLaw:
        """Return the law that draws the release of so many rows."""
        return next(law for rows, law in reversed(self.at(n_rows).laws) if rows <= n_rows)

    def stages_for(self, n_rows: int) -> Stages:
        """Return into which parts the budget is divided for so many rows."""
        stages = next((parts for rows, parts in reversed(self.stages) if rows <= n_rows), Stages())
        return stages if self.preparation is None else stages.for_rows(n_rows, self.preparation.bound)

    @property
    def measures_mean(self) -> bool:
        """Whether a mean is measured first where there are rows enough."""
        return any(stages.mean for _, stages in self.stages)

    @property
    def in_stages(self) -> bool:
        """Whether rows are read again after something was measured, where there are rows enough."""
        return any(stages != Stages() for _, stages in self.stages)

    @property
    def relation(self) -> Relation:
        """The neighbouring relation of the whole fit."""
        return self.laws[0][1].relation

    def cost(self, choice: str) -> Fraction:
        """Return the epsilon of a private choice."""
        return exact(self.choices[choice].epsilon)

    def rows_beyond(self, n_rows: int) -> int:
        """Return how many of so many rows a norm bound that is found privately should leave beyond it."""
        preparation = self.preparation_for(self.n_features)
        return rows_beyond(self.law(n_rows), preparation.bound, self.cost("norm_bound"), n_rows)

    def checked(self, n_rows: int | None) -> Self:
        """Return the plan, or refuse what cannot be found privately: at all, or in so many rows where that is known."""
        preparation = self.preparation_for(self.n_features)
        preparation.check_ends()
        for name in self.choices:
            epsilon = self.cost(name)
            noise_scale(epsilon / (10 * SEARCHES * self.n_features))  # and to spare
            if n_rows is not None and self.relation is Relation.REPLACE:
                searched = len(preparation.ranges)
                takes = LEAST_ROWS / epsilon if name == "norm_bound" else rows_for_ranges(epsilon, searched)
                check_enough(n_rows, self.unit.counted, epsilon, takes, CHOICES[name], INSTEAD[name])
        if n_rows is not None:
            self.stages_for(n_rows).check(self.law(n_rows), preparation.bound, n_rows)
        return self

    def guarantee_of(self, law: CentralLaw) -> Guarantee:
        """Return what a whole fit promises whose release is drawn by this law."""
        return _promised((*self.choices.values(), law.guarantee()), self.unit, self.compared)

    @property
    def guarantees(self) -> dict[str, Guarantee]:
        """What a whole fit promises, by the name of the law, whatever the number of rows."""
        few = {} if self.few is None else self.few[1].guarantees
        return {**few, **{law.name: self.guarantee_of(law) for _, law in self.laws}}

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee that says least: the laws of one plan differ in their numerics."""
        return max(self.guarantees.values(), key=lambda promise: (promise.epsilon, promise.numerics.gap))

    def preparation_for(self, n_features: int) -> RowPreparation:
        """Return how the rows are prepared, or refuse data that the plan was not made for."""
        if self.preparation is None or n_features != self.n_features:
            raise InvalidParameterError(
                f"The plan is for {self.n_features} features, and the data have {n_features}; make another plan."
            )
        return self.preparation

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the law or laws, the parts of the budget, and the promise."""
        counted = self.unit.counted
        laws = [f"{law.name}, from {rows:,} {counted} on" if rows else law.name for rows, law in self.laws]
        parts = {f"to choose {CHOICES[name]}": f"epsilon {part.epsilon:.4g}" for name, part in self.choices.items()}
        few = None if self.few is None else f"another plan below {self.few[0]:,} {counted}"
        stages = "; ".join(filter(None, (stage.in_words() for _, stage in self.stages))) or None
        facts = {"features": self.n_features, "law": "; ".join(laws), **parts, "stages": stages, "few rows": few}
        return notebook_table("Plan of a fit", facts, more=self.guarantee._repr_html_())

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return {
            "n_features": self.n_features,
            "guarantee": self.guarantee.to_dict(),
            "choices": {name: part.epsilon for name, part in self.choices.items()},
            "laws": [{"from_rows": rows, "law": law.name, "parameters": law.parameters()} for rows, law in self.laws],
            "stages": [{"from_rows": rows, **parts.to_dict()} for rows, parts in self.stages],
            "few": None if self.few is None else {"below_rows": self.few[0], **self.few[1].to_dict()},
        }


@lru_cache(maxsize=128)  # of public records, which are the same in the next fit
def _promised(parts: tuple[Guarantee, ...], unit: Unit, compared: bool) -> Guarantee:
    promise = compose(parts).for_unit(unit)
    return promise.of_compared_units() if compared else promise


def laws_by_rows(
    choose: Callable[[int], str], make: Callable[[str], CentralLaw], n_rows: int | None
) -> tuple[tuple[int, CentralLaw], ...]:
    """Return the laws that a choice by the number of rows leads to, each with the rows from which on it holds.

    The choice changes once at most as the rows grow, and the place is found by bisection.
    """
    if n_rows is not None:
        return ((0, make(choose(integer_between("n_rows", n_rows, 0)))),)
    few, many = choose(0), choose(_MANY_ROWS)
    if few == many:
        return ((0, make(few)),)
    return (0, make(few)), (_crossing(lambda n: choose(n) == few), make(many))


def _crossing(few: Callable[[int], bool]) -> int:
    """Return the number of rows from which on a condition that holds for none of them no longer does, by bisection."""
    low, high = 0, _MANY_ROWS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if few(middle) else (low, middle)
    return high


def asked_by(estimator: Any) -> bytes:
    """Return the parameters that decide about a plan, as bytes that are equal where they are."""
    asked = [(name, getattr(estimator, name)) for name in _deciding(estimator.__class__)]
    return pickle.dumps((type(estimator).__qualname__, asked))


@cache  # scikit-learn reads the signature at every call
def _deciding(kind: Any) -> tuple[str, ...]:
    return tuple(name for name in sorted(kind._get_param_names()) if name not in ("ledger", "random_state"))
