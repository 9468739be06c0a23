"""Long audits: bounds close to the truth where a mechanism is tight, and flaws that take many draws."""

import numpy as np
import pytest

from eigenveil.audit import Neighbours, audit
from eigenveil.local import LocalProtocol
from eigenveil.mechanisms.sampling_directions import EigenvectorSampling
from privacy.test_audit import SURE, made

pytestmark = pytest.mark.heavy

# The share of the claim that must be shown at epsilon 3, with room for the very high confidence asked for here;
# docs/how_to/audit.md has the shares found at 99 %, and says why not all are near 1.
TIGHTNESS = [
    ("laplace", 2, 1, "replace_one", 0.4),
    ("frobenius", 1, 1, "add_or_remove_one", 0.5),
    ("matrix_laplace", 1, 1, "add_or_remove_one", 0.5),
    ("matrix_laplace", 2, 1, "replace_one", 0.2),
    ("gaussian", 2, 1, "replace_one", 0.1),
    ("wishart", 2, 1, "replace_one", 0.0),
    ("ppca", 2, 1, "replace_one", 0.0),
    ("eigenvector_sampling", 2, 1, "replace_one", 0.0),
]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(("name", "d", "k", "adjacency", "least"), TIGHTNESS)
def test_the_bound_is_close_and_never_above(name, d, k, adjacency, least, epsilon):
    report = audit(made(name, d, k, adjacency, epsilon), draws=6000, confidence=SURE)
    assert report.verdict == "consistent"
    # At smaller epsilons so few draws show little, and the audit must say so.
    assert report.tightness >= (least if epsilon == 3 else 0.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("name", ["double_cap", "one_bit"])
def test_reports_of_unit_rows_are_tight(name, epsilon):
    report = audit(LocalProtocol(2, epsilon, mechanism=name, row_norms="unit"), draws=200_000, confidence=SURE)
    assert (0.4 if epsilon < 1 else 0.9) < report.tightness <= 1


class TooStrong(EigenvectorSampling):
    """Four times too concentrated. Twice is beyond an audit: the outputs that betray it are too rare to be counted."""

    def _exact_strength(self, grid):
        return 4 * super()._exact_strength(grid)


def test_a_direction_drawn_too_near_is_caught():
    data = [Neighbours("orthogonal unit rows", np.eye(2)[:1], np.eye(2)[1:])]
    for mechanism, verdict in ((TooStrong, "violation"), (EigenvectorSampling, "consistent")):
        drawn = mechanism(epsilon=2.0, n_features=2, n_components=1, eigenvalue_share=0.01)
        assert audit(drawn, neighbours=data, draws=1500, seed=1).verdict == verdict


def test_the_papers_local_gaussian_at_the_papers_own_numbers():
    protocol = LocalProtocol(2, 2.0, 1e-4, mechanism="gaussian_paper")
    data = Neighbours("orthogonal unit rows", np.eye(2)[:1], np.eye(2)[1:])
    report = audit(protocol, delta=1e-4, neighbours=[data], draws=6_000_000, block=20_000, seed=1)
    assert report.claimed == 2.0
    assert report.verdict == "violation"
