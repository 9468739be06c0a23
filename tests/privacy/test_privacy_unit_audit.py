"""Audits of persons: one with 50 rows is replaced or added, and the code before the mechanism is run on all of them."""

import numpy as np
import pytest

from eigenveil import Adjacency, RowBound, SecondMoments
from eigenveil.accounting.sensitivity import frobenius_squared
from eigenveil.audit import UnitSubject, audit, unit_neighbours
from eigenveil.mechanisms import MECHANISMS
from eigenveil.moments.numpy_kernels import squared_norms, to_the_bound
from eigenveil.moments.units import Blocks

SETTINGS = {"draws": 480, "confidence": 1 - 1e-6, "seed": 3}
WEIGHTS = ["equal", "by_rows"]


def one_by_one(grid, starts, bits, constant, average):
    """The planted flaw, in place of `units_together`: every row is shortened by itself."""
    sizes = np.diff(starts, append=len(grid))
    grid *= np.repeat(sizes, sizes)[:, None] ** (-0.5 if average else 0.0)
    np.trunc(grid, out=grid)
    to_the_bound(grid, squared_norms(grid), bits)
    return np.full(len(grid), float(constant))


def collecting(weight, count=None):
    """Return the way from rows to a mechanism: blocks of whole persons, and their moments."""

    def collect(rows, privacy_units):
        order = np.argsort(privacy_units, kind="stable")
        _, starts = np.unique(privacy_units[order], return_index=True)
        keys = np.arange(2 * starts.size, dtype=np.uint64).reshape(-1, 2)
        moments = SecondMoments(RowBound(1.0, unit_weight=weight), rows.shape[1])
        moments.update(Blocks(rows[order], starts, keys))
        return moments.gram, moments.bound.limit_squared, count(privacy_units) if count else moments.n_samples

    return collect


def mechanism(adjacency, name="laplace"):
    return MECHANISMS[name](epsilon=1.0, delta=0.0, n_features=2, adjacency=adjacency)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("weight", WEIGHTS)
def test_a_person_of_50_rows_moves_a_release_no_more_than_one_row_does(adjacency, weight):
    found = audit(UnitSubject(mechanism(adjacency), collecting(weight)), **SETTINGS)
    assert found.verdict == "consistent", str(found)
    assert found.to_dict()["unit"] == "person"
    assert "all rows of one privacy unit" in str(found)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("weight", WEIGHTS)
def test_the_pairs_are_near_the_worst_case(adjacency, weight):
    subject = UnitSubject(mechanism(adjacency), collecting(weight))
    moved = []
    for pair in subject.neighbours():
        grams, _, grid = subject.collected(pair)
        moved.append((((grams[0] - grams[1]) / grid) ** 2).sum())
    most = float(frobenius_squared(adjacency))
    assert 0.99 * most < max(moved) <= most


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("weight", WEIGHTS)
def test_rows_that_are_clipped_one_by_one_are_caught(adjacency, weight, monkeypatch):
    monkeypatch.setattr("eigenveil.moments.kernels.compiled", lambda: None)
    monkeypatch.setattr("eigenveil.moments.bound.units_together", one_by_one)
    found = audit(UnitSubject(mechanism(adjacency), collecting(weight)), **SETTINGS)
    assert found.verdict == "violation"
    assert found.epsilon_lower > 2.0
    # An average of rows of norm 1 is within the bound however it is shortened.
    assert weight == "by_rows" or "long" in found.neighbours or "all around" in found.neighbours


def test_a_count_of_rows_in_place_of_persons_is_caught():
    flawed = collecting("equal", count=len)
    many = unit_neighbours(2, Adjacency.ADD_OR_REMOVE_ONE, n_rows=200)  # a count has a twentieth of epsilon
    subject = UnitSubject(mechanism(Adjacency.ADD_OR_REMOVE_ONE, "matrix_laplace"), flawed)
    found = audit(subject, neighbours=many, **SETTINGS)
    assert found.verdict == "violation"


def test_neighbours_differ_in_one_person():
    for adjacency in Adjacency:
        for pair in unit_neighbours(3, adjacency):
            privacy_units = [
                {one: pair.rows(side)[pair.owners(side) == one].tolist() for one in np.unique(pair.owners(side))}
                for side in (0, 1)
            ]
            changed = [
                one
                for one in privacy_units[0].keys() | privacy_units[1].keys()
                if privacy_units[0].get(one) != privacy_units[1].get(one)
            ]
            assert len(changed) == 1, pair.name
            assert (len(privacy_units[0]) == len(privacy_units[1])) == (adjacency is Adjacency.REPLACE_ONE)
