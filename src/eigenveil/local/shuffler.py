"""The central guarantee of local reports that pass through a trusted shuffler."""

import math

from ..errors import InvalidParameterError, integer_between, positive_number, probability_below_one
from ..guarantee import Adjacency, Guarantee
from .protocol import LocalProtocol


def shuffled_epsilon(epsilon: float, n_reports: int, delta: float) -> float:
    """Return a central epsilon of n shuffled reports that are each epsilon-locally private.

    Feldman, McMillan and Talwar, "Hiding Among the Clones" (FOCS 2021), Theorem 3.1: for
    e0 <= ln(n/(16 ln(2/delta))) the shuffled reports are (e, delta)-private under replacement of one row, with
    e = ln(1 + (exp(e0) - 1)/(exp(e0) + 1) (8 sqrt(exp(e0) ln(4/delta)/n) + 8 exp(e0)/n)).

    Examples
    --------
    >>> round(shuffled_epsilon(1.0, 100_000, 1e-6), 3)
    0.073
    """
    local = positive_number("epsilon", epsilon)
    n = integer_between("n_reports", n_reports, 2)
    delta = positive_number("delta", probability_below_one("delta", delta))
    if n <= 16 * math.log(2 / delta) * math.exp(local):
        raise InvalidParameterError(
            "The shuffling bound needs epsilon <= ln(n_reports/(16 ln(2/delta))); collect more reports, or lower "
            "epsilon."
        )
    factor = math.exp(local)
    spread = 8 * math.sqrt(factor * math.log(4 / delta) / n) + 8 * factor / n
    # The local guarantee holds all the same, so the smaller of the two is true.
    return min(local, math.log1p(math.tanh(local / 2) * spread) * (1 + 1e-12))


def shuffled_guarantee(protocol: LocalProtocol, n_reports: int, delta: float = 1e-6) -> Guarantee:
    """Return the guarantee against those who only see the shuffled reports, or what is computed from them.

    Parameters
    ----------
    protocol : LocalProtocol
        With a pure mechanism: the bound used is for pure local privacy.
    n_reports : int
        The number of honest reports in one shuffle.
    delta : float
        The delta of the central guarantee.

    Examples
    --------
    >>> print(shuffled_guarantee(LocalProtocol(20, epsilon=1.0), 100_000))
    (0.0725549, 1e-06)-differentially private (replace one row), idealized numerics; see assumptions
    """
    local = protocol.guarantee()
    if local.delta > 0:
        raise InvalidParameterError(
            "The shuffling bound used here is for pure local privacy; choose double_cap or one_bit."
        )
    return Guarantee(
        shuffled_epsilon(local.epsilon, n_reports, delta),
        delta,
        Adjacency.REPLACE_ONE,
        local.numerics,
        assumptions=(
            *local.assumptions,
            f"Holds where a trusted shuffler mixes at least {n_reports} honest reports and drops who sent them; "
            "without it the local guarantee remains.",
        ),
    )
