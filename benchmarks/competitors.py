"""Published competitors in plain NumPy, for `frontier.py` only: floats, seeded, and generous wherever a paper is loose.

All of them see the rows as a `Table` of `frontier_tables.py` and spend a `Budget` under the adjacency "replace_one":
one row of norm at most r becomes another, so that D = xx' - yy' has Frobenius norm at most sqrt(2) r^2, operator norm
at most r^2 and trace in [-r^2, r^2]. Where the papers count loosely (add one row and double, Renyi or zCDP conversions,
the same noise on the diagonal and off it), they get the tight constant. `Budget` holds the accounting:

- delta > 0: every part is a Gaussian mechanism, and the mu of Gaussian differential privacy (Dong, Roth and Su 2022)
  add up in squares, also adaptively; mu is the exact solution of
  Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) = delta (Balle and Wang 2018).
- delta = 0: Laplace noise, and the epsilons add up.

What an analyst could not know (a clip radius, the number of steps, a step size, how to split the budget, the first
eigenvalue) is an argument that `frontier.py` chooses by looking at the true error, free of charge.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

FloatArray = np.ndarray


@lru_cache
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu of which Gaussian differential privacy implies (epsilon, delta)."""

    def excess(mu: float) -> float:
        near, far = log_ndtr(mu / 2 - epsilon / mu), log_ndtr(-mu / 2 - epsilon / mu)
        return float(np.exp(near) - np.exp(epsilon + far) - delta)

    return float(brentq(excess, 1e-6, 50.0, xtol=1e-12))


@dataclass(frozen=True)
class Budget:
    """What may be spent, and the noise that a share of it buys."""

    epsilon: float
    delta: float
    share: float = 1.0

    def part(self, share: float) -> "Budget":
        """Return a part: shares add up to 1, of mu squared or of epsilon."""
        return replace(self, share=self.share * share)

    @cached_property
    def strength(self) -> float:
        """The mu of this part, or its epsilon where delta is 0."""
        if self.delta == 0:
            return self.epsilon * self.share
        return gaussian_mu(self.epsilon, self.delta) * self.share**0.5

    def matrix_noise(self, d: int, radius: float, rng: np.random.Generator) -> FloatArray:
        """Return noise for the sum of xx'.

        Gaussian: sd s on the diagonal and s/sqrt(2) off it is isotropic in the Frobenius norm, whose sensitivity is
        sqrt(2) r^2. Laplace: the upper triangle has l1 sensitivity sqrt(d (d + 3) / 2) r^2.
        """
        if self.delta > 0:
            noise = rng.standard_normal((d, d))
            noise += noise.T.copy()
            noise *= 2**0.5 * radius**2 / self.strength / 2
            return noise
        upper = np.triu(rng.laplace(0.0, self.laplace_scale(d, radius), (d, d)))
        return upper + np.triu(upper, 1).T

    def laplace_scale(self, d: int, radius: float) -> float:
        """Return the scale of Laplace noise on the upper triangle."""
        return radius**2 * (d * (d + 3) / 2) ** 0.5 / self.strength

    def matrix_error(self, d: int, radius: float) -> float:
        """Return the expected Frobenius norm of `matrix_noise`, nearly."""
        if self.delta > 0:
            return 2**0.5 * radius**2 / self.strength * (d * (d + 1) / 2) ** 0.5
        return self.laplace_scale(d, radius) * 2**0.5 * d

    def noise(self, size: int | tuple[int, ...], l2: float, l1: float, rng: np.random.Generator) -> FloatArray:
        """Return noise for a query of these sensitivities."""
        if self.delta > 0:
            return rng.normal(0.0, l2 / self.strength, size)
        return rng.laplace(0.0, l1 / self.strength, size)


def additive(table: Any, budget: Budget, rng: np.random.Generator, radius: float) -> FloatArray:
    """Analyze Gauss (Dwork, Talwar, Thakurta and Zhang 2014), or with delta = 0 Laplace noise: one noisy matrix."""
    return table.sums(radius) + budget.matrix_noise(table.d, radius, rng)


def clipped_spectrum(matrix: FloatArray, largest: float) -> FloatArray:
    """Return the matrix with eigenvalues brought into [0, largest], as Dong et al. do to all of theirs."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.clip(values, 0.0, largest)) @ vectors.T


def separate_cov(
    table: Any, budget: Budget, rng: np.random.Generator, radius: float, share: float = 0.5
) -> tuple[FloatArray, FloatArray]:
    """SeparateCov (Dong, Liang and Yi 2022): eigenvectors of a noisy matrix, eigenvalues measured apart.

    The eigenvalues of neighbours differ by at most sqrt(2) r^2 in l2 and 2 r^2 in l1 (Hoffman and Wielandt; Lidskii).
    The paper halves the budget; here `share` goes to the eigenvectors. Returns values and vectors as columns.
    """
    noisy = table.sums(radius) + budget.part(share).matrix_noise(table.d, radius, rng)
    vectors = np.linalg.eigh(noisy)[1][:, ::-1]
    noise = budget.part(1 - share).noise(table.d, 2**0.5 * radius**2, 2 * radius**2, rng)
    values = np.clip(table.spectrum(radius) + noise, 0.0, table.n * radius**2)
    return values, vectors


def adaptive_cov(
    table: Any,
    budget: Budget,
    rng: np.random.Generator,
    preparing: float = 0.25,
    slack: float = 1.0,
) -> FloatArray:
    """AdaptiveCov (Dong, Liang and Yi 2022): a private clip radius, then the better of GaussCov and SeparateCov.

    Half of `preparing` buys the trace (sensitivity R^2, R the public bound), half the sparse vector technique on the
    clipped mass sum (|x|^2 - r^2)+ / R^2, which one row moves by at most 1 and for all r the same way, so noise of
    scale 2/eps on threshold and queries is enough. For delta > 0 its eps is charged as a mu of the same size, which
    is less than any valid composition would charge. It stops where the mass exceeds the smaller of the two errors
    expected, in place of the paper's tail bounds; `slack` multiplies them.
    """
    top, main = float(table.norms.max()), budget.part(1 - preparing)
    half = budget.part(preparing / 2)
    trace = max(table.trace + float(half.noise(1, top**2, top**2, rng)[0]), 1e-16)

    def expected(radius: float) -> tuple[float, float]:
        d, strength = table.d, main.strength
        if budget.delta > 0:
            rho, spread = strength**2 / 2, 2 * d**0.5
            separate = 2**1.25 * radius * trace**0.5 / rho**0.25 * spread**0.5 / 6
            separate += 2**0.5 * radius**2 * (d / rho) ** 0.5
        else:
            spread = 2 * (2 * d) ** 0.5
            separate = radius * (8 * 2**0.5 * d * trace / strength * spread) ** 0.5 / 14
            separate += 4 * radius**2 * (2 * d) ** 0.5 / strength
        return slack * main.matrix_error(d, radius), slack * separate

    threshold = rng.laplace(0.0, 2 / half.strength)
    radius = top
    for step in range(1, 60):
        candidate = top * 2.0**-step
        mass = np.maximum(table.norms**2 - candidate**2, 0.0).sum()
        above = (mass - min(expected(candidate))) / top**2
        if above + rng.laplace(0.0, 2 / half.strength) >= threshold:
            break
        radius = candidate
    whole, separate = expected(radius)
    if whole <= separate:
        return clipped_spectrum(additive(table, main, rng, radius), table.n * radius**2)
    values, vectors = separate_cov(table, main, rng, radius)
    return (vectors * values) @ vectors.T


def coinpress(table: Any, budget: Budget, rng: np.random.Generator, steps: int = 2, factor: float = 1.0) -> FloatArray:
    """CoinPress (Biswas, Dong, Kamath and Ullman 2020): clip in the metric of the last estimate, and estimate again.

    It starts from the oracle's bound, the first true eigenvalue. Rows are clipped where a Gaussian row of the assumed
    covariance rarely is, times `factor`. Three quarters of mu squared go to the last step, the rest evenly to the
    others; each step is a Gaussian mechanism of sensitivity sqrt(2) times the squared radius. There is no pure form.
    """
    n, d = table.n, table.d
    tail = np.log(10.0)
    radius = factor * (d + 2 * (d * tail) ** 0.5 + 2 * tail) ** 0.5
    room = (d / n) ** 0.5 + d / n / 2
    scale = table.first_eigenvalue**0.5
    transform = np.eye(d) / scale
    shares = [0.25 / (steps - 1)] * (steps - 1) + [0.75] if steps > 1 else [1.0]
    for step, share in enumerate(shares):
        # The first metric is that of the rows, whose sums are kept.
        sums = table.transformed_sums(transform, radius) if step else table.sums(radius * scale) / scale**2
        noisy = sums + budget.part(share).matrix_noise(d, radius, rng)
        values, vectors = np.linalg.eigh(noisy / n)
        values = np.maximum(values, 0.0)
        estimate, used = (vectors * values) @ vectors.T, transform
        transform = (vectors * (values + room) ** -0.5) @ vectors.T @ transform
    back = np.linalg.inv(used)
    return n * back @ estimate @ back.T


def power_method(
    table: Any, budget: Budget, rng: np.random.Generator, k: int, radius: float, steps: int = 3
) -> FloatArray:
    """Noisy power method (Hardt and Price 2014): V becomes an orthonormal basis of CV + noise, `steps` times.

    For orthonormal V the change DV has Frobenius norm at most r^2 for one column and sqrt(2) r^2 for more; the mu
    squared of the steps add up, adaptively. The paper's bound by the largest entry of V is for entrywise neighbours.
    """
    bound = (1.0 if k == 1 else 2**0.5) * radius**2
    part = budget.part(1 / steps)
    basis = np.linalg.qr(rng.standard_normal((table.d, k)))[0]
    for _ in range(steps):
        basis = np.linalg.qr(table.sums_times(basis, radius) + part.noise((table.d, k), bound, np.nan, rng))[0]
    return basis.T


def oja(
    table: Any,
    budget: Budget,
    rng: np.random.Generator,
    k: int,
    radius: float,
    batches: int = 5,
    step: float = 2.0,
    decay: float = 1.0,
) -> FloatArray:
    """DP-Oja (Liu, Kong, Jain and Oh 2022), by disjoint batches: V + eta (C_b V + noise) made orthonormal, one pass.

    The paper clips gradients, takes one row a step and counts on shuffling, which holds for small epsilon only. Here
    the batches are public and disjoint, so a row is in one of them, each step has all of mu (parallel composition),
    and rows are clipped, which bounds the gradients as in `power_method`. The step is `step` over the oracle's first
    eigenvalue, and falls as 1/(1 + decay t). Several columns at once are ours; the paper has one.
    """
    bound = (1.0 if k == 1 else 2**0.5) * radius**2
    basis = np.linalg.qr(rng.standard_normal((table.d, k)))[0]
    for t in range(batches):
        noise = budget.noise((table.d, k), bound, np.nan, rng)
        gradient, rows = table.batch_times(basis, radius, t, batches)
        rate = step / table.first_eigenvalue / (1 + decay * t)
        basis = np.linalg.qr(basis + rate * (gradient + noise) / rows)[0]
    return basis.T
