"""Shrinkage beats the raw release, and the intervals hold what they say; a wrong noise scale must show.

The closed form of shrinkage is compared with simulation, which is exact for any noise but for its own error.
"""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from eigenveil.errors import InvalidDataError
from eigenveil.mechanisms import MECHANISMS as MECHANISM_TABLE
from eigenveil.postprocess import (
    Eigensystem,
    edge_quantile,
    project_psd,
    shrink,
    shrink_by_simulation,
)
from eigenveil.postprocess.noise_spectrum import mapped_reach
from eigenveil.postprocess.shrinkage import decreasing
from helpers import refused

SPECTRA = {
    "flat": lambda d: np.ones(d),
    "power": lambda d: 1 / np.arange(1.0, d + 1),
    "slow": lambda d: np.arange(1.0, d + 1) ** -0.25,
    "rank one": lambda d: np.eye(d)[0],
    "tied": lambda d: np.where(np.arange(d) < 3, 1.0, 0.1),
}


def several(draw):
    """Return what makes so many draws."""
    return lambda generator, count: np.stack([draw(generator) for _ in range(count)])


def gaussian(d, sd):
    def draw(generator):
        entries = generator.standard_normal((d, d))
        return sd * (entries + entries.T) / np.sqrt(2)

    return draw


def matrix_laplace(d, sd):
    scale = sd / np.sqrt(2 * (d + 1))

    def draw(generator):
        first, second = generator.standard_normal((2, d, d + 1))
        return scale * (first @ first.T - second @ second.T)

    return draw


MECHANISMS = {"gaussian": gaussian, "matrix_laplace": matrix_laplace}


def excess_of(mechanism, d):
    return d / (2 * (d + 1)) if mechanism == "matrix_laplace" else 0.0


def released(values, draw, generator):
    """A matrix of these eigenvalues in a random basis, and its release."""
    basis = np.linalg.qr(generator.standard_normal((values.size, values.size)))[0]
    truth = (basis * values) @ basis.T
    truth = (truth + truth.T) / 2
    return truth, truth + draw(generator)


def sd_for(values, ratio):
    """The noise sd whose Gaussian edge is `ratio` times the largest eigenvalue."""
    return ratio * values[0] / (2 * np.sqrt(values.size))


def relative_errors(spectrum, mechanism, d, ratio, runs, factor=1.0):
    values = SPECTRA[spectrum](d)
    sd = sd_for(values, ratio)
    generator = np.random.default_rng([d, runs, round(1000 * ratio)])
    errors = []
    for _ in range(runs):
        truth, release = released(values, MECHANISMS[mechanism](d, sd), generator)
        estimate = shrink(release, (factor * sd) ** 2, excess_of(mechanism, d)).covariance
        errors.append([np.linalg.norm(estimate - truth), np.linalg.norm(release - truth)])
    shrunk, raw = np.array(errors).T
    differences = (shrunk - raw) / raw.mean()
    return differences.mean(), differences.std(ddof=1) / np.sqrt(runs)


def test_projection_is_psd_nearer_and_idempotent():
    generator = np.random.default_rng(0)
    truth, release = released(SPECTRA["power"](8), gaussian(8, 0.3), generator)
    projected = project_psd(release)
    assert np.linalg.eigvalsh(projected).min() > -1e-12
    assert np.linalg.norm(projected - truth) <= np.linalg.norm(release - truth)
    np.testing.assert_allclose(project_psd(projected), projected, atol=1e-12)


def above_the_edge(mechanism, d, factor, draws):
    """How often the largest eigenvalue of noise with a sharp trace passes its first edge, times a factor."""
    noise = MECHANISM_TABLE[mechanism](epsilon=1.0, delta=1e-6 if mechanism == "gaussian" else 0.0, n_features=d)
    generator = np.random.default_rng(d)
    spectra = np.linalg.eigvalsh(np.stack([noise.simulated_noise(generator) for _ in range(draws)]))
    edge = factor * edge_quantile(d, noise.off_diagonal_sd**2, noise.noise_facts().excess, sharp_trace=True)
    return float(np.mean(np.concatenate([spectra[:, -1], -spectra[:, 0]]) > edge))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("d", "draws"), [(6, 1500), *(pytest.param(d, 1000, marks=pytest.mark.heavy) for d in (12, 40))]
)
def test_the_first_edge_is_passed_once_in_twenty_times_at_most(mechanism, d, draws):
    """Of 3,000 numbers 150 on average at most, with an sd of 12 to 17; control: an edge a fifth too low."""
    assert above_the_edge(mechanism, d, 1.0, draws) < 0.05 + 5 * 0.2179 / np.sqrt(draws)
    assert above_the_edge(mechanism, d, 1 / 1.2, draws) > 0.05 + 5 * 0.2179 / np.sqrt(draws)


@pytest.mark.parametrize("lever", [1.0, 4.0])
def test_the_reach_of_mapped_noise_is_that_of_its_draws(lever):
    """Noise I + mm' times that of a subtracted mean m, |m|^2 the lever; control: a reach a fifth too large."""
    d, generator = 40, np.random.default_rng(3)
    mapping = np.column_stack([np.eye(d), np.sqrt(lever / d) * np.ones(d)])
    noise = np.stack([mapping @ gaussian(d + 1, 1.0)(generator) @ mapping.T for _ in range(150)])
    mean = np.linalg.eigvalsh(noise)[:, -1].mean()
    reach = mapped_reach(np.append(np.ones(d - 1), 1 + lever))
    assert abs(reach / mean - 1) < 0.07
    assert abs(1.2 * reach / mean - 1) > 0.07


def test_a_spike_in_gaussian_noise_follows_the_formula():
    d, reach = 200, 0.3  # reach = sd sqrt(d), half of the edge
    draw = gaussian(d, reach / np.sqrt(d))
    _, release = released(np.eye(d)[0], draw, np.random.default_rng(1))
    seen = np.linalg.eigvalsh(release)[-1]
    spike = (seen + np.sqrt(seen**2 - 4 * reach**2)) / 2
    result = shrink(release, reach**2 / d)
    assert result.eigenvalues[0] == pytest.approx(spike, abs=0.02)
    assert result.shrunk_eigenvalues[0] == pytest.approx(spike - reach**2 / spike, abs=0.03)
    # Control: a fifth more variance is seen.
    assert shrink(release, 1.2 * reach**2 / d).shrunk_eigenvalues[0] != pytest.approx(
        spike - reach**2 / spike, abs=0.03
    )


def test_result_is_psd_sorted_and_deterministic():
    draw = matrix_laplace(12, 0.1)
    _, release = released(SPECTRA["power"](12), draw, np.random.default_rng(2))
    for again in (
        lambda: shrink(release, 0.01, excess_of("matrix_laplace", 12)),
        lambda: shrink_by_simulation(release, several(draw)),
    ):
        result = again()
        assert np.linalg.eigvalsh(result.covariance).min() > -1e-12
        for values in (result.eigenvalues, result.shrunk_eigenvalues):
            assert (np.diff(values) <= 1e-12).all()
            assert values.min() >= 0
        np.testing.assert_array_equal(again().covariance, result.covariance)


def quiet_trace(d, sd):
    """Gaussian noise whose trace was measured once more."""

    def draw(generator):
        noise = gaussian(d, sd)(generator)
        more = np.sqrt(2) * sd * generator.standard_normal()
        return noise + (more - np.trace(noise)) / (d + 1) * np.eye(d)

    return draw


def test_a_trace_that_is_kept_is_that_of_the_release():
    _, release = released(SPECTRA["rank one"](9), quiet_trace(9, 0.3), np.random.default_rng(2))
    result = shrink(release, 0.09, keep_trace=True)
    for values in (result.eigenvalues, result.shrunk_eigenvalues, np.linalg.eigvalsh(result.covariance)[::-1]):
        assert values.sum() == pytest.approx(np.trace(release))
        assert (np.diff(values) <= 1e-12).all()
        assert values.min() > -1e-12
    assert shrink(release, 0.09).eigenvalues.sum() > 1.2 * np.trace(release)  # the control
    below = release - np.eye(9)  # a trace below 0 says that there is nothing
    assert not shrink(below, 0.09, keep_trace=True).covariance.any()
    everything = shrink(np.diag([3.0, 2.0]), 1e-18, keep_trace=True).covariance
    assert everything == pytest.approx(np.diag([3.0, 2.0]))


@pytest.mark.parametrize("spectrum", ["flat", "power", "rank one"])
@pytest.mark.parametrize("ratio", [0.3, pytest.param(3.0, marks=pytest.mark.heavy)])
def test_keeping_a_sharp_trace_is_never_worse(spectrum, ratio):
    d, runs = 10, 12
    values = SPECTRA[spectrum](d)
    sd = sd_for(values, ratio)
    draw, generator = quiet_trace(d, sd), np.random.default_rng(7)
    errors = []
    for _ in range(runs):
        truth, release = released(values, draw, generator)
        found = [shrink(release, sd**2, keep_trace=keep).covariance for keep in (True, False)]
        errors.append([np.linalg.norm(one - truth) for one in found])
    kept, left = np.array(errors).T
    spread = (kept - left).std() / np.sqrt(runs)
    assert (kept - left).mean() <= 4 * spread + 1e-3 * left.mean()
    if ratio == 3.0 and spectrum != "flat":
        assert kept.mean() < 0.95 * left.mean()


def test_without_noise_nothing_changes():
    truth, _ = released(SPECTRA["power"](7), gaussian(7, 1.0), np.random.default_rng(3))
    np.testing.assert_allclose(shrink(truth, 1e-24).covariance, truth, atol=1e-9)
    np.testing.assert_allclose(shrink_by_simulation(truth, several(gaussian(7, 1e-12))).covariance, truth, atol=1e-9)


def test_pure_noise_is_taken_for_noise():
    draw = gaussian(60, 1.0)
    result = shrink(draw(np.random.default_rng(4)), 1.0)
    assert np.linalg.norm(result.covariance) < 0.3 * np.linalg.norm(draw(np.random.default_rng(4)))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize(
    ("d", "ratio"),
    [
        (1, 0.3),
        pytest.param(3, 0.1, marks=pytest.mark.heavy),
        pytest.param(10, 0.03, marks=pytest.mark.heavy),
        (10, 0.3),
        pytest.param(10, 3.0, marks=pytest.mark.heavy),
        pytest.param(30, 0.1, marks=pytest.mark.heavy),
    ],
)
def test_error_is_never_more_than_one_percent_above_the_raw_release(mechanism, spectrum, d, ratio):
    mean, error = relative_errors(spectrum, mechanism, d, ratio, 10)
    assert mean <= 0.01 + 4 * error


@pytest.mark.parametrize("spectrum", ["flat", "rank one"])
def test_error_is_far_below_the_raw_release_where_it_can_be(spectrum):
    mean, error = relative_errors(spectrum, "gaussian", 40, 0.3, 6)
    assert mean + 4 * error < -0.4


def test_control_a_wrong_noise_scale_spoils_the_estimate():
    mean, error = relative_errors("power", "gaussian", 10, 0.03, 12, factor=10.0)
    assert mean - 4 * error > 0.01


def beside_simulation(spectrum, mechanism, d, ratio, runs, factor=1.0):
    """Mean loss of the closed form over that of simulation, on the same releases."""
    values = SPECTRA[spectrum](d)
    sd = sd_for(values, ratio)
    draw, generator, errors = MECHANISMS[mechanism](d, sd), np.random.default_rng([d, runs]), []
    for _ in range(runs):
        truth, release = released(values, draw, generator)
        closed = shrink(release, factor * sd**2, excess_of(mechanism, d)).covariance
        simulated = shrink_by_simulation(release, several(draw)).covariance
        errors.append([np.linalg.norm(one - truth) for one in (closed, simulated)])
    closed, simulated = np.mean(errors, axis=0)
    return closed / simulated


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_closed_form_is_as_near_as_simulation(mechanism):
    ratios = [beside_simulation(spectrum, mechanism, 15, 0.5, 4) for spectrum in SPECTRA]
    assert np.mean(ratios) < 1.03


@pytest.mark.heavy
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("d", [2, 5, 15, 60])
@pytest.mark.parametrize("ratio", [0.03, 0.3, 3.0])
def test_the_closed_form_is_as_near_as_simulation_in_long_runs(mechanism, spectrum, d, ratio):
    assert beside_simulation(spectrum, mechanism, d, ratio, 20) < 1.12


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_is_kept_of_a_clear_direction_is_its_variance(mechanism):
    """The mean of shrunk - u'Au over 250 releases has an sd of 0.003; a variance of 1.2 times moves it by 0.025."""
    d, values = 60, SPECTRA["rank one"](60)
    sd, excess, generator = sd_for(values, 0.5), excess_of(mechanism, 60), np.random.default_rng(11)
    apart = {1.0: [], 1.2: []}
    for _ in range(250):
        release = np.diag(values) + MECHANISMS[mechanism](d, sd)(generator)
        system = Eigensystem(release)
        for factor, found in apart.items():
            kept = shrink(release, factor * sd**2, excess, system).shrunk_eigenvalues[0]
            found.append(kept - system.rows(1)[0] ** 2 @ values)
    assert abs(np.mean(apart[1.0])) < 0.0125 < -np.mean(apart[1.2])


@pytest.mark.heavy
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("d", [2, 3, 4, 5, 8, 20])
@pytest.mark.parametrize("ratio", [0.003, 0.03, 0.1, 0.3, 1.0, 3.0])
def test_error_in_long_runs(mechanism, spectrum, d, ratio):
    mean, error = relative_errors(spectrum, mechanism, d, ratio, 300)
    assert mean <= 0.01 + 2 * error


def test_bad_arguments_are_refused():
    draw = gaussian(2, 1.0)
    with refused(InvalidDataError):
        shrink(np.ones((2, 3)), 1.0)
    with refused(InvalidDataError):
        shrink_by_simulation(np.array([[1.0, np.nan], [np.nan, 1.0]]), several(draw))
    with refused(InvalidDataError):
        project_psd(np.array([[1.0, 2.0], [0.0, 1.0]]))


def test_the_nearest_decreasing_sequence_is_that_of_isotonic_regression():
    generator = np.random.default_rng(0)
    for d in (1, 2, 3, 10, 60):
        for noise in (0.01, 0.3, 3.0):
            values = 9 - np.linspace(0, 1, d) + noise * generator.standard_normal(d)
            for tied in (values, np.round(values, 1), values[::-1], np.sort(values)):
                nearest = isotonic_regression(tied, increasing=False).x
                np.testing.assert_allclose(decreasing(tied), np.maximum(nearest, 0.0), rtol=1e-14, atol=1e-14)
