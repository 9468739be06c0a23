"""Batches of rows that are cut between whole units only, with weights, and read by several threads."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import Any, Self, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from .. import numerics
from ..errors import InvalidDataError
from ..numerics import IntArray
from .numpy_kernels import unit_sizes

NOT_WHOLE_UNITS = (
    "The privacy unit has several rows. Give batches of whole privacy units, or name the column by privacy_unit."
)
# Entries of CSR rows that are made dense at once, zeros included.
_DENSE_ENTRIES = 2**22


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
        """Number of units."""
        return int(self.rows.shape[0] if self.starts is None else self.starts.size)

    def part(self, low: int, high: int) -> Self:
        """Return the units from `low` to before `high`."""
        if low == 0 and high >= self.n_units:
            return self
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

    @property
    def sizes(self) -> IntArray:
        """Number of rows of every unit."""
        return unit_sizes(np.arange(self.n_units) if self.starts is None else self.starts, self.rows.shape[0])

    def some(self, which: IntArray) -> Self:
        """Return the privacy units that are listed, at least one."""
        assert self.starts is not None
        sizes = self.sizes[which]
        ends = np.cumsum(sizes)
        places = np.arange(ends[-1]) + np.repeat(self.starts[which] - ends + sizes, sizes)
        return type(self)(self.rows[places], ends - sizes)

    def with_rows(self, rows: Any) -> Self:
        """Return units of as many rows each, made of other rows."""
        return type(self)(rows, self.starts, self.shares)

    def _row(self, unit: int) -> int:
        """Return the position of the first row of a unit; one after the last of all is that after the last row."""
        starts = self.starts
        return int(self.rows.shape[0] if starts is None or unit >= starts.size else starts[unit])


def canonical_rows(matrix: Any) -> Any:
    """Return CSR rows with every column at most once, in order; or raise where an entry is outside the matrix.

    What the matrix says of itself is not believed: an entry that came twice would be clipped as two, and added as one.

    Examples
    --------
    >>> twice = scipy.sparse.csr_array(([0.5, 0.5], [1, 1], [0, 2]), shape=(1, 2))
    >>> twice.has_canonical_format = True
    >>> canonical_rows(twice).data
    array([1.])
    """
    given = matrix.tocsr()
    rows = scipy.sparse.csr_array((given.data, given.indices, given.indptr), shape=given.shape)
    try:
        rows.check_format(full_check=True)
    except ValueError:
        raise InvalidDataError("The sparse matrix has entries at impossible positions; make it anew.") from None
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def with_first(left: NDArray[np.bool_]) -> IntArray:
    """Return the places of what was left, after the first once more: so the time does not tell whether any was left."""
    return np.append(0, np.flatnonzero(left))


SHARE_BITS = 32
"""Weights are read as integers of 2^-32 of the largest, so that their sum is exact."""


@dataclass(frozen=True, eq=False, repr=False)
class Weighted:
    """A batch of rows with public weights: what is known of a row before anyone looks at it, as in a survey.

    The weights are public, and so is their sum; a replaced row keeps the weight of its place.

    Parameters
    ----------
    rows : ndarray or CSR matrix of shape (m, d)
    weights : ndarray of shape (m,)
        Finite numbers of at least 0, and at most the largest that the rule allows.

    Examples
    --------
    >>> Weighted(np.zeros((2, 1)), np.array([1.0, 0.5])).units(2.0).shares.tolist()
    [2147483648, 1073741824]
    """

    rows: Any
    weights: NDArray[np.float64]

    def units(self, most_weight: float) -> Units:
        """Return the rows as units with the share that each has of the largest weight."""
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.shape != (self.rows.shape[0],):
            raise InvalidDataError("There must be one weight for every row.")
        if not ((weights >= 0) & (weights <= most_weight)).all():
            raise InvalidDataError("Weights must be finite, at least 0, and at most the largest that is allowed.")
        return Units(self.rows, shares=np.rint(np.ldexp(weights / most_weight, SHARE_BITS)).astype(np.int64))


def without_weights(X: Any) -> Any:
    """Return a batch without its weights, for what counts rows."""
    return X.rows if isinstance(X, Weighted) else X


TWICE = (
    "The rows of one privacy unit are in two batches and would count as two units; bring all rows of a unit together "
    "before they are read."
)


@dataclass(frozen=True, eq=False, repr=False)
class Blocks:
    """A batch of rows in which the rows of one person lie together, and all of them lie in this batch.

    What a source yields where a privacy unit is given. Private data, the number of rows included, so it prints none of
    it.

    Parameters
    ----------
    rows : ndarray or CSR matrix of shape (m, d)
        The rows, person after person.
    starts : ndarray of int64, of shape (privacy units,)
        The position of the first row of every person, ascending from 0; no person is without rows.
    keys : ndarray of uint64, of shape (privacy units, 2)
        A digest of every person's identifier, the same in every source: privacy units have a public order that depends
        on identifiers alone.
    """

    rows: Any
    starts: NDArray[np.int64]
    keys: NDArray[np.uint64]

    @property
    def n_privacy_units(self) -> int:
        """Number of privacy units."""
        return self.starts.size

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of every person."""
        return unit_sizes(self.starts, self.rows.shape[0])

    def checked(self) -> Self:
        """Refuse blocks with wrong starts or keys; return them otherwise."""
        starts = self.starts
        whole = starts.ndim == 1 and starts.dtype.kind == "i" and starts.size and starts[0] == 0
        if not whole or self.sizes.min() < 1 or self.keys.shape != (starts.size, 2):
            raise InvalidDataError("Blocks need ascending starts from 0, each of at least one row, and two keys each.")
        return self


def units_of(takes_units: bool, X: Any) -> Units:
    """Return a batch as units; raise where it is not one of privacy units, or one where it should not be.

    Examples
    --------
    >>> batch = Blocks(np.zeros((3, 2)), np.array([0, 2]), np.zeros((2, 2), dtype=np.uint64))
    >>> units_of(True, batch).n_units
    2
    """
    if isinstance(X, Weighted):
        raise InvalidDataError("These rows have weights; give the largest weight that is allowed.")
    if not isinstance(X, Blocks):
        if takes_units:
            raise InvalidDataError(NOT_WHOLE_UNITS)
        return Units(X)
    if not takes_units:
        raise InvalidDataError("The unit is one row, and these batches are of privacy units. Give unit_weight=.")
    return Units(X.rows, X.checked().starts)


def in_blocks(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield batches, those of CSR rows in parts that are small when they are made dense."""
    for batch in batches:
        rows, low = batch.rows if isinstance(batch, Blocks | Weighted) else batch, 0
        if not scipy.sparse.issparse(rows) or rows.shape[0] * rows.shape[1] <= _DENSE_ENTRIES:
            yield batch
            continue
        units = Units(rows, batch.checked().starts if isinstance(batch, Blocks) else None)
        for part in units.pieces(max(1, _DENSE_ENTRIES // rows.shape[1]), units.n_units):
            high = low + part.n_units
            if part.starts is not None:
                yield Blocks(part.rows, part.starts, batch.keys[low:high])
            else:
                yield Weighted(part.rows, batch.weights[low:high]) if isinstance(batch, Weighted) else part.rows
            low = high


Batch = TypeVar("Batch")
Part = TypeVar("Part")


class InBatches:
    """Base of statistics that add the rows of one batch at a time."""

    def update(self, X: Any) -> Self:
        """Add the rows of a dense or SciPy-sparse matrix."""
        raise NotImplementedError

    def update_from(self, batches: Iterable[Any]) -> Self:
        """Add the rows of all batches."""
        for batch in batches:
            self.update(batch)
        return self


class InThreads(InBatches):
    """Base of statistics that are the sum of what each batch comes to by itself, in any order."""

    def _of(self, X: Any) -> Any:
        """Return the statistic of one batch; other threads ask for other batches meanwhile."""
        raise NotImplementedError

    def _add(self, part: Any) -> None:
        """Add the statistic of one batch."""
        raise NotImplementedError

    def update(self, X: Any) -> Self:
        """Add the rows of a dense or SciPy-sparse matrix, or `Blocks` where a privacy unit is given."""
        self._add(self._of(X))
        return self

    def update_from(self, batches: Iterable[Any]) -> Self:
        """Add the rows of all batches; one must stay as it is while the next ones are read."""
        for part in side_by_side(self._of, in_blocks(batches)):
            self._add(part)
        return self


def side_by_side(
    work: Callable[[Batch], Part], batches: Iterable[Batch], alone: Callable[[Batch], Part] | None = None
) -> Iterator[Part]:
    """Yield the result of the work on every batch, in order: by threads, while others are read.

    Each has one BLAS thread. Where there is one batch only, or one core, `alone` does the work, with all cores if it
    can.
    """
    threads, reader = numerics.available_cores(), iter(batches)
    first_two = list(islice(reader, 2))
    batches = chain(first_two, reader)
    if threads == 1 or len(first_two) < 2:
        yield from map(alone or work, batches)
        return
    waiting: deque[Future[Part]] = deque()
    with numerics.one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        for batch in batches:
            waiting.append(pool.submit(work, batch))
            # One batch a thread and one to come, so memory stays flat.
            if len(waiting) > threads:
                yield waiting.popleft().result()
        for future in waiting:
            yield future.result()
