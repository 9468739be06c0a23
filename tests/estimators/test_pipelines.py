"""What scikit-learn does around a fit: steps that learned from the rows, searches, and a delta of 1/n."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, PolynomialFeatures, StandardScaler
from sklearn.random_projection import GaussianRandomProjection

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScaler
from eigenveil.errors import InvalidParameterError, NoiseWarning, PrivacyWarning
from helpers import refused, said

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(4000, 3))
Y = X[:, 0]


def private():
    return PrivatePCA(1, norm_bound=3.0)


def wide():
    return PrivatePCA(2, norm_bound=3.0)


@pytest.mark.parametrize(
    ("model", "culprit"),
    [
        (make_pipeline(StandardScaler(), private()), "StandardScaler"),
        (make_pipeline(Normalizer(), MinMaxScaler(), private()), "MinMaxScaler"),
        (make_pipeline(StandardScaler(), private(), FunctionTransformer()), "StandardScaler"),  # not the last step
        (make_pipeline(make_pipeline(Normalizer(), StandardScaler()), private()), "StandardScaler"),
        (make_pipeline(FeatureUnion([("pca", PCA(2)), ("as is", "passthrough")]), private()), "PCA"),
        (make_pipeline(ColumnTransformer([("a", StandardScaler(), [0])]), private()), "StandardScaler"),
        (ColumnTransformer([("a", make_pipeline(StandardScaler(), private()), [0, 1])]), "StandardScaler"),
        (make_pipeline(SimpleImputer(), private()), "SimpleImputer"),
        (make_pipeline(SimpleImputer(strategy="constant"), private()), "SimpleImputer"),  # drops empty columns
        (
            make_pipeline(SimpleImputer(strategy="constant", keep_empty_features=True, add_indicator=True), private()),
            "SimpleImputer",
        ),
        (make_pipeline(wide(), StandardScaler(), private()), "StandardScaler"),  # the second of a kind
        (make_pipeline(wide(), make_pipeline(StandardScaler(), private())), "StandardScaler"),
        (make_pipeline(make_pipeline(wide()), StandardScaler(), make_pipeline(private())), "StandardScaler"),
    ],
)
def test_a_step_that_learned_from_the_rows_is_named(model, culprit):
    (told,) = said(lambda: model.fit(X))
    assert culprit in told
    assert "PrivatePCA" in told


def test_a_pipeline_that_caches_its_steps_fits_clones_of_them(tmp_path):
    def cached(*steps):
        return make_pipeline(*steps, FunctionTransformer(), memory=str(tmp_path))

    once = cached(wide(), StandardScaler())
    assert said(lambda: once.fit(X)) == []
    again = cached(wide(), StandardScaler())
    assert said(lambda: again.fit(X)) == said(lambda: clone(once).fit(X)) == []
    for other in (once, again):  # found, and not paid for again
        assert np.array_equal(other[0].components_, once[0].components_)
    assert len(said(lambda: cached(MinMaxScaler(), private()).fit(X))) == 1
    model = cached(wide(), StandardScaler(), private().set_params(epsilon=2.0))
    assert len(said(lambda: model.fit(X))) == 1


def test_a_scaled_target_is_named():
    model = TransformedTargetRegressor(PrivateRidge(norm_bound=3.0), transformer=StandardScaler())
    (told,) = said(lambda: model.fit(X, Y))
    assert "StandardScaler" in told
    assert said(lambda: TransformedTargetRegressor(PrivateRidge(norm_bound=3.0)).fit(X, Y)) == []


@pytest.mark.parametrize(
    "model",
    [
        lambda: private(),
        lambda: make_pipeline(private()),
        lambda: make_pipeline(Normalizer(), FunctionTransformer(np.abs), private()),
        lambda: make_pipeline(PolynomialFeatures(2), PrivatePCA(1, norm_bound=9.0)),
        lambda: make_pipeline(SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True), private()),
        lambda: make_pipeline(GaussianRandomProjection(2), private()),
        lambda: make_pipeline(private(), StandardScaler()),  # what learns from released components is its own business
        lambda: make_pipeline("passthrough", private()),
        lambda: make_pipeline(wide(), Normalizer(), private(), StandardScaler()),
        lambda: make_pipeline(PrivateScaler(bounds=(-1, 1)), private()),
        lambda: ColumnTransformer([("a", StandardScaler(), [0]), ("b", private(), [1, 2])]),  # beside it, not before it
    ],
)
@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_steps_that_learn_nothing_or_privately_are_not(model, method):
    assert said(lambda: getattr(model(), method)(X)) == []


def test_the_second_fit_of_a_pipeline_is_warned_of_as_the_first():
    model = make_pipeline(private(), StandardScaler())
    assert said(lambda: model.fit(X)) == []
    (told,) = said(lambda: model.fit(X))
    assert "2 fits" in told
    model = make_pipeline(StandardScaler(), private())
    assert len(said(lambda: model.fit(X))) == 1
    assert len(said(lambda: model.fit(X))) == 2  # the step, and the second fit
    assert len(said(lambda: model.fit(X))) == 1


def test_the_warning_points_at_the_callers_line():
    with pytest.warns(PrivacyWarning) as caught:
        make_pipeline(StandardScaler(), private()).fit(X)
    assert not caught[0].filename.endswith("wrappers.py")


# Searches.


def ridge(**options):
    return PrivateRidge(norm_bound=3.0, epsilon=0.25, **options)


def test_a_search_without_a_ledger_is_refused_before_a_row_is_read(monkeypatch):
    monkeypatch.setattr("eigenveil.tables.open.tracked_batches", None)
    with refused(InvalidParameterError) as info:
        cross_val_score(ridge(), X, Y, cv=2, error_score="raise")
    assert "ledger=" in str(info.value)
    with refused(InvalidParameterError):
        GridSearchCV(ridge(), {"alpha": [0.1, 1.0]}, cv=2, error_score="raise").fit(X, Y)
    with refused(InvalidParameterError):
        MultiOutputRegressor(ridge()).fit(X, X[:, :2])
    with pytest.raises(ValueError, match="every fit spends"):  # scikit-learn's own, about fits that all failed
        cross_val_score(ridge(), X, Y, cv=2)


def test_every_fit_of_a_search_is_in_the_ledger(tmp_path):
    book = PrivacyLedger.create(tmp_path / "x.ledger", epsilon=10.0, data_set="x")
    model = ridge(ledger=book)
    assert clone(model).ledger.path == book.path
    search = GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=2, error_score="raise")
    (told,) = said(lambda: search.fit(X, Y))  # once, and not for every fit
    assert "scores" in told
    assert len(book.entries()) == 5  # two values, two folds, and the last fit on all rows
    assert book.spent == (1.25, 0.0)
    by_path = ridge(ledger=str(book.path))
    assert len(said(lambda: cross_val_score(by_path, X, Y, cv=3, error_score="raise"))) == 1
    assert book.spent == (2.0, 0.0)
    piped = make_pipeline(StandardScaler(), ridge(ledger=str(book.path)))
    scaled, scores = said(lambda: cross_val_score(piped, X, Y, cv=3, error_score="raise"))
    assert "StandardScaler" in scaled
    assert "scores" in scores
    assert len(said(lambda: cross_val_score(clone(piped), X, Y, cv=3, error_score="raise"))) == 2  # another search


def test_fits_in_other_processes_and_threads_are_seen_too(tmp_path):
    from joblib import parallel_config

    book = PrivacyLedger.create(tmp_path / "x.ledger", epsilon=10.0, data_set="x")
    with parallel_config("threading", n_jobs=2):
        said(lambda: cross_val_score(ridge(ledger=book), X, Y, cv=2, error_score="raise"))
        with pytest.raises(InvalidParameterError, match="ledger="):
            cross_val_score(ridge(), X, Y, cv=2, error_score="raise")
    assert len(book.entries()) == 2


def test_a_seeded_search_is_for_public_data():
    assert said(lambda: cross_val_score(ridge(random_state=0), X, Y, cv=2, error_score="raise")) == []
    assert said(lambda: cross_val_score(LinearRegression(), X, Y, cv=2)) == []


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
