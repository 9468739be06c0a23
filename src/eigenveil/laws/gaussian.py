"""Symmetric Gaussian noise: the isotropic law of eigenveil, and the entrywise one of the papers."""

import math
from abc import abstractmethod
from fractions import Fraction
from functools import partial

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
from ..accounting.sensitivity import frobenius_squared
from ..errors import CapacityError
from ..guarantee import Guarantee, Numerics, Relation
from ..samplers.discrete import discrete_gaussian
from ..samplers.symmetric import symmetric
from .additive import AdditiveLaw
from .base import FloatArray, IntArray, Integers, Values
from .central import COUNT_SHARE


class GaussianNoise(AdditiveLaw):
    """Independent discrete Gaussian noise on the upper triangle; subclasses choose the two scales.

    All numbers of a release, the private count included, are one Gaussian mechanism whose change has norm `mu` in
    units of the noise, so the exact (epsilon, delta) is that of a single number.
    """

    needs_delta = True
    numerics = Numerics.EXACT

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

    def check_grid(self, grid: int) -> None:
        """Refuse noise that would overflow, and a grid on which discrete noise is not as good as real."""
        super().check_grid(grid)
        numbers = self.n_features * (self.n_features + 1) // 2 + 1
        scale = self.off_diagonal_sd * grid
        excess = discrete_gaussian_excess(self.guarantee().epsilon, numbers, scale)
        if scale < 100 or excess > DISCRETE_SHARE * self.delta:
            raise CapacityError(
                "The integer grid is too coarse for this epsilon and delta; use more bits in the RowBound."
            )

    def epsilon_at(self, delta: float) -> float:
        """Return epsilon by the exact curve of the noise."""
        stated = super().epsilon_at(delta)
        return min(stated, gaussian_epsilon(self.total_mu(), delta * (1 - DISCRETE_SHARE))) if delta > 0 else stated

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Return minus half of the squared noise, each entry of the upper triangle in units of its scale."""
        d = self.n_features
        diagonal, beside = self._scales()
        weights = np.triu(np.full((d, d), beside**-2), 1) + np.eye(d) * diagonal**-2
        return np.asarray(-0.5 * np.einsum("nij,ij->n", np.square(noise), weights))

    def draw_count(self, n_rows: int, grid: int, generator: np.random.Generator) -> Integers:
        """Return the noisy number of rows under add/remove, as one more number of the same Gaussian release."""
        if self.relation is Relation.REPLACE:
            return {}
        # The count has sensitivity 1 and takes its share of mu^2. It is noised on the fine grid too, where the
        # discrete Gaussian is as good as the real one.
        scale = grid / (self.total_mu() * math.sqrt(COUNT_SHARE))
        noisy = n_rows * grid + int(discrete_gaussian(scale, 1, generator)[0])
        return {"count": np.array(max(1, round(noisy / grid)))}

    def count_log_density(self, values: Values, n_rows: int) -> FloatArray | float:
        """Return minus half of the squared noise of the count, in units of its scale."""
        if "count" not in values:
            return 0.0
        precision = self.total_mu() ** 2 * float(COUNT_SHARE)
        return np.asarray(-precision / 2 * np.square(values["count"] - n_rows))


class Gaussian(GaussianNoise):
    """Gaussian noise of standard deviation s on the diagonal of C and s/sqrt(2) beside it.

    That is isotropic in the Frobenius geometry, where one row moves C by at most sqrt(2) (replace) or 1
    (add/remove): half the off-diagonal variance of entrywise noise, for the same privacy.

    Formal guarantee
    ----------------
    (epsilon, delta), for every epsilon, by the exact curve of the Gaussian mechanism (Balle and Wang 2018,
    Theorem 8); the noise is discrete on the integer grid, and a hundredth of delta pays for that.
    docs/explanation/gaussian.md has the proof. ``calibration="paper"`` takes s = sqrt(2 ln(1.25/delta))/epsilon on
    every entry, as Amin et al. (2018) print it after Dwork et al. (2014): it misses a factor sqrt(2) of sensitivity,
    and its guarantee says what it truly gives.

    Examples
    --------
    >>> round(Gaussian(epsilon=1.0, delta=1e-6, n_features=10).noise_scale(), 3)
    5.978
    """

    name = "gaussian"
    source = "Dwork et al. 2014, recalibrated (Balle and Wang 2018, Theorem 8)"
    use_when = "delta > 0, many features"
    calibrations = ("tight", "paper")

    @property
    def rotation_invariant(self) -> bool:
        """With our constants; the published ones make the diagonal too quiet for it."""
        return self.calibration == "tight"

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
