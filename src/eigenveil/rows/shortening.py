"""Integer rows brought to a bound, one by one or all rows of a person together.

The squared norms that decide are sums of integers, the same in any order, batch or layout; and so is every factor, a
function of them. That a shortened row, or a person's, keeps the bound is a fact about integers.

**Rows of a person, together.** Let q_1, ..., q_m be integer rows, S the sum of their squared norms, and L <= 2^49 the
limit. Each entry becomes trunc(q f), f = sqrt(L) / sqrt(S) in float64. With u = 2^-53, the roots, S itself, the
quotient and the product are rounded, so |q f| is at most (1 + u)^3 / (1 - u)^1.5 times |q| sqrt(L / S) before
truncation takes from it. The squares of the results add up to at most L (1 + 9.1 u) < L + 1. They are integers, so to L
at most. docs/explanation/persons.md tells the rest.
"""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SINGLE_BITS = 26
"""A row among others of its person is first held to norm 2^26, so that its squared norm is exact in float64."""
_LIMB_BITS = 32


def squared_norms(rows: FloatArray) -> FloatArray:
    """Return the squared norms of rows; exact for integer rows where they are below 2^53."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def to_the_bound(grid: FloatArray, squared: FloatArray, bits: int) -> None:
    """Bring integer rows of exact squared norms to norm 2^bits or just below, where they are longer."""
    clip(grid, squared, squared > 4**bits, bits)


def clip(grid: FloatArray, squared: FloatArray, clipped: NDArray[np.bool_], bits: int) -> None:
    """Bring the `clipped` ones of integer rows of exact squared norm `squared` to norm 2^bits or just below."""
    # The zero row (from on_invalid="zero") divides by one instead of zero.
    factors = np.where(clipped, 2.0**bits / np.sqrt(np.maximum(squared, 1.0)), 1.0)
    which = _multiply(grid, factors)
    part = grid[which]
    too_long = np.flatnonzero(squared_norms(part) > 4**bits)
    # Three roundings of 2^-53 lengthen a row too little for an integer above 4^bits while bits <= 24. Checked all the
    # same, since every sensitivity rests on it; one unit off every entry takes at least sqrt(N) from N.
    part[too_long] -= np.sign(part[too_long])
    grid[which] = part


def persons_together(grid: FloatArray, starts: IntArray, bits: int, constant: int, average: bool) -> FloatArray:
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
    >>> persons_together(grid, np.array([0, 2]), 4, 8, average=True), grid
    (array([5., 5., 8.]), array([[11.,  0.],
           [ 0., 11.],
           [ 0., 12.]]))
    """
    sizes = np.diff(starts, append=grid.shape[0])
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


def weigh(grid: FloatArray, roots: FloatArray, constant: int) -> FloatArray:
    """Multiply integer rows by numbers of at most 1, in place, and return the constant that each row is given.

    Neither a row nor its constant becomes longer: a product with such a number rounds to no more than it was.
    """
    _multiply(grid, roots)
    return np.trunc(constant * roots)


def _sums(squared: FloatArray, starts: IntArray) -> FloatArray:
    """Return the sums over persons of integers below 2^53, rounded once.

    In two limbs of int64, since float64 would round on the way and one limb might overflow. A sum below 2^53 is exact,
    and one that is not stays at or above it, so comparisons with a limit below it are exact too.
    """
    whole, limb = squared.astype(np.int64), 2**_LIMB_BITS - 1
    high = np.add.reduceat(whole >> _LIMB_BITS, starts)
    low = np.add.reduceat(whole & limb, starts)
    return np.asarray((high + (low >> _LIMB_BITS)) * 2.0**_LIMB_BITS + (low & limb))


def _multiply(grid: FloatArray, factors: FloatArray) -> slice | NDArray[np.intp]:
    """Multiply integer rows by factors, and truncate; return where rows may have changed."""
    changed = factors != 1
    # Where many rows are shortened all are multiplied, the others by one: that is in place, and memory for copies costs
    # more than the arithmetic.
    which = slice(None) if 4 * np.count_nonzero(changed) > changed.size else np.flatnonzero(changed)
    part = grid[which]
    part *= factors[which, None]
    np.trunc(part, out=part)
    grid[which] = part
    return which
