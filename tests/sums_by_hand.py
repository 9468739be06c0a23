"""The sum of rows, or of persons, under a bound by its definition, in Python's integers."""

from dataclasses import replace
from typing import Any

import numpy as np

from eigenveil import RowBound
from eigenveil.moments.counts import LADDER, norm_rungs


def sum_by_hand(bound: RowBound, rows: Any, norm: float) -> list[int]:
    """Row by row: the integers under a bound of the norm of its rung, weighed."""
    shift, scale = (default if part is None else part for part, default in ((bound.shift, 0.0), (bound.scale, 1.0)))
    total = [0] * rows.shape[1]
    for row in rows:
        rung = rung_of(np.atleast_2d(np.asarray(scale) * (row - np.asarray(shift))))
        if bound.rows == "unit":  # a direction is that of rows in any unit
            of_rung = replace(bound, scale=tuple(np.broadcast_to(scale, row.shape) / rung))
        else:
            of_rung = replace(bound, norm=rung, constant=None)
        added = weighed(of_rung.quantize(row[None])[0], rung, norm, bound.bits)
        total = [entry + more for entry, more in zip(total, added, strict=True)]
    return total


def person_by_hand(rows: Any, bits: int) -> tuple[list[int], float]:
    """The truncated average of the integers of a person's rows, neither moved nor scaled, and the norm of the rung."""
    rung = rung_of(rows, np.array([0]), True)
    integers = [[int(entry) for entry in row] for row in 2.0**bits / rung * np.asarray(rows)]
    sums = [sum(column) for column in zip(*integers, strict=True)]
    return [abs(entry) // len(rows) * (1 if entry > 0 else -1) for entry in sums], rung


def rung_of(*rows: Any) -> float:
    """The norm of the rung of the one unit that there is."""
    return float(LADDER[min(int(norm_rungs(*rows)[0, 0]), LADDER.size - 1)])


def weighed(integers: Any, rung: float, norm: float, bits: int) -> list[int]:
    """A unit on a rung as it counts under a bound."""
    weight = min(int(2**bits * (rung / norm)), 2**bits)
    return [weight * int(integer) for integer in integers]
