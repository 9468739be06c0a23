"""From a released covariance to correlations: the rescaling, its floor, and what noise becomes by it."""

import numpy as np
import pytest

from eigenveil.postprocess.correlations import DETERMINED_FROM, correlation_from_covariance


def noise(sd):
    def draw(generator):
        entries = sd * generator.standard_normal((6, 6))
        return np.triu(entries) + np.triu(entries, 1).T

    return draw


def truth():
    rng = np.random.default_rng(3)
    mixed = rng.normal(size=(6, 6))
    return mixed @ mixed.T * np.outer(*[10.0 ** np.arange(-1, 5) / 10] * 2)


def test_without_noise_it_is_the_correlation():
    covariance = truth()
    sizes = np.sqrt(np.diag(covariance))
    found = correlation_from_covariance(covariance)
    assert np.allclose(found.matrix, covariance / np.outer(sizes, sizes))
    assert np.allclose(found.sizes, sizes)
    assert found.undetermined == ()


def test_a_feature_without_variance_and_noise_correlates_with_nothing():
    covariance = truth()
    covariance[2] = covariance[:, 2] = 0.0
    found = correlation_from_covariance(covariance)
    assert found.undetermined == (2,)
    assert found.matrix[2].tolist() == [0, 0, 1, 0, 0, 0]
    assert np.isfinite(found.sizes).all()


@pytest.mark.parametrize("sd", [0.1, 3.0])
def test_the_floor_is_five_deviations_of_the_noise_of_the_variance(sd):
    assert DETERMINED_FROM == 5
    above, below = 5 * sd * 1.01, 5 * sd / 1.01
    covariance = np.diag([above, below, -1.0, 100 * sd, 100 * sd, 100 * sd])
    covariance[1, 3] = covariance[3, 1] = sd
    found = correlation_from_covariance(covariance, sd)
    assert found.undetermined == (1, 2)
    assert found.sizes[0] == pytest.approx(above**0.5)
    assert found.sizes[1:3] ** 2 == pytest.approx(5 * sd)
    assert found.matrix[1, 3] == pytest.approx(sd / (found.sizes[1] * 10 * sd**0.5))


def test_noise_is_mapped_to_first_order():
    covariance = truth()
    covariance[5, 5] = 1e-9  # under the floor, so divided by a public number
    covariance[5, :5] = covariance[:5, 5] = 0.0
    scale = np.sqrt(np.diag(covariance))
    scale[5] = 0.1

    def draw(generator):
        return noise(1e-3)(generator) * np.outer(scale, scale)

    found = correlation_from_covariance(covariance, 1e-3 * scale**2)
    assert found.undetermined == (5,)
    error = draw(np.random.default_rng(0))
    error[5] = error[:, 5] = 0.0
    moved = (
        correlation_from_covariance(covariance + 1e-3 * error).matrix - correlation_from_covariance(covariance).matrix
    )
    expected = found.noise(error)[:5, :5]
    assert np.allclose(moved[:5, :5] / 1e-3, expected, atol=1e-2 * np.abs(expected).max())
    assert not np.diag(found.noise(error)).any()


def test_the_noise_of_a_release_is_that_of_its_correlations():
    """Entries of many releases of the same rows spread as the draws that intervals and shrinkage are made of."""
    from eigenveil import PrivatePCA

    rng = np.random.default_rng(1)
    X = np.clip(rng.normal(size=(4_000, 3)) @ np.array([[1, 0.8, 0], [0, 0.6, 0.3], [0, 0, 0.5]]) / 4, -1, 1)
    model = PrivatePCA(1, epsilon=3.0, bounds=(-1, 1), standardize=True, mechanism="matrix_laplace")
    entries = np.array(
        [model.set_params(random_state=seed).fit(X).release_.matrix.scaled_matrix for seed in range(100)]
    )
    generator = np.random.default_rng(2)
    draws = model.release_.matrix.noise_draw(generator, 300)
    beside = np.triu_indices(3, 1)
    measured, told = (np.std([one[beside] for one in many], axis=0) for many in (entries, draws))
    assert told == pytest.approx(measured, rel=0.4)  # more than five standard deviations of that of 100 numbers
    assert model.release_.noise_sd == pytest.approx(np.sqrt(np.mean(told**2)), rel=0.35)
