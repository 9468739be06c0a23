"""Noise for the diagonal of a second moment, by which features are screened before the matrix is drawn."""

from dataclasses import dataclass

import numpy as np

from ..accounting.calibration import exact, float_above
from ..accounting.sensitivity import diagonal_l1
from ..errors import CapacityError
from ..guarantee import Adjacency, Guarantee, Numerics
from ..numerics import IntArray
from ..sampling.discrete import discrete_laplace
from ..sampling.matrices import FARTHEST, cut_off

# The sampler draws scales up to this in int64, with room for 400 of them: one draw in e^400 is farther out.
_LARGEST_SCALE = FARTHEST // 2**10


@dataclass(frozen=True)
class DiagonalMechanism:
    """Discrete Laplace noise of one scale on the diagonal of an integer second moment.

    Parameters
    ----------
    epsilon : float
    adjacency : Adjacency

    Formal guarantee
    ----------------
    Pure epsilon. One unit adds a positive semidefinite matrix of trace at most `grid`, so the entries of its diagonal
    are not negative and add up to at most `grid`. A replaced unit moves the diagonal by at most twice that in l1, one
    that is added or removed by at most that.

    Examples
    --------
    >>> mechanism = DiagonalMechanism(0.25, Adjacency.REPLACE_ONE)
    >>> mechanism.scale(4**16) / 4**16, str(mechanism.guarantee())
    (8.0, '0.25-differentially private (replace one row), exact numerics')
    """

    epsilon: float
    adjacency: Adjacency

    def guarantee(self) -> Guarantee:
        """Return what one release of a diagonal promises."""
        return Guarantee(self.epsilon, 0.0, self.adjacency, Numerics.EXACT)

    def scale(self, grid: int) -> float:
        """Return the scale of the noise where units have a trace of at most `grid`."""
        return float_above(diagonal_l1(self.adjacency) * grid / exact(self.epsilon))

    def check_grid(self, grid: int) -> None:
        """Refuse noise that does not fit int64."""
        if self.scale(grid) > _LARGEST_SCALE:
            raise CapacityError(
                "The noise of a screening at this epsilon does not fit int64; use fewer bits in the RowBound, or a "
                "larger epsilon."
            )

    def draw(self, diagonal: IntArray, grid: int, generator: np.random.Generator) -> IntArray:
        """Return the diagonal plus noise; what does not fit is cut off after the noise was added."""
        noise = discrete_laplace(self.scale(grid), diagonal.size, generator)
        return cut_off(noise.astype(object) + diagonal)
