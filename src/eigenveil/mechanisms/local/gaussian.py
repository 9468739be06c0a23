"""Gaussian noise on every client: integer noise on the upper triangle of x x'.

Both mechanisms are drawn by the exact discrete sampler. `gaussian` is calibrated by zCDP; `gaussian_paper` has the
constants of Wang and Xu (2019, Algorithm 1), and its guarantee is the true one. Both cost d(d + 1)/2 numbers a report.
"""

import math
from abc import abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...accounting.calibration import (
    DISCRETE_SHARE,
    decimal_above,
    discrete_gaussian_excess,
    gaussian_epsilon,
    square_root_above,
    zcdp_epsilon,
    zcdp_rho,
)
from ...errors import InvalidParameterError
from ...guarantee import Assumption, Guarantee, Numerics
from ...numerics import FloatArray, IntArray
from ...sampling.discrete import discrete_gaussian
from .base import HONEST_FAILURE, ByteArray, LocalMechanism

_INT32 = 2**31 - 1
# A row of 14 bits is finer than any noise worth having; small epsilons get fewer, so that entries fit 32 bits.
_FINEST_BITS = 14


class UpperTriangleNoise(LocalMechanism):
    """Independent integer noise on the entries of the upper triangle, sent as 32-bit integers."""

    needs_delta = True
    entry_limit = _INT32
    entry_weight: ClassVar[float]
    """Weight of a squared off-diagonal entry in the geometry where the noise is isotropic."""

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.n_entries: int = self.n_features * (self.n_features + 1) // 2
        self.payload_bytes = 4 * self.n_entries
        # Half of the permitted failures go to the entries and half to the norm. Discrete Gaussians have the tails
        # 2 exp(-z^2/2) and the chi-square tail of Laurent and Massart (2000), Lemma 1: docs/research/local.md.
        self.entry_reach: float = 1 + self.sigma * math.sqrt(2 * math.log(4 * self.n_entries / HONEST_FAILURE))
        t = math.log(2 / HONEST_FAILURE)
        chi_square = self.n_entries + 2 * math.sqrt(self.n_entries * t) + 2 * t
        self.norm_reach: float = 1 + self.sigma * math.sqrt(chi_square)
        self.row_bits = min(_FINEST_BITS, math.floor(math.log2(_INT32 / self.entry_reach) / 2))
        if self.row_bits < 2:
            raise InvalidParameterError(
                "epsilon is so small that the noise does not fit the report; use a larger epsilon or double_cap."
            )
        self.grid: float = 4.0**self.row_bits

    # Large where rows are wide, and of no use to those who only read a release.
    @cached_property
    def triangle(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns of the entries of the upper triangle, in the order of a report."""
        return np.triu_indices(self.n_features)

    @cached_property
    def on_diagonal(self) -> NDArray[np.bool_]:
        """Mask of the entries of a report on the diagonal."""
        return np.equal(*self.triangle)

    @property
    @abstractmethod
    def sigma(self) -> float:
        """The standard deviation of a diagonal entry of the noise, for rows of norm at most 1."""

    @property
    def off_diagonal_sd(self) -> float:
        """The standard deviation of an off-diagonal entry."""
        return self.sigma / math.sqrt(self.entry_weight)

    def noise(self, n_clients: int, generator: np.random.Generator) -> IntArray:
        """Draw one discrete Gaussian of n times the variance for each entry, in upper-triangle order.

        For one client this is the mechanism itself. A sum of n discrete Gaussians is not one to the last digit, but the
        probabilities differ by a factor within exp(10 n exp(-pi^2 scale^2)) (Kairouz, Liu and Steinke 2021). The scale
        is at least 16 grid units here, so no test can distinguish them.
        """
        d, growth = self.n_features, math.sqrt(n_clients) * self.grid
        entries = np.empty(self.n_entries, dtype=np.int64)
        entries[self.on_diagonal] = discrete_gaussian(self.sigma * growth, d, generator)
        if d > 1:
            entries[~self.on_diagonal] = discrete_gaussian(self.off_diagonal_sd * growth, self.n_entries - d, generator)
        return entries

    def noise_of_many(self, n_clients: int, generator: np.random.Generator) -> IntArray:
        """Return the noise of many reports as one symmetric matrix."""
        return self.symmetric(self.noise(n_clients, generator))

    def perturb(self, rows: FloatArray, ids: ByteArray, generator: np.random.Generator) -> ByteArray:
        """Return the payloads: the upper triangle of q q' plus noise, for each integer row q."""
        payloads, (i, j) = np.empty((len(rows), self.payload_bytes), dtype=np.uint8), self.triangle
        for row, payload in zip(rows, payloads, strict=True):
            exact = (row[i] * row[j]).astype(np.int64)
            noisy = exact + self.noise(1, generator)
            # Cut off at 32 bits after the noise: post-processing, of a chance below 1e-9.
            payload[:] = np.clip(noisy, -_INT32, _INT32).astype("<i4").view(np.uint8)
        return payloads

    def log_likelihood(self, payloads: ByteArray, ids: ByteArray, row: FloatArray) -> FloatArray:
        """Return minus half of the squared noise, each entry in units of its scale."""
        i, j = self.triangle
        noise = (self._entries(payloads) - row[i] * row[j]) / self.grid
        weights = np.where(self.on_diagonal, self.sigma**-2, self.off_diagonal_sd**-2)
        return np.asarray(-0.5 * np.square(noise) @ weights)

    def in_range(self, payloads: ByteArray) -> NDArray[np.bool_]:
        """Check every entry, and the length of the report, against the reach of the noise."""
        entries = self._entries(payloads).astype(np.float64)
        small = np.abs(entries).max(axis=1) <= self.entry_reach * self.grid
        weights = np.where(self.on_diagonal, 1.0, self.entry_weight)
        lengths = np.sqrt(np.square(entries) @ weights)
        return np.asarray(small & (lengths <= self.norm_reach * self.grid))

    def fold(self, payloads: ByteArray, ids: ByteArray) -> tuple[IntArray, int]:
        """Sum the entries as 64-bit integers."""
        return self.symmetric(self._entries(payloads).sum(axis=0, dtype=np.int64))[None], 0

    def symmetric(self, entries: IntArray) -> IntArray:
        """Return the symmetric matrix with this upper triangle."""
        matrix = np.zeros((self.n_features, self.n_features), dtype=np.int64)
        i, j = self.triangle
        matrix[i, j] = entries
        matrix[j, i] = entries
        return matrix

    def _entries(self, payloads: ByteArray) -> NDArray[np.int32]:
        return np.ascontiguousarray(payloads).view("<i4")

    def _estimated(self, sums: FloatArray, ones: float, n_reports: int) -> FloatArray:
        """Return the mean of the reports."""
        return np.asarray(sums[0] / (self.grid * n_reports))

    def variance(self, squared_norm: float = 1.0) -> float:
        """Return the summed variance of all d^2 entries; it does not depend on the row."""
        d = self.n_features
        return d * self.sigma**2 + d * (d - 1) * self.off_diagonal_sd**2

    @property
    def pull(self) -> float:
        """Return the Frobenius norm of the longest report that passes the range check."""
        return self.norm_reach * math.sqrt(2 / self.entry_weight)


class LocalGaussian(UpperTriangleNoise):
    """Discrete Gaussian noise, isotropic in the Frobenius geometry: sigma on the diagonal, sigma/sqrt(2) off it.

    Formal guarantee
    ----------------
    rho-zCDP with rho = 1/sigma^2: two rows move x x' by at most sqrt(2) in Frobenius norm, and a discrete Gaussian is
    as private as the continuous one (Canonne, Kamath and Steinke 2020, Theorem 4). rho is the largest that implies
    (epsilon, delta) by the tight conversion of the same paper, Proposition 12.
    """

    name = "gaussian"
    numerics = Numerics.EXACT
    source = "Dwork et al. 2014 on every client, calibrated by zCDP (Canonne, Kamath and Steinke 2020)"
    use_when = "exact numerics matter more than bytes and error"
    entry_weight: ClassVar[float] = 2.0

    @cached_property
    def rho(self) -> float:
        """The zCDP parameter of one report."""
        return zcdp_rho(self.epsilon, self.delta)

    @cached_property
    def sigma(self) -> float:
        """The standard deviation on the diagonal, rounded up."""
        return square_root_above(1 / Fraction(self.rho))

    @cached_property
    def off_diagonal_sd(self) -> float:
        """The standard deviation off the diagonal, rounded up."""
        return square_root_above(1 / (2 * Fraction(self.rho)))

    def guarantee(self) -> Guarantee:
        """Return (epsilon, delta) with its rho."""
        return Guarantee(self.epsilon, self.delta, numerics=self.numerics, rho=self.rho)


class PaperGaussian(UpperTriangleNoise):
    """Wang and Xu's noise: the same sd sqrt(2 ln(1.25/delta))/epsilon on every entry of the upper triangle.

    Formal guarantee
    ----------------
    From epsilon of about 1 on, not the (epsilon, delta) that the paper states. Two rows move the upper triangle by
    sqrt(2) in l2 norm, where the paper takes 1, and its calibration is proved for epsilon <= 1 only. The guarantee
    stated here keeps delta. The noise is discrete on the integer grid, of the paper's scale, so it is rho-zCDP with
    rho = 1/sigma^2 (Canonne, Kamath and Steinke 2020, Theorem 4), and its epsilon is the exact one of real Gaussian
    noise with that sensitivity (Balle and Wang 2018, Theorem 8) where a hundredth of delta pays for the difference,
    else that of rho.
    """

    name = "gaussian_paper"
    numerics = Numerics.EXACT
    source = "Wang and Xu 2019, Algorithm 1"
    use_when = "comparison"
    entry_weight: ClassVar[float] = 1.0

    @cached_property
    def sigma(self) -> float:
        """The paper's standard deviation."""
        return math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon

    @cached_property
    def rho(self) -> float:
        """The zCDP parameter of one report, 1/sigma^2, rounded up."""
        return decimal_above(1 / Fraction(self.sigma) ** 2)

    def _epsilon(self, delta: float) -> float:
        """Return a proved epsilon at a delta above 0: by the curve of real noise where discrete noise is as good."""
        concentrated = zcdp_epsilon(self.rho, delta)
        # The last factor exceeds the roundings of this line.
        change = square_root_above(Fraction(2)) / self.sigma * (1 + 1e-12)
        curve, scale = gaussian_epsilon(change, delta * (1 - DISCRETE_SHARE)), self.sigma * self.grid
        paid = scale >= 100 and discrete_gaussian_excess(curve, self.n_entries, scale) <= DISCRETE_SHARE * delta
        return min(curve, concentrated) if paid else concentrated

    def guarantee(self) -> Guarantee:
        """Return the true guarantee; an assumption states the claim of the paper."""
        claimed, true = (self.epsilon, self.delta), self._epsilon(self.delta)
        verdict = "which it does not give" if true > self.epsilon else "which holds and is not tight"
        assumption = Assumption(
            f"Wang and Xu (2019) state ({self.epsilon:g}, {self.delta:g}) for this noise, {verdict}: at that delta "
            f"epsilon is {true:.4g}.",
            f"published as ({self.epsilon:g}, {self.delta:g})-DP",
        )
        return Guarantee(
            true, self.delta, numerics=self.numerics, rho=self.rho, assumptions=(assumption,), claimed=claimed
        )

    def epsilon_at(self, delta: float) -> float:
        """Return epsilon by the exact curve of the noise."""
        stated = super().epsilon_at(delta)
        return min(stated, self._epsilon(delta)) if delta > 0 else stated
