"""`ScoreCounts`: how many units lie in each cell of a map of scores, in exact integers.

A unit is in one cell at most, and which one depends on its own rows alone: not on the batch, the order or the layout.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError
from ..score_grid import ENTRY_BITS, FloatArray, ScoreGrid
from .bound import finite_rows
from .in_batches import InBatches
from .persons import TWICE, Blocks
from .seen import SeenKeys
from .units import NOT_PERSONS
from .weighted import without_weights


class ScoreCounts(InBatches):
    """Counts of rows, or of persons by their average row, in the cells of a grid. Private data.

    A person counts in a group where all of their rows do.

    Parameters
    ----------
    grid : ScoreGrid
    by_person : bool
        Whether batches are of whole persons.

    Examples
    --------
    >>> ends = np.array([[-1.0, 1.0], [-1.0, 1.0]])
    >>> grid = ScoreGrid.of(np.zeros(2), np.ones(2), np.eye(2), ends, (2, 2), (0, 1))
    >>> ScoreCounts(grid).update(np.array([[0.5, 0.5], [-9.0, 0.1], [-0.1, 0.2]])).in_cells.tolist()
    [[[0, 2], [0, 1]]]
    """

    def __init__(self, grid: ScoreGrid, by_person: bool = False) -> None:
        self.grid, self.by_person = grid, by_person
        self.n_units = 0
        self._seen = SeenKeys()
        self._in_cells: NDArray[np.int64] = np.zeros(grid.shape, dtype=np.int64)

    @property
    def in_cells(self) -> NDArray[np.int64]:
        """The private counts, by group and cell."""
        return self._in_cells

    def update(self, X: Any) -> Self:
        """Add the rows of a dense or SciPy-sparse matrix, or the persons of `Blocks`."""
        starts = None
        if isinstance(X, Blocks) != self.by_person:
            raise InvalidDataError(NOT_PERSONS if self.by_person else "The unit is one row; give rows, not persons.")
        if isinstance(X, Blocks):
            X.checked()
            if not self._seen.add(X.keys):
                raise InvalidDataError(TWICE)
            starts, X = X.starts, X.rows
        rows = finite_rows(without_weights(X))
        if rows.shape[1] != len(self.grid.shift):
            raise InvalidDataError(f"The rows have {rows.shape[1]} features, and the map {len(self.grid.shift)}.")
        integers, places = self._integers(rows), self._groups(rows)
        if starts is not None:
            sizes = np.diff(starts, append=len(rows))
            integers = np.trunc(np.add.reduceat(integers, starts) / sizes[:, None])
            lowest, highest = (ends.reduceat(places, starts) for ends in (np.minimum, np.maximum))
            places = np.where(lowest == highest, lowest, -1)
        x, y = self._bins(integers)
        kept = places >= 0
        flat = np.ravel_multi_index((places[kept], x[kept], y[kept]), self.grid.shape)
        self._in_cells += np.bincount(flat, minlength=self._in_cells.size).reshape(self.grid.shape)
        self.n_units += len(places)
        return self

    def __add__(self, other: Self) -> Self:
        total = type(self)(self.grid, self.by_person)
        seen = self._seen.joined(other._seen)
        if other.grid != self.grid or other.by_person != self.by_person or seen is None:
            raise InvalidDataError(TWICE if seen is None else "Counts of different maps do not add up.")
        total.n_units, total._seen = self.n_units + other.n_units, seen
        total._in_cells = self._in_cells + other._in_cells
        return total

    def _integers(self, rows: FloatArray) -> FloatArray:
        """Return rows as integers, entry by entry."""
        with np.errstate(over="ignore"):
            scaled = (rows - np.asarray(self.grid.shift)) * np.asarray(self.grid.factor)
        return np.asarray(np.trunc(np.clip(scaled, -(2.0**ENTRY_BITS), 2.0**ENTRY_BITS)))

    def _bins(self, integers: FloatArray) -> list[NDArray[np.int64]]:
        """Return the cells of integer rows along both directions; all sums are integers below 2^53, so exact."""
        found = []
        scores = (integers @ np.array(self.grid.weights, dtype=np.float64).T).astype(np.int64)
        for column, (low, high), count in zip(scores.T, self.grid.frame, self.grid.bins, strict=True):
            found.append(np.clip((np.clip(column, low, high) - low) * count // (high - low), 0, count - 1))
        return found

    def _groups(self, rows: FloatArray) -> NDArray[np.int64]:
        """Return the group of every row; -1 where it is in none."""
        if not self.grid.groups:
            return np.zeros(len(rows), dtype=np.int64)
        places = np.full(len(rows), -1, dtype=np.int64)
        for place, (_, where) in enumerate(self.grid.groups):
            hit = np.all([rows[:, feature] == value for feature, value in where], axis=0)
            places[hit & (places < 0)] = place
        return places
