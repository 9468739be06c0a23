"""The guarantee of several releases taken together."""

import functools
import math
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from ..errors import InvalidParameterError, probability_below_one
from ..guarantee import Guarantee
from .calibration import (
    DISCRETE_SHARE,
    decimal_above,
    exact,
    float_above,
    gaussian_epsilon,
    pure_rho,
    safe_boundary,
    share_below,
    square_root_above,
    zcdp_epsilon,
)

# The most points of a grid of privacy losses.
_MOST_STEPS = 2**17


def compose(guarantees: Iterable[Guarantee], delta: float | None = None) -> Guarantee:
    """Return one guarantee for all of `guarantees`, parameters fixed before the first is drawn.

    Parameters
    ----------
    guarantees : iterable of Guarantee
        Of one adjacency and one unit. (Where a later release's parameters depend on an earlier output, use a
        `PrivacyLedger`: its rules hold for that too.)
    delta : float, optional
        The delta to state the result at; by default the sum of the deltas.

    Returns
    -------
    Guarantee
        The least epsilon of: the sum of the epsilons, exact; the best composition of (epsilon, delta) pairs; the
        exact curve of Gaussian noise, where every part has a mu; zCDP, where every part has a rho or is pure. All are
        rounded up. It carries the weakest numerics of the parts, and all their assumptions.

    Examples
    --------
    >>> compose([Guarantee(0.1)] * 3).epsilon
    0.3
    >>> round(compose([Guarantee(0.1)] * 100, delta=1e-6).epsilon, 2)
    4.77
    """
    wholes = tuple(guarantees)
    parts = tuple(part for guarantee in wholes for part in guarantee.mechanisms)
    if not parts:
        raise InvalidParameterError("compose needs at least one guarantee.")
    adjacencies = {part.adjacency for part in parts}
    if len(adjacencies) > 1:
        raise InvalidParameterError(
            "Guarantees with different adjacencies do not compose. Use the same adjacency in all releases."
        )
    units = {part.unit for part in (*parts, *wholes)}
    if len(units) > 1:
        raise InvalidParameterError(
            "Guarantees with different privacy units do not compose. Use the same unit in all releases, with "
            "privacy_unit= or without it."
        )
    summed_delta = decimal_above(sum((exact(part.delta) for part in parts), Fraction(0)))
    target = summed_delta if delta is None else probability_below_one("delta", delta)
    rhos = [exact(rho) for rho in map(concentrated_rho, parts) if rho is not None]
    rho = decimal_above(sum(rhos, Fraction(0))) if len(rhos) == len(parts) else None
    mu = parts[0].mu
    if len(parts) > 1:  # the root of the summed squares (Dong, Roth and Su 2022, Corollary 3.3)
        squares = [exact(part.mu) ** 2 for part in parts if part.mu is not None]
        mu = square_root_above(sum(squares, Fraction(0))) if len(squares) == len(parts) else None
    return Guarantee(
        epsilon=_least_epsilon(parts, target, summed_delta <= target, rho, mu),
        delta=target,
        adjacency=adjacencies.pop(),
        numerics=max((part.numerics for part in (*parts, *wholes)), key=lambda numerics: numerics.gap),
        rho=rho if target > 0 else None,
        parts=parts if len(parts) > 1 else (),
        claimed=wholes[0].claimed if len(wholes) == 1 else None,
        assumptions=tuple(dict.fromkeys(assumption for part in (*parts, *wholes) for assumption in part.assumptions)),
        reproducible=any(part.reproducible for part in (*parts, *wholes)),
        unit=units.pop(),
        mu=mu,
    )


def _least_epsilon(
    parts: tuple[Guarantee, ...], delta: float, sum_holds: bool, rho: float | None, mu: float | None
) -> float:
    """Return the least epsilon of all rules; the plain sum where no other is really better."""
    if not all(math.isfinite(part.epsilon) for part in parts):
        return math.inf
    summed = decimal_above(sum((exact(part.epsilon) for part in parts), Fraction(0))) if sum_holds else math.inf
    if delta == 0:
        return summed
    found = [_pairs_epsilon(parts, delta)]
    if rho is not None:
        found.append(zcdp_epsilon(rho, delta))
    if mu is not None:
        found.append(_gaussian_epsilon(parts, mu, delta))
    return min(found) if min(found) < summed * (1 - 1e-9) else summed


def concentrated_rho(guarantee: Guarantee) -> float | None:
    """Return the zCDP parameter of a guarantee, or None where it has neither a rho nor pure privacy."""
    if guarantee.rho is not None:
        return guarantee.rho
    pure = guarantee.delta == 0 and math.isfinite(guarantee.epsilon)
    return pure_rho(guarantee.epsilon) if pure else None


def _pairs_epsilon(parts: tuple[Guarantee, ...], delta: float) -> float:
    """Return epsilon by the best composition of (epsilon, delta) pairs, rounded up; infinity where there is none.

    Every mechanism of such a pair is a post-processing of one that reveals everything with probability delta_i, and
    else loses epsilon_i or -epsilon_i by randomized response (Kairouz, Oh and Viswanath 2015). So all losses of all
    parts are listed, on a grid; an epsilon that is not on it is replaced by the next larger one, which is as true.

    Rounding: probabilities are sums of products of positive floats. Each part adds at most three roundings to them, and
    `room` covers these and the sum over the grid. What underflows is below 1e-300 in all. Losses are rounded up.
    """
    kept = math.prod((1 - exact(value)) ** count for value, count in Counter(part.delta for part in parts).items())
    allowed = 1 - (1 - exact(delta)) / kept  # how much may be lost where not everything is revealed
    if allowed < 0:
        return math.inf
    epsilons = [exact(part.epsilon) for part in parts if part.epsilon > 0]
    # All epsilons are multiples of a step: exactly if the grid is small enough for that, else rounded up.
    whole = math.lcm(*(epsilon.denominator for epsilon in epsilons))
    step = Fraction(math.gcd(*(int(epsilon * whole) for epsilon in epsilons)), whole)
    step = max(step, sum(epsilons, Fraction(0)) / _MOST_STEPS)
    steps = [math.ceil(epsilon / step) for epsilon in epsilons]
    chances = np.ones(1)  # of the losses from the largest on, each two steps below the one before it
    for length in steps:
        likely, unlikely = _answers(length * step)
        wider = np.zeros(chances.size + length)
        wider[: chances.size] = likely * chances
        wider[length:] += unlikely * chances
        chances = wider
    losses = (sum(steps) - 2 * np.arange(chances.size)) * float_above(step) * (1 + 2.0**-50)
    room = 1 + (3 * len(steps) + chances.size + 64) * 2.0**-52
    limit = share_below(allowed)

    def holds(epsilon: float) -> bool:
        over = losses[: np.searchsorted(-losses, -epsilon)]
        return float(chances[: over.size] @ -np.expm1(epsilon - over)) * room + 1e-300 <= limit

    largest = float_above(sum(epsilons, Fraction(0)))
    return 0.0 if holds(0.0) else decimal_above(Fraction(safe_boundary(holds, largest, 0.0)))


@functools.lru_cache(maxsize=256)
def _answers(epsilon: Fraction) -> tuple[float, float]:
    """Return the probabilities of the likely and the unlikely answer of randomized response, each rounded once."""
    with localcontext(prec=40):
        factor = (-Decimal(epsilon.numerator) / epsilon.denominator).exp()
        return float(1 / (1 + factor)), float(factor / (1 + factor))


def _gaussian_epsilon(parts: tuple[Guarantee, ...], mu: float, delta: float) -> float:
    """Return epsilon by the exact curve of Gaussian noise, where all parts are that; infinity where it has none.

    The noise is discrete. By `Guarantee.mu` the distance of part i from real noise, times 1 + e^epsilon_i, is within a
    hundredth of delta_i. Distances add up, and a share of delta pays for their sum at the epsilon of the whole.
    """
    distance = sum(DISCRETE_SHARE * part.delta / (1 + math.exp(min(part.epsilon, 700.0))) for part in parts)
    for share in (DISCRETE_SHARE, 10 * DISCRETE_SHARE, 50 * DISCRETE_SHARE):
        epsilon = gaussian_epsilon(mu, delta * (1 - share))
        if epsilon < 700 and (1 + math.exp(epsilon)) * distance <= share * delta * (1 - 1e-12):
            return decimal_above(Fraction(epsilon))
    return math.inf
