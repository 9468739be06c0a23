"""How many released eigenvalues rise above the noise, with a bound on saying too many."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InvalidParameterError
from ..numerics import FloatArray
from .noise_spectrum import SIMULATION_SEED, NoiseDraws, edge_quantile, typical_edge
from .spectrum import largest_eigenvalue, threads_for

ABOVE_NOISE = "above_noise"
"""What `n_components` may be in place of a number."""
# Any number of draws from 1/alpha - 1 on keeps the bound; more of them lose less power.
_DRAWS, _DRAWS_WIDE, _WIDE = 99, 39, 100
# Numbers that are drawn at once, and draws whose eigenvalues are computed at once.
_AT_ONCE, _A_FEW = 2**17, 33


@dataclass(frozen=True)
class NoiseTest:
    """How many of the largest eigenvalues are above the noise, and what each had to pass.

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


def edges_from_few_draws(
    rows: FloatArray,
    noises: Sequence[FloatArray],
    along_one: Callable[[FloatArray], float],
    excess: float = 0.0,
) -> Iterator[float]:
    """Yield the edges of noise of any distribution, from few draws of it.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
        The first eigenvectors of M = A + N as rows.
    noises : sequence of ndarray of shape (d, d)
        Gaussian draws with the second moments of the noise: they tell how far it reaches on average.
    along_one : callable
        Maps orthonormal rows to what noise along any one direction beside them passes with probability 0.01.
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
    >>> above_edges(np.array([60.0, 29.0]), edges_from_few_draws(np.eye(2, 200), [noise], lambda rows: 2.3)).count
    1
    """
    edge, d = math.inf, rows.shape[1]
    for k in range(len(rows)):
        if k & (k - 1) == 0:
            reach = sum(largest_eigenvalue(noise, rows[:k]) for noise in noises) / len(noises)
            farther = edge_quantile(d - k, 1.0, excess * (d - k) / d, 0.01) / typical_edge(d - k, 1.0)
            edge = math.hypot(reach * farther, along_one(rows[:k]))
        yield edge


class SimulatedEdges:
    """The edges of the noise N on M = A + N, from many draws of it, which are made as they are needed.

    Parameters
    ----------
    rows : ndarray of shape (d, d)
        All eigenvectors of M as rows, by descending eigenvalues.
    noise_draws : callable
        Maps a generator and a number to so many draws of N.
    alpha : float
        Bound on the probability that more eigenvalues are above the edges than the rank of A.
    draws : int, optional
        Simulated noise matrices, at least 1/alpha - 1.
    generator : numpy.random.Generator, optional
        For the simulation; a fixed seed by default, so that the same release gives the same answer.

    Notes
    -----
    On the null space of A, of dimension d - r, M is N: so the eigenvalue r + 1 of M is at most the largest one of N
    there (Courant and Fischer), which for noise invariant under rotations has the distribution of the largest one of
    any block of N of that size. The k-th eigenvalue counts while it is above the ceil((1 - alpha)(S + 1))-th of S such
    draws for the block of size d - k + 1; to count more than r of them the eigenvalue r + 1 must be above its own,
    which has probability alpha at most. A larger block only raises the quantile, so blocks of few sizes serve all k.

    Examples
    --------
    >>> def draws(generator, count):
    ...     entries = generator.standard_normal((count, 20, 20))
    ...     return 0.01 * (entries + entries.swapaxes(1, 2)) / np.sqrt(2)
    >>> release = np.diag([1.0, 0.5] + 18 * [0.0]) + draws(np.random.default_rng(0), 1)[0]
    >>> values, vectors = np.linalg.eigh(release)
    >>> edges = SimulatedEdges(vectors.T[::-1], draws)
    >>> above_edges(values[::-1], edges).count, edges.are_passed(0.05, 2)
    (2, False)
    """

    def __init__(
        self,
        rows: FloatArray,
        noise_draws: NoiseDraws,
        *,
        alpha: float = 0.05,
        draws: int | None = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        self._rows, self._noise_draws, self._drawn = rows, noise_draws, list[FloatArray]()
        self._found: dict[int, list[float]] = {}
        self._draws = (_DRAWS if len(rows) <= _WIDE else _DRAWS_WIDE) if draws is None else draws
        self._rank = math.ceil(round((1 - alpha) * (self._draws + 1), 9))
        if not 0 < alpha < 1 or self._rank > self._draws:
            raise InvalidParameterError("alpha must lie between 0 and 1, and draws must be at least 1/alpha - 1.")
        self._generator = np.random.default_rng(SIMULATION_SEED) if generator is None else generator

    def __iter__(self) -> Iterator[float]:
        """Yield the edges beside none, one, two, ... of the eigenvectors."""
        edge = math.inf
        for k in range(len(self._rows)):
            # Ranks 0, 1, 2, 4, 8, ...: each block size serves until there are twice as many.
            if k & (k - 1) == 0:
                edge = sorted(self._tops(k))[self._rank - 1]
            yield edge

    def are_passed(self, value: float, k: int) -> bool:
        """Return whether a value is above the edge beside k eigenvectors: where it is not, few draws tell."""
        left = self._draws - self._rank
        for top in self._tops(1 << (k.bit_length() - 1) if k else 0):
            left -= top >= value
            if left < 0:
                return False
        return True

    def _tops(self, k: int) -> Iterator[float]:
        """Yield the largest eigenvalues of all draws beside the first k eigenvectors."""
        found = self._found.setdefault(k, [])
        for place in range(self._draws):
            if place == len(found):
                with threads_for(len(self._rows)):
                    found += self._some_tops(place, k)
            yield found[place]

    def _some_tops(self, first: int, k: int) -> list[float]:
        """Return those of a few draws, from this one on: few may tell, and eigenvalues take longer than draws."""
        at_once = max(1, _AT_ONCE // self._rows.size)
        at, place = divmod(first, at_once)
        if at == len(self._drawn):
            self._drawn.append(self._noise_draws(self._generator, min(at_once, self._draws - first)))
        noises, rows = self._drawn[at][place : place + _A_FEW], self._rows
        if len(rows) > _WIDE:
            return [largest_eigenvalue(noise, rows[:k]) for noise in noises]
        beside = rows[k:] @ noises @ rows[k:].T if k else noises
        return list[float](np.linalg.eigvalsh(beside)[:, -1].tolist())
