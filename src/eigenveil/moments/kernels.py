"""The inner loops over rows: by one_pass.c where it was compiled and agrees, else by `numpy_kernels`, to the same bits.

A call lets other threads run until it ends, however many rows it is given.
"""

import ctypes
import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics import FloatArray, IntArray
from . import numpy_kernels
from .numpy_kernels import EXACT_LIMIT, Candidates, NormSums

# As in one_pass.c.
_LANES, _TILE = 8, 32
# Above this width BLAS is quicker than ours.
_WIDEST = 160


class CompiledPasses:
    """The functions of one_pass.c, of arrays. Each returns what its namesake in `numpy_kernels` does.

    Parameters
    ----------
    library : ctypes.CDLL
    """

    def __init__(self, library: Any) -> None:
        place, number, size, whole = ctypes.c_void_p, ctypes.c_double, ctypes.c_size_t, ctypes.c_int64
        table = (place, ctypes.c_ssize_t, size, size, place, place)
        bounded = (*table, number, number)
        self._integers = _function(library.eigenveil_integers, *bounded, place, place)
        self._squares = _function(library.eigenveil_squares, *table, place)
        by_norm = (*bounded, place, whole, whole, ctypes.c_int, *(place,) * 5)
        self._sums_by_norm = _function(library.eigenveil_sums_by_norm, *by_norm, returns=size)
        self._multiplies = bool(library.eigenveil_multiplies())
        if self._multiplies:
            self._products = _function(library.eigenveil_products, *bounded, number, size, *(place,) * 3)

    @staticmethod
    def fit(rows: NDArray[Any], factor: FloatArray) -> bool:
        """Tell whether rows are what was compiled for: float64, each in one piece, all changed alike."""
        whole = rows.dtype == np.float64 and rows.dtype.isnative and rows.flags.aligned
        in_pieces = rows.shape[1] > 1 and rows.strides[1] != rows.itemsize
        return whole and not in_pieces and rows.strides[0] % rows.itemsize == 0 and factor.ndim < 2

    def integers(
        self, rows: FloatArray, shift: FloatArray | None, factor: FloatArray, bits: int | None, out: FloatArray
    ) -> FloatArray:
        """Put integer rows into `out`, which lies row by row."""
        squared = np.empty(rows.shape[0])
        self._integers(*_table(rows, shift, factor), *_limits(bits), squared, out)
        return squared

    def squares(self, rows: FloatArray, shift: FloatArray | None, factor: FloatArray) -> FloatArray:
        """Measure rows that are not truncated."""
        squared = np.empty(rows.shape[0])
        self._squares(*_table(rows, shift, factor), squared)
        return squared

    def add_by_norm(
        self,
        rows: FloatArray,
        shift: FloatArray | None,
        scale: FloatArray,
        bits: int,
        candidates: Candidates,
        sums: NormSums,
    ) -> IntArray:
        """Add integer rows to the totals of their grid points; return the places of the others."""
        left, row = np.empty(rows.shape[0], dtype=np.int64), np.empty(rows.shape[1])
        cells = candidates.cells, candidates.cells.size, candidates.first_cell, candidates.cell_shift
        changed = *_table(rows, shift, scale), *_limits(bits)
        n_left = self._sums_by_norm(*changed, *cells, candidates.factors, row, sums.counts, sums.totals, left)
        return left[:n_left].copy()

    def room_for_products(self, width: int) -> FloatArray | None:
        """Return zeros for `add_products` of rows as wide with their constant; None where BLAS is quicker."""
        pitch = -(-width // _LANES) * _LANES
        return np.zeros((pitch, pitch)) if self._multiplies and width <= _WIDEST else None

    def add_products(
        self,
        rows: FloatArray,
        shift: FloatArray | None,
        factor: FloatArray,
        bits: int,
        constant: float,
        products: FloatArray,
    ) -> FloatArray:
        """Add the products of integer rows, a constant at the end of each, to the upper triangle of `products`."""
        pitch = len(products)
        squared, tile = np.empty(rows.shape[0]), np.empty((_TILE, pitch))
        self._products(*_table(rows, shift, factor), *_limits(bits), constant, pitch, squared, tile, products)
        return squared


def _function(function: Any, *types: Any, returns: Any = None) -> Callable[..., Any]:
    """Return what calls a function with the places of arrays, which live as long as the call."""
    function.argtypes, function.restype = types, returns

    def call(*arguments: Any) -> Any:
        return function(*(one.ctypes.data if isinstance(one, np.ndarray) else one for one in arguments))

    return call


def _table(rows: NDArray[Any], shift: FloatArray | None, factor: FloatArray) -> tuple[Any, ...]:
    """Return rows, how far apart they are, their shape, and a shift and a factor for every column."""
    columns = np.empty((2, rows.shape[1]))
    columns[0] = 0.0 if shift is None else shift
    columns[1] = factor
    return rows, rows.strides[0] // rows.itemsize, *rows.shape, *columns


def _limits(bits: int | None) -> tuple[float, float]:
    return (math.inf, math.inf) if bits is None else (4.0**bits, 2.0**bits)


def loaded(path: Path) -> CompiledPasses | None:
    """Return the compiled passes, if they are there."""
    try:
        return CompiledPasses(ctypes.CDLL(str(path)))
    except (OSError, AttributeError):
        return None


__all__ = [
    "EXACT_LIMIT",
    "Candidates",
    "NormSums",
    "add_by_norm",
    "add_products",
    "integers",
    "room_for_products",
    "squares",
]


_LIBRARY = Path(__file__).with_name("compiled_pass.so")


def integers(
    rows: NDArray[Any], shift: FloatArray | None, factor: FloatArray, bits: int | None, out: FloatArray
) -> FloatArray:
    """Put ``trunc(factor * (rows - shift))`` into `out`, and return the squared norms of these integer rows.

    Those with a squared norm above 4^bits and below 2^53 are then brought to norm 2^bits, or just below. Longer ones,
    and those with NaN or infinity, stay as they are.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
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


def squares(rows: NDArray[Any], shift: FloatArray | None, factor: FloatArray) -> FloatArray:
    """Return the squared norms of ``factor * (rows - shift)``, summed in any order.

    Examples
    --------
    >>> squares(np.array([[1.0, 2.0]]), np.array([1.0, 0.0]), np.array(2.0))
    array([16.])
    """
    squared: FloatArray = _passes(rows, factor).squares(rows, shift, factor)
    return squared


def add_by_norm(
    rows: NDArray[Any], shift: FloatArray | None, scale: FloatArray, bits: int, candidates: Candidates, sums: NormSums
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
    rows: NDArray[Any],
    shift: FloatArray | None,
    factor: FloatArray,
    bits: int,
    constant: float,
    products: FloatArray,
) -> FloatArray | None:
    """Add q q' of all integer rows q, the constant at their end, to the upper triangle of `products`.

    But for those without an exact square; return squared norms as `integers` does. Return None, and add nothing, where
    rows are not as they were compiled for.
    """
    compiled = _compiled()
    if compiled is None or not compiled.fit(rows, factor):
        return None
    return compiled.add_products(rows, shift, factor, bits, constant, products)


def _passes(rows: NDArray[Any], factor: FloatArray) -> Any:
    """Return the passes for such rows, `CompiledPasses` or the like of them in `numpy_passes`."""
    compiled = _compiled()
    return compiled if compiled is not None and compiled.fit(rows, factor) else numpy_kernels


@functools.cache
def _compiled() -> CompiledPasses | None:
    """Return the compiled passes, if there are any and they give what NumPy gives."""
    passes = loaded(_LIBRARY)
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
    found: list[tuple[list[NDArray[Any]], FloatArray]] = []
    ways: tuple[Any, ...] = numpy_kernels, passes
    for way in ways:
        out, by_norm = np.empty(rows.shape), []
        norms = way.integers(rows, shift, factor, bits, out)
        # All of them, and one by one, so that no errors cancel.
        for part in (rows, *rows[:, None]):
            sums = NormSums(np.zeros(2, dtype=np.int64), np.zeros((2, d)))
            by_norm += [way.add_by_norm(part, shift, factor, bits, candidates, sums), sums.counts, sums.totals]
        # Squares that are no integers depend on the order of their sum, so these are nearly the same only.
        loose = way.squares(rows, shift, factor)
        found.append(([norms, out, *by_norm], loose))
    (ours, our_squares), (its, its_squares) = found
    same = all(np.array_equal(*pair, equal_nan=True) for pair in zip(ours, its, strict=True))
    same &= np.allclose(our_squares, its_squares, rtol=1e-13, equal_nan=True)
    room, constant = passes.room_for_products(d + 1), 5.0
    if room is None:
        return same
    once_more = passes.add_products(rows, shift, factor, bits, constant, room)
    norms, out = ours[0], np.column_stack([ours[1], np.full(len(rows), constant)])[ours[0] < EXACT_LIMIT]
    multiplied = np.array_equal(np.triu(room)[: d + 1, : d + 1], np.triu(out.T @ out))
    return same and multiplied and np.array_equal(norms, once_more, equal_nan=True)
