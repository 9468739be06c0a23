"""The mechanism of what leaves in stages: averages have the noise of one release, and a map is never a loss."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from eigenveil import PrivatePCA, RowBound, SecondMoments, gate
from eigenveil.mechanisms.budget import Budget, BudgetShare, at_share, averaged
from eigenveil.mechanisms.gaussian import Gaussian
from eigenveil.moments.sums import SumsByNorm
from eigenveil.sampling.randomness import seeded_generator
from statistical.constants import ALPHA, EXACT_FACTOR, SIGMAS

EPSILON, DELTA = 1.0, 1e-6
MECHANISM = Gaussian(epsilon=EPSILON, delta=DELTA, n_features=150)


def averaged_noise(weight_error=1):
    """Return the noise beside the diagonal of an average of two pilots, in units of one release."""
    grid = 4**16
    gram = np.zeros((150, 150), dtype=np.int64)
    mechanisms = [at_share(MECHANISM, share) for share in (Fraction(1, 10), Fraction(9, 10))]
    drawn = [
        (mechanism, mechanism.draw(gram, grid, 10, seeded_generator(seed))) for seed, mechanism in enumerate(mechanisms)
    ]
    if weight_error != 1:
        drawn[0] = (mechanisms[0], {name: weight_error * value for name, value in drawn[0][1].items()})
    _, integers, divisor = averaged(drawn)
    return integers["matrix"][np.triu_indices(150, 1)] / divisor / grid / MECHANISM.off_diagonal_sd


def fits_normal(noise):
    return scipy.stats.kstest(noise, "norm").pvalue > ALPHA


def variance_fits(noise, sd=1.0):
    return abs(np.mean(np.square(noise / sd)) - 1) < SIGMAS * np.sqrt(2 / noise.size)


def test_an_average_of_two_looks_has_the_distribution_of_one_release():
    noise = averaged_noise()
    assert fits_normal(noise)
    assert variance_fits(noise)
    assert not variance_fits(EXACT_FACTOR * noise)  # the control
    assert not variance_fits(averaged_noise(weight_error=3))


def test_the_noise_of_a_sum_is_that_of_its_portion():
    sums = SumsByNorm(RowBound(1.0), 1000)
    portion, generator = Budget(MECHANISM).take(Fraction(1, 20)), seeded_generator(3)
    noise = np.concatenate([gate.noisy_sum(sums, 1.0, portion, generator) for _ in range(20)])
    sd = 2 * 2**32 / (MECHANISM.total_mu() * np.sqrt(0.05))
    assert fits_normal(noise / sd)
    assert variance_fits(noise, sd)
    assert not variance_fits(noise, EXACT_FACTOR * sd)


def test_the_noise_of_a_count_is_that_of_its_portion():
    portion = BudgetShare(EPSILON, DELTA, Fraction(1, 25))
    sd = portion.count_sd(2)  # one question
    generator = seeded_generator(4)
    counts = np.array([1000, 0])
    beyond = [
        portion.first_at_most(counts, 1000 + most, generator) for most in np.repeat([-sd, 0, sd], 600).astype(int)
    ]
    below = 1 - np.reshape(beyond, (3, 600)).mean(axis=1)
    assert np.abs(below - scipy.stats.norm.cdf([-1, 0, 1])).max() < SIGMAS * 0.5 / np.sqrt(600)
    assert sd == pytest.approx(1 / (MECHANISM.total_mu() * 0.2), rel=1e-6)


def losses(rows, stages, repeats, k=3, epsilon=EPSILON):
    truth = rows.T @ rows / len(rows)
    best = np.linalg.eigvalsh(truth)[-k:].sum()
    found, mapped = [], []
    options = {"epsilon": epsilon, "delta": DELTA, "statistic": "clipped", "center": False, "stages": stages}
    for seed in range(repeats):
        release = PrivatePCA(k, **options, random_state=seed).fit(rows).release_
        found.append(1 - np.trace(release.components @ truth @ release.components.T) / best)
        mapped.append("map" in release.integers)
    return np.array(found), np.mean(mapped)


def gaussian_rows(power, n_rows=6000, d=40):
    return np.random.default_rng(7).normal(size=(n_rows, d)) * np.arange(1, d + 1) ** (power / 2)


def test_a_map_gains_where_the_spectrum_is_steep():
    rows = gaussian_rows(-2.0)
    one, _ = losses(rows, 1, 12)
    two, mapped = losses(rows, "auto", 12)
    assert mapped == 1
    assert two.mean() < 0.7 * one.mean()


def test_no_map_is_used_where_the_spectrum_is_flat():
    _, mapped = losses(gaussian_rows(-0.3), "auto", 5)
    assert mapped == 0


@pytest.mark.heavy
@pytest.mark.parametrize("power", [-0.3, -0.6, -0.8, -1.0, -1.2, -1.5])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_two_stages_are_never_five_per_cent_worse_than_one(power, epsilon):
    rows = gaussian_rows(power)
    one, _ = losses(rows, 1, 60, epsilon=epsilon)
    two, _ = losses(rows, "auto", 60, epsilon=epsilon)
    error = np.hypot(one.std(), two.std()) / np.sqrt(60)
    assert two.mean() < 1.05 * one.mean() + 4 * error


@pytest.mark.heavy
def test_control_a_map_without_a_gate_loses(monkeypatch):
    monkeypatch.setattr("eigenveil.postprocess.preconditioning.MOST_RELATIVE_LOSS", 10.0)
    monkeypatch.setattr("eigenveil.postprocess.preconditioning.POWERS", (0.75,))
    rows = gaussian_rows(-0.3)
    one, _ = losses(rows, 1, 60, epsilon=3.0)
    two, mapped = losses(rows, "auto", 60, epsilon=3.0)
    assert mapped == 1
    assert two.mean() > 1.05 * one.mean() + 4 * np.hypot(one.std(), two.std()) / np.sqrt(60)


def test_moments_are_looked_at_by_the_same_distribution():
    moments = SecondMoments(RowBound(1.0), 150).update(np.eye(150))
    mechanism = at_share(MECHANISM, Fraction(1, 10))
    seen = gate.draw_pilot(mechanism, moments, seeded_generator(5))
    noise = (seen.second_moment - np.eye(150) / 150)[np.triu_indices(150, 1)]
    assert variance_fits(noise, mechanism.off_diagonal_sd / 150)
    assert not variance_fits(noise, EXACT_FACTOR * mechanism.off_diagonal_sd / 150)
