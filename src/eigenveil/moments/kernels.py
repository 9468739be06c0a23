"""The inner loops over rows: by the C files where they were compiled and agree, else by `numpy_kernels`.

Both give the same bits. A call lets other threads run until it ends, however many rows it is given.
"""

import ctypes
import functools
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from .. import numerics
from ..numerics import FloatArray, IntArray, taking_arrays
from . import numpy_kernels
from .numpy_kernels import (
    EXACT_LIMIT,
    FIRST_SIZE,
    FIRST_VALUE,
    SINGLE_BITS,
    SIZES,
    VALUES,
    Candidates,
    Comparing,
    NormSums,
    Shortening,
    empty_pair_bins,
    target_exponent,
)

# As in the C files.
_LANES, _TILE, _LEAST_ROOM = 8, 32, 256
_DEEP, _NARROW, _PAIRED = 64, 48, 4
_TYPES = {name: code for code, name in enumerate(("f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1"))}
# Above this width BLAS is quicker than ours.
_WIDEST = 160
# Counts of columns and places in order have 32 bits in C.
_MOST_COUNTED = 2**31
# As in column_counts.c: points are this far from even, in steps, or less. A number is then found by its place among
# equal steps, and compared with one point at most on either side.
_MOST_UNEVEN = 0.25


class RowsByColumn:
    """Rows of a table whose columns lie apart, each an array of numbers of its own type: read as they are, not copied.

    Whatever asks for an array gets one of float64.

    Parameters
    ----------
    columns : sequence of ndarray
        At least one, all of one length.

    Examples
    --------
    >>> rows = RowsByColumn([np.array([1, 2, 3]), np.array([0.5, 1.5, 2.5])])
    >>> np.asarray(rows[1:]).tolist()
    [[2.0, 1.5], [3.0, 2.5]]
    """

    ndim, dtype = 2, np.dtype(np.float64)

    def __init__(self, columns: Sequence[NDArray[Any]]) -> None:
        # Of a type that was not compiled for, such as truth values, a copy is.
        held = [one if is_read_in_place(one.dtype) else one.astype(np.float64) for one in columns]
        self._columns = held
        self.starts = np.array([one.ctypes.data for one in held], dtype=np.intp)
        self.strides = np.array([one.strides[0] for one in held], dtype=np.intp)
        self.types = np.array([_type_of(one.dtype) for one in held], dtype=np.uint8)
        self._rows = range(len(held[0]))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self._rows), len(self._columns)

    def __getitem__(self, rows: Any) -> Any:
        """Return the rows of a slice, which lie where they lay; or an array of those at positions, or of a mask."""
        if isinstance(rows, slice) and rows.step in (None, 1):
            part = object.__new__(RowsByColumn)
            part.__dict__.update(self.__dict__)
            part._rows = self._rows[rows]
            part.starts = self.starts + (part._rows.start - self._rows.start) * self.strides
            return part
        return np.asarray(self)[rows] if isinstance(rows, tuple) else self._made(rows)

    def column(self, place: int) -> NDArray[Any]:
        """Return one column, of its own type."""
        return self._columns[place][self._rows.start : self._rows.stop]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("Columns that lie apart do not become an array without a copy.")
        return self._made(slice(None)).astype(dtype or self.dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy lies elsewhere, in this process or in another.
        return RowsByColumn, ([self.column(place) for place in range(len(self._columns))],)

    def _made(self, rows: Any) -> FloatArray:
        # Columns are contiguous in every frame library, and so they are written to contiguous memory.
        whole = slice(self._rows.start, self._rows.stop)
        first, *others = (one[whole][rows] for one in self._columns)
        matrix = np.empty((len(first), len(self._columns)), order="F")
        for place, values in enumerate((first, *others)):
            matrix[:, place] = values
        return matrix


Rows = NDArray[Any] | RowsByColumn


def _type_of(dtype: np.dtype[Any]) -> int | None:
    return _TYPES.get(dtype.str[1:]) if dtype.isnative else None


def is_read_in_place(dtype: np.dtype[Any]) -> bool:
    """Tell whether the compiled kernels read numbers of this type."""
    return _type_of(dtype) is not None


def in_one_piece(rows: NDArray[Any]) -> bool:
    """Return whether the numbers of every row lie side by side as float64, so that rows can be read where they lie."""
    in_pieces = rows.shape[1] > 1 and rows.strides[1] != rows.itemsize
    return rows.dtype == np.float64 and rows.dtype.isnative and rows.flags.aligned and not in_pieces


def dense_rows(batch: Any) -> FloatArray:
    """Return a batch as dense float64."""
    return np.asarray(batch.toarray() if hasattr(batch, "toarray") else batch, dtype=np.float64)


def rows_as_they_lie(batch: Any) -> Rows:
    """Return a batch that the compiled kernels read in place, else a copy in dense float64."""
    in_place = isinstance(batch, RowsByColumn) or (type(batch) is np.ndarray and batch.ndim == 2)
    return batch if in_place and is_read_in_place(batch.dtype) else dense_rows(batch)


def put_rows(rows: Rows, places: IntArray, out: FloatArray) -> bool:
    """Put rows into `out`, which lies row by row, as float64, each at its place.

    Return whether all numbers are finite.

    Examples
    --------
    >>> out = np.empty((3, 1))
    >>> put_rows(np.array([[1], [2], [3]]), np.array([2, 0, 1]), out)
    True
    >>> out.ravel().tolist()
    [2.0, 3.0, 1.0]
    """
    found = compiled()
    if found is not None and is_read_in_place(rows.dtype):
        return found.put_rows(rows, places, out)
    out[places] = rows
    return bool(np.isfinite(out[places]).all())


class _Table(ctypes.Structure):
    """The layout of rows in memory, as in table.h: of all columns, or of some."""

    _fields_ = [
        ("columns", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("types", ctypes.c_void_p),
        ("n", ctypes.c_size_t),
        ("d", ctypes.c_size_t),
    ]

    def __init__(self, rows: Rows, columns: Sequence[int] | None = None) -> None:
        n, d = rows.shape
        if isinstance(rows, RowsByColumn):
            starts, strides, types = rows.starts, rows.strides, rows.types
        else:
            starts = rows.ctypes.data + np.arange(d, dtype=np.intp) * rows.strides[1]
            strides = np.full(d, rows.strides[0], dtype=np.intp)
            types = np.full(d, _type_of(rows.dtype), dtype=np.uint8)
        if columns is not None:
            chosen = list(columns)
            starts, strides, types = starts[chosen], strides[chosen], types[chosen]
        self._kept = rows, starts, strides, types
        super().__init__(*(one.ctypes.data for one in (starts, strides, types)), n, starts.size)


class _Groups(ctypes.Structure):
    """The table of candidate bounds, as in one_pass.c."""

    _fields_ = (
        ("cells", ctypes.c_void_p),
        ("n_cells", ctypes.c_int64),
        ("first_cell", ctypes.c_int64),
        ("shift", ctypes.c_int),
    )

    def __init__(self, candidates: Candidates) -> None:
        self._kept = cells = candidates.cells
        super().__init__(cells.ctypes.data, cells.size, candidates.first_cell, candidates.cell_shift)


class _Compared(ctypes.Structure):
    """Rows, and how they are compared, as in comparisons.c."""

    _fields_ = (
        ("rows", ctypes.c_void_p),
        ("d", ctypes.c_size_t),
        ("half", ctypes.c_size_t),
        ("signs", ctypes.c_int),
        ("target", ctypes.c_int),
        ("scale", ctypes.c_void_p),
        ("factor", ctypes.c_double),
        ("limit", ctypes.c_double),
        ("reach", ctypes.c_double),
    )

    def __init__(self, rows: FloatArray, how: Comparing) -> None:
        d = rows.shape[1]
        rows = np.ascontiguousarray(rows)
        scale = None if how.scale is None else how.scale / how.scale.max()
        self._kept = rows, scale
        place = None if scale is None else scale.ctypes.data
        changed = target_exponent(d), place, how.factor, *_limits(how.bits)
        super().__init__(rows.ctypes.data, d, how.half, how.signs, *changed)


class _Units(ctypes.Structure):
    """Rows of whole units, as in privacy_units.c."""

    _fields_ = (
        ("rows", ctypes.c_void_p),
        ("stride", ctypes.c_ssize_t),
        ("starts", ctypes.c_void_p),
        ("n", ctypes.c_size_t),
        ("d", ctypes.c_size_t),
    )

    def __init__(self, rows: FloatArray, starts: IntArray) -> None:
        ends = np.append(starts, len(rows))
        self._kept = rows, ends
        self.largest = int(np.diff(ends).max(initial=0))
        super().__init__(rows.ctypes.data, rows.strides[0], ends.ctypes.data, starts.size, rows.shape[1])


class _Shortening(ctypes.Structure):
    """The rule by which the rows of a unit become integers within its bound, as in privacy_units.c."""

    _fields_ = (
        ("shift", ctypes.c_void_p),
        ("factor", ctypes.c_void_p),
        *((name, ctypes.c_double) for name in ("single_limit", "single_reach", "limit", "reach", "constant")),
        ("average", ctypes.c_int),
    )

    def __init__(self, d: int, how: Shortening) -> None:
        self._kept = columns = _for_columns(d, how.shift, how.factor)
        limit = float(4**how.bits if how.average else 4**how.bits + how.constant**2)
        single = 4.0**SINGLE_BITS, 2.0**SINGLE_BITS
        places = (one.ctypes.data for one in columns)
        super().__init__(*places, *single, limit, math.sqrt(limit), float(how.constant), how.average)


class _PairBins(ctypes.Structure):
    """Bins of pairs and of numbers, as in column_counts.c, which counts them in 32 bits."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("first_pair", "n_pairs", "first_value", "n_values")),
        ("pairs", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
    )

    def __init__(self, n_columns: int) -> None:
        self.kept = pairs, values = tuple(bins.astype(np.int32) for bins in empty_pair_bins(n_columns))
        grids = FIRST_SIZE, SIZES.size + 1, FIRST_VALUE, VALUES.size + 1
        super().__init__(*grids, pairs.ctypes.data, values.ctypes.data)


class _Grid(ctypes.Structure):
    """The points of columns, as in column_counts.c: of some of those of a table."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("points", "starts", "n_points", "low", "per_step")),
        ("doubt", ctypes.c_double),
    )

    def __init__(self, points: Sequence[FloatArray], columns: Sequence[int], n_columns: int) -> None:
        sizes, low = np.array([one.size for one in points]), np.array([one[0] for one in points])
        self.ends = np.cumsum(sizes + 1)
        high, joined = np.array([one[-1] for one in points]), np.concatenate(points)
        with np.errstate(all="ignore"):  # steps are rounded as in column_counts.c
            steps = np.where(sizes > 1, (sizes - 1) / (high - low), 0.0)
            numbers = (joined - np.repeat(low, sizes)) * np.repeat(steps, sizes)
            doubt = float(np.abs(numbers - np.concatenate([np.arange(size) for size in sizes])).max())
        if not doubt <= _MOST_UNEVEN:  # every number counts as near to a point, and is searched
            doubt, low, steps = 1.0, np.zeros_like(low), np.zeros_like(low)
        with_ends = np.concatenate([part for one in points for part in (one, [np.inf])])
        starts, by_column = np.full(n_columns, -1), np.zeros((3, n_columns))
        starts[list(columns)] = self.ends - sizes - 1
        by_column[:, list(columns)] = sizes, low, steps
        self._kept = arrays = with_ends, starts, *by_column
        super().__init__(*(one.ctypes.data for one in arrays), doubt)


class _Norms(ctypes.Structure):
    """Counts of norms, as in column_counts.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("shift", "scale", "counts", "places")),
        ("groups", _Groups),
        ("n_left", ctypes.c_size_t),
    )

    def __init__(
        self, rows: Rows, shift: FloatArray | None, scale: FloatArray, candidates: Candidates, counts: IntArray
    ) -> None:
        self.left = np.empty(rows.shape[0], dtype=np.int64)
        self._kept = arrays = *_for_columns(rows.shape[1], shift, scale), counts, self.left
        super().__init__(*(one.ctypes.data for one in arrays), _Groups(candidates))


class CompiledKernels:
    """The functions of the compiled C files, of arrays. Those that `numpy_kernels` has too give what they give there.

    Parameters
    ----------
    library : ctypes.CDLL
    """

    def __init__(self, library: Any) -> None:
        place, number, size, whole = ctypes.c_void_p, ctypes.c_double, ctypes.c_size_t, ctypes.c_int
        table = (ctypes.POINTER(_Table), place, place)
        bounded = (*table, number, number, place)
        groups, grid, bins = ctypes.POINTER(_Groups), ctypes.POINTER(_Grid), ctypes.POINTER(_PairBins)
        comparisons, units = (ctypes.POINTER(_Compared), size, size), ctypes.POINTER(_Units)
        types: dict[str, tuple[Any, ...]] = {
            "integers": (*bounded, place, place),
            "rows": (table[0], place, place, place),
            "count_by_norm": (*table, place, groups, place, place),
            "sums_by_norm": (*bounded, groups, *(place,) * 5),
            "compared": (*comparisons, place),
            "count_pairs": (place, size, place, size, bins),
            "count_pairs_by_column": (place, size, place, size, bins),
            "count_columns": (table[0], place, grid, ctypes.POINTER(_Norms), size, place),
            "unit_squares": (units, place, place, place),
            "chosen": (units, *(place,) * 4),
            "order": (ctypes.c_uint64, size, whole, place, place),
            "sparse_products": (*(place,) * 3, size, place, *(number,) * 3, *(size,) * 3, *(place,) * 3),
        }
        self.multiplies = bool(library.eigenveil_multiplies())
        if self.multiplies:
            types["products"] = (*bounded, number, size, place, place)
            types["compared_products"] = (*comparisons, size, place, place)
            types["unit_products"] = (units, ctypes.POINTER(_Shortening), size, place, place, place)
        results = dict.fromkeys(("count_by_norm", "sums_by_norm"), size) | dict.fromkeys(
            ("rows", "count_pairs", "count_pairs_by_column", "count_columns"), whole
        )
        self._c = {
            name: taking_arrays(getattr(library, f"eigenveil_{name}"), *given, returns=results.get(name))
            for name, given in types.items()
        }

    def integers(
        self, rows: Rows, shift: FloatArray | None, factor: FloatArray, bits: int | None, out: FloatArray
    ) -> FloatArray:
        """Put integer rows into `out`, which lies row by row."""
        squared = np.empty(rows.shape[0])
        self._c["integers"](*_table(rows, shift, factor), *_limits(bits), _room(rows.shape[1]), squared, out)
        return squared

    def put_rows(self, rows: Rows, places: IntArray, out: FloatArray) -> bool:
        """Put rows into `out`, which lies row by row, each at its place; tell whether all numbers are finite."""
        return not self._c["rows"](_Table(rows), places, _room(rows.shape[1]), out)

    def count_by_norm(
        self, rows: Rows, shift: FloatArray | None, scale: FloatArray, candidates: Candidates, counts: IntArray
    ) -> IntArray:
        """Count rows at their grid points; return the places of the others."""
        left = np.empty(rows.shape[0], dtype=np.int64)
        changed = *_table(rows, shift, scale), _room(rows.shape[1])
        return left[: self._c["count_by_norm"](*changed, _Groups(candidates), counts, left)].copy()

    def add_by_norm(
        self,
        rows: Rows,
        shift: FloatArray | None,
        scale: FloatArray,
        bits: int,
        candidates: Candidates,
        sums: NormSums,
    ) -> IntArray:
        """Add integer rows to the totals of their grid points; return the places of the others."""
        left, row = np.empty(rows.shape[0], dtype=np.int64), np.empty(rows.shape[1])
        changed = *_table(rows, shift, scale), *_limits(bits), _room(rows.shape[1]), _Groups(candidates)
        n_left = self._c["sums_by_norm"](*changed, candidates.factors, row, sums.counts, sums.totals, left)
        return left[:n_left].copy()

    def room_for_products(self, width: int) -> FloatArray | None:
        """Return zeros to add products to, of rows as wide with their constant; None where BLAS is quicker."""
        pitch = -(-width // _LANES) * _LANES
        return _aligned(pitch, pitch) if self.multiplies and width <= _WIDEST else None

    def add_products(
        self,
        rows: Rows,
        shift: FloatArray | None,
        factor: FloatArray,
        bits: int,
        constant: float,
        products: FloatArray,
    ) -> FloatArray:
        """Add q q' of all integer rows q, a constant at the end of each, to the upper triangle of `products`.

        But for rows without an exact square. Return squared norms: what `integers` returns below `EXACT_LIMIT`, and no
        number below it otherwise.
        """
        squared, pitch = np.empty(rows.shape[0]), len(products)
        changed = *_table(rows, shift, factor), *_limits(bits), _products_room(rows.shape[1], pitch)
        self._c["products"](*changed, constant, pitch, squared, products)
        return squared

    def add_unit_products(
        self, rows: FloatArray, starts: IntArray, how: Shortening, products: FloatArray
    ) -> FloatArray:
        """Add q q' of the rows of whole units, their constants at their end, to the upper triangle of `products`.

        Return the constant of every unit: -1, and nothing is added, where a row of it has no exact square.
        """
        constants, units, pitch = np.empty(starts.size), _Units(rows, starts), len(products)
        room = _aligned(units.largest + _LEAST_ROOM + _TILE, pitch)
        self._c["unit_products"](units, _Shortening(rows.shape[1], how), pitch, room, constants, products)
        return constants

    def unit_squares(
        self, rows: FloatArray, starts: IntArray, shift: FloatArray | None, factor: FloatArray
    ) -> FloatArray:
        """Return the sums over units of the squared norms of changed rows."""
        squared = np.empty(starts.size)
        self._c["unit_squares"](_Units(row_by_row(rows), starts), *_for_columns(rows.shape[1], shift, factor), squared)
        return squared

    def smallest_hashes(self, rows: FloatArray, starts: IntArray, hashes: NDArray[np.uint64]) -> IntArray:
        """Return the place of one row of every unit, that with the smallest hash; the numbers are finite."""
        units, places = _Units(row_by_row(rows), starts), np.empty(starts.size, dtype=np.int64)
        room, weights = np.empty((units.largest, 2), dtype=np.uint64), numpy_kernels.hash_weights(rows.shape[1])
        self._c["chosen"](units, weights, hashes, room, places)
        for unit in np.flatnonzero(places < 0).tolist():  # in which different rows have one hash
            first, end = starts[unit], np.append(starts, len(rows))[unit + 1]
            alone = numpy_kernels.smallest_hashes(rows[first:end], np.zeros(1, dtype=np.int64), hashes[[unit]])
            places[unit] = first + alone[0]
        return places

    def add_sparse_products(
        self, rows: Any, factor: FloatArray, bits: int, constant: int, products: FloatArray
    ) -> FloatArray:
        """Add q q' of the integers of canonical CSR rows to symmetric `products`; return squares as `add_products`."""
        (n, d), squared = rows.shape, np.empty(rows.shape[0])
        longest = int(np.diff(rows.indptr).max(initial=1))
        entries = np.ascontiguousarray(rows.data, dtype=np.float64)
        listed = (np.ascontiguousarray(one, dtype=np.int64) for one in (rows.indices, rows.indptr))
        limits = *_limits(bits), float(constant)
        rooms, sizes = np.empty((3, longest)), (d, len(products), longest)
        changed = entries, *listed, n, _for_columns(d, None, factor)[1]
        self._c["sparse_products"](*changed, *limits, *sizes, rooms, squared, products)
        return squared

    def compared_integers(self, rows: FloatArray, places: range, how: Comparing) -> FloatArray:
        """Return the integers of the comparisons of rows at these places."""
        out = np.empty((len(places), rows.shape[1]))
        self._c["compared"](_Compared(rows, how), places.start, len(places), out)
        return out

    def add_compared(self, rows: FloatArray, places: range, how: Comparing, products: FloatArray) -> None:
        """Add q q' of the integers q of comparisons to the upper triangle of `products`."""
        pitch = len(products)
        room = _aligned(_TILE, pitch)
        self._c["compared_products"](_Compared(rows, how), places.start, len(places), pitch, room, products)

    def places_by_hash(self, first: int, n: int) -> IntArray:
        """Put places in the order of the hashes of so many words, from the first one on."""
        if n > _MOST_COUNTED:
            return numpy_kernels.places_by_hash(first, n)
        bits = max(1, (n - 1).bit_length())
        ends, places = np.empty(2**bits + 1, dtype=np.uint32), np.empty(n, dtype=np.int64)
        self._c["order"](first, n, bits, ends, places)
        return places

    def count_pairs(
        self, parts: Sequence[Rows], order: IntArray, columns: Sequence[int]
    ) -> tuple[IntArray, IntArray] | None:
        """Return bins of a block of rows: of half the distances of disjoint pairs, and of numbers."""
        bins, others = _PairBins(len(columns)), sorted(set(range(parts[0].shape[1])).difference(columns))
        # The numbers of a column lie side by side, and those of a row do not.
        if all(isinstance(one, RowsByColumn) or (one.shape[1] > 1 and one.strides[0] == one.itemsize) for one in parts):
            held = [_whole_column(parts, column) for column in (*columns, *others)]
            places = np.array([column.ctypes.data for column in held[: len(columns)]], dtype=np.intp)
            beyond = self._c["count_pairs_by_column"](places, places.size, order, order.size, bins)
            beyond |= not all(np.isfinite(column).all() for column in held[len(columns) :])
        else:
            dense = [row_by_row(part) for part in parts]
            starts = [part.ctypes.data + part.strides[0] * np.arange(len(part)) for part in dense]
            rows, chosen = np.concatenate(starts)[order], np.array(columns, dtype=np.int64)
            beyond = self._c["count_pairs"](rows, rows.size, chosen, chosen.size, bins)
            beyond |= not all(np.isfinite(part[:, others]).all() for part in dense if others)
        pairs, values = bins.kept
        # Columns that are not counted are asked for NaN and infinity too.
        return None if beyond else (pairs.astype(np.int64), values.astype(np.int64))

    def between(self, rows: Rows, points: Sequence[FloatArray], columns: Sequence[int]) -> list[IntArray] | None:
        """Return bins of the numbers of some columns between points; None where one of them is not finite."""
        if not _are_counted(rows, points):
            return numpy_kernels.between(rows, points, columns)
        return self._counted(_Table(rows, columns), points, range(len(points)), None)

    def norms_and_between(
        self,
        rows: Rows,
        shift: FloatArray | None,
        scale: FloatArray,
        candidates: Candidates,
        counts: IntArray,
        points: Sequence[FloatArray],
        columns: Sequence[int],
    ) -> tuple[IntArray, list[IntArray] | None]:
        """Return the results of `count_by_norm` and `between`, from one reading."""
        if not _are_counted(rows, points):
            return numpy_kernels.norms_and_between(rows, shift, scale, candidates, counts, points, columns)
        norms = _Norms(rows, shift, scale, candidates, counts)
        bins = self._counted(_Table(rows), points, columns, norms)
        return norms.left[: norms.n_left].copy(), bins

    def _counted(
        self, table: _Table, points: Sequence[FloatArray], columns: Sequence[int], norms: _Norms | None
    ) -> list[IntArray] | None:
        grid = _Grid(points, columns, table.d)
        bins = np.zeros((2, int(grid.ends[-1])), dtype=np.int32)
        beyond = self._c["count_columns"](table, _room(table.d), grid, norms, bins.shape[1], bins)
        return None if beyond else np.split(bins.sum(axis=0), grid.ends[:-1])


def _are_counted(rows: Rows, points: Sequence[FloatArray]) -> bool:
    """Return whether the numbers of rows can be counted by the compiled kernels."""
    return rows.shape[0] < _MOST_COUNTED and bool(points) and all(one.size for one in points)


def _table(rows: Rows, shift: FloatArray | None, factor: FloatArray) -> tuple[Any, ...]:
    return _Table(rows), *_for_columns(rows.shape[1], shift, factor)


def _for_columns(d: int, shift: FloatArray | None, factor: FloatArray) -> FloatArray:
    """Return a shift and a factor for every column."""
    columns = np.empty((2, d))
    columns[0] = 0.0 if shift is None else shift
    columns[1] = factor
    return columns


def _room(width: int) -> FloatArray:
    """Return room for a tile of rows, which lies row by row or column by column."""
    return _aligned(max(_TILE * width, _DEEP * min(width, _NARROW)))


def _products_room(d: int, pitch: int) -> FloatArray:
    """Return room for a tile of rows and for their integers, and for the sums of the products of few columns."""
    if d > _NARROW:
        return _aligned(_TILE * (d + pitch))
    width = -(-d // _PAIRED) * _PAIRED
    return _aligned(_DEEP * (d + width) + _LANES * width * (1 + (width + _PAIRED) // 2))


def _aligned(*shape: int) -> FloatArray:
    """Return zeros that begin where a line of the cache does: a register is then never filled from two."""
    numbers = np.zeros(math.prod(shape) + _LANES)
    first = -numbers.ctypes.data // numbers.itemsize % _LANES
    return numbers[first : first + math.prod(shape)].reshape(shape)


def _limits(bits: int | None) -> tuple[float, float]:
    return (math.inf, math.inf) if bits is None else (4.0**bits, 2.0**bits)


def row_by_row(rows: Rows) -> FloatArray:
    """Return rows of float64, each in one piece: as they lie, or as a copy."""
    if isinstance(rows, np.ndarray) and in_one_piece(rows):
        return rows
    return np.ascontiguousarray(rows, dtype=np.float64)


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


def kernels_for(rows: Rows, factor: FloatArray | None = None) -> Any:
    """Return the kernels that read such rows: the compiled ones, or `numpy_kernels`.

    The compiled ones read numbers of the types that C has here, whose factors are the same in every row.
    """
    found = compiled()
    fit = is_read_in_place(rows.dtype) and (factor is None or factor.ndim < 2)
    return found if found is not None and fit else numpy_kernels


@functools.cache
def compiled() -> CompiledKernels | None:
    """Return the compiled kernels, if they are there and agree with NumPy on the numbers that are hard to round.

    This is about the compiler and the processor: an option that changes roundings does so in every kernel. That they
    agree on all else is held by the tests.
    """
    library = numerics.compiled_library()
    found = None if library is None else CompiledKernels(library)
    return found if found is not None and _agrees(found) else None


def _agrees(found: CompiledKernels) -> bool:
    """Compare integers and their products, of rows, units and comparisons, with those of NumPy."""
    d, bits, constant = 19, 6, 5
    shift, factor = np.resize([0.0, 0.1, -1e-9], d), np.resize([3.0, 1 / 3, 1e4, 16 / 0.7], d)
    whole = np.vstack([np.arange(1, d + 1), np.arange(-d, 0), *(np.full(d, entry) for entry in (18.0, 30.0, 1001.0))])
    beside = 1 + np.arange(-2, 3)[:, None, None] * 2.0**-52
    near = ((whole / factor + shift) * beside).reshape(-1, d)  # a few bits beside integers, some to be shortened
    extreme = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308, -1e308, 2.0**52 + 0.5]
    rows = np.tile(np.vstack([near, np.resize(extreme, (2, d))]), (3, 1))
    ours, its, room = np.empty(rows.shape), np.empty(rows.shape), found.room_for_products(d + 1)
    squared = numpy_kernels.integers(rows, shift, factor, bits, ours)
    same = np.array_equal(squared, found.integers(rows, shift, factor, bits, its), equal_nan=True)
    same &= np.array_equal(ours, its, equal_nan=True)

    starts, how = np.array([0, 1, 3, 9]), Comparing(2, False, factor, 2.0**16, 16)
    finite, places = near + np.arange(len(near))[:, None], range(2, 40)
    compared = numpy_kernels.compared_integers(finite, places, how)
    same &= np.array_equal(compared, found.compared_integers(finite, places, how))
    if room is None:
        return same

    def adds(integers: FloatArray) -> bool:
        """Tell whether these were the products that were added, and clear them."""
        width = integers.shape[1]
        expected = np.triu(integers.T @ integers)
        added = np.array_equal(np.triu(room)[:width, :width], expected)
        room.fill(0.0)
        return added

    exact = squared < EXACT_LIMIT
    found.add_products(rows, shift, factor, bits, constant, room)
    same &= adds(np.column_stack([ours, np.full(len(ours), float(constant))])[exact])
    found.add_compared(finite, places, how, room)
    same &= adds(np.pad(compared, ((0, 0), (0, 1))))
    for average in (True, False):
        single, long_rows = np.empty(near.shape), near * np.resize([1.0, 1.8e4, 1e-3], len(near))[:, None]
        numpy_kernels.integers(long_rows, shift, factor, SINGLE_BITS, single)
        constants = numpy_kernels.units_together(single, starts, bits, constant, average)
        shortening = Shortening(shift, factor, bits, constant, average)
        same &= np.array_equal(found.add_unit_products(long_rows, starts, shortening, room), constants[starts])
        same &= adds(np.column_stack([single, constants]))
    return same
