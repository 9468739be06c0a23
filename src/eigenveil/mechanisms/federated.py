"""What every mechanism of several sites is: a central mechanism whose noise comes in shares."""

import math
from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ..accounting.calibration import decimal_below, exact, summed_gaussians_excess
from ..errors import CapacityError, integer_between
from ..guarantee import MASKS_ASSUMPTION, ONE_SITE_ASSUMPTION, Adjacency, Guarantee, sites_assumption
from ..numerics import FloatArray, IntArray
from ..sampling.discrete import discrete_gaussian
from ..sampling.matrices import public_shift, rounded_sum, symmetric
from .additive import AdditiveMechanism, NoiseFacts
from .base import Integers
from .gaussian import Gaussian
from .matrix_laplace import MatrixLaplace

UNITS = "units"
"""The name of the exact number of units among the numbers of a site, where the adjacency makes it public."""


class FederatedMechanism(AdditiveMechanism):
    """A mechanism whose noise comes in shares of `n_sites` sites, of which `n_colluding` may reveal theirs.

    Parameters
    ----------
    n_sites : int
        K, each with units of its own.
    n_colluding : int
        t, less than K: the guarantee holds against every coalition of so many sites with whoever adds up.
    **parameters
        As of every central mechanism.

    Attributes
    ----------
    part : AdditiveMechanism
        The mechanism that is left of the sum in the worst case, and from which the guarantee follows.
    kind : type of AdditiveMechanism
        Of `part`.
    beside : tuple of str
        Noisy numbers that leave beside the matrix, in units of it.
    """

    kind: ClassVar[type[AdditiveMechanism]]
    part: AdditiveMechanism
    beside: tuple[str, ...]

    def __init__(self, *, n_sites: int, n_colluding: int, **parameters: Any) -> None:
        self.n_sites: int = integer_between("n_sites", n_sites, 2)
        self.n_colluding: int = integer_between("n_colluding", n_colluding, 0, self.n_sites - 1)
        super().__init__(**parameters)

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types."""
        return {**super().parameters(), "n_sites": self.n_sites, "n_colluding": self.n_colluding}

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the sum, with its assumptions about sites and masks."""
        promise = super().guarantee()  # type: ignore[safe-super]  # of the mechanism that is shared
        guarantee = promise.with_assumption(sites_assumption(self.n_sites, self.n_colluding))
        return guarantee.with_assumption(MASKS_ASSUMPTION).with_assumption(ONE_SITE_ASSUMPTION)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of all numbers that a site sends beside the matrix, in order."""
        return (*self.beside, UNITS) if self.adjacency is Adjacency.REPLACE_ONE else self.beside

    def site_capacity(self, grid: int) -> int:
        """Return the largest number of units of a site for which the sum over all sites stays below 2^62.

        Beyond, the sum is taken modulo 2^64, which keeps it private and of no use.
        """
        return int((2**62 - 1) // (grid * self.n_sites))

    def site_draw(self, gram: IntArray, grid: int, n_rows: int, place: int, generator: np.random.Generator) -> Integers:
        """Draw the numbers of the site at this place, its own sums plus its share of the noise, modulo 2^64.

        `gram`, `grid` and `n_rows` are those of the site, as for `draw`. The number of units is among them where the
        adjacency makes it public: it has no noise, and no neighbour has another one.
        """
        units = {UNITS: np.array(n_rows)} if UNITS in self.numbers else {}
        if gram.dtype == object:
            gram = (gram & (2**64 - 1)).astype(np.uint64).view(np.int64)
        return {**self._site_draw(gram, grid, n_rows, place, generator), **units}

    @abstractmethod
    def _site_draw(
        self, gram: IntArray, grid: int, n_rows: int, place: int, generator: np.random.Generator
    ) -> Integers:
        """Draw the numbers that have noise."""

    def combined(self, sums: Integers, grid: int) -> Integers:
        """Return the released integers from the sums over all sites; the noisy number of rows is rounded."""
        sums = {name: value for name, value in sums.items() if name != UNITS}
        if "count" not in sums:
            return sums
        return {**sums, "count": np.array(max(1, (2 * int(sums["count"]) + grid) // (2 * grid)))}


SUM_SHARE = Fraction(1, 10**9)
"""The share of epsilon and of delta that pays for a sum of discrete Gaussians not being one itself."""


class FederatedGaussian(FederatedMechanism, Gaussian):
    """The sum of discrete Gaussian shares of all sites, each of variance s^2/(K - t) for the s of `gaussian`.

    Formal guarantee
    ----------------
    (epsilon, delta) against t sites and whoever adds up: the other K - t have added variance s^2 at least. A sum of
    discrete Gaussians is as good as one of their variance but for a factor exp(10 sum_k exp(-2 pi^2 s^2 k/(k+1))) a
    number (Kairouz, Liu and Steinke 2021), which a billionth of epsilon and delta pays for.

    Examples
    --------
    >>> mechanism = FederatedGaussian(epsilon=1.0, delta=1e-6, n_features=10, n_sites=4, n_colluding=1)
    >>> round(mechanism.noise_scale() / mechanism.part.noise_scale(), 4)
    1.1547
    """

    name = "federated_gaussian"
    kind: ClassVar[type[AdditiveMechanism]] = Gaussian
    source = "Kairouz, Liu and Steinke 2021, on the isotropic noise of gaussian"
    use_when = "several sites, delta > 0"
    calibrations: ClassVar[tuple[str, ...]] = ("traced",)
    part: Gaussian

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        left = 1 - SUM_SHARE
        less = {name: decimal_below(exact(getattr(self, name)) * left) for name in ("epsilon", "delta")}
        self.part = Gaussian(**less, n_features=self.n_features, adjacency=self.adjacency)
        self.beside = (self._more, *(("count",) if self.count_share else ()))

    @property
    def _factor(self) -> float:
        """Ratio of standard deviations: noise summed over all K sites / over the K - t honest ones."""
        return math.sqrt(self.n_sites / (self.n_sites - self.n_colluding))

    @property
    def standard_deviations(self) -> tuple[float, float]:
        """Standard deviations of the summed noise on the diagonal and beside it."""
        diagonal, beside = self.part.standard_deviations
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


LOW_DIGITS_SHARE = Fraction(1, 128)
"""What digits below a coarser grid cost, in units of epsilon: they are uniform there, and not those of the noise."""


class FederatedMatrixLaplace(FederatedMechanism, MatrixLaplace):
    """The sum of t + 1 whole draws of `matrix_laplace`, one by each of the first t + 1 sites.

    Formal guarantee
    ----------------
    Pure epsilon against t sites and whoever adds up: one of the t + 1 is honest, and its noise alone hides a unit of
    any site. Noise is rounded to multiples of 2^s, and has uniform digits below, so that sums of sites need not be
    rounded; that costs at most d^1.5 2^s / grid of epsilon, for which `LOW_DIGITS_SHARE` is kept.

    Examples
    --------
    >>> mechanism = FederatedMatrixLaplace(epsilon=1.0, n_features=10, n_sites=4, n_colluding=1)
    >>> round(mechanism.off_diagonal_sd / mechanism.part.off_diagonal_sd, 4)
    1.4142
    """

    name = "federated_matrix_laplace"
    kind: ClassVar[type[AdditiveMechanism]] = MatrixLaplace
    source = "new in eigenveil"
    use_when = "several sites, delta = 0"
    calibrations: ClassVar[tuple[str, ...]] = ("balanced",)
    part: MatrixLaplace

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        less = decimal_below(exact(self.epsilon) / (1 + LOW_DIGITS_SHARE))
        self.part = MatrixLaplace(epsilon=less, n_features=self.n_features, adjacency=self.adjacency)
        self.beside = ("count",) if self.count_share else ()

    @property
    def n_draws(self) -> int:
        """The first t + 1 sites draw noise, so that one of them is honest."""
        return self.n_colluding + 1

    @property
    def matrix_epsilon(self) -> Fraction:
        """Epsilon for the matrix in one draw."""
        return self.part.matrix_epsilon

    @property
    def _count_scale(self) -> Fraction:
        return self.part._count_scale

    @property
    def off_diagonal_sd(self) -> float:
        """Standard deviation beside the diagonal of a sum of independent draws."""
        return self.part.off_diagonal_sd * math.sqrt(self.n_draws)

    @property
    def trace_variance(self) -> float:
        """Variance of the trace of a sum of independent draws."""
        return self.part.trace_variance * self.n_draws

    @property
    def excess(self) -> float:
        """Free cumulants of independent draws add up, so their ratio falls."""
        return self.part.excess / self.n_draws

    @property
    def noise_reach(self) -> float:
        """The reach of one draw times the number of draws."""
        return self.part.noise_reach * self.n_draws

    def noise_facts(self) -> NoiseFacts:
        """Return the second moments of the summed noise."""
        facts = super().noise_facts()
        return replace(facts, count_variance=facts.count_variance * self.n_draws)

    def noises(self, generator: np.random.Generator, count: int, grid: float = 1.0) -> FloatArray:
        """Return quick float draws of the sum, for simulation alone."""
        return np.asarray(np.sum([self.part.noises(generator, count, grid) for _ in range(self.n_draws)], axis=0))

    def count_noise(self, grid: int, generator: np.random.Generator) -> int:
        """Return noise for a number of rows that is paid for, of all draws."""
        return sum(self.part.count_noise(grid, generator) for _ in range(self.n_draws))

    def log_density(self, noise: FloatArray) -> None:  # type: ignore[override]
        """Return None: the density of a sum is not known."""

    def shifts(self, grid: int) -> dict[str, int]:
        """Return no shift: sums of sites are on the grid of the rows."""
        return {}

    def low_digits(self, grid: int) -> int:
        """Return s: digits of noise below 2^s are uniform, which costs little; 2^s is at most a thousandth of it."""
        cost = LOW_DIGITS_SHARE * grid / (math.isqrt(self.n_features**3) + 1)
        affordable = max(0, math.floor(cost).bit_length() - 1)
        return min(affordable, public_shift(self.part.off_diagonal_sd * grid))

    def _site_draw(
        self, gram: IntArray, grid: int, n_rows: int, place: int, generator: np.random.Generator
    ) -> Integers:
        """Draw whole noise where the place is one of the first t + 1, and none elsewhere."""
        if place >= self.n_draws:
            return {"matrix": gram.copy(), **{name: np.array(n_rows * grid) for name in self.beside}}
        d, s = self.n_features, self.low_digits(grid)
        lazy = self.part.lazy_noise(Fraction(grid, 2**s), generator)
        noise = rounded_sum(np.zeros((d, d), np.int64), 0, lazy, wraps=True)
        if s > 0:
            low = symmetric(d, lambda size, own: own.integers(0, 2**s, size), generator)
            np.fill_diagonal(low, generator.integers(0, 2**s, d))
            noise *= 2**s  # modulo 2^64, as all that is added to it
            noise += low - 2 ** (s - 1)
        count = n_rows * grid + self.part.count_noise(grid, generator) if self.beside else 0
        return {"matrix": gram + noise, **{name: np.array(count) for name in self.beside}}


FEDERATED_MECHANISMS: dict[str, type[FederatedMechanism]] = {
    mechanism.kind.name: mechanism for mechanism in (FederatedGaussian, FederatedMatrixLaplace)
}
"""By the name of the central mechanism that each of them is for several sites."""
