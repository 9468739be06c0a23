"""Fantope selection: optimal by its own duality gap and by a generic optimizer, sparse, and quick to refuse."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.optimize
from sklearn.exceptions import ConvergenceWarning

from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.postprocess import fantope, fantope_components, top_components
from helpers import refused


def symmetric(p, seed, sd=1.0):
    entries = np.random.default_rng(seed).standard_normal((p, p))
    return sd * (entries + entries.T) / np.sqrt(2)


def sparse_model(p, k, s, sd, seed):
    """The covariance of Wang and Xu (2019), scaled to a leading eigenvalue of 1, plus symmetric noise."""
    generator = np.random.default_rng(seed)
    V = np.zeros((p, k))
    V[generator.permutation(p)[:s]] = np.linalg.qr(generator.standard_normal((s, k)))[0]
    return V, (V @ V.T + np.eye(p)) / 2 + symmetric(p, [seed, 1], sd)


def duality_gap(S, k, result):
    """An upper bound on any objective, less the one reached: for |Z| <= penalty, the top k of S - Z bound it."""
    Z = np.clip(result.step * result.dual, -result.penalty, result.penalty)
    return np.linalg.eigvalsh(S - Z)[-k:].sum() - result.objective


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("penalty", [0.05, 0.3, 1.0])
def test_the_duality_gap_closes(k, penalty):
    S = symmetric(7, k)
    result = fantope_components(S, k, penalty=penalty, tol=1e-6, max_iter=20_000)
    assert -1e-4 < duality_gap(S, k, result) < 1e-4


def test_control_an_early_stop_leaves_a_gap():
    S = symmetric(7, 2)
    with pytest.warns(ConvergenceWarning):
        result = fantope_components(S, 2, penalty=0.3, tol=1e-9, max_iter=3)
    assert duality_gap(S, 2, result) > 1e-3


def test_it_agrees_with_a_generic_optimizer():
    S, penalty = symmetric(3, 5), 0.4
    lower = np.tril_indices(3)

    def loss(entries):
        factor = np.zeros((3, 3))
        factor[lower] = entries
        X = factor @ factor.T / max(np.sum(factor**2), 1e-12)  # k = 1: PSD and trace 1 is the whole Fantope
        return penalty * np.abs(X).sum() - np.sum(S * X)

    starts = np.random.default_rng(0).standard_normal((3, 6))
    options = {"xatol": 1e-6, "fatol": 1e-8, "maxiter": 2000}
    best = min(scipy.optimize.minimize(loss, x, method="Nelder-Mead", options=options).fun for x in starts)
    result = fantope_components(S, 1, penalty=penalty, tol=1e-7, max_iter=20_000)
    assert result.objective == pytest.approx(-best, abs=1e-4)


def test_the_shift_makes_the_clipped_values_sum_to_k():
    generator = np.random.default_rng(1)
    cases = [generator.standard_normal(9) * scale for scale in (0.1, 1.0, 10.0)] + [np.ones(9), np.arange(9.0)]
    for values, k in itertools.product(cases, (1, 4, 9)):
        clipped = np.clip(values - fantope.fantope_shift(values, k), 0, 1)
        assert clipped.sum() == pytest.approx(k)


def test_without_a_penalty_it_is_pca():
    S = symmetric(12, 3)
    result = fantope_components(S, 3, penalty=0)
    np.testing.assert_allclose(result.components, top_components(S, 3), atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_support_is_recovered_on_the_papers_model(seed):
    p, k, s, sd = 120, 2, 10, 0.01
    V, S = sparse_model(p, k, s, sd, seed)
    result = fantope_components(S, k, noise_sd=sd)
    truth = np.flatnonzero(V.any(axis=1))
    strong = np.flatnonzero(np.linalg.norm(V, axis=1) > 0.25)
    assert set(strong) <= set(result.support)
    assert len(set(result.support) - set(truth)) <= 2
    overlap, plain = (np.sum((rows @ V) ** 2) for rows in (result.components, top_components(S, k)))
    assert overlap > plain
    np.testing.assert_allclose(result.components @ result.components.T, np.eye(k), atol=1e-9)


def test_partial_and_full_solvers_agree(monkeypatch):
    _, S = sparse_model(120, 2, 10, 0.01, 9)
    full = fantope_components(S, 2, noise_sd=0.01, tol=1e-6)
    monkeypatch.setattr(fantope, "PARTIAL_FROM", 50)
    partial = fantope_components(S, 2, noise_sd=0.01, tol=1e-6)
    np.testing.assert_allclose(partial.projection, full.projection, atol=1e-4)


def test_a_huge_penalty_still_gives_components():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = fantope_components(symmetric(6, 8), 2, penalty=100.0)
    np.testing.assert_allclose(result.components @ result.components.T, np.eye(2), atol=1e-6)


def test_bad_arguments_are_refused():
    with refused(InvalidParameterError):
        fantope_components(np.eye(3), 1)
    with refused(InvalidParameterError):
        fantope_components(np.eye(3), 4, penalty=0.1)
    with refused(InvalidParameterError):
        fantope_components(np.eye(3), 1, penalty=-0.1)
    with refused(InvalidDataError):
        fantope_components(np.ones((2, 3)), 1, penalty=0.1)


@pytest.mark.heavy
def test_two_thousand_features():
    V, S = sparse_model(2000, 5, 20, 0.005, 0)
    result = fantope_components(S, 5, noise_sd=0.005)
    assert result.converged
    assert set(result.support) <= set(np.flatnonzero(V.any(axis=1)))
