"""How often intervals of regressions hold the truth, at any strength of identification; the long version is heavy.

Controls must fail: the delta method on truncated eigenvalues, and a score without its second-order correction.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from eigenveil.mechanisms import MECHANISMS
from eigenveil.postprocess.entries import plain_error
from eigenveil.postprocess.least_squares import LeastSquares
from helpers import residual_covariance

# Least variance of the features in units of the noise; how the other variances are; length of the coefficients.
SPECTRA = {
    "flat": lambda least, p: np.full(p, least),
    "one weak": lambda least, p: np.r_[least, np.linspace(3 * least + 10, 20 * least + 30, p - 1)],
    "half weak": lambda least, p: np.r_[np.full(p // 2, least), np.full(p - p // 2, 10 * least + 20)],
}


def truth(p, least, spectrum, length, generator, *, tilted=True, residual=None):
    """Return a second moment with these variances of the features, in units of the noise, and the coefficients."""
    values = SPECTRA[spectrum](float(least), p)
    axes = np.linalg.qr(generator.standard_normal((p, p)))[0] if tilted else np.eye(p)
    features = (axes * values) @ axes.T
    coef = generator.standard_normal(p)
    coef *= length / np.linalg.norm(coef)
    covariance = features @ coef
    target = coef @ covariance
    rest = (5.0 + target) if residual is None else residual
    return np.block([[features, covariance[:, None]], [covariance, np.array([[target + rest]])]]), coef


def noise_of(name, d):
    """Return noise of deviation 1 beside the diagonal, and its error."""
    delta = 1e-6 if MECHANISMS[name].needs_delta else 0.0
    mechanism = MECHANISMS[name](epsilon=1.0, delta=delta, n_features=d)
    facts = mechanism.noise_facts()
    unit, error = 1 / np.sqrt(facts.off_variance), plain_error(d, 1.0, level=0.95)
    error = replace(error, shared=facts.shared_variance * unit**2, quantiles=mechanism.noise_quantiles(0.95))
    return (lambda generator: mechanism.simulated_noise(generator) * unit), error, mechanism


def reduced(fit, A, mechanism):
    """Return the intervals and true coefficients of the features that can be resolved; others have no interval."""
    p, hidden = fit.n_features, [] if fit.bounded else fit.hidden_features()
    kept = [feature for feature in range(p) if feature not in hidden] if hidden else []
    found = dict.fromkeys(range(min(3, p)), ((-np.inf, np.inf), 0.0))
    if kept:
        level = 1 - 0.05 / (1 + len(hidden))
        normal, columns = plain_error(2, 1, level=level).normal, [*kept, p]
        wider = replace(fit.error, quantiles=mechanism.noise_quantiles(level), normal=normal).of(columns)
        matrix = fit.matrix[np.ix_(columns, columns)]
        fewer = LeastSquares(matrix, wider, per_row=fit.per_row, population=fit.population)
        true = np.linalg.solve(A[np.ix_(kept, kept)], A[kept, p])
        for place, feature in enumerate(kept):
            if feature in found:
                found[feature] = fewer.contrast(np.eye(len(kept))[place]).interval, true[place]
    return found


def coverage(name, p, least, spectrum, length, *, repeats, seed=0, rows=None, tails=None):
    """Return by question the share of intervals that hold the truth, and how many are finite."""
    generator = np.random.default_rng(seed)
    noise, error, mechanism = noise_of(name, p + 1)
    A, coef = truth(p, least, spectrum, length, generator)
    root = np.linalg.cholesky(A) if rows else None
    axes = np.linalg.eigh(A[:p, :p])[1]
    contrasts = [coef / np.linalg.norm(coef), axes[:, 0], axes[:, -1], generator.standard_normal(p), np.eye(p)[0]]
    r2 = coef @ A[:p, p] / A[p, p]
    hits, finite = {}, []

    def put(question, ends, true):
        hits.setdefault(question, []).append(ends[0] - 1e-12 <= true <= ends[1] + 1e-12)

    for _ in range(repeats):
        data = A
        if rows:
            drawn = generator.standard_normal((rows, p + 1))
            if tails:  # of the same variance
                drawn *= np.sqrt((tails - 2) / generator.chisquare(tails, (rows, p + 1)))
            drawn = drawn @ root.T
            data = drawn.T @ drawn / rows
        fit = LeastSquares(data + noise(generator), error, per_row=1 / rows if rows else 0.0, population=bool(rows))
        finite.append(fit.bounded)
        for place, contrast in enumerate(contrasts):
            put(f"contrast {place}", fit.contrast(contrast).interval, contrast @ coef)
            put(f"bounded {place}", fit.contrast(contrast, bound=length).interval, contrast @ coef)
        put("R2", fit.r2_interval(), r2)
        put("bounded R2", fit.r2_interval(bound=length), r2)
        for feature, (ends, true) in reduced(fit, A, mechanism).items():
            put(f"reduced {feature}", ends, true)
    return {question: (float(np.mean(held)), len(held)) for question, held in hits.items()}, float(np.mean(finite))


def low(found, repeats, level=0.93):
    """Return the questions whose coverage is significantly below a level."""
    return {question: share for question, (share, _) in found.items() if share < level - 3 * np.sqrt(0.0475 / repeats)}


@pytest.mark.parametrize(
    ("name", "least", "spectrum"), [("gaussian", 3, "one weak"), ("matrix_laplace", 8, "half weak")]
)
def test_intervals_hold_the_truth_where_identification_is_weak(name, least, spectrum):
    found, finite = coverage(name, 4, least, spectrum, 3, repeats=100)
    assert not low(found, 100)
    assert 0.3 < finite <= 1


def test_a_bound_of_the_coefficients_is_all_that_is_needed():
    found, finite = coverage("gaussian", 4, 0.5, "one weak", 3, repeats=80, seed=1)
    assert not low(found, 80)
    assert finite < 0.5


def test_control_truncated_eigenvalues_and_the_delta_method_fail():
    """Variances below the noise are left out, and errors are those of the rest."""
    generator = np.random.default_rng(2)
    noise, error, _ = noise_of("gaussian", 5)
    A, coef = truth(4, 0.5, "one weak", 3, generator)
    held = []
    for _ in range(200):
        M = A + noise(generator)
        values, vectors = np.linalg.eigh(M[:4, :4])
        kept = values > 4
        inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
        found = inverse @ M[:4, 4]
        deviations = np.sqrt(np.diag(inverse @ residual_covariance(error, np.append(-found, 1))[:4, :4] @ inverse))
        held.append(np.abs(found - coef) < 1.96 * deviations)
    assert np.mean(held) < 0.7


def test_control_without_the_second_order_the_score_is_biased(monkeypatch):
    """Many features of the same variance: the inverse of the noisy matrix is too large."""
    found, _ = coverage("gaussian", 20, 12, "flat", 4, repeats=60)
    assert not low(found, 60)

    def plain(fit, kept):
        return fit._values[kept], fit._vectors[:, kept].T @ fit.matrix[:-1, -1]

    monkeypatch.setattr(LeastSquares, "_score", plain)
    biased, _ = coverage("gaussian", 20, 12, "flat", 4, repeats=60)
    assert biased["contrast 0"][0] < 0.9 < found["contrast 0"][0]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["gaussian", "matrix_laplace"])
@pytest.mark.parametrize("p", [1, 2, 5, 20, 50])
def test_coverage_over_identification_spectra_and_lengths(name, p):
    repeats = 400 if p < 20 else 150
    leasts = (1, 3, 5, 2 * np.sqrt(p) + 3, 4 * np.sqrt(p) + 6, 60)
    for seed, (least, spectrum, length) in enumerate(product(leasts, SPECTRA if p > 1 else ["flat"], (0.5, 4))):
        found, _ = coverage(name, p, least, spectrum, length, repeats=repeats, seed=seed)
        assert not low(found, repeats), (name, p, least, spectrum, length)


@pytest.mark.heavy
@pytest.mark.parametrize("tails", [None, 5.0])
@pytest.mark.parametrize("name", ["gaussian", "matrix_laplace"])
def test_coverage_of_the_population(name, tails):
    """Tails of the features and of the residual: R² assumes the fourth moments of a Gaussian distribution."""
    for seed, (rows, least, spectrum) in enumerate(product((300, 3000), (4, 20), SPECTRA)):
        found, _ = coverage(name, 5, least, spectrum, 0.5, repeats=300, seed=seed, rows=rows, tails=tails)
        short = low(found, 300)
        assert not {question for question in short if not (tails and "R2" in question)}, short
