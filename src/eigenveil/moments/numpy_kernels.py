"""The inner loops in NumPy, the reference: rows to integers within a bound, one by one or all of a person together.

The squared norms that decide are sums of integers, the same in any order, batch or layout; and so is every factor, a
function of them. That a shortened row, or a person's, keeps the bound is a fact about integers.

**Rows of a person, together.** Let q_1, ..., q_m be integer rows, S the sum of their squared norms, and L <= 2^49 the
limit. Each entry becomes trunc(q f), f = sqrt(L) / sqrt(S) in float64. With u = 2^-53, the roots, S itself (twice at
most), the quotient and the product are rounded, so |q f| is at most (1 + u)^3 / (1 - u)^2 times |q| sqrt(L / S) before
truncation takes from it. The squares of the results add up to at most L (1 + 10.1 u) < L + 1. They are integers, so to
L at most. See docs/explanation/privacy_units.md for the rest.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..numerics import FloatArray, IntArray

SINGLE_BITS = 26
"""A row among others of its person is first held to norm 2^26, so that its squared norm is exact in float64."""
_LIMB_BITS = 27


def squared_norms(rows: FloatArray) -> FloatArray:
    """Return the squared norms of rows; exact for integer rows where they are below 2^53."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def to_the_bound(grid: FloatArray, squared: FloatArray, bits: int) -> None:
    """Bring integer rows of exact squared norms to norm 2^bits or just below, where they are longer."""
    clip(grid, squared, squared > 4**bits, bits)


def clip(grid: FloatArray, squared: FloatArray, clipped: NDArray[np.bool_] | np.bool_, bits: int) -> None:
    """Bring the `clipped` ones of integer rows of exact squared norm `squared` to norm 2^bits or just below."""
    # The zero row (from on_invalid="zero") divides by one instead of zero.
    factors = np.where(clipped, 2.0**bits / np.sqrt(np.maximum(squared, 1.0)), 1.0)
    _multiply(grid, factors)
    too_long = np.flatnonzero(clipped & (squared_norms(grid) > 4**bits))
    # Three roundings of 2^-53 lengthen a row too little for an integer above 4^bits while bits <= 24. Checked all the
    # same, since every sensitivity rests on it; one unit off every entry takes at least sqrt(N) from N.
    grid[too_long] -= np.sign(grid[too_long])


def units_together(grid: FloatArray, starts: IntArray, bits: int, constant: int, average: bool) -> FloatArray:
    """Shorten the integer rows of every person together, in place, and return the constant that each row is given.

    Parameters
    ----------
    grid : ndarray of shape (m, d)
        Integer rows of norm at most 2^26, person after person.
    starts : ndarray of int64
        The position of the first row of every person.
    bits : int
        The squared norms of a person's rows add up to 4^bits at most, constants apart.
    constant : int
        What is appended to rows, at most 2^bits.
    average : bool
        Divide all by the root of the number of rows, so that what a person adds to a second moment is an average; the
        constants keep their part of it however long the rows are. Else constants are shortened with their rows.

    Examples
    --------
    >>> grid = np.array([[16.0, 0.0], [0.0, 16.0], [0.0, 12.0]])
    >>> units_together(grid, np.array([0, 2]), 4, 8, average=True), grid
    (array([5., 5., 8.]), array([[11.,  0.],
           [ 0., 11.],
           [ 0., 12.]]))
    """
    sizes = unit_sizes(starts, grid.shape[0])
    if average:
        # The squares of a person's constants add up to less than constant^2 + 1, by the same argument.
        root = np.sqrt(sizes.astype(np.float64))
        factors = np.minimum(1.0 / root, 2.0**bits / np.sqrt(np.maximum(_sums(squared_norms(grid), starts), 1.0)))
        constants = np.trunc(constant / root)
    else:
        squared, limit = _sums(squared_norms(grid) + constant**2, starts), 4**bits + constant**2
        factors = np.where(squared > limit, np.sqrt(float(limit)) / np.sqrt(np.maximum(squared, 1.0)), 1.0)
        constants = np.trunc(constant * factors)
    _multiply(grid, np.repeat(factors, sizes))
    return np.repeat(constants, sizes)


def unit_sizes(starts: IntArray, n_rows: int) -> IntArray:
    """Return the number of rows of every unit, by the positions of the first rows.

    Examples
    --------
    >>> unit_sizes(np.array([0, 2, 3]), 7).tolist()
    [2, 1, 4]
    """
    sizes = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=sizes[:-1])
    sizes[-1:] = n_rows - starts[-1:]
    return sizes


def weigh(grid: FloatArray, roots: FloatArray, constant: int) -> FloatArray:
    """Multiply integer rows by numbers of at most 1, in place, and return the constant that each row is given.

    Neither a row nor its constant becomes longer: a product with such a number rounds to no more than it was.
    """
    _multiply(grid, roots)
    return np.trunc(constant * roots)


def _sums(squared: FloatArray, starts: IntArray) -> FloatArray:
    """Return the sums over privacy units of integers below 2^53, rounded once, and once more from 2^80 on.

    In two limbs of int64, since float64 would round on the way and one limb might overflow; two do not below 2^36 rows.
    A sum below 2^53 is exact, and one that is not stays at or above it, so comparisons with a limit below it are exact
    too.
    """
    whole, limb = squared.astype(np.int64), 2**_LIMB_BITS - 1
    high = np.add.reduceat(whole >> _LIMB_BITS, starts)
    low = np.add.reduceat(whole & limb, starts)
    return np.asarray((high + (low >> _LIMB_BITS)) * 2.0**_LIMB_BITS + (low & limb))


def _multiply(grid: FloatArray, factors: FloatArray) -> None:
    """Multiply integer rows by factors, and truncate: all of them, also by 1, so that none takes longer than others."""
    grid *= factors[:, None]
    np.trunc(grid, out=grid)


@dataclass(frozen=True, eq=False)
class Shortening:
    """The rule by which rows become integers, and those of a unit are shortened together.

    Parameters
    ----------
    shift, factor : ndarray
        A row becomes ``trunc(factor * (row - shift))``, and is held to norm 2^26 by itself.
    bits, constant, average
        Those of `units_together`.
    """

    shift: FloatArray | None
    factor: FloatArray
    bits: int
    constant: int
    average: bool


EXACT_LIMIT = 2.0**53
"""Below it every integer is a float64, so a sum of squares below it is exact in any order of summation; one that
reaches it stays at or above it in any order, so the test "N < 2^53" is exact too."""
EXACT_INTEGER_BITS = 53
# Tiles of so many entries stay in a core's second cache between two steps, and calls for them cost little beside.
_TILE_ENTRIES = 2**15
# Blocks of so many are added up: with four times less, two threads wait for the interpreter.
_BLOCK_ENTRIES = 2**18


@dataclass(frozen=True, eq=False)
class Candidates:
    """A public table from squared norms to candidate bounds, and how the rows of a candidate bound become integers.

    Parameters
    ----------
    cells : ndarray of int16
        The grid point of all squared norms of a cell, and -1 where it is not beyond doubt. A cell is what numbers with
        the same exponent and the same first bits of the mantissa lie in; the first and the last stand for all beyond.
    first_cell, cell_shift : int
        A squared norm is in cell ``(its 64 bits >> cell_shift) - first_cell``.
    factors : ndarray of shape (n_rungs, d)
        What the entries of a row on a grid point are multiplied by.
    """

    cells: NDArray[np.int16]
    first_cell: int
    cell_shift: int
    factors: FloatArray

    def of(self, squared: FloatArray) -> IntArray:
        """Return the grid points of squared norms, and -1."""
        found = np.take(self.cells, (squared.view(np.int64) >> self.cell_shift) - self.first_cell, mode="clip")
        return found.astype(np.int64)


@dataclass(frozen=True, eq=False)
class NormSums:
    """Counts of rows on grid points, and their sums, which a pass adds to."""

    counts: IntArray
    totals: FloatArray


def integers(rows: Any, shift: FloatArray | None, factor: FloatArray, bits: int | None, out: FloatArray) -> FloatArray:
    """Put ``trunc(factor * (rows - shift))`` into `out`, and return the squared norms of these integer rows.

    Those with a squared norm above 4^bits and below 2^53 are then brought to norm 2^bits, or just below. Longer ones,
    and those with NaN or infinity, stay as they are; with None for bits, all do.

    Examples
    --------
    >>> rows, out = np.array([[1.0, 2.0], [3.0, 4.6]]), np.empty((2, 2))
    >>> integers(rows, None, np.array(2.0), 3, out), out
    (array([ 20., 117.]), array([[2., 4.],
           [4., 6.]]))
    """
    rows = np.asarray(rows)
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
                clip(tile, norms, (norms > 4**bits) & (norms < EXACT_LIMIT), bits)
    return squared


def squares(rows: NDArray[Any], shift: FloatArray | None, factor: FloatArray) -> FloatArray:
    """Return the squared norms of ``factor * (rows - shift)``, which are not truncated."""
    squared = np.empty(rows.shape[0])
    with np.errstate(all="ignore"):
        for part, tile in _buffered(rows, _TILE_ENTRIES):
            _change(rows[part], shift, factor, tile)
            squared[part] = squared_norms(tile)
    return squared


def unit_squares(rows: Any, starts: IntArray, shift: FloatArray | None, factor: FloatArray) -> FloatArray:
    """Return the sums over units of the squared norms of ``factor * (rows - shift)``, in any order.

    Examples
    --------
    >>> unit_squares(np.array([[1.0], [2.0], [3.0]]), np.array([0, 2]), None, np.array(2.0)).tolist()
    [20.0, 36.0]
    """
    return np.asarray(np.add.reduceat(squares(rows, shift, factor), starts))


def count_by_norm(
    rows: Any, shift: FloatArray | None, scale: FloatArray, candidates: Candidates, counts: IntArray
) -> IntArray:
    """Count every row at the grid point of the norm of ``scale * (rows - shift)``, summed in any order.

    Rows whose grid point is not beyond doubt are left out: their places are returned.
    """
    found = candidates.of(squares(np.asarray(rows), shift, scale))
    counts += np.bincount(found[found >= 0], minlength=counts.size)
    return np.flatnonzero(found < 0)


def add_by_norm(
    rows: Any, shift: FloatArray | None, scale: FloatArray, bits: int, candidates: Candidates, sums: NormSums
) -> IntArray:
    """Count every row at the grid point of the norm of ``scale * (rows - shift)``, and add its integers there.

    Rows whose grid point is not beyond doubt, or that have no exact square, are left out: their places are returned.
    """
    rows = np.asarray(rows)
    found = candidates.of(squares(rows, shift, scale))
    for part, block in _buffered(rows, _BLOCK_ENTRIES):
        which = np.maximum(found[part], 0)
        squared = integers(rows[part], shift, candidates.factors[which], bits, block)
        left = ~(squared < EXACT_LIMIT) | (found[part] < 0)
        block[left], found[part][left] = 0.0, -1
        add_by_group(block, which, sums.totals)
    sums.counts[:] += np.bincount(found[found >= 0], minlength=sums.counts.size)
    return np.flatnonzero(found < 0)


def add_by_group(rows: Any, groups: IntArray, totals: FloatArray) -> None:
    """Add every row, dense or CSR, to the totals of its group."""
    n = rows.shape[0]
    one_hot = scipy.sparse.csr_array((np.ones(n), groups, np.arange(n + 1)), shape=(n, len(totals)))
    sums = one_hot.T @ rows
    totals += sums.toarray() if scipy.sparse.issparse(sums) else sums


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


def split_mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64-bit words mixed by SplitMix64 (Steele et al. 2014): as good as chance, and no two words alike."""
    words = words * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(words ^ (words >> np.uint64(31)))


def hash_weights(n_features: int) -> NDArray[np.uint64]:
    """Return the factor of the bits of every feature."""
    return split_mix(np.arange(1, n_features + 1, dtype=np.uint64)) | np.uint64(1)


def smallest_hashes(rows: FloatArray, starts: IntArray, hashes: NDArray[np.uint64]) -> IntArray:
    """Return the place of one row of every unit: that with the smallest hash of its numbers and of the unit.

    Equal rows have equal hashes: the first, the second, ... of them get hashes of their own, so that the choice is
    uniform. It does not depend on the order of the rows.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
        Finite numbers, unit after unit.
    starts : ndarray of int64
        The position of the first row of every unit.
    hashes : ndarray of uint64
        That of every unit.
    """
    sizes = unit_sizes(starts, rows.shape[0])
    units = np.repeat(np.arange(sizes.size), sizes)
    bits = np.add(rows, 0.0, order="C").view(np.uint64)  # -0.0 is 0.0
    bits ^= bits >> np.uint64(32)
    bits *= hash_weights(rows.shape[1])
    bits ^= bits >> np.uint64(32)
    mixed = split_mix(bits.sum(axis=1, dtype=np.uint64) + hashes[units])
    order = _without_ties(rows, mixed, units, np.lexsort((mixed, units)))
    mixed = mixed[order]
    new = np.append(True, (mixed[1:] != mixed[:-1]) | (units[1:] != units[:-1]))
    places = np.arange(order.size)
    repeats = places - np.maximum.accumulate(np.where(new, places, 0))
    mixed = split_mix(mixed + split_mix(repeats.astype(np.uint64)))
    return np.asarray(order[np.lexsort((mixed, units))[starts]])


def _without_ties(rows: FloatArray, hashes: NDArray[np.uint64], units: IntArray, order: IntArray) -> IntArray:
    """Return the order with different rows of one hash, which chance hardly makes but a person may, by entries."""
    before, after = order[:-1], order[1:]
    same = np.flatnonzero((hashes[before] == hashes[after]) & (units[before] == units[after]))
    apart = same[(rows[before[same]] != rows[after[same]]).any(axis=1)]
    for unit in np.unique(units[before[apart]]):
        low, high = np.searchsorted(units[order], [unit, unit + 1])
        part = order[low:high]
        order[low:high] = part[np.lexsort((*rows[part].T[::-1], hashes[part]))]
    return order


def places_by_hash(first: int, n: int) -> IntArray:
    """Return the places from 0 to n - 1 in the order of the hashes of so many words, from `first` on.

    Examples
    --------
    >>> places_by_hash(1, 6)
    array([2, 4, 5, 1, 0, 3])
    """
    return np.argsort(split_mix(np.arange(n, dtype=np.uint64) + np.uint64(first)), kind="stable")


def integer_rows(rows: FloatArray) -> tuple[FloatArray, NDArray[np.int64], FloatArray]:
    """Put every finite row on an integer grid of its own, so fine as float64 can still add up its squares exactly.

    Returns the integers q = trunc(2^-s x), as float64, the exponents s, and N = |q|^2. The largest entry of a row lies
    in [2^(e-1), 2^e) with d * 4^e <= 2^53, so N is exact in any order of summation. Each step is exact or rounds
    element by element, so what a row becomes depends on that row alone: not on its neighbours, layout or batch.
    A row of zeros has s = 0.

    Examples
    --------
    >>> integers, exponents, squared = integer_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    >>> np.ldexp(np.sqrt(squared), exponents).tolist()
    [5.0, 0.0]
    """
    target = target_exponent(rows.shape[1])
    largest = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))
    exponents = np.where(largest > 0, np.frexp(largest)[1].astype(np.int64) - target, 0)
    # Two powers of two, since one may be beyond the range of float64. What the first makes subnormal, and so inexact,
    # is far below 1 after the second.
    half = -exponents // 2
    integers = rows * np.ldexp(1.0, half)[:, None]
    integers *= np.ldexp(1.0, -exponents - half)[:, None]
    np.trunc(integers, out=integers)
    return integers, exponents, squared_norms(integers)


def target_exponent(n_features: int) -> int:
    """Return the largest e with d * 4^e <= 2^53: integer rows below 2^e have an exact squared norm."""
    return (EXACT_INTEGER_BITS - math.ceil(math.log2(n_features))) // 2


@dataclass(frozen=True, eq=False)
class Comparing:
    """The rule by which rows are compared with those before them, and comparisons become integers.

    Parameters
    ----------
    half : int
        Comparison c is that of row half + c // half with the one that is 1 + c % half rows before it.
    signs : bool
        Whether it says which number is larger; else it is a normalized difference.
    scale : ndarray, optional
        That of every feature of a difference.
    factor : float
        What a comparison is multiplied by; it is then truncated, and shortened to norm 2^bits where it is longer.
    bits : int
    """

    half: int
    signs: bool
    scale: FloatArray | None
    factor: float
    bits: int


def compared(rows: FloatArray, places: range, how: Comparing) -> FloatArray:
    """Return the comparisons at these places, as floats."""
    half, first, last = how.half, places.start // how.half, -(-places.stop // how.half)
    found = np.empty((last - first, half, rows.shape[1]))
    for step in range(1, half + 1):
        others = rows[half + first - step : half + last - step]
        found[:, step - 1] = compared_rows(rows[half + first : half + last], others, how)
    return found.reshape(-1, rows.shape[1])[places.start - first * half : places.stop - first * half]


def compared_rows(rows: FloatArray, others: FloatArray, how: Comparing) -> FloatArray:
    """Return the comparison of each row with the other."""
    if how.signs:
        return np.asarray((rows > others) * 1.0 - (rows < others), dtype=np.float64)
    # Halved first, so that the difference of two numbers of 1e308 does not overflow.
    difference = 0.5 * rows - 0.5 * others
    if how.scale is not None:
        # The mantissa and the exponent apart: scaled numbers may leave the range of float64, directions do not.
        largest = np.abs(difference).max(axis=1, keepdims=True, initial=0.0)
        difference = np.ldexp(difference, -np.frexp(largest)[1]) * (how.scale / how.scale.max())
    integers, _, squared = integer_rows(difference)
    np.divide(integers, np.sqrt(squared)[:, None], out=integers, where=squared[:, None] > 0)
    return integers


def compared_integers(rows: FloatArray, places: range, how: Comparing) -> FloatArray:
    """Return the integers of the comparisons at these places."""
    out = np.empty((len(places), rows.shape[1]))
    integers(compared(rows, places, how), None, np.asarray(how.factor), how.bits, out)
    return out


# All points are powers of the root of 2: roots round alike on all machines, and so do products with powers of two.
FIRST_SIZE, FIRST_VALUE, _LAST_VALUE = -2000, -200, 322


def _halves_of_octaves(first: int, last: int) -> FloatArray:
    steps = np.arange(first, last + 1)
    return np.asarray(np.ldexp(np.where(steps % 2, math.sqrt(2.0), 1.0), steps // 2))


SIZES = _halves_of_octaves(FIRST_SIZE, 200)
"""Half of a difference is counted between these, steps of half an octave from 2^-1000 to 2^100."""
VALUES = _halves_of_octaves(FIRST_VALUE, _LAST_VALUE)
"""The size of a number is counted between these."""


def empty_pair_bins(n_columns: int) -> tuple[IntArray, IntArray]:
    """Return bins of half differences, and of positive and of negative numbers."""
    values = np.zeros((n_columns, 2, VALUES.size + 1), dtype=np.int64)
    return np.zeros((n_columns, SIZES.size + 1), dtype=np.int64), values


def half_differences(rows: FloatArray) -> FloatArray:
    """Return half the distance of the numbers of disjoint pairs of rows, column by column.

    The first row is paired with the second, the third with the fourth; an odd one at the end has no partner. Halves, so
    that numbers of 1e308 do not overflow. A replaced row changes one pair.

    Examples
    --------
    >>> half_differences(np.array([[1.0], [4.0], [9.0]])).tolist()
    [[1.5]]
    """
    half = 0.5 * rows[: rows.shape[0] // 2 * 2]
    return np.asarray(np.abs(half[::2] - half[1::2]))


def count_pairs(parts: Sequence[Any], order: IntArray, columns: Sequence[int]) -> tuple[IntArray, IntArray] | None:
    """Count half the distances of disjoint pairs of the rows of all parts, in this order, and the numbers themselves.

    Positive numbers are counted by the points below them, negative ones by those within. None if a number of any column
    is not finite.
    """
    rows = np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])[order]
    if not np.isfinite(rows).all():
        return None
    (pairs, values), apart = empty_pair_bins(len(columns)), half_differences(rows)
    for at, column in enumerate(columns):
        pairs[at] = _in_bins(SIZES, apart[:, column])
        numbers = rows[:, column]
        negative = np.signbit(numbers)
        values[at, 0] = _in_bins(VALUES, numbers[~negative])
        values[at, 1] = _in_bins(VALUES, -numbers[negative], "right")
    return pairs, values


def between(rows: Any, points: Sequence[FloatArray], columns: Sequence[int]) -> list[IntArray] | None:
    """Return counts of the numbers of each column between its points; None if one of them is not finite."""
    numbers = np.asarray(rows, dtype=np.float64)[:, list(columns)]
    if not np.isfinite(numbers).all():
        return None
    return [_in_bins(places, numbers[:, at]) for at, places in enumerate(points)]


def norms_and_between(
    rows: Any,
    shift: FloatArray | None,
    scale: FloatArray,
    candidates: Candidates,
    counts: IntArray,
    points: Sequence[FloatArray],
    columns: Sequence[int],
) -> tuple[IntArray, list[IntArray] | None]:
    """Return the results of `count_by_norm` and `between`."""
    return count_by_norm(rows, shift, scale, candidates, counts), between(rows, points, columns)


def _in_bins(points: FloatArray, numbers: FloatArray, side: Any = "left") -> IntArray:
    return np.bincount(np.searchsorted(points, numbers, side=side), minlength=points.size + 1)
