"""Fits under scikit-learn: clones that share a count of fits, searches with a ledger, a delta of 1/n, the scaler."""

import copy
import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScaler
from eigenveil.errors import InvalidParameterError, LedgerError, NoiseWarning, PrivacyWarning
from helpers import refused, said

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(4000, 3))
Y = X[:, 0]
PLAIN = "1-DP (pure), replace-one adjacency, unit: one row; exact sampling"


def private(**options):
    return PrivatePCA(1, **{"norm_bound": 3.0, **options})


def ridge(**options):
    return PrivateRidge(norm_bound=3.0, epsilon=0.25, **options)


# Fits without a ledger.


def test_the_second_fit_without_a_ledger_is_warned_of_once():
    model = private(epsilon=0.5)
    assert said(lambda: model.fit(X)) == []
    assert said(lambda: [model.fit(X) for _ in range(3)]) == [
        "PrivatePCA was fitted 2 times without a ledger: the guarantees add up to epsilon = 1. Give ledger= to track "
        "the total."
    ]
    assert str(model.guarantee_) == PLAIN.replace("1-DP", "0.5-DP")
    with pytest.warns(PrivacyWarning) as caught:
        [other.fit(X) for other in [private()] * 2]
    assert caught[0].filename == __file__


def test_clones_share_the_count():
    model = private(epsilon=0.5)
    folds = KFold(3).split(X)
    (told,) = said(lambda: [clone(model).fit(X[rows]) for rows, _ in folds])
    assert "epsilon = 1." in told
    assert said(lambda: model.fit(X)) == said(lambda: clone(clone(model)).fit(X)) == []


@pytest.mark.parametrize(
    "fit",
    [
        lambda: cross_val_score(ridge(), X, Y, cv=2, error_score="raise"),
        lambda: GridSearchCV(ridge(), {"alpha": [0.1, 1.0]}, cv=2, error_score="raise").fit(X, Y),
        lambda: MultiOutputRegressor(ridge()).fit(X, X[:, :2]),
        lambda: VotingRegressor([("a", model := ridge()), ("b", model)]).fit(X, Y),
        lambda: cross_val_score(make_pipeline(Normalizer(), ridge()), X, Y, cv=2, error_score="raise"),
    ],
)
def test_a_wrapper_that_fits_many_clones_is_warned_of_once(fit):
    (told,) = said(fit)
    assert "PrivateRidge was fitted 2 times without a ledger: the guarantees add up to epsilon = 0.5." in told


def test_the_total_has_a_delta_where_one_is_spent():
    model = private(delta=1e-6, mechanism="gaussian").fit(X)
    (told,) = said(lambda: model.fit(X))
    assert "epsilon = 2 and delta = 2e-06." in told


def test_moments_are_counted_too():
    model = private()
    model.partial_fit(X).fit_moments()
    assert len(said(lambda: model.partial_fit(X).fit_moments())) == 1


def test_what_is_refused_seeded_or_in_a_ledger_is_not_counted(tmp_path):
    book = PrivacyLedger.create(tmp_path / "x.ledger", epsilon=100.0, data_set="x")
    model = private()
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((5, 3), np.nan))
    assert said(lambda: model.set_params(random_state=0).fit(X)) == []
    assert said(lambda: model.set_params(random_state=None, ledger=book).fit(X)) == []
    assert said(lambda: model.set_params(ledger=None).fit(X)) == []
    assert len(said(lambda: model.fit(X))) == 1


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_share_a_count_and_a_pickle_has_none(copied):
    model = private()
    before = joblib.hash(clone(model))
    twin = copied(model)
    model.fit(X)
    assert joblib.hash(clone(model)) == before == joblib.hash(clone(private()))
    assert said(lambda: pickle.loads(pickle.dumps(model)).fit(X)) == []
    assert len(said(lambda: twin.fit(X))) == 1


def test_fits_in_threads_share_a_count():
    model = private()
    with joblib.parallel_config("threading", n_jobs=2):
        told = said(lambda: joblib.Parallel()(joblib.delayed(clone(model).fit)(X) for _ in range(4)))
    assert len(told) == 1


def test_a_pipeline_with_a_memory_finds_its_fits_again(tmp_path):
    def cached(epsilon=1.0):
        return make_pipeline(private(epsilon=epsilon), FunctionTransformer(), memory=str(tmp_path))

    once = cached()
    assert said(lambda: once.fit(X)) == []
    again = cached()
    assert said(lambda: again.fit(X)) == said(lambda: clone(once).fit(X)) == []
    assert np.array_equal(again[0].components_, once[0].components_)  # found, and not paid for again
    assert not np.array_equal(cached(2.0).fit(X)[0].components_, once[0].components_)


def test_a_wrapper_that_gives_clones_a_seed_is_warned_of():
    told = said(lambda: BaggingRegressor(ridge(), n_estimators=2).fit(X, Y))
    assert len({*told}) == 1
    assert "not private" in told[0]
    assert "random_state" in told[0]
    assert said(lambda: BaggingRegressor(ridge(random_state=0), n_estimators=2).fit(X, Y)) == []


# Ledgers.


def test_every_fit_of_a_search_is_in_the_ledger(tmp_path):
    book = PrivacyLedger.create(tmp_path / "x.ledger", epsilon=10.0, data_set="x")
    model = ridge(ledger=book)
    assert clone(model).ledger.path == book.path
    search = GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=2, error_score="raise")
    assert said(lambda: search.fit(X, Y)) == []
    assert len(book.entries()) == 5  # two values, two folds, and the last fit on all rows
    assert book.spent == (1.25, 0.0)
    by_path = ridge(ledger=str(book.path))
    with joblib.parallel_config("threading", n_jobs=2):
        assert said(lambda: cross_val_score(by_path, X, Y, cv=3, error_score="raise")) == []
    assert book.spent == (2.0, 0.0)


def test_a_ledger_that_cannot_be_opened_is_refused_before_a_row_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("eigenveil.tables.open.tracked_batches", None)
    with refused(InvalidParameterError):
        ridge(ledger=3).fit(X, Y)
    with refused(LedgerError):
        ridge(ledger=tmp_path / "none.ledger").fit(X, Y)


# Delta.


@pytest.mark.parametrize(("delta", "warns"), [(1 / 4000, True), (0.01, True), (1 / 4001, False), (1e-6, False)])
def test_a_delta_of_one_in_n_is_warned_of_before_the_spend(delta, warns, monkeypatch):
    options = {"norm_bound": 3.0, "delta": delta, "mechanism": "gaussian"}
    assert len(said(lambda: PrivateCovariance(**options).fit(X))) == warns
    if warns:
        monkeypatch.setattr("eigenveil.gate.pay", None)
        with pytest.warns(PrivacyWarning, match="1/n"), pytest.raises(TypeError):
            PrivateCovariance(**options).fit(X)


@pytest.mark.parametrize(
    "more", [{"statistic": "spatial_sign"}, {"statistic": "kendall"}, {"stages": 2, "norm_bound": 3.0}]
)
def test_the_n_of_a_delta_is_that_of_rows_not_of_comparisons(more):
    for delta, warns in ((1 / 4000, True), (1 / 4001, False)):
        model = PrivatePCA(2, epsilon=4.0, delta=delta, mechanism="gaussian", **more)
        assert len(said(lambda model=model: model.fit(X))) == warns, more
        if "stages" not in more:
            model = PrivatePCA(2, epsilon=4.0, delta=delta, mechanism="gaussian", **more)
            model.partial_fit(X[:1000]).partial_fit(X[1000:])
            assert len(said(model.fit_moments)) == warns, more


def test_a_private_number_of_rows_and_an_unused_delta_are_not():
    model = PrivateCovariance(norm_bound=3.0, delta=0.01, mechanism="gaussian", adjacency="add_or_remove_one")
    assert said(lambda: model.fit(X)) == []
    model = PrivateCovariance(norm_bound=3.0, delta=1 / 4000, epsilon=8.0)
    assert said(lambda: model.fit(X)) == []
    assert model.guarantee_.delta == 0  # the pure mechanism is better here


# The scaler.


def test_a_private_scaler_scales():
    rows = RNG.normal([40.0, 1.0], [12.0, 0.2], size=(20_000, 2))
    scaler = PrivateScaler(epsilon=2.0, bounds={0: (0, 100), 1: (0, 2)}).fit(rows)
    assert scaler.mean_ == pytest.approx([40, 1], rel=0.05)
    assert scaler.scale_ == pytest.approx([12, 0.2], rel=0.1)
    scaled = scaler.transform(rows)
    assert scaler.inverse_transform(scaled) == pytest.approx(rows)
    assert scaler.guarantee_.epsilon == 2.0
    assert scaler.get_feature_names_out(["a", "b"]).tolist() == ["a", "b"]
    assert scaler.transform(rows.astype(np.float32)).dtype == np.float32


def test_a_scaler_measures_the_mean_first_where_that_pays():
    rows = RNG.normal([40.0, 1.0], [12.0, 0.2], size=(20_000, 2))
    scaler = PrivateScaler(epsilon=1.0, delta=1e-6, bounds={0: (0, 100), 1: (0, 2)}).fit(rows)
    assert scaler.release_.origin.row_rule.statistic == "clipped"
    assert scaler.mean_ == pytest.approx([40, 1], rel=0.05)
    assert scaler.scale_ == pytest.approx([12, 0.2], rel=0.1)


def test_a_scaler_needs_ranges_and_does_not_blow_up_noise():
    with refused(InvalidParameterError):
        PrivateScaler().fit(X)
    flat = X * [1.0, 1e-6, 1.0]
    with pytest.warns(NoiseWarning, match="1 of 3 features"):
        scaler = PrivateScaler(epsilon=1.0, bounds=(-1, 1), random_state=0).fit(flat)
    assert np.abs(scaler.transform(flat)[:, 1]).max() < 1.0
