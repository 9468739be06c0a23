"""Conversions between privacy numbers, each rounded to the safe side.

A privacy parameter means the decimal its user wrote: 0.1 is one tenth, not the binary number just above it.
`exact` makes that reading; everything computed from it in fractions is exact, and the one rounding to a
float is upwards for noise and for spent budget, downwards for a permitted rho.
"""

import functools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from scipy.special import log_ndtr

from ..errors import CapacityError, positive_number, probability_below_one
from ..guarantee import Guarantee
from ..numerics import FloatArray

DISCRETE_SHARE = 0.01
"""The share of delta kept for the difference between real and discrete Gaussians; it costs 0.05 % of noise."""

# Relative room for the rounding of exp and log in the conversions below; their true error is under 1e-13.
_SLACK = 1e-11


def exact(value: float) -> Fraction:
    """Return the decimal number that `value` prints as.

    Examples
    --------
    >>> exact(0.1), sum([exact(0.1)] * 10) == 1
    (Fraction(1, 10), True)
    """
    return value if isinstance(value, Fraction) else _decimal(float(value))


# A fit asks for the same few public numbers some hundred times.
@functools.lru_cache(maxsize=1024)
def _decimal(value: float) -> Fraction:
    return Fraction(repr(value))


def decimal_above(value: Fraction) -> float:
    """Return the float that prints as the least decimal at or above `value`: for epsilon, delta and rho."""
    nearest = float(value)
    return nearest if exact(nearest) >= value else math.nextafter(nearest, math.inf)


def decimal_below(value: Fraction) -> float:
    """Return the float that prints as the largest decimal at or below `value`: for a share of a budget."""
    nearest = float(value)
    return nearest if exact(nearest) <= value else math.nextafter(nearest, -math.inf)


def share_below(value: Fraction) -> float:
    """Return a float at most as large as `value` both as the decimal it prints as and as the binary number it is.

    For a part of a budget that meets a sampler: whichever way the sampler reads it, no more than `value` is spent.

    Examples
    --------
    >>> share_below(exact(1.0) / 3) <= exact(1.0) / 3
    True
    """
    nearest = float(value)
    while not (exact(nearest) <= value and Fraction(nearest) <= value):
        nearest = math.nextafter(nearest, -math.inf)
    return nearest


def float_above(value: Fraction) -> float:
    """Return the smallest float whose binary value is at least `value`: for scales that meet a sampler."""
    try:
        nearest = float(value)
    except OverflowError:
        raise CapacityError("The noise at this epsilon is too large for a float; use a larger epsilon.") from None
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


@functools.lru_cache(maxsize=1024)
def square_root_above(value: Fraction) -> float:
    """Return a float at least as large as the square root of `value`, and at most two units above it."""
    root = math.sqrt(float_above(value))
    return root if Fraction(root) ** 2 >= value else math.nextafter(root, math.inf)


def pure_rho(epsilon: float) -> float:
    """Return the zCDP parameter of a pure mechanism, epsilon^2/2 (Bun and Steinke 2016, Prop. 3.3)."""
    return decimal_above(exact(epsilon) ** 2 / 2)


def _best_order(objective: Callable[[FloatArray], FloatArray]) -> float:
    """Return the smallest value of `objective` over Renyi orders 1 + a, a > 0, by zooming into a log grid.

    Every order gives a valid bound, so a minimum missed by the grid costs accuracy and never privacy.
    """
    low, high = -30.0, 60.0
    for _ in range(4):
        grid = np.linspace(low, high, 1001)
        values = objective(np.exp(grid))
        best = int(np.argmin(values))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    return float(values[best])


def _log_factor(a: FloatArray) -> FloatArray:
    # log of (1/alpha)(1 - 1/alpha)^(alpha - 1) at alpha = 1 + a: what the tight conversion gains.
    return np.asarray(-a * np.log1p(1 / a) - np.log1p(a))


@functools.lru_cache(maxsize=256)  # asked for by every fit with a delta
def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon at which rho-zCDP implies (epsilon, delta)-DP, for any dimension of the noise.

    The tight conversion of Canonne, Kamath and Steinke (2020, Proposition 12), solved for epsilon:
    delta = min over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon)) (1/alpha) (1 - 1/alpha)^(alpha - 1).

    Examples
    --------
    >>> round(zcdp_epsilon(0.1, 1e-6), 3)
    2.142
    """
    if rho == 0:
        return 0.0
    delta = positive_number("delta", delta)
    best = _best_order(lambda a: (1 + a) * rho + (_log_factor(a) - math.log(delta)) / a)
    return max(0.0, best) * (1 + _SLACK)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho (to rounding, from below) for which rho-zCDP implies (epsilon, delta)-DP."""
    epsilon = positive_number("epsilon", epsilon)
    delta = positive_number("delta", probability_below_one("delta", delta))
    rho = -_best_order(lambda a: ((_log_factor(a) - math.log(delta)) / a - epsilon) / (1 + a))
    rho *= 1 - 2 * _SLACK
    # The same formula read the other way round: a conversion that disagrees with itself must not pass.
    while zcdp_epsilon(rho, delta) > epsilon:
        rho *= 1 - _SLACK
    return rho


def implied_epsilon(epsilon: float, delta: float, other_delta: float) -> float:
    """Return the least epsilon that (epsilon, delta)-privacy implies at another delta.

    Every such mechanism is a post-processing of one that, with probability delta, reveals everything, and else answers
    by randomized response at epsilon (Kairouz, Oh and Viswanath 2015). Below `delta` nothing is implied.

    Examples
    --------
    >>> implied_epsilon(1.0, 0.0, 0.0), implied_epsilon(1.0, 1e-6, 0.0)
    (1.0, inf)
    >>> round(implied_epsilon(1.0, 1e-6, 0.01), 3)
    0.986
    """
    if other_delta < delta or not math.isfinite(epsilon):
        return math.inf
    if other_delta == delta:
        return epsilon
    share = (other_delta - delta) / (1 - delta)
    # log(e^epsilon - share (1 + e^epsilon)), without overflow.
    left = 1 - share * (1 + math.exp(-epsilon))
    return max(0.0, epsilon + math.log(left)) if left > 0 else 0.0


def guaranteed_epsilon(guarantee: Guarantee, delta: float) -> float:
    """Return the least epsilon that a guarantee implies at another delta, by its rho too where it has one."""
    implied = implied_epsilon(guarantee.epsilon, guarantee.delta, delta)
    if guarantee.rho is None or delta == 0:
        return implied
    return min(implied, zcdp_epsilon(guarantee.rho, delta))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta of real Gaussian noise of standard deviation 1 on a change of l2 norm `mu`, exactly.

    Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) (Balle and Wang 2018, Theorem 8), in logs, and
    rounded up.
    """
    above, below = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    if below >= above:  # rounded so, where epsilon is far beyond any promise: the first term alone is a bound
        return float(min(1.0, math.exp(above)))
    # The second term is the smaller; where they nearly cancel, the slack is taken on the larger one.
    return float(min(1.0, math.exp(above) * (-math.expm1(below - above) + _SLACK)))


def safe_boundary(holds: Callable[[float], bool], safe: float, unsafe: float) -> float:
    """Return the number nearest to `unsafe` for which a monotone condition still holds, by bisection.

    The condition was evaluated at what is returned, so an inexact boundary errs on the safe side only.
    """
    while abs(unsafe - safe) > 4e-16 * abs(safe):
        middle = safe + (unsafe - safe) / 2
        if middle in (safe, unsafe):
            break
        if holds(middle):
            safe = middle
        else:
            unsafe = middle
    return safe


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return an epsilon at which Gaussian noise of standard deviation 1 on a change of norm `mu` has `delta`."""
    delta = positive_number("delta", probability_below_one("delta", delta))
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    enough = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta)) + mu  # the Gaussian tail bound, and some more
    return safe_boundary(lambda epsilon: gaussian_delta(mu, epsilon) <= delta, enough, 0.0)


@functools.lru_cache(maxsize=256)  # asked for at every draw
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest change (from below) that noise of standard deviation 1 hides at (epsilon, delta)."""
    epsilon = positive_number("epsilon", epsilon)
    delta = positive_number("delta", probability_below_one("delta", delta))
    large = 1.0
    while gaussian_delta(large, epsilon) <= delta:
        large *= 2
    return safe_boundary(lambda mu: gaussian_delta(mu, epsilon) <= delta, 1e-9 * min(1.0, epsilon), large)


def discrete_gaussian_excess(epsilon: float, n_numbers: int, least_scale: float) -> float:
    """Return the delta to add where discrete Gaussians of at least `least_scale` replace real ones.

    A discrete Gaussian p of scale s >= 100 and the rounded real one q satisfy, by Poisson summation and a second
    order expansion of the cell integral, sum (q - p)^2/p <= 1/(140 s^4). For n independent numbers the total
    variation distance is then at most sqrt(n)/(23 s^2), paid once on either side of the inequality.
    """
    return (1 + math.exp(min(epsilon, 700.0))) * math.sqrt(n_numbers) / (23 * least_scale**2)


def summed_gaussians_excess(n_terms: int, scale: float) -> float:
    """Return a bound on the log ratio of probabilities: a sum of discrete Gaussians over one of their variance.

    10 times the sum over k < n of exp(-2 pi^2 s^2 k/(k + 1)), for n terms of scale s on the integers (Kairouz, Liu and
    Steinke 2021; derived again in docs/explanation/federation.md). Here with k/(k + 1) >= 1/2 for all of them, and
    above 0 where that underflows.

    Examples
    --------
    >>> summed_gaussians_excess(2, 4.0) < 1e-67
    True
    """
    return max(5e-324, 10 * (n_terms - 1) * math.exp(-(math.pi**2) * scale**2))
