"""From a row of numbers to bounded integers: the bound, differences of rows, counts of norms."""

from .bound import RowBound

__all__ = ["RowBound"]
