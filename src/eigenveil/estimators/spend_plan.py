"""`SpendPlan`: what a fit will spend, on what, by which law; made of public numbers alone, and it is what runs."""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..accounting.composition import compose
from ..errors import InvalidParameterError, integer_between
from ..guarantee import Guarantee
from ..laws import CentralLaw
from .preparation import RowPreparation

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

    Examples
    --------
    >>> from eigenveil import PrivatePCA
    >>> plan = PrivatePCA(1, epsilon=1.0).plan(50)
    >>> [(rows, law.name) for rows, law in plan.laws]
    [(0, 'ppca'), (667, 'matrix_laplace')]
    >>> {name: part.epsilon for name, part in plan.choices.items()}
    {'norm_bound': 0.1}
    """

    n_features: int
    preparation: RowPreparation | None
    choices: Mapping[str, Guarantee]
    laws: tuple[tuple[int, CentralLaw], ...]
    asked: bytes = b""

    def check_made_for(self, asked: bytes) -> None:
        """Refuse to be executed by an estimator of other parameters than the plan was made for."""
        if asked != self.asked:
            raise InvalidParameterError("The plan was made for other parameters; make another one.")

    def law(self, n_rows: int) -> CentralLaw:
        """Return the law that draws the release of so many rows."""
        return next(law for rows, law in reversed(self.laws) if rows <= n_rows)

    def guarantee_of(self, law: CentralLaw) -> Guarantee:
        """Return what a whole fit promises whose release is drawn by this law."""
        return compose([*self.choices.values(), law.guarantee()])

    @property
    def guarantees(self) -> dict[str, Guarantee]:
        """What a whole fit promises, by the name of the law."""
        return {law.name: self.guarantee_of(law) for _, law in self.laws}

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return {
            "n_features": self.n_features,
            "guarantee": self.guarantee.to_dict(),
            "choices": {name: part.epsilon for name, part in self.choices.items()},
            "laws": [{"from_rows": rows, "law": law.name, "parameters": law.parameters()} for rows, law in self.laws],
        }


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
    low, high = 0, _MANY_ROWS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if choose(middle) == few else (low, middle)
    return (0, make(few)), (high, make(many))


def asked_by(estimator: Any) -> bytes:
    """Return the parameters that decide about a plan, as bytes that are equal where they are."""
    asked = {name: value for name, value in estimator.get_params().items() if name not in ("ledger", "random_state")}
    return pickle.dumps((type(estimator).__qualname__, sorted(asked.items())))
