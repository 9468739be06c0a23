"""The passes of one_pass.c, where they were compiled, called with arrays: `one_pass` says what they do.

A call lets other threads run until it ends, however many rows it is given.
"""

import ctypes
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .numpy_passes import NormSums, Rungs

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# As in one_pass.c.
_LANES, _TILE = 8, 32
# Above this width BLAS is quicker than ours.
_WIDEST = 160


class CompiledPasses:
    """The functions of one_pass.c, of arrays. Each returns what its namesake in `one_pass` does.

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
        self, rows: FloatArray, shift: FloatArray | None, scale: FloatArray, bits: int, rungs: Rungs, sums: NormSums
    ) -> IntArray:
        """Add integer rows to the totals of their rungs; return the places of the others."""
        left, row = np.empty(rows.shape[0], dtype=np.int64), np.empty(rows.shape[1])
        cells = rungs.cells, rungs.cells.size, rungs.first_cell, rungs.cell_shift
        changed = *_table(rows, shift, scale), *_limits(bits)
        n_left = self._sums_by_norm(*changed, *cells, rungs.factors, row, sums.counts, sums.totals, left)
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
