"""Wrappers of scikit-learn that fit many times, and steps that are not known to make each row from one row."""

import copy
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.ensemble import AdaBoostRegressor, BaggingClassifier, StackingClassifier, VotingClassifier, VotingRegressor
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RANSACRegressor
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler, scale
from sklearn.semi_supervised import SelfTrainingClassifier

from eigenveil import LocalPCA, PrivacyLedger, PrivatePCA, PrivateRidge, PrivateScaler
from eigenveil.accounting.composition import compose
from eigenveil.errors import InvalidParameterError, PrivacyWarning
from eigenveil.guarantee import Guarantee
from helpers import said

pytestmark = pytest.mark.filterwarnings(
    "ignore::eigenveil.errors.NoiseWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(600, 4))
CLASSES = np.digitize(X[:, 0], [-0.5, 0.0, 0.5])
SOME_CLASSES = np.where(np.arange(600) % 2, CLASSES, -1)
PLAIN = "1-DP (pure), replace-one adjacency, unit: one row; exact sampling"


def with_remark(remark):
    return PLAIN.replace("; exact", f"; {remark}; exact")


def private(**options):
    return PrivatePCA(2, **{"norm_bound": 3.0, **options})


def ridge(**options):
    return PrivateRidge(norm_bound=3.0, **options)


def classifier(**options):
    return make_pipeline(private(**options), LogisticRegression(max_iter=30))


def of_many_fits(fit):
    return [sentence for sentence in said(fit) if "fits so far" in sentence]


# Many fits.

MANY = {
    "one against the rest": (lambda: OneVsRestClassifier(classifier()), CLASSES, "OneVsRestClassifier"),
    "one against one": (lambda: OneVsOneClassifier(classifier()), CLASSES, "OneVsOneClassifier"),
    "output codes": (lambda: OutputCodeClassifier(classifier(), random_state=0), CLASSES, "OutputCodeClassifier"),
    "calibrated": (lambda: CalibratedClassifierCV(classifier(), cv=3), CLASSES, "CalibratedClassifierCV"),
    "self-training": (
        lambda: SelfTrainingClassifier(classifier(), max_iter=3, threshold=0.3),
        SOME_CLASSES,
        "SelfTrainingClassifier",
    ),
    "two classifiers": (
        lambda: VotingClassifier([("a", classifier()), ("b", classifier())]),
        CLASSES,
        "VotingClassifier",
    ),
    "two regressions": (lambda: VotingRegressor([("a", ridge()), ("b", ridge())]), X[:, 0], "VotingRegressor"),
    "two sets of columns": (
        lambda: ColumnTransformer([("a", private(), [0, 1]), ("b", private(), [2, 3])]),
        None,
        "ColumnTransformer",
    ),
    "the same columns twice": (lambda: FeatureUnion([("a", private()), ("b", private())]), None, "FeatureUnion"),
    "nested": (
        lambda: Pipeline([("a", Normalizer()), ("b", OneVsRestClassifier(classifier()))]),
        CLASSES,
        "OneVsRestClassifier",
    ),
}


@pytest.mark.parametrize("name", MANY)
def test_a_wrapper_that_fits_many_times_is_warned_of_once(name, monkeypatch):
    make, target, wrapper = MANY[name]
    guarantees = _noted(monkeypatch)
    model = make()
    (told,) = of_many_fits(lambda: model.fit(X, target))
    assert told.startswith(f"{wrapper} used private rows in 2 fits so far")
    assert "epsilon = 2," in told
    assert len(guarantees) > 1
    for number, guarantee in enumerate(guarantees, 1):
        assert str(guarantee) != PLAIN
        (sentence,) = [one for one in guarantee.assumptions if one.startswith("Covers this fit only")]
        assert number == 1 or f"fit number {number} of {wrapper}" in sentence
    assert of_many_fits(lambda: model.fit(X, target)) == []  # once for this object
    assert len(of_many_fits(lambda: clone(model).fit(X, target))) == 1  # and once for another


def _noted(monkeypatch):
    """Return a list to which the guarantee of every fit is added, as it is paid for."""
    from eigenveil import gate

    guarantees, pay = [], gate.pay

    def noted(mechanism, guarantee, *more):
        guarantees.append(guarantee)
        return pay(mechanism, guarantee, *more)

    monkeypatch.setattr(gate, "pay", noted)
    return guarantees


SEEDED = {
    "bagging": (lambda: BaggingClassifier(classifier(), n_estimators=3), CLASSES),
    "boosting": (lambda: AdaBoostRegressor(ridge(), n_estimators=2), X[:, 0]),
    "ransac": (lambda: RANSACRegressor(ridge(), max_trials=3, min_samples=300, residual_threshold=9.0), X[:, 0]),
}


@pytest.mark.parametrize("name", SEEDED)
def test_a_wrapper_that_seeds_what_it_fits_is_warned_of_once(name, monkeypatch):
    make, target = SEEDED[name]
    _noted(monkeypatch)
    (told,) = said(lambda: make().fit(X, target))
    assert "not private" in told
    assert "random_state" in told


def test_a_seed_of_the_users_own_is_no_surprise():
    assert said(lambda: clone(private()).set_params(random_state=0).fit(X)) == []
    assert said(lambda: OneVsRestClassifier(classifier(random_state=0)).fit(X, CLASSES)) == []


@pytest.mark.parametrize(
    "fit",
    [
        lambda: cross_val_score(ridge(), X, X[:, 0], cv=2, error_score="raise"),
        lambda: GridSearchCV(ridge(), {"alpha": [0.1, 1.0]}, cv=2, error_score="raise").fit(X, X[:, 0]),
        lambda: RFE(ridge(), n_features_to_select=2).fit(X, X[:, 0]),
        lambda: StackingClassifier([("a", classifier())], cv=2).fit(X, CLASSES),
        lambda: CalibratedClassifierCV(classifier(), cv=2, ensemble=False).fit(X, CLASSES),
    ],
)
def test_what_is_refused_without_a_ledger_has_spent_nothing(fit, monkeypatch):
    guarantees = _noted(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        with pytest.raises(InvalidParameterError, match="ledger="):
            fit()
    assert guarantees == []


def test_fits_of_clones_and_second_fits_are_counted_without_a_wrapper():
    model = private(epsilon=0.5)
    assert said(lambda: clone(model).fit(X)) == []  # the first
    folds = KFold(3).split(X)
    (told,) = said(lambda: [clone(model).fit(X[rows]) for rows, _ in folds])
    assert "PrivatePCA with its clones used private rows in 2 fits so far" in told
    assert "if the rows were the same, the total is epsilon = 1," in told
    assert said(lambda: model.fit(X)) == []
    assert "fit number 5 of PrivatePCA" in model.guarantee_.assumptions[0]
    alone = private()
    assert said(lambda: alone.fit(X)) == []
    assert str(alone.guarantee_) == PLAIN
    assert len(said(lambda: alone.fit(X))) == 1
    assert "fit number 2" in alone.guarantee_.assumptions[0]


def test_the_total_has_a_delta_where_one_is_spent():
    model = private(delta=1e-6, mechanism="gaussian")
    model.fit(X)
    (told,) = said(lambda: model.fit(X))
    assert "epsilon = 2 and delta = 2e-06" in told


def test_moments_are_counted_too():
    model = private()
    model.partial_fit(X).fit_moments()
    (told,) = said(lambda: model.partial_fit(X).fit_moments())
    assert "2 fits" in told


def test_what_is_refused_is_not_counted():
    model = private()
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((5, 3), np.nan))
    assert said(lambda: model.fit(X)) == []


def test_a_ledger_counts_by_itself(tmp_path):
    book = PrivacyLedger.create(tmp_path / "x.ledger", epsilon=100.0, data_set="x")
    model = OneVsRestClassifier(classifier(ledger=book))
    assert said(lambda: model.fit(X, CLASSES)) == []
    assert len(book.entries()) == 4
    assert [entry.guarantee for entry in book.entries()] == [one[0].guarantee_ for one in model.estimators_]
    assert all("this fit only" in one[0].guarantee_.assumptions[0] for one in model.estimators_)


def test_copies_share_a_count_and_a_pickle_has_always_the_same_bytes():
    model = private()
    before = joblib.hash(clone(model))
    copy.copy(model).fit(X)
    twin = copy.deepcopy(model)
    assert len(said(lambda: twin.fit(X))) == 1
    assert "fit number 2" in twin.guarantee_.assumptions[0]
    assert joblib.hash(clone(model)) == before == joblib.hash(clone(private()))
    assert str(pickle.loads(pickle.dumps(private())).fit(X).guarantee_) == with_remark("covers this fit only")


# Workers.


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_fits_in_workers_say_what_is_not_seen(backend):
    scaled = Pipeline([("s", StandardScaler()), ("c", ColumnTransformer([("p", private(), [0, 1, 2])], n_jobs=2))])
    with parallel_config(backend), warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        scaled.set_params(c__transformers=[("p", private(), [0, 1, 2]), ("q", private(), [1, 2, 3])]).fit(X)
        union = FeatureUnion([("a", private()), ("b", private())], n_jobs=2).fit(X)
        rest = OneVsRestClassifier(classifier(), n_jobs=2).fit(X, CLASSES)
    fitted = [*scaled[1].named_transformers_.values(), *(one for _, one in union.transformer_list)]
    for one in [*fitted, *(each[0] for each in rest.estimators_)]:
        assert str(one.guarantee_).startswith("CONDITIONAL")
        assert "worker" in " ".join(one.guarantee_.assumptions)
        assert "this fit only" in " ".join(one.guarantee_.assumptions)


def test_a_fit_in_a_thread_of_joblib_is_warned_of():
    with parallel_config("threading"):
        told = said(lambda: FeatureUnion([("a", private()), ("b", private())], n_jobs=2).fit(X))
    assert told
    assert all("worker of joblib" in one for one in told)


# Steps before a fit.


class Duck:
    """A scaler that is no class of scikit-learn."""

    def fit(self, rows, y=None):
        self.middle_, self.size_ = rows.mean(axis=0), rows.std(axis=0)
        return self

    def transform(self, rows):
        return (rows - self.middle_) / self.size_

    def fit_transform(self, rows, y=None):
        return self.fit(rows).transform(rows)

    def get_params(self, deep=True):
        return {}

    def __sklearn_tags__(self):
        return FunctionTransformer().__sklearn_tags__()


class Normalized(Normalizer):
    """A class derived from one that is known."""

    def transform(self, rows):
        return rows / np.abs(rows).max()


class Meta(TransformerMixin, BaseEstimator):
    """An estimator of somebody's own that scales, and then fits."""

    def fit(self, rows, y=None):
        self.inner_ = private().fit(scale(rows))
        return self

    def transform(self, rows):
        return rows


class DuckPipeline:
    """A pipeline that is no class of scikit-learn."""

    def __init__(self, *steps):
        self.steps = [(type(step).__name__, step) for step in steps]

    def fit(self, rows):
        for _, step in self.steps[:-1]:
            rows = step.fit(rows, None).transform(rows)
        self.steps[-1][1].fit(rows)
        return self


def by_maximum(rows):
    return rows / np.abs(rows).max()


def filled(frame):
    return frame.fillna(frame.mean())


def first_column(rows):
    return [int(np.argmax(np.asarray(rows)[0]))]


UNKNOWN = {
    "scaler": (lambda: [StandardScaler()], "StandardScaler"),
    "function": (lambda: [FunctionTransformer(scale)], "FunctionTransformer"),
    "lambda": (lambda: [FunctionTransformer(lambda rows: rows / np.abs(rows).max())], "FunctionTransformer"),
    "fill": (lambda: [FunctionTransformer(filled)], "FunctionTransformer"),
    "ufunc with options": (lambda: [FunctionTransformer(np.abs, kw_args={"where": True})], "FunctionTransformer"),
    "duck": (lambda: [Duck()], "Duck"),
    "derived": (lambda: [Normalized()], "Normalized"),
    "frozen": (lambda: [FrozenEstimator(StandardScaler().fit(X))], "FrozenEstimator"),
    "in columns": (
        lambda: [make_column_transformer((FunctionTransformer(scale), [0, 1, 2, 3]))],
        "FunctionTransformer",
    ),
    "duck in columns": (lambda: [ColumnTransformer([("a", Duck(), [0, 1])], remainder="passthrough")], "Duck"),
    "remainder": (lambda: [ColumnTransformer([("a", "passthrough", [0])], remainder=Duck())], "Duck"),
    "columns by what is in them": (
        lambda: [ColumnTransformer([("a", Normalizer(), first_column)], remainder="passthrough")],
        "ColumnTransformer",
    ),
    "in a union": (
        lambda: [FeatureUnion([("a", FunctionTransformer(by_maximum)), ("b", Normalizer())])],
        "FunctionTransformer",
    ),
    "in a pipeline": (
        lambda: [make_pipeline(Normalizer(), make_pipeline(FunctionTransformer(scale)))],
        "FunctionTransformer",
    ),
    "after one that is known": (lambda: [Normalizer(), FunctionTransformer(scale)], "FunctionTransformer"),
    "seeded": (lambda: [PrivateScaler(bounds=(-1, 1), random_state=0)], "PrivateScaler"),
}


@pytest.mark.parametrize("place", ["pipeline", "columns", "pipeline in pipeline", "duck pipeline"])
@pytest.mark.parametrize("name", UNKNOWN)
def test_a_step_that_is_not_known_to_be_row_wise_is_named(name, place):
    steps, culprit = UNKNOWN[name]
    last = private()
    model = {
        "pipeline": lambda: make_pipeline(*steps(), last),
        "columns": lambda: make_pipeline(*steps(), make_column_transformer((last, [0, 1, 2]))),
        "pipeline in pipeline": lambda: make_pipeline(*steps(), make_pipeline(Normalizer(), last)),
        "duck pipeline": lambda: DuckPipeline(*steps(), last),
    }[place]()
    rows = pd.DataFrame(X, columns=list("abcd")) if name == "fill" else X
    told = [one for one in said(lambda: model.fit(rows)) if "PrivatePCA" in one]
    assert len(told) == 1
    assert culprit in told[0]
    fitted = model[-1].named_transformers_["privatepca"] if place == "columns" else last
    _assert_conditional(fitted.guarantee_, culprit)


def _assert_conditional(guarantee, culprit):
    assert str(guarantee).startswith("CONDITIONAL: only if ")
    assert culprit in str(guarantee).partition(" made one row from each row")[0]
    (condition,) = guarantee.conditions
    assert condition in guarantee.in_words()
    assert guarantee._repr_html_().count("nothing is guaranteed") == 1
    assert str(Guarantee.from_dict(guarantee.to_dict())) == str(guarantee)
    assert compose([guarantee, Guarantee(1.0)]).conditions == guarantee.conditions


def test_an_estimator_around_a_fit_that_is_not_known_is_named():
    model = Meta()
    (told,) = said(lambda: model.fit(X))
    assert "Meta" in told
    _assert_conditional(model.inner_.guarantee_, "Meta")


def test_a_step_before_the_local_model_is_named():
    last = LocalPCA(1, norm_bound=3.0)
    (told,) = said(lambda: make_pipeline(FunctionTransformer(scale), last).fit(X))
    assert "FunctionTransformer" in told
    _assert_conditional(last.guarantee_, "FunctionTransformer")
    assert said(lambda: make_pipeline(Normalizer(), LocalPCA(1, norm_bound=3.0)).fit(X)) == []


def test_a_function_of_the_target_is_named():
    assert (
        len(said(lambda: TransformedTargetRegressor(ridge(), transformer=FunctionTransformer(scale)).fit(X, X[:, 0])))
        == 1
    )
    model = TransformedTargetRegressor(ridge(), func=np.arctan, inverse_func=np.tan)
    assert said(lambda: model.fit(X, X[:, 0])) == []


KNOWN = {
    "alone": (list, ()),
    "normalizer": (lambda: [Normalizer()], ("Normalizer",)),
    "ufunc": (lambda: [FunctionTransformer(np.arctan)], ("FunctionTransformer",)),
    "identity": (lambda: [FunctionTransformer()], ("FunctionTransformer",)),
    "binarizer": (lambda: [Binarizer()], ("Binarizer",)),
    "private": (lambda: [PrivateScaler(bounds=(-1, 1))], ("PrivateScaler",)),
    "two": (lambda: [Normalizer(), PrivateScaler(bounds=(-1, 1))], ("Normalizer", "PrivateScaler")),
    "columns": (
        lambda: [
            ColumnTransformer(
                [("a", Normalizer(), make_column_selector(dtype_include=float)), ("b", "drop", [0])],
                remainder="passthrough",
            )
        ],
        ("Normalizer",),
    ),
    "categories": (
        lambda: [
            make_column_transformer(
                (OneHotEncoder(categories=[[0.0]], handle_unknown="ignore", sparse_output=False), [0]),
                remainder="passthrough",
            )
        ],
        ("OneHotEncoder", "FunctionTransformer"),
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_control_steps_that_are_known_bring_no_warning_and_are_assumed(name):
    steps, named = KNOWN[name]
    rows = pd.DataFrame(X, columns=list("abcd")) if name == "columns" else X
    last = private()
    assert said(lambda: make_pipeline(*steps(), last).fit(rows)) == []
    assert str(last.guarantee_) == (with_remark(f"assumes row-wise {' and '.join(named)}") if named else PLAIN)
    assert len(last.guarantee_.assumptions) == bool(named)
    assert all(name in last.guarantee_.assumptions[0] for name in named)
    assert last.guarantee_.conditions == ()


def test_a_function_that_chooses_columns_for_the_private_estimator_is_named():
    def few(rows):
        return [i for i in range(rows.shape[1]) if rows[:, i].max() <= 1]

    rows = np.random.default_rng(0).uniform(0, 1, size=(500, 3))
    with pytest.warns(PrivacyWarning, match="ColumnTransformer"):
        fitted = ColumnTransformer([("p", PrivatePCA(1, norm_bound=1.0), few)]).fit(rows)
    assert "CONDITIONAL" in str(fitted.transformers_[0][1].guarantee_)


def test_a_function_made_by_numpy_of_anything_is_not_known_to_work_row_by_row():
    made = FunctionTransformer(np.frompyfunc(lambda x: x, 1, 1))
    with pytest.warns(PrivacyWarning, match="FunctionTransformer"):
        make_pipeline(made, PrivatePCA(1, norm_bound=1.0)).fit(np.random.default_rng(0).uniform(0, 1, size=(500, 3)))
