"""Exact sums over integer rows: `ProductSum` of q q', `SumsByNorm` of q by their norms.

Rows multiply in float64, where every partial sum is an integer below 2^53 as long as there are no more units than
`exact_units`, and what is more goes on in int64, or in Python's integers where there may be too many units for it. So
the sum is exact for every number of units, which may be private: none is refused. It does not depend on order, blocks
or threads, nor on whether BLAS multiplies or, for narrow rows, one_pass.c.
"""

import functools
import operator
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from .. import numerics
from ..errors import InvalidParameterError
from ..numerics import FloatArray, IntArray
from . import kernels, unit_kernels
from .bound import EXACT_INTEGER_BITS, RowBound, quantize_values, rows_as_they_lie
from .comparisons import Compared
from .counts import NORM_GRID, RowSizes, doubt, norm_table
from .kernels import Candidates, NormSums, add_by_norm
from .numpy_kernels import add_by_group, squared_norms, to_the_bound
from .row_rule import MOST_SUM
from .units import Units, canonical_rows, side_by_side, units_of, with_first

# A block of rows should fit a cache while it is quantized and multiplied, and be so long that threads seldom wait for
# the interpreter: four times less is up to twice slower on two cores.
_BLOCK_ENTRIES = 2**18
# Fewer entries than these are not worth a thread.
_SMALLEST_PART = 2**21
# So many blocks wait for those of their rows that one_pass.c leaves, which are added together.
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
        compiled = bound.by_one_factor or bound.shortens_units or bound.compares
        self._upper = kernels.room_for_products(width) if compiled else None
        self._units = 0
        self._left: list[FloatArray] = []
        self._buffer: FloatArray = np.empty((0, n_features))

    def add(self, units: Units) -> None:
        """Add the rows of whole units, dense or CSR."""
        rows, d = units.rows, self._d
        exact = exact_units(self._bound)
        if scipy.sparse.issparse(rows) and self._bound.keeps_zeros and self._added_sparse(units):
            return
        if scipy.sparse.issparse(rows) and self._bound.keeps_zeros:
            for n_units, product in sparse_products(self._bound, d, units):
                self._make_room(n_units)
                self._pending[product.row, product.col] += product.data
        elif scipy.sparse.issparse(rows) and self._zero_row(units) is not None:
            for part in units.pieces(rows.shape[0], exact // 8):  # so that what differs from a zero row is exact too
                self._add_shifted(part)
        elif scipy.sparse.issparse(rows):
            # A mapped row has no zeros left to skip, so its blocks are made dense one at a time.
            for part in units.pieces(max(1, 4 * _BLOCK_ENTRIES // d), exact):
                self.add(part.with_rows(part.rows.toarray()))
        else:
            # What was compiled works on a few rows at a time, whatever it is given.
            entries = _BLOCK_ENTRIES if self._upper is None else 4 * _BLOCK_ENTRIES
            of_units = units.starts is not None and self._upper is not None
            whole = of_units and unit_kernels.compiled_for(rows) is not None
            for part in units.pieces(rows.shape[0] if whole else max(entries // d, 4 * d), exact):
                self._make_room(part.n_units)
                self._add_units(part)

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

    def _added_sparse(self, units: Units) -> bool:
        """Add the products of the entries of CSR rows by privacy_units.c, and tell whether it did."""
        bound = self._bound
        if unit_kernels.compiled() is None or not bound.by_one_factor or units.shares is not None:
            return False
        how = bound.grid_factor, bound.bits, bound.constant_units
        for part in units.pieces(units.rows.shape[0], exact_units(bound)):
            self._make_room(part.n_units)
            squared = unit_kernels.add_sparse_products(part.rows, *how, self._pending)
            left, step = with_first(~(squared < kernels.EXACT_LIMIT)), max(1, 4 * _BLOCK_ENTRIES // self._d)
            for low in range(0, left.size, step):
                self._add_dense(part.rows[left[low : low + step]].toarray(), not_the_first=low == 0)
        return True

    def _zero_row(self, units: Units) -> FloatArray | None:
        """Return the integers of a shifted row of zeros; None where rows do not differ from it in few entries only."""
        bound = self._bound
        by_entries = bound.by_one_factor and bound.mapped_from is None and units.shares is None
        if not by_entries or 2 * self._d * 4**bound.bits >= kernels.EXACT_LIMIT:
            return None
        with np.errstate(over="ignore"):
            row = np.trunc((0.0 - np.asarray(bound.shift)) * np.broadcast_to(bound.grid_factor, self._d))
            return row if squared_norms(row[None])[0] <= 4**bound.bits else None

    def _add_shifted(self, part: Units) -> None:
        """Add shifted CSR rows by what they differ in from a row of zeros; those to be clipped, as dense ones."""
        bound, rows, d = self._bound, part.rows, self._d
        zero = self._zero_row(part)
        assert zero is not None
        moved = rows.data.astype(np.float64, copy=False) - np.asarray(bound.shift)[rows.indices]
        with np.errstate(all="ignore"):
            entries = np.trunc(moved * np.broadcast_to(bound.grid_factor, d)[rows.indices])
        small, listed = np.abs(entries) <= 2.0**bound.bits, zero[rows.indices]  # NaN is not
        places = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        squares = np.where(small, entries, 2.0**bound.bits) ** 2 - listed**2
        squared = np.bincount(places, squares, rows.shape[0]) + zero @ zero
        within = (squared <= 4**bound.bits) & (np.bincount(places, ~small, rows.shape[0]) == 0)
        self._make_room(rows.shape[0])
        dense, step = with_first(~within), max(1, 4 * _BLOCK_ENTRIES // d)
        for low in range(0, dense.size, step):
            self._add_dense(rows[dense[low : low + step]].toarray(), not_the_first=low == 0)
        kept = within[places]
        n_rows, shape = int(within.sum()), (rows.shape[0], d)
        differing = scipy.sparse.csr_array(((entries - listed)[kept], (places[kept], rows.indices[kept])), shape=shape)
        sums = np.bincount(differing.indices, differing.data, d)
        products = (differing.T @ differing).toarray()
        products += np.outer(zero, sums + n_rows * zero)
        products += np.outer(sums, zero)
        self._pending[:d, :d] += products
        if bound.constant is not None:
            constant = float(bound.constant_units)
            self._pending[d, :d] += constant * (sums + n_rows * zero)
            self._pending[:d, d] += constant * (sums + n_rows * zero)
            self._pending[d, d] += n_rows * constant**2

    def _add_units(self, part: Units) -> None:
        if isinstance(part.rows, Compared):
            self._add_compared(part, part.rows)
            return
        if self._multiplied(part) or self._multiplied_units(part):
            return
        n_rows = part.rows.shape[0]
        if n_rows > self._buffer.shape[0]:
            self._buffer = np.empty((n_rows, self._d))
        quantized, constants = self._bound.quantize_units(part, self._buffer[:n_rows])
        self._add_quantized(part, quantized, constants)

    def _add_quantized(self, part: Units, quantized: FloatArray, constants: FloatArray) -> None:
        d = self._d
        # So few rows BLAS multiplies by one thread anyway.
        narrow = numerics.one_blas_thread() if d <= _NARROW < len(quantized) else nullcontext()
        with narrow:
            self._pending[:d, :d] += quantized.T @ quantized
            if self._bound.constant is not None:
                # A column that need not be multiplied out.
                column = constants @ quantized
                self._pending[d, :d] += column
                self._pending[:d, d] += column
                self._pending[d, d] += constants @ constants + missing_corner(self._bound, part, constants)

    def _multiplied(self, part: Units) -> bool:
        """Add the products of rows by one_pass.c, and keep those that it leaves; tell whether it did."""
        bound = self._bound
        if self._upper is None or not bound.by_one_factor or part.shares is not None:
            return False
        shift = None if bound.shift is None else np.asarray(bound.shift)
        factor, constant = bound.grid_factor, float(bound.constant_units)
        squared = kernels.add_products(part.rows, shift, factor, bound.bits, constant, self._upper)
        if squared is None:
            return False
        self._left.append(part.rows[~(squared < kernels.EXACT_LIMIT)])
        if len(self._left) == _BLOCKS_TOGETHER:
            self._add_left()
        return True

    def _multiplied_units(self, part: Units) -> bool:
        """Add the products of rows of privacy units by privacy_units.c, and those it leaves; tell whether it did."""
        bound, d = self._bound, self._d
        if self._upper is None or part.starts is None or not bound.shortens_units:
            return False
        constants = unit_kernels.add_unit_products(part.rows, part.starts, *bound.shortening, self._upper)
        if constants is None:
            return False
        done = constants >= 0
        left = part.some(with_first(~done))[0]
        quantized, of_left = bound.integers_apart(left)
        first = left.sizes[0]
        quantized[:first], of_left[:first] = 0.0, 0.0
        self._add_quantized(left.part(1, left.n_units), quantized, of_left)
        if bound.constant is not None and bound.knows_corner:
            short = np.count_nonzero(done) * bound.constant_units**2 - np.square(constants[done]) @ part.sizes[done]
            self._pending[d, d] += short
        return True

    def _add_compared(self, part: Units, pairs: Compared) -> None:
        if self._upper is not None:
            kernels.add_compared(pairs.rows, pairs.places, pairs.how, self._upper)
            return
        integers = kernels.compared_integers(pairs.rows, pairs.places, pairs.how)
        self._add_quantized(part, integers, np.zeros(len(integers)))

    def _add_left(self) -> None:
        """Add the rows that one_pass.c left, and a row of zeros: so this is as much work where it left none."""
        if not self._left:
            return
        rows = np.concatenate([np.zeros((1, self._d)), *self._left])
        self._left = []
        quantized, constants = self._bound.long_integers(rows), np.full(len(rows), float(self._bound.constant_units))
        quantized[0], constants[0] = 0.0, 0.0
        self._add_quantized(Units(rows[1:]), quantized, constants)

    def _add_dense(self, rows: FloatArray, not_the_first: bool) -> None:
        quantized, constants = self._bound.quantize_units(Units(rows))
        if not_the_first:
            quantized[0], constants[0] = 0.0, 0.0
        self._add_quantized(Units(rows[int(not_the_first) :]), quantized, constants)


def added_products(bound: RowBound, n_features: int, batches: Iterable[Units]) -> IntArray:
    """Return the sum of products over all batches; some are worked on while others are read, each sum by one thread."""
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
    """Return how many units have a product that is exact in float64 whatever they hold."""
    return int(2**EXACT_INTEGER_BITS // bound.row_limit_squared)


def missing_corner(bound: RowBound, part: Units, constants: FloatArray) -> float:
    """Return what is added to the last entry of the diagonal, so that every unit has the whole constant in it.

    A person's truncated constants fall short of it by some share of 1. What is added is not negative, so that a
    person still adds a matrix without negative eigenvalues, of a trace within the limit.
    """
    if not bound.knows_corner:
        return 0.0
    return float(part.n_units * bound.constant_units**2 - constants @ constants)


def sparse_products(bound: RowBound, n_features: int, units: Units) -> Iterator[tuple[int, Any]]:
    """Quantize the stored entries of CSR rows, padded to a rectangle; yield units and their product, in COO form."""
    longest = int(np.diff(units.rows.indptr).max(initial=1))
    factor = bound.grid_factor
    for part in units.pieces(max(1, _BLOCK_ENTRIES // longest), exact_units(bound)):
        rows = part.rows
        filled, values = padded(rows, rows.data)
        factors = padded(rows, factor[rows.indices])[1] if factor.ndim else factor
        quantized = quantize_values(bound, values, factors, None, n_features)
        constants = bound.bound_units(quantized, part)
        rows = _stored(quantized, filled, rows)
        if bound.constant is not None:
            rows = scipy.sparse.hstack([rows, constants[:, None]], format="csr")
        product = (rows.T @ rows).tocsr()
        if bound.constant is not None:
            # Added as a matrix: an entry that is not stored yet would bring a warning, for some rows alone.
            corner = [missing_corner(bound, part, constants)], ([n_features], [n_features])
            product = product + scipy.sparse.csr_array(corner, shape=product.shape)
        yield part.n_units, product.tocoo()


def padded(rows: Any, entries: NDArray[Any]) -> tuple[NDArray[np.bool_], FloatArray]:
    """Return entries, one for each that is stored in CSR rows, as a rectangle that zeros fill, and where they are."""
    stored = np.diff(rows.indptr)
    filled = np.arange(max(1, stored.max(initial=0))) < stored[:, None]
    values = np.zeros(filled.shape)
    values[filled] = entries
    return filled, values


def _stored(values: FloatArray, filled: NDArray[np.bool_], rows: Any) -> Any:
    """Return CSR rows with what a rectangle holds in place of their entries."""
    return scipy.sparse.csr_array((values[filled], rows.indices, rows.indptr), shape=rows.shape)


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
    >>> int(sums.above()[0, NORM_GRID.searchsorted(2.0)])
    1
    """

    def __init__(self, bound: RowBound, n_features: int) -> None:
        check_summed(bound)
        shift, scale = (None if part is None else np.asarray(part) for part in (bound.shift, bound.scale))
        super().__init__(shift, scale, unit_weight=bound.unit_weight)
        self.bound = bound
        self._totals: IntArray = np.zeros((NORM_GRID.size + 1, n_features), dtype=np.int64)

    def _of(self, X: Any) -> tuple[IntArray, IntArray, IntArray]:
        """Return the bins, the grid points that there are, and the sums of their rows."""
        units = units_of(self.bound.takes_units, X)
        if scipy.sparse.issparse(units.rows) and self.bound.by_one_factor and self._shift is None:
            return self._of_sparse(canonical_rows(units.rows))
        left = units.with_rows(rows_as_they_lie(units.rows))
        sums = NormSums(np.zeros(NORM_GRID.size + 1, dtype=np.int64), np.zeros(self._totals.shape))
        asked = self.bound.by_one_factor
        if asked and left.n_units:
            scale = np.asarray(1.0 if self._scale is None else self._scale)
            rows = left.rows
            places = add_by_norm(rows, self._shift, scale, self.bound.bits, self._candidates, sums)
            # The first row once more, for nothing: so the time does not tell whether any was left.
            left = Units(rows[np.append(places, 0)])
        if left.n_units:
            # Floats have left few rows, and are not asked for these again.
            candidates = self._exact_candidates(left.rows) if asked else self._candidates_of(left)
            sizes = None if left.starts is None else left.sizes
            factors = self._candidates.factors[candidates if sizes is None else np.repeat(candidates, sizes)]
            integers = _unit_integers(self.bound, left, factors)
            if asked:  # so few that to touch all totals, as a product does, takes longer
                candidates = candidates[:-1]
                np.add.at(sums.totals, candidates, integers[:-1])
            else:
                add_by_group(integers, candidates, sums.totals)
            sums.counts[:] += np.bincount(candidates, minlength=sums.counts.size)
        found = np.flatnonzero(sums.counts)
        return sums.counts[None], found, sums.totals[found].astype(np.int64)

    def _of_sparse(self, rows: Any) -> tuple[IntArray, IntArray, IntArray]:
        """Return what `_of` does, of the stored entries of CSR rows."""
        counts, totals = np.zeros(NORM_GRID.size + 1, dtype=np.int64), np.zeros(self._totals.shape)
        longest = int(np.diff(rows.indptr).max(initial=1))
        for part in Units(rows).pieces(max(1, _BLOCK_ENTRIES // longest), rows.shape[0]):
            some = part.rows
            filled, values = padded(some, some.data)
            scale = 1.0 if self._scale is None else padded(some, np.asarray(self._scale)[some.indices])[1]
            with np.errstate(all="ignore"):
                squared = squared_norms(values * scale)
            # A square of 0 is that of a row shorter than the whole grid, of zeros most of all.
            candidates = np.where(squared == 0, 0, self._candidates.of(squared))
            near = np.append(np.flatnonzero(candidates < 0), 0)  # the first row once more, as above
            candidates[near[:-1]] = self._exact_candidates(some[near].toarray())[:-1]
            factors = padded(some, self._candidates.factors[np.repeat(candidates, filled.sum(axis=1)), some.indices])[1]
            integers = quantize_values(self.bound, values, factors, None, self._totals.shape[1])
            add_by_group(_stored(integers, filled, some), candidates, totals)
            counts += np.bincount(candidates, minlength=counts.size)
        found = np.flatnonzero(counts)
        return counts[None], found, totals[found].astype(np.int64)

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


def check_summed(bound: RowBound) -> None:
    """Refuse rows whose sum would not be that of equal units."""
    if bound.most_weight is not None:
        raise InvalidParameterError("The mean of weighted rows is not measured first; append a constant.")
    if bound.unit_weight == "by_rows":
        raise InvalidParameterError(
            "The number of pooled rows is private, so their mean is not measured first; append a constant."
        )


def _unit_integers(bound: RowBound, units: Units, factor: FloatArray) -> FloatArray:
    """Return the integers of every unit: of a row, or the truncated average of a person's, shortened."""
    shift = None if bound.shift is None else np.asarray(bound.shift)
    integers = quantize_values(bound, units.rows, factor, shift, units.rows.shape[1])
    if units.starts is None:
        return integers
    # Rows of norm 2^26 at most: int64 holds the sum of all that fit into any memory, and a truncated average is no
    # longer than the longest of them, so that its square is exact too.
    sizes = units.sizes
    averages = np.trunc(np.add.reduceat(integers.astype(np.int64), units.starts, axis=0) / sizes[:, None])
    to_the_bound(averages, squared_norms(averages), bound.bits)
    return np.asarray(averages)
