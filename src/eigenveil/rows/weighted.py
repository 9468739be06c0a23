"""`Weighted`: rows with public case weights."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError
from .units import Units

SHARE_BITS = 32
"""Weights are read as integers of 2^-32 of the largest, so that their sum is exact."""


@dataclass(frozen=True, eq=False, repr=False)
class Weighted:
    """A batch of rows with public weights: what is known of a row before anyone looks at it, as in a survey.

    The weights are no private data, and their sum is told; a replaced row keeps the weight of its place.

    Parameters
    ----------
    rows : ndarray or CSR matrix of shape (m, d)
    weights : ndarray of shape (m,)
        Finite numbers of at least 0, and at most the largest that the rule allows.

    Examples
    --------
    >>> Weighted(np.zeros((2, 1)), np.array([1.0, 0.5])).units(2.0).shares.tolist()
    [2147483648, 1073741824]
    """

    rows: Any
    weights: NDArray[np.float64]

    def units(self, most_weight: float) -> Units:
        """Return the rows as units with the share that each has of the largest weight."""
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.shape != (self.rows.shape[0],):
            raise InvalidDataError("There must be one weight for every row.")
        if not ((weights >= 0) & (weights <= most_weight)).all():
            raise InvalidDataError("Weights must be finite, at least 0, and at most the largest that is allowed.")
        return Units(self.rows, shares=np.rint(np.ldexp(weights / most_weight, SHARE_BITS)).astype(np.int64))


def without_weights(X: Any) -> Any:
    """Return a batch without its weights, for what counts rows."""
    return X.rows if isinstance(X, Weighted) else X
