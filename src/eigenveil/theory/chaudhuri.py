"""The bounds of Chaudhuri, Sarwate and Sinha: NIPS 2012, and JMLR 14 (2013). One component, replace, rows of norm 1.

A = C/n has top eigenvalue lambda_1 (`top_eigenvalue`) and `gap` lambda_1 - lambda_2. `correlation` is rho, what
|<v, v1>| has to reach, and `failure_probability` is eta.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..accounting.calibration import safe_boundary
from ..errors import InvalidDataError, InvalidParameterError, integer_between, positive_number, probability_below_one
from ..mechanisms.gaussian import ModSulq
from ..numerics import FloatArray
from .ours import gap_below, open_unit


def jmlr_theorem_7(
    *,
    n_features: int,
    epsilon: float,
    gap: float,
    correlation: float,
    failure_probability: float,
    top_eigenvalue: float = 1.0,
    sharp: bool = False,
) -> float:
    """JMLR Theorem 7: with more rows than this, PPCA reaches the correlation with probability 1 - eta.

    d/(epsilon gap (1 - rho)) (4 ln(1/eta)/d + 2 ln(8 lambda_1/((1 - rho^2) gap))). True for the exact sampler of one
    component. ``sharp=True`` gives the line of the proof before its last: d - 1 for d, and 1 - rho^2 for 1 - rho.
    The top eigenvalue is 1 where it is not known: the worst case.

    Examples
    --------
    >>> round(jmlr_theorem_7(n_features=100, epsilon=1.0, gap=0.1, correlation=0.9, failure_probability=0.05))
    122053
    """
    d, epsilon = integer_between("n_features", n_features, 2), positive_number("epsilon", epsilon)
    rho, eta = open_unit("correlation", correlation), open_unit("failure_probability", failure_probability)
    gap, top = gap_below(gap, top_eigenvalue)
    spread = math.log(8 * top / ((1 - rho**2) * gap))
    if sharp:
        return 4 / (epsilon * (1 - rho**2) * gap) * (math.log(1 / eta) + (d - 1) / 2 * spread)
    return d / (epsilon * gap * (1 - rho)) * (4 * math.log(1 / eta) / d + 2 * spread)


def nips_theorem_3(
    *,
    n_features: int,
    epsilon: float,
    gap: float,
    correlation: float,
    failure_probability: float,
    top_eigenvalue: float = 1.0,
) -> float:
    """NIPS Theorem 3, and Theorem 8 of Jiang et al. (2016): JMLR Theorem 7 with smaller constants, which is **false**.

    d/(epsilon gap (1 - rho)) (ln(1/eta)/d + ln(4 lambda_1/((1 - rho^2) gap))). At d = 20, gap = lambda_1 = 1,
    rho = 0.1, eta = 1e-10 PPCA fails 450,000 times as often as it says: its distribution has epsilon/2 in the exponent.
    Use `jmlr_theorem_7`.
    """
    d, epsilon = integer_between("n_features", n_features, 2), positive_number("epsilon", epsilon)
    rho, eta = open_unit("correlation", correlation), open_unit("failure_probability", failure_probability)
    gap, top = gap_below(gap, top_eigenvalue)
    return d / (epsilon * gap * (1 - rho)) * (math.log(1 / eta) / d + math.log(4 * top / ((1 - rho**2) * gap)))


def jmlr_theorem_8(
    *, n_features: int, epsilon: float, gap: float, correlation: float, corrected: bool = False
) -> float:
    """JMLR Theorem 8: with fewer rows than this, no epsilon-private algorithm has expected correlation above rho.

    d/(epsilon gap) max(1, sqrt((1 - phi)/(80 (1 - rho)))), for d >= 3, gap <= 1/2 and rho >= 1 - (1 - phi)/16;
    elsewhere the theorem says nothing and 0 is returned. "No algorithm" means: none on all data sets of that gap.

    It prints 1 - phi = x = exp(-2 (ln 8 + ln(1 + e^d))/(d - 2)), which needs e^d + 1 lines at angles above
    arccos(phi). Its own Lemma 11 gives 1 - phi^2 = x: ``corrected=True`` takes phi = sqrt(1 - x), which the proof
    supports. (The proof changes d/epsilon rows: a whole number.)

    Examples
    --------
    >>> round(jmlr_theorem_8(n_features=100, epsilon=1.0, gap=0.1, correlation=0.9999))
    3945
    >>> round(jmlr_theorem_8(n_features=100, epsilon=1.0, gap=0.1, correlation=0.9999, corrected=True))
    2836
    """
    d, epsilon = integer_between("n_features", n_features, 2), positive_number("epsilon", epsilon)
    rho, gap = open_unit("correlation", correlation), gap_below(gap)[0]
    if d < 3 or gap > 0.5:
        return 0.0
    x = math.exp(-2 * (math.log(8) + float(np.logaddexp(0, d))) / (d - 2))
    room = x / (1 + math.sqrt(1 - x)) if corrected else x  # 1 - phi
    if rho < 1 - room / 16:
        return 0.0
    return d / (epsilon * gap) * max(1.0, math.sqrt(room / (80 * (1 - rho))))


def jmlr_theorem_9(
    *,
    n_features: int,
    epsilon: float,
    delta: float,
    correlation: float,
    constant: float = 1.0,
    correlation_constant: float = 1.0,
) -> float:
    """JMLR Theorem 9: with fewer rows than this, MOD-SULQ has expected correlation rho at most on some data set.

    c d^1.5 sqrt(ln(d/delta))/epsilon (1 - c'(1 - rho)), 0 where that is negative. The paper leaves c (`constant`)
    and c' (`correlation_constant`) unknown: only the growth is meant. `jmlr_theorem_15_rows` has its constants. The
    d^1.5 is that of MOD-SULQ's own beta; Gaussian noise as small as privacy allows needs d^0.5.
    """
    d, epsilon = integer_between("n_features", n_features, 2), positive_number("epsilon", epsilon)
    delta, rho = open_unit("delta", delta), open_unit("correlation", correlation)
    c, c_rho = positive_number("constant", constant), positive_number("correlation_constant", correlation_constant)
    return c * d * math.sqrt(d * math.log(d / delta)) / epsilon * max(0.0, 1 - c_rho * (1 - rho))


def jmlr_theorem_15(*, n_rows: float, n_features: int, epsilon: float, delta: float = 0.01) -> float:
    """JMLR Theorem 15: on some data set of n rows, the expected correlation of MOD-SULQ is at most this.

    min over phi of 1 - (1 - phi)/4 (1 - (1/beta^2 + ln 2)/ln K)^2 with ln K = (d - 1) ln(1/sqrt(1 - phi^2)) - ln 8,
    phi above the three limits of (22), beta of (5). True; never below 3/4. Every phi gives a valid bound, so
    what the search misses costs tightness only. delta is 0.01 as in Figure 1.

    Examples
    --------
    >>> round(jmlr_theorem_15(n_rows=1e3, n_features=100, epsilon=1.0), 4)
    0.9413
    """
    d = integer_between("n_features", n_features, 2)
    mechanism = ModSulq(epsilon=epsilon, delta=open_unit("delta", delta), n_features=d)
    return _fano(d, (positive_number("n_rows", n_rows) / mechanism.noise_scale()) ** 2)


def _fano(d: int, information: float) -> float:
    """Return the bound (21) for 1/beta^2 = `information`, by zooming into a grid of s = -ln(1 - phi^2)."""
    low = max(
        -math.log1p(-1 / (2 * math.pi * d)),
        2 * math.log(8 * d) / (d - 1),
        (2 * information + math.log(256)) / (d - 1),
    )
    high = low + 60.0  # 1 - phi falls like exp(-s)
    for _ in range(5):
        s = np.linspace(low, high, 401)
        room = np.exp(-s) / (1 + np.sqrt(-np.expm1(-s)))  # 1 - phi, without cancellation
        packing = (d - 1) * s / 2 - math.log(8)
        lost = room / 4 * np.clip(1 - (information + math.log(2)) / packing, 0.0, None) ** 2
        best = int(np.argmax(lost))
        low, high = float(s[max(best - 1, 0)]), float(s[min(best + 1, s.size - 1)])
    return float(1 - lost[best])


def jmlr_theorem_15_rows(*, correlation: float, n_features: int, epsilon: float, delta: float = 0.01) -> float:
    """JMLR Theorem 15 solved for n: with fewer rows, MOD-SULQ has expected correlation rho at most on some data set.

    0 for a rho that the theorem cannot exclude at any n (always for rho < 3/4).
    """
    d, rho = integer_between("n_features", n_features, 2), open_unit("correlation", correlation)
    scale = ModSulq(epsilon=epsilon, delta=open_unit("delta", delta), n_features=d).noise_scale()
    if _fano(d, 0.0) > rho:
        return 0.0
    too_many = 1.0
    while _fano(d, too_many) <= rho:
        too_many *= 2
    return scale * math.sqrt(safe_boundary(lambda information: _fano(d, information) <= rho, 0.0, too_many))


def jmlr_figure_1(
    n_rows: ArrayLike,
    *,
    n_features: Iterable[int] = (50, 100, 500, 1000),
    epsilons: Iterable[float] = (0.01, 0.1, 0.5, 1.0, 2.0),
    delta: float = 0.01,
) -> dict[tuple[int, float], FloatArray]:
    """JMLR Figure 1: the curves of Theorem 15 over n, one for each (d, epsilon).

    The paper's text says: four panels from d = 50 to d = 1000, epsilon from 0.01 to 2, delta = 0.01. What lies
    between those ends is our choice.

    Examples
    --------
    >>> curves = jmlr_figure_1([1e3, 1e5, 1e7], n_features=[50], epsilons=[1.0])
    >>> curves[50, 1.0].round(3).tolist()
    [0.993, 1.0, 1.0]
    """
    rows = np.atleast_1d(np.asarray(n_rows, dtype=np.float64))
    epsilons = tuple(epsilons)
    return {
        (d, epsilon): np.array(
            [jmlr_theorem_15(n_rows=float(n), n_features=d, epsilon=epsilon, delta=delta) for n in rows]
        )
        for d in n_features
        for epsilon in epsilons
    }


def jmlr_section_3_3(*, copies: int) -> float:
    """Section 3.3: one replaced row turns the top direction of 2m + 1 rows by this Euclidean distance, whatever m is.

    m + 1 rows u and m rows u', orthogonal, against m and m + 1. It is sqrt(2), and no two lines are farther apart: so
    the global sensitivity of the first direction is sqrt(2), and noise added to it does not fall with the rows.

    Examples
    --------
    >>> round(jmlr_section_3_3(copies=1000), 4)
    1.4142
    """
    m = integer_between("copies", copies, 1)
    counts = np.array([m + 1.0, m])
    first, second = (np.linalg.eigh(np.diag(diagonal))[1][:, -1] for diagonal in (counts, counts[::-1]))
    return math.sqrt(2 - 2 * abs(float(first @ second)))


def jmlr_lemma_10(*, n_features: int, height: float) -> tuple[float, float]:
    """Lemma 10 (Ball 1997): bounds on the share of the sphere with <v, x> at least c (`height`), 0 <= c < 1.

    ((1 - c)/2)^((d-1)/2)/2 from below, exp(-d c^2/2) from above.

    Examples
    --------
    >>> low, high = jmlr_lemma_10(n_features=5, height=0.6)
    >>> round(low, 4), round(high, 4)
    (0.02, 0.4066)
    """
    d, c = integer_between("n_features", n_features, 2), probability_below_one("height", height)
    return ((1 - c) / 2) ** ((d - 1) / 2) / 2, math.exp(-d * c * c / 2)


def jmlr_lemma_11(*, n_features: int, inner_product: float) -> float:
    """Lemma 11: so many unit vectors exist (rounded down) with all |<u, v>| at most phi (`inner_product`).

    (1 - phi^2)^(-(d-1)/2)/8 for phi >= 1/sqrt(2 pi d); below that the lemma says nothing and 0 is returned. Lemma 18
    with t = 1/2 gives ln(2)/4 for 1/8, a third more.

    Examples
    --------
    >>> round(jmlr_lemma_11(n_features=20, inner_product=0.8))
    2051
    """
    d, phi = integer_between("n_features", n_features, 2), open_unit("inner_product", inner_product)
    if phi < 1 / math.sqrt(2 * math.pi * d):
        return 0.0
    return math.exp(-(d - 1) / 2 * math.log1p(-phi * phi)) / 8


def jmlr_lemma_12(*, inner_product: float, n_databases: int | None = None) -> float:
    """Lemma 12: the mean correlation of a private algorithm on K databases that differ in ln(K - 1)/epsilon rows.

    At most 1 - (1 - c)/16, c the largest |<u_i, u_j>| of their top eigenvectors (`inner_product`), for every
    epsilon-private algorithm. With the number K of databases given: the line before, 1 - (1 - 1/K)(1 - c)/8.

    Examples
    --------
    >>> jmlr_lemma_12(inner_product=0.2)
    0.95
    """
    c = probability_below_one("inner_product", inner_product)
    if n_databases is None:
        return 1 - (1 - c) / 16
    return 1 - (1 - 1 / integer_between("n_databases", n_databases, 2)) * (1 - c) / 8


def jmlr_theorem_13(*, distance: float, divergence: float, n_densities: int) -> float:
    """Theorem 13 (Fano, by Yu 1997): some of r densities is estimated with at least this mean error.

    tau/2 (1 - (gamma + ln 2)/ln r) for parameters tau apart (`distance`) whose Kullback-Leibler divergences are at most
    gamma (`divergence`); 0 where that is negative.

    Examples
    --------
    >>> round(jmlr_theorem_13(distance=1.0, divergence=0.5, n_densities=1000), 4)
    0.4136
    """
    tau, gamma = positive_number("distance", distance), positive_number("divergence", divergence)
    r = integer_between("n_densities", n_densities, 2)
    return tau / 2 * max(0.0, 1 - (gamma + math.log(2)) / math.log(r))


def jmlr_lemma_14(a: ArrayLike, b: ArrayLike, covariance: ArrayLike) -> float:
    """Lemma 14: the Kullback-Leibler divergence of two normal distributions with means a, b and one covariance.

    (a - b)' Sigma^-1 (a - b)/2.

    Examples
    --------
    >>> jmlr_lemma_14([1.0, 0.0], [0.0, 0.0], [[2.0, 0.0], [0.0, 1.0]])
    0.25
    """
    shift, sigma = np.subtract(a, b, dtype=np.float64), np.asarray(covariance, dtype=np.float64)
    if shift.ndim != 1 or sigma.shape != (shift.size, shift.size):
        raise InvalidDataError("a and b must be vectors of one length, and covariance a square matrix of that size.")
    return float(shift @ np.linalg.solve(sigma, shift)) / 2


def jmlr_lemma_16(*, threshold: float, conditional_means: Sequence[float]) -> float:
    """Lemma 16 (after Csiszar and Narayan): the chance that the mean of N variables in [0, 1] passes t (`threshold`).

    At most exp(-N t ln 2 + sum a_i), a_i a bound on the mean of the i-th given those before it (`conditional_means`).

    Examples
    --------
    >>> round(jmlr_lemma_16(threshold=0.5, conditional_means=[0.05] * 20), 5)
    0.00265
    """
    t = positive_number("threshold", threshold)
    if not conditional_means or not all(0 <= a <= 1 for a in conditional_means):
        raise InvalidParameterError("conditional_means must be numbers from 0 to 1, one for each variable.")
    return min(1.0, math.exp(math.fsum(conditional_means) - len(conditional_means) * t * math.log(2)))


def jmlr_lemma_17(*, n_features: int, inner_product: float) -> float:
    """Lemma 17 (Csiszar and Narayan 1991): the share of the sphere with <U, u> at least phi (`inner_product`).

    At most (1 - phi^2)^((d-1)/2), for phi >= 1/sqrt(2 pi d); below that the lemma says nothing and 1 is returned.

    Examples
    --------
    >>> round(jmlr_lemma_17(n_features=5, inner_product=0.6), 4)
    0.4096
    """
    d, phi = integer_between("n_features", n_features, 2), open_unit("inner_product", inner_product)
    return (1 - phi * phi) ** ((d - 1) / 2) if phi >= 1 / math.sqrt(2 * math.pi * d) else 1.0


def jmlr_lemma_18(*, n_features: int, inner_product: float, dropped: float = 0.5) -> int:
    """Lemma 18: so many unit vectors exist with all |<u, v>| below phi (`inner_product`).

    floor((1 - t) N) for the largest N with (N - 1)(1 - phi^2)^((d-1)/2) < t ln 2: of N random vectors the share t
    (`dropped`) is left out. 1 where N is 1.

    Examples
    --------
    >>> jmlr_lemma_18(n_features=20, inner_product=0.8)
    2844
    """
    t = open_unit("dropped", dropped)
    cap = jmlr_lemma_17(n_features=n_features, inner_product=inner_product)
    n = math.ceil(t * math.log(2) / cap)  # the largest integer below 1 + t ln 2/cap
    return max(1, math.floor((1 - t) * n))


def jmlr_table_1_ratio(*, captured: float, n_components: int) -> float:
    """Return the least qF(V_k)/|A|_F that rows of norm at most 1 allow, given qF(V_k) = `captured`.

    min(1, sqrt(k qF)). Table 1 prints ratios of 0.96 and 0.81 with k qF above 1, where none is below 1: they are
    qF/tr A. (|A|_F^2 is at most the sum of the first k squares plus lambda_k (1 - qF), a convex function of lambda_k
    with the first of them as large as the others allow: qF^2 at lambda_k = 0, qF/k at the other end.)

    Examples
    --------
    >>> printed = [(0.6587, 4), (0.7321, 8), (0.5672, 10), (0.5118, 11)]
    >>> [jmlr_table_1_ratio(captured=captured, n_components=k) for captured, k in printed]
    [1.0, 1.0, 1.0, 1.0]
    """
    q = positive_number("captured", captured)
    if q > 1:
        raise InvalidParameterError("captured must be at most 1: rows of norm at most 1 have no more variance.")
    return min(1.0, math.sqrt(integer_between("n_components", n_components, 1) * q))


def total_variation_delta(*, epsilon: float, distance: float) -> float:
    """Return the delta of a sampler within `distance` in total variation of an epsilon-private one.

    (1 + e^epsilon) distance: both neighbours may be off, P'(S) <= P(S) + t <= e^epsilon Q(S) + t
    <= e^epsilon (Q'(S) + t) + t, and two-point distributions reach it. Section 7 of JMLR 2013 prints `distance` alone.

    Examples
    --------
    >>> round(total_variation_delta(epsilon=1.0, distance=1e-6), 9)
    3.718e-06
    """
    return min(1.0, (1 + math.exp(positive_number("epsilon", epsilon))) * probability_below_one("distance", distance))
