"""One pass over dense rows: moved, scaled, truncated, measured and shortened while they are in the cache.

Every statistic of bounded rows begins with it. Each entry is rounded by itself, so it depends on its row alone; only
the order in which squares are added may differ between layouts, and those who ask allow for that.

one_pass.c does the same to rows of float64 where it was compiled, two to three times as fast. It is given a few hard
rows before it is used, and where one bit of them becomes another than by NumPy, it is not.
"""

import ctypes
import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .shortening import clip, squared_norms

FloatArray = NDArray[np.float64]

EXACT_LIMIT = 2.0**53
"""Below it every integer is a float64, so a sum of squares below it is exact in any order of summation; one that
reaches it stays at or above it in any order, so the test "N < 2^53" is exact too."""
# Tiles of so many entries stay in a core's second cache between two steps, and calls for them cost little beside.
_TILE_ENTRIES = 2**15
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
    library = _compiled()
    if library is not None and _fit(rows, factor) and out.flags.c_contiguous:
        return _compiled_integers(library, rows, shift, factor, bits, out)
    return _numpy_integers(rows, shift, factor, bits, out)


def squares(rows: NDArray[Any], shift: FloatArray | None, factor: FloatArray) -> FloatArray:
    """Return the squared norms of ``factor * (rows - shift)``, summed in any order.

    Examples
    --------
    >>> squares(np.array([[1.0, 2.0]]), np.array([1.0, 0.0]), np.array(2.0))
    array([16.])
    """
    library = _compiled()
    if library is not None and _fit(rows, factor):
        return _compiled_squares(library, rows, shift, factor)
    return _numpy_squares(rows, shift, factor)


def _numpy_integers(
    rows: NDArray[Any], shift: FloatArray | None, factor: FloatArray, bits: int | None, out: FloatArray
) -> FloatArray:
    squared = np.empty(rows.shape[0])
    # A tile of a matrix that lies column by column would be many short pieces.
    entries = _TILE_ENTRIES if out.flags.c_contiguous else rows.size
    with np.errstate(all="ignore"):  # infinities and NaN show in the squares
        for part in _tiles(rows, entries):
            tile, norms = out[part], squared[part]
            _change(rows[part], shift, factor[part] if factor.ndim == 2 else factor, tile)
            np.trunc(tile, out=tile)
            norms[:] = squared_norms(tile)
            if bits is not None:
                longer = (norms > 4**bits) & (norms < EXACT_LIMIT)
                if longer.any():
                    clip(tile, norms, longer, bits)
    return squared


def _numpy_squares(rows: NDArray[Any], shift: FloatArray | None, factor: FloatArray) -> FloatArray:
    squared, buffer = np.empty(rows.shape[0]), np.empty((0, rows.shape[1]))
    with np.errstate(all="ignore"):
        for part in _tiles(rows, _TILE_ENTRIES):
            if buffer.shape[0] < part.stop - part.start:
                buffer = np.empty((part.stop - part.start, rows.shape[1]))
            tile = buffer[: part.stop - part.start]
            _change(rows[part], shift, factor, tile)
            squared[part] = squared_norms(tile)
    return squared


def _tiles(rows: NDArray[Any], entries: int) -> list[slice]:
    n, d = rows.shape
    step = max(1, entries // max(1, d))
    return [slice(low, min(low + step, n)) for low in range(0, n, step)]


def _change(rows: NDArray[Any], shift: FloatArray | None, factor: FloatArray, out: FloatArray) -> None:
    np.multiply(rows if shift is None else np.subtract(rows, shift, out=out), factor, out=out)


def _fit(rows: NDArray[Any], factor: FloatArray) -> bool:
    """Tell whether rows are what was compiled for: float64, each in one piece."""
    whole = rows.dtype == np.float64 and rows.dtype.isnative and rows.flags.aligned
    in_pieces = rows.shape[1] > 1 and rows.strides[1] != rows.itemsize
    return whole and not in_pieces and rows.strides[0] % rows.itemsize == 0 and factor.ndim < 2


def _compiled_integers(
    library: Any, rows: NDArray[Any], shift: FloatArray | None, factor: FloatArray, bits: int | None, out: FloatArray
) -> FloatArray:
    squared = np.empty(rows.shape[0])
    limits = (math.inf, math.inf) if bits is None else (4.0**bits, 2.0**bits)
    columns = _columns(rows, shift, factor)
    places = (array.ctypes.data for array in columns)
    library.eigenveil_integers(*_table(rows), *places, *limits, out.ctypes.data, squared.ctypes.data)
    return squared


def _compiled_squares(library: Any, rows: NDArray[Any], shift: FloatArray | None, factor: FloatArray) -> FloatArray:
    squared = np.empty(rows.shape[0])
    columns = _columns(rows, shift, factor)
    places = (array.ctypes.data for array in columns)
    library.eigenveil_squares(*_table(rows), *places, squared.ctypes.data)
    return squared


def _table(rows: NDArray[Any]) -> tuple[int, int, int, int]:
    return rows.ctypes.data, rows.strides[0] // rows.itemsize, *rows.shape


def _columns(rows: NDArray[Any], shift: FloatArray | None, factor: FloatArray) -> list[FloatArray]:
    """Return a shift and a factor for every column."""
    columns = np.empty((2, rows.shape[1]))
    columns[0] = 0.0 if shift is None else shift
    columns[1] = factor
    return [*columns]


@functools.cache
def _compiled() -> Any:
    """Return the compiled passes, if there are any and they give what NumPy gives."""
    try:
        library = ctypes.CDLL(str(_LIBRARY))
        place, number = ctypes.c_void_p, ctypes.c_double
        table = (place, ctypes.c_ssize_t, ctypes.c_size_t, ctypes.c_size_t, place, place)
        library.eigenveil_integers.argtypes = (*table, number, number, place, place)
        library.eigenveil_squares.argtypes = (*table, place)
        library.eigenveil_integers.restype = library.eigenveil_squares.restype = None
    except (OSError, AttributeError):
        return None
    return library if _agrees(library) else None


def _agrees(library: Any) -> bool:
    """Compare both ways on rows a few bits beside integers, some to be shortened, and on the extreme numbers."""
    d, bits = 19, 6
    shift, factor = np.resize([0.0, 0.1, -1e-9], d), np.resize([3.0, 1 / 3, 1e4, 16 / 0.7], d)
    whole = np.vstack([np.arange(1, d + 1), np.arange(-d, 0), np.full(d, 1001.0)])
    beside = 1 + np.arange(-2, 3)[:, None, None] * 2.0**-52
    near = ((whole / factor + shift) * beside).reshape(-1, d)
    extreme = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308, -1e308, 2.0**52 + 0.5]
    rows = np.vstack([near, np.resize(extreme, (2, d))])
    ours, its = np.empty(rows.shape), np.empty(rows.shape)
    same = np.array_equal(
        _numpy_integers(rows, shift, factor, bits, ours),
        _compiled_integers(library, rows, shift, factor, bits, its),
        equal_nan=True,
    )
    # Squares that are no integers depend on the order of their sum.
    found = _numpy_squares(rows, shift, factor), _compiled_squares(library, rows, shift, factor)
    return same and np.array_equal(ours, its, equal_nan=True) and np.allclose(*found, rtol=1e-13, equal_nan=True)
