"""Mechanisms that add noise to a matrix, and what is known of the noise in closed form: second moments and tails."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import CapacityError
from ..guarantee import Numerics
from ..numerics import FloatArray, IntArray
from ..sampling.matrices import LazyMatrix, cut_off, noisy, public_shift, rounded_sum
from .base import COUNT_SHARE, CentralMechanism, Integers, Releases, Values


@dataclass(frozen=True)
class NoiseFacts:
    """Second moments of the noise that is left in a second moment C, and of the error of its number of rows.

    For entries i, j, k, l of noise N that is invariant under rotations, E[n_ij n_kl] follows from two numbers.

    Attributes
    ----------
    n_features : int
        Width of the matrix.
    off_variance : float
        Variance beside the diagonal, in any basis.
    trace_variance : float
        Variance of the trace; that of an isotropic Gaussian matrix is 2 d `off_variance`.
    count_variance, trace_with_count : float
        Variance of the error of the number of rows, and its covariance with the trace of N.
    excess : float
        Fourth free cumulant of the spectrum over the square of the second: 0 for a semicircle.
    diagonal_extra : float
        What the variance of a diagonal entry has beyond that of noise invariant under rotations, which has none.
    gaussian : bool
        Whether the noise is Gaussian, so that Stein's identity is exact.
    """

    n_features: int
    off_variance: float
    trace_variance: float
    count_variance: float = 0.0
    trace_with_count: float = 0.0
    excess: float = 0.0
    diagonal_extra: float = 0.0
    gaussian: bool = False

    @property
    def shared_variance(self) -> float:
        """Covariance of u'Nu and v'Nv for orthogonal unit u and v; the variance of u'Nu is 2 `off_variance` more."""
        d = self.n_features
        return (self.trace_variance - 2 * d * self.off_variance - d * self.diagonal_extra) / d**2

    @property
    def diagonal_variance(self) -> float:
        """Variance of an entry on the diagonal."""
        return 2 * self.off_variance + self.shared_variance + self.diagonal_extra

    def draws(self, generator: np.random.Generator, count: int) -> tuple[FloatArray, FloatArray]:
        """Return Gaussian matrices and errors of the count with these second moments, which is quick.

        Examples
        --------
        >>> facts = NoiseFacts(3, off_variance=0.5, trace_variance=0.0)
        >>> noises, miscounted = facts.draws(np.random.default_rng(0), 2)
        >>> noises.shape, bool(abs(np.trace(noises[0])) < 1e-12), miscounted.tolist()
        ((2, 3, 3), True, [0.0, 0.0])
        """
        d = self.n_features
        noise = generator.standard_normal((count, d, d))
        noise *= math.sqrt(self.off_variance / 2)  # in place: fresh memory takes longer than the numbers
        noise += noise.transpose(0, 2, 1).copy()
        first, second = generator.standard_normal((2, count))
        trace = math.sqrt(self.trace_variance) * first
        diagonals = np.einsum("nii->ni", noise)
        diagonals += ((trace - diagonals.sum(axis=1)) / d)[:, None]
        slope = self.trace_with_count / self.trace_variance if self.trace_variance > 0 else 0.0
        rest = max(0.0, self.count_variance - slope * self.trace_with_count)
        return noise, np.asarray(slope * trace + math.sqrt(rest) * second)


def independent_facts(d: int, beside: float, diagonal: float, count: float, gaussian: bool = False) -> NoiseFacts:
    """Return the second moments of independent entries of these variances, and of an independent count.

    Twice the variance on the diagonal makes Gaussian noise invariant under rotations.
    """
    extra = diagonal - 2 * beside
    extra = 0.0 if abs(extra) < 1e-9 * diagonal else extra
    return NoiseFacts(d, beside, d * diagonal, count_variance=count, diagonal_extra=extra, gaussian=gaussian)


# Tails are simulated at no more than this width: they only get lighter with it.
_WIDEST = 24
# Simulated entries of each kind, and draws of a matrix, at most.
_ENTRIES, _DRAWS = 20_000, 1_000
_SEED = 20160711


def sorted_quantile(values: FloatArray, level: float) -> float:
    """Return the quantile of ascending numbers that `numpy.quantile` returns after a sort of its own."""
    place = level * (values.size - 1)
    below = min(int(place), values.size - 2) if values.size > 1 else 0
    low, high = float(values[below]), float(values[min(below + 1, values.size - 1)])
    return low + (high - low) * (place - below)


def tail_probability(simulated: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the probabilities that noise is at least of these sizes, from ascending simulated sizes.

    Beyond the last 1 of 100 the tail is continued as an exponential, whose mean is above the estimated one by two
    standard errors. Tails of the mechanisms are exponential or lighter.
    """
    count = simulated.size
    least = simulated[-max(2, count // 100) :]
    mean = float(np.mean(least - least[0])) * (1 + 2 / math.sqrt(least.size))
    known = (1 + count - np.searchsorted(simulated, sizes)) / (count + 1)
    tail = least.size / count * np.exp(-np.maximum(sizes - least[0], 0.0) / max(mean, np.finfo(float).tiny))
    return np.asarray(np.where(sizes < least[0], known, tail))


TYPICAL_VARIANCE = Fraction(1, 4)
"""A leading variance, for rows of norm at most 1, by which a free number of rows is compared with a paid one."""


@cache
def free_count_suffices(n_features: int) -> bool:
    """Return whether n - tr C, which costs nothing, determines the number of rows well enough.

    In units of what noise has where nothing is paid, a variance v that is divided by the number of rows then has error
    1 - 2v + v^2 (d + 1), and 1/(1 - share) + v^2/share beside a paid count: docs/research/gaussian.md.

    Examples
    --------
    >>> free_count_suffices(27), free_count_suffices(28)
    (True, False)
    """
    v = TYPICAL_VARIANCE
    return 1 - 2 * v + v**2 * (n_features + 1) <= 1 / (1 - COUNT_SHARE) + v**2 / COUNT_SHARE


_SIMULATED_GRID = 2.0**32
_ROWS_AT_ONCE = 64


def diagonal_of(matrix: FloatArray) -> FloatArray:
    """Return the diagonal as a view that can be written to."""
    return np.asarray(np.einsum("ii->i", matrix))


class AdditiveMechanism(CentralMechanism):
    """Releases the integer second moment plus noise; directions are its eigenvectors."""

    releases: ClassVar[Releases] = "matrix"
    adds_noise = True

    @abstractmethod
    def noise_scale(self) -> float:
        """Return the scale parameter of the noise on C, for rows of norm at most 1."""

    @abstractmethod
    def noise(self, generator: np.random.Generator, grid: float = 1.0) -> FloatArray | IntArray:
        """Return symmetric noise for C, times `grid`, the squared row norm on the grid.

        int64 where the noise is discrete: then it is what a release adds. Floats are a quick draw of the same
        distribution for simulation and post-processing, and never meet data.
        """

    def noises(self, generator: np.random.Generator, count: int, grid: float = 1.0) -> NDArray[Any]:
        """Return `count` draws of `noise`."""
        return np.stack([self.noise(generator, grid) for _ in range(count)])

    @property
    @abstractmethod
    def off_diagonal_sd(self) -> float:
        """Standard deviation of an off-diagonal entry of the noise on C."""

    @property
    def equivalent_sd(self) -> float:
        """Standard deviation beside the diagonal."""
        return self.off_diagonal_sd

    @property
    @abstractmethod
    def noise_reach(self) -> float:
        """A size in units of C that no entry of the noise passes in practice, to keep int64 from overflow."""

    @property
    def noise_mean(self) -> float:
        """The mean of the noise is this multiple of the identity: 0 except for one-sided noise."""
        return 0.0

    @property
    def rotation_invariant(self) -> bool:
        """True if the noise has the same distribution in every basis, as proofs on eigenvalues need."""
        return True

    @property
    def trace_variance(self) -> float:
        """Variance of the trace of the noise on C; here that of an isotropic Gaussian matrix."""
        return 2 * self.n_features * self.off_diagonal_sd**2

    @property
    def excess(self) -> float:
        """Fourth free cumulant of the noise's spectrum over the square of the second: 0 for a semicircle."""
        return 0.0

    def noise_facts(self) -> NoiseFacts:
        """Return the second moments of noise that is invariant under rotations, or of like independent entries."""
        count = 0.0
        if self.count_share:  # the variance of a discrete Laplace distribution
            ratio = math.exp(-1 / float(self._count_scale))
            count = 2 * ratio / (1 - ratio) ** 2
        d, beside = self.n_features, self.off_diagonal_sd**2
        if not self.rotation_invariant:
            return independent_facts(d, beside, beside, count)
        return NoiseFacts(d, beside, self.trace_variance, count_variance=count, excess=self.excess)

    def noise_quantiles(self, level: float) -> tuple[float, float]:
        """Return quantiles of the size of noise in standard deviations: beside the diagonal, and on it."""
        beside, diagonal = self._simulated_sizes()
        return sorted_quantile(beside, level), sorted_quantile(diagonal, level)

    def noise_beyond(self, sizes: FloatArray) -> FloatArray:
        """Return the probabilities that noise beside the diagonal passes these sizes, in standard deviations."""
        return tail_probability(self._simulated_sizes()[0], sizes)

    @property
    def heaviness(self) -> float:
        """The kurtosis of an entry beside the diagonal over that of a normal number, less 1; at least 0."""
        return max(0.0, float(np.mean(self._simulated_sizes()[0] ** 4)) / 3 - 1)

    @property
    def common_size(self) -> float:
        """The relative variance of the squared size that entries of a row have in common; 0 for independent ones.

        Entries that share it are normal but for it, so their kurtosis shows it.
        """
        return self.heaviness if self.rotation_invariant else 0.0

    def entries(self, count: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return simulated entries beside the diagonal and on it, about `count` of each; the same ones if d = 1."""
        d = self.n_features
        draws = int(np.clip(count // d, 1, _DRAWS))
        noise = np.stack([self.simulated_noise(generator) for _ in range(draws)])
        diagonal = np.diagonal(noise, axis1=1, axis2=2).ravel()
        return noise[:, *np.triu_indices(d, 1)].ravel() if d > 1 else diagonal, diagonal

    def _simulated_sizes(self) -> tuple[FloatArray, FloatArray]:
        """Return simulated sizes in standard deviations, ascending: beside the diagonal and on it."""
        parameters = self.parameters() | {"n_features": min(self.n_features, _WIDEST), "n_components": 1}
        return _simulated_sizes(type(self), tuple(parameters.items()))

    def log_density(self, noise: FloatArray) -> FloatArray | None:
        """Return the log density of the noise on C, for a stack of matrices, up to a constant; None if not known."""
        return None

    def check_grid(self, grid: int) -> None:
        """Refuse noise that would overflow int64."""
        self.check_count()
        if self.noise_reach * grid >= 2.0**62:
            raise CapacityError(
                "The noise at this epsilon does not fit int64 on this grid; use fewer bits in the RowBound."
            )

    def draw(self, gram: IntArray, grid: int, n_rows: int, generator: np.random.Generator) -> Integers:
        """Draw the integer noise, and add the integer second moment: the sum is exact."""
        noise: NDArray[Any] = self.noise(generator, float(grid))
        if noise.dtype != np.int64:
            raise TypeError(
                f"{self.name} draws real noise, which leaves by certified rounding alone; see RealNoiseMechanism."
            )
        if gram.dtype == object:
            return {"matrix": cut_off(noise + gram), **self.draw_count(n_rows, grid, generator)}
        for low in range(0, len(noise), _ROWS_AT_ONCE):  # few rows, which stay in a cache
            noisy(gram[low : low + _ROWS_AT_ONCE], noise[low : low + _ROWS_AT_ONCE])
        return {"matrix": noise, **self.draw_count(n_rows, grid, generator)}

    def second_moment(self, values: Values, n_rows: int) -> FloatArray:
        """Return the noisy second moment, less the mean of the noise."""
        matrix = values["matrix"] / n_rows
        diagonal_of(matrix)[:] -= self.noise_mean / n_rows
        return np.asarray(matrix)

    def noise_sd(self, n_rows: int) -> float:
        """Return the standard deviation beside the diagonal of A."""
        return self.off_diagonal_sd / n_rows

    def log_likelihood(self, values: Values, C: FloatArray, n_rows: int) -> FloatArray | None:
        """Return the log density of the noise that must have been added, and of the count."""
        density = self.log_density(values["matrix"] - C)
        return None if density is None else density + self.count_log_density(values, n_rows)

    def simulated_noises(self, generator: np.random.Generator, count: int) -> FloatArray:
        """Return noise of the same distribution, less its mean, for post-processing: nothing secret depends on it."""
        noises = self.noises(generator, count, _SIMULATED_GRID) / _SIMULATED_GRID
        return noises - self.noise_mean * np.eye(self.n_features) if self.noise_mean else noises

    def simulated_noise(self, generator: np.random.Generator) -> FloatArray:
        """Return one draw of `simulated_noises`."""
        return np.asarray(self.simulated_noises(generator, 1)[0])

    def simulated_errors(self, generator: np.random.Generator) -> tuple[FloatArray, float]:
        """Return simulated noise, and the independent noise of a paid count."""
        count = float(self.count_noise(1, generator)) if self.count_share > 0 else 0.0
        return self.simulated_noise(generator), count

    def first_order_loss(self, eigenvalues: FloatArray, n_rows: float) -> tuple[float, float]:
        """Return the sum over i <= k < j of tau^2/(lambda_i - lambda_j), tau the noise on A beside the diagonal.

        For independent entries in other bases than their own it is an upper bound. Without a gap it is infinite.
        """
        k, tau = self.n_components, self.off_diagonal_sd / n_rows
        gaps = eigenvalues[:k, None] - eigenvalues[None, k:]
        with np.errstate(divide="ignore"):
            loss, ratio = tau**2 * np.sum(1 / gaps), 2 * tau * np.sqrt(eigenvalues.size) / gaps.min()
        return float(loss), float(ratio)


@lru_cache(maxsize=64)
def _simulated_sizes(
    kind: type[AdditiveMechanism], parameters: tuple[tuple[str, Any], ...]
) -> tuple[FloatArray, FloatArray]:
    drawn = kind(**dict(parameters)).entries(_ENTRIES, np.random.default_rng(_SEED))
    beside, diagonal = (np.sort(np.abs(one)) / np.sqrt(np.mean(np.square(one))) for one in drawn)
    return beside, diagonal


class RealNoiseMechanism(AdditiveMechanism):
    """Adds real noise, and releases the sum rounded to a public grid: the rounding is certified, so the sum is exact.

    What leaves is round((C + N)/2^s) in units of 2^s, a post-processing of C + N for the real N of the proof.
    docs/explanation/exact_numerics.md has the bounds.
    """

    numerics = Numerics.EXACT

    @abstractmethod
    def lazy_noise(self, unit: Fraction, generator: np.random.Generator) -> LazyMatrix:
        """Return lazy noise for C, times `unit`."""

    def shifts(self, grid: int) -> Mapping[str, int]:
        """Return the shift of the matrix, by which its grid is a thousandth of the noise."""
        return {"matrix": public_shift(self.off_diagonal_sd * grid)}

    def draw(self, gram: IntArray, grid: int, n_rows: int, generator: np.random.Generator) -> Integers:
        """Draw lazy noise, and round its sum with the integer second moment."""
        shift = self.shifts(grid)["matrix"]
        noise = self.lazy_noise(Fraction(grid, 2**shift), generator)
        return {"matrix": rounded_sum(gram, shift, noise), **self.draw_count(n_rows, grid, generator)}
