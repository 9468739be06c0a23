"""Laws that add noise: integer noise, or real noise rounded together with what it hides."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CapacityError
from ..guarantee import Numerics
from ..postprocess.spectrum import top_components
from ..samplers.lazy_matrix import COARSEST, FARTHEST, LazyMatrix, public_shift, rounded_sum
from .base import FloatArray, IntArray, Integers, Values
from .central import CentralLaw
from .noise_facts import NoiseFacts, independent_facts
from .noise_tails import WIDEST, Tails, simulated_tails

_SIMULATED_GRID = 2.0**32
_ROWS_AT_ONCE = 64


def diagonal_of(matrix: FloatArray) -> FloatArray:
    """Return the diagonal as a view that can be written to."""
    return np.asarray(np.einsum("ii->i", matrix))


class AdditiveLaw(CentralLaw):
    """Releases the integer second moment plus noise; directions are its eigenvectors."""

    releases = "matrix"
    adds_noise = True
    simulates_up_to = 1000

    @abstractmethod
    def noise_scale(self) -> float:
        """Return the scale parameter of the noise on C, for rows of norm at most 1."""

    @abstractmethod
    def noise(self, generator: np.random.Generator, grid: float = 1.0) -> FloatArray | IntArray:
        """Return symmetric noise for C, times `grid`, the squared row norm on the grid.

        int64 where the law is discrete: then it is what a release adds. Floats are a quick draw of the same law for
        simulation and post-processing, and never meet data.
        """

    @property
    @abstractmethod
    def off_diagonal_sd(self) -> float:
        """Standard deviation of an off-diagonal entry of the noise on C."""

    @property
    def equivalent_sd(self) -> float:
        """That standard deviation itself."""
        return self.off_diagonal_sd

    @property
    @abstractmethod
    def noise_reach(self) -> float:
        """A size in units of C that no entry of the noise passes in practice, to keep int64 from overflow."""

    @property
    def noise_mean(self) -> float:
        """The noise has this multiple of the identity as its mean: 0 but for one-sided noise."""
        return 0.0

    @property
    def rotation_invariant(self) -> bool:
        """Whether the noise has the same law in every basis, as proofs about eigenvalues want it."""
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
        """Return them for noise that is invariant under rotations, or for independent entries that are all alike."""
        count = 0.0
        if self.count_share > 0:  # the variance of a discrete Laplace law
            ratio = math.exp(-1 / float(self._count_scale))
            count = 2 * ratio / (1 - ratio) ** 2
        d, beside = self.n_features, self.off_diagonal_sd**2
        if not self.rotation_invariant:
            return independent_facts(d, beside, beside, count)
        return NoiseFacts(d, beside, self.trace_variance, count_variance=count, excess=self.excess)

    def noise_quantiles(self, level: float) -> tuple[float, float]:
        """Return what noise beside the diagonal, and on it, stays within at this probability, in its deviations."""
        return self._tails().quantiles(level)

    @property
    def common_size(self) -> float:
        """The relative variance of the squared size that entries of a row have in common; 0 for independent ones."""
        return self._tails().common_size if self.rotation_invariant else 0.0

    def _tails(self) -> Tails:
        parameters = self.parameters() | {"n_features": min(self.n_features, WIDEST), "n_components": 1}
        return _tails(type(self), tuple(parameters.items()))

    def log_density(self, noise: FloatArray) -> FloatArray | None:
        """Return the log density of the noise on C, for a stack of matrices, up to a constant; None if not known."""
        del noise
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
                f"{self.name} draws real noise, which leaves by certified rounding alone; see RealNoiseLaw."
            )
        for low in range(0, len(noise), _ROWS_AT_ONCE):  # few rows, which stay in a cache
            part, whole = noise[low : low + _ROWS_AT_ONCE], gram[low : low + _ROWS_AT_ONCE]
            # Cut off together with what it hides, or the cut would show it; |gram| is below 2^62: nothing overflows.
            np.maximum(part, -FARTHEST - whole, out=part)
            np.minimum(part, FARTHEST - whole, out=part)
            part += whole
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

    def simulated_noise(self, generator: np.random.Generator) -> FloatArray:
        """Return noise of the same law, less its mean, for post-processing: nothing secret depends on it."""
        noise = self.noise(generator, _SIMULATED_GRID) / _SIMULATED_GRID
        return np.asarray(noise - self.noise_mean * np.eye(self.n_features))

    def simulated_errors(self, generator: np.random.Generator) -> tuple[FloatArray, float]:
        """Return such noise, and the independent noise of a paid count."""
        count = float(self.count_noise(1, generator)) if self.count_share > 0 else 0.0
        return self.simulated_noise(generator), count

    def simulate(self, second_moment: FloatArray, generator: np.random.Generator, size: int = 1) -> FloatArray:
        """Return the top eigenvectors of the public matrix plus simulated noise."""
        self.check_grid(int(_SIMULATED_GRID))
        noisy = (second_moment + self.simulated_noise(generator) for _ in range(size))
        return np.stack([top_components(matrix, self.n_components) for matrix in noisy])

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
def _tails(kind: type[AdditiveLaw], parameters: tuple[tuple[str, Any], ...]) -> Tails:
    law = kind(**dict(parameters))
    return simulated_tails(law.simulated_noise, law.n_features)


class RealNoiseLaw(AdditiveLaw):
    """Adds real noise, and releases the sum rounded to a public grid: the rounding is certified, so the sum is exact.

    What leaves is round((C + N)/2^s) in units of 2^s, a post-processing of C + N for the real N of the proof.
    docs/explanation/exact_sampling.md has the bounds.
    """

    numerics = Numerics.EXACT

    @abstractmethod
    def lazy_noise(self, unit: Fraction, generator: np.random.Generator) -> LazyMatrix:
        """Return lazy noise for C, times `unit`."""

    def shifts(self, grid: int) -> Mapping[str, int]:
        """Return the shift of the matrix, by which its grid is a thousandth of the noise."""
        return {"matrix": public_shift(self.off_diagonal_sd * grid)}

    @property
    def grid_width(self) -> float:
        """The width of that grid in units of C, at most: a matrix that leaves is rounded to it."""
        return self.off_diagonal_sd * 2.0**-COARSEST

    def draw(self, gram: IntArray, grid: int, n_rows: int, generator: np.random.Generator) -> Integers:
        """Draw lazy noise, and round its sum with the integer second moment."""
        shift = self.shifts(grid)["matrix"]
        noise = self.lazy_noise(Fraction(grid, 2**shift), generator)
        return {"matrix": rounded_sum(gram, shift, noise), **self.draw_count(n_rows, grid, generator)}
