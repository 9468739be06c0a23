"""What a mechanism will lose on data of an assumed spectrum, by simulation of its public law."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import EigenveilError
from ..guarantee import Guarantee, Numerics, Relation
from ..mechanisms import MECHANISMS, AdditiveMechanism, Mechanism
from ..mechanisms.eigenvector_sampling import EigenvectorSampling
from ..mechanisms.ppca import Ppca
from ..randomness import seeded_generator
from ..samplers.gibbs import haar_orthogonal
from .bounds import expected_loss

FloatArray = NDArray[np.float64]

BASELINES = ("random_projection", "none")
MOST_ROWS = 10**12
EPSILON_RANGE = (1e-3, 1e3)
# Beyond these widths a simulation takes minutes, and first-order formulas take over.
WIDEST_ADDITIVE = 1000
WIDEST_SAMPLED = 300
SEARCH_PRECISION = math.log(1.02)
FIRST_ORDER_NOTE = "too wide to simulate, so a first-order formula: it holds where eigenvalue gaps exceed the noise"


@dataclass(frozen=True)
class Forecast:
    """The loss 1 - qF(V)/qF(V_k) to expect of one mechanism: the share of the capturable variance that it misses.

    Attributes
    ----------
    mechanism : str
        Its name in the table.
    mean, standard_error : float
        Mean of the simulated losses, and how far it may be off; no error is known for a first-order formula.
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

    def mechanism(self, name: str, epsilon: float) -> Mechanism:
        """Return the mechanism with our constants; a pure one leaves delta unspent."""
        fields: dict[str, Any] = {
            "epsilon": epsilon,
            "n_features": self.n_features,
            "n_components": self.n_components,
            "relation": self.relation,
        }
        try:
            return MECHANISMS[name](delta=self.delta, **fields)
        except EigenveilError:
            if self.delta == 0:
                raise
            return MECHANISMS[name](delta=0.0, **fields)

    def forecast(self, name: str, n_rows: int, epsilon: float) -> Forecast:
        """Return the loss to expect of one mechanism."""
        mechanism = self.mechanism(name, epsilon)
        guarantee = mechanism.guarantee()
        note = _reservation(mechanism, guarantee, self.delta)
        as_asked = (
            name not in BASELINES
            and guarantee.claimed is None
            and guarantee.numerics is not Numerics.EMPIRICAL
            and guarantee.epsilon <= epsilon
            and guarantee.delta <= self.delta
        )
        if not self._simulates(mechanism):
            note = "; ".join(filter(None, (note, FIRST_ORDER_NOTE)))
            return Forecast(name, self.mean_loss(mechanism, n_rows), None, None, None, guarantee, as_asked, note)
        losses = self.losses(mechanism, n_rows)
        error = float(losses.std(ddof=1)) / math.sqrt(losses.size)
        low, high = (float(quantile) for quantile in np.quantile(losses, (0.05, 0.95)))
        return Forecast(name, float(losses.mean()), error, low, high, guarantee, as_asked, note)

    def mean_loss(self, mechanism: Mechanism, n_rows: int) -> float:
        """Return the mean loss, simulated where that is quick, and to first order elsewhere."""
        if self._simulates(mechanism):
            return float(self.losses(mechanism, n_rows).mean())
        return self._first_order(mechanism, n_rows)

    def losses(self, mechanism: Mechanism, n_rows: int) -> FloatArray:
        """Return simulated losses. The same seeds for every n and epsilon make them move smoothly with both."""
        d, spectrum = self.n_features, np.asarray(self.spectrum)
        best = spectrum[: self.n_components].sum()
        if not isinstance(mechanism, AdditiveMechanism):
            # Sampling does not depend on the basis, and several chains run faster together.
            size = self.repeats
            if mechanism.guarantee().numerics is Numerics.EMPIRICAL:
                size = min(size, max(4, min(20, 1000 // d)))
            drawn = mechanism.simulate(n_rows * np.diag(spectrum), seeded_generator(self.seed), size)
            return np.asarray(np.maximum(0.0, 1 - np.square(drawn).sum(axis=1) @ spectrum / best))
        losses = np.empty(self.repeats)
        for i, generator in enumerate(seeded_generator(self.seed).spawn(self.repeats)):
            # Independent entries are no rotation-invariant law, and eigenvectors seldom lie along the features.
            basis = haar_orthogonal(1, d, d, generator)[0]
            drawn = mechanism.simulate((basis * (n_rows * spectrum)) @ basis.T, generator)[0]
            losses[i] = 1 - np.square(drawn @ basis).sum(axis=0) @ spectrum / best
        return np.maximum(0.0, losses)  # rounding may leave it just below

    def rows_for(self, name: str, epsilon: float, target: float, start: int) -> int | None:
        """Return about how many rows bring the mean loss to the target, to three digits; None beyond 10^12."""
        mechanism = self.mechanism(name, epsilon)

        def loss(rows: float) -> float:
            return self.mean_loss(mechanism, math.ceil(rows))

        found = _smallest_meeting(loss, target, float(start), 1.0, float(MOST_ROWS))
        return None if found is None else math.ceil(_three_digits_up(found))

    def epsilon_for(self, name: str, n_rows: int, target: float, start: float) -> float | None:
        """Return about the epsilon that brings the mean loss to the target; None beyond 1000."""

        def loss(epsilon: float) -> float:
            return self.mean_loss(self.mechanism(name, epsilon), n_rows)

        found = _smallest_meeting(loss, target, start, *EPSILON_RANGE)
        return None if found is None else _three_digits_up(found)

    def _simulates(self, mechanism: Mechanism) -> bool:
        if isinstance(mechanism, AdditiveMechanism):
            return self.n_features <= WIDEST_ADDITIVE
        sampled = isinstance(mechanism, Ppca | EigenvectorSampling)
        return not sampled or self.n_features <= WIDEST_SAMPLED

    def _first_order(self, mechanism: Mechanism, n_rows: int) -> float:
        """Return the loss to first order in the noise, or that of a random subspace where it is smaller."""
        d, k, spectrum = self.n_features, self.n_components, np.asarray(self.spectrum)
        if k == d:
            return 0.0
        best = spectrum[:k].sum()
        if isinstance(mechanism, Ppca | EigenvectorSampling):
            loss = k * (d - k) / (2 * mechanism.strength * n_rows)
        else:
            loss = expected_loss(
                mechanism.name,
                eigenvalues=self.spectrum,
                n_components=k,
                n_rows=n_rows,
                epsilon=mechanism.epsilon,
                delta=mechanism.delta,
                relation=self.relation,
            ).loss
        return float(min(loss, best - k / d * spectrum.sum()) / best)


def _reservation(mechanism: Mechanism, guarantee: Guarantee, delta: float) -> str:
    if mechanism.name in BASELINES:
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
        except EigenveilError:  # out of the range of the mechanism
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
