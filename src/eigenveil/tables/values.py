"""What one value of a table says, by its own nature: as a category, a number, a truth value.

A rule here sees one value and nothing else. The type of its column, which another row may have changed, plays no role.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from .schema import label_number, label_text

TRUE, FALSE = ("true", "yes", "t", "y", "1"), ("false", "no", "f", "n", "0")
"""The words of truth values, in small letters."""
MISSING, NO_LABEL = -1, -2
"""What `Labels.place` gives for a missing value, and for one that no label matches."""
_LABELS_OF_TRUTH = {"true": True, "false": False}


class Labels:
    """The labels of a category, and which of them a value matches.

    A truth value matches the label true or false. A number matches the label that is an equal number, where all
    numbers are taken as float64. Text matches the label that it is without the blanks around it; true and false in any
    case. Anything else matches nothing.

    Parameters
    ----------
    labels : sequence of str
        Those of a `Column`, no two of which match one value.

    Examples
    --------
    >>> labels = Labels(("1", "true", "x"))
    >>> [labels.place(value) for value in (1.0, True, " x ", "TRUE", "1.0", None)]
    [0, 1, 2, 1, -2, -1]
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.texts: list[str] = [label_text(label) for label in labels]
        self.numbers: list[float | None] = [label_number(label) for label in labels]
        self.truths: list[bool | None] = [_LABELS_OF_TRUTH.get(text) for text in self.texts]
        self._of_text = {text: place for place, text in enumerate(self.texts)}
        self._of_number = {number: place for place, number in enumerate(self.numbers) if number is not None}

    def place(self, value: Any) -> int:
        """Return the position of the label that a value matches, `MISSING` or `NO_LABEL`."""
        if isinstance(value, str):
            text = label_text(value)
            return self._of_text.get(text, NO_LABEL) if text else MISSING
        if is_missing(value):
            return MISSING
        if isinstance(value, bool | np.bool_):
            return self._of_text.get("true" if value else "false", NO_LABEL)
        number = number_of(value)
        return NO_LABEL if math.isnan(number) else self._of_number.get(number, NO_LABEL)


def number_of(value: Any) -> float:
    """Return a number as the nearest float64, a truth value as 0 or 1, and NaN for anything else."""
    if not isinstance(value, bool | np.bool_ | int | float | np.integer | np.floating | Decimal):
        return math.nan
    try:
        return float(value)
    except (OverflowError, ValueError):  # an integer beyond all floats, a signalling NaN
        return math.nan


def truth_of(value: Any) -> float:
    """Return a truth value, a number or a word of `TRUE` and `FALSE` as a number, and NaN for anything else."""
    if not isinstance(value, str):
        return number_of(value)
    word = value.strip().lower()
    return 1.0 if word in TRUE else 0.0 if word in FALSE else math.nan


def is_missing(value: Any) -> bool:
    """Tell whether a value is None, NaN, or what pandas writes for a missing one."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating) and math.isnan(value)
