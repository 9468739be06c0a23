"""Counts of columns, in exact integers: the statistics behind ranges and medians that are found privately.

One row adds one to one count of each column, by comparisons alone, so the counts above all points of a column move one
way and by at most 1 where a row is replaced. Where privacy units are the unit, one row of each is counted.

column_counts.c counts where it was compiled and agrees, else NumPy: the same integers.
"""

import ctypes
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from ..errors import InvalidDataError
from ..numerics import FloatArray, IntArray
from . import kernels
from .bound import NOT_FINITE, dense_rows, finite_rows
from .comparisons import block_rows, chosen_rows, public_order
from .units import Blocks, InBatches, side_by_side, without_weights

# All points are powers of the root of 2: roots round alike on all machines, and so do products with powers of two.
_FIRST_SIZE, _FIRST_VALUE, _LAST_VALUE = -2000, -200, 322


def _halves_of_octaves(first: int, last: int) -> FloatArray:
    steps = np.arange(first, last + 1)
    return np.asarray(np.ldexp(np.where(steps % 2, math.sqrt(2.0), 1.0), steps // 2))


SIZES = _halves_of_octaves(_FIRST_SIZE, 200)
"""Half of a difference is counted between these, steps of half an octave from 2^-1000 to 2^100."""
_VALUES = _halves_of_octaves(_FIRST_VALUE, _LAST_VALUE)
# So few points are all compared with a number, which is quicker than to find its place among them.
_FEW_POINTS = 8


class ColumnCounts(InBatches):
    """Counts of the numbers of every column, between public points of its own.

    Private data like `SecondMoments`, and like it collected in parts, anywhere, and added up.

    Parameters
    ----------
    points : sequence of ndarray
        Ascending points, one array a column.
    columns : sequence of int, optional
        The columns that are counted; all by default.

    Examples
    --------
    >>> counts = ColumnCounts([np.array([0.0, 1.0]), np.array([5.0])]).update(np.array([[0.5, 5.0], [2.0, 6.0]]))
    >>> [column.tolist() for column in counts.above()]
    [[2, 1], [1]]
    """

    def __init__(self, points: Sequence[FloatArray], columns: Sequence[int] | None = None) -> None:
        self.points = tuple(points)
        self.columns = tuple(range(len(self.points)) if columns is None else columns)
        self.n_rows = 0
        self._bins = [np.zeros(places.size + 1, dtype=np.int64) for places in self.points]

    @classmethod
    def of(
        cls, points: Sequence[FloatArray], columns: Sequence[int], n_rows: int, bins: Iterable[IntArray]
    ) -> "ColumnCounts":
        """Return counts that were made elsewhere."""
        made = cls(points, columns)
        made.n_rows, made._bins = n_rows, list(bins)
        return made

    def update(self, X: Any) -> Self:
        """Add the rows of a dense or SciPy-sparse matrix, or one row of each person of `Blocks`."""
        rows = chosen_rows(X) if isinstance(X, Blocks) else dense_rows(without_weights(X))
        for bins, more in zip(self._bins, between(rows, self.points, self.columns), strict=True):
            bins += more
        self.n_rows += rows.shape[0]
        return self

    def __add__(self, other: Self) -> Self:
        total = type(self)(self.points, self.columns)
        total.n_rows = self.n_rows + other.n_rows
        total._bins = [mine + its for mine, its in zip(self._bins, other._bins, strict=True)]
        return total

    def above(self) -> tuple[IntArray, ...]:
        """Return, for each column, the number of rows above each of its points."""
        return tuple(self.n_rows - np.cumsum(bins)[:-1] for bins in self._bins)


class RangeCounts:
    """All that ranges are found from but their last steps, in one reading: sizes of differences, and of numbers.

    Rows stand in their public order, and disjoint pairs of them are compared: the first with the second, the third with
    the fourth. A replaced row changes one pair, and its own numbers.

    Parameters
    ----------
    columns : sequence of int
        The columns that are counted.

    Examples
    --------
    >>> counts = RangeCounts([0]).update_from([np.array([[1.0], [4.0]]), np.array([[9.0]])])
    >>> counts.n_rows, counts.pairs.n_rows
    (3, 1)
    >>> [column.tolist() for column in counts.at([np.array([-2.0, 2.0, 4.0])]).above()]
    [[3, 2, 1]]
    """

    def __init__(self, columns: Sequence[int]) -> None:
        self.columns, self.n_rows = tuple(columns), 0
        self._n_pairs = 0
        self._pairs, self._values = _empty_bins(len(self.columns))

    def update_from(self, batches: Iterable[Any]) -> Self:
        """Add the rows of all batches, in this one call; one must stay as it is while the next ones are read."""
        of_block = functools.partial(_counted_block, columns=self.columns)
        for n_rows, pairs, values in side_by_side(of_block, _blocks(batches)):
            self.n_rows += n_rows
            self._n_pairs += n_rows // 2
            self._pairs += pairs
            self._values += values
        return self

    @property
    def pairs(self) -> ColumnCounts:
        """Counts of half the distances of disjoint pairs, between `SIZES`."""
        return ColumnCounts.of([SIZES] * len(self.columns), self.columns, self._n_pairs, self._pairs)

    def at(self, points: Sequence[FloatArray]) -> ColumnCounts:
        """Return counts of the numbers between points that are plus or minus a power of the root of 2.

        Such a power is from 2^-100 to 2^161.
        """
        made = []
        # Positive numbers beyond a point, and negative ones at it or beyond it.
        beyond = np.cumsum(self._values[:, :, ::-1], axis=2)[:, :, -2::-1]
        for column, places in zip(beyond, points, strict=True):
            at = np.searchsorted(_VALUES, np.abs(places))
            assert np.array_equal(_VALUES[at], np.abs(places))
            ends = np.empty(places.size + 2, dtype=np.int64)
            ends[0], ends[-1] = 0, self.n_rows
            ends[1:-1] = np.where(places > 0, self.n_rows - column[0, at], column[1, at])
            made.append(ends[1:] - ends[:-1])
        return ColumnCounts.of(points, self.columns, self.n_rows, made)


def _blocks(batches: Iterable[Any]) -> Iterator[tuple[int, list[FloatArray]]]:
    """Yield the blocks of `public_order` with their numbers, each as parts of batches, which are not copied."""
    parts: list[FloatArray] = []
    there, number = 0, 0
    for batch in batches:
        rows = dense_rows(batch)
        size = block_rows(rows.shape[1])
        while (room := size - there) <= rows.shape[0]:
            yield number, [*parts, rows[:room]]
            parts, there, number, rows = [], 0, number + 1, rows[room:]
        parts.append(rows)
        there += rows.shape[0]
    if there:
        yield number, parts


def _counted_block(block: tuple[int, list[FloatArray]], columns: tuple[int, ...]) -> tuple[int, IntArray, IntArray]:
    number, parts = block
    order = public_order(sum(part.shape[0] for part in parts), number)
    compiled = _compiled()
    return (order.size, *(numpy_pairs if compiled is None else compiled.pairs)(parts, order, columns))


def half_differences(rows: FloatArray) -> FloatArray:
    """Return half the distance of the numbers of disjoint pairs of rows, column by column.

    The first row is paired with the second, the third with the fourth; an odd one at the end has no partner. Halves, so
    that numbers of 1e308 do not overflow. A replaced row changes one pair.

    Examples
    --------
    >>> half_differences(np.array([[1.0], [4.0], [9.0]])).tolist()
    [[1.5]]
    """
    half = 0.5 * rows[: rows.shape[0] // 2 * 2]
    return np.asarray(np.abs(half[::2] - half[1::2]))


def _empty_bins(n_columns: int) -> tuple[IntArray, IntArray]:
    """Return bins of half differences, and of positive and of negative numbers."""
    values = np.zeros((n_columns, 2, _VALUES.size + 1), dtype=np.int64)
    return np.zeros((n_columns, SIZES.size + 1), dtype=np.int64), values


def numpy_pairs(parts: list[FloatArray], order: IntArray, columns: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Return the bins of a block of rows; positive numbers by the points below, negative ones by those within."""
    rows = finite_rows(np.concatenate(parts))[order]
    (pairs, values), apart = _empty_bins(len(columns)), half_differences(rows)
    for at, column in enumerate(columns):
        pairs[at] = _in_bins(SIZES, apart[:, column])
        numbers = rows[:, column]
        negative = np.signbit(numbers)
        values[at, 0] = _in_bins(_VALUES, numbers[~negative])
        values[at, 1] = _in_bins(_VALUES, -numbers[negative], "right")
    return pairs, values


def numpy_between(rows: FloatArray, points: Sequence[FloatArray], columns: Sequence[int]) -> list[IntArray]:
    """Return the bins of numbers between the points of their columns."""
    finite_rows(rows)
    return [_in_bins(places, rows[:, column]) for places, column in zip(points, columns, strict=True)]


def _in_bins(points: FloatArray, numbers: FloatArray, side: Any = "left") -> IntArray:
    return np.bincount(np.searchsorted(points, numbers, side=side), minlength=points.size + 1)


def between(rows: FloatArray, points: Sequence[FloatArray], columns: Sequence[int]) -> list[IntArray]:
    """Return, for some columns of dense rows, how many of their numbers lie between which of its ascending points."""
    compiled = _compiled()
    return (numpy_between if compiled is None or not points else compiled.between)(rows, points, columns)


class CompiledCounts:
    """The functions of column_counts.c. Each returns what its namesake in NumPy does.

    Parameters
    ----------
    library : ctypes.CDLL
    """

    def __init__(self, library: Any) -> None:
        place, size, whole, distance = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_ssize_t
        grid, back = (whole, size), {"returns": ctypes.c_int}
        paired = (place, size, size, place, size, *grid, *grid, place, place)
        self._pairs = kernels._function(library.eigenveil_count_pairs, *paired, **back)
        counted = (place, distance, size, place, size, *(place,) * 6)
        self._between = kernels._function(library.eigenveil_count_columns, *counted, **back)
        few = (place, distance, size, size, place, size, place)
        self._few = kernels._function(library.eigenveil_count_few, *few, **back)

    def pairs(self, parts: list[FloatArray], order: IntArray, columns: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Count the pairs and the numbers of a block."""
        parts = [_row_by_row(part) for part in parts]
        rows = np.concatenate([part.ctypes.data + part.strides[0] * np.arange(len(part)) for part in parts])[order]
        pairs, values = _empty_bins(len(columns))
        grids = _FIRST_SIZE, SIZES.size + 1, _FIRST_VALUE, _VALUES.size + 1
        chosen = np.array(columns, dtype=np.int64)
        _refuse(self._pairs(rows, rows.size, parts[0].shape[1], chosen, chosen.size, *grids, pairs, values))
        return pairs, values

    def between(self, rows: FloatArray, points: Sequence[FloatArray], columns: Sequence[int]) -> list[IntArray]:
        """Count the numbers between points."""
        rows = _row_by_row(rows)
        most_points = max(places.size for places in points)
        if most_points <= _FEW_POINTS and tuple(columns) == tuple(range(rows.shape[1])):
            return self._between_few(rows, points, most_points)
        # The place of a number is guessed as if points were evenly spaced, which they mostly are.
        low, steps = (np.array(ends) for ends in zip(*map(_even, points), strict=True))
        joined = np.concatenate([part for places in points for part in ([-np.inf], places, [np.inf])])
        starts = np.cumsum([0, *(places.size + 2 for places in points)])
        bins, chosen = np.zeros(joined.size, dtype=np.int64), np.array(columns, dtype=np.int64)
        shape = rows.strides[0] // rows.itemsize, len(rows), chosen, chosen.size
        most = np.diff(starts) - 2.0
        _refuse(self._between(rows, *shape, joined, starts, low, steps, most, bins))
        return [part[:-1] for part in np.split(bins, starts[1:-1])]

    def _between_few(self, rows: FloatArray, points: Sequence[FloatArray], most_points: int) -> list[IntArray]:
        (n, d), by_place = rows.shape, np.full((most_points, rows.shape[1]), np.inf)
        for column, places in enumerate(points):
            by_place[: places.size, column] = places
        above = np.zeros((most_points + 2, d), dtype=np.int64)
        above[0] = n
        _refuse(self._few(rows, rows.strides[0] // rows.itemsize, n, d, by_place, most_points, above[1:]))
        bins = above[:-1] - above[1:]
        return [bins[: places.size + 1, column] for column, places in enumerate(points)]


def _refuse(not_finite: int) -> None:
    if not_finite:
        raise InvalidDataError(NOT_FINITE)


def _row_by_row(rows: FloatArray) -> FloatArray:
    """Return the rows as they are compiled for: each in one piece, as they lie or as a copy."""
    in_pieces = rows.shape[1] > 1 and rows.strides[1] != rows.itemsize
    return np.ascontiguousarray(rows) if in_pieces or not rows.flags.aligned else rows


def _even(points: FloatArray) -> tuple[float, float]:
    """Return where equal steps of points begin, a step before the first, and how many there are to 1."""
    if points.size < 2:
        return 0.0, 0.0
    with np.errstate(over="ignore"):
        step = (points[-1] - points[0]) / (points.size - 1)
        return float(points[0] - step), float(1 / step)


@functools.cache
def _compiled() -> CompiledCounts | None:
    """Return the compiled counts, if there are any and they give what NumPy gives."""
    try:
        counts = CompiledCounts(ctypes.CDLL(str(kernels._LIBRARY)))
    except (OSError, AttributeError):
        return None
    return counts if _agrees(counts) else None


def _agrees(counts: CompiledCounts) -> bool:
    """Compare both ways on points of the grids, on numbers a bit beside them, and on the extreme ones."""
    of_grids = np.concatenate([SIZES[::97], _VALUES[::23], [0.0, 5e-324, 1e308]])
    beside = np.concatenate([np.nextafter(of_grids, 0.0), of_grids, np.nextafter(of_grids, np.inf)])
    rows = np.concatenate([beside, -beside[::-1], 2 * beside[:3]]).reshape(-1, 3)
    order, points = np.arange(len(rows))[::-1].copy(), [beside[3:9], np.linspace(-1.0, 1.0, 5), np.sort(-beside)]
    same = all(map(np.array_equal, counts.pairs([rows], order, [2, 0]), numpy_pairs([rows], order, [2, 0])))
    for some in (points, [beside[3:9], np.linspace(-1.0, 1.0, 5), np.array([0.0])]):
        both = (way(rows, some, [0, 1, 2]) for way in (counts.between, numpy_between))
        same &= all(map(np.array_equal, *both))
    return same
