"""The crossing of `auto`: on either side of it the mechanism that is taken loses less, averaged over spectra."""

import numpy as np
import pytest

from eigenveil import Adjacency
from eigenveil.mechanisms import MECHANISMS, choose_mechanism
from eigenveil.mechanisms.table import ONE_DIRECTION_BELOW
from helpers import drawn_directions


def spectra(d):
    i = np.arange(1, d + 1)
    for spectrum in (1.0 / i, 1.0 / i**2, np.where(i == 1, float(d), 1.0)):
        yield spectrum / spectrum.sum()


def mean_loss(name, C, k, draws, generator):
    mechanism = MECHANISMS[name](epsilon=1.0, n_features=len(C), n_components=k)
    V = drawn_directions(mechanism, C, generator, draws)
    best = np.linalg.eigvalsh(C)[-k:].sum()
    return float(np.mean(1 - np.einsum("nki,ij,nkj->n", V, C, V) / best))


def log_ratio(budget, d, draws, sampler="ppca", k=1):
    """Mean over spectra of ln(loss by adding noise / loss by sampling), of budget * d Gaussian rows cut to norm 1."""
    generator = np.random.default_rng([d, round(budget)])
    ratios = []
    for spectrum in spectra(d):
        X = generator.standard_normal((round(budget * d), d)) * np.sqrt(spectrum)
        X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
        C = X.T @ X
        losses = [mean_loss(name, C, k, draws, generator) for name in ("matrix_laplace", sampler)]
        ratios.append(np.log(losses[0] / losses[1]))
    return float(np.mean(ratios))


def test_the_mechanism_changes_at_the_crossing():
    public = {"n_features": 50, "n_components": 1, "epsilon": 0.5}
    assert choose_mechanism(n_rows=799, **public) == "ppca"
    assert choose_mechanism(n_rows=800, **public) == "matrix_laplace"
    assert {choose_mechanism(n_rows=n, **{**public, "n_components": 2}) for n in (0, 799, 800)} == {"matrix_laplace"}
    assert choose_mechanism(n_rows=10, **{**public, "n_components": None}) == "matrix_laplace"  # the matrix is wanted
    assert choose_mechanism(n_rows=10**5, delta=1e-6, **public) == "gaussian"
    # Under add/remove the number of rows is private and must not matter.
    private = {"adjacency": Adjacency.ADD_OR_REMOVE_ONE, **public}
    assert {choose_mechanism(n_rows=n, **private) for n in (0, 10, 10**6)} == {"matrix_laplace"}
    # At two features the matrix noise is smaller than the Gaussian's for a tiny delta.
    assert choose_mechanism(n_rows=10**5, n_features=2, epsilon=1.0, delta=1e-12) == "matrix_laplace"


@pytest.mark.heavy
@pytest.mark.parametrize("d", [20, 60])
def test_nearer_to_the_crossing(d):
    assert log_ratio(ONE_DIRECTION_BELOW / 1.3, d, 1000) > 0
    assert log_ratio(ONE_DIRECTION_BELOW * 1.5, d, 1000) < 0


@pytest.mark.heavy
@pytest.mark.parametrize("budget", [0.5, 1.0, 2.0, 4.0])
def test_several_directions_have_no_crossing(budget):
    """Sampled one after the other they gain nothing anywhere, beyond what this many draws would show."""
    assert log_ratio(budget, 20, 500, "eigenvector_sampling", 3) < 0.02
