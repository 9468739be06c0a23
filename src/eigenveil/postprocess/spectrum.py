"""Eigenvalues and eigenvectors of released matrices, with a fixed rule for order and sign."""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


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
    # The full solver (divide and conquer) is faster unless only a few vectors are wanted.
    subset = None if k > d // 4 else (d - k, d - 1)
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=subset, driver="evd" if subset is None else "evr")
    rows = vectors.T[::-1][:k]
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    return values[::-1][:k].copy(), rows * np.where(largest < 0, -1.0, 1.0)


def top_components(matrix: FloatArray, n_components: int | None = None) -> FloatArray:
    """Return the eigenvectors of the largest eigenvalues as rows."""
    return sorted_eigh(matrix, n_components)[1]
