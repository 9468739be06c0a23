"""The inner loops over rows: by one_pass.c where it was compiled and agrees, else by `numpy_kernels`, to the same bits.

A call lets other threads run until it ends, however many rows it is given.
"""

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import numerics
from ..numerics import FloatArray, IntArray, compiled_function, taking_arrays
from . import numpy_kernels
from .numpy_kernels import EXACT_LIMIT, Candidates, Comparing, NormSums, target_exponent

# As in rows.h, table.h and one_pass.c.
_LANES, _TILE = 8, 32
_DEEP, _NARROW, _PAIRED = 64, 48, 4
_TYPES = {name: code for code, name in enumerate(("f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1"))}
# Above this width BLAS is quicker than ours.
_WIDEST = 160


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
        """How many rows and columns there are."""
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
    """Tell whether numbers of a type are what was compiled for."""
    return _type_of(dtype) is not None


class _Table(ctypes.Structure):
    """How rows lie in memory, as in table.h: all of their columns, or some."""

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


class CompiledPasses:
    """The functions of one_pass.c, of arrays. Each returns what its namesake in `numpy_kernels` does.

    Parameters
    ----------
    library : ctypes.CDLL
    """

    def __init__(self, library: Any) -> None:
        place, number, size = ctypes.c_void_p, ctypes.c_double, ctypes.c_size_t
        table = (ctypes.POINTER(_Table), place, place)
        bounded = (*table, number, number, place)
        self._integers = taking_arrays(library.eigenveil_integers, *bounded, place, place)
        self._rows = taking_arrays(library.eigenveil_rows, *table, place, returns=ctypes.c_int)
        groups = ctypes.POINTER(_Groups)
        counted = (*table, place, groups, place, place)
        self._count_by_norm = taking_arrays(library.eigenveil_count_by_norm, *counted, returns=size)
        self._sums_by_norm = taking_arrays(
            library.eigenveil_sums_by_norm, *bounded, groups, *(place,) * 5, returns=size
        )
        several = (ctypes.POINTER(_Compared), size, size)
        self._compared = taking_arrays(library.eigenveil_compared, *several, place)
        self._multiplies = bool(library.eigenveil_multiplies())
        if self._multiplies:
            self._compared_products = taking_arrays(library.eigenveil_compared_products, *several, size, place, place)
            self._products = taking_arrays(library.eigenveil_products, *bounded, number, size, *(place,) * 2)

    @staticmethod
    def fit(rows: Rows, factor: FloatArray) -> bool:
        """Tell whether rows are what was compiled for: of a type that C has here, all changed alike."""
        return factor.ndim < 2 and is_read_in_place(rows.dtype)

    def integers(
        self, rows: Rows, shift: FloatArray | None, factor: FloatArray, bits: int | None, out: FloatArray
    ) -> FloatArray:
        """Put integer rows into `out`, which lies row by row."""
        squared = np.empty(rows.shape[0])
        self._integers(*_table(rows, shift, factor), *_limits(bits), _room(rows.shape[1]), squared, out)
        return squared

    def put_rows(self, rows: Rows, places: IntArray, out: FloatArray) -> bool:
        """Put rows into `out`, which lies row by row, each at its place; tell whether all numbers are finite."""
        return not self._rows(_Table(rows), places, _room(rows.shape[1]), out)

    def count_by_norm(
        self, rows: Rows, shift: FloatArray | None, scale: FloatArray, candidates: Candidates, counts: IntArray
    ) -> IntArray:
        """Count rows at their grid points; return the places of the others."""
        left = np.empty(rows.shape[0], dtype=np.int64)
        changed = *_table(rows, shift, scale), _room(rows.shape[1])
        return left[: self._count_by_norm(*changed, _Groups(candidates), counts, left)].copy()

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
        n_left = self._sums_by_norm(*changed, candidates.factors, row, sums.counts, sums.totals, left)
        return left[:n_left].copy()

    def room_for_products(self, width: int) -> FloatArray | None:
        """Return zeros for `add_products` of rows as wide with their constant; None where BLAS is quicker."""
        pitch = -(-width // _LANES) * _LANES
        return _aligned(pitch, pitch) if self._multiplies and width <= _WIDEST else None

    def add_products(
        self,
        rows: Rows,
        shift: FloatArray | None,
        factor: FloatArray,
        bits: int,
        constant: float,
        products: FloatArray,
    ) -> FloatArray:
        """Add the products of integer rows, a constant at the end of each, to the upper triangle of `products`."""
        squared, pitch = np.empty(rows.shape[0]), len(products)
        changed = *_table(rows, shift, factor), *_limits(bits), _products_room(rows.shape[1], pitch)
        self._products(*changed, constant, pitch, squared, products)
        return squared

    def compared_integers(self, rows: FloatArray, places: range, how: Comparing) -> FloatArray:
        """Return the integers of comparisons."""
        out = np.empty((len(places), rows.shape[1]))
        self._compared(_Compared(rows, how), places.start, len(places), out)
        return out

    def add_compared(self, rows: FloatArray, places: range, how: Comparing, products: FloatArray) -> None:
        """Add the products of the integers of comparisons to the upper triangle of `products`."""
        pitch = len(products)
        tile = _aligned(_TILE, pitch)
        self._compared_products(_Compared(rows, how), places.start, len(places), pitch, tile, products)


def _table(rows: Rows, shift: FloatArray | None, factor: FloatArray) -> tuple[Any, ...]:
    """Return rows, and a shift and a factor for every column."""
    columns = np.empty((2, rows.shape[1]))
    columns[0] = 0.0 if shift is None else shift
    columns[1] = factor
    return _Table(rows), *columns


def row_addresses(parts: Sequence[FloatArray], order: IntArray) -> IntArray:
    """Return where the rows of all parts begin, in an order; each of them lies in one piece."""
    if len(parts) == 1:
        return order * parts[0].strides[0] + parts[0].ctypes.data
    return np.concatenate([part.ctypes.data + part.strides[0] * np.arange(len(part)) for part in parts])[order]


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


__all__ = [
    "EXACT_LIMIT",
    "Candidates",
    "NormSums",
    "RowsByColumn",
    "add_by_norm",
    "add_compared",
    "add_products",
    "compared_integers",
    "count_by_norm",
    "integers",
    "is_read_in_place",
    "places_by_hash",
    "put_rows",
    "room_for_products",
]


def integers(rows: Rows, shift: FloatArray | None, factor: FloatArray, bits: int | None, out: FloatArray) -> FloatArray:
    """Put ``trunc(factor * (rows - shift))`` into `out`, and return the squared norms of these integer rows.

    Those with a squared norm above 4^bits and below 2^53 are then brought to norm 2^bits, or just below. Longer ones,
    and those with NaN or infinity, stay as they are.

    Parameters
    ----------
    rows : ndarray of shape (n, d), or RowsByColumn
    shift, factor : ndarray
        What broadcasts against `rows`.
    bits : int, optional
        None leaves all rows as long as they are.
    out : ndarray of shape (n, d)

    Examples
    --------
    >>> rows, out = np.array([[1.0, 2.0], [3.0, 4.6]]), np.empty((2, 2))
    >>> integers(rows, None, np.array(2.0), 3, out), out
    (array([ 20., 117.]), array([[2., 4.],
           [4., 6.]]))
    """
    passes = _passes(rows, factor) if out.flags.c_contiguous else numpy_kernels
    squared: FloatArray = passes.integers(rows, shift, factor, bits, out)
    return squared


def put_rows(rows: Any, places: IntArray, out: FloatArray) -> bool:
    """Put rows of any kind into `out`, which lies row by row, as float64, each at its place.

    Return whether all numbers are finite.

    Examples
    --------
    >>> out = np.empty((3, 1))
    >>> put_rows(np.array([[1], [2], [3]]), np.array([2, 0, 1]), out)
    True
    >>> out.ravel().tolist()
    [2.0, 3.0, 1.0]
    """
    compiled = _compiled() if is_read_in_place(rows.dtype) else None
    if compiled is not None:
        return compiled.put_rows(rows, places, out)
    out[places] = rows
    return bool(np.isfinite(out[places]).all())


def count_by_norm(
    rows: Rows, shift: FloatArray | None, scale: FloatArray, candidates: Candidates, counts: IntArray
) -> IntArray:
    """Count every row at the grid point of the norm of ``scale * (rows - shift)``, summed in any order.

    Rows whose grid point is not beyond doubt are left out: their places are returned.
    """
    left: IntArray = _passes(rows, scale).count_by_norm(rows, shift, scale, candidates, counts)
    return left


def add_by_norm(
    rows: Rows, shift: FloatArray | None, scale: FloatArray, bits: int, candidates: Candidates, sums: NormSums
) -> IntArray:
    """Count every row at the grid point of the norm of ``scale * (rows - shift)``, and add its integers there.

    Rows whose grid point is not beyond doubt, or that have no exact square, are left out: their places are returned.
    """
    left: IntArray = _passes(rows, scale).add_by_norm(rows, shift, scale, bits, candidates, sums)
    return left


def room_for_products(width: int) -> FloatArray | None:
    """Return zeros for `add_products` of rows as wide with their constant; None where BLAS does it better."""
    compiled = _compiled()
    return None if compiled is None else compiled.room_for_products(width)


def add_products(
    rows: Rows,
    shift: FloatArray | None,
    factor: FloatArray,
    bits: int,
    constant: float,
    products: FloatArray,
) -> FloatArray | None:
    """Add q q' of all integer rows q, the constant at their end, to the upper triangle of `products`.

    But for those without an exact square. Return squared norms: what `integers` returns below `EXACT_LIMIT`, and no
    number below it otherwise. Return None, and add nothing, where rows are not as they were compiled for.
    """
    compiled = _compiled()
    if compiled is None or not compiled.fit(rows, factor):
        return None
    return compiled.add_products(rows, shift, factor, bits, constant, products)


def compared_integers(rows: FloatArray, places: range, how: Comparing) -> FloatArray:
    """Return the integers of the comparisons of rows at these places."""
    integers: FloatArray = (_compiled() or numpy_kernels).compared_integers(rows, places, how)
    return integers


def add_compared(rows: FloatArray, places: range, how: Comparing, products: FloatArray) -> None:
    """Add q q' of the integers q of comparisons to the upper triangle of `products`, for which there was room."""
    compiled = _compiled()
    assert compiled is not None
    compiled.add_compared(rows, places, how, products)


def _passes(rows: Rows, factor: FloatArray) -> Any:
    """Return the passes for such rows, `CompiledPasses` or the like of them in `numpy_passes`."""
    compiled = _compiled()
    return compiled if compiled is not None and compiled.fit(rows, factor) else numpy_kernels


@functools.cache
def _compiled() -> CompiledPasses | None:
    """Return the compiled passes, if there are any and they give what NumPy gives."""
    library = numerics.compiled_library()
    passes = None if library is None else CompiledPasses(library)
    return passes if passes is not None and _agrees(passes) else None


def _agrees(passes: CompiledPasses) -> bool:
    """Compare both ways on rows a few bits beside integers, some to be shortened, and on the extreme numbers."""
    d, bits = 19, 6
    shift, factor = np.resize([0.0, 0.1, -1e-9], d), np.resize([3.0, 1 / 3, 1e4, 16 / 0.7], d)
    whole = np.vstack([np.arange(1, d + 1), np.arange(-d, 0), *(np.full(d, entry) for entry in (18.0, 30.0, 1001.0))])
    beside = 1 + np.arange(-2, 3)[:, None, None] * 2.0**-52
    near = ((whole / factor + shift) * beside).reshape(-1, d)
    extreme = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308, -1e308, 2.0**52 + 0.5]
    rows = np.vstack([near, np.resize(extreme, (2, d))])
    # Cells of four octaves: the first three of these rows on a grid point, the third a little longer than 2^bits; the
    # next in doubt; and the last on another grid point, where entries are twice as large, so integers again.
    first_cell = int(np.square(whole[0]).sum().view(np.int64) >> 54)
    candidates = Candidates(np.array([0, -1, -1, 1], dtype=np.int16), first_cell, 54, factor * np.array([[1.0], [2.0]]))
    found: list[list[NDArray[Any]]] = []
    ways: tuple[Any, ...] = numpy_kernels, passes
    for way in ways:
        out, by_norm = np.empty(rows.shape), []
        norms = way.integers(rows, shift, factor, bits, out)
        # All of them, and one by one, so that no errors cancel.
        for part in (rows, *rows[:, None]):
            counts, sums = np.zeros(2, dtype=np.int64), NormSums(np.zeros(2, dtype=np.int64), np.zeros((2, d)))
            by_norm += [way.count_by_norm(part, shift, factor, candidates, counts), counts]
            by_norm += [way.add_by_norm(part, shift, factor, bits, candidates, sums), sums.counts, sums.totals]
        found.append([norms, out, *by_norm])
    ours, its = found
    same = all(np.array_equal(*pair, equal_nan=True) for pair in zip(ours, its, strict=True)) and _loads(passes)
    same &= _compares(passes)
    # Few rows and several tiles of them, side by side and column by column, narrow and wide.
    several, wide = np.tile(rows, (5, 1)), np.tile(rows, 3)
    same &= all(_multiplies(passes, one, shift, factor, bits) for one in (rows, several, np.asfortranarray(several)))
    return same and _multiplies(passes, wide, np.tile(shift, 3), np.tile(factor, 3), bits)


def _multiplies(passes: CompiledPasses, rows: FloatArray, shift: FloatArray, factor: FloatArray, bits: int) -> bool:
    """Compare the products of integer rows, and which of these have an exact square, with what NumPy makes of them."""
    (n, d), constant = rows.shape, 5.0
    room, integers = passes.room_for_products(d + 1), np.empty(rows.shape)
    if room is None:
        return True
    squared = numpy_kernels.integers(rows, shift, factor, bits, integers)
    found = passes.add_products(rows, shift, factor, bits, constant, room)
    exact, whole = squared < EXACT_LIMIT, np.column_stack([integers, np.full(n, constant)])
    same = np.array_equal(exact, found < EXACT_LIMIT) and np.array_equal(squared[exact], found[exact])
    return same and np.array_equal(np.triu(room)[: d + 1, : d + 1], np.triu(whole[exact].T @ whole[exact]))


# More places than these are sorted by NumPy: column_counts.c counts them in 32 bits.
_MOST_PLACES = 2**31


def places_by_hash(first: int, n: int) -> IntArray:
    """Return the places from 0 to n - 1 in the order of the hashes of so many words, from `first` on.

    Examples
    --------
    >>> places_by_hash(1, 6)
    array([2, 4, 5, 1, 0, 3])
    """
    compiled = _compiled_order()
    return (numpy_kernels.places_by_hash if compiled is None or n > _MOST_PLACES else compiled)(first, n)


@functools.cache
def _compiled_order() -> Callable[[int, int], IntArray] | None:
    """Return `places_by_hash` of column_counts.c, if it is there and gives what NumPy gives."""
    types = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p
    sort = compiled_function("eigenveil_order", *types)
    if sort is None:
        return None

    def order(first: int, n: int) -> IntArray:
        bits = max(1, (n - 1).bit_length())
        ends, places = np.empty(2**bits + 1, dtype=np.uint32), np.empty(n, dtype=np.int64)
        sort(first, n, bits, ends, places)
        return places

    asked = ((1, 1), (1, 1000), (2**40 + 1, 77))
    return order if all(np.array_equal(order(*one), numpy_kernels.places_by_hash(*one)) for one in asked) else None


def _loads(passes: CompiledPasses) -> bool:
    """Compare what is read of every type, side by side, column by column and backwards, with what NumPy makes of it."""
    few = 2 * _TILE + 3
    counted = np.arange(few, dtype=np.int64) * 2**57 // 3 - 5  # more bits than a float64 has, and beyond other types
    with np.errstate(all="ignore"):
        columns = [(counted.view(np.float64) if name == "f4" else counted).astype(name) for name in _TYPES]
    columns[0] = counted.view(np.float64)
    tables: list[Rows] = [RowsByColumn(columns), RowsByColumn([one[::-2] for one in columns])]
    for one in columns:
        tables += [np.resize(one, (few, 7)), np.resize(one, (7, few)).T]
    for table in tables:
        ours, its = np.empty(table.shape), np.empty(table.shape)
        for way, out in ((numpy_kernels, ours), (passes, its)):
            way.integers(np.asarray(table) if way is numpy_kernels else table, None, np.array(1.0), None, out)
        same = np.array_equal(ours, its, equal_nan=True)
        same &= passes.put_rows(table, np.arange(len(its))[::-1].copy(), its) == bool(
            np.isfinite(np.asarray(table)).all()
        )
        same &= np.array_equal(np.asarray(table, dtype=np.float64)[::-1], its, equal_nan=True)
        if not same:
            return False
    return True


def _compares(passes: CompiledPasses) -> bool:
    """Compare comparisons of rows of every size, near and far, with ties, with those of NumPy, and their products."""
    d, bits = 13, 8
    extreme = [0.0, 1.0, -1.5e308, 1e308, 5e-324, -3e-310, 1e-300, 1 / 3, -7.0, 2.0**-600, 1e16 + 2, 0.1, 0.1]
    far = np.resize(np.array(extreme), (21, d)) * np.resize([1.0, 1.0, -0.5, 2.0**-40, 0.0, 1e-9, 1.0], (21, 1))
    rows = np.vstack([far, np.arange(40.0 * d).reshape(-1, d) * 0.6180339887 % 1])
    scale = np.resize([1.0, 3.0, 0.25, 2.0, 1 / 3, 1e-200], d)
    for how in (
        Comparing(2, False, None, 2.0**bits, bits),
        Comparing(4, False, scale, 2.0**bits, bits),
        Comparing(1, True, None, 100.0, bits),  # of which seven are too many
    ):
        places = range(how.half, (len(rows) - how.half) * how.half)
        ours, its = (way.compared_integers(rows, places, how) for way in (numpy_kernels, passes))
        room = passes.room_for_products(d)
        if room is not None:
            passes.add_compared(rows, places, how, room)
            if not np.array_equal(np.triu(room)[:d, :d], np.triu(ours.T @ ours)):
                return False
        if not np.array_equal(ours, its):
            return False
    return True
