"""What the bounds share: two validators, and how large Gaussian and Wishart matrices get."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidParameterError, integer_between, one_of, positive_number, probability_below_one
from ..guarantee import Adjacency
from ..mechanisms.additive import AdditiveMechanism
from ..mechanisms.matrix_laplace import MatrixLaplace
from ..mechanisms.table import MECHANISMS
from ..numerics import FloatArray


def power_law(n_features: int, exponent: float = 1.0) -> FloatArray:
    """Return eigenvalues proportional to 1, 2^-exponent, 3^-exponent, ..., with sum 1.

    Examples
    --------
    >>> power_law(3, 1.0).round(3)
    array([0.545, 0.273, 0.182])
    """
    d = integer_between("n_features", n_features, 1)
    values = np.arange(1, d + 1) ** -positive_number("exponent", exponent)
    return np.asarray(values / values.sum())


def open_unit(name: str, value: object) -> float:
    """Return `value` as a float if it lies strictly between 0 and 1."""
    return positive_number(name, probability_below_one(name, value))


def gap_below(gap: object, top_eigenvalue: object = 1.0) -> tuple[float, float]:
    """Return the gap and the top eigenvalue of A, which rows of norm at most 1 keep in gap <= top <= 1."""
    width, top = positive_number("gap", gap), positive_number("top_eigenvalue", top_eigenvalue)
    if width > top or top > 1:
        raise InvalidParameterError(
            "gap must be at most top_eigenvalue, and top_eigenvalue at most 1; scale the rows to norm 1."
        )
    return width, top


def largest_singular(rows: int, columns: int, t: float) -> float:
    """Return a bound that the largest singular value of a standard Gaussian matrix passes with chance exp(-t^2/2).

    sqrt(rows) + sqrt(columns) + t (Davidson and Szarek 2001, Theorem II.13). Of a vector it is the length, which
    is 1-Lipschitz with mean at most sqrt(length), so that the square root of 1 is left out.
    """
    if min(rows, columns) == 1:
        return math.sqrt(max(rows, columns)) + t
    return math.sqrt(rows) + math.sqrt(columns) + t


def smallest_singular(rows: int, columns: int, t: float) -> float:
    """Return a bound that the smallest singular value falls below with chance exp(-t^2/2) (same theorem), or 0."""
    low, high = sorted((rows, columns))
    return max(0.0, math.sqrt(high) - math.sqrt(low) - t)


def tail(events: int, failure_probability: float) -> float:
    """Return the t at which `events` bounds with chance exp(-t^2/2) each fail together at most that often."""
    return math.sqrt(2 * math.log(events / failure_probability))


_GAUSSIAN = ("gaussian", "mod_sulq")
_BOUNDED = ("matrix_laplace", *_GAUSSIAN)


@dataclass(frozen=True)
class NoiseBlocks:
    """Sizes that the blocks of the noise pass together with a stated small probability only.

    Parameters
    ----------
    closing : float
        Bounds lambda_max(Q) - lambda_min(P): what the noise takes from the gap.
    turning : float
        Bounds |R|: what turns the subspace.
    """

    closing: float
    turning: float

    def squared_sine(self, gap: float) -> float:
        """Return a bound on sin^2 of the largest angle, at a gap in units of the noise; 1 if nothing is known."""
        left = gap - self.closing
        if left <= 0:
            return 1.0
        ratio = 2 * self.turning / left  # tan of twice the angle
        return ratio**2 / (2 * math.hypot(1, ratio) * (1 + math.hypot(1, ratio)))

    def gap_for(self, correlation: float) -> float:
        """Return the gap, in units of the noise, from which the cosine of the largest angle is `correlation`."""
        doubled = max(0.0, 2 * correlation**2 - 1)  # cos of twice the angle; below 45 degrees all is won together
        return self.closing + self.turning * doubled / (correlation * math.sqrt(1 - correlation**2))


def gaussian_blocks(beside: float, n_features: int, n_components: int, t: float) -> NoiseBlocks:
    """Return the sizes that Gaussian noise passes with probability 2 exp(-t^2/2) at most.

    `beside` is the standard deviation beside the diagonal; on it, it may be at most sqrt(2) times that.
    """
    k, rest = n_components, n_features - n_components
    edge = sum(2 * math.sqrt(side) for side in (k, rest) if side > 1)
    return NoiseBlocks(beside * (edge + 2 * t), beside * largest_singular(rest, k, t))


def matrix_laplace_blocks(scale: float, n_features: int, n_components: int, t: float) -> NoiseBlocks:
    """Return the sizes that W1 - W2, each Wishart(d + 1, scale I), passes with probability 5 exp(-t^2/2) at most.

    A balanced difference of scale c is the sum of two such differences with scale c, though not independent ones, so it
    passes the sizes for 2c with probability 10 exp(-t^2/2) at most.
    """
    k, rest, degrees = n_components, n_features - n_components, n_features + 1
    upper = largest_singular(rest, degrees, t) ** 2
    lower = largest_singular(k, degrees, t) ** 2 - smallest_singular(k, degrees, t) ** 2
    turning = largest_singular(rest, k, t) * largest_singular(k, 2 * degrees, t)
    return NoiseBlocks(scale * (upper + lower), scale * turning)


def _blocks(mechanism: str, failure_probability: float, n_components: int, parameters: dict[str, Any]) -> NoiseBlocks:
    name = one_of("mechanism", mechanism, _BOUNDED)
    eta = open_unit("failure_probability", failure_probability)
    d = integer_between("n_features", parameters["n_features"], 2)
    k = integer_between("n_components", n_components, 1, d - 1)
    noise = MECHANISMS[name](**parameters)
    assert isinstance(noise, AdditiveMechanism)
    if name in _GAUSSIAN:
        return gaussian_blocks(noise.off_diagonal_sd, d, k, tail(2, eta))
    assert isinstance(noise, MatrixLaplace)
    if noise.balanced:
        return matrix_laplace_blocks(2 * noise.noise_scale(), d, k, tail(10, eta))
    return matrix_laplace_blocks(noise.noise_scale(), d, k, tail(5, eta))


def sample_size(
    mechanism: str,
    *,
    n_features: int,
    epsilon: float,
    gap: float,
    correlation: float,
    failure_probability: float,
    delta: float = 0.0,
    n_components: int = 1,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
) -> float:
    """Return a number of rows with which a mechanism reaches the correlation, proved with all constants.

    On every data set of that many rows, with norm at most 1 and `gap` between eigenvalues k and k + 1 of A = C/n, all
    principal angles between the released and the true top-k subspace have a cosine of at least `correlation`,
    with probability 1 - eta. For k = 1 that is |<v, v1>|, the correlation of the papers.

    Parameters
    ----------
    mechanism : {"matrix_laplace", "gaussian", "mod_sulq"}
        Pure, or with a `delta`.
    n_features, epsilon, delta, adjacency
        As for the mechanism.
    gap : float
        Eigenvalue k less eigenvalue k + 1 of A.
    correlation : float
        What to reach, between 0 and 1. Below sqrt(1/2) it costs no less than there.
    failure_probability : float
        Probability eta of failing, over the noise alone.
    n_components : int
        Dimension k of the subspace.

    Examples
    --------
    >>> setting = {"n_features": 100, "epsilon": 1.0, "gap": 0.1, "correlation": 0.9, "failure_probability": 0.05}
    >>> round(sample_size("matrix_laplace", **setting))
    10488
    >>> round(sample_size("gaussian", delta=1e-6, **setting))
    1917
    """
    parameters = {"n_features": n_features, "epsilon": epsilon, "delta": delta, "adjacency": adjacency}
    gap, rho = gap_below(gap)[0], open_unit("correlation", correlation)
    return _blocks(mechanism, failure_probability, n_components, parameters).gap_for(rho) / gap


def guaranteed_correlation(
    mechanism: str,
    *,
    n_rows: float,
    n_features: int,
    epsilon: float,
    gap: float,
    failure_probability: float,
    delta: float = 0.0,
    n_components: int = 1,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
) -> float:
    """Return the correlation that `sample_size` guarantees for `n_rows` rows; 0 where it guarantees nothing.

    Examples
    --------
    >>> setting = {"n_features": 100, "epsilon": 1.0, "gap": 0.1, "failure_probability": 0.05}
    >>> round(guaranteed_correlation("matrix_laplace", n_rows=20_000, **setting), 4)
    0.9858
    """
    parameters = {"n_features": n_features, "epsilon": epsilon, "delta": delta, "adjacency": adjacency}
    total_gap = positive_number("n_rows", n_rows) * gap_below(gap)[0]
    return math.sqrt(1 - _blocks(mechanism, failure_probability, n_components, parameters).squared_sine(total_gap))


@dataclass(frozen=True)
class ExpectedLoss:
    """The first-order expected loss of a mechanism, and how far to trust it.

    Parameters
    ----------
    loss : float
        Expected qF(V_k) - qF(V): the variance that the released directions miss.
    ratio : float
        Size of the noise in units of the gap. The formula is the limit for a small ratio; up to 1/2, simulation
        agrees to a fifth (docs/research/theory.md).
    """

    loss: float
    ratio: float


def expected_loss(
    mechanism: str,
    *,
    eigenvalues: Sequence[float],
    n_components: int,
    n_rows: float,
    epsilon: float,
    delta: float = 0.0,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
) -> ExpectedLoss:
    """Return the expected loss of captured variance to first order.

    Additive noise of standard deviation tau beside the diagonal of A: sum over i <= k < j of
    tau^2/(lambda_i - lambda_j). Sampled directions, with factor s of C in the exponent (epsilon/2 for PPCA under
    replace): k(d - k)/(2 n s).
    For independent entries (`laplace`, `mod_sulq`) in other bases than their own the first is an upper bound.

    Parameters
    ----------
    mechanism : str
        A mechanism that adds noise or samples directions; baselines have no formula.
    eigenvalues : sequence of float
        All of A = C/n.
    n_components, n_rows, epsilon, delta, adjacency
        As for a release.

    Examples
    --------
    >>> setting = {"eigenvalues": [0.5, 0.3, 0.1, 0.1], "n_components": 2, "n_rows": 1000, "epsilon": 1.0}
    >>> expected_loss("ppca", **setting).loss
    0.004
    >>> expected_loss("matrix_laplace", **setting)
    ExpectedLoss(loss=0.00013..., ratio=0.05...)
    """
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1]
    d, n = values.size, positive_number("n_rows", n_rows)
    k = integer_between("n_components", n_components, 1, d - 1)
    if not (np.isfinite(values).all() and values[k - 1] > values[k]):
        raise InvalidParameterError("eigenvalues must be finite, with a gap between number k and k + 1.")
    kind = MECHANISMS[one_of("mechanism", mechanism, tuple(MECHANISMS))]
    made = kind(epsilon=epsilon, delta=delta, n_features=d, n_components=k, adjacency=adjacency)
    known = made.first_order_loss(values, n)
    if known is None:
        raise InvalidParameterError(f"{mechanism} has no formula for its expected loss; choose ppca or additive noise.")
    return ExpectedLoss(*known)
