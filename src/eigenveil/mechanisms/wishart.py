"""Wishart noise: as published, which is not pure, and a corrected (epsilon, delta) form."""

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import chdtr, chdtrc

from ..accounting.calibration import decimal_above, exact, float_above, safe_boundary
from ..errors import InvalidParameterError, truth_value
from ..guarantee import Adjacency, Assumption, Guarantee, Numerics
from ..numerics import FloatArray
from ..sampling.matrices import COARSEST
from ..sampling.wishart import LazyWishart, wishart
from .additive import RealNoiseMechanism

# The densities below are differences of distribution functions good to 1e-14; this much of delta covers it.
_DELTA_SLACK = 1e-6
# Beyond it e^epsilon leaves the range of floats, and nothing is hidden anyway.
_LARGEST_EPSILON = 500.0
# Degrees of freedom beyond d - 1 that are tried: whole numbers, since an exact Wishart is a sum of squares.
_EXCESS = np.rint(np.geomspace(4.0, 8192.0, 34)).tolist()
_NOT_PURE = Assumption(
    "The published Wishart mechanism is not purely differentially private: with probability delta, the output reveals "
    "with certainty that a unit row was in place of a zero row.",
    "published as pure DP",
)


def adding_delta(epsilon: float, nu: float, scale: float) -> float:
    """Return the delta at `epsilon` of hiding that a unit row was added (seen from the data without it).

    Adding Wishart(m, c I) noise to C or to C + xx' differs, for a unit x, only through the number y, which is
    c chi2(nu) without the row and 1 + c chi2(nu) with it, nu = m - d + 1. Their likelihood ratio falls in y.
    """
    power = nu / 2 - 1
    exponent = (epsilon + 0.5 / scale) / power if power > 0 else math.inf
    boundary = -1 / math.expm1(-exponent)
    return float(chdtr(nu, boundary / scale) - math.exp(epsilon) * chdtr(nu, max(0.0, boundary - 1) / scale))


def removing_delta(epsilon: float, nu: float, scale: float) -> float:
    """Return the delta at `epsilon` of hiding that a unit row was removed (seen from the data with it)."""
    excess = 0.5 / scale - epsilon
    if excess <= 0:
        return 0.0  # the likelihood ratio never passes exp(1/(2c))
    power = nu / 2 - 1
    if power == 0:
        return float(-math.expm1(-excess))
    boundary = -1 / math.expm1(-excess / power)
    return float(chdtrc(nu, (boundary - 1) / scale) - math.exp(epsilon) * chdtrc(nu, boundary / scale))


def wishart_delta(epsilon: float, nu: float, scale: float, adjacency: Adjacency) -> float:
    """Return the delta of Wishart noise with nu = m - d + 1 and scale c, at `epsilon`."""
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        return max(adding_delta(epsilon, nu, scale), removing_delta(epsilon, nu, scale))
    # Replace: remove one row, add another. Any split of epsilon between the two steps is valid.
    splits = {epsilon * share for share in np.linspace(0.0, 1.0, 17)}
    if 0.5 / scale < epsilon:
        splits.add(0.5 / scale)
    return min(
        removing_delta(split, nu, scale) + math.exp(split) * adding_delta(epsilon - split, nu, scale)
        for split in splits
    )


class Wishart(RealNoiseMechanism):
    """C + W with W Wishart(m, c I), so that the released matrix is positive semidefinite.

    Formal guarantee
    ----------------
    ``"tight"``: (epsilon, delta) with m > d + 1 degrees of freedom; m and c minimize the off-diagonal noise
    c sqrt(m) subject to `wishart_delta`, an exact one-dimensional computation (docs/research/wishart.md).
    ``"paper"``: m = d + 1, c = 3/(2 epsilon), stated as pure epsilon by Jiang, Xie and Zhang (2016, Theorem 4). It is
    not: the support of C + W is {M >= C}, which distinguishes a unit row from a zero row with certainty with
    probability 1 - exp(-epsilon/3). What it truly has is (epsilon/3, 1 - exp(-epsilon/3)), and it needs
    ``allow_unsound=True``.

    Parameters
    ----------
    allow_unsound : bool
        Needed for the published constants.

    Examples
    --------
    >>> mechanism = Wishart(epsilon=1.0, n_features=5, calibration="paper", allow_unsound=True)
    >>> round(mechanism.guarantee().delta, 4)
    0.2835
    """

    name = "wishart"
    needs_delta = True
    source = "Jiang, Xie and Zhang 2016, Theorem 4, corrected"
    use_when = "the matrix itself must be positive semidefinite"
    calibrations: ClassVar[tuple[str, ...]] = ("tight", "paper")
    unsound_calibrations: ClassVar[tuple[str, ...]] = ("paper",)
    needs_rank_one = True

    def __init__(self, *, allow_unsound: bool = False, **parameters: Any) -> None:
        super().__init__(**parameters)
        if self.epsilon > _LARGEST_EPSILON:
            raise InvalidParameterError(
                f"wishart needs an epsilon of at most {_LARGEST_EPSILON:g}; use another mechanism."
            )
        self.allow_unsound: bool = truth_value("allow_unsound", allow_unsound)
        if self.calibration in self.unsound_calibrations and not allow_unsound:
            raise InvalidParameterError(
                "The published Wishart mechanism is not private as stated (docs/research/errata.md); pass "
                "allow_unsound=True (of an estimator in mechanism_options) to repeat it, or use calibration='tight'."
            )

    @classmethod
    def uses_delta(cls, calibration: str) -> bool:
        """Return whether the constants are ours: the published ones are stated as pure."""
        return calibration == "tight"

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types."""
        return {**super().parameters(), "allow_unsound": self.allow_unsound}

    @cached_property
    def degrees_and_scale(self) -> tuple[float, float]:
        """Degrees of freedom m, a whole number, and scale c."""
        if self.calibration == "paper":
            return self.n_features + 1.0, 1.5 / float(self.matrix_epsilon)
        epsilon, delta = float(self.matrix_epsilon), self.delta * (1 - _DELTA_SLACK)
        best = (math.inf, 0.0, 0.0)
        for nu in _EXCESS:

            def private(scale: float, nu: float = nu) -> bool:
                return wishart_delta(epsilon, nu, scale, self.adjacency) <= delta

            large = 1.0
            while not private(large) and large < 1e12:
                large *= 2
            if large >= 1e12:
                continue
            scale = safe_boundary(private, large, large * 1e-6)
            degrees = nu + self.n_features - 1
            best = min(best, (scale * math.sqrt(degrees), degrees, scale))
        if not math.isfinite(best[0]):
            raise InvalidParameterError("wishart cannot reach this epsilon and delta; use gaussian instead.")
        return best[1:]

    def guarantee(self) -> Guarantee:
        """Return (epsilon, delta); for the published constants, what they truly give."""
        if self.calibration == "tight":
            return Guarantee(self.epsilon, self.delta, self.adjacency, Numerics.EXACT)
        third = self.matrix_epsilon / 3
        count = exact(self.epsilon) - self.matrix_epsilon
        return Guarantee(
            decimal_above(third + count),
            math.nextafter(-math.expm1(-float(third)), 1.0),
            self.adjacency,
            Numerics.EXACT,
            assumptions=(_NOT_PURE,),
            claimed=(self.epsilon, 0.0),
        )

    def epsilon_at(self, delta: float) -> float:
        """Return epsilon by the exact curve of the corrected mechanism."""
        stated, enough = super().epsilon_at(delta), float(self.matrix_epsilon)
        degrees, scale = self.degrees_and_scale

        def private(epsilon: float) -> bool:
            return wishart_delta(epsilon, degrees - self.n_features + 1, scale, self.adjacency) <= delta

        if self.calibration == "paper" or delta == 0 or not private(enough):
            return stated
        count = self.epsilon - enough
        return min(stated, count + (0.0 if private(0.0) else safe_boundary(private, enough, 0.0)))

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Return the log density: minus infinity where the noise is not positive semidefinite.

        What leaves is rounded, so an eigenvalue below zero by no more than that is none.
        """
        degrees, scale = self.degrees_and_scale
        grid_width = self.off_diagonal_sd * 2.0**-COARSEST  # at most, in units of C
        rounding = self.n_features * grid_width / 2
        eigenvalues = np.linalg.eigvalsh(noise)
        power = (degrees - self.n_features - 1) / 2
        logs = power * np.log(np.maximum(eigenvalues, rounding)) - eigenvalues / (2 * scale)
        return np.where(eigenvalues[:, 0] < -rounding, -np.inf, logs.sum(axis=1))

    def noise_scale(self) -> float:
        """Return c."""
        return self.degrees_and_scale[1]

    def lazy_noise(self, unit: Fraction, generator: np.random.Generator) -> LazyWishart:
        """Return W; its scale is rounded up, which is as if the rows were shorter."""
        degrees, scale = self.degrees_and_scale
        return LazyWishart(self.n_features, round(degrees), float_above(Fraction(scale) * unit), generator)

    def noise(self, generator: np.random.Generator, grid: float = 1.0) -> FloatArray:
        """Return a quick float draw of W, for simulation alone."""
        degrees, scale = self.degrees_and_scale
        return wishart(degrees, scale * grid, self.n_features, generator)

    @property
    def off_diagonal_sd(self) -> float:
        """Equal to c sqrt(m)."""
        degrees, scale = self.degrees_and_scale
        return scale * math.sqrt(degrees)

    @property
    def trace_variance(self) -> float:
        """Variance of c times a chi-square of md degrees."""
        degrees, scale = self.degrees_and_scale
        return 2 * scale**2 * degrees * self.n_features

    @property
    def excess(self) -> float:
        """2.5 d/m: symmetric noise of this excess reaches as far up as a free Wishart, whose own excess is d/m."""
        return 2.5 * self.n_features / self.degrees_and_scale[0]

    @property
    def noise_mean(self) -> float:
        """E[W] = m c I, which moves every eigenvalue and no eigenvector."""
        degrees, scale = self.degrees_and_scale
        return scale * degrees

    @property
    def noise_reach(self) -> float:
        """The largest diagonal entry, c times a chi-square of m degrees."""
        degrees, scale = self.degrees_and_scale
        return scale * (degrees + 2 * math.sqrt(400 * degrees) + 800)
