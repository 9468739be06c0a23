"""How many released eigenvalues rise above the noise, with a bound on saying too many."""

import math

import numpy as np
from threadpoolctl import threadpool_limits

from ..errors import InvalidParameterError
from .shrinkage import ONE_THREAD, SIMULATION_SEED, FloatArray, NoiseDraw

ABOVE_NOISE = "above_noise"
"""What `n_components` may be in place of a number."""
# Any number of draws from 1/alpha - 1 on keeps the bound; more of them lose less power.
_DRAWS, _DRAWS_WIDE, _WIDE = 199, 39, 256


def n_above_noise(
    values: FloatArray,
    rows: FloatArray,
    noise_draw: NoiseDraw,
    *,
    alpha: float = 0.05,
    draws: int | None = None,
    generator: np.random.Generator | None = None,
) -> int:
    """Return how many of the largest eigenvalues of M = A + N are above what the noise N alone reaches.

    Parameters
    ----------
    values, rows : ndarray of shape (d,), (d, d)
        All eigenvalues of M, descending, and its eigenvectors as rows.
    noise_draw : callable
        Draws N from a generator.
    alpha : float
        Bound on the probability that the answer exceeds the rank of A.
    draws : int, optional
        Simulated noise matrices, at least 1/alpha - 1.
    generator : numpy.random.Generator, optional
        For the simulation; a fixed seed by default, so that the same release gives the same answer.

    Notes
    -----
    On the null space of A, of dimension d - r, M is N: so the eigenvalue r + 1 of M is at most the largest one of N
    there (Courant and Fischer), which for noise invariant under rotations has the law of the largest one of any block
    of N of that size. The k-th eigenvalue counts while it is above the ceil((1 - alpha)(S + 1))-th of S such draws for
    the block of size d - k + 1; to count more than r of them the eigenvalue r + 1 must be above its own, which has
    probability alpha at most. A larger block only raises the quantile, so blocks of few sizes serve all k.

    Examples
    --------
    >>> def draw(generator):
    ...     entries = generator.standard_normal((20, 20))
    ...     return 0.01 * (entries + entries.T) / np.sqrt(2)
    >>> release = np.diag([1.0, 0.5] + 18 * [0.0]) + draw(np.random.default_rng(0))
    >>> values, vectors = np.linalg.eigh(release)
    >>> n_above_noise(values[::-1], vectors.T[::-1], draw)
    2
    """
    d = values.size
    draws = (_DRAWS if d <= _WIDE else _DRAWS_WIDE) if draws is None else draws
    rank = math.ceil(round((1 - alpha) * (draws + 1), 9))
    if not 0 < alpha < 1 or rank > draws:
        raise InvalidParameterError("alpha must lie between 0 and 1, and draws must be at least 1/alpha - 1.")
    generator = np.random.default_rng(SIMULATION_SEED) if generator is None else generator
    with threadpool_limits(**ONE_THREAD):
        blocks = rows @ np.stack([noise_draw(generator) for _ in range(draws)]) @ rows.T
        edge, count = math.inf, 0
        for k in range(d):
            # Ranks 0, 1, 2, 4, 8, ...: each block size serves until there are twice as many.
            if k & (k - 1) == 0:
                edge = float(np.sort(np.linalg.eigvalsh(blocks[:, k:, k:])[:, -1])[rank - 1])
            if values[k] <= edge:
                break
            count = k + 1
    return count
