"""`one_bit`: a public random subspace, and one private bit that says whether the row lies near it.

The subspace is a function of the report's random identifier, so client and server know it alike and it costs
no bytes of its own. docs/research/local.md derives the estimate and its variance.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ...accounting.calibration import exact
from ...guarantee import Numerics
from ...numerics import FloatArray, IntArray, one_blas_thread
from ...sampling.discrete import Coin, logistic_coin, rational_coin
from .base import ByteArray
from .directions import DIRECTION_SCALE, DirectionMechanism, public_bases, squared_norms

# Times the rank it is above the rounding of both sides, rank + 8 times 2^-53; what is closer is decided in integers.
NEAR_TOLERANCE = 2.0**-48
# Rank d/2 has the least variance, and a report costs time in proportion to its rank and more. Rank 8 has at most 3.5 %
# more variance than rank 50, and takes a tenth of the time.
WIDEST_BY_DEFAULT = 8
# From here on a subspace gains less than 0.6 % over a direction, and soon loses up to 2.3 %.
DIRECTION_BEYOND = 5.0
# Entries of the public bases at work at one time: so many stay in a cache.
_BLOCK_ENTRIES = 2**18


@dataclass(frozen=True)
class BitMechanism:
    """The public numbers of a one-bit report.

    With P the projector on a uniform subspace of that rank, x a unit row and B = [|Px|^2 > threshold], E[B] = mass and
    E[B (P - rank/d I)] = slope (xx' - I/d).

    Examples
    --------
    >>> round(BitMechanism.best(100, 0.25).variance() / BitMechanism.best(100, 0.25, rank=50).variance(), 2)
    1.34
    """

    n_features: int
    epsilon: float
    threshold: float
    mass: float
    slope: float
    rank: int = 1

    @classmethod
    def at(cls, n_features: int, epsilon: float, mass: float, rank: int = 1) -> Self:
        """Return the mechanism whose threshold is passed with probability `mass`."""
        inside, outside = rank / 2, (n_features - rank) / 2
        threshold = float(special.betainccinv(inside, outside, mass))
        # E[t; t > threshold] = weighted rank/d: t times a Beta(a, b) density is a/(a + b) times a Beta(a + 1, b) one.
        weighted = float(special.betaincc(inside + 1, outside, threshold))
        return cls(n_features, epsilon, threshold, mass, rank * (weighted - mass) / (n_features - 1), rank)

    @classmethod
    def best(cls, n_features: int, epsilon: float, rank: int = 1) -> Self:
        """Return the mechanism of least variance, by zooming into a grid of the mass."""
        low, high = math.log(1e-9), math.log(0.9)
        for _ in range(6):
            grid = np.linspace(low, high, 101)
            mechanisms = [cls.at(n_features, epsilon, math.exp(point), rank) for point in grid]
            best = int(np.argmin([mechanism.variance() for mechanism in mechanisms]))
            low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
        return mechanisms[best]

    @property
    def spread(self) -> float:
        """|P - rank/d I|_F^2 over that of rank 1, which is 1 - 1/d."""
        return self.rank * (self.n_features - self.rank) / (self.n_features - 1)

    def variance(self, squared_norm: float = 1.0) -> float:
        """Return E|S - E S|_F^2 of S = (y - mass)(P - rank/d I)/slope."""
        # E(y - mass)^2, y the unbiased estimate of B from the randomized bit.
        bit_variance = 1 / (4 * math.sinh(self.epsilon / 2) ** 2) + self.mass * (1 - self.mass)
        noise = bit_variance * self.spread / self.slope**2
        return (1 - 1 / self.n_features) * (noise - squared_norm**2)


class OneBit(DirectionMechanism):
    """Pure epsilon, one byte a report beside its identifier.

    Formal guarantee
    ----------------
    Pure epsilon-local differential privacy: the subspace does not depend on the row, and the bit is randomized
    response (Warner 1965) with the direction's part of epsilon; the trace bit is another with the rest. Whatever the
    two bits are a function of, what is private is how they leave, and the coins of that are exact.
    """

    name = "one_bit"
    numerics = Numerics.EXACT
    source = "randomized response (Warner 1965) about a public subspace; new in eigenveil"
    use_when = "delta = 0, epsilon up to 1, or exact numerics, or every byte counts"
    n_matrices = 2
    payload_bytes = 1

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        if self.rank > 1:
            self.entry_limit = 2 * DIRECTION_SCALE**2  # the bound that `subspaces.orthonormal` keeps

    @property
    def largest_rank(self) -> int:
        """Half of the features: a subspace and its complement tell the same."""
        return self.n_features // 2

    @property
    def best_rank(self) -> int:
        """The rank of least variance among those whose reports are quick to make."""
        return min(self.largest_rank, WIDEST_BY_DEFAULT) if self.epsilon <= DIRECTION_BEYOND else 1

    @cached_property
    def bit(self) -> BitMechanism:
        """The best bit for the direction's part of epsilon."""
        return BitMechanism.best(self.n_features, self.direction_epsilon, self.rank)

    @cached_property
    def direction_coin(self) -> Coin:
        """The coin of randomized response for the direction."""
        return logistic_coin(exact(self.direction_epsilon))

    @cached_property
    def chance_coin(self) -> Coin:
        """The coin that says for a dropped row whether a uniform direction would have been near."""
        return rational_coin(Fraction(self.bit.mass))

    def near(self, rows: FloatArray, bases: FloatArray) -> NDArray[np.bool_]:
        """Return whether rank |V q|^2 > threshold |V|_F^2 |q|^2, for integer rows q and integer public bases V.

        Decided in exact integers where floats leave a doubt, so that it is a fact about integers: the same on every
        machine and in every layout.
        """
        # Exact in float64, in any order: every partial sum is an integer below 2^53.
        products = np.matmul(bases, rows[:, :, None])[:, :, 0]
        threshold, lengths = self.bit.threshold, squared_norms(rows)
        sizes = np.einsum("ijk,ijk->i", bases, bases)
        left, right = self.rank * np.square(products).sum(axis=1), threshold * sizes * lengths
        found = left > right
        exactly = Fraction(threshold)
        for i in np.flatnonzero(np.abs(left - right) <= NEAR_TOLERANCE * self.rank * right):
            squares = sum(int(product) ** 2 for product in products[i])
            found[i] = self.rank * squares > exactly * int(sizes[i]) * int(lengths[i])
        return np.asarray(found)

    def _near_public(self, rows: FloatArray, ids: ByteArray) -> NDArray[np.bool_]:
        """Return whether rows are near the public subspaces of identifiers."""
        found = np.zeros(len(ids), dtype=bool)
        for block, bases in self._public(ids):
            found[block] = self.near(rows[block], bases)
        return found

    def _public(self, ids: ByteArray) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the public bases of identifiers, a few at a time, with their places."""
        step = max(1, _BLOCK_ENTRIES // (self.rank * self.n_features))
        for start in range(0, len(ids), step):
            block = slice(start, start + step)
            yield block, public_bases(ids[block], self.n_features, self.rank)

    def _respond(
        self, rows: FloatArray, kept: NDArray[np.bool_], ids: ByteArray, generator: np.random.Generator
    ) -> ByteArray:
        # A uniform direction in place of x passes the threshold with probability `mass`, whatever the subspace is.
        chance = self.chance_coin.toss(len(ids), generator)
        near = np.where(kept, self._near_public(rows, ids), chance)
        return np.asarray((near == self.direction_coin.toss(len(ids), generator)).astype(np.uint8)[:, None])

    def _with_trace_bit(self, body: ByteArray, bits: NDArray[np.bool_]) -> ByteArray:
        return np.asarray(body + 2 * bits.astype(np.uint8)[:, None])

    def log_likelihood(self, payloads: ByteArray, ids: ByteArray, row: FloatArray) -> FloatArray:
        """Return the log probability of the bit about a public subspace, and of the trace bit."""
        near = self._near_public(np.tile(row, (len(ids), 1)), ids)
        said = (payloads[:, 0] & 1).astype(bool)
        truth = 1 / (1 + math.exp(-self.direction_epsilon))
        likely = self.bit.mass * truth + (1 - self.bit.mass) * (1 - truth)
        bits = payloads[:, 0] >> 1 if self.measures_trace else None
        return self._log_mixture(
            row, np.where(said == near, truth, 1 - truth), np.where(said, likely, 1 - likely), bits
        )

    def in_range(self, payloads: ByteArray) -> NDArray[np.bool_]:
        """Return a mask of payloads without unused bits."""
        return np.asarray(payloads[:, 0] < (4 if self.measures_trace else 2))

    def fold(self, payloads: ByteArray, ids: ByteArray) -> tuple[IntArray, int]:
        """Sum V'V, and V'V over the reports whose bit is 1, exactly."""
        sums = np.zeros((2, self.n_features, self.n_features), dtype=np.int64)
        bits = (payloads[:, 0] & 1) == 1
        with one_blas_thread():  # several would wait for one another at this size
            for place, chosen in enumerate((ids[~bits], ids[bits])):
                for _, bases in self._public(chosen):
                    flat = bases.reshape(-1, self.n_features)
                    sums[place] += (flat.T @ flat).astype(np.int64)
        sums[0] += sums[1]
        return sums, self._ones(payloads)

    def _ones(self, payloads: ByteArray) -> int:
        return int(np.count_nonzero(payloads[:, 0] & 2))

    def _signal(self, sums: FloatArray) -> FloatArray:
        # y - mass = (bit - 1/2)/tanh(epsilon/2) + 1/2 - mass
        steepness = 1 / math.tanh(self.direction_epsilon / 2)
        level = 0.5 - self.bit.mass - steepness / 2
        return np.asarray((steepness * sums[1] + level * sums[0]) / self.bit.slope)

    def _signal_variance(self, squared_norm: float) -> float:
        return self.bit.variance(squared_norm)

    @property
    def _signal_reach(self) -> float:
        steepness = 1 / math.tanh(self.direction_epsilon / 2)
        return (steepness / 2 + abs(0.5 - self.bit.mass)) * math.sqrt(self.bit.spread) / self.bit.slope
