"""Whether a number of rows that is free is told well enough, or one more is paid for; public numbers alone."""

from fractions import Fraction
from functools import cache

from .central import COUNT_SHARE

TYPICAL_VARIANCE = Fraction(1, 4)
"""A leading variance, for rows of norm at most 1, by which a free number of rows is compared with a paid one."""


@cache
def free_count_suffices(n_features: int) -> bool:
    """Return whether n - tr C, which is free, tells the number of rows so well that none is paid for.

    In units of what noise has where nothing is paid, a variance v that is divided by the number of rows then has error
    1 - 2v + v^2 (d + 1), and 1/(1 - share) + v^2/share beside a paid count: docs/explanation/gaussian.md.

    Examples
    --------
    >>> free_count_suffices(27), free_count_suffices(28)
    (True, False)
    """
    v = TYPICAL_VARIANCE
    return 1 - 2 * v + v**2 * (n_features + 1) <= 1 / (1 - COUNT_SHARE) + v**2 / COUNT_SHARE
