"""Fits by a schema: the same rows from every kind of table, a norm that holds, `transform` of whatever `fit` takes."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, PrivateRidge, Schema, load_release
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.guarantee import TYPES_ASSUMPTION
from eigenveil.report import render_report
from eigenveil.tables.open import open_table
from eigenveil.tables.schema import Column
from helpers import refused, scales

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")

SCHEMA = Schema(
    (
        Column("name", "ignored"),
        Column("age", range=(0, 120)),
        Column("mass", range=(0, 200), missing="indicator"),
        Column("sex", "category", categories=("F", "M"), missing="indicator"),
        Column("city", "category", categories=("Rome", "Lima"), missing="Lima"),
        Column("smoker", "boolean", missing="middle"),
        Column("visit", "date", unit="week", range=("2020-01-02", "2021-01-07"), missing="2020-01-09"),
    ),
    "Ada <Lovelace>",
    "2026-01-31",
)
ROWS = 60
RAW = pd.DataFrame(
    {
        "visit": ["2020-01-16", None, "2020-01-30"] * 20,
        "smoker": ["yes", "No", None, "perhaps"] * 15,
        "city": ["Rome", "Lima", None, "Oslo", "Rome"] * 12,
        "sex": ["F", None, "M", "X"] * 15,
        "mass": [70.0, np.nan, 90.0] * 20,
        "age": np.linspace(20, 60, ROWS),
        "name": [f"person {number}" for number in range(ROWS)],
        "extra": ["not declared"] * ROWS,
    }
)
WEEKS = 2610.0  # Thursdays between 1970-01-01 and 2020-01-09
EXPECTED = np.column_stack(
    [
        RAW["age"],
        [70.0, 100.0, 90.0] * 20,
        [0.0, 1.0, 0.0] * 20,
        [1.0, 0, 0, 0] * 15,
        [0.0, 0, 1, 0] * 15,
        [0.0, 1, 0, 0] * 15,
        [1.0, 0, 0, 0, 1] * 12,
        [0.0, 1, 1, 0, 0] * 12,
        [1.0, 0.0, 0.5, 0.5] * 15,
        [WEEKS + 1, WEEKS, WEEKS + 3] * 20,
    ]
)
NAMES = (
    "age", "mass", "mass=missing", "sex=F", "sex=M", "sex=missing", "city=Rome", "city=Lima", "smoker", "visit",
)  # fmt: skip


def tables(folder):
    """Return the same rows in many forms."""
    typed = RAW.assign(visit=pd.to_datetime(RAW["visit"]), city=RAW["city"].astype("category"))
    RAW.to_csv(folder / "a.csv", index=False)
    typed.to_parquet(folder / "a.parquet")
    first, last = RAW.iloc[:25], RAW.iloc[25:][list(reversed(RAW.columns))]
    first.to_csv(folder / "1.csv", index=False)
    last.to_csv(folder / "2.csv.gz", index=False)
    aware = typed.assign(visit=typed["visit"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    return {
        "pandas text": RAW,
        "pandas typed": typed,
        "pandas objects": RAW.astype({"sex": object, "visit": object}),
        "a zone": aware,
        "dates": RAW.assign(visit=[None if pd.isna(day) else day.date() for day in typed["visit"]]),
        "polars": pl.from_pandas(RAW),
        "polars typed": pl.from_pandas(typed),
        "polars dates": pl.from_pandas(typed).with_columns(pl.col("visit").cast(pl.Date)),
        "lazy": pl.from_pandas(typed).lazy(),
        "arrow": pl.from_pandas(typed).to_arrow(),
        "csv": folder / "a.csv",
        "parquet": str(folder / "a.parquet"),
        "parts": [folder / "1.csv", folder / "2.csv.gz"],
    }


def test_no_row_within_its_ranges_is_longer_than_the_norm():
    """By brute force over the corners: what is declared bounds the scaled row, and is attained."""
    low, high = map(np.array, SCHEMA.bounds)
    corners = pd.DataFrame(
        [
            {"age": age, "mass": mass, "sex": sex, "city": city, "smoker": smoker, "visit": visit}
            for age in (0.0, 120.0)
            for mass in (0.0, 200.0, None)
            for sex in ("F", "M", "X", None)
            for city in ("Rome", "Lima", "Oslo", None)
            for smoker in ("yes", "no", None)
            for visit in ("2020-01-02", "2021-01-07", None)
        ]
    )
    rows = np.concatenate(list(open_table(corners, schema=SCHEMA).batches()))
    half, about_middle = (high - low) / 2, rows - (low + high) / 2
    assert np.linalg.norm(about_middle / half, axis=1).max() == pytest.approx(len(SCHEMA.used) ** 0.5, rel=1e-12)
    evened = PrivatePCA(1, schema=SCHEMA, stages=1).plan(10).most_rows.preparation
    assert np.linalg.norm(about_middle * evened.scale, axis=1).max() == pytest.approx(evened.norm, rel=1e-12)


def test_a_fit_by_schema_is_a_fit_of_the_encoded_rows_by_its_bounds(tmp_path):
    options = {"norm_bound": len(SCHEMA.used) ** 0.5, "random_state": 3}  # without it, the norm is that of blocks
    by_schema = PrivatePCA(2, epsilon=1.0, schema=SCHEMA, **options).fit(RAW)
    by_hand = PrivatePCA(2, epsilon=1.0, bounds=SCHEMA.bounds, **options).fit(EXPECTED)
    assert np.array_equal(by_schema.release_.integers["matrix"], by_hand.release_.integers["matrix"])
    assert by_schema.guarantee_ == by_hand.guarantee_.with_assumption(TYPES_ASSUMPTION)
    assert by_schema.release_.origin.chosen_privately == ()
    assert tuple(by_schema.feature_names_in_) == NAMES
    for kind, table in tables(tmp_path).items():
        assert np.array_equal(by_schema.transform(table), by_hand.transform(EXPECTED)), kind


def test_a_schema_may_be_given_to_the_fit(tmp_path):
    for make in (PrivatePCA, PrivateCovariance, partial(PrivateRidge, target="age")):
        make = partial(make, epsilon=9.0, random_state=3)
        told = make(schema=SCHEMA).fit(RAW)
        for model in (make(), make(schema=SCHEMA)):
            assert np.array_equal(
                model.fit(RAW, schema=SCHEMA).release_.integers["matrix"], told.release_.integers["matrix"]
            )
            assert model.release_.origin.schema == SCHEMA
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=9.0, data_set="study")
    other = Schema((Column("age", range=(0, 100)),))
    for refusal in (
        lambda: PrivatePCA(1, schema=SCHEMA, ledger=ledger).fit(RAW, schema=other),
        lambda: PrivatePCA(1, ledger=ledger).fit(open_table(RAW, schema=SCHEMA), schema=other),
        lambda: PrivateRidge(ledger=ledger).fit(EXPECTED, EXPECTED[:, 0], schema=SCHEMA),
        lambda: PrivatePCA(1, ledger=ledger).fit(RAW, schema="table.yaml"),
    ):
        with refused(InvalidParameterError):
            refusal()
    assert ledger.entries() == []
    scores = PrivatePCA(1, random_state=3).fit_transform(RAW, schema=SCHEMA)
    assert np.array_equal(scores, PrivatePCA(1, schema=SCHEMA, random_state=3).fit_transform(RAW))


def test_a_release_of_a_file_projects_raw_tables(tmp_path):
    model = PrivatePCA(2, epsilon=1.0, schema=SCHEMA, random_state=3).fit(RAW)
    release = load_release(model.release_.save(tmp_path / "r.npz"))
    again = PrivatePCA.from_release(release)
    assert again.guarantee_ == model.guarantee_
    assert list(again.get_feature_names_out()) == ["privatepca0", "privatepca1"]
    for kind, table in tables(tmp_path).items():
        assert np.array_equal(again.transform(table), model.transform(RAW)), kind
    encoded = pd.DataFrame(EXPECTED, columns=list(NAMES))
    shuffled = encoded[list(reversed(NAMES))].assign(extra="not read")
    for frame in (encoded, shuffled, pl.from_pandas(shuffled)):
        assert np.allclose(release.transform(frame), model.transform(RAW), rtol=1e-12)
    with refused(InvalidDataError) as caught:
        release.transform(RAW)
    assert "from_release" in str(caught.value)


def test_the_release_holds_the_schema_and_the_report_shows_it(tmp_path):
    model = PrivateCovariance(epsilon=1.0, schema=SCHEMA, random_state=0).fit(RAW)
    loaded = load_release(model.release_.save(tmp_path / "a.npz"))
    assert loaded.origin.schema == SCHEMA
    page = render_report(loaded)
    for told in ("Ada &lt;Lovelace&gt; on 2026-01-31", "0 to 200; missing: indicator", "Rome, Lima"):
        assert told in page
    assert "What was known in public" not in render_report(
        PrivateCovariance(norm_bound=1.0, random_state=0).fit(np.eye(3)).release_
    )


def test_without_all_ranges_sizes_are_public_and_the_norm_is_found():
    schema = Schema((Column("age", scale=40), Column("mass", range=(0, 200), missing="middle")))
    model = PrivatePCA(1, epsilon=10.0, schema=schema, statistic="clipped", random_state=0).fit(RAW)
    assert model.release_.origin.chosen_privately == ("norm_bound",)
    assert model.scale_.tolist() == [1 / 40, 1 / 100]
    pairs = PrivatePCA(1, epsilon=10.0, schema=schema, random_state=0).fit(RAW)
    assert pairs.release_.origin.row_rule.statistic == "spatial_sign"
    assert pairs.release_.origin.row_rule.scale == (1 / 40, 1 / 100)
    assert PrivatePCA(1, schema=SCHEMA, statistic="spatial_sign", random_state=0).fit(RAW).norm_bound_ == 1


def test_partial_fits_and_clones():
    model = clone(PrivateCovariance(epsilon=1.0, schema=SCHEMA, random_state=0))
    assert model.schema == SCHEMA
    model.partial_fit(RAW.iloc[:20]).partial_fit(RAW.iloc[20:]).fit_moments()
    whole = PrivateCovariance(epsilon=1.0, schema=SCHEMA, random_state=0).fit(RAW)
    assert np.array_equal(model.release_.integers["matrix"], whole.release_.integers["matrix"])
    assert model.release_.origin.schema == SCHEMA


def test_plans_know_the_schema():
    model = PrivateCovariance(epsilon=1.0, schema=SCHEMA, random_state=0)
    plan = model.plan(SCHEMA.n_features)
    assert plan.most_rows.choices == {}
    assert model.fit(RAW, plan=plan).norm_bound_ == len(SCHEMA.used) ** 0.5
    with refused(InvalidParameterError):
        model.plan(3)


def test_a_plan_without_what_the_table_declares_is_refused():
    source = open_table(RAW, schema=SCHEMA)
    model = PrivateCovariance(epsilon=1.0, random_state=0)
    with refused(InvalidParameterError):
        model.fit(source, plan=model.plan(SCHEMA.n_features))
    assert model.fit(source, plan=model.plan(source)).norm_bound_ == len(SCHEMA.used) ** 0.5
    with refused(InvalidParameterError):
        model.fit(RAW[["age"]], plan=model.plan(2))


def test_a_regression_by_schema():
    model = PrivateRidge(target="age", epsilon=50.0, schema=SCHEMA, fit_intercept=True, random_state=0).fit(RAW)
    assert tuple(model.feature_names_in_) == NAMES[1:]
    predicted = model.predict(RAW.drop(columns="age"))
    assert np.allclose(predicted, EXPECTED[:, 1:] @ model.coef_ + model.intercept_, rtol=1e-12)
    for refused_fit in (
        lambda: PrivateRidge(schema=SCHEMA).fit(RAW, RAW["age"]),
        lambda: PrivateRidge(schema=SCHEMA, target="mass").fit(RAW),
        lambda: PrivateRidge(schema=SCHEMA, target="sex").fit(RAW),
        lambda: PrivateRidge(schema=SCHEMA, target="name").fit(RAW),
    ):
        with refused(InvalidParameterError):
            refused_fit()


def test_what_contradicts_a_schema_is_refused_before_anything_is_spent():
    open_schema = Schema((Column("sex", "category"),))
    source = open_table(RAW, schema=SCHEMA)
    for model, data in (
        (PrivatePCA(1, schema=SCHEMA, bounds=(0, 1)), RAW),
        (PrivatePCA(1, schema="table.yaml"), RAW),
        (PrivatePCA(1, schema=open_schema), RAW),
        (PrivatePCA(1, schema=SCHEMA.without("age")), source),
        (PrivatePCA(1, schema=SCHEMA), open_table(RAW[["age"]])),
        (PrivatePCA(1, bounds=(0, 1)), source),
    ):
        with refused(InvalidParameterError):
            model.fit(data)
    with refused(InvalidDataError) as caught:
        PrivatePCA(1, schema=SCHEMA).fit(RAW.drop(columns="mass"))
    assert "'mass'" in str(caught.value)
    with refused(InvalidParameterError):
        open_table(RAW, ["age"], schema=SCHEMA)


def test_arrays_have_positions():
    schema = Schema((Column("2", range=(0, 4), missing="indicator"), Column("0", missing=9)))
    rows = np.array([[np.nan, 5.0, 1.0], [3.0, 5.0, np.nan]])
    source = open_table(rows, schema=schema)
    assert next(source.batches()).tolist() == [[1, 0, 9], [2, 1, 3]]
    with refused(InvalidDataError):
        open_table(rows, schema=Schema((Column("0", "category", categories=("1",)),)))


def test_columns_of_an_array_are_those_of_the_schema_in_order(tmp_path):
    schema = Schema((Column("mass", scale=20.0), Column("name", "ignored"), Column("age", scale=10.0, missing=40)))
    rows = np.random.default_rng(0).normal(size=(300, 3)) * [20.0, 1.0, 10.0]
    rows[0, 2] = np.nan
    frame = pd.DataFrame(rows, columns=["mass", "name", "age"])
    by_name = PrivatePCA(1, schema=schema, random_state=1).fit(frame)
    np.save(tmp_path / "rows.npy", rows)
    for table in (rows, rows.tolist(), scipy.sparse.csr_array(rows), tmp_path / "rows.npy"):
        model = PrivatePCA(1, schema=schema, random_state=1).fit(table)
        assert np.array_equal(model.release_.integers["matrix"], by_name.release_.integers["matrix"])
        assert model.scale_.tolist() == [1 / 20, 1 / 10]
        assert np.allclose(model.transform(table), by_name.transform(frame), rtol=1e-12)


def test_an_array_that_a_schema_does_not_fit_is_refused(tmp_path):
    schema, rows = Schema((Column("mass", scale=20.0), Column("age", scale=10.0))), np.ones((9, 3))
    np.save(tmp_path / "two.npy", rows[:, :2])
    np.save(tmp_path / "three.npy", rows)
    for table in (rows, rows[:, :1], [tmp_path / "two.npy", tmp_path / "three.npy"]):
        with refused(InvalidDataError) as caught:
            PrivatePCA(1, schema=schema).fit(table)
        assert "The schema has 2 column(s)" in str(caught.value)
    for other in (Column("sex", "category", categories=("1",)), Column("day", "date")):
        with refused(InvalidDataError):
            PrivatePCA(1, schema=Schema((*schema.columns, other))).fit(rows)
    # Which column tells persons apart must not be left to the order.
    with refused(InvalidDataError):
        PrivatePCA(1, schema=scales(1.0, 1.0, 1.0), privacy_unit=2).fit(rows)


# Ranges by name


def test_bounds_by_name():
    frame = RAW[["mass", "age"]].fillna(80.0)
    by_name = PrivatePCA(1, bounds={"age": (0, 100), "mass": (0, 200)}, random_state=1).fit(frame)
    by_list = PrivatePCA(1, bounds=([0, 0], [200, 100]), random_state=1).fit(frame)
    assert np.array_equal(by_name.release_.integers["matrix"], by_list.release_.integers["matrix"])
    positions = PrivatePCA(1, bounds={0: (0, 1), 1: (0, 2)}, center=False, random_state=1)
    assert positions.fit(np.ones((5, 2))).mean_.tolist() == [0.5, 1]
    clone(by_name)


def test_one_hot_features_need_no_range():
    source = open_table(RAW, ["age", "sex", "city"], categories={"sex": ["F", "M"], "city": ["Rome"]})
    model = PrivateCovariance(bounds={"age": (0, 100)}, random_state=1).fit(source)
    assert model.norm_bound_ == 3**0.5
    assert model.scale_.tolist() == [0.02, 1, 1, 1]
    alone = open_table(RAW, ["sex", "city"], categories={"sex": ["F", "M"], "city": ["Rome"]})
    assert PrivateCovariance(random_state=1).fit(alone).norm_bound_ == 2**0.5


@pytest.mark.parametrize(
    "options",
    [
        {"bounds": {"age": (0, 1)}},
        {"bounds": {"age": (0, 1), "mass": (0, 1), "size": (0, 1)}},
        {"bounds": {"age": (0, 1), "mass": 3}},
        {"bounds": {"age": (0, 1), "mass": (1, 0)}},
    ],
)
def test_names_that_are_missing_or_unknown_are_refused(options):
    with refused(InvalidParameterError):
        PrivatePCA(1, **options).fit(RAW[["age", "mass"]].fillna(1.0))


def test_transform_takes_files_and_lazy_frames_without_a_schema(tmp_path):
    frame = RAW[["age", "mass"]].fillna(80.0)
    model = PrivatePCA(1, norm_bound=100.0, random_state=0).fit(frame)
    frame.assign(more="text")[["more", "mass", "age"]].to_csv(tmp_path / "a.csv", index=False)
    expected = model.transform(frame)
    for table in (tmp_path / "a.csv", [str(tmp_path / "a.csv")], pl.from_pandas(frame).lazy(), open_table(frame)):
        assert np.array_equal(model.transform(table), expected)
    with refused(InvalidDataError):
        model.transform(open_table(frame, ["mass", "age"]))
    with refused(InvalidDataError):
        model.transform(open_table(frame, ["mass"]))
