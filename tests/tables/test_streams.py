"""What comes in parts by itself: Arrow streams, chunks of pandas, relations; with the bits of the array."""

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, RowBound, Schema
from eigenveil.errors import InvalidDataError
from eigenveil.tables.frames import TableSource
from eigenveil.tables.open import draft_schema, held, open_source, open_table, second_moments
from eigenveil.tables.schema import Column
from helpers import refused

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")

BOUND = RowBound(5.0)
ROWS = np.round(np.random.default_rng(3).normal(size=(200, 3)) * 1024) / 1024  # as text they are exact
FRAME = pd.DataFrame(ROWS, columns=list("abc"))
TABLE = pa.Table.from_pandas(FRAME)
EXPECTED = second_moments(ROWS, BOUND)
SCHEMA = Schema((Column("a", range=(-5, 5)), Column("b", range=(-5, 5)), Column("c", range=(-5, 5))))


class Relation:
    """Something that hands out a new Arrow stream each time, as a relation of DuckDB does."""

    def __arrow_c_stream__(self, requested_schema=None):
        return TABLE.to_reader(max_chunksize=7).__arrow_c_stream__(requested_schema)


class OwnReader:
    """A reader that is not PyArrow's."""

    def __init__(self):
        self._reader = TABLE.to_reader(max_chunksize=7)

    def read_next_batch(self):
        return self._reader.read_next_batch()

    def __arrow_c_stream__(self, requested_schema=None):
        return self._reader.__arrow_c_stream__(requested_schema)


def chunks():
    for start in range(0, 200, 33):
        yield FRAME.iloc[start : start + 33]


def read_csv(path):
    FRAME.to_csv(path, index=False)
    return pd.read_csv(path, chunksize=33)


def read_sql(path):
    with closing(sqlite3.connect(path)) as connection:
        FRAME.to_sql("rows", connection, index=False)
        yield from pd.read_sql("select * from rows", connection, chunksize=33)


ONCE = {
    "arrow reader": lambda path: TABLE.to_reader(max_chunksize=7),
    "own reader": lambda path: OwnReader(),
    "chunks": lambda path: chunks(),
    "read_csv": read_csv,
    "read_sql": read_sql,
    "arrays": lambda path: iter(np.array_split(ROWS, 7)),
    "arrow tables": lambda path: iter([TABLE.slice(0, 50), TABLE.slice(50)]),
}
AGAIN = {"relation": lambda path: Relation()}


@pytest.mark.parametrize("kind", [*ONCE, *AGAIN])
def test_the_bits_of_the_array(kind, tmp_path):
    made = {**ONCE, **AGAIN}[kind]
    source = open_source(made(tmp_path / "1"))
    assert source.n_features == 3
    assert source.reads_once == (kind in ONCE)
    assert second_moments(source, BOUND) == EXPECTED
    if kind in AGAIN:
        assert second_moments(source, BOUND) == EXPECTED
    else:
        with refused(InvalidDataError):
            second_moments(source, BOUND)
    if kind != "arrays":
        chosen = open_source(made(tmp_path / "2"), ["c", "a"])
        assert second_moments(chosen, BOUND) == second_moments(ROWS[:, [2, 0]], BOUND)


@pytest.mark.parametrize("kind", ["arrow reader", "own reader", "chunks", "arrays", "arrow tables", *AGAIN])
def test_rows_of_a_query_are_not_compared(kind, tmp_path):
    source = open_source({**ONCE, **AGAIN}[kind](tmp_path / "1"))
    in_order = kind not in ("relation", "own reader", "arrow reader")
    assert source.in_order == in_order
    plan = PrivatePCA(1).plan(source)
    assert plan.route(200).rule.statistic == ("spatial_sign" if in_order else "clipped")


def test_rows_of_a_query_need_a_public_bound_where_they_pass_once():
    with refused(InvalidDataError):
        PrivatePCA(1).partial_fit(Relation())
    assert PrivatePCA(1, norm_bound=5.0).partial_fit(Relation())._collected.n_samples == 200


def test_chunks_and_parts_of_a_query_are_not_compared():
    assert not open_source(iter([Relation(), Relation()])).in_order
    assert not TableSource([held(TABLE), held(Relation())]).in_order


@pytest.mark.parametrize("kind", ["arrow reader", "read_csv", "relation"])
def test_estimators_fit_and_transform_them(kind, tmp_path):
    made = {**ONCE, **AGAIN}[kind]
    model = PrivatePCA(1, epsilon=1.0, schema=SCHEMA, random_state=0).fit(made(tmp_path / "1"))
    assert np.allclose(model.transform(made(tmp_path / "2")), model.transform(FRAME), rtol=1e-12)
    plain = PrivatePCA(1, norm_bound=5.0, random_state=0).fit(made(tmp_path / "3"))
    assert np.allclose(plain.transform(made(tmp_path / "4")), plain.transform(FRAME), rtol=1e-12)


@pytest.mark.parametrize("kind", ONCE)
def test_what_comes_once_is_refused_before_the_spend_where_it_would_be_read_twice(kind, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "a.ledger", epsilon=5.0, data_set="rows")
    data = ONCE[kind](tmp_path / "1")
    with refused(InvalidDataError) as caught:
        PrivateCovariance(epsilon=1.0, ledger=ledger).fit(data)
    if kind == "read_csv":
        data.close()
    assert "norm_bound" in str(caught.value)
    assert ledger.entries() == []


def test_chunks_of_other_columns_and_no_chunks_are_refused():
    for parts in (iter([]), iter([FRAME, FRAME[["b", "a", "c"]]]), iter([FRAME, FRAME[["a"]]])):
        with refused(InvalidDataError):
            second_moments(parts, BOUND)


def test_chunks_whose_types_change_are_not_quoted():
    text = pd.DataFrame({"a": ["secret"], "b": [1.0], "c": [1.0]})
    with refused(InvalidDataError, "secret"):
        second_moments(iter([FRAME, text]), BOUND)

    def failing():
        yield FRAME
        raise RuntimeError("secret")

    with refused(InvalidDataError, "secret") as caught:
        second_moments(failing(), BOUND)
    assert caught.value.__context__ is None


def test_chunks_are_encoded_one_by_one():
    parts = (pd.DataFrame({"a": one}).astype("category") for one in (["x", None], ["y", "z"]))
    schema = Schema((Column("a", "category", categories=("x", "y"), missing="indicator"),))
    rows = np.vstack(list(open_table(parts, schema=schema).batches()))
    assert rows.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0]]


MIXED = FRAME.assign(sex=["F", "M", "X", None] * 50, member=[True, False] * 100, day=pd.Timestamp("2020-01-02"))
MIXED_SCHEMA = Schema(
    (
        *SCHEMA.columns,
        Column("sex", "category", categories=("F", "M"), missing="indicator"),
        Column("member", "boolean"),
        Column("day", "date", range=("2020-01-01", "2020-12-31")),
    )
)


def check_mixed(data):
    """Compare fits and projections of a table that a library holds with those of the frame it was made from."""
    for model in (PrivatePCA(2, epsilon=9.0, random_state=1), PrivateCovariance(random_state=1)):
        expected = model.fit(MIXED, schema=MIXED_SCHEMA).release_.integers["matrix"]
        assert np.array_equal(model.fit(data, schema=MIXED_SCHEMA).release_.integers["matrix"], expected)
    pca = PrivatePCA(2, schema=MIXED_SCHEMA, random_state=1)
    assert np.allclose(np.sort(pca.fit_transform(data), axis=0), np.sort(pca.fit_transform(MIXED), axis=0))
    kinds = [column.kind for column in draft_schema(data).columns]
    assert kinds == ["number", "number", "number", "ignored", "boolean", "date"]


def test_duckdb():
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    with closing(duckdb.connect()) as connection:
        connection.register("frame", MIXED)
        relation = connection.sql("select * from frame")
        source = open_table(relation, schema=MIXED_SCHEMA)
        assert (source.reads_once, source.in_order) == (False, False)
        assert connection.sql("select 1").fetchall() == [(1,)]  # what was opened blocks nothing
        check_mixed(relation)
        assert second_moments(connection.sql("select a, b, c from frame"), BOUND) == EXPECTED
        whole = connection.sql("select a::decimal(18, 10) as a, 7::hugeint as b, 1::utinyint as c from frame")
        assert second_moments(whole, BOUND) == second_moments(np.c_[ROWS[:, :1], np.full(200, 7), np.ones(200)], BOUND)
        secret = "select (case when a > -9 then 'SECRET' else '1' end)::double as a, b from frame"
        with refused(InvalidDataError) as caught:
            PrivateCovariance(bounds=(-5, 5)).fit(connection.sql(secret))
        assert "SECRET" not in str(caught.value)


def test_a_connection_with_an_open_result_says_why_it_answers_nothing():
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    with closing(duckdb.connect()) as connection:
        connection.register("frame", FRAME)
        relation = connection.sql("select * from frame")
        connection.execute("select * from frame")
        if tuple(map(int, duckdb.__version__.split(".")[:2])) >= (1, 4):  # older ones answer all the same
            with refused(InvalidDataError) as caught:
                second_moments(relation, BOUND)
            assert "unfinished" in str(caught.value)
        assert second_moments(connection.cursor().sql("select 1.0::double as a"), BOUND).n_rows == 1
        connection.fetchall()
        assert second_moments(relation, BOUND) == EXPECTED
