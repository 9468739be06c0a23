"""Intervals of shares of the variance hold the truth along what was released: the total has an error, too."""

import numpy as np
import pytest

from eigenveil import RowBound, SecondMoments, release
from eigenveil.mechanisms import MECHANISMS

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")


def covered(mechanism, moments, repeats, with_total=True):
    """Return how often intervals of the first share, and of two together, hold the truth along what was released."""
    truth = moments.gram / moments.gram.trace()
    held = np.zeros(2)
    for _ in range(repeats):
        one = release(mechanism, moments)
        along = np.einsum("ki,ij,kj->k", one.components, truth, one.components)
        ends = [one.spectrum.explained_variance_ratio_interval[0], one.spectrum.captured_variance_ratio_interval]
        if not with_total:
            ends = [one.explained_variance_interval[0] / one.spectrum.total_variance]
        held[: len(ends)] += [low <= share <= high for (low, high), share in zip(ends, np.cumsum(along), strict=False)]
    return held / repeats


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["gaussian", "matrix_laplace"])
def test_intervals_of_shares_know_the_error_of_the_total(name):
    rows = np.random.default_rng(0).normal(size=(400, 6)) * [1.0, 0.8, 0.1, 0.1, 0.1, 0.1]
    moments = SecondMoments(RowBound(4.0), 6).update(rows)
    budget = {"epsilon": 1.0, "delta": 1e-6 if MECHANISMS[name].needs_delta else 0.0}
    mechanism = MECHANISMS[name](**budget, n_features=6, n_components=2)
    repeats = 150
    share, together = covered(mechanism, moments, repeats)
    least = 0.95 - 4 * (0.05 * 0.95 / repeats) ** 0.5
    assert share >= least
    assert together >= least


@pytest.mark.heavy
def test_control_a_share_of_a_total_without_error_is_not_held():
    # One direction among many: the noise on the total is far larger than that on the variance along it.
    rows = np.zeros((1000, 40))
    rows[:, 0] = 1.0
    moments = SecondMoments(RowBound(2.0), 40).update(rows)
    mechanism = MECHANISMS["frobenius"](epsilon=4.0, n_features=40, n_components=1)
    assert covered(mechanism, moments, 60)[0] >= 0.75
    assert covered(mechanism, moments, 60, with_total=False)[0] < 0.55
