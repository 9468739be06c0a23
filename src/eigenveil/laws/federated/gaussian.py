"""Discrete Gaussian noise in shares: every site adds some, and any K - t of them add enough."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ...accounting.calibration import decimal_below, exact, summed_gaussians_excess
from ...errors import CapacityError
from ...samplers.discrete import discrete_gaussian
from ..base import IntArray, Integers
from ..gaussian import Gaussian
from .base import FederatedLaw

SUM_SHARE = Fraction(1, 10**9)
"""The share of epsilon and of delta that pays for a sum of discrete Gaussians not being one itself."""


class FederatedGaussian(FederatedLaw, Gaussian):
    """The sum of discrete Gaussian shares of all sites, each of variance s^2/(K - t) for the s of `gaussian`.

    Formal guarantee
    ----------------
    (epsilon, delta) against t sites and whoever adds up: the other K - t have added variance s^2 at least. A sum of
    discrete Gaussians is as good as one of their variance but for a factor exp(10 sum_k exp(-2 pi^2 s^2 k/(k+1))) a
    number (Kairouz, Liu and Steinke 2021), which a billionth of epsilon and delta pays for.

    Examples
    --------
    >>> law = FederatedGaussian(epsilon=1.0, delta=1e-6, n_features=10, n_sites=4, n_colluding=1)
    >>> round(law.noise_scale() / law.part.noise_scale(), 4)
    1.1547
    """

    name = "federated_gaussian"
    kind = Gaussian
    source = "Kairouz, Liu and Steinke 2021, on the isotropic noise of gaussian"
    use_when = "several sites, delta > 0"
    calibrations = ("traced",)  # type: ignore[assignment]
    part: Gaussian

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        left = 1 - SUM_SHARE
        less = {name: decimal_below(exact(getattr(self, name)) * left) for name in ("epsilon", "delta")}
        self.part = Gaussian(**less, n_features=self.n_features, relation=self.relation)
        self.beside = (self._more, *(("count",) if self.count_share else ()))

    @property
    def _factor(self) -> float:
        """Of the noise of all sites over that of K - t."""
        return math.sqrt(self.n_sites / (self.n_sites - self.n_colluding))

    def _scales(self) -> tuple[float, float]:
        diagonal, beside = self.part._sds
        return diagonal * self._factor, beside * self._factor

    def total_mu(self) -> float:
        """Return the largest change of a whole release in units of the noise of K - t sites."""
        return self.part.total_mu()

    @property
    def count_sd(self) -> float:
        """Standard deviation of a count that is paid for; 0 where none is."""
        return self.part.count_sd * self._factor

    def epsilon_at(self, delta: float) -> float:
        """Return epsilon by the exact curve of the noise, with what sums of discrete numbers cost."""
        return super().epsilon_at(delta) + float(SUM_SHARE)

    def check_grid(self, grid: int) -> None:
        """Refuse noise that would overflow, and a grid too coarse for the noise of one site or of K - t."""
        super().check_grid(grid)
        self.part.check_grid(grid)
        site = self.off_diagonal_sd * grid / math.sqrt(self.n_sites)
        excess = self.n_numbers * summed_gaussians_excess(self.n_sites, site)
        if 2 * excess > SUM_SHARE * min(1, self.epsilon, self.total_mu() ** 2):
            raise CapacityError(
                "The integer grid is too coarse for the noise of one site; use more bits in the RowBound."
            )

    def _site_draw(
        self, gram: IntArray, grid: int, n_rows: int, place: int, generator: np.random.Generator
    ) -> Integers:
        """Draw the site's share: discrete Gaussians of 1/K of the variance of all, whatever its place."""
        del place
        share = grid / math.sqrt(self.n_sites)
        numbers = self.noise(generator, share)
        numbers += gram
        trace = sum(gram.diagonal().tolist())
        true = {"trace": trace, "slack": n_rows * grid - trace, "count": n_rows * grid}
        sds = {"count": self.count_sd}
        noisy = {
            name: true[name] + int(discrete_gaussian(sds.get(name, self.noise_scale()) * share, 1, generator)[0])
            for name in self.beside
        }
        return {"matrix": numbers, **{name: np.array(value) for name, value in noisy.items()}}
