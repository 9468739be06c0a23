"""What stands behind the theorems of Chaudhuri, Sarwate and Sinha (JMLR 2013): its lemmas, examples and remarks.

All lemmas are true as printed; what is said about them beyond that is ours. docs/explanation/theory.md lists them.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ...errors import InvalidDataError, InvalidParameterError, integer_between, positive_number, probability_below_one
from .common import open_unit


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
    """Lemma 14: the Kullback-Leibler divergence of two normal laws with means a, b and one covariance.

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
    """Return the delta of a sampler whose law is within `distance` in total variation of an epsilon-private one.

    (1 + e^epsilon) distance: both neighbours may be off, P'(S) <= P(S) + t <= e^epsilon Q(S) + t
    <= e^epsilon (Q'(S) + t) + t, and two-point laws reach it. Section 7 of JMLR 2013 prints `distance` alone.

    Examples
    --------
    >>> round(total_variation_delta(epsilon=1.0, distance=1e-6), 9)
    3.718e-06
    """
    return min(1.0, (1 + math.exp(positive_number("epsilon", epsilon))) * probability_below_one("distance", distance))
