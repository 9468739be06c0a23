"""The bounds of Wang and Xu (IJCAI 2019), PCA in the local model, on the squared distance |sin Theta|_F^2.

The paper writes p for the number of features and states rates only: `constant` stands for what they hide.
Eigenvalues are those of the covariance Sigma of rows with norm at most 1.
"""

import math

from ..errors import InvalidParameterError, integer_between, positive_number
from .ours import gaussian_blocks, open_unit, tail


def _spectrum(top: float, kth: float, following: float) -> tuple[float, float, float]:
    """Return the top eigenvalue, the (k+1)-th, and the gap between the k-th and that."""
    top, kth = positive_number("top_eigenvalue", top), positive_number("kth_eigenvalue", kth)
    following = positive_number("next_eigenvalue", following) if following else 0.0
    if not top >= kth > following:
        raise InvalidParameterError("Eigenvalues must fall: top_eigenvalue >= kth_eigenvalue > next_eigenvalue.")
    return top, following, kth - following


def wang_xu_equation_1(
    *, top_eigenvalue: float, kth_eigenvalue: float, next_eigenvalue: float, corrected: bool = False
) -> float:
    """Equation (1): the effective noise variance lambda_1 lambda_(k+1)/(lambda_k - lambda_(k+1)).

    The gap has no square in our text of the paper, which may be lost in extraction: ``corrected=True`` squares it, as
    Vu and Lei (2013) define it and as Theorems 1 and 3 use it. Only then is it the same for rows in other units.

    Examples
    --------
    >>> wang_xu_equation_1(top_eigenvalue=0.5, kth_eigenvalue=0.25, next_eigenvalue=0.125)
    0.5
    >>> wang_xu_equation_1(top_eigenvalue=0.5, kth_eigenvalue=0.25, next_eigenvalue=0.125, corrected=True)
    4.0
    """
    top, following, gap = _spectrum(top_eigenvalue, kth_eigenvalue, next_eigenvalue)
    return top * following / (gap**2 if corrected else gap)


def wang_xu_theorem_1(
    *,
    n_rows: float,
    n_features: int,
    n_components: int,
    epsilon: float,
    top_eigenvalue: float,
    kth_eigenvalue: float,
    next_eigenvalue: float,
    constant: float = 1.0,
) -> float:
    """Theorem 1: no epsilon-local estimator has a smaller risk, for the worst distribution with these eigenvalues.

    Omega(lambda_1 lambda_(k+1)/gap^2 kp/(n epsilon^2)) for p/4 <= k <= 3p/4 and epsilon <= 1/2, and n large enough;
    0 outside of those, where it says nothing. The proof is in a supplement that we have not seen.
    """
    n, epsilon = positive_number("n_rows", n_rows), positive_number("epsilon", epsilon)
    p = integer_between("n_features", n_features, 2)
    k = integer_between("n_components", n_components, 1, p - 1)
    top, following, gap = _spectrum(top_eigenvalue, kth_eigenvalue, next_eigenvalue)
    if epsilon > 0.5 or not p <= 4 * k <= 3 * p:
        return 0.0
    return positive_number("constant", constant) * top * following / gap**2 * k * p / (n * epsilon**2)


def wang_xu_theorem_2(
    *,
    n_rows: float,
    n_features: int,
    n_components: int,
    epsilon: float,
    delta: float,
    top_eigenvalue: float,
    kth_eigenvalue: float,
    next_eigenvalue: float,
    constant: float = 1.0,
    failure_probability: float = 0.05,
    corrected: bool = False,
) -> float:
    """Theorem 2: the local Gaussian mechanism (Algorithm 1) has at most this error. **False** for small eigenvalues.

    O(lambda_1^2/gap^2 kp ln(1/delta)/(n epsilon^2)). Halve every row: the eigenvalues fall to a quarter, the bound
    stays, and the noise, made for norm 1, is four times as large beside the gap. lambda_1^2 has to be 1.

    ``corrected=True`` needs no constant: what the noise adds to the sample's own subspace, with probability 1 - eta,
    by our theorem for Gaussian noise (docs/research/theory.md) at the paper's scale; k where it says nothing. (That
    scale does not give the stated privacy: docs/research/errata.md.)
    """
    n, epsilon = positive_number("n_rows", n_rows), positive_number("epsilon", epsilon)
    p, delta = integer_between("n_features", n_features, 2), open_unit("delta", delta)
    k = integer_between("n_components", n_components, 1, p - 1)
    top, _, gap = _spectrum(top_eigenvalue, kth_eigenvalue, next_eigenvalue)
    if corrected:
        t = tail(2, open_unit("failure_probability", failure_probability))
        blocks = gaussian_blocks(math.sqrt(2 * math.log(1.25 / delta) / n) / epsilon, p, k, t)
        return k * blocks.squared_sine(gap)
    rate = top**2 / gap**2 * k * p * math.log(1 / delta) / (n * epsilon**2)
    return positive_number("constant", constant) * rate


def wang_xu_theorem_3(
    *,
    n_rows: float,
    n_features: int,
    n_components: int,
    sparsity: int,
    epsilon: float,
    top_eigenvalue: float,
    kth_eigenvalue: float,
    next_eigenvalue: float,
    constant: float = 1.0,
) -> float:
    """Theorem 3: as Theorem 1, for subspaces that live on s features (`sparsity`).

    Omega(lambda_1 lambda_(k+1)/gap^2 s(k + ln p)/(n epsilon^2)) for 3k <= s <= p, k <= p - 4, epsilon <= 1/2, and n
    large enough; 0 outside of those. The proof is in a supplement that we have not seen.
    """
    n, epsilon = positive_number("n_rows", n_rows), positive_number("epsilon", epsilon)
    p = integer_between("n_features", n_features, 2)
    k = integer_between("n_components", n_components, 1, p - 1)
    s = integer_between("sparsity", sparsity, k, p)
    top, following, gap = _spectrum(top_eigenvalue, kth_eigenvalue, next_eigenvalue)
    if epsilon > 0.5 or 3 * k > s or k > p - 4:
        return 0.0
    rate = top * following / gap**2 * s * (k + math.log(p)) / (n * epsilon**2)
    return positive_number("constant", constant) * rate


def wang_xu_theorem_4(
    *,
    n_rows: float,
    n_features: int,
    n_components: int,
    sparsity: int,
    epsilon: float,
    top_eigenvalue: float,
    kth_eigenvalue: float,
    next_eigenvalue: float,
    delta: float | None = None,
    constant: float = 1.0,
    corrected: bool = False,
) -> float:
    """Theorem 4: the sparse local mechanism (Algorithm 2) has at most this error. **False** for small eigenvalues.

    O(lambda_1^2/gap^2 s^2 ln p/(n epsilon^2)), for a penalty of *at most* lambda_1 sqrt(ln p/(n epsilon^2)): 0 would
    do, and is plain PCA. The penalty has to be *at least* the largest entry of the noise, which knows nothing
    of lambda_1: ``corrected=True`` takes 2 ln(1.25/delta), the variance of that noise times epsilon^2, for lambda_1^2,
    again up to `constant` (the rate of Vu et al. 2013, Theorem 3.1).
    """
    n, epsilon = positive_number("n_rows", n_rows), positive_number("epsilon", epsilon)
    p = integer_between("n_features", n_features, 2)
    k = integer_between("n_components", n_components, 1, p - 1)
    s = integer_between("sparsity", sparsity, k, p)
    top, _, gap = _spectrum(top_eigenvalue, kth_eigenvalue, next_eigenvalue)
    size = 2 * math.log(1.25 / open_unit("delta", delta)) if corrected else top**2
    return positive_number("constant", constant) * size / gap**2 * s**2 * math.log(p) / (n * epsilon**2)
