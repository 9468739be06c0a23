"""All clients of a collection played at once, for research and planning."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..mechanisms.local.base import Totals
from ..releases.record import Release
from ..sampling.randomness import check_generator, is_secure, secure_generator
from .client import check_width, entries_of, new_ids, on_grid
from .protocol import LocalProtocol, check_protocol, mechanism_of
from .server import components_request, released

# Entries of a block of rows: large enough for BLAS, small enough to stay in memory a few times over.
_BLOCK_ENTRIES = 2**22


def simulate(
    protocol: LocalProtocol,
    rows: ArrayLike,
    generator: np.random.Generator | None = None,
    n_components: int | None = None,
) -> Release:
    """Return the release that the reports of all `rows` would lead to, without making every report.

    For the Gaussian mechanisms the noise of all clients is drawn as one sum, of the same distribution; `double_cap` and
    `one_bit` play every client, many at once.

    Parameters
    ----------
    protocol : LocalProtocol
    rows : array_like of shape (n, n_features)
        One row a client. Whoever runs this sees all of them, which is what the local model is there to avoid.
    generator : numpy.random.Generator, optional
        The secure generator by default; any other marks the release as not private.
    n_components : int, optional

    Examples
    --------
    >>> rows = np.tile([0.6, 0.8, 0.0], (2000, 1))
    >>> release = simulate(LocalProtocol(3, epsilon=8.0), rows, n_components=1)
    >>> bool(abs(release.components[0] @ rows[0]) > 0.99)
    True
    """
    generator = secure_generator() if generator is None else generator
    check_protocol(protocol)
    check_generator(generator)
    request = components_request(n_components, protocol.n_features)
    entries = entries_of(rows)
    check_width(protocol, entries)
    return released(protocol, simulated_totals(protocol, entries, generator), request, simulated=True)


def simulated_totals(protocol: LocalProtocol, rows: NDArray[Any], generator: np.random.Generator) -> Totals:
    """Return totals of the distribution that the clients' reports give."""
    mechanism, n_rows = mechanism_of(protocol), len(rows)
    mechanism.check_capacity(n_rows)
    seeded = not is_secure(generator)
    totals = Totals.empty(mechanism.n_matrices, protocol.n_features)
    noise = mechanism.noise_of_many(n_rows, generator) if n_rows else None
    step = max(1, _BLOCK_ENTRIES // protocol.n_features)
    for start in range(0, n_rows, step):
        grid = on_grid(protocol, rows[start : start + step])
        n = len(grid)
        if noise is None:
            ids = new_ids(n, generator)
            totals += mechanism.totals_of(mechanism.perturb(grid, ids, generator), ids, n * seeded)
        else:
            # Exact in float64: integers below 2^53.
            totals += Totals((grid.T @ grid).astype(np.int64)[None], 0, n, n * seeded)
    return totals if noise is None else totals + Totals(noise[None], 0, 0, 0)
