"""`forecast`: what a fit will be worth, from real fits on made-up rows. No data are read and nothing is spent.

Gaussian rows of an assumed public spectrum are drawn from seeded random numbers, and the fit of the estimator is run on
them by each mechanism in turn. So no rule of the fit is written a second time. Two approximations keep it quick:

- At most `MOST_NUMBERS` / d rows are made (but twice as many as features). For more, epsilon is raised until the noise
  is, beside the matrix of the made-up rows, what it would be beside that of all. For pure mechanisms that is exact,
  since their noise depends on n * epsilon. It leaves out that more rows have smaller sampling errors; and with delta
  above 0 epsilon grows faster than n, and private choices of bounds with it.
- Tables wider than `WIDEST` get the loss to first order in the noise, by a formula of the mechanism.
"""

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..errors import (
    CapacityError,
    EigenveilError,
    InvalidParameterError,
    budget_epsilon,
    integer_between,
    one_of,
    positive_number,
    probability_below_one,
)
from ..guarantee import Adjacency, Guarantee, Numerics
from ..mechanisms import MECHANISMS, CentralMechanism
from ..notebook import tracked
from ..numerics import FloatArray, one_blas_thread
from ..postprocess.noise_spectrum import ABOVE_NOISE
from ..releases.origin import Request
from ..releases.record import Release
from ..sampling.matrix_bingham import haar_orthogonal
from ..sampling.randomness import seeded_generator
from ..tables.open import open_table
from ..theory import power_law
from .fit import Fit
from .parameters import Features, FitParameters, Needs, PCAParameters
from .plan import Plan, Route, plan_fit

if TYPE_CHECKING:  # neither scikit-learn nor rich, which take longer to load than a forecast
    from rich.table import Table

    from .pca import PrivatePCA

PUBLIC_NORM, PUBLIC_RANGES = 0.5, 1 / 3
"""The mean squared norm of a row over the squared bound, by default: with a public norm, and for features that are
spread evenly over their public ranges."""
MOST_NUMBERS, WIDEST = 200_000, 300
"""The largest table that is made up, in numbers and in features."""
REPEATS = 10
"""Fits of each mechanism, by default."""
MOST_ROWS, EPSILON_RANGE = 10**12, (1e-3, 1e3)
"""The largest number of rows that is forecast, and the values of epsilon that are searched."""
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Other values of epsilon and of the number of rows that are forecast, in units of the value that was asked about."""
# Intervals and components above the noise are computed from so many fits of the mechanism that is taken, since that
# takes longer than a fit, and from one fit of the others.
_READ = 3
# A mechanism that cannot be recommended, or does far worse than the one that is taken, gets one fit where the others
# get so many.
_BESIDE = 3
# Below an epsilon that is refused, so many are tried to each octave.
_STEPS = 4
_SAME_NOISE = 0.01
_MORE_NOISE = "forecast with more noise than so many rows have, so the loss is at most this"
_FORMULA = "a first-order formula, for so wide a table: it holds where eigenvalue gaps exceed the noise"
# A loss below it is rounding, to either side.
_ROUNDING = 1e-13
# Components that are listed one by one; one that is there in fewer of the fits than this share is not printed.
_SHOWN, _SELDOM = 10, 0.05
# Standard errors, of the best of several means over ten fits or so.
_CLEARLY = 4
# Logarithm of the precision of a search: means over a few fits are not known any better.
_SEARCH_PRECISION = math.log(1.05)
_WIDTH = 120


def normalized_spectrum(spectrum: ArrayLike | None, n_features: int, energy: float) -> FloatArray:
    """Return eigenvalues in falling order with sum `energy`, for rows of norm at most 1.

    Parameters
    ----------
    spectrum : array_like of shape (n_features,), optional
        Eigenvalues in any unit and order; the power law 1, 1/2, 1/3, ... by default.
    n_features : int
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


@dataclass(frozen=True)
class ComponentForecast:
    """Forecast of the report of one component, in shares of the total variance of the rows as they are used.

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
    """Forecast of a fit with one mechanism: the loss 1 - qF(V)/qF(V_k), and the report.

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


@dataclass
class _Outcome:
    """One simulated release: its loss, and what it reports in shares of the total variance, if that was read."""

    loss: float
    random_loss: float
    captured: float
    read: bool = False
    shares: Sequence[float] = ()
    half_widths: FloatArray | None = None
    total: float | None = None
    total_half_width: float | None = None
    above_noise: int | None = None


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Forecasts for one set of public numbers; `print` shows them as a table.

    Attributes
    ----------
    n_rows, epsilon : int, float
        What was asked about.
    n_features, n_components, delta, adjacency : int, int, float, Adjacency
        The other public numbers; `n_components` is None for the components above the noise.
    spectrum : tuple of float
        Assumed eigenvalues; their sum is the assumed energy.
    repeats, seed : int
        How many fits are averaged, and the seed of the simulation.
    target_loss : float or None
        The loss that was asked for.
    forecasts : tuple of Forecast
        Every mechanism that can run, lowest mean loss first.
    left_out : dict
        The others, each with the reason.
    auto : str, optional
        The mechanism that the fit takes; None where the fit is refused, and another mechanism has to be named.
    """

    MOST_ROWS: ClassVar[int] = MOST_ROWS
    EPSILON_RANGE: ClassVar[tuple[float, float]] = EPSILON_RANGE

    n_rows: int
    epsilon: float
    n_features: int
    n_components: int | None
    delta: float
    adjacency: Adjacency
    spectrum: tuple[float, ...]
    repeats: int
    seed: int
    target_loss: float | None
    forecasts: tuple[Forecast, ...]
    left_out: Mapping[str, str]
    auto: str | None
    _parameters: FitParameters = field(repr=False)
    _needs: Needs = field(repr=False)
    _request: Request = field(repr=False)
    _tables: dict[int, list[tuple[FloatArray, FloatArray, np.random.Generator]]] = field(
        default_factory=dict, repr=False
    )
    _found: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict, repr=False)

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
        every_subspace = self.n_components == self.n_features  # there is only one, and it is found
        return not every_subspace and best.mean > best.random_loss - _CLEARLY * (best.standard_error or 0.0)

    @property
    def taken(self) -> Forecast:
        """The forecast of the mechanism that the fit takes; of the recommended one where that one has none."""
        names = {forecast.mechanism for forecast in self.forecasts}
        return self[self.auto if self.auto is not None and self.auto in names else self.recommended]

    @property
    def wanted_in_words(self) -> str:
        """The components that are asked for, in words."""
        return "components above the noise" if self.n_components is None else f"{self.n_components} components"

    def rows_for(self, target_loss: float, mechanism: str | None = None) -> int | None:
        """Search for the number of rows at which a mechanism meets the target loss, at this epsilon.

        The recommended mechanism by default; to two digits, by fits on made-up rows. None where 10^12 rows are not
        enough.
        """
        name = self.recommended if mechanism is None else self[mechanism].mechanism
        found = smallest_meeting(
            lambda n_rows: self._forecast(name, math.ceil(n_rows), self.epsilon, read=0).mean,
            _checked_target(target_loss),
            float(self.n_rows),
            2.0,  # of one row there is no covariance
            float(MOST_ROWS),
        )
        return None if found is None else math.ceil(_two_digits_up(found))

    def epsilon_for(self, target_loss: float, mechanism: str | None = None) -> float | None:
        """Search for the epsilon at which a mechanism meets the target loss with these rows; None beyond 1000."""
        name = self.recommended if mechanism is None else self[mechanism].mechanism
        found = smallest_meeting(
            lambda epsilon: self._forecast(name, self.n_rows, epsilon, read=0).mean,
            _checked_target(target_loss),
            self.epsilon,
            *EPSILON_RANGE,
        )
        return None if found is None else _two_digits_up(found)

    def against_epsilon(self, values: Sequence[float] | None = None) -> list[tuple[float, Forecast | str]]:
        """Forecast the mechanism of the fit at other epsilons; the reason in words where it cannot run.

        By default from a tenth of what was asked about to ten times as much. From a third of the fits, all on the same
        made-up rows: so the change is known better than each of them.
        """
        chosen = [factor * self.epsilon for factor in FACTORS] if values is None else values
        return [(value, self.at(self.n_rows, float(value), few=True)) for value in chosen]

    def against_rows(self, values: Sequence[int] | None = None) -> list[tuple[int, Forecast | str]]:
        """Forecast the mechanism of the fit for other numbers of rows, as `against_epsilon` does."""
        chosen = [round(factor * self.n_rows) for factor in FACTORS] if values is None else values
        return [(value, self.at(int(value), self.epsilon, few=True)) for value in chosen if 2 <= value <= MOST_ROWS]

    def at(self, n_rows: int, epsilon: float, mechanism: str | None = None, *, few: bool = False) -> Forecast | str:
        """Return the forecast of a mechanism at other numbers, or why there is none.

        Parameters
        ----------
        n_rows, epsilon : int, float
        mechanism : str, optional
            The mechanism that the fit takes, by default.
        few : bool
            Whether a third of the fits will do.
        """
        name = self.taken.mechanism if mechanism is None else mechanism
        try:
            if (n_rows, epsilon) == (self.n_rows, self.epsilon):
                return self[name]
            return self._forecast(name, n_rows, epsilon, few=few)
        except EigenveilError as error:  # too few rows, noise beyond the integers, or no calibration
            return str(error)

    def _forecast(
        self, name: str, n_rows: int, epsilon: float, *, read: int = 1, much: float = math.inf, few: bool = False
    ) -> Forecast:
        """Return the forecast of one mechanism, with the report of the first `read` fits."""
        options = {**(self._parameters.mechanism_options or {}), "accept_inexact": True}  # is noted in the forecast
        delta = _delta_for(name, self._parameters.delta)
        by = replace(self._parameters, mechanism=name, epsilon=epsilon, delta=delta, mechanism_options=options)
        route, d = self._plan(by, n_rows).route(n_rows), self.n_features
        mechanism, guarantee, how = route.mechanism, route.guarantee, "; ".join(route.in_words())
        as_asked, note = _standing(mechanism, guarantee, epsilon, self._parameters.delta)
        if _bounded_publicly(route):
            how += f"; the square of the bound is {1 / np.sum(self.spectrum):.3g} times the mean squared norm of a row"
        most, approximation = max(MOST_NUMBERS // d, 2 * d), ""
        if d > WIDEST:
            numbers, approximation = self._to_first_order(route, n_rows), _FORMULA
        elif n_rows <= most:
            numbers = self._average(by, n_rows, read, much, few)
        else:
            wanted = tried = epsilon * _epsilon_factor(mechanism, n_rows / most)
            while True:
                try:
                    numbers = self._average(replace(by, epsilon=tried), most, read, much, few)
                    break
                except EigenveilError:  # beyond the largest epsilon that the mechanism can be made for, or be sure of
                    # The same steps for all, so that the largest one that is possible is found once.
                    tried = 2.0 ** ((math.ceil(_STEPS * math.log2(tried)) - 1) / _STEPS)
                    if tried < epsilon:
                        raise
            if tried != wanted and not mechanism.baseline:
                approximation = _MORE_NOISE
        note = "; ".join(filter(None, (note, approximation)))
        return Forecast(mechanism=name, guarantee=guarantee, as_asked=as_asked, note=note, preparation=how, **numbers)

    def _to_first_order(self, route: Route, n_rows: int) -> dict[str, Any]:
        """Return the loss to first order in the noise, at most that of a random subspace."""
        mechanism, rule, k, d = route.mechanism, route.rule, self.n_components, self.n_features
        if k is None:
            raise CapacityError(f"{mechanism.name} is too wide to simulate here; give a number of components.")
        spectrum = np.array(self.spectrum)
        total = float(spectrum.sum())
        # Rows of one length, or bounded privately, are taken to be as long as they may be.
        trace = total if _bounded_publicly(route) else 1.0
        used = spectrum / spectrum.sum() * (trace * rule.norm**2 / rule.reach_squared)
        random = 1 - k / d * total / float(spectrum[:k].sum())
        if k == d:
            mean = 0.0
        elif mechanism.baseline:
            mean = random if mechanism.guarantee().is_private else 0.0
        else:
            # A mechanism that draws a whole matrix, for a mean or for correlations, was made for all directions.
            known = type(mechanism)(**{**mechanism.parameters(), "n_components": k}).first_order_loss(used, n_rows)
            if known is None:
                raise CapacityError(f"{mechanism.name} is too wide to simulate here, and has no formula for its loss.")
            mean = min(known[0] / float(used[:k].sum()), random)
        return {"mean": mean, "standard_error": None, "low": None, "high": None, "random_loss": random}

    def _plan(self, parameters: FitParameters, n_rows: int) -> Plan:
        """Return the plan of a fit of so many rows."""
        return plan_fit(parameters, self._needs, Features.declared(self.n_features, parameters), n_rows)

    def _average(self, parameters: FitParameters, n_rows: int, read: int, much: float, few: bool) -> dict[str, Any]:
        """Return the numbers of a forecast from fits; a tenth of epsilon and of the rows may come to the same fits."""
        question = parameters.mechanism, float(f"{parameters.epsilon:.12g}"), n_rows, read, much, few
        if question not in self._found:
            self._found[question] = expected(self._outcomes(parameters, n_rows, read, much, few))
        return self._found[question]

    def _outcomes(self, parameters: FitParameters, n_rows: int, read: int, much: float, few: bool) -> list[_Outcome]:
        """Return fits of one mechanism, with the reports of the first `read` of those that lose at most `much`."""
        # What ranges are does not matter, only how long rows are beside them.
        ranges = (-1.0, 1.0) if _has_ranges(self._parameters) else None
        plan = self._plan(replace(parameters, schema=None, bounds=ranges, privacy_unit=None), n_rows)
        route = plan.route(n_rows)
        unit = route.rule.norm if _bounded_publicly(route) else 1.0
        recommendable, _ = _standing(route.mechanism, route.guarantee, parameters.epsilon, parameters.delta)
        third = max(2, self.repeats // _BESIDE)
        outcomes: list[_Outcome] = []
        releases: list[Release] = []
        loses_much = False
        with warnings.catch_warnings(), one_blas_thread():  # several would wait for one another at this size
            warnings.simplefilter("ignore")  # of noise, of seeds and of a large delta: all of it is public here
            for rows, true, generator in self._made_up(n_rows):
                if len(outcomes) == third:
                    loses_much = min(outcome.loss for outcome in outcomes) > much
                    if few or loses_much or not recommendable:
                        break
                source = open_table(rows if unit == 1 else rows * unit)
                release = Fit(
                    source,
                    plan,
                    copy.deepcopy(generator),
                    features=Features.of(source),
                    needs=self._needs,
                    request=self._request,
                    ledger=None,
                ).run()
                directions = release.spectrum.directions
                k, d = directions.shape
                best, trace = float(np.linalg.eigvalsh(true)[::-1][:k].sum()), float(np.trace(true))
                carried = float(np.einsum("ki,ij,kj->", directions, true, directions))
                loss = 1 - carried / best
                outcomes.append(_Outcome(loss if loss > _ROUNDING else 0.0, 1 - k / d * trace / best, carried / trace))
                releases += [release] if len(releases) < read else []
            for outcome, release in zip(outcomes, releases, strict=False):
                _read_report(outcome, release, whole=not loses_much)
        return outcomes

    def _made_up(self, n_rows: int) -> list[tuple[FloatArray, FloatArray, np.random.Generator]]:
        """Return made-up tables for all mechanisms: Gaussian rows, their matrix, and the generator after them."""
        if n_rows in self._tables:
            return self._tables[n_rows]
        values, d, standardize = np.array(self.spectrum), self.n_features, self._parameters.standardize
        tables = []
        for generator in seeded_generator(self.seed).spawn(self.repeats):
            if standardize and d > 1:
                import scipy.stats  # half of a second, which others do not wait for

                shares = values * (d / values.sum())
                correlation = scipy.stats.random_correlation.rvs(shares, random_state=generator, tol=1e-6)
                basis = np.linalg.eigh(correlation)[1][:, ::-1]
            else:
                basis = haar_orthogonal(1, d, d, generator)[0]
            rows = np.asarray(generator.standard_normal((n_rows, d)) * np.sqrt(values) @ basis.T)
            centred = rows - rows.mean(axis=0) if self._parameters.center else rows
            true = np.asarray(centred.T @ centred / len(rows))
            if standardize:
                sizes = np.sqrt(np.diag(true))
                true = np.asarray(true / np.outer(sizes, sizes))
            tables.append((rows, true, generator))
        self._tables[n_rows] = tables
        return tables

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return {
            "n_rows": self.n_rows,
            "epsilon": self.epsilon,
            "n_features": self.n_features,
            "n_components": self.n_components,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            "spectrum": list(self.spectrum),
            "repeats": self.repeats,
            "seed": self.seed,
            "target_loss": self.target_loss,
            "recommended": self.recommended,
            "auto": self.auto,
            "hopeless": self.hopeless,
            "forecasts": [forecast.to_dict() for forecast in self.forecasts],
            "left_out": dict(self.left_out),
        }

    def parts(self) -> Iterator[Any]:
        """Yield the question, the mechanisms, what will be reported, and what to do: texts and tables for rich."""
        energy, taken, target = sum(self.spectrum), self.taken, self.target_loss
        shares = ", ".join(f"{value / energy:.1%}" for value in self.spectrum[:4])
        yield (
            f"{self.n_rows:,} rows of {self.n_features} features, {self.wanted_in_words}, epsilon {self.epsilon:g}, "
            f"delta {self.delta:g}, {self.adjacency.value}{'' if target is None else f', target loss {target:g}'}\n"
            f"Assumed: eigenvalues of {shares}{', ...' if self.n_features > 4 else ''} of the variance\n"
            f"Route: {taken.preparation}"
        )
        yield self._mechanisms_table()
        if taken.components:
            name = taken.mechanism
            yield f"\nWhat a fit by {name} will report, as shares of the variance of the rows as they are used:"
            counted = self.n_components is None
            table = _table(["component"], ["variance", "width of its interval", *(["in fits"] if counted else [])])
            for number, one in enumerate(taken.components, 1):
                if one.there < _SELDOM:
                    break
                there = [f"{one.there:.0%}"] if counted else []
                table.add_row(str(number), f"{one.share:.1%}", _width(one.half_width), *there)
            last = [""] if counted else []
            table.add_row("together", f"{taken.total or 0:.1%}", _width(taken.total_half_width), *last)
            yield table
            yield ""
        lines = ["Loss: 1 - qF(V)/qF(V_k), the share of what PCA without privacy captures that is missed."]
        if self.hopeless:
            lines.append("No mechanism is clearly better than a random subspace: more rows or epsilon are needed.")
        takes = "The fit takes" if self.auto is not None else "The fit is refused unless it names"
        lines.append(f"Recommended: {self.recommended}. {takes} {self.auto or self.recommended}.")
        notes = _names_by_text({one.mechanism: one.note for one in self.forecasts if one.note})
        lines += [f"{names}: {note}." for note, names in notes.items()]
        left_out = _names_by_text({name: reason.removeprefix(f"{name} ") for name, reason in self.left_out.items()})
        lines += [f"Left out: {names}: {reason}" for reason, names in left_out.items()]
        yield "\n".join(lines)

    def _mechanisms_table(self) -> "Table":
        needed = ("rows needed", "or epsilon") if self.target_loss else ()
        table = _table(["", "mechanism"], ["loss", "9 in 10 fits", "captured", "above noise", *needed])
        for one in self.forecasts:
            chosen = one.mechanism == self.recommended
            error = "" if one.standard_error is None else f" ± {one.standard_error:.1g}"
            band = "" if one.low is None else f"{one.low:.2g} to {one.high:.2g}"
            cells = ["→" if chosen else "", one.mechanism, f"{one.mean:.3g}{error}", band, *_captured(one)]
            if self.target_loss is not None:
                missing = "out of reach" if one.as_asked else ""
                cells.append(f"{one.rows_needed:,}" if one.rows_needed else missing)
                cells.append(f"{one.epsilon_needed:g}" if one.epsilon_needed else missing)
            table.add_row(*cells, style="bold" if chosen else None)
        return table

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=StringIO(), width=_WIDTH, color_system=None, force_terminal=False)
        with console.capture() as captured:
            for part in self.parts():
                console.print(part, soft_wrap=isinstance(part, str))
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def against_table(what: str, forecasts: Iterable[tuple[float, Forecast | str]]) -> "Table":
    """Return forecasts of one mechanism against epsilon or the number of rows, as a table for rich."""
    table = _table([what], ["loss", "captured", "above noise", "reported together", "width of its interval"])
    for value, one in forecasts:
        number = f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
        if isinstance(one, str):
            table.add_row(number, "refused")
            continue
        together = "" if one.total is None else f"{one.total:.1%}"
        table.add_row(number, f"{one.mean:.3g}", *_captured(one), together, _width(one.total_half_width))
    return table


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
    # The whole width: half of an interval that ends at 0 or 1 would reach beyond as a ±.
    return "" if half is None else f"{200 * half:.2g} %"


def _names_by_text(texts: Mapping[str, str]) -> dict[str, str]:
    """Return every text with the names that share it."""
    return {text: ", ".join(name for name in texts if texts[name] == text) for text in texts.values()}


def forecast(
    estimator: "PrivatePCA | PCAParameters",
    n_features: int,
    n_rows: int,
    *,
    mechanisms: Sequence[str] | None = None,
    spectrum: ArrayLike | None = None,
    energy: float | None = None,
    target_loss: float | None = None,
    repeats: int = REPEATS,
    seed: int = 0,
    progress: bool = False,
) -> Forecasts:
    """Forecast the accuracy of a fit with every mechanism. No data are read and nothing is spent.

    The estimator is fitted to simulated Gaussian rows of mean zero.

    Parameters
    ----------
    estimator : PrivatePCA or PCAParameters
        With a number of components, or "above_noise".
    n_features, n_rows : int
        Public sizes of the table; guess n_rows if it is private.
    mechanisms : sequence of str, optional
        The mechanisms to compare; all by default.
    spectrum : array_like of shape (n_features,), optional
        Assumed eigenvalues of the rows, in any unit; with ``standardize=True`` of their correlations. Take it from a
        public data set, or guess it; the power law 1, 1/2, 1/3, ... by default. Do not take it from the private data.
    energy : float, optional
        Mean squared norm of a row divided by the squared norm bound, if a norm bound or ranges are public. Default:
        0.5, and 1/3 for ranges.
    target_loss : float, optional
        A loss between 0 and 1; the forecast then states the number of rows and the epsilon that each mechanism needs.
    repeats : int
        Simulated fits of each mechanism, at least 2; a third of them where it cannot be recommended, or loses far more
        than the mechanism that the fit takes.
    seed : int
        Seed of the simulation.
    progress : bool
        Show a progress bar, if a terminal is attached.

    Examples
    --------
    >>> from eigenveil import PrivatePCA
    >>> answer = forecast(PrivatePCA(2, epsilon=1.0), n_features=6, n_rows=300, repeats=4)
    >>> answer.auto, answer["matrix_laplace"].preparation
    ('matrix_laplace', 'directions of differences between rows; matrix_laplace')
    >>> answer["matrix_laplace"].mean > 0.01
    True
    """
    d, n = integer_between("n_features", n_features, 1), integer_between("n_rows", n_rows, 2, MOST_ROWS)
    names = [
        one_of("mechanism", name, tuple(MECHANISMS)) for name in (MECHANISMS if mechanisms is None else mechanisms)
    ]
    delta, epsilon = probability_below_one("delta", estimator.delta), budget_epsilon(estimator.epsilon)
    target = None if target_loss is None else _checked_target(target_loss)
    usual_energy = PUBLIC_RANGES if _has_ranges(estimator) else PUBLIC_NORM
    values = normalized_spectrum(spectrum, d, usual_energy if energy is None else energy)
    k: Any = estimator.n_components
    if k is None or isinstance(k, float) or (isinstance(k, str) and k != ABOVE_NOISE):
        raise InvalidParameterError("A forecast needs n_components as a number, or 'above_noise'.")
    parameters = FitParameters.of(estimator)
    answer = Forecasts(
        n_rows=n,
        epsilon=epsilon,
        n_features=d,
        n_components=None if k == ABOVE_NOISE else int(k),
        delta=delta,
        adjacency=parameters.adjacency,
        spectrum=tuple(map(float, values)),
        repeats=integer_between("repeats", repeats, 2),
        seed=integer_between("seed", seed, 0),
        target_loss=target,
        forecasts=(),
        left_out={},
        auto=None,
        _parameters=parameters,
        _needs=estimator._needs(),
        _request=estimator._request(Features.declared(d, parameters).n_features, None),
    )
    auto: str | None
    try:  # refuses what a fit would refuse whatever the mechanism
        auto = answer._plan(parameters, n).route(n).mechanism.name
    except CapacityError:  # noise beyond the integers, of one that another mechanism may not have
        auto = None
    forecasts, left_out, much = [], {}, math.inf
    for name in tracked(sorted(names, key=lambda name: name != auto), "mechanisms", progress):
        refusal = MECHANISMS[name].refusal(_delta_for(name, delta))
        if refusal is not None:
            left_out[name] = refusal
            continue
        try:
            found = answer._forecast(name, n, epsilon, read=_READ if name == auto else 1, much=much)
        except EigenveilError as error:  # noise beyond the integers, no calibration, or too few rows
            left_out[name] = str(error)
            continue
        if name == auto and found.high is not None:
            much = found.high
        forecasts.append(found)
    forecasts.sort(key=lambda one: one.mean)
    if not any(one.as_asked for one in forecasts):
        raise InvalidParameterError("No mechanism can give this epsilon and delta; choose a larger epsilon.")
    answer = replace(answer, forecasts=tuple(forecasts), left_out=left_out, auto=auto)
    if target is None:
        return answer
    needed = [
        replace(
            one,
            rows_needed=answer.rows_for(target, one.mechanism),
            epsilon_needed=answer.epsilon_for(target, one.mechanism),
        )
        if one.as_asked
        else one
        for one in forecasts
    ]
    return replace(answer, forecasts=tuple(needed))


def _read_report(outcome: _Outcome, release: Release, whole: bool) -> None:
    """Note the reported components of a release, or only how many are above the noise; nothing without variances."""
    shares = release.explained_variance_ratio if whole else ()
    if shares is None:
        return
    outcome.read = True
    outcome.above_noise = release.spectrum.n_above_noise if release.matrix.has_known_noise else None
    if not whole:
        return
    ends, total = release.spectrum.explained_variance_ratio_interval, release.spectrum.captured_variance_ratio_interval
    outcome.shares = [float(share) for share in shares]
    outcome.half_widths = None if ends is None else np.diff(ends)[:, 0] / 2
    outcome.total = release.spectrum.captured_variance_ratio or 0.0
    outcome.total_half_width = None if total is None else float(total[1] - total[0]) / 2


def expected(outcomes: Sequence[_Outcome]) -> dict[str, Any]:
    """Return the numbers of a `Forecast` from simulated fits."""
    losses = np.array([outcome.loss for outcome in outcomes])
    low, high = (float(quantile) for quantile in np.quantile(losses, (0.05, 0.95)))
    read = [outcome for outcome in outcomes if outcome.read]
    components = []
    for i in range(min(_SHOWN, max((len(one.shares) for one in read), default=0))):
        there = [one for one in read if len(one.shares) > i]
        width = _average_known(np.median, [None if one.half_widths is None else one.half_widths[i] for one in there])
        share = float(np.mean([one.shares[i] for one in there]))
        components.append(ComponentForecast(share, width, len(there) / len(read)))
    return {
        "mean": float(losses.mean()),
        "standard_error": float(losses.std(ddof=1)) / math.sqrt(losses.size),
        "low": low,
        "high": high,
        "random_loss": float(np.mean([outcome.random_loss for outcome in outcomes])),
        "captured": float(np.mean([outcome.captured for outcome in outcomes])),
        "components": tuple(components),
        "total": _average_known(np.mean, [one.total for one in read]),
        "total_half_width": _average_known(np.median, [one.total_half_width for one in read]),
        "above_noise": _average_known(np.mean, [one.above_noise for one in read]),
    }


def _average_known(average: Callable[[Any], Any], numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return float(average(known)) if known else None


def _standing(mechanism: CentralMechanism, guarantee: Guarantee, epsilon: float, delta: float) -> tuple[bool, str]:
    """Return whether a mechanism may be recommended for this epsilon and delta, and what to say about it."""
    if mechanism.baseline:
        return False, "baseline, reads no data" if guarantee.is_private else "baseline, not private"
    if guarantee.claimed is not None:
        return False, f"published constants, which truly give epsilon {guarantee.epsilon:.3g}"
    if guarantee.numerics is Numerics.EMPIRICAL:
        return False, "a Markov chain: privacy not proved"
    note = "leaves delta unspent" if guarantee.delta < delta else ""
    return guarantee.epsilon <= epsilon and guarantee.delta <= delta, note


def _epsilon_factor(mechanism: CentralMechanism, times: float) -> float:
    """Return the factor of epsilon that divides the noise by `times`."""
    factor = times
    for _ in range(20):
        noise = type(mechanism)(**{**mechanism.parameters(), "epsilon": factor * mechanism.epsilon}).equivalent_sd
        if noise == 0 or abs(math.log(noise * times / mechanism.equivalent_sd)) < _SAME_NOISE:
            break
        factor *= noise * times / mechanism.equivalent_sd
    return factor


def _delta_for(name: str, delta: float) -> float:
    """Return the delta that a mechanism spends: a pure one leaves it unspent."""
    kind = MECHANISMS[name]
    return delta if kind.uses_delta(kind.calibrations[0]) else 0.0


def _has_ranges(estimator: "PrivatePCA | FitParameters") -> bool:
    return estimator.bounds is not None or getattr(estimator.schema, "bounds", None) is not None


def _bounded_publicly(route: Route) -> bool:
    """Return whether rows are clipped to a public norm, so that it matters how long they are beside it."""
    return route.rule.keeps_lengths and not route.split.chosen


def _checked_target(target_loss: float) -> float:
    if not 0 < positive_number("target_loss", target_loss) < 1:
        raise InvalidParameterError("target_loss must lie between 0 and 1.")
    return float(target_loss)


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
    while good - bad > _SEARCH_PRECISION and below < -2 * _SEARCH_PRECISION:  # a loss of 1/n^2 falls twice as fast
        share = above / (above - below) if math.isfinite(above) else 0.5
        # A little to the good side, so that the bracket closes from both ends.
        middle = bad + min(max(share + _SEARCH_PRECISION / (2 * (good - bad)), 0.1), 0.9) * (good - bad)
        if (value := excess(middle)) <= 0:
            good, below = middle, value
        else:
            bad, above = middle, value
    return math.exp(good)


def _two_digits_up(number: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.ceil(number / unit - 1e-9) * unit:.3g}")
