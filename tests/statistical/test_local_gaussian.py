"""The Gaussian local mechanisms: a client's noise, `simulate` against real clients, the range check."""

import numpy as np
import pytest
from scipy import stats

from eigenveil.local import LocalProtocol, encode_many, mechanism_of
from eigenveil.local.client import new_ids, on_grid
from eigenveil.local.simulation import simulated_totals
from eigenveil.mechanisms.local.base import HONEST_FAILURE
from eigenveil.sampling.randomness import secure_generator
from statistical.constants import ALPHA, PERTURB, N
from statistical.mechanisms import follows

MECHANISMS = ["gaussian", "gaussian_paper"]


def protocol_for(mechanism: str, d: int = 20) -> LocalProtocol:
    return LocalProtocol(d, 1.0, 1e-6, mechanism=mechanism)


def standardized(mechanism, entries: np.ndarray, n_clients: int) -> np.ndarray:
    """Noise in units of its stated standard deviation; on the grid a step is 1e-7 of it, so the mechanism is normal."""
    scales = (
        np.where(mechanism.on_diagonal, mechanism.sigma, mechanism.off_diagonal_sd)
        * mechanism.grid
        * np.sqrt(n_clients)
    )
    return entries / scales


@pytest.mark.parametrize("name", MECHANISMS)
def test_noise_of_one_client(name):
    protocol = protocol_for(name, 60)
    mechanism, generator = mechanism_of(protocol), np.random.default_rng(1)
    count = N // mechanism.n_entries + 1
    rows = on_grid(protocol, np.full((count, 60), 0.1))
    payloads = mechanism.perturb(rows, new_ids(count, generator), generator)
    i, j = mechanism.triangle
    exact = rows[:, i] * rows[:, j]
    noise = standardized(mechanism, mechanism._entries(payloads) - exact, 1)
    assert follows(noise, stats.norm.cdf)
    assert not follows(noise * (1 + PERTURB), stats.norm.cdf)
    assert abs(noise[:, mechanism.on_diagonal].std() - 1) < 6.2 / np.sqrt(2 * 60 * count)
    if name == "gaussian":
        assert mechanism.sigma == pytest.approx(np.sqrt(2) * mechanism.off_diagonal_sd)


def test_noise_of_the_secure_client_has_the_same_distribution():
    mechanism = mechanism_of(protocol_for("gaussian", 60))
    noise = np.array([standardized(mechanism, mechanism.noise(1, secure_generator()), 1) for _ in range(6)])
    assert follows(noise, stats.norm.cdf)
    assert not follows(noise * (1 + 8 * PERTURB), stats.norm.cdf)  # fewer draws, a larger flaw


@pytest.mark.heavy
@pytest.mark.parametrize("name", MECHANISMS)
def test_simulation_has_the_distribution_of_real_clients(name):
    """The noise of n clients, summed report by report and drawn at once."""
    d, n_clients, repeats = 20, 10, 1000
    protocol = protocol_for(name, d)
    mechanism, generator = mechanism_of(protocol), np.random.default_rng(2)
    rows = generator.standard_normal((n_clients, d)) / 5
    grid = on_grid(protocol, rows)
    exact = (grid.T @ grid)[mechanism.triangle]
    real, drawn = [], []
    for _ in range(repeats):
        payloads = mechanism.perturb(grid, new_ids(n_clients, generator), generator)
        real.append(mechanism.fold(payloads, np.zeros((0, 16), np.uint8))[0][0][mechanism.triangle] - exact)
        drawn.append(simulated_totals(protocol, rows, generator).sums[0][mechanism.triangle] - exact)
    real, drawn = (standardized(mechanism, np.array(sums), n_clients) for sums in (real, drawn))
    assert real.size > N
    assert follows(real, stats.norm.cdf)
    assert follows(drawn, stats.norm.cdf)
    assert not follows(drawn * (1 + PERTURB), stats.norm.cdf)
    assert stats.ks_2samp(real.ravel(), drawn.ravel()).pvalue > ALPHA
    assert stats.ks_2samp(real.ravel(), (1 + 2 * PERTURB) * drawn.ravel()).pvalue < ALPHA  # control
    # Entries are independent across the triangle: no two columns correlate more than chance allows.
    bound = stats.norm.isf(ALPHA / mechanism.n_entries**2) / np.sqrt(repeats)
    for noise in (real, drawn):
        correlations = np.corrcoef(noise.T) - np.eye(mechanism.n_entries)
        assert np.abs(correlations).max() < bound
        assert np.abs(np.corrcoef(np.hstack([noise[:, :1], noise[:, :2]]).T)[0, 1]) > bound  # control: repeated noise


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(("d", "epsilon"), [(2, 8.0), (20, 1.0), (100, 0.1)])
def test_range_check_by_the_tails_of_the_noise(name, d, epsilon):
    mechanism = mechanism_of(LocalProtocol(d, epsilon, 1e-6, mechanism=name))
    entry = 2 * stats.norm.sf((mechanism.entry_reach - 1) / mechanism.sigma) * mechanism.n_entries
    length = stats.chi2(mechanism.n_entries).sf(((mechanism.norm_reach - 1) / mechanism.sigma) ** 2)
    assert entry + length <= HONEST_FAILURE
    assert mechanism.entry_reach * mechanism.grid < 2**31
    # Not so wide that it would let everything pass: within twice the typical length of an honest report, or so.
    assert mechanism.norm_reach < 1 + 2 * mechanism.sigma * np.sqrt(mechanism.n_entries) + 12 * mechanism.sigma


def test_reports_are_independent_of_each_other():
    """Two clients with the same row do not send the same noise."""
    protocol = protocol_for("gaussian", 5)
    first, second = encode_many(protocol, np.full((2, 5), 0.3))
    assert first[-64:-4] != second[-64:-4]


def test_true_epsilon_of_the_paper():
    """Claimed (2, 1e-4), given (2.30, 1e-4); checked against the privacy loss of the pair e1, e2 by integration."""
    mechanism = mechanism_of(LocalProtocol(10, 2.0, 1e-4, mechanism="gaussian_paper"))
    guarantee = mechanism.guarantee()
    assert guarantee.epsilon == pytest.approx(2.30, abs=0.005)
    assert guarantee.delta == 1e-4
    assert "(2, 0.0001)" in guarantee.assumptions[0]
    ratio = np.sqrt(2) / mechanism.sigma
    loss = np.linspace(-12, 12, 2_000_001)  # of N(ratio, 1) against N(0, 1), as a number of standard deviations

    def delta_at(epsilon):
        gap = stats.norm.pdf(loss, ratio) - np.exp(epsilon) * stats.norm.pdf(loss)
        return np.trapezoid(np.maximum(gap, 0), loss)

    assert delta_at(guarantee.epsilon) == pytest.approx(0.99e-4, rel=1e-4)  # a hundredth pays for discrete noise
    assert delta_at(2.0) > 2e-4  # what the paper claims does not hold
    # For small epsilon the slack of the classical calibration covers the missing sqrt(2); from 0.8 or so it does not.
    for epsilon, holds in ((0.1, True), (0.5, True), (1.0, False), (4.0, False)):
        guarantee = LocalProtocol(10, epsilon, 1e-4, mechanism="gaussian_paper").guarantee()
        assert (guarantee.epsilon <= epsilon) == holds
        assert guarantee.claimed == (epsilon, 1e-4)
