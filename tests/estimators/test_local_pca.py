"""LocalPCA and LocalSparsePCA: scikit-learn's contract, and what they find."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from eigenveil.errors import InvalidParameterError
from eigenveil.estimators.local_pca import LocalPCA, LocalSparsePCA
from eigenveil.guarantee import Numerics
from eigenveil.local import mechanism_of
from eigenveil.metrics import subspace_distance
from helpers import refused


@parametrize_with_checks([LocalPCA(norm_bound=10.0), LocalSparsePCA(norm_bound=10.0, penalty=0.1, max_iter=5000)])
def test_sklearn_contract(estimator, check):
    check(estimator)


def rows_for(n=20_000, d=8):
    generator = np.random.default_rng(0)
    return generator.standard_normal((n, d)) * np.r_[3.0, 2.0, np.full(d - 2, 0.2)] / 4


@pytest.mark.parametrize(
    ("mechanism", "delta"), [("double_cap", 0.0), ("one_bit", 0.0), ("gaussian", 1e-6), ("gaussian_paper", 1e-6)]
)
def test_finds_the_directions(mechanism, delta):
    rows = rows_for()
    pca = LocalPCA(2, epsilon=8.0, delta=delta, norm_bound=1.0, mechanism=mechanism).fit(rows)
    assert subspace_distance(np.eye(2, 8), pca.components_) < 0.5
    assert pca.guarantee_.is_private
    assert pca.mechanism_ == pca.release_.origin.mechanism == mechanism
    assert pca.n_samples_ == 20_000
    assert pca.transform(rows[:5]).shape == (5, 2)
    assert pca.inverse_transform(pca.transform(rows[:5])).shape == (5, 8)
    assert np.array_equal(pca.get_covariance(), pca.covariance_)
    assert list(pca.get_feature_names_out()) == ["localpca0", "localpca1"]
    assert (pca.explained_variance_ >= 0).all()
    assert 0 < pca.explained_variance_ratio_.sum() <= 2


def test_auto_and_rank():
    rows = rows_for(3000)
    pca = LocalPCA(2, epsilon=0.5, norm_bound=1.0, mechanism="auto").fit(rows)
    assert (pca.mechanism_, pca.protocol_.rank, pca.guarantee_.numerics) == ("one_bit", 4, Numerics.EXACT)
    assert pca.release_.mechanism.rank == 4
    spent = LocalPCA(2, epsilon=4.0, norm_bound=1.0, mechanism="auto").fit(rows)
    assert (spent.mechanism_, spent.guarantee_.numerics) == ("double_cap", Numerics.EXACT)
    assert LocalPCA(2, norm_bound=1.0, mechanism="one_bit", rank=1).fit(rows).protocol_.rank == 1
    sparse = LocalSparsePCA(1, norm_bound=1.0, mechanism="auto", rank=2).fit(rows)
    assert (sparse.mechanism_, sparse.protocol_.rank) == ("one_bit", 2)


def test_explained_variance_of_unit_rows():
    rows = rows_for()
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pca = LocalPCA(epsilon=8.0, norm_bound=2.0, row_norms="unit").fit(rows)
    truth = 4 * units.T @ units / len(units)
    assert np.trace(pca.covariance_) == pytest.approx(4.0)
    assert np.linalg.norm(pca.covariance_ - truth) < 0.3


def test_a_seed_is_marked_and_repeats():
    rows = rows_for(500)
    first, second = (LocalPCA(1, norm_bound=1.0, random_state=3).fit(rows) for _ in range(2))
    assert np.array_equal(first.covariance_, second.covariance_)
    assert not first.guarantee_.is_private
    assert not np.array_equal(
        LocalPCA(1, norm_bound=1.0).fit(rows).covariance_, LocalPCA(1, norm_bound=1.0).fit(rows).covariance_
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"norm_bound": None},
        {"norm_bound": 0.0},
        {"n_components": 9},
        {"epsilon": -1.0},
        {"mechanism": "other"},
        {"mechanism": "gaussian"},
        {"delta": 1e-6},
        {"row_norms": "none"},
    ],
)
def test_parameters_are_stored_untouched_and_checked_in_fit(parameters):
    estimator = clone(LocalPCA(**{"norm_bound": 1.0, **parameters}))
    assert {name: estimator.get_params()[name] for name in parameters} == parameters
    with refused(InvalidParameterError):
        estimator.fit(rows_for(10))


def sparse_rows(n, d, seed=1):
    generator = np.random.default_rng(seed)
    truth = np.zeros((1, d))
    truth[0, :4] = 0.5
    return generator.standard_normal((n, 1)) * truth + generator.standard_normal((n, d)) * 0.3 / np.sqrt(d), truth


def test_sparse_components_find_few_features_among_many():
    rows, truth = sparse_rows(20_000, 100)
    sparse = LocalSparsePCA(1, epsilon=4.0, norm_bound=1.0).fit(rows)
    dense = LocalPCA(1, epsilon=4.0, norm_bound=1.0).fit(rows)
    error = subspace_distance(truth, sparse.components_)
    assert error < 0.3
    assert error < subspace_distance(truth, dense.components_)
    assert np.count_nonzero(sparse.components_) < 30
    mechanism = mechanism_of(sparse.protocol_)
    assert sparse.penalty_ == pytest.approx(mechanism.off_diagonal_sd / np.sqrt(20_000) * np.sqrt(np.log(100)))
    screened = LocalSparsePCA(1, epsilon=4.0, norm_bound=1.0, screen=20).fit(rows)
    assert subspace_distance(truth, screened.components_) < 0.3
    assert screened.components_.shape == (1, 100)
    assert screened.penalty_ == sparse.penalty_
    with refused(InvalidParameterError):
        LocalSparsePCA(1, norm_bound=1.0, screen=0).fit(rows[:100])
    with refused(InvalidParameterError):
        LocalSparsePCA(1, norm_bound=1.0, screen="some").fit(rows[:100])
    with refused(InvalidParameterError):
        LocalSparsePCA(1, norm_bound=1.0, penalty=-1.0).fit(rows[:100])
