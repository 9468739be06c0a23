"""The errors of released components: variances along them, their angles, and standard errors of loadings.

docs/explanation/uncertainty.md derives every formula.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, stdtrit

from ..numerics import FloatArray
from ..uncertainty import SIZE
from .entries import MatrixError
from .intervals import holding
from .noise_spectrum import SIMULATION_SEED, NoiseDraws, edge_quantile
from .shrinkage import decreasing
from .spectrum import threads_for

# Simulated noise is as many numbers in all, within these numbers of draws; a Student distribution makes up for few of
# them.
_NUMBERS, _FEWEST, _MOST = 4_000_000, 12, 100
# Numbers of them that are held at once.
_AT_ONCE = 100_000


@dataclass(frozen=True, eq=False)
class ComponentNoise:
    """Moments of n_ij = u_i' N u_j for the released directions u_1, ..., u_k and all other ones.

    Attributes
    ----------
    cross : ndarray of shape (k, k + m)
        E[n_ij^2]; with the k directions themselves, then with m others. What stands at (i, i) is not used.
    own : ndarray of shape (k, k)
        Covariances of n_11, ..., n_kk.
    drift : ndarray of shape (k,)
        Means of n_11, ..., n_kk.
    draws : int or None
        From how many simulated draws they come; None where they are exact.
    """

    cross: FloatArray
    own: FloatArray
    drift: FloatArray
    draws: int | None = None


def isotropic_noise(k: int, m: int, off_variance: float, shared_variance: float) -> ComponentNoise:
    """Return the moments of noise with the same distribution in every basis.

    Parameters
    ----------
    k, m : int
        Numbers of directions, and of others.
    off_variance : float
        E[n_ij^2] for i other than j; twice that is the variance of n_ii, but for
    shared_variance : float
        what any n_ii and n_jj have in common by the trace; below 0 where that is measured accurately.
    """
    own = 2 * off_variance * np.eye(k) + shared_variance
    return ComponentNoise(np.full((k, k + m), off_variance), own, np.zeros(k))


def mapped_noise(
    leading: FloatArray, others: FloatArray, off_variance: float, shared_variance: float
) -> ComponentNoise:
    """Return the moments of B N B', where N has the same distribution in every basis.

    Parameters
    ----------
    leading, others : ndarray of shape (k, p), (m, p)
        u_i'B for the directions, and for the others.
    off_variance, shared_variance : float
        As for `isotropic_noise`, of N.

    Notes
    -----
    n_ij = b_i'Nb_j has E[n_ij^2] = t^2 (|b_i|^2 |b_j|^2 + (b_i.b_j)^2) + s (b_i.b_j)^2, and
    cov(n_ii, n_jj) = 2 t^2 (b_i.b_j)^2 + s |b_i|^2 |b_j|^2.
    """
    products = leading @ np.vstack([leading, others]).T
    inner = products[:, : len(leading)]
    sizes = np.diag(inner)
    lengths = np.outer(sizes, np.concatenate([sizes, np.square(others).sum(axis=1)]))
    cross = off_variance * lengths + (off_variance + shared_variance) * products**2
    own = 2 * off_variance * inner**2 + shared_variance * np.outer(sizes, sizes)
    return ComponentNoise(cross, own, np.zeros(len(leading)))


def levered_noise(lever: FloatArray, k: int, off_variance: float, shared_variance: float) -> ComponentNoise:
    """Return the moments of B N B' where BB' = I + ll', as about a mean, for the first k of some directions.

    Parameters
    ----------
    lever : ndarray of shape (k + m,)
        u_i'l for all directions, of either sign: b_i.b_j is 1, for i = j alone, plus a product of two of them.
    k : int
    off_variance, shared_variance : float
        As for `mapped_noise`.

    Examples
    --------
    >>> lever = np.array([0.5, -1.0])
    >>> about_the_mean = mapped_noise(np.array([[1.0, 0.0, -0.5]]), np.array([[0.0, 1.0, 1.0]]), 1.0, -0.1)
    >>> bool(np.allclose(levered_noise(lever, 1, 1.0, -0.1).cross, about_the_mean.cross))
    True
    """
    squares = lever**2
    sizes = 1 + squares
    products = np.outer(squares[:k], squares)
    products[np.diag_indices(k)] = sizes[:k] ** 2
    lengths = np.outer(sizes[:k], sizes)
    cross = off_variance * lengths + (off_variance + shared_variance) * products
    own = 2 * off_variance * products[:, :k] + shared_variance * lengths[:, :k]
    return ComponentNoise(cross, own, np.zeros(k))


def simulation() -> np.random.Generator:
    """Return the generator of a simulation: the same release always gives the same answer."""
    return np.random.default_rng(SIMULATION_SEED)


def simulated_noise(rows: FloatArray, k: int, draws: NoiseDraws) -> ComponentNoise:
    """Return the moments of any noise by simulation.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
        All directions, or some that stand for all; the first k are those in question.
    k : int
    draws : callable
        Maps a generator and a number to so many noise matrices.
    """
    generator = simulation()
    count, at_once = _draws(rows.shape[1]), max(1, _AT_ONCE // rows.shape[1] ** 2)
    cross, own = np.zeros((k, len(rows))), np.empty((count, k))
    with threads_for(rows.shape[1]):
        for low in range(0, count, at_once):
            high = min(low + at_once, count)
            noise = rows[:k] @ draws(generator, high - low) @ rows.T
            own[low:high] = np.diagonal(noise, axis1=1, axis2=2)
            cross += np.square(noise).sum(axis=0) / count
    # The distribution is nearly symmetric: what is not is of second order, and drowns in the mean of few draws.
    return ComponentNoise(cross, own.T @ own / count, np.zeros(k), count)


def simulated_trace_sd(d: int, draws: NoiseDraws) -> float:
    """Return the standard deviation of the trace of any noise, d by d, by simulation."""
    generator = simulation()
    return float(np.std([np.trace(draws(generator, 1)[0]) for _ in range(_draws(d))]))


def _draws(d: int) -> int:
    return int(np.clip(_NUMBERS // d**2, _FEWEST, _MOST))


EXACT, APPROXIMATE = "exact distribution", "approximate"
"""What an interval rests on: moments that are exact for the distribution of the noise, or that are approximations."""
# 1.96 would do where the error is Gaussian. At the edge of the noise it is a little skew.
_Z = 2.1
# What is approximate leaves out what two entries of the noise have in common, and how y fluctuates.
_Z_APPROXIMATE = 2.3


@dataclass(frozen=True, eq=False)
class ComponentVariances:
    """Variances along k directions in falling order, with their intervals.

    Attributes
    ----------
    estimate : ndarray of shape (k,)
        Variances along the directions, falling and not below 0.
    interval : ndarray of shape (k, 2)
        95 % intervals for them, each by itself.
    totals : ndarray of shape (k,)
        Estimates of the variance along the first 1, 2, ..., k directions together: what `estimate` adds up to.
    total_interval : ndarray of shape (k, 2)
        95 % intervals for these.
    kind : str
        `EXACT` or `APPROXIMATE`.
    """

    estimate: FloatArray
    interval: FloatArray
    totals: FloatArray
    total_interval: FloatArray
    kind: str

    def informed(self, expected: FloatArray) -> "ComponentVariances":
        """Return variances whose estimates are the expected ones, as far as the intervals allow.

        Where noise is large, unbiased estimates that end at 0 are too large on average. What a simulation expects
        along directions of these ranks is better, as long as it is within the interval.
        """
        most = float(self.total_interval[-1, 1])
        along = decreasing(np.clip(expected, *self.interval.T), None)
        totals = np.minimum(np.cumsum(along), most)
        estimate = np.diff(totals, prepend=0.0)
        return replace(
            self,
            estimate=estimate,
            totals=totals,
            interval=holding(self.interval, estimate, SIZE),
            total_interval=holding(self.total_interval, totals, SIZE),
        )

    def first(self, k: int) -> "ComponentVariances":
        """Return the variances along the first k directions alone."""
        return ComponentVariances(
            self.estimate[:k], self.interval[:k], self.totals[:k], self.total_interval[:k], self.kind
        )

    def with_unknown(self, loadings: FloatArray, d: int) -> "ComponentVariances":
        """Return intervals that hold whatever the correlations of some of d features are, for those features' loadings.

        Parameters
        ----------
        loadings : ndarray of shape (k,)
            Sums of the sizes of their loadings, direction by direction.
        d : int

        Notes
        -----
        The root of u'Ru is a norm of u, and at most a = |u_i| + |u_j| + ... for the part of u on these features,
        whatever their correlations: so the roots of u'Ru for two matrices that differ in nothing else differ by 2a at
        most, and those of sums over several directions by 2 sqrt(a_1^2 + a_2^2 + ...).

        Examples
        --------
        >>> found = ComponentVariances(np.ones(1), np.array([[1.0, 1.21]]), np.ones(1), np.array([[1.0, 1.21]]), EXACT)
        >>> found.with_unknown(np.array([0.2]), 3).interval.round(2).tolist()
        [[0.36, 2.25]]
        """
        reaches = 2 * loadings, 2 * np.sqrt(np.cumsum(loadings**2))
        each, totals = (
            holding(np.maximum(np.sqrt(ends) + reach[:, None] * np.array([-1.0, 1.0]), 0.0) ** 2, at, (0.0, float(d)))
            for at, ends, reach in zip(
                (self.estimate, self.totals), (self.interval, self.total_interval), reaches, strict=True
            )
        )
        return ComponentVariances(self.estimate, each, self.totals, totals, APPROXIMATE)


def variances_along(
    values: FloatArray,
    others: FloatArray,
    weights: FloatArray,
    noise: ComponentNoise,
    *,
    total: float,
    total_sd: float = 0.0,
    excess: float = 0.0,
    exact: bool = False,
) -> ComponentVariances:
    """Return the variances u_i'Au_i along the leading eigenvectors u_1, ..., u_k of a release M = A + N.

    Parameters
    ----------
    values : ndarray of shape (k,)
        The leading eigenvalues of M, descending.
    others, weights : ndarray of shape (m,)
        The other eigenvalues, or points that stand for so many of them each.
    noise : ComponentNoise
        Moments of N in the basis of the eigenvectors.
    total, total_sd : float
        What the trace of A is estimated by, and its standard deviation: no variance is above it.
    excess : float
        Of the distribution of N, as in `NoiseFacts`; above 0 the noise reaches farther than a semicircle does.
    exact : bool
        Whether N is Gaussian and the moments are exact.

    Examples
    --------
    Two eigenvalues, and noise with E[n_ij^2] = 0.5 beside the diagonal and 1 on it.

    >>> from eigenveil.postprocess.components import isotropic_noise
    >>> noise = isotropic_noise(1, 1, 0.5, 0.0)
    >>> found = variances_along(np.array([6.0]), np.array([1.0]), np.ones(1), noise, total=7.0, exact=True)
    >>> found.estimate.tolist()  # 6 - 2 * 0.5 / (6 - 1)
    [5.8]
    """
    k = values.size
    d = k + float(weights.sum())
    counts = np.concatenate([np.ones(k), weights])
    gaps = values[:, None] - np.concatenate([values, others])
    # An eigenvalue does not push itself, nor one that is equal to the last bit.
    with np.errstate(divide="ignore"):
        inverse = np.where(gaps == 0, 0.0, 1 / gaps)
    push = 2 * noise.cross * inverse * counts
    squares = 4 * noise.cross**2 * inverse**2 * counts
    room = (noise.cross * counts).sum(axis=1) - np.diag(noise.cross)
    # By free probability noise with an excess pushes 1/(1 - y)^2 times as far as Gaussian noise does, with
    # y = excess B^2/(4 sum n_ij^2). At the edge of the noise y is as large as it can be.
    largest = 2 * excess / (1 + 2 * excess + np.sqrt(1 + 8 * excess))

    def factor(pushed: FloatArray, times: float = 1.0) -> FloatArray:
        y = np.divide(excess * pushed**2, 4 * room, out=np.zeros_like(pushed), where=room > 0)
        return np.asarray(1 / (1 - np.minimum(times * y, largest)) ** 2)

    z = _Z if exact else _Z_APPROXIMATE
    if noise.draws is not None:
        z *= float(stdtrit(noise.draws, 0.975)) / 1.96  # a quantile of Student's distribution
    spare = 0.0 if exact else 1 / (d * (d + 1))  # the size of noise that is not Gaussian varies more

    # Each direction by itself. What pushes it away is on the side where more eigenvalues are.
    bias = push.sum(axis=1)
    after = np.arange(k + others.size) > np.arange(k)[:, None]
    side = np.where(np.arange(k) < d / 2, (push * after).sum(axis=1), (push * ~after).sum(axis=1))
    spread = np.sqrt(np.diag(noise.own) + squares.sum(axis=1) + spare * bias**2) * factor(side)
    near, far = bias * factor(side, 0.5), bias * factor(side, 2.0)
    if excess > 0:  # near the edge an eigenvalue may have been pushed as far as noise pushes any
        edges = np.sqrt(room / d) * edge_quantile(round(d), 1.0, excess)
        at_the_edge = excess * side**2 * 2 >= 4 * room * largest  # y is known to a factor of 2
        far = np.where(at_the_edge, np.sign(bias) * np.maximum(np.abs(far), edges), far)
    raised = values - noise.drift
    low = raised - np.maximum(near, far) - z * spread
    high = raised - np.minimum(near, far) + z * spread

    # The first so many together: they do not push one another.
    first = np.tri(k, dtype=bool).T  # (i, c): whether direction i is among the first c + 1
    beyond = _beyond(push, k) * first
    pushed = [(beyond * factor(beyond.T, times).T).sum(axis=0) for times in (0.5, 1.0, 2.0)]
    own = np.cumsum(np.cumsum(noise.own, axis=0), axis=1).diagonal()
    plain = beyond.sum(axis=0)
    growth = np.divide(pushed[1], plain, out=np.ones(k), where=plain > 0)
    total_spread = growth * np.sqrt(
        np.maximum(own, 0.0) + np.maximum((_beyond(squares, k) * first).sum(axis=0), 0.0) + spare * pushed[1] ** 2
    )
    together = np.cumsum(raised)
    most, surely = max(0.0, total), max(0.0, total + 3 * total_sd)
    ends = np.stack([together - pushed[2] - z * total_spread, together - pushed[0] + z * total_spread], axis=1)
    # Pooled where they would rise, as near ties do; the first take what they need of the total.
    totals = np.minimum(np.cumsum(decreasing(np.diff(together - pushed[1], prepend=0.0), None)), most)
    estimate = np.diff(totals, prepend=0.0)
    return ComponentVariances(
        estimate=estimate,
        interval=holding(np.stack([low, high], axis=1), estimate, (0.0, surely)),
        totals=totals,
        total_interval=holding(ends, totals, (0.0, surely)),
        kind=EXACT if exact and noise.draws is None else APPROXIMATE,
    )


def drawn_along(variances: FloatArray, reach: float) -> ComponentVariances:
    """Return variances that were released with independent Laplace noise on each, within `reach` in 95 of 100 times.

    Examples
    --------
    >>> drawn_along(np.array([3.0, 1.0]), 0.5).interval.tolist()
    [[2.5, 3.5], [0.5, 1.5]]
    """
    totals = np.cumsum(variances)
    sd = np.sqrt(2 * np.arange(1, variances.size + 1)) / np.log(20) * reach
    reaches = np.full(variances.size, reach), np.maximum(reach, 1.96 * sd)
    each, together = (
        np.stack([np.maximum(at - off, 0.0), at + off], axis=1)
        for at, off in zip((variances, totals), reaches, strict=True)
    )
    return ComponentVariances(variances, each, totals, together, APPROXIMATE)


def _beyond(terms: FloatArray, k: int) -> FloatArray:
    """Return entry (i, c): the sum of the terms of direction i with all directions beyond the first c + 1."""
    inside = np.cumsum(terms[:, :k], axis=1)
    return np.asarray(terms.sum(axis=1)[:, None] - inside)


@dataclass(frozen=True)
class Rest:
    """Eigenvalues that were not computed: how many, their mean and their variance, computed from the matrix."""

    count: int
    mean: float
    variance: float

    @classmethod
    def of(cls, matrix: FloatArray, values: FloatArray) -> "Rest | None":
        """Summarize the eigenvalues of a matrix that are not among `values`; None where all are known."""
        count = len(matrix) - len(values)
        if count == 0:
            return None
        mean = (float(np.trace(matrix)) - float(values.sum())) / count
        square = (float(np.sum(np.square(matrix))) - float(values @ values)) / count
        return cls(count, mean, max(0.0, square - mean**2))

    def mean_inverse_square(self, values: FloatArray) -> FloatArray:
        """Return the mean of 1/(value - l)^2 over the rest, as if it were the semicircle of noise; infinite inside."""
        z = values - self.mean
        outside = z > 2 * math.sqrt(self.variance)
        root = np.sqrt(np.where(outside, z**2 - 4 * self.variance, 1.0))
        return np.where(outside, 1 / np.where(outside, root * (z + root) / 2, 1.0), np.inf)


@dataclass(frozen=True, eq=False)
class LoadingErrors:
    """Errors of the directions of components, with one entry a component.

    Attributes
    ----------
    angle : ndarray of shape (k,)
        The angle to the true component that is to be expected, in degrees; 90 where it may be any.
    angle_bound : ndarray of shape (k,)
        What the angle stays below at the level asked for; 90 where the direction is not determined.
    undetermined : ndarray of bool, shape (k,)
        Whether the noise may have turned it into any direction: its eigenvalue is too near to another.
    standard_errors : ndarray of shape (k, d)
        Of the loadings; at most the root of what is left of 1.
    subspace_bound : float
        What the largest angle between the span of all k and that of the true ones stays below; ties among them do not
        matter to it. 90 where the noise may have turned it out altogether.
    """

    angle: FloatArray
    angle_bound: FloatArray
    undetermined: NDArray[np.bool_]
    standard_errors: FloatArray
    subspace_bound: float


def loading_errors(
    values: FloatArray,
    rows: FloatArray,
    k: int,
    error: MatrixError,
    *,
    level: float,
    sampled: float = 0.0,
    rest: Rest | None = None,
) -> LoadingErrors:
    """Return angles of the first k eigenvectors of M = A + N to those of A, with bounds, and errors of loadings.

    Parameters
    ----------
    values, rows : ndarray of shape (m,), (m, d)
        Eigenvalues of M, descending, and its eigenvectors as rows: all of them, or the largest, more than k.
    k : int
    error : MatrixError
    level : float
        Of the bounds.
    sampled : float
        As for `covariance_intervals`.
    rest : Rest, optional
        The eigenvalues that are not among `values`.

    Notes
    -----
    To first order the true component i is off by N_ij/(l_i - l_j) along the released direction j, so the squared
    tangent is a sum of w_j = var N_ij/(l_i - l_j)^2 times squares of normal numbers: its mean is the sum of w, and its
    upper quantile that of a chi-square of the same mean and variance, to which the error of l_i adds. For
    the largest eigenvalues over a bulk of noise this is the known limit, and no approximation for small noise.

    Two eigenvalues that are the same without noise come out farther apart than g with probability
    exp(-g^2/(8 var N_ij)): a component nearer than that to another, at the level asked for, may be any mix of them.

    Examples
    --------
    >>> from eigenveil.postprocess.entries import plain_error
    >>> errors = loading_errors(np.array([3.0, 1.0, 0.9]), np.eye(3), 3, plain_error(3, 0.01, level=0.95), level=0.95)
    >>> errors.angle.round(1), errors.undetermined
    (array([ 3.9, 90. , 90. ]), array([False,  True,  True]))
    """
    levers, (traces, own) = rows @ error.lever, error.traces_along(rows, k)
    both = np.outer(levers[:k], levers)
    across, along = traces + both, own + levers**2
    variances = error.beside * (along[:k, None] * along + across**2 - 2 * both**2) + error.shared * traces**2
    kept = np.maximum(values, 0.0)
    variances = np.maximum(variances, 0.0) + sampled * np.outer(kept[:k], kept)
    gaps = np.abs(values[:k, None] - values)
    itself = np.arange(k)
    gaps[itself, itself] = np.inf
    with np.errstate(divide="ignore"):
        w = variances / gaps**2
    nearest = 1 / (8 * math.log(1 / (1 - level)))
    tied = (w > nearest).any(axis=1)
    others = np.zeros(k)  # for each of the rest, as large as their mean
    if rest is not None:
        size = (float(error.sizes.sum()) - float(along.sum())) / rest.count
        others = rest.mean_inverse_square(values[:k]) * (
            error.beside * along[:k] * size + sampled * kept[:k] * max(rest.mean, 0.0)
        )
        tied |= ~(others <= nearest)
    missing = 0 if rest is None else rest.count
    # Of the span, what leaves it: the squared tangents add up to no less than the largest.
    leaving = w[:, k:].ravel()
    left, heavier = float(leaving.sum() + missing * others.sum()), (max(error.quantiles) / error.normal) ** 2
    spread = float(np.square(leaving).sum() + missing * np.square(others).sum()) + error.common_size * left**2 / 2
    bound_of_span = _upper(np.array(left), np.array(spread), level) * heavier if np.isfinite(left) else np.inf
    torn = bool((leaving > nearest).any() or (others > nearest).any() or not bound_of_span < 1)
    span = 90.0 if torn else float(np.degrees(np.arctan(np.sqrt(bound_of_span))))
    w, others = np.where(tied[:, None], 0.0, w), np.where(tied, 0.0, others)
    # The eigenvalue itself is off too, and with it all of its distances.
    own = variances[itself, itself] + sampled * kept[:k] ** 2
    apart = np.where(tied[:, None], np.inf, gaps)  # exact ties are 0 apart
    moved = (w / apart).sum(axis=1) + missing * others / np.maximum(values[:k] - values[-1], np.finfo(float).tiny)
    mean = w.sum(axis=1) + missing * others
    square = np.square(w).sum(axis=1) + missing * others**2 + 2 * own * moved**2 + error.common_size * mean**2 / 2
    bound = heavier * _upper(mean, square, level)
    lost = tied | (bound >= 1)
    turned = np.where(lost, 90.0, np.degrees(np.arctan(np.sqrt(mean))))
    farthest = np.where(lost, 90.0, np.degrees(np.arctan(np.sqrt(bound))))
    errors = np.sqrt(np.minimum(w @ rows**2 + others[:, None] * (1 - np.square(rows).sum(axis=0)), 1.0))
    errors[lost] = np.sqrt(np.maximum(1.0 - rows[:k][lost] ** 2, 0.0))
    return LoadingErrors(turned, farthest, lost, errors, span)


def largest_loading_error(values: FloatArray, rows: FloatArray, errors: LoadingErrors) -> Callable[[FloatArray], float]:
    """Return a function from an error of M to the largest error of a loading, in standard errors, to first order.

    Parameters
    ----------
    values, rows
        All eigenvalues and eigenvectors, as for `loading_errors`.
    errors : LoadingErrors
        Components that are not determined do not count.
    """
    known = np.flatnonzero(~errors.undetermined)
    gaps = values[known, None] - values
    gaps[np.arange(known.size), known] = np.inf
    deviations = np.maximum(errors.standard_errors[known], np.finfo(float).tiny)

    def largest(drawn: FloatArray) -> float:
        moved = (rows[known] @ drawn @ rows.T / gaps) @ rows
        return float(np.max(np.abs(moved) / deviations, initial=0.0))

    return largest


def _upper(mean: FloatArray, square: FloatArray, level: float) -> FloatArray:
    """Return the upper quantile of a chi-square number with this mean and half of this variance."""
    degrees = np.where(square > 0, mean**2 / np.maximum(square, np.finfo(float).tiny), 1.0)
    return np.where(mean > 0, mean / degrees * chdtri(degrees, 1 - level), 0.0)
