"""Intervals: within the limits of a number, for many answers at once, and for the eigenvalues behind a release."""

import math
from collections.abc import Callable

import numpy as np

from ..errors import InvalidParameterError, integer_between
from ..limits import Limits
from ..numerics import FloatArray, one_blas_thread
from .noise_spectrum import SIMULATION_SEED, NoiseDraw
from .shrinkage import released_matrix
from .spectrum import sorted_eigh

# The order statistic is one of so many beyond the level, for matrices up to this width and for wider ones.
_BEYOND, _BEYOND_WIDE, _WIDE = 20, 10, 300
_HIGHEST_LEVEL = 0.999
# Shares of 1 - level: the upper end, the lower end, and the bound on the next eigenvalue it leans on.
UPPER_SHARE, LOWER_SHARE, NEXT_SHARE = 0.5, 0.4, 0.1
# Beyond this rank the upper end leaves out the push from below, which costs more than it gains.
PUSHED_RANKS = 10
# Numbers of simulated noise that are held at once.
_NUMBERS = 4_000_000


def holding(ends: FloatArray, estimate: FloatArray, limits: Limits) -> FloatArray:
    """Return intervals cut to the limits of the number, and widened where they would not hold its estimate.

    The estimate is not moved: it may be shrunk, or one entry of a matrix that is positive semidefinite as a whole. A
    wider interval holds the true value no less often.

    Parameters
    ----------
    ends : ndarray of shape (..., 2)
    estimate : ndarray of shape (...)
        Within the limits.
    limits : (float, float)

    Examples
    --------
    >>> holding(np.array([[-0.2, 0.3], [0.4, 1.3]]), np.array([0.1, 0.2]), (0.0, 1.0)).tolist()
    [[0.0, 0.3], [0.2, 1.0]]
    """
    found = np.clip(ends, *limits)
    np.minimum(found[..., 0], estimate, out=found[..., 0])
    np.maximum(found[..., 1], estimate, out=found[..., 1])
    return np.asarray(found)


def critical_value(draw_largest: Callable[[], float], level: float, width: int) -> float:
    """Return what the largest of many errors stays within at this level, from simulated largest errors.

    Parameters
    ----------
    draw_largest : callable
        Returns the largest error of a fresh draw, each error in units of its standard deviation.
    level : float
    width : int
        Number of features; wider matrices have fewer draws.

    Notes
    -----
    Of B draws the order statistic k = ceil((B + 1) level) is returned. A further draw exceeds it with probability
    1 - k/(B + 1), exactly, so the number of draws costs width of intervals and no coverage.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> bool(3.0 < critical_value(lambda: np.abs(generator.standard_normal(45)).max(), 0.95, 10) < 3.5)
    True
    """
    if level > _HIGHEST_LEVEL:
        raise InvalidParameterError(f"Simultaneous intervals are simulated up to a level of {_HIGHEST_LEVEL}.")
    count = math.ceil((_BEYOND if width <= _WIDE else _BEYOND_WIDE) / (1 - level)) - 1
    largest = np.sort([draw_largest() for _ in range(count)])
    return float(largest[min(count, math.ceil((count + 1) * level - 1e-9)) - 1])


def sampling_root(covariance: FloatArray) -> FloatArray:
    """Return a root of a positive semidefinite matrix, for `sampling_error`."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def sampling_error(root: FloatArray, sampled: float, generator: np.random.Generator) -> FloatArray:
    """Return the error of the covariance of 1/sampled Gaussian rows, to first order: a Gaussian matrix."""
    drawn = generator.standard_normal(root.shape) * math.sqrt(sampled / 2)
    return np.asarray(root @ (drawn + drawn.T) @ root.T)


def adjusted_p_values(p_values: FloatArray) -> FloatArray:
    """Return p-values for the false discovery rate: rejecting those up to q has a rate of at most q.

    The adjustment of Benjamini and Yekutieli (2001), which holds for any dependence of the tests. Entries of one
    released matrix are dependent: they share features, rows and, for some mechanisms, the size of the noise.

    Examples
    --------
    >>> adjusted_p_values(np.array([0.01, 0.5, 0.001])).round(4).tolist()
    [0.0275, 0.9167, 0.0055]
    """
    m = p_values.size
    if m == 0:
        return p_values
    order = np.argsort(p_values, kind="stable")
    ranks = np.arange(1, m + 1)
    raised = p_values[order] * (m * np.sum(1 / ranks)) / ranks
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(np.minimum.accumulate(raised[::-1])[::-1], 1.0)
    return adjusted


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
