"""Known mechanisms, and the one test that accepts a mechanism or rejects it."""

import numpy as np
import scipy.stats

from statistical.constants import ALPHA


def follows(samples, cdf) -> bool:
    """Return whether a Kolmogorov-Smirnov test at level ALPHA accepts the mechanism.

    At so small a level the asymptotic probability is 2 exp(-2 n D^2), which is a bound for every n (Massart, 1990): the
    truth is rejected with probability ALPHA at most. The exact one takes up to seven times as long.
    """
    return bool(scipy.stats.kstest(np.ravel(samples), cdf, method="asymp").pvalue > ALPHA)


def folded(cdf):
    """Return the distribution function of |X| for a symmetric X."""
    return lambda t: 2 * cdf(t) - 1


def chi_square_difference_cdf(degrees: float, scale: float):
    """Return the distribution function of scale * (X - Y), X and Y chi-square with `degrees` degrees."""
    gamma = scipy.stats.gamma(degrees / 2, scale=2 * scale)
    reach = 14 * scale * np.sqrt(4 * degrees) + 40 * scale
    grid = np.linspace(-reach, reach, 1201)
    # P(X - Y <= t) = E F(t + Y), by Gauss-Legendre over the quantiles of Y.
    nodes, weights = np.polynomial.legendre.leggauss(400)
    y = gamma.ppf((nodes + 1) / 2)
    values = (gamma.cdf(grid[:, None] + y) * weights).sum(axis=1) / 2
    return lambda t: np.interp(t, grid, values)
