"""Second moments of noise in the basis of released directions: what variances along them need to know of its law.

docs/explanation/uncertainty.md derives every formula.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .shrinkage import SIMULATION_SEED, FloatArray

# Simulated noise is as many numbers in all, within these numbers of draws; a Student law makes up for few of them.
_NUMBERS, _FEWEST, _MOST = 4_000_000, 12, 100


@dataclass(frozen=True, eq=False)
class NoiseAlong:
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

    def scaled(self, factor: float) -> "NoiseAlong":
        """Return the moments of noise of so much of the variance."""
        return replace(self, cross=self.cross * factor, own=self.own * factor)

    def shifted(self, shift: FloatArray) -> "NoiseAlong":
        """Return the moments with a shift of all n_ii together, which is there or is not."""
        return replace(self, own=self.own + np.outer(shift, shift))

    def drifting(self, drift: FloatArray) -> "NoiseAlong":
        """Return the moments of noise with these means of n_ii."""
        return replace(self, drift=drift)

    def with_miscount(self, values: FloatArray, variance: float, with_own: FloatArray) -> "NoiseAlong":
        """Return the moments with what an error of the number of rows adds.

        Parameters
        ----------
        values : ndarray of shape (k,)
            The variances that are divided by too large a number.
        variance : float
            Of the relative error of that number.
        with_own : ndarray of shape (k,)
            Its covariances with the n_ii.
        """
        together = np.outer(values, with_own)
        return replace(self, own=self.own + np.outer(values, values) * variance - together - together.T)


def isotropic_noise(k: int, m: int, off_variance: float, shared_variance: float) -> NoiseAlong:
    """Return the moments of noise with the same law in every basis.

    Parameters
    ----------
    k, m : int
        Numbers of directions, and of others.
    off_variance : float
        E[n_ij^2] for i other than j; twice that is the variance of n_ii, but for
    shared_variance : float
        what any n_ii and n_jj have in common by the trace; below 0 where that is told sharply.
    """
    own = 2 * off_variance * np.eye(k) + shared_variance
    return NoiseAlong(np.full((k, k + m), off_variance), own, np.zeros(k))


def mapped_noise(leading: FloatArray, others: FloatArray, off_variance: float, shared_variance: float) -> NoiseAlong:
    """Return the moments of B N B', where N has the same law in every basis.

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
    return NoiseAlong(cross, own, np.zeros(len(leading)))


def trace_sizes(mapping: FloatArray | None, d: int) -> tuple[float, float]:
    """Return |B'B|^2 and tr B'B, which tell the variance of the trace of BNB'; both are d for the identity."""
    if mapping is None:
        return float(d), float(d)
    return float(np.square(mapping @ mapping.T).sum()), float(np.square(mapping).sum())


def simulation() -> np.random.Generator:
    """Return the generator of a simulation: the same release always gives the same answer."""
    return np.random.default_rng(SIMULATION_SEED)


def simulated_noise(rows: FloatArray, k: int, draw: Callable[[np.random.Generator], FloatArray]) -> NoiseAlong:
    """Return the moments of any noise by simulation.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
        All directions, or some that stand for all; the first k are those in question.
    k : int
    draw : callable
        Maps a generator to one noise matrix.
    """
    generator = simulation()
    draws = _draws(rows.shape[1])
    cross, own = np.zeros((k, len(rows))), np.empty((draws, k))
    for number in range(draws):
        noise = rows[:k] @ draw(generator) @ rows.T
        own[number] = np.diag(noise)
        cross += noise**2 / draws
    # The law is nearly symmetric: what is not is of second order, and drowns in the mean of few draws.
    return NoiseAlong(cross, own.T @ own / draws, np.zeros(k), draws)


def simulated_trace_sd(d: int, draw: Callable[[np.random.Generator], FloatArray]) -> float:
    """Return the standard deviation of the trace of any noise, d by d, by simulation."""
    generator = simulation()
    return float(np.std([np.trace(draw(generator)) for _ in range(_draws(d))]))


def _draws(d: int) -> int:
    return int(np.clip(_NUMBERS // d**2, _FEWEST, _MOST))
