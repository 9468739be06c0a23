"""The sum of rows, or of persons, under a bound by its definition, in Python's integers."""

from dataclasses import replace
from typing import Any

import numpy as np

from eigenveil import RowBound
from eigenveil.moments.counts import NORM_GRID, norm_candidates


def sum_by_hand(bound: RowBound, rows: Any, norm: float) -> list[int]:
    """Row by row: the integers under a bound of the norm of its rung, weighed."""
    shift, scale = (default if part is None else part for part, default in ((bound.shift, 0.0), (bound.scale, 1.0)))
    total = [0] * rows.shape[1]
    for row in rows:
        candidate = candidate_of(np.atleast_2d(np.asarray(scale) * (row - np.asarray(shift))))
        if bound.statistic == "normalized":  # a direction is that of rows in any unit
            of_candidate = replace(bound, scale=tuple(np.broadcast_to(scale, row.shape) / candidate))
        else:
            of_candidate = replace(bound, norm=candidate, constant=None)
        added = weighed(of_candidate.quantize(row[None])[0], candidate, norm, bound.bits)
        total = [entry + more for entry, more in zip(total, added, strict=True)]
    return total


def unit_by_hand(rows: Any, bits: int) -> tuple[list[int], float]:
    """The truncated average of the integers of a person's rows, neither moved nor scaled, and the norm of the rung."""
    candidate = candidate_of(rows, np.array([0]), True)
    integers = [[int(entry) for entry in row] for row in 2.0**bits / candidate * np.asarray(rows)]
    sums = [sum(column) for column in zip(*integers, strict=True)]
    return [abs(entry) // len(rows) * (1 if entry > 0 else -1) for entry in sums], candidate


def candidate_of(*rows: Any) -> float:
    """The norm of the rung of the one unit that there is."""
    return float(NORM_GRID[min(int(norm_candidates(*rows)[0]), NORM_GRID.size - 1)])


def weighed(integers: Any, candidate: float, norm: float, bits: int) -> list[int]:
    """A unit on a rung as it counts under a bound."""
    weight = min(int(2**bits * (candidate / norm)), 2**bits)
    return [weight * int(integer) for integer in integers]
