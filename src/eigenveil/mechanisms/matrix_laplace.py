"""The matrix Laplace mechanism: a balanced difference of two random positive matrices, pure epsilon."""

import math
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..accounting.calibration import float_above
from ..accounting.sensitivity import nuclear
from ..guarantee import Adjacency, Guarantee, Numerics
from ..numerics import FloatArray
from ..sampling.matrices import LazyMatrix
from ..sampling.wishart import LazyBalancedDifference, LazyWishartDifference, wishart
from .additive import RealNoiseMechanism


class MatrixLaplace(RealNoiseMechanism):
    """C + W1 - W2 with W1, W2 positive semidefinite: what the Laplace distribution is to numbers.

    Replace: (W1, W2) has a joint density proportional to exp(-max(tr W1, tr W2)/(2c)). Add/remove: proportional to
    exp(-(tr W1 + tr W2)/(2c)), so that they are independent Wishart(d + 1, c I). Both with c = 1/(2 epsilon).

    Formal guarantee
    ----------------
    Pure epsilon-differential privacy. One unit changes C by D with traces of D+ and D- at most 1, under add/remove one
    of them 0. Shifting (W1, W2) by (D+, D-) raises the larger trace, or the sum of the two, by at most 1, and so
    lowers the density by at most exp(epsilon): docs/research/matrix_laplace.md has the proof. New in eigenveil.
    ``calibration="tight"`` is the mechanism of version 0.1, whose files name it so: independent Wisharts under replace
    too, with c = 1/epsilon.

    Examples
    --------
    >>> mechanism = MatrixLaplace(epsilon=0.5, n_features=10)
    >>> mechanism.noise_scale(), round(mechanism.off_diagonal_sd, 2)
    (1.0, 9.26)
    """

    name = "matrix_laplace"
    source = "new in eigenveil; nearest: d'Orsi and Novikov 2026"
    use_when = "delta = 0; the default"
    calibrations: ClassVar[tuple[str, ...]] = ("balanced", "tight")

    def guarantee(self) -> Guarantee:
        """Return pure epsilon for the adjacency."""
        return Guarantee(self.epsilon, 0.0, self.adjacency, Numerics.EXACT)

    @property
    def balanced(self) -> bool:
        """Whether the larger trace alone counts, and not the sum of the two."""
        return self.adjacency is Adjacency.REPLACE_ONE and self.calibration == "balanced"

    @property
    def sharp_trace(self) -> bool:
        """True for the balanced mechanism: its trace has a variance below 8/epsilon^2 at every width."""
        return self.balanced

    @cached_property
    def _scale(self) -> Fraction:
        sensitivity = 1 if self.balanced else nuclear(self.adjacency)
        return sensitivity / (2 * self.matrix_epsilon)

    def noise_scale(self) -> float:
        """Return c, rounded up."""
        return float_above(self._scale)

    def lazy_noise(self, unit: Fraction, generator: np.random.Generator) -> LazyMatrix:
        """Return W1 - W2; c is rounded up."""
        d, scale = self.n_features, float_above(self._scale * unit)
        if self.balanced:
            return LazyBalancedDifference(d, scale, generator)
        return LazyWishartDifference(d, d + 1, scale, generator)

    def noise(self, generator: np.random.Generator, grid: float = 1.0) -> FloatArray:
        """Return a quick float draw of W1 - W2, for simulation alone."""
        return np.asarray(self.noises(generator, 1, grid)[0])

    def noises(self, generator: np.random.Generator, count: int, grid: float = 1.0) -> FloatArray:
        """Return `count` draws of `noise`, all at once."""
        scale, d = self.noise_scale() * grid, self.n_features
        first, second = (wishart(d + 1, scale, d, generator, count) for _ in range(2))
        if not self.balanced:
            return first - second
        traces = np.trace(first, axis1=1, axis2=2), np.trace(second, axis1=1, axis2=2)
        share = generator.random(count) ** (1 / self._dimension)
        signed = np.where(generator.random(count) < 0.5, -1.0, 1.0) * sum(traces)
        first *= (signed / traces[0])[:, None, None]
        second *= (signed / traces[1] * share)[:, None, None]
        first -= second
        return first

    @property
    def heaviness(self) -> float:
        """The kurtosis over that of a normal number, less 1, in closed form; for independent Wisharts 1/(d + 1).

        An entry s of W/tr W has 4 E s^2 = n/(p(p+1)) and 16 E s^4 = 3n(n+2)/(p(p+1)(p+2)(p+3)), n = d + 1, and that of
        N is T(s1 - U^(1/p) s2), T from a gamma distribution of shape 2p and U uniform.
        """
        p, n = self._dimension, self.n_features + 1
        if not self.balanced:
            return 1 / n
        second, fourth = n / (p * (p + 1)), 3 * n * (n + 2) / (p * (p + 1) * (p + 2) * (p + 3))
        square = 2 * p * (2 * p + 1) * second * (1 + p / (p + 2))
        mixed = fourth * (1 + p / (p + 4)) + 6 * second**2 * p / (p + 2)
        return 2 * p * (2 * p + 1) * (2 * p + 2) * (2 * p + 3) * mixed / square**2 / 3 - 1

    def entries(self, count: int, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return entries at (1, 2) and (1, 1), from the corner and the trace of each Wishart alone (Bartlett 1933)."""
        d, c = self.n_features, self.noise_scale()
        own, next_to = generator.chisquare(d + 1, (2, count)), generator.standard_normal((2, count))
        corners = np.stack([np.sqrt(own) * next_to, own]) * c  # by entry and Wishart
        if self.balanced:
            traces = own
            if d > 1:  # the rest of the trace: squares of the triangle below the first row
                traces = own + next_to**2 + generator.chisquare(self._dimension * 2 - d - 2, (2, count))
            corners *= traces.sum(axis=0) / traces
            corners[:, 1] *= generator.random(count) ** (1 / self._dimension)
        beside, diagonal = corners[:, 0] - corners[:, 1]
        return beside if d > 1 else diagonal, diagonal

    @property
    def _dimension(self) -> float:
        """Dimension of the space of symmetric matrices, p = d(d+1)/2."""
        return self.n_features * (self.n_features + 1) / 2

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Return the leading term of the log density: the exponent at W1 = N+, W2 = N-, where it is largest.

        It is exact for d = 1; beside it there is a factor of slow growth.
        """
        eigenvalues = np.linalg.eigvalsh(noise)
        up, down = (np.maximum(sign * eigenvalues, 0).sum(axis=1) for sign in (1, -1))
        size = np.maximum(up, down) if self.balanced else up + down
        return np.asarray(-size / (2 * self.noise_scale()))

    @property
    def off_diagonal_sd(self) -> float:
        """Twice c sqrt((d+1)(2p+1)/(p+2)), p = d(d+1)/2; for independent Wisharts c sqrt(2(d + 1))."""
        p, degrees = self._dimension, self.n_features + 1
        if self.balanced:
            return 2 * self.noise_scale() * math.sqrt(degrees * (2 * p + 1) / (p + 2))
        return self.noise_scale() * math.sqrt(2 * degrees)

    @property
    def trace_variance(self) -> float:
        """16 c^2 p(2p+1)/((p+1)(p+2)); for independent Wisharts 4 c^2 d(d+1)."""
        p, c = self._dimension, self.noise_scale()
        return 16 * c**2 * p * (2 * p + 1) / ((p + 1) * (p + 2)) if self.balanced else 8 * c**2 * p

    @property
    def excess(self) -> float:
        """Excess of a difference of two free Wisharts, d/(2(d+1)): R(g) = ag/(1 - bg^2) with b over a."""
        return self.n_features / (2 * (self.n_features + 1))

    @property
    def noise_reach(self) -> float:
        """Entries of a Wishart are at most its largest diagonal one, c times a chi-square of d + 1 degrees.

        Such a chi-square passes m + 2 sqrt(m t) + 2t with probability at most exp(-t); here t = 400. The difference
        has two such terms, and a balanced one is the sum of two such differences (docs/research/theory.md).
        """
        degrees = self.n_features + 1
        terms = 4 if self.balanced else 2
        return terms * self.noise_scale() * (degrees + 2 * math.sqrt(400 * degrees) + 800)
