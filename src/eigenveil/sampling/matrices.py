"""Symmetric matrices of noise: of independent integers, and of lazy reals that are rounded with a certificate."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import lru_cache
from itertools import chain, count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..numerics import FloatArray, IntArray, available_cores
from .certified import Interval

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
    cuts, numbers = [0], 0  # between blocks of rows that have about as many numbers above the diagonal
    for i in range(d):
        numbers += d - 1 - i
        if numbers >= _BLOCK or i == d - 1:
            cuts.append(i + 1)
            numbers = 0
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
    """Copy the triangle above the diagonal of a matrix, or of each in a stack, to the one below, in place."""
    d = matrix.shape[-1]
    for low in range(0, d, _STRIP):
        high = min(low + _STRIP, d)
        matrix[..., low:high, :low] = matrix[..., :low, low:high].swapaxes(-1, -2)
        square = matrix[..., low:high, low:high]
        np.copyto(square, square.swapaxes(-1, -2).copy(), where=below(high - low))


@lru_cache(maxsize=8)
def below(d: int) -> NDArray[np.bool_]:
    """Return a mask of the entries below the diagonal; cached, since small matrices are drawn by the thousand."""
    return np.tri(d, k=-1, dtype=np.bool_)


COARSEST = 10
"""The grid of released integers is 2^10 to 2^11 times finer than the noise."""
FARTHEST = 2**62
"""What is beyond is cut off; noise gets there with a probability below exp(-400)."""
_ROWS_AT_ONCE = 64
_THREADS_FROM = 6  # blocks; fewer take less time than the start of a thread


class LazyMatrix(Protocol):
    """A symmetric matrix of real numbers: floats with a proved error and, entry by entry, intervals as narrow as asked.

    Attributes
    ----------
    value : ndarray of float64
        Its upper triangle counts.
    error : float
        No entry of `value` is farther from its number; infinity where floats say nothing.
    """

    value: FloatArray
    error: float

    def interval(self, i: int, j: int, level: int) -> Interval:
        """Return an interval that holds entry (i, j), i <= j; levels begin at 1, and narrow it down to a point."""


def public_shift(sd: float) -> int:
    """Return s such that noise of standard deviation `sd` is rounded to multiples of 2^s; a function of public numbers.

    Examples
    --------
    >>> public_shift(2.0**40), public_shift(3.0)
    (30, 0)
    """
    return max(0, math.frexp(sd)[1] - 1 - COARSEST)


def cut_off(numbers: NDArray[Any]) -> IntArray:
    """Return integers of any size as int64, those beyond `FARTHEST` as that: a function of what they are."""
    return np.asarray(np.clip(numbers, -FARTHEST, FARTHEST), dtype=np.int64)


def noisy(values: IntArray, noise: IntArray) -> IntArray:
    """Add values to integer noise in place, and return it; none of them is beyond `FARTHEST` in size.

    The noise is cut off together with what it hides, or the cut would show it. Both are below 2^62: nothing overflows.
    """
    np.maximum(noise, -FARTHEST - values, out=noise)  # both take a third of the time of np.clip for few numbers
    np.minimum(noise, FARTHEST - values, out=noise)
    noise += values
    return noise


def rounded_sum(integers: IntArray, shift: int, noise: LazyMatrix, wraps: bool = False) -> IntArray:
    """Return round(integers/2^shift + noise) without any error: where floats leave a doubt, the noise is refined.

    Parameters
    ----------
    integers : ndarray of int64 or of Python's integers
        Symmetric, of int64 each below 2^62.
    shift : int
        At most 52.
    noise : LazyMatrix
        In units of 2^shift. Its `value` is used up: the integers take its memory, since fresh pages cost as much as
        the rounding.
    wraps : bool
        Whether numbers beyond int64 are taken modulo 2^64, where more is still to be added, and not cut off.
    """
    d = integers.shape[0]
    beyond = integers.dtype == object
    result = np.empty((d, d), dtype=object) if beyond else noise.value.view(np.int64)
    margin = 0.5 - noise.error - 2.0**-50  # the last number: one rounding of the sum below, of a number below 1

    def fill(low: int) -> list[tuple[int, int]]:
        """Round some rows, and return the places that are in doubt."""
        high = min(low + _ROWS_AT_ONCE, d)
        x, whole = noise.value[low:high, low:], integers[low:high, low:]
        x += np.asarray(whole & (2**shift - 1), dtype=np.float64) * 2.0**-shift
        nearest = np.rint(x)
        x -= nearest
        np.abs(x, out=x)
        places: list[tuple[int, int]] = []
        if not x.max() <= margin:
            rows, columns = np.nonzero(np.triu(~(x <= margin)))
            places = list(zip((rows + low).tolist(), (columns + low).tolist(), strict=True))
        with np.errstate(invalid="ignore"):  # what is beyond int64 is in doubt, and settled below
            np.add(whole >> shift, nearest.astype(np.int64), out=result[low:high, low:])
        return places

    blocks = range(0, d, _ROWS_AT_ONCE)
    if len(blocks) < _THREADS_FROM:
        found = [fill(low) for low in blocks]
    else:
        with ThreadPoolExecutor(available_cores()) as pool:
            found = list(pool.map(fill, blocks))
    for i, j in chain.from_iterable(found):
        part = Interval.point(Fraction(int(integers[i, j]) & (2**shift - 1), 2**shift))
        levels = (noise.interval(i, j, level) for level in count(1))
        rounded = next(n for n in ((entry + part).rounded() for entry in levels) if n is not None)
        # Cut off together with what it hides, or the cut would show it.
        whole_sum = (int(integers[i, j]) >> shift) + rounded
        cut = whole_sum if beyond else max(-FARTHEST, min(FARTHEST, whole_sum))
        result[i, j] = (whole_sum + 2**63) % 2**64 - 2**63 if wraps else cut
    mirror_upper(result)
    return cut_off(result) if beyond else result
