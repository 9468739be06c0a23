"""One pass over dense rows: moved, scaled, truncated, and their squared norms, while a tile of them is in the cache.

Every statistic that reads rows begins with it. Each entry is rounded by itself, so it depends on its row alone; only the
order in which squares are added may differ between layouts, and those who ask allow for that.

one_pass.c does the same to rows of float64 where it was compiled, two to three times as fast. It is asked for a few hard
rows before it is used, and where one bit of them is another than NumPy's, it is not.
"""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Tiles of so many entries stay in a core's second cache between two steps, and calls for them cost little beside.
_TILE_ENTRIES = 2**15


def scaled_squares(
    rows: NDArray[np.generic],
    shift: FloatArray | None,
    factor: FloatArray,
    out: FloatArray | None = None,
    *,
    truncate: bool = False,
) -> FloatArray:
    """Return the squared norms of ``factor * (rows - shift)``, and leave these rows in `out`, if that is given.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    shift, factor : ndarray
        What broadcasts against `rows`.
    out : ndarray of shape (n, d), optional
    truncate : bool
        Make integers of the entries first. Their squares add up exactly below 2^53, and to no less where they reach it.

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0], [3.0, 4.6]])
    >>> integers = np.empty_like(rows)
    >>> scaled_squares(rows, None, np.array(2.0), integers, truncate=True), integers
    (array([ 20., 117.]), array([[2., 4.],
           [6., 9.]]))
    """
    kernel = _kernel(truncate)
    if kernel is not None and truncate == (out is not None) and _fits(rows, factor, out):
        squared = np.empty(rows.shape[0])
        _run(kernel, rows, shift, factor, out, squared)
        return squared
    return _by_numpy(rows, shift, factor, out, truncate)


def _by_numpy(
    rows: NDArray[np.generic], shift: FloatArray | None, factor: FloatArray, out: FloatArray | None, truncate: bool
) -> FloatArray:
    n, d = rows.shape
    # A tile of a matrix that lies column by column would be many short pieces.
    step = max(1, _TILE_ENTRIES // max(1, d) if out is None or out.flags.c_contiguous else n)
    scratch = np.empty((min(step, n), d)) if out is None else out
    squared = np.empty(n)
    with np.errstate(all="ignore"):  # infinities and NaN show in the squares
        for low in range(0, n, step):
            part = slice(low, min(low + step, n))
            tile = scratch[: part.stop - low] if out is None else scratch[part]
            moved = rows[part] if shift is None else np.subtract(rows[part], shift, out=tile)
            np.multiply(moved, factor[part] if factor.ndim == 2 else factor, out=tile)
            if truncate:
                np.trunc(tile, out=tile)
            np.einsum("ij,ij->i", tile, tile, out=squared[part])
    return squared


def _fits(rows: NDArray[np.generic], factor: FloatArray, out: FloatArray | None) -> bool:
    """Tell whether rows are what was compiled for: float64, each in one piece, to be written one after the other."""
    whole = rows.dtype == np.float64 and rows.dtype.isnative and rows.flags.aligned
    in_pieces = rows.shape[1] > 1 and rows.strides[1] != rows.itemsize
    strange = rows.strides[0] % rows.itemsize or factor.ndim == 2
    return whole and not in_pieces and not strange and (out is None or out.flags.c_contiguous)


def _run(
    kernel: Callable[..., None],
    rows: NDArray[np.generic],
    shift: FloatArray | None,
    factor: FloatArray,
    out: FloatArray | None,
    squared: FloatArray,
) -> None:
    n, d = rows.shape
    shifts = np.zeros(d) if shift is None else np.ascontiguousarray(np.broadcast_to(shift, d), dtype=np.float64)
    factors = np.ascontiguousarray(np.broadcast_to(factor, d))
    kept = squared if out is None else out
    places = (array.ctypes.data for array in (shifts, factors, kept, squared))
    kernel(rows.ctypes.data, rows.strides[0] // rows.itemsize, n, d, *places)


@functools.cache
def _kernel(truncate: bool) -> Callable[..., None] | None:
    """Return the compiled pass, if there is one and it gives what NumPy gives."""
    try:
        library = ctypes.CDLL(str(Path(__file__).with_name("compiled_pass.so")))
        kernel = library.eigenveil_integers if truncate else library.eigenveil_squares
    except (OSError, AttributeError):
        return None
    sizes, place = (ctypes.c_ssize_t, ctypes.c_size_t, ctypes.c_size_t), ctypes.c_void_p
    kernel.argtypes, kernel.restype = (place, *sizes, *(place,) * 4), None
    rows, shift, factor = _hard_rows()
    outs = [np.empty(rows.shape) if truncate else None for _ in range(2)]
    squared = np.empty(rows.shape[0])
    _run(kernel, rows, shift, factor, outs[0], squared)
    # Sums of squares that are no integers below 2^53 depend on their order.
    same = np.allclose(squared, _by_numpy(rows, shift, factor, outs[1], truncate), rtol=1e-12, equal_nan=True)
    if truncate and outs[0] is not None and outs[1] is not None:
        same &= outs[0].tobytes() == outs[1].tobytes()
    return kernel if same else None


def _hard_rows() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows, a shift and factors whose products are near integers, halves, the smallest and largest numbers."""
    d = 19
    near = np.nextafter(np.arange(-d, d).reshape(2, d) / 3.0, np.inf)
    steps = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308, -1e308, 2.0**52 + 0.5])
    rows = np.vstack([near, np.nextafter(near, -np.inf), np.resize(steps, (2, d)), near / 3.0])
    return rows, np.resize([0.0, 0.1, -1e-9], d), np.resize([3.0, 1 / 3, 1e10, 65536 / 0.7], d)
