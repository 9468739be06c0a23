"""The bound of Amin, Dick, Kulesza, Muñoz and Vassilvitskii (NeurIPS workshop 2018), eigenvector sampling."""

import math
from collections.abc import Sequence

from ...errors import InvalidParameterError, positive_number


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
