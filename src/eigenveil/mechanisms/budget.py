"""Portions of a Gaussian budget: what several measurements, each chosen after the last, may take of one mu squared.

Gaussian costs add up in mu^2, also where a query depends on earlier answers (Dong, Roth and Su 2022, Corollary 3.3), so
one exact (epsilon, delta) curve covers all of them. docs/explanation/privacy_budget.md has the proof.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..accounting.calibration import (
    DISCRETE_SHARE,
    decimal_below,
    exact,
    gaussian_mu,
    square_root_above,
)
from ..errors import CapacityError
from ..numerics import IntArray
from ..sampling.discrete import discrete_gaussian
from ..sampling.matrices import FARTHEST, noisy
from .base import Integers
from .gaussian import Gaussian, check_fine_enough

# Counts are measured in units of this many to the row, where the discrete Gaussian is as good as the real one.
_COUNT_GRID = 2**30
# Farther than any noise reaches in practice, in standard deviations.
_REACH = 40
MOST_WEIGHT = 2**6
"""What the weights of two releases that are averaged add up to, at most."""


@dataclass(frozen=True)
class BudgetShare:
    """A share of mu^2, for one measurement of integers.

    Parameters
    ----------
    epsilon, delta : float
        The budget that it is a share of.
    share : Fraction
        Of mu squared.

    Examples
    --------
    >>> half, whole = (BudgetShare(1.0, 1e-6, Fraction(1, n)) for n in (2, 1))
    >>> round(half.scale(100) / whole.scale(100), 6)
    1.414214
    """

    epsilon: float
    delta: float
    share: Fraction

    def divided(self, parts: int) -> "BudgetShare":
        """Return one of so many equal parts of this share."""
        return BudgetShare(self.epsilon, self.delta, self.share / parts)

    def scale(self, squared_change: int) -> float:
        """Return the noise for numbers that one row changes by at most the root of `squared_change`, in l2."""
        mu = gaussian_mu(self.epsilon, self.delta * (1 - DISCRETE_SHARE)) * math.sqrt(self.share)
        # The last factor exceeds the roundings of this line and the one above.
        return square_root_above(Fraction(squared_change)) / mu * (1 + 1e-12)

    def check(self, n_numbers: int, squared_change: int, largest: int) -> None:
        """Refuse, before anything is spent, what overflows, or a grid too coarse for its share of delta's hundredth."""
        scale = self.scale(squared_change)
        check_fine_enough(scale, n_numbers, self.epsilon, self.delta * self.share)
        if largest + _REACH * scale >= FARTHEST:
            raise CapacityError("More rows, or more noise, than int64 can hold exactly; use a larger epsilon.")

    def measured(self, values: IntArray, squared_change: int, generator: np.random.Generator) -> IntArray:
        """Return integers plus discrete Gaussian noise, each with its own."""
        noise = discrete_gaussian(self.scale(squared_change), values.size, generator)
        return noisy(values, noise.reshape(values.shape))

    def first_at_most(self, counts: IntArray, most: int, generator: np.random.Generator) -> int:
        """Return the first place where falling counts of rows come to `most`, by bisection; the last if none does.

        Parameters
        ----------
        counts : ndarray of int64
            Private, falling, each moved by at most 1 by one row.
        most : int
            A public number.
        generator : numpy.random.Generator

        Examples
        --------
        >>> counts = np.array([9000, 8000, 3000, 40, 0, 0])
        >>> BudgetShare(1.0, 1e-6, Fraction(1, 20)).first_at_most(counts, 500, np.random.default_rng(0))
        3
        """
        each = self.divided(bisections(counts.size))
        noises = iter(each.count_noises(bisections(counts.size), generator))
        low, high = -1, counts.size - 1
        while high - low > 1:
            middle = (low + high) // 2
            noisy = int(counts[middle]) * _COUNT_GRID + next(noises)
            low, high = (low, middle) if noisy <= most * _COUNT_GRID else (middle, high)
        return high

    def count_noises(self, size: int, generator: np.random.Generator) -> list[int]:
        """Return the noise of so many counts, each a measurement of its own: none depends on an answer."""
        return [int(noise) for noise in discrete_gaussian(self.scale(_COUNT_GRID**2), size, generator)]

    def count_sd(self, n_places: int) -> float:
        """Return the noise of every count that `first_at_most` asks for, in rows."""
        return self.scale(1) * math.sqrt(bisections(n_places))

    def check_counts(self, n_places: int, n_rows: int) -> None:
        """Refuse, before anything is spent, counts that `first_at_most` cannot measure."""
        each = self.divided(bisections(n_places))
        each.check(1, _COUNT_GRID**2, n_rows * _COUNT_GRID)


def bisections(n_places: int) -> int:
    """Return the largest number of questions of a bisection over `n_places` places."""
    return max(1, math.ceil(math.log2(n_places)))


class Budget:
    """A Gaussian budget that was paid for, and what is left of it; no more than all can be taken.

    Examples
    --------
    >>> budget = Budget(Gaussian(epsilon=1.0, delta=1e-6, n_features=3))
    >>> budget.take(Fraction(1, 20)).share, budget.mechanism(budget.left).share
    (Fraction(1, 20), 0.95)
    """

    def __init__(self, mechanism: Gaussian) -> None:
        self.whole = mechanism
        self.left: Fraction = Fraction(1)

    def take(self, share: Fraction) -> BudgetShare:
        """Return a portion of the budget for numbers."""
        if not 0 < share <= self.left:
            raise ValueError("The budget has been spent.")
        self.left -= share
        return BudgetShare(self.whole.epsilon, self.whole.delta, share)

    def mechanism(self, share: Fraction) -> Gaussian:
        """Return the mechanism that draws a matrix at this share of the budget."""
        self.take(share)
        return at_share(self.whole, share)


def at_share(mechanism: Gaussian, share: Fraction) -> Gaussian:
    """Return the mechanism that draws the same matrix at a share of its budget."""
    return Gaussian(**(mechanism.parameters() | {"share": decimal_below(share)}))


def averaged(drawn: Sequence[tuple[Gaussian, Integers]]) -> tuple[Gaussian, Integers, int]:
    """Return one release for two of the same sums: their average, weighed by precision, in integers.

    Noise of variance v/a and v/b, weighed by a and b, averages to v/(a + b): what one release at the share a + b has.
    Weights are whole numbers that add up to 64 at most, so that sums keep their room in int64. With p and q, p + q = 1,
    the variance is p^2 v/a + q^2 v/b, which is the noise of the mechanism: within 1/(2^14 pq) of the best.

    Returns
    -------
    mechanism : Gaussian
        That of the average.
    integers : dict
        The weighed sums.
    divisor : int
        The sum of the weights, by which their units are divided.
    """
    first, second = (exact(mechanism.share) for mechanism, _ in drawn)
    weight = (first / (first + second)).limit_denominator(MOST_WEIGHT)
    divisor = weight.denominator
    weights = weight.numerator, divisor - weight.numerator
    together = 1 / (weight**2 / first + (1 - weight) ** 2 / second)
    farthest = FARTHEST // divisor
    integers = {
        name: np.asarray(
            sum(
                weight * np.minimum(np.maximum(one[name], -farthest), farthest)
                for weight, (_, one) in zip(weights, drawn, strict=True)
            )
        )
        for name in drawn[0][1]
    }
    return at_share(drawn[0][0], together), integers, divisor
