"""Quantiles of the largest error, the false discovery rate, and tails beyond what was simulated."""

import numpy as np
import pytest
from scipy.special import ndtr

from eigenveil.errors import InvalidParameterError
from eigenveil.mechanisms import MECHANISMS
from eigenveil.mechanisms.additive import tail_probability
from eigenveil.postprocess.intervals import adjusted_p_values, critical_value, sampling_error, sampling_root
from helpers import refused


def test_a_further_draw_exceeds_the_critical_value_as_often_as_the_level_says():
    """Exactly, whatever the number of draws: P(new > k-th of B) = 1 - k/(B + 1)."""
    generator = np.random.default_rng(0)
    exceeded = [generator.random() > critical_value(generator.random, 0.9, 10) for _ in range(2000)]
    assert abs(np.mean(exceeded) - 0.1) < 3.5 * np.sqrt(0.09 / 2000)
    assert critical_value(iter(range(1, 400)).__next__, 0.95, 10) == 380  # of 399 draws
    assert critical_value(iter(range(1, 200)).__next__, 0.95, 1000) == 190  # fewer for wide matrices
    with refused(InvalidParameterError):
        critical_value(generator.random, 0.9999, 10)


def test_adjusted_p_values_are_those_of_the_step_up_procedure():
    generator = np.random.default_rng(1)
    for _ in range(50):
        p = generator.random(12) ** 3
        adjusted = adjusted_p_values(p)
        for q in (0.01, 0.05, 0.2, 0.9):
            steps = np.arange(1, 13) * q / (12 * np.sum(1 / np.arange(1, 13)))
            below = np.flatnonzero(np.sort(p) <= steps)
            rejected = p <= (np.sort(p)[below[-1]] if below.size else -1.0)
            np.testing.assert_array_equal(adjusted <= q, rejected)
    assert adjusted_p_values(np.array([])).size == 0


def test_tails_beyond_the_simulated_ones_are_close_and_on_the_safe_side():
    simulated = np.sort(np.abs(np.random.default_rng(3).laplace(size=40_000))) / np.sqrt(2)
    sizes = np.array([1.0, 3.0, 5.0, 8.0, 12.0])
    exact = np.exp(-np.sqrt(2) * sizes)
    found = tail_probability(simulated, sizes)
    np.testing.assert_allclose(found[:2], exact[:2], rtol=0.1)
    assert ((found[2:] > 0.8 * exact[2:]) & (found[2:] < 20 * exact[2:])).all()
    assert (2 * ndtr(-sizes[3:]) < 0.01 * exact[3:]).all()  # control: a normal tail is far too light
    assert (np.diff(tail_probability(simulated, np.linspace(0, 20, 500))) <= 0).all()


def test_noise_that_is_normal_has_normal_tails():
    mechanism = MECHANISMS["gaussian"](epsilon=1.0, delta=1e-6, n_features=4)
    np.testing.assert_allclose(mechanism.noise_beyond(np.array([0.0, 1.96, 6.0])), 2 * ndtr([-0.0, -1.96, -6.0]))


def test_sampling_errors_have_the_covariance_of_gaussian_rows():
    covariance = np.array([[2.0, 0.6], [0.6, 0.5]])
    generator = np.random.default_rng(2)
    root = sampling_root(covariance)
    np.testing.assert_allclose(root @ root.T, covariance, atol=1e-12)
    drawn = np.stack([sampling_error(root, 0.01, generator) for _ in range(20_000)])
    expected = 0.01 * (np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2)
    np.testing.assert_allclose(drawn.var(axis=0), expected, rtol=0.06)
    assert np.corrcoef(drawn[:, 0, 0], drawn[:, 0, 1])[0, 1] == pytest.approx(
        2 * 2.0 * 0.6 / np.sqrt(2 * 4.0 * (1.0 + 0.36)), abs=0.03
    )
