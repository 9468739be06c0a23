"""Intervals that lie within the limits of a number and hold its estimate."""

import numpy as np

from ..limits import Limits
from ..numerics import FloatArray


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
