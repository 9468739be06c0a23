"""The guarantee of several releases taken together."""

import math
from collections.abc import Iterable
from fractions import Fraction

from ..errors import InvalidParameterError, probability_below_one
from ..guarantee import Guarantee
from .calibration import decimal_above, exact, pure_rho, square_root_above, zcdp_epsilon

# Grid of the discretized privacy loss; dp-accounting rounds every loss up to it.
_LOSS_INTERVAL = 1e-4


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
        The least epsilon of: the sum of the epsilons, exact; dp-accounting's privacy loss distributions,
        where every part is a bare (epsilon, delta); zCDP, where every part has a rho or is pure. It carries
        the weakest numerics of the parts, and all their assumptions.

    Examples
    --------
    >>> compose([Guarantee(0.1)] * 3).epsilon
    0.3
    >>> compose([Guarantee(0.1)] * 100, delta=1e-6).epsilon < 6
    True
    """
    wholes = tuple(guarantees)
    parts = tuple(part for guarantee in wholes for part in (guarantee.parts or (guarantee,)))
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
    rho = _summed_rho(parts)
    candidates = [math.inf]
    if all(math.isfinite(part.epsilon) for part in parts):
        if summed_delta <= target:
            candidates.append(decimal_above(sum((exact(part.epsilon) for part in parts), Fraction(0))))
        if target > 0 and len(parts) > 1:
            candidates.append(_loss_distribution_epsilon(parts, target))
        if target > 0 and rho is not None:
            candidates.append(zcdp_epsilon(rho, target))
    return Guarantee(
        epsilon=min(candidates),
        delta=target,
        adjacency=adjacencies.pop(),
        numerics=max((part.numerics for part in (*parts, *wholes)), key=lambda numerics: numerics.gap),
        rho=rho if target > 0 else None,
        parts=parts if len(parts) > 1 else (),
        claimed=wholes[0].claimed if len(wholes) == 1 else None,
        assumptions=tuple(dict.fromkeys(assumption for part in (*parts, *wholes) for assumption in part.assumptions)),
        reproducible=any(part.reproducible for part in (*parts, *wholes)),
        unit=units.pop(),
        mu=_summed_mu(parts),
    )


def _summed_rho(parts: tuple[Guarantee, ...]) -> float | None:
    rhos = [concentrated_rho(part) for part in parts]
    known = [exact(rho) for rho in rhos if rho is not None]
    return decimal_above(sum(known, Fraction(0))) if len(known) == len(rhos) else None


def _summed_mu(parts: tuple[Guarantee, ...]) -> float | None:
    """Return the root of the summed squares, where every part is Gaussian (Dong, Roth and Su 2022, Corollary 3.3)."""
    if len(parts) == 1:
        return parts[0].mu
    known = [exact(part.mu) ** 2 for part in parts if part.mu is not None]
    return square_root_above(sum(known, Fraction(0))) if len(known) == len(parts) else None


def concentrated_rho(guarantee: Guarantee) -> float | None:
    """Return the zCDP parameter of a guarantee, or None where it has neither a rho nor pure privacy."""
    if guarantee.rho is not None:
        return guarantee.rho
    pure = guarantee.delta == 0 and math.isfinite(guarantee.epsilon)
    return pure_rho(guarantee.epsilon) if pure else None


def _loss_distribution_epsilon(parts: tuple[Guarantee, ...], delta: float) -> float:
    """Epsilon by composing the worst (epsilon, delta) pairs; infinity where a part is known by its rho."""
    if any(part.rho is not None for part in parts):
        return math.inf
    from dp_accounting.pld import common, privacy_loss_distribution

    # Events would do, but dp-accounting 0.6 drops the count of a self-composed randomized response.
    total = privacy_loss_distribution.identity(_LOSS_INTERVAL)
    for part in parts:
        parameters = common.DifferentialPrivacyParameters(part.epsilon, part.delta)
        loss = privacy_loss_distribution.from_privacy_parameters(parameters, _LOSS_INTERVAL)
        total = total.compose(loss)
    return float(total.get_epsilon_for_delta(delta)) * (1 + 1e-12)
