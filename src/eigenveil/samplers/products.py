"""Matrix products whose rounding errors are those of plain sums, which is what error bounds are proved for."""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
# Larger than the blocks from which libraries switch to fast products.
_TESTED_ROWS = 512


def gram_of_rows(rows: FloatArray) -> FloatArray:
    """Return rows·rowsᵀ, every entry within `rounding_of_sum(columns)` of the product of the norms of its two rows.

    By BLAS where it passes `conventional_blas`, and else by plain loops, which are slower.

    Examples
    --------
    >>> gram_of_rows(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[5.0, 11.0], [11.0, 25.0]]
    """
    if conventional_blas():
        return np.asarray(rows @ rows.T)
    return np.asarray(np.einsum("ik,jk->ij", rows, rows, optimize=False))


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
