"""`Forecasts` for one set of public numbers, and the search for the rows or the epsilon that a target takes."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from io import StringIO
from typing import Any, Protocol, TypeVar

from ..errors import EigenveilError, InvalidParameterError, one_of, positive_number
from ..guarantee import Adjacency
from .forecast import Forecast, forecasts_html, parts

T = TypeVar("T")
_WIDTH = 120
MOST_ROWS = 10**12
EPSILON_RANGE = (1e-3, 1e3)
# Means over a few fits are not known any better.
SEARCH_PRECISION = math.log(1.05)
# Standard errors, of the best of several means over ten fits or so.
_CLEARLY = 4
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Of the epsilon and of the rows that were asked about, for what is forecast beside them."""


class Fits(Protocol):
    """Who runs fits on made-up rows: `eigenveil.estimators.forecast`, since nothing here may reach a row."""

    def forecast(self, name: str, n_rows: int, epsilon: float, *, few: bool = False) -> Forecast:
        """Return what to expect of one mechanism; by a third of the fits where few will do."""
        ...

    def mean_loss(self, name: str, n_rows: int, epsilon: float) -> float:
        """Return the mean loss alone, which is quicker."""
        ...


@dataclass(frozen=True)
class Scenario:
    """The public numbers that stay the same while n or epsilon vary.

    `n_components` is None where those above the noise are taken. `spectrum` sums to the assumed energy, and `repeats`
    fits are averaged.
    """

    n_features: int
    n_components: int | None
    delta: float
    adjacency: Adjacency
    spectrum: tuple[float, ...]
    repeats: int
    seed: int
    fits: Fits = field(compare=False, repr=False)

    def public(self) -> dict[str, Any]:
        """Return the numbers as plain types."""
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "fits"}
        return plain | {"adjacency": self.adjacency.value, "spectrum": list(self.spectrum)}

    def rows_for(self, name: str, epsilon: float, target: float, start: int) -> int | None:
        """Return about how many rows bring the mean loss to the target, to two digits; None beyond 10^12."""

        def loss(rows: float) -> float:
            return self.fits.mean_loss(name, math.ceil(rows), epsilon)

        found = smallest_meeting(loss, target, float(start), 2.0, float(MOST_ROWS))  # of one row there is no covariance
        return None if found is None else math.ceil(_two_digits_up(found))

    def epsilon_for(self, name: str, n_rows: int, target: float, start: float) -> float | None:
        """Return about the epsilon that brings the mean loss to the target; None beyond 1000."""

        def loss(epsilon: float) -> float:
            return self.fits.mean_loss(name, n_rows, epsilon)

        found = smallest_meeting(loss, target, start, *EPSILON_RANGE)
        return None if found is None else _two_digits_up(found)


@dataclass(frozen=True)
class Forecasts:
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
        Every mechanism that can run, lowest mean loss first.
    left_out : dict
        The others, each with the reason.
    auto : str, optional
        The mechanism that the fit takes; None where the fit is refused, and another mechanism has to be named.
    """

    n_rows: int
    epsilon: float
    scenario: Scenario
    target_loss: float | None
    forecasts: tuple[Forecast, ...]
    left_out: Mapping[str, str]
    auto: str | None

    def __getitem__(self, mechanism: str) -> Forecast:
        """Return the forecast of one mechanism."""
        names = tuple(forecast.mechanism for forecast in self.forecasts)
        return self.forecasts[names.index(one_of("mechanism", mechanism, names))]

    @property
    def recommended(self) -> str:
        """The lowest mean loss among mechanisms whose guarantee is proved and is the one asked for."""
        return next(forecast.mechanism for forecast in self.forecasts if forecast.as_asked)

    @property
    def hopeless(self) -> bool:
        """Whether even the recommended mechanism is not clearly better than a random subspace."""
        best = self[self.recommended]
        every_subspace = self.scenario.n_components == self.scenario.n_features  # there is only one, and it is found
        return not every_subspace and best.mean > best.random_loss - _CLEARLY * (best.standard_error or 0.0)

    @property
    def taken(self) -> Forecast:
        """The forecast of the mechanism that the fit takes; of the recommended one where that one has none."""
        names = {forecast.mechanism for forecast in self.forecasts}
        return self[self.auto if self.auto is not None and self.auto in names else self.recommended]

    def rows_for(self, target_loss: float, mechanism: str | None = None) -> int | None:
        """Return about how many rows the mechanism needs for the target loss at this epsilon.

        The recommended mechanism by default; to two digits, by a search over fits on made-up rows. None where 10^12
        rows are not enough.
        """
        name = self._named(mechanism)
        return self.scenario.rows_for(name, self.epsilon, checked_target(target_loss), self.n_rows)

    def epsilon_for(self, target_loss: float, mechanism: str | None = None) -> float | None:
        """Return about which epsilon the mechanism needs for the target loss with these rows; None beyond 1000."""
        name = self._named(mechanism)
        return self.scenario.epsilon_for(name, self.n_rows, checked_target(target_loss), self.epsilon)

    def _named(self, mechanism: str | None) -> str:
        return self.recommended if mechanism is None else self[mechanism].mechanism

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
        """Return what the mechanism of the fit comes to at other epsilons, or why it does not.

        By default from a tenth of what was asked about to ten times as much. From a third of the fits, all on the same
        made-up rows: so the change is known better than each of them.
        """
        chosen = [factor * self.epsilon for factor in FACTORS] if values is None else values
        return [(value, self._beside(self.n_rows, float(value))) for value in chosen]

    def against_rows(self, values: Sequence[int] | None = None) -> list[tuple[int, Forecast | str]]:
        """Return the same for other numbers of rows."""
        chosen = [round(factor * self.n_rows) for factor in FACTORS] if values is None else values
        return [(value, self._beside(int(value), self.epsilon)) for value in chosen if 2 <= value <= MOST_ROWS]

    def at(self, n_rows: int, epsilon: float, mechanism: str | None = None) -> Forecast | str:
        """Return the forecast of the mechanism that the fit takes, or of another, at other numbers; or why not."""
        return self._at(n_rows, epsilon, self.taken.mechanism if mechanism is None else mechanism)

    def _beside(self, n_rows: int, epsilon: float) -> Forecast | str:
        return self._at(n_rows, epsilon, self.taken.mechanism, few=True)

    def _at(self, n_rows: int, epsilon: float, name: str, few: bool = False) -> Forecast | str:
        try:
            if (n_rows, epsilon) == (self.n_rows, self.epsilon):
                return self[name]
            return self.scenario.fits.forecast(name, n_rows, epsilon, few=few)
        except EigenveilError as error:  # too few rows, noise beyond the integers, or no calibration
            return str(error)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the forecast of every mechanism, lowest loss first."""
        return forecasts_html(self)

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=StringIO(), width=_WIDTH, color_system=None, force_terminal=False)
        with console.capture() as captured:
            for part in parts(self):
                console.print(part, soft_wrap=isinstance(part, str))
        return "\n".join(line.rstrip() for line in captured.get().splitlines())


def checked_target(target_loss: float) -> float:
    """Return a loss between 0 and 1, or refuse it."""
    if not 0 < positive_number("target_loss", target_loss) < 1:
        raise InvalidParameterError("target_loss must lie between 0 and 1.")
    return float(target_loss)


def tracked(items: Iterable[T], what: str, progress: bool) -> Iterable[T]:
    """Return the items, counted by a progress bar on the standard error if it was asked for and can be seen."""
    if not progress:
        return items
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        return items
    from rich.progress import track

    return track(list(items), what, console=console, transient=True)


def smallest_meeting(
    loss: Callable[[float], float], target: float, start: float, low: float, high: float
) -> float | None:
    """Return the smallest number at which a falling `loss` is at most `target`, to 5 %; None where there is none.

    Works on logarithms, where the loss is nearly a straight line: false position, kept off the ends of the bracket.

    Examples
    --------
    >>> 10 <= smallest_meeting(lambda rows: 1 / rows**2, 0.01, 1000.0, 1.0, 1e6) < 10.5
    True
    """

    def excess(log_number: float) -> float:
        try:
            return math.log(max(loss(math.exp(log_number)), 1e-300) / target)
        except EigenveilError:  # beyond what the mechanism can be made for or fits into, or too few rows
            return math.inf

    bottom, top, step = math.log(low), math.log(high), math.log(2)
    bad = good = min(max(math.log(start), bottom), top)
    above = below = excess(good)
    if math.isfinite(below):
        step = max(step, abs(below) / 2)  # noise of 1/n makes losses of about 1/n^2
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
    while good - bad > SEARCH_PRECISION and below < -2 * SEARCH_PRECISION:  # a loss of 1/n^2 falls twice as fast
        share = above / (above - below) if math.isfinite(above) else 0.5
        # A little to the good side, so that the bracket closes from both ends.
        middle = bad + min(max(share + SEARCH_PRECISION / (2 * (good - bad)), 0.1), 0.9) * (good - bad)
        if (value := excess(middle)) <= 0:
            good, below = middle, value
        else:
            bad, above = middle, value
    return math.exp(good)


def _two_digits_up(number: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.ceil(number / unit - 1e-9) * unit:.3g}")
