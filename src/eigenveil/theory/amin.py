"""The bounds of Amin, Dick, Kulesza, Muñoz and Vassilvitskii (NeurIPS workshop 2018), eigenvector sampling."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import betainc

from ..errors import InvalidParameterError, integer_between, positive_number
from .ours import open_unit


def amin_equation_2(
    *,
    n_features: int,
    epsilon: float,
    constant: float = 1.0,
    top_eigenvalue: float | None = None,
    failure_probability: float = 0.05,
    sharp: bool = False,
) -> float:
    """Equation (2): a direction of density exp(epsilon/4 u'Cu) has u'Cu at most this far below the top eigenvalue.

    O(d/epsilon) up to logarithms, for which `constant` stands. ``sharp=True`` needs no constant but the top eigenvalue
    of C: for every s the chance of losing more than t is at most exp(-epsilon (t - s)/4)/m(s), m(s) the share of the
    sphere with (u.v)^2 >= 1 - s/lambda_1, where u'Cu >= lambda_1 - s; the best s of a grid is taken. At most lambda_1.

    Examples
    --------
    >>> amin_equation_2(n_features=10, epsilon=0.5)
    20.0
    >>> round(amin_equation_2(n_features=10, epsilon=0.5, top_eigenvalue=1000.0, sharp=True), 1)
    190.3
    """
    d, epsilon = integer_between("n_features", n_features, 1), positive_number("epsilon", epsilon)
    if not sharp:
        return positive_number("constant", constant) * d / epsilon
    top = positive_number("top_eigenvalue", top_eigenvalue)
    eta = open_unit("failure_probability", failure_probability)
    if d == 1:
        return 0.0
    share = np.geomspace(1e-12, 1.0, 4001)
    with np.errstate(divide="ignore"):
        mass = -np.log(betainc((d - 1) / 2, 0.5, share))  # of sin^2 <= s/lambda_1; where it underflows, no bound
    return float(min(top, np.min(top * share + 4 / epsilon * (mass - math.log(eta)))))


def amin_theorem_2(
    *, epsilon_0: float, epsilons: Sequence[float], eigenvalues: Sequence[float], constant: float = 1.0
) -> float:
    """Theorem 2: Frobenius error of the released C, of d eigenvalues and d sampled directions, up to logarithms.

    d/epsilon_0 + sqrt(sum_i d/epsilon_i (1/epsilon_0 + lambda_i)), with `eigenvalues` of C = nA, released or true. The
    paper hides a logarithm of 1/delta, and its proof one of lambda_1 epsilon_i/d too: `constant` stands for them.
    True up to that. With a fixed sum of the epsilon_i it is smallest for epsilon_i proportional to
    sqrt(1/epsilon_0 + lambda_i), as the paper says. Released eigenvalues below -1/epsilon_0 count as that.

    Examples
    --------
    >>> amin_theorem_2(epsilon_0=1.0, epsilons=[0.5, 0.5], eigenvalues=[7.0, 0.0])
    8.0
    """
    if len(epsilons) != len(eigenvalues) or len(epsilons) == 0:
        raise InvalidParameterError("epsilons and eigenvalues must have one number for each direction.")
    first, d = positive_number("epsilon_0", epsilon_0), len(epsilons)
    shares = [positive_number("epsilons", epsilon) for epsilon in epsilons]
    if not all(math.isfinite(value) for value in eigenvalues):
        raise InvalidParameterError("eigenvalues must be finite numbers.")
    total = sum(d / share * max(0.0, 1 / first + value) for share, value in zip(shares, eigenvalues, strict=True))
    return positive_number("constant", constant) * (d / first + math.sqrt(total))
