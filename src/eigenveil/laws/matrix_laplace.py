"""The matrix Laplace law: a difference of two Wishart matrices, pure epsilon."""

import math

import numpy as np

from ..accounting.calibration import float_above
from ..accounting.sensitivity import nuclear
from ..guarantee import Guarantee, Numerics
from ..samplers import wishart
from .additive import AdditiveLaw
from .base import FloatArray


class MatrixLaplace(AdditiveLaw):
    """C + W1 - W2 with W1, W2 independent Wishart(d + 1, c I): what the Laplace law is to numbers.

    Formal guarantee
    ----------------
    Pure epsilon-differential privacy for c = s/(2 epsilon), where s is the nuclear-norm sensitivity (2 for
    replace, 1 for add/remove). With d + 1 degrees of freedom the Wishart density is proportional to
    exp(-tr W/(2c)) on the positive cone, so shifting the noise by D changes its density by at most
    exp(|D|_*/(2c)): docs/explanation/matrix_laplace.md has the proof. New in eigenveil.

    Examples
    --------
    >>> MatrixLaplace(epsilon=0.5, n_features=10).noise_scale()
    2.0
    """

    name = "matrix_laplace"
    numerics = Numerics.ROUNDED
    source = "new in eigenveil"
    use_when = "delta = 0; the default"

    def guarantee(self) -> Guarantee:
        """Return pure epsilon for the relation."""
        return Guarantee(self.epsilon, 0.0, self.relation, Numerics.ROUNDED)

    def noise_scale(self) -> float:
        """Return c, rounded up."""
        return float_above(nuclear(self.relation) / (2 * self.matrix_epsilon))

    def noise(self, generator: np.random.Generator, grid: float = 1.0) -> FloatArray:
        """Return W1 - W2."""
        scale, d = self.noise_scale() * grid, self.n_features
        noise = wishart(d + 1, scale, d, generator)
        noise -= wishart(d + 1, scale, d, generator)
        return noise

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Return the leading term of the log density.

        It is exact where the noise has one sign; beside it there is a factor of slow growth.
        """
        return np.asarray(-np.abs(np.linalg.eigvalsh(noise)).sum(axis=1) / (2 * self.noise_scale()))

    @property
    def off_diagonal_sd(self) -> float:
        """Equal to c sqrt(2(d + 1))."""
        return self.noise_scale() * math.sqrt(2 * (self.n_features + 1))

    @property
    def noise_reach(self) -> float:
        """Entries of a Wishart are at most its largest diagonal one, c times a chi-square of d + 1 degrees.

        Such a chi-square passes m + 2 sqrt(m t) + 2t with probability at most exp(-t); here t = 400.
        """
        degrees = self.n_features + 1
        return self.noise_scale() * (degrees + 2 * math.sqrt(400 * degrees) + 800)
