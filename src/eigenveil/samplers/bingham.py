"""Exact draws from the Bingham law on the unit sphere, by rejection.

The law has density proportional to exp(uᵀBu) on the unit sphere of R^d. The proposal is an angular central
Gaussian, the direction of y ~ N(0, D⁻¹) with D = b + 2a in the eigenbasis of B, where a_i = λ_1 − λ_i ≥ 0.
With q = uᵀDu = yᵀDy/yᵀy the ratio of target to proposal is exp(−q/2)·q^{d/2} up to a constant. It is largest
at q = d, so a proposal is accepted with log-probability

    (d − q)/2 + (d/2)·ln(q/d)  ≤  0.

This holds for *any* b > 0, which only moves the acceptance rate; docs/explanation/samplers.md derives it. Because
y = D^{−1/2} z for a standard normal z, q = ‖z‖²/‖y‖² needs no difference of large numbers.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigenveil.errors import InvalidParameterError, integer_between

FloatArray = NDArray[np.float64]

_NEARLY_UNIFORM = 4.0
_FEW = 16
_BATCH_ENTRIES = 2**21  # at most this many normals at once: 16 MB, whatever the size asked for


def bingham(B: ArrayLike, generator: np.random.Generator, size: int | None = None) -> FloatArray:
    """Draw from the Bingham law, density proportional to exp(uᵀBu) on the unit sphere.

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
        # uniform law takes e⁴ proposals on average at most, and needs no eigendecomposition.
        bound = float(np.linalg.norm(matrix))
        if bound - float(matrix.trace()) / matrix.shape[0] <= _NEARLY_UNIFORM:
            return _draw_nearly_uniform(matrix, bound, generator)
    eigenvalues, basis = _decomposed(matrix)
    draws = _draw_diagonal(eigenvalues.max() - eigenvalues, n_draws, generator)
    if basis is not None:
        draws = draws @ basis.T
    return draws[0] if size is None else draws


def check_generator(generator: object) -> None:
    """Raise unless `generator` is a NumPy random generator."""
    if not isinstance(generator, np.random.Generator):
        raise InvalidParameterError(f"generator must be a numpy.random.Generator, not {type(generator).__name__}.")


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
    """Draw one vector by rejection from the uniform law; uᵀBu ≤ bound for all of them."""
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
