"""What one of the integers that leave is worth: asked here, and nowhere else in an audit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..laws.base import Values
from ..laws.central import CentralLaw

Stacks = Mapping[str, NDArray[Any]]
"""The integers of many releases by name, one array a name, stacked along the first axis."""


def shift(law: CentralLaw, grid: int, name: str) -> int:
    """Return s where one of the integers `name` is worth 2^s units: of the grid, or of the grid of directions.

    A law that leaves coarser or finer integers than these says so by `shifts(grid)`, which maps names to s.
    """
    return law.shifts(grid).get(name, 0)


def unit(law: CentralLaw, grid: int, name: str) -> float:
    """Return the value of one of the integers `name`, for rows of norm at most 1."""
    return law.units(grid, 1 / grid)[name]


def stacked(drawn: Sequence[Mapping[str, Any]]) -> Stacks:
    """Return the arrays of many releases, stacked."""
    return {name: np.array([one[name] for one in drawn]) for name in drawn[0]}


def numbers(law: CentralLaw, grid: int, integers: Stacks) -> Values:
    """Return stacked integers as numbers, for rows of norm at most 1."""
    return {name: stack * unit(law, grid, name) for name, stack in integers.items()}
