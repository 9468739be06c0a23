"""Private choices and counts: the first of many counts that is small enough, noisy counts, a noisy diagonal."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from ..accounting.calibration import DISCRETE_SHARE, exact, float_above, gaussian_mu
from ..accounting.sensitivity import counts_l1, counts_squared, diagonal_l1, quadratic_form
from ..errors import CapacityError, InvalidParameterError, one_of, positive_number, probability_below_one
from ..guarantee import Adjacency, Guarantee, Numerics, Unit
from ..numerics import IntArray
from ..sampling.discrete import LAPLACE_SCALES, discrete_laplace, geometric, geometric_reaches
from ..sampling.matrices import FARTHEST, cut_off, noisy
from .budget import BudgetShare
from .gaussian import rho_above


def noise_scale(epsilon: Fraction) -> Fraction:
    """Return the scale of the geometric noise on the threshold and on every count, or refuse an epsilon too small.

    Examples
    --------
    >>> noise_scale(Fraction(1, 10))
    Fraction(20, 1)
    """
    scale, (least, largest) = 2 / epsilon, LAPLACE_SCALES
    if scale > largest:
        raise CapacityError("The noise of a private choice at this epsilon does not fit int64; use a larger epsilon.")
    return max(scale, least)  # more noise than needed is safe


def first_at_most(counts: Sequence[IntArray], most: int, epsilon: Fraction, generator: np.random.Generator) -> IntArray:
    """Search every column for the first place where a count, less noise, is at most `most`, less noise.

    The last place if there is none. AboveThreshold (Dwork et al. 2009) with one-sided noise: the first i with
    ``counts[i] - v_i <= most - z``, where z and all v_i are geometric, P(j) proportional to exp(-epsilon j / 2). Of v_i
    only that is asked, which is a coin.

    Formal guarantee
    ----------------
    Pure epsilon for each column, where one row moves all of its counts one way, each by at most 1, which holds for both
    relations where they count the rows beyond a growing bound. Proof: docs/research/row_bound.md.

    Parameters
    ----------
    counts : sequence of ndarray of int64
        The private counts of every column, in the order in which they are asked.
    most : int
        A public number.
    epsilon : Fraction
        The cost of the choice in one column.
    generator : numpy.random.Generator

    Examples
    --------
    >>> counts = np.array([5000, 5000, 3000, 40, 0, 0])
    >>> first_at_most([counts], 500, Fraction(1), np.random.default_rng(0))
    array([3])
    """
    scale = float_above(noise_scale(epsilon))
    noise = geometric(scale, len(counts), generator)
    # For every count but the last, whose place is what is left.
    limits = [column[:-1] + (z - most) for column, z in zip(counts, noise, strict=True)]
    low_enough = geometric_reaches(np.concatenate(limits), scale, generator)
    ends = np.cumsum([one.size for one in limits])
    return np.array([np.append(one, True).argmax() for one in np.split(low_enough, ends[:-1])])


@dataclass(frozen=True)
class PureSearch:
    """One search in each of several columns, at a pure epsilon for all of them together.

    Parameters
    ----------
    epsilon : Fraction
        The cost of the search, all columns together.
    """

    epsilon: Fraction

    def margin(self, n_columns: int, n_places: int) -> Fraction:
        """Return a number of rows that the noise of a search in one of so many columns hardly passes."""
        return 12 * n_columns / self.epsilon

    def places(self, counts: Sequence[IntArray], most: int, generator: np.random.Generator) -> IntArray:
        """Search each column of falling counts for the first place that comes to `most`."""
        return first_at_most(counts, most, self.epsilon / len(counts), generator)


@dataclass(frozen=True)
class GaussianSearch:
    """One search in each of several columns, at a share of a Gaussian budget for all of them together.

    Parameters
    ----------
    portion : BudgetShare
        The cost of the search, all columns together.
    """

    portion: BudgetShare

    def margin(self, n_columns: int, n_places: int) -> Fraction:
        """Return a number of rows that the noise of a search in one of so many columns hardly passes."""
        return Fraction(4 * self.portion.divided(n_columns).count_sd(n_places))

    def places(self, counts: Sequence[IntArray], most: int, generator: np.random.Generator) -> IntArray:
        """Search each column of falling counts for the first place that comes to `most`."""
        each = self.portion.divided(len(counts))
        return np.array([each.first_at_most(column, most, generator) for column in counts])


Search: TypeAlias = PureSearch | GaussianSearch


AUTO = "auto"
KINDS = ("laplace", "gaussian")
# Gaussian noise is drawn in units of this many to the count, where the discrete one is as good as the real one.
_FINE = 2**30
# A cell of more units counts so many, which are the most that fit. One unit still moves it by at most 1.
_MOST_COUNTED = FARTHEST // _FINE
# Scales of Laplace noise that the sampler draws in int64.
_SCALES = 2.0**-20, 2.0**40


@dataclass(frozen=True)
class CountMechanism:
    """Noise on counts: discrete Laplace, which is pure, or discrete Gaussian.

    Parameters
    ----------
    epsilon, delta : float
        The budget; delta is 0 for Laplace noise.
    adjacency : Adjacency
    kind : {"laplace", "gaussian"}

    Formal guarantee
    ----------------
    One unit is in at most one cell, so a replaced one moves the counts by at most 2 in l1 and the root of 2 in l2, one
    that is added or removed by 1. Laplace noise of scale 2/epsilon or 1/epsilon is pure epsilon; Gaussian noise has the
    exact (epsilon, delta) curve (Balle and Wang 2018, Theorem 8), and a hundredth of delta pays for its being discrete.

    Examples
    --------
    >>> mechanism = CountMechanism(1.0)
    >>> mechanism.scale, str(mechanism.guarantee())
    (2.0, '1-DP (pure), replace-one adjacency, unit: one row; exact sampling')
    """

    epsilon: float
    delta: float = 0.0
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    kind: str = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_number("epsilon", self.epsilon))
        object.__setattr__(self, "delta", probability_below_one("delta", self.delta))
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        one_of("kind", self.kind, KINDS)
        if self._gaussian == (self.delta == 0):
            raise InvalidParameterError("Gaussian noise needs a delta above 0, and Laplace noise has no use for one.")
        if not self._gaussian and not _SCALES[0] <= self.scale <= _SCALES[1]:
            raise InvalidParameterError(f"epsilon = {self.epsilon:g} is too far from 1 to draw noise for counts.")

    @property
    def _gaussian(self) -> bool:
        return self.kind == "gaussian"

    @property
    def _portion(self) -> BudgetShare:
        return BudgetShare(self.epsilon, self.delta, Fraction(1))

    @property
    def scale(self) -> float:
        """The scale of the noise, in units: that of Laplace noise, or a standard deviation."""
        if self._gaussian:
            return self._portion.scale(counts_squared(self.adjacency))
        return float_above(counts_l1(self.adjacency) / exact(self.epsilon))

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise on a count."""
        if self._gaussian:
            return self.scale
        ratio = math.exp(-1 / self.scale)
        return math.sqrt(2 * ratio) / (1 - ratio)

    @property
    def unit(self) -> float:
        """The value of one integer that leaves."""
        return 1 / _FINE if self._gaussian else 1.0

    def level(self, n_cells: int, chance: float = 0.05) -> float:
        """Return a level that the noise on some of `n_cells` cells passes with at most this chance."""
        each = math.log(n_cells / chance)
        return self.scale * (math.sqrt(2 * each) if self._gaussian else each)

    def guarantee(self, unit: Unit = Unit.ROW) -> Guarantee:
        """Return the guarantee of one release of counts; a function of the parameters alone."""
        rho = mu = None
        if self._gaussian:
            mu = gaussian_mu(self.epsilon, self.delta * (1 - DISCRETE_SHARE))
            rho = rho_above(mu)
        return Guarantee(self.epsilon, self.delta, self.adjacency, Numerics.EXACT, rho=rho, unit=unit, mu=mu)

    def check(self, n_cells: int, most: int) -> None:
        """Refuse, before anything is spent, noise, or `most` units, that do not fit; give 0 where these are private."""
        if self._gaussian:
            self._portion.check(n_cells, counts_squared(self.adjacency) * _FINE**2, most * _FINE)

    def draw(self, counts: IntArray, generator: np.random.Generator) -> IntArray:
        """Return integers plus noise, each with its own."""
        if self._gaussian:
            numbers = np.minimum(counts, _MOST_COUNTED) * _FINE
            return self._portion.measured(numbers, counts_squared(self.adjacency) * _FINE**2, generator)
        return noisy(counts, discrete_laplace(self.scale, counts.size, generator).reshape(counts.shape))


def count_mechanism(epsilon: float, delta: float, adjacency: Adjacency, kind: str = AUTO) -> CountMechanism:
    """Return the mechanism that was asked for; by default the one of less noise, from public numbers alone.

    Where Laplace noise is smaller, which it is but for a large delta, the delta is not spent.

    Examples
    --------
    >>> count_mechanism(1.0, 1e-6, Adjacency.REPLACE_ONE).kind, count_mechanism(1.0, 0.4, Adjacency.REPLACE_ONE).kind
    ('laplace', 'gaussian')
    """
    kind = one_of("mechanism", kind, (AUTO, *KINDS))
    if kind != AUTO:
        return CountMechanism(epsilon, delta, adjacency, kind)
    pure = CountMechanism(epsilon, 0.0, adjacency)
    if probability_below_one("delta", delta) == 0:
        return pure
    gaussian = CountMechanism(epsilon, delta, adjacency, "gaussian")
    return min((pure, gaussian), key=lambda mechanism: mechanism.noise_sd)


# The sampler draws scales up to this in int64, with room for 400 of them: one draw in e^400 is farther out.
_LARGEST_DIAGONAL_SCALE = FARTHEST // 2**10


@dataclass(frozen=True)
class DiagonalMechanism:
    """Discrete Laplace noise on the diagonal of an integer second moment, and on how uneven the diagonal is.

    Parameters
    ----------
    epsilon : float
        For the diagonal.
    test_epsilon : float
        For its unevenness: how far the largest tenth and the largest half of its entries exceed the average.
    adjacency : Adjacency

    Formal guarantee
    ----------------
    Pure epsilon for the diagonal, pure test_epsilon for its unevenness. One unit adds a positive semidefinite matrix of
    trace at most `grid`, so the entries of its diagonal are not negative and add up to at most `grid`. A replaced unit
    moves the diagonal by at most twice that in l1, one that is added or removed by at most that. The sum of the m
    largest of d entries less m/d of all is the largest of many sums with weights from -m/d to 1 - m/d, so either moves
    it by at most (1 - m/d) grid + m/d grid; rounded up, by no more, since `grid` is an integer. Two such sums share
    test_epsilon evenly.

    Examples
    --------
    >>> mechanism = DiagonalMechanism(0.25, 0.02, Adjacency.REPLACE_ONE)
    >>> mechanism.scale(4**16) / 4**16, mechanism.test_scale(4**16) / 4**16
    (8.0, 100.0)
    >>> str(mechanism.guarantees[0])
    '0.25-DP (pure), replace-one adjacency, unit: one row; exact sampling'
    """

    epsilon: float
    test_epsilon: float
    adjacency: Adjacency

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        """Guarantees of the diagonal and of the test."""
        diagonal, test = (
            Guarantee(epsilon, 0.0, self.adjacency, Numerics.EXACT) for epsilon in (self.epsilon, self.test_epsilon)
        )
        return diagonal, test

    def scale(self, grid: int) -> float:
        """Return the scale of the noise on the diagonal where units have a trace of at most `grid`."""
        return float_above(diagonal_l1(self.adjacency) * grid / exact(self.epsilon))

    def test_scale(self, grid: int) -> float:
        """Return the scale of the noise on each of the two sums that tell how uneven it is."""
        return float_above(2 * quadratic_form(self.adjacency) * grid / exact(self.test_epsilon))

    def check_grid(self, grid: int) -> None:
        """Refuse noise that does not fit int64."""
        if max(self.scale(grid), self.test_scale(grid)) > _LARGEST_DIAGONAL_SCALE:
            raise CapacityError(
                "The noise of a screening at this epsilon does not fit int64; use fewer bits in the RowBound, or a "
                "larger epsilon."
            )

    def draw(self, diagonal: IntArray, grid: int, generator: np.random.Generator) -> IntArray:
        """Return the diagonal plus noise; what does not fit is cut off after the noise was added."""
        noise = discrete_laplace(self.scale(grid), diagonal.size, generator)
        return cut_off(noise.astype(object) + diagonal)

    def draw_unevenness(self, diagonal: IntArray, grid: int, generator: np.random.Generator) -> tuple[int, int]:
        """Return `unevenness` of the largest tenth of the entries and of the largest half, plus noise."""
        tenth, half = discrete_laplace(self.test_scale(grid), 2, generator).tolist()
        return tenth + unevenness(diagonal, diagonal.size // 10), half + unevenness(diagonal, diagonal.size // 2)


def unevenness(diagonal: IntArray, count: int) -> int:
    """Return the sum of the `count` largest entries less that of as many average ones, rounded up.

    Examples
    --------
    >>> unevenness(np.array([9, 1, 1, 1]), 1), unevenness(np.array([3, 3, 3, 3]), 1)
    (6, 0)
    """
    entries = sorted(map(int, diagonal), reverse=True)
    return sum(entries[:count]) - sum(entries) * count // len(entries)
