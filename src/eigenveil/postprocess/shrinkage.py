"""A released second moment made better with the known distribution of its noise.

A release is M = A + N, where A is positive semidefinite and the distribution of N is public. Functions here see M and
the distribution of N, never a row, so they cost no privacy. docs/research/postprocessing.md derives every formula.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError
from ..numerics import FloatArray, one_blas_thread
from .noise_spectrum import SIMULATION_SEED, NoiseDraws, edge_quantile
from .spectrum import Eigensystem, threads_for

# Half of the width over which the spectrum is smoothed, in standard deviations of the noise beside the diagonal.
_WIDTH = 2.5
# The width up to which estimates within the noise are averaged in full.
_AVERAGED_TO = 10
# Eigenvalues that are compared with all others at once.
_BLOCK = 512
# Simulated draws, in pairs, shrink with the size: the spectrum of a large matrix hardly fluctuates. By experiment,
# at width 20 with noise up to five times as large along some directions: twice as many change no loss by 0.2 %.
_WORK, _ENOUGH_PAIRS, _MOST_PAIRS, _STEPS = 2000, 50, 100, 4


@dataclass(frozen=True, eq=False)
class Shrunk:
    """A shrunk matrix by its eigenvalues; all are sorted from the largest released eigenvalue down.

    Attributes
    ----------
    eigenvalues : ndarray of shape (d,)
        De-biased estimates of the eigenvalues of A.
    shrunk_eigenvalues : ndarray of shape (d,)
        Eigenvalues of `covariance`: about u'Au for each released direction u, so below `eigenvalues` on top.
    system : Eigensystem
        Of the release.
    """

    eigenvalues: FloatArray
    shrunk_eigenvalues: FloatArray
    system: Eigensystem

    @cached_property
    def covariance(self) -> FloatArray:
        """The positive semidefinite estimate of A, of shape (d, d)."""
        values, least = self.shrunk_eigenvalues, float(self.shrunk_eigenvalues[-1])
        above = int(np.count_nonzero(values > least))  # where noise is all there is, few of many
        found = compose(values[:above] - least, self.system.rows(above))
        found.flat[:: values.size + 1] += least
        return found


def project_psd(matrix: FloatArray) -> FloatArray:
    """Return the nearest positive semidefinite matrix in the Frobenius norm.

    A lies in the cone, so the projection is never farther from A than the release was.

    Examples
    --------
    >>> project_psd(np.diag([4.0, -1.0])).tolist()
    [[4.0, 0.0], [0.0, 0.0]]
    """
    system = Eigensystem(released_matrix(matrix))
    kept = int(np.count_nonzero(system.values > 0))
    return compose(system.values[:kept], system.rows(kept))


def shrink(
    matrix: FloatArray,
    off_variance: float,
    excess: float = 0.0,
    system: Eigensystem | None = None,
    *,
    keep_trace: bool = False,
) -> Shrunk:
    """De-bias and shrink the eigenvalues of a release whose noise has the same distribution in every basis.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
        The released M = A + N, symmetric.
    off_variance, excess : float
        Of N, as in `NoiseFacts`.
    system : Eigensystem, optional
        Of the matrix, where it is known already.
    keep_trace : bool
        Whether the noise is quiet on the trace, so that all estimates of eigenvalues add up to that of M, or to 0 where
        it is below.

    Notes
    -----
    With g the Stieltjes transform of the released spectrum at an eigenvalue t, smoothed and without its own term:

    1. x = t - Im(g R(g))/Im g = t - 2a Re g/|1 - bg^2|^2, which for Gaussian noise is Stein's unbiased estimate of u'Au
       but for the smoothing; then the nearest decreasing nonnegative sequence, with the trace where that is kept.
    2. Within the noise, where x fluctuates more than the truth, averages of x over the true directions that u consists
       of, with weights |Im w|/|w - x|^2, w = t - R(g). That shrinks twice, so its share falls with d.
    3. A step of (d - 1)/d from the nearest nonnegative spectrum to these.

    Examples
    --------
    >>> entries = 0.1 * np.random.default_rng(1).standard_normal((50, 50))
    >>> truth = np.diag([1.0] + 49 * [0.0])
    >>> release = truth + (entries + entries.T) / np.sqrt(2)
    >>> estimate = shrink(release, 0.01).covariance
    >>> bool(np.linalg.norm(estimate - truth) < 0.5 * np.linalg.norm(release - truth))
    True
    """
    system = Eigensystem(released_matrix(matrix)) if system is None else system
    values = system.values
    d, total = values.size, _kept_total(values, keep_trace)
    plain = _nonnegative(values, total)
    if d == 1 or not off_variance > 0:
        return Shrunk(plain, plain, system)
    a, sd = d * off_variance, math.sqrt(off_variance)
    g = _smoothed_stieltjes(values, _WIDTH * sd)
    bent = 1 - excess * a * g * g
    along = decreasing(values - 2 * a * g.real / np.abs(bent) ** 2, total)
    before = values - a * g / bent
    averages = np.empty(d)
    for low in range(0, d, _BLOCK):
        part = before[low : low + _BLOCK, None]
        width = np.abs(part.imag) + 1e-6 * sd
        weights = width / ((part.real - along) ** 2 + width**2)
        averages[low : low + _BLOCK] = weights @ along / weights.sum(axis=1)
    edge = edge_quantile(d, off_variance, excess, sharp_trace=True)
    clear = values - max(0.0, float(values[-1]) + edge) > edge
    share = min(1.0, math.sqrt(_AVERAGED_TO / d))
    chosen = np.where(clear, along, along + share * (decreasing(averages, total) - along))
    step = (d - 1) / d
    shrunk = decreasing(plain + step * (chosen - plain), total)
    debiased = decreasing(plain + step * (before.real - plain), total)
    return Shrunk(debiased, shrunk, system)


def _smoothed_stieltjes(values: FloatArray, half_width: float) -> NDArray[np.complex128]:
    """Return g at every eigenvalue, smoothed by a semicircle, without its own term; Im g is pi times the density.

    The semicircle of half-width w has the transform 2 (x - sqrt(x^2 - w^2))/w^2: 1/x from afar. Without the own term
    isolated eigenvalues are exact: Im g = 0.
    """
    d = values.size
    found = np.empty(d, dtype=np.complex128)
    for low in range(0, d, _BLOCK):
        x = (values[low : low + _BLOCK, None] - values) / half_width
        rest = x * x - 1
        root = np.sqrt(np.abs(rest))
        far = rest > 0
        found.real[low : low + _BLOCK] = (x - np.where(far, np.copysign(root, x), 0.0)).sum(axis=1)
        found.imag[low : low + _BLOCK] = np.where(far, 0.0, root).sum(axis=1) - 1
    np.maximum(found.imag, 0.0, out=found.imag)
    return found * (2 / (half_width * d))


def shrink_by_simulation(
    matrix: FloatArray,
    noise_draws: NoiseDraws,
    system: Eigensystem | None = None,
    *,
    keep_trace: bool = False,
) -> Shrunk:
    """De-bias and shrink the eigenvalues of a release with noise that differs between directions.

    Parameters
    ----------
    matrix, system, keep_trace
        As for `shrink`.
    noise_draws : callable
        Maps a generator and a number to so many draws of N. The distribution must be symmetric about 0.

    Notes
    -----
    1. Find a spectrum that, plus simulated noise, has on average the eigenvalues of M (a few fixed-point
       steps on common random numbers, kept sorted and nonnegative): the de-biased eigenvalues.
    2. In the same simulation, average u'Au over the noisy eigenvectors u of each rank: the values with which
       those directions should be kept.
    3. Move from max(eigenvalue, 0), or what is nearest with the trace that is kept, towards both by the factor
       (d - 2)/d, as James and Stein would.
    """
    system = Eigensystem(released_matrix(matrix)) if system is None else system
    values, rows = system.values, system.rows()
    total = _kept_total(values, keep_trace)
    positive, step = _nonnegative(values, total), max(0.0, (values.size - 2) / values.size)
    with one_blas_thread():
        most = _WORK // rows.shape[0]
        pairs = max(1, min(most, max(most // 2, _ENOUGH_PAIRS), _MOST_PAIRS))
        halves = rows @ noise_draws(np.random.default_rng(SIMULATION_SEED), pairs) @ rows.T
        # Mirror images remove the first-order error of the simulation, which few draws would not average out.
        noise, estimate = np.concatenate([halves, -halves]), positive
        for _ in range(_STEPS):
            simulated = np.linalg.eigvalsh(noise + np.diag(estimate))[:, ::-1].mean(axis=0)
            estimate = decreasing(estimate + values - simulated, total)
        # How much of the i-th noisy direction lies, on average, in the j-th true one.
        spread = (np.linalg.eigh(noise + np.diag(estimate))[1] ** 2).mean(axis=0).T[::-1]
    debiased = positive + step * (estimate - positive)
    shrunk = positive + step * (decreasing(spread @ estimate, total) - positive)
    return Shrunk(debiased, shrunk, system)


def released_matrix(matrix: FloatArray) -> FloatArray:
    """Return `matrix` as floats if it is square, finite and symmetric."""
    array = np.asarray(matrix, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size or not np.isfinite(array).all():
        raise InvalidDataError("A released matrix must be square and finite.")
    if (array != array.T).any() and not np.allclose(array, array.T, rtol=1e-8, atol=1e-8 * float(np.abs(array).max())):
        raise InvalidDataError("A released matrix must be symmetric.")
    return array


def compose(values: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the symmetric matrix with these eigenvalues, none of them below 0, and eigenvectors (as rows)."""
    with threads_for(rows.shape[1]):
        roots = rows.T * np.sqrt(values)
        return np.asarray(roots @ roots.T)  # half of the work of other products, and symmetric to the last bit


def decreasing(values: FloatArray, total: float | None = None) -> FloatArray:
    """Return the nearest sorted nonnegative sequence, of this sum where one is given.

    Neighbours that rise get their mean (pool adjacent violators).
    """
    if not (values[1:] > values[:-1]).any():
        return _nonnegative(values, total)
    means, sizes = list[float](), list[int]()
    for value in values.tolist()[::-1]:
        mean, size = value, 1
        while means and means[-1] >= mean:
            before = sizes.pop()
            mean = (mean * size + means.pop() * before) / (size + before)
            size += before
        means.append(mean)
        sizes.append(size)
    return _nonnegative(np.repeat(means, sizes)[::-1], total)


def _kept_total(values: FloatArray, keep_trace: bool) -> float | None:
    return max(0.0, float(values.sum())) if keep_trace else None


def _nonnegative(values: FloatArray, total: float | None) -> FloatArray:
    """Return the nearest nonnegative numbers to sorted ones, of this sum where one is given: max(value - level, 0)."""
    if total is None:
        return np.maximum(values, 0.0)
    levels = (np.cumsum(values) - total) / np.arange(1, values.size + 1)
    above = np.flatnonzero(values > levels)  # none where the sum is 0, but for rounding
    return np.maximum(values - levels[above[-1]], 0.0) if above.size and total > 0 else np.zeros_like(values)
