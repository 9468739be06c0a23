"""One replaced cell changes one row: what the other rows say does not depend on the type that it gives its column."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenveil import Schema
from eigenveil.errors import InvalidDataError
from eigenveil.tables.open import open_table
from eigenveil.tables.schema import Column
from helpers import refused

N = 40
X = np.arange(N) + 0.5
CODES = [1, 2, 3, 2] * (N // 4)
FLOATS = [float(code) for code in CODES]
TRUTHS = [code % 2 == 1 for code in CODES]
DATES = [dt.date(2024, 1, 1 + place % 28) for place in range(N)]
TIMES = [dt.datetime(2024, 1, 1 + place % 28, place % 24) for place in range(N)]
NUMBERS, WORDS = {"c": ["1", "2", "3"]}, {"c": ["true", "false"]}


def declared(kind, **more):
    return {"schema": Schema((Column("x"), Column("c", kind, **more)))}


BOOLEAN, NUMBER = declared("boolean"), declared("number")
DATE = declared("date", range=("2000-01-01", "2030-01-01"))


def replaced(column, value):
    return [value, *column[1:]]


def frame(column, **options):
    return pd.DataFrame({"x": X, "c": pd.Series(column, **options)})


def category(column):
    return frame(pd.Series(column).astype("category"))


def rows_of(data, **options):
    return np.vstack(list(open_table(data, **options).batches()))


def dictionary(column):
    return pa.table({"x": X, "c": pa.array(column).dictionary_encode()})


@pytest.mark.parametrize(
    ("make", "column", "cell", "options"),
    [
        (frame, FLOATS, "x", {"categories": NUMBERS}),
        (frame, CODES, "x", {"categories": NUMBERS}),
        (frame, CODES, None, {"categories": NUMBERS}),
        (category, CODES, None, {"categories": NUMBERS}),
        (category, CODES, 2.5, {"categories": NUMBERS}),
        (category, CODES, "x", {"categories": NUMBERS}),
        (frame, TRUTHS, None, {"categories": WORDS}),
        (frame, TRUTHS, "x", {"categories": WORDS}),
        (frame, TRUTHS, 2, {"categories": WORDS}),
        (category, TRUTHS, "x", {"categories": WORDS}),
        (dictionary, FLOATS, 2.5, {"categories": NUMBERS}),
        (frame, FLOATS, "x", BOOLEAN),
        (frame, CODES, "x", BOOLEAN),
        (frame, TRUTHS, None, BOOLEAN),
        (frame, FLOATS, "x", NUMBER),
        (frame, TRUTHS, None, NUMBER),
        (frame, TIMES, "x", DATE),
        (frame, TIMES, "2024-01-05", DATE),
        (frame, TIMES, dt.datetime(1, 1, 1), DATE),
        (frame, DATES, TIMES[5], DATE),
        (frame, DATES, [1], DATE),
        (frame, [str(day) for day in DATES], "2024-01-01T10:00:00Z", DATE),
        (frame, [str(day) for day in DATES], "x", DATE),
        (frame, list(pd.DatetimeIndex(TIMES).tz_localize("UTC")), pd.Timestamp("2024-01-01", tz="Asia/Tokyo"), DATE),
    ],
)
def test_one_cell_changes_one_row(make, column, cell, options):
    before, after = (rows_of(make(cells), **options) for cells in (column, replaced(column, cell)))
    np.testing.assert_array_equal(before[1:], after[1:])
    assert np.isfinite(before).all()
    assert (before[:, 1:] != before[:1, 1:]).any()  # the column is not read as one constant


def test_a_value_matches_by_its_own_nature():
    day = dt.date(2024, 1, 1)
    values = [
        1,
        1.0,
        Decimal(1),
        True,
        np.bool_(True),
        " x",
        "TRUE",
        "1",
        "1.0",
        None,
        np.nan,
        " ",
        [1],
        day,
        pd.NA,
        "y",
    ]
    labels = ["1", "true", "x"]
    expected = [0, 0, 0, 1, 1, 2, 1, 0, -1, 3, 3, 3, -1, -1, 3, -1]
    schema = Schema((Column("c", "category", categories=labels, missing="indicator"),))
    rows = rows_of(pd.DataFrame({"c": pd.Series(values, dtype=object)}), schema=schema)
    assert [row.index(1.0) if any(row) else -1 for row in rows.tolist()] == expected


def test_a_column_of_objects_is_read_by_value_whatever_its_first_values_are():
    """narwhals looks at a hundred values to tell text from objects."""
    text = pd.DataFrame({"c": pd.Series(["true"] * 150 + [True], dtype=object)})
    assert rows_of(text, categories=WORDS).tolist() == [[1, 0]] * 151
    assert rows_of(text, schema=Schema((Column("c", "boolean"),))).tolist() == [[1]] * 151
    numbers = pd.DataFrame({"c": pd.Series(["x"] * 150 + [7], dtype=object)})
    found = rows_of(numbers, schema=Schema((Column("c", missing=0.5),)))
    assert found.ravel().tolist() == [0.5] * 150 + [7.0]


def test_objects_that_nobody_declared_are_refused():
    for options in ({}, {"missing": 0.0}):
        with refused(InvalidDataError, "SECRET"):
            open_table(frame(["SECRET", 1] * (N // 2), dtype=object), **options)


def arrow_in_pandas(columns):
    return pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype)


@pytest.mark.parametrize("long", [Decimal("0.12345678901234567890"), None])
@pytest.mark.parametrize("make", [pa.table, pl.DataFrame, arrow_in_pandas])
def test_decimals_are_rounded_one_by_one(make, long):
    prices = [Decimal(cents) / 100 for cents in range(100_000, 101_000)]
    for options in ({}, {"categories": {"c": ["1000.04"]}}):
        before, after = (rows_of(make({"c": cells}), **options) for cells in (prices, replaced(prices, long)))
        np.testing.assert_array_equal(before[1:], after[1:])
    assert rows_of(make({"c": prices})).ravel().tolist() == [float(price) for price in prices]


@pytest.mark.parametrize(
    "data",
    [
        frame(pd.to_datetime(["2024-01-01", "2024-01-02"] * (N // 2))),
        frame(pd.to_timedelta(X, unit="s")),
        pl.DataFrame({"x": X, "c": DATES}),
        pa.table({"x": X, "c": pa.array([dt.time(1)] * N)}),
        pa.table({"x": X, "c": pa.array([[1.0]] * N)}),
    ],
)
def test_what_has_no_categories_is_refused_by_its_type(data):
    with refused(InvalidDataError) as caught:
        open_table(data, categories={"c": ["2024-01-01", "2024-01-02"]})
    assert "'c'" in str(caught.value)


def test_the_zone_of_a_time_is_utc_unless_it_says_another():
    noon = pd.Timestamp("2024-01-01T12:00", tz="UTC")
    cells = [noon, noon.tz_convert("Asia/Tokyo"), noon.tz_localize(None), "2024-01-01 12:00", "2024-01-01T14:00+02:00"]
    expected = [19723.5] * len(cells)
    assert (
        rows_of(pd.DataFrame({"c": pd.Series(cells, dtype=object)}), schema=Schema((Column("c", "date"),)))
        .ravel()
        .tolist()
        == expected
    )


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "parquet"])
def test_only_a_declaration_makes_truth_values(kind, tmp_path):
    """One cell of 2 makes a column of truth values one of numbers, and its public range must not go with it."""
    cells = {"x": X, "c": TRUTHS}
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table, "parquet": pa.table}[kind]
    data = make(cells)
    if kind == "parquet":
        pq.write_table(data, tmp_path / "a.parquet")
        data = tmp_path / "a.parquet"
    assert open_table(data).truths == (False, False)
    assert open_table(data, missing=0.0).truths == (False, False)
    assert open_table(data, **BOOLEAN).truths == (False, True)


@pytest.mark.parametrize("kind", [">f8", ">i4", "longdouble"])
def test_numbers_of_any_byte_order_and_length(kind):
    column = np.array([1.5, 2.0, 3.0]).astype(kind)
    expected = column.astype(np.float64)
    table = pd.DataFrame({"c": column})
    assert rows_of(table).ravel().tolist() == expected.tolist()
    assert rows_of(table, categories={"c": ["2"]}).ravel().tolist() == [0, 1, 0]


def test_masks_in_lists_are_refused():
    rows = [np.ma.array([1.0, 2.0], mask=[0, 1]), np.ma.array([3.0, 4.0], mask=[0, 0])]
    for data in (rows, tuple(rows), iter([rows])):
        with refused(InvalidDataError):
            rows_of(data)


def one(column):
    return pd.DataFrame({"x": np.ones(len(column)), "c": column})


@pytest.mark.parametrize(
    "later",
    [
        one(pd.to_datetime(["2020-01-01"])),
        one(pd.to_timedelta([7], unit="s")),
        one(pd.Categorical([5])),
        one(pd.Series(["5"], dtype=object)),
        one(["5"]),
        np.ones((1, 2)),
    ],
)
@pytest.mark.parametrize("options", [{}, {"categories": NUMBERS}])
def test_a_later_chunk_of_another_type_is_refused(later, options):
    with refused(InvalidDataError):
        rows_of(iter([one([1.0]), later]), **options)
    with refused(InvalidDataError):
        rows_of(iter([pl.DataFrame({"x": [1.0], "c": [1.0]}), pl.DataFrame({"x": [1.0], "c": [DATES[0]]})]), **options)


def test_a_later_chunk_may_hold_missing_truth_values():
    """Which pandas keeps as objects."""
    chunks = lambda: iter([one([True, False]), one(pd.Series([True, None], dtype=object))])  # noqa: E731
    assert rows_of(chunks(), categories=WORDS)[:, 1:].tolist() == [[1, 0], [0, 1], [1, 0], [0, 0]]
    assert rows_of(chunks(), missing=0.5)[:, 1].tolist() == [1, 0, 1, 0.5]
    whole = iter([one([1]), one(pd.array([None, 2], dtype="Int64"))])
    assert rows_of(whole, missing=7)[:, 1].tolist() == [1, 7, 2]


DAYS = [np.datetime64("1950-03-01T05:00:00.000000001", "ns"), np.datetime64("2020-01-02T00:00:00", "ns")] * 5
OF_DAYS = Schema((Column("day", "date", range=("1900-01-01", "2100-01-01")),))


@pytest.mark.parametrize("zone", [None, "America/New_York", "Europe/Berlin"])
def test_dates_beside_a_text_cell_are_the_same_dates(zone):
    days = pd.Series(DAYS) if zone is None else pd.Series(DAYS).dt.tz_localize("UTC").dt.tz_convert(zone)
    typed, mixed = pd.DataFrame({"day": days}), pd.DataFrame({"day": [*days.astype(object)[:-1], "unknown"]})
    numpy = pd.DataFrame({"day": pd.Series([*DAYS[:-1], "unknown"], dtype=object)})  # which keeps NumPy's dates
    found = [np.vstack(list(open_table(frame, schema=OF_DAYS).batches())) for frame in (typed, mixed, numpy)]
    assert np.isnan(found[1][-1]).all()
    np.testing.assert_array_equal(found[0][:-1], found[1][:-1])
    np.testing.assert_array_equal(found[0][:-1], found[2][:-1])
