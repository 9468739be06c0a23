"""The epsilons that are stated at a delta, by who states them: what an audit compares with."""

from ..accounting.calibration import guaranteed_epsilon, implied_epsilon
from ..guarantee import Guarantee
from ..laws.base import Law


def law_claims(law: Law, delta: float) -> dict[str, float]:
    """Return what a law states by its privacy curve, and what the paper behind it does where that differs.

    Examples
    --------
    >>> from eigenveil.laws import LAWS
    >>> law_claims(LAWS["laplace"](epsilon=1.0, n_features=2, calibration="paper"), 0.0)
    {'guarantee': 0.55901..., 'published': 1.0}
    """
    return {"guarantee": law.epsilon_at(delta), **_published(law.guarantee(), delta)}


def guarantee_claims(guarantee: Guarantee, delta: float) -> dict[str, float]:
    """Return what a guarantee states by itself, where no law is at hand to ask for its curve."""
    return {"guarantee": guaranteed_epsilon(guarantee, delta), **_published(guarantee, delta)}


def _published(guarantee: Guarantee, delta: float) -> dict[str, float]:
    return {} if guarantee.claimed is None else {"published": implied_epsilon(*guarantee.claimed, delta)}
