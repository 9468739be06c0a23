"""The bounds of Jiang, Xie and Zhang (AAAI 2016), the Wishart mechanism.

They speak of A + W, W ~ Wishart(d + 1, 3/(2 n epsilon) I), which is **not** epsilon-private as the paper claims
(docs/explanation/wishart.md). As statements on W they hold; `sharp=True` gives what the same noise truly does.
"""

import math

from ...errors import integer_between, positive_number
from .common import gap_below, largest_singular, open_unit, tail

_HALF = math.sqrt(0.5)


def jiang_theorem_5(
    *,
    n_features: int,
    l1_sensitivity: float | None = None,
    nuclear_sensitivity: float | None = None,
    constant: float = 1.0,
    corrected: bool = False,
) -> bool:
    """Theorem 5: Wishart noise is the smaller one where max |D|_(1,1)/max |D|_* is above sqrt(d) ln d, else Laplace.

    By default the paper's 2d and 3 for the change D of one row (times n). Only a growth is stated: `constant` stands
    for what it hides. It compares upper bounds, and that of the Wishart norm has a factor ln d too many:
    ``corrected=True`` leaves it out.
    """
    d = integer_between("n_features", n_features, 1)
    l1 = positive_number("l1_sensitivity", 2.0 * d if l1_sensitivity is None else l1_sensitivity)
    nuclear = positive_number("nuclear_sensitivity", 3.0 if nuclear_sensitivity is None else nuclear_sensitivity)
    limit = positive_number("constant", constant) * math.sqrt(d) * (1.0 if corrected else math.log(d))
    return l1 / nuclear > limit


def jiang_theorem_6(*, noise_norm: float, gap: float, n_components: int = 1, sharp: bool = False) -> float:
    """Theorem 6: the Frobenius distance of the top-k projections of A and A + W is at most this.

    2 sqrt(k) |W|_2/gap where gap >= 2 |W|_2; elsewhere sqrt(2k), which always holds. The proof takes rank 2k for k,
    and the statement is true all the same, for every symmetric W: docs/explanation/theory.md. For W >= 0, as here,
    half of |W|_2 is a multiple of the identity, which turns nothing: ``sharp=True`` gives
    sqrt(k (1 - sqrt(1 - (|W|_2/gap)^2))) where gap >= |W|_2, and nothing smaller is true.
    """
    w, gap = positive_number("noise_norm", noise_norm), positive_number("gap", gap)
    k = integer_between("n_components", n_components, 1)
    if sharp:
        ratio = min(1.0, w / gap)
        return math.sqrt(2 * k) if w > gap else math.sqrt(k / (1 + math.sqrt(1 - ratio**2))) * ratio
    return 2 * math.sqrt(k) * w / gap if gap >= 2 * w else math.sqrt(2 * k)


def jiang_theorem_7(
    *,
    n_features: int,
    epsilon: float,
    gap: float,
    correlation: float,
    failure_probability: float,
    sharp: bool = False,
) -> float:
    """Theorem 7: with this many rows the Wishart mechanism reaches correlation rho with probability 1 - eta.

    3 (d + 1 + sqrt(2 (d+1) (d+2) ln(d/eta)) + 2 d ln(d/eta))/(2 epsilon (1 - rho^2) gap), for rho >= sqrt(1/2); a
    smaller rho is met by that one. The proof drops a square, and what it should say is stronger:
    ``sharp=True`` gives 3 (sqrt(d+1) + sqrt(d) + sqrt(2 ln(1/eta)))^2/(4 epsilon gap rho sqrt(1 - rho^2)).
    """
    d, epsilon = integer_between("n_features", n_features, 2), positive_number("epsilon", epsilon)
    rho, eta = open_unit("correlation", correlation), open_unit("failure_probability", failure_probability)
    gap, rho = gap_below(gap)[0], max(rho, _HALF)
    if sharp:
        return wishart_norm(d, epsilon, eta) / (2 * gap * rho * math.sqrt(1 - rho**2))
    theta = math.log(d / eta)
    size = d + 1 + math.sqrt(2 * (d + 1) * (d + 2) * theta) + 2 * d * theta
    return 3 * size / (2 * epsilon * (1 - rho**2) * gap)


def wishart_norm(n_features: int, epsilon: float, failure_probability: float) -> float:
    """Return what |W|_2, W ~ Wishart(d + 1, 3/(2 epsilon) I), passes with probability eta at most."""
    return 1.5 / epsilon * largest_singular(n_features, n_features + 1, tail(1, failure_probability)) ** 2


def jiang_theorem_9(
    *,
    n_features: int,
    epsilon: float,
    next_eigenvalue: float = 0.0,
    constant: float = 1.0,
    failure_probability: float = 0.05,
    sharp: bool = False,
) -> float:
    """Theorem 9: the rank-k part of C + W is at most this far from C in spectral norm.

    lambda_(k+1) + O(d ln d/epsilon), `next_eigenvalue` being that of C = nA; `constant` stands for what O hides.
    ``sharp=True`` needs no constant: lambda_(k+1) + 2 |W|_2 by Weyl, |W|_2 by Davidson and Szarek with probability
    1 - eta, without the ln d.
    """
    d, epsilon = integer_between("n_features", n_features, 1), positive_number("epsilon", epsilon)
    following = positive_number("next_eigenvalue", next_eigenvalue) if next_eigenvalue else 0.0
    if sharp:
        return following + 2 * wishart_norm(d, epsilon, open_unit("failure_probability", failure_probability))
    return following + positive_number("constant", constant) * d * math.log(d) / epsilon


def jiang_table_1(*, n_features: int, n_rows: float, epsilon: float, constant: float = 1.0) -> dict[str, float]:
    """Table 1: growth of the spectral norm of the noise on A = C/n, up to one `constant` and factors of ln(1/delta).

    Keys: laplace d^1.5/(n epsilon), sulq d^1.5 ln d/(n epsilon) (Blum et al. 2005), wishart d ln d/(n epsilon),
    gaussian d^0.5/(n epsilon) (Dwork et al. 2014). That of wishart is d/(n epsilon), as `wishart_norm` shows.
    """
    d, epsilon = integer_between("n_features", n_features, 1), positive_number("epsilon", epsilon)
    unit = positive_number("constant", constant) / (positive_number("n_rows", n_rows) * epsilon)
    return {
        "laplace": unit * d**1.5,
        "sulq": unit * d**1.5 * math.log(d),
        "wishart": unit * d * math.log(d),
        "gaussian": unit * math.sqrt(d),
    }
