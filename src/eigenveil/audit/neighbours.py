"""Neighbouring data sets on which mechanisms leak most, and random ones to search further."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidDataError, InvalidParameterError
from ..guarantee import Adjacency
from ..numerics import FloatArray, IntArray

# In units of one over the strength of a sampler: how far the other eigenvalues lie below the two that are tied.
_FAR = 16.0
# Where the Bingham sampler changes from one algorithm to another: a mechanism that differs between them shows there.
_SWITCH = 4.0


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Two neighbouring data sets, as tables of rows.

    Attributes
    ----------
    name : str
    first, second : ndarray of shape (n, d)
        D and D'. Rows have norm at most 1, but where a whole estimator is audited, which bounds them itself.
    privacy_units : (ndarray of int, ndarray of int), optional
        Whose the rows of D and of D' are, where a person has several; else every row is one person's.

    Examples
    --------
    >>> Neighbours("one row", [[0.6, -0.3]], [[0.0, 1.0]]).integer_rows(0, bits=2)
    array([[ 2., -1.]])
    """

    name: str
    first: FloatArray
    second: FloatArray
    privacy_units: tuple[IntArray, IntArray] | None = None

    def __post_init__(self) -> None:
        for side in ("first", "second"):
            object.__setattr__(self, side, np.atleast_2d(np.asarray(getattr(self, side), dtype=np.float64)))
        if self.privacy_units is not None and any(
            len(self.privacy_units[side]) != len(self.rows(side)) for side in (0, 1)
        ):
            raise InvalidParameterError("The privacy units of neighbours must be given for every row.")

    def rows(self, side: int) -> FloatArray:
        """Return the rows of D (side 0) or D' (side 1)."""
        return self.second if side else self.first

    def owners(self, side: int) -> IntArray:
        """Return the privacy unit of every row of D (side 0) or D' (side 1); by default every row is its own."""
        return np.arange(len(self.rows(side))) if self.privacy_units is None else self.privacy_units[side]

    def integer_rows(self, side: int, bits: int) -> FloatArray:
        """Return the rows as integers of norm at most 2^bits, in float64: made up here, so nothing private is read.

        Rounding towards zero shortens a row, so that a row of norm 1 keeps the bound whatever its last bits are.
        """
        integers = np.trunc(self.rows(side) * 2.0**bits)
        if not np.all(np.einsum("ij,ij->i", integers, integers) <= 4.0**bits):
            raise InvalidParameterError("The rows of neighbours must be finite, and of norm at most 1.")
        return integers


def one_row_neighbours(d: int) -> list[Neighbours]:
    """Return neighbours of a single row each: the whole data of a client, or a table of one row under replace."""
    one, ones = np.eye(d)[0], np.full(d, d**-0.5)
    found = [Neighbours("a unit row against the zero row", one, np.zeros(d))]
    if d > 1:
        two = np.eye(d)[1]
        found.insert(0, Neighbours("orthogonal unit rows", one, two))
        # The change of C with the largest l1 norm in the plane: diagonal entries twice the one beside them.
        angle = math.atan(0.5) / 2
        x, y = math.cos(angle) * one + math.sin(angle) * two, -math.sin(angle) * one + math.cos(angle) * two
        found.append(Neighbours("orthogonal unit rows of largest l1 change", x, y))
    if d > 2:
        signs = np.where(np.arange(d) % 2, -1.0, 1.0)
        found.append(Neighbours("dense unit rows", ones, ones * signs))
    return found


def added_row_neighbours(d: int, n_rows: int) -> list[Neighbours]:
    """Return data of zero rows, with and without one row more: a unit row, or a zero row that only a count shows."""
    base = np.zeros((n_rows, d))
    found = [Neighbours("a unit row is added", base, np.vstack([base, np.eye(d)[0]]))]
    found.append(Neighbours("a zero row is added", base, np.zeros((n_rows + 1, d))))
    if d > 1:
        found.append(Neighbours("a dense unit row is added", base, np.vstack([base, np.full(d, d**-0.5)])))
    return found


def tied_neighbours(d: int, strength: float, adjacency: Adjacency) -> list[Neighbours]:
    """Return data of d > 1 features whose two largest eigenvalues are nearly tied, for samplers of directions.

    C = diag(T + g, T, 0, ...) against diag(T + g + 1, T - 1, 0, ...), where a row e2 is replaced by e1; under
    add/remove a row e1 is added.
    """
    x, y = np.eye(d)[:2]
    many = max(1, math.ceil(_FAR / strength))
    found = []
    for total, gap in ((many, 0), (many, 1), (many, math.ceil(1 / strength)), (1, 0), (1, math.ceil(1 / strength))):
        name = f"top eigenvalues {total + gap} and {total}"
        first = np.vstack([np.tile(x, (total + gap, 1)), np.tile(y, (total, 1))])
        second = np.vstack([first, x])
        if adjacency is Adjacency.REPLACE_ONE:
            second = np.delete(second, total + gap, axis=0)
        found.append(Neighbours(name, first, second))
    # One eigenvalue t, a half below and a half above the point where the sampler changes its algorithm.
    t = _SWITCH / (strength * math.sqrt(1 - 1 / d)) - 0.5
    whole = max(0, math.floor(t))
    base = np.vstack([np.tile(x, (whole, 1)), math.sqrt(max(0.0, t - whole)) * x])
    first = np.vstack([base, 0 * x]) if adjacency is Adjacency.REPLACE_ONE else base
    found.append(Neighbours("around the switch of the sampler", first, np.vstack([base, x])))
    return found


def random_neighbours(d: int, adjacency: Adjacency, size: int, generator: np.random.Generator) -> list[Neighbours]:
    """Return neighbours with rows of random directions and lengths, over data sets of random sizes."""
    found = []
    for i in range(size):
        n_others = int(generator.integers(0, 20)) + (adjacency is Adjacency.ADD_OR_REMOVE_ONE)
        rows = generator.standard_normal((n_others + 2, d)) * generator.exponential(size=d)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
        # The two rows that differ are of full length or zero: shorter ones only differ less.
        rows[:2] *= generator.integers(0, 4, (2, 1)) > 0
        others, x, y = rows[2:], rows[:1], rows[1:2]
        first = np.vstack([others, y]) if adjacency is Adjacency.REPLACE_ONE else others
        found.append(Neighbours(f"random neighbours {i + 1}", first, np.vstack([others, x])))
    return found


def estimator_neighbours(estimator: Any, d: int) -> list[Neighbours]:
    """Return tables of rows with norms around 1 and 4, so many of the latter as a private norm bound would clip.

    They are as small as the estimator takes them: the smallest of 20 rows, 40, 80 ..., that its plan does not refuse.
    """
    n_rows, plan = 20, None
    while plan is None:
        try:
            plan = estimator.plan(d, n_rows=n_rows)
        except InvalidDataError:
            n_rows *= 2
    n_long = n_rows // 5
    if hasattr(plan, "route") and plan.route(n_rows).split.norm:  # a plan of eigenveil's
        n_long = int(plan.route(n_rows).rows_beyond(n_rows))
    base = np.zeros((n_rows, d))
    base[:, 0] = np.where(np.arange(n_rows) < n_rows - n_long, 1.0, 4.0)
    base[1::2, 0] *= -1
    first, last = np.eye(d)[0], np.eye(d)[-1]
    changes = {"a row turned": last, "a row made longer": 4 * first, "a row made an outlier": 1e6 * last}
    return [Neighbours(name, base, np.vstack([row, base[1:]])) for name, row in changes.items()]
