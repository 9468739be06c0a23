"""Dask arrays and frames: the bits of the array in memory, also where a worker is killed midway."""

import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, PrivateRidge, Schema
from eigenveil.errors import EngineError, InvalidDataError, InvalidParameterError
from eigenveil.guarantee import TYPES_ASSUMPTION
from eigenveil.moments import RowBound
from eigenveil.moments.second_moments import SecondMoments
from eigenveil.tables.base import raise_failure
from eigenveil.tables.open import open_source, open_table, open_with_engine, second_moments
from eigenveil.tables.schema import Column
from helpers import assert_one_sentence, refused

dask = pytest.importorskip("dask", reason="needs eigenveil[dask]")
da = pytest.importorskip("dask.array", reason="needs eigenveil[dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs eigenveil[dask]")
distributed = pytest.importorskip("distributed", reason="needs eigenveil[dask]")

BOUND = RowBound(2.0)
NAMES = ("age", "height", "mass", "score", "pulse")
ROWS = np.random.default_rng(5).normal(size=(600, 5))
FRAME = pd.DataFrame(ROWS, columns=list(NAMES))
REFERENCE = SecondMoments(BOUND, 5).update(ROWS)
SENTINEL = 987654321.5
GUIDE = Path(__file__).parents[2] / "docs" / "how_to" / "dask.md"
# Dask's own reading of Parquet, on pandas 3.1.
dask_reads_parquet = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")


@pytest.fixture(scope="module")
def client():
    """Two worker processes of one thread each."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs="ERROR"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


# The same bits


@pytest.mark.parametrize("chunks", [(600, 5), (7, 2), ((0, 100, 0, 500), (4, 1))], ids=str)
def test_array_gives_the_bits_of_the_array_in_memory(chunks):
    moments = second_moments(da.from_array(ROWS, chunks=chunks), BOUND)
    assert moments == REFERENCE
    assert moments.feature_names is None


def test_frame_gives_the_bits_of_the_array_in_memory():
    frame = dd.from_pandas(FRAME, npartitions=9)
    moments = second_moments(frame, BOUND)
    assert moments == REFERENCE
    assert moments.feature_names == NAMES
    assert second_moments(frame.shuffle("age"), BOUND) == REFERENCE


def test_the_control_sees_one_row_more():
    doubled = np.vstack([ROWS, ROWS[:1]])
    assert second_moments(da.from_array(doubled, chunks=(100, 5)), BOUND) != REFERENCE


def test_columns_keep_their_order():
    expected = second_moments(ROWS[:, [3, 0]], BOUND)
    frame = second_moments(dd.from_pandas(FRAME, npartitions=3), BOUND, columns=["score", "age"])
    assert frame == expected
    assert frame.feature_names == ("score", "age")
    assert second_moments(da.from_array(ROWS, chunks=(100, 2)), BOUND, columns=[3, 0]) == expected


def test_rows_of_unknown_number_and_empty_partitions():
    chosen = ROWS[ROWS[:, 0] > 1.5]
    array = da.from_array(ROWS, chunks=(10, 2))
    assert second_moments(array[array[:, 0] > 1.5], BOUND) == second_moments(chosen, BOUND)
    frame = dd.from_pandas(FRAME.sort_values("age"), npartitions=8, sort=False)
    assert second_moments(frame[frame.age > 1.5], BOUND) == second_moments(chosen, BOUND)


def test_blocks_may_be_sparse_and_of_other_types():
    array = da.from_array(ROWS, chunks=(50, 5))
    sparse = array.map_blocks(scipy.sparse.csr_array, meta=scipy.sparse.csr_array((0, 0)))
    assert second_moments(sparse, BOUND) == REFERENCE
    whole = np.arange(40).reshape(8, 5) % 3
    assert second_moments(da.from_array(whole, chunks=3), BOUND) == second_moments(whole, BOUND)
    mixed = pd.DataFrame({"yes": [True, False, True], "few": pd.array([1, 2, 3], dtype="Int64")})
    assert second_moments(dd.from_pandas(mixed, npartitions=2), BOUND) == second_moments(mixed, BOUND)


def test_missing_values_follow_the_bound():
    holes = FRAME.mask(FRAME > 2)
    zero = RowBound(2.0, on_invalid="zero")
    assert second_moments(dd.from_pandas(holes, npartitions=4), zero) == second_moments(holes, zero)
    with refused(InvalidDataError):
        second_moments(dd.from_pandas(holes, npartitions=4), BOUND)


def test_partial_fit_takes_engines_and_arrays_in_turn():
    pca = PrivatePCA(2, norm_bound=2.0, center=False, random_state=4)
    pca.partial_fit(da.from_array(ROWS[:400], chunks=(90, 5))).partial_fit(ROWS[400:])
    assert pca._collected == REFERENCE


# Refusals


@pytest.mark.parametrize("standardize", [False, True])
def test_partial_fit_collects_no_rows_of_an_engine_by_a_bound_that_nobody_gave(standardize):
    """In memory these rows are compared and need no bound; without a public order one would have to be found."""
    pca, engine = PrivatePCA(2, standardize=standardize), da.from_array(ROWS, chunks=(90, 5))
    for _ in range(2):  # the second time after rows that were compared
        with refused(InvalidDataError) as caught:
            pca.partial_fit(engine)
        assert "another pass; give a public norm_bound" in str(caught.value)
        assert (
            ("_collected" in pca.__dict__) == ("_differences_buffer" in pca.__dict__) == hasattr(pca, "n_features_in_")
        )
        pca.partial_fit(ROWS[:10])


def test_pairs_are_refused_before_anything_is_spent(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger.db", epsilon=2.0, delta=0.0, data_set="study")
    pca = PrivatePCA(2, statistic="spatial_sign", ledger=ledger)
    for data in (da.from_array(ROWS, chunks=(100, 5)), dd.from_pandas(FRAME, npartitions=2)):
        with refused(InvalidDataError) as caught:
            pca.fit(data)
        assert "statistic='spatial_sign'" in str(caught.value)
    assert ledger.spent == (0.0, 0.0)
    # By default rows are clipped where there is no public order to compare them in.
    auto = PrivatePCA(2).fit(da.from_array(ROWS, chunks=(100, 5))).release_.origin
    assert (auto.row_rule.statistic, auto.chosen_privately) == ("clipped", ("norm_bound",))


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (lambda: da.from_array(ROWS[:, 0]), "1 dimension"),
        (lambda: da.from_array(ROWS * 1j), "Complex"),
        (lambda: da.from_array(ROWS)[da.from_array(ROWS)[:, 0] > 0].T, "width"),
        (lambda: dd.from_pandas(FRAME.assign(name="text"), npartitions=2), "'name'"),
        (lambda: dd.from_pandas(FRAME, npartitions=2)["age"], "one column"),
    ],
    ids=["one dimension", "complex", "width", "text", "series"],
)
def test_the_schema_is_checked_before_rows_are_read(data, match):
    with refused(InvalidDataError) as caught:
        open_source(data())
    assert match in str(caught.value)


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_no_rows_are_refused_only_where_their_number_is_public():
    frame = dd.from_pandas(FRAME, npartitions=2)
    assert second_moments(frame[frame.age > 1e9], BOUND).n_rows == 0
    empty = da.from_array(ROWS[:0], chunks=(1, 5))
    with refused(InvalidDataError):
        PrivatePCA(2, norm_bound=1.0).fit(empty)
    assert PrivateCovariance(norm_bound=1.0, adjacency="add_or_remove_one").fit(empty).n_samples_ >= 1


def test_parts_that_fit_int64_alone_and_not_together_are_exact():
    fine = RowBound(1.0, bits=24)
    rows = np.ones((20_000, 1))
    moments = second_moments(da.from_array(rows, chunks=(5000, 1)), fine)
    assert int(moments.gram[0, 0]) == 20_000 * 4**24


def test_what_the_collection_raises_is_not_quoted():
    def failing(block):
        raise ValueError(f"cannot use {SENTINEL}")

    array = da.from_array(ROWS, chunks=(100, 5)).map_blocks(failing, meta=ROWS[:0])
    with refused(EngineError, SENTINEL) as caught:
        second_moments(array, BOUND)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("error", [type("KilledWorker", (Exception,), {})(SENTINEL), ImportError(SENTINEL)])
def test_failures_of_the_engine_are_one_sentence(error):
    with refused(EngineError, SENTINEL):
        raise_failure("Dask", error)


# Files


@dask_reads_parquet
@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz"])
def test_files_read_by_dask_give_the_bits_of_the_array(tmp_path, kind):
    for number in range(3):
        part = FRAME[200 * number : 200 * (number + 1)]
        if kind == "parquet":
            part.to_parquet(tmp_path / f"{number}.{kind}", index=False)
        else:
            part.to_csv(tmp_path / f"{number}.{kind}", index=False)
    paths = sorted(tmp_path.iterdir())
    moments = second_moments(open_with_engine(paths, "dask"), BOUND)
    assert moments == REFERENCE
    assert moments.feature_names == NAMES
    assert second_moments(open_with_engine([f"{tmp_path}/*.{kind}"], "dask"), BOUND) == REFERENCE


def written(path, column):
    path.write_text("x,c\n" + "".join(f"{place}.5,{cell}\n" for place, cell in enumerate(column)))
    return path


def rows_of(data, **options):
    source = open_table(data, **options)
    names = [f"f{place}" for place in range(source.n_features)]
    return np.asarray(source.mapped(lambda rows: np.asarray(rows, dtype=float), names).compute())


@pytest.mark.parametrize(
    ("column", "cell", "options"),
    [
        (["True", "False"], "unknown", {"categories": {"c": ["true", "false"]}}),
        (["2024-01-01", "2024-01-02"], "2024-01-01T10:00:00Z", {"schema": Schema((Column("x"), Column("c", "date")))}),
        (["9007199254740993", "7"], "1.5", {}),
    ],
)
def test_one_cell_of_a_csv_file_changes_one_row(tmp_path, column, cell, options):
    """Types are declared, and never read off the cells."""
    cells = column * 10
    paths = written(tmp_path / "0.csv", cells), written(tmp_path / "1.csv", [cell, *cells[1:]])
    first, second = (rows_of(open_with_engine([path], "dask"), **options) for path in paths)
    np.testing.assert_array_equal(first[1:], second[1:])
    np.testing.assert_array_equal(first, np.vstack(list(open_table(paths[0], **options).batches())))
    assert not open_table(open_with_engine([paths[0]], "dask"), **options).typed


@pytest.mark.parametrize(("row", "place"), [("0.5,1,", 0), ("0.5", 5), ("0.5,1,2", 0), ('0.5,"1', 5)])
def test_a_row_of_another_length_is_refused(tmp_path, row, place):
    """pandas takes the first column for an index, and fills what is short."""
    lines = [f"{number}.5,{number}" for number in range(10)]
    lines[place] = row
    (tmp_path / "a.csv").write_text("x,c\n" + "\n".join(lines) + "\n")
    with refused(InvalidDataError):
        second_moments(open_with_engine([tmp_path / "a.csv"], "dask"), BOUND)


@dask_reads_parquet
def test_missing_truth_values_of_a_parquet_file_change_no_type(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = pa.schema([("x", pa.float64()), ("c", pa.bool_())])
    cells = [True, False] * 10
    frames = []
    for number, column in enumerate((cells, [None, *cells[1:]])):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"x": [1.5] * 20, "c": column}, schema=types), path)
        frames += [(open_with_engine([path], "dask"), dd.read_parquet([path]))]
    for options in ({"categories": {"c": ["true", "false"]}}, {"missing": 0.5}):
        for first, second in zip(*frames, strict=True):
            np.testing.assert_array_equal(rows_of(first, **options)[1:], rows_of(second, **options)[1:])
    assert open_table(frames[0][0]).typed


def test_a_partition_of_another_type_is_refused():
    meta = pd.DataFrame({"a": [1.0]})
    for later in (pd.to_datetime(["2020-01-01"]), pd.Categorical([5]), ["5"]):
        frame = dd.from_map(lambda part: part, [meta, pd.DataFrame({"a": later})], meta=meta[:0])
        with refused(InvalidDataError):
            second_moments(frame, BOUND)
    array = da.from_array(ROWS, chunks=(300, 5)).map_blocks(lambda part: part.astype("M8[s]"), meta=ROWS[:0])
    with refused(InvalidDataError):
        second_moments(array, BOUND)


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_what_the_guarantee_assumes_of_a_collection():
    model = PrivatePCA(1, norm_bound=5.0).fit(dd.from_pandas(FRAME, npartitions=2))
    assert model.guarantee_.assumptions == (TYPES_ASSUMPTION,)
    array = da.from_array(ROWS, chunks=(100, 5))
    assert PrivatePCA(1, norm_bound=5.0).fit(array).guarantee_.assumptions == ()
    with refused(InvalidParameterError):
        open_table(dd.from_pandas(FRAME, npartitions=2), public_order=True)
    with refused(InvalidDataError) as caught:
        model.release_.transform(dd.from_pandas(FRAME, npartitions=2))
    assert "from_release" in str(caught.value)


def test_files_that_engines_do_not_read(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")
    (tmp_path / "b.parquet").write_text(f"no parquet {SENTINEL}")
    for paths in (
        [],
        [tmp_path / "c.npy"],
        [tmp_path / "no.csv"],
        sorted(tmp_path.iterdir()),
        [tmp_path / "b.parquet"],
    ):
        with refused(InvalidDataError, SENTINEL):
            open_source(open_with_engine(paths, "dask"))
    with refused(InvalidDataError):
        open_source(open_with_engine(["s3://bucket/a.csv"], "dask"))
    with refused(InvalidParameterError):
        open_with_engine([tmp_path / "a.csv"], "ray")


def test_a_missing_package_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("a\n1\n")
    monkeypatch.setitem(sys.modules, "dask.dataframe", None)
    with refused(EngineError) as caught:
        open_source(open_with_engine([tmp_path / "a.csv"], "dask"))
    assert "eigenveil[dask]" in str(caught.value)
    assert_one_sentence(caught.value)


# A real cluster


def test_nothing_is_lost_or_counted_twice_where_a_worker_is_killed(client, tmp_path):
    marker, log = str(tmp_path / "killed"), str(tmp_path / "log")

    def deadly(block, block_info=None):
        number = block_info[0]["chunk-location"][0]
        with open(log, "a") as file:
            file.write(f"{number} {os.getpid()}\n")
        if number == 20:
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return block

    array = da.from_array(ROWS, chunks=(20, 5)).map_blocks(deadly, meta=ROWS[:0])
    assert second_moments(array, BOUND) == REFERENCE
    assert os.path.exists(marker)
    lines = [line.split() for line in Path(log).read_text().splitlines()]
    attempts = Counter(number for number, _ in lines)
    assert len(attempts) == 30
    assert attempts["20"] == 2
    assert len({worker for _, worker in lines}) > 1


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_fit_on_a_cluster_and_an_error_of_a_worker(client):
    frame = dd.from_pandas(FRAME, npartitions=4)
    pca = PrivatePCA(2, epsilon=3.0, random_state=4, statistic="clipped", standardize=True)
    assert (pca.fit(frame).components_ == pca.fit(ROWS).components_).all()
    holes = FRAME.assign(age=FRAME.age.mask(FRAME.index == 333, np.inf), mass=SENTINEL)
    with refused(InvalidDataError, SENTINEL) as caught:
        second_moments(dd.from_pandas(holes, npartitions=4), BOUND)
    assert caught.value.__cause__ is None


@dask_reads_parquet
def test_the_guide_runs(client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"client": client}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(block, names)


def test_a_row_of_numbers_is_no_header(tmp_path):
    """It would be published as the names of the features."""
    (tmp_path / "a.csv").write_text(f"{SENTINEL},0.5\n1.5,2.5\n")
    with refused(InvalidDataError, SENTINEL):
        open_source(open_with_engine([tmp_path / "a.csv"], "dask"))


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_projections_stay_on_dask_and_are_those_of_the_array():
    pca = PrivatePCA(2, epsilon=5.0, norm_bound=9.0, random_state=0).fit(ROWS)
    lazy = pca.transform(da.from_array(ROWS, chunks=(90, 2)))
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), pca.transform(ROWS), rtol=1e-12, atol=1e-12)
    frame = pd.DataFrame(ROWS, columns=list("abcde"))
    named = PrivatePCA(2, epsilon=5.0, norm_bound=9.0, random_state=0).fit(frame)
    parts = dd.from_pandas(frame, npartitions=3)[["e", "a", "b", "c", "d"]]
    np.testing.assert_allclose(named.transform(parts).compute(), named.transform(frame), rtol=1e-12, atol=1e-12)
    ridge = PrivateRidge(target="e", epsilon=50.0, bounds=(-9, 9), random_state=0).fit(frame)
    predicted = ridge.predict(parts).compute().ravel()
    np.testing.assert_allclose(predicted, ridge.predict(frame[list("abcd")]), rtol=1e-12, atol=1e-12)
