"""`Units`: a batch of rows that is cut between whole units only, whatever the unit is."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

NOT_PERSONS = (
    "The unit is a person with all of their rows; give batches of whole persons, or name the column of persons."
)


@dataclass(frozen=True, eq=False, repr=False)
class Units:
    """Rows of whole units of privacy.

    Parameters
    ----------
    rows : ndarray or CSR matrix of shape (m, d)
        Unit after unit.
    starts : ndarray of int64, optional
        The position of the first row of every person; None where each row is a unit.
    shares : ndarray of int64, optional
        The public weight of every row, in units of 2^-32 of the largest; None where each counts once.

    Examples
    --------
    >>> persons = Units(np.zeros((6, 1)), np.array([0, 1, 4]))
    >>> [(part.n_units, part.rows.shape[0]) for part in persons.pieces(most_rows=2, most_units=8)]
    [(1, 1), (1, 3), (1, 2)]
    """

    rows: Any
    starts: IntArray | None = None
    shares: IntArray | None = None

    @property
    def n_units(self) -> int:
        """How many units there are."""
        return int(self.rows.shape[0] if self.starts is None else self.starts.size)

    def part(self, low: int, high: int) -> Self:
        """Return the units from `low` to before `high`."""
        if self.starts is None:
            return type(self)(self.rows[low:high], shares=None if self.shares is None else self.shares[low:high])
        first, end = self._row(low), self._row(high)
        return type(self)(self.rows[first:end], self.starts[low:high] - first)

    def pieces(self, most_rows: int, most_units: int) -> Iterator[Self]:
        """Yield parts of at most so many rows and units; a unit with more rows than that is a part by itself."""
        low = 0
        while low < self.n_units:
            high = low + most_units
            if self.starts is None:
                high = min(high, low + most_rows)
            else:  # as many as end in time
                ends = int(np.searchsorted(self.starts, self._row(low) + most_rows, side="right")) - 1
                fit = self.n_units if self._row(self.n_units) <= self._row(low) + most_rows else ends
                high = min(high, max(low + 1, fit))
            high = min(high, self.n_units)
            yield self.part(low, high)
            low = high

    def split(self, parts: int) -> list[Self]:
        """Return at most so many parts of about as many rows."""
        cuts = np.linspace(0, self.rows.shape[0], parts + 1, dtype=np.int64)
        if self.starts is not None:
            cuts = np.unique(np.searchsorted(self.starts, cuts))
        return [self.part(int(low), int(high)) for low, high in pairwise(cuts)]

    def with_rows(self, rows: Any) -> Self:
        """Return the same units in other rows, as many of each."""
        return type(self)(rows, self.starts, self.shares)

    def _row(self, unit: int) -> int:
        """Return the position of the first row of a unit; one after the last of all is that after the last row."""
        starts = self.starts
        return int(self.rows.shape[0] if starts is None or unit >= starts.size else starts[unit])
