"""`Forecast`: what to expect of a fit, from assumed spectra and fits on made-up rows; in numbers, words and tables."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..display import notebook_grid, notebook_table
from ..errors import InvalidParameterError, integer_between, positive_number
from ..guarantee import Guarantee, Numerics
from ..mechanisms.base import CentralMechanism
from ..numerics import FloatArray

if TYPE_CHECKING:
    from rich.table import Table

    from .forecasts import Forecasts


def power_law(n_features: int, exponent: float = 1.0) -> FloatArray:
    """Return eigenvalues proportional to 1, 2^-exponent, 3^-exponent, ..., with sum 1.

    Examples
    --------
    >>> power_law(3, 1.0).round(3)
    array([0.545, 0.273, 0.182])
    """
    d = integer_between("n_features", n_features, 1)
    values = np.arange(1, d + 1) ** -positive_number("exponent", exponent)
    return np.asarray(values / values.sum())


def normalized_spectrum(spectrum: ArrayLike | None, n_features: int, energy: float) -> FloatArray:
    """Return eigenvalues of A, falling, with sum `energy`, for rows of norm at most 1.

    Parameters
    ----------
    spectrum : array_like of shape (n_features,), optional
        Eigenvalues in any unit and order; the power law 1, 1/2, 1/3, ... by default.
    n_features : int
        How many there must be.
    energy : float
        The mean squared norm of a row over the square of the norm bound, above 0 and at most 1.
    """
    if positive_number("energy", energy) > 1:
        raise InvalidParameterError("energy must be at most 1: no row is longer than the norm bound.")
    if spectrum is None:
        return power_law(n_features) * energy
    try:
        values = np.asarray(spectrum, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError("spectrum must be a list of numbers, one for every feature.") from None
    if values.ndim != 1 or values.size != n_features:
        raise InvalidParameterError(
            f"spectrum must have {n_features} numbers, one for every feature, and has {values.size}."
        )
    if not (np.isfinite(values).all() and values.min() >= 0 and values.max() > 0):
        raise InvalidParameterError("spectrum must be finite numbers of at least 0, not all of them 0.")
    values = np.sort(values)[::-1] / values.max()  # a sum of huge numbers could overflow
    return np.asarray(values * (energy / values.sum()))


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
        The variance along each direction; none where that was not read.
    half_widths : ndarray of shape (k,), optional
        Half of the 95 % interval around each; None where nothing is known of the error.
    total, total_half_width : float, optional
        The same for all k together.
    above_noise : int, optional
        How many components rise above the noise.
    """

    shares: FloatArray = field(default_factory=lambda: np.empty(0))
    half_widths: FloatArray | None = None
    total: float | None = None
    total_half_width: float | None = None
    above_noise: int | None = None


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
        The guarantee of a release.
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
        What will be reported of each; of at most ten, and of none where a mechanism releases directions alone, or loses
        far more than the one that is taken.
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
    totals = [one.total for one in read if one.total is not None]
    return {
        "mean": float(losses.mean()),
        "standard_error": float(losses.std(ddof=1)) / math.sqrt(losses.size),
        "low": low,
        "high": high,
        "random_loss": float(np.mean([outcome.random_loss for outcome in outcomes])),
        "captured": float(np.mean([outcome.captured for outcome in outcomes])),
        "components": tuple(components),
        "total": float(np.mean(totals)) if totals else None,
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
        # A mechanism that draws a whole matrix, for a mean or for correlations, was made for all directions.
        of_k = type(mechanism)(**{**mechanism.parameters(), "n_components": k})
        known = of_k.first_order_loss(used, n_rows)
        if known is None:
            return None
        mean = min(known[0] / float(used[:k].sum()), random)
    return {"mean": mean, "standard_error": None, "low": None, "high": None, "random_loss": random}


def standing(mechanism: CentralMechanism, guarantee: Guarantee, epsilon: float, delta: float) -> tuple[bool, str]:
    """Return whether a mechanism may be recommended to who asks for epsilon and delta, and what to say about it."""
    if mechanism.baseline:
        return False, "baseline, reads no data" if guarantee.is_private else "baseline, not private"
    if guarantee.claimed is not None:
        return False, f"published constants, which truly give epsilon {guarantee.epsilon:.3g}"
    if guarantee.numerics is Numerics.EMPIRICAL:
        return False, "a Markov chain: privacy not proved"
    note = "leaves delta unspent" if guarantee.delta < delta else ""
    return guarantee.epsilon <= epsilon and guarantee.delta <= delta, note


# A component that is there in fewer of the fits is not shown.
_SELDOM = 0.05


def parts(plan: "Forecasts") -> Iterator[Any]:
    """Yield the question, the mechanisms beside each other, what will be reported, and what to do: texts and tables."""
    yield header(plan)
    yield mechanisms_table(plan)
    if plan.taken.components:
        name = plan.taken.mechanism
        yield f"\nWhat a fit by {name} will report, as shares of the variance of the rows as they are used:"
        yield reported_table(plan)
        yield ""
    yield footer(plan)


def header(plan: "Forecasts") -> str:
    """Return the question in words."""
    scenario = plan.scenario
    energy = sum(scenario.spectrum)
    shares = ", ".join(f"{value / energy:.1%}" for value in scenario.spectrum[:4])
    target = "" if plan.target_loss is None else f", target loss {plan.target_loss:g}"
    k = "components above the noise" if scenario.n_components is None else f"{scenario.n_components} components"
    return (
        f"{plan.n_rows:,} rows of {scenario.n_features} features, {k}, "
        f"epsilon {plan.epsilon:g}, delta {scenario.delta:g}, {scenario.adjacency.value}{target}\n"
        f"Assumed: eigenvalues of {shares}{', ...' if scenario.n_features > 4 else ''} of the variance\n"
        f"Route: {plan.taken.preparation}"
    )


def mechanisms_table(plan: "Forecasts") -> "Table":
    """Return the forecasts of all mechanisms as a table for rich."""
    needed = ("rows needed", "or epsilon") if plan.target_loss else ()
    table = _table(["", "mechanism"], ["loss", "9 in 10 fits", "captured", "above noise", *needed])
    for forecast in plan.forecasts:
        chosen = forecast.mechanism == plan.recommended
        error = "" if forecast.standard_error is None else f" ± {forecast.standard_error:.1g}"
        band = "" if forecast.low is None else f"{forecast.low:.2g} to {forecast.high:.2g}"
        cells = ["→" if chosen else "", forecast.mechanism, f"{forecast.mean:.3g}{error}", band, *_captured(forecast)]
        if plan.target_loss is not None:
            rows, epsilon = forecast.rows_needed, forecast.epsilon_needed
            missing = "out of reach" if forecast.as_asked else ""
            cells += [f"{rows:,}" if rows else missing, f"{epsilon:g}" if epsilon else missing]
        table.add_row(*cells, style="bold" if chosen else None)
    return table


def reported_table(plan: "Forecasts") -> "Table":
    """Return what will be reported of every component, and of all together."""
    forecast = plan.taken
    counted = plan.scenario.n_components is None
    table = _table(["component"], ["variance", "width of its interval", *(["in fits"] if counted else [])])
    for number, one in enumerate(forecast.components, 1):
        if one.there < _SELDOM:
            break
        there = [f"{one.there:.0%}"] if counted else []
        table.add_row(str(number), f"{one.share:.1%}", _width(one.half_width), *there)
    table.add_row(
        "together", f"{forecast.total or 0:.1%}", _width(forecast.total_half_width), *([""] if counted else [])
    )
    return table


def against_table(what: str, forecasts: Sequence[tuple[float, Forecast | str]]) -> "Table":
    """Return forecasts of one mechanism against epsilon or the number of rows."""
    table = _table([what], ["loss", "captured", "above noise", "reported together", "width of its interval"])
    for value, forecast in forecasts:
        number = f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
        if isinstance(forecast, str):
            table.add_row(number, "refused")
            continue
        together = "" if forecast.total is None else f"{forecast.total:.1%}"
        width = _width(forecast.total_half_width)
        table.add_row(number, f"{forecast.mean:.3g}", *_captured(forecast), together, width)
    return table


def footer(plan: "Forecasts") -> str:
    """Return what to do, and the limits of the answer, in words."""
    lines = ["Loss: 1 - qF(V)/qF(V_k), the share of what PCA without privacy captures that is missed."]
    if plan.hopeless:
        lines.append("No mechanism is clearly better than a random subspace: more rows or epsilon are needed.")
    taken = "The fit takes" if plan.auto is not None else "The fit is refused unless it names"
    lines.append(f"Recommended: {plan.recommended}. {taken} {plan.auto or plan.recommended}.")
    notes = _grouped({forecast.mechanism: forecast.note for forecast in plan.forecasts if forecast.note})
    lines += [f"{', '.join(names)}: {note}." for note, names in notes.items()]
    left_out = _grouped({name: reason.removeprefix(f"{name} ") for name, reason in plan.left_out.items()})
    lines += [f"Left out: {', '.join(names)}: {reason}" for reason, names in left_out.items()]
    return "\n".join(lines)


def _table(words: Sequence[str], numbers: Sequence[str]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in words:
        table.add_column(column, no_wrap=True)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _captured(forecast: Forecast) -> tuple[str, str]:
    captured = "" if forecast.captured is None else f"{forecast.captured:.1%}"
    return captured, "" if forecast.above_noise is None else f"{forecast.above_noise:.1f}"


def _width(half: float | None) -> str:
    """Return the whole width: half of an interval that ends at 0 or 1 would reach beyond as a ±."""
    return "" if half is None else f"{200 * half:.2g} %"


def _grouped(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names that share a text, for every text."""
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        names.setdefault(text, []).append(name)
    return names


def forecasts_html(plan: "Forecasts") -> str:
    """Return a plan as HTML for a notebook: the forecast of every mechanism, lowest loss first."""
    asked = {"rows": f"{plan.n_rows:,}", "epsilon": f"{plan.epsilon:g}", **plan.scenario.public()}
    facts = {name: value for name, value in asked.items() if isinstance(value, str | int | float)}
    rows = [
        [
            one.mechanism,
            f"{one.mean:.3g}",
            "yes" if one.as_asked else "no",
            "taken" if one.mechanism == plan.auto else "",
        ]
        for one in plan.forecasts
    ]
    grid = notebook_grid(["mechanism", "loss of variance", "keeps the requested guarantee", "auto"], rows)
    return notebook_table("Forecast", facts, more=grid)
