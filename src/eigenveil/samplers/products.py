"""Matrix products whose rounding errors are those of plain sums, which is what error bounds are proved for."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..cores import available_cores, one_blas_thread

FloatArray = NDArray[np.float64]
# Larger than the blocks from which libraries switch to fast products.
_TESTED_ROWS = 512
# Rows of one product: few, so that little above a diagonal is multiplied, and enough for BLAS.
_BLOCK = 128
_THREADS_FROM = 3  # blocks; fewer take less time than the start of a thread


def weighted_grams(triangles: Sequence[FloatArray], weights: Sequence[float]) -> tuple[FloatArray, list[float]]:
    """Return the sum of weight·rows·rowsᵀ, and for each term the largest diagonal entry of rows·rowsᵀ.

    The upper triangle of the sum counts. Blocks above the diagonal of `rows` are not read, which saves two of three
    operations. Every entry of a product is a plain sum of at most as many terms as there are columns.

    Examples
    --------
    >>> total, longest = weighted_grams([np.array([[1.0, 0.0], [3.0, 4.0]])], [2.0])
    >>> np.triu(total).tolist(), longest
    ([[2.0, 6.0], [0.0, 50.0]], [25.0])
    """
    d = triangles[0].shape[0]
    total = np.zeros((d, d))

    def fill(low: int) -> list[float]:
        high, squares = min(low + _BLOCK, d), []
        for rows, weight in zip(triangles, weights, strict=True):
            part = plain_product(rows[low:high, :high], rows[low:, :high].T)
            squares.append(float(part.diagonal().max()))
            part *= weight
            total[low:high, low:] += part
        return squares

    conventional_blas()  # tested with the threads that it has
    blocks = range(0, d, _BLOCK)
    # Threads of our own: those of BLAS would meet after each of many small products.
    with one_blas_thread():
        if len(blocks) < _THREADS_FROM:
            squares = [fill(low) for low in blocks]
        else:
            with ThreadPoolExecutor(available_cores()) as pool:
                squares = list(pool.map(fill, blocks))
    return total, [max(column) for column in zip(*squares, strict=True)]


def plain_product(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return first·second, every entry by a plain sum of products: of a matrix and a matrix, or a vector.

    Examples
    --------
    >>> plain_product(np.array([[1.0, 2.0]]), np.array([3.0, 4.0])).tolist()
    [11.0]
    """
    if conventional_blas():
        return np.asarray(first @ second)
    return np.asarray(np.einsum("ij,j->i" if second.ndim == 1 else "ij,jk->ik", first, second, optimize=False))


@cache
def conventional_blas() -> bool:
    """Return whether the BLAS at hand multiplies by plain sums in float64; tested once, at first use.

    NumPy has one routine for a matrix times its own transpose, another for two matrices, and a third for vectors.
    """

    def by_columns(rows: FloatArray) -> FloatArray:
        return np.stack([rows @ row for row in rows], axis=1)

    ways = (lambda rows: rows @ rows.T, lambda rows: rows @ rows.T.copy(), by_columns)
    return all(is_conventional(multiply) for multiply in ways)


def is_conventional(multiply: Callable[[FloatArray], FloatArray]) -> bool:
    """Return whether `multiply(rows)` computes rows·rowsᵀ by plain sums in float64, in whatever order.

    The rows of the test are integers of 21 bits times powers of two that differ from row to row. A sum of products, in
    any order, is then exact in float64. Products in lower precision lose bits of the integers; products in the manner
    of Strassen add rows of different size and lose the small ones.
    """
    generator = np.random.default_rng(14)  # public: the test of a library, not a draw
    whole = generator.integers(-(2**21), 2**21, (_TESTED_ROWS, _TESTED_ROWS + 1))
    scales = 2.0 ** generator.integers(-60, 60, _TESTED_ROWS)
    product = multiply(whole * scales[:, None])
    chosen = np.r_[0:_TESTED_ROWS:32, _TESTED_ROWS - 1]
    exact = (whole @ whole[chosen].T).astype(np.float64)  # below 2^52
    return bool(np.array_equal(product[:, chosen], exact * scales[:, None] * scales[chosen]))
