"""Directions with density exp(c·uᵀMu) on the sphere, rounded to multiples of 2⁻²⁴: the exact law of the rounded vector.

Proposals and their chances are computed in floats with proved bounds. Where a bound leaves a decision open, be it
whether a proposal is kept or to which integer a coordinate rounds, it is settled in integers with as many further
random bits as it takes (`eigenveil.samplers.lazy`). No path ends in an error; only the time that it takes depends on
the path.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .certified import UNIT_ROUNDOFF, Interval, exp_interval, ln_interval, rounding_of_sum
from .envelope import certified_envelope
from .exact_matrix import LIMB, ExactMatrix, FloatArray, IntArray
from .lazy import UNIT_BITS, LazyNormals, LazyUniform, random_word, random_words
from .products import plain_product
from .reflections import Complement

DIRECTION_BITS = 24
_BATCH, _MORE_BITS = 8, 64
_UP = 1 + 2.0**-20


@dataclass
class Proposals:
    """A batch of proposals in floats, with the bounds of their errors, and the lazy numbers behind them."""

    normals: LazyNormals
    words: NDArray[np.uint64]
    y: FloatArray
    chance: FloatArray
    tolerance: FloatArray
    norm: FloatArray
    norm_error: FloatArray
    length: FloatArray
    missed: float  # |x - g| is below it
    exact: dict[tuple[int, int], "ExactProposal"] = field(default_factory=dict)

    @property
    def uniform(self) -> FloatArray:
        """The numbers that the chances are compared with."""
        return np.asarray(self.words * 2.0**-64)

    @property
    def in_doubt(self) -> NDArray[np.bool_]:
        """Where floats do not decide."""
        return ~(np.abs(self.uniform - self.chance) > self.tolerance)


@dataclass(frozen=True)
class ExactProposal:
    """y as integers of 2^-unit, none farther than its `error` from the truth, and |g|² in an interval."""

    y: list[int]
    error: list[int]
    unit: int
    squared: Interval

    @property
    def square(self) -> Interval | None:
        """Return |y|²·4^unit in an interval above 0; None where more bits are needed for one."""
        low = sum(max(abs(a) - e, 0) ** 2 for a, e in zip(self.y, self.error, strict=True))
        high = sum((abs(a) + e) ** 2 for a, e in zip(self.y, self.error, strict=True))
        return Interval(Fraction(low), Fraction(high)) if low else None


class ExactBingham:
    """Draws directions of exp(c·uᵀMu), as integers of 2⁻²⁴.

    Parameters
    ----------
    matrix : ExactMatrix
        M, positive semi-definite up to the rounding of its entries.
    factor : Fraction
        c.
    complement : Complement, optional
        Where M acts: what is drawn is turned from there to the whole space before it is rounded.
    widen : float
        For tests: multiplies every error bound of the floats, so that more is decided exactly. Infinity decides all.

    Attributes
    ----------
    tried, exact_coins, exact_roundings : int
        Proposals, and decisions that floats left open.

    Examples
    --------
    >>> sampler = ExactBingham(ExactMatrix(np.diag([2**20, 0, 0])), Fraction(1, 2**8))
    >>> direction = sampler.draw(np.random.default_rng(0))
    >>> bool(abs(direction[0]) > 0.99 * 2**24)
    True
    """

    def __init__(
        self, matrix: ExactMatrix, factor: Fraction, complement: Complement | None = None, *, widen: float = 1.0
    ) -> None:
        self.matrix, self.factor, self.widen = matrix, factor, widen
        self.complement = Complement(matrix.width) if complement is None else complement
        self.width = matrix.width
        self.tried = self.exact_coins = self.exact_roundings = 0
        if self.width == 1:
            return
        self.envelope = certified_envelope(matrix, factor)
        A = self.envelope.matrix
        self._columns = np.zeros(self.width, np.int64) if self.envelope.exponents is None else self.envelope.exponents
        squares = np.ones(self.width) if A is None else np.einsum("ij,ij->i", A, A)
        self._rows = np.sqrt(squares) * _UP  # norms of the rows of A, and of all of it
        self._whole = 1.0 if A is None else math.sqrt(float(squares.sum())) * _UP

    def draw(self, generator: np.random.Generator) -> IntArray:
        """Return one direction."""
        if self.width == 1:
            sign = 1 if random_word(generator) >> 63 else -1
            numbers, scale = self.complement.exactly([sign])
            return np.array([math.floor(Fraction(x << DIRECTION_BITS, scale) + Fraction(1, 2)) for x in numbers])
        while True:
            proposals = self.propose(_BATCH, generator)
            uniform, doubtful = proposals.uniform, proposals.in_doubt
            for place in range(_BATCH):  # in their order: the first that is kept is the draw
                self.tried += 1
                if doubtful[place]:
                    kept = self.keeps_exactly(proposals, place, generator)
                else:
                    kept = bool(uniform[place] < proposals.chance[place])
                if kept:
                    return self.rounded(proposals, place)

    # Floats, with bounds.

    def propose(self, size: int, generator: np.random.Generator) -> Proposals:
        """Return proposals with the chances that they are kept."""
        d = self.width
        normals = LazyNormals(size * d, generator)
        words = random_words(generator, size)
        x = normals.value.reshape(size, d)
        A = self.envelope.matrix
        y = x if A is None else plain_product(x, A.T)
        squared, lengths = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)
        length, norm = np.sqrt(squared), np.sqrt(lengths)
        missed = normals.error * math.sqrt(d) * _UP  # |x - g|
        gamma = 0.0 if A is None else rounding_of_sum(d)
        norm_error = self._whole * (gamma * length + missed) * _UP  # |y computed - y|
        with np.errstate(all="ignore"):
            log_chance, error = (self._near_uniform if A is None else self._by_quotient)(
                x, squared, lengths, norm_error / norm, missed / length
            )
            chance = np.exp(np.minimum(log_chance, 0.0))
            wide = error * self.widen  # where it is large floats know nothing, not even that a chance is small
            known = chance * (np.expm1(np.minimum(wide, 50.0)) + 2.0**-48) + 2.0**-52
            tolerance = np.where(wide < 50.0, known, math.inf)
        return Proposals(normals, words, y, chance, tolerance, norm, norm_error, length, missed)

    def _by_quotient(
        self, x: FloatArray, squared: FloatArray, lengths: FloatArray, of_y: FloatArray, of_g: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ln of the chance from q = |g|²/|y|², and a bound of its error; v is within q(1 ± η)."""
        d, eta = self.width, self.envelope.eta
        quotient = squared / lengths
        relative = (2 * rounding_of_sum(d + 3) + 2.1 * of_y + 2.1 * of_g) * _UP
        log_quotient = np.log(quotient / d)
        log_chance = (d - quotient) / 2 + (d / 2) * (log_quotient + self.envelope.log_height)
        error = 0.55 * quotient * (relative + eta) + (d / 2) * (
            1.1 * relative + 8 * UNIT_ROUNDOFF * (1 + np.abs(log_quotient))
        )
        error = error + 16 * UNIT_ROUNDOFF * (d + quotient)
        return log_chance, np.where(relative < 2.0**-10, error, np.inf)

    def _near_uniform(
        self, x: FloatArray, squared: FloatArray, lengths: FloatArray, of_y: FloatArray, of_g: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ln of the chance, uᵀBu − ceiling, and a bound of its error."""
        d = self.width
        ceiling = float((self.envelope.shift - d) / 2)
        forms = np.einsum("ij,ij->i", plain_product(x, self._floats), x) / squared
        error = self._size * (3 * rounding_of_sum(d + 8) + 5 * of_g) + 8 * UNIT_ROUNDOFF * (abs(ceiling) + self._size)
        return forms - ceiling, np.where(of_g < 2.0**-10, error + 2.0**-900, np.inf)

    @cached_property
    def _floats(self) -> FloatArray:
        return self.matrix.floats * float(self.factor)

    @cached_property
    def _size(self) -> float:
        return float(np.linalg.norm(self._floats)) * _UP

    def rounded(self, proposals: Proposals, place: int) -> IntArray:
        """Return 2²⁴y/|y|, turned to the whole space and rounded."""
        y, norm, norm_error = proposals.y[place], float(proposals.norm[place]), float(proposals.norm_error[place])
        gamma = rounding_of_sum(self.width)
        errors: Any = self._rows * (gamma * float(proposals.length[place]) + proposals.missed) * _UP
        if self.complement.chain:
            y, errors = self.complement.floats(y), (norm_error + norm * self.complement.float_error) * 1.01
        with np.errstate(all="ignore"):
            scaled = y * (2.0**DIRECTION_BITS / norm)
            relative = 1.01 * norm_error / norm + rounding_of_sum(self.width + 6)
            error = (2.0**DIRECTION_BITS * (errors / norm) * 1.01 + np.abs(scaled) * relative + 2.0**-900) * self.widen
            nearest = np.rint(scaled)
            sure = (np.abs(scaled - nearest) < 0.5 - error) & (norm_error < 0.001 * norm)
        result: IntArray = np.where(sure, nearest, 0.0).astype(np.int64)
        for i in np.flatnonzero(~sure):
            result[i] = self.rounds_exactly(proposals, place, int(i))
        return result

    # Integers, with as many bits as it takes.

    @cached_property
    def _objects(self) -> NDArray[Any] | None:
        return None if self.envelope.integers is None else self.envelope.integers.astype(object)

    def _exactly(self, proposals: Proposals, place: int, bits: int) -> ExactProposal:
        if (place, bits) not in proposals.exact:
            proposals.exact[place, bits] = self._integers(proposals.normals, place, bits)
        return proposals.exact[place, bits]

    def _integers(self, normals: LazyNormals, place: int, bits: int) -> ExactProposal:
        g = [normals.integer(place * self.width + j, bits) for j in range(self.width)]
        unit = UNIT_BITS + bits
        squared = Interval(
            Fraction(sum(x * x for x in g), 4**unit), Fraction(sum((abs(x) + 1) ** 2 for x in g), 4**unit)
        )
        if self._objects is None:
            return ExactProposal(g, [1] * self.width, unit, squared)
        assert self.envelope.integers is not None
        finest = int(self._columns.max())
        moved = np.array([x << int(finest - e) for x, e in zip(g, self._columns, strict=True)], dtype=object)
        # One unit of each g_j moves y_i by at most the size of A_ij.
        sizes = np.abs(self.envelope.integers).astype(np.float64) @ np.ldexp(1.0, finest - self._columns)
        return ExactProposal(
            list(self._objects.dot(moved)), [int(size * _UP) + 1 for size in sizes], unit + finest, squared
        )

    def keeps_exactly(self, proposals: Proposals, place: int, generator: np.random.Generator) -> bool:
        """Decide whether a proposal is kept."""
        self.exact_coins += 1
        coin = LazyUniform(int(proposals.words[place]), 64, generator)
        bits = _MORE_BITS
        while True:
            bounds = self.log_chance_exactly(proposals, place, bits)
            if bounds is not None:
                low, high = (min(end, Fraction(0)) for end in bounds)
                chance = exp_interval(Interval(low, high), 50 + bits // 3)
                if coin.interval.high <= chance.low:
                    return True
                if coin.interval.low >= chance.high:
                    return False
            coin.more()
            bits += _MORE_BITS

    def log_chance_exactly(self, proposals: Proposals, place: int, bits: int) -> Interval | None:
        """Return an interval that holds ln of the chance; None where more bits are needed for one."""
        d, proposal = self.width, self._exactly(proposals, place, bits)
        square = proposal.square
        if square is None:
            return None
        C = self.matrix.objects  # times 2^20
        image = C.dot(np.array(proposal.y, dtype=object))
        form = sum(a * b for a, b in zip(proposal.y, image, strict=True))
        slack = 2 * sum(abs(b) * e for b, e in zip(image, proposal.error, strict=True))
        slack += self._largest * sum(proposal.error) ** 2
        value = Interval(Fraction(form - slack, 2**LIMB), Fraction(form + slack, 2**LIMB)) / square
        value = value * Interval.point(self.factor)  # u'Bu
        constant = (d - self.envelope.shift + d * Fraction(self.envelope.log_height)) / 2
        result = value + Interval.point(constant)
        if self._objects is None:  # q = d
            return result
        quotient = proposal.squared * Interval.point(4**proposal.unit) / square
        logarithm = ln_interval(quotient * Interval.point(Fraction(1, d)), 70 + bits // 3)
        return result + logarithm * Interval.point(Fraction(d, 2))

    @cached_property
    def _largest(self) -> int:
        return int(np.abs(self.matrix.objects).max())

    def rounds_exactly(self, proposals: Proposals, place: int, i: int) -> int:
        """Return the integer that coordinate i of 2²⁴u rounds to."""
        self.exact_roundings += 1
        bits = 0
        while True:
            bits += _MORE_BITS
            proposal = self._exactly(proposals, place, bits)
            square = proposal.square
            if square is None:
                continue
            norm = Interval(Fraction(math.isqrt(int(square.low))), Fraction(math.isqrt(int(square.high)) + 1))
            if norm.low == 0:
                continue
            y, scale = self.complement.exactly(proposal.y)
            # Reflections are orthogonal, so behind them no coordinate is off by more than all of them were.
            chained = bool(self.complement.chain)
            error = scale * (math.isqrt(sum(e * e for e in proposal.error)) + 1) if chained else proposal.error[i]
            ends = Interval(Fraction(y[i] - error), Fraction(y[i] + error)) / norm
            nearest = (ends * Interval.point(Fraction(2**DIRECTION_BITS, scale))).rounded()
            if nearest is not None:
                return nearest
