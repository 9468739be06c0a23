"""Audits of persons: one with 50 rows is replaced or added, and the code before the law is run on all of them."""

import numpy as np
import pytest

from eigenveil import Relation, RowBound, SecondMoments
from eigenveil.accounting.sensitivity import frobenius_squared
from eigenveil.audit import PersonSubject, audit, person_neighbours
from eigenveil.mechanisms import LAWS
from eigenveil.moments.numpy_kernels import squared_norms, to_the_bound
from eigenveil.moments.units import Blocks

SETTINGS = {"draws": 480, "confidence": 1 - 1e-6, "seed": 3}
WEIGHTS = ["persons", "rows"]


def one_by_one(grid, starts, bits, constant, average):
    """The planted flaw, in place of `persons_together`: every row is shortened by itself."""
    sizes = np.diff(starts, append=len(grid))
    grid *= np.repeat(sizes, sizes)[:, None] ** (-0.5 if average else 0.0)
    np.trunc(grid, out=grid)
    to_the_bound(grid, squared_norms(grid), bits)
    return np.full(len(grid), float(constant))


def collecting(weight, count=None):
    """Return the way from rows to a law: blocks of whole persons, and their moments."""

    def collect(rows, persons):
        order = np.argsort(persons, kind="stable")
        _, starts = np.unique(persons[order], return_index=True)
        keys = np.arange(2 * starts.size, dtype=np.uint64).reshape(-1, 2)
        moments = SecondMoments(RowBound(1.0, person_weight=weight), rows.shape[1])
        moments.update(Blocks(rows[order], starts, keys))
        return moments.gram, moments.bound.limit_squared, count(persons) if count else moments.n_samples

    return collect


def law(relation, name="laplace"):
    return LAWS[name](epsilon=1.0, delta=0.0, n_features=2, relation=relation)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("weight", WEIGHTS)
def test_a_person_of_50_rows_moves_a_release_no_more_than_one_row_does(relation, weight):
    found = audit(PersonSubject(law(relation), collecting(weight)), **SETTINGS)
    assert found.verdict == "consistent", str(found)
    assert found.to_dict()["unit"] == "person"
    assert "one person with all of their rows" in str(found)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("weight", WEIGHTS)
def test_the_pairs_are_near_the_worst_case(relation, weight):
    subject = PersonSubject(law(relation), collecting(weight))
    moved = []
    for pair in subject.neighbours():
        grams, _, grid = subject.collected(pair)
        moved.append((((grams[0] - grams[1]) / grid) ** 2).sum())
    most = float(frobenius_squared(relation))
    assert 0.99 * most < max(moved) <= most


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("weight", WEIGHTS)
def test_rows_that_are_clipped_one_by_one_are_caught(relation, weight, monkeypatch):
    monkeypatch.setattr("eigenveil.moments.bound.persons_together", one_by_one)
    found = audit(PersonSubject(law(relation), collecting(weight)), **SETTINGS)
    assert found.verdict == "violation"
    assert found.epsilon_lower > 2.0
    # An average of rows of norm 1 is within the bound however it is shortened.
    assert weight == "rows" or "long" in found.neighbours or "all around" in found.neighbours


def test_a_count_of_rows_in_place_of_persons_is_caught():
    flawed = collecting("persons", count=len)
    many = person_neighbours(2, Relation.ADD_REMOVE, n_rows=200)  # a count has a twentieth of epsilon
    found = audit(PersonSubject(law(Relation.ADD_REMOVE, "matrix_laplace"), flawed, many), **SETTINGS)
    assert found.verdict == "violation"


def test_neighbours_differ_in_one_person():
    for relation in Relation:
        for pair in person_neighbours(3, relation):
            persons = [
                {one: pair.rows(side)[pair.owners(side) == one].tolist() for one in np.unique(pair.owners(side))}
                for side in (0, 1)
            ]
            changed = [
                one for one in persons[0].keys() | persons[1].keys() if persons[0].get(one) != persons[1].get(one)
            ]
            assert len(changed) == 1, pair.name
            assert (len(persons[0]) == len(persons[1])) == (relation is Relation.REPLACE)
