"""The noisy power method (Hardt and Roth 2013; Hardt and Price 2014), for rows and with discrete noise."""

import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ..accounting.calibration import (
    DISCRETE_SHARE,
    decimal_above,
    discrete_gaussian_excess,
    exact,
    gaussian_epsilon,
    gaussian_mu,
    square_root_above,
)
from ..accounting.sensitivity import image_squared
from ..errors import CapacityError, integer_between
from ..guarantee import Guarantee, Numerics
from ..numerics import FloatArray, IntArray
from ..sampling.certified import LIMB, ExactMatrix
from ..sampling.discrete import discrete_gaussian
from ..sampling.matrices import FARTHEST, cut_off
from .base import DIRECTION_UNIT, CentralMechanism, Integers, Values, integer_directions, orthonormal

_MOST_ITERATIONS = 10_000
_DIRECTION_BITS = round(-math.log2(DIRECTION_UNIT))
_UP = 1 + 1e-12  # more than the roundings of a line of floats
# The noise is never below this share of what exactly orthonormal directions need, so that `check_grid` can tell.
_ROUNDED = 1 - 2.0**-8
# Farther than noise reaches in practice, in standard deviations.
_REACH = 40


class NoisyPower(CentralMechanism):
    """Power iterations from a random subspace, with Gaussian noise on every product with C.

    An iteration takes k directions X on the public grid of released directions, multiplies C by them in integers, adds
    discrete Gaussian noise, and orthonormalizes what comes out, which is post-processing; the last X is released.

    Formal guarantee
    ----------------
    (epsilon, delta). One row moves C X by at most sqrt(min(k, 2)) (replace) or 1 (add/remove) in Frobenius norm where X
    is orthonormal; for X on the grid the largest absolute row sum of X'X bounds it. So every iteration is a Gaussian
    mechanism, and L of them, each chosen after the last, cost L mu^2 (Dong, Roth and Su 2022, Corollary 3.3): one exact
    curve covers all (docs/research/gaussian.md). ``calibration="paper"`` has the published noise, sqrt(4 k L
    ln(1/delta))/epsilon times the largest entry of X (after Hardt and Price 2014). It is made for neighbours that
    differ in one entry of C by at most 1. A row changes all of them: `guarantee` states what is true for rows, where
    the largest entry may be as small as 1/sqrt(d).

    Parameters
    ----------
    iterations : int, optional
        L, public; by default 2 ln d rounded up, and 4 at least. The papers want it to grow with the inverse of the
        relative gap, which is private.

    Examples
    --------
    >>> mechanism = NoisyPower(epsilon=1.0, delta=1e-6, n_features=20, n_components=2)
    >>> mechanism.iterations, round(mechanism.equivalent_sd, 1)
    (6, 14.6)
    """

    name = "noisy_power"
    needs_delta = True
    releases = "subspace"
    numerics = Numerics.EXACT
    source = "Hardt and Roth 2013; Hardt and Price 2014; for rows, with its exact cost"
    use_when = "comparison"
    calibrations = ("tight", "paper")

    def __init__(self, *, iterations: int | None = None, **parameters: Any) -> None:
        super().__init__(**parameters)
        default = max(4, math.ceil(2 * math.log(self.n_features)))
        count = default if iterations is None else iterations
        self.iterations = integer_between("iterations", count, 1, _MOST_ITERATIONS)

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types."""
        return {**super().parameters(), "iterations": self.iterations}

    @cached_property
    def total_mu(self) -> float:
        """The largest change of all iterations together, in units of the noise."""
        if self.calibration == "tight":
            return gaussian_mu(self.epsilon, self.delta * (1 - DISCRETE_SHARE))
        change = image_squared(self.adjacency, self.n_components) * self.n_features * self.iterations
        # The largest entry of k orthonormal directions is at least 1/sqrt(d). Their rounding to the grid is in the
        # last factor; whatever it takes beyond that, `_scale` gives.
        return square_root_above(change) / self._published_sigma * (1 + 2.0**-10)

    @property
    def _published_sigma(self) -> float:
        return math.sqrt(4 * self.n_components * self.iterations * math.log(1 / self.delta)) / self.epsilon

    def guarantee(self) -> Guarantee:
        """Return the (epsilon, delta) of all iterations, and their rho for composition."""
        return self._stated

    @cached_property
    def _stated(self) -> Guarantee:
        mu, epsilon, claimed = self.total_mu, self.epsilon, None
        if self.calibration == "paper":
            claimed = (self.epsilon, self.delta)
            epsilon = gaussian_epsilon(mu, self.delta * (1 - DISCRETE_SHARE))
        rho = decimal_above(exact(mu) ** 2 / 2 * Fraction(1_000_000_001, 1_000_000_000))
        return Guarantee(epsilon, self.delta, self.adjacency, Numerics.EXACT, rho=rho, claimed=claimed, mu=mu)

    @property
    def _iteration_mu(self) -> float:
        return self.total_mu / math.sqrt(self.iterations) / _UP

    @property
    def equivalent_sd(self) -> float:
        """The standard deviation of one entry of the noise on C X, for rows of norm 1."""
        return square_root_above(image_squared(self.adjacency, self.n_components)) / self._iteration_mu

    def first_order_loss(self, eigenvalues: FloatArray, n_rows: float) -> tuple[float, float]:
        """Return the sum over i <= k < j of tau^2/(lambda_i + lambda_j), tau the noise on A X: after many iterations.

        An error of direction i along j shrinks by lambda_j/lambda_i in each iteration and gets new noise tau/lambda_i,
        so that its mean square is tau^2/(lambda_i^2 - lambda_j^2). The published noise grows with the largest entry of
        a direction; the least that it can be is taken.
        """
        k, tau = self.n_components, self.equivalent_sd / n_rows
        gap = float(eigenvalues[k - 1] - eigenvalues[k])
        loss = tau**2 * float(np.sum(1 / (eigenvalues[:k, None] + eigenvalues[None, k:])))
        return loss, 2 * tau * math.sqrt(eigenvalues.size) / gap if gap > 0 else math.inf

    def check_grid(self, grid: int) -> None:
        """Refuse noise that would overflow, and a grid on which discrete noise is not as good as real."""
        scale = self.equivalent_sd * grid
        numbers = self.n_features * self.n_components
        excess = discrete_gaussian_excess(self.guarantee().epsilon, numbers, scale * _ROUNDED)
        if scale * _ROUNDED < 100 or excess * self.iterations > DISCRETE_SHARE * self.delta:
            raise CapacityError(
                "The integer grid is too coarse for this epsilon and delta; use more bits in the RowBound."
            )
        largest = max(scale, self._published_sigma * grid) + math.sqrt(numbers) / self._iteration_mu
        if 2 * _REACH * largest >= FARTHEST:
            raise CapacityError("The noise at this epsilon does not fit int64; use a larger epsilon.")

    def draw(self, gram: IntArray, grid: int, n_rows: int, generator: np.random.Generator) -> Integers:
        """Draw a subspace; under add/remove the number of rows is not released."""
        del n_rows
        matrix, d, k = ExactMatrix(gram), self.n_features, self.n_components
        directions = integer_directions(orthonormal(generator.standard_normal((k, d))))
        for _ in range(self.iterations):
            noise = discrete_gaussian(self._scale(directions, grid), k * d, generator).reshape(k, d)
            noisy = cut_off(_image(matrix, directions) + noise)
            directions = integer_directions(orthonormal(noisy.astype(np.float64)))
        return {"directions": directions}

    def _scale(self, directions: IntArray, grid: int) -> float:
        """Return the scale of the noise on `_image` of public directions, however these were rounded."""
        needed = image_sensitivity(directions, grid, image_squared(self.adjacency, len(directions)))
        least = max(needed / self._iteration_mu * _UP, self.equivalent_sd * grid * _ROUNDED)
        if self.calibration == "tight":
            return least
        largest = int(np.abs(directions).max()) * DIRECTION_UNIT
        return max(least, self._published_sigma * grid * largest)

    def directions(self, values: Values) -> FloatArray:
        """Return the released directions as orthonormal rows."""
        return orthonormal(values["directions"])


def _image(matrix: ExactMatrix, directions: IntArray) -> Any:
    """Return the product of C with every direction in units of C's integers, rounded down, as Python's integers."""
    shift = LIMB + _DIRECTION_BITS
    return np.array([[value >> shift for value in matrix.times_vector(one)] for one in directions], dtype=object)


def image_sensitivity(directions: IntArray, grid: int, change: Fraction) -> float:
    """Return how far `_image` moves in l2 when one unit changes.

    A change D has at most two eigenvalues, of size `grid` at most and of different signs, so |D X|_F is at most grid
    times the root of `change` and of the largest eigenvalue of X'X, which no absolute row sum of X'X is below. Rounding
    down moves each of the numbers by less than one more.

    Examples
    --------
    >>> round(image_sensitivity(np.array([[2**24, 0]]), 2**16, Fraction(1)), 3) == round(2**16 + 2**0.5, 3)
    True
    """
    inner = directions.astype(object) @ directions.T.astype(object)
    largest = max(sum(abs(int(x)) for x in row) for row in inner)
    moved = square_root_above(change * grid**2 * largest / 4**_DIRECTION_BITS)
    return (moved + square_root_above(Fraction(directions.size))) * _UP
