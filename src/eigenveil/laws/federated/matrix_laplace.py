"""Matrix Laplace noise of several sites: t + 1 of them draw all of it, so that one of these is honest."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...accounting.calibration import decimal_below, exact
from ...samplers.lazy_matrix import public_shift, rounded_sum
from ...samplers.symmetric import symmetric
from ..base import FloatArray, IntArray, Integers
from ..matrix_laplace import MatrixLaplace
from ..noise_facts import NoiseFacts
from .base import FederatedLaw

LOW_DIGITS_SHARE = Fraction(1, 128)
"""What digits below a coarser grid cost, in units of epsilon: they are uniform there, and not those of the noise."""


class FederatedMatrixLaplace(FederatedLaw, MatrixLaplace):
    """The sum of t + 1 whole draws of `matrix_laplace`, one by each of the first t + 1 sites.

    Formal guarantee
    ----------------
    Pure epsilon against t sites and whoever adds up: one of the t + 1 is honest, and its noise alone hides a unit of
    any site. Noise is rounded to multiples of 2^s, and has uniform digits below, so that sums of sites need not be
    rounded; that costs at most d^1.5 2^s / grid of epsilon, for which `LOW_DIGITS_SHARE` is kept.

    Examples
    --------
    >>> law = FederatedMatrixLaplace(epsilon=1.0, n_features=10, n_sites=4, n_colluding=1)
    >>> round(law.off_diagonal_sd / law.part.off_diagonal_sd, 4)
    1.4142
    """

    name = "federated_matrix_laplace"
    kind = MatrixLaplace
    source = "new in eigenveil"
    use_when = "several sites, delta = 0"
    calibrations = ("balanced",)  # type: ignore[assignment]
    part: MatrixLaplace

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        less = decimal_below(exact(self.epsilon) / (1 + LOW_DIGITS_SHARE))
        self.part = MatrixLaplace(epsilon=less, n_features=self.n_features, relation=self.relation)
        self.beside = ("count",) if self.count_share else ()

    @property
    def n_draws(self) -> int:
        """How many sites draw, the first ones: so many that one of them is honest."""
        return self.n_colluding + 1

    @property
    def matrix_epsilon(self) -> Fraction:
        """That of one draw."""
        return self.part.matrix_epsilon

    @property
    def _count_scale(self) -> Fraction:
        return self.part._count_scale

    @property
    def off_diagonal_sd(self) -> float:
        """That of a sum of independent draws."""
        return self.part.off_diagonal_sd * math.sqrt(self.n_draws)

    @property
    def trace_variance(self) -> float:
        """That of a sum of independent draws."""
        return self.part.trace_variance * self.n_draws

    @property
    def excess(self) -> float:
        """Free cumulants of independent draws add up, so their ratio falls."""
        return self.part.excess / self.n_draws

    @property
    def noise_reach(self) -> float:
        """That of all draws."""
        return self.part.noise_reach * self.n_draws

    def noise_facts(self) -> NoiseFacts:
        """Return those of the sum."""
        facts = super().noise_facts()
        return replace(facts, count_variance=facts.count_variance * self.n_draws)

    def noise(self, generator: np.random.Generator, grid: float = 1.0) -> FloatArray:
        """Return a quick float draw of the sum, for simulation alone."""
        return np.asarray(np.sum([self.part.noise(generator, grid) for _ in range(self.n_draws)], axis=0))

    def count_noise(self, grid: int, generator: np.random.Generator) -> int:
        """Return noise for a number of rows that is paid for, of all draws."""
        return sum(self.part.count_noise(grid, generator) for _ in range(self.n_draws))

    def log_density(self, noise: FloatArray) -> None:  # type: ignore[override]
        """Return nothing: that of a sum is not known."""
        del noise

    def shifts(self, grid: int) -> dict[str, int]:
        """Return no shift: sums of sites are on the grid of the rows."""
        del grid
        return {}

    def low_digits(self, grid: int) -> int:
        """Return s: digits of noise below 2^s are uniform. So that they cost little, and are a thousandth of it."""
        cost = LOW_DIGITS_SHARE * grid / (math.isqrt(self.n_features**3) + 1)
        affordable = max(0, math.floor(cost).bit_length() - 1)
        return min(affordable, public_shift(self.part.off_diagonal_sd * grid))

    def _site_draw(
        self, gram: IntArray, grid: int, n_rows: int, place: int, generator: np.random.Generator
    ) -> Integers:
        """Draw whole noise where the place is one of the first t + 1, and none elsewhere."""
        draws = place < self.n_draws
        matrix = gram + self._site_noise(grid, generator) if draws else gram.copy()
        count = n_rows * grid + (self.part.count_noise(grid, generator) if draws and self.beside else 0)
        return {"matrix": matrix, **{name: np.array(count) for name in self.beside}}

    def _site_noise(self, grid: int, generator: np.random.Generator) -> IntArray:
        d, s = self.n_features, self.low_digits(grid)
        lazy = self.part.lazy_noise(Fraction(grid, 2**s), generator)
        noise = rounded_sum(np.zeros((d, d), np.int64), 0, lazy, wraps=True)
        if s == 0:
            return noise
        low = symmetric(d, lambda size, own: own.integers(0, 2**s, size), generator)
        np.fill_diagonal(low, generator.integers(0, 2**s, d))
        noise *= 2**s  # modulo 2^64, as all that is added to it
        noise += low - 2 ** (s - 1)
        return noise
