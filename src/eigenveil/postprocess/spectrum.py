"""Eigenvalues and eigenvectors of released matrices, with a fixed rule for order and sign."""

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# From this width on, products with vectors are cheaper than a reduction of the matrix; measured in
# benchmarks/scaling.py. Even the edge of pure noise at d = 20,000 takes far fewer restarts.
_WIDE, _RESTARTS = 2000, 100_000


def sorted_eigh(matrix: FloatArray, n_components: int | None = None) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues, descending, and their eigenvectors as rows.

    The sign rule: the entry of largest magnitude in each row is positive.

    Examples
    --------
    >>> values, vectors = sorted_eigh(np.diag([1.0, 3.0, 2.0]), 2)
    >>> values, vectors
    (array([3., 2.]), array([[0., 1., 0.],
           [0., 0., 1.]]))
    """
    d = matrix.shape[0]
    k = d if n_components is None else n_components
    if d >= _WIDE and k <= d // 50:
        values, vectors = _lanczos(matrix, k)
    else:
        # The full solver (divide and conquer) is faster unless only a few vectors are wanted.
        subset = None if k > d // 4 else (d - k, d - 1)
        values, vectors = scipy.linalg.eigh(matrix, subset_by_index=subset, driver="evd" if subset is None else "evr")
    rows = vectors.T[::-1][:k]
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    return values[::-1][:k].copy(), rows * np.where(largest < 0, -1.0, 1.0)


def _lanczos(matrix: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Return the k largest eigenvalues, ascending, and their eigenvectors, to the last bits, without d^3 work."""
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])  # fixed: one matrix has one answer
    options = {"which": "LA", "v0": start, "ncv": max(4 * k, 80), "maxiter": _RESTARTS}
    try:
        values, vectors = scipy.sparse.linalg.eigsh(matrix, k, **options)
    except scipy.sparse.linalg.ArpackError:  # as for the zero matrix; a release that was paid for must not be lost
        values, vectors = scipy.linalg.eigh(matrix, subset_by_index=(matrix.shape[0] - k, matrix.shape[0] - 1))
    order = values.argsort()
    return values[order], vectors[:, order]


def top_components(matrix: FloatArray, n_components: int | None = None) -> FloatArray:
    """Return the eigenvectors of the largest eigenvalues as rows."""
    return sorted_eigh(matrix, n_components)[1]
