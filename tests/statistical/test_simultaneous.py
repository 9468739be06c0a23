"""Simultaneous intervals hold all true values together, and tests find few correlations that are 0; with controls.

On the level of matrices by default; through whole fits, for the population and for Kendall's tau, marked heavy.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.mechanisms import MECHANISMS
from eigenveil.postprocess.entries import correlation_intervals, largest_correlation_error, plain_error
from eigenveil.postprocess.intervals import adjusted_p_values, critical_value, sampling_error, sampling_root

D, N_ROWS, LEVEL = 6, 4000, 0.8
PAIRS = np.triu_indices(D, 1)


def truth(d=D):
    """Half of the features are correlated; the others have no correlation with anything."""
    generator = np.random.default_rng(7)
    factors = generator.standard_normal((d, 2))
    factors[d // 2 :] = 0.0
    covariance = factors @ factors.T + np.eye(d)
    sizes = np.sqrt(np.diag(covariance))
    return covariance / np.outer(sizes, sizes)


def made(name, strength, d=D):
    delta = 1e-6 if MECHANISMS[name].needs_delta else 0.0
    return MECHANISMS[name](epsilon=strength * d / N_ROWS, delta=delta, n_features=d), 2.2 * d / N_ROWS


def error_of(mechanism, unit, level):
    facts = mechanism.noise_facts()
    return replace(
        plain_error(mechanism.n_features, facts.off_variance * unit**2, level=level),
        shared=facts.shared_variance * unit**2,
        extra=np.full(mechanism.n_features, facts.diagonal_extra * unit**2),
        quantiles=mechanism.noise_quantiles(level),
    )


def held(ends, true):
    return bool(np.all((ends[PAIRS][:, 0] <= true[PAIRS]) & (true[PAIRS] <= ends[PAIRS][:, 1])))


def noise_of(mechanism, generator):
    """Return noise; that of the Gaussian mechanism is drawn quickly, from the same distribution."""
    facts = mechanism.noise_facts()
    return facts.draws(generator, 1)[0][0] if facts.gaussian else mechanism.simulated_noise(generator)


@pytest.mark.parametrize(
    ("name", "strength", "sampled"),
    [
        ("gaussian", 1500, 0.0),
        pytest.param("matrix_laplace", 1000, 1 / N_ROWS, marks=pytest.mark.heavy),
        pytest.param("gaussian", 1500, 1 / N_ROWS, marks=pytest.mark.heavy),
        pytest.param("matrix_laplace", 1000, 0.0, marks=pytest.mark.heavy),
    ],
)
def test_all_intervals_together_hold_the_truth_as_often_as_they_say(name, strength, sampled):
    (mechanism, unit), generator = made(name, strength), np.random.default_rng(3)
    true, error, root = truth(), error_of(mechanism, unit, LEVEL), sampling_root(truth())
    together, alone, small, repeats = [], [], [], 120
    for _ in range(repeats):
        data = true + (sampling_error(root, sampled, generator) if sampled else 0.0)
        matrix = data + noise_of(mechanism, generator) * unit
        largest = largest_correlation_error(matrix, error, sampled)

        def drawn(largest=largest):
            noise = noise_of(mechanism, generator) * unit
            return largest(noise + (sampling_error(root, sampled, generator) if sampled else 0.0))

        factor = critical_value(drawn, LEVEL, D)
        for found, by in ((together, factor), (small, factor / 1.2)):
            wider = replace(error, quantiles=(by, by), normal=by)
            found.append(held(correlation_intervals(matrix, wider, wider, sampled=sampled), true))
        alone.append(held(correlation_intervals(matrix, error, error, sampled=sampled), true))
    deviation = np.sqrt(LEVEL * (1 - LEVEL) / repeats)
    assert abs(np.mean(together) - LEVEL) < 3.5 * deviation
    assert np.mean(alone) < LEVEL - 5 * deviation  # control: each at its own level
    assert np.mean(small) < LEVEL - 2 * deviation  # control: 1.2 times too narrow


@pytest.mark.parametrize(("name", "strength"), [("gaussian", 100), ("matrix_laplace", 100), ("laplace", 500)])
def test_false_discoveries_are_as_rare_as_they_say(name, strength):
    d, repeats, fdr = 12, 400, 0.1
    (mechanism, unit), generator, true = made(name, strength, d), np.random.default_rng(5), truth(d)
    pairs = np.triu_indices(d, 1)
    none, sd = true[pairs] == 0, np.sqrt(mechanism.noise_facts().off_variance) * unit
    shares, without, found = [], [], []
    for _ in range(repeats):
        released = true + noise_of(mechanism, generator) * unit
        p = mechanism.noise_beyond(np.abs(released[pairs]) / sd)
        for rejected, into in ((adjusted_p_values(p) <= fdr, shares), (p <= fdr, without)):
            into.append(np.sum(rejected & none) / max(1, rejected.sum()))
        found.append(np.mean((adjusted_p_values(p) <= fdr)[~none]))
    assert np.mean(shares) < fdr + 3 * np.std(shares) / np.sqrt(repeats)
    assert np.mean(found) > 0.1  # it is not for lack of discoveries
    assert np.mean(without) > fdr + 5 * np.std(without) / np.sqrt(repeats)  # control: p-values as they are


def rows(i, n=2000, d=8):
    return np.random.default_rng([11, i]).normal(size=(n, d)) @ np.linalg.cholesky(truth(d)).T


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("of", "options"),
    [
        ("data", {"epsilon": 1.0, "delta": 1e-6, "norm_bound": 7.0}),
        ("population", {"epsilon": 1.0, "delta": 1e-6, "norm_bound": 7.0}),
        ("population", {"epsilon": 20.0, "bounds": (-5, 5)}),
        ("population", {"epsilon": 10.0, "statistic": "kendall", "standardize": True}),
    ],
    ids=["gaussian-data", "gaussian-population", "matrix_laplace-population", "kendall-population"],
)
def test_whole_fits_hold_all_correlations_and_find_few_that_are_0(of, options):
    # No row is beyond the bounds, so that nothing is clipped.
    true, pairs, repeats = truth(8), np.triu_indices(8, 1), 150
    together, alone, shares, without = [], [], [], []
    for i in range(repeats):
        table = rows(i)
        view = PrivateCovariance(**options, random_state=i).fit(table).release_.intervals
        wanted = true if of == "population" else np.corrcoef(table.T)
        for into, simultaneous in ((together, True), (alone, False)):
            low, high = np.moveaxis(view.correlation(of=of, simultaneous=simultaneous), -1, 0)
            into.append(bool(np.all((low <= wanted + 1e-9) & (wanted - 1e-9 <= high))))
        tests = view.correlation_tests(of="population")
        none = true[pairs] == 0
        for rejected, into in ((tests.rejected[pairs], shares), (tests.p_values[pairs] <= 0.05, without)):
            into.append(np.sum(rejected & none) / max(1, rejected.sum()))
    deviation = np.sqrt(0.05 * 0.95 / repeats)
    assert np.mean(together) > 0.93 - 3 * deviation
    assert np.mean(alone) < 0.6
    assert np.mean(shares) < 0.05 + 3 * np.std(shares) / np.sqrt(repeats)
    assert np.mean(without) > 0.05 + 5 * np.std(without) / np.sqrt(repeats)  # control: p-values as they are


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("of", ["data", "population"])
def test_bands_hold_all_loadings_of_the_components_that_are_determined(of):
    sizes = np.diag([3.0, 1.5, 0.5, 0.5, 0.4, 0.3])
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    together, alone, repeats = [], [], 150
    for i in range(repeats):
        table = np.random.default_rng([12, i]).normal(size=(4000, 6)) @ sizes @ turn.T
        model = PrivatePCA(2, epsilon=4.0, delta=1e-6, norm_bound=14.0, center=False, random_state=i).fit(table)
        spectrum = model.release_.spectrum
        errors = spectrum.loading_errors(of=of)
        known = ~errors.undetermined
        wanted = turn[:, :2].T if of == "population" else np.linalg.eigh(table.T @ table)[1].T[::-1][:2]
        wanted = wanted * np.sign(np.sum(wanted * model.components_, axis=1))[:, None]
        bands = spectrum.loading_bands(of=of)[known]
        together.append(bool(np.all((bands[..., 0] <= wanted[known]) & (wanted[known] <= bands[..., 1]))))
        reach = ndtri(0.975) * errors.standard_errors[known]
        alone.append(bool(np.all(np.abs(model.components_[known] - wanted[known]) <= reach)))
    assert np.mean(together) > 0.93 - 3 * np.sqrt(0.05 * 0.95 / repeats)
    assert np.mean(alone) < 0.9
