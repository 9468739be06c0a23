"""The Gaussian mechanism on every client: integer noise on the upper triangle of x x'.

`gaussian` is calibrated by zCDP and drawn by the exact discrete sampler; `gaussian_paper` has the constants of Wang
and Xu (2019, Algorithm 1), and its guarantee is the true one. Both cost d(d + 1)/2 numbers a report.
"""

import math
from abc import abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..errors import InvalidParameterError
from ..guarantee import Guarantee, Numerics
from .mechanism import HONEST_FAILURE, ByteArray, FloatArray, IntArray, LocalMechanism, Totals

if TYPE_CHECKING:
    from .protocol import LocalProtocol

_INT32 = 2**31 - 1
# A row of 14 bits is finer than any noise worth having; small epsilons get fewer, so that entries fit 32 bits.
_FINEST_BITS = 14


class UpperTriangleNoise(LocalMechanism):
    """Independent integer noise on the entries of the upper triangle, sent as 32-bit integers."""

    needs_delta = True
    entry_limit = _INT32
    entry_weight: ClassVar[float]
    """Weight of a squared off-diagonal entry in the geometry where the noise is isotropic."""

    def __init__(self, protocol: "LocalProtocol") -> None:
        super().__init__(protocol)
        d = self.n_features
        self.rows_, self.columns_ = np.triu_indices(d)
        self.on_diagonal = self.rows_ == self.columns_
        self.n_entries = d * (d + 1) // 2
        self.payload_bytes = 4 * self.n_entries
        # Half of the permitted failures go to the entries and half to the norm. Discrete Gaussians have the tails
        # 2 exp(-z^2/2) and the chi-square tail of Laurent and Massart (2000), Lemma 1: docs/local.md.
        self.entry_reach = 1 + self.sigma * math.sqrt(2 * math.log(4 * self.n_entries / HONEST_FAILURE))
        t = math.log(2 / HONEST_FAILURE)
        chi_square = self.n_entries + 2 * math.sqrt(self.n_entries * t) + 2 * t
        self.norm_reach = 1 + self.sigma * math.sqrt(chi_square)
        self.row_bits = min(_FINEST_BITS, math.floor(math.log2(_INT32 / self.entry_reach) / 2))
        if self.row_bits < 2:
            raise InvalidParameterError(
                "epsilon is so small that the noise does not fit the report; use a larger epsilon or double_cap."
            )
        self.grid = 4.0**self.row_bits

    @property
    @abstractmethod
    def sigma(self) -> float:
        """The standard deviation of a diagonal entry of the noise, for rows of norm at most 1."""

    @property
    def off_diagonal_sd(self) -> float:
        """The standard deviation of an off-diagonal entry."""
        return self.sigma / math.sqrt(self.entry_weight)

    @abstractmethod
    def noise(self, n_clients: int, generator: np.random.Generator) -> IntArray:
        """Return the sum of the noise of `n_clients` clients, as integers in upper-triangle order."""

    def perturb(self, rows: FloatArray, ids: ByteArray, generator: np.random.Generator) -> ByteArray:
        """Return the payloads: the upper triangle of q q' plus noise, for each integer row q."""
        payloads = np.empty((len(rows), self.payload_bytes), dtype=np.uint8)
        for row, payload in zip(rows, payloads, strict=True):
            exact = (row[self.rows_] * row[self.columns_]).astype(np.int64)
            noisy = exact + self.noise(1, generator)
            # Cut off at 32 bits after the noise: post-processing, of a chance below 1e-9.
            payload[:] = np.clip(noisy, -_INT32, _INT32).astype("<i4").view(np.uint8)
        return payloads

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
        matrix[self.rows_, self.columns_] = entries
        matrix[self.columns_, self.rows_] = entries
        return matrix

    def _entries(self, payloads: ByteArray) -> NDArray[np.int32]:
        return np.ascontiguousarray(payloads).view("<i4")

    def estimate(self, totals: Totals) -> FloatArray:
        """Return the mean of the reports."""
        return np.asarray(totals.sums[0].astype(np.float64) / (self.grid * totals.n_reports))

    def variance(self, squared_norm: float = 1.0) -> float:
        """Return the summed variance of all d^2 entries; it does not depend on the row."""
        del squared_norm
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
    entry_weight = 2.0

    @cached_property
    def rho(self) -> float:
        """The zCDP parameter of one report."""
        # Loads the ledger's SQLite: only for clients that use this mechanism.
        from ..accounting.calibration import zcdp_rho

        return zcdp_rho(self.protocol.epsilon, self.protocol.delta)

    @cached_property
    def sigma(self) -> float:
        """The standard deviation on the diagonal, rounded up."""
        from ..accounting.calibration import square_root_above

        return square_root_above(1 / Fraction(self.rho))

    @cached_property
    def off_diagonal_sd(self) -> float:
        """The standard deviation off the diagonal, rounded up."""
        from ..accounting.calibration import square_root_above

        return square_root_above(1 / (2 * Fraction(self.rho)))

    def guarantee(self) -> Guarantee:
        """Return (epsilon, delta) with its rho."""
        p = self.protocol
        return Guarantee(p.epsilon, p.delta, numerics=Numerics.EXACT, rho=self.rho)

    def noise(self, n_clients: int, generator: np.random.Generator) -> IntArray:
        """Draw one discrete Gaussian of n times the variance for each entry.

        For one client this is the mechanism. A sum of n discrete Gaussians is not one to the last digit, but the
        probabilities differ by a factor within exp(10 n exp(-pi^2 scale^2)) (Kairouz, Liu and Steinke 2021). The scale
        is at least 16 grid units here, so no test in the world tells them apart.
        """
        from ..samplers.discrete import discrete_gaussian

        d, growth = self.n_features, math.sqrt(n_clients) * self.grid
        entries = np.empty(self.n_entries, dtype=np.int64)
        entries[self.on_diagonal] = discrete_gaussian(self.sigma * growth, d, generator)
        if d > 1:
            entries[~self.on_diagonal] = discrete_gaussian(self.off_diagonal_sd * growth, self.n_entries - d, generator)
        return entries


class PaperGaussian(UpperTriangleNoise):
    """Wang and Xu's noise: the same sd sqrt(2 ln(1.25/delta))/epsilon on every entry of the upper triangle.

    Formal guarantee
    ----------------
    From epsilon of about 1 on, not the (epsilon, delta) that the paper states. Two rows move the upper triangle by
    sqrt(2) in l2 norm, where the paper takes 1, and its calibration is proved for epsilon <= 1 only. The guarantee
    stated here keeps delta, and its epsilon is the exact one of Gaussian noise with that sensitivity (Balle and
    Wang 2018, Theorem 8).
    """

    name = "gaussian_paper"
    entry_weight = 1.0

    @cached_property
    def sigma(self) -> float:
        """The paper's standard deviation."""
        return math.sqrt(2 * math.log(1.25 / self.protocol.delta)) / self.protocol.epsilon

    @cached_property
    def true_epsilon(self) -> float:
        """The epsilon that the paper's noise does give, at the paper's delta."""
        return gaussian_epsilon(math.sqrt(2) / self.sigma, self.protocol.delta)

    def guarantee(self) -> Guarantee:
        """Return what is true; the paper's claim is a caveat."""
        p, true = self.protocol, self.true_epsilon
        verdict = "which it does not give" if true > p.epsilon else "which holds and is not tight"
        caveat = (
            f"Wang and Xu (2019) state ({p.epsilon:g}, {p.delta:g}) for this noise, {verdict}: at that delta "
            f"epsilon is {true:.4g}."
        )
        claimed = (p.epsilon, p.delta)
        return Guarantee(true, p.delta, numerics=Numerics.ROUNDED, caveats=(caveat,), claimed=claimed)

    def noise(self, n_clients: int, generator: np.random.Generator) -> IntArray:
        """Draw real noise of n times the variance and round it to the grid."""
        scale = self.sigma * math.sqrt(n_clients) * self.grid
        return np.rint(generator.normal(0.0, scale, self.n_entries)).astype(np.int64)


def gaussian_epsilon(ratio: float, delta: float) -> float:
    """Return the least epsilon, rounded up, of Gaussian noise with sensitivity/sd = `ratio` at this delta.

    Solves delta = Phi(m/2 - e/m) - exp(e) Phi(-m/2 - e/m), m the ratio, by bisection: the right side falls in e.

    Examples
    --------
    >>> paper = math.sqrt(2 * math.log(1.25 / 1e-4)) / 2.0
    >>> round(gaussian_epsilon(math.sqrt(2) / paper, 1e-4), 2)
    2.3
    """

    def excess(epsilon: float) -> float:
        upper = special.ndtr(ratio / 2 - epsilon / ratio)
        lower = math.exp(epsilon + special.log_ndtr(-ratio / 2 - epsilon / ratio))
        return float(upper - lower)

    low, high = 0.0, 1.0
    while excess(high) > delta:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    return high * (1 + 1e-9)
