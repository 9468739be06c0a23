"""What is known in closed form of noise that has the same law in every basis: few numbers tell its second moments."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..guarantee import Relation
from .base import FloatArray

if TYPE_CHECKING:
    from .gaussian import Gaussian


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
        """What the variance of u'Nu has beyond 2 `off_variance`, and so has the covariance of two such forms."""
        d = self.n_features
        return (self.trace_variance - 2 * d * self.off_variance - d * self.diagonal_extra) / d**2

    @property
    def diagonal_variance(self) -> float:
        """Variance of an entry on the diagonal."""
        return 2 * self.off_variance + self.shared_variance + self.diagonal_extra

    def draw(self, generator: np.random.Generator) -> tuple[FloatArray, float]:
        """Return a Gaussian matrix and an error of the count with these second moments: quicker than any law's own.

        Examples
        --------
        >>> facts = NoiseFacts(3, off_variance=0.5, trace_variance=0.0)
        >>> noise, miscounted = facts.draw(np.random.default_rng(0))
        >>> bool(abs(np.trace(noise)) < 1e-12), miscounted == 0
        (True, True)
        """
        d = self.n_features
        noise = generator.standard_normal((d, d)) * math.sqrt(self.off_variance / 2)
        noise += noise.T.copy()
        first, second = generator.standard_normal(2)
        trace = math.sqrt(self.trace_variance) * first
        noise[np.diag_indices(d)] += (trace - np.trace(noise)) / d
        slope = self.trace_with_count / self.trace_variance if self.trace_variance > 0 else 0.0
        rest = max(0.0, self.count_variance - slope * self.trace_with_count)
        return noise, float(slope * trace + math.sqrt(rest) * second)


def independent_facts(d: int, beside: float, diagonal: float, count: float, gaussian: bool = False) -> NoiseFacts:
    """Return the second moments of independent entries of these variances, and of an independent count.

    Twice the variance on the diagonal makes Gaussian noise invariant under rotations.
    """
    extra = diagonal - 2 * beside
    extra = 0.0 if abs(extra) < 1e-9 * diagonal else extra
    return NoiseFacts(d, beside, d * diagonal, count_variance=count, diagonal_extra=extra, gaussian=gaussian)


def gaussian_facts(law: "Gaussian") -> NoiseFacts:
    """Return the second moments of isotropic Gaussian noise, with what one number more tells of the trace.

    With noise of variance s^2 on the diagonal the trace has d s^2. Of the difference to what other numbers say of it,
    whose variance is V s^2, the share d/V is taken off: docs/explanation/gaussian.md. A free number of rows alone
    tells nothing of the trace: V is infinite.
    """
    d, variance = law.n_features, law.noise_scale() ** 2
    told = law.relation is Relation.REPLACE or law.count_share > 0
    inverse = 1 / (d + 1 + law.count_sd**2 / variance) if told else 0.0
    left = 1 - (d + 1) * inverse if law.relation is not Relation.REPLACE else 0.0
    return NoiseFacts(
        d,
        variance / 2,
        d * variance * (1 - d * inverse),
        count_variance=(d + 1) * variance * left,
        trace_with_count=d * variance * left,
        gaussian=True,
    )
