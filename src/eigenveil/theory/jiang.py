"""The bounds of Jiang, Xie and Zhang (AAAI 2016), the Wishart mechanism.

They speak of A + W, W ~ Wishart(d + 1, 3/(2 n epsilon) I), which is **not** epsilon-private as the paper claims
(docs/research/wishart.md). As statements on W they hold; `sharp=True` gives what the same noise truly does.
"""

import math

import numpy as np
from scipy.special import betainc

from ..errors import integer_between, positive_number
from .ours import gap_below, largest_singular, open_unit, tail

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
    and the statement is true all the same, for every symmetric W: docs/research/theory.md. For W >= 0, as here,
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
    size = jiang_lemma_1(n_features=d, degrees=d + 1, failure_probability=eta, sharp=sharp)
    if sharp:
        return 1.5 / epsilon * size / (2 * gap * rho * math.sqrt(1 - rho**2))
    return 3 * size / (2 * epsilon * (1 - rho**2) * gap)


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
        eta = open_unit("failure_probability", failure_probability)
        return following + 2 * jiang_lemma_1(
            n_features=d, degrees=d + 1, failure_probability=eta, scale=1.5 / epsilon, sharp=True
        )
    return following + positive_number("constant", constant) * d * math.log(d) / epsilon


def jiang_table_1(*, n_features: int, n_rows: float, epsilon: float, constant: float = 1.0) -> dict[str, float]:
    """Table 1: growth of the spectral norm of the noise on A = C/n, up to one `constant` and factors of ln(1/delta).

    Keys: laplace d^1.5/(n epsilon), sulq d^1.5 ln d/(n epsilon) (Blum et al. 2005), wishart d ln d/(n epsilon),
    gaussian d^0.5/(n epsilon) (Dwork et al. 2014). That of wishart is d/(n epsilon), by the sharp `jiang_lemma_1`.
    """
    d, epsilon = integer_between("n_features", n_features, 1), positive_number("epsilon", epsilon)
    unit = positive_number("constant", constant) / (positive_number("n_rows", n_rows) * epsilon)
    return {
        "laplace": unit * d**1.5,
        "sulq": unit * d**1.5 * math.log(d),
        "wishart": unit * d * math.log(d),
        "gaussian": unit * math.sqrt(d),
    }


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


def jiang_lemma_3(*, noise_norm: float, kth_eigenvalue: float, next_eigenvalue: float) -> float:
    """Lemma 3 (Davis and Kahan): the spectral distance of the top-k projections of two symmetric matrices.

    At most |M - M'|_2/(lambda_k(M) - lambda_(k+1)(M')), where that difference is above 0; 1 elsewhere, which always
    holds. True with this constant, since the two parts of the spectra lie on different sides of a gap. Note that
    `next_eigenvalue` is that of the *other* matrix.

    Examples
    --------
    >>> jiang_lemma_3(noise_norm=0.25, kth_eigenvalue=2.0, next_eigenvalue=1.0)
    0.25
    """
    noise, gap = positive_number("noise_norm", noise_norm), float(kth_eigenvalue) - float(next_eigenvalue)
    return min(1.0, noise / gap) if gap > 0 else 1.0


def jiang_lemma_4(*, eigenvalue: float, noise_smallest: float, noise_largest: float) -> tuple[float, float]:
    """Lemma 4 (Weyl): between which numbers eigenvalue i of H + P lies, from that of H and the ends of P's spectrum.

    Printed for i in [n]; there are d eigenvalues.

    Examples
    --------
    >>> jiang_lemma_4(eigenvalue=2.0, noise_smallest=-0.5, noise_largest=0.25)
    (1.5, 2.25)
    """
    return float(eigenvalue) + float(noise_smallest), float(eigenvalue) + float(noise_largest)


def jiang_lemma_5(
    *, n_features: int, n_components: int = 1, radius: float, constant: float = 1.0, sharp: bool = False
) -> float:
    """Lemma 5: the natural logarithm of a number of k-dimensional subspaces whose balls of this radius are disjoint.

    Omega(k (d - k) ln(1/radius)), `constant` unknown; distances are spectral ones of projections. ``sharp=True`` needs
    no constant: lines in d - k + 1 dimensions, beside k - 1 fixed directions, of which 1/m can be more than two radii
    apart, m the share of lines within two radii of one (else one could be added). About (d - k) ln(1/(2 radius)), so
    it lacks the factor k.

    Examples
    --------
    >>> round(jiang_lemma_5(n_features=3, radius=0.25, sharp=True), 3) == round(-math.log(1 - math.sqrt(0.75)), 3)
    True
    """
    d = integer_between("n_features", n_features, 2)
    k, radius = integer_between("n_components", n_components, 1, d - 1), open_unit("radius", radius)
    if not sharp:
        return positive_number("constant", constant) * k * (d - k) * math.log(1 / radius)
    if radius >= 0.5:
        return 0.0
    return -math.log(float(betainc((d - k) / 2, 0.5, 4 * radius**2)))


def jiang_theorem_10(
    *, n_features: int, epsilon: float, n_components: int = 1, constant: float = 1.0, corrected: bool = False
) -> float:
    """Theorem 10: an epsilon-private rank-k matrix misses some C by this much more than lambda_(k+1).

    Omega(d/epsilon), printed with the inequality turned round. The proof counts (d - k) k directions, so d - k
    stands here for d, which is the same growth for k <= d/2; `constant` is unknown.

    ``corrected=True`` needs no constant: with n >= k m rows, m = floor(ln(K - 1)/epsilon), the mean spectral error of
    every epsilon-private matrix, of any rank, is at least m sqrt(1 - phi^2)/4 on some C of rank k, for each phi, K the
    packing of JMLR Lemma 11 in d - k + 1 dimensions; about (d - k)/(4 e epsilon) at the best phi
    (docs/research/theory.md). 0 where d - k is too small to pack.

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
