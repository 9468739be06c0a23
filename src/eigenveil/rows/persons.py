"""`Blocks`: rows of whole persons, the unit of privacy where a person has many rows."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import CapacityError, InvalidDataError
from .units import NOT_PERSONS, Units
from .weighted import Weighted

TWICE = (
    "A person's rows lie in two batches, where they would count for two persons; bring all rows of a person together "
    "before they are read."
)
# Sums over the rows of a person, integers of 26 bits each, stay exact in float64.
_MOST_ROWS = 2**26


@dataclass(frozen=True, eq=False, repr=False)
class Blocks:
    """A batch of rows in which the rows of one person lie together, and all of them lie in this batch.

    What a source yields where persons are the unit. Private data, the number of rows included, so it prints none of it.

    Parameters
    ----------
    rows : ndarray or CSR matrix of shape (m, d)
        The rows, person after person.
    starts : ndarray of int64, of shape (persons,)
        The position of the first row of every person, ascending from 0; no person is without rows.
    keys : ndarray of uint64, of shape (persons, 2)
        A digest of every person's identifier, the same in every source: persons have a public order that depends on
        identifiers alone.
    """

    rows: Any
    starts: NDArray[np.int64]
    keys: NDArray[np.uint64]

    @property
    def n_persons(self) -> int:
        """How many persons there are."""
        return self.starts.size

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many rows every person has."""
        return np.diff(self.starts, append=self.rows.shape[0])

    def checked(self) -> Self:
        """Return these blocks, or raise where they are none."""
        starts, n_rows = self.starts, self.rows.shape[0]
        whole = starts.ndim == 1 and starts.dtype.kind == "i" and starts.size and starts[0] == 0
        if not whole or self.sizes.min() < 1 or self.keys.shape != (starts.size, 2):
            raise InvalidDataError("Blocks need ascending starts from 0, each of at least one row, and two keys each.")
        if n_rows > _MOST_ROWS and self.sizes.max() > _MOST_ROWS:
            raise CapacityError(
                "A person has more rows than can be added exactly; give batches of fewer rows a person."
            )
        return self


def units_of(takes_persons: bool, X: Any) -> Units:
    """Return a batch as units; raise where it is not one of persons, or one where it should not be.

    Examples
    --------
    >>> batch = Blocks(np.zeros((3, 2)), np.array([0, 2]), np.zeros((2, 2), dtype=np.uint64))
    >>> units_of(True, batch).n_units
    2
    """
    if isinstance(X, Weighted):
        raise InvalidDataError("These rows have weights; give the largest weight that is allowed.")
    if not isinstance(X, Blocks):
        if takes_persons:
            raise InvalidDataError(NOT_PERSONS)
        return Units(X)
    if not takes_persons:
        raise InvalidDataError("The unit is one row, and these batches are of persons; give the weight of a person.")
    return Units(X.rows, X.checked().starts)
