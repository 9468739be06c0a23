"""Intervals for the eigenvalues behind a release, from the known distribution of its noise."""

from collections.abc import Callable

import numpy as np

from ..errors import InvalidParameterError, integer_between
from ..numerics import FloatArray, one_blas_thread
from .noise_spectrum import SIMULATION_SEED, NoiseDraw
from .shrinkage import released_matrix
from .spectrum import sorted_eigh

# Shares of 1 - level: the upper end, the lower end, and the bound on the next eigenvalue it leans on.
UPPER_SHARE, LOWER_SHARE, NEXT_SHARE = 0.5, 0.4, 0.1
# Beyond this rank the upper end leaves out the push from below, which costs more than it gains.
PUSHED_RANKS = 10
# Numbers of simulated noise that are held at once.
_NUMBERS = 4_000_000


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
    under rotations the coverage is at least `level`, with ties and eigenvalues below the noise too.

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
    with one_blas_thread():
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


def _top_of_two(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Return the larger eigenvalue of [[a, b], [b, c]], elementwise; c may be -inf, which leaves a."""
    with np.errstate(invalid="ignore"):
        top = (a + c) / 2 + np.sqrt(((a - c) / 2) ** 2 + b**2)
    return np.where(np.isneginf(c), a, top)


def _root(reach: Callable[[float], float], value: float, slack: float) -> float:
    """Return the t >= 0 at which the increasing `reach`, never below t - slack, passes `value`."""
    from scipy.optimize import brentq  # as in `mapped_reach`

    if reach(0.0) >= value:
        return 0.0
    high = value + slack
    # Rounding may leave the end a hair short of the root.
    return float(brentq(lambda t: reach(t) - value, 0.0, high + 1e-9 * (abs(high) + slack)))


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
    batch = max(1, _NUMBERS // d**2)
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
