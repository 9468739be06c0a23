"""`plan`: the loss of every law before anything is spent, from public numbers alone."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from ..errors import (
    EigenveilError,
    InvalidParameterError,
    budget_epsilon,
    integer_between,
    one_of,
    positive_number,
    probability_below_one,
)
from ..guarantee import Relation
from ..mechanisms.table import LAWS, choose_law
from .expected import Forecast
from .forecast import MOST_ROWS, Scenario
from .plan_words import face, parts
from .planned_fit import PlannedFit
from .spectra import normalized_spectrum

T = TypeVar("T")
_WIDTH = 120
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Of the epsilon and of the rows that were asked about, for what is forecast beside them."""


@dataclass(frozen=True)
class Plan:
    """Forecasts for one set of public numbers; `print` shows them as a table.

    Attributes
    ----------
    n_rows, epsilon : int, float
        What was asked about.
    scenario : Scenario
        The other public numbers, and the assumed spectrum.
    target_loss : float or None
        The loss that was asked for.
    forecasts : tuple of Forecast
        Every law that can run, lowest mean loss first.
    left_out : dict
        The others, each with the reason.
    auto : str
        What the fit takes; here what ``law="auto"`` takes for directions alone.
    """

    n_rows: int
    epsilon: float
    scenario: Scenario
    target_loss: float | None
    forecasts: tuple[Forecast, ...]
    left_out: Mapping[str, str]
    auto: str

    def __getitem__(self, law: str) -> Forecast:
        """Return the forecast of one law."""
        names = tuple(forecast.law for forecast in self.forecasts)
        return self.forecasts[names.index(one_of("law", law, names))]

    @property
    def recommended(self) -> str:
        """The lowest mean loss among laws whose guarantee is proved and is the one asked for."""
        return next(forecast.law for forecast in self.forecasts if forecast.as_asked)

    @property
    def hopeless(self) -> bool:
        """Whether even the recommended law is not clearly better than a random subspace."""
        best = self[self.recommended]
        every_subspace = self.scenario.n_components == self.scenario.n_features  # there is only one, and it is found
        return not every_subspace and best.mean > best.random_loss - 2 * (best.standard_error or 0.0)

    @property
    def taken(self) -> Forecast:
        """The forecast of the law that the fit takes; of the recommended one where that one has none."""
        names = {forecast.law for forecast in self.forecasts}
        return self[self.auto if self.auto in names else self.recommended]

    def rows_for(self, target_loss: float, law: str | None = None) -> int | None:
        """Return about how many rows the law needs for the target loss at this epsilon.

        The recommended law by default; to three digits, from forecasts with the same random numbers for every
        n. None where 10^12 rows are not enough.
        """
        name = self._named(law)
        return self.scenario.rows_for(name, self.epsilon, _target(target_loss), self.n_rows)

    def epsilon_for(self, target_loss: float, law: str | None = None) -> float | None:
        """Return about which epsilon the law needs for the target loss with these rows; None beyond 1000."""
        name = self._named(law)
        return self.scenario.epsilon_for(name, self.n_rows, _target(target_loss), self.epsilon)

    def _named(self, law: str | None) -> str:
        return self.recommended if law is None else self[law].law

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return {
            "n_rows": self.n_rows,
            "epsilon": self.epsilon,
            **self.scenario.public(),
            "target_loss": self.target_loss,
            "recommended": self.recommended,
            "auto": self.auto,
            "hopeless": self.hopeless,
            "forecasts": [forecast.to_dict() for forecast in self.forecasts],
            "left_out": dict(self.left_out),
        }

    def against_epsilon(self, values: Sequence[float] | None = None) -> list[tuple[float, Forecast | str]]:
        """Return what the law of the fit comes to at other epsilons, or why it does not.

        By default from a tenth of what was asked about to ten times as much.
        """
        chosen = [factor * self.epsilon for factor in FACTORS] if values is None else values
        return [(value, self.at(self.n_rows, float(value))) for value in chosen]

    def against_rows(self, values: Sequence[int] | None = None) -> list[tuple[int, Forecast | str]]:
        """Return the same for other numbers of rows."""
        chosen = [round(factor * self.n_rows) for factor in FACTORS] if values is None else values
        return [(value, self.at(int(value), self.epsilon)) for value in chosen if 2 <= value <= MOST_ROWS]

    def at(self, n_rows: int, epsilon: float, law: str | None = None) -> Forecast | str:
        """Return the forecast of the law that the fit takes, or of another, at other numbers; or why there is none."""
        try:
            return self.scenario.forecast(self.taken.law if law is None else law, n_rows, epsilon)
        except EigenveilError as error:  # too few rows, noise beyond the integers, or no calibration
            return str(error)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the forecast of every law, lowest loss first."""
        return face(self)

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=StringIO(), width=_WIDTH, color_system=None, force_terminal=False)
        with console.capture() as captured:
            for part in parts(self):
                console.print(part, soft_wrap=isinstance(part, str))
        return "\n".join(line.rstrip() for line in captured.get().splitlines())


def plan(
    *,
    n_rows: int,
    n_features: int,
    n_components: int,
    epsilon: float,
    delta: float = 0.0,
    relation: Relation | str = Relation.REPLACE,
    spectrum: ArrayLike | None = None,
    energy: float = 0.5,
    target_loss: float | None = None,
    repeats: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Plan:
    """Forecast the loss of every law on data of an assumed spectrum. No data are read and nothing is spent.

    Parameters
    ----------
    n_rows, n_features, n_components : int
        Public sizes: n (a guess where the relation keeps it private), d and k.
    epsilon : float
        The budget of one release with a public norm bound and without centering.
    delta : float
        0 is pure differential privacy.
    relation : {"replace", "add_remove"}
        The neighbouring relation.
    spectrum : array_like of shape (n_features,), optional
        Assumed eigenvalues, in any unit: of a public data set, or a guess; the power law 1, 1/2, 1/3, ... by
        default. Taken from the private data it would be a leak.
    energy : float
        The mean squared norm of a row over the square of the norm bound, at most 1. Half as much costs as much as
        half the rows.
    target_loss : float, optional
        A loss between 0 and 1, for which the rows and the epsilon are found that each law needs.
    repeats : int, optional
        Simulated fits, at least 2; by default 2000/d, within 10 to 100. A Markov chain gets 20 at most.
    seed : int
        Of the simulation. Nothing secret depends on it.
    progress : bool
        Show a progress bar, if a terminal is attached.

    Returns
    -------
    Plan

    Examples
    --------
    >>> answer = plan(n_rows=20_000, n_features=8, n_components=2, epsilon=0.5, target_loss=1e-6, repeats=20)
    >>> answer.recommended, answer.auto
    ('matrix_laplace', 'matrix_laplace')
    >>> answer["matrix_laplace"].mean < answer["laplace"].mean < answer["random_projection"].mean
    True
    >>> answer["matrix_laplace"].rows_needed > 20_000
    True
    """
    width = integer_between("n_features", n_features, 1)
    k = integer_between("n_components", n_components, 1, width)
    n_rows, epsilon = integer_between("n_rows", n_rows, 1, MOST_ROWS), budget_epsilon(epsilon)
    delta, relation = probability_below_one("delta", delta), Relation.parse(relation)
    public: dict[str, Any] = {"n_rows": n_rows, "epsilon": epsilon, "delta": delta, "relation": relation}
    return plan_of(
        n_features=width,
        n_components=k,
        spectrum=spectrum,
        energy=energy,
        target_loss=target_loss,
        repeats=repeats,
        seed=seed,
        progress=progress,
        fits=None,
        auto=choose_law(n_features=width, n_components=k, **public),
        **public,
    )


def plan_of(
    *,
    n_rows: int,
    n_features: int,
    n_components: int | None,
    epsilon: float,
    delta: float,
    relation: Relation,
    spectrum: ArrayLike | None,
    energy: float,
    target_loss: float | None,
    repeats: int | None,
    seed: int,
    progress: bool,
    fits: Callable[[str, int, float], PlannedFit] | None,
    auto: str,
) -> Plan:
    """Return the plan of fits that somebody knows; `plan` and `estimators.forecasting.forecast` have the parameters."""
    repeats = max(10, min(100, 2000 // n_features)) if repeats is None else repeats
    scenario = Scenario(
        n_features,
        n_components,
        delta,
        relation,
        tuple(float(value) for value in normalized_spectrum(spectrum, n_features, energy)),
        integer_between("repeats", repeats, 2),
        integer_between("seed", seed, 0),
        fits,
    )
    if target_loss is not None:
        target_loss = _target(target_loss)
    forecasts, left_out = [], {}
    for name in tracked(LAWS, "laws", progress):
        refusal = LAWS[name].refusal(scenario.delta_for(LAWS[name]))
        if refusal is not None:
            left_out[name] = refusal
            continue
        try:
            forecast = scenario.forecast(name, n_rows, epsilon)
        except EigenveilError as error:  # noise beyond the integers, no calibration, or too few rows
            left_out[name] = str(error)
            continue
        if target_loss is not None and forecast.as_asked:
            forecast = replace(
                forecast,
                rows_needed=scenario.rows_for(name, epsilon, target_loss, n_rows),
                epsilon_needed=scenario.epsilon_for(name, n_rows, target_loss, epsilon),
            )
        forecasts.append(forecast)
    forecasts.sort(key=lambda forecast: forecast.mean)
    if not any(forecast.as_asked for forecast in forecasts):
        raise InvalidParameterError("No law can give this epsilon and delta; choose a larger epsilon.")
    return Plan(n_rows, epsilon, scenario, target_loss, tuple(forecasts), left_out, auto)


def _target(target_loss: float) -> float:
    if not 0 < positive_number("target_loss", target_loss) < 1:
        raise InvalidParameterError("target_loss must lie between 0 and 1.")
    return float(target_loss)


def tracked(items: Iterable[T], what: str, progress: bool) -> Iterable[T]:
    """Return the items, counted by a progress bar on the standard error if it was asked for and can be seen."""
    if not progress:
        return items
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(list(items), what, console=console, transient=True) if console.is_terminal else items
