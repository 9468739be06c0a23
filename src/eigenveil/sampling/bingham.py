"""The Bingham distribution: draws in floats, and certified envelopes for exact draws at every concentration.

For the density exp(uᵀBu) proposals are u = y/|y| with y = Ag, g normal. A is found in floats and then *taken as exact*:
its entries are integers times a power of two for each column. What remains is to certify η with

    AᵀDA ⪰ (1 − η)I,   D = s·I − 2B,

which makes ln accept = (d − v)/2 + (d/2)(ln(q/d) + ln(1 − η)) ≤ 0 for v = uᵀDu and q = |g|²/|y|². Residuals in floats
do at moderate concentration; above it they are computed by limbs, the shift s is a pair of floats, and A is corrected
by the Cholesky factor of its own residual until the certificate holds. docs/research/exact_directions.md has the
bounds.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InvalidParameterError, integer_between
from ..numerics import FloatArray, IntArray
from .certified import (
    PAIR_ERROR,
    UNIT_ROUNDOFF,
    WIDEST,
    ExactMatrix,
    add_pairs,
    plain_product,
    rounding_of_sum,
    two_product,
)
from .randomness import check_generator

NEARLY_UNIFORM = 4.0
"""Where no eigenvalue passes the mean by more, proposals are uniform: e⁴ of them at most, on average."""
_UP = 1 + 2.0**-22  # covers the rounding of norms of up to 2^30 numbers, and of a few products
_TINY = 2.0**-900  # above all that underflow may lose
_WANTED = 0.125  # d·η below it costs one proposal in sixteen
_CORRECTIONS = 8
_DESCENTS = 6


def certifiable(factor: Fraction, width: int) -> bool:
    """Return whether an envelope is sure to be certified for every C of trace below 2⁶² in exp(factor·uᵀCu).

    A function of public numbers, to refuse others before anything is spent.

    Examples
    --------
    >>> certifiable(Fraction(1, 2**32), 1000), certifiable(Fraction(10**6, 4), 1000)
    (True, False)
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

    Examples
    --------
    >>> found = certified_envelope(ExactMatrix(np.diag([2**40, 0, 0])), Fraction(1, 2**20))
    >>> found.eta < 1e-6
    True
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
    width = _envelope_width(gaps)
    shift = width + 2 * float(eigenvalues[-1])
    found = _in_floats(B, size, shift)
    if found is None or not d * found.eta < _WANTED:
        found = _in_limbs(matrix, factor, B, size, shift)
    return uniform if found is None else found


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


def _in_floats(B: FloatArray, size: float, shift: float) -> Envelope | None:
    """Return an envelope whose residual is bounded in floats, or None where Cholesky fails."""
    d = B.shape[0]
    D = -2.0 * B
    D[np.diag_indices(d)] += shift
    root = _inverse_root(D)
    if root is None:
        return None
    integers, exponents, A = _on_grid(root)
    residual = plain_product(A.T, plain_product(D, A))
    residual[np.diag_indices(d)] -= 1.0
    eta = float(np.linalg.norm(residual)) * _UP + float_residual_error(A, D, size)
    return Envelope(integers, exponents, A, Fraction(shift), eta) if eta < 0.5 else None


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
        excess = float(spectrum[0]) * (1 - 4 * found.eta) - _envelope_width((spectrum - spectrum[0]) / 2)
        if excess <= 0.5 * math.sqrt(d):
            break
        exact_shift = _pair(exact_shift - Fraction(excess))
    return best


def _pair(number: Fraction) -> Fraction:
    """Return the number rounded to a sum of two floats."""
    high = float(number)
    return Fraction(high) + Fraction(float(number - Fraction(high)))


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


_NEARLY_UNIFORM = 4.0
_FEW = 16
_BATCH_ENTRIES = 2**21  # at most this many normals at once: 16 MB, whatever the size asked for


def bingham(B: ArrayLike, generator: np.random.Generator, size: int | None = None) -> FloatArray:
    """Draw from the Bingham distribution, density proportional to exp(uᵀBu) on the unit sphere.

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
    matrix = _checked(B)
    if size is None and matrix.ndim == 2:
        # No eigenvalue passes the Frobenius norm. Where the mean, tr B/d, is not far below it, plain rejection from the
        # uniform distribution takes e⁴ proposals on average at most, and needs no eigendecomposition.
        bound = float(np.linalg.norm(matrix))
        if bound - float(matrix.trace()) / matrix.shape[0] <= _NEARLY_UNIFORM:
            return _draw_nearly_uniform(matrix, bound, generator)
    eigenvalues, basis = _decomposed(matrix)
    draws = _draw_diagonal(eigenvalues.max() - eigenvalues, n_draws, generator)
    if basis is not None:
        draws = draws @ basis.T
    return draws[0] if size is None else draws


def eigensystem(B: ArrayLike) -> tuple[FloatArray, FloatArray | None]:
    """Return the eigenvalues of `B` and its eigenvectors, or None for these where `B` is a diagonal."""
    return _decomposed(_checked(B))


def _checked(B: ArrayLike) -> FloatArray:
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


def _decomposed(matrix: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    if matrix.ndim == 1:
        return matrix, None
    eigenvalues, basis = np.linalg.eigh((matrix + matrix.T) / 2)
    return eigenvalues, basis


def _draw_nearly_uniform(matrix: FloatArray, bound: float, generator: np.random.Generator) -> FloatArray:
    """Draw one vector by rejection from the uniform distribution; uᵀBu ≤ bound for all of them."""
    while True:
        proposals = generator.standard_normal((_FEW, matrix.shape[0]))
        squares = np.einsum("ij,ij->i", proposals, proposals)
        forms = np.einsum("ij,ij->i", proposals @ matrix, proposals) / squares
        accepted = np.flatnonzero(generator.standard_exponential(_FEW) >= bound - forms)
        if accepted.size:
            first = accepted[0]
            return np.asarray(proposals[first] / math.sqrt(squares[first]))


def _envelope_width(gaps: FloatArray) -> float:
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


def _log_acceptance(quotient: FloatArray, dimension: int) -> FloatArray:
    """Log-probability of accepting a proposal with q = uᵀDu on the sphere of R^dimension."""
    half = dimension / 2
    accepted: FloatArray = half - quotient / 2 + half * np.log(quotient / dimension)
    return accepted


def _draw_diagonal(gaps: FloatArray, n_draws: int, generator: np.random.Generator) -> FloatArray:
    """Draw from exp(−Σ a_i u_i²), a_i ≥ 0 with smallest value 0."""
    dimension = gaps.size
    scales = 1.0 / np.sqrt(_envelope_width(gaps) + 2.0 * gaps)
    draws = np.empty((n_draws, dimension))
    found = tried = 0
    while found < n_draws:
        # Before the first batch expect the worst rate, 1/√d; after it, the rate seen so far.
        rate = max(found, 1) / tried if tried else 1 / math.sqrt(dimension)
        wanted = math.ceil(1.1 * (n_draws - found) / rate)
        batch = max(1, min(wanted, _BATCH_ENTRIES // dimension))
        normals = generator.standard_normal((batch, dimension))
        proposals = normals * scales
        lengths = np.einsum("ij,ij->i", proposals, proposals)
        quotients = np.einsum("ij,ij->i", normals, normals) / lengths
        # −log of a uniform number is exponential, so this accepts with the probability whose log is given.
        accepted = generator.standard_exponential(batch) >= -_log_acceptance(quotients, dimension)
        chosen = np.flatnonzero(accepted)[: n_draws - found]
        draws[found : found + chosen.size] = proposals[chosen] / np.sqrt(lengths[chosen, np.newaxis])
        found += chosen.size
        tried += batch
    return draws
