"""What an audit makes of released values: a log-likelihood ratio where the law knows it, else features to learn from.

Any statistic gives a valid audit. By the lemma of Neyman and Pearson the likelihood ratio gives the strongest. Outputs
that are impossible on one of the data sets get an infinite score, and nothing else does.
"""

import math

import numpy as np

from ..laws.base import FloatArray, Values
from ..laws.central import CentralLaw

Data = tuple[FloatArray, int]
"""The second moment C of a data set, for rows of norm at most 1, and its number of rows."""


def log_likelihood_ratio(law: CentralLaw, values: Values, first: Data, second: Data) -> FloatArray | None:
    """Return log p(values | first) - log p(values | second), up to a constant; None where the law does not know it."""
    densities = [law.log_likelihood(values, *data) for data in (first, second)]
    if densities[0] is None or densities[1] is None:
        return None
    return ratio(densities[0], densities[1])


def ratio(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the difference of log densities; 0 where rounding made an output impossible on both.

    Examples
    --------
    >>> ratio(np.array([1.0, 0.0, -np.inf]), np.array([3.0, -np.inf, -np.inf]))
    array([-2., inf,  0.])
    """
    with np.errstate(invalid="ignore"):
        difference = first - second
    return np.asarray(np.where(np.isnan(difference), 0.0, difference))


def features(values: Values) -> FloatArray:
    """Return what a learned statistic sees of releases: matrices, projectors and numbers, and their logarithms."""
    columns = []
    for name, stack in sorted(values.items()):
        seen = stack[:, None] if stack.ndim == 1 else stack
        if name == "directions":  # a direction has no sign
            seen = np.einsum("nki,nkj->nij", seen, seen)
        if seen.ndim == 3 and seen.shape[1] == seen.shape[2]:
            rows, cols = np.triu_indices(seen.shape[1])
            seen = seen[:, rows, cols]
        columns.append(seen.reshape(len(seen), -1))
    table = np.hstack(columns)
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(np.abs(table)), math.log(1e-300))
    return np.hstack([table, logs])
