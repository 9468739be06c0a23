"""Eigenvalues and eigenvectors of released matrices, with a fixed rule for order and sign."""

from contextlib import AbstractContextManager, nullcontext

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from ..numerics import FloatArray, one_blas_thread

# From this width on, products with vectors are cheaper than a reduction of the matrix; measured in
# benchmarks/scaling.py. Even the edge of pure noise at d = 20,000 takes far fewer restarts.
_WIDE, _RESTARTS = 2000, 100_000
# Up to this width two threads are hardly quicker than one on quiet cores; on busy ones they wait for one another for
# ten times as long as the work takes. On narrower matrices BLAS uses one thread by itself.
_ONE_THREAD, _NARROW = 1024, 64
# Below this width all eigenvalues are as quick to have as the largest; and points that stand for a spectrum.
_SMALL, _STEPS = 100, 120


def threads_for(d: int) -> AbstractContextManager[None]:
    """Return the context in which BLAS has as many threads as pay for matrices of this width."""
    return one_blas_thread() if _NARROW <= d <= _ONE_THREAD else nullcontext()


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
        with threads_for(d):
            # The same triangle, but in the order in which LAPACK reads: it would be copied across the grain else.
            if k > d // 4:  # divide and conquer is faster, unless only a few vectors are wanted
                values, vectors = np.linalg.eigh(matrix.T, "U")  # NumPy's, which begins sooner
            else:
                subset = d - k, d - 1
                values, vectors = scipy.linalg.eigh(matrix.T, lower=False, subset_by_index=subset, driver="evr")
    rows = vectors.T[::-1][:k]
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    return values[::-1][:k].copy(), rows * np.where(largest < 0, -1.0, 1.0)


def _lanczos(matrix: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Return the k largest eigenvalues, ascending, and their eigenvectors, to the last bits, without d^3 work."""
    start = _random_vector(matrix.shape[0])
    options = {"which": "LA", "v0": start, "ncv": max(4 * k, 80), "maxiter": _RESTARTS}
    try:
        values, vectors = scipy.sparse.linalg.eigsh(matrix, k, **options)
    except scipy.sparse.linalg.ArpackError:  # as for the zero matrix; a release that was paid for must not be lost
        values, vectors = scipy.linalg.eigh(matrix, subset_by_index=(matrix.shape[0] - k, matrix.shape[0] - 1))
    order = values.argsort()
    return values[order], vectors[:, order]


def _random_vector(d: int) -> FloatArray:
    """Return a vector to start from; fixed, so that one matrix has one answer."""
    return np.asarray(np.random.default_rng(0).standard_normal(d))


def top_components(matrix: FloatArray, n_components: int | None = None) -> FloatArray:
    """Return the eigenvectors of the largest eigenvalues as rows."""
    return sorted_eigh(matrix, n_components)[1]


def sorted_eigenvalues(matrix: FloatArray) -> FloatArray:
    """Return all eigenvalues, descending.

    Examples
    --------
    >>> sorted_eigenvalues(np.diag([1.0, 3.0, 2.0]))
    array([3., 2., 1.])
    """
    with threads_for(len(matrix)):
        return np.asarray(np.linalg.eigvalsh(matrix)[::-1])


def surely_below(matrix: FloatArray, level: float) -> bool:
    """Return True only where all eigenvalues are below a level, by a billionth of it or more; False says nothing.

    Cholesky's decomposition of level I - M, a fifth or less of the work of eigenvalues, succeeds where it is positive
    definite but for rounding, which moves eigenvalues by at most (d + 1) u tr(level I - M), u half a unit in the last
    place (Higham 2002, Theorem 10.3); so it is asked at a level as much lower.

    Examples
    --------
    >>> surely_below(np.diag([1.0, 3.0, 2.0]), 3.1), surely_below(np.diag([1.0, 3.0, 2.0]), 3.0)
    (True, False)
    """
    d = len(matrix)
    room = 1e-9 * abs(level) + (d + 2) * np.finfo(float).eps * max(0.0, d * level - float(np.trace(matrix)))
    left = np.negative(matrix)
    left.flat[:: d + 1] += level - room
    if not (left.diagonal() > 0).all():
        return False
    with threads_for(d):
        return bool(scipy.linalg.lapack.dpotrf(left.T, lower=True, clean=False, overwrite_a=True)[1] == 0)


def largest_eigenvalue(matrix: FloatArray, without: FloatArray) -> float:
    """Return the largest eigenvalue of a matrix on what is orthogonal to some orthonormal rows.

    Examples
    --------
    >>> largest_eigenvalue(np.diag([3.0, 2.0]), np.array([[1.0, 0.0]]))
    2.0
    """
    d = matrix.shape[0]
    if d <= _SMALL or len(without) > d // 2:
        basis = scipy.linalg.null_space(without) if len(without) else np.eye(d)
        return float(np.linalg.eigvalsh(basis.T @ matrix @ basis)[-1])

    def product(vector: FloatArray) -> FloatArray:
        inside = vector - without.T @ (without @ vector)
        found = matrix @ inside
        return np.asarray(found - without.T @ (without @ found))

    # Noise has as much below 0 as above, so what is left out, at 0, is never the largest.
    operator = scipy.sparse.linalg.LinearOperator((d, d), matvec=product, dtype=np.float64)
    start = product(_random_vector(d))
    return float(scipy.sparse.linalg.eigsh(operator, 1, which="LA", v0=start, tol=1e-4)[0][0])


def spectrum_beyond(matrix: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return points and weights that stand for all eigenvalues but those of some eigenvectors, without d^3 work.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
    rows : ndarray of shape (k, d)
        The leading eigenvectors.

    Returns
    -------
    points, weights : ndarray of shape (m,)
        In falling order; the weights add up to d - k.
    others : ndarray of shape (m, d)
        Orthonormal directions that stand for the other eigenvectors.

    Notes
    -----
    Lanczos' quadrature: sums over eigenvalues are means over random vectors, and the m points serve polynomials up to
    degree 2m - 1 exactly.
    """
    d, k = matrix.shape[0], len(rows)
    steps = min(_STEPS, d - k)
    basis = np.zeros((steps, d))
    diagonal, beside = np.zeros(steps), np.zeros(steps)
    vector = _random_vector(d)
    for step in range(steps):
        for _ in range(2):  # once more for what rounding left
            vector -= rows.T @ (rows @ vector) + basis[:step].T @ (basis[:step] @ vector)
        beside[step] = np.linalg.norm(vector)
        if beside[step] <= 1e-12 * (np.abs(diagonal[:step]).max() if step else 0.0):  # all is found
            steps = step
            break
        basis[step] = vector / beside[step]
        vector = matrix @ basis[step]
        diagonal[step] = basis[step] @ vector
    points, vectors = scipy.linalg.eigh_tridiagonal(diagonal[:steps], beside[1:steps])
    return points[::-1].copy(), (d - k) * vectors[0, ::-1] ** 2, basis[:steps]
