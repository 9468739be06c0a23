"""What runs on a client: a row in, the bytes of a private report out.

Imports NumPy, SciPy's special functions and the secure generator, and nothing of the server. A client keeps its
report and sends *the same bytes* again where the network failed: encoding a row twice spends epsilon twice.
"""

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InvalidDataError, own_words
from ..mechanisms.local.base import ByteArray, Totals
from ..moments.bound import RowBound
from ..numerics import FloatArray
from ..releases.record import Release
from ..sampling.randomness import is_secure, secure_generator
from .protocol import LocalProtocol, law_of
from .server import components_request, released
from .wire import ID_BYTES, pack


def encode(protocol: LocalProtocol, row: ArrayLike, generator: np.random.Generator | None = None) -> bytes:
    """Return the private report of one row; every call spends the client's epsilon again.

    Parameters
    ----------
    protocol : LocalProtocol
    row : array_like of shape (n_features,)
    generator : numpy.random.Generator, optional
        The secure generator by default. Any other is for tests, and marks the report as not private.

    Examples
    --------
    >>> len(encode(LocalProtocol(3, epsilon=1.0), [0.1, 0.5, 0.2]))
    40
    """
    rows = _floats(row)
    if rows.ndim != 1:
        raise InvalidDataError("A client encodes one row, a one-dimensional list of numbers.")
    return encode_many(protocol, rows[None, :], generator)[0]


def encode_many(protocol: LocalProtocol, rows: ArrayLike, generator: np.random.Generator | None = None) -> list[bytes]:
    """Return one report for every row: the same as encoding them one by one, and faster."""
    generator = secure_generator() if generator is None else generator
    grid = on_grid(protocol, rows)
    ids = new_ids(len(grid), generator)
    payloads = law_of(protocol).perturb(grid, ids, generator)
    return pack(protocol.tag, not is_secure(generator), ids, payloads)


def new_ids(size: int, generator: np.random.Generator) -> ByteArray:
    """Return random identifiers; they know nothing of the rows."""
    return np.frombuffer(generator.bytes(ID_BYTES * size), dtype=np.uint8).reshape(size, ID_BYTES)


def on_grid(protocol: LocalProtocol, rows: ArrayLike) -> FloatArray:
    """Return the integer rows, of norm at most 2^bits, that rows become under the protocol."""
    values = _floats(rows)
    if values.ndim != 2 or values.shape[1] != protocol.n_features:
        raise InvalidDataError(f"A row of this protocol has {protocol.n_features} numbers; the row at hand does not.")
    if not np.isfinite(values).all():
        raise InvalidDataError("A row holds NaN or infinity; a client with such a row must not report it.")
    bits = law_of(protocol).row_bits
    if protocol.row_norms == "any":
        return RowBound(protocol.norm_bound, bits, protocol.shift, protocol.scale).quantize(values)
    centred = values * 0.5 if protocol.shift is None else values * 0.5 - np.asarray(protocol.shift) * 0.5
    if protocol.scale is not None:
        # Relative scales are enough for a direction, and cannot overflow.
        centred = centred * (np.asarray(protocol.scale) / max(protocol.scale))
    largest = np.abs(centred).max(axis=1, keepdims=True)
    centred = centred / np.where(largest > 0, largest, 1.0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    units = centred / np.where(lengths > 0, lengths, 1.0)
    return RowBound(1.0, bits).quantize(units)


@own_words
def _floats(rows: ArrayLike) -> FloatArray:
    try:
        return np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidDataError("A row must be a list of numbers.") from None


# Entries of a block of rows: large enough for BLAS, small enough to stay in memory a few times over.
_BLOCK_ENTRIES = 2**22


def simulate(
    protocol: LocalProtocol,
    rows: ArrayLike,
    generator: np.random.Generator | None = None,
    n_components: int | None = None,
) -> Release:
    """Return the release that the reports of all `rows` would lead to, without making every report.

    For the Gaussian laws the noise of all clients is drawn as one sum, of the same law; `double_cap` and `one_bit`
    play every client, many at once.

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
    request = components_request(n_components, protocol.n_features)
    return released(protocol, simulated_totals(protocol, np.asarray(rows), generator), request, simulated=True)


def simulated_totals(protocol: LocalProtocol, rows: FloatArray, generator: np.random.Generator) -> Totals:
    """Return totals of the law that the clients' reports give."""
    law, n_rows = law_of(protocol), len(rows)
    law.check_capacity(n_rows)
    seeded = not is_secure(generator)
    totals = Totals.empty(law.n_matrices, protocol.n_features)
    noise = law.noise_of_many(n_rows, generator) if n_rows else None
    step = max(1, _BLOCK_ENTRIES // protocol.n_features)
    for start in range(0, n_rows, step):
        grid = on_grid(protocol, rows[start : start + step])
        n = len(grid)
        if noise is None:
            ids = new_ids(n, generator)
            totals += law.totals_of(law.perturb(grid, ids, generator), ids, n * seeded)
        else:
            # Exact in float64: integers below 2^53.
            totals += Totals((grid.T @ grid).astype(np.int64)[None], 0, n, n * seeded)
    return totals if noise is None else totals + Totals(noise[None], 0, 0, 0)
