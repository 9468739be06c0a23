"""Symmetric Gaussian noise: the isotropic mechanism of eigenveil, and the entrywise one of the papers."""

import math
from abc import abstractmethod
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ..accounting.calibration import (
    decimal_above,
    discrete_gaussian_excess,
    exact,
    gaussian_epsilon,
    gaussian_mu,
    square_root_above,
)
from ..accounting.sensitivity import frobenius_squared
from ..errors import CapacityError, InvalidParameterError
from ..guarantee import Guarantee, Numerics, Relation
from ..moments import SecondMoments
from ..samplers.discrete import discrete_gaussian
from ..samplers.symmetric import symmetric
from .base import COUNT_SHARE, AdditiveMechanism, IntArray

# The share of delta kept for the difference between real and discrete Gaussians; it costs 0.05 % of noise.
DISCRETE_SHARE = 0.01


class GaussianNoise(AdditiveMechanism):
    """Independent discrete Gaussian noise on the upper triangle; subclasses choose the two scales.

    All numbers of a release, the private count included, are one Gaussian mechanism whose change has norm `mu` in
    units of the noise, so the exact (epsilon, delta) is that of a single number.
    """

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        if self.delta == 0:
            raise InvalidParameterError(
                f"{self.name} needs a delta above 0; give one, or choose a pure mechanism such as matrix_laplace."
            )

    @abstractmethod
    def _scales(self) -> tuple[float, float]:
        """Return the standard deviations on the diagonal and beside it."""

    def noise_scale(self) -> float:
        """Return the standard deviation on the diagonal."""
        return self._scales()[0]

    @property
    def off_diagonal_sd(self) -> float:
        """Standard deviation beside the diagonal."""
        return self._scales()[1]

    def total_mu(self) -> float:
        """Return the largest change of a whole release in units of the noise."""
        change = square_root_above(frobenius_squared(self.relation)) / self.noise_scale()
        matrix_share = 1 - COUNT_SHARE if self.relation is Relation.ADD_REMOVE else Fraction(1)
        return change / math.sqrt(matrix_share)

    def guarantee(self) -> Guarantee:
        """Return the (epsilon, delta) of the noise, and its rho for composition."""
        mu = self.total_mu()
        claimed = None
        epsilon = self.epsilon  # which the tight calibration has met from below
        if self.calibration == "paper":
            claimed = (self.epsilon, self.delta)
            epsilon = gaussian_epsilon(mu, self.delta * (1 - DISCRETE_SHARE))
        rho = decimal_above(exact(mu) ** 2 / 2 * Fraction(1_000_000_001, 1_000_000_000))
        return Guarantee(epsilon, self.delta, self.relation, Numerics.EXACT, rho=rho, claimed=claimed)

    def noise(self, generator: np.random.Generator, grid: float = 1.0) -> IntArray:
        """Return symmetric noise, discrete on a grid of `grid` units."""
        d = self.n_features
        diagonal, beside = self._scales()
        noise = symmetric(d, partial(discrete_gaussian, beside * grid), generator)
        np.fill_diagonal(noise, discrete_gaussian(diagonal * grid, d, generator))
        return noise

    @property
    def noise_reach(self) -> float:
        """Forty standard deviations of an entry."""
        return 40 * max(self._scales())

    def check(self, moments: SecondMoments) -> None:
        """Refuse moments that cannot be released, and a grid on which discrete noise is not as good as real."""
        super().check(moments)
        numbers = self.n_features * (self.n_features + 1) // 2 + 1
        scale = self.off_diagonal_sd * moments.bound.limit_squared
        excess = discrete_gaussian_excess(self.guarantee().epsilon, numbers, scale)
        if scale < 100 or excess > DISCRETE_SHARE * self.delta:
            raise CapacityError(
                "The integer grid is too coarse for this epsilon and delta; use more bits in the RowBound."
            )

    def _released_count(self, moments: SecondMoments, generator: np.random.Generator) -> int:
        if self.relation is Relation.REPLACE:
            return moments.n_rows
        # The count has sensitivity 1 and takes its share of mu^2. It is noised on the fine grid too, where the
        # discrete Gaussian is as good as the real one.
        grid = moments.bound.limit_squared
        scale = grid / (self.total_mu() * math.sqrt(COUNT_SHARE))
        noisy = moments.n_rows * grid + int(discrete_gaussian(scale, 1, generator)[0])
        return max(1, round(noisy / grid))


class Gaussian(GaussianNoise):
    """Gaussian noise of standard deviation s on the diagonal of C and s/sqrt(2) beside it.

    That is isotropic in the Frobenius geometry, where one row moves C by at most sqrt(2) (replace) or 1
    (add/remove): half the off-diagonal variance of entrywise noise, for the same privacy.

    Formal guarantee
    ----------------
    (epsilon, delta), for every epsilon, by the exact curve of the Gaussian mechanism (Balle and Wang 2018,
    Theorem 8); the noise is discrete on the integer grid, and a hundredth of delta pays for that.
    docs/gaussian.md has the proof. ``calibration="paper"`` takes s = sqrt(2 ln(1.25/delta))/epsilon on every
    entry, as Amin et al. (2018) print it after Dwork et al. (2014): it misses a factor sqrt(2) of sensitivity, and
    its guarantee says what it truly gives.

    Examples
    --------
    >>> round(Gaussian(epsilon=1.0, delta=1e-6, n_features=10).noise_scale(), 3)
    5.978
    """

    name = "gaussian"
    calibrations = ("tight", "paper")

    def _scales(self) -> tuple[float, float]:
        if self.calibration == "paper":
            scale = math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon
            return scale, scale
        mu = gaussian_mu(self.epsilon, self.delta * (1 - DISCRETE_SHARE))
        if self.relation is Relation.ADD_REMOVE:
            mu *= math.sqrt(1 - COUNT_SHARE)
        # The last factor exceeds the roundings of this line and the next.
        scale = square_root_above(frobenius_squared(self.relation)) / mu * (1 + 1e-12)
        return scale, scale / math.sqrt(2)
