"""A forecast agrees with what `PrivatePCA.fit` then gives on rows of that spectrum, and a wrong one does not."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from eigenveil import PrivatePCA, Relation
from eigenveil.errors import NoiseWarning
from eigenveil.mechanisms import LAWS
from eigenveil.metrics import captured_variance
from eigenveil.postprocess import top_components
from eigenveil.theory import power_law
from eigenveil.theory.forecast import Scenario
from eigenveil.theory.spectra import normalized_spectrum
from statistical.constants import ALPHA

NEEDS_DELTA = {name for name, kind in LAWS.items() if kind.needs_delta}
SHARES = np.array([0.5, 0.25, 0.1, 0.08, 0.05, 0.02])
N_ROWS, ENERGY, K = 600, 0.8, 2


def rows_of(shares, n_rows, energy, generator):
    """Rows of one length along randomly turned axes, so often that their second moment has the spectrum exactly."""
    basis = np.linalg.qr(generator.standard_normal((shares.size, shares.size)))[0]
    counts = np.rint(shares * n_rows).astype(int)
    assert counts.sum() == n_rows
    assert np.allclose(counts, shares * n_rows)
    return np.repeat(basis, counts, axis=0) * math.sqrt(energy)


def losses_of_fits(name, rows_once, *, fits, k=K, **parameters):
    """Losses of whole fits, each on rows of its own from `rows_once(generator)`."""
    losses = []
    for seed in range(fits):
        generator = np.random.default_rng((7, seed))
        X = rows_once(generator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)  # a forecast must hold there too
            options = {"accept_inexact": True} if name == "ppca" else None  # a chain, for more than one direction
            pca = PrivatePCA(k, norm_bound=1.0, center=False, law=name, law_options=options, **parameters)
            pca.set_params(random_state=generator).fit(X)
        truth = X.T @ X / X.shape[0]
        losses.append(
            1 - captured_variance(truth, pca.components_) / captured_variance(truth, top_components(truth, k))
        )
    return np.array(losses)


def agree(forecast, losses) -> bool:
    """Whether both means agree within what chance explains, at level ALPHA."""
    errors = forecast.standard_error, losses.std(ddof=1) / math.sqrt(losses.size)
    z = scipy.stats.norm.isf(ALPHA / 2)
    return bool(abs(forecast.mean - losses.mean()) <= z * math.hypot(*errors))


def scenario_of(name, *, relation="replace", spectrum=SHARES, k=K, energy=ENERGY, repeats):
    delta = 1e-6 if name in NEEDS_DELTA else 0.0
    eigenvalues = tuple(normalized_spectrum(spectrum, len(spectrum), energy))
    return Scenario(len(spectrum), k, delta, Relation.parse(relation), eigenvalues, repeats, seed=0)


def check_agreement(name, relation, k, fits, repeats):
    # Twice as much for those that get little out of their budget, so that no loss is near that of a random subspace.
    epsilon = 2.0 if name in ("laplace", "mod_sulq", "eigenvector_sampling", "ppca") else 0.5
    delta = 1e-6 if name in NEEDS_DELTA else 0.0
    losses = losses_of_fits(
        name, lambda generator: rows_of(SHARES, N_ROWS, ENERGY, generator),
        fits=fits, k=k, epsilon=epsilon, delta=delta, relation=relation,
    )  # fmt: skip
    assumed = scenario_of(name, relation=relation, k=k, repeats=repeats)
    assert agree(assumed.forecast(name, N_ROWS, epsilon), losses)
    # Controls: the wrong epsilon, the wrong number of rows and the wrong spectrum disagree. A forecast of a chain
    # rests on 20 draws, so it can only tell a larger error; and to first order what sampling loses depends on the
    # spectrum through qF(V_k) alone, which is too little for them.
    chain = name == "ppca" and k > 1
    wrong = 4 if chain else 2
    assert not agree(assumed.forecast(name, N_ROWS, wrong * epsilon), losses)
    assert not agree(assumed.forecast(name, N_ROWS // wrong, epsilon), losses)
    flat = replace(assumed, spectrum=tuple(ENERGY * power_law(SHARES.size, 0.3)))
    assert chain or not agree(flat.forecast(name, N_ROWS, epsilon), losses)


@pytest.mark.parametrize("name", ["gaussian", "matrix_laplace"])
def test_a_forecast_is_what_a_fit_gives(name):
    check_agreement(name, "replace", K, fits=100, repeats=200)


def test_a_forecast_is_what_the_exact_sampler_gives():
    check_agreement("ppca", "replace", 1, fits=100, repeats=200)


@pytest.mark.heavy
def test_a_forecast_from_a_public_spectrum_is_what_a_fit_on_that_table_gives():
    from sklearn.datasets import load_digits

    X = load_digits().data / 64
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    spectrum = np.linalg.eigvalsh(X.T @ X / X.shape[0])
    # The pixels that are always 0 leave eigenvalues that are 0 up to rounding.
    spectrum = np.maximum(spectrum, 0.0)
    assumed = scenario_of("matrix_laplace", spectrum=spectrum, k=5, energy=float(spectrum.sum()), repeats=120)
    losses = losses_of_fits("matrix_laplace", lambda _: X, fits=120, k=5, epsilon=1.0)
    forecast = assumed.forecast("matrix_laplace", X.shape[0], 1.0)
    assert agree(forecast, losses)
    assert forecast.low < losses.mean() < forecast.high
    assert not agree(assumed.forecast("matrix_laplace", X.shape[0], 1.3), losses)


@pytest.mark.heavy
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("name", [name for name, kind in LAWS.items() if not kind.baseline])
def test_a_forecast_is_what_a_fit_gives_for_every_law(name, relation):
    if name == "mod_sulq":
        pytest.skip("its noise leaves nothing but a random subspace here, so no control could fail")
    # Fewer fits where one takes long: a chain, or a calibration.
    check_agreement(name, relation, K, fits={"ppca": 100, "wishart": 50}.get(name, 200), repeats=400)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["gaussian", "matrix_laplace", "eigenvector_sampling"])
def test_a_forecast_holds_for_gaussian_rows_too(name):
    """Rows of many lengths, some of them shortened: the spectrum is that of the rows as they are used."""
    d, n, k = 20, 4000, 3

    def rows(generator):
        X = generator.standard_normal((n, d)) * np.sqrt(0.7 * power_law(d, 1.0))
        return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))

    used = rows(np.random.default_rng(1))
    spectrum = np.linalg.eigvalsh(used.T @ used / n)
    delta = 1e-6 if name in NEEDS_DELTA else 0.0
    losses = losses_of_fits(name, lambda _: used, fits=100, k=k, epsilon=0.5, delta=delta)
    assumed = scenario_of(name, spectrum=spectrum, k=k, energy=float(spectrum.sum()), repeats=200)
    assert agree(assumed.forecast(name, n, 0.5), losses)
    assert not agree(assumed.forecast(name, n, 1.0), losses)
