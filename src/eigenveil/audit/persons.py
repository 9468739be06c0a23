"""Audits of persons with many rows: the code between their rows and a law is run too, and not taken on trust."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..guarantee import Relation
from ..laws.central import CentralLaw
from .neighbours import FloatArray, IntArray, Neighbours
from .subjects import LawSubject

Collect = Callable[[FloatArray, IntArray], tuple[IntArray, int, int]]
"""From rows, and whose each of them is, to the Gram matrix, the largest trace that a person may add to it, and n."""

ROWS_OF_ONE = 50
"""Rows of the person who is replaced."""


def person_neighbours(d: int, relation: Relation, n_rows: int = ROWS_OF_ONE, n_others: int = 3) -> list[Neighbours]:
    """Return tables in which one person with many rows is replaced by another, or is added.

    Their rows are of norm 1, or so long that whoever shortens them one by one leaves each at the bound: the sum of
    squares then grows with the number of rows, and so does what a release tells about that person.

    Parameters
    ----------
    d : int
        Number of features.
    relation : Relation
    n_rows : int
        Rows of the person who is replaced.
    n_others : int
        Persons beside them, of one row each.

    Examples
    --------
    >>> pair = person_neighbours(2, Relation.REPLACE)[0]
    >>> pair.name, [np.unique(one).size for one in pair.persons]
    ('a person of 50 rows turned', [4, 4])
    """
    others, one, last = np.zeros((n_others, d)), np.eye(d)[:1], np.eye(d)[-1:]
    many, long = np.repeat(one, n_rows, axis=0), 1e3 * np.repeat(one, n_rows, axis=0)
    around = np.random.default_rng(d).standard_normal((n_rows, d))
    around *= 1e3 / np.linalg.norm(around, axis=1, keepdims=True)

    def pair(name: str, first: FloatArray, second: FloatArray) -> Neighbours:
        def owners(own: FloatArray) -> IntArray:
            return np.repeat(np.arange(n_others + 1), [1] * n_others + [len(own)])

        tables = np.vstack([others, first]), np.vstack([others, second])
        return Neighbours(name, *tables, persons=(owners(first), owners(second)))

    if relation is Relation.REPLACE:
        return [
            pair(f"a person of {n_rows} rows turned", many, many @ np.roll(np.eye(d), 1, axis=1)),
            pair(f"a person of {n_rows} long rows turned", long, long @ np.roll(np.eye(d), 1, axis=1)),
            pair(f"a person of {n_rows} rows all around replaced by one of one row", around, 0 * last),
        ]
    nobody = np.zeros((0, d))
    return [
        pair(f"a person of {n_rows} rows added", nobody, many),
        pair(f"a person of {n_rows} long rows added", nobody, long),
        pair(f"a person of {n_rows} zero rows added, whom only a count shows", nobody, 0 * many),
    ]


class PersonSubject(LawSubject):
    """A central law behind the code that makes one statistic of all rows of all persons.

    Parameters
    ----------
    law : CentralLaw
    collect : callable
        Takes rows and whose each of them is, as integers; returns the int64 Gram matrix, the largest trace that one
        person may add to it, and n. It is the code under audit: an audit has no way to rows and moments of its own.
    neighbours : sequence of Neighbours, optional
        With `persons`; by default those of `person_neighbours`.
    """

    def __init__(self, law: CentralLaw, collect: Collect, neighbours: Sequence[Neighbours] | None = None) -> None:
        super().__init__(law, last_bits=False)
        self.collect = collect
        self._neighbours = person_neighbours(law.n_features, law.relation) if neighbours is None else list(neighbours)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the law, and the code before it."""
        return {**super().parameters(), "collect": getattr(self.collect, "__qualname__", repr(self.collect))}

    def neighbours(self) -> Sequence[Neighbours]:
        """Return tables in which one person with many rows is replaced or added."""
        return self._neighbours

    def collected(self, data: Neighbours) -> tuple[tuple[IntArray, IntArray], tuple[int, int], int]:
        """Return the Gram matrices of both tables, their numbers of persons, and the largest trace of one person."""
        (first, grid, n_first), (second, _, n_second) = (
            self.collect(data.rows(side), data.owners(side)) for side in (0, 1)
        )
        return (first, second), (n_first, n_second), grid
