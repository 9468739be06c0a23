"""The first call on a raw table: the target of scikit-learn's `PCA`, with nothing public and with ranges."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from eigenveil import (
    PrivacyLedger,
    PrivateCovariance,
    PrivatePCA,
    PrivateRidge,
    PrivateSparsePCA,
    Schema,
    gate,
    load_release,
)
from eigenveil.errors import InvalidDataError, InvalidParameterError, NoiseWarning
from eigenveil.estimators import plan as plans
from eigenveil.estimators.split import RANGES_SHARES, SEARCHES
from eigenveil.mechanisms.choices import PureSearch
from eigenveil.metrics import captured_variance
from eigenveil.releases.origin import ComponentsRequest
from eigenveil.tables.open import open_table
from eigenveil.tables.schema import Column
from helpers import refused, scales

# Beside one column of millions, a second component in raw units is noise alone.
pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")


def raw(n=40_000, seed=0):
    """Columns of unlike units, far from zero, sorted by one of them as files are; two of them belong together."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n)
    columns = {
        "income": 40_000 + 9_000 * (common + 0.4 * rng.normal(size=n)),
        "height": 1.7 + 0.1 * (common + 0.4 * rng.normal(size=n)),
        "year": rng.integers(1990, 2021, size=n).astype(float),
        "time": 1.7e9 + 1e7 * np.sort(rng.random(n)),
    }
    return pd.DataFrame(columns)


RANGES = ([0.0, 1.0, 1980.0, 1.69e9], [90_000.0, 2.4, 2030.0, 1.72e9])


def lost(truth, components):
    best = np.linalg.eigvalsh(truth)[-len(components) :].sum()
    return 1 - captured_variance(truth, components) / best


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(
    "options",
    [
        {"standardize": True},
        {"standardize": True, "bounds": RANGES},
        {"standardize": True, "statistic": "kendall"},
        {},
        {"bounds": RANGES},
        {"statistic": "spatial_sign"},
    ],
    ids=str,
)
@pytest.mark.parametrize("n", [2_000, 40_000])
def test_the_target_is_that_of_scikit_learn(options, delta, n):
    X = raw(n).to_numpy()
    truth = np.corrcoef(X.T) if "standardize" in options else np.cov(X.T)
    # Epsilon 5, for the directions of 2,000 rows; loss of noise and of sampling together.
    assert lost(truth, PrivatePCA(2, epsilon=5.0, delta=delta, random_state=1, **options).fit(X).components_) < 0.04


def test_with_a_large_epsilon_it_is_scikit_learns_pipeline(tmp_path):
    frame = raw()
    scaler = StandardScaler().fit(frame)
    plain = PCA(2).fit(scaler.transform(frame))
    model = PrivatePCA(2, epsilon=1e4, bounds=RANGES, standardize=True).fit(frame)
    assert model.release_.origin.request == ComponentsRequest(2, correlation=True)
    assert np.allclose(np.abs(np.diag(model.components_ @ plain.components_.T)), 1, atol=5e-3)
    assert np.allclose(model.explained_variance_, plain.explained_variance_, rtol=0.01)
    assert np.allclose(model.explained_variance_ratio_, plain.explained_variance_ratio_, rtol=0.01)
    assert np.allclose(model.mean_, scaler.mean_, atol=1e-3 * scaler.scale_)
    assert np.allclose(1 / model.scale_, scaler.scale_, rtol=1e-2)
    assert np.allclose(model.correlation_, frame.corr(), atol=0.01)
    assert np.allclose(np.diag(model.correlation_), 1)
    assert np.allclose(np.diag(model.covariance_), frame.var(), rtol=0.02)
    scores = model.transform(frame)
    assert np.allclose(np.abs(scores[:, 0]), np.abs(plain.transform(scaler.transform(frame))[:, 0]), atol=0.05)
    whole = PrivatePCA(epsilon=1e4, bounds=RANGES, standardize=True).fit(frame)
    assert np.allclose(whole.inverse_transform(whole.transform(frame)), frame, rtol=1e-6)
    loaded = load_release(model.release_.save(tmp_path / "r.npz"))
    assert np.array_equal(loaded.components, model.components_)
    assert np.array_equal(loaded.scale, model.scale_)
    interval = model.explained_variance_interval_
    assert ((interval[:, 0] <= model.explained_variance_) & (model.explained_variance_ <= interval[:, 1])).all()


SCHEMA = Schema(tuple(map(Column, raw(1), ["number"] * 4, zip(*RANGES, strict=True))))


@pytest.mark.parametrize(
    "options",
    [
        {"bounds": RANGES},
        {"schema": SCHEMA},
        {"bounds": RANGES, "norm_bound": 2.0},
        {"bounds": RANGES, "delta": 1e-6, "mechanism": "gaussian", "epsilon": 20.0},
        {"bounds": RANGES, "adjacency": "add_or_remove_one"},
        {"bounds": RANGES, "mechanism": "eigenvector_sampling", "n_components": 1},
    ],
    ids=lambda options: ", ".join(options),
)
@pytest.mark.parametrize("made_by", ["fit", "partial_fit", "moments"])
def test_with_public_ranges_it_is_scikit_learns_pca(options, made_by, tmp_path):
    frame = raw()
    model = PrivatePCA(**{"n_components": 2, "epsilon": 1e4, **options})
    plain = PCA(model.n_components).fit(frame)
    if made_by == "fit":
        model.fit(frame)
    else:
        model.partial_fit(frame[:15_000]).partial_fit(frame[15_000:])
        model = model.fit_moments() if made_by == "partial_fit" else clone(model).fit_moments(model._collected)
    assert model.release_.origin.request == ComponentsRequest(model.n_components, own_units=True)
    assert np.array_equal(model.scale_, np.ones(4))
    assert np.allclose(np.abs(np.diag(model.components_ @ plain.components_.T)), 1, atol=1e-3)
    assert np.allclose(model.explained_variance_, plain.explained_variance_, rtol=1 / model.epsilon + 0.01)
    assert np.allclose(model.mean_[3], plain.mean_[3], atol=0.01 * frame.std().iloc[3])
    scores = np.abs(plain.transform(frame))
    assert np.allclose(np.abs(model.transform(frame)), scores, atol=0.01 * scores.max())
    loaded = load_release(model.release_.save(tmp_path / "r.npz"))
    assert np.array_equal(loaded.transform(frame.to_numpy()), model.transform(frame))


def test_what_was_asked_to_be_scaled_or_is_about_the_origin():
    """A size that the user gives scales; about the origin rows are not scaled, so that directions can be drawn."""
    X = raw().to_numpy()
    low, high = map(np.array, RANGES)
    middle, half = (low + high) / 2, (high - low) / 2
    scaled = PrivatePCA(2, epsilon=1e4, schema=scales(*half), norm_bound=200.0).fit(X)
    assert not scaled.release_.origin.request.own_units
    assert np.allclose(scaled.scale_, 1 / half)
    for mechanism in ("ppca", "matrix_laplace"):
        origin = PrivatePCA(1, epsilon=1e4, bounds=RANGES, center=False, mechanism=mechanism).fit(X)
        assert lost(np.cov((X - middle).T), origin.components_) < 0.01
        assert origin.norm_bound_ == pytest.approx(np.linalg.norm(half))
    mapped = PrivatePCA(1, epsilon=1e4, bounds=RANGES, center=False, norm_bound=2.0, mechanism="ppca").fit(X)
    assert lost(np.cov(((X - middle) / half).T), mapped.components_) < 0.01
    sparse = PrivateSparsePCA(1, epsilon=1e4, bounds=RANGES).fit(X)
    assert abs(sparse.components_[0, 3]) == pytest.approx(1, abs=1e-3)


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_correlations_cost_nothing_more():
    """The same draw, read in another way: the ledger, the guarantee and the integers are those of a covariance."""
    frame = raw(3_000)
    fits = [PrivateCovariance(bounds=RANGES, standardize=flag, random_state=3).fit(frame) for flag in (False, True)]
    assert np.array_equal(*(fit.release_.integers["matrix"] for fit in fits))
    assert fits[0].guarantee_ == fits[1].guarantee_
    assert not np.allclose(fits[0].release_.components, fits[1].release_.components)


@pytest.mark.filterwarnings("ignore:No component is above:eigenveil.errors.NoiseWarning")
@pytest.mark.parametrize(
    ("still", "words"),
    [
        (["still"], "feature still is not distinguishable from noise, so correlations with it are"),
        (["still", "calm"], "features still and calm is not distinguishable from noise, so correlations with them are"),
    ],
)
def test_features_that_drown_are_named(still, words):
    frame = raw(3_000).assign(**dict.fromkeys(still, 0.5))
    wide = ([*RANGES[0], *[-1e3 for _ in still]], [*RANGES[1], *[1e3 for _ in still]])
    for estimator in (partial(PrivatePCA, 2), PrivateCovariance):
        model = estimator(epsilon=20.0, bounds=wide, standardize=True)
        with pytest.warns(NoiseWarning, match=f"The variance of {words} too small"):
            assert model.fit(frame).release_.correlation is not None
        assert np.abs(model.correlation_[4:, :4]).max() < 0.5
        assert model.correlation_[4, 4] == 1


def test_correlations_are_asked_of_moments_that_tell_them():
    from eigenveil import RowBound, SecondMoments

    X = np.random.default_rng(0).normal(size=(500, 3))
    plain, centred = (SecondMoments(RowBound(4.0, constant=constant), 3).update(X) for constant in (None, 2.0))
    with refused(InvalidParameterError):
        PrivatePCA(1, standardize=True).fit_moments(plain)
    model = PrivateSparsePCA(1, epsilon=50.0, standardize=True).fit_moments(centred)
    assert np.allclose(1 / model.scale_, X.std(axis=0), rtol=0.1)


# Ranges that are found privately.


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_covariance_in_raw_units_with_nothing_public(delta):
    frame = raw()
    model = PrivateCovariance(epsilon=1.0, delta=delta).fit(frame)
    assert model.release_.origin.chosen_privately == ("bounds", "norm_bound")
    assert model.guarantee_.epsilon <= 1.0
    assert np.allclose(np.diag(model.covariance_), frame.var(), rtol=0.25)
    assert np.allclose(model.location_, frame.mean(), atol=0.1 * frame.std())
    assert model.correlation_[0, 1] == pytest.approx(frame.corr().iloc[0, 1], abs=0.15)


@pytest.mark.parametrize(
    ("kind", "options"), [(PrivateCovariance, {}), (PrivatePCA, {}), (PrivatePCA, {"standardize": True})]
)
@pytest.mark.parametrize("n", [4_000, 40_000])
def test_a_schema_without_ranges_is_as_none(kind, options, n):
    frame = raw(n)
    schema = Schema.from_frame_types(frame).confirmed()
    plain, declared = (kind(**options, schema=one, random_state=1).fit(frame) for one in (None, schema))
    assert declared.release_.origin.schema == schema
    assert declared.release_.origin.row_rule == plain.release_.origin.row_rule
    assert declared.release_.origin.chosen_privately == plain.release_.origin.chosen_privately
    assert np.array_equal(declared.release_.integers["matrix"], plain.release_.integers["matrix"])


def test_a_schema_that_sizes_some_columns_is_refused_before_the_spend(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=9.0, data_set="study")
    frame = raw(4_000).assign(member=True)
    sized = Column("income", range=(0, 90_000)), Column("height", scale=0.1), Column("member", "boolean")
    some = Schema((*sized, Column("year")))
    for model in (
        PrivateCovariance(),
        PrivatePCA(2),
        PrivatePCA(2, statistic="clipped"),
        PrivateRidge(target="income"),
    ):
        model.set_params(schema=some, ledger=ledger)
        for attempt in (lambda model=model: model.fit(frame), lambda model=model: model.plan(4)):
            with refused(InvalidParameterError) as caught:
                attempt()
            assert "none for the column 'year'" in str(caught.value)
    assert ledger.entries() == []
    assert PrivatePCA(2, schema=some, standardize=True).plan(4).most_rows.preparation.statistic == "kendall"
    assert PrivatePCA(2, schema=some, norm_bound=3.0).plan(4).most_rows.choices == {}
    assert list(PrivateCovariance(schema=Schema(sized)).plan(3).most_rows.choices) == ["norm_bound"]
    assert list(PrivateCovariance(schema=Schema((*sized[2:], Column("year")))).plan(2).most_rows.choices) == [
        "bounds",
        "norm_bound",
    ]
    assert PrivateCovariance(schema=Schema(sized[2:])).plan(1).most_rows.choices == {}


def test_a_regression_with_nothing_public():
    frame = raw()
    model = PrivateRidge(target="income", epsilon=2.0).fit(frame)
    assert model.score(frame.drop(columns="income"), frame.income) > 0.6
    assert list(model.feature_names_in_) == ["height", "year", "time"]


def least_rows(n_searched):
    """The rows that private ranges take at epsilon 1."""
    return math.ceil(plans.rows_for_ranges(PureSearch(RANGES_SHARES[0] / SEARCHES), n_searched))


def test_so_few_rows_are_refused_before_the_spend(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=1.0, data_set="study")
    least = least_rows(4)
    frame = raw(least - 1)
    assert least == 2000  # 500 d / epsilon
    for attempt in (
        lambda: PrivateCovariance(ledger=ledger).fit(frame),
        lambda: PrivateRidge(target="year", ledger=ledger).fit(frame),
        lambda: PrivateCovariance(ledger=ledger).plan(4, n_rows=least - 1),
    ):
        with refused(InvalidDataError) as caught:
            attempt()
        assert f"Give public bounds, or a schema with ranges, at least {least:,} rows, or an epsilon of" in str(
            caught.value
        )
    assert ledger.entries() == []
    assert PrivateCovariance().fit(raw(least)).covariance_.shape == (4, 4)


@pytest.mark.filterwarnings("ignore:.*not distinguishable from noise:eigenveil.errors.NoiseWarning")
def test_a_feature_in_which_rows_agree_is_named_and_harms_no_other(tmp_path):
    frame = raw().assign(flag=0.0, code=7.0)
    frame.loc[::1000, "flag"] = 1.0
    with pytest.warns(NoiseWarning, match="No range was found of flag, code: "):
        model = PrivateCovariance(epsilon=3.0, random_state=1).fit(frame)
    assert np.allclose(np.diag(model.covariance_)[:4], frame.var()[:4], rtol=0.25)
    assert np.abs(model.covariance_[4:]).max() == 0
    assert np.allclose(model.location_[4:], [0.0, 7.0], atol=1e-3)
    assert load_release(model.release_.save(tmp_path / "r.npz")).origin.without_range == (4, 5)
    with pytest.warns(NoiseWarning, match="No range was found of flag"):
        flag = PrivateRidge(target="flag", epsilon=3.0, random_state=1).fit(frame)
    assert -0.1 < flag.score(frame.drop(columns="flag"), frame.flag) <= 0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_few_rows_beyond_their_ranges_may_have_most_of_the_variance(delta):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 3)) * [100.0, 150.0, 150.0]
    X[::200, 0] *= 100.0
    model = PrivatePCA(1, epsilon=1.0, delta=delta, random_state=1).fit(X)
    assert model.release_.origin.chosen_privately == ("bounds", "norm_bound")
    assert lost(np.cov(X.T), model.components_) < 0.1


@pytest.mark.parametrize("unit", [1e-29, 4.7e-12, 1e25])
def test_a_feature_in_any_unit_has_a_range(unit):
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=20_000), unit * rng.lognormal(sigma=0.5, size=20_000)]
    model = PrivateCovariance(epsilon=1e4).fit(X)
    assert model.release_.origin.without_range == ()
    assert np.allclose(np.diag(model.covariance_) / X.var(axis=0), 1, rtol=0.1)


@pytest.mark.parametrize("unit", [1e31, 1e60])
def test_a_feature_beyond_the_ladder_is_named_and_harms_no_other(unit):
    X = np.random.default_rng(0).normal(size=(20_000, 3)) * [3.0, 1.0, unit]
    with pytest.warns(NoiseWarning, match="No range was found of x2: "):
        model = PrivateCovariance(epsilon=1e4).fit(X)
    assert np.allclose(np.diag(model.covariance_), [9.0, 1.0, 0.0], rtol=0.05)


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_what_is_0_or_1_by_construction_is_not_searched(monkeypatch):
    """Two of six features share the cost, so fewer rows do, and indicators keep their zeros and ones."""
    searched, original = [], gate.choose_places

    def counted(counts, most, search, generator, only=None):
        searched.append((counts.columns, search))
        return original(counts, most, search, generator, only)

    monkeypatch.setattr(gate, "choose_places", counted)
    rng, city, n = np.random.default_rng(0), list("abcd"), least_rows(2)
    frame = pd.DataFrame({"city": rng.choice(city, n), "age": rng.normal(40, 9, n), "pay": rng.normal(size=n)})
    table = open_table(frame, ["age", "city", "pay"], categories={"city": city})
    model = PrivateCovariance(epsilon=1.0)
    with refused(InvalidDataError) as caught:
        model.fit(open_table(frame[1:], ["age", "city", "pay"], categories={"city": city}))
    assert f"at least {n:,} rows" in str(caught.value)
    with refused(InvalidParameterError) as caught:  # it would search all six
        model.fit(table, plan=model.plan(6))
    assert "make it from them" in str(caught.value)
    assert model.plan(table).route(n).choices["bounds"].epsilon == float(RANGES_SHARES[0])
    assert searched == []
    model.fit(table)
    assert searched == [((0, 5), PureSearch(RANGES_SHARES[0] / SEARCHES))] * (SEARCHES - 1)  # none is lost
    assert np.array_equal(model.scale_[1:5], np.ones(4))
    sharp = PrivateCovariance(epsilon=1e4).fit(table)
    assert np.allclose(np.diag(sharp.covariance_)[1:5], 3 / 16, rtol=0.2)
    assert np.allclose(sharp.location_[1:5], 1 / 4, atol=0.05)


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_truth_values_are_not_searched_either(tmp_path):
    """Their range is public by the schema, and never by a type: one cell of 2 would change it."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 9, 2_000), "member": rng.random(2_000) < 0.3})
    frame.to_csv(tmp_path / "a.csv", index=False)
    schema = Schema((Column("age"), Column("member", "boolean")))
    said = frame.assign(member=np.where(frame.member, "yes", "no"))
    model = PrivateCovariance(epsilon=1e4, random_state=1)
    for data in (frame, tmp_path / "a.csv", [tmp_path / "a.csv", tmp_path / "a.csv"], said):
        model.fit(data, schema=schema)
        assert list(model.plan(open_table(data, schema=schema)).most_rows.choices) == ["bounds", "norm_bound"]
        assert (model.release_.mean[1], model.scale_[1]) == (pytest.approx(0.3, abs=0.02), 2.0)
        assert model.covariance_[1, 1] == pytest.approx(0.21, rel=0.1)
    assert PrivateCovariance(schema=schema).plan(2).most_rows.preparation.ranges == (0,)
    with refused(InvalidDataError) as caught:
        PrivateCovariance(epsilon=1.0, schema=schema).fit(frame[: least_rows(1) - 1])
    assert f"at least {least_rows(1):,} rows" in str(caught.value)  # of one feature
    only = frame.assign(old=frame.age > 40)[["member", "old"]]
    of_both = Schema((Column("member", "boolean"), Column("old", "boolean")))
    public = PrivateCovariance(epsilon=50.0, schema=of_both).fit(only)
    assert public.release_.origin.chosen_privately == ()
    assert public.norm_bound_ == pytest.approx(2**0.5)
    assert np.allclose(public.covariance_, only.cov(), atol=0.01)
    for undeclared in (frame, frame.assign(member=frame.member.astype(float))):
        assert PrivateCovariance().plan(open_table(undeclared)).most_rows.preparation.ranges == (0, 1)


def test_a_prediction_goes_no_farther_out_than_the_fit():
    X = np.random.default_rng(0).uniform(-1, 1, size=(5_000, 2))
    model = PrivateRidge(epsilon=50.0, norm_bound=2.0).fit(X, X[:, 0])
    near, far = model.predict([[2.0, 0.0], [1e9, 0.0]])
    assert near == far
    assert np.allclose(model.predict(X), X @ model.coef_ + model.intercept_)


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_rows_that_come_once_are_planned_for_one_pass():
    frame = raw(6_000)
    for options in ({}, {"bounds": RANGES, "delta": 1e-6, "mechanism": "gaussian"}, {"standardize": True}):
        once = PrivatePCA(2, epsilon=9.0, random_state=2, **options).fit(iter([frame[:2_500], frame[2_500:]]))
        assert once.n_samples_ == 6_000
        assert once.release_.origin.chosen_privately == ()
        assert "mean" not in once.release_.integers
    model = PrivatePCA(2, bounds=RANGES, delta=1e-6, mechanism="gaussian")
    with refused(InvalidParameterError) as caught:
        model.fit(iter([frame]), plan=model.plan(4))
    assert "once" in str(caught.value)
    with refused(InvalidParameterError):
        model.set_params(stages=2).fit(iter([frame]))
    with refused(InvalidDataError):
        PrivateCovariance().fit(iter([frame]))


def test_projections_are_refused_before_the_spend_where_no_units_are_told(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=9.0, data_set="study")
    frame, many = raw(least_rows(4) - 1), raw()
    frame.to_csv(tmp_path / "few.csv", index=False)
    many.to_csv(tmp_path / "many.csv", index=False)
    model = PrivatePCA(2, standardize=True, ledger=ledger)
    for few in (frame, tmp_path / "few.csv", open_table(frame)):
        with refused(InvalidParameterError):
            model.fit_transform(few)
    with refused(InvalidDataError):
        PrivatePCA(2, ledger=ledger).fit_transform(iter([frame]))
    assert ledger.entries() == []
    model.set_params(epsilon=9.0, ledger=None, random_state=1)
    assert model.fit_transform(many).std(axis=0).max() < 2
    assert np.allclose(model.fit_transform(tmp_path / "many.csv"), model.fit_transform(many))
    assert model.fit(frame).mechanism_  # which promises no projections
