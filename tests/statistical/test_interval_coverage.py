"""How often intervals hold the truth, by simulation on the level of matrices; and through whole fits, marked heavy.

Controls must fail: deviations 1.2 times too small, and intervals that forget the noise.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

from eigenveil import PrivateCovariance
from eigenveil.mechanisms import MECHANISMS
from eigenveil.postprocess.components import loading_errors
from eigenveil.postprocess.entries import MatrixError, correlation_intervals, covariance_intervals, plain_error
from eigenveil.postprocess.least_squares import LeastSquares
from helpers import scales
from statistical.constants import EXACT_FACTOR, SIGMAS

D, N_ROWS, REPEATS = 5, 4000, 200
BESIDE, DIAGONAL = np.triu_indices(D, 1), np.diag_indices(D)


def truth(d=D):
    generator = np.random.default_rng(3)
    factors = generator.standard_normal((d, 3))
    covariance = factors @ factors.T + np.diag(generator.uniform(0.3, 1.5, d))
    sizes = np.sqrt(np.diag(covariance))
    return covariance / np.outer(sizes, sizes)


def error_of(mechanism, unit, level=0.95):
    facts, error = mechanism.noise_facts(), plain_error(mechanism.n_features, 1.0, level=level)
    extra = facts.diagonal_extra * unit**2
    known = {"beside": facts.off_variance * unit**2, "shared": facts.shared_variance * unit**2}
    tails = {"quantiles": mechanism.noise_quantiles(level), "common_size": mechanism.common_size}
    return replace(error, **known, **tails, extra=np.full(mechanism.n_features, extra))


def smaller(error: MatrixError) -> MatrixError:
    """The same with deviations that are 1.2 times too small."""
    less = {name: getattr(error, name) / EXACT_FACTOR**2 for name in ("beside", "shared", "extra")}
    return replace(error, **less)


def sampled_covariance(covariance, n, generator):
    """Return the second moment of n Gaussian rows, by Bartlett's triangle."""
    d = len(covariance)
    triangle = np.tril(generator.standard_normal((d, d)), -1)
    triangle += np.diag(np.sqrt(generator.chisquare(n - np.arange(d))))
    root = np.linalg.cholesky(covariance) @ triangle
    return root @ root.T / n


def correlations(covariance):
    sizes = np.sqrt(np.diag(covariance))
    return covariance / np.outer(sizes, sizes)


def regression(covariance):
    coef = np.linalg.solve(covariance[:-1, :-1], covariance[:-1, -1])
    return coef, coef @ covariance[:-1, -1] / covariance[-1, -1]


def simulated(mechanism, unit, error, *, seed=0, repeats=REPEATS):
    """Return, by what is asked for, the share of intervals that hold the truth."""
    generator, held = np.random.default_rng(seed), {}
    control = smaller(error)
    wider = replace(error, quantiles=tuple(q * 2.39 / 1.96 for q in error.quantiles), normal=2.394)

    def put(name, ends, true):
        held.setdefault(name, []).append(np.mean((ends[..., 0] <= true) & (true <= ends[..., 1])))

    for _ in range(repeats):
        data = sampled_covariance(truth(), N_ROWS, generator)
        matrix = data + mechanism.simulated_noise(generator) * unit
        values, vectors = np.linalg.eigh(matrix)
        put("control: beside", covariance_intervals(matrix, control)[BESIDE], data[BESIDE])
        put("control: diagonal", covariance_intervals(matrix, control)[DIAGONAL], data[DIAGONAL])
        ends = correlation_intervals(matrix, control, control)
        put("control: correlation", ends[BESIDE], correlations(data)[BESIDE])
        for of, true, sampled in (("data", data, 0.0), ("population", truth(), 1 / N_ROWS)):
            entries = covariance_intervals(matrix, error, sampled=sampled)
            put(f"beside, {of}", entries[BESIDE], true[BESIDE])
            put(f"diagonal, {of}", entries[DIAGONAL], true[DIAGONAL])
            ends = correlation_intervals(matrix, error, wider, sampled=sampled)
            put(f"correlation, {of}", ends[BESIDE], correlations(true)[BESIDE])
            coef, r2 = regression(true)
            found = LeastSquares(matrix, error, per_row=sampled, population=sampled > 0)
            ends = np.array([found.contrast(axis).interval for axis in np.eye(D - 1)])
            put(f"coefficients, {of}", ends, coef)
            put(f"R2, {of}", found.r2_interval(), r2)
            angles = loading_errors(values[::-1], vectors.T[::-1], 3, error, level=0.95, sampled=sampled).angle_bound
            cosines = np.abs(np.sum(vectors * np.linalg.eigh(true)[1], axis=0))[::-1][:3]
            put(f"angle, {of}", np.stack([0 * angles, angles], -1), np.degrees(np.arccos(np.minimum(cosines, 1))))
    return {name: (np.mean(shares), np.std(shares) / np.sqrt(repeats)) for name, shares in held.items()}


def made(name, strength):
    delta = 1e-6 if MECHANISMS[name].needs_delta else 0.0
    mechanism = MECHANISMS[name](epsilon=strength * D / N_ROWS, delta=delta, n_features=D)
    return mechanism, 2.2 * D / N_ROWS


@pytest.mark.parametrize(
    ("name", "strength"), [pytest.param("gaussian", 1500, marks=pytest.mark.heavy), ("matrix_laplace", 1000)]
)
def test_intervals_hold_the_truth_as_often_as_they_say(name, strength):
    mechanism, unit = made(name, strength)
    error = error_of(mechanism, unit)
    for what, (share, deviation) in simulated(mechanism, unit, error).items():
        if what.startswith("control"):
            assert share < 0.95 - 3 * deviation, (what, share)
            continue
        assert share > 0.93 - 3 * deviation, (what, share)
        assert share < 0.97 + 3 * deviation or "R2" in what, (what, share)


def test_intervals_without_the_noise_fail():
    mechanism, unit = made("gaussian", 300)
    nothing = replace(error_of(mechanism, unit), beside=1e-12, shared=0.0, extra=np.zeros(D))
    found = simulated(mechanism, unit, nothing, repeats=60)
    assert all(share < 0.9 for what, (share, _) in found.items() if what.endswith("population"))
    assert all(share < 0.5 for what, (share, _) in found.items() if what.endswith("data"))


@pytest.mark.parametrize("strength", [3, *(pytest.param(value, marks=pytest.mark.heavy) for value in (30, 200))])
def test_where_the_noise_is_large_they_only_get_safer(strength):
    mechanism, unit = made("gaussian", strength)
    found = simulated(mechanism, unit, error_of(mechanism, unit), repeats=100)
    for what, (share, deviation) in found.items():
        assert share > 0.93 - 3 * deviation or what.startswith("control"), (what, share)


@pytest.mark.parametrize(("name", "draws"), [("matrix_laplace", 4_000), ("frobenius", 4_000), ("wishart", 4_000)])
def test_second_moments_and_tails_are_those_of_the_mechanism(name, draws):
    """Variances of the diagonal and of the trace, which factors of 1.2 would miss; and how far noise stays within."""
    mechanism = MECHANISMS[name](epsilon=1.0, delta=1e-6 if MECHANISMS[name].needs_delta else 0.0, n_features=3)
    generator, facts = np.random.default_rng(0), mechanism.noise_facts()
    noise = np.stack([mechanism.simulated_noise(generator) for _ in range(draws)])
    diagonal = np.diagonal(noise, axis1=1, axis2=2)
    for drawn, variance in (
        (np.mean(np.square(diagonal), axis=1), facts.diagonal_variance),
        (np.square(diagonal.sum(axis=1)), 3 * facts.diagonal_variance + 6 * facts.shared_variance),
        (np.mean(np.square(noise[:, *np.triu_indices(3, 1)]), axis=1), facts.off_variance),
    ):
        deviation = drawn.std() / np.sqrt(draws)
        assert abs(drawn.mean() - variance) < SIGMAS * deviation
        assert abs(drawn.mean() - EXACT_FACTOR * variance) > 2 * deviation
    within = np.abs(noise[:, 0, 1]) <= mechanism.noise_quantiles(0.95)[0] * np.sqrt(facts.off_variance)
    assert within.mean() == pytest.approx(0.95, abs=0.02)


def test_tails_of_small_mechanisms_are_heavier_than_normal():
    for name in ("matrix_laplace", "laplace"):
        assert MECHANISMS[name](epsilon=1.0, n_features=3).noise_quantiles(0.99)[0] > 1.03 * ndtri(0.995)


@pytest.mark.heavy
@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_whole_fits_hold_the_truth(adjacency, delta):
    """Own scales, a mean, a private count, a mean that is measured first: the rows as they were clipped."""
    generator, units, held = np.random.default_rng(1), 10.0 ** np.linspace(-1, 1, D), {}
    root = np.linalg.cholesky(truth())
    for _ in range(60):
        X = (generator.standard_normal((N_ROWS, D)) @ root.T + 0.5) * units
        model = PrivateCovariance(
            epsilon=1.0, delta=delta, adjacency=adjacency, schema=scales(*units), norm_bound=2.5 * np.sqrt(D),
            random_state=np.random.default_rng(generator.integers(2**60)),
        ).fit(X)  # fmt: skip
        release = model.release_
        shift = np.asarray(release.origin.row_rule.shift if release.origin.row_rule.shift is not None else np.zeros(D))
        rows = (X - shift) / units
        rows *= np.minimum(1, release.origin.row_rule.row_norm / np.linalg.norm(rows, axis=1))[:, None]
        rows = rows * units + shift
        true = np.cov(rows.T, bias=True)
        for name, ends, value in (
            ("entries", model.entry_interval_, true),
            ("correlations", model.correlation_interval_[BESIDE], correlations(true)[BESIDE]),
            ("location", model.location_interval_, rows.mean(axis=0)),
            ("coefficients", model.regress(D - 1).coef_interval, regression(true)[0]),
        ):
            held.setdefault(name, []).append(np.mean((ends[..., 0] <= value) & (value <= ends[..., 1])))
    for name, shares in held.items():
        assert np.mean(shares) > 0.93 - 3 * np.std(shares) / np.sqrt(60), (name, np.mean(shares))
