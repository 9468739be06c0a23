"""What one simulated release comes to: what its directions carry, what is reported of them, and how surely."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..mechanisms.additive import NoiseFacts
from ..numerics import FloatArray
from ..postprocess.spectrum import sorted_eigh
from ..postprocess.variances import isotropic_noise, variances_along

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


def half_widths(
    values: FloatArray, n_components: int, noise_sd: float, facts: NoiseFacts, total: float, untold: bool = False
) -> tuple[FloatArray, float]:
    """Return half of the intervals that will be reported of variances along directions, and of the first k together.

    Parameters
    ----------
    values : ndarray of shape (d,)
        Eigenvalues of the release, descending.
    n_components : int
    noise_sd : float
        Standard deviation of the noise beside the diagonal.
    facts : NoiseFacts
        Of the law of the noise, in any unit; it is taken to be the same in every basis.
    total : float
        The variance along all directions, in units of which the answer is.
    untold : bool
        Whether the noise is so large that intervals are from 0 to the total.

    Examples
    --------
    >>> facts = NoiseFacts(3, off_variance=1.0, trace_variance=6.0, gaussian=True)
    >>> each, together = half_widths(np.array([10.0, 5.0, 1.0]), 2, 0.1, facts, 1.0)
    >>> each.round(2).tolist(), round(together, 2)  # 2.1 standard errors of 0.14 and 0.2
    ([0.3, 0.3], 0.42)
    """
    k, scale = n_components, noise_sd**2 / facts.off_variance
    noise = isotropic_noise(k, values.size - k, noise_sd**2, facts.shared_variance * scale)
    sd = math.sqrt(max(0.0, facts.trace_variance * scale))
    found = variances_along(
        values[:k],
        values[k:],
        np.ones(values.size - k),
        noise,
        total=max(total, float(values.sum())),
        total_sd=sd,
        excess=facts.excess,
        exact=facts.gaussian,
    )
    if untold:
        found = found.untold(total)
    each, together = (np.diff(ends)[:, 0] / 2 / total for ends in (found.interval, found.total_interval))
    return np.asarray(each), float(together[-1])


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
    facts: NoiseFacts,
    untold: bool = False,
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
    facts, untold
        As in `half_widths`.
    """
    values, vectors = sorted_eigh(noisy)
    below = values <= edges
    above = int(np.argmax(below)) if below.any() else values.size
    k = max(1, above) if n_components is None else n_components
    found = outcome_of_directions(vectors[:k], exact, true)
    widths = half_widths(values, k, noise_sd, facts, float(np.trace(exact)), untold)
    return Outcome(found.loss, found.random_loss, found.captured, found.shares, *widths, above)


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
