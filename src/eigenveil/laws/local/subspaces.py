"""The public subspaces of `one_bit`: a report's identifier stands for one, the same on every machine.

A subspace is its basis of `rank` integer vectors, orthonormal in units of `DIRECTION_SCALE` up to their rounding. The
client compares integers with it and the server sums integers of it, so it has to be one and the same matrix for both.
A QR factorization in floats is not: libraries add in different orders. Here sums are products of integer matrices,
which float64 holds exactly in any order. Cholesky's factor and its inverse are taken by single additions, products,
quotients and square roots of arrays in a fixed order, and each of these is correctly rounded wherever there is
IEEE 754. The normals are integers of a table.
"""

import hashlib
from functools import cache

import numpy as np
from scipy import special

from ..base import FloatArray
from .base import ByteArray
from .directions import DIRECTION_SCALE, quantized

# Normals are quantiles at the middles of 2^16 cells, in units of 2^-12: variance 1 - 2e-5, at most 4.2.
_CELLS = 2**16
_UNIT = 2.0**12
# Entries of the inverse factor are integers of 2^-36: at rank 50 their rounding moves the entries of a basis by 0.004
# of the last place.
_FACTOR_UNIT = 2.0**36
# A row that lies in the span of those before it, but for this share of its square, is left out: by chance 3 times in
# 1e8 at d = 4, and never at d = 10. Who searches for such identifiers must not get NaN into the sums.
_DEPENDENT = 2.0**-16
_DIRECTION = b"eigenveil local one_bit direction 1"
_SUBSPACE = b"eigenveil local one_bit subspace 1"


def public_bases(ids: ByteArray, n_features: int, rank: int) -> FloatArray:
    """Return the integer bases (n x rank x n_features) of the uniform subspaces that identifiers stand for.

    Examples
    --------
    >>> ids = np.arange(32, dtype=np.uint8).reshape(2, 16)
    >>> bases = public_bases(ids, 6, 3)
    >>> np.array_equal(bases[1], public_bases(ids[1:], 6, 3)[0])
    True
    >>> np.round(bases[0] @ bases[0].T / DIRECTION_SCALE**2, 3) + 0.0
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    if rank == 1:
        return public_directions(ids, n_features)[:, None, :]
    words = np.frombuffer(_hashed(_SUBSPACE, ids, 2 * rank * n_features), dtype="<u2")
    return orthonormal(normal_table()[words].reshape(len(ids), rank, n_features))


def public_directions(ids: ByteArray, n_features: int) -> FloatArray:
    """Return the integer directions that identifiers stand for at rank 1, uniform on the sphere.

    As in version 0.1, whose reports are still added up; a quantile function may round its last bit as it likes there.
    """
    words = np.frombuffer(_hashed(_DIRECTION, ids, 8 * n_features), dtype="<u8").reshape(len(ids), n_features)
    normals = special.ndtri(((words >> np.uint64(11)) + 0.5) * 2.0**-53)
    return quantized(normals / np.linalg.norm(normals, axis=1, keepdims=True))


def _hashed(label: bytes, ids: ByteArray, length: int) -> bytes:
    return b"".join(hashlib.shake_256(label + identifier.tobytes()).digest(length) for identifier in ids)


@cache
def normal_table() -> FloatArray:
    """Return the integers that 16-bit words stand for; no quantile is near enough to a half to round differently."""
    return np.asarray(np.rint(_UNIT * special.ndtri((np.arange(_CELLS) + 0.5) / _CELLS)))


def orthonormal(rows: FloatArray) -> FloatArray:
    """Return integer bases of the spans of integer rows (n x rank x d), orthonormal in units of `DIRECTION_SCALE`.

    With G the rows and G G' = L L', the basis is inv(L) G. Products of matrices are of integers below 2^53 in every
    partial sum; all else is elementwise.
    """
    n, rank, _ = rows.shape
    # The reports come last, so that every step runs over all of them.
    rest = np.ascontiguousarray((rows @ rows.transpose(0, 2, 1)).transpose(1, 2, 0))
    inverse = np.zeros((rank, rank, n))
    smallest = _DEPENDENT * np.einsum("iin->in", rest)
    for j in range(rank):
        pivot = rest[j, j]
        free = pivot > smallest[j]
        scale = np.where(free, 1.0 / np.sqrt(np.where(free, pivot, 1.0)), 0.0)
        inverse[j, j] = 1.0
        inverse[j, : j + 1] *= scale
        column = rest[j + 1 :, j] * scale
        rest[j + 1 :, j + 1 :] -= column[:, None] * column[None, :]
        inverse[j + 1 :, : j + 1] -= column[:, None] * inverse[j, None, : j + 1]
    # Normals are below 2^15: within this every partial sum of the product is below 2^53.
    largest = 2.0**38 / rank
    factor = np.rint(np.clip(inverse * _FACTOR_UNIT, -largest, largest)).transpose(2, 0, 1)
    bases = np.rint(np.matmul(factor, rows) * (DIRECTION_SCALE / _FACTOR_UNIT))
    # A bound on what one report adds, proved by this line. Only bases far from orthonormal pass it, and none by chance.
    bases[np.square(bases).sum(axis=1).max(axis=1) > 2 * DIRECTION_SCALE**2] = 0.0
    return np.asarray(bases)
