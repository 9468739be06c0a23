"""Neighbouring data sets on which mechanisms leak most, and random ones to search further."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..guarantee import Relation

FloatArray = NDArray[np.float64]

# In units of one over the strength of a sampler: how far the other eigenvalues lie below the two that are tied.
_FAR = 16.0
# Where the Bingham sampler changes from one algorithm to another: a law that differs between them shows there.
_SWITCH = 4.0


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring data sets, as tables of rows.

    Attributes
    ----------
    name : str
    first, second : ndarray of shape (n, d)
        D and D'. All rows have norm at most 1 where the audited object bounds rows by 1.
    """

    name: str
    first: FloatArray
    second: FloatArray

    def __post_init__(self) -> None:
        for side in ("first", "second"):
            object.__setattr__(self, side, np.atleast_2d(np.asarray(getattr(self, side), dtype=np.float64)))

    def rows(self, side: int) -> FloatArray:
        """Return the rows of D (side 0) or D' (side 1)."""
        return self.second if side else self.first


def one_row_pairs(d: int) -> list[Pair]:
    """Return pairs of single rows: the whole data of a client, or a table of one row under replace."""
    one, ones = np.eye(d)[0], np.full(d, d**-0.5)
    pairs = [Pair("a unit row against the zero row", one, np.zeros(d))]
    if d > 1:
        two = np.eye(d)[1]
        pairs.insert(0, Pair("orthogonal unit rows", one, two))
        # The change of C with the largest l1 norm in the plane: diagonal entries twice the one beside them.
        angle = math.atan(0.5) / 2
        x, y = math.cos(angle) * one + math.sin(angle) * two, -math.sin(angle) * one + math.cos(angle) * two
        pairs.append(Pair("orthogonal unit rows of largest l1 change", x, y))
    if d > 2:
        signs = np.where(np.arange(d) % 2, -1.0, 1.0)
        pairs.append(Pair("dense unit rows", ones, ones * signs))
    return pairs


def added_row_pairs(d: int, n_rows: int) -> list[Pair]:
    """Return data of zero rows, with and without one unit row more."""
    base = np.zeros((n_rows, d))
    pairs = [Pair("a unit row is added", base, np.vstack([base, np.eye(d)[0]]))]
    if d > 1:
        pairs.append(Pair("a dense unit row is added", base, np.vstack([base, np.full(d, d**-0.5)])))
    return pairs


def tied_pairs(d: int, strength: float, relation: Relation) -> list[Pair]:
    """Return data whose two largest eigenvalues are nearly tied, for the mechanisms that sample directions.

    C = diag(T + g, T, 0, ...) against diag(T + g + 1, T - 1, 0, ...), where a row e2 is replaced by e1; under
    add/remove a row e1 is added.
    """
    x, y = np.eye(d)[0], np.eye(d)[min(1, d - 1)]
    many = max(1, math.ceil(_FAR / strength))
    pairs = []
    for total, gap in ((many, 0), (many, 1), (many, math.ceil(1 / strength)), (1, 0), (1, math.ceil(1 / strength))):
        name = f"top eigenvalues {total + gap} and {total}"
        first = np.vstack([np.tile(x, (total + gap, 1)), np.tile(y, (total, 1))])
        second = np.vstack([first, x])
        if relation is Relation.REPLACE:
            second = np.delete(second, total + gap, axis=0)
        pairs.append(Pair(name, first, second))
    if d > 1:
        pairs.append(_switch_pair(d, strength, relation))
    return pairs


def _switch_pair(d: int, strength: float, relation: Relation) -> Pair:
    """One eigenvalue t, a half below and a half above the point where the sampler changes its algorithm."""
    t = _SWITCH / (strength * (1 - 1 / d)) - 0.5
    whole = max(0, math.floor(t))
    base = np.vstack([np.tile(np.eye(d)[0], (whole, 1)), math.sqrt(max(0.0, t - whole)) * np.eye(d)[:1]])
    last = np.eye(d)[:1]
    first = np.vstack([base, 0 * last]) if relation is Relation.REPLACE else base
    return Pair("around the switch of the sampler", first, np.vstack([base, last]))


def random_pairs(d: int, relation: Relation, n_pairs: int, generator: np.random.Generator) -> list[Pair]:
    """Return neighbours with rows of random directions and lengths, over data sets of random sizes."""
    return [_random_pair(d, relation, f"random pair {i + 1}", generator) for i in range(n_pairs)]


def _random_pair(d: int, relation: Relation, name: str, generator: np.random.Generator) -> Pair:
    n_others = int(generator.integers(0, 20)) + (relation is Relation.ADD_REMOVE)
    rows = generator.standard_normal((n_others + 2, d)) * generator.exponential(size=d)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    # The two rows that differ are of full length or zero: shorter ones only differ less.
    rows[:2] *= generator.integers(0, 4, (2, 1)) > 0
    others, x, y = rows[2:], rows[:1], rows[1:2]
    first = np.vstack([others, y]) if relation is Relation.REPLACE else others
    return Pair(name, first, np.vstack([others, x]))
