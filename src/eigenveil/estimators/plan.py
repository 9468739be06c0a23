"""`Plan`: what a fit will do, as a table of routes by the number of rows; public numbers alone.

docs/research/row_bound.md and docs/explanation/raw_tables.md derive from how many rows on a route is taken.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from .. import gate
from ..accounting.calibration import decimal_below, exact
from ..accounting.composition import compose
from ..errors import InvalidDataError, InvalidParameterError, budget_delta, budget_epsilon, integer_between, one_of
from ..guarantee import Adjacency, Guarantee, Unit
from ..mechanisms import MECHANISMS, CentralMechanism, choose_mechanism, mechanism_with
from ..mechanisms.base import made_once
from ..mechanisms.budget import BudgetShare
from ..mechanisms.choices import DiagonalMechanism, GaussianSearch, PureSearch, Search, noise_scale
from ..mechanisms.gaussian import Gaussian
from ..moments.counts import NORM_GRID
from ..moments.numpy_kernels import SIZES
from ..moments.row_rule import RowRule
from ..notebook import notebook_table
from ..releases.matrix import FOR_UNITS
from .parameters import AUTO, Features, FitParameters, Needs
from .preparation import (
    CHOICES,
    INSTEAD,
    RowPreparation,
    check_published,
    prepared,
    prepared_about_medians,
    prepared_with_ranges,
)
from .split import (
    GAUSSIAN_NORM_SHARE,
    MEDIAN_SHARES,
    NORM_AFTER_RANGES_SHARE,
    NORM_SHARE,
    RANGES_SHARES,
    SCREENED_FROM,
    SCREENING_SHARE,
    SEARCHES,
    TEST_SHARE,
    DividedByRows,
    MechanismsByRows,
    Split,
    check_read_once,
    divided_by_rows,
    undivided,
    with_room,
)

_Value = TypeVar("_Value")
CLIPPED_PER_NOISE = 4
"""Rows to clip, in units of d times the noise of unit rows beside the diagonal: there bias and noise balance."""
# In units of one over the epsilon of the choice: rows beyond the bound, so that the noise of the threshold does not
# carry the search past the longest row; rows within it, so that none of the candidates below all rows stops it.
_BEYOND, _WITHIN = 6, 16
LEAST_ROWS = 20
"""Rows times epsilon below which nothing is found: a search goes astray in more than one of twenty."""
LEAST_MARGINS = Fraction(80, 12)
"""Rows in units of the margin of one search in one feature, below which some range goes astray too often."""
GAUSSIAN_NORM_MARGINS = 40
"""Rows in units of the noise of a count, from which on a norm bound takes a share of mu^2. A search leaves at least
four such units of rows beyond the bound, so at most a tenth of them. By experiment: docs/explanation/raw_tables.md."""
PAIR_PLACES = SIZES.size
"""Places that the size of a feature is looked for among."""
COVARIANCE_FROM, CORRELATIONS_FROM, GAUSSIAN_FROM = 2000, 3000, 1500
"""From so many rows on, times d/epsilon, components of rows within private ranges beat those of compared rows.

The first two where epsilon is pure, the last where ranges take a share of a Gaussian budget. By experiment:
docs/explanation/raw_tables.md."""


def rows_for_ranges(search: Search, n_features: int) -> Fraction:
    """Return the number of rows needed to find ranges of so many features by searches of this cost.

    Examples
    --------
    >>> rows_for_ranges(PureSearch(Fraction(2, 25)), 5)
    Fraction(5000, 1)
    """
    return LEAST_MARGINS * search.margin(n_features, PAIR_PLACES)


def rows_beyond(mechanism: CentralMechanism, rule: RowRule, epsilon: Fraction, n_rows: int) -> int:
    """Return the number of rows that should lie beyond a norm bound that is searched at this epsilon.

    Parameters
    ----------
    mechanism : CentralMechanism
        The mechanism that will draw.
    rule : RowRule
        How rows become integers; its norm plays no role.
    epsilon : Fraction
        What the choice costs.
    n_rows : int
        Looked at under replace only, where it is public.

    Examples
    --------
    >>> from eigenveil.mechanisms import MECHANISMS
    >>> mechanism = MECHANISMS["gaussian"](epsilon=0.9, delta=1e-6, n_features=10)
    >>> [rows_beyond(mechanism, RowRule(1.0), Fraction(1, 10), n) for n in (300, 100_000)]
    [140, 186]
    """
    wanted = max(balanced_rows(mechanism, rule), _BEYOND / epsilon)
    if mechanism.adjacency is Adjacency.REPLACE_ONE:
        wanted = min(wanted, Fraction(n_rows, 2), max(Fraction(0), n_rows - _WITHIN / epsilon))
    return math.floor(wanted)


def too_few_to_clip(mechanism: CentralMechanism, rule: RowRule, epsilon: Fraction) -> Fraction:
    """Return the number of rows below which a bound would clip more than half of them, or not be found."""
    return max(2 * balanced_rows(mechanism, rule), LEAST_ROWS / epsilon)


def balanced_rows(mechanism: CentralMechanism, rule: RowRule) -> Fraction:
    """Return the number of clipped rows whose bias is about the noise of the mechanism, however many rows there are."""
    noise = Fraction(mechanism.equivalent_sd) * Fraction(rule.limit_squared, 4**rule.bits)
    return CLIPPED_PER_NOISE * mechanism.n_features * noise


# More rows than any table has: the last route of a plan holds from its number of rows on.
_MANY_ROWS = 2**50
# So many rows fit every grid of 16 bits, also where each of them is compared with several others.
_FEW_ROWS = 2**25
_STATISTICS = {
    "normalized": "rows brought to length 1",
    "spatial_sign": "directions of differences between rows",
    "kendall": "signs of differences between rows (Kendall's tau)",
}


@dataclass(frozen=True, eq=False)
class Route:
    """One way to fit: the statistic of the rows, the mechanism that releases it, and the division of the budget.

    Parameters
    ----------
    preparation : RowPreparation, optional
        How rows become integers, and what of it is yet to be found privately; None for rows that were collected before.
    mechanism : CentralMechanism
        Draws the release.
    split : Split
        The shares of the budget.
    rule : RowRule
        The preparation, as a public record.
    choices : mapping of str to Guarantee
        What is found privately before the release, and what each of them costs.
    assumptions : tuple of str
        What the guarantee assumes of the table.
    screening : DiagonalMechanism, optional
        Draws the diagonal by which features are screened before the matrix is drawn; None where all are kept.
    """

    preparation: RowPreparation | None
    mechanism: CentralMechanism
    split: Split
    rule: RowRule
    choices: Mapping[str, Guarantee]
    assumptions: tuple[str, ...] = ()
    screening: DiagonalMechanism | None = None

    @cached_property  # routes are made once, and the same in the next fit
    def guarantee(self) -> Guarantee:
        """The guarantee of a whole fit on this route."""
        compared = self.rule.compares or (self.preparation is not None and bool(self.preparation.ranges))
        screening = () if self.screening is None else self.screening.guarantees
        parts = (*self.choices.values(), *screening, self.mechanism.guarantee())
        whole = compose(parts).for_unit(self.rule.unit).with_assumption(*self.assumptions)
        return whole.of_compared_units() if compared else whole

    @property
    def can_transform(self) -> bool:
        """Whether rows in the units of the table can be transformed by the release."""
        return self.rule.statistic != "kendall"

    @property
    def chosen_privately(self) -> tuple[str, ...]:
        """Names of the private choices, sorted."""
        return tuple(sorted((*self.split.chosen, *(() if self.screening is None else ("features",)))))

    def cost(self, choice: str) -> Fraction:
        """Return the epsilon of a private choice."""
        return exact(self.choices[choice].epsilon)

    def range_search(self, portion: BudgetShare | None = None) -> Search:
        """Return one of the searches for ranges: at a share of the Gaussian budget, or at its share of epsilon."""
        if not self.split.gaussian_ranges:
            return PureSearch(self.cost("bounds") / SEARCHES)
        share = self.split.gaussian_ranges / SEARCHES
        return GaussianSearch(portion or BudgetShare(self.mechanism.epsilon, self.mechanism.delta, share))

    def rows_beyond(self, n_rows: int) -> int:
        """Return the number of rows that a norm bound found privately should leave beyond it."""
        return rows_beyond(self.mechanism, self.rule, self.norm_cost, n_rows)

    @property
    def norm_cost(self) -> Fraction:
        """The epsilon of a search for a norm bound: of two, where medians are found."""
        return self.cost("norm_bound") / (2 if self.split.medians else 1)

    def check(self, needs: Needs, n_rows: int | None) -> None:
        """Refuse private choices that are impossible: at all, or in so many rows where their number is known."""
        preparation, mechanism = self.preparation, self.mechanism
        if preparation is not None:
            _ = preparation.ends  # refused if some outcome of the private choices could not be combined with it
            least = 10 * SEARCHES * mechanism.n_features  # the smallest part that a search has of its epsilon, to spare
            for name in self.choices:
                noise_scale(self.cost(name) / least)
        if n_rows is not None and mechanism.adjacency is Adjacency.REPLACE_ONE:
            takes = {}
            if preparation is not None and preparation.ranges:
                takes["bounds"] = rows_for_ranges(self.range_search(), len(preparation.ranges))
            if "norm_bound" in self.choices:
                takes["norm_bound"] = LEAST_ROWS / self.norm_cost
            for name, rows in takes.items():
                if n_rows < rows:
                    enough = math.ceil(100 * self.guarantee.epsilon * rows / max(n_rows, 1)) / 100
                    counted = self.rule.unit.counted
                    raise InvalidDataError(
                        f"{n_rows:,} {counted} are too few to estimate {CHOICES[name]} privately. Give "
                        f"{INSTEAD[name]}, at least {math.ceil(rows):,} {counted}, or an epsilon of about {enough:g}."
                    )
        if self.screening is not None:
            self.screening.check_grid(self.rule.feature_limit_squared)
        if n_rows is not None:
            self.split.check(mechanism, self.rule, n_rows)
            needs.check_rows(mechanism, self.rule, n_rows)

    def in_words(self) -> list[str]:
        """Return the statistic and the mechanism, then the parts of the budget and what is not released, a line each.

        Every surface that shows a route shows these lines.
        """
        bound = "a bound that is found privately" if self.split.chosen else "a public bound"
        mean = "" if self.rule.constant is None or self.split.mean else ", with a constant for the mean"
        lines = [f"{_STATISTICS.get(self.rule.statistic, f'rows clipped to {bound}{mean}')}; {self.mechanism.name}"]
        if self.choices or self.screening is not None:
            lines.append(f"epsilon {self.mechanism.epsilon:.6g} for the release")
        lines += [
            f"epsilon {part.epsilon:.6g} to choose {CHOICES[name]} privately" for name, part in self.choices.items()
        ]
        if self.screening is not None:
            test, diagonal = self.screening.test_epsilon, self.screening.epsilon
            lines.append(f"epsilon {test:.6g} to test whether features can be chosen by their variances")
            lines.append(f"epsilon {diagonal:.6g} to choose them, or else for the release too")
        if self.split.divides_mechanism:
            lines.append(self.split.in_words())
        if not self.can_transform:
            lines.append(f"no transform: neither means nor standard deviations are released (give {FOR_UNITS} for it)")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        choices = {name: part.epsilon for name, part in self.choices.items()}
        if self.screening is not None:
            choices |= {"features": self.screening.epsilon, "test_of_features": self.screening.test_epsilon}
        return {
            "statistic": self.rule.statistic,
            "mechanism": self.mechanism.name,
            "parameters": self.mechanism.parameters(),
            "choices": choices,
            "split": self.split.to_dict(),
            "can_transform": self.can_transform,
        }


Routes = tuple[tuple[int, Route], ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """Plan of a fit: what it will do and spend, by the number of rows. Uses public numbers only.

    Parameters
    ----------
    n_features : int
    routes : tuple of (int, Route)
        The route that is taken from this many rows on, in rising order, the first from 0 on.
    parameters : FitParameters
        The checked parameters of the estimator that made it.
    needs : Needs
        The needs of that estimator.
    n_rows : int, optional
        The public number of rows, where it is known; the plan then has the one route that runs.

    Examples
    --------
    >>> from eigenveil import PrivatePCA
    >>> plan = PrivatePCA(1, epsilon=1.0, statistic="clipped", center=False).plan(50)
    >>> [(rows, route.rule.statistic, route.mechanism.name) for rows, route in plan.routes]
    [(0, 'normalized', 'ppca'), (400, 'normalized', 'matrix_laplace'), (4038, 'clipped', 'matrix_laplace')]
    >>> list(plan.route(5000).choices)
    ['norm_bound']
    """

    n_features: int
    routes: Routes
    parameters: FitParameters = field(repr=False)
    needs: Needs = field(repr=False)
    n_rows: int | None = None

    def for_rows(self, n_rows: int, needs: Needs) -> "Plan":
        """Return the plan of a table with this public number of rows: the route that runs, alone; or refuse it."""
        route = self.route(n_rows)
        route.check(needs, n_rows)
        return replace(self, routes=((0, route),), n_rows=n_rows)

    def route(self, n_rows: int) -> Route:
        """Return the route of so many rows."""
        return _at(self.routes, n_rows)

    @property
    def most_rows(self) -> Route:
        """The route of the largest tables: what is counted before the number of rows is known is counted for it."""
        return self.routes[-1][1]

    @property
    def guarantees(self) -> dict[str, Guarantee]:
        """The guarantees of whole fits, by the name of the mechanism, whatever the number of rows."""
        return {route.mechanism.name: route.guarantee for _, route in self.routes}

    @property
    def guarantee(self) -> Guarantee:
        """The weakest of these guarantees: the mechanisms of one plan differ in their numerics."""
        return max(self.guarantees.values(), key=lambda guarantee: (guarantee.epsilon, guarantee.numerics.gap))

    @property
    def unit(self) -> Unit:
        """The privacy unit."""
        return self.most_rows.rule.unit

    @property
    def can_transform(self) -> bool:
        """Whether rows in the units of the table can be transformed after a fit, whatever the number of rows."""
        return all(route.can_transform for _, route in self.routes)

    @property
    def measures_mean(self) -> bool:
        """Whether a mean is measured first where there are rows enough."""
        return any(route.split.mean for _, route in self.routes)

    def preparation_for(self, n_features: int) -> RowPreparation:
        """Return the preparation of rows of the largest tables, or refuse data that the plan was not made for."""
        preparation = self.most_rows.preparation
        if preparation is None or n_features != self.n_features:
            raise InvalidParameterError(
                f"The plan is for {self.n_features} features, and the data have {n_features}; make another plan."
            )
        return preparation

    def check_made_for(self, parameters: FitParameters, needs: Needs, features: Features) -> None:
        """Refuse to be executed with other parameters, or for another table, than the plan was made for."""
        if parameters != self.parameters or replace(needs, units=self.needs.units) != self.needs:
            raise InvalidParameterError("The plan was made for other parameters; make another one.")
        # A plan for a number of rows has one of the possible preparations, and does not tell which.
        planned = self.preparation_for(features.n_features)
        few = prepared(parameters, needs, features)
        possible = [few, prepared_with_ranges(parameters, needs, features)]
        possible.append(prepared_about_medians(parameters, needs, features))
        if few.norm is None and not few.center:
            possible.append(few.of_unit_rows())
        for here in possible:
            if here is None or planned.ranges != here.ranges:
                continue
            if planned.bound == replace(here, bits=planned.bits).bound:
                return
        raise InvalidParameterError(
            "The plan was made without the schema or the names of this table; make it from them."
        )

    def routes_in_words(self) -> list[tuple[str, list[str]]]:
        """Return the lines of every route under the number of rows that it is for."""
        if self.n_rows is not None:
            return [(f"{self.n_rows:,} {self.unit.counted}", self.most_rows.in_words())]
        return [
            (f"from {rows:,} {self.unit.counted} on" if rows else "plan", route.in_words())
            for rows, route in self.routes
        ]

    def in_words(self) -> list[tuple[str, str]]:
        """Return the guarantee and the routes as lines with headings, for every surface."""
        lines = [("guarantee", str(self.guarantee))]
        for heading, (first, *others) in self.routes_in_words():
            lines += [(heading, first), *(("", other) for other in others)]
        return lines

    def __str__(self) -> str:
        lines = self.in_words()
        width = max(len(heading) for heading, _ in lines) + 2
        return "\n".join(f"{heading:{width}}{text}" for heading, text in lines)

    def _repr_html_(self) -> str:
        facts: dict[str, Any] = {"features": self.n_features}
        facts |= {heading: "; ".join(lines) for heading, lines in self.routes_in_words()}
        return notebook_table("Plan of a fit", facts, more=self.guarantee._repr_html_())

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return {
            "n_features": self.n_features,
            "n_rows": self.n_rows,
            "guarantee": self.guarantee.to_dict(),
            "routes": [{"from_rows": rows, **route.to_dict()} for rows, route in self.routes],
        }


def _at(by_rows: Sequence[tuple[int, _Value]], n_rows: int) -> _Value:
    return next(one for rows, one in reversed(by_rows) if rows <= n_rows)


def _joined(few: Routes, below: int, many: Routes) -> Routes:
    """Return the routes of `few` for fewer rows than this, and those of `many` from there on."""
    return (
        *(one for one in few if one[0] < below),
        (below, _at(many, below)),
        *(one for one in many if one[0] > below),
    )


def _crossing(few: Callable[[int], bool]) -> int:
    """Return the number of rows from which on a condition that holds for none of them no longer does, by bisection."""
    low, high = 0, _MANY_ROWS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if few(middle) else (low, middle)
    return high


def plan_fit(parameters: FitParameters, needs: Needs, features: Features, n_rows: int | None = None) -> Plan:
    """Return the plan of a fit, or refuse what public numbers show to be impossible.

    Parameters
    ----------
    parameters : FitParameters
    needs : Needs
    features : Features
    n_rows : int, optional
        Number of rows, where it is known and public: the plan then has one route.
    """
    rows = None if n_rows is None else integer_between("n_rows", n_rows, 0)
    many = rows if parameters.adjacency is Adjacency.REPLACE_ONE and rows is not None and rows > _FEW_ROWS else None
    routes = _all_routes(parameters, needs, features, many)
    plan = Plan(features.n_features, routes, parameters, needs)
    if rows is not None:
        return plan.for_rows(rows, needs)
    plan.most_rows.check(needs, None)
    return plan


# Made once for equal arguments, which are public: `n_rows` is a number that was declared or is public, and very large.
@lru_cache(maxsize=64)
def _all_routes(parameters: FitParameters, needs: Needs, features: Features, n_rows: int | None) -> Routes:
    """Return the routes of all numbers of rows, on a grid for so many."""
    preparation = prepared(parameters, needs, features).for_rows(n_rows)
    routes = _routes(parameters, needs, features, preparation)
    pooled = preparation.unit_weight == "by_rows"
    if (
        preparation.norm is None
        and parameters.adjacency is Adjacency.REPLACE_ONE
        and not (needs.lengths or parameters.center or pooled)
    ):
        # So few rows that a bound would clip more than half of them are brought to length 1.
        unit, epsilon = preparation.of_unit_rows(), routes[0][1].cost("norm_bound")
        few = _routes(parameters, needs, features, unit)
        below = _crossing(lambda n: n < too_few_to_clip(_at(few, n).mechanism, unit.bound, epsilon))
        routes = _joined(few, below, routes)
    with_ranges = prepared_with_ranges(parameters, needs, features)
    if with_ranges is not None:
        many = _routes(parameters, needs, features, with_ranges.for_rows(n_rows))
        # All features have noise, searched or not.
        takes = rows_for_ranges(_at(many, 0).range_search(), features.n_features)
        if not (parameters.standardize and needs.units):  # which signs of differences tell nothing about
            pure = CORRELATIONS_FROM if parameters.standardize else COVARIANCE_FROM
            times = pure if many[-1][1].choices else GAUSSIAN_FROM
            takes = max(takes, times * features.n_features / exact(budget_epsilon(parameters.epsilon)))
        routes = _joined(routes, math.ceil(takes), many)
    about_medians = prepared_about_medians(parameters, needs, features)
    if about_medians is not None:
        whole = exact(budget_epsilon(parameters.epsilon))
        for times_d, times, medians, norm in MEDIAN_SHARES:
            below = math.ceil(max(times_d * features.n_features, times) / whole)
            private = Split(medians=medians, norm=norm)
            prepared_for_rows = about_medians.for_rows(n_rows)
            routes = _joined(routes, below, _routes_with(parameters, needs, features, prepared_for_rows, private))
    return routes


def route_of_moments(
    parameters: FitParameters,
    needs: Needs,
    rule: RowRule,
    n_features: int,
    n_rows: int,
    assumptions: tuple[str, ...] = (),
) -> Route:
    """Return the route of rows that were collected before, by this rule, under these assumptions about their tables."""
    check_read_once(parameters.stages)
    needs.check_rule(rule, parameters.standardize)
    whole = decimal_below(exact(budget_epsilon(parameters.epsilon)))
    screening, epsilon = _screened(parameters, needs, rule, n_features, whole)
    mechanisms = _mechanisms(parameters, needs, n_features, epsilon)
    return Route(None, _at(mechanisms(rule), n_rows), Split(), rule, {}, assumptions, screening)


def _routes(parameters: FitParameters, needs: Needs, features: Features, preparation: RowPreparation) -> Routes:
    """Return the routes of rows that are prepared in one way."""
    if not preparation.ranges:
        routes = _routes_with(
            parameters, needs, features, preparation, Split(norm=NORM_SHARE * (preparation.norm is None))
        )
        gaussian = () if preparation.norm is not None else _gaussian_routes(parameters, needs, features, preparation)
        if not gaussian:
            return routes
        # With fewer rows, the noise of a bisection would put more of them beyond the bound than the noise of the matrix
        # calls for, and a share of epsilon does better.
        route = gaussian[-1][1]
        portion = BudgetShare(route.mechanism.epsilon, route.mechanism.delta, route.split.gaussian_norm)
        return _joined(routes, math.ceil(GAUSSIAN_NORM_MARGINS * portion.count_sd(NORM_GRID.size)), gaussian)
    # The more rows there are, the less of the budget ranges take.
    tiers = [
        _gaussian_routes(parameters, needs, features, preparation, share)
        or _routes_with(parameters, needs, features, preparation, Split(ranges=share, norm=NORM_SHARE))
        for share in RANGES_SHARES
    ]
    routes = tiers[0]
    for tier in tiers[1:]:
        # Twice the rows that the shares of the tier take, for columns with ties.
        takes = rows_for_ranges(_at(tier, 0).range_search(), len(preparation.ranges))
        routes = _joined(routes, math.ceil(2 * takes), tier)
    return routes


def _routes_with(
    parameters: FitParameters, needs: Needs, features: Features, preparation: RowPreparation, private: Split
) -> Routes:
    """Return the routes of rows that are prepared in one way, with these shares for what is found privately."""
    whole, ranges = exact(budget_epsilon(parameters.epsilon)), private.ranges
    choices = private.choices(whole, parameters.adjacency)
    left, screening = decimal_below(whole - sum((exact(part.epsilon) for part in choices.values()), Fraction(0))), None
    epsilon = left
    if not ranges:  # which put features on different scales
        screening, epsilon = _screened(parameters, needs, preparation.bound.rule, features.n_features, left)
    found = _divided(parameters, needs, features, preparation, epsilon)
    return tuple(
        (
            rows,
            Route(
                preparation,
                mechanism,
                replace(split, ranges=ranges, norm=private.norm, medians=private.medians),
                preparation.bound.rule,
                choices,
                features.assumptions,
                screening,
            ),
        )
        for rows, mechanism, split in found
    )


def _gaussian_routes(
    parameters: FitParameters,
    needs: Needs,
    features: Features,
    preparation: RowPreparation,
    ranges: Fraction = Fraction(0),
) -> Routes:
    """Return the routes on which private choices take shares of mu^2; none where the mechanism is not Gaussian."""
    found = _divided(parameters, needs, features, preparation, decimal_below(exact(budget_epsilon(parameters.epsilon))))
    gaussian = [one for one in found if _in_mu(one[1])] if _in_mu(found[-1][1]) else []
    rule, assumptions = preparation.bound.rule, features.assumptions
    norm = NORM_AFTER_RANGES_SHARE if ranges else GAUSSIAN_NORM_SHARE
    return tuple(
        (
            rows if at else 0,
            Route(preparation, mechanism, split.after(ranges, norm), rule, {}, assumptions),
        )
        for at, (rows, mechanism, split) in enumerate(gaussian)
    )


def _screened(
    parameters: FitParameters, needs: Needs, rule: RowRule, n_features: int, epsilon: float
) -> tuple[DiagonalMechanism | None, float]:
    """Return the mechanism that screens features, or None, and the epsilon that is left for the matrix.

    Sparse components at delta = 0 are screened, unless a mechanism was asked for. Correlations are not, since all
    features are equally large there, nor are features on different scales, whose diagonal says less about some.
    """
    even = bool(parameters.standardize) or rule.statistic == "kendall" or len(set(rule.scale or ())) > 1
    chosen = not isinstance(parameters.mechanism, str) or parameters.mechanism != AUTO
    able = needs.n_sparse is not None and not chosen and budget_delta(parameters.delta) == 0
    if even or not able or n_features < SCREENED_FROM:
        return None, epsilon
    parts = [decimal_below(exact(epsilon) * share) for share in (SCREENING_SHARE, TEST_SHARE)]
    left = decimal_below(exact(epsilon) - sum(map(exact, parts)))
    return DiagonalMechanism(parts[0], parts[1], parameters.adjacency), left


def _in_mu(mechanism: CentralMechanism) -> bool:
    """Return whether private choices can take shares of the mechanism's mu^2."""
    return isinstance(mechanism, Gaussian) and mechanism.divisible


def _divided(
    parameters: FitParameters, needs: Needs, features: Features, preparation: RowPreparation, epsilon: float
) -> DividedByRows:
    """Return the mechanisms of a fit at this epsilon, and how their budgets are divided, by the number of rows."""
    rule, mechanisms = preparation.bound.rule, _mechanisms(parameters, needs, features.n_features, epsilon)
    check_published(parameters, features)
    needs.check_rule(rule, parameters.standardize)
    if features.reads_once:
        check_read_once(parameters.stages)
        return undivided(mechanisms(rule))
    wanted = parameters.stages == 2 or needs.n_directions is not None
    preconditions = wanted and not needs.even_noise
    return with_room(divided_by_rows(mechanisms, rule, preparation.norm, parameters.stages, preconditions), rule)


def _mechanisms(
    parameters: FitParameters, needs: Needs, n_features: int, epsilon: float
) -> Callable[..., MechanismsByRows]:
    """Return the function from a row rule to its mechanisms, by the number of rows."""
    name, delta = one_of("mechanism", parameters.mechanism, (AUTO, *MECHANISMS)), budget_delta(parameters.delta)

    def mechanisms_for(rule: RowRule, divisible: bool = False) -> MechanismsByRows:
        width, k = n_features + (rule.constant is not None), None if rule.needs_matrix else needs.n_directions
        shared: dict[str, Any] = {"epsilon": epsilon, "n_features": width, "adjacency": parameters.adjacency}

        def choose(rows: int) -> str:
            n = rows // 2 if rule.compares_neighbours else rows  # a comparison takes two
            return choose_mechanism(n_rows=n, n_components=k, delta=delta, divided=divisible, **shared)

        def make(chosen: str) -> CentralMechanism:
            # A pure mechanism that wins against the Gaussian leaves delta unspent.
            used = delta if name != AUTO or MECHANISMS[chosen].needs_delta else 0.0
            arguments, options = {**shared, "delta": used, "n_components": k}, parameters.mechanism_options
            mechanism = (
                made_once(MECHANISMS[chosen], **arguments)
                if options is None
                else mechanism_with(chosen, options, **arguments)
            )
            needs.check_mechanism(mechanism)
            gate.check_rule(mechanism, rule)
            return mechanism

        if name != AUTO:
            return ((0, make(name)),)
        few, many = choose(0), choose(_MANY_ROWS)
        if few == many:
            return ((0, make(few)),)
        # The choice changes once at most as the rows grow.
        return (0, make(few)), (_crossing(lambda n: choose(n) == few), make(many))

    return mechanisms_for
