"""What numbers can be at all: the limits that every interval of such a number lies within."""

from typing import TypeAlias

Limits: TypeAlias = tuple[float, float]
ANY: Limits = (float("-inf"), float("inf"))
SIZE: Limits = (0.0, float("inf"))
"""Of variances, standard deviations and counts."""
SHARE: Limits = (0.0, 1.0)
"""Of shares of a variance: those of components, and R² of least squares in the rows that they were fitted to."""
CORRELATION: Limits = (-1.0, 1.0)
"""Of correlations, and of loadings of a direction of length 1."""
ANGLE: Limits = (0.0, 90.0)
