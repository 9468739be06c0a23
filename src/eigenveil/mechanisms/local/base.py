"""What every local mechanism is, and the exact integer totals that its reports add up to."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...errors import (
    MOST_FEATURES,
    CapacityError,
    InvalidParameterError,
    budget_delta,
    budget_epsilon,
    integer_between,
    one_of,
    positive_number,
)
from ...numerics import FloatArray, IntArray
from ..base import Mechanism, Releases, Values

ByteArray = NDArray[np.uint8]

PARAMETERS = ("n_features", "epsilon", "delta", "row_norms", "trace_share", "rank")
"""What a local mechanism is made of."""
# An honest report fails the range check with at most this probability (docs/research/local.md).
HONEST_FAILURE = 1e-9
# Totals stay below 2^62, so that two of them always add without overflow.
CAPACITY = 2**62
# Beyond this e^epsilon leaves the range where the formulas keep their digits, and nothing is private anyway.
LARGEST_EPSILON = 30.0
_LEAST_TRACE_SHARE = 1e-6


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


class LocalMechanism(Mechanism):
    """One way to make a row private on the client, and to estimate the second moment on the server.

    Rows come as integer rows of norm at most 2^row_bits (see `RowRule`), reports as `payload_bytes` bytes each. A
    collection is read as it is, without the shrinkage of central matrices, so `adds_noise` is false for all of them.

    Parameters
    ----------
    n_features : int
        Width of a row, d (at least 2).
    epsilon : float
        What one report may cost its client.
    delta : float
        0 is pure differential privacy.
    row_norms : {"any", "unit"}
        ``"unit"`` says that every row but zero has the largest norm, so the trace is known.
    trace_share : float
        The share of epsilon that pays for the trace, for mechanisms of directions where it is not known.
    rank : int or None
        The dimension of the public subspace that a report is about, for `one_bit`; other mechanisms have rank 1. None
        is the best. Left out it is 1, which is what records of version 0.1 mean.
    """

    releases: ClassVar[Releases] = "matrix"
    n_matrices: ClassVar[int] = 1
    row_bits: int
    payload_bytes: int
    entry_limit: int
    """The largest magnitude of an entry that one accepted report adds to the totals."""

    def __init__(
        self,
        *,
        n_features: int,
        epsilon: float,
        delta: float = 0.0,
        row_norms: str = "any",
        trace_share: float = 0.05,
        rank: int | None = 1,
    ) -> None:
        self.n_features: int = integer_between("n_features", n_features, 2, MOST_FEATURES)
        self.epsilon: float = budget_epsilon(epsilon)
        self.delta: float = budget_delta(delta)
        self.row_norms: str = one_of("row_norms", row_norms, ("any", "unit"))
        self.trace_share: float = positive_number("trace_share", trace_share)
        if self.epsilon > LARGEST_EPSILON:
            raise InvalidParameterError(f"epsilon must be at most {LARGEST_EPSILON:g}, got {self.epsilon!r}.")
        if not _LEAST_TRACE_SHARE <= self.trace_share < 1:
            raise InvalidParameterError(
                f"trace_share must be at least {_LEAST_TRACE_SHARE:g} and below 1, got {self.trace_share!r}."
            )
        self.rank: int = integer_between("rank", self.best_rank if rank is None else rank, 1)
        if self.rank > self.largest_rank:
            raise InvalidParameterError(
                f"The mechanism {self.name!r} of {self.n_features} features has a rank of at most {self.largest_rank}, "
                f"got {self.rank}."
            )
        if self.needs_delta != (self.delta > 0):
            need = "needs a delta above 0" if self.needs_delta else "is pure, so its delta must be 0"
            raise InvalidParameterError(f"The mechanism {self.name!r} {need}.")

    @property
    def largest_rank(self) -> int:
        """The largest dimension that a report can be about."""
        return 1

    @property
    def best_rank(self) -> int:
        """The rank of a protocol that names none."""
        return 1

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types; `local_mechanism_from` makes the same mechanism of them."""
        return {"mechanism": self.name, **{name: getattr(self, name) for name in PARAMETERS}}

    # What a client does.

    @abstractmethod
    def perturb(self, rows: FloatArray, ids: ByteArray, generator: np.random.Generator) -> ByteArray:
        """Return the payloads (n x payload_bytes) of integer rows, one independent report a row."""

    def noise_of_many(self, n_clients: int, generator: np.random.Generator) -> IntArray | None:
        """Return the noise of many reports as one sum; None where a report is no sum of row and noise."""
        return None

    def log_likelihood(self, payloads: ByteArray, ids: ByteArray, row: FloatArray) -> FloatArray | None:
        """Return the log density of reports on one integer row, up to a constant; None where it is not known."""
        return None

    # What a server does.

    @abstractmethod
    def in_range(self, payloads: ByteArray) -> NDArray[np.bool_]:
        """Return a mask of payloads in range; an honest one fails with probability `HONEST_FAILURE` at most."""

    @abstractmethod
    def fold(self, payloads: ByteArray, ids: ByteArray) -> tuple[IntArray, int]:
        """Return the sums and the count of ones of a block of accepted payloads."""

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

    # What the sums say.

    @abstractmethod
    def _estimated(self, sums: FloatArray, ones: float, n_reports: int) -> FloatArray:
        """Return the unbiased estimate of A, the mean of x x' for rows of norm at most 1."""

    def second_moment(self, values: Values, n_rows: int) -> FloatArray:
        """Return the unbiased estimate of A."""
        return self._estimated(values["sums"], float(values["ones"]), n_rows)

    def estimate(self, totals: Totals) -> FloatArray:
        """Return the unbiased estimate of A from the totals of at least one report."""
        return self._estimated(totals.sums.astype(np.float64), float(totals.ones), totals.n_reports)

    @abstractmethod
    def variance(self, squared_norm: float = 1.0) -> float:
        """Return E|S - xx'|_F^2 of one report's estimate S, for a row of this squared norm (bound 1)."""

    @property
    @abstractmethod
    def off_diagonal_sd(self) -> float:
        """The standard deviation of an entry y'Sz of one report, for y, z orthogonal to each other and x."""

    def noise_sd(self, n_rows: int) -> float:
        """Return the standard deviation beside the diagonal of A, of that many reports."""
        return self.off_diagonal_sd / math.sqrt(n_rows)

    @property
    @abstractmethod
    def pull(self) -> float:
        """The largest Frobenius norm of what one accepted report adds to n times the estimate (bound 1)."""
