"""Laws that add noise: the integer second moment plus integer noise."""

from abc import abstractmethod

import numpy as np

from ..errors import CapacityError
from ..postprocess.spectrum import top_components
from ..samplers.symmetric import mirror_upper
from .base import FloatArray, IntArray, Integers, Values
from .central import CentralLaw

# Noise becomes integers in blocks of rows, so that a wide matrix is not copied on the way.
_ROWS_AT_ONCE = 512
_SIMULATED_GRID = 2.0**32


class AdditiveLaw(CentralLaw):
    """Releases the integer second moment plus integer noise; directions are its eigenvectors."""

    releases = "matrix"
    adds_noise = True
    simulates_up_to = 1000

    @abstractmethod
    def noise_scale(self) -> float:
        """Return the scale parameter of the noise on C, for rows of norm at most 1."""

    @abstractmethod
    def noise(self, generator: np.random.Generator, grid: float = 1.0) -> FloatArray | IntArray:
        """Return symmetric noise for C, times `grid`, the squared row norm on the grid; int64 where it is exact."""

    @property
    @abstractmethod
    def off_diagonal_sd(self) -> float:
        """Standard deviation of an off-diagonal entry of the noise on C."""

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

    def log_density(self, noise: FloatArray) -> FloatArray | None:
        """Return the log density of the noise on C, for a stack of matrices, up to a constant; None if not known."""
        del noise
        return None

    def check_grid(self, grid: int) -> None:
        """Refuse noise that would overflow int64."""
        if self.noise_reach * grid >= 2.0**62:
            raise CapacityError(
                "The noise at this epsilon does not fit int64 on this grid; use fewer bits in the RowBound."
            )

    def draw(self, gram: IntArray, grid: int, n_rows: int, generator: np.random.Generator) -> Integers:
        """Draw the integer noise, and add the integer second moment: the sum is exact."""
        integers = whole_numbers(self.noise(generator, float(grid)), generator)
        integers += gram
        return {"matrix": integers, **self.draw_count(n_rows, grid, generator)}

    def second_moment(self, values: Values, n_rows: int) -> FloatArray:
        """Return the noisy second moment, less the mean of the noise."""
        matrix = values["matrix"] / n_rows
        matrix[np.diag_indices_from(matrix)] -= self.noise_mean / n_rows
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


def whole_numbers(noise: FloatArray | IntArray, generator: np.random.Generator) -> IntArray:
    """Return noise as int64, in its own memory, cut off at 2^62."""
    if noise.dtype != np.int64:
        if max(noise.max(), -noise.min()) >= 2.0**53:
            noise = with_last_bits(noise, generator)
        else:
            integers = noise.view(np.int64)
            for low in range(0, noise.shape[0], _ROWS_AT_ONCE):
                rows = slice(low, low + _ROWS_AT_ONCE)
                integers[rows] = np.rint(noise[rows]).astype(np.int64)
            noise = integers
    return np.asarray(np.clip(noise, -(2**62), 2**62, out=noise))


def with_last_bits(noise: FloatArray | IntArray, generator: np.random.Generator) -> IntArray:
    """Return real noise as integers, with random last bits where float64 has none.

    Beyond 2^53 floats are multiples of 2, 4, ..., and so coarse a noise would leave the last bits of the data alone. An
    even draw within the spacing of the floats is what a sampler of more bits would have there, up to its 53 bits.
    """
    whole = np.rint(noise).astype(np.int64)
    rows, columns = np.triu_indices(noise.shape[0])
    spacing = np.maximum(1.0, np.spacing(np.abs(noise[rows, columns]))).astype(np.int64)
    whole[rows, columns] += generator.integers(0, spacing) - spacing // 2
    mirror_upper(whole)
    return whole
