"""`SecondMoments`: the exact integer second moment of bounded rows, the only statistic mechanisms see."""

import functools
import math
import operator
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice, pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from .errors import CapacityError, InvalidDataError, InvalidParameterError, integer_between, own_words
from .rows.bound import EXACT_INTEGER_BITS, NOT_FINITE, RowBound, quantize_values

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# A block of rows should fit a cache while it is quantized and multiplied, and be so long that threads seldom wait for
# the interpreter: four times less is up to twice slower on two cores.
_BLOCK_ENTRIES = 2**19
# Wider Gram matrices are not worth one accumulator a thread: their product dominates and BLAS threads it.
_WIDEST_THREADED = 1024
# Of wider ones this many rows are multiplied at once, and this many columns of the product are held at once.
_WIDE_BLOCK, _PANEL = 2048, 1024
# Matrices that live at the same time at the peak of a fit: moments, noise in the making, release and its copy.
_MATRICES = 6


class SecondMoments:
    """The number of rows n and the sum of q q' over the integer rows q, exact.

    The sum does not depend on the order of the rows, on block sizes, threads or engines: blocks multiply in
    float64, where every partial sum is an integer below 2^53, and add in int64.

    **These sums are private data, and so is a pickle of them**: engines send it between their workers, and it must stay
    where the rows may be.

    Parameters
    ----------
    bound : RowBound
        The public rule that makes the integer rows.
    n_features : int
        Width of a row.
    feature_names : sequence of str, optional
        Public names of the features.

    Examples
    --------
    >>> moments = SecondMoments(RowBound(1.0, bits=4), 2).update(np.array([[0.5, 0.0], [0.0, 1.0]]))
    >>> moments.gram
    array([[ 64,   0],
           [  0, 256]])
    >>> moments == moments + SecondMoments(RowBound(1.0, bits=4), 2)
    True
    """

    def __init__(
        self, bound: RowBound, n_features: int, feature_names: tuple[str, ...] | list[str] | None = None
    ) -> None:
        self._bound = bound
        self._n_features = integer_between("n_features", n_features, 1)
        bound.check_width(self.n_features)
        if feature_names is not None and len(feature_names) != self.n_features:
            raise InvalidParameterError("feature_names must have one name for every feature.")
        self.feature_names = None if feature_names is None else tuple(feature_names)
        _check_memory(self.width)
        self.n_rows = 0  # integer rows: comparisons, where rows are compared
        self._broken_off = False
        self._gram: IntArray = np.zeros((self.width, self.width), dtype=np.int64)

    @property
    def bound(self) -> RowBound:
        """The rule that made the integer rows; it cannot be changed any more."""
        return self._bound

    @property
    def n_features(self) -> int:
        """Width of a row."""
        return self._n_features

    @property
    def width(self) -> int:
        """Side of the Gram matrix: the features, and one more where the bound appends a constant."""
        return self.n_features + (self.bound.constant is not None)

    @property
    def n_samples(self) -> int:
        """Number of rows of the table: on a ring there are comparisons / 2 integer rows to each."""
        return self.n_rows // (self.bound.comparisons // 2) if self.bound.on_ring else self.n_rows

    @property
    def gram(self) -> IntArray:
        """The sum of q q', symmetric int64 (a read-only view)."""
        self.check_whole()
        view = self._gram.view()
        view.flags.writeable = False
        return view

    @own_words
    def update(self, X: Any) -> Self:
        """Add the rows of a dense or SciPy-sparse matrix; all of them, or none where an error is raised.

        Broken off midway, by an interrupt, the moments refuse all further use.
        """
        rows = self._checked(X)
        self.check_capacity(rows.shape[0])
        wide = self.n_features > _WIDEST_THREADED
        if wide:
            self._check_finite(rows)
        else:
            added = self._gram_of(rows, _available_cores())
        with self._adding():
            if wide:
                self._add_wide(rows)
            else:
                self._gram += added
            self.n_rows += rows.shape[0]
        return self

    @own_words
    def update_from(self, batches: Iterable[Any]) -> Self:
        """Add the rows of all batches, each like `update`; batches are read while others are multiplied.

        A batch must stay as it is while the next ones are read. Where an error is raised the moments are of no use
        any more, and say so; collect them anew.
        """
        with self._adding():
            return self._update_from(batches)

    def _update_from(self, batches: Iterable[Any]) -> Self:
        threads = _available_cores()
        reader = iter(batches)
        first_two = list(islice(reader, 2))
        batches = chain(first_two, reader)
        if threads == 1 or self.n_features > _WIDEST_THREADED or len(first_two) < 2:
            for batch in batches:
                self.update(batch)
            return self
        waiting: deque[Future[IntArray]] = deque()
        with _blas().limit(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
            for batch in batches:
                rows = self._checked(batch)
                self.check_capacity(rows.shape[0])
                waiting.append(pool.submit(self._gram_of, rows, 1))
                self.n_rows += rows.shape[0]
                # One batch a thread and one to come, so memory stays flat.
                if len(waiting) > threads:
                    self._gram += waiting.popleft().result()
            for future in waiting:
                self._gram += future.result()
        return self

    def __add__(self, other: Self) -> Self:
        if not isinstance(other, SecondMoments):
            return NotImplemented
        if self.bound != other.bound or self.n_features != other.n_features:
            raise InvalidDataError("Moments of different bounds or widths do not add; collect both with one RowBound.")
        names = {self.feature_names, other.feature_names} - {None}
        if len(names) > 1:
            raise InvalidDataError("Moments of differently named features do not add; select the same columns.")
        other.check_whole()
        self.check_capacity(other.n_rows)
        total = type(self)(self.bound, self.n_features, names.pop() if names else None)
        total.n_rows = self.n_rows + other.n_rows
        total._gram = self._gram + other._gram
        return total

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SecondMoments):
            return NotImplemented
        return self.bound == other.bound and self.n_rows == other.n_rows and np.array_equal(self._gram, other._gram)

    __hash__ = None  # type: ignore[assignment]  # it changes with every update

    def __repr__(self) -> str:
        # Counts and sums are private until a mechanism has released them.
        return f"SecondMoments({self.bound!r}, n_features={self.n_features})"

    def check_whole(self) -> None:
        """Raise where an update was broken off, by an interrupt say: some of its rows may count already."""
        if self._broken_off:
            raise InvalidDataError("An update was broken off and may have added some of its rows; collect all anew.")

    @contextmanager
    def _adding(self) -> Iterator[None]:
        try:
            yield
        except BaseException:  # a row that was added again would count twice
            self._broken_off = True
            raise

    def check_capacity(self, more_rows: int) -> None:
        """Raise where so many more rows would not fit int64."""
        self.check_whole()
        # Half of int64: the other half is room for noise, so that a release cannot overflow either.
        if (self.n_rows + more_rows) * self.bound.row_limit_squared >= 2**62:
            raise CapacityError(
                f"More rows than int64 can hold exactly at bits={self.bound.bits}; use fewer bits in the RowBound."
            )

    def _checked(self, X: Any) -> Any:
        if scipy.sparse.issparse(X):
            rows = scipy.sparse.csr_array(X, copy=not X.has_canonical_format) if X.format == "csr" else X.tocsr()
        else:
            if isinstance(X, np.ma.MaskedArray):
                raise InvalidDataError("Masked arrays are not supported; fill the masked entries first.")
            try:
                rows = np.asarray(X)
            except ValueError:
                raise InvalidDataError("The data must be a table with rows of one length.") from None
        if rows.dtype.kind not in "fiub":
            # The dtype is not named: that of text tells the length of its longest cell.
            raise InvalidDataError("The data must be real numbers; encode or drop other columns first.")
        if rows.ndim != 2:
            raise InvalidDataError(f"The data must be a table of rows, but have {rows.ndim} dimension(s).")
        if rows.shape[1] != self.n_features:
            raise InvalidDataError(f"The data have {rows.shape[1]} features where {self.n_features} were expected.")
        if rows.shape[0] == 0:
            raise InvalidDataError("The data have no rows; give at least one.")
        if scipy.sparse.issparse(rows):
            rows.sum_duplicates()
        return rows

    @property
    def _exact_rows(self) -> int:
        """Rows whose product is exact in float64 whatever they hold."""
        return int(2**EXACT_INTEGER_BITS // self.bound.row_limit_squared)

    def _gram_of(self, rows: Any, threads: int) -> IntArray:
        """Return the second moment of one batch."""
        if not scipy.sparse.issparse(rows):
            return self._dense_gram(rows, threads)
        if self.bound.keeps_zeros:
            return self._accumulate(self._sparse_products(rows))
        # A shifted or mapped row has no zeros left to skip, so its blocks are made dense one at a time.
        blocks = map(_dense, _row_blocks(rows, max(1, 2 * _BLOCK_ENTRIES // self.n_features)))
        return functools.reduce(operator.iadd, (self._dense_gram(block, threads) for block in blocks))

    def _dense_gram(self, rows: NDArray[Any], threads: int) -> IntArray:
        n_rows, d = rows.shape
        block = min(max(_BLOCK_ENTRIES // d, 2 * d), self._exact_rows)
        threads = min(threads, math.ceil(n_rows / block))
        if threads == 1:
            return self._accumulate(self._dense_products(rows, block))
        # Each core quantizes and multiplies its own rows: that keeps a block in its cache, and one BLAS
        # thread a core is all there is to use.
        cuts = np.linspace(0, n_rows, threads + 1, dtype=np.int64)
        parts = [rows[low:high] for low, high in pairwise(cuts)]
        with _blas().limit(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
            grams = pool.map(lambda part: self._accumulate(self._dense_products(part, block)), parts)
            return functools.reduce(operator.iadd, grams)

    def _dense_products(self, rows: NDArray[Any], block: int) -> Iterator[tuple[int, FloatArray]]:
        d, constant = self.n_features, float(self.bound.constant_units)
        buffer = np.empty((min(block, rows.shape[0]), d))
        inner = np.empty((d, d))
        bordered = np.empty((self.width, self.width)) if constant else inner
        for start in range(0, rows.shape[0], block):
            part = rows[start : start + block]
            quantized = self.bound.quantize(part, buffer[: part.shape[0]])
            np.matmul(quantized.T, quantized, out=inner)
            if constant:  # a column that need not be multiplied out
                bordered[:d, :d] = inner
                bordered[d, :d] = bordered[:d, d] = constant * quantized.sum(axis=0)
                bordered[d, d] = constant**2 * part.shape[0]
            yield part.shape[0], bordered

    def _add_wide(self, rows: Any) -> None:
        """Add rows where another d x d matrix would be dear: panel by panel, and one triangle of products only."""
        size = min(_WIDE_BLOCK, self._exact_rows)
        if scipy.sparse.issparse(rows) and self.bound.keeps_zeros:
            for _, product in self._sparse_products(rows):
                self._gram[product.row, product.col] += product.data.astype(np.int64)
            return
        for block in _row_blocks(rows, size):
            quantized = np.empty((block.shape[0], self.width), order="F")
            self.bound.quantize(_dense(block), quantized[:, : self.n_features])
            quantized[:, self.n_features :] = self.bound.constant_units
            for low in range(0, self.width, _PANEL):
                panel = slice(low, min(low + _PANEL, self.width))
                product = (quantized[:, panel].T @ quantized[:, : panel.stop]).astype(np.int64)
                self._gram[panel, : panel.stop] += product
                self._gram[:low, panel] += product[:, :low].T

    def _check_finite(self, rows: Any) -> None:
        """Ask before the first product of wide rows, so that all are added, or none."""
        parts = [rows.data] if scipy.sparse.issparse(rows) else _row_blocks(rows, _WIDE_BLOCK)
        if self.bound.on_invalid == "error" and not all(np.isfinite(part).all() for part in parts):
            raise InvalidDataError(NOT_FINITE)

    def _sparse_products(self, rows: Any) -> Iterator[tuple[int, Any]]:
        """Quantize the stored entries of CSR rows, padded to a rectangle; the product stays sparse."""
        stored = np.diff(rows.indptr)
        block = max(1, min(_BLOCK_ENTRIES // max(1, int(stored.max())), self._exact_rows))
        factor = self.bound.grid_factor
        for start in range(0, rows.shape[0], block):
            part = rows[start : start + block]
            stored = np.diff(part.indptr)
            filled = np.arange(max(1, stored.max())) < stored[:, None]
            values = np.zeros(filled.shape)
            values[filled] = part.data
            factors = factor
            if factor.ndim:
                factors = np.ones(filled.shape)
                factors[filled] = factor[part.indices]
            quantized = quantize_values(self.bound, values, factors, None, self.n_features)
            part = scipy.sparse.csr_array((quantized[filled], part.indices, part.indptr), shape=part.shape)
            if self.bound.constant is not None:
                constant = np.full((part.shape[0], 1), float(self.bound.constant_units))
                part = scipy.sparse.hstack([part, constant], format="csr")
            yield part.shape[0], (part.T @ part).tocoo()

    def _accumulate(self, products: Iterator[tuple[int, Any]]) -> IntArray:
        """Add block products in float64 while that is exact, and in int64 beyond."""
        total = np.zeros_like(self._gram)
        pending = np.zeros(self._gram.shape)
        pending_rows = 0
        for size, product in products:
            if pending_rows + size > self._exact_rows:
                total += pending.astype(np.int64)
                pending[...] = 0.0
                pending_rows = 0
            if scipy.sparse.issparse(product):
                pending[product.row, product.col] += product.data
            else:
                pending += product
            pending_rows += size
        total += pending.astype(np.int64)
        return total


def _row_blocks(rows: Any, size: int) -> Iterator[Any]:
    for start in range(0, rows.shape[0], size):
        yield rows[start : start + size]


def _dense(rows: Any) -> NDArray[Any]:
    return np.asarray(rows.toarray() if scipy.sparse.issparse(rows) else rows)


@functools.cache
def _blas() -> ThreadpoolController:
    """Return the handle of NumPy's BLAS; to look for it takes as long as a small fit."""
    return ThreadpoolController()


def _check_memory(width: int) -> None:
    needed, there = _MATRICES * 8 * width**2, _physical_memory()
    if there is not None and needed > there:
        raise CapacityError(
            f"A private second moment of {width} features needs about {needed / 2**30:.0f} GiB of memory where this "
            f"machine has {there / 2**30:.0f}; choose fewer columns, or project the rows to fewer features by a public "
            "random matrix first."
        )


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not a Unix
        return None


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
