"""Directions drawn exactly, one after another, each in the complement of those before.

The complement is made by reflections. A Householder reflection H = I − 2vvᵀ/vᵀv with an integer vector v is orthogonal
as a rational matrix, whatever v is. So nothing about orthogonality is to be certified. How far the complement is from
being orthogonal to a direction depends on the rounding of v alone, and that is bounded by public numbers
(`complement_tilt`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics import FloatArray, IntArray
from .bingham import certified_envelope
from .certified import (
    LIMB,
    REFLECTION_ERROR,
    UNIT_ROUNDOFF,
    ExactMatrix,
    Interval,
    exp_interval,
    ln_interval,
    plain_product,
    rounding_of_sum,
)
from .lazy import UNIT_BITS, LazyNormals, LazyUniform, random_word, random_words

VECTOR_BITS = 29
"""Vectors of reflections have norms near 2·2²⁹, so that their entries are below 2³¹."""


@dataclass(frozen=True)
class Reflection:
    """H = I − 2vvᵀ/vᵀv, of an integer vector.

    Examples
    --------
    >>> Reflection(np.array([1, 1])).exactly([5, 0])
    ([0, -10], 2)
    """

    vector: IntArray

    @cached_property
    def square(self) -> int:
        """Return vᵀv."""
        return sum(int(x) ** 2 for x in self.vector)

    def floats(self, numbers: FloatArray) -> FloatArray:
        """Return H times a vector, within `float_error` of its norm."""
        vector = self.vector.astype(np.float64)
        return np.asarray(numbers - vector * (2.0 * float(vector @ numbers) / self.square))

    @property
    def float_error(self) -> float:
        """Bound of the error of `floats` for a vector of norm 1.

        The product vᵀx is within γ_m|v|, its multiple by 2/vᵀv takes three roundings, that by v one more, and the
        difference is rounded once: 2γ_m + 2·4u + 3u, and a little for their products.
        """
        return (2 * rounding_of_sum(self.vector.size) + 12 * UNIT_ROUNDOFF) * (1 + 2.0**-20)

    def exactly(self, numbers: Sequence[int]) -> tuple[list[int], int]:
        """Return vᵀv·H times integers, and vᵀv."""
        vector = [int(x) for x in self.vector]
        twice = 2 * sum(x * y for x, y in zip(vector, numbers, strict=True))
        return [self.square * y - twice * x for x, y in zip(vector, numbers, strict=True)], self.square


def reflection_to_axis(direction: Sequence[Any]) -> Reflection:
    """Return a reflection that takes a vector (public numbers) nearly to a multiple of the first axis.

    Examples
    --------
    >>> image, scale = reflection_to_axis([3, 4]).exactly([3, 4])
    >>> image[0] / scale, abs(image[1] / scale) < 1e-8
    (-5.0, True)
    """
    x = np.array([float(y) for y in direction])
    x /= np.linalg.norm(x)
    x[0] += math.copysign(1.0, x[0])
    return Reflection(np.rint(np.ldexp(x, VECTOR_BITS)).astype(np.int64))


def complement_tilt(width: int) -> Fraction:
    """Return a bound of |qᵀu| for a released direction q and a unit vector u of the complement.

    The vector before rounding, a = x + sign(x₁)e₁ for a unit x, has norm at least √2. It is rounded by at most
    ½·2⁻²⁹√m + m·2⁻⁵⁰ =: r in norm. For unit multiples of a and v the reflections differ by at most 4·|angle|, the angle
    is at most 1.01·r/√2, and |q| ≤ 1 + 2⁻²⁵√m ≤ 1.01: so the tilt is below 3r, which is less than 2⁻²⁸√m·0.8.

    Examples
    --------
    >>> float(complement_tilt(100)) < 4e-8
    True
    """
    return Fraction(math.isqrt(width - 1) + 1, 2**28) if width > 1 else Fraction(0)


class Complement:
    """The orthogonal complement of released directions, as a chain of reflections: u = H₁(0, H₂(0, … w)).

    Parameters
    ----------
    width : int
        Number of features.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.chain: list[Reflection] = []

    @property
    def dimension(self) -> int:
        """Number of directions that are left."""
        return self.width - len(self.chain)

    def leave_out(self, direction: IntArray) -> Reflection:
        """Take a released direction out of the complement and return the reflection that does it."""
        numbers, scale = [int(x) for x in direction], 1
        for reflection in self.chain:
            numbers, factor = reflection.exactly(numbers)
            numbers, scale = numbers[1:], scale * factor
        reflection = reflection_to_axis([Fraction(x, scale) for x in numbers])
        self.chain.append(reflection)
        return reflection

    def floats(self, inner: FloatArray) -> FloatArray:
        """Return the vector of the whole space, within `float_error` of the norm."""
        for reflection in reversed(self.chain):
            inner = reflection.floats(np.concatenate([[0.0], inner]))
        return inner

    @property
    def float_error(self) -> float:
        """Bound of the error of `floats` for a vector of norm 1."""
        return sum(reflection.float_error for reflection in self.chain) * (1 + 2.0**-20)

    def exactly(self, inner: Sequence[int]) -> tuple[list[int], int]:
        """Return an integer multiple of the vector of the whole space, and the multiple."""
        numbers, scale = list(inner), 1
        for reflection in reversed(self.chain):
            numbers, factor = reflection.exactly([0, *numbers])
            scale *= factor
        return numbers, scale


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

    exact_coins: int
    exact_roundings: int
    matrix: ExactMatrix
    factor: Fraction
    widen: float
    tried: int

    def __init__(
        self, matrix: ExactMatrix, factor: Fraction, complement: Complement | None = None, *, widen: float = 1.0
    ) -> None:
        self.matrix, self.factor, self.widen = matrix, factor, widen
        self.complement: Complement = Complement(matrix.width) if complement is None else complement
        self.width: int = matrix.width
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


NORM_SQUARED: int = 4**DIRECTION_BITS
"""The square of a direction's length, in its integers."""


def exact_directions(
    matrix: ExactMatrix, factor: Fraction, count: int, generator: np.random.Generator, *, widen: float = 1.0
) -> IntArray:
    """Return directions as integers of 2⁻²⁴, each drawn from exp(factor·uᵀMu) on the complement of the earlier ones.

    The complement is that of the rounded directions, so it is public. On it the matrix is known by its reflection,
    rounded as `direction_slack` accounts for.

    Examples
    --------
    >>> drawn = exact_directions(ExactMatrix(np.eye(3, dtype=int)), Fraction(1), 3, np.random.default_rng(0))
    >>> bool(np.abs(drawn @ drawn.T / 2.0**48 - np.eye(3)).max() < 1e-6)
    True
    """
    complement = Complement(matrix.width)
    drawn = [ExactBingham(matrix, factor, widen=widen).draw(generator)]
    while len(drawn) < count:
        reflection = complement.leave_out(drawn[-1])
        matrix = matrix.reflected(reflection.vector).without_first()
        drawn.append(ExactBingham(matrix, factor, complement, widen=widen).draw(generator))
    return np.array(drawn)


def direction_slack(width: int, count: int, grid: int) -> Fraction:
    """Return by which share the joint cost of rounded directions may pass that of orthonormal ones.

    ζ + 4ρ: the directions behind the rounded ones satisfy |UᵀU − I| ≤ ζ = (k − 1)(2⁻²⁵√d + tilt), and on the complement
    uᵀCu is known within ρ = (k − 1)·d·2⁻²⁰·1.01 of a squared unit (docs/research/exact_directions.md).

    Examples
    --------
    >>> direction_slack(10, 1, 2**32), float(direction_slack(500, 3, 2**32)) < 2e-6
    (Fraction(0, 1), True)
    """
    root = math.isqrt(width - 1) + 1 if width > 1 else 1
    tilt = Fraction(root, 2 ** (DIRECTION_BITS + 1)) + complement_tilt(width)
    return (count - 1) * (tilt + 4 * width * Fraction(REFLECTION_ERROR) / grid)


def variances_along(matrix: ExactMatrix, directions: IntArray) -> list[int]:
    """Return K_iᵀMK_i for integer directions, then 2⁴⁸ tr M less their sum: exact, for a matrix of integers.

    Examples
    --------
    >>> variances_along(ExactMatrix(np.diag([3, 1])), np.array([[2**24, 0]])) == [3 * 2**48, 2**48]
    True
    """
    forms = []
    for direction in directions:
        image = matrix.times_vector(direction)
        forms.append(sum(int(x) * y for x, y in zip(direction, image, strict=True)) >> LIMB)
    trace = sum(int(x) for x in matrix.whole.diagonal())
    return [*forms, NORM_SQUARED * trace - sum(forms)]


def variances_sensitivity(directions: IntArray, grid: int, rows: int, shift: int) -> int:
    """Return how far the integers ⌊variance/2^shift⌋ move in ℓ1 when so many rows of squared norm `grid` come or go.

    With Z ≥ |KKᵀ − 2⁴⁸I|, one row moves the variances and the rest by x'K'Kx + |2⁴⁸x'x − x'K'Kx| ≤ (2⁴⁸ + 2Z)·grid, and
    each of the k + 1 roundings adds less than one.

    Examples
    --------
    >>> variances_sensitivity(np.array([[2**24, 0]]), 2**32, 2, 48) == 2**33 + 2
    True
    """
    gram = directions.astype(object) @ directions.T.astype(object)
    gram[np.diag_indices(len(gram))] -= NORM_SQUARED
    deviation = max(sum(abs(int(x)) for x in row) for row in gram)
    moved = rows * (NORM_SQUARED + 2 * deviation) * grid
    return ((moved - 1) >> shift) + 1 + len(directions) + 1
