"""`Forecast`: what to expect of a fit, from the outcomes of fits on made-up rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..guarantee import Guarantee, Numerics
from ..mechanisms.base import CentralMechanism
from ..numerics import FloatArray

# Components that are listed one by one.
_SHOWN = 10
# A loss below it is rounding, to either side.
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Outcome:
    """One release beside the made-up rows that it is of.

    Attributes
    ----------
    loss : float
        1 - qF(V)/qF(V_k) on these rows.
    random_loss : float
        The mean loss of as many directions at random.
    captured : float
        The share of the variance of the rows that the directions carry.
    reported : Reported, optional
        What the release reports; None where that was not read.
    """

    loss: float
    random_loss: float
    captured: float
    reported: "Reported | None" = None

    @classmethod
    def of(cls, directions: FloatArray, true: FloatArray, reported: "Reported | None" = None) -> "Outcome":
        """Return the outcome of released directions (k x d) for rows of this covariance.

        Examples
        --------
        >>> Outcome.of(np.array([[0.0, 1.0]]), np.diag([3.0, 1.0])).captured
        0.25
        """
        k, d = directions.shape
        best, trace = float(np.linalg.eigvalsh(true)[::-1][:k].sum()), float(np.trace(true))
        carried = float(np.einsum("ki,ij,kj->", directions, true, directions))
        loss = 1 - carried / best
        return cls(loss if loss > _ROUNDING else 0.0, 1 - k / d * trace / best, carried / trace, reported)


@dataclass(frozen=True, eq=False)
class Reported:
    """What one release reports of its components, as shares of the total variance.

    Attributes
    ----------
    shares : ndarray of shape (k,)
        The variance along each direction.
    half_widths : ndarray of shape (k,), optional
        Half of the 95 % interval around each; None where nothing is known of the error.
    total, total_half_width : float, float or None
        The same for all k together.
    above_noise : int, optional
        How many components rise above the noise.
    """

    shares: FloatArray
    half_widths: FloatArray | None
    total: float
    total_half_width: float | None
    above_noise: int | None


@dataclass(frozen=True)
class ComponentForecast:
    """What will be reported of one component, in shares of the total variance of the rows as they are used.

    Attributes
    ----------
    share : float
        The mean of the reported variance along the released direction.
    half_width : float or None
        Half of the 95 % interval that comes with it, in the median; None where there is none.
    there : float
        In which part of the fits there is such a component: 1 where their number was asked for.
    """

    share: float
    half_width: float | None
    there: float = 1.0


@dataclass(frozen=True)
class Forecast:
    """What to expect of one mechanism: the loss 1 - qF(V)/qF(V_k), and what will be reported.

    Attributes
    ----------
    mechanism : str
        Its name in the table.
    mean, standard_error : float
        Mean of the losses, and how far it may be off; no error is known for a first-order formula.
    low, high : float
        Nine in ten fits lose something between these.
    guarantee : Guarantee
        What a release would promise.
    as_asked : bool
        Whether the mechanism may be recommended: its guarantee is proved and is the one asked for.
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
        What will be reported of each; of at most ten, and of none where a mechanism releases directions alone.
    total, total_half_width : float or None
        The same for the total of all components.
    above_noise : float or None
        How many components rise above the noise, in the mean; None for mechanisms without a noise distribution.
    preparation : str
        What becomes of rows, in words.
    """

    mechanism: str
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


def expected(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the fields of a `Forecast` that outcomes of fits tell."""
    losses = np.array([outcome.loss for outcome in outcomes])
    low, high = (float(quantile) for quantile in np.quantile(losses, (0.05, 0.95)))
    read = [outcome.reported for outcome in outcomes if outcome.reported is not None]
    components = []
    for i in range(min(_SHOWN, max((one.shares.size for one in read), default=0))):
        there = [one for one in read if one.shares.size > i]
        width = _median([None if one.half_widths is None else float(one.half_widths[i]) for one in there])
        share = float(np.mean([one.shares[i] for one in there]))
        components.append(ComponentForecast(share, width, len(there) / len(read)))
    above = [one.above_noise for one in read if one.above_noise is not None]
    return {
        "mean": float(losses.mean()),
        "standard_error": float(losses.std(ddof=1)) / math.sqrt(losses.size),
        "low": low,
        "high": high,
        "random_loss": float(np.mean([outcome.random_loss for outcome in outcomes])),
        "captured": float(np.mean([outcome.captured for outcome in outcomes])),
        "components": tuple(components),
        "total": float(np.mean([one.total for one in read])) if read else None,
        "total_half_width": _median([one.total_half_width for one in read]),
        "above_noise": float(np.mean(above)) if above else None,
    }


def _median(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return float(np.median(known)) if known else None


def first_order(
    mechanism: CentralMechanism, used: FloatArray, spectrum: FloatArray, k: int, n_rows: int
) -> dict[str, Any] | None:
    """Return the loss to first order in the noise, at most that of a random subspace; None where there is no formula.

    Parameters
    ----------
    mechanism : CentralMechanism
    used : ndarray of shape (d,)
        Eigenvalues of the rows as they are used, for rows of norm at most 1, descending.
    spectrum : ndarray of shape (d,)
        Eigenvalues of the rows, descending.
    k, n_rows : int
    """
    best = float(spectrum[:k].sum())
    random = 1 - k / spectrum.size * float(spectrum.sum()) / best
    if k == spectrum.size:
        mean = 0.0
    elif mechanism.baseline:
        mean = random if mechanism.guarantee().is_private else 0.0
    else:
        known = mechanism.first_order_loss(used, n_rows)
        if known is None:
            return None
        mean = min(known[0] / float(used[:k].sum()), random)
    return {"mean": mean, "standard_error": None, "low": None, "high": None, "random_loss": random}


def standing(mechanism: CentralMechanism, guarantee: Guarantee, epsilon: float, delta: float) -> tuple[bool, str]:
    """Return whether a mechanism may be recommended for epsilon and delta, and what there is to say about it."""
    if mechanism.baseline:
        return False, "baseline, reads no data" if guarantee.is_private else "baseline, not private"
    if guarantee.claimed is not None:
        return False, f"published constants, which truly give epsilon {guarantee.epsilon:.3g}"
    if guarantee.numerics is Numerics.EMPIRICAL:
        return False, "a Markov chain: privacy not proved"
    note = "leaves delta unspent" if guarantee.delta < delta else ""
    return guarantee.epsilon <= epsilon and guarantee.delta <= delta, note
