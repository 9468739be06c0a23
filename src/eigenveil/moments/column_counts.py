"""Counts of columns, in exact integers: the statistics behind ranges and medians that are found privately.

One row adds one to one count of each column, by comparisons alone, so the counts above all points of a column move one
way and by at most 1 where a row is replaced. Where privacy units are the unit, one row of each is counted.

column_counts.c counts where it was compiled and agrees, else NumPy: the same integers.
"""

import ctypes
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .. import numerics
from ..errors import InvalidDataError
from ..numerics import FloatArray, IntArray, taking_arrays
from . import kernels, numpy_kernels
from .bound import NOT_FINITE, dense_rows, finite_rows, row_by_row, rows_as_they_lie
from .comparisons import block_rows, chosen_rows, public_order
from .counts import NormCounts, RowSizes
from .kernels import Candidates, Rows, RowsByColumn, count_by_norm
from .units import Blocks, InThreads, side_by_side, units_of, without_weights

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
# Counts of column_counts.c have 32 bits.
_MOST_COUNTED = 2**31
# As in column_counts.c: points are this far from even, in steps, or less. A number is then found by its place among
# equal steps, and compared with one point at most on either side.
_MOST_UNEVEN = 0.25


class ColumnCounts(InThreads):
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

    def _of(self, X: Any) -> tuple[int, list[IntArray]]:
        """Return how many rows a batch has, and their bins; of `Blocks`, of one row of each person."""
        rows = chosen_rows(X) if isinstance(X, Blocks) else rows_as_they_lie(without_weights(X))
        return rows.shape[0], between(rows, self.points, self.columns)

    def _add(self, part: tuple[int, list[IntArray]]) -> None:
        n_rows, counted = part
        for bins, more in zip(self._bins, counted, strict=True):
            bins += more
        self.n_rows += n_rows

    def __add__(self, other: Self) -> Self:
        total = type(self)(self.points, self.columns)
        total.n_rows = self.n_rows + other.n_rows
        total._bins = [mine + its for mine, its in zip(self._bins, other._bins, strict=True)]
        return total

    def above(self) -> tuple[IntArray, ...]:
        """Return, for each column, the number of rows above each of its points."""
        return tuple(self.n_rows - np.cumsum(bins)[:-1] for bins in self._bins)


class SizesAndColumns(RowSizes):
    """Counts of the norms of rows, as `RowSizes` has them, and of the numbers of their columns, in one reading.

    Parameters
    ----------
    shift, scale, unit_weight
        Those of `RowSizes`.
    points, columns
        Those of `ColumnCounts`, of numbers as they are.

    Examples
    --------
    >>> counts = SizesAndColumns(None, None, None, [np.array([0.0, 1.0])], [1]).update(np.array([[3.0, 4.0]]))
    >>> counts.n_rows, counts.columns.above()[0].tolist()
    (1, [1, 1])
    """

    def __init__(
        self,
        shift: FloatArray | None,
        scale: FloatArray | None,
        unit_weight: str | None,
        points: Sequence[FloatArray],
        columns: Sequence[int],
    ) -> None:
        super().__init__(shift, scale, unit_weight=unit_weight)
        self.columns = ColumnCounts(points, columns)

    def _of(self, X: Any) -> Any:
        if isinstance(X, Blocks):  # one of whose rows is counted, and the norm of all
            return super()._of(X), self.columns._of(X)
        rows = rows_as_they_lie(units_of(self._weight is not None, without_weights(X)).rows)
        norms = self._norms(rows.shape[1])
        left, bins = norms_and_between(rows, norms, self.columns.points, self.columns.columns)
        return self._with_left(rows, norms, left), (rows.shape[0], bins)

    def _add(self, part: Any) -> None:
        sizes, columns = part
        super()._add(sizes)
        self.columns._add(columns)

    def __add__(self, other: Self) -> Self:
        total = type(self)(self._shift, self._scale, self._weight, self.columns.points, self.columns.columns)
        total.n_rows, total._bins = self.n_rows + other.n_rows, self._bins + other._bins
        total.columns = self.columns + other.columns
        return total


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


def _blocks(batches: Iterable[Any]) -> Iterator[tuple[int, list[Rows]]]:
    """Yield the blocks of `public_order` with their numbers, each as parts of batches, which are not copied."""
    parts: list[Rows] = []
    there, number = 0, 0
    for batch in batches:
        rows = rows_as_they_lie(batch)
        size = block_rows(rows.shape[1])
        while (room := size - there) <= rows.shape[0]:
            yield number, [*parts, rows[:room]]
            parts, there, number, rows = [], 0, number + 1, rows[room:]
        parts.append(rows)
        there += rows.shape[0]
    if there:
        yield number, parts


def _counted_block(block: tuple[int, list[Rows]], columns: tuple[int, ...]) -> tuple[int, IntArray, IntArray]:
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


def numpy_pairs(parts: Sequence[Rows], order: IntArray, columns: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Return the bins of a block of rows; positive numbers by the points below, negative ones by those within."""
    rows = finite_rows(np.concatenate([dense_rows(part) for part in parts]))[order]
    (pairs, values), apart = _empty_bins(len(columns)), half_differences(rows)
    for at, column in enumerate(columns):
        pairs[at] = _in_bins(SIZES, apart[:, column])
        numbers = rows[:, column]
        negative = np.signbit(numbers)
        values[at, 0] = _in_bins(_VALUES, numbers[~negative])
        values[at, 1] = _in_bins(_VALUES, -numbers[negative], "right")
    return pairs, values


def numpy_between(rows: Rows, points: Sequence[FloatArray], columns: Sequence[int]) -> list[IntArray]:
    """Return the bins of numbers between the points of their columns."""
    numbers = finite_rows(rows)
    return [_in_bins(places, numbers[:, column]) for places, column in zip(points, columns, strict=True)]


def _in_bins(points: FloatArray, numbers: FloatArray, side: Any = "left") -> IntArray:
    return np.bincount(np.searchsorted(points, numbers, side=side), minlength=points.size + 1)


def between(rows: Rows, points: Sequence[FloatArray], columns: Sequence[int]) -> list[IntArray]:
    """Return, for some columns of dense rows, how many of their numbers lie between which of its ascending points."""
    fits = bool(points) and all(places.size for places in points) and rows.shape[0] < _MOST_COUNTED
    compiled = _compiled() if fits else None
    return (numpy_between if compiled is None else compiled.between)(rows, points, columns)


def norms_and_between(
    rows: Rows, norms: NormCounts, points: Sequence[FloatArray], columns: Sequence[int]
) -> tuple[IntArray, list[IntArray]]:
    """Return what `count_by_norm` and `between` do, of one reading."""
    fits = bool(points) and all(places.size for places in points) and rows.shape[0] < _MOST_COUNTED
    compiled = _compiled() if fits and kernels.is_read_in_place(rows.dtype) else None
    if compiled is None:
        return count_by_norm(rows, *norms), between(rows, points, columns)
    return compiled.norms_and_between(rows, norms, points, columns)


class _PairBins(ctypes.Structure):
    """Bins of pairs and of numbers, as in column_counts.c, which counts them in 32 bits."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("first_pair", "n_pairs", "first_value", "n_values")),
        ("pairs", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
    )

    def __init__(self, n_columns: int) -> None:
        self.kept = pairs, values = tuple(bins.astype(np.int32) for bins in _empty_bins(n_columns))
        grids = _FIRST_SIZE, SIZES.size + 1, _FIRST_VALUE, _VALUES.size + 1
        super().__init__(*grids, pairs.ctypes.data, values.ctypes.data)


class _Grid(ctypes.Structure):
    """The points of columns, as in column_counts.c: of some of those of a table."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("points", "starts", "n_points", "low", "per_step")),
        ("doubt", ctypes.c_double),
    )

    def __init__(self, points: Sequence[FloatArray], columns: Sequence[int], n_columns: int) -> None:
        sizes = np.array([places.size for places in points])
        self.ends = np.cumsum(sizes + 1)
        self.n_bins = int(self.ends[-1])
        doubt, *steps = _even(points)
        joined = np.concatenate([part for places in points for part in (places, [np.inf])])
        starts, by_column = np.full(n_columns, -1), np.zeros((3, n_columns))
        starts[list(columns)] = self.ends - sizes - 1
        by_column[:, list(columns)] = sizes, *steps
        self._kept = arrays = joined, starts, *by_column
        super().__init__(*(one.ctypes.data for one in arrays), doubt)


class _Norms(ctypes.Structure):
    """Counts of norms, as in column_counts.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("shift", "scale", "counts", "places")),
        ("groups", kernels._Groups),
        ("n_left", ctypes.c_size_t),
    )

    def __init__(
        self, rows: Rows, shift: FloatArray | None, scale: FloatArray, candidates: Candidates, counts: IntArray
    ) -> None:
        _, *changed = kernels._table(rows, shift, scale)
        self.left = np.empty(rows.shape[0], dtype=np.int64)
        self._kept = *changed, counts, self.left, candidates
        super().__init__(*(one.ctypes.data for one in self._kept[:-1]), kernels._Groups(candidates))


class CompiledCounts:
    """The functions of column_counts.c. Each returns what its namesake in NumPy does.

    Parameters
    ----------
    library : ctypes.CDLL
    """

    def __init__(self, library: Any) -> None:
        place, size = ctypes.c_void_p, ctypes.c_size_t
        bins, back = ctypes.POINTER(_PairBins), {"returns": ctypes.c_int}
        paired = (place, size, place, size, bins)
        self._pairs = taking_arrays(library.eigenveil_count_pairs, *paired, **back)
        self._pairs_by_column = taking_arrays(library.eigenveil_count_pairs_by_column, *paired, **back)
        table = (ctypes.POINTER(kernels._Table), place)
        counted = (*table, ctypes.POINTER(_Grid), ctypes.POINTER(_Norms), size, place)
        self._columns = taking_arrays(library.eigenveil_count_columns, *counted, **back)
        self._few = taking_arrays(library.eigenveil_count_few, *table, place, size, place, **back)

    def pairs(self, parts: Sequence[Rows], order: IntArray, columns: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Count the pairs and the numbers of a block."""
        bins, others = _PairBins(len(columns)), sorted(set(range(parts[0].shape[1])).difference(columns))
        if all(map(_lies_by_column, parts)):
            held = [_whole_column(parts, column) for column in (*columns, *others)]
            places = np.array([column.ctypes.data for column in held[: len(columns)]], dtype=np.intp)
            beyond = self._pairs_by_column(places, places.size, order, order.size, bins)
            beyond |= not all(np.isfinite(column).all() for column in held[len(columns) :])
        else:
            dense = [row_by_row(part) for part in parts]
            rows, chosen = kernels.row_addresses(dense, order), np.array(columns, dtype=np.int64)
            beyond = self._pairs(rows, rows.size, chosen, chosen.size, bins)
            beyond |= not all(np.isfinite(part[:, others]).all() for part in dense if others)
        # Those that are not counted are asked for NaN and infinity too.
        _refuse(beyond)
        pairs, values = bins.kept
        return pairs.astype(np.int64), values.astype(np.int64)

    def between(self, rows: Rows, points: Sequence[FloatArray], columns: Sequence[int]) -> list[IntArray]:
        """Count the numbers between points."""
        table, room = kernels._Table(rows, columns), kernels._room(len(points))
        most_points = max(places.size for places in points)
        if most_points <= _FEW_POINTS:
            return self._between_few(table, room, points, most_points)
        return self._counted(table, room, points, range(len(points)), None)

    def norms_and_between(
        self, rows: Rows, norms: NormCounts, points: Sequence[FloatArray], columns: Sequence[int]
    ) -> tuple[IntArray, list[IntArray]]:
        """Count norms, and the numbers between points."""
        table, counted = kernels._Table(rows), _Norms(rows, *norms)
        bins = self._counted(table, kernels._room(table.d), points, columns, counted)
        return counted.left[: counted.n_left].copy(), bins

    def _counted(
        self, table: Any, room: FloatArray, points: Sequence[FloatArray], columns: Sequence[int], norms: Any
    ) -> list[IntArray]:
        grid = _Grid(points, columns, table.d)
        bins = np.zeros((2, grid.n_bins), dtype=np.int32)
        _refuse(self._columns(table, room, grid, norms, grid.n_bins, bins))
        return np.split(bins.sum(axis=0), grid.ends[:-1])

    def _between_few(
        self, table: kernels._Table, room: FloatArray, points: Sequence[FloatArray], most_points: int
    ) -> list[IntArray]:
        by_place = np.full((most_points, len(points)), np.inf)
        for column, places in enumerate(points):
            by_place[: places.size, column] = places
        above = np.zeros((most_points + 2, len(points)), dtype=np.int64)
        above[0] = table.n
        _refuse(self._few(table, room, by_place, most_points, above[1:]))
        bins = above[:-1] - above[1:]
        return [bins[: places.size + 1, column] for column, places in enumerate(points)]


def _refuse(not_finite: int) -> None:
    if not_finite:
        raise InvalidDataError(NOT_FINITE)


def _lies_by_column(rows: Rows) -> bool:
    """Tell whether the numbers of a column lie side by side, and those of a row do not."""
    return isinstance(rows, RowsByColumn) or (rows.shape[1] > 1 and rows.strides[0] == rows.itemsize)


def _whole_column(parts: Sequence[Rows], place: int) -> FloatArray:
    """Return a column of all parts in one piece: as it lies, where each begins where the one before ends, or a copy."""
    pieces = [part.column(place) if isinstance(part, RowsByColumn) else part[:, place] for part in parts]
    first, n_rows = pieces[0], sum(map(len, pieces))
    follow = all(one.ctypes.data + one.nbytes == other.ctypes.data for one, other in pairwise(pieces))
    if follow and all(one.dtype == first.dtype and one.strides == (first.itemsize,) for one in pieces):
        whole = as_strided(first, (n_rows,), writeable=False)
    else:
        whole = np.concatenate(pieces)
    return np.require(whole, np.float64, ["C", "A"])


def _even(points: Sequence[FloatArray]) -> tuple[float, FloatArray, FloatArray]:
    """Return how far from even the points of any column are, where these begin, and how many steps there are to 1.

    As column_counts.c rounds. Where points are not even, every number counts as near to one of them, and is searched.
    """
    sizes, low = np.array([places.size for places in points]), np.array([places[0] for places in points])
    high, joined = np.array([places[-1] for places in points]), np.concatenate(points)
    with np.errstate(all="ignore"):
        steps = np.where(sizes > 1, (sizes - 1) / (high - low), 0.0)
        numbers = (joined - np.repeat(low, sizes)) * np.repeat(steps, sizes)
        off = float(np.abs(numbers - np.concatenate([np.arange(size) for size in sizes])).max())
    return (off, low, steps) if off <= _MOST_UNEVEN else (1.0, np.zeros_like(low), np.zeros_like(low))


@functools.cache
def _compiled() -> CompiledCounts | None:
    """Return the compiled counts, if there are any and they give what NumPy gives."""
    library = numerics.compiled_library()
    counts = None if library is None else CompiledCounts(library)
    return counts if counts is not None and _agrees(counts) else None


def _agrees(counts: CompiledCounts) -> bool:
    """Compare both ways on points of the grids, on numbers a bit beside them, and on the extreme ones."""
    of_grids = np.concatenate([SIZES[::97], _VALUES[::23], [0.0, 5e-324, 1e308]])
    beside = np.concatenate([np.nextafter(of_grids, 0.0), of_grids, np.nextafter(of_grids, np.inf)])
    rows = np.concatenate([beside, -beside[::-1], 2 * beside[:3]]).reshape(-1, 3)
    order, points = np.arange(len(rows))[::-1].copy(), [beside[3:9], np.linspace(-1.0, 1.0, 5), np.sort(-beside)]
    same, columns = True, [rows[:, 0], rows[:, 1].copy(), np.arange(len(rows)) - 9]
    ways = counts.pairs, numpy_pairs
    for table in (rows, np.asfortranarray(rows), RowsByColumn(columns)):
        for parts in ([table], [table[:7], table[7:]]):
            same &= all(map(np.array_equal, *(way(parts, order, [2, 0]) for way in ways)))
        few, even = [beside[3:9], np.linspace(-1.0, 1.0, 5), np.array([0.0])], [np.linspace(-3.0, 2.0, 60)] * 3
        for some in (points, few, even, [even[0], np.array([1e308]), np.ldexp(even[0], 900)]):
            both = (way(table, some, [2, 0, 1]) for way in (counts.between, numpy_between))
            same &= all(map(np.array_equal, *both))
        same &= _agrees_with_norms(counts, table, even[:2])
    return same


def _agrees_with_norms(counts: CompiledCounts, rows: Rows, points: Sequence[FloatArray]) -> bool:
    """Compare counts of numbers that come with norms, and these on cells of four octaves, some of them in doubt."""
    shift, scale = np.array([0.0, 0.5, -3.0]), np.array([1.0, 3.0, 0.25])
    cells = Candidates(np.resize(np.array([0, -1, 1], dtype=np.int16), 511), 0, 54, np.empty((0, 0)))
    expected, found = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    places = numpy_kernels.count_by_norm(np.asarray(rows), shift, scale, cells, expected)
    left, bins = counts.norms_and_between(rows, (shift, scale, cells, found), points, [2, 0])
    same = np.array_equal(places, left) and np.array_equal(expected, found)
    return same and all(map(np.array_equal, bins, numpy_between(rows, points, [2, 0])))
