"""The inner loops over rows of whole privacy units, and over CSR rows: by privacy_units.c, or by NumPy, the same bits.

What C leaves, and all where it was not compiled or does not agree, is done by `numpy_kernels` and by `comparisons`.
"""

import ctypes
import functools
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from .. import numerics
from ..numerics import FloatArray, IntArray, taking_arrays
from . import kernels, numpy_kernels
from .numpy_kernels import EXACT_LIMIT, SINGLE_BITS, hash_weights, unit_sizes

# As in privacy_units.c.
_LEAST_ROOM = 256


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
        ends = np.empty(starts.size + 1, dtype=np.int64)
        ends[:-1], ends[-1] = starts, len(rows)
        self.kept = rows, ends
        self.largest = int((ends[1:] - ends[:-1]).max(initial=0))
        super().__init__(rows.ctypes.data, rows.strides[0], ends.ctypes.data, starts.size, rows.shape[1])


class _Shortening(ctypes.Structure):
    """How the rows of a unit become integers within its bound, as in privacy_units.c."""

    _fields_ = (
        ("shift", ctypes.c_void_p),
        ("factor", ctypes.c_void_p),
        *((name, ctypes.c_double) for name in ("single_limit", "single_reach", "limit", "reach", "constant")),
        ("average", ctypes.c_int),
    )

    def __init__(
        self, d: int, shift: FloatArray | None, factor: FloatArray, bits: int, constant: int, average: bool
    ) -> None:
        self.kept = columns = _columns(d, shift, factor)
        limit = float(4**bits if average else 4**bits + constant**2)
        super().__init__(
            *(one.ctypes.data for one in columns),
            *(4.0**SINGLE_BITS, 2.0**SINGLE_BITS, limit, float(np.sqrt(limit)), float(constant), average),
        )


class CompiledUnits:
    """The functions of privacy_units.c.

    Parameters
    ----------
    library : ctypes.CDLL
    """

    def __init__(self, library: Any) -> None:
        place, number, size = ctypes.c_void_p, ctypes.c_double, ctypes.c_size_t
        units, how = ctypes.POINTER(_Units), ctypes.POINTER(_Shortening)
        self._squares = taking_arrays(library.eigenveil_unit_squares, units, place, place, place)
        self._integers = taking_arrays(library.eigenveil_unit_integers, units, how, place, place)
        self._products = None
        if library.eigenveil_multiplies():
            self._products = taking_arrays(library.eigenveil_unit_products, units, how, size, place, place, place)
        hashed = (units, place, place, place, ctypes.c_uint64, place, place)
        self._chosen = taking_arrays(library.eigenveil_chosen, *hashed, returns=ctypes.c_int)
        sparse = (place, place, place, size, place, number, number, number, size, size, size, place, place, place)
        self._sparse = taking_arrays(library.eigenveil_sparse_products, *sparse)

    def squares(self, rows: Any, starts: IntArray, shift: FloatArray | None, factor: FloatArray) -> FloatArray:
        """Return the sums of the squared norms of changed rows."""
        squared, columns = np.empty(starts.size), _columns(rows.shape[1], shift, factor)
        self._squares(_Units(rows, starts), *columns, squared)
        return squared

    def integers(self, rows: Any, starts: IntArray, how: _Shortening, out: FloatArray) -> FloatArray:
        """Put integer rows into `out`, row by row, and return the constant of every unit; -1 where it is left."""
        constants = np.empty(starts.size)
        self._integers(_Units(rows, starts), how, constants, out)
        return constants

    def add_products(self, rows: Any, starts: IntArray, how: _Shortening, products: FloatArray) -> FloatArray | None:
        """Add q q' of integer rows to the upper triangle of `products`; return the constant of every unit, as above."""
        if self._products is None:
            return None
        constants, units, pitch = np.empty(starts.size), _Units(rows, starts), len(products)
        room = kernels._aligned(units.largest + _LEAST_ROOM + kernels._TILE, pitch)
        self._products(units, how, pitch, room, constants, products)
        return constants

    def smallest_hashes(self, rows: Any, starts: IntArray, hashes: NDArray[np.uint64]) -> IntArray | None:
        """Return the place of the row that is chosen of every unit, -1 where it is left; None if one is not finite."""
        units, places = _Units(rows, starts), np.empty(starts.size, dtype=np.int64)
        n_slots = 2 ** (2 * units.largest).bit_length()
        slots, room = np.zeros((n_slots, 4), dtype=np.uint64), np.empty(units.largest, dtype=np.uint64)
        beyond = self._chosen(units, hash_weights(rows.shape[1]), hashes, slots, n_slots - 1, room, places)
        return None if beyond else places

    def add_sparse(self, rows: Any, factor: FloatArray, bits: int, constant: int, products: FloatArray) -> FloatArray:
        """Add q q' of the integer rows of CSR rows to `products`, and return squared norms as `kernels.integers`."""
        (n, d), squared = rows.shape, np.empty(rows.shape[0])
        longest = int(np.diff(rows.indptr).max(initial=1))
        listed = (np.ascontiguousarray(one, dtype=np.int64) for one in (rows.indices, rows.indptr))
        columns, limits = _columns(d, None, factor)[1], kernels._limits(bits)
        sizes, rooms = (d, len(products), longest), np.empty((3, longest))
        entries = np.ascontiguousarray(rows.data, dtype=np.float64)
        self._sparse(entries, *listed, n, columns, *limits, float(constant), *sizes, rooms, squared, products)
        return squared


def _columns(d: int, shift: FloatArray | None, factor: FloatArray) -> FloatArray:
    """Return a shift and a factor for every column."""
    columns = np.empty((2, d))
    columns[0] = 0.0 if shift is None else shift
    columns[1] = factor
    return columns


def in_one_piece(rows: NDArray[Any]) -> bool:
    """Return whether the numbers of every row lie side by side as float64, so that rows can be read where they lie."""
    in_pieces = rows.shape[1] > 1 and rows.strides[1] != rows.itemsize
    return rows.dtype == np.float64 and rows.dtype.isnative and rows.flags.aligned and not in_pieces


def compiled_for(rows: Any) -> CompiledUnits | None:
    """Return the compiled functions, if there are any for such rows."""
    return compiled() if isinstance(rows, np.ndarray) and in_one_piece(rows) else None


def unit_squares(rows: Any, starts: IntArray, shift: FloatArray | None, factor: FloatArray) -> FloatArray:
    """Return the sums over units of the squared norms of ``factor * (rows - shift)``, in any order.

    Examples
    --------
    >>> unit_squares(np.array([[1.0], [2.0], [3.0]]), np.array([0, 2]), None, np.array(2.0)).tolist()
    [20.0, 36.0]
    """
    functions = compiled_for(rows)
    if functions is not None:
        return functions.squares(rows, starts, shift, factor)
    return np.asarray(np.add.reduceat(numpy_kernels.squares(np.asarray(rows), shift, factor), starts))


def unit_integers(
    rows: Any,
    starts: IntArray,
    shift: FloatArray | None,
    factor: FloatArray,
    bits: int,
    constant: int,
    average: bool,
    out: FloatArray,
) -> FloatArray | None:
    """Put integer rows into `out`, those of a unit shortened together, and return the constant of every unit.

    That is -1 where a row has no exact square, and its rows are zeros: these units are left. None, and nothing is done,
    where rows are not as they were compiled for.
    """
    functions = compiled_for(rows) if out.flags.c_contiguous else None
    if functions is None:
        return None
    how = _Shortening(rows.shape[1], shift, factor, bits, constant, average)
    return functions.integers(rows, starts, how, out)


def add_unit_products(
    rows: Any,
    starts: IntArray,
    shift: FloatArray | None,
    factor: FloatArray,
    bits: int,
    constant: int,
    average: bool,
    products: FloatArray,
) -> FloatArray | None:
    """Add q q' of the rows that `unit_integers` makes, their constants at their end, to the upper triangle."""
    functions = compiled_for(rows)
    if functions is None:
        return None
    how = _Shortening(rows.shape[1], shift, factor, bits, constant, average)
    return functions.add_products(rows, starts, how, products)


def smallest_hashes(rows: Any, starts: IntArray, hashes: NDArray[np.uint64]) -> IntArray | None:
    """Return the place of one row of every unit, as `numpy_kernels.smallest_hashes` chooses it.

    It is -1 where different rows of a unit have one hash. None where rows are not as they were compiled for, and where
    a number is not finite.
    """
    functions = compiled_for(rows)
    return None if functions is None else functions.smallest_hashes(rows, starts, hashes)


def add_sparse_products(rows: Any, factor: FloatArray, bits: int, constant: int, products: FloatArray) -> FloatArray:
    """Add q q' of the integers of CSR rows, the constant at their end, to `products`, where that is `compiled`.

    But for those without an exact square; return squared norms as `kernels.integers` does.
    """
    functions = compiled()
    assert functions is not None
    return functions.add_sparse(rows, factor, bits, constant, products)


@functools.cache
def compiled() -> CompiledUnits | None:
    """Return the compiled functions, if there are any and they give what NumPy gives."""
    library = numerics.compiled_library()
    functions = None if library is None else CompiledUnits(library)
    return functions if functions is not None and _agrees(functions) else None


def _agrees(functions: CompiledUnits) -> bool:
    """Compare both ways on units of few and of many rows, some long, some equal."""
    d, bits, constant = 11, 6, 5
    shift, factor = np.resize([0.0, 0.1, -1e-9], d), np.resize([3.0, 1 / 3, 1e4, 16 / 0.7], d)
    whole = np.arange(400.0 * d).reshape(-1, d) * 0.6180339887 % 1 - 0.5
    whole *= np.resize([1.0, 1.0, 1e-9, 30.0, 0.0, 1e9], 400)[:, None]
    whole[7::11] = whole[6::11][: len(whole[7::11])]
    starts = np.array([0, 1, 3, 6, 10, 17, 60, 390])
    far = whole.copy()
    far[100, 3], far[[5, 399], 0] = np.nan, 1e300
    hashes = numpy_kernels.split_mix(np.arange(starts.size, dtype=np.uint64))
    same = True
    for rows in (whole, far, np.hstack([far, whole])[:, :d]):
        dense = np.ascontiguousarray(rows)
        single, left = np.empty(dense.shape), np.zeros(starts.size, dtype=bool)
        squared = numpy_kernels.integers(dense, shift, factor, SINGLE_BITS, single)
        left[np.searchsorted(starts, np.flatnonzero(~(squared < EXACT_LIMIT)), side="right") - 1] = True
        of_rows = np.repeat(left, unit_sizes(starts, len(dense)))
        single[of_rows] = 0.0
        for average in (True, False):
            ours, out = single.copy(), np.empty(dense.shape)
            how = _Shortening(d, shift, factor, bits, constant, average)
            constants = numpy_kernels.units_together(ours, starts, bits, constant, average)
            constants[of_rows] = -1.0
            same &= np.array_equal(functions.integers(rows, starts, how, out), constants[starts])
            same &= np.array_equal(out, ours)
            room = kernels.room_for_products(d + 1)
            if room is not None and functions.add_products(rows, starts, how, room) is not None:
                full = np.column_stack([ours, constants])[~of_rows]
                same &= np.array_equal(np.triu(room)[: d + 1, : d + 1], np.triu(full.T @ full))
        loose = np.add.reduceat(numpy_kernels.squares(dense, shift, factor), starts)
        same &= np.allclose(functions.squares(rows, starts, shift, factor), loose, rtol=1e-12, equal_nan=True)
        if np.isfinite(dense).all():
            wanted = dense[numpy_kernels.smallest_hashes(dense, starts, hashes)]
            found = functions.smallest_hashes(rows, starts, hashes)
            same &= found is not None and bool((found >= 0).all()) and np.array_equal(dense[found], wanted)
        else:
            same &= functions.smallest_hashes(rows, starts, hashes) is None
    return same and _agrees_on_sparse(functions, far, factor)


def _agrees_on_sparse(functions: CompiledUnits, rows: FloatArray, factor: FloatArray) -> bool:
    bits, constant, stored = 6, 5, np.arange(rows.size).reshape(rows.shape) % 3 == 0
    listed, out = scipy.sparse.csr_array(np.where(stored, rows, 0.0)), np.empty(rows.shape)
    squared = numpy_kernels.integers(listed.toarray(), None, factor, bits, out)
    products = np.zeros((rows.shape[1] + 1,) * 2)
    once_more = functions.add_sparse(listed, factor, bits, constant, products)
    full = np.column_stack([out, np.full(len(out), float(constant))])[squared < EXACT_LIMIT]
    return np.array_equal(products, full.T @ full) and np.array_equal(squared, once_more, equal_nan=True)
