"""What the bounds share: two validators, and how large Gaussian and Wishart matrices get."""

import math

from ...errors import InvalidParameterError, positive_number, probability_below_one


def open_unit(name: str, value: object) -> float:
    """Return `value` as a float if it lies strictly between 0 and 1."""
    return positive_number(name, probability_below_one(name, value))


def gap_below(gap: object, top_eigenvalue: object = 1.0) -> tuple[float, float]:
    """Return the gap and the top eigenvalue of A, which rows of norm at most 1 keep in gap <= top <= 1."""
    width, top = positive_number("gap", gap), positive_number("top_eigenvalue", top_eigenvalue)
    if width > top or top > 1:
        raise InvalidParameterError(
            "gap must be at most top_eigenvalue, and top_eigenvalue at most 1; scale the rows to norm 1."
        )
    return width, top


def largest_singular(rows: int, columns: int, t: float) -> float:
    """Return what the largest singular value of a standard Gaussian matrix passes with chance exp(-t^2/2) at most.

    sqrt(rows) + sqrt(columns) + t (Davidson and Szarek 2001, Theorem II.13). Of a vector it is the length, which
    is 1-Lipschitz with mean at most sqrt(length), so that the square root of 1 is left out.
    """
    if min(rows, columns) == 1:
        return math.sqrt(max(rows, columns)) + t
    return math.sqrt(rows) + math.sqrt(columns) + t


def smallest_singular(rows: int, columns: int, t: float) -> float:
    """Return what the smallest singular value falls below with chance exp(-t^2/2) at most (same theorem), or 0."""
    low, high = sorted((rows, columns))
    return max(0.0, math.sqrt(high) - math.sqrt(low) - t)


def tail(events: int, failure_probability: float) -> float:
    """Return the t at which `events` bounds with chance exp(-t^2/2) each fail together at most that often."""
    return math.sqrt(2 * math.log(events / failure_probability))
