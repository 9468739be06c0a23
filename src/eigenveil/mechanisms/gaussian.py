"""Symmetric Gaussian noise: isotropic as eigenveil has it, and entrywise as in Amin et al. and in MOD-SULQ."""

import math
from abc import abstractmethod
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from ..accounting.calibration import (
    DISCRETE_SHARE,
    decimal_above,
    discrete_gaussian_excess,
    exact,
    gaussian_epsilon,
    gaussian_mu,
    square_root_above,
)
from ..accounting.sensitivity import frobenius_squared, frobenius_with_trace_squared
from ..errors import CapacityError, InvalidParameterError, one_of, positive_number
from ..guarantee import Adjacency, Guarantee, Numerics
from ..numerics import FloatArray, IntArray
from ..sampling.discrete import discrete_gaussian
from ..sampling.matrices import FARTHEST, symmetric
from .additive import (
    AdditiveMechanism,
    NoiseFacts,
    diagonal_of,
    free_count_suffices,
    independent_facts,
)
from .base import Integers, Values


def rho_above(mu: float) -> float:
    """Return the rho of a Gaussian mechanism that moves by `mu` in units of its noise, rounded up."""
    return decimal_above(exact(mu) ** 2 / 2 * Fraction(1_000_000_001, 1_000_000_000))


def check_fine_enough(scale: float, n_numbers: int, epsilon: float, delta: Fraction | float) -> None:
    """Refuse a grid on which discrete noise of this scale costs more than a hundredth of delta beside real noise."""
    if scale < 100 or discrete_gaussian_excess(epsilon, n_numbers, scale) > DISCRETE_SHARE * delta:
        raise CapacityError("The integer grid is too coarse for this epsilon and delta; use more bits in the RowBound.")


class GaussianNoise(AdditiveMechanism):
    """Independent discrete Gaussian noise on the upper triangle; subclasses choose the two scales.

    All numbers of a release, the private count included, are one Gaussian mechanism whose change has norm `mu` in
    units of the noise, so the exact (epsilon, delta) is that of a single number.
    """

    needs_delta = True
    numerics = Numerics.EXACT
    share: float = 1.0

    @property
    @abstractmethod
    def standard_deviations(self) -> tuple[float, float]:
        """Standard deviations of the noise on the diagonal and beside it."""

    def noise_scale(self) -> float:
        """Return the standard deviation on the diagonal."""
        return self.standard_deviations[0]

    @property
    def off_diagonal_sd(self) -> float:
        """Standard deviation beside the diagonal."""
        return self.standard_deviations[1]

    def noise_facts(self) -> NoiseFacts:
        """Return the second moments of independent entries, and of an independent count."""
        diagonal, beside = self.standard_deviations
        return independent_facts(self.n_features, beside**2, diagonal**2, self.count_sd**2, gaussian=True)

    def noise_quantiles(self, level: float) -> tuple[float, float]:
        """Return quantiles of the size of a normal number."""
        return (float(ndtri((1 + level) / 2)),) * 2

    def noise_beyond(self, sizes: FloatArray) -> FloatArray:
        """Return the probabilities that a normal number passes these sizes."""
        return np.asarray(2 * ndtr(-sizes))

    heaviness = 0.0

    def total_mu(self) -> float:
        """Return the largest change of a whole release in units of the noise."""
        change = square_root_above(frobenius_squared(self.adjacency)) / self.noise_scale()
        return change / math.sqrt((1 - self.count_share) * exact(self.share))

    @property
    def count_sd(self) -> float:
        """Standard deviation of a count that is paid for, by its share of mu^2; 0 where none is."""
        return 1 / (self.total_mu() * math.sqrt(self.count_share)) if self.count_share > 0 else 0.0

    @property
    def n_numbers(self) -> int:
        """Number of noisy numbers in a release."""
        return self.n_features * (self.n_features + 1) // 2 + (self.count_share > 0)

    def guarantee(self) -> Guarantee:
        """Return the (epsilon, delta) of the noise, and its rho for composition."""
        mu, epsilon, claimed = self.total_mu(), self.epsilon, None  # which the tight calibration has met from below
        if self.calibration == "paper":
            claimed = (self.epsilon, self.delta)
            epsilon = gaussian_epsilon(mu, self.delta * (1 - DISCRETE_SHARE))
        return Guarantee(epsilon, self.delta, self.adjacency, Numerics.EXACT, rho=rho_above(mu), claimed=claimed, mu=mu)

    def noise(self, generator: np.random.Generator, grid: float = 1.0) -> IntArray:
        """Return symmetric noise, discrete on a grid of `grid` units."""
        d, (diagonal, beside) = self.n_features, self.standard_deviations
        noise = symmetric(d, partial(discrete_gaussian, beside * grid), generator)
        np.fill_diagonal(noise, discrete_gaussian(diagonal * grid, d, generator))
        return noise

    @property
    def noise_reach(self) -> float:
        """Forty standard deviations of the noisiest number."""
        return 40 * max(*self.standard_deviations, self.count_sd)

    def check_count(self) -> None:
        """Refuse nothing: the count is one more number on the grid, and `noise_reach` has room for it."""

    def check_grid(self, grid: int) -> None:
        """Refuse noise that would overflow, and a grid on which discrete noise is not as good as real."""
        super().check_grid(grid)
        epsilon, delta = self.guarantee().epsilon, self.delta * exact(self.share)
        check_fine_enough(self.off_diagonal_sd * grid, self.n_numbers, epsilon, delta)

    def epsilon_at(self, delta: float) -> float:
        """Return epsilon by the exact curve of the noise."""
        stated = super().epsilon_at(delta)
        return min(stated, gaussian_epsilon(self.total_mu(), delta * (1 - DISCRETE_SHARE))) if delta > 0 else stated

    def log_density(self, noise: FloatArray) -> FloatArray:
        """Return minus half of the squared noise, each entry of the upper triangle in units of its scale."""
        d, (diagonal, beside) = self.n_features, self.standard_deviations
        weights = np.triu(np.full((d, d), beside**-2), 1) + np.eye(d) * diagonal**-2
        return np.asarray(-0.5 * np.einsum("nij,ij->n", np.square(noise), weights))

    def count_noise(self, grid: int, generator: np.random.Generator) -> int:
        """Return noise for the number of rows, as one more number of the same Gaussian release.

        It is drawn on the fine grid too, where the discrete Gaussian is as good as the real one.
        """
        return int(discrete_gaussian(grid * self.count_sd, 1, generator)[0])

    def count_log_density(self, values: Values, n_rows: int) -> FloatArray | float:
        """Return minus half of the squared noise of the count, in units of its scale."""
        if "count" not in values:
            return 0.0
        return np.asarray(-0.5 * np.square((values["count"] - n_rows) / self.count_sd))


class Gaussian(GaussianNoise):
    """Gaussian noise of standard deviation s on the diagonal of C and s/sqrt(2) beside it.

    That is isotropic in the Frobenius geometry, where one row moves C by at most sqrt(2) (replace) or 1
    (add/remove): half the off-diagonal variance of entrywise noise, for the same privacy. One number more leaves with
    noise of the same s, and costs nothing: the trace of C (replace), or the number of rows less that trace
    (add/remove), which pays for the number of rows too where there are few features.

    Formal guarantee
    ----------------
    (epsilon, delta), for every epsilon, by the exact curve of the Gaussian mechanism (Balle and Wang 2018,
    Theorem 8); the noise is discrete on the integer grid, and a hundredth of delta pays for that.
    docs/research/gaussian.md has the proof. ``calibration="tight"`` is the mechanism before it had that number more,
    as files name it: the matrix alone, and a paid count under add/remove. ``calibration="paper"`` takes
    s = sqrt(2 ln(1.25/delta))/epsilon on every entry, as Amin et al. (2018) print it after Dwork et al. (2014): it
    misses a factor sqrt(2) of sensitivity, and its guarantee says what it truly gives.

    A further parameter, `share`, is that of mu^2 for the matrix: the rest of the budget pays for what was measured
    before it in the same fit, and the guarantee is that of all together (`mechanisms.portions`).

    Examples
    --------
    >>> round(Gaussian(epsilon=1.0, delta=1e-6, n_features=10).noise_scale(), 3)
    5.978
    """

    name = "gaussian"
    source = "Dwork et al. 2014, recalibrated (Balle and Wang 2018, Theorem 8)"
    use_when = "delta > 0, many features"
    calibrations: ClassVar[tuple[str, ...]] = ("traced", "tight", "paper")

    def __init__(self, *, share: float = 1.0, **parameters: Any) -> None:
        self.share = positive_number("share", share)
        super().__init__(**parameters)
        if self.share > 1 or (self.share < 1 and not self.divisible):
            raise InvalidParameterError("share must be 1, or with our constants and adjacency='replace_one' less.")

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types."""
        return super().parameters() | ({} if self.share == 1 else {"share": self.share})

    @property
    def divisible(self) -> bool:
        """With our constants, where the number of rows is public."""
        return self.traced and self.adjacency is Adjacency.REPLACE_ONE

    @property
    def traced(self) -> bool:
        """Whether one number more leaves, which is about the trace."""
        return self.calibration == "traced"

    @property
    def rotation_invariant(self) -> bool:
        """With our constants; the published ones make the diagonal too quiet for it."""
        return self.calibration != "paper"

    @property
    def sharp_trace(self) -> bool:
        """Whether the trace is measured by more than the matrix. A free slack alone measures the number of rows."""
        return self.traced and (self.adjacency is Adjacency.REPLACE_ONE or self.count_share > 0)

    @cached_property
    def count_share(self) -> Fraction:
        """None where the number of rows is public, or known well enough at no cost."""
        return Fraction(0) if self.traced and free_count_suffices(self.n_features) else super().count_share

    @property
    def n_numbers(self) -> int:
        """Number of noisy numbers in a release."""
        return super().n_numbers + self.traced

    @property
    def standard_deviations(self) -> tuple[float, float]:
        """Standard deviations of the noise on the diagonal and beside it."""
        if self.calibration == "paper":
            scale = math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon
            return scale, scale
        part = (1 - self.count_share) * exact(self.share)
        mu = gaussian_mu(self.epsilon, self.delta * (1 - DISCRETE_SHARE)) * math.sqrt(part)
        change = frobenius_with_trace_squared if self.traced else frobenius_squared
        scale = square_root_above(change(self.adjacency)) / mu * (1 + 1e-12)  # more than roundings here and below
        return scale, scale / math.sqrt(2)

    # What the number more says is a linear function of the released values, so that errors are read as releases are.
    @property
    def _more(self) -> str:
        return "trace" if self.adjacency is Adjacency.REPLACE_ONE else "slack"

    def draw(self, gram: IntArray, grid: int, n_rows: int, generator: np.random.Generator) -> Integers:
        """Draw the noisy matrix, the count if it is paid for, and the number more, in units of the matrix."""
        drawn = super().draw(gram, grid, n_rows, generator)
        if not self.traced:
            return drawn
        trace = sum(gram.diagonal().tolist())
        true = trace if self.adjacency is Adjacency.REPLACE_ONE else n_rows * grid - trace
        noisy = true + int(discrete_gaussian(self.noise_scale() * grid, 1, generator)[0])
        return {**drawn, self._more: np.array(max(-FARTHEST, min(FARTHEST, noisy)))}

    def _beyond_the_matrix(self, values: Values) -> tuple[float, float, float]:
        """Return the trace by the other released numbers less that of the matrix, and two variances in it.

        The variances, in units of the diagonal noise, are that of the difference and the count's part of it. The best
        estimates of the trace and of the number of rows split the difference by them.
        """
        trace, d = float(np.trace(values["matrix"])), self.n_features
        if "trace" in values:
            return float(values["trace"]) - trace, d + 1.0, 0.0
        if "slack" in values and "count" in values:
            of_count = (self.count_sd / self.noise_scale()) ** 2
            return float(values["count"] - values["slack"]) - trace, d + 1.0 + of_count, of_count
        return 0.0, d + 1.0, 0.0

    def second_moment(self, values: Values, n_rows: int) -> FloatArray:
        """Return the noisy second moment, its diagonal moved so that the trace is the best estimate of it."""
        moment = super().second_moment(values, n_rows)
        difference, variance, _ = self._beyond_the_matrix(values)
        diagonal_of(moment)[:] += difference / variance / n_rows
        return moment

    def estimated_rows(self, values: Values) -> float | None:
        """Return the sum of slack and trace, or the best estimate from it and a paid count."""
        if "slack" not in values:
            return None
        if "count" not in values:
            return float(values["slack"] + np.trace(values["matrix"]))
        difference, variance, of_count = self._beyond_the_matrix(values)
        return float(values["count"]) - difference * of_count / variance

    def log_likelihood(self, values: Values, C: FloatArray, n_rows: int) -> FloatArray | None:
        """Return the log density of all noise that must have been added."""
        density = super().log_likelihood(values, C, n_rows)
        if density is None or self._more not in values:
            return density
        true = np.trace(C) if self.adjacency is Adjacency.REPLACE_ONE else n_rows - np.trace(C)
        return np.asarray(density - 0.5 * np.square((values[self._more] - true) / self.noise_scale()))

    def noise_facts(self) -> NoiseFacts:
        """Return the second moments of isotropic noise, with what the number more says of the trace and of the rows.

        With noise of variance s^2 on the diagonal the trace has d s^2. Of the difference to what other numbers say of
        it, whose variance is V s^2, the share d/V is taken off: docs/research/gaussian.md. A free number of rows alone
        contains nothing about the trace: V is infinite.
        """
        if not self.traced:
            return super().noise_facts()
        d, variance, rows_are_public = self.n_features, self.noise_scale() ** 2, self.adjacency is Adjacency.REPLACE_ONE
        inverse = 1 / (d + 1 + self.count_sd**2 / variance) if rows_are_public or self.count_share > 0 else 0.0
        left = 0.0 if rows_are_public else 1 - (d + 1) * inverse
        return NoiseFacts(
            d,
            variance / 2,
            d * variance * (1 - d * inverse),
            count_variance=(d + 1) * variance * left,
            trace_with_count=d * variance * left,
            gaussian=True,
        )

    def simulated_errors(self, generator: np.random.Generator) -> tuple[FloatArray, float]:
        """Return the noise that is left in `second_moment`, and the error of the number of rows."""
        if not self.traced:
            return super().simulated_errors(generator)
        more, count = generator.standard_normal(2) * (self.noise_scale(), self.count_sd)
        noise = {"matrix": super().simulated_noises(generator, 1)[0], self._more: more}
        if self.count_share > 0:
            noise["count"] = count
        return self.second_moment(noise, 1), self.estimated_rows(noise) or 0.0

    def simulated_noises(self, generator: np.random.Generator, count: int) -> FloatArray:
        """Return the noise that is left in `second_moment`: where it is isotropic, by its second moments."""
        facts = self.noise_facts()
        return super().simulated_noises(generator, count) if facts.diagonal_extra else facts.draws(generator, count)[0]

    def simulated_noise(self, generator: np.random.Generator) -> FloatArray:
        """Return one such matrix, of the integers that a release draws."""
        if self.traced:
            return self.simulated_errors(generator)[0]
        return np.asarray(super().simulated_noises(generator, 1)[0])


class ModSulq(GaussianNoise):
    """Gaussian noise of the published standard deviation beta on every entry of the upper triangle of A = C/n.

    Formal guarantee
    ----------------
    The paper states (epsilon, delta) for beta = (d+1)/(n epsilon) sqrt(2 ln((d^2+d)/(2 sqrt(2 pi) delta)))
    + 1/(n sqrt(epsilon)) (JMLR 2013, Theorem 5). One row moves the upper triangle by at most sqrt(2) in l2 norm,
    so by the exact curve of the Gaussian mechanism the same noise is private at an epsilon about d times smaller:
    `guarantee` states that one, at the given delta.

    Parameters
    ----------
    beta : {"printed", "root"}
        The beta of Algorithm 1, equation (5), or the root that the proof of Theorem 5 rounds up to it: beta solves
        epsilon beta^2 = (d+1)/n sqrt(2 ln((d^2+d)/(2 sqrt(2 pi) delta))) beta + 1/n^2.

    Examples
    --------
    >>> mechanism = ModSulq(epsilon=1.0, delta=0.01, n_features=100)
    >>> round(mechanism.guarantee().epsilon, 4), mechanism.guarantee().claimed
    (0.0, (1.0, 0.01))
    """

    name = "mod_sulq"
    source = "Chaudhuri, Sarwate and Sinha 2013, Theorem 5"
    use_when = "comparison; over-noises"
    calibrations: ClassVar[tuple[str, ...]] = ("paper",)

    def __init__(self, *, beta: str = "printed", **parameters: Any) -> None:
        super().__init__(**parameters)
        self.beta = one_of("beta", beta, ("printed", "root"))

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types."""
        return super().parameters() | ({} if self.beta == "printed" else {"beta": self.beta})

    @property
    def rotation_invariant(self) -> bool:
        """One scale on every entry makes the diagonal too quiet for it."""
        return False

    @property
    def standard_deviations(self) -> tuple[float, float]:
        """Standard deviations of the noise on the diagonal and beside it, which are the same."""
        d = self.n_features
        logarithm = math.log((d * d + d) / (2 * math.sqrt(2 * math.pi) * self.delta))
        # For d = 1 and a large delta the published logarithm is negative; the rest of beta stays.
        if self.beta == "root":
            linear = (d + 1) * math.sqrt(2 * max(logarithm, 0.0))
            scale = (linear + math.sqrt(linear**2 + 4 * self.epsilon)) / (2 * self.epsilon)
        else:
            scale = (d + 1) / self.epsilon * math.sqrt(2 * max(logarithm, 0.0)) + 1 / math.sqrt(self.epsilon)
        return scale, scale
