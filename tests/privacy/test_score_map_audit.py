"""An audit of the score map at its worst case: one row moves from a cell to another, or is there or not.

A lower bound on epsilon from outputs must stay below what is promised, and come near to it; a mechanism made for half
of the sensitivity must be refuted.
"""

import numpy as np
import pytest

from eigenveil import PrivatePCA
from eigenveil.audit.lower_bound import epsilon_lower_bound
from eigenveil.estimators.score_map import plan_scores
from eigenveil.guarantee import Adjacency
from eigenveil.mechanisms.choices import CountMechanism
from eigenveil.moments.counts import ScoreCounts
from eigenveil.sampling.randomness import secure_generator

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
DRAWS = 100_000


def neighbours(adjacency):
    """Return the private cells of a table and of a neighbour of it, through the whole way of the rows."""
    rows = np.random.default_rng(0).normal(size=(200, 2)) * [2, 1]
    release = PrivatePCA(2, epsilon=50.0, bounds=(-9, 9)).fit(rows).release_
    grid = plan_scores(release, epsilon=1.0, bins=4).grid
    here, there = (np.array([[side, 0.0]]) for side in (-5.0, 5.0))
    second = np.vstack([rows, there]) if adjacency is Adjacency.REPLACE_ONE else rows
    return [ScoreCounts(grid).update(table).in_cells for table in (np.vstack([rows, here]), second)]


def bound_on(mechanism, pair, delta=0.0):
    """Return a lower bound on epsilon by the best score of a single pair: the log-likelihood ratio."""
    moved = np.flatnonzero(pair[0] - pair[1])  # all other cells have the same distribution under both
    first, second = (cells.ravel()[moved] for cells in pair)
    outputs = []
    for cells in (first, second):
        drawn = mechanism.draw(np.tile(cells, (DRAWS, 1)), secure_generator()) * mechanism.unit
        likely = (
            np.abs(drawn - second) - np.abs(drawn - first) if mechanism.kind == "laplace" else drawn * (first - second)
        )
        outputs.append(likely.sum(axis=1))
    return epsilon_lower_bound(*outputs, delta=delta, confidence=1 - 1e-9).epsilon


@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_pure_map_keeps_its_promise_and_not_more(adjacency):
    pair = neighbours(adjacency)
    assert np.abs(pair[0] - pair[1]).sum() == (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    bound = bound_on(CountMechanism(1.0, adjacency=adjacency), pair)
    assert 0.8 < bound <= 1.0


@pytest.mark.parametrize("adjacency", Adjacency)
def test_control_noise_for_half_of_the_change_is_refuted(adjacency):
    assert bound_on(CountMechanism(2.0, adjacency=adjacency), neighbours(adjacency)) > 1.0


def test_a_gaussian_map_keeps_its_promise():
    pair = neighbours(Adjacency.REPLACE_ONE)
    assert bound_on(CountMechanism(1.0, 0.01, kind="gaussian"), pair, delta=0.01) <= 1.0
    assert bound_on(CountMechanism(3.0, 0.01, kind="gaussian"), pair, delta=0.01) > 1.0  # control
