"""What runs on a client: a row in, the bytes of a private report out.

Imports NumPy, SciPy's special functions and the secure generator, and nothing of the server. A client keeps its
report and sends *the same bytes* again where the network failed: encoding a row twice spends epsilon twice.

A client that does not report reveals that its row is unusual. So a row with something that is no finite number is
reported as the zero row; only its width, which is public, is checked.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidDataError, own_words
from ..mechanisms.local.base import ByteArray
from ..moments.bound import RowBound
from ..numerics import FloatArray
from ..sampling.randomness import check_generator, is_secure, secure_generator
from .protocol import ID_BYTES, LocalProtocol, check_protocol, mechanism_of, pack

# Kinds of NumPy's types.
_NUMBERS, _TIMES = "fiub", "mM"


def encode(protocol: LocalProtocol, row: ArrayLike, generator: np.random.Generator | None = None) -> bytes:
    """Return the private report of one row; every call spends the client's epsilon again.

    Parameters
    ----------
    protocol : LocalProtocol
    row : array_like of shape (n_features,)
        A row with NaN, infinity, text that is no number, or anything else that is none, is encoded as the zero row.
    generator : numpy.random.Generator, optional
        The secure generator by default. Any other is for tests, and marks the report as not private.

    Examples
    --------
    >>> len(encode(LocalProtocol(3, epsilon=1.0), [0.1, 0.5, 0.2]))
    40
    """
    entries = entries_of(row)
    if entries.ndim != 1:
        raise InvalidDataError("A client encodes one row, a one-dimensional list of numbers.")
    return encode_many(protocol, entries[None, :], generator)[0]


def encode_many(protocol: LocalProtocol, rows: ArrayLike, generator: np.random.Generator | None = None) -> list[bytes]:
    """Return one report for every row: the same as encoding them one by one, and faster."""
    check_protocol(protocol)
    generator = secure_generator() if generator is None else generator
    check_generator(generator)
    grid = on_grid(protocol, rows)
    ids = new_ids(len(grid), generator)
    payloads = mechanism_of(protocol).perturb(grid, ids, generator)
    return pack(protocol.tag, not is_secure(generator), ids, payloads)


def new_ids(size: int, generator: np.random.Generator) -> ByteArray:
    """Return random identifiers; they know nothing of the rows."""
    return np.frombuffer(generator.bytes(ID_BYTES * size), dtype=np.uint8).reshape(size, ID_BYTES)


def on_grid(protocol: LocalProtocol, rows: ArrayLike) -> FloatArray:
    """Return the integer rows, of norm at most 2^bits, that rows become under the protocol.

    Rows that are not all finite numbers become zero.
    """
    entries = entries_of(rows)
    check_width(protocol, entries)
    values = _numbers(entries)
    valid = np.asarray(np.isfinite(values).all(axis=1))
    values = np.where(valid[:, None], values, 0.0)
    bits = mechanism_of(protocol).row_bits
    if protocol.row_norms == "any":
        grid = RowBound(protocol.norm_bound, bits, protocol.shift, protocol.scale).quantize(values)
    else:
        centred = values * 0.5 if protocol.shift is None else values * 0.5 - np.asarray(protocol.shift) * 0.5
        if protocol.scale is not None:
            # Relative scales are enough for a direction, and cannot overflow.
            centred = centred * (np.asarray(protocol.scale) / max(protocol.scale))
        largest = np.abs(centred).max(axis=1, keepdims=True)
        centred = centred / np.where(largest > 0, largest, 1.0)
        lengths = np.linalg.norm(centred, axis=1, keepdims=True)
        grid = RowBound(1.0, bits).quantize(centred / np.where(lengths > 0, lengths, 1.0))
    grid[~valid] = 0.0
    return grid


def check_width(protocol: LocalProtocol, entries: NDArray[Any]) -> None:
    """Raise unless there are rows of the width that the protocol says."""
    if entries.ndim != 2 or entries.shape[1] != protocol.n_features:
        raise InvalidDataError(f"A row of this protocol has {protocol.n_features} numbers; the row at hand does not.")


@own_words
def entries_of(rows: ArrayLike) -> NDArray[Any]:
    """Return rows as an array: of numbers if it is one already, else of objects, so that no entry changes another."""
    if isinstance(rows, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(rows.astype(object), None))
    kind = rows.dtype.kind if isinstance(rows, np.ndarray) else "O"
    if kind in _NUMBERS:
        return np.asarray(rows)
    if kind in _TIMES:  # of which NumPy makes numbers
        return np.full(np.shape(rows), None)
    return np.asarray(rows, dtype=object)


def _numbers(entries: NDArray[Any]) -> FloatArray:
    """Return entries as floats, each by itself; what is no real number becomes NaN."""
    if entries.dtype.kind in _NUMBERS:
        with np.errstate(all="ignore"):  # a long double that is too large becomes infinite
            return entries.astype(np.float64)
    return np.array([[_number(entry) for entry in row] for row in entries], dtype=np.float64).reshape(entries.shape)


def _number(entry: object) -> float:
    if isinstance(entry, np.generic) and entry.dtype.kind not in _NUMBERS + "SU":
        return math.nan  # complex numbers and times, of which NumPy makes floats
    try:
        return float(entry)  # type: ignore[arg-type]
    except Exception:  # whatever an object of somebody else raises
        return math.nan
