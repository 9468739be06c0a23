"""The number more that `gaussian` releases: its mechanism, what is read from it, and what the errors are then."""

import math

import mpmath
import numpy as np
import pytest
import scipy.stats

from contract.catalogue import some_moments
from eigenveil import Adjacency, RowBound, SecondMoments, load_release, release
from eigenveil.accounting.calibration import DISCRETE_SHARE
from eigenveil.errors import EigenveilError
from eigenveil.mechanisms import MECHANISMS
from eigenveil.sampling.randomness import seeded_generator
from statistical.constants import EXACT_FACTOR, SIGMAS
from statistical.mechanisms import follows

GRID = 4**16
FREE, PAID = 5, 30  # widths where the number of rows is free, and where it is paid for
DRAWS = 2000
"""Enough to see a standard deviation that is wrong by EXACT_FACTOR."""


def made(d=FREE, adjacency="replace_one", calibration="traced", **options):
    known = {"epsilon": 1.0, "delta": 1e-6, "n_features": d, "adjacency": adjacency, "calibration": calibration}
    return MECHANISMS["gaussian"](**{**known, **options})


def some_gram(d, n_rows=60):
    rows = np.random.default_rng(d).normal(size=(n_rows, d)) * 2**16 / (3 * math.sqrt(d))
    integers = np.trunc(rows).astype(np.int64)
    integers[np.square(integers).sum(axis=1) > GRID] = 0
    return integers.T @ integers


def drawn(mechanism, size, n_rows=60, gram=None):
    """Return the noise in releases, in units of C."""
    gram = some_gram(mechanism.n_features) if gram is None else gram
    generator = seeded_generator(3)
    true = {"matrix": gram, "trace": np.trace(gram), "slack": n_rows * GRID - np.trace(gram), "count": n_rows}
    draws = [mechanism.draw(gram, GRID, n_rows, generator) for _ in range(size)]
    units = mechanism.units(GRID, 1 / GRID)
    return {name: np.array([one[name] - true[name] for one in draws]) * units[name] for name in draws[0]}


def close(samples, variance, factor=1.0):
    """Whether numbers of mean 0 have this variance, times `factor`; they are normal, or nearly."""
    return abs(np.mean(np.square(samples)) / (factor * variance) - 1) < SIGMAS * math.sqrt(2 / len(samples))


def assert_variance(samples, variance):
    assert close(samples, variance)
    assert not close(samples, variance, EXACT_FACTOR**2)  # the controls
    assert not close(samples, variance, EXACT_FACTOR**-2)


# What leaves.


@pytest.mark.parametrize(("adjacency", "name"), [("replace_one", "trace"), ("add_or_remove_one", "slack")])
def test_the_number_more_has_the_noise_of_the_diagonal(adjacency, name):
    mechanism = made(2, adjacency)
    noise = drawn(mechanism, DRAWS)
    assert set(noise) == {"matrix", name}
    scale = mechanism.noise_scale()
    assert follows(noise[name], scipy.stats.norm(scale=scale).cdf)
    assert_variance(noise[name], scale**2)
    for entry in (noise["matrix"][:, 0, 0], noise["matrix"][:, 1, 1], np.trace(noise["matrix"], axis1=1, axis2=2)):
        assert abs(np.corrcoef(noise[name], entry)[0, 1]) < SIGMAS / math.sqrt(DRAWS)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("calibration", ["traced", "tight", "paper"])
@pytest.mark.parametrize("d", [1, FREE, PAID])
def test_every_number_that_leaves_is_counted(d, calibration, adjacency):
    mechanism = made(d, adjacency, calibration)
    leaves = mechanism.draw(some_gram(d), GRID, 60, seeded_generator(0))
    numbers = d * (d + 1) // 2 + sum(value.size for name, value in leaves.items() if name != "matrix")
    assert mechanism.n_numbers == numbers
    private_count = adjacency is Adjacency.ADD_OR_REMOVE_ONE
    assert ("count" in leaves) == (private_count and (calibration != "traced" or d == PAID))
    assert ("trace" in leaves, "slack" in leaves) == (
        calibration == "traced" and not private_count, calibration == "traced" and private_count
    )  # fmt: skip


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("d", [FREE, PAID])
def test_what_is_spent_is_what_was_asked_for(d, adjacency):
    """In sixty digits: the worst change of all numbers together, in units of their noise, has delta and no more."""
    for epsilon in (0.05, 0.7, 1.0, 3.3):
        mechanism = made(d, adjacency, epsilon=epsilon)
        with mpmath.workdps(60):
            squares = (
                mpmath.mpf(2 if adjacency is Adjacency.REPLACE_ONE else 1) / mpmath.mpf(mechanism.noise_scale()) ** 2
            )
            if mechanism.count_sd:
                squares += 1 / mpmath.mpf(mechanism.count_sd) ** 2
            mu, at = mpmath.sqrt(squares), mpmath.mpf(repr(epsilon))
            assert mu <= mpmath.mpf(mechanism.total_mu()) * (1 + mpmath.mpf("1e-15"))
            assert mu**2 / 2 <= mpmath.mpf(mechanism.guarantee().rho)
            delta = mpmath.ncdf(mu / 2 - at / mu) - mpmath.exp(at) * mpmath.ncdf(-mu / 2 - at / mu)
            allowed = mpmath.mpf("1e-6") * (1 - mpmath.mpf(str(DISCRETE_SHARE)))
            assert allowed * (1 - mpmath.mpf("1e-6")) <= delta <= allowed
    assert (mechanism.count_sd > 0) == (adjacency is Adjacency.ADD_OR_REMOVE_ONE and d == PAID)


# What is read.


@pytest.mark.parametrize(
    ("d", "adjacency"), [(FREE, "replace_one"), (FREE, "add_or_remove_one"), (PAID, "add_or_remove_one")]
)
def test_readings_are_those_of_least_squares(d, adjacency):
    """All numbers that left, weighted by their noise, and no formula: the diagonal and the number of rows unknown."""
    mechanism = made(d, adjacency)
    values = {name: value[0] for name, value in drawn(mechanism, 1).items()}
    told, unknown = [*np.diag(values["matrix"])], np.eye(d, d + 1)
    sums, weights = [np.append(np.ones(d), 0.0)], [1 / mechanism.noise_scale()] * (d + 1)
    if adjacency == "replace_one":
        told.append(values["trace"])
    else:
        told.append(values["slack"])
        sums = [np.append(-np.ones(d), 1.0)]
        if d == PAID:
            told.append(values["count"])
            sums.append(np.eye(d + 1)[d])
            weights.append(1 / mechanism.count_sd)
    design = np.vstack([unknown, *sums]) * np.array(weights)[:, None]
    best = np.linalg.lstsq(design, np.array(told) * weights, rcond=None)[0]
    assert np.diag(mechanism.second_moment(values, 1)) == pytest.approx(best[:d], rel=1e-9)
    assert mechanism.second_moment(values, 1)[0, 1] == values["matrix"][0, 1]
    if adjacency == "replace_one":
        assert mechanism.estimated_rows(values) is None
    else:
        assert mechanism.estimated_rows(values) == pytest.approx(best[d], rel=1e-9)


@pytest.mark.parametrize(
    ("d", "adjacency"), [(FREE, "replace_one"), (FREE, "add_or_remove_one"), (PAID, "add_or_remove_one")]
)
def test_simulated_errors_have_the_variances_of_the_formulas(d, adjacency):
    mechanism, generator = made(d, adjacency), seeded_generator(4)
    errors = [mechanism.simulated_errors(generator) for _ in range(DRAWS)]
    matrices = np.array([one for one, _ in errors])
    sigma = mechanism.noise_scale() ** 2
    rest = {"trace": sigma, "slack": math.inf, "both": sigma + mechanism.count_sd**2}  # of what else tells the trace
    told = "trace" if adjacency == "replace_one" else "both" if mechanism.count_sd else "slack"
    trace = 1 / (1 / (d * sigma) + 1 / rest[told])
    assert_variance(np.trace(matrices, axis1=1, axis2=2), trace)
    # Isotropic beside the trace, which the diagonal shares evenly.
    assert_variance(matrices[:, 0, 1], sigma / 2)
    assert_variance((matrices[:, 0, 0] - matrices[:, 1, 1]) / math.sqrt(2), sigma)
    assert_variance(matrices[:, 0, 0], sigma * (1 - 1 / d) + trace / d**2)
    if adjacency == "add_or_remove_one":
        free = (d + 1) * sigma
        expected = 1 / (1 / free + 1 / mechanism.count_sd**2) if mechanism.count_sd else free
        assert_variance(np.array([rows for _, rows in errors]), expected)


@pytest.mark.parametrize("d", [FREE, PAID])
def test_the_number_of_rows_is_a_function_of_what_left(d, tmp_path):
    mechanism, moments = made(d, "add_or_remove_one"), some_moments(d, n=900)
    one = release(mechanism, moments, generator=seeded_generator(1))
    assert abs(one.n_rows - 900) < 8 * mechanism.noise_scale() * math.sqrt(min(d + 1, 20))
    assert load_release(one.save(tmp_path / "r.npz")).n_rows == one.n_rows
    assert one.origin.n_rows is None
    empty = SecondMoments(RowBound(1.0), d)
    counted = [release(mechanism, empty, generator=seeded_generator(seed)).n_rows for seed in range(20)]
    assert min(counted) == 1


def alike(mechanism):
    """A release of rows that are all alike: what is along them is the number of rows, whose error shows in full."""
    moments = SecondMoments(RowBound(1.0), 3).update(np.tile(np.eye(3)[0], (2000, 1)))
    return lambda generator: release(mechanism, moments, generator=generator)


@pytest.mark.heavy
def test_intervals_know_that_the_number_of_rows_is_noisy():
    mechanism, generator = made(3, "add_or_remove_one"), seeded_generator(2)
    one = alike(mechanism)(generator)
    simulated = np.array([one.matrix.error_draw(generator)[0, 0] for _ in range(DRAWS)]) * 2000
    assert_variance(simulated, 3 * mechanism.noise_scale() ** 2)  # 1 - 2v + (d + 1)v^2 at v = 1
    # The control: without it an interval would be too short.
    assert_variance(one.matrix.noise_draw(generator, DRAWS)[:, 0, 0] * 2000, mechanism.noise_scale() ** 2)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["gaussian", "laplace", "frobenius"])
def test_errors_of_releases_are_as_simulated(name):
    options = {"epsilon": 1.0, "n_features": 3, "adjacency": "add_or_remove_one"}
    mechanism = MECHANISMS[name](**options, delta=1e-6 if MECHANISMS[name].needs_delta else 0.0)
    generator = seeded_generator(2)
    found = [alike(mechanism)(generator) for _ in range(10_000)]
    errors = np.array([one.matrix.scaled_matrix[0, 0] - 1 for one in found])
    simulated = np.array([found[0].matrix.error_draw(generator)[0, 0] for _ in range(10_000)])
    assert 0.8 < errors.var() / simulated.var() < 1.25  # six standard errors, for Laplace numbers too


# Refusals before the spend.


@pytest.mark.parametrize("name", ["laplace", "matrix_laplace", "frobenius", "eigenvector_sampling"])
def test_a_count_that_cannot_be_drawn_is_refused_by_the_mechanism_that_draws_it(name):
    for epsilon in (2.0**-50, 2.0**30):
        mechanism = MECHANISMS[name](epsilon=epsilon, n_features=2, adjacency="add_or_remove_one")
        with pytest.raises(EigenveilError):
            mechanism.check_grid(GRID)
        with pytest.raises(EigenveilError, match="private number of rows"):
            mechanism.check_count()
    MECHANISMS[name](epsilon=1.0, n_features=2, adjacency="add_or_remove_one").check_grid(GRID)


def test_the_count_of_a_gaussian_release_fits_int64_wherever_the_mechanism_does():
    mechanism = made(PAID, "add_or_remove_one", epsilon=1e-3)
    assert mechanism.noise_reach == 40 * mechanism.count_sd > 40 * 4 * mechanism.noise_scale()
