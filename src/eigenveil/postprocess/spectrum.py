"""Eigenvalues and eigenvectors of released matrices, with a fixed rule for order and sign."""

from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from ..numerics import FloatArray, one_blas_thread

# From this width on, products with vectors are cheaper than a reduction of the matrix; measured in
# benchmarks/scaling.py. Even the edge of pure noise at d = 20,000 takes far fewer restarts.
_WIDE, _RESTARTS = 2000, 100_000
# Up to this width two threads are hardly quicker than one on quiet cores; on busy ones they wait for one another for
# ten times as long as the work takes. On narrower matrices BLAS uses one thread by itself.
_ONE_THREAD, _NARROW = 1024, 64
# Up to this width all eigenvectors are as quick to have as a few; beyond, one in so many is as quick as a few.
_DECOMPOSED_AT_ONCE, _FEW = 256, 8
# Below this width all eigenvalues are as quick to have as the largest; and points that stand for a spectrum.
_SMALL, _STEPS = 100, 120


def threads_for(d: int) -> AbstractContextManager[None]:
    """Return the context in which BLAS has as many threads as pay for matrices of this width."""
    return one_blas_thread() if _NARROW <= d <= _ONE_THREAD else nullcontext()


class Eigensystem:
    """A symmetric matrix by its eigenvalues and eigenvectors, of which no more is computed than is asked for.

    A matrix that is not narrow is reduced to a tridiagonal one, Q'MQ = T. Its eigenvalues then cost a third of a whole
    decomposition, a few eigenvectors little more, and products with all of them the return to the matrix less.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)

    Examples
    --------
    >>> system = Eigensystem(np.diag([1.0, 3.0, 2.0]))
    >>> system.values, system.rows(1)
    (array([3., 2., 1.]), array([[0., 1., 0.]]))
    >>> system.coordinates(np.array([[1.0], [2.0], [0.0]])).ravel().tolist()
    [2.0, 0.0, 1.0]
    >>> system.combined(np.array([2.0, 0.0, 1.0])).tolist()
    [1.0, 2.0, 0.0]
    """

    def __init__(self, matrix: FloatArray) -> None:
        self._matrix = matrix

    @cached_property
    def _reduced(self) -> "_Tridiagonal | None":
        """T and Q; None for a narrow matrix, and for numbers so far from 1 that their squares may be none."""
        matrix = self._matrix
        if len(matrix) <= _DECOMPOSED_AT_ONCE or not 1e-99 < max(float(matrix.max()), -float(matrix.min())) < 1e99:
            return None
        with threads_for(len(matrix)):
            return _Tridiagonal(matrix)

    @cached_property
    def _whole(self) -> tuple[FloatArray, FloatArray]:
        with threads_for(len(self._matrix)):
            if self._reduced is not None:
                return self._reduced.values, _with_signs(self._reduced.rows(len(self._matrix)))
            # The same triangle, but in the order in which LAPACK reads: it would be copied across the grain else.
            values, vectors = np.linalg.eigh(self._matrix.T, "U")  # NumPy's, which begins sooner
            return values[::-1].copy(), _with_signs(vectors.T[::-1])

    @property
    def is_whole(self) -> bool:
        """Whether all eigenvectors are known already, or as quick to have as a few."""
        return "_whole" in vars(self) or len(self._matrix) <= _DECOMPOSED_AT_ONCE

    @property
    def values(self) -> FloatArray:
        """All eigenvalues, descending."""
        return self._whole[0] if self._reduced is None else self._reduced.values

    def rows(self, count: int | None = None) -> FloatArray:
        """Return the eigenvectors of the largest eigenvalues, as rows; all of them by default.

        The sign rule: the entry of largest magnitude in each row is positive.
        """
        if self.is_whole or self._reduced is None or count in (None, len(self._matrix)):
            return self._whole[1][:count]
        if count == 0:
            return np.empty((0, len(self._matrix)))
        with threads_for(len(self._matrix)):
            return _with_signs(self._reduced.rows(count))

    def leading(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return the largest eigenvalues, and their eigenvectors as rows; a few of a wide matrix by themselves."""
        d = len(self._matrix)
        if d < _WIDE or count > d // 50 or self.is_whole:
            return self.values[:count], self.rows(count)
        # To the last bits, without d^3 work.
        from scipy.sparse.linalg import ArpackError, eigsh  # which take long to load

        options = {"which": "LA", "v0": _random_vector(d), "ncv": max(4 * count, 80), "maxiter": _RESTARTS}
        try:
            values, vectors = eigsh(self._matrix, count, **options)
        except ArpackError:  # as for the zero matrix; a release that was paid for must not be lost
            values, vectors = scipy.linalg.eigh(self._matrix, subset_by_index=(d - count, d - 1))
        order = values.argsort()
        return values[order][::-1].copy(), _with_signs(vectors[:, order].T[::-1])

    def coordinates(self, columns: FloatArray) -> FloatArray:
        """Return the products of all eigenvectors, each of either sign, with columns."""
        if self._reduced is None:
            return np.asarray(self._whole[1] @ columns)
        with threads_for(len(self._matrix)):
            return self._reduced.coordinates(columns)

    def combined(self, weights: FloatArray) -> FloatArray:
        """Return the sum of all eigenvectors, of the signs of `coordinates`, with these weights."""
        if self._reduced is None:
            return np.asarray(weights @ self._whole[1])
        with threads_for(len(self._matrix)):
            return self._reduced.combined(weights)


class _Tridiagonal:
    """The tridiagonal T = Q'MQ of a wide matrix, Q as LAPACK's reflectors: they leave the first entry as it is."""

    def __init__(self, matrix: FloatArray) -> None:
        self._d = len(matrix)
        work = int(lapack.dsytrd_lwork(self._d, lower=1)[0])
        reduced, self._diagonal, self._beside, self._scalars, _ = lapack.dsytrd(matrix.T, lower=1, lwork=work)
        self._reflectors: FloatArray = np.asfortranarray(reduced[1:, :-1])

    @cached_property
    def values(self) -> FloatArray:
        values, failed = lapack.dsterf(self._diagonal, self._beside)
        if failed:
            raise np.linalg.LinAlgError("The eigenvalues did not converge.")
        return np.asarray(values[::-1].copy())

    @cached_property
    def _vectors(self) -> FloatArray:
        """All eigenvectors of T as columns, by ascending eigenvalues."""
        return np.asarray(scipy.linalg.eigh_tridiagonal(self._diagonal, self._beside)[1])

    def rows(self, count: int) -> FloatArray:
        d = self._d
        if "_vectors" in vars(self) or count > d // _FEW:
            vectors = self._vectors[:, d - count :]
        else:
            _, vectors = scipy.linalg.eigh_tridiagonal(
                self._diagonal, self._beside, select="i", select_range=(d - count, d - 1)
            )
        rows = np.empty((count, d))
        rows[:, 0], rows[:, 1:] = vectors[0, ::-1], self._turned(vectors[1:], "N").T[::-1]
        return rows

    def _turned(self, columns: FloatArray, transposed: str) -> FloatArray:
        """Return Q or Q' times columns, all without the first entry."""
        columns = np.array(columns, order="F")
        work = (columns.shape[1] + 65) * 64  # the most that LAPACK uses, which it would tell for another copy
        return np.asarray(
            lapack.dormqr("L", transposed, self._reflectors, self._scalars, columns, work, overwrite_c=1)[0]
        )

    def coordinates(self, columns: FloatArray) -> FloatArray:
        inner = np.vstack([columns[:1], self._turned(columns[1:], "T")])
        return np.asarray((self._vectors.T @ inner)[::-1])

    def combined(self, weights: FloatArray) -> FloatArray:
        inner = self._vectors @ weights[::-1]
        inner[1:] = self._turned(inner[1:, None], "N")[:, 0]
        return np.asarray(inner)


def row_signs(rows: FloatArray) -> FloatArray:
    """Return, as a column, the signs that make the entry of largest magnitude in each row positive."""
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    return np.where(largest < 0, -1.0, 1.0)[:, None]


def _with_signs(rows: FloatArray) -> FloatArray:
    return rows * row_signs(rows)


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
    return Eigensystem(matrix).leading(len(matrix) if n_components is None else n_components)


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
        return bool(lapack.dpotrf(left.T, lower=True, clean=False, overwrite_a=True)[1] == 0)


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
    from scipy.sparse.linalg import LinearOperator, eigsh

    def product(vector: FloatArray) -> FloatArray:
        inside = vector - without.T @ (without @ vector)
        found = matrix @ inside
        return np.asarray(found - without.T @ (without @ found))

    # Noise has as much below 0 as above, so what is left out, at 0, is never the largest.
    operator = LinearOperator((d, d), matvec=product, dtype=np.float64)
    start = product(_random_vector(d))
    return float(eigsh(operator, 1, which="LA", v0=start, tol=1e-4)[0][0])


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
