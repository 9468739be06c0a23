"""A released second moment made better with the known law of its noise: shrinkage, noise edge, intervals.

A release is M = A + N, where A is positive semidefinite and the law of N is public. Functions here see M and a
sampler of N, never a row, so they cost no privacy. docs/postprocessing.md derives every formula.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.optimize
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..errors import InvalidDataError, InvalidParameterError, integer_between
from .spectrum import sorted_eigh

FloatArray = NDArray[np.float64]
NoiseDraw = Callable[[np.random.Generator], FloatArray]

# Simulations of a public law: with a fixed seed the same release always gives the same answer.
SIMULATION_SEED = 20160711
# Draws shrink with the size, since the spectrum of a large matrix hardly fluctuates.
WORK = 2000
STEPS = 4
EDGE_QUANTILE = 0.95
# Many small eigenproblems: threads inside each would wait for one another longer than they work.
ONE_THREAD = {"limits": 1, "user_api": "blas"}
# Shares of 1 - level: the upper end, the lower end, and the bound on the next eigenvalue it leans on.
UPPER_SHARE, LOWER_SHARE, NEXT_SHARE = 0.5, 0.4, 0.1
# Beyond this rank the upper end leaves out the push from below, which costs more than it gains.
PUSHED_RANKS = 10


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
        How many released eigenvalues pass the edge; with 0 the noise swamps the signal.
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
        Maps a generator to one noise matrix, on the scale of the release. The law must be symmetric about 0.

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
    with threadpool_limits(**ONE_THREAD):
        values = np.linalg.eigvalsh(np.stack([first, *(noise_draw(generator) for _ in range(count - 1))]))
    # The law is symmetric, so the smallest eigenvalues are as good a sample as the largest.
    return float(np.quantile(np.concatenate([values[:, -1], -values[:, 0]]), EDGE_QUANTILE))


def shrink(matrix: FloatArray, noise_draw: NoiseDraw) -> Shrunk:
    """De-bias and shrink the eigenvalues of a release with the known law of its noise.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
        The released M = A + N, symmetric.
    noise_draw : callable
        Maps a generator to one draw of N. The law must be symmetric about 0, and is best invariant under
        rotations (`gaussian`, `matrix_laplace`, `frobenius`); for others the result is approximate.

    Returns
    -------
    Shrunk

    Notes
    -----
    1. Find a spectrum that, plus simulated noise, has on average the eigenvalues of M (a few fixed-point
       steps on common random numbers, kept sorted and nonnegative): the de-biased eigenvalues.
    2. In the same simulation, average u'Au over the noisy eigenvectors u of each rank: the values with which
       those directions should be kept.
    3. Move from max(eigenvalue, 0) towards both by the factor (d - 2)/d, as James and Stein would.

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
    values, rows = sorted_eigh(released_matrix(matrix))
    d = values.size
    estimate = np.maximum(values, 0.0)
    with threadpool_limits(**ONE_THREAD):
        noise = _mirrored_draws(noise_draw, rows)
        for _ in range(STEPS):
            simulated = np.linalg.eigvalsh(noise + np.diag(estimate))[:, ::-1].mean(axis=0)
            estimate = _decreasing(estimate + values - simulated)
        # Entry (i, j): how much of the i-th noisy direction lies, on average, in the j-th true one.
        spread = (np.linalg.eigh(noise + np.diag(estimate))[1] ** 2).mean(axis=0).T[::-1]
    positive = np.maximum(values, 0.0)
    share = max(0.0, (d - 2) / d)
    debiased = positive + share * (estimate - positive)
    shrunk = positive + share * (_decreasing(spread @ estimate) - positive)
    edge = noise_edge(noise_draw)
    alignments = np.diag(spread).copy()
    visible = int(np.sum(values > edge))
    return Shrunk(compose(shrunk, rows), debiased, shrunk, rows, alignments, edge, visible)


def eigenvalue_intervals(
    matrix: FloatArray,
    noise_draw: NoiseDraw,
    *,
    n_components: int | None = None,
    level: float = 0.95,
    draws: int = 199,
    generator: np.random.Generator | None = None,
) -> FloatArray:
    """Return an interval for each of the largest eigenvalues of A, each with coverage at least `level`.

    Parameters
    ----------
    matrix, noise_draw
        As for `shrink`.
    n_components : int, optional
        How many eigenvalues; all of them by default.
    level : float
        Coverage of each interval (not of all at once).
    draws : int
        Simulated noise matrices, at least 10/(1 - level) - 1.
    generator : numpy.random.Generator, optional
        For the simulation; a fixed seed by default, so that the same release gives the same intervals.

    Returns
    -------
    ndarray of shape (n_components, 2)
        Lower and upper ends.

    Notes
    -----
    Variational bounds hold each eigenvalue of M between two increasing functions of that of A, made from the
    noise alone; order statistics of simulated draws invert them. No asymptotics, no gap: for noise invariant
    under rotations the coverage is at least `level`, with ties and swamped eigenvalues too.

    Examples
    --------
    >>> def draw(generator):
    ...     entries = generator.standard_normal((20, 20))
    ...     return 0.01 * (entries + entries.T) / np.sqrt(2)
    >>> release = np.diag(np.linspace(1, 0, 20)) + draw(np.random.default_rng(0))
    >>> low, high = eigenvalue_intervals(release, draw, n_components=1)[0]
    >>> bool(low < 1 < high), bool(high - low < 0.2)
    (True, True)
    """
    values, rows = sorted_eigh(released_matrix(matrix))
    d = values.size
    k = integer_between("n_components", d if n_components is None else n_components, 1, d)
    if not 0 < level < 1:
        raise InvalidParameterError("level must lie strictly between 0 and 1.")
    alpha = 1 - level
    draws = integer_between("draws", draws, 1)
    if round(NEXT_SHARE * alpha * (draws + 1), 9) < 1:
        raise InvalidParameterError(
            f"draws must be at least {int(np.ceil(1 / (NEXT_SHARE * alpha) - 1e-6)) - 1} at this level."
        )
    generator = np.random.default_rng(SIMULATION_SEED) if generator is None else generator
    with threadpool_limits(**ONE_THREAD):
        from_below, from_above = _noise_statistics(noise_draw, rows, min(k + 1, d), draws, generator)

    def upper_end(i: int, risk: float) -> float:
        corner, push, floor = from_below[:, i].T
        rank = int(np.floor(risk * (draws + 1) + 1e-9)) - 1
        return _root(lambda t: np.sort(_top_of_two(t + corner, push, floor))[rank], values[i], -corner.min())

    def lower_end(i: int, following: float) -> float:
        corner, push, rest, whole = from_above[:, i].T
        rank = int(np.ceil((1 - LOWER_SHARE * alpha) * (draws + 1) - 1e-9)) - 1

        def reach(t: float) -> float:
            pushed = _top_of_two(t + corner, push, min(t, following) + rest)
            return float(np.sort(np.minimum(t + whole, pushed))[rank])

        return _root(reach, values[i], -min(corner.min(), whole.min()))

    ends = np.empty((k, 2))
    for i in range(k):
        following = upper_end(i + 1, NEXT_SHARE * alpha) if i + 1 < d else -np.inf
        ends[i] = lower_end(i, following), upper_end(i, UPPER_SHARE * alpha)
    return np.maximum.accumulate(ends, axis=1)


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


def _decreasing(values: FloatArray) -> FloatArray:
    """Return the nearest sorted nonnegative sequence."""
    fitted: FloatArray = scipy.optimize.isotonic_regression(values, increasing=False).x
    return np.maximum(fitted, 0.0)


def _top_of_two(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Return the larger eigenvalue of [[a, b], [b, c]], elementwise; c may be -inf, which leaves a."""
    with np.errstate(invalid="ignore"):
        top = (a + c) / 2 + np.sqrt(((a - c) / 2) ** 2 + b**2)
    return np.where(np.isneginf(c), a, top)


def _root(reach: Callable[[float], float], value: float, slack: float) -> float:
    """Return the t >= 0 at which the increasing `reach`, never below t - slack, passes `value`."""
    if reach(0.0) >= value:
        return 0.0
    high = value + slack
    # Rounding may leave the end a hair short of the root.
    return float(scipy.optimize.brentq(lambda t: reach(t) - value, 0.0, high + 1e-9 * (abs(high) + slack)))


def _noise_statistics(
    noise_draw: NoiseDraw, rows: FloatArray, ranks: int, draws: int, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return, by draw and rank, what the bounds from below (3 numbers) and from above (4) need of the noise."""
    d = rows.shape[0]
    below = np.tile(np.array([0.0, 0.0, -np.inf]), (draws, ranks, 1))
    above = np.zeros((draws, ranks, 4))
    above[:, :, 2] = -np.inf
    # Largest eigenvalues of trailing blocks only shrink with the block: a few of them bound all the others.
    starts = sorted({0, 1, *(d * q // 4 for q in (1, 2, 3))} & set(range(min(d, ranks + 1))))
    batch = max(1, WORK**2 // d**2)
    for done in range(0, draws, batch):
        now = slice(done, min(done + batch, draws))
        noise = np.stack([rows @ noise_draw(generator) @ rows.T for _ in range(now.start, now.stop)])
        tops = [np.linalg.eigvalsh(noise[:, s:, s:])[:, -1] for s in starts]
        for i in range(ranks):
            m = i + 1
            below[now, i, 0] = np.linalg.eigvalsh(noise[:, :m, :m])[:, 0]
            if m <= PUSHED_RANKS and d - m >= m:
                left, singular, right = np.linalg.svd(noise[:, m:, :m], full_matrices=False)
                isometry = left @ right
                inner = isometry.transpose(0, 2, 1) @ noise[:, m:, m:] @ isometry
                below[now, i, 1] = singular[:, -1]
                below[now, i, 2] = np.linalg.eigvalsh(inner)[:, 0]
            above[now, i, 0] = noise[:, i, i]
            above[now, i, 3] = tops[np.searchsorted(starts, i, side="right") - 1]
            if m < d:
                above[now, i, 1] = np.linalg.norm(noise[:, i, m:], axis=1)
                above[now, i, 2] = tops[np.searchsorted(starts, m, side="right") - 1]
    return below, above
