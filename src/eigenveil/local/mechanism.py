"""What every local mechanism is, and the exact integer totals that its reports add up to."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import CapacityError
from ..guarantee import Guarantee

if TYPE_CHECKING:
    from .protocol import LocalProtocol

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
ByteArray = NDArray[np.uint8]

# An honest report passes the range check with at least this probability (docs/local.md).
HONEST_FAILURE = 1e-9
# Totals stay below 2^62, so that two of them always add without overflow.
CAPACITY = 2**62


@dataclass(frozen=True)
class Totals:
    """All that the server keeps of the reports: integers, so addition is exact in any order.

    Attributes
    ----------
    sums : ndarray of shape (m, d, d), int64
        Sums over reports of the mechanism's integer matrices.
    ones : int
        Number of reports whose trace bit was 1.
    n_reports : int
    n_seeded : int
        Reports that say they were drawn from a seed: they are not private.
    """

    sums: IntArray
    ones: int
    n_reports: int
    n_seeded: int

    @classmethod
    def empty(cls, n_matrices: int, n_features: int) -> Self:
        """Return the totals of no report."""
        return cls(np.zeros((n_matrices, n_features, n_features), dtype=np.int64), 0, 0, 0)

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            self.sums + other.sums,
            self.ones + other.ones,
            self.n_reports + other.n_reports,
            self.n_seeded + other.n_seeded,
        )


class LocalMechanism(ABC):
    """One way to make a row private on the client, and to estimate the second moment on the server.

    Rows come as integer rows of norm at most 2^bits (see `RowBound`), reports as `payload_bytes` bytes each.
    """

    name: ClassVar[str]
    n_matrices: ClassVar[int] = 1
    needs_delta: ClassVar[bool] = False
    row_bits: int
    payload_bytes: int
    entry_limit: int
    """The largest magnitude of an entry that one accepted report adds to the totals."""

    def __init__(self, protocol: "LocalProtocol") -> None:
        self.protocol = protocol
        self.n_features = protocol.n_features

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Return what one report promises to its client; a function of the parameters alone."""

    @abstractmethod
    def perturb(self, rows: FloatArray, ids: ByteArray, generator: np.random.Generator) -> ByteArray:
        """Return the payloads (n x payload_bytes) of integer rows, one independent report a row."""

    @abstractmethod
    def in_range(self, payloads: ByteArray) -> NDArray[np.bool_]:
        """Return which payloads an honest client could have sent, but for a chance of `HONEST_FAILURE`."""

    @abstractmethod
    def fold(self, payloads: ByteArray, ids: ByteArray) -> tuple[IntArray, int]:
        """Return what a block of accepted payloads adds to the sums and to the count of ones."""

    @abstractmethod
    def estimate(self, totals: Totals) -> FloatArray:
        """Return the unbiased estimate of A = mean of x x', for rows divided by the norm bound."""

    @abstractmethod
    def variance(self, squared_norm: float = 1.0) -> float:
        """Return E|S - xx'|_F^2 of one report's estimate S, for a row of this squared norm (bound 1)."""

    @property
    @abstractmethod
    def off_diagonal_sd(self) -> float:
        """The standard deviation of an entry y'Sz of one report, for y, z orthogonal to each other and x."""

    @property
    @abstractmethod
    def pull(self) -> float:
        """The largest Frobenius norm of what one accepted report adds to n times the estimate (bound 1)."""

    def totals_of(self, payloads: ByteArray, ids: ByteArray, n_seeded: int = 0) -> Totals:
        """Return the totals of a block of accepted payloads."""
        sums, ones = self.fold(payloads, ids)
        return Totals(sums, ones, payloads.shape[0], n_seeded)

    def check_capacity(self, n_reports: int) -> None:
        """Raise if the sums of `n_reports` reports could leave int64."""
        if n_reports * self.entry_limit >= CAPACITY:
            raise CapacityError(
                "The exact totals of so many reports would overflow int64; release them and start a new collection."
            )
