"""The bounds of Chaudhuri, Sarwate and Sinha: NIPS 2012, and JMLR 14 (2013). One component, replace, rows of norm 1.

A = C/n has top eigenvalue lambda_1 (`top_eigenvalue`) and `gap` lambda_1 - lambda_2. `correlation` is rho, what
|<v, v1>| has to reach, and `failure_probability` is eta.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accounting.calibration import safe_boundary
from ...errors import integer_between, positive_number
from ...laws.mod_sulq import ModSulq
from .common import gap_below, open_unit

FloatArray = NDArray[np.float64]


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
    rho = 0.1, eta = 1e-10 PPCA fails 450,000 times as often as it says: its law has epsilon/2 in the exponent.
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
    law = ModSulq(epsilon=epsilon, delta=open_unit("delta", delta), n_features=d)
    return _fano(d, (positive_number("n_rows", n_rows) / law.noise_scale()) ** 2)


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
