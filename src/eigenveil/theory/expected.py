"""`Forecast`: what is to be expected of a fit, from the outcomes of simulated ones."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..guarantee import Guarantee
from .outlook import Outcome

# Components that are told one by one.
_SHOWN = 10


@dataclass(frozen=True)
class ComponentForecast:
    """What will be reported of one component, in shares of the total variance of the rows as they are used.

    Attributes
    ----------
    share : float
        The expected variance along the released direction.
    half_width : float or None
        Half of the 95 % interval that comes with it, in the median; None without a noise law.
    there : float
        In which part of the fits there is such a component: 1 where their number was asked for.
    """

    share: float
    half_width: float | None
    there: float = 1.0


@dataclass(frozen=True)
class Forecast:
    """What to expect of one law: the loss 1 - qF(V)/qF(V_k), and what will be reported.

    Attributes
    ----------
    law : str
        Its name in the table.
    mean, standard_error : float
        Mean of the simulated losses, and how far it may be off; no error is known for a first-order formula.
    low, high : float
        Nine in ten fits lose something between these.
    guarantee : Guarantee
        What a release would promise.
    as_asked : bool
        Whether the law may be recommended: its guarantee is proved and is the one asked for.
    note : str
        Why it may not, or how the numbers were made; often empty.
    rows_needed : int or None
        Rows at which the mean loss meets the target, other things equal; None if not asked for or out of reach.
    epsilon_needed : float or None
        The same for epsilon.
    random_loss : float
        The mean loss of as many directions at random, which know nothing.
    captured : float or None
        The share of the variance of the rows that the directions carry.
    components : tuple of ComponentForecast
        What will be reported of each; of at most ten.
    total, total_half_width : float or None
        The same for the total of all components.
    above_noise : float or None
        How many components rise above the noise, in the mean; None for laws without a noise law.
    preparation : str
        What becomes of rows, in words.
    """

    law: str
    mean: float
    standard_error: float | None
    low: float | None
    high: float | None
    guarantee: Guarantee
    as_asked: bool
    note: str = ""
    rows_needed: int | None = None
    epsilon_needed: float | None = None
    random_loss: float = 0.0
    captured: float | None = None
    components: tuple[ComponentForecast, ...] = ()
    total: float | None = None
    total_half_width: float | None = None
    above_noise: float | None = None
    preparation: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        components = [dict(component.__dict__) for component in self.components]
        return {**self.__dict__, "guarantee": self.guarantee.to_dict(), "components": components}


def reported(outcomes: list[Outcome]) -> dict[str, Any]:
    """Return what will be reported, over all simulated fits."""
    most = min(_SHOWN, max(outcome.shares.size for outcome in outcomes))
    components = []
    for i in range(most):
        there = [outcome for outcome in outcomes if outcome.shares.size > i]
        widths = [float(outcome.half_widths[i]) for outcome in there if outcome.half_widths is not None]
        share, width = float(np.mean([outcome.shares[i] for outcome in there])), float(np.median(widths or [math.nan]))
        components.append(ComponentForecast(share, width if widths else None, len(there) / len(outcomes)))
    totals = [outcome.total_half_width for outcome in outcomes if outcome.total_half_width is not None]
    above = [outcome.above_noise for outcome in outcomes if outcome.above_noise is not None]
    return {
        "random_loss": float(np.mean([outcome.random_loss for outcome in outcomes])),
        "captured": float(np.mean([outcome.captured for outcome in outcomes])),
        "components": tuple(components),
        "total": float(np.mean([outcome.shares.sum() for outcome in outcomes])),
        "total_half_width": float(np.median(totals)) if totals else None,
        "above_noise": float(np.mean(above)) if above else None,
    }
