"""What `double_cap` and `one_bit` share: rows become directions, and a bit settles the trace.

A row of norm r < 1 keeps its direction with probability r^2 and is a uniform direction else. The signal is then
xx' up to a multiple of the identity, and that multiple is the trace, told by randomized response on the same coin.
"""

import math
from abc import abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .mechanism import ByteArray, FloatArray, LocalMechanism, Totals

if TYPE_CHECKING:
    from .protocol import LocalProtocol

# Directions travel as 16-bit integers: the rounding is 1e-5, where a coordinate of the noise is 1/sqrt(d).
DIRECTION_SCALE = 2**15 - 1


def uniform_directions(size: int, n_features: int, generator: np.random.Generator) -> FloatArray:
    """Draw directions from the uniform law on the sphere."""
    normals = generator.standard_normal((size, n_features))
    return np.asarray(normals / np.linalg.norm(normals, axis=1, keepdims=True))


def quantized(directions: FloatArray) -> FloatArray:
    """Return the integer vectors that stand for unit vectors: pure post-processing."""
    return np.rint(directions * DIRECTION_SCALE)


class DirectionMechanism(LocalMechanism):
    """A mechanism whose report is about the row's direction, and a bit about its length."""

    row_bits = 16
    entry_limit = (DIRECTION_SCALE + 1) ** 2

    def __init__(self, protocol: "LocalProtocol") -> None:
        super().__init__(protocol)
        self.measures_trace = protocol.row_norms == "any"
        self.trace_bytes = int(self.measures_trace)
        share = Fraction(repr(protocol.trace_share)) if self.measures_trace else Fraction(0)
        epsilon = Fraction(repr(protocol.epsilon))
        self.trace_epsilon = float(epsilon * share)
        self.direction_epsilon = float(epsilon * (1 - share))

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a reader of the guarantee must know."""
        if self.measures_trace:
            return ()
        return ("The trace is taken as known: every row was scaled to the norm bound, but zero rows were not.",)

    @abstractmethod
    def _respond(
        self, directions: FloatArray, kept: NDArray[np.bool_], ids: ByteArray, generator: np.random.Generator
    ) -> ByteArray:
        """Return payloads without the trace bit; where `kept` is false the direction is uniform."""

    @abstractmethod
    def _signal(self, sums: FloatArray) -> FloatArray:
        """Return the sum of unbiased estimates of xx', up to a multiple of I, from sums in units of 1."""

    @abstractmethod
    def _signal_variance(self, squared_norm: float) -> float:
        """Return the variance of one report's traceless part."""

    @property
    @abstractmethod
    def _signal_reach(self) -> float:
        """The largest factor of uu' in one report's estimate."""

    def perturb(self, rows: FloatArray, ids: ByteArray, generator: np.random.Generator) -> ByteArray:
        """Return the payloads of integer rows."""
        squared = np.einsum("ij,ij->i", rows, rows)
        # Exact integers over 4^bits: the coin's bias is exactly r^2. The zero row never keeps its direction.
        share = squared / 4.0**self.row_bits if self.measures_trace else np.sign(squared)
        kept = generator.random(len(rows)) < share
        directions = rows / np.sqrt(np.maximum(squared, 1.0))[:, None]
        directions[squared == 0, 0] = 1.0
        body = self._respond(directions, kept, ids, generator)
        if not self.measures_trace:
            return body
        truthful = generator.random(len(rows)) < 1 / (1 + math.exp(-self.trace_epsilon))
        return self._with_trace_bit(body, kept == truthful)

    def _with_trace_bit(self, body: ByteArray, bits: NDArray[np.bool_]) -> ByteArray:
        return np.hstack([body, bits.astype(np.uint8)[:, None]])

    def _trace_in_range(self, payloads: ByteArray) -> NDArray[np.bool_]:
        if not self.measures_trace:
            return np.ones(len(payloads), dtype=bool)
        return np.asarray(payloads[:, -1] <= 1)

    def _ones(self, payloads: ByteArray) -> int:
        return int(np.count_nonzero(payloads[:, -1])) if self.measures_trace else 0

    def _unit_length(self, integers: FloatArray) -> NDArray[np.bool_]:
        # Each coordinate is rounded by at most 1/2, so the length by at most sqrt(d)/2.
        slack = math.sqrt(self.n_features) / 2 + 1
        lengths = np.sqrt(np.einsum("ij,ij->i", integers, integers))
        return np.asarray(np.abs(lengths - DIRECTION_SCALE) <= slack)

    def trace(self, totals: Totals) -> float:
        """Return the unbiased estimate of tr A, for rows divided by the norm bound."""
        if not self.measures_trace:
            return 1.0
        share = totals.ones / totals.n_reports
        return 0.5 + (share - 0.5) / math.tanh(self.trace_epsilon / 2)

    def estimate(self, totals: Totals) -> FloatArray:
        """Return the traceless part of the signal, plus the trace."""
        units = totals.sums.astype(np.float64) / DIRECTION_SCALE**2
        covariance = self._signal(units) / totals.n_reports
        d = self.n_features
        covariance[np.diag_indices(d)] += (self.trace(totals) - np.trace(covariance)) / d
        return covariance

    def trace_variance(self, squared_norm: float = 1.0) -> float:
        """Return the variance of one report's estimate of r^2."""
        if not self.measures_trace:
            return 0.0
        return 1 / (4 * math.sinh(self.trace_epsilon / 2) ** 2) + squared_norm * (1 - squared_norm)

    def variance(self, squared_norm: float = 1.0) -> float:
        """Return the mean squared Frobenius error of one report's estimate."""
        return self._signal_variance(squared_norm) + self.trace_variance(squared_norm) / self.n_features

    @property
    def off_diagonal_sd(self) -> float:
        """Return the square root of the variance of the traceless part over its dimension."""
        d = self.n_features
        return math.sqrt(self._signal_variance(0.0) * 2 / ((d - 1) * (d + 2)) / 2)

    @property
    def pull(self) -> float:
        """Return the Frobenius norm of the largest report: its traceless part, and its trace."""
        d, trace = self.n_features, 1.0
        if self.measures_trace:
            trace = 0.5 + 0.5 / math.tanh(self.trace_epsilon / 2)
        return math.sqrt((1 - 1 / d) * self._signal_reach**2 + trace**2 / d)
