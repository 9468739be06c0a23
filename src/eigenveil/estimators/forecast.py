"""From the plan of an estimator to a forecast of what its fit will report; public numbers alone, and nothing is spent.

`estimator.plan` is asked what a fit would do at every number of rows and every epsilon, so a forecast takes the rule of
the rows, the law and the shares of the budget from where the fit takes them.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import clone

from ..errors import InvalidParameterError, integer_between
from ..errors import probability_below_one as probability
from ..guarantee import Relation
from ..mechanisms import LAWS, CentralLaw
from ..mechanisms.budget import Portion
from ..mechanisms.gaussian import Gaussian
from ..postprocess.above_noise import ABOVE_NOISE
from ..theory.expected import Forecast
from ..theory.forecast import Scenario
from ..theory.plan import Plan, plan_of
from ..theory.planned_fit import PlannedFit
from ..theory.spectra import normalized_spectrum
from .plan import SpendPlan, balanced_rows
from .preparation import told
from .ranges import SEARCHES, pairs_beyond
from .split import MEANS, NORM_PLACES, NORM_SEARCHES

PUBLIC_NORM, PUBLIC_RANGES = 0.5, 1 / 3
"""The mean squared norm of a row over the squared bound, by default: with a public norm, and for features that are
spread evenly over their public ranges."""


def forecast(
    estimator: Any,
    n_features: int,
    n_rows: int,
    *,
    spectrum: ArrayLike | None = None,
    energy: float | None = None,
    target_loss: float | None = None,
    repeats: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Plan:
    """Forecast what a fit of this estimator will report, by every law; no data are read and nothing is spent.

    Rows are assumed to be Gaussian, with a mean of zero where it matters, and prepared as the fit would prepare them.

    Parameters
    ----------
    estimator : PrivatePCA
        With a number of components, or "above_noise".
    n_features, n_rows : int
        Public sizes (n is a guess where the relation keeps it private).
    spectrum : array_like of shape (n_features,), optional
        Assumed eigenvalues of the rows, in any unit; with ``standardize=True`` of their correlations. From a public
        data set, or a guess: the power law 1, 1/2, 1/3, ... by default. From the private data it would be a leak.
    energy : float, optional
        Where a norm bound or ranges are public: the mean squared norm of a row over the squared norm bound. By default
        0.5, and 1/3 for ranges. Elsewhere nothing depends on it.
    target_loss, repeats, seed, progress
        As in `eigenveil.theory.plan`.

    Examples
    --------
    >>> from eigenveil import PrivatePCA
    >>> answer = forecast(PrivatePCA(2, epsilon=1.0), n_features=6, n_rows=300, repeats=10)
    >>> answer.auto, answer["matrix_laplace"].preparation[:23]
    ('matrix_laplace', 'directions between rows')
    >>> answer["matrix_laplace"].mean > 0.01
    True
    """
    d, n = integer_between("n_features", n_features, 1), integer_between("n_rows", n_rows, 2)
    k = _number_wanted(estimator)
    chosen = estimator.plan(d, n)  # which refuses what the fit would refuse
    return plan_of(
        n_rows=n,
        n_features=d,
        n_components=k,
        epsilon=float(estimator.epsilon),
        delta=probability("delta", estimator.delta),
        relation=Relation.parse(estimator.relation),
        spectrum=spectrum,
        energy=_usual_energy(estimator) if energy is None else energy,
        target_loss=target_loss,
        repeats=repeats,
        seed=seed,
        progress=progress,
        fits=planned_fits(estimator, d),
        auto=chosen.law(n).name,
    )


def forecast_of_fit(estimator: Any, n_features: int, n_rows: int, *, repeats: int = 20, seed: int = 0) -> Forecast:
    """Return what to expect of the law that a fit takes, with the usual assumptions: quicker than that of every law."""
    name = estimator.plan(n_features, n_rows).law(n_rows).name
    spectrum = tuple(map(float, normalized_spectrum(None, n_features, _usual_energy(estimator))))
    scenario = Scenario(
        n_features,
        _number_wanted(estimator),
        estimator.delta,
        Relation.parse(estimator.relation),
        spectrum,
        repeats,
        seed,
        planned_fits(estimator, n_features),
    )
    return scenario.forecast(name, n_rows, estimator.epsilon)


def _number_wanted(estimator: Any) -> int | None:
    """Return how many components are asked for; None for those above the noise."""
    wanted = estimator.n_components
    if wanted is None or isinstance(wanted, float) or (isinstance(wanted, str) and wanted != ABOVE_NOISE):
        raise InvalidParameterError("A forecast needs n_components as a number, or 'above_noise'.")
    return None if wanted == ABOVE_NOISE else int(wanted)


def planned_fits(estimator: Any, n_features: int) -> Callable[[str, int, float], PlannedFit]:
    """Return what fits of an estimator would do, by law, number of rows and epsilon."""

    def fit(name: str, n_rows: int, epsilon: float) -> PlannedFit:
        kind = LAWS[name]
        # A pure law leaves delta unspent, and one that is not exact is forecast with a reservation.
        delta = estimator.delta if kind.uses_delta(kind.calibrations[0]) else 0.0
        options = {**(estimator.law_options or {}), "accept_inexact": True}
        model = clone(estimator).set_params(law=name, epsilon=epsilon, delta=delta, law_options=options)
        return planned_fit(model.plan(n_features, n_rows), n_rows, told(model, "standardize"))

    return fit


def planned_fit(plan: SpendPlan, n_rows: int, correlation: bool) -> PlannedFit:
    """Return what a plan does with so many rows, as a forecast needs it."""
    preparation, law, stages = plan.preparation_for(plan.n_features), plan.law(n_rows), plan.stages_for(n_rows)
    rule = preparation.bound.rule
    beyond = None
    if preparation.ranges:
        pairs, searched = n_rows // 2, len(preparation.ranges)
        beyond = float(pairs_beyond(pairs, searched, plan.cost("bounds") / SEARCHES) / max(1, pairs))
    searches = "norm_bound" in plan.choices
    # Ranges that are found have their middle beside the mean.
    one = isinstance(law, Gaussian) and beyond is None and stages.one_mean_may_do(law, n_rows)
    rounds = 1 if one else len(MEANS)
    return PlannedFit(
        law,
        rule,
        n_rows,
        plan.guarantee_of(law),
        correlation=correlation,
        search=(plan.cost("norm_bound"), plan.rows_beyond(n_rows)) if searches else None,
        range_beyond=beyond,
        mean=stages.mean * rounds / len(MEANS),
        norm=stages.norm * (rounds - searches) / NORM_SEARCHES,
        rounds=rounds,
        first=stages.first,
        mapped_norm=stages.mapped_norm,
        residual_beyond=_beyond_without_mean(law, replace(rule, constant=None), stages.norm, n_rows),
    )


def _beyond_without_mean(law: CentralLaw, rule: Any, share: Any, n_rows: int) -> int:
    """Return how many rows the bound for rows without their mean leaves beyond it, as `StagedFit` looks for it."""
    if not share or not isinstance(law, Gaussian):
        return 0
    portion = Portion(law.epsilon, law.delta, share / NORM_SEARCHES)
    most = max(float(balanced_rows(law, rule)), 2 * portion.count_sd(NORM_PLACES))
    return math.floor(min(most, n_rows / 2))


def _usual_energy(estimator: Any) -> float:
    ranges = estimator.bounds is not None or getattr(estimator.schema, "bounds", None) is not None
    return PUBLIC_RANGES if ranges else PUBLIC_NORM
