"""Symmetric matrices of independent numbers, drawn block by block on all cores."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cores import available_cores
from .discrete import IntArray

# Numbers drawn at once: enough for a thread to be worth its start, and little memory beside the matrix.
_BLOCK = 2**17
# Rows mirrored at once: what they are read from, so many columns, stays in a cache.
_STRIP = 64


def symmetric(
    n_features: int, draw: Callable[[int, np.random.Generator], IntArray], generator: np.random.Generator
) -> IntArray:
    """Return a symmetric matrix with `draw(size, generator)` above its diagonal, and zeros on it.

    It stays int64: float64 would round what is above 2^53, and rounded noise no longer hides the last bits of a sum.

    Blocks of rows have generators of their own, spawned from the one given, so a seeded matrix does not depend on
    the number of threads.

    Examples
    --------
    >>> matrix = symmetric(3, lambda size, generator: generator.integers(1, 9, size), np.random.default_rng(0))
    >>> bool((matrix == matrix.T).all()), matrix.diagonal().tolist()
    (True, [0, 0, 0])
    """
    d = n_features
    matrix = np.zeros((d, d), dtype=np.int64)
    cuts = _cuts(d)
    generators = generator.spawn(len(cuts) - 1) if len(cuts) > 2 else [generator]

    def fill(low: int, high: int, own: np.random.Generator) -> None:
        size = sum(range(d - high, d - low))
        if size:  # all rows in one call: between many short ones threads wait for the interpreter
            above = np.arange(low, d) > np.arange(low, high)[:, None]
            matrix[low:high, low:][above] = draw(size, own)

    if len(generators) == 1:  # the start of a thread takes longer than a small matrix
        fill(0, d, generator)
    else:
        with ThreadPoolExecutor(available_cores()) as pool:
            list(pool.map(fill, cuts[:-1], cuts[1:], generators))
    mirror_upper(matrix)
    return matrix


def mirror_upper(matrix: NDArray[Any]) -> None:
    """Copy the triangle above the diagonal to the one below, in place."""
    d = matrix.shape[0]
    for low in range(0, d, _STRIP):
        high = min(low + _STRIP, d)
        matrix[low:high, :low] = matrix[:low, low:high].T
        square = matrix[low:high, low:high]
        np.copyto(square, square.T.copy(), where=_below(high - low))


@lru_cache(maxsize=8)
def _below(d: int) -> NDArray[np.bool_]:
    """Tell which entries are below the diagonal; small matrices are drawn by the thousand."""
    return np.tri(d, k=-1, dtype=np.bool_)


def _cuts(d: int) -> list[int]:
    """Return where to cut the rows, so that every block has about as many numbers above the diagonal."""
    cuts, numbers = [0], 0
    for i in range(d):
        numbers += d - 1 - i
        if numbers >= _BLOCK or i == d - 1:
            cuts.append(i + 1)
            numbers = 0
    return cuts
