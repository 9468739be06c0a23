"""`double_cap`: a direction drawn near the client's own, or near its opposite, a little more often than not.

docs/research/local.md derives every formula here. In short: t = (u.x)^2 of a uniform direction u has the Beta(1/2,
(d-1)/2) distribution. The two caps t > threshold get e^epsilon times the density of the rest, and nothing else changes.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ...accounting.calibration import exact
from ...errors import integer_between, positive_number
from ...guarantee import Numerics
from ...numerics import FloatArray, IntArray
from ...sampling.caps import RoundedDirections, mass_below
from ...sampling.certified import Interval, exp_interval
from ...sampling.discrete import Coin
from .base import ByteArray
from .directions import DIRECTION_SCALE, DirectionMechanism


@dataclass(frozen=True)
class CapMechanism:
    """The distribution of a double-cap report for a unit row; every number is public.

    Attributes
    ----------
    n_features, epsilon : int, float
    threshold : float
        A direction u is in the caps of x where (u.x)^2 is above it.
    mass : float
        Probability of the caps under a uniform direction.
    hit : float
        Probability of the caps in a report.
    alpha : float
        E[uu'] = alpha xx' + (1 - alpha)/d I: what is left of the signal.

    Examples
    --------
    >>> mechanism = CapMechanism.best(100, 1.0)
    >>> round(mechanism.alpha, 5), round(mechanism.variance() / 100**2, 2)
    (0.00577, 2.98)
    """

    n_features: int
    epsilon: float
    threshold: float
    mass: float
    hit: float
    alpha: float

    @classmethod
    def at(cls, n_features: int, epsilon: float, threshold: float) -> Self:
        """Return the distribution with a given threshold."""
        d, gain = n_features, math.expm1(epsilon)
        mass = float(special.betaincc(0.5, (d - 1) / 2, threshold))
        # E[t; t > threshold] = weighted/d, because t times the Beta(1/2) density is a Beta(3/2) density over d.
        weighted = float(special.betaincc(1.5, (d - 1) / 2, threshold))
        normalizer = 1 + gain * mass
        alpha = gain * (weighted - mass) / (normalizer * (d - 1))
        return cls(d, epsilon, threshold, mass, (1 + gain) * mass / normalizer, alpha)

    @classmethod
    def best(cls, n_features: int, epsilon: float) -> Self:
        """Return the distribution whose threshold makes alpha largest.

        There the threshold is E[t] itself: (d threshold - 1)(1 + c q) - c (w - q), c = e^epsilon - 1, is zero. It
        increases in the threshold (its derivative is d (1 + c q)), so bisection finds the one root.
        """
        d = integer_between("n_features", n_features, 2)
        gain = math.expm1(positive_number("epsilon", epsilon))
        low, high = 1 / d, 1.0
        while high - low > 4e-16 * high:
            middle = (low + high) / 2
            mass = special.betaincc(0.5, (d - 1) / 2, middle)
            weighted = special.betaincc(1.5, (d - 1) / 2, middle)
            if (d * middle - 1) * (1 + gain * mass) < gain * (weighted - mass):
                low = middle
            else:
                high = middle
            if middle in (low, high) and math.nextafter(low, 2) >= high:
                break
        return cls.at(d, epsilon, low)

    @cached_property
    def aim(self) -> Coin:
        """The coin that says whether a report is drawn within the caps; if not, it is drawn on the whole sphere.

        Its probability is c q/(1 + c q), c = e^epsilon - 1, with q a lower bound on the mass of the caps: the density
        within them is then at most e^epsilon times that outside.
        """
        one, mass = Interval.point(1), Interval.point(mass_below(self.n_features, self.threshold))

        def chance(digits: int) -> Interval:
            found = one - one / (one + (exp_interval(Interval.point(exact(self.epsilon)), digits) - one) * mass)
            return found._replace(low=max(found.low, Fraction(0)))

        return Coin(chance)

    def draw(self, rows: FloatArray, kept: NDArray[np.bool_], generator: np.random.Generator) -> FloatArray:
        """Return one integer report direction for every integer row; where `kept` is false it is uniform."""
        aimed = kept & self.aim.toss(len(rows), generator)
        return RoundedDirections(rows, aimed, self.threshold, DIRECTION_SCALE, generator).integers

    def variance(self, squared_norm: float = 1.0) -> float:
        """Return E|S - E S|_F^2 of S = (uu' - I/d)/alpha."""
        return (1 - 1 / self.n_features) * (1 / self.alpha**2 - squared_norm**2)


class DoubleCap(DirectionMechanism):
    """The default: pure epsilon, d numbers a report.

    Formal guarantee
    ----------------
    Pure epsilon-local differential privacy. Given the coin that keeps the direction or replaces it by a uniform one,
    the density of u with respect to the uniform distribution takes the values 1/(1 + c q) and at most e^e/(1 + c q), or
    1 in between, so any mixture stays within a ratio of e^e, e the direction's part of epsilon; the trace bit is
    randomized response with the rest. A report is a real direction of this density, rounded, and every coin has exactly
    its probability. docs/research/local.md has the proof. Related to the caps of Bhowmick et al. (2018) for means;
    this version for second moments is eigenveil's.
    """

    name = "double_cap"
    numerics = Numerics.EXACT
    source = "new in eigenveil, after the caps for means of Bhowmick et al. 2018"
    use_when = "delta = 0; the default"

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.payload_bytes: int = 2 * self.n_features + self.trace_bytes

    @cached_property
    def caps(self) -> CapMechanism:
        """The best caps for the direction's part of epsilon."""
        return CapMechanism.best(self.n_features, self.direction_epsilon)

    def _respond(
        self, rows: FloatArray, kept: NDArray[np.bool_], ids: ByteArray, generator: np.random.Generator
    ) -> ByteArray:
        integers = self.caps.draw(rows, kept, generator).astype("<i2")
        return integers.view(np.uint8).reshape(len(rows), -1)

    def log_likelihood(self, payloads: ByteArray, ids: ByteArray, row: FloatArray) -> FloatArray:
        """Return the log density of a direction, with respect to the uniform distribution, and of the trace bit."""
        caps, directions = self.caps, self._integers(payloads) / DIRECTION_SCALE
        axis = row / max(1.0, float(np.linalg.norm(row)))  # the zero row stays
        inside = np.square(directions @ axis) > caps.threshold
        kept = np.where(inside, caps.hit / caps.mass, (1 - caps.hit) / (1 - caps.mass))
        bits = payloads[:, -1] if self.measures_trace else None
        return self._log_mixture(row, kept, np.ones(len(kept)), bits)

    def in_range(self, payloads: ByteArray) -> NDArray[np.bool_]:
        """Return a mask of payloads whose direction has unit length, up to rounding, and whose trace bit is 0 or 1."""
        integers = self._integers(payloads)
        lengths = np.sqrt(np.einsum("ij,ij->i", integers, integers))
        # Each coordinate is rounded by at most 1/2, so the length by at most sqrt(d)/2.
        found = np.abs(lengths - DIRECTION_SCALE) <= math.sqrt(self.n_features) / 2 + 1
        return np.asarray(found & (payloads[:, -1] <= 1) if self.measures_trace else found)

    def fold(self, payloads: ByteArray, ids: ByteArray) -> tuple[IntArray, int]:
        """Sum v v' exactly: every partial sum in float64 is an integer below 2^53."""
        integers = self._integers(payloads)
        return (integers.T @ integers).astype(np.int64)[None], self._ones(payloads)

    def _integers(self, payloads: ByteArray) -> FloatArray:
        block = np.ascontiguousarray(payloads[:, : 2 * self.n_features])
        return block.view("<i2").astype(np.float64)

    def _signal(self, sums: FloatArray) -> FloatArray:
        return np.asarray(sums[0] / self.caps.alpha)

    def _signal_variance(self, squared_norm: float) -> float:
        return self.caps.variance(squared_norm)

    @property
    def _signal_reach(self) -> float:
        return 1 / self.caps.alpha
