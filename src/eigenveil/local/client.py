"""What runs on a client: a row in, the bytes of a private report out.

Imports NumPy, SciPy's special functions and the secure generator, and nothing of the server. A client keeps its
report and sends *the same bytes* again where the network failed: encoding a row twice spends epsilon twice.
"""

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InvalidDataError, own_words
from ..mechanisms.local.base import ByteArray
from ..moments.bound import RowBound
from ..numerics import FloatArray
from ..sampling.randomness import is_secure, secure_generator
from .protocol import LocalProtocol, mechanism_of
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
    payloads = mechanism_of(protocol).perturb(grid, ids, generator)
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
    bits = mechanism_of(protocol).row_bits
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
