"""The spectrum of noise that has the same distribution in every basis: where it ends, as it is and after a linear map.

In the limit of wide matrices its R-transform is R(g) = ag/(1 - bg^2), a = d * off_variance, b = excess * a: for
Gaussian noise (excess 0) that of a semicircle, for matrix Laplace noise that of a difference of two free Poisson
distributions.
docs/explanation/uncertainty.md derives the formulas.
"""

import math
from collections.abc import Callable

import numpy as np

from ..numerics import FloatArray

NoiseDraw = Callable[[np.random.Generator], FloatArray]
NoiseDraws = Callable[[np.random.Generator, int], FloatArray]

# Simulations of a public distribution: with a fixed seed the same release always gives the same answer.
SIMULATION_SEED = 20160711
# Quantiles of the Tracy-Widom distribution of real symmetric matrices, by the probability to be above, and its mean.
_TRACY_WIDOM = {0.1: 0.4502, 0.05: 0.9793, 0.01: 2.0234, 0.001: 3.2724}
_TRACY_WIDOM_MEAN = -1.2065


def edge_quantile(
    size: int, off_variance: float, excess: float = 0.0, alpha: float = 0.05, *, sharp_trace: bool = False
) -> float:
    """Return a level that the largest eigenvalue of pure noise passes with probability alpha at most, in closed form.

    Parameters
    ----------
    size : int
        Of the noise, or of a block of it; from 30 on the level is within a few percent of the true quantile, and below
        it is farther above, unless the trace is sharp.
    off_variance, excess : float
        Of noise with the same distribution in every basis: as in `NoiseFacts`, the excess times the share of the block.
    alpha : float
        0.1, 0.05, 0.01 or 0.001.
    sharp_trace : bool
        Whether it is the whole of noise with an accurate trace, which reaches less far; by experiment:
        benchmarks/shrinkage.py.

    Notes
    -----
    The spectrum ends where z(g) = 1/g + R(g) is smallest, and the largest eigenvalue fluctuates about this end on the
    scale (z''(g)/2)^(1/3) size^(-2/3) by the Tracy-Widom distribution. For Gaussian noise that is 2 sqrt(a) and
    sqrt(a) size^(-2/3).

    Examples
    --------
    >>> round(edge_quantile(100, 1.0), 2)
    20.45
    """
    end, width = _edge(size, off_variance, excess)
    level = end + width * _TRACY_WIDOM[alpha]
    if not sharp_trace:
        return level
    return level / (1 + 0.8 / size if excess > 0 else 1 + 0.45 / size + 0.35 / size**2)


def typical_edge(size: int, off_variance: float) -> float:
    """Return about the mean of the largest eigenvalue of isotropic Gaussian noise.

    Examples
    --------
    >>> round(typical_edge(100, 1.0), 2)
    19.44
    """
    end, width = _edge(size, off_variance, 0.0)
    return end + _TRACY_WIDOM_MEAN * width


def _edge(size: int, off_variance: float, excess: float) -> tuple[float, float]:
    """Return where the spectrum of noise ends, and the scale on which the largest eigenvalue fluctuates about it."""
    a = size * off_variance
    y = 2 * excess / (1 + 2 * excess + math.sqrt(1 + 8 * excess))
    g = math.sqrt(y / excess / a) if excess > 0 else 1 / math.sqrt(a)
    bend = 2 / g**3 + 2 * a * (excess * a) * g * (3 + y) / (1 - y) ** 3
    return 1 / g + a * g / (1 - y), (bend / 2) ** (1 / 3) * size ** (-2 / 3)


def mapped_reach(products: FloatArray) -> float:
    """Return about where the spectrum of B N B' ends, for Gaussian noise N of variance 1 beside the diagonal.

    Parameters
    ----------
    products : ndarray of shape (d,)
        The eigenvalues of B B', ascending; d at least 2.

    Notes
    -----
    f(x) = x sqrt(sum_j p_j/(x - p_j)), over all p but the largest. Its least value over x above them, at x*, ends the
    bulk. The largest p leaves the bulk where it is above x*, and reaches f(p). For ones it is 2 sqrt(d - 1).

    Examples
    --------
    >>> round(mapped_reach(np.ones(100)), 1), round(mapped_reach(np.append(np.ones(99), 10.0)), 1)
    (19.9, 33.2)
    """
    from scipy.optimize import minimize_scalar  # a tenth of a second, which a short command does not wait for

    rest, last = products[:-1], float(products[-1])
    top = max(float(products[-2]), 0.0)
    if top <= 0:
        return 0.0

    def f(x: float) -> float:
        return x * math.sqrt(float(np.sum(rest / (x - rest))))

    least = minimize_scalar(lambda share: f(top / share), bounds=(1e-3, 1 - 1e-9), method="bounded")
    return f(last) if last > top / least.x else float(least.fun)
