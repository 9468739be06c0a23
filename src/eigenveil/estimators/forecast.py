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
import pickle
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import CapacityError, EigenveilError, InvalidParameterError, budget_epsilon, integer_between, one_of
from ..errors import probability_below_one as probability
from ..mechanisms import MECHANISMS, CentralMechanism
from ..numerics import FloatArray, one_blas_thread
from ..postprocess.above_noise import ABOVE_NOISE
from ..releases.origin import Request
from ..releases.record import Release
from ..sampling.matrix_bingham import haar_orthogonal
from ..sampling.randomness import seeded_generator
from ..tables.open import open_table
from ..theory.forecast import Forecast, Outcome, Reported, expected, first_order, normalized_spectrum, standing
from ..theory.forecasts import MOST_ROWS, Forecasts, Scenario, checked_target, tracked
from .fit import Fit
from .plan import Plan, Route, plan_fit
from .preparation import Features, FitParameters, Needs, PCAParameters

if TYPE_CHECKING:  # not scikit-learn, which takes longer to load than a forecast
    from .pca import PrivatePCA

PUBLIC_NORM, PUBLIC_RANGES = 0.5, 1 / 3
"""The mean squared norm of a row over the squared bound, by default: with a public norm, and for features that are
spread evenly over their public ranges."""
MOST_NUMBERS, WIDEST = 200_000, 300
"""The largest table that is made up, in numbers and in features."""
REPEATS = 10
"""Fits of each mechanism, by default."""
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
    delta, epsilon = probability("delta", estimator.delta), budget_epsilon(estimator.epsilon)
    target = None if target_loss is None else checked_target(target_loss)
    values = normalized_spectrum(spectrum, d, _usual_energy(estimator) if energy is None else energy)
    k, seed = _number_wanted(estimator), integer_between("seed", seed, 0)
    repeats, parameters = integer_between("repeats", repeats, 2), FitParameters.of(estimator)
    request = estimator._request(Features.declared(d, parameters).n_features, None)
    fits = MadeUpFits(parameters, estimator._needs(), request, values, k, repeats, seed)
    auto = fits.taken(n)
    scenario = Scenario(d, k, delta, parameters.adjacency, tuple(map(float, values)), repeats, seed, fits)
    forecasts, left_out, much = [], {}, math.inf
    for name in tracked(sorted(names, key=lambda name: name != auto), "mechanisms", progress):
        refusal = MECHANISMS[name].refusal(_delta_for(name, delta))
        if refusal is not None:
            left_out[name] = refusal
            continue
        try:
            found = fits.forecast(name, n, epsilon, read=_READ if name == auto else 1, much=much)
        except EigenveilError as error:  # noise beyond the integers, no calibration, or too few rows
            left_out[name] = str(error)
            continue
        if name == auto and found.high is not None:
            much = found.high
        if target is not None and found.as_asked:
            found = replace(
                found,
                rows_needed=scenario.rows_for(name, epsilon, target, n),
                epsilon_needed=scenario.epsilon_for(name, n, target, epsilon),
            )
        forecasts.append(found)
    forecasts.sort(key=lambda one: one.mean)
    if not any(one.as_asked for one in forecasts):
        raise InvalidParameterError("No mechanism can give this epsilon and delta; choose a larger epsilon.")
    return Forecasts(n, epsilon, scenario, target, tuple(forecasts), left_out, auto)


@dataclass(frozen=True, eq=False)
class _MadeUpTable:
    """Rows, the matrix whose directions a fit looks for, and the generator that goes on after them."""

    rows: FloatArray
    true: FloatArray
    generator: np.random.Generator


@dataclass(frozen=True)
class _Effort:
    """How many fits a forecast is from: all, a few, or a few where these all lose more than `much`.

    What they report is read from the first `read` of them, but only the number above the noise of those that lose more.
    """

    read: int = 0
    much: float = math.inf
    few: bool = False


@dataclass(frozen=True, eq=False)
class MadeUpFits:
    """Fits of an estimator to made-up rows, by any mechanism at any epsilon.

    Parameters
    ----------
    parameters, needs, request : FitParameters, Needs, Request
        Of the estimator.
    spectrum : ndarray of shape (d,)
        Eigenvalues of the rows in squared units of a public norm bound; only their shape counts where none is public.
    n_components : int, optional
        None where those above the noise are taken.
    repeats, seed : int
        How many fits, with which random numbers: the same for every n and epsilon.
    """

    parameters: FitParameters
    needs: Needs
    request: Request
    spectrum: FloatArray
    n_components: int | None
    repeats: int
    seed: int
    _tables: dict[int, list[_MadeUpTable]] = field(default_factory=dict, init=False, repr=False)
    _found: dict[tuple[str, float, int, _Effort], dict[str, Any]] = field(default_factory=dict, init=False, repr=False)

    @property
    def most(self) -> int:
        """The largest number of rows that are made up."""
        return max(MOST_NUMBERS // self.spectrum.size, 2 * self.spectrum.size)

    def taken(self, n_rows: int) -> str | None:
        """Return the mechanism that the fit takes, or refuse what it would refuse whatever the mechanism."""
        try:
            return self._plan(self.parameters, n_rows).route(n_rows).mechanism.name
        except CapacityError:  # noise beyond the integers, of one that another mechanism may not have
            return None

    def forecast(
        self, name: str, n_rows: int, epsilon: float, *, read: int = 1, much: float = math.inf, few: bool = False
    ) -> Forecast:
        """Return what to expect of one mechanism, and what so many of its fits report.

        From a third of the fits where few will do, or where all of these lose more than `much`.
        """
        plan = self._plan(self._by(name, epsilon), n_rows)
        route = plan.route(n_rows)
        mechanism, guarantee, how = route.mechanism, route.guarantee, "; ".join(route.in_words())
        as_asked, note = standing(mechanism, guarantee, epsilon, self.parameters.delta)
        if _bounded_publicly(route):
            how += f"; the square of the bound is {1 / self.spectrum.sum():.3g} times the mean squared norm of a row"
        numbers, approximation = self._numbers(name, plan, n_rows, epsilon, _Effort(read, much, few))
        note = "; ".join(filter(None, (note, approximation)))
        return Forecast(mechanism=name, guarantee=guarantee, as_asked=as_asked, note=note, preparation=how, **numbers)

    def mean_loss(self, name: str, n_rows: int, epsilon: float) -> float:
        """Return the mean loss alone, which is quicker."""
        plan = self._plan(self._by(name, epsilon), n_rows)
        return float(self._numbers(name, plan, n_rows, epsilon, _Effort())[0]["mean"])

    def _numbers(
        self, name: str, plan: Plan, n_rows: int, epsilon: float, effort: _Effort
    ) -> tuple[dict[str, Any], str]:
        """Return the fields of a forecast, and how they are approximated."""
        mechanism = plan.route(n_rows).mechanism
        if self.spectrum.size > WIDEST:
            return self._to_first_order(plan.route(n_rows), n_rows), _FORMULA
        if n_rows <= self.most:
            return self._average(name, epsilon, n_rows, effort), ""
        wanted = tried = epsilon * _epsilon_factor(mechanism, n_rows / self.most)
        while True:
            try:
                numbers = self._average(name, tried, self.most, effort)
                return numbers, "" if tried == wanted or mechanism.baseline else _MORE_NOISE
            except EigenveilError:  # beyond the largest epsilon that the mechanism can be made for, or be sure of
                # The same steps for all, so that the largest one that is possible is found once.
                tried = 2.0 ** ((math.ceil(_STEPS * math.log2(tried)) - 1) / _STEPS)
                if tried < epsilon:
                    raise

    def _to_first_order(self, route: Route, n_rows: int) -> dict[str, Any]:
        mechanism, rule = route.mechanism, route.rule
        if self.n_components is None:
            raise CapacityError(f"{mechanism.name} is too wide to simulate here; give a number of components.")
        # Rows of one length, or bounded privately, are taken to be as long as they may be.
        trace = float(self.spectrum.sum()) if _bounded_publicly(route) else 1.0
        used = self.spectrum / self.spectrum.sum() * (trace * rule.norm**2 / rule.reach_squared)
        known = first_order(mechanism, used, self.spectrum, self.n_components, n_rows)
        if known is None:
            raise CapacityError(f"{mechanism.name} is too wide to simulate here, and has no formula for its loss.")
        return known

    def _by(self, name: str, epsilon: float) -> FitParameters:
        """Return the parameters with another mechanism; one that is not exact is forecast with a reservation."""
        options = {**(self.parameters.mechanism_options or {}), "accept_inexact": True}
        delta = _delta_for(name, self.parameters.delta)
        return replace(self.parameters, mechanism=name, epsilon=epsilon, delta=delta, mechanism_options=options)

    def _plan(self, parameters: FitParameters, n_rows: int) -> Plan:
        features = Features.declared(self.spectrum.size, parameters)
        return plan_fit(parameters, self.needs, features, n_rows, pickle.dumps(parameters))

    def _average(self, name: str, epsilon: float, n_rows: int, effort: _Effort) -> dict[str, Any]:
        """Return the fields of a forecast from fits; a tenth of epsilon and of the rows may come to the same fits."""
        question = name, float(f"{epsilon:.12g}"), n_rows, effort
        if question not in self._found:
            self._found[question] = expected(self._outcomes(self._by(name, epsilon), n_rows, effort))
        return self._found[question]

    def _outcomes(self, parameters: FitParameters, n_rows: int, effort: _Effort) -> list[Outcome]:
        # What ranges are does not matter, only how long rows are beside them.
        ranges = (-1.0, 1.0) if _has_ranges(self.parameters) else None
        plan = self._plan(replace(parameters, schema=None, bounds=ranges, privacy_unit=None), n_rows)
        route = plan.route(n_rows)
        unit = route.rule.norm if _bounded_publicly(route) else 1.0
        recommendable, _ = standing(route.mechanism, route.guarantee, parameters.epsilon, parameters.delta)
        few = max(2, self.repeats // _BESIDE)
        outcomes: list[Outcome] = []
        releases: list[Release] = []
        loses_much = False
        with warnings.catch_warnings(), one_blas_thread():  # several would wait for one another at this size
            warnings.simplefilter("ignore")  # of noise, of seeds and of a large delta: all of it is public here
            for table in self._made_up(n_rows):
                if len(outcomes) == few:
                    loses_much = min(outcome.loss for outcome in outcomes) > effort.much
                    if effort.few or loses_much or not recommendable:
                        break
                release = self._fitted(table.rows if unit == 1 else table.rows * unit, plan, table.generator)
                outcomes.append(Outcome.of(release.spectrum.directions, table.true))
                releases += [release] if len(releases) < effort.read else []
            for at, release in enumerate(releases):
                outcomes[at] = replace(outcomes[at], reported=_reported(release, whole=not loses_much))
        return outcomes

    def _fitted(self, rows: FloatArray, plan: Plan, generator: np.random.Generator) -> Release:
        source, generator = open_table(rows), copy.deepcopy(generator)
        return Fit(
            source,
            plan,
            generator,
            features=Features.of(source),
            needs=self.needs,
            request=self.request,
            ledger=None,
        ).run()

    def _made_up(self, n_rows: int) -> list[_MadeUpTable]:
        """Return the tables of so many rows, the same for all mechanisms."""
        if n_rows not in self._tables:
            tables = []
            for generator in seeded_generator(self.seed).spawn(self.repeats):
                rows = self._rows(n_rows, self.parameters.standardize, generator)
                tables.append(_MadeUpTable(rows, _true_matrix(self.parameters, rows), generator))
            self._tables[n_rows] = tables
        return self._tables[n_rows]

    def _rows(self, n_rows: int, standardize: bool, generator: np.random.Generator) -> FloatArray:
        """Return Gaussian rows of the spectrum; turned at random, or so that all features have the same variance."""
        values, d = self.spectrum, self.spectrum.size
        if standardize and d > 1:
            import scipy.stats  # half of a second, which others do not wait for

            shares = values * (d / values.sum())
            correlation = scipy.stats.random_correlation.rvs(shares, random_state=generator, tol=1e-6)
            basis = np.linalg.eigh(correlation)[1][:, ::-1]
        else:
            basis = haar_orthogonal(1, d, d, generator)[0]
        return np.asarray(generator.standard_normal((n_rows, d)) * np.sqrt(values) @ basis.T)


def _true_matrix(parameters: FitParameters, rows: FloatArray) -> FloatArray:
    """Return the matrix of rows that the estimator looks for."""
    centred = rows - rows.mean(axis=0) if parameters.center else rows
    true = np.asarray(centred.T @ centred / len(rows))
    if not parameters.standardize:
        return true
    sizes = np.sqrt(np.diag(true))
    return np.asarray(true / np.outer(sizes, sizes))


def _reported(release: Release, whole: bool) -> Reported | None:
    """Return what a release reports of its components, or only how many are above the noise; None without variances."""
    above_noise = release.spectrum.n_above_noise if release.matrix.has_known_noise else None
    if not whole:
        return Reported(above_noise=above_noise)
    shares = release.explained_variance_ratio
    if shares is None:
        return None
    ends, total = release.spectrum.explained_variance_ratio_interval, release.spectrum.captured_variance_ratio_interval
    return Reported(
        shares=shares,
        half_widths=None if ends is None else np.diff(ends)[:, 0] / 2,
        total=release.spectrum.captured_variance_ratio or 0.0,
        total_half_width=None if total is None else float(total[1] - total[0]) / 2,
        above_noise=above_noise,
    )


def _epsilon_factor(mechanism: CentralMechanism, times: float) -> float:
    """Return the factor of epsilon that brings so many times less noise."""
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


def _number_wanted(estimator: "PrivatePCA | PCAParameters") -> int | None:
    """Return how many components are asked for; None for those above the noise."""
    wanted = estimator.n_components
    if wanted is None or isinstance(wanted, float) or (isinstance(wanted, str) and wanted != ABOVE_NOISE):
        raise InvalidParameterError("A forecast needs n_components as a number, or 'above_noise'.")
    return None if wanted == ABOVE_NOISE else int(wanted)


def _has_ranges(estimator: "PrivatePCA | FitParameters") -> bool:
    return estimator.bounds is not None or getattr(estimator.schema, "bounds", None) is not None


def _usual_energy(estimator: "PrivatePCA | PCAParameters") -> float:
    return PUBLIC_RANGES if _has_ranges(estimator) else PUBLIC_NORM


def _bounded_publicly(route: Route) -> bool:
    """Return whether rows are clipped to a public norm, so that it matters how long they are beside it."""
    return route.rule.keeps_lengths and not route.split.chosen
