"""Intervals within the limits of a number, and for many answers at once."""

import math
from collections.abc import Callable

import numpy as np

from ..errors import InvalidParameterError
from ..numerics import FloatArray
from ..uncertainty import Limits

# The order statistic is one of so many beyond the level, for matrices up to this width and for wider ones.
_BEYOND, _BEYOND_WIDE, _WIDE = 20, 10, 300
_HIGHEST_LEVEL = 0.999


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
    """Return the quantile of the largest of many errors at this level, from simulated largest errors.

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
