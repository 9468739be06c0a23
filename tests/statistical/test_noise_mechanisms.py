"""Every additive noise has the distribution it claims; a scale wrong by 10 % is caught (by 5 %: long run).

Each claim names scalar functionals of the noise with known distribution functions; a test keeps the table complete.
"""

import numpy as np
import pytest
import scipy.stats

from contract.catalogue import CASES, IDS, make
from eigenveil import Adjacency, RowBound, SecondMoments, release
from eigenveil.mechanisms import MECHANISMS
from eigenveil.sampling.randomness import seeded_generator
from statistical.constants import ALPHA, PERTURB, N
from statistical.mechanisms import chi_square_difference_cdf, folded, follows

GRID = 2.0**32  # noise is discrete on the integer grid of 16 bits, and continuous for the eye
D = 200
FEWER = 5  # draws in the default run, which see a flaw twice as large


def diagonals(mechanism, generator, n):
    """Independent diagonal entries, and independent entries beside the diagonal (index pairs without a common row)."""
    diagonal, beside = [], []
    for _ in range(n // D):
        noise = mechanism.noise(generator, GRID) / GRID
        diagonal.append(np.diag(noise))
        beside.append(noise[np.arange(0, D, 2), np.arange(1, D, 2)])
    return {"diagonal": np.ravel(diagonal), "off-diagonal": np.ravel(beside)}


def norms(mechanism, generator, n):
    """Radius, and the share of one coordinate in it: uniform directions make that a Beta variable."""
    draws = np.array([mechanism.noise(generator) for _ in range(n // 2)])
    radius = np.linalg.norm(draws, axis=(1, 2))
    return {
        "radius": radius,
        "share of the diagonal": (draws[:, 0, 0] / radius) ** 2,
        "share beside it": 2 * (draws[:, 0, 1] / radius) ** 2,
    }


def gaussian_mechanisms(mechanism):
    diagonal, beside = mechanism.standard_deviations
    return {
        "diagonal": scipy.stats.norm(scale=diagonal).cdf,
        "off-diagonal": scipy.stats.norm(scale=beside).cdf,
    }


def laplace_distributions(mechanism):
    cdf = scipy.stats.laplace(scale=mechanism.noise_scale()).cdf
    return {"diagonal": cdf, "off-diagonal": cdf}


def frobenius_mechanisms(mechanism):
    numbers = mechanism.n_features * (mechanism.n_features + 1) / 2
    share = scipy.stats.beta(0.5, (numbers - 1) / 2).cdf
    return {
        "radius": scipy.stats.gamma(numbers, scale=mechanism.noise_scale()).cdf,
        "share of the diagonal": share,
        "share beside it": share,
    }


def matrix_laplace_distributions(mechanism):
    c, degrees = mechanism.noise_scale(), mechanism.n_features + 1
    if (
        mechanism.balanced
    ):  # test_exact_noise.py knows its mechanism; far from d = 1 it is nearly that of independent Wisharts, 2c
        c *= 2
    return {
        "diagonal": chi_square_difference_cdf(degrees, c),
        "off-diagonal": chi_square_difference_cdf(2 * degrees, c / 2),
    }


def wishart_mechanisms(mechanism):
    degrees, c = mechanism.degrees_and_scale
    return {
        "diagonal": scipy.stats.chi2(degrees, scale=c).cdf,
        # x.y = (|x + y|^2 - |x - y|^2)/4 for independent Gaussian rows of `degrees` numbers.
        "off-diagonal": chi_square_difference_cdf(degrees, c / 2),
    }


CLAIMS = {
    "gaussian": (D, diagonals, gaussian_mechanisms),
    "mod_sulq": (D, diagonals, gaussian_mechanisms),
    "laplace": (D, diagonals, laplace_distributions),
    "matrix_laplace": (D, diagonals, matrix_laplace_distributions),
    "wishart": (D, diagonals, wishart_mechanisms),
    "frobenius": (3, norms, frobenius_mechanisms),
}
ADDITIVE = [(case, case_id) for case, case_id in zip(CASES, IDS, strict=True) if case[0] in CLAIMS]
# Of the samplers that `auto` takes once; other constants and the other relation only rescale them.
QUICK = [
    case_id
    for (name, calibration, adjacency), case_id in ADDITIVE
    if adjacency is Adjacency.REPLACE_ONE
    and calibration == MECHANISMS[name].calibrations[0]
    # Others are tested with fewer draws in test_discrete, test_exact_noise and test_wishart.
    and name in ("gaussian", "matrix_laplace")
]
PARAMETERS = [
    *(pytest.param(*case, N // FEWER, 2 * PERTURB, id=case_id) for case, case_id in ADDITIVE if case_id in QUICK),
    *(pytest.param(*case, N, PERTURB, id=f"{case_id}-long", marks=pytest.mark.heavy) for case, case_id in ADDITIVE),
]


@pytest.mark.parametrize(("name", "calibration", "adjacency", "n", "flaw"), PARAMETERS)
def test_noise_follows_its_distribution_and_a_change_of_scale_is_caught(name, calibration, adjacency, n, flaw):
    d, functionals, mechanisms = CLAIMS[name]
    mechanism = make(name, calibration, adjacency, d=d, epsilon=0.7)
    samples = functionals(mechanism, seeded_generator(20261115), n)
    for part, cdf in mechanisms(mechanism).items():
        sample = samples[part]
        assert follows(sample, cdf), part
        if part == "off-diagonal":  # a symmetric mechanism: folding it shows a change of scale twice as well
            sample, cdf = np.abs(sample), folded(cdf)
            assert follows(sample, cdf), part
        if part.startswith("share"):
            # A change of scale cancels in a share; noise that is flat in one coordinate does not.
            assert not follows(np.minimum(1.0, sample * (1 + flaw) ** 2), cdf), part
        else:
            assert not follows(sample * (1 + flaw), cdf), part
            assert not follows(sample * (1 - flaw), cdf), part


def test_every_mechanism_that_adds_noise_has_a_claim():
    additive = {name for name, mechanism in MECHANISMS.items() if mechanism.adds_noise}
    assert additive == set(CLAIMS)


@pytest.mark.parametrize(("name", "calibration", "adjacency"), [case for case, _ in ADDITIVE])
def test_the_stated_standard_deviation_and_mean_are_those_of_the_noise(name, calibration, adjacency):
    d = 30
    mechanism = make(name, calibration, adjacency, d=d)
    draws = np.array([mechanism.noise(seeded_generator(seed), GRID) / GRID for seed in range(100)])
    beside = draws[:, np.triu_indices(d, 1)[0], np.triu_indices(d, 1)[1]]
    # 43,500 numbers, nearly independent: the relative error of their standard deviation is about 0.5 % (1.7 %).
    assert np.isclose(np.sqrt(np.mean(beside**2)), mechanism.off_diagonal_sd, rtol=0.08)
    error = mechanism.off_diagonal_sd * 2 / np.sqrt(100 * d)
    assert abs(np.mean(np.trace(draws, axis1=1, axis2=2)) / d - mechanism.noise_mean) < 8 * error


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize(
    ("name", "calibration"),
    [
        ("matrix_laplace", None),
        pytest.param("gaussian", None, marks=pytest.mark.heavy),
        pytest.param("gaussian", "paper", marks=pytest.mark.heavy),
    ],
)
def test_noise_that_is_simulated_all_at_once_has_the_distribution_of_single_draws(name, calibration, adjacency):
    delta = 1e-6 if MECHANISMS[name].needs_delta else 0.0
    options = {} if calibration is None else {"calibration": calibration}
    mechanism = MECHANISMS[name](epsilon=1.0, delta=delta, n_features=5, adjacency=adjacency, **options)
    generator = seeded_generator(1)
    single = np.stack([mechanism.simulated_noise(generator) for _ in range(4000)])
    at_once = mechanism.simulated_noises(seeded_generator(2), 4000)
    functionals = (
        lambda noise: np.linalg.eigvalsh(noise)[:, -1],
        lambda noise: np.linalg.eigvalsh(noise[:, 2:, 2:])[:, -1],
        lambda noise: np.trace(noise, axis1=1, axis2=2),
        lambda noise: noise[:, 0, 1],
    )
    for value in functionals:
        assert scipy.stats.ks_2samp(value(single), value(at_once)).pvalue > ALPHA
        assert scipy.stats.ks_2samp(value(single), value(1.5 * at_once)).pvalue < ALPHA  # the control


# Through `release`.


@pytest.mark.parametrize(("adjacency", "scale"), [("replace_one", 1.0), ("add_or_remove_one", 0.5 / 0.95)])
def test_a_released_matrix_has_the_noise_of_independent_wisharts(adjacency, scale):
    """Through `release`, from the secure generator, on the integer grid, minus the known data."""
    d, bound = 100, RowBound(3.0, bits=10)
    moments = SecondMoments(bound, d).update(np.eye(d))
    mechanism = make("matrix_laplace", "tight", adjacency, d=d)
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
    mechanism = make("matrix_laplace", adjacency=Adjacency.ADD_OR_REMOVE_ONE, d=1, k=1)
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
