"""What a law or a whole fit will come to, by simulation on assumed rows, and the search for what a target takes."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ..errors import CapacityError, EigenveilError
from ..guarantee import Guarantee, Numerics, Relation
from ..mechanisms.base import CentralLaw
from ..mechanisms.table import LAWS
from ..moments.row_rule import RowRule
from .expected import Forecast, reported
from .planned_fit import PlannedFit
from .rehearsal import Rehearsal

MOST_ROWS = 10**12
EPSILON_RANGE = (1e-3, 1e3)
SEARCH_PRECISION = math.log(1.02)
FIRST_ORDER_NOTE = "too wide to simulate, so a first-order formula: it holds where eigenvalue gaps exceed the noise"


@dataclass(frozen=True)
class Scenario:
    """The public numbers that stay the same while n or epsilon vary.

    `fits` tells what a fit by a law would do with so many rows and this epsilon: that of an estimator
    (`eigenveil.estimators.forecast`), or by default a release with a public norm bound and without centering, of
    rows that have the assumed spectrum themselves. `n_components` is None where those above the noise are taken.
    """

    n_features: int
    n_components: int | None
    delta: float
    relation: Relation
    spectrum: tuple[float, ...]
    repeats: int
    seed: int
    fits: Callable[[str, int, float], PlannedFit] | None = field(default=None, compare=False)

    def public(self) -> dict[str, Any]:
        """Return the numbers as plain types."""
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "fits"}
        return plain | {"relation": self.relation.value, "spectrum": list(self.spectrum)}

    def delta_for(self, kind: type[CentralLaw]) -> float:
        """Return the delta that a law spends: a pure one leaves it unspent."""
        return self.delta if kind.uses_delta(kind.calibrations[0]) else 0.0

    def fit(self, name: str, n_rows: int, epsilon: float) -> PlannedFit:
        """Return what a fit would do."""
        if self.fits is not None:
            return self.fits(name, n_rows, epsilon)
        kind = LAWS[name]
        law = kind(
            epsilon=epsilon,
            delta=self.delta_for(kind),
            n_features=self.n_features,
            n_components=self.n_components,
            relation=self.relation,
        )
        rule = RowRule(1.0)
        law.check_grid(rule.limit_squared)
        return PlannedFit(law, rule, n_rows, law.guarantee(), sampled=False)

    def forecast(self, name: str, n_rows: int, epsilon: float) -> Forecast:
        """Return what to expect of one law."""
        fit = self.fit(name, n_rows, epsilon)
        guarantee, note = fit.guarantee, _reservation(fit.law, fit.guarantee, self.delta)
        as_asked = (
            not fit.law.baseline
            and guarantee.claimed is None
            and guarantee.numerics is not Numerics.EMPIRICAL
            and guarantee.epsilon <= epsilon
            and guarantee.delta <= self.delta
        )
        how = fit.in_words()
        if fit.bounds_publicly:
            how += f", whose square is {1 / sum(self.spectrum):.3g} times the mean squared norm of a row"
        if not self._simulates(fit.law):
            note = "; ".join(filter(None, (note, FIRST_ORDER_NOTE)))
            mean, random = self.first_order(fit)
            return Forecast(
                name, mean, None, None, None, guarantee, as_asked, note, random_loss=random, preparation=how
            )
        outcomes = self._rehearsal(fit).outcomes()
        losses = np.array([outcome.loss for outcome in outcomes])
        error = float(losses.std(ddof=1)) / math.sqrt(losses.size)
        low, high = (float(quantile) for quantile in np.quantile(losses, (0.05, 0.95)))
        loss = float(losses.mean())
        return Forecast(name, loss, error, low, high, guarantee, as_asked, note, preparation=how, **reported(outcomes))

    def mean_loss(self, name: str, n_rows: int, epsilon: float) -> float:
        """Return the mean loss, simulated where that is quick, and to first order elsewhere."""
        fit = self.fit(name, n_rows, epsilon)
        if not self._simulates(fit.law):
            return self.first_order(fit)[0]
        return float(np.mean([outcome.loss for outcome in self._rehearsal(fit).outcomes()]))

    def rows_for(self, name: str, epsilon: float, target: float, start: int) -> int | None:
        """Return about how many rows bring the mean loss to the target, to three digits; None beyond 10^12."""

        def loss(rows: float) -> float:
            return self.mean_loss(name, math.ceil(rows), epsilon)

        fewest = 1.0 if self.fits is None else 2.0  # of one row there is no covariance
        found = _smallest_meeting(loss, target, float(start), fewest, float(MOST_ROWS))
        return None if found is None else math.ceil(_three_digits_up(found))

    def epsilon_for(self, name: str, n_rows: int, target: float, start: float) -> float | None:
        """Return about the epsilon that brings the mean loss to the target; None beyond 1000."""

        def loss(epsilon: float) -> float:
            return self.mean_loss(name, n_rows, epsilon)

        found = _smallest_meeting(loss, target, start, *EPSILON_RANGE)
        return None if found is None else _three_digits_up(found)

    def _rehearsal(self, fit: PlannedFit) -> Rehearsal:
        return Rehearsal(fit, self.spectrum, self.n_components, self.repeats, self.seed)

    def _simulates(self, law: CentralLaw) -> bool:
        return self.n_features <= law.simulates_up_to

    def first_order(self, fit: PlannedFit) -> tuple[float, float]:
        """Return the loss to first order in the noise, at most that of a random subspace, and the latter."""
        if self.n_components is None:
            raise CapacityError(f"{fit.law.name} is too wide to simulate here; give a number of components.")
        k, spectrum = self.n_components, np.asarray(self.spectrum)
        best = float(spectrum[:k].sum())
        random = 1 - k / self.n_features * float(spectrum.sum()) / best
        if k == self.n_features:
            return 0.0, random
        used = self._rehearsal(fit).mean_used() if fit.sampled else spectrum
        known = fit.law.first_order_loss(used, fit.n_rows)
        if known is None:
            raise CapacityError(f"{fit.law.name} is too wide to simulate here, and has no formula for its loss.")
        return min(known[0] / float(used[:k].sum()), random), random


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
        except EigenveilError:  # beyond what the law can be made for or fits into, or too few rows
            return math.inf

    bottom, top, step = math.log(low), math.log(high), math.log(2)
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
