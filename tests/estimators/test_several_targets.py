"""`PrivateRidge` with several targets: one release, one spend, and for each target what a fit of one has."""

import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from scipy.stats import ks_2samp
from sklearn.linear_model import Ridge

from eigenveil import (
    PrivacyLedger,
    PrivateCovariance,
    PrivateRidge,
    RowBound,
    SecondMoments,
    load_release,
)
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.releases.origin import Origin
from eigenveil.tables.schema import Column, Schema
from helpers import refused

N = 6000
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(N, 3))
Y = X @ [[0.5, -0.1], [0.2, 0.3], [0.0, 0.4]] + RNG.uniform(-0.1, 0.1, size=(N, 2))
NAMES = ["a", "b", "c", "u", "v"]
TABLE = pd.DataFrame(np.column_stack([X, Y]), columns=NAMES)


def ridge(**parameters):
    return PrivateRidge(**{"bounds": (-1, 1), "epsilon": 5.0, "random_state": 0, **parameters})


def results(model):
    names = ("coef_", "intercept_", "r2_", "alpha_", "coef_interval_", "r2_interval_", "intercept_error_")
    return {name: getattr(model, name) for name in (*names, "determined_")}


SHAPES = {
    "coef_": (3,), "intercept_": (), "r2_": (), "alpha_": (), "coef_interval_": (3, 2), "r2_interval_": (2,),
    "intercept_error_": (), "determined_": (),
}  # fmt: skip


def test_shapes_follow_those_of_y():
    for y, before in ((Y[:, 0], ()), (Y[:, :1], (1,)), (Y, (2,))):
        model = ridge().fit(X, y)
        assert {name: np.shape(value) for name, value in results(model).items()} == {
            name: (*before, *shape) for name, shape in SHAPES.items()
        }
        assert model.predict(X[:7]).shape == (7, *before)
        assert model.n_features_in_ == 3
        assert model.scale_.shape == (3,)
        assert 0.5 < model.score(X, y) < 1
    assert isinstance(ridge().fit(X, Y[:, 0]).intercept_, float)


def test_a_table_of_one_target_has_the_bits_of_a_column():
    column, table = ridge().fit(X, Y[:, 0]), ridge().fit(X, Y[:, :1])
    for name, value in results(column).items():
        assert np.array_equal(results(table)[name][0], value), name
    assert np.array_equal(column.predict(X), table.predict(X)[:, 0])
    assert np.array_equal(column.release_.integers["matrix"], table.release_.integers["matrix"])
    assert table.release_.regression.coef.shape == (3,)


@pytest.mark.filterwarnings("ignore::eigenveil.errors.PrivacyWarning")
@pytest.mark.parametrize("alpha", [0, 0.05])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_noise_it_is_the_ridge_of_scikit_learn(alpha, fit_intercept):
    # scikit-learn's alpha is for the sum over rows; ranges of [-1, 1] leave the features as they are.
    ours = ridge(alpha=alpha, epsilon=1e6, fit_intercept=fit_intercept).fit(X, Y)
    theirs = Ridge(alpha * N, fit_intercept=fit_intercept).fit(X, Y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=2e-3)
    assert ours.score(X, Y) == pytest.approx(theirs.score(X, Y), abs=1e-3)
    assert (ours.coef_interval_[..., 0] <= ours.coef_).all()
    assert (ours.coef_ <= ours.coef_interval_[..., 1]).all()


def test_each_target_has_what_a_regression_of_it_alone_has():
    model = ridge().fit(TABLE[NAMES[:3]], TABLE[NAMES[3:]])
    release = model.release_
    assert release.feature_names == tuple(NAMES)
    for place, name in enumerate(NAMES[3:]):
        alone = release.regress(name, NAMES[:3])
        assert np.array_equal(model.coef_[place], alone.coef)
        assert np.array_equal(model.coef_interval_[place], alone.coef_interval)
        assert model.r2_[place] == alone.r2
        assert model.intercept_[place] == alone.intercept
        assert model.determined_[place] == alone.determined
    with refused(InvalidParameterError):
        _ = release.regression


def test_the_budget_is_spent_once_for_all_targets(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "a.ledger", epsilon=3.0, data_set="targets")
    one = ridge(epsilon=1.0, ledger=ledger, random_state=None).fit(X, Y)
    assert ledger.spent == (1.0, 0.0)
    # It is the guarantee of the same rows without targets: one bound is on features and targets together.
    assert one.release_.integers["matrix"].shape == (6, 6)
    whole = PrivateCovariance(bounds=(-1, 1), random_state=0).fit(np.column_stack([X, Y]))
    assert (one.guarantee_.epsilon, one.guarantee_.unit) == (whole.guarantee_.epsilon, whole.guarantee_.unit)
    assert one.release_.n_features == whole.release_.n_features


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_a_row_is_bounded_with_all_its_targets():
    """A target far beyond the norm bound shortens the whole row, so that no target is beside the sensitivity."""
    model = PrivateRidge(norm_bound=1.0, fit_intercept=False, epsilon=1e4, random_state=0)
    release = model.fit(np.zeros((50, 1)), np.full((50, 2), 1e6)).release_
    assert np.trace(release.matrix.row_matrix) <= 1.01
    assert release.matrix.row_matrix[1, 2] == pytest.approx(0.5, abs=0.01)


def drawn_coefficients(moments, epsilon, seeds):
    model, found = PrivateRidge(0, epsilon=epsilon, target=[1, 2]), []
    for seed in seeds:
        found.append(model.set_params(random_state=seed).fit_moments(moments).coef_[:, 0])
    return np.array(found).T


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
@pytest.mark.heavy
def test_noise_of_a_second_target_is_distributed_as_that_of_the_first():
    first, second = Y.T
    # Every row once more with its targets exchanged, so that the data say the same about both.
    rows = np.vstack([np.column_stack([X[:, 0], first, second]), np.column_stack([X[:, 0], second, first])])
    bound = RowBound(3**0.5, shift=(0.0,) * 3, scale=(1.0,) * 3, constant=3**0.5 / 2)
    moments = SecondMoments(bound, 3).update(rows)
    one, other = drawn_coefficients(moments, 1.0, range(500))
    assert ks_2samp(one, other).pvalue > 0.01
    # The control: what one of two targets would have if each had half of the budget.
    halved = drawn_coefficients(moments, 0.5, range(500, 1000))[0]
    assert ks_2samp(one, halved).pvalue < 1e-4


def test_targets_of_a_table_are_named_by_a_list():
    of_y = ridge().fit(TABLE[NAMES[:3]], TABLE[["u", "v"]])
    for table, target in ((TABLE, ["u", "v"]), (TABLE.to_numpy(), [3, 4]), (pl.DataFrame(TABLE), ("u", "v"))):
        model = ridge(target=target).fit(table)
        assert np.array_equal(model.coef_, of_y.coef_)
        assert np.array_equal(
            model.predict(X if target == [3, 4] else TABLE[NAMES[:3]]), of_y.predict(TABLE[NAMES[:3]])
        )
    assert ridge(target=["v", "a"]).fit(TABLE).feature_names_in_.tolist() == ["b", "c", "u"]
    assert ridge(target=["u"]).fit(TABLE).coef_.shape == (1, 4)


def test_bounds_by_name_name_the_targets():
    frame, bounds = TABLE[NAMES[:3]], dict.fromkeys(NAMES, (-1, 1))
    same = ridge().fit(X, Y).coef_
    assert np.array_equal(ridge(bounds=bounds).fit(frame, TABLE[["u", "v"]]).coef_, same)
    numbered = {**dict.fromkeys("abc", (-1, 1)), "y0": (-1, 1), "y1": (-1, 1)}
    assert np.array_equal(ridge(bounds=numbered).fit(frame, Y).coef_, same)
    assert ridge().fit(frame, TABLE[["a", "b"]]).release_.feature_names == ("a", "b", "c", "a_", "b_")
    assert ridge().fit(frame, Y[:, :1]).release_.feature_names == ("a", "b", "c", "y")


def test_a_schema_a_sparse_matrix_and_privacy_units():
    columns = [Column(name, range=(-1.0, 1.0)) for name in NAMES]
    schema = Schema((*columns, Column("s", "category", categories=("p", "q"))))
    frame = TABLE.assign(s=np.where(X[:, 0] > 0, "p", "q"))
    model = ridge(bounds=None, schema=schema, target=["u", "v"]).fit(frame)
    assert model.predict(frame.head(4)).shape == (4, 2)
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "s=p", "s=q"]
    sparse = ridge().fit(scipy.sparse.csr_array(X), Y)
    assert np.array_equal(sparse.coef_, ridge().fit(X, Y).coef_)
    assert np.array_equal(sparse.predict(scipy.sparse.csr_array(X)), sparse.predict(X))
    units = ridge(bounds=(-1, 1)).fit(X, Y, privacy_unit=np.arange(N) // 2)
    assert units.coef_.shape == (2, 3)


def test_rows_can_be_collected_in_parts():
    whole, parts = ridge(stages=1).fit(X, Y), ridge(stages=1)
    for at in (slice(0, 2000), slice(2000, N)):
        parts.partial_fit(X[at], Y[at])
    assert parts.n_features_in_ == 3
    with refused(InvalidDataError):
        parts.partial_fit(X, Y[:, 0])
    with refused(InvalidDataError):
        parts.partial_fit(X[:, :2], Y)
    assert np.array_equal(parts.fit_moments().coef_, whole.coef_)
    # Afterwards nothing is left of them: moments from elsewhere have one target.
    again = SecondMoments(RowBound(2.0, constant=1.0), 4).update(TABLE.to_numpy()[:, :4])
    assert parts.fit_moments(again).coef_.shape == (3,)
    table = ridge(target=[3, 4], stages=1).partial_fit(TABLE.to_numpy())
    assert table.n_features_in_ == 3
    assert np.array_equal(table.fit_moments().coef_, whole.coef_)


BAD = {
    "three dimensions": lambda: ridge().fit(X, Y[:, :, None]),
    "no columns": lambda: ridge().fit(X, Y[:, :0]),
    "one number": lambda: ridge().fit(X, 1.0),
    "sparse": lambda: ridge().fit(X, scipy.sparse.csr_array(Y)),
    "texts": lambda: ridge().fit(X, Y.astype(str)),
    "missing": lambda: ridge().fit(X, np.where(np.arange(2) == 1, np.nan, Y)),
    "fewer rows": lambda: ridge().fit(X, Y[:-1]),
    "y and target": lambda: ridge(target=["u", "v"]).fit(X, Y),
    "an empty list": lambda: ridge(target=[]).fit(TABLE),
    "a name twice": lambda: ridge(target=["u", "u"]).fit(TABLE),
    "a column twice": lambda: ridge(target=["u", 3]).fit(TABLE),
    "an unknown name": lambda: ridge(target=["u", "w"]).fit(TABLE),
    "an unknown position": lambda: ridge(target=[0, 5]).fit(TABLE),
    "a fraction": lambda: ridge(target=[0, 1.5]).fit(TABLE),
    "all columns": lambda: ridge(target=NAMES).fit(TABLE),
    "too few ranges": lambda: ridge(bounds=([-1.0] * 4, [1.0] * 4)).fit(X, Y),
    "several alphas": lambda: ridge(alpha=[0.1, 0.2]).fit(X, Y),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_spends_nothing(case, tmp_path, monkeypatch):
    ledger = PrivacyLedger.create(tmp_path / "a.ledger", epsilon=5.0, data_set="targets")
    plain = ridge
    monkeypatch.setitem(globals(), "ridge", lambda **more: plain(ledger=ledger, random_state=None, **more))
    with refused((InvalidDataError, InvalidParameterError)):
        BAD[case]()
    assert ledger.spent == (0, 0)


def test_a_file_and_a_pickle_hold_all_targets(tmp_path):
    model = ridge().fit(TABLE[NAMES[:3]], TABLE[["u", "v"]])
    read = load_release(model.release_.save(tmp_path / "a.npz"))
    assert read.origin.request.target == (3, 4)
    assert [fit.coef.tolist() for fit in read.regressions] == model.coef_.tolist()
    again = pickle.loads(pickle.dumps(model))
    for name, value in results(model).items():
        assert np.array_equal(getattr(again, name), value), name
    assert np.array_equal(again.predict(TABLE[NAMES[:3]]), model.predict(TABLE[NAMES[:3]]))
    header = model.release_.origin.to_dict()
    assert json.loads(json.dumps(header))["request"]["target"] == [3, 4]
    assert ridge().fit(X, Y[:, 0]).release_.origin.to_dict()["request"]["target"] == 3  # as it always was


@pytest.mark.parametrize("target", [[], [3, 3], [3, -2], [0, 1, 2, 3, 4], [5], ["u"], [1.0], [[3]]])
def test_a_file_with_impossible_targets_is_refused(target):
    content = ridge().fit(X, Y).release_.origin.to_dict()
    content["request"]["target"] = target
    with pytest.raises(ValueError, match="target"):
        Origin.from_dict(content).check(5)
