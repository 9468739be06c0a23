"""The noise of matrix_laplace has the mechanism it claims; a change of 5 % is caught.

Here are independent Wisharts; the balanced mechanism is in test_exact_noise.py.
"""

import numpy as np
import pytest
import scipy.stats

from eigenveil import Adjacency, RowBound, SecondMoments, release
from eigenveil.mechanisms import MECHANISMS
from eigenveil.sampling.randomness import seeded_generator
from statistical.constants import ALPHA, PERTURB, N
from statistical.mechanisms import chi_square_difference_cdf, folded, follows

D = 200


def make(adjacency="replace_one", epsilon=0.8, d=D, calibration="tight"):
    return MECHANISMS["matrix_laplace"](
        epsilon=epsilon, n_features=d, n_components=1, adjacency=adjacency, calibration=calibration
    )


@pytest.fixture(scope="module")
def noise():
    mechanism, generator = make(), seeded_generator(20261115)
    return np.array([mechanism.noise(generator) for _ in range(N // D)])


def diagonal(noise):
    return np.diagonal(noise, axis1=1, axis2=2)  # independent within a matrix: one row of the factor each


def disjoint_off_diagonal(noise):
    return noise[:, np.arange(0, D, 2), np.arange(1, D, 2)]  # index pairs without a common row: independent


# scale c = 1/epsilon; an off-diagonal entry is (c/2) times a difference of chi-squares with twice the degrees.
CLAIMS = {
    "diagonal": (diagonal, D + 1, 1 / 0.8),
    "off-diagonal": (disjoint_off_diagonal, 2 * (D + 1), 0.5 / 0.8),
}


@pytest.mark.parametrize("part", CLAIMS)
def test_noise_follows_its_distribution(noise, part):
    functional, degrees, scale = CLAIMS[part]
    assert follows(functional(noise), chi_square_difference_cdf(degrees, scale))


@pytest.mark.parametrize("part", CLAIMS)
@pytest.mark.parametrize("factor", [1 - PERTURB, 1 + PERTURB])
def test_a_change_of_scale_is_caught(noise, part, factor):
    functional, degrees, scale = CLAIMS[part]
    assert not follows(functional(noise) * factor, chi_square_difference_cdf(degrees, scale))


def test_repeated_noise_is_caught(noise):
    # W1 - W2 with W2 = W1 on one row in twenty: the control for dependence between the two factors.
    sample = diagonal(noise).copy()
    sample[:, ::20] = 0.0
    assert not follows(sample, chi_square_difference_cdf(D + 1, 1 / 0.8))


def test_one_feature_is_the_ordinary_laplace_mechanism():
    mechanism, generator = make(epsilon=2.0, d=1, calibration="balanced"), seeded_generator(7)
    sample = [mechanism.noise(generator)[0, 0] for _ in range(N // 40)]
    mechanism = scipy.stats.laplace(scale=0.5).cdf  # 1/epsilon: C is one number between 0 and n
    assert follows(sample, mechanism)
    assert follows(np.abs(sample), folded(mechanism))
    assert not follows(np.abs(sample) * 1.2, folded(mechanism))


@pytest.mark.parametrize(("adjacency", "scale"), [("replace_one", 1.0), ("add_or_remove_one", 0.5 / 0.95)])
def test_the_released_matrix_carries_that_noise(adjacency, scale):
    """Through `release`, from the secure generator, on the integer grid, minus the known data."""
    d, bound = 100, RowBound(3.0, bits=10)
    moments = SecondMoments(bound, d).update(np.eye(d))
    mechanism = make(adjacency, epsilon=1.0, d=d)
    sample = []
    for _ in range(300):
        drawn = release(mechanism, moments)
        noisy = drawn.integers["matrix"] * drawn.unit["matrix"] / bound.unit_squared
        sample.append(np.diag(noisy - moments.gram) / bound.limit_squared)
    cdf = chi_square_difference_cdf(d + 1, scale)
    assert follows(sample, cdf)
    assert not follows(np.abs(sample) * 1.1, folded(cdf))


def test_the_private_count_is_discrete_laplace():
    moments = SecondMoments(RowBound(1.0), 1).update(np.ones((1000, 1)))
    mechanism = make(Adjacency.ADD_OR_REMOVE_ONE, epsilon=1.0, d=1)
    counts = [release(mechanism, moments, generator=seeded_generator(seed)).n_rows for seed in range(3000)]
    decay = np.exp(-1 / 20)  # a twentieth of epsilon
    values = np.arange(-60, 61)
    expected = (1 - decay) / (1 + decay) * decay ** np.abs(values)
    observed = np.array([np.sum(np.array(counts) - 1000 == value) for value in values])

    def accepted(probabilities):
        # Eleven values at a time: one by one, too few are seen of each to reject the control whatever the seeds.
        found, told = (numbers.reshape(11, 11).sum(axis=1) for numbers in (observed, probabilities))
        return scipy.stats.chisquare(found, found.sum() * told / told.sum()).pvalue > ALPHA

    assert accepted(expected)
    assert not accepted(expected**0.7)
