"""`one_bit`: a public random direction u, and one private bit that says whether the row lies near it.

The direction is a function of the report's random identifier, so client and server know it alike and it costs
no bytes of its own. docs/explanation/local.md derives the estimate and its variance.
"""

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ...accounting.calibration import exact
from ...guarantee import Guarantee, Numerics
from ...samplers.coins import Coin, logistic_coin, rational_coin
from ..base import FloatArray, IntArray
from .base import ByteArray
from .directions import DirectionLaw, quantized, squared_norms

# Above the rounding of both sides, four times 2^-53; what is closer is decided in integers.
NEAR_TOLERANCE = 2.0**-48
_LABEL = b"eigenveil local one_bit direction 1"


def public_directions(ids: ByteArray, n_features: int) -> FloatArray:
    """Return the integer directions that report identifiers stand for, uniform on the sphere.

    Examples
    --------
    >>> ids = np.arange(32, dtype=np.uint8).reshape(2, 16)
    >>> np.array_equal(public_directions(ids, 5)[1], public_directions(ids[1:], 5)[0])
    True
    """
    digests = b"".join(hashlib.shake_256(_LABEL + identifier.tobytes()).digest(8 * n_features) for identifier in ids)
    words = np.frombuffer(digests, dtype="<u8").reshape(len(ids), n_features)
    normals = special.ndtri(((words >> np.uint64(11)) + 0.5) * 2.0**-53)
    return quantized(normals / np.linalg.norm(normals, axis=1, keepdims=True))


@dataclass(frozen=True)
class BitLaw:
    """The public numbers of a one-bit report.

    With B = [(u.x)^2 > threshold] for a unit x, E[B] = mass and E[B (uu' - I/d)] = slope (xx' - I/d).
    """

    n_features: int
    epsilon: float
    threshold: float
    mass: float
    slope: float

    @classmethod
    def at(cls, n_features: int, epsilon: float, mass: float) -> Self:
        """Return the law whose threshold is passed with probability `mass`."""
        shape = (n_features - 1) / 2
        threshold = float(special.betainccinv(0.5, shape, mass))
        weighted = float(special.betaincc(1.5, shape, threshold))
        return cls(n_features, epsilon, threshold, mass, (weighted - mass) / (n_features - 1))

    @classmethod
    def best(cls, n_features: int, epsilon: float) -> Self:
        """Return the law of least variance, by zooming into a grid of the mass."""
        low, high = math.log(1e-9), math.log(0.9)
        for _ in range(6):
            grid = np.linspace(low, high, 101)
            laws = [cls.at(n_features, epsilon, math.exp(point)) for point in grid]
            best = int(np.argmin([law.variance() for law in laws]))
            low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
        return laws[best]

    @property
    def bit_variance(self) -> float:
        """E(y - mass)^2, y the unbiased estimate of B from the randomized bit."""
        return 1 / (4 * math.sinh(self.epsilon / 2) ** 2) + self.mass * (1 - self.mass)

    def variance(self, squared_norm: float = 1.0) -> float:
        """Return E|S - E S|_F^2 of S = (y - mass)(uu' - I/d)/slope."""
        return (1 - 1 / self.n_features) * (self.bit_variance / self.slope**2 - squared_norm**2)


class OneBit(DirectionLaw):
    """Pure epsilon, one byte a report beside its identifier.

    Formal guarantee
    ----------------
    Pure epsilon-local differential privacy: the direction does not depend on the row, and the bit is randomized
    response (Warner 1965) with the direction's part of epsilon; the trace bit is another with the rest. Whatever the
    two bits are a function of, what is private is how they leave, and the coins of that are exact.
    """

    name = "one_bit"
    numerics = Numerics.EXACT
    source = "randomized response (Warner 1965) about a public direction; new in eigenveil"
    use_when = "delta = 0, epsilon up to 1, every byte counts"
    n_matrices = 2
    payload_bytes = 1

    @cached_property
    def bit(self) -> BitLaw:
        """The best bit for the direction's part of epsilon."""
        return BitLaw.best(self.n_features, self.direction_epsilon)

    @cached_property
    def direction_coin(self) -> Coin:
        """The coin that tells the truth about the direction."""
        return logistic_coin(exact(self.direction_epsilon))

    @cached_property
    def chance_coin(self) -> Coin:
        """The coin that says for a dropped row whether a uniform direction would have been near."""
        return rational_coin(Fraction(self.bit.mass))

    def near(self, rows: FloatArray, public: FloatArray, tolerance: float = NEAR_TOLERANCE) -> NDArray[np.bool_]:
        """Return whether (v.q)^2 > threshold |v|^2 |q|^2, for integer rows q and integer public directions v.

        Decided in exact integers where floats leave a doubt, so that it is a fact about integers: the same on every
        machine and in every layout.
        """
        # Exact in float64, in any order: every partial sum is an integer below |v||q| < 2^53.
        products = np.einsum("ij,ij->i", public, rows)
        threshold, sizes = self.bit.threshold, (squared_norms(public), squared_norms(rows))
        left, right = np.square(products), threshold * sizes[0].astype(np.float64) * sizes[1]
        found = left > right
        exactly = Fraction(threshold)
        for i in np.flatnonzero(np.abs(left - right) <= tolerance * right):
            found[i] = int(products[i]) ** 2 > exactly * int(sizes[0][i]) * int(sizes[1][i])
        return np.asarray(found)

    def guarantee(self) -> Guarantee:
        """Return pure epsilon, exact: both bits leave through coins of exactly their probability."""
        return Guarantee(self.epsilon, numerics=self.numerics, caveats=self.caveats)

    def _respond(
        self, rows: FloatArray, kept: NDArray[np.bool_], ids: ByteArray, generator: np.random.Generator
    ) -> ByteArray:
        # A uniform direction in place of x passes the threshold with probability `mass`, whatever u is.
        chance = self.chance_coin.toss(len(ids), generator)
        near = np.where(kept, self.near(rows, public_directions(ids, self.n_features)), chance)
        return np.asarray((near == self.direction_coin.toss(len(ids), generator)).astype(np.uint8)[:, None])

    def _with_trace_bit(self, body: ByteArray, bits: NDArray[np.bool_]) -> ByteArray:
        return np.asarray(body + 2 * bits.astype(np.uint8)[:, None])

    def log_likelihood(self, payloads: ByteArray, ids: ByteArray, row: FloatArray) -> FloatArray:
        """Return the log probability of the bit about a public direction, and of the trace bit."""
        near = self.near(np.tile(row, (len(ids), 1)), public_directions(ids, self.n_features))
        said = (payloads[:, 0] & 1).astype(bool)
        truth = 1 / (1 + math.exp(-self.direction_epsilon))
        likely = self.bit.mass * truth + (1 - self.bit.mass) * (1 - truth)
        bits = payloads[:, 0] >> 1 if self.measures_trace else None
        return self._log_mixture(
            row, np.where(said == near, truth, 1 - truth), np.where(said, likely, 1 - likely), bits
        )

    def in_range(self, payloads: ByteArray) -> NDArray[np.bool_]:
        """Check that no bit is set that has no meaning."""
        return np.asarray(payloads[:, 0] < (4 if self.measures_trace else 2))

    def fold(self, payloads: ByteArray, ids: ByteArray) -> tuple[IntArray, int]:
        """Sum v v', and v v' over the reports whose bit is 1, exactly."""
        public = public_directions(ids, self.n_features)
        chosen = public[(payloads[:, 0] & 1) == 1]
        sums = np.stack([public.T @ public, chosen.T @ chosen]).astype(np.int64)
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
        return (steepness / 2 + abs(0.5 - self.bit.mass)) / self.bit.slope
