"""Do chains of the Gibbs samplers agree: their traces, split R-hat and effective sample size."""

from dataclasses import dataclass

import numpy as np

from eigenveil.sampling.matrix_bingham import BlockKernel, default_updates, haar_orthogonal


@dataclass(frozen=True)
class Traces:
    """Statistics of several chains after each update, of shape (chains, updates); neither depends on the basis.

    Attributes
    ----------
    scores : ndarray
        tr VᵀBV.
    mean_norms : ndarray
        F_k(T) = ‖(1/T) Σ_{t≤T} V(t)‖_F/√k of Chaudhuri, Sarwate and Sinha (2013). It falls to 0 as soon as the columns
        rotate inside their span, whether or not that span has converged.
    """

    scores: np.ndarray
    mean_norms: np.ndarray


def block_traces(
    eigenvalues: np.ndarray, k: int, generator: np.random.Generator, chains: int, updates: int | None = None
) -> Traces:
    """Run chains of the block sampler from uniform starts; eigenvalues of B are descending."""
    gaps = eigenvalues[0] - eigenvalues
    kernel, states = BlockKernel(gaps, k), haar_orthogonal(chains, gaps.size, k, generator)
    updates = default_updates(gaps.size, k) if updates is None else updates
    scores, mean_norms, total = np.empty((chains, updates)), np.empty((chains, updates)), np.zeros_like(states)
    for step in range(updates):
        states = kernel.update(states, generator)
        scores[:, step] = k * eigenvalues[0] - np.square(states).sum(axis=2) @ gaps
        total += states
        mean_norms[:, step] = np.linalg.norm(total, axis=(1, 2)) / (k**0.5 * (step + 1))
    return Traces(scores, mean_norms)


def split_r_hat(traces: np.ndarray) -> float:
    """Return the split R-hat of chains, one in each row (Gelman et al. 2013, section 11.4).

    Each chain is cut in two halves; the result is the square root of the pooled variance over the variance
    within halves. It is near 1 if all halves look alike, and 1 by convention if nothing varies.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> settled = rng.standard_normal((4, 1000))
    >>> bool(split_r_hat(settled) < 1.01)
    True
    >>> bool(split_r_hat(settled + [[0], [0], [0], [3]]) > 1.5)
    True
    """
    within, pooled = _variances(_split(traces))
    if pooled == 0:
        return 1.0
    return float(np.sqrt(pooled / within)) if within > 0 else float("inf")


def effective_sample_size(traces: np.ndarray) -> float:
    """Return the effective sample size of chains, one in each row.

    The autocorrelation is estimated from all half chains together, so that chains that disagree count for
    little; its sum is cut at the first pair of neighbouring lags whose sum is negative (Geyer 1992).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> independent = rng.standard_normal((4, 1000))
    >>> bool(effective_sample_size(independent) > 3000)
    True
    >>> bool(effective_sample_size(np.repeat(independent, 10, axis=1)) < 5000)
    True
    """
    halves = _split(traces)
    chains, length = halves.shape
    within, pooled = _variances(halves)
    if pooled == 0:
        return float(halves.size)
    centred = halves - halves.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, n=2 * length, axis=1)
    covariances = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :length].mean(axis=0) / length
    correlations = 1.0 - (within - covariances * length / (length - 1)) / pooled
    correlations[0] = 1.0
    pairs = correlations[: length - length % 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    kept = pairs[: negative[0]] if negative.size else pairs
    # Positive pairs must fall with the lag for a reversible chain; noise that says otherwise is cut off.
    time = 2.0 * float(np.minimum.accumulate(kept).sum()) - 1.0
    return float(min(halves.size, chains * length / max(time, 1.0 / np.log10(halves.size + 10))))


def _split(traces: np.ndarray) -> np.ndarray:
    values = np.atleast_2d(np.asarray(traces, dtype=np.float64))
    if values.ndim != 2 or values.shape[1] < 4:
        raise ValueError("traces must be a table of chains with at least 4 values each.")
    half = values.shape[1] // 2
    # An odd chain loses its first value: the end matters more than the start.
    recent = values[:, -2 * half :]
    return np.concatenate([recent[:, :half], recent[:, half:]])


def _variances(halves: np.ndarray) -> tuple[float, float]:
    """Return the mean variance within chains, and the pooled variance that also sees their means differ."""
    length = halves.shape[1]
    within = float(halves.var(axis=1, ddof=1).mean())
    between = float(halves.mean(axis=1).var(ddof=1))
    return within, within * (length - 1) / length + between
