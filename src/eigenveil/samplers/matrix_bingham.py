"""Draws from the matrix Bingham law on orthonormal d × k matrices, density proportional to exp(tr VᵀBV)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from eigenveil.errors import integer_between, one_of
from eigenveil.samplers.bingham import FloatArray, bingham, check_generator, eigensystem
from eigenveil.samplers.diagnostics import ChainDiagnostics, effective_sample_size, split_r_hat
from eigenveil.samplers.gibbs import BlockKernel, Kernel, haar_orthogonal
from eigenveil.samplers.hoff import HoffKernel

HOFF_UPDATES = 20_000
"""The number of steps that Chaudhuri, Sarwate and Sinha (2013) run Hoff's sampler for."""


@dataclass(frozen=True)
class MatrixBinghamDraw:
    """One draw from the matrix Bingham law, and how it was made.

    Attributes
    ----------
    components : ndarray of shape (d, k)
        The draw, with orthonormal columns: the only field that a mechanism may release.
    method : str
        ``"exact"`` (no Markov chain: k = 1 or k = d), ``"block"`` or ``"hoff"``.
    updates : int
        The number of updates of each chain, 0 where the draw is exact.
    diagnostics : ChainDiagnostics or None
        Convergence diagnostics, if more than one chain was asked for and a chain was run. Private.
    """

    components: FloatArray
    method: str
    updates: int
    diagnostics: ChainDiagnostics | None

    @property
    def exact(self) -> bool:
        """Whether the draw is exact, not the state of a Markov chain."""
        return self.method == "exact"


def default_updates(d: int, k: int, method: str = "block") -> int:
    """Return the number of updates run by default, a function of d and k alone.

    For the block method it is 20 + ⌈16·log₂(1 + min(k, d − k))⌉: at least 1.8 times what chains from the
    uniform law needed to settle at any spectrum tried, up to a concentration of 1e12 (docs/explanation/samplers.md).

    Examples
    --------
    >>> default_updates(116, 4), default_updates(513, 8)
    (58, 71)
    """
    if method == "hoff":
        return HOFF_UPDATES
    return 20 + math.ceil(16 * math.log2(1 + min(k, d - k)))


def matrix_bingham(
    B: ArrayLike,
    k: int,
    generator: np.random.Generator,
    *,
    method: str = "block",
    chains: int = 1,
    updates: int | None = None,
    progress: bool = False,
) -> MatrixBinghamDraw:
    """Draw V with orthonormal columns from the density proportional to exp(tr VᵀBV).

    Parameters
    ----------
    B : array_like of shape (d, d) or (d,)
        A symmetric matrix, of any sign; or, in one dimension, the diagonal of one.
    k : int
        The number of columns, from 1 to d.
    generator : numpy.random.Generator
        The source of randomness.
    method : {"block", "hoff"}, default "block"
        Block Gibbs: an update redraws a whole column exactly, after a random rotation of the columns, then
        turns every pair of eigendirections by an exact angle. Or the sampler of Hoff (2009), where an update
        is a pass over all columns, coordinate by coordinate; kept to repeat published experiments.
    chains : int, default 1
        The number of chains. One is enough for a draw; the others only serve the diagnostics.
    updates : int, optional
        The number of updates of each chain, by default `default_updates`. It must not be chosen by looking at
        private data.
    progress : bool, default False
        Show a progress bar, if a terminal is attached.

    Returns
    -------
    MatrixBinghamDraw
        The draw is the last state of the first chain, whatever the diagnostics say: a choice among chains
        would depend on the data.

    Notes
    -----
    For k = 1 and k = d the draw is exact. Otherwise it is the state of a Markov chain after a fixed number of
    updates, started from the uniform law: its convergence is checked, not proved. A start that knows nothing
    of B errs on the side of privacy if it is left too early.

    Examples
    --------
    >>> import numpy as np
    >>> draw = matrix_bingham(np.diag([900.0, 800.0, 1.0, 0.0]), 2, np.random.default_rng(0))
    >>> draw.components.shape, draw.method, draw.updates
    ((4, 2), 'block', 46)
    >>> bool(np.linalg.norm(draw.components[:2]) > 1.3)  # √2 where the span is that of the first two axes
    True
    """
    check_generator(generator)
    one_of("method", method, ("block", "hoff"))
    chains = integer_between("chains", chains, 1)
    eigenvalues, basis = eigensystem(B)
    d = eigenvalues.size
    k = integer_between("k", k, 1, d)
    if updates is None:
        updates = default_updates(d, k, method)
    updates = integer_between("updates", updates, 1)
    if k == 1:
        return MatrixBinghamDraw(bingham(B, generator)[:, np.newaxis], "exact", 0, None)
    if k == d:
        # tr VᵀBV = tr B for every orthogonal V, so the law is uniform.
        return MatrixBinghamDraw(haar_orthogonal(1, d, d, generator)[0], "exact", 0, None)

    order = np.argsort(-eigenvalues, kind="stable")
    gaps = eigenvalues[order[0]] - eigenvalues[order]
    kernel: Kernel = BlockKernel(gaps, k) if method == "block" else HoffKernel(gaps, k)
    states = haar_orthogonal(chains, d, k, generator)
    traces, mean_norms = np.empty((chains, updates)), np.empty((chains, updates))
    running_sum = np.zeros_like(states)
    for step in _steps(updates, progress):
        states = kernel.update(states, generator)
        if chains > 1:
            traces[:, step] = k * eigenvalues[order[0]] - np.square(states).sum(axis=2) @ gaps
            running_sum += states
            mean_norms[:, step] = np.linalg.norm(running_sum, axis=(1, 2)) / (math.sqrt(k) * (step + 1))

    # One Newton-Schulz step takes the rounding of all updates out of the columns.
    states = states @ (1.5 * np.eye(k) - 0.5 * (states.mT @ states))
    if basis is None:
        embedded = np.empty_like(states)
        embedded[:, order] = states
    else:
        embedded = basis[:, order] @ states
    diagnostics = None
    if chains > 1:
        late = traces[:, updates // 2 :]
        long_enough = late.shape[1] >= 4
        diagnostics = ChainDiagnostics(
            traces,
            mean_norms,
            embedded,
            split_r_hat(late) if long_enough else math.nan,
            effective_sample_size(late) if long_enough else math.nan,
        )
    return MatrixBinghamDraw(embedded[0], method, updates, diagnostics)


def _steps(updates: int, progress: bool) -> Iterable[int]:
    """Count the updates, with a progress bar on the standard error if it was asked for and can be seen."""
    if not progress:
        return range(updates)
    from rich.console import Console  # which whoever asks for no bar does not wait for
    from rich.progress import track

    console = Console(stderr=True)
    if not console.is_terminal:
        return range(updates)
    return track(range(updates), description="Gibbs updates", console=console)
