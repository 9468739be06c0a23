"""Fits whose unit is a person: the same release from every source, and what is refused before the spend."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

from eigenveil import (
    PrivacyLedger,
    PrivateCovariance,
    PrivatePCA,
    PrivateRidge,
    PrivateScaler,
    PrivateSparsePCA,
    RowBound,
    Schema,
    SecondMoments,
    load_release,
    release,
)
from eigenveil.errors import InvalidDataError, InvalidParameterError, LedgerError, PrivacyWarning
from eigenveil.guarantee import IDENTIFIER_ASSUMPTION, ORDER_ASSUMPTION, Unit
from eigenveil.mechanisms import MECHANISMS
from eigenveil.moments.units import Weighted
from eigenveil.tables.open import open_table
from eigenveil.tables.schema import Column
from tests.helpers import refused

NAMES = ["a", "b", "c"]
pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")


def visits(privacy_units=400, seed=0):
    """A frame of persons with one to nine rows each, in no order, about a mean that is not zero."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 10, privacy_units)
    of_unit = generator.normal(size=(privacy_units, 3)) * [2.0, 1.0, 0.5] + 1
    rows = np.repeat(of_unit, sizes, axis=0) + generator.normal(size=(sizes.sum(), 3)) * 0.3
    frame = pd.DataFrame(rows.astype(np.float32).astype(float), columns=NAMES)
    frame["patient"] = [f"p{privacy_unit}" for privacy_unit in np.repeat(np.arange(privacy_units), sizes)]
    return frame.iloc[generator.permutation(len(frame))].reset_index(drop=True)


VISITS = visits()
SCHEMA = Schema((*(Column(name, range=(-9.0, 9.0)) for name in NAMES), Column("patient", "privacy_unit")))
KINDS = {
    "bounds": {"bounds": (-9.0, 9.0)},
    "private norm": {"statistic": "clipped"},
    "spatial_sign": {"statistic": "spatial_sign"},
    "kendall": {"standardize": True},
    "about the origin": {"norm_bound": 9.0, "center": False},
    "mean first": {"norm_bound": 9.0, "delta": 1e-3, "stages": 2},
    "pooled": {"norm_bound": 20.0, "unit_weight": "by_rows"},
    "pooled, private norm": {"bounds": (-9.0, 9.0), "unit_weight": "by_rows"},
}


@pytest.mark.filterwarnings("ignore::eigenveil.errors.PrivacyWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_the_release_is_the_same_from_every_source(kind, tmp_path):
    VISITS.to_csv(tmp_path / "visits.csv", index=False)
    VISITS.to_parquet(tmp_path / "visits.parquet")
    model = PrivatePCA(2, epsilon=4.0, privacy_unit="patient", random_state=7, **KINDS[kind])
    expected = model.fit(VISITS).release_
    assert expected.n_rows == 400
    ids = VISITS["patient"].to_numpy()
    others = [
        model.fit(pl.from_pandas(VISITS)),
        model.fit(VISITS.sort_values("patient", kind="stable")),
        model.fit(VISITS.iloc[::-1]),
        model.fit(tmp_path / "visits.csv"),
        model.fit(open_table(tmp_path / "visits.parquet", privacy_unit="patient", memory=2**16)),
        model.set_params(privacy_unit=None).fit(VISITS[NAMES], privacy_unit=ids),
        model.fit(VISITS[NAMES].to_numpy(), privacy_unit=list(ids)),
    ]
    for other in others:
        assert other.release_.guarantee.unit is Unit.PERSON
        for name, integers in expected.integers.items():
            assert np.array_equal(integers, other.release_.integers[name])


@pytest.mark.parametrize(
    "model",
    [
        PrivatePCA(1, epsilon=9.0),
        PrivateCovariance(epsilon=9.0),
        PrivateSparsePCA(1, epsilon=9.0),
        PrivateRidge(target="a", epsilon=9.0),
        PrivateScaler(epsilon=9.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_schema_names_the_persons_to_every_estimator(model, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "x.ledger", epsilon=20, data_set="visits", unit="person")
    model.set_params(schema=SCHEMA, ledger=ledger).fit(VISITS)
    assert model.guarantee_.unit is Unit.PERSON
    assert model.n_samples_ == 400
    assert "patient" not in model.release_.feature_names
    assert load_release(model.release_.save(tmp_path / "r.npz")).guarantee.unit is Unit.PERSON
    assert ledger.entries()[0].guarantee.unit is Unit.PERSON
    assert pickle.loads(pickle.dumps(model)).guarantee_ == model.guarantee_


def test_a_ledger_of_rows_refuses_persons(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "x.ledger", epsilon=20, data_set="visits")
    with refused(LedgerError):
        PrivatePCA(1, schema=SCHEMA, ledger=ledger).fit(VISITS)
    assert not ledger.entries()


@pytest.mark.filterwarnings("ignore::eigenveil.errors.PrivacyWarning")
def test_each_weight_has_its_own_target():
    """One half of the persons varies a lot and comes often: pooled rows show it, averages do not."""
    generator = np.random.default_rng(3)
    sizes = np.repeat([1, 9], 20_000)
    spread = np.repeat([1.0, 3.0], 20_000)
    ids = np.repeat(np.arange(40_000), sizes)
    rows = generator.normal(size=(ids.size, 2)) * np.repeat(spread, sizes)[:, None]
    found = {
        weight: PrivateCovariance(epsilon=200.0, unit_weight=weight, norm_bound=norm, random_state=0).fit(
            rows, privacy_unit=ids
        )
        for weight, norm in (("equal", 12.0), ("by_rows", 30.0))
    }
    assert np.diag(found["equal"].covariance_) == pytest.approx([(1 + 9) / 2] * 2, rel=0.05)
    assert np.diag(found["by_rows"].covariance_) == pytest.approx([(1 + 9 * 9) / 10] * 2, rel=0.05)


def test_projections_are_of_rows_whatever_the_unit(tmp_path):
    model = PrivatePCA(2, epsilon=50.0, privacy_unit="patient", bounds=(-9.0, 9.0)).fit(VISITS)
    projected = model.transform(VISITS)
    assert projected.shape == (len(VISITS), 2)
    assert np.array_equal(projected, model.transform(VISITS[NAMES]))
    numbered = np.column_stack([np.arange(40) // 2, np.random.default_rng(0).normal(size=(40, 3))])
    model = PrivatePCA(1, epsilon=50.0, privacy_unit=np.int64(0), bounds=(-9.0, 9.0)).fit(numbered)
    assert model.n_features_in_ == 3
    projected = model.transform(numbered)
    assert projected.shape == (40, 1)
    assert projected == pytest.approx(model.transform(numbered[:, 1:]))
    assert projected == pytest.approx(model.transform(numbered.tolist()))
    np.save(tmp_path / "numbered.npy", numbered)
    assert projected == pytest.approx(model.transform(tmp_path / "numbered.npy"))


def test_projections_by_who_was_not_told_the_persons(tmp_path):
    told = PrivatePCA(2, epsilon=50.0, bounds=(-9.0, 9.0)).fit(VISITS, privacy_unit="patient")
    again = PrivatePCA.from_release(load_release(told.release_.save(tmp_path / "visits.npz")))
    expected = told.transform(VISITS[NAMES])
    for model in (told, again):
        for frame in (VISITS, VISITS[["patient", *NAMES]], pl.from_pandas(VISITS)):
            assert model.transform(frame) == pytest.approx(expected)
        with pytest.raises(ValueError, match=r"unseen|text"):
            model.transform(VISITS.assign(more=1.0))
    rows = PrivatePCA(2, epsilon=50.0, bounds=(-9.0, 9.0)).fit(VISITS[NAMES])
    with pytest.raises(ValueError, match=r"unseen|text"):
        rows.transform(VISITS)


@pytest.mark.parametrize("model", [PrivatePCA(2, norm_bound=9.0), PrivateScaler(bounds=(-9.0, 9.0))])
def test_rows_that_cannot_be_projected_are_refused_before_the_spend(model, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "x.ledger", epsilon=99, data_set="visits", unit="person")
    model.set_params(ledger=ledger)
    opened = open_table(VISITS, privacy_unit="patient")
    with refused(InvalidDataError) as caught:
        model.fit_transform(opened)
    assert "privacy_unit=False" in str(caught.value)
    with refused(InvalidDataError) as caught:
        model.fit_transform(iter([VISITS]), privacy_unit="patient")
    assert "once only" in str(caught.value)
    assert not ledger.entries()
    with refused(InvalidDataError):
        model.fit(opened).transform(opened)
    assert len(model.transform(open_table(VISITS, NAMES))) == len(VISITS)


def test_what_is_promised_of_persons_who_are_compared():
    promise = PrivatePCA(1, epsilon=4.0, privacy_unit="patient", statistic="spatial_sign").fit(VISITS).guarantee_
    assert IDENTIFIER_ASSUMPTION in promise.assumptions
    assert ORDER_ASSUMPTION not in promise.assumptions
    assert "; assumes public identifiers;" in str(promise)
    assert "one person" in promise.in_words()[0]


def test_what_persons_cannot_have_is_refused_before_the_spend(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "x.ledger", epsilon=99, delta=0.1, data_set="visits", unit="person")
    missing = VISITS.assign(patient=VISITS["patient"].where(VISITS.index != 5))
    bounds = {"bounds": (-9.0, 9.0)}
    for parameters, data, of_fit in [
        ({"privacy_unit": list(VISITS["patient"])}, VISITS, {}),
        ({"privacy_unit": "patient"}, VISITS, {"privacy_unit": "a"}),
        ({"privacy_unit": "patient"}, VISITS, {"privacy_unit": VISITS["patient"]}),
        ({"privacy_unit": "patient", "unit_weight": "visits"}, VISITS, {}),
        ({"privacy_unit": "patient", "unit_weight": "by_rows", "statistic": "spatial_sign"}, VISITS, {}),
        (
            {"privacy_unit": "patient", "unit_weight": "by_rows", "statistic": "kendall", "standardize": True},
            VISITS,
            {},
        ),
        ({"privacy_unit": "patient", "unit_weight": "by_rows", "stages": 2, "delta": 1e-3, **bounds}, VISITS, {}),
        ({"privacy_unit": "patient", "mechanism": "wishart", "delta": 1e-3, **bounds}, VISITS, {}),
        ({"privacy_unit": "patient"}, open_table(VISITS[NAMES]), {}),
        ({"privacy_unit": "patient", **bounds}, VISITS, {"sample_weight": np.ones(len(VISITS))}),
    ]:
        with refused(InvalidParameterError):
            PrivatePCA(1, ledger=ledger, **parameters).fit(data, **of_fit)
    for data in (missing, VISITS.drop(columns="patient")):
        with refused(InvalidDataError):
            PrivatePCA(1, ledger=ledger, privacy_unit="patient", **bounds).fit(data)
    with refused(InvalidDataError) as caught:
        PrivatePCA(1, privacy_unit="patient", **bounds).partial_fit(VISITS)
    assert "another call" in str(caught.value)
    assert not ledger.entries()


def test_a_plan_of_rows_does_not_run_on_persons():
    plan = PrivatePCA(1, bounds=(-9.0, 9.0)).plan(3)
    assert plan.guarantee.unit is Unit.ROW
    with refused(InvalidParameterError):
        PrivatePCA(1, bounds=(-9.0, 9.0)).fit(VISITS[NAMES], privacy_unit=VISITS["patient"], plan=plan)
    model = PrivatePCA(1, privacy_unit="patient", bounds=(-9.0, 9.0))
    assert model.fit(VISITS, plan=model.plan(3)).guarantee_.unit is Unit.PERSON


def test_a_delta_is_measured_by_persons():
    with pytest.warns(PrivacyWarning, match="400 privacy units"):
        PrivatePCA(1, privacy_unit="patient", bounds=(-9.0, 9.0), delta=1 / 400, mechanism="gaussian").fit(VISITS)


# Public weights of rows


@pytest.mark.parametrize("center", [True, False])
def test_weights_have_the_target_of_repeated_rows(center):
    generator = np.random.default_rng(5)
    weights = generator.integers(0, 4, 20_000)
    rows = generator.normal(size=(20_000, 2)) * np.where(weights > 1, 3.0, 1.0)[:, None] + 0.5
    model = PrivateCovariance(epsilon=500.0, norm_bound=15.0, center=center, random_state=0)
    found = model.fit(rows, sample_weight=weights).covariance_
    repeated = np.repeat(rows, weights, axis=0) - (0 if not center else np.average(rows, axis=0, weights=weights))
    assert found == pytest.approx(repeated.T @ repeated / len(repeated), rel=0.02, abs=0.02)
    assert model.n_samples_ == 20_000


def test_intervals_of_a_population_count_weighted_rows_by_their_weights():
    generator = np.random.default_rng(6)
    weights = np.where(np.arange(4000) % 10, 0.01, 1.0)  # worth 475 rows
    bound, mechanism = (
        RowBound(9.0, constant=4.5, most_weight=1.0),
        MECHANISMS["matrix_laplace"](epsilon=200.0, n_features=6),
    )
    found = []
    for _ in range(40):
        moments = SecondMoments(bound, 5).update(Weighted(generator.normal(size=(4000, 5)), weights))
        ends = release(mechanism, moments).intervals.mean(of="population")
        found += list((ends[:, 0] <= 0) & (ends[:, 1] >= 0))
    assert np.mean(found) > 0.9  # by the number of rows it would be .5


@pytest.mark.parametrize(
    "weights", [[1.0], [-1.0, 1.0], [0.0, 0.0], [np.nan, 1.0], [1.0, 1.0, 1.0], "ab", [[1.0], [1.0]]]
)
def test_bad_weights_are_refused_before_the_spend(weights, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "x.ledger", epsilon=9, data_set="x")
    with refused(InvalidDataError):
        PrivatePCA(1, norm_bound=1.0, ledger=ledger).fit(np.ones((2, 2)), sample_weight=weights)
    assert not ledger.entries()
