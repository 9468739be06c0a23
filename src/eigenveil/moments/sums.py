"""Exact sums over integer rows: `ProductSum` of q q', `SumsByNorm` of q by their norms.

Rows multiply in float64, where every partial sum is an integer below 2^53 as long as there are no more units than
`exact_units`, and what is more goes on in int64, or in Python's integers where there may be too many units for it. So
the sum is exact for every number of units, which may be private: none is refused. It does not depend on order, blocks
or threads, nor on whether BLAS multiplies or, for narrow rows, one_pass.c.
"""

import functools
import operator
from collections.abc import Iterable
from contextlib import nullcontext
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse

from .. import numerics
from ..errors import InvalidParameterError
from ..numerics import FloatArray, IntArray
from . import kernels, numpy_kernels
from .bound import EXACT_INTEGER_BITS, RowBound, quantize_values
from .comparisons import Compared
from .counts import NORM_GRID, RowSizes, doubt, norm_table
from .kernels import kernels_for, row_by_row, rows_as_they_lie
from .numpy_kernels import EXACT_LIMIT, Candidates, NormSums, add_by_group, squared_norms, to_the_bound
from .row_rule import MOST_SUM
from .units import Units, side_by_side, units_of, with_first

# Wider products are not worth one sum a thread: they dominate, and BLAS threads them.
_WIDEST_THREADED = 1024
# So many rows of such products are multiplied at once.
_WIDE_BLOCK = 2**12
# A block of rows should fit a cache while it is quantized and multiplied, and be so long that threads seldom wait for
# the interpreter: four times less is up to twice slower on two cores.
_BLOCK_ENTRIES = 2**18
# Fewer entries than these are not worth a thread.
_SMALLEST_PART = 2**21
# So many blocks wait for those of their rows that the compiled kernels leave, which are added together.
_BLOCKS_TOGETHER = 8
# Products of rows as narrow as these take several threads longer than one.
_NARROW = 64


class ProductSum:
    """Products of integer rows, added up.

    Parameters
    ----------
    bound : RowBound
        The public rule that makes the integer rows.
    n_features : int

    Examples
    --------
    >>> products = ProductSum(RowBound(1.0, bits=4, constant=0.5), 1)
    >>> products.add(Units(np.array([[0.5], [-1.0]])))
    >>> products.total()
    array([[320, -64],
           [-64, 128]])
    """

    n_units: int

    def __init__(self, bound: RowBound, n_features: int) -> None:
        self._bound, self._d = bound, n_features
        width = n_features + (bound.constant is not None)
        self.n_units = 0
        self._whole: IntArray | None = None
        self._pending: FloatArray = np.zeros((width, width))
        self._units = 0  # that are in the products in float64
        self._compiled = kernels.compiled()
        multiplied = bound.compares or bound.shortens_units or (bound.by_one_factor and bound.most_weight is None)
        # The upper triangle of what the compiled kernels multiply; None where BLAS does it.
        self._upper = self._compiled.room_for_products(width) if self._compiled is not None and multiplied else None
        self._left: list[FloatArray] = []

    def add(self, units: Units) -> None:
        """Add the rows of whole units, dense or CSR."""
        rows, exact = units.rows, exact_units(self._bound)
        if not scipy.sparse.issparse(rows):
            # What was compiled works on a few rows at a time, whatever it is given.
            entries = _BLOCK_ENTRIES if self._upper is None else 4 * _BLOCK_ENTRIES
            for part in units.pieces(max(entries // self._d, min(4 * self._d, _WIDE_BLOCK)), exact):
                self._make_room(part.n_units)
                self._add_dense(part)
        elif multiplies_entries(self._bound):
            for part in units.pieces(rows.shape[0], exact):
                self._make_room(part.n_units)
                self._add_entries(part.rows)
        else:
            for part in units.pieces(max(1, 4 * _BLOCK_ENTRIES // self._d), exact):
                self.add(part.with_rows(part.rows.toarray()))

    def total(self) -> IntArray:
        """Return the whole sum."""
        self._add_left()
        integers = self._pending.astype(np.int64)
        if self._upper is not None:
            upper = self._upper[: len(integers), : len(integers)].astype(np.int64)
            places = np.arange(len(integers))
            integers += np.where(places[:, None] > places, upper.T, upper)
        if self._whole is not None:
            integers = widened(integers, self._bound, self.n_units)
            integers += self._whole
        return integers

    def _make_room(self, n_units: int) -> None:
        if self._units + n_units > exact_units(self._bound):
            self._whole = self.total()
            self._units = 0
            self._pending.fill(0.0)
            if self._upper is not None:
                self._upper.fill(0.0)
        self._units += n_units
        self.n_units += n_units

    def _add_dense(self, part: Units) -> None:
        bound, compiled, upper = self._bound, self._compiled, self._upper
        if isinstance(part.rows, Compared):
            compared = part.rows.rows, part.rows.places, part.rows.how
            if compiled is not None and upper is not None:
                compiled.add_compared(*compared, upper)
                return
            integers = (compiled or numpy_kernels).compared_integers(*compared)
            self._add_integers(part, integers, np.zeros(len(integers)))
        elif compiled is None or upper is None:
            self._add_integers(part, *bound.quantize_units(part))
        elif part.starts is None:
            rows, shift = rows_as_they_lie(part.rows), None if bound.shift is None else np.asarray(bound.shift)
            constant = float(bound.constant_units)
            squared = compiled.add_products(rows, shift, bound.grid_factor, bound.bits, constant, upper)
            self._left.append(rows[~(squared < EXACT_LIMIT)])
            if len(self._left) == _BLOCKS_TOGETHER:
                self._add_left()
        else:
            constants = compiled.add_unit_products(row_by_row(part.rows), part.starts, bound.shortening, upper)
            done = constants >= 0
            left = part.some(with_first(~done))
            integers, of_left = bound.quantize_units(left)
            first = left.sizes[0]
            integers[:first], of_left[:first] = 0.0, 0.0
            self._add_integers(left.part(1, left.n_units), integers, of_left)
            if bound.constant is not None and bound.knows_corner:
                short = np.count_nonzero(done) * bound.constant_units**2 - np.square(constants[done]) @ part.sizes[done]
                self._pending[self._d, self._d] += short

    def _add_entries(self, rows: Any) -> None:
        """Add the products of the stored entries of CSR rows."""
        bound = self._bound
        assert self._compiled is not None
        squared = self._compiled.add_sparse_products(
            rows, bound.grid_factor, bound.bits, bound.constant_units, self._pending
        )
        left, step = with_first(~(squared < EXACT_LIMIT)), max(1, 4 * _BLOCK_ENTRIES // self._d)
        for low in range(0, left.size, step):
            # The first row of all is there for nothing, as in `with_first`.
            self._left.append(rows[left[low : low + step]].toarray()[int(low == 0) :])
            self._add_left()

    def _add_left(self) -> None:
        """Add the rows that were left, and a row of zeros: so this is as much work where none were."""
        if not self._left:
            return
        rows = np.concatenate([np.zeros((1, self._d)), *self._left])
        self._left = []
        integers, constants = self._bound.long_integers(rows), np.full(len(rows), float(self._bound.constant_units))
        integers[0], constants[0] = 0.0, 0.0
        self._add_integers(Units(rows[1:]), integers, constants)

    def _add_integers(self, part: Units, integers: FloatArray, constants: FloatArray) -> None:
        d = self._d
        # So few rows BLAS multiplies by one thread anyway.
        narrow = numerics.one_blas_thread() if d <= _NARROW < len(integers) else nullcontext()
        with narrow:
            self._pending[:d, :d] += integers.T @ integers
            if self._bound.constant is not None:
                # A column that need not be multiplied out.
                column = constants @ integers
                self._pending[d, :d] += column
                self._pending[:d, d] += column
                self._pending[d, d] += constants @ constants
                if self._bound.knows_corner:
                    # A person's truncated constants fall short of the whole one by some share of 1. What is added is
                    # not negative, so that a person still adds a matrix without negative eigenvalues.
                    whole = part.n_units * self._bound.constant_units**2
                    self._pending[d, d] += float(whole - constants @ constants)


def multiplies_entries(bound: RowBound) -> bool:
    """Return whether the stored entries of CSR rows are multiplied as they are, and not made dense first."""
    # Without a shift an entry of zero stays zero.
    kept = bound.by_one_factor and bound.shift is None and bound.most_weight is None
    return kept and kernels.compiled() is not None


def added_products(bound: RowBound, n_features: int, batches: Iterable[Units]) -> IntArray:
    """Return the sum of products over all batches; some are worked on while others are read, each sum by one thread."""
    if n_features > _WIDEST_THREADED:
        whole = ProductSum(bound, n_features)
        for units in batches:
            whole.add(units)
        return widened(whole.total(), bound, whole.n_units)
    idle: list[ProductSum] = []

    def work(units: Units) -> None:
        try:
            sums = idle.pop()
        except IndexError:
            sums = ProductSum(bound, n_features)
        sums.add(units)
        idle.append(sums)

    def alone(units: Units) -> None:
        dense = not scipy.sparse.issparse(units.rows)
        least = max(_SMALLEST_PART // n_features, 4 * n_features)
        parts = min(numerics.available_cores(), units.rows.shape[0] // least) if dense else 1
        if parts < 2:
            work(units)
            return
        for _ in side_by_side(work, units.split(parts)):
            pass

    for _ in side_by_side(work, batches, alone):
        pass
    if not idle:
        width = n_features + (bound.constant is not None)
        return np.zeros((width, width), dtype=np.int64)
    totals = [sums.total() for sums in idle]
    totals[0] = widened(totals[0], bound, sum(sums.n_units for sums in idle))
    return functools.reduce(operator.iadd, totals)


def widened(integers: IntArray, bound: RowBound, n_units: int) -> IntArray:
    """Return integers that can hold the sum over so many units: as they are, or Python's, in an array of objects."""
    return integers if n_units * bound.row_limit_squared < MOST_SUM else integers.astype(object)


def exact_units(bound: RowBound) -> int:
    """Return the largest number of units whose product is exact in float64."""
    return int(2**EXACT_INTEGER_BITS // bound.row_limit_squared)


_NORMS = np.append(NORM_GRID, NORM_GRID[-1])
"""That of every grid point; what is above the grid of candidate bounds is shortened to its end."""


class SumsByNorm(RowSizes):
    """Counts of the norms of rows, and the exact sum of the rows on every grid point of the grid of candidate bounds.

    Parameters
    ----------
    bound : RowBound
        The grid, the shift and the scale of the rows; its norm is not used.
    n_features : int

    Examples
    --------
    >>> sums = SumsByNorm(RowBound(1.0, bits=8), 1).update(np.array([[0.5], [2.0], [4.0]]))
    >>> (sums.within(2.0) / 4**8).tolist()
    [2.25]
    >>> int(sums.above()[NORM_GRID.searchsorted(2.0)])
    1
    """

    def __init__(self, bound: RowBound, n_features: int) -> None:
        if bound.statistic != "clipped":
            raise InvalidParameterError("A mean is measured of clipped rows; use statistic='clipped'.")
        if bound.most_weight is not None:
            raise InvalidParameterError("The mean of weighted rows is not measured first; append a constant.")
        if bound.unit_weight == "by_rows":
            raise InvalidParameterError(
                "The number of pooled rows is private, so their mean is not measured first; append a constant."
            )
        shift, scale = (None if part is None else np.asarray(part) for part in (bound.shift, bound.scale))
        super().__init__(shift, scale, unit_weight=bound.unit_weight)
        self.bound = bound
        self._totals: IntArray = np.zeros((NORM_GRID.size + 1, n_features), dtype=np.int64)

    def _of(self, X: Any) -> tuple[IntArray, IntArray, IntArray]:
        """Return the bins, the grid points that there are, and the sums of their rows."""
        units, bits = units_of(self.bound.takes_units, X), self.bound.bits
        rows, factors = rows_as_they_lie(units.rows), self._candidates.factors
        sums = NormSums(np.zeros(NORM_GRID.size + 1, dtype=np.int64), np.zeros(self._totals.shape))
        if units.starts is not None:
            candidates, sizes = self._candidates_of(units.with_rows(rows)), units.sizes
            integers = self._integers(rows, factors[np.repeat(candidates, sizes)])
            # Rows of norm 2^26 at most: int64 holds the sum of all that fit into any memory, and a truncated average is
            # no longer than the longest of them, so that its square is exact too.
            averages = np.trunc(np.add.reduceat(integers.astype(np.int64), units.starts, axis=0) / sizes[:, None])
            to_the_bound(averages, squared_norms(averages), bits)
            add_by_group(averages, candidates, sums.totals)
            sums.counts[:] += np.bincount(candidates, minlength=sums.counts.size)
        elif units.n_units:
            scale = np.asarray(1.0 if self._scale is None else self._scale)
            places = kernels_for(rows, scale).add_by_norm(rows, self._shift, scale, bits, self._candidates, sums)
            # The first row once more, for nothing: so the time does not tell whether any was left.
            left = rows[np.append(places, 0)]
            candidates = self._exact_candidates(left)
            integers = self._integers(left, factors[candidates])
            # So few that to touch all totals, as a product does, takes longer.
            np.add.at(sums.totals, candidates[:-1], integers[:-1])
            sums.counts[:] += np.bincount(candidates[:-1], minlength=sums.counts.size)
        found = np.flatnonzero(sums.counts)
        return sums.counts, found, sums.totals[found].astype(np.int64)

    def _integers(self, rows: Any, factors: FloatArray) -> FloatArray:
        return quantize_values(self.bound, np.asarray(rows), factors, self._shift, self._totals.shape[1])

    @cached_property
    def _candidates(self) -> Candidates:
        """The table of grid points; rows on one of them are put on the grid of a bound of its norm."""
        shape, scale = self._totals.shape, 1.0 if self._scale is None else self._scale
        factors = 2.0**self.bound.bits * (scale / _NORMS[:, None])
        return norm_table(doubt(shape[1]), np.ascontiguousarray(np.broadcast_to(factors, shape)))

    def _add(self, part: tuple[IntArray, IntArray, IntArray]) -> None:
        bins, found, sums = part
        super()._add(bins)
        self._totals[found] += sums

    def within(self, norm: float) -> IntArray:
        """Return the sum of rows shortened to a norm, in units of 2^-bits of those of a grid for that norm.

        Those beyond it come to a norm within a step of the grid of candidate bounds below it.
        """
        weights = np.minimum(np.floor(np.ldexp(_NORMS / norm, self.bound.bits)), 2**self.bound.bits).astype(np.int64)
        return np.asarray(weights @ self._totals)

    def __add__(self, other: Self) -> Self:
        total = type(self)(self.bound, self._totals.shape[1])
        total.n_rows = self.n_rows + other.n_rows
        total._bins, total._totals = self._bins + other._bins, self._totals + other._totals
        return total
