"""The Bingham distribution, density ∝ exp(uᵀBu) on the unit sphere: draws in floats, and exact draws of integers.

**In floats.** Proposals are u = y/|y| with y Gaussian of precision b + 2a, a the gaps of B's eigenvalues below the
largest one, and b the number for which most of them are kept.

**Exactly.** Proposals are y = Ag, g normal. A is found in floats and then *taken as exact*: its entries are integers
times a power of two for each column. What remains is to certify η with

    AᵀDA ⪰ (1 − η)I,   D = s·I − 2B,

which makes ln accept = (d − v)/2 + (d/2)(ln(q/d) + ln(1 − η)) ≤ 0 for v = uᵀDu and q = |g|²/|y|². Residuals in floats
do at moderate concentration; above it they are computed by limbs, the shift s is a pair of floats, and A is corrected
by the Cholesky factor of its own residual until the certificate holds. docs/research/exact_directions.md has the
bounds.

Several directions are drawn one after another, each in the complement of those before, which is made by reflections. A
Householder reflection H = I − 2vvᵀ/vᵀv with an integer vector v is orthogonal as a rational matrix, whatever v is. So
nothing about orthogonality is to be certified. How far the complement is from being orthogonal to a direction depends
on the rounding of v alone, and that is bounded by public numbers (`complement_tilt`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidParameterError, integer_between
from ..numerics import FloatArray, IntArray
from .certified import (
    LIMB,
    PAIR_ERROR,
    REFLECTION_ERROR,
    UNIT_ROUNDOFF,
    WIDEST,
    ExactMatrix,
    Interval,
    add_pairs,
    exp_interval,
    ln_interval,
    plain_product,
    rounding_of_sum,
    two_product,
)
from .lazy import UNIT_BITS, LazyNormals, LazyUniform, random_word, random_words
from .randomness import check_generator

NEARLY_UNIFORM = 4.0
"""Where no eigenvalue passes the mean by more, proposals are uniform: e⁴ of them at most, on average."""
_FEW = 16
BATCH_ENTRIES = 2**21  # at most this many normals at once: 16 MB, whatever the size asked for


def bingham(B: ArrayLike, generator: np.random.Generator, size: int | None = None) -> FloatArray:
    """Draw unit vectors u from the Bingham distribution, whose density is proportional to exp(uᵀBu).

    Parameters
    ----------
    B : array_like of shape (d, d) or (d,)
        A symmetric matrix, of any sign; or, in one dimension, the diagonal of one.
    generator : numpy.random.Generator
        The source of randomness.
    size : int, optional
        The number of independent draws. By default one, returned without a leading axis.

    Returns
    -------
    ndarray of shape (d,) or (size, d)
        Unit vectors. The draws are exact up to floating-point arithmetic: no Markov chain is involved.

    Raises
    ------
    InvalidParameterError
        If `B` is not square, symmetric and finite.

    Notes
    -----
    The time depends on `B` through the number of rejected proposals, about √d at most for each draw.

    Examples
    --------
    >>> import numpy as np
    >>> u = bingham(np.diag([400.0, 0.0, 0.0]), np.random.default_rng(0))
    >>> u.shape, bool(abs(u[0]) > 0.9)
    ((3,), True)
    >>> bingham([5.0, 1.0], np.random.default_rng(0), size=4).shape
    (4, 2)
    """
    check_generator(generator)
    n_draws = 1 if size is None else integer_between("size", size, 0)
    matrix = symmetric_matrix(B)
    if size is None and matrix.ndim == 2:
        # No eigenvalue passes the Frobenius norm. Where the mean, tr B/d, is not far below it, plain rejection from the
        # uniform distribution takes e⁴ proposals on average at most, and needs no eigendecomposition.
        bound = float(np.linalg.norm(matrix))
        while bound - float(matrix.trace()) / matrix.shape[0] <= NEARLY_UNIFORM:
            proposals = generator.standard_normal((_FEW, matrix.shape[0]))
            squares = np.einsum("ij,ij->i", proposals, proposals)
            forms = np.einsum("ij,ij->i", proposals @ matrix, proposals) / squares
            accepted = np.flatnonzero(generator.standard_exponential(_FEW) >= bound - forms)
            if accepted.size:
                return np.asarray(proposals[accepted[0]] / math.sqrt(squares[accepted[0]]))
    eigenvalues, basis = eigensystem(matrix)
    draws = _draw_diagonal(eigenvalues.max() - eigenvalues, n_draws, generator)
    if basis is not None:
        draws = draws @ basis.T
    return draws[0] if size is None else draws


def eigensystem(matrix: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Return the eigenvalues and the eigenvectors of a symmetric matrix; None for these where it is a diagonal."""
    if matrix.ndim == 1:
        return matrix, None
    eigenvalues, basis = np.linalg.eigh((matrix + matrix.T) / 2)
    return eigenvalues, basis


def symmetric_matrix(B: ArrayLike) -> FloatArray:
    """Return `B` as a finite, symmetric float64 matrix, or as the diagonal of one."""
    try:
        matrix = np.asarray(B)
        if matrix.dtype.kind not in "fiub":
            raise TypeError
    except (TypeError, ValueError):
        raise InvalidParameterError("B must be an array of real numbers.") from None
    matrix = matrix.astype(np.float64)
    if matrix.size == 0 or matrix.ndim not in (1, 2) or matrix.shape[0] != matrix.shape[-1]:
        raise InvalidParameterError("B must be a square matrix, or one dimension that holds its diagonal.")
    if not np.isfinite(matrix).all():
        raise InvalidParameterError("B must hold finite numbers only.")
    # A spread beyond this overflows in the sums of squares, and no concentration of this world comes near it.
    if np.abs(matrix).max() > 1e150:
        raise InvalidParameterError("B is too large for floating point; rescale it below 1e150.")
    if matrix.ndim == 2 and np.abs(matrix - matrix.T).max() > 1e-10 * np.abs(matrix).max():
        raise InvalidParameterError("B must be symmetric; average it with its transpose first.")
    return matrix


def envelope_width(gaps: FloatArray) -> float:
    """Solve Σ 1/(b + 2 a_i) = 1 for b: the proposal that is accepted most often.

    Newton's method on 1/Σ − 1, which is concave and increasing, climbs from b = 1 towards the root
    without ever passing it; at zero concentration it is linear and one step is enough.
    """
    b = 1.0
    for _ in range(100):
        variances = 1.0 / (b + 2.0 * gaps)
        total = float(variances.sum())
        step = total * (total - 1.0) / float(np.square(variances).sum())
        b += step
        if step <= 1e-12 * b:
            break
    # Rounding may leave the bracket 1 ≤ b ≤ d; any b in it is valid, so a clip costs nothing.
    return min(max(b, 1.0), float(gaps.size))


def log_acceptance(quotient: FloatArray, dimension: int) -> FloatArray:
    """Log-probability of accepting a proposal with q = uᵀDu on the sphere of R^dimension."""
    half = dimension / 2
    return np.asarray(half - quotient / 2 + half * np.log(quotient / dimension))


def _draw_diagonal(gaps: FloatArray, n_draws: int, generator: np.random.Generator) -> FloatArray:
    """Draw unit vectors from the density exp(−Σ a_i u_i²), a_i ≥ 0 with smallest value 0."""
    dimension = gaps.size
    scales = 1.0 / np.sqrt(envelope_width(gaps) + 2.0 * gaps)
    draws = np.empty((n_draws, dimension))
    found = tried = 0
    while found < n_draws:
        # Before the first batch expect the worst rate, 1/√d; after it, the rate seen so far.
        rate = max(found, 1) / tried if tried else 1 / math.sqrt(dimension)
        wanted = math.ceil(1.1 * (n_draws - found) / rate)
        batch = max(1, min(wanted, BATCH_ENTRIES // dimension))
        normals = generator.standard_normal((batch, dimension))
        proposals = normals * scales
        lengths = np.einsum("ij,ij->i", proposals, proposals)
        quotients = np.einsum("ij,ij->i", normals, normals) / lengths
        # −log of a uniform number is exponential, so this accepts with the probability whose log is given.
        accepted = generator.standard_exponential(batch) >= -log_acceptance(quotients, dimension)
        chosen = np.flatnonzero(accepted)[: n_draws - found]
        draws[found : found + chosen.size] = proposals[chosen] / np.sqrt(lengths[chosen, np.newaxis])
        found += chosen.size
        tried += batch
    return draws


_UP = 1 + 2.0**-22  # covers the rounding of norms of up to 2^30 numbers, and of a few products
_TINY = 2.0**-900  # above all that underflow may lose
_WANTED = 0.125  # d·η below it costs one proposal in sixteen
_CORRECTIONS = 8
_DESCENTS = 6


def certifiable(factor: Fraction, width: int) -> bool:
    """Return whether an envelope is sure to be certified for every C of trace below 2⁶² in exp(factor·uᵀCu).

    A function of public numbers, to refuse others before anything is spent.
    """
    return width == 1 or (width <= WIDEST and factor * 2**63 * width**3 <= 2**94)


@dataclass(frozen=True)
class Envelope:
    """Proposals y = Ag and the numbers that decide whether one is kept.

    Attributes
    ----------
    integers, exponents : ndarray of int64
        Entry ij of A is integers[i, j]·2^-exponents[j], exactly; None for A = I/√d.
    matrix : ndarray
        The same as floats, which are exact.
    shift : Fraction
        s.
    eta : float
    log_height : float
        A float of at most ln(1 − η).
    """

    integers: IntArray | None
    exponents: IntArray | None
    matrix: FloatArray | None
    shift: Fraction
    eta: float

    @property
    def log_height(self) -> float:
        """Return a float of at most ln(1 − η): NumPy's is within 4 units in the last place."""
        return math.log1p(-self.eta) * (1 + 2.0**-40)


def certified_envelope(matrix: ExactMatrix, factor: Fraction) -> Envelope:
    """Return an envelope of exp(factor·uᵀMu) for a positive M that `certifiable` lets pass.

    Whatever happens on the way, what is returned is valid: the last resort is a uniform envelope.
    """
    B = matrix.floats * float(factor)
    size = _norm(B)
    uniform = _uniform(B, size)
    d = matrix.width
    mean = float(B.trace()) / d
    if float((uniform.shift - d) / 2) - mean <= NEARLY_UNIFORM:
        return uniform
    try:
        eigenvalues = np.linalg.eigvalsh(B)
    except np.linalg.LinAlgError:  # LAPACK may say that it did not converge; it is not known to
        return uniform
    gaps = eigenvalues[-1] - eigenvalues
    width = envelope_width(gaps)
    shift = width + 2 * float(eigenvalues[-1])
    D = -2.0 * B
    D[np.diag_indices(d)] += shift
    root = _inverse_root(D)
    if root is not None:
        integers, exponents, A = _on_grid(root)
        residual = plain_product(A.T, plain_product(D, A))
        residual[np.diag_indices(d)] -= 1.0
        eta = float(np.linalg.norm(residual)) * _UP + float_residual_error(A, D, size)
        if d * eta < _WANTED:
            return Envelope(integers, exponents, A, Fraction(shift), eta)
    return _in_limbs(matrix, factor, B, size, shift) or uniform


def _norm(matrix: FloatArray) -> float:
    """Return a bound of the 2-norm of |M|, for a symmetric M."""
    rows = float(np.abs(matrix).sum(axis=1).max())
    return min(rows, float(np.linalg.norm(matrix))) * _UP + _TINY


def _uniform(B: FloatArray, size: float) -> Envelope:
    """Return A = I/√d with s = d + 2·ceiling: then q = d and ln accept = uᵀBu − ceiling.

    No eigenvalue passes tr B/d + |B − (tr B/d)I|_F, whatever multiple of I is taken off; B itself is within 4.1 units
    of roundoff of each entry.
    """
    d = B.shape[0]
    mean = float(B.trace()) / d
    centred = B.copy()
    centred[np.diag_indices(d)] -= mean
    slack = 8 * UNIT_ROUNDOFF * size
    ceiling = mean + float(np.linalg.norm(centred)) * _UP + slack + 4 * UNIT_ROUNDOFF * abs(mean) + _TINY
    return Envelope(None, None, None, d + 2 * Fraction(ceiling), 0.0)


def _on_grid(A: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Return A as integers of 53 bits for each column, their exponents, and the matrix that they are."""
    _, exponents = np.frexp(np.abs(A).max(axis=0))
    exponents = 52 - exponents.astype(np.int64)
    integers = np.rint(np.ldexp(A, exponents)).astype(np.int64)
    return integers, exponents, np.ldexp(integers.astype(np.float64), -exponents)


def _inverse_root(matrix: FloatArray) -> FloatArray | None:
    """Return A with AᵀMA = I up to rounding, from Cholesky's factor; None where M is not positive in floats."""
    try:
        lower = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    from scipy.linalg.lapack import dtrtri

    inverse, failed = dtrtri(lower, lower=1)
    if failed or not np.isfinite(inverse).all() or not np.abs(inverse).max(axis=1).min() > 0:
        return None
    return np.asarray(np.tril(inverse).T)


def float_residual_error(A: FloatArray, D: FloatArray, size: float) -> float:
    """Bound the error of AᵀDA − I in floats, in the Frobenius norm; `size` bounds the norm of |B|.

    Two products of sums of d terms: (2γ + γ²)·|A|ᵀ|D||A|. Entries of B are within 4.1u, doubled in D, and the diagonal
    of D is rounded once more. Taking 1 off is one rounding of each of d numbers below 2.
    """
    d = D.shape[0]
    gamma, squares = rounding_of_sum(d), float(np.einsum("ij,ij->", A, A)) * _UP
    of_d = _norm(D)
    return (
        squares * ((2 * gamma + gamma * gamma) * of_d + 8.2 * UNIT_ROUNDOFF * size + 1.1 * UNIT_ROUNDOFF * of_d)
        + 2 * math.sqrt(d) * UNIT_ROUNDOFF
    ) * _UP


def _in_limbs(matrix: ExactMatrix, factor: Fraction, B: FloatArray, size: float, shift: float) -> Envelope | None:
    """Return an envelope at a concentration where floats do not tell the smallest eigenvalue of D.

    The shift starts above what floats are sure of. Given A, the eigenvalues of D are those of (AᵀA)⁻¹, now to a
    relative precision, so the shift can come down until the smallest is the width of the best envelope.
    """
    d = matrix.width
    exact_shift = Fraction(shift) + Fraction(8 * d * UNIT_ROUNDOFF * size)
    best: Envelope | None = None
    for _ in range(_DESCENTS):
        found = _corrected(matrix, factor, B, size, exact_shift)
        if found is None:
            break
        best = found
        assert found.matrix is not None
        spectrum = 1 / np.maximum(np.linalg.eigvalsh(found.matrix.T @ found.matrix)[::-1], _TINY)
        excess = float(spectrum[0]) * (1 - 4 * found.eta) - envelope_width((spectrum - spectrum[0]) / 2)
        if excess <= 0.5 * math.sqrt(d):
            break
        exact_shift -= Fraction(excess)
        high = Fraction(float(exact_shift))
        exact_shift = high + Fraction(float(exact_shift - high))  # a sum of two floats
    return best


def _corrected(matrix: ExactMatrix, factor: Fraction, B: FloatArray, size: float, shift: Fraction) -> Envelope | None:
    """Correct A by Cholesky's factor of AᵀDA until its residual is small; None where it never is."""
    d = matrix.width
    product = -2.0 * B
    product[np.diag_indices(d)] += float(shift)
    A: FloatArray = np.eye(d)
    # Of the numbers before they cancel: a matrix near a multiple of the identity leaves nothing but its rounding.
    error = 8 * UNIT_ROUNDOFF * (2 * size + abs(float(shift)))
    best: Envelope | None = None
    for _ in range(_CORRECTIONS):
        # What floats may get wrong is added first, so that the factor exists; the next round takes it back.
        added = error + 2 * d * UNIT_ROUNDOFF * float(product.trace())
        root = _inverse_root(product + added * np.eye(d))
        if root is None:
            break
        integers, exponents, A = _on_grid(A @ root)
        residual, error = sharp_residual(matrix, factor, size, shift, integers, exponents)
        eta = float(np.linalg.norm(residual)) * _UP + error
        gained = best is None or eta < best.eta / 2
        if eta < 0.5 and (best is None or eta < best.eta):
            best = Envelope(integers, exponents, A, shift, eta)
        if d * eta < _WANTED or not gained:
            break
        product = residual + np.eye(d)
    return best


def sharp_residual(
    matrix: ExactMatrix, factor: Fraction, size: float, shift: Fraction, integers: IntArray, exponents: IntArray
) -> tuple[FloatArray, float]:
    """Return AᵀDA − I from a product DA of pairs of floats, and a bound of its error in the Frobenius norm.

    W = DA is within 2⁻⁹⁵(|s| + 2|B|)|A| of the truth before it is rounded to floats, a relative u; AᵀW is a sum of d
    terms.
    """
    d = integers.shape[0]
    twice = 2 * factor
    high = float(twice)
    low = float(twice - Fraction(high))
    first = matrix.times(integers)
    scaled = two_product(first[0], high)
    scaled = add_pairs(scaled, (first[0] * low + first[1] * high, np.zeros_like(first[0])))
    floats = integers.astype(np.float64)
    shift_high = float(shift)
    shifted = two_product(floats, shift_high)
    shifted = add_pairs(shifted, (floats * float(shift - Fraction(shift_high)), np.zeros_like(floats)))
    pair = add_pairs(shifted, (-scaled[0], -scaled[1]))
    A, W = np.ldexp(floats, -exponents), np.ldexp(pair[0], -exponents)
    residual = plain_product(A.T, W)
    residual[np.diag_indices(d)] -= 1.0
    of_a, of_w = float(np.linalg.norm(A)) * _UP, float(np.linalg.norm(W)) * _UP
    error = of_a * of_w * (rounding_of_sum(d) + 2 * UNIT_ROUNDOFF) + 2 * math.sqrt(d) * UNIT_ROUNDOFF
    error += of_a**2 * (float(abs(shift)) + 2 * size) * 8 * PAIR_ERROR
    return residual, error * _UP


VECTOR_BITS = 29
"""Vectors of reflections have norms near 2·2²⁹, so that their entries are below 2³¹."""


@dataclass(frozen=True)
class Reflection:
    """H = I − 2vvᵀ/vᵀv, of an integer vector."""

    vector: IntArray

    @cached_property
    def square(self) -> int:
        """Return vᵀv."""
        return sum(int(x) ** 2 for x in self.vector)

    def floats(self, numbers: FloatArray) -> FloatArray:
        """Return H times a vector, within `Complement.float_error` of its norm."""
        vector = self.vector.astype(np.float64)
        return np.asarray(numbers - vector * (2.0 * float(vector @ numbers) / self.square))

    def exactly(self, numbers: Sequence[int]) -> tuple[list[int], int]:
        """Return vᵀv·H times integers, and vᵀv."""
        vector = [int(x) for x in self.vector]
        twice = 2 * sum(x * y for x, y in zip(vector, numbers, strict=True))
        return [self.square * y - twice * x for x, y in zip(vector, numbers, strict=True)], self.square


def complement_tilt(width: int) -> Fraction:
    """Return a bound of |qᵀu| for a released direction q and a unit vector u of the complement.

    The vector before rounding, a = x + sign(x₁)e₁ for a unit x, has norm at least √2. It is rounded by at most
    ½·2⁻²⁹√m + m·2⁻⁵⁰ =: r in norm. For unit multiples of a and v the reflections differ by at most 4·|angle|, the angle
    is at most 1.01·r/√2, and |q| ≤ 1 + 2⁻²⁵√m ≤ 1.01: so the tilt is below 3r, which is less than 2⁻²⁸√m·0.8.
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

    def leave_out(self, direction: IntArray) -> Reflection:
        """Take a released direction out of the complement and return the reflection that does it."""
        numbers, scale = [int(x) for x in direction], 1
        for reflection in self.chain:
            numbers, factor = reflection.exactly(numbers)
            numbers, scale = numbers[1:], scale * factor
        x = np.array([float(Fraction(y, scale)) for y in numbers])
        x /= np.linalg.norm(x)
        x[0] += math.copysign(1.0, x[0])  # its reflection takes the direction nearly to a multiple of the first axis
        self.chain.append(Reflection(np.rint(np.ldexp(x, VECTOR_BITS)).astype(np.int64)))
        return self.chain[-1]

    def floats(self, inner: FloatArray) -> FloatArray:
        """Return the vector of the whole space, within `float_error` of the norm."""
        for reflection in reversed(self.chain):
            inner = reflection.floats(np.concatenate([[0.0], inner]))
        return inner

    @property
    def float_error(self) -> float:
        """Bound of the error of `floats` for a vector of norm 1.

        In each reflection the product vᵀx is within γ_m|v|, its multiple by 2/vᵀv takes three roundings, that by v one
        more, and the difference is rounded once: 2γ_m + 2·4u + 3u, and a little for their products.
        """
        gammas = (rounding_of_sum(reflection.vector.size) for reflection in self.chain)
        return sum((2 * gamma + 12 * UNIT_ROUNDOFF) * (1 + 2.0**-20) for gamma in gammas) * (1 + 2.0**-20)

    def exactly(self, inner: Sequence[int]) -> tuple[list[int], int]:
        """Return an integer multiple of the vector of the whole space, and the multiple."""
        numbers, scale = list(inner), 1
        for reflection in reversed(self.chain):
            numbers, factor = reflection.exactly([0, *numbers])
            scale *= factor
        return numbers, scale


DIRECTION_BITS = 24
_BATCH, _MORE_BITS = 8, 64
_WIDENED = 1 + 2.0**-20  # covers the products of a few relative errors


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
        """Whether floats do not decide, for each proposal."""
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

    def __init__(self, matrix: ExactMatrix, factor: Fraction, complement: Complement | None = None) -> None:
        self.matrix, self.factor = matrix, factor
        self.complement: Complement = Complement(matrix.width) if complement is None else complement
        self.width: int = matrix.width
        self.tried = self.exact_coins = self.exact_roundings = 0
        if self.width == 1:
            return
        self.envelope = certified_envelope(matrix, factor)
        A = self.envelope.matrix
        self._columns = np.zeros(self.width, np.int64) if self.envelope.exponents is None else self.envelope.exponents
        squares = np.ones(self.width) if A is None else np.einsum("ij,ij->i", A, A)
        self._rows = np.sqrt(squares) * _WIDENED  # norms of the rows of A, and of all of it
        self._whole = 1.0 if A is None else math.sqrt(float(squares.sum())) * _WIDENED

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
        missed = normals.error * math.sqrt(d) * _WIDENED  # |x - g|
        gamma = 0.0 if A is None else rounding_of_sum(d)
        norm_error = self._whole * (gamma * length + missed) * _WIDENED  # |y computed - y|
        with np.errstate(all="ignore"):
            log_chance, error = (self._near_uniform if A is None else self._by_quotient)(
                x, squared, lengths, norm_error / norm, missed / length
            )
            chance = np.exp(np.minimum(log_chance, 0.0))
            known = chance * (np.expm1(np.minimum(error, 50.0)) + 2.0**-48) + 2.0**-52
            # Where the error is large floats know nothing, not even that a chance is small.
            tolerance = np.where(error < 50.0, known, math.inf)
        return Proposals(normals, words, y, chance, tolerance, norm, norm_error, length, missed)

    def _by_quotient(
        self, x: FloatArray, squared: FloatArray, lengths: FloatArray, of_y: FloatArray, of_g: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ln of the chance from q = |g|²/|y|², and a bound of its error; v is within q(1 ± η)."""
        d, eta = self.width, self.envelope.eta
        quotient = squared / lengths
        relative = (2 * rounding_of_sum(d + 3) + 2.1 * of_y + 2.1 * of_g) * _WIDENED
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
        return float(np.linalg.norm(self._floats)) * _WIDENED

    def rounded(self, proposals: Proposals, place: int) -> IntArray:
        """Return 2²⁴y/|y|, turned to the whole space and rounded."""
        y, norm, norm_error = proposals.y[place], float(proposals.norm[place]), float(proposals.norm_error[place])
        gamma = rounding_of_sum(self.width)
        errors: Any = self._rows * (gamma * float(proposals.length[place]) + proposals.missed) * _WIDENED
        if self.complement.chain:
            y, errors = self.complement.floats(y), (norm_error + norm * self.complement.float_error) * 1.01
        with np.errstate(all="ignore"):
            scaled = y * (2.0**DIRECTION_BITS / norm)
            relative = 1.01 * norm_error / norm + rounding_of_sum(self.width + 6)
            error = 2.0**DIRECTION_BITS * (errors / norm) * 1.01 + np.abs(scaled) * relative + 2.0**-900
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
        """Return a proposal from so many further digits of its numbers; drawn once, since both decisions ask for it."""
        if (place, bits) in proposals.exact:
            return proposals.exact[place, bits]
        g = [proposals.normals.integer(place * self.width + j, bits) for j in range(self.width)]
        unit, y, errors = UNIT_BITS + bits, g, [1] * self.width
        squared = Interval(
            Fraction(sum(x * x for x in g), 4**unit), Fraction(sum((abs(x) + 1) ** 2 for x in g), 4**unit)
        )
        if self._objects is not None:
            assert self.envelope.integers is not None
            finest = int(self._columns.max())
            moved = np.array([x << int(finest - e) for x, e in zip(g, self._columns, strict=True)], dtype=object)
            # One unit of each g_j moves y_i by at most the size of A_ij.
            sizes = np.abs(self.envelope.integers).astype(np.float64) @ np.ldexp(1.0, finest - self._columns)
            unit, y, errors = unit + finest, list(self._objects.dot(moved)), [int(x * _WIDENED) + 1 for x in sizes]
        return proposals.exact.setdefault((place, bits), ExactProposal(y, errors, unit, squared))

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


def exact_directions(matrix: ExactMatrix, factor: Fraction, count: int, generator: np.random.Generator) -> IntArray:
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
    drawn = [ExactBingham(matrix, factor).draw(generator)]
    while len(drawn) < count:
        reflection = complement.leave_out(drawn[-1])
        matrix = matrix.reflected(reflection.vector).without_first()
        drawn.append(ExactBingham(matrix, factor, complement).draw(generator))
    return np.array(drawn)


def direction_slack(width: int, count: int, grid: int) -> Fraction:
    """Return the share by which the joint cost of rounded directions may pass the cost of orthonormal ones.

    ζ + 4ρ: the directions behind the rounded ones satisfy |UᵀU − I| ≤ ζ = (k − 1)(2⁻²⁵√d + tilt), and on the complement
    uᵀCu is known within ρ = (k − 1)·d·2⁻²⁰·1.01 of a squared unit (docs/research/exact_directions.md).
    """
    root = math.isqrt(width - 1) + 1 if width > 1 else 1
    tilt = Fraction(root, 2 ** (DIRECTION_BITS + 1)) + complement_tilt(width)
    return (count - 1) * (tilt + 4 * width * Fraction(REFLECTION_ERROR) / grid)


def variances_along(matrix: ExactMatrix, directions: IntArray) -> list[int]:
    """Return K_iᵀMK_i for integer directions, then 2⁴⁸ tr M less their sum: exact, for a matrix of integers."""
    forms = []
    for direction in directions:
        image = matrix.times_vector(direction)
        forms.append(sum(int(x) * y for x, y in zip(direction, image, strict=True)) >> LIMB)
    trace = sum(int(x) for x in matrix.whole.diagonal())
    return [*forms, NORM_SQUARED * trace - sum(forms)]


def variances_sensitivity(directions: IntArray, grid: int, rows: int, shift: int) -> int:
    """Return the ℓ1 sensitivity of the integers ⌊variance/2^shift⌋ to `rows` rows of squared norm `grid`.

    With Z ≥ |KKᵀ − 2⁴⁸I|, one row moves the variances and the rest by x'K'Kx + |2⁴⁸x'x − x'K'Kx| ≤ (2⁴⁸ + 2Z)·grid, and
    each of the k + 1 roundings adds less than one.
    """
    gram = directions.astype(object) @ directions.T.astype(object)
    gram[np.diag_indices(len(gram))] -= NORM_SQUARED
    deviation = max(sum(abs(int(x)) for x in row) for row in gram)
    moved = rows * (NORM_SQUARED + 2 * deviation) * grid
    return ((moved - 1) >> shift) + 1 + len(directions) + 1
