"""What a law will lose on data of an assumed spectrum, by simulation of it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CapacityError, InvalidParameterError
from ..guarantee import Guarantee, Numerics, Relation
from ..laws.central import CentralLaw
from ..laws.table import LAWS
from ..randomness import seeded_generator
from ..samplers.gibbs import haar_orthogonal

FloatArray = NDArray[np.float64]

MOST_ROWS = 10**12
EPSILON_RANGE = (1e-3, 1e3)
SEARCH_PRECISION = math.log(1.02)
FIRST_ORDER_NOTE = "too wide to simulate, so a first-order formula: it holds where eigenvalue gaps exceed the noise"


@dataclass(frozen=True)
class Forecast:
    """The loss 1 - qF(V)/qF(V_k) to expect of one law: the share of the capturable variance that it misses.

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

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return {**self.__dict__, "guarantee": self.guarantee.to_dict()}


@dataclass(frozen=True)
class Scenario:
    """The public numbers that stay the same while n or epsilon vary."""

    n_features: int
    n_components: int
    delta: float
    relation: Relation
    spectrum: tuple[float, ...]
    repeats: int
    seed: int

    @property
    def random_loss(self) -> float:
        """The mean loss of a random subspace, which knows nothing."""
        best = sum(self.spectrum[: self.n_components])
        return 1 - self.n_components / self.n_features * sum(self.spectrum) / best

    def delta_for(self, kind: type[CentralLaw]) -> float:
        """Return the delta that a law spends: a pure one leaves it unspent."""
        return self.delta if kind.uses_delta(kind.calibrations[0]) else 0.0

    def law(self, name: str, epsilon: float) -> CentralLaw:
        """Return the law with our constants."""
        kind = LAWS[name]
        return kind(
            epsilon=epsilon,
            delta=self.delta_for(kind),
            n_features=self.n_features,
            n_components=self.n_components,
            relation=self.relation,
        )

    def forecast(self, name: str, n_rows: int, epsilon: float) -> Forecast:
        """Return the loss to expect of one law."""
        law = self.law(name, epsilon)
        guarantee = law.guarantee()
        note = _reservation(law, guarantee, self.delta)
        as_asked = (
            not law.baseline
            and guarantee.claimed is None
            and guarantee.numerics is not Numerics.EMPIRICAL
            and guarantee.epsilon <= epsilon
            and guarantee.delta <= self.delta
        )
        if not self._simulates(law):
            note = "; ".join(filter(None, (note, FIRST_ORDER_NOTE)))
            return Forecast(name, self.mean_loss(law, n_rows), None, None, None, guarantee, as_asked, note)
        losses = self.losses(law, n_rows)
        error = float(losses.std(ddof=1)) / math.sqrt(losses.size)
        low, high = (float(quantile) for quantile in np.quantile(losses, (0.05, 0.95)))
        return Forecast(name, float(losses.mean()), error, low, high, guarantee, as_asked, note)

    def mean_loss(self, law: CentralLaw, n_rows: int) -> float:
        """Return the mean loss, simulated where that is quick, and to first order elsewhere."""
        if self._simulates(law):
            return float(self.losses(law, n_rows).mean())
        return self.first_order(law, n_rows)

    def losses(self, law: CentralLaw, n_rows: int) -> FloatArray:
        """Return simulated losses. The same seeds for every n and epsilon make them move smoothly with both."""
        d, spectrum = self.n_features, np.asarray(self.spectrum)
        best = spectrum[: self.n_components].sum()
        if not law.adds_noise:
            # Sampling does not depend on the basis, and several chains run faster together.
            size = self.repeats
            if law.guarantee().numerics is Numerics.EMPIRICAL:
                size = min(size, max(4, min(20, 1000 // d)))
            drawn = law.simulate(n_rows * np.diag(spectrum), seeded_generator(self.seed), size)
            return np.asarray(np.maximum(0.0, 1 - np.square(drawn).sum(axis=1) @ spectrum / best))
        losses = np.empty(self.repeats)
        for i, generator in enumerate(seeded_generator(self.seed).spawn(self.repeats)):
            # Independent entries are no rotation-invariant law, and eigenvectors seldom lie along the features.
            basis = haar_orthogonal(1, d, d, generator)[0]
            drawn = law.simulate((basis * (n_rows * spectrum)) @ basis.T, generator)[0]
            losses[i] = 1 - np.square(drawn @ basis).sum(axis=0) @ spectrum / best
        return np.maximum(0.0, losses)  # rounding may leave it just below

    def rows_for(self, name: str, epsilon: float, target: float, start: int) -> int | None:
        """Return about how many rows bring the mean loss to the target, to three digits; None beyond 10^12."""
        law = self.law(name, epsilon)

        def loss(rows: float) -> float:
            return self.mean_loss(law, math.ceil(rows))

        found = _smallest_meeting(loss, target, float(start), 1.0, float(MOST_ROWS))
        return None if found is None else math.ceil(_three_digits_up(found))

    def epsilon_for(self, name: str, n_rows: int, target: float, start: float) -> float | None:
        """Return about the epsilon that brings the mean loss to the target; None beyond 1000."""

        def loss(epsilon: float) -> float:
            return self.mean_loss(self.law(name, epsilon), n_rows)

        found = _smallest_meeting(loss, target, start, *EPSILON_RANGE)
        return None if found is None else _three_digits_up(found)

    def _simulates(self, law: CentralLaw) -> bool:
        return self.n_features <= law.simulates_up_to

    def first_order(self, law: CentralLaw, n_rows: int) -> float:
        """Return the loss to first order in the noise, or that of a random subspace where it is smaller."""
        if self.n_components == self.n_features:
            return 0.0
        known = law.first_order_loss(np.asarray(self.spectrum), n_rows)
        if known is None:
            raise CapacityError(f"{law.name} is too wide to simulate here, and has no formula for its loss.")
        return min(known[0] / sum(self.spectrum[: self.n_components]), self.random_loss)


def _reservation(law: CentralLaw, guarantee: Guarantee, delta: float) -> str:
    if law.baseline:
        return "baseline, reads no data" if guarantee.is_private else "baseline, not private"
    if guarantee.claimed is not None:
        return f"published constants, which truly give epsilon {guarantee.epsilon:.3g}"
    if guarantee.numerics is Numerics.EMPIRICAL:
        return "a Markov chain: privacy not proved"
    return "leaves delta unspent" if guarantee.delta < delta else ""


def _smallest_meeting(
    loss: Callable[[float], float], target: float, start: float, low: float, high: float
) -> float | None:
    """Return the smallest number at which a falling `loss` is at most `target`, to 2 %; None where there is none.

    Works on logarithms, where the loss is nearly a straight line: false position, kept off the ends of the bracket.
    """

    def excess(log_number: float) -> float:
        try:
            return math.log(max(loss(math.exp(log_number)), 1e-300) / target)
        except (CapacityError, InvalidParameterError):  # beyond what the law can be made for or fits into
            return math.inf

    bottom, top, step = math.log(low), math.log(high), math.log(4)
    bad = good = min(max(math.log(start), bottom), top)
    above = below = excess(good)
    if below <= 0:
        while (above := excess(bad := max(good - step, bottom))) <= 0:
            if bad == bottom:
                return low
            good, below, step = bad, above, 2 * step
    else:
        while (below := excess(good := min(bad + step, top))) > 0:
            if good == top:
                return None
            bad, above, step = good, below, 2 * step
    while good - bad > SEARCH_PRECISION:
        share = above / (above - below) if math.isfinite(above) else 0.5
        # A little to the good side, so that the bracket closes from both ends.
        middle = bad + min(max(share + SEARCH_PRECISION / (2 * (good - bad)), 0.1), 0.9) * (good - bad)
        if (value := excess(middle)) <= 0:
            good, below = middle, value
        else:
            bad, above = middle, value
    return math.exp(good)


def _three_digits_up(number: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(number)) - 2)
    return float(f"{math.ceil(number / unit - 1e-9) * unit:.3g}")
