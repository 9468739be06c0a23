"""All clients of a collection played at once, for research and planning."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..randomness import is_secure, secure_generator
from ..release import Release
from .client import new_ids, on_grid
from .estimate import released
from .gaussian import UpperTriangleNoise
from .mechanism import FloatArray, Totals

if TYPE_CHECKING:
    from .protocol import LocalProtocol

# Entries of a block of rows: large enough for BLAS, small enough to stay in memory a few times over.
_BLOCK_ENTRIES = 2**22


def simulate(
    protocol: "LocalProtocol",
    rows: ArrayLike,
    generator: np.random.Generator | None = None,
    n_components: int | None = None,
) -> Release:
    """Return the release that the reports of all `rows` would lead to, without making every report.

    For the Gaussian mechanisms the noise of all clients is drawn as one sum, of the same law; `double_cap` and
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
    >>> from eigenveil.local import LocalProtocol
    >>> rows = np.tile([0.6, 0.8, 0.0], (2000, 1))
    >>> release = simulate(LocalProtocol(3, epsilon=8.0), rows, n_components=1)
    >>> bool(abs(release.components[0] @ rows[0]) > 0.99)
    True
    """
    generator = secure_generator() if generator is None else generator
    totals = simulated_totals(protocol, np.asarray(rows), generator)
    return released(protocol, totals, n_components, simulated=True)


def simulated_totals(protocol: "LocalProtocol", rows: FloatArray, generator: np.random.Generator) -> Totals:
    """Return totals of the law that the clients' reports give."""
    law = protocol.law
    law.check_capacity(len(rows))
    seeded = not is_secure(generator)
    totals = Totals.empty(law.n_matrices, protocol.n_features)
    step = max(1, _BLOCK_ENTRIES // protocol.n_features)
    for start in range(0, len(rows), step):
        grid = on_grid(protocol, rows[start : start + step])
        n = len(grid)
        if isinstance(law, UpperTriangleNoise):
            # Exact in float64: integers below 2^53.
            block = Totals((grid.T @ grid).astype(np.int64)[None], 0, n, n * seeded)
        else:
            ids = new_ids(n, generator)
            block = law.totals_of(law.perturb(grid, ids, generator), ids, n * seeded)
        totals = totals + block
    if isinstance(law, UpperTriangleNoise) and len(rows):
        noise = law.symmetric(law.noise(len(rows), generator))
        totals = Totals(totals.sums + noise, totals.ones, totals.n_reports, totals.n_seeded)
    return totals
