"""Spark frames: the bits of the array in memory, also where tasks fail and are tried again."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import units_by_hand
from eigenveil import PrivacyLedger, PrivatePCA
from eigenveil.errors import EngineError, InvalidDataError, InvalidParameterError
from eigenveil.guarantee import TYPES_ASSUMPTION
from eigenveil.moments import RowBound
from eigenveil.moments.second_moments import SecondMoments
from eigenveil.tables.base import raise_failure
from eigenveil.tables.open import collect, open_source, open_table, open_with_engine, second_moments
from eigenveil.tables.schema import Column, Schema
from eigenveil.tables.spark import spark_session
from helpers import refused

pyspark = pytest.importorskip("pyspark", reason="needs eigenveil[spark]")

BOUND = RowBound(2.0)
ZERO = RowBound(2.0, on_invalid="zero")
NAMES = ("age", "height", "mass.kg", "Age", "pulse rate")  # a dot, a blank, and two that differ by case alone
ROWS = np.random.default_rng(6).normal(size=(300, 5))
REFERENCE = SecondMoments(BOUND, 5).update(ROWS)
SENTINEL = 987654321.5
GUIDE = Path(__file__).parents[2] / "docs" / "how_to" / "spark.md"


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """Two cores in local mode, where a task may fail three times before the job does."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master("local[2,4]").appName("eigenveil tests")
        options = {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "4",
            # Small jobs: no time for a compiler that pays off after minutes.
            "spark.sql.codegen.wholeStage": "false",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.log.level": "OFF",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        }
        for name, value in options.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.addPyFile(units_by_hand.__file__)  # whose statistic the workers collect
        yield session
        session.stop()


@pytest.fixture(scope="module")
def frame(spark):
    return spark.createDataFrame(ROWS.tolist(), ", ".join(f"`{name}` double" for name in NAMES)).cache()


# The same bits


@pytest.mark.parametrize("few", [32, 0])
def test_frame_gives_the_bits_of_the_array_in_memory(frame, monkeypatch, few):
    """Parts of few features are added up by the driver, others by the executors."""
    monkeypatch.setattr("eigenveil.tables.spark._FEW_FEATURES", few)
    moments = second_moments(frame.repartition(7), BOUND)
    assert moments == REFERENCE
    assert moments.feature_names == NAMES


def test_order_columns_and_empty_partitions_leave_no_trace(frame):
    few = second_moments(frame.orderBy("`mass.kg`").limit(3).repartition(8), BOUND, columns=["Age", "age"])
    lowest = ROWS[np.argsort(ROWS[:, 2])[:3]]
    assert few == second_moments(lowest[:, [3, 0]], BOUND)
    assert few.feature_names == ("Age", "age")


def test_columns_are_encoded_by_a_schema_where_they_are(spark):
    """Categories, dates, truth values and missing ones: the bits are those of the frame in memory."""
    frame = pd.DataFrame(
        {
            "visit": pd.to_datetime(["2020-01-16T06:00", None, "2020-01-30T00:00"] * 20),
            "day": [None, "2020-01-02"] * 30,
            "smoker": ["yes", "no", None] * 20,
            "sex": ["F", None, "M", "X"] * 15,
            "mass.kg": [70.0, None, 90.0] * 20,
        }
    )
    schema = Schema(
        (
            Column("mass.kg", range=(0, 200), missing="indicator"),
            Column("sex", "category", categories=("F", "M"), missing="indicator"),
            Column("smoker", "boolean", missing="middle"),
            Column("visit", "date", range=("2020-01-01", "2021-01-01"), missing="2020-01-02"),
            Column("day", "date", range=("2020-01-01", "2021-01-01"), missing="middle"),
        )
    )
    rows = [tuple(None if pd.isna(cell) else cell for cell in row) for row in frame.itertuples(index=False)]
    rows = [(when and when.to_pydatetime(), *rest) for when, *rest in rows]
    types = "visit timestamp_ntz, day string, smoker string, sex string, `mass.kg` double"
    source = open_table(spark.createDataFrame(rows, types).repartition(3), schema=schema)
    held = open_table(frame, schema=schema)
    assert source.feature_names == held.feature_names
    assert (source.one_hot, source.n_categorical, source.schema) == (held.one_hot, held.n_categorical, schema)
    assert second_moments(source, RowBound(2e4)) == second_moments(held, RowBound(2e4))
    numbers = open_table(spark.createDataFrame(rows, types), ["mass.kg", "sex"], categories={"sex": ["M"]}, missing=7)
    expected = open_table(frame, ["mass.kg", "sex"], categories={"sex": ["M"]}, missing=7)
    assert second_moments(numbers, RowBound(2e4)) == second_moments(expected, RowBound(2e4))
    with refused(InvalidDataError):
        open_table(spark.createDataFrame(rows, types), schema=Schema((Column("sex"),)))


def test_every_type_of_number_and_missing_ones(spark):
    values = [
        (True, 1, 300, 70_000, 2**53 + 1, 0.1, 0.1, Decimal("0.3")),
        (None,) * 8,
        (False, -2, 3, 4, 5, 6.5, 7.5, 8),
    ]
    schema = "a boolean, b byte, c short, d int, e long, f float, g double, h decimal(10, 2)"
    values[2] = (*values[2][:-1], Decimal("8.25"))
    frame = spark.createDataFrame(values, schema)
    types = [
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.decimal128(10, 2),
    ]
    columns = zip(*values, strict=True)
    table = pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], names=list("abcdefgh")
    )
    assert second_moments(frame, ZERO) == second_moments(table, ZERO)
    with refused(InvalidDataError):
        second_moments(frame, BOUND)


def test_vectors_and_arrays_beside_plain_columns(spark):
    from pyspark.ml.linalg import Vectors

    rows = ROWS[:60].copy()
    rows[::2, [1, 3]] = 0.0
    vectors = [
        Vectors.sparse(5, [0, 2, 4], row[[0, 2, 4]].tolist()) if number % 2 == 0 else Vectors.dense(row)
        for number, row in enumerate(rows)
    ]
    table = [(vector, row.tolist(), float(row[0])) for vector, row in zip(vectors, rows, strict=True)]
    frame = spark.createDataFrame(table, ["v", "list", "plain"]).repartition(3).cache()
    entries = [f"{name}[{place}]" for name in ("v", "list") for place in range(5)]
    assert second_moments(frame.select("v"), BOUND, columns=entries[:5]) == second_moments(rows, BOUND)
    together = second_moments(frame, BOUND, columns=[*entries, "plain"])
    assert together == second_moments(np.hstack([rows, rows, rows[:, :1]]), BOUND)
    holes = frame.selectExpr("nullif(v, v) as v", "plain")
    expected = np.column_stack([np.full((60, 5), np.nan), rows[:, 0]])
    assert second_moments(holes, ZERO, columns=[*entries[:5], "plain"]) == second_moments(expected, ZERO)
    assert together.feature_names[4:6] == ("v[4]", "list[0]")
    assert together.feature_names[-1] == "plain"


def test_the_width_of_assembled_vectors_is_that_of_their_metadata(frame):
    from pyspark.ml.feature import VectorAssembler

    two = frame.toDF(*"abcde").select("a", "e")
    assembled = VectorAssembler(inputCols=["a", "e"], outputCol="v").transform(two).select("v")
    assert open_source(assembled).n_features == 2
    assert second_moments(assembled, BOUND) == second_moments(ROWS[:, [0, 4]], BOUND)


# Tasks that fail


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_nothing_is_lost_or_counted_twice_where_tasks_fail(frame, tmp_path):
    folder = str(tmp_path)

    def deadly(batches):
        """Raise after the rows were handed on, and kill the worker, each in one partition's first attempt."""
        number = pyspark.TaskContext.get().partitionId()
        with open(f"{folder}/log", "a") as file:
            file.write(f"{number}\n")
        yield from batches
        if number in (1, 2):
            try:
                os.close(os.open(f"{folder}/failed {number}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            if number == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("first attempt")

    failing = frame.repartition(5).toDF(*"abcde")
    failing = failing.mapInArrow(deadly, failing.schema)
    assert second_moments(failing, BOUND) == REFERENCE
    attempts = Counter((tmp_path / "log").read_text().split())
    assert set(attempts) == set("01234")
    assert attempts["1"] >= 2
    assert attempts["2"] >= 2


def test_what_the_frame_raises_is_not_quoted(spark):
    frame = spark.range(3).selectExpr(f"cast(if(id = 1, 'cell {SENTINEL}', '1') as double) as a")
    with refused(EngineError, SENTINEL) as caught:
        second_moments(frame.coalesce(1), BOUND)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


# Refusals


def test_the_schema_is_checked_before_rows_are_read(spark, frame):
    text = spark.createDataFrame([(1.0, "x")], "a double, t string")
    arrays = spark.createDataFrame([([1.0],)], "v array<double>")
    twice = frame.toDF("a", "a", "c", "d", "e")
    for data, match in ((text, "'t'"), (arrays, "not declared"), (twice, "several")):
        with refused(InvalidDataError) as caught:
            open_source(data)
        assert match in str(caught.value)


def test_vectors_of_two_lengths_are_refused_and_no_rows_are_none(spark, frame):
    uneven = spark.createDataFrame([([1.0, 2.0],), ([1.0, 2.0, SENTINEL],)], "v array<double>")
    with refused(InvalidDataError, SENTINEL):
        second_moments(uneven, BOUND, columns=["v[0]", "v[1]"])
    assert second_moments(frame.limit(0), BOUND).n_rows == 0


def test_pairs_are_refused_before_anything_is_spent(frame, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger.db", epsilon=2.0, delta=0.0, data_set="study")
    with refused(InvalidDataError) as caught:
        PrivatePCA(2, statistic="spatial_sign", ledger=ledger).fit(frame)
    assert "statistic='spatial_sign'" in str(caught.value)
    assert ledger.spent == (0.0, 0.0)


# Persons


def test_persons_are_whole_wherever_their_rows_lie(spark):
    """Blanks around identifiers, which to Spark are others, and vectors beside numbers."""
    rows = units_by_hand.ROWS
    ids = [f"{identifier}" + "\t" * (place % 2) for place, identifier in enumerate(units_by_hand.IDS)]
    cells = [(one, float(row[0]), row[1:].tolist()) for one, row in zip(ids, rows, strict=True)]
    frame = spark.createDataFrame(cells, "`the.id` string, age double, others array<double>").repartition(5)
    source = open_table(frame, ["age", "others[0]", "others[1]"], privacy_unit="the.id")
    assert source.by_unit
    assert source.feature_names == ("age", "others[0]", "others[1]")
    assert collect(source, units_by_hand.PrivacyUnits).found == units_by_hand.REFERENCE


def test_a_missing_identifier_is_one_sentence(frame):
    source = open_table(frame.selectExpr("height", "nullif(height, height) as id"), privacy_unit="id")
    with refused(InvalidDataError) as caught:
        collect(source, units_by_hand.PrivacyUnits)
    assert "'id'" in str(caught.value)


def test_a_csv_file_keeps_identifiers_as_they_stand(spark, tmp_path):
    (tmp_path / "a.csv").write_text("a,the`id\n1.5,007\n2.5,7\n3.5,007\n")
    collection = open_with_engine([tmp_path / "a.csv"], "spark")
    found = collect(open_table(collection, ["a"], privacy_unit="the`id"), units_by_hand.PrivacyUnits).found
    assert found == units_by_hand.by_hand(["007", "7", "007"], [[1.5], [2.5], [3.5]])


# Files, and starting Spark


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_files_read_by_spark_give_the_bits_of_the_array(spark, tmp_path, kind):
    table = pd.DataFrame(ROWS, columns=list("abcde"))
    for number in range(2):
        part = table[150 * number : 150 * (number + 1)]
        write = part.to_parquet if kind == "parquet" else part.to_csv
        write(tmp_path / f"{number}.{kind}", index=False)
    assert spark_session() is spark
    moments = second_moments(open_with_engine(sorted(tmp_path.iterdir()), "spark"), BOUND)
    assert moments == REFERENCE
    assert moments.feature_names == tuple("abcde")


def written(path, column):
    path.write_text("x,c\n" + "".join(f"{place}.5,{cell}\n" for place, cell in enumerate(column)))
    return open_with_engine([path], "spark")


@pytest.mark.parametrize(
    ("column", "cell", "options"),
    [
        (["True", "False"], "unknown", {"categories": {"c": ["true", "false"]}}),
        (['"a ""b"", c"', "d"], '"x"', {"categories": {"c": ['a "b", c', "d"]}}),
        (["2024-01-01", "2024-01-02"], "2024-01-01 10:00:00", {"schema": Schema((Column("x"), Column("c", "date")))}),
    ],
)
def test_one_cell_of_a_csv_file_changes_one_row(spark, tmp_path, column, cell, options):
    """Types are declared, and never read off the cells; nor does a date depend on the time zone of the session."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        made = []
        for number, cells in enumerate((column * 5, [cell, *(column * 5)[1:]])):
            source = open_table(written(tmp_path / f"{number}.csv", cells), **options)
            names = [f"f{place}" for place in range(source.n_features)]
            rows = source.mapped(lambda rows: np.asarray(rows, dtype=float), names).collect()
            made.append(np.array([list(row) for row in rows]))
        np.testing.assert_array_equal(made[0][1:], made[1][1:])
        held = open_table(tmp_path / "0.csv", **options)
        np.testing.assert_array_equal(made[0], np.vstack(list(held.batches())))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.parametrize("row", ["0.5,1,", "x,1"])
def test_a_row_that_is_none_of_the_table_is_refused(spark, tmp_path, row):
    (tmp_path / "a.csv").write_text(f"x,c\n{row}\n1.5,2\n")
    with refused((EngineError, InvalidDataError)):
        second_moments(open_table(open_with_engine([tmp_path / "a.csv"], "spark"), ["x"]), BOUND)


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_the_width_of_arrays_is_declared(spark):
    frame = spark.createDataFrame([([1.0, 2.0], 3.0), (None, 4.0)], "v array<double>, a double")
    source = open_table(frame, ["a", "v[0]", "v[1]"])
    assert source.feature_names == ("a", "v[0]", "v[1]")
    for columns in (["v[1]", "v[0]"], ["v[0]", "a", "v[1]"], ["v[1]"], ["v[0]", "v[0]"]):
        with refused(InvalidParameterError):
            open_table(frame, columns)
    with refused(InvalidDataError):
        second_moments(open_table(frame, ["v[0]"]), ZERO)
    model = PrivatePCA(1, norm_bound=2.0, random_state=0).fit(open_table(frame.dropna(), ["a", "v[0]", "v[1]"]))
    assert model.transform(frame.dropna()).count() == 1  # by the names of the features
    assert second_moments(open_table(frame, ["v[0]", "v[1]"]), ZERO) == second_moments([[1.0, 2.0], [0.0, 0.0]], ZERO)


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_a_fit_draws_the_release_of_the_array_and_its_projections_stay_there(frame):
    model = PrivatePCA(2, epsilon=3.0, random_state=4, statistic="clipped", standardize=True)
    expected = model.fit(ROWS).release_
    model.fit(frame.repartition(3))
    assert all((model.release_.integers[name] == expected.integers[name]).all() for name in expected.integers)
    assert model.feature_names_in_.tolist() == list(NAMES)
    assert model.guarantee_.assumptions == (TYPES_ASSUMPTION,)
    with refused(InvalidDataError) as caught:
        model.release_.transform(frame)
    assert "from_release" in str(caught.value)
    lazy = PrivatePCA.from_release(model.release_).transform(frame)
    assert lazy.columns == ["privatepca0", "privatepca1"]
    found = np.array([list(row) for row in lazy.collect()])
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(model.release_.transform(ROWS), axis=0), rtol=1e-12)


def test_csv_files_with_columns_in_another_order_are_no_parts_of_one_table(spark, tmp_path):
    (tmp_path / "0.csv").write_text("a,b\n1,2\n")
    (tmp_path / "1.csv").write_text(f"b,a\n1,{SENTINEL}\n")
    with refused((EngineError, InvalidDataError), SENTINEL):
        second_moments(open_with_engine(sorted(tmp_path.iterdir()), "spark"), BOUND)


def test_missing_java_is_one_sentence(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")
    path = str(tmp_path / "a.csv")
    code = (
        "from eigenveil.tables.open import open_source, open_with_engine; "
        f"open_source(open_with_engine([{path!r}], 'spark'))"
    )
    (tmp_path / "no_java").mkdir()
    environment = {**os.environ, "JAVA_HOME": str(tmp_path / "no_java")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert re.fullmatch(r"\S+EngineError: Spark needs Java 17 or later, [^.]*\.", last)
    assert "_JAVA_" not in done.stderr
    assert "During handling" not in done.stderr


def test_missing_packages_are_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("a\n1\n")
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with refused(EngineError) as caught:
        open_source(open_with_engine([tmp_path / "a.csv"], "spark"))
    assert "eigenveil[spark]" in str(caught.value)
    with refused(EngineError, SENTINEL) as caught:
        raise_failure("Spark", RuntimeError(f"{SENTINEL} ModuleNotFoundError: No module named 'eigenveil'"))
    assert "worker" in str(caught.value)


def test_the_guide_runs(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(block, names)


def test_local_reports_are_read_a_partition_at_a_time(spark):
    from eigenveil.local import LocalProtocol, aggregate, encode_many

    protocol = LocalProtocol(3, 2.0)
    reports = encode_many(protocol, np.ones((300, 3)))
    frame = spark.createDataFrame([(bytearray(report),) for report in [*reports, reports[0]]], "report binary")
    found = aggregate(protocol, frame.repartition(3))
    assert (found.n_reports, found.refused) == (300, {"repeated": 1})
    assert (found.totals.sums == aggregate(protocol, reports).totals.sums).all()
