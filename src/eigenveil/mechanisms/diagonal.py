"""Noise for the diagonal of a second moment, by which features are screened before the matrix is drawn."""

from dataclasses import dataclass

import numpy as np

from ..accounting.calibration import exact, float_above
from ..accounting.sensitivity import diagonal_l1, quadratic_form
from ..errors import CapacityError
from ..guarantee import Adjacency, Guarantee, Numerics
from ..numerics import IntArray
from ..sampling.discrete import discrete_laplace
from ..sampling.matrices import FARTHEST, cut_off

# The sampler draws scales up to this in int64, with room for 400 of them: one draw in e^400 is farther out.
_LARGEST_SCALE = FARTHEST // 2**10


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
        if max(self.scale(grid), self.test_scale(grid)) > _LARGEST_SCALE:
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
