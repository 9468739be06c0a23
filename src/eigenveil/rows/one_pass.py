"""One pass over dense rows: moved, scaled, truncated, measured and shortened while they are in the cache.

Every statistic of bounded rows begins with it. Each entry is rounded by itself, so it depends on its row alone; only
the order in which squares are added may differ between layouts, and those who ask allow for that.

one_pass.c does the same to rows of float64 where it was compiled, two to three times as fast. It is given a few hard
rows before it is used, and where one bit of them becomes another than by NumPy, it is not.
"""

import functools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import numpy_passes
from .compiled import CompiledPasses, loaded
from .numpy_passes import EXACT_LIMIT, NormSums, Rungs

__all__ = [
    "EXACT_LIMIT",
    "NormSums",
    "Rungs",
    "add_by_norm",
    "add_products",
    "integers",
    "room_for_products",
    "squares",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

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
    passes = _passes(rows, factor) if out.flags.c_contiguous else numpy_passes
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
    rows: NDArray[Any], shift: FloatArray | None, scale: FloatArray, bits: int, rungs: Rungs, sums: NormSums
) -> IntArray:
    """Count every row on the rung of the norm of ``scale * (rows - shift)``, and add its integers to those of the rung.

    Rows whose rung is not beyond doubt, or that have no exact square, are left out: their places are returned.
    """
    left: IntArray = _passes(rows, scale).add_by_norm(rows, shift, scale, bits, rungs, sums)
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
    return compiled if compiled is not None and compiled.fit(rows, factor) else numpy_passes


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
    # Cells of four octaves: the first three of these rows on a rung, the third a little longer than 2^bits; the next in
    # doubt; and the last on another rung, where entries are twice as large, so integers again.
    first_cell = int(np.square(whole[0]).sum().view(np.int64) >> 54)
    rungs = Rungs(np.array([0, -1, -1, 1], dtype=np.int16), first_cell, 54, factor * np.array([[1.0], [2.0]]))
    found: list[tuple[list[NDArray[Any]], FloatArray]] = []
    ways: tuple[Any, ...] = numpy_passes, passes
    for way in ways:
        out, by_norm = np.empty(rows.shape), []
        norms = way.integers(rows, shift, factor, bits, out)
        # All of them, and one by one, so that no errors cancel.
        for part in (rows, *rows[:, None]):
            sums = NormSums(np.zeros(2, dtype=np.int64), np.zeros((2, d)))
            by_norm += [way.add_by_norm(part, shift, factor, bits, rungs, sums), sums.counts, sums.totals]
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
