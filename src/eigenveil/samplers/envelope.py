"""Certified envelopes of the Bingham law, for every concentration.

For the density exp(uᵀBu) proposals are u = y/|y| with y = Ag, g normal. A is found in floats and then *taken as exact*:
its entries are integers times a power of two for each column. What remains is to certify η with

    AᵀDA ⪰ (1 − η)I,   D = s·I − 2B,

which makes ln accept = (d − v)/2 + (d/2)(ln(q/d) + ln(1 − η)) ≤ 0 for v = uᵀDu and q = |g|²/|y|². Residuals in floats
do at moderate concentration; above it they are computed by limbs, the shift s is a pair of floats, and A is corrected
by the Cholesky factor of its own residual until the certificate holds. docs/explanation/exact_directions.md has the
bounds.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .bingham import _envelope_width
from .certified import UNIT_ROUNDOFF, rounding_of_sum
from .exact_matrix import PAIR_ERROR, WIDEST, ExactMatrix, FloatArray, IntArray, add_pairs, two_product
from .products import plain_product

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
