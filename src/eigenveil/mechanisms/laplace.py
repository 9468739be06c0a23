"""Laplace noise in two norms, as in the papers: independent entries, and density exp(-|N|_F / b)."""

import math
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np

from ..accounting.calibration import decimal_above, exact, float_above, square_root_above
from ..accounting.sensitivity import frobenius_squared, upper_triangle_l1_squared
from ..guarantee import Guarantee, Numerics
from ..numerics import FloatArray, IntArray
from ..sampling.discrete import discrete_laplace
from ..sampling.matrices import symmetric
from ..sampling.wishart import LazyFrobenius
from .additive import AdditiveMechanism, RealNoiseMechanism


class Laplace(AdditiveMechanism):
    """Discrete Laplace noise of one scale on the diagonal and above, mirrored below.

    Formal guarantee
    ----------------
    Pure epsilon with scale s/epsilon, where s bounds the l1 norm of a change of the upper triangle:
    sqrt(d(d+3)/2) for replace, (d+1)/2 for add/remove. ``calibration="paper"`` takes 2d/epsilon as Jiang et al.
    (2016, Algorithm 1) and Amin et al. (2018) do: up to 2.8 times what is needed; its guarantee says what that buys.

    Examples
    --------
    >>> Laplace(epsilon=1.0, n_features=1).noise_scale() >= 2 ** 0.5
    True
    """

    name = "laplace"
    numerics = Numerics.EXACT
    source = "Jiang, Xie and Zhang 2016, Algorithm 1"
    use_when = "comparison"
    calibrations: ClassVar[tuple[str, ...]] = ("tight", "paper")

    def _sensitivity(self) -> Fraction:
        return Fraction(square_root_above(upper_triangle_l1_squared(self.adjacency, self.n_features)))

    def noise_scale(self) -> float:
        """Return the scale of an entry."""
        change = 2 * self.n_features if self.calibration == "paper" else self._sensitivity()
        return float_above(change / self.matrix_epsilon)

    def guarantee(self) -> Guarantee:
        """Return pure epsilon, smaller than asked for with the paper's scale."""
        epsilon, claimed = self.epsilon, None
        if self.calibration == "paper":
            spent_on_count = exact(self.epsilon) - self.matrix_epsilon
            true = self._sensitivity() / Fraction(self.noise_scale()) + spent_on_count
            epsilon, claimed = decimal_above(true), (self.epsilon, 0.0)
        return Guarantee(epsilon, 0.0, self.adjacency, Numerics.EXACT, claimed=claimed)

    def noise(self, generator: np.random.Generator, grid: float = 1.0) -> IntArray:
        """Return symmetric noise, discrete on the grid."""
        scale = self.noise_scale() * grid
        noise = symmetric(self.n_features, partial(discrete_laplace, scale), generator)
        np.fill_diagonal(noise, discrete_laplace(scale, self.n_features, generator))
        return noise

    @property
    def rotation_invariant(self) -> bool:
        """Independent entries are no rotation-invariant distribution."""
        return False

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Return minus the summed sizes of the upper triangle, in units of the scale."""
        upper = np.triu(np.ones((self.n_features, self.n_features)))
        return np.asarray(-np.einsum("nij,ij->n", np.abs(noise), upper) / self.noise_scale())

    @property
    def off_diagonal_sd(self) -> float:
        """Sqrt(2) times the scale."""
        return math.sqrt(2) * self.noise_scale()

    @property
    def noise_reach(self) -> float:
        """An entry passes 400 scales with probability exp(-400)."""
        return 400 * self.noise_scale()


class Frobenius(RealNoiseMechanism):
    """Noise N on the symmetric matrices with density proportional to exp(-|N|_F / b).

    Its radius is Gamma(d(d+1)/2, b) and its direction uniform in the Frobenius geometry.

    Formal guarantee
    ----------------
    Pure epsilon with b = s/epsilon, s the Frobenius sensitivity (sqrt(2) for replace, 1 for add/remove), by the
    triangle inequality. ``calibration="paper"`` is the exponential mechanism as it is usually instantiated,
    exp(-epsilon |N|_F/(2 s)); Amin et al. (2018) print it without epsilon. The normalizer does not depend on the
    data, so the factor 1/2 buys nothing and the noise is private at epsilon/2.

    Examples
    --------
    >>> Frobenius(epsilon=0.5, n_features=4, adjacency="replace_one").noise_scale() == 8 ** 0.5
    True
    """

    name = "frobenius"
    source = "Amin et al. 2018, the exponential mechanism"
    use_when = "comparison"
    calibrations: ClassVar[tuple[str, ...]] = ("tight", "paper")

    def noise_scale(self) -> float:
        """Return b, the scale of the radius."""
        scale = square_root_above(frobenius_squared(self.adjacency) / self.matrix_epsilon**2)
        return 2 * scale if self.calibration == "paper" else scale

    def guarantee(self) -> Guarantee:
        """Return pure epsilon; half of what the matrix was given with the paper's factor."""
        epsilon, claimed = self.epsilon, None
        if self.calibration == "paper":
            count = exact(self.epsilon) - self.matrix_epsilon
            epsilon, claimed = decimal_above(self.matrix_epsilon / 2 + count), (self.epsilon, 0.0)
        return Guarantee(epsilon, 0.0, self.adjacency, Numerics.EXACT, claimed=claimed)

    def lazy_noise(self, unit: Fraction, generator: np.random.Generator) -> LazyFrobenius:
        """Return the noise; its scale is rounded up."""
        return LazyFrobenius(self.n_features, float_above(Fraction(self.noise_scale()) * unit), generator)

    def noise(self, generator: np.random.Generator, grid: float = 1.0) -> FloatArray:
        """Return a quick float draw of the same distribution, for simulation alone."""
        d = self.n_features
        # A symmetric Gaussian matrix with off-diagonal variance 1/2 is isotropic in the Frobenius geometry.
        gaussian = generator.standard_normal((d, d))
        below = np.tril(gaussian, -1) / math.sqrt(2)
        direction = below + below.T + np.diag(np.diag(gaussian))
        radius = generator.gamma(d * (d + 1) / 2, self.noise_scale() * grid)
        return np.asarray(direction * (radius / np.linalg.norm(direction)))

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Return minus the Frobenius norm, in units of the scale."""
        return np.asarray(-np.linalg.norm(noise, axis=(1, 2)) / self.noise_scale())

    @property
    def off_diagonal_sd(self) -> float:
        """E[radius^2] over d(d+1)/2 directions, half of it on each of the two mirrored entries."""
        shape = self.n_features * (self.n_features + 1) / 2
        return self.noise_scale() * math.sqrt((shape + 1) / 2)

    @property
    def noise_reach(self) -> float:
        """No entry is larger than the radius."""
        shape = self.n_features * (self.n_features + 1) / 2
        return self.noise_scale() * (shape + 2 * math.sqrt(400 * shape) + 800)
