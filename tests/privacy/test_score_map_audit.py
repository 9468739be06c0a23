"""An audit of the score map at its worst case: one row moves from a cell to another, or is there or not.

A lower bound on epsilon from outputs must stay below what is promised, and come near to it; a law made for half of the
sensitivity must be refuted.
"""

import numpy as np
import pytest

from eigenveil import PrivatePCA
from eigenveil.audit.lower_bound import epsilon_lower_bound
from eigenveil.estimators.score_map import plan_scores
from eigenveil.guarantee import Relation
from eigenveil.mechanisms.choices import CountLaw
from eigenveil.moments.counts import ScoreCounts
from eigenveil.sampling.randomness import secure_generator

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
DRAWS = 100_000


def neighbours(relation):
    """Return the private cells of a table and of a neighbour of it, through the whole way of the rows."""
    rows = np.random.default_rng(0).normal(size=(200, 2)) * [2, 1]
    release = PrivatePCA(2, epsilon=50.0, bounds=(-9, 9)).fit(rows).release_
    grid = plan_scores(release, epsilon=1.0, bins=4).grid
    here, there = (np.array([[side, 0.0]]) for side in (-5.0, 5.0))
    second = np.vstack([rows, there]) if relation is Relation.REPLACE else rows
    return [ScoreCounts(grid).update(table).in_cells for table in (np.vstack([rows, here]), second)]


def bound_on(law, pair, delta=0.0):
    """Return a lower bound on epsilon by the best score of a single pair: the log-likelihood ratio."""
    moved = np.flatnonzero(pair[0] - pair[1])  # all other cells have the same law under both
    first, second = (cells.ravel()[moved] for cells in pair)
    outputs = []
    for cells in (first, second):
        drawn = law.draw(np.tile(cells, (DRAWS, 1)), secure_generator()) * law.unit
        likely = np.abs(drawn - second) - np.abs(drawn - first) if law.kind == "laplace" else drawn * (first - second)
        outputs.append(likely.sum(axis=1))
    return epsilon_lower_bound(*outputs, delta=delta, confidence=1 - 1e-9).epsilon


@pytest.mark.parametrize("relation", Relation)
def test_a_pure_map_keeps_its_promise_and_not_more(relation):
    pair = neighbours(relation)
    assert np.abs(pair[0] - pair[1]).sum() == (2 if relation is Relation.REPLACE else 1)
    bound = bound_on(CountLaw(1.0, relation=relation), pair)
    assert 0.8 < bound <= 1.0


@pytest.mark.parametrize("relation", Relation)
def test_control_noise_for_half_of_the_change_is_refuted(relation):
    assert bound_on(CountLaw(2.0, relation=relation), neighbours(relation)) > 1.0


def test_a_gaussian_map_keeps_its_promise():
    pair = neighbours(Relation.REPLACE)
    assert bound_on(CountLaw(1.0, 0.01, kind="gaussian"), pair, delta=0.01) <= 1.0
    assert bound_on(CountLaw(3.0, 0.01, kind="gaussian"), pair, delta=0.01) > 1.0  # control
