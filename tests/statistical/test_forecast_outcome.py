"""What `forecast` says of a fit is what other fits give, on other rows of the assumed spectrum.

The rows here are made by other code, and lie far from the origin where that must not matter. Mean losses agree within
what chance explains, at level ALPHA; widths of intervals within a factor of 1.5, the number of components above the
noise within 1, in means over 20 fits. The control is a forecast for an epsilon that is 1.5 times as large; six times
where a norm is found privately, since a bad one now and then makes losses of long tails.
"""

import math
import warnings

import numpy as np
import pytest
import scipy.stats

from eigenveil import PrivatePCA, forecast
from eigenveil.estimators import forecast as forecasting
from eigenveil.mechanisms import MECHANISMS
from eigenveil.theory import power_law
from statistical.constants import ALPHA

DELTA = 1e-6
WAYS = {
    "public norm": {"norm_bound": 1.0},
    "public norm, origin": {"norm_bound": 1.0, "center": False},
    "public ranges": {"bounds": (-1.0, 1.0)},
    "private norm": {"statistic": "clipped", "center": False, "stages": 1},
    "private norm, mean": {"statistic": "clipped"},
    "spatial_sign": {"statistic": "spatial_sign"},
    "kendall": {"statistic": "kendall", "standardize": True},
    "unit": {"statistic": "normalized", "center": False},
    "nothing public": {},
}
"""Parameters of `PrivatePCA`, for each way to prepare rows."""
READ = 20
ENERGY = {"public norm": 0.5, "public norm, origin": 0.5, "public ranges": 1 / 3}


def rows_of(way, d, n_rows, generator):
    """Return Gaussian rows with the spectrum 1, 1/2, 1/3, ...; far from the origin where that should not matter."""
    shares = power_law(d)
    if WAYS[way].get("standardize"):
        correlation = scipy.stats.random_correlation.rvs(shares * d, random_state=generator, tol=1e-6)
        values, basis = np.linalg.eigh(correlation)
        return generator.standard_normal((n_rows, d)) * np.sqrt(np.maximum(values, 0)) @ basis.T + 5.0
    basis = np.linalg.qr(generator.standard_normal((d, d)))[0]
    # In units of the norm bound, which is 1, or for ranges from -1 to 1 the root of d.
    size = ENERGY.get(way, 1.0) * (d if way == "public ranges" else 1.0)
    rows = generator.standard_normal((n_rows, d)) * np.sqrt(size * shares) @ basis.T
    return rows + 5.0 if way in ("spatial_sign", "nothing public") else rows


def fitted(way, d, n_rows, k, fits, **parameters):
    """Return the losses of fits, each on rows of its own, and some of the releases."""
    losses, releases = [], []
    for seed in range(fits):
        generator = np.random.default_rng((11, seed))
        X = rows_of(way, d, n_rows, generator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a forecast must hold where there is much noise too
            model = PrivatePCA(k, random_state=generator, **WAYS[way], **parameters).fit(X)
        if WAYS[way].get("standardize"):
            true = np.corrcoef(X.T)
        else:
            true = np.cov(X.T, ddof=0) if WAYS[way].get("center", True) else X.T @ X / n_rows
        V = model.components_
        losses.append(1 - np.trace(V @ true @ V.T) / np.linalg.eigvalsh(true)[-k:].sum())
        releases.append(model.release_)
    return np.array(losses), releases[:READ]


def agree(told, losses):
    """Return whether both means agree within what chance explains."""
    error = math.hypot(told.standard_error, losses.std(ddof=1) / math.sqrt(losses.size))
    return bool(abs(told.mean - losses.mean()) <= scipy.stats.norm.isf(ALPHA / 2) * error)


def check(monkeypatch, way, mechanism, n_rows, epsilon=1.0, d=5, k=2, fits=200):
    delta = DELTA if MECHANISMS[mechanism].needs_delta else 0.0
    parameters = {"mechanism": mechanism, "epsilon": epsilon, "delta": delta}
    if mechanism == "ppca":
        parameters["mechanism_options"] = {"accept_inexact": True}
    monkeypatch.setattr(forecasting, "_READ", READ)
    losses, releases = fitted(way, d, n_rows, k, fits, **parameters)
    # A mechanism that may be recommended goes along.
    answer = forecast(
        PrivatePCA(k, **WAYS[way], **parameters),
        d,
        n_rows,
        mechanisms={mechanism, "matrix_laplace"},
        repeats=fits,
        seed=5,
    )
    told = answer[mechanism]
    assert agree(told, losses), (told.mean, told.standard_error, losses.mean())
    control = 6.0 if "private" in way else 1.5
    assert not agree(answer.at(n_rows, control * epsilon, mechanism), losses)
    assert told.low < losses.mean() < told.high
    if releases[0].matrix.has_known_noise:
        width = np.median([np.diff(one.spectrum.explained_variance_ratio_interval[0]) for one in releases]) / 2
        assert 1 / 1.5 < told.components[0].half_width / width < 1.5
        assert abs(told.above_noise - np.mean([one.spectrum.n_above_noise for one in releases])) <= 1


@pytest.mark.heavy
@pytest.mark.parametrize(
    "mechanism", [name for name, kind in MECHANISMS.items() if not kind.baseline and name != "mod_sulq"]
)
def test_a_forecast_is_what_other_fits_give_by_every_mechanism(monkeypatch, mechanism):
    """But by mod_sulq, whose noise leaves nothing but a random subspace here, so that no control could fail."""
    epsilon = 4.0 if mechanism in ("laplace", "eigenvector_sampling", "ppca") else 1.0
    check(monkeypatch, "public norm, origin", mechanism, 600, epsilon, fits=400)


@pytest.mark.heavy
@pytest.mark.parametrize("mechanism", ["matrix_laplace", "gaussian"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("d", [5, 20])
def test_a_forecast_is_what_other_fits_give_however_rows_are_prepared(monkeypatch, way, mechanism, d):
    check(monkeypatch, way, mechanism, 200 * d, 0.5, d=d, k=2 if d == 5 else 3, fits=300)
