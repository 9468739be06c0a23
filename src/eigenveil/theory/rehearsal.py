"""A fit on assumed rows, at the level of matrices: what will be released, and what will be said about it.

Every simulated fit takes the rule of rows, the law and the shares of the budget from a `PlannedFit`, which is what
`estimator.plan` says that a fit would do. docs/how_to/planning.md tells what is simulated and what is left out.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.special
from numpy.typing import NDArray

from ..accounting.sensitivity import sum_squared
from ..guarantee import Numerics, Relation
from ..mechanisms.additive import AdditiveLaw
from ..mechanisms.budget import Portion, at_share
from ..mechanisms.choices import first_at_most
from ..mechanisms.gaussian import Gaussian
from ..numerics import FloatArray
from ..postprocess.correlations import correlation_from_covariance, correlation_from_signs
from ..postprocess.preconditioning import map_after
from ..postprocess.shrinkage import NoiseDraw
from ..postprocess.spectrum import top_components
from ..sampling.matrix_bingham import haar_orthogonal
from ..sampling.randomness import seeded_generator
from .assumed_rows import AXES, CORRELATION, AssumedRows, assumed_rows, clipped, of_directions
from .outlook import Outcome, noise_edges, outcome_of_directions, outcome_of_matrix
from .planned_fit import PlannedFit

# Rungs that a norm bound is looked for among: powers of 2^(1/8), in units of the root mean squared length of a row.
_LADDER = 2.0 ** (np.arange(-240, 241) / 8)
# Edges of noise that were simulated before.
_EDGES: dict[tuple[object, ...], FloatArray] = {}
# Draws of a chain, which take long.
_CHAINS = 20


@dataclass(frozen=True, eq=False)
class _Matrix:
    """A released matrix, what it is without noise, and what its noise is made of."""

    noisy: FloatArray
    exact: FloatArray
    noise_sd: float  # beside the diagonal
    untold: bool = False  # so much of it that no interval says anything


class Rehearsal:
    """Simulated fits of one plan.

    Parameters
    ----------
    fit : PlannedFit
    spectrum : tuple of float
        Eigenvalues of the rows in squared units of a public norm bound; only their shape counts where none is public.
    n_components : int, optional
        None takes those that rise above the noise, at least one.
    draws, seed : int
        How many fits, with which random numbers: the same for every n and epsilon.
    """

    def __init__(
        self, fit: PlannedFit, spectrum: tuple[float, ...], n_components: int | None, draws: int, seed: int
    ) -> None:
        self.fit, self.spectrum, self.n_components, self.draws = fit, np.asarray(spectrum), n_components, draws
        total = float(self.spectrum.sum())
        # Without a public norm, lengths are measured in their root mean square.
        self._free = fit.rule.rows != "clip" or fit.search is not None
        units = total / self.spectrum.size if fit.frame == CORRELATION and self._free else total
        scaled = self.spectrum / units if self._free else self.spectrum
        self._rows: AssumedRows = assumed_rows(tuple(map(float, scaled)), draws, seed, fit.frame)
        self._seed = seed
        self._edges: FloatArray | None = None
        self._residuals: dict[float, tuple[float, float]] = {}

    def outcomes(self) -> list[Outcome]:
        """Return what every simulated fit comes to."""
        law = self.fit.law
        generators = seeded_generator(self._seed).spawn(self.draws)
        if isinstance(law, AdditiveLaw):
            self._prepare_edges(law)
            return [self._with_noise(b, generators[b]) for b in range(self.draws)]
        if self.fit.rule.needs_matrix or self.fit.correlation:
            return [self._with_drawn_matrix(b, generators[b]) for b in range(self.draws)]
        if law.guarantee().numerics is Numerics.EMPIRICAL:
            size = min(self.draws, max(4, min(_CHAINS, 1000 // self.spectrum.size)))
            exact, reach = self._used(0, generators[0])
            drawn = law.simulate(self.fit.n_rows / reach * exact, generators[0], size)
            return [outcome_of_directions(one, exact, self._true(0)) for one in drawn]
        return [self._with_directions(b, generators[b]) for b in range(self.draws)]

    def mean_used(self) -> FloatArray:
        """Return the spectrum of rows as they are used, for rows of norm at most 1: for formulas of wide tables."""
        moments = [self._used(b, generator) for b, generator in enumerate(seeded_generator(self._seed).spawn(2))]
        values = np.mean(
            [np.diag(self._rows.basis.T @ exact @ self._rows.basis) / reach for exact, reach in moments], 0
        )
        return np.asarray(np.sort(values)[::-1])

    def _true(self, draw: int) -> FloatArray:
        if not self.fit.sampled:
            return np.diag(self.spectrum)
        true = self._rows.true(draw, self.fit.n_rows, self.fit.about_mean)
        if self.fit.frame != CORRELATION:
            return true
        sizes = np.sqrt(np.diag(true))
        return np.asarray(true / np.outer(sizes, sizes))

    # What rows become.

    def _used(self, draw: int, generator: np.random.Generator) -> tuple[FloatArray, float]:
        """Return the second moment of rows as they are used, and the squared reach of one, in the same units."""
        fit, rows = self.fit, self._rows
        if not fit.sampled:
            return np.diag(self.spectrum), fit.rule.reach_squared
        if not fit.rule.keeps_lengths:
            kind = (fit.rule.rows, fit.rule.comparisons)
            return rows.used(draw, fit.n_rows, kind, of_directions(fit.rule)), fit.rule.reach_squared
        sizes, place = self._ranges
        norm = self._norm(generator)
        error = np.zeros(self.spectrum.size)
        if fit.mean:
            norm, left = self._residual(norm)
            error, place = generator.standard_normal(self.spectrum.size) * left, 0.0
        key = ("clip", norm, bool(fit.mean), fit.range_beyond)
        moment = rows.used(draw, fit.n_rows, key, clipped(norm, fit.about_mean, sizes, place))
        # A constant is in proportion to the norm, so that the reach is too.
        relative = 1.0 if fit.mean else fit.rule.reach_squared / fit.rule.norm**2
        return moment + np.outer(error, error), relative * norm**2

    @cached_property
    def _ranges(self) -> tuple[FloatArray | float, FloatArray | float]:
        """Return the half widths of ranges that are found, and where rows lie in them; 1 and 0 where none are.

        So many pairs differ by more than a half width, which is on a ladder of half octaves; the middle of a range is
        known up to one of them.
        """
        if self.fit.range_beyond is None:
            return 1.0, 0.0
        apart = np.sqrt(2 * np.diag(self._rows.covariance)) * -scipy.special.ndtri(self.fit.range_beyond / 2)
        place = seeded_generator(self._seed).random(self.spectrum.size) - 0.5
        return np.asarray(2.0 ** (np.ceil(2 * np.log2(apart)) / 2)), np.asarray(place)

    @cached_property
    def _lengths(self) -> FloatArray:
        return self._rows.lengths(*self._ranges)

    def _beyond(self, lengths: FloatArray) -> NDArray[np.int64]:
        """Return about how many rows are longer than each rung of the ladder."""
        within = np.searchsorted(lengths, _LADDER, side="right") / lengths.size
        return np.rint(self.fit.n_rows * (1 - within)).astype(np.int64)

    def _norm(self, generator: np.random.Generator) -> float:
        """Return the norm bound: 1 where it is public, or one that is searched for as a fit does."""
        if self.fit.search is None:
            return 1.0
        cost, most = self.fit.search
        found = float(_LADDER[first_at_most(self._beyond(self._lengths), most, cost, generator)])
        return found if self.fit.range_beyond is None else min(found, math.sqrt(self.spectrum.size))

    def _residual(self, norm: float) -> tuple[float, float]:
        """Return the bound for rows without a mean that is measured, and the error that is left in it."""
        if norm in self._residuals:
            return self._residuals[norm]
        fit, left, before = self.fit, 0.0, norm
        lengths, centred = self._lengths, self._rows.lengths(self._ranges[0], 0.0)
        for again in range(fit.rounds):
            if again or fit.search is None:
                counts = self._beyond(lengths)
                norm = float(_LADDER[int(np.argmax(np.append(counts[:-1] <= fit.residual_beyond, True)))])
            portion = Portion(fit.law.epsilon, fit.law.delta, fit.mean / fit.rounds)
            variance = (portion.scale(sum_squared(Relation.REPLACE)) * norm / fit.n_rows) ** 2
            left = variance if left == 0 else left * variance / (left + variance)
            lengths = np.sqrt(centred**2 + left * self.spectrum.size)
        self._residuals[before] = norm, math.sqrt(left)
        return self._residuals[before]

    # What leaves.

    def _with_directions(self, draw: int, generator: np.random.Generator) -> Outcome:
        exact, reach = self._used(draw, generator)
        drawn = self.fit.law.simulate(self.fit.n_rows / reach * exact, generator)[0]
        return outcome_of_directions(drawn, exact, self._true(draw))

    def _with_drawn_matrix(self, draw: int, generator: np.random.Generator) -> Outcome:
        """Return the outcome of a matrix that a law rebuilds from what it draws."""
        exact, reach = self._used(draw, generator)
        law, n, constant = self.fit.law, self.fit.n_rows, self._constant(reach)
        bordered = exact
        if constant is not None:
            border = self._mean * constant
            bordered = np.block(
                [[exact + np.outer(self._mean, self._mean), border[:, None]], [border, np.array([constant**2])]]
            )
        grid = 2 ** min(32, 60 - n.bit_length())
        integers = law.draw(np.rint(bordered * (n / reach * grid)).astype(np.int64), grid, n, generator)
        units = law.units(grid, 1 / grid)
        noisy = law.second_moment({name: np.asarray(value * units[name]) for name, value in integers.items()}, n)
        assert noisy is not None  # a law that releases none was refused
        noisy = noisy * reach
        if constant is not None:
            noisy = noisy[:-1, :-1] - np.outer(noisy[:-1, -1], noisy[:-1, -1]) / constant**2
        read = self._as_read(_Matrix(noisy, exact, 0.0), None)
        return outcome_of_directions(top_components(read.noisy, self.n_components), read.exact, self._true(draw))

    @property
    def _mean(self) -> FloatArray:
        """Where the mean of the rows lies as they are used."""
        return np.asarray(self._ranges[1] * np.ones(self.spectrum.size))

    def _constant(self, reach: float) -> float | None:
        """Return the constant that is appended to rows of this squared reach, which is in proportion to the norm."""
        rule = self.fit.rule
        return None if rule.constant is None else math.sqrt(reach / rule.reach_squared) * rule.constant_value

    def _with_noise(self, draw: int, generator: np.random.Generator) -> Outcome:
        exact, reach = self._used(draw, generator)
        true, law = self._true(draw), self.fit.law
        assert isinstance(law, AdditiveLaw)
        if not law.rotation_invariant and self.fit.frame == AXES:
            # Independent entries are no rotation-invariant law, and eigenvectors seldom lie along the features.
            turn = haar_orthogonal(1, self.spectrum.size, self.spectrum.size, generator)[0]
            exact, true = turn @ exact @ turn.T, turn @ true @ turn.T
        released = self._released(exact, reach, law, generator)
        centre = 1.0 if self.fit.frame == CORRELATION else 0.0
        assert self._edges is not None
        known = released.noise_sd, self._edges * released.noise_sd + centre, self.n_components, law.noise_facts()
        return outcome_of_matrix(released.noisy, released.exact, true, *known, released.untold)

    def _released(self, exact: FloatArray, reach: float, law: AdditiveLaw, generator: np.random.Generator) -> _Matrix:
        n = self.fit.n_rows
        if self.fit.mean or self.fit.first:
            assert isinstance(law, Gaussian)
            made = self._in_stages(exact, reach, law, generator)
        else:
            noise, constant = law.simulated_noise(generator) * (reach / n), self._constant(reach)
            if constant is not None:
                # A noisy mean is taken off: (m + s)(m + s)' in place of m m'.
                shift = noise[:-1, -1] / constant
                cross = np.outer(self._mean, shift)
                noise = noise[:-1, :-1] - cross - cross.T - np.outer(shift, shift)
            made = _Matrix(exact + noise, exact, reach * law.noise_sd(n))
        d = self.spectrum.size
        return self._as_read(made, lambda some: np.asarray(law.simulated_noise(some)[:d, :d] * (reach / n)))

    def _in_stages(self, exact: FloatArray, reach: float, law: Gaussian, generator: np.random.Generator) -> _Matrix:
        fit, n = self.fit, self.fit.n_rows
        left = 1 - fit.mean - fit.norm - fit.first
        if fit.first:
            look = at_share(law, fit.first)
            first = exact / reach + look.simulated_noise(generator) / n
            one_shot, second = at_share(law, left + fit.first), at_share(law, left - fit.mapped_norm)
            chosen = map_after(first, look.noise_sd(n), self.n_components, one_shot.noise_sd(n), second.noise_sd(n))
            if chosen is not None:  # with the bound for mapped rows that it expects
                back, mapped_reach = np.linalg.inv(chosen.matrix), chosen.squared_reach * reach
                noise = back @ second.simulated_noise(generator) @ back * (mapped_reach / n)
                growth = float(np.square(back).sum()) / len(back)
                return _Matrix(exact + noise, exact, second.noise_sd(n) * mapped_reach * growth)
            left += fit.first  # both are averaged, and the matrix takes what a bound for mapped rows would have had
        whole = at_share(law, left)
        return _Matrix(exact + whole.simulated_noise(generator) * (reach / n), exact, reach * whole.noise_sd(n))

    def _as_read(self, made: _Matrix, draw: NoiseDraw | None) -> _Matrix:
        """Return the matrix that components are read off: of correlations, or of features in their own units."""
        d = self.spectrum.size
        beside = ~np.eye(d, dtype=bool)
        if self.fit.rule.rows == "signs":
            found = correlation_from_signs(made.noisy, made.noise_sd, draw)
            ratio = math.sqrt(float(np.mean(found.noise_ratio[beside] ** 2))) if d > 1 else 1.0
            exact = correlation_from_signs(made.exact).matrix
            return _Matrix(found.matrix, exact, made.noise_sd * ratio, found.saturated)
        if self.fit.correlation:
            scaled = correlation_from_covariance(made.noisy, draw)
            ratio = math.sqrt(float(np.mean(1 / np.outer(scaled.sizes, scaled.sizes)[beside] ** 2))) if d > 1 else 1.0
            return _Matrix(scaled.matrix, correlation_from_covariance(made.exact).matrix, made.noise_sd * ratio)
        if self.fit.range_beyond is None:
            return made
        units = np.outer(self._ranges[0], self._ranges[0])
        ratio = math.sqrt(float(np.mean(units[beside] ** 2))) if d > 1 else float(units[0, 0])
        return replace(made, noisy=made.noisy * units, exact=made.exact * units, noise_sd=made.noise_sd * ratio)

    def _prepare_edges(self, law: AdditiveLaw) -> None:
        """Simulate what the largest eigenvalues of noise come to, in units of its standard deviation.

        In these units the noise has the same law at every epsilon, or nearly so.
        """
        d, sd = self.spectrum.size, law.noise_sd(1)
        shape = (self._seed, d, *((name, value) for name, value in law.parameters().items() if name != "epsilon"))
        if shape not in _EDGES:
            generator = seeded_generator(self._seed + 1)  # other numbers than those of the fits
            _EDGES[shape] = noise_edges(lambda: law.simulated_noise(generator)[:d, :d] / sd, d)
        self._edges = _EDGES[shape]
