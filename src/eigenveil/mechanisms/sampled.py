"""Mechanisms that sample directions: what leaves is drawn near the leading eigenvectors, without a noisy matrix."""

import math
from abc import abstractmethod
from fractions import Fraction

import numpy as np

from ..errors import CapacityError
from ..numerics import FloatArray, IntArray
from ..sampling.bingham import certifiable
from .base import DIRECTION_UNIT, CentralMechanism, Values


class SamplingMechanism(CentralMechanism):
    """Draws directions with density that grows with the variance along them."""

    @property
    @abstractmethod
    def strength(self) -> float:
        """The factor of C in the exponent of the density."""

    @property
    def equivalent_sd(self) -> float:
        """sqrt(d/2)/s: that of noise as large as the mechanism's own where a direction is just found.

        The gap g of C turns a direction by a mean square of 1/(2 s g) in each of the others, where noise of standard
        deviation t would turn it by (t/g)^2. A direction is found from g = d/s on, up to a factor, and there both
        agree for t^2 = d/(2 s^2).
        """
        return math.sqrt(self.n_features / 2) / self.strength

    def check_strength(self, strength: Fraction, grid: int) -> None:
        """Refuse a strength at which some data, of any number of rows that a grid can count, have no sure envelope."""
        if not certifiable(strength / grid, self.n_features):
            raise CapacityError(
                f"{self.name} at this epsilon concentrates directions more than can be certified on this grid; use a "
                "smaller epsilon, or more bits in the RowBound."
            )

    def directions(self, values: Values) -> FloatArray:
        """Return the drawn directions as orthonormal rows."""
        return orthonormal(values["directions"])

    def first_order_loss(self, eigenvalues: FloatArray, n_rows: float) -> tuple[float, float] | None:
        """Return k(d - k)/(2 n s), s the factor of C in the exponent."""
        k, d = self.n_components, eigenvalues.size
        gap = float(eigenvalues[k - 1] - eigenvalues[k])
        rate = 2 * n_rows * self.strength
        return k * (d - k) / rate, d / (rate * gap) if gap > 0 else math.inf


def integer_directions(directions: FloatArray) -> IntArray:
    """Return directions as integers of `DIRECTION_UNIT`, as they leave."""
    return np.rint(directions / DIRECTION_UNIT).astype(np.int64)


def orthonormal(rows: FloatArray) -> FloatArray:
    """Return rows that were rounded to the grid of directions as orthonormal ones, first come first kept."""
    factor, triangle = np.linalg.qr(rows.T)
    return np.asarray((factor * np.where(np.diag(triangle) < 0, -1.0, 1.0)).T)


def quadratic_forms(directions: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return u'Mu for every direction of every release of a stack."""
    return np.asarray(np.einsum("nki,ij,nkj->nk", directions, matrix, directions, optimize=True))
