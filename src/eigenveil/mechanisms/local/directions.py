"""What `double_cap` and `one_bit` share: rows become directions, and a bit settles the trace.

A row of norm r < 1 keeps its direction with probability r^2 and is a uniform direction else. The signal is then
xx' up to a multiple of the identity, and that multiple is the trace, reported by randomized response with the same
coin.
"""

import ctypes
import hashlib
import math
from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ...accounting.calibration import exact, share_below
from ...guarantee import Assumption, Guarantee
from ...numerics import FloatArray, compiled_function
from ...sampling.discrete import Coin, logistic_coin
from .base import ByteArray, LocalMechanism

# Directions travel as 16-bit integers: the rounding is 1e-5, where a coordinate of the noise is 1/sqrt(d).
DIRECTION_SCALE = 2**15 - 1
_SCALED_ROWS = Assumption(
    "The trace is assumed to be known: every row except zero rows was scaled to the norm bound.",
    "assumes a known trace",
)


def squared_norms(rows: FloatArray) -> NDArray[np.int64]:
    """Return the squared norms of integer rows: exact, in any order, since they stay below 2^53."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows), dtype=np.int64)


class DirectionMechanism(LocalMechanism):
    """A mechanism whose report is about the row's direction, and a bit about its length."""

    row_bits = 16
    entry_limit = (DIRECTION_SCALE + 1) ** 2

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.measures_trace: bool = self.row_norms == "any"
        self.trace_bytes: int = int(self.measures_trace)
        share = exact(self.trace_share) if self.measures_trace else Fraction(0)
        self.trace_epsilon: float = share_below(exact(self.epsilon) * share)
        self.direction_epsilon: float = share_below(exact(self.epsilon) * (1 - share))

    def guarantee(self) -> Guarantee:
        """Return pure epsilon, exact: reports and coins have their probabilities to the last bit."""
        assumptions = () if self.measures_trace else (_SCALED_ROWS,)
        return Guarantee(self.epsilon, numerics=self.numerics, assumptions=assumptions)

    @cached_property
    def trace_coin(self) -> Coin:
        """The coin of randomized response for the trace."""
        return logistic_coin(exact(self.trace_epsilon))

    @abstractmethod
    def _respond(
        self, rows: FloatArray, kept: NDArray[np.bool_], ids: ByteArray, generator: np.random.Generator
    ) -> ByteArray:
        """Return payloads of integer rows, without the trace bit; where `kept` is false the direction is uniform."""

    @abstractmethod
    def _signal(self, sums: FloatArray) -> FloatArray:
        """Return the sum of unbiased estimates of xx', up to a multiple of I, from sums in units of 1."""

    @abstractmethod
    def _signal_variance(self, squared_norm: float) -> float:
        """Return the variance of one report's traceless part."""

    @property
    @abstractmethod
    def _signal_reach(self) -> float:
        """The largest norm of the traceless part of one report's estimate, over that of uu', sqrt(1 - 1/d)."""

    def perturb(self, rows: FloatArray, ids: ByteArray, generator: np.random.Generator) -> ByteArray:
        """Return the payloads of integer rows."""
        squared = squared_norms(rows)
        kept = squared > 0
        if self.measures_trace:
            # An integer below 4^bits against an integer: the coin's bias is exactly r^2. The zero row is never kept.
            kept = generator.integers(0, 4**self.row_bits, len(rows)) < squared
        body = self._respond(rows, kept, ids, generator)
        if not self.measures_trace:
            return body
        return self._with_trace_bit(body, kept == self.trace_coin.toss(len(rows), generator))

    def _log_mixture(
        self, row: FloatArray, kept: FloatArray, dropped: FloatArray, bits: NDArray[Any] | None
    ) -> FloatArray:
        """Return the log of the mixture over the coin that keeps the direction or drops it."""
        squared = float(row @ row) / 4.0**self.row_bits
        if bits is None:
            return np.log(kept if squared > 0 else dropped)
        truth = 1 / (1 + math.exp(-self.trace_epsilon))
        said_kept = np.where(bits == 1, truth, 1 - truth)
        return np.asarray(np.log(squared * kept * said_kept + (1 - squared) * dropped * (1 - said_kept)))

    def _with_trace_bit(self, body: ByteArray, bits: NDArray[np.bool_]) -> ByteArray:
        return np.hstack([body, bits.astype(np.uint8)[:, None]])

    def _ones(self, payloads: ByteArray) -> int:
        return int(np.count_nonzero(payloads[:, -1])) if self.measures_trace else 0

    def trace(self, share: float) -> float:
        """Return the unbiased estimate of tr A, for rows of norm at most 1, from the share of ones among trace bits."""
        return 0.5 + (share - 0.5) / math.tanh(self.trace_epsilon / 2) if self.measures_trace else 1.0

    def _estimated(self, sums: FloatArray, ones: float, n_reports: int) -> FloatArray:
        """Return the traceless part of the signal, plus the trace."""
        moment = self._signal(sums / DIRECTION_SCALE**2) / n_reports
        d = self.n_features
        moment[np.diag_indices(d)] += (self.trace(ones / n_reports) - np.trace(moment)) / d
        return moment

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


# Normals are quantiles at the middles of 2^16 cells, in units of 2^-12: variance 1 - 2e-5, at most 4.2.
_CELLS = 2**16
_UNIT = 2.0**12
# Entries of the inverse factor are integers of 2^-36: at rank 50 their rounding moves the entries of a basis by 0.004
# of the last place.
_FACTOR_UNIT = 2.0**36
# A row that lies in the span of those before it, but for this share of its square, is left out: by chance 3 times in
# 1e8 at d = 4, and never at d = 10. Who searches for such identifiers must not get NaN into the sums.
_DEPENDENT = 2.0**-16
_DIRECTION = b"eigenveil local one_bit direction 1"
_SUBSPACE = b"eigenveil local one_bit subspace 1"


def public_bases(ids: ByteArray, n_features: int, rank: int) -> FloatArray:
    """Return the integer bases (n x rank x n_features) of the uniform subspaces that identifiers stand for.

    Examples
    --------
    >>> ids = np.arange(32, dtype=np.uint8).reshape(2, 16)
    >>> bases = public_bases(ids, 6, 3)
    >>> np.array_equal(bases[1], public_bases(ids[1:], 6, 3)[0])
    True
    >>> np.round(bases[0] @ bases[0].T / DIRECTION_SCALE**2, 3) + 0.0
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    if rank == 1:  # a quantile function may round its last bit as it likes here
        words = np.frombuffer(_hashed(_DIRECTION, ids, 8 * n_features), dtype="<u8").reshape(len(ids), 1, n_features)
        normals = special.ndtri(((words >> np.uint64(11)) + 0.5) * 2.0**-53)
        return np.asarray(np.rint(normals / np.linalg.norm(normals, axis=2, keepdims=True) * DIRECTION_SCALE))
    return (_compiled_bases() or _bases)(ids, n_features, rank)


def _bases(ids: ByteArray, n_features: int, rank: int) -> FloatArray:
    words = np.frombuffer(_hashed(_SUBSPACE, ids, 2 * rank * n_features), dtype="<u2")
    return orthonormal(normal_table().take(words).reshape(len(ids), rank, n_features).astype(np.float64))


@cache
def _compiled_bases() -> Callable[[ByteArray, int, int], FloatArray] | None:
    """Return `_bases` by public_bases.c, if it was compiled and gives the same."""
    size, place = ctypes.c_size_t, ctypes.c_void_p
    make = compiled_function("eigenveil_bases", *(place,) * 2, *(size,) * 3, *(place,) * 4)
    if make is None:
        return None

    def bases(ids: ByteArray, n_features: int, rank: int) -> FloatArray:
        # The one block that SHAKE256 takes of each: label, identifier, and the marks at the ends of text and block.
        block = (_SUBSPACE + bytes(ids.shape[1]) + b"\x1f").ljust(135, b"\0") + b"\x80"
        texts, begin = np.tile(np.frombuffer(block, np.uint8), (len(ids), 1)), len(_SUBSPACE)
        texts[:, begin : begin + ids.shape[1]] = ids
        made, units = np.empty((len(ids), rank, n_features)), np.array([_DEPENDENT, _FACTOR_UNIT, DIRECTION_SCALE])
        words, room = np.empty(2 * (rank * n_features + 3), np.uint64), np.empty(2 * rank**2 + rank + n_features)
        make(texts, normal_table(), *made.shape, units, words, room, made)
        return made

    some = np.arange(19 * 16, dtype=np.uint8).reshape(19, 16)
    same = (np.array_equal(bases(some, *shape), _bases(some, *shape)) for shape in ((5, 2), (40, 9)))
    return bases if all(same) else None


def _hashed(label: bytes, ids: ByteArray, length: int) -> bytes:
    return b"".join(hashlib.shake_256(label + identifier.tobytes()).digest(length) for identifier in ids)


@cache
def normal_table() -> NDArray[np.int16]:
    """Return the integers that 16-bit words stand for; no quantile is near enough to a half to round differently.

    As short ones, so that the table stays in a cache.
    """
    return np.asarray(np.rint(_UNIT * special.ndtri((np.arange(_CELLS) + 0.5) / _CELLS)), dtype=np.int16)


def orthonormal(rows: FloatArray) -> FloatArray:
    """Return integer bases of the spans of integer rows (n x rank x d), orthonormal in units of `DIRECTION_SCALE`.

    With G the rows and G G' = L L', the basis is inv(L) G. Products of matrices are of integers below 2^53 in every
    partial sum; all else is elementwise.
    """
    n, rank, _ = rows.shape
    # The reports come last, so that every step runs over all of them.
    rest = np.ascontiguousarray((rows @ rows.transpose(0, 2, 1)).transpose(1, 2, 0))
    inverse = np.zeros((rank, rank, n))
    smallest = _DEPENDENT * np.einsum("iin->in", rest)
    for j in range(rank):
        pivot = rest[j, j]
        free = pivot > smallest[j]
        scale = np.where(free, 1.0 / np.sqrt(np.where(free, pivot, 1.0)), 0.0)
        inverse[j, j] = 1.0
        inverse[j, : j + 1] *= scale
        column = rest[j + 1 :, j] * scale
        rest[j + 1 :, j + 1 :] -= column[:, None] * column[None, :]
        inverse[j + 1 :, : j + 1] -= column[:, None] * inverse[j, None, : j + 1]
    # Normals are below 2^15: within this every partial sum of the product is below 2^53.
    largest = 2.0**38 / rank
    factor = np.rint(np.clip(inverse * _FACTOR_UNIT, -largest, largest)).transpose(2, 0, 1)
    # In the order of its products: BLAS takes no other, and NumPy's own loop takes ten times as long.
    bases = np.matmul(np.ascontiguousarray(factor), rows)
    bases *= DIRECTION_SCALE / _FACTOR_UNIT
    np.rint(bases, out=bases)
    # A bound on what one report adds, proved by this line. Only bases far from orthonormal pass it, and none by chance.
    bases[np.einsum("ijk,ijk->ik", bases, bases).max(axis=1) > 2 * DIRECTION_SCALE**2] = 0.0
    return np.asarray(bases)
