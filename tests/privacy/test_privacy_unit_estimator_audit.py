"""A whole estimator on neighbouring tables of persons: fitted with `privacy_unit=`, honest and with a planted flaw."""

import numpy as np
import pytest

from eigenveil import Adjacency, PrivatePCA
from eigenveil.audit import EstimatorSubject, audit, unit_neighbours
from eigenveil.moments.numpy_kernels import squared_norms, to_the_bound


def one_by_one(grid, starts, bits, constant, average):
    """The planted flaw, in place of `persons_together`: every row is shortened by itself."""
    del starts, average
    to_the_bound(grid, squared_norms(grid), bits)
    return np.full(len(grid), float(constant))


@pytest.mark.heavy
@pytest.mark.parametrize(("flawed", "verdict"), [(False, "consistent"), (True, "violation")])
def test_a_fit_of_persons(flawed, verdict, monkeypatch):
    if flawed:
        monkeypatch.setattr("eigenveil.moments.bound.persons_together", one_by_one)
    model = PrivatePCA(1, epsilon=1.0, norm_bound=1.0, center=False, mechanism="matrix_laplace", unit_weight="by_rows")
    subject = EstimatorSubject(model, unit_neighbours(2, Adjacency.REPLACE_ONE))
    found = audit(subject, draws=320, confidence=1 - 1e-6, seed=2)
    assert found.verdict == verdict, str(found)
