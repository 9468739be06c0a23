"""The passes over rows by NumPy alone, for rows of any layout and type: `one_pass` says what they do."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from .shortening import clip, squared_norms

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

EXACT_LIMIT = 2.0**53
"""Below it every integer is a float64, so a sum of squares below it is exact in any order of summation; one that
reaches it stays at or above it in any order, so the test "N < 2^53" is exact too."""
# Tiles of so many entries stay in a core's second cache between two steps, and calls for them cost little beside.
_TILE_ENTRIES = 2**15
# Blocks of so many are added up: with four times less, two threads wait for the interpreter.
_BLOCK_ENTRIES = 2**18


@dataclass(frozen=True, eq=False)
class Rungs:
    """A public table from squared norms to the rungs of a ladder, and how the rows of a rung become integers.

    Parameters
    ----------
    cells : ndarray of int16
        The rung of all squared norms of a cell, and -1 where it is not beyond doubt. A cell is what numbers with the
        same exponent and the same first bits of the mantissa lie in; the first and the last stand for all beyond.
    first_cell, cell_shift : int
        A squared norm is in cell ``(its 64 bits >> cell_shift) - first_cell``.
    factors : ndarray of shape (n_rungs, d)
        What the entries of a row on a rung are multiplied by.
    """

    cells: NDArray[np.int16]
    first_cell: int
    cell_shift: int
    factors: FloatArray

    def of(self, squared: FloatArray) -> IntArray:
        """Return the rungs of squared norms, and -1."""
        found = np.take(self.cells, (squared.view(np.int64) >> self.cell_shift) - self.first_cell, mode="clip")
        return found.astype(np.int64)


@dataclass(frozen=True, eq=False)
class NormSums:
    """Counts of rows on rungs, and their sums, which a pass adds to."""

    counts: IntArray
    totals: FloatArray


def integers(
    rows: NDArray[Any], shift: FloatArray | None, factor: FloatArray, bits: int | None, out: FloatArray
) -> FloatArray:
    """Put integer rows into `out`, of any layout."""
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


def squares(rows: NDArray[Any], shift: FloatArray | None, factor: FloatArray) -> FloatArray:
    """Measure rows that are not truncated."""
    squared = np.empty(rows.shape[0])
    with np.errstate(all="ignore"):
        for part, tile in _buffered(rows, _TILE_ENTRIES):
            _change(rows[part], shift, factor, tile)
            squared[part] = squared_norms(tile)
    return squared


def add_by_norm(
    rows: NDArray[Any], shift: FloatArray | None, scale: FloatArray, bits: int, rungs: Rungs, sums: NormSums
) -> IntArray:
    """Add integer rows to the totals of their rungs; return the places of the others."""
    found = rungs.of(squares(rows, shift, scale))
    for part, block in _buffered(rows, _BLOCK_ENTRIES):
        which = np.maximum(found[part], 0)
        squared = integers(rows[part], shift, rungs.factors[which], bits, block)
        left = ~(squared < EXACT_LIMIT) | (found[part] < 0)
        block[left], found[part][left] = 0.0, -1
        add_by_group(block, which, sums.totals)
    sums.counts[:] += np.bincount(found[found >= 0], minlength=sums.counts.size)
    return np.flatnonzero(found < 0)


def add_by_group(rows: FloatArray, groups: IntArray, totals: FloatArray) -> None:
    """Add every row to the totals of its group."""
    n = rows.shape[0]
    one_hot = scipy.sparse.csr_array((np.ones(n), groups, np.arange(n + 1)), shape=(n, len(totals)))
    totals += one_hot.T @ rows


def _tiles(rows: NDArray[Any], entries: int) -> list[slice]:
    n, d = rows.shape
    step = max(1, entries // max(1, d))
    return [slice(low, min(low + step, n)) for low in range(0, n, step)]


def _buffered(rows: NDArray[Any], entries: int) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the tiles of rows, each with room for it."""
    tiles = _tiles(rows, entries)
    buffer = np.empty((tiles[0].stop if tiles else 0, rows.shape[1]))
    for part in tiles:
        yield part, buffer[: part.stop - part.start]


def _change(rows: NDArray[Any], shift: FloatArray | None, factor: FloatArray, out: FloatArray) -> None:
    np.multiply(rows if shift is None else np.subtract(rows, shift, out=out), factor, out=out)
