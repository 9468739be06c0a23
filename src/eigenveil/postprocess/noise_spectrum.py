"""The spectrum of noise: where it ends, and how many released eigenvalues are above that.

For noise with the same distribution in every basis the end of the spectrum has a closed form. In the limit of wide
matrices its R-transform is R(g) = ag/(1 - bg^2), a = d * off_variance, b = excess * a: for Gaussian noise (excess 0)
that of a semicircle, for matrix Laplace noise that of a difference of two free Poisson distributions.
docs/explanation/uncertainty.md derives the formulas.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InvalidParameterError
from ..numerics import FloatArray
from .spectrum import largest_eigenvalue, threads_for

NoiseDraws = Callable[[np.random.Generator, int], FloatArray]

ABOVE_NOISE = "above_noise"
"""What `n_components` may be in place of a number."""
# Simulations of a public distribution: with a fixed seed the same release always gives the same answer.
SIMULATION_SEED = 20160711
# Quantiles of the Tracy-Widom distribution of real symmetric matrices, by the probability to be above, and its mean.
_TRACY_WIDOM = {0.1: 0.4502, 0.05: 0.9793, 0.01: 2.0234, 0.001: 3.2724}
_TRACY_WIDOM_MEAN = -1.2065


def edge_quantile(
    size: int, off_variance: float, excess: float = 0.0, alpha: float = 0.05, *, sharp_trace: bool = False
) -> float:
    """Return a level that the largest eigenvalue of pure noise passes with probability alpha at most, in closed form.

    Parameters
    ----------
    size : int
        Of the noise, or of a block of it; from 30 on the level is within a few percent of the true quantile, and below
        it is farther above, unless the trace is sharp.
    off_variance, excess : float
        Of noise with the same distribution in every basis: as in `NoiseFacts`, the excess times the share of the block.
    alpha : float
        0.1, 0.05, 0.01 or 0.001.
    sharp_trace : bool
        Whether it is the whole of noise with an accurate trace, which reaches less far; by experiment:
        benchmarks/shrinkage.py.

    Notes
    -----
    The spectrum ends where z(g) = 1/g + R(g) is smallest, and the largest eigenvalue fluctuates about this end on the
    scale (z''(g)/2)^(1/3) size^(-2/3) by the Tracy-Widom distribution. For Gaussian noise that is 2 sqrt(a) and
    sqrt(a) size^(-2/3).

    Examples
    --------
    >>> round(edge_quantile(100, 1.0), 2)
    20.45
    """
    end, width = _edge(size, off_variance, excess)
    level = end + width * _TRACY_WIDOM[alpha]
    if not sharp_trace:
        return level
    return level / (1 + 0.8 / size if excess > 0 else 1 + 0.45 / size + 0.35 / size**2)


def typical_edge(size: int, off_variance: float) -> float:
    """Return the approximate mean of the largest eigenvalue of isotropic Gaussian noise.

    Examples
    --------
    >>> round(typical_edge(100, 1.0), 2)
    19.44
    """
    end, width = _edge(size, off_variance, 0.0)
    return end + _TRACY_WIDOM_MEAN * width


def _edge(size: int, off_variance: float, excess: float) -> tuple[float, float]:
    """Return the end of the spectrum of noise, and the scale on which the largest eigenvalue fluctuates about it."""
    a = size * off_variance
    y = 2 * excess / (1 + 2 * excess + math.sqrt(1 + 8 * excess))
    g = math.sqrt(y / excess / a) if excess > 0 else 1 / math.sqrt(a)
    bend = 2 / g**3 + 2 * a * (excess * a) * g * (3 + y) / (1 - y) ** 3
    return 1 / g + a * g / (1 - y), (bend / 2) ** (1 / 3) * size ** (-2 / 3)


def mapped_reach(products: FloatArray) -> float:
    """Return the approximate end of the spectrum of B N B', for Gaussian noise N of variance 1 beside the diagonal.

    Parameters
    ----------
    products : ndarray of shape (d,)
        The eigenvalues of B B', ascending; d at least 2.

    Notes
    -----
    f(x) = x sqrt(sum_j p_j/(x - p_j)), over all p but the largest. Its least value over x above them, at x*, ends the
    bulk. The largest p leaves the bulk where it is above x*, and reaches f(p). For ones it is 2 sqrt(d - 1).

    Examples
    --------
    >>> round(mapped_reach(np.ones(100)), 1), round(mapped_reach(np.append(np.ones(99), 10.0)), 1)
    (19.9, 33.2)
    """
    from scipy.optimize import minimize_scalar  # a tenth of a second, which a short command does not wait for

    rest, last = products[:-1], float(products[-1])
    top = max(float(products[-2]), 0.0)
    if top <= 0:
        return 0.0

    def f(x: float) -> float:
        return x * math.sqrt(float(np.sum(rest / (x - rest))))

    least = minimize_scalar(lambda share: f(top / share), bounds=(1e-3, 1 - 1e-9), method="bounded")
    return f(last) if last > top / least.x else float(least.fun)


@dataclass(frozen=True)
class NoiseTest:
    """The number of eigenvalues above the noise, and the edges that they were compared with.

    Attributes
    ----------
    count : int
        To count more than there are without noise has a probability of at most 5 %.
    edges : tuple of float
        What noise alone reaches beside no component, beside the first, beside the first two, and so on; the last one is
        what the first eigenvalue that does not count had to pass.
    """

    count: int
    edges: tuple[float, ...]


def above_edges(values: FloatArray, edges: Iterable[float]) -> NoiseTest:
    """Compare eigenvalues, descending, with the edges of the noise one after the other, up to the first that is below.

    Examples
    --------
    >>> above_edges(np.array([9.0, 5.0, 1.0]), [6.0, 5.5, 5.0])
    NoiseTest(count=1, edges=(6.0, 5.5))
    """
    passed: list[float] = []
    for value, edge in zip(values.tolist(), edges, strict=False):
        passed.append(edge)
        if value <= edge:
            return NoiseTest(len(passed) - 1, tuple(passed))
    return NoiseTest(len(passed), tuple(passed))


def isotropic_edges(d: int, sd: float, excess: float = 0.0, *, sharp_trace: bool = False) -> Iterator[float]:
    """Yield the edges of noise with the same distribution in every basis, in closed form: see `edge_quantile`.

    `sd` is that of the entries beside the diagonal; its square may be beyond all floats. The trace is sharp for the
    whole noise alone, and so for the first edge.

    Examples
    --------
    >>> above_edges(np.array([9.0, 5.0]), isotropic_edges(32, sd=0.5)).count
    1
    """
    for k in range(d):
        yield sd * edge_quantile(d - k, 1.0, excess * (d - k) / d, sharp_trace=sharp_trace and k == 0 and d > 1)


def levered_edges(
    rows: FloatArray, lever: FloatArray, d: int, sd: float, along_one: float, excess: float, alpha: float
) -> Iterator[float]:
    """Yield the edges of noise in a matrix about a mean that has noise too, in closed form.

    Parameters
    ----------
    rows : ndarray of shape (m, n)
        The first eigenvectors as rows.
    lever : ndarray of shape (n,)
        l, the mean in units of the constant of the release: the noise is BNB' with BB' = I + ll'.
    d : int
        Number of features that have noise.
    sd, excess : float
        Of N, as for `isotropic_edges`.
    along_one : float
        What N passes along a direction with probability alpha.
    alpha : float
        As in `edge_quantile`.

    Notes
    -----
    Beside k components, with growth 1 + |l|^2 of what is left of l: up to 2 the bulk of the noise ends where it does
    without a mean, and beyond that one eigenvalue leaves it, as in `mapped_reach`.

    Examples
    --------
    >>> edges = levered_edges(np.eye(2, 400), 2.0 * np.eye(400)[1], 400, 1.0, 2.3, 0.0, 0.05)
    >>> [round(edge, 1) for edge in edges]
    [51.7, 51.7]
    """
    left = lever.copy()
    for k, row in enumerate(rows):
        growth = 1 + float(left @ left)
        beyond = growth / (2 * math.sqrt(growth - 1)) if growth > 2 else 1.0
        reach = beyond * edge_quantile(d - k, 1.0, excess * (d - k) / d, alpha)
        yield math.hypot(sd * reach, growth * along_one)
        left -= row * float(row @ left)


def simulated_edges(rows: FloatArray, noises: FloatArray, alpha: float = 0.05) -> Iterator[float]:
    """Yield the edges of the noise N on M = A + N, from many draws of it.

    Parameters
    ----------
    rows : ndarray of shape (d, d)
        All eigenvectors of M as rows, by descending eigenvalues.
    noises : ndarray of shape (s, d, d)
        Draws of N, at least 1/alpha - 1 of them; with more of them less power is lost.
    alpha : float
        Bound on the probability that more eigenvalues are above the edges than the rank of A.

    Notes
    -----
    On the null space of A, of dimension d - r, M is N: so the eigenvalue r + 1 of M is at most the largest one of N
    there (Courant and Fischer), which for noise invariant under rotations has the distribution of the largest one of
    any block of N of that size. The k-th eigenvalue counts while it is above the ceil((1 - alpha)(S + 1))-th of S such
    draws for the block of size d - k + 1; to count more than r of them the eigenvalue r + 1 must be above its own,
    which has probability alpha at most. A larger block only raises the quantile, so blocks of few sizes serve all k.

    Examples
    --------
    >>> entries = np.random.default_rng(0).standard_normal((100, 20, 20))
    >>> noises = 0.01 * (entries + entries.swapaxes(1, 2)) / np.sqrt(2)
    >>> values, vectors = np.linalg.eigh(np.diag([1.0, 0.5] + 18 * [0.0]) + noises[0])
    >>> above_edges(values[::-1], simulated_edges(vectors.T[::-1], noises[1:])).count
    2
    """
    rank, edge = math.ceil(round((1 - alpha) * (len(noises) + 1), 9)), math.inf
    if rank > len(noises):
        raise InvalidParameterError("There must be at least 1/alpha - 1 draws.")
    for k in range(len(rows)):
        if _is_redrawn(k):
            with threads_for(len(rows)):
                tops = np.linalg.eigvalsh(rows[k:] @ noises @ rows[k:].T if k else noises)[:, -1]
            edge = float(np.sort(tops)[rank - 1])
        yield edge


def edges_from_few_draws(
    rows: FloatArray,
    noises: Sequence[FloatArray],
    along_one: FloatArray | None = None,
    excess: float = 0.0,
) -> Iterator[float]:
    """Yield the edges of noise of any distribution, from few draws of it.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
        The first eigenvectors of M = A + N as rows.
    noises : sequence of ndarray of shape (d, d)
        Draws with the second moments of the noise: they tell how far it reaches on average.
    along_one : ndarray of shape (d, d), optional
        C, if noise along a direction u passes u'Cu with probability 0.01; needed where noise differs much
        between directions.
    excess : float
        As in `edge_quantile`.

    Notes
    -----
    All levels are those for 0.01 where 0.05 is stated, which leaves room for the error of a mean over few draws.

    Examples
    --------
    >>> noise = np.zeros((200, 200))
    >>> noise[np.triu_indices(200)] = np.random.default_rng(0).standard_normal(20100)
    >>> noise += np.triu(noise, 1).T
    >>> above_edges(np.array([60.0, 29.0]), edges_from_few_draws(np.eye(2, 200), [noise], 2.3 * np.eye(200))).count
    1
    """
    edge, d = math.inf, rows.shape[1]
    for k in range(len(rows)):
        if _is_redrawn(k):
            with threads_for(d):
                reach = sum(largest_eigenvalue(noise, rows[:k]) for noise in noises) / len(noises)
                most = 0.0 if along_one is None else largest_eigenvalue(along_one, rows[:k])
            farther = edge_quantile(d - k, 1.0, excess * (d - k) / d, 0.01) / typical_edge(d - k, 1.0)
            edge = math.hypot(reach * farther, most)
        yield edge


def _is_redrawn(k: int) -> bool:
    """Return whether k is 0, 1, 2, 4, 8, ...: the edge beside k components serves until there are twice as many."""
    return k & (k - 1) == 0
