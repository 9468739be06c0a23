"""What a release of the local model says: the same from a file as from the estimator, in the units of the features."""

import json

import numpy as np
import pytest

from eigenveil import load_release
from eigenveil.errors import InvalidParameterError
from eigenveil.estimators import local_pca as estimator_module
from eigenveil.estimators.local_pca import LocalPCA, LocalSparsePCA
from eigenveil.local import LocalProtocol, aggregate, encode_many, mechanism_of, simulate
from eigenveil.mechanisms.local import LOCAL_MECHANISMS
from eigenveil.releases.origin import ComponentsRequest
from helpers import refused

ALL = {name: (1e-6 if kind.needs_delta else 0.0) for name, kind in LOCAL_MECHANISMS.items()}


def rows_for(n=3000, d=6):
    return np.random.default_rng(0).standard_normal((n, d)) * np.r_[3.0, 2.0, np.full(d - 2, 0.3)] / 4


@pytest.mark.parametrize("mechanism", ALL)
def test_a_file_says_what_the_estimator_said(mechanism, tmp_path):
    pca = LocalPCA(2, epsilon=6.0, delta=ALL[mechanism], norm_bound=1.5, mechanism=mechanism).fit(rows_for())
    back = load_release(pca.release_.save(tmp_path / "local.npz"))
    assert np.array_equal(back.covariance, pca.covariance_)
    assert np.array_equal(back.components, pca.components_)
    assert np.array_equal(back.explained_variance, pca.explained_variance_)
    assert np.array_equal(back.explained_variance_ratio, pca.explained_variance_ratio_)
    assert np.array_equal(back.mean, pca.mean_)
    assert np.array_equal(back.transform(rows_for(5)), pca.transform(rows_for(5)))
    assert back.guarantee == pca.guarantee_
    assert back.origin.to_dict() == json.loads(json.dumps(pca.release_.origin.to_dict()))
    assert (back.origin.model, back.origin.mechanism, back.origin.estimator) == ("local", pca.mechanism_, "LocalPCA")
    assert back.origin.request == ComponentsRequest(2)
    assert back.origin.collection.simulated
    assert back.origin.collection.fingerprint == pca.protocol_.fingerprint
    assert {name: value.dtype for name, value in back.integers.items()} == {"sums": np.int64, "ones": np.int64}
    sd = mechanism_of(pca.protocol_).off_diagonal_sd * 1.5**2 / np.sqrt(3000)
    assert back.noise_sd == pytest.approx(sd)


@pytest.mark.parametrize(
    "parameters",
    [
        {"penalty": -1.0},
        {"penalty": np.nan},
        {"penalty": "auto"},
        {"screen": 0},
        {"screen": 2.5},
        {"tol": 0.0},
        {"max_iter": 0},
        {"n_components": 7},
        {"n_components": 0},
    ],
)
def test_what_the_solver_cannot_use_is_refused_before_anything_is_drawn(parameters, monkeypatch):
    monkeypatch.setattr(estimator_module, "simulated_totals", lambda *_: pytest.fail("something was drawn"))
    with refused(InvalidParameterError):
        LocalSparsePCA(norm_bound=1.0, **parameters).fit(rows_for(20))


def test_names_of_features_are_kept():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows_for(50), columns=list("abcdef"))
    assert LocalPCA(1, norm_bound=1.0).fit(frame).release_.feature_names == tuple("abcdef")
    assert LocalPCA(1, norm_bound=1.0).fit(rows_for(50)).release_.feature_names is None


def test_shift_and_scale_of_the_protocol_are_part_of_the_units():
    """Rows in other units, told to the protocol, give the second moment of the rows in their own units."""
    rows, scale, shift = rows_for(), np.array([1.0, 2.0, 0.5, 1.0, 4.0, 1.0]), np.arange(6.0)
    plain = simulate(LocalProtocol(6, 8.0, norm_bound=1.5), rows, np.random.default_rng(1), 2)
    protocol = LocalProtocol(6, 8.0, norm_bound=1.5, shift=shift, scale=scale)
    other = simulate(protocol, rows / scale + shift, np.random.default_rng(1), 2)
    np.testing.assert_allclose(other.matrix.scaled_covariance, plain.covariance, atol=1e-3)
    np.testing.assert_allclose(other.covariance, other.matrix.scaled_covariance / np.outer(scale, scale))
    assert np.array_equal(other.mean, shift)
    assert np.array_equal(plain.mean, np.zeros(6))
    np.testing.assert_allclose(
        other.transform(rows / scale + shift), rows @ other.components.T, atol=1e-12
    )  # about the shift, in scaled units


def test_a_collection_and_its_file(tmp_path):
    protocol = LocalProtocol(6, 8.0, norm_bound=1.5)
    collection = aggregate(protocol, [*encode_many(protocol, rows_for(200)), b"junk"])
    release = collection.release(n_components=2)
    assert not release.origin.collection.simulated
    assert release.origin.row_rule.reach_squared == 1.5**2
    back = load_release(release.save(tmp_path / "collected.npz"))
    assert back.origin.collection.refused == {"malformed": 1}
    assert back.n_rows == 200
    assert np.array_equal(back.covariance, release.covariance)
    np.testing.assert_allclose(back.covariance, 1.5**2 * mechanism_of(protocol).estimate(collection.totals))
