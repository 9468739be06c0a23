"""What one simulated release comes to: what its directions carry, what is reported of them, and how surely."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..postprocess.spectrum import sorted_eigh

FloatArray = NDArray[np.float64]

Z = 1.959963984540054
"""Standard errors on either side of an interval of 95 %."""
# A loss below it is rounding, to either side.
_ROUNDING = 1e-13
# Up to these widths, so many draws of noise tell the edge that components rise above; a fit draws more.
_EDGE_DRAWS = ((64, 99), (256, 39), (10**9, 19))
# From this width on fewer blocks have to do.
_WIDE = 256


@dataclass(frozen=True, eq=False)
class Outcome:
    """One simulated release beside the rows that it is of.

    Attributes
    ----------
    loss : float
        1 - qF(V)/qF(V_k) on these rows.
    random_loss : float
        The mean loss of as many directions at random.
    captured : float
        The share of the variance of the rows that the directions carry.
    shares : ndarray of shape (k,)
        The variance along each direction, of the rows as they are used, as a share of its total: what is reported, but
        for noise.
    half_widths : ndarray of shape (k,), optional
        Half of the interval around each, in the same units; None without a noise law.
    total_half_width : float, optional
        That of the total of all k.
    above_noise : int, optional
        How many components rise above the noise.
    """

    loss: float
    random_loss: float
    captured: float
    shares: FloatArray
    half_widths: FloatArray | None = None
    total_half_width: float | None = None
    above_noise: int | None = None


def variance_errors(values: FloatArray, noise_sd: float, n_components: int) -> tuple[FloatArray, float]:
    """Return standard errors of the variances along released directions, and of the total of the first k.

    By Stein's identity for noise of variance s^2 on the diagonal and s^2/2 beside it: se^2 = s^2 + s^4 times the sum
    over j of 1/(l_i - l_j)^2; for the total k s^2, and the sum over i <= k < j.

    Parameters
    ----------
    values : ndarray of shape (d,)
        Eigenvalues of the release, descending.
    noise_sd : float
        Standard deviation of the noise beside the diagonal.
    n_components : int

    Examples
    --------
    >>> each, total = variance_errors(np.array([10.0, 5.0, 0.0]), 0.1, 2)
    >>> each.round(3).tolist(), round(total, 3)
    ([0.141, 0.142], 0.2)
    """
    k, squared = n_components, 2 * noise_sd**2
    gaps = np.abs(values[:k, None] - values[None, :])
    np.fill_diagonal(gaps, np.inf)
    inverse = 1 / np.maximum(gaps, np.finfo(float).tiny ** 0.25) ** 2
    each = np.sqrt(squared + squared**2 * inverse.sum(axis=1))
    return each, math.sqrt(k * squared + squared**2 * float(inverse[:, k:].sum()))


def noise_edges(draw: Callable[[], FloatArray], n_features: int) -> FloatArray:
    """Return, for every k, about the largest eigenvalue that noise has in d - k + 1 dimensions, nineteen times in 20.

    As in `postprocess.above_noise`, blocks of few sizes serve all k.
    """
    count = next(draws for width, draws in _EDGE_DRAWS if n_features <= width)
    noise = np.stack([draw() for _ in range(count)])
    edges = np.empty(n_features)
    start = 0
    while start < n_features:
        end = min(n_features, max(start + 1, (2 if n_features <= _WIDE else 8) * start))
        largest = np.linalg.eigvalsh(noise[:, start:, start:])[:, -1]
        edges[start:end] = np.sort(largest)[19 * (count + 1) // 20 - 1]
        start = end
    return edges


def outcome_of_matrix(
    noisy: FloatArray,
    exact: FloatArray,
    true: FloatArray,
    noise_sd: float,
    edges: FloatArray,
    n_components: int | None,
) -> Outcome:
    """Return the outcome of a matrix that was released with noise.

    Parameters
    ----------
    noisy, exact : ndarray of shape (d, d)
        The matrix that components are read off, and the same without noise.
    true : ndarray of shape (d, d)
        The covariance of the rows, whose variance is captured or lost.
    noise_sd : float
        Standard deviation of the noise beside the diagonal.
    edges : ndarray of shape (d,)
        What the eigenvalues must pass to rise above the noise.
    n_components : int, optional
        None takes those that do, at least one.
    """
    values, vectors = sorted_eigh(noisy)
    below = values <= edges
    above = int(np.argmax(below)) if below.any() else values.size
    k = max(1, above) if n_components is None else n_components
    found = outcome_of_directions(vectors[:k], exact, true)
    each, total = variance_errors(values, noise_sd, k)
    trace = float(np.trace(exact))
    return Outcome(
        found.loss, found.random_loss, found.captured, found.shares, Z * each / trace, Z * total / trace, above
    )


def outcome_of_directions(directions: FloatArray, exact: FloatArray, true: FloatArray) -> Outcome:
    """Return the outcome of directions, of which nothing else is known."""
    k, d = directions.shape
    best = float(np.linalg.eigvalsh(true)[::-1][:k].sum())
    carried = float(np.einsum("ki,ij,kj->", directions, true, directions))
    trace = float(np.trace(true))
    shares = np.einsum("ki,ij,kj->k", directions, exact, directions) / np.trace(exact)
    loss = 1 - carried / best
    loss = loss if loss > _ROUNDING else 0.0
    return Outcome(loss, 1 - k / d * trace / best, carried / trace, np.asarray(shares))
