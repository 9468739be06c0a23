"""A released second moment made better with the known distribution of its noise: shrinkage and noise edge.

A release is M = A + N, where A is positive semidefinite and the distribution of N is public. Functions here see M and a
sampler of N, never a row, so they cost no privacy. docs/research/postprocessing.md derives every formula.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from ..errors import InvalidDataError
from ..numerics import FloatArray, one_blas_thread
from .spectrum import sorted_eigh

NoiseDraw = Callable[[np.random.Generator], FloatArray]

# Simulations of a public distribution: with a fixed seed the same release always gives the same answer.
SIMULATION_SEED = 20160711
# Draws shrink with the size, since the spectrum of a large matrix hardly fluctuates.
WORK = 2000
STEPS = 4
EDGE_QUANTILE = 0.95


@dataclass(frozen=True, eq=False)
class Shrunk:
    """What `shrink` returns; everything is sorted from the largest released eigenvalue down.

    Attributes
    ----------
    covariance : ndarray of shape (d, d)
        The positive semidefinite estimate of A.
    eigenvalues : ndarray of shape (d,)
        De-biased estimates of the eigenvalues of A.
    shrunk_eigenvalues : ndarray of shape (d,)
        Eigenvalues of `covariance`: about u'Au for each released direction u, so below `eigenvalues` on top.
    components : ndarray of shape (d, d)
        Eigenvectors of the release, as rows.
    alignments : ndarray of shape (d,)
        Estimated squared cosine between each released direction and the true one of the same rank.
    edge : float
        The noise edge: a released eigenvalue below it may be pure noise.
    n_visible : int
        How many released eigenvalues pass the edge; 0 means that no signal is distinguishable from noise.
    """

    covariance: FloatArray
    eigenvalues: FloatArray
    shrunk_eigenvalues: FloatArray
    components: FloatArray
    alignments: FloatArray
    edge: float
    n_visible: int


def project_psd(matrix: FloatArray) -> FloatArray:
    """Return the nearest positive semidefinite matrix in the Frobenius norm.

    A lies in the cone, so the projection is never farther from A than the release was.

    Examples
    --------
    >>> project_psd(np.diag([2.0, -1.0])).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    values, vectors = sorted_eigh(released_matrix(matrix))
    return compose(np.maximum(values, 0.0), vectors)


def noise_edge(noise_draw: NoiseDraw) -> float:
    """Return the level that the largest eigenvalue of pure noise passes with probability 5 %.

    Parameters
    ----------
    noise_draw : callable
        Maps a generator to one noise matrix, on the scale of the release. The distribution must be symmetric about 0.

    Examples
    --------
    A symmetric Gaussian matrix of off-diagonal standard deviation 1 has its edge near 2 sqrt(d).

    >>> def draw(generator):
    ...     entries = generator.standard_normal((100, 100))
    ...     return (entries + entries.T) / np.sqrt(2)
    >>> bool(abs(noise_edge(draw) - 20) < 1)
    True
    """
    generator = np.random.default_rng(SIMULATION_SEED)
    first = noise_draw(generator)
    count = int(np.clip(WORK // first.shape[0], 4, 100))
    with one_blas_thread():
        values = np.linalg.eigvalsh(np.stack([first, *(noise_draw(generator) for _ in range(count - 1))]))
    # The distribution is symmetric, so the smallest eigenvalues are as good a sample as the largest.
    return float(np.quantile(np.concatenate([values[:, -1], -values[:, 0]]), EDGE_QUANTILE))


def shrink(
    matrix: FloatArray,
    noise_draw: NoiseDraw,
    eigensystem: tuple[FloatArray, FloatArray] | None = None,
    *,
    keep_trace: bool = False,
) -> Shrunk:
    """De-bias and shrink the eigenvalues of a release with the known distribution of its noise.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
        The released M = A + N, symmetric.
    noise_draw : callable
        Maps a generator to one draw of N. The distribution must be symmetric about 0, and is best invariant under
        rotations (`gaussian`, `matrix_laplace`, `frobenius`); for others the result is approximate.
    eigensystem : (ndarray, ndarray), optional
        What `sorted_eigh` gave for the matrix, where it is known already.
    keep_trace : bool
        Whether the noise is quiet on the trace, so that all estimates of eigenvalues add up to that of M, or to 0 where
        it is below.

    Returns
    -------
    Shrunk

    Notes
    -----
    1. Find a spectrum that, plus simulated noise, has on average the eigenvalues of M (a few fixed-point
       steps on common random numbers, kept sorted and nonnegative): the de-biased eigenvalues.
    2. In the same simulation, average u'Au over the noisy eigenvectors u of each rank: the values with which
       those directions should be kept.
    3. Move from max(eigenvalue, 0), or what is nearest with the trace that is kept, towards both by the factor
       (d - 2)/d, as James and Stein would.

    Examples
    --------
    >>> def draw(generator):
    ...     entries = generator.standard_normal((50, 50))
    ...     return 0.1 * (entries + entries.T) / np.sqrt(2)
    >>> truth = np.diag([1.0] + 49 * [0.0])
    >>> release = truth + draw(np.random.default_rng(1))
    >>> estimate = shrink(release, draw).covariance
    >>> bool(np.linalg.norm(estimate - truth) < 0.5 * np.linalg.norm(release - truth))
    True
    """
    values, rows = sorted_eigh(released_matrix(matrix)) if eigensystem is None else eigensystem
    total = max(0.0, float(values.sum())) if keep_trace else None
    with one_blas_thread():
        estimate, spread = debiased_and_along(values, _mirrored_draws(noise_draw, rows), total)
    debiased = towards(values, estimate, total)
    shrunk = towards(values, decreasing(spread @ estimate, total), total)
    edge = noise_edge(noise_draw)
    alignments = np.diag(spread).copy()
    visible = int(np.sum(values > edge))
    return Shrunk(compose(shrunk, rows), debiased, shrunk, rows, alignments, edge, visible)


def debiased_and_along(
    values: FloatArray, noise: FloatArray, total: float | None, weights: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the spectrum that plus noise has these eigenvalues on average, and where noisy directions then lie.

    The latter has at (i, j) how much of the i-th noisy direction lies, on average, in the j-th true one.
    """
    estimate = _nonnegative(values, total, weights)
    for _ in range(STEPS):
        simulated = np.linalg.eigvalsh(noise + np.diag(estimate))[:, ::-1].mean(axis=0)
        estimate = decreasing(estimate + values - simulated, total, weights)
    spread = (np.linalg.eigh(noise + np.diag(estimate))[1] ** 2).mean(axis=0).T[::-1]
    return estimate, np.asarray(spread)


def towards(values: FloatArray, estimate: FloatArray, total: float | None) -> FloatArray:
    """Return what is between the nonnegative eigenvalues and an estimate, by the factor of James and Stein."""
    positive, d = _nonnegative(values, total), values.size
    return np.asarray(positive + max(0.0, (d - 2) / d) * (estimate - positive))


def released_matrix(matrix: FloatArray) -> FloatArray:
    """Return `matrix` as floats if it is square, finite and symmetric."""
    array = np.asarray(matrix, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size or not np.isfinite(array).all():
        raise InvalidDataError("A released matrix must be square and finite.")
    if not np.allclose(array, array.T, rtol=1e-8, atol=1e-8 * float(np.abs(array).max())):
        raise InvalidDataError("A released matrix must be symmetric.")
    return array


def compose(values: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the symmetric matrix with these eigenvalues and eigenvectors (as rows)."""
    product = (rows.T * values) @ rows
    return (product + product.T) / 2


def _mirrored_draws(noise_draw: NoiseDraw, rows: FloatArray) -> FloatArray:
    """Return draws of the noise in the released eigenbasis, each with its mirror image.

    The mirror image removes the first-order error of the simulation, which few draws would not average out.
    """
    generator = np.random.default_rng(SIMULATION_SEED)
    pairs = int(np.clip(WORK // rows.shape[0], 1, 200))
    halves = np.stack([rows @ noise_draw(generator) @ rows.T for _ in range(pairs)])
    return np.concatenate([halves, -halves])


def decreasing(values: FloatArray, total: float | None, weights: FloatArray | None = None) -> FloatArray:
    """Return the nearest sorted nonnegative sequence, of this sum where one is given; values may count for several."""
    falling = scipy.optimize.isotonic_regression(values, weights=weights, increasing=False).x
    return _nonnegative(falling, total, weights)


def _nonnegative(values: FloatArray, total: float | None, weights: FloatArray | None = None) -> FloatArray:
    """Return the nearest nonnegative numbers to sorted ones, of this sum where one is given.

    With a sum they are max(value - level, 0) for one level, and the first so many of them are above 0.
    """
    if total is None:
        return np.maximum(values, 0.0)
    counts = np.ones_like(values) if weights is None else weights
    levels = (np.cumsum(counts * values) - total) / np.cumsum(counts)
    above = np.flatnonzero(values > levels)  # none where the sum is 0
    return np.maximum(values - levels[above[-1]], 0.0) if above.size else np.zeros_like(values)
