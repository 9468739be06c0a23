"""Columns one-hot by public categories: the same integers from every kind of table, and no value told."""

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pytest

from eigenveil import PrivatePCA, RowBound
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.tables.encoder import Encoder
from eigenveil.tables.open import open_source, open_table, second_moments
from eigenveil.tables.schema import Column
from helpers import refused

CATEGORIES = {"sex": ["F", "M"], "city": ["Rome", "New York, NY"]}
NAMES = ("age", "sex=F", "sex=M", "mass", "city=Rome", "city=New York, NY")
ROWS = 50
KINDS = ["csv", "parts", "parquet", "dictionary", "pandas", "polars", "lazy"]


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


def written(cell):
    text = "" if cell is None else str(cell)
    return f'"{text}"' if "," in text else text


def csv_text(columns, rows=slice(None)):
    lines = [",".join(columns)]
    for row in zip(*(values[rows] for values in columns.values()), strict=True):
        lines.append(",".join(map(written, row)))
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


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_rows(kind, columns, expected, tmp_path):
    order = list(columns) if kind == "parts" else None
    source = open_table(tables(kind, columns, tmp_path), order, categories=CATEGORIES)
    assert source.feature_names == NAMES
    assert source.one_hot == (False, True, True, False, True, True)
    assert np.array_equal(np.concatenate(list(source.batches())), expected)
    assert second_moments(source, RowBound(100.0)).gram.tolist() == (
        second_moments(expected, RowBound(100.0)).gram.tolist()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_has_the_same_rule_for_what_is_missing(kind, columns, expected, tmp_path):
    holes = {name: values.tolist() for name, values in columns.items()}
    holes["mass"][::3] = [None] * len(holes["mass"][::3])
    holes["sex"][::7] = [None] * len(holes["sex"][::7])
    expected[::3, 3], expected[::7, 1:3] = 60.5, 0.0
    order = list(columns)
    data = tables(kind, holes, tmp_path)
    filled = open_table(data, order, categories=CATEGORIES, missing=60.5)
    assert np.array_equal(np.concatenate(list(filled.batches())), expected)
    assert second_moments(filled, RowBound(100.0)) == second_moments(expected, RowBound(100.0))
    numbers = open_table(data, ["mass", "age"], missing=60.5)
    assert np.array_equal(np.concatenate(list(numbers.batches())), expected[:, [3, 0]])
    expected[::3, 3] = np.nan
    open_ended = open_table(data, order, categories=CATEGORIES)
    assert np.array_equal(np.concatenate(list(open_ended.batches())), expected, equal_nan=True)


@pytest.mark.parametrize("values", [[1, 2, 3], [1, None, 3], [None, None, None]])
def test_columns_of_numbers_of_polars_are_the_same_beside_others(values):
    kinds = (pl.Float64, pl.Float32, pl.Int8, pl.Int64, pl.UInt16)
    numbers = pl.DataFrame({str(kind): pl.Series(values, dtype=kind) for kind in kinds})
    wanted = np.array([[np.nan if one is None else one] * len(kinds) for one in values], dtype=np.float64)
    for table in (numbers, pl.concat([numbers[:1], numbers[1:]], rechunk=False)):
        (batch,) = open_table(table).batches()
        assert np.array_equal(np.asarray(batch), wanted, equal_nan=True)
        # Beside a decimal number, every column is looked up by narwhals.
        both = table.with_columns(more=pl.Series(["1.5"] * 3).cast(pl.Decimal(10, 2)))
        (batch,) = open_table(both).batches()
        assert np.array_equal(np.asarray(batch), np.column_stack([wanted, np.full(3, 1.5)]), equal_nan=True)


def test_values_outside_the_categories_are_zero_and_tell_nothing(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sex,age\n F ,1\nf,2\n,3\nsecret,4\nM,5\n")
    block = next(open_table(path, categories={"sex": ["F", "M"]}).batches())
    assert block[:, :2].tolist() == [[1, 0], [0, 0], [0, 0], [0, 0], [0, 1]]


def test_numbers_and_truth_values_as_categories():
    import pyarrow as pa

    table = pa.table({"grade": [1, 2, None, 7], "member": [True, None, False, True]})
    source = open_table(table, categories={"grade": [1, 2.0], "member": [True]})
    assert source.feature_names == ("grade=1", "grade=2.0", "member=true")
    assert next(source.batches()).tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0], [0, 0, 1]]
    # A label that no value of the column can match is no error: another part of the table may hold text.
    mixed = open_table(table, categories={"grade": ["first", 1], "member": ["perhaps", True]})
    assert next(mixed.batches()).tolist() == [[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]


def test_m_categorical_columns_have_norm_at_most_root_m(columns):
    source = open_table(tables("polars", columns, None), ["sex", "city"], categories=CATEGORIES)
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


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_estimators_take_a_source(columns):
    source = open_table(tables("pandas", columns, None), categories=CATEGORIES)
    model = PrivatePCA(2, epsilon=100.0, norm_bound=110.0).fit(source)
    assert tuple(model.feature_names_in_) == NAMES
    assert open_source(source) is source
    for options in ({"columns": ["age"]}, {"categories": CATEGORIES}, {"missing": 0.0}):
        with refused(InvalidParameterError):
            open_table(source, **options)


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
        list(open_table(path, columns, categories=categories).batches())


@pytest.mark.parametrize("labels", [["1", "1.0"], ["true", "True"], [True, "TRUE"], [2**53, 2**53 + 1], ["0", "-0.0"]])
@pytest.mark.parametrize("column", [[1, 2], [True, False], ["a", "b"]])
def test_labels_of_one_value_are_refused(column, labels):
    """A row would have two ones, and be longer than the number of categorical columns says, whatever it holds."""
    with refused(InvalidParameterError):
        open_table(pd.DataFrame({"a": column}), categories={"a": labels})
    with refused(InvalidParameterError):
        Column("a", "category", categories=labels)


def test_a_cell_that_is_no_number_after_all_is_not_quoted():
    """As where the types of a later part of a table are not those that its schema told."""
    import pyarrow as pa

    with refused(InvalidDataError, "secret") as caught:
        Encoder(["a"]).rows(pa.table({"a": ["1", "secret"]}), "the table")
    assert "column 'a'" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
