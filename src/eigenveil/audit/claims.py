"""What a guarantee says about epsilon at another delta: the number that an audit compares with."""

import math

from ..accounting.calibration import gaussian_epsilon, safe_boundary, zcdp_epsilon
from ..guarantee import Guarantee
from ..mechanisms import Mechanism
from ..mechanisms.gaussian import DISCRETE_SHARE, GaussianNoise
from ..mechanisms.wishart import Wishart, wishart_delta


def epsilon_at(epsilon: float, delta: float, audited_delta: float) -> float:
    """Return the least epsilon that (epsilon, delta)-privacy implies at another delta.

    Every such mechanism is a post-processing of one that, with probability delta, tells everything, and else answers by
    randomized response at epsilon (Kairouz, Oh and Viswanath 2015). Below `delta` nothing is implied.

    Examples
    --------
    >>> epsilon_at(1.0, 0.0, 0.0), epsilon_at(1.0, 1e-6, 0.0)
    (1.0, inf)
    >>> round(epsilon_at(1.0, 1e-6, 0.01), 3)
    0.986
    """
    if audited_delta < delta or not math.isfinite(epsilon):
        return math.inf
    if audited_delta == delta:
        return epsilon
    share = (audited_delta - delta) / (1 - delta)
    # log(e^epsilon - share (1 + e^epsilon)), without overflow.
    left = 1 - share * (1 + math.exp(-epsilon))
    return max(0.0, epsilon + math.log(left)) if left > 0 else 0.0


def claims_of(guarantee: Guarantee, audited_delta: float) -> dict[str, float]:
    """Return the epsilons stated at a delta: by the guarantee, and by the paper where it differs."""
    stated = epsilon_at(guarantee.epsilon, guarantee.delta, audited_delta)
    if guarantee.rho is not None and audited_delta > 0:
        stated = min(stated, zcdp_epsilon(guarantee.rho, audited_delta))
    claims = {"guarantee": stated}
    if guarantee.claimed is not None:
        claims["published"] = epsilon_at(*guarantee.claimed, audited_delta)
    return claims


def mechanism_claims(mechanism: Mechanism, audited_delta: float) -> dict[str, float]:
    """Return the claims of a mechanism, by its exact privacy curve where that is known."""
    claims = claims_of(mechanism.guarantee(), audited_delta)
    curve = math.inf
    if isinstance(mechanism, GaussianNoise) and audited_delta > 0:
        curve = gaussian_epsilon(mechanism.total_mu(), audited_delta * (1 - DISCRETE_SHARE))
    elif isinstance(mechanism, Wishart) and mechanism.calibration == "tight" and audited_delta > 0:
        curve = _wishart_epsilon(mechanism, audited_delta)
    return {**claims, "guarantee": min(claims["guarantee"], curve)}


def _wishart_epsilon(mechanism: Wishart, delta: float) -> float:
    degrees, scale = mechanism._law
    nu = degrees - mechanism.n_features + 1
    count = mechanism.epsilon - float(mechanism.matrix_epsilon)

    def private(epsilon: float) -> bool:
        return wishart_delta(epsilon, nu, scale, mechanism.relation) <= delta

    enough = float(mechanism.matrix_epsilon)
    if not private(enough):
        return math.inf
    return count + (0.0 if private(0.0) else safe_boundary(private, enough, 0.0))
