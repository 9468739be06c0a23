"""Lemmas of Jiang, Xie and Zhang (AAAI 2016), Theorem 10, and the bounds of others that their text quotes."""

import math

import numpy as np

from ...errors import integer_between, positive_number
from .common import largest_singular, open_unit, tail


def jiang_lemma_1(
    *, n_features: int, degrees: int, failure_probability: float, scale: float = 1.0, sharp: bool = False
) -> float:
    """Lemma 1 (after Zhu 2012): the largest eigenvalue of a Wishart(m, c I) matrix passes this with chance eta at most.

    c (m + sqrt(2 m (d + 2) theta) + 2 d theta), theta = ln(d/eta), `degrees` m and `scale` c. True, and loose: it grows
    with ln d. ``sharp=True`` is Davidson and Szarek's c (sqrt(m) + sqrt(d) + sqrt(2 ln(1/eta)))^2.

    Examples
    --------
    >>> round(jiang_lemma_1(n_features=10, degrees=11, failure_probability=0.05), 1)
    154.4
    >>> round(jiang_lemma_1(n_features=10, degrees=11, failure_probability=0.05, sharp=True), 1)
    79.7
    """
    d, m = integer_between("n_features", n_features, 1), integer_between("degrees", degrees, 1)
    eta, c = open_unit("failure_probability", failure_probability), positive_number("scale", scale)
    if sharp:
        return c * largest_singular(d, m, tail(1, eta)) ** 2
    theta = math.log(d / eta)
    return c * (m + math.sqrt(2 * m * (d + 2) * theta) + 2 * d * theta)


def jiang_lemma_2(*, n_features: int, n_rows: float = 1.0, sharp: bool = False) -> tuple[float, float]:
    """Lemma 2: bounds on the l1 sensitivity of A = C/n over all d^2 entries, one row replaced.

    d/n and 2d/n, printed as strict; for d = 1 it *is* 1/n. ``sharp=True`` has sqrt(2) d/n above: d |D|_F for the
    change D, and |D|_F is at most sqrt(2)/n. Even d reach it, so that the lower one is the same there; for odd d that
    is the larger of d/n and sqrt(2) (d - 1)/n, and for d = 1 both are 1/n. Algorithm 1 adds noise to the upper
    triangle only, whose l1 sensitivity is at most sqrt(d(d+3)/2)/n.

    Examples
    --------
    >>> jiang_lemma_2(n_features=4)
    (4.0, 8.0)
    >>> [round(x, 3) for x in jiang_lemma_2(n_features=4, sharp=True)]
    [5.657, 5.657]
    """
    d, n = integer_between("n_features", n_features, 1), positive_number("n_rows", n_rows)
    if not sharp:
        return d / n, 2 * d / n
    if d == 1:
        return 1 / n, 1 / n
    low = max(float(d), math.sqrt(2) * (d - d % 2))
    return low / n, math.sqrt(2) * d / n


def jiang_theorem_10(
    *, n_features: int, epsilon: float, n_components: int = 1, constant: float = 1.0, corrected: bool = False
) -> float:
    """Theorem 10: an epsilon-private rank-k matrix misses some C by this much more than lambda_(k+1).

    Omega(d/epsilon), printed with the inequality turned round. The proof counts (d - k) k directions, so d - k
    stands here for d, which is the same growth for k <= d/2; `constant` is unknown.

    ``corrected=True`` needs no constant: with n >= k m rows, m = floor(ln(K - 1)/epsilon), the mean spectral error of
    every epsilon-private matrix, of any rank, is at least m sqrt(1 - phi^2)/4 on some C of rank k, for each phi, K the
    packing of JMLR Lemma 11 in d - k + 1 dimensions; about (d - k)/(4 e epsilon) at the best phi
    (docs/explanation/theory.md). 0 where d - k is too small to pack.

    Examples
    --------
    >>> jiang_theorem_10(n_features=100, epsilon=0.5, n_components=4)
    192.0
    >>> round(jiang_theorem_10(n_features=100, epsilon=0.5, n_components=4, corrected=True), 2)
    17.27
    """
    d, epsilon = integer_between("n_features", n_features, 1), positive_number("epsilon", epsilon)
    k = integer_between("n_components", n_components, 1, d)
    if not corrected:
        return positive_number("constant", constant) * (d - k) / epsilon
    if d == k:
        return 0.0
    # s = -ln(1 - phi^2); every s gives a bound, so what the grid misses costs tightness only.
    s = np.linspace(-math.log1p(-1 / (2 * math.pi * (d - k + 1))), 20.0, 4001)
    logarithm = (d - k) * s / 2 - math.log(8)
    lines = np.exp(np.minimum(logarithm, 40.0))
    below = np.log(np.maximum(np.floor(lines) - 1, 1.0))  # of K - 1; for large K the floor is under 1e-15 of it
    room = np.where(logarithm < 30.0, below, logarithm - 1e-12)
    return float(np.max(np.floor(room / epsilon) * np.exp(-s / 2)) / 4)


def jiang_section_4(*, n_features: int, epsilon: float, n_components: int, constant: float = 1.0) -> dict[str, float]:
    """Section 4: growth of the spectral error of a rank-k matrix beyond lambda_(k+1), as the text quotes it.

    Keys: wishart d ln d/epsilon (Theorem 9), kapralov_talwar k^3 d/epsilon and hardt_price k^1.5 d ln^2 d/epsilon,
    and the lower bounds kapralov_talwar_below k d/epsilon and jiang_below d/epsilon. Only growths are stated: one
    `constant` stands for what they hide. The bounds of the others are for neighbours with |C - C'|_2 at most 1: a
    replaced row is one of them, and so is much else, so they are not comparable line by line.

    Examples
    --------
    >>> table = jiang_section_4(n_features=100, epsilon=1.0, n_components=2)
    >>> {name: round(value) for name, value in table.items()}  # doctest: +NORMALIZE_WHITESPACE
    {'wishart': 461, 'kapralov_talwar': 800, 'hardt_price': 5998, 'kapralov_talwar_below': 200, 'jiang_below': 100}
    """
    d, epsilon = integer_between("n_features", n_features, 1), positive_number("epsilon", epsilon)
    k, unit = integer_between("n_components", n_components, 1, d), positive_number("constant", constant) * d / epsilon
    return {
        "wishart": unit * math.log(d),
        "kapralov_talwar": unit * k**3,
        "hardt_price": unit * k**1.5 * math.log(d) ** 2,
        "kapralov_talwar_below": unit * k,
        "jiang_below": unit,
    }
