"""Shrinkage of wide matrices: the spectrum is thinned out, and the simulation is of the smaller size.

The eigenvalues that noise moves hardly depend on the size of a matrix, only on the spectrum and on the squared noise in
a row: docs/explanation/uncertainty.md. So hundreds of eigenvalues stand for thousands.
"""

import numpy as np

from ..numerics import FloatArray, one_blas_thread
from .above_noise import edge_quantile
from .shrinkage import Shrunk, compose, debiased_and_along, decreasing, towards
from .variances import simulation

SIZE = 400
"""How many eigenvalues stand for a wider spectrum."""
_PAIRS = 4


def shrink_wide(
    values: FloatArray, rows: FloatArray, off_variance: float, excess: float = 0.0, *, keep_trace: bool = False
) -> Shrunk:
    """De-bias and shrink the eigenvalues of a wide release, as `shrink` does, in the time of a narrow one.

    Parameters
    ----------
    values, rows : ndarray of shape (d,), (d, d)
        All eigenvalues of M, descending, and its eigenvectors as rows; d above `SIZE`.
    off_variance, excess : float
        Of noise with the same distribution in every basis, as in `NoiseFacts`.
    keep_trace : bool
        As for `shrink`.
    """
    d = values.size
    edge = edge_quantile(d, off_variance, excess)
    visible = int(np.sum(values > edge))
    alone = min(visible, SIZE // 2)
    groups = [np.arange(i, i + 1) for i in range(alone)]
    groups += np.array_split(np.arange(alone, d), SIZE - alone)
    few = np.array([values[group].mean() for group in groups])
    generator = simulation()
    halves = [typical_noise(SIZE, off_variance * d / SIZE, excess, generator) for _ in range(_PAIRS)]
    total = max(0.0, float(values.sum())) if keep_trace else None
    weights = np.array([float(group.size) for group in groups])
    with one_blas_thread():
        debiased, spread = debiased_and_along(few, np.stack(halves + [-half for half in halves]), total, weights)

    def spelled_out(at: FloatArray) -> FloatArray:
        return np.interp(-values, -few, at)

    both = [decreasing(spelled_out(one), total) for one in (debiased, spread @ debiased)]
    eigenvalues, shrunk = (towards(values, one, total) for one in both)
    alignments = np.clip(spelled_out(np.diag(spread).copy()), 0.0, 1.0)
    return Shrunk(compose(shrunk, rows), eigenvalues, shrunk, rows, alignments, edge, visible)


def typical_noise(size: int, off_variance: float, excess: float, generator: np.random.Generator) -> FloatArray:
    """Return noise that is invariant under rotations, with this variance beside the diagonal and this excess.

    Without an excess it is Gaussian; else the difference of two Wishart matrices, which have it by their degrees.

    Examples
    --------
    >>> noise = typical_noise(300, 1.0, 0.5, np.random.default_rng(0))
    >>> bool(abs(noise[np.triu_indices(300, 1)].var() - 1) < 0.05)
    True
    """
    if excess == 0:
        noise = generator.standard_normal((size, size)) * np.sqrt(off_variance / 2)
        return np.asarray(noise + noise.T)
    degrees = max(1, round(size / (2 * excess)))
    first, second = generator.standard_normal((2, size, degrees))
    return np.asarray(np.sqrt(off_variance / (2 * degrees)) * (first @ first.T - second @ second.T))
