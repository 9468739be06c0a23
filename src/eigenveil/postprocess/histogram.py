"""Noisy counts as a histogram: nothing negative, and the total that is known."""

import numpy as np

from ..numerics import FloatArray


def projected_counts(counts: FloatArray, total: float) -> FloatArray:
    """Return the counts of at least 0 and of this sum that are nearest to noisy ones, in squares.

    The same amount is taken from all, and what is below 0 then is 0. The truth is among the candidates, so it is never
    farther from it than the noisy counts are.

    Examples
    --------
    >>> projected_counts(np.array([5.0, 3.0, -2.0, 1.0]), 6.0)
    array([4., 2., 0., 0.])
    """
    if total <= 0:
        return np.zeros_like(counts)
    falling = np.sort(counts.ravel())[::-1]
    taken = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    kept = np.flatnonzero(falling > taken)[-1]
    return np.asarray(np.maximum(counts - taken[kept], 0.0))
