"""How far drawn directions are from orthonormal, against how far the eigenvectors of the data are.

LAPACK returns eigenvectors Q that are orthonormal up to E = Q'Q - I of a few 1e-16, other last bits for other data. A
direction computed as u = Qz has u'u - 1 = z'Ez up to the rounding of one product: a fingerprint of the private matrix,
for whoever sees u to its last bit. On a grid of 2^-24 the rounding of u is 10^8 times larger than E, and hides it.
"""

import numpy as np

from ..laws.base import FloatArray, IntArray
from ..laws.central import CentralLaw
from .units import Stacks, unit

# Products of longdoubles are slow; wider matrices are left out.
WIDEST = 256
# Below what longdouble can tell.
_NOTHING = 1e-22


class Fingerprint:
    """The eigenvectors of two data sets to the last bit, as the code of a law may have computed them.

    Parameters
    ----------
    law : CentralLaw
    grams : pair of ndarray
        The integer second moments of D and D'.
    grid : int
    """

    def __init__(self, law: CentralLaw, grams: tuple[IntArray, IntArray], grid: int) -> None:
        self.unit = np.longdouble(unit(law, grid, "directions"))
        self.bases = [_bases(gram.astype(np.float64), law.strength, grid) for gram in grams]

    def __call__(self, integers: Stacks) -> tuple[FloatArray, FloatArray]:
        """Return log-odds of D against D' from the norms of directions, and from all their products."""
        directions = integers["directions"].astype(np.longdouble) * self.unit
        excess = _products(directions, directions) - np.eye(directions.shape[1], dtype=np.longdouble)
        first, second = (_misses(directions, excess, bases) for bases in self.bases)
        return second[0] - first[0], second[1] - first[1]


def _bases(gram: FloatArray, strength: float | None, grid: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return eigenvectors and their E, for each way in which the exponent may have been computed."""
    ways = [gram, gram / grid]
    if strength is not None:
        ways += [gram * (strength / grid), strength * (gram / grid)]
    found = []
    for matrix in ways:
        basis = np.linalg.eigh((matrix + matrix.T) / 2)[1].astype(np.longdouble)
        found.append((basis, basis.T @ basis - np.eye(len(basis), dtype=np.longdouble)))
    return found


def _misses(
    directions: np.ndarray, excess: np.ndarray, bases: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[FloatArray, FloatArray]:
    """Return the log of the least miss of a norm, and of the largest miss of a product, for the best basis."""
    norms, products = [], []
    for basis, own in bases:
        inside = directions @ basis
        miss = np.abs(excess - _products(inside @ own, inside))
        # Only the first of several directions may have met the whole matrix, and they are sorted afterwards.
        norms.append(np.einsum("nii->ni", miss).min(axis=1))
        products.append(miss.max(axis=(1, 2)))
    least, largest = (np.log(np.min(part, axis=0) + _NOTHING).astype(np.float64) for part in (norms, products))
    return least, largest


def _products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.asarray(left @ right.swapaxes(1, 2))
