"""Columns one-hot by public categories: the same integers from every kind of table, and no value told."""

import gzip

import numpy as np
import pandas as pd
import pytest

from eigenveil import PrivatePCA, RowBound
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.sources import OneHotTable, open_source, open_table, second_moments
from helpers import refused

CATEGORIES = {"sex": ["F", "M"], "city": ["Rome", "New York, NY"]}
NAMES = ("age", "sex=F", "sex=M", "mass", "city=Rome", "city=New York, NY")
ROWS = 50


@pytest.fixture
def columns():
    rng = np.random.default_rng(1)
    return {
        "age": rng.uniform(20, 60, ROWS),
        "sex": rng.choice(["F", "M", "unknown"], ROWS),
        "mass": rng.uniform(50, 90, ROWS),
        "city": rng.choice(["Rome", "New York, NY", "Lima"], ROWS),
    }


@pytest.fixture
def expected(columns):
    blocks = [
        columns[name][:, None] if name not in CATEGORIES else columns[name][:, None] == np.array(CATEGORIES[name])
        for name in columns
    ]
    return np.hstack(blocks).astype(float)


def csv_text(columns, rows=slice(None)):
    lines = [",".join(columns)]
    for row in zip(*(values[rows] for values in columns.values()), strict=True):
        lines.append(",".join(f'"{cell}"' if "," in str(cell) else str(cell) for cell in row))
    return "\n".join([*lines, ""])


def tables(kind, columns, folder):
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    if kind == "csv":
        path = folder / "people.csv"
        path.write_text(csv_text(columns))
        return path
    if kind == "parts":
        (folder / "a.csv").write_text(csv_text(columns, slice(0, 20)))
        with gzip.open(folder / "b.csv.gz", "wt") as file:
            file.write(csv_text(dict(reversed(columns.items())), slice(20, None)))
        return [folder / "a.csv", folder / "b.csv.gz"]
    if kind == "parquet":
        pq.write_table(pa.table(columns), folder / "people.parquet", row_group_size=7)
        return folder / "people.parquet"
    if kind == "dictionary":
        return pa.table({**columns, "sex": pa.array(columns["sex"]).dictionary_encode()})
    if kind == "pandas":
        return pd.DataFrame(columns).astype({"city": "category"})
    if kind == "polars":
        return pl.DataFrame(columns)
    return pl.DataFrame(columns).lazy()


@pytest.mark.parametrize("kind", ["csv", "parts", "parquet", "dictionary", "pandas", "polars", "lazy"])
def test_every_kind_of_table_gives_the_same_rows(kind, columns, expected, tmp_path):
    order = list(columns) if kind == "parts" else None
    source = OneHotTable(tables(kind, columns, tmp_path), order, categories=CATEGORIES)
    assert source.feature_names == NAMES
    assert source.one_hot == (False, True, True, False, True, True)
    assert np.array_equal(np.concatenate(list(source.batches())), expected)
    assert second_moments(source, RowBound(100.0)).gram.tolist() == (
        second_moments(expected, RowBound(100.0)).gram.tolist()
    )


def test_wide_blocks_of_text_are_cut(columns, expected, tmp_path, monkeypatch):
    monkeypatch.setattr("eigenveil.sources.columns.batch_rows", lambda n_features: 7)
    source = OneHotTable(tables("csv", columns, tmp_path), categories=CATEGORIES)
    blocks = list(source.batches())
    assert max(len(block) for block in blocks) == 7
    assert np.array_equal(np.concatenate(blocks), expected)


def test_columns_are_chosen_and_ordered(columns, expected, tmp_path):
    source = open_table(tables("csv", columns, tmp_path), ["sex", "age"], categories={"sex": ["M"]})
    assert source.feature_names == ("sex=M", "age")
    assert np.array_equal(next(source.batches()), expected[:, [2, 0]])


def test_values_outside_the_categories_are_zero_and_tell_nothing(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sex,age\n F ,1\nf,2\n,3\nsecret,4\nM,5\n")
    block = next(OneHotTable(path, categories={"sex": ["F", "M"]}).batches())
    assert block[:, :2].tolist() == [[1, 0], [0, 0], [0, 0], [0, 0], [0, 1]]


def test_numbers_and_truth_values_as_categories():
    import pyarrow as pa

    table = pa.table({"grade": [1, 2, None, 7], "member": [True, None, False, True]})
    source = OneHotTable(table, categories={"grade": [1, 2.0], "member": [True]})
    assert source.feature_names == ("grade=1", "grade=2.0", "member=true")
    assert next(source.batches()).tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0], [0, 0, 1]]
    with refused(InvalidParameterError):
        OneHotTable(table, ["grade"], categories={"grade": ["first"]})
    with refused(InvalidParameterError):
        OneHotTable(table, ["member"], categories={"member": ["perhaps"]})


def test_m_categorical_columns_have_norm_at_most_root_m(columns):
    source = OneHotTable(tables("polars", columns, None), ["sex", "city"], categories=CATEGORIES)
    assert source.n_categorical == 2
    norms = np.linalg.norm(next(source.batches()), axis=1)
    assert norms.max() == pytest.approx(2**0.5)


def test_a_missing_number_is_filled_or_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sex,age\nF,1\nM,\n")
    source = open_table(path, categories={"sex": ["F"]}, missing=9)
    assert next(source.batches()).tolist() == [[1, 1], [0, 9]]
    with refused(InvalidDataError):
        second_moments(open_table(path, categories={"sex": ["F"]}), RowBound(2.0))
    assert next(open_table(path, ["age"], missing=3).batches()).tolist() == [[1], [3]]
    with refused(InvalidParameterError):
        open_table(path, ["age"], missing=float("nan"))


def test_missing_entries_of_a_sparse_matrix():
    import scipy.sparse

    rows = scipy.sparse.csr_array(np.array([[0.0, np.nan], [2.0, 0.0]]))
    filled = next(open_table(rows, missing=5.0).batches())
    assert filled.toarray().tolist() == [[0, 5], [2, 0]]
    assert np.isnan(rows.data[0])  # the caller's matrix is left alone


def test_estimators_take_a_source(columns):
    source = open_table(tables("pandas", columns, None), categories=CATEGORIES)
    model = PrivatePCA(2, epsilon=100.0, norm_bound=110.0).fit(source)
    assert tuple(model.feature_names_in_) == NAMES
    assert open_source(source) is source
    with refused(InvalidParameterError):
        open_source(source, ["age"])


@pytest.mark.parametrize(
    ("columns", "categories"),
    [
        (None, {"sex": []}),
        (None, {"sex": "FM"}),
        (None, {"sex": ["F", "F"]}),
        (["age"], {"sex": ["F"]}),
        (["nowhere"], {"nowhere": ["F"]}),
        (["age", "city"], {"age": ["1"]}),
    ],
)
def test_wrong_columns_and_categories_are_refused(columns, categories, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("age,sex,city\n1,F,Lima\n")
    with refused((InvalidDataError, InvalidParameterError), "Lima"):
        OneHotTable(path, columns, categories=categories)


def test_wrong_tables_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("age,sex\n1,F\n")
    (tmp_path / "b.csv").write_text("mass,sex\n1,F\n")
    (tmp_path / "c.csv").write_text("sex,sex=F\nF,1\n")
    np.save(tmp_path / "a.npy", np.eye(2))
    for data in (
        [tmp_path / "a.csv", tmp_path / "b.csv"],
        tmp_path / "c.csv",
        tmp_path / "a.npy",
        tmp_path / "nowhere.csv",
        tmp_path,
        np.eye(2),
        [],
        [tmp_path / "a.csv", 3],
    ):
        with refused(InvalidDataError):
            OneHotTable(data, categories={"sex": ["F"]})


@pytest.mark.parametrize(("column", "labels"), [([1, 2], ["1", "1.0"]), ([True, False], ["true", "True"])])
def test_labels_of_one_value_are_refused(column, labels):
    """A row would have two ones, and be longer than the number of categorical columns says."""
    with refused(InvalidParameterError):
        OneHotTable(pd.DataFrame({"a": column}), categories={"a": labels})
