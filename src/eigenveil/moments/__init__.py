"""From rows to exact integer statistics: the bound on a row, comparisons, counts and second moments."""

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .bound import RowBound
    from .row_rule import RowRule
    from .second_moments import SecondMoments


__all__ = ["RowBound", "RowRule", "SecondMoments"]

_HOMES = {
    "RowBound": "bound",
    "RowRule": "row_rule",
    "SecondMoments": "second_moments",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
