import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.moments import RowBound
from eigenveil.moments.second_moments import SecondMoments
from eigenveil.tables import arrays, base
from eigenveil.tables.open import open_source, second_moments

BOUND = RowBound(3.0)
NAMES = ("age", "height", "mass", "score")
SENTINEL = 987654321
ROWS = np.random.default_rng(0).normal(size=(700, 4))
ROWS[ROWS < -1] = 0.0  # something to skip for the sparse ones
REFERENCE = SecondMoments(BOUND, 4).update(ROWS)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(base, "BATCH_BYTES", 4 * 4 * 8)
    monkeypatch.setattr(arrays, "SPARSE_BATCH_ENTRIES", 100)


@pytest.mark.parametrize(
    "make",
    [
        np.ascontiguousarray,
        np.asfortranarray,
        np.matrix,
        lambda X: X.astype(">f8"),
        lambda X: np.repeat(X, 2, axis=0)[::2],
        scipy.sparse.csr_array,
        scipy.sparse.csc_matrix,
        scipy.sparse.lil_matrix,
    ],
)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_arrays_of_any_layout_give_the_same_bits(make, monkeypatch):
    monkeypatch.setattr(arrays, "_MOST_VIEWED", 500)
    monkeypatch.setattr(arrays, "_FEW_VIEWED", 0)
    source = open_source(make(ROWS))
    assert (source.n_features, source.feature_names, source.n_rows_hint) == (4, None, 700)
    assert len(list(source.batches())) > 2
    assert second_moments(make(ROWS), BOUND) == REFERENCE


@pytest.mark.parametrize("data", [ROWS, scipy.sparse.csr_array(ROWS), scipy.sparse.coo_matrix(ROWS)])
def test_columns_of_arrays_are_positions(data):
    expected = SecondMoments(BOUND, 2).update(ROWS[:, [3, 1]])
    assert second_moments(data, BOUND, columns=[3, 1]) == expected


def test_sparse_rows_stay_sparse_and_untouched():
    rows = scipy.sparse.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert all(batch.format == "csr" for batch in open_source(rows).batches())
    assert second_moments(rows, BOUND) == second_moments([[0.0, 3.0], [4.0, 0.0]], BOUND)
    assert rows.nnz == 3


def test_one_sparse_row_longer_than_a_batch():
    rows = scipy.sparse.csr_array(np.ones((3, 150)))
    assert [batch.shape for batch in open_source(rows).batches()] == [(1, 150)] * 3


FRAMES = {
    "pandas": lambda X: pd.DataFrame(X, columns=list(NAMES)),
    "pandas, every other row": lambda X: pd.DataFrame(
        np.asfortranarray(np.repeat(X, 2, axis=0)), columns=list(NAMES)
    ).iloc[::2],
    "pandas nullable": lambda X: pd.DataFrame(X, columns=list(NAMES)).convert_dtypes(),
    "pandas arrow": lambda X: pd.DataFrame(X, columns=list(NAMES)).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda X: pl.DataFrame(X, schema=list(NAMES)),
    "polars lazy": lambda X: pl.LazyFrame(X, schema=list(NAMES)),
    "pyarrow": lambda X: pa.table(dict(zip(NAMES, X.T, strict=True))),
    "pyarrow chunks": lambda X: pa.concat_tables(
        pa.table(dict(zip(NAMES, part.T, strict=True))) for part in np.array_split(X, 9)
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(
    "dtype",
    [np.float64, np.bool_, *(pytest.param(one, marks=pytest.mark.heavy) for one in (np.float32, np.int64, np.uint8))],
)
def test_frames_give_the_bits_of_the_array_and_keep_names(kind, dtype):
    rows = (ROWS if np.dtype(dtype).kind == "f" else np.abs(3 * ROWS)).astype(dtype)
    frame = FRAMES[kind](rows)
    moments = second_moments(frame, BOUND)
    assert moments == second_moments(rows, BOUND)
    assert moments.feature_names == NAMES
    chosen = second_moments(frame, BOUND, columns=["mass", "age"])
    assert chosen == second_moments(rows[:, [2, 0]], BOUND)
    assert chosen.feature_names == ("mass", "age")


def test_mixed_types_and_whole_numbers_beyond_float64():
    columns = {"i": [2**60 + 1, 1], "f": np.array([0.1, 0.2], dtype="f4"), "b": [True, False]}
    expected = second_moments(np.column_stack([np.asarray(c, dtype="f8") for c in columns.values()]), BOUND)
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        assert second_moments(make(columns), BOUND) == expected


def test_decimals_and_wide_integers_are_cast():
    values = [Decimal("1.25"), Decimal("-0.5")]
    expected = second_moments([[1.25], [-0.5]], BOUND)
    assert second_moments(pa.table({"x": values}), BOUND) == expected
    assert second_moments(pl.DataFrame({"x": values}), BOUND) == expected
    wide = pl.DataFrame({"x": [2, -1]}, schema={"x": pl.Int128})
    assert second_moments(wide, BOUND) == second_moments([[2], [-1]], BOUND)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"x": [1.0, None], "y": [1, 2]}),
        pd.DataFrame({"x": pd.array([1, None], dtype="Int64"), "y": [1, 2]}),
        pd.DataFrame({"x": pd.array([True, None], dtype="boolean"), "y": [1, 2]}),
        pl.DataFrame({"x": [1, None], "y": [1, 2]}),
        pl.DataFrame({"x": [True, None], "y": [1, 2]}),
        pa.table({"x": [1, None], "y": [1, 2]}),
        pa.table({"x": [True, None], "y": [1, 2]}),
    ],
)
def test_missing_values_make_an_invalid_row(frame):
    with pytest.raises(InvalidDataError, match="NaN or infinity"):
        second_moments(frame, BOUND)
    zeroed = RowBound(3.0, on_invalid="zero")
    assert second_moments(frame, zeroed) == second_moments([[1.0, 1.0], [0.0, 0.0]], zeroed)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"x": [1.0], "city": [str(SENTINEL)]}),
        pd.DataFrame({"x": [1.0], "city": pd.Categorical([SENTINEL])}),
        pd.DataFrame({"x": [1.0], "city": [complex(SENTINEL)]}),
        pd.DataFrame({"x": [1.0], "city": pd.to_datetime([SENTINEL])}),
        pl.DataFrame({"x": [1.0], "city": [str(SENTINEL)]}),
        pl.LazyFrame({"x": [1.0], "city": [str(SENTINEL)]}),
        pl.DataFrame({"x": [1.0], "city": [[SENTINEL]]}),
        pa.table({"x": [1.0], "city": [str(SENTINEL)]}),
        pa.table({"x": [1.0], "city": pa.array([str(SENTINEL)]).dictionary_encode()}),
    ],
)
def test_a_column_without_numbers_is_named_and_may_be_left_out(frame):
    with pytest.raises(InvalidDataError, match="column 'city' of the frame") as caught:
        second_moments(frame, BOUND)
    assert str(SENTINEL) not in str(caught.value)
    assert second_moments(frame, BOUND, columns=["x"]).feature_names == ("x",)


def test_columns_that_nobody_named_are_numbered():
    frame = pd.DataFrame(ROWS)
    assert second_moments(frame, BOUND).feature_names is None
    assert second_moments(frame, BOUND, columns=[3, 1]) == second_moments(ROWS, BOUND, columns=[3, 1])


def test_an_error_of_the_engine_midway_is_one_sentence_without_values():
    lazy = pl.LazyFrame({"x": ["1", "2", str(SENTINEL) + "!"]}).select(pl.col("x").cast(pl.Float64))
    with pytest.raises(InvalidDataError, match="lazy frame cannot be computed") as caught:
        second_moments(lazy, BOUND)
    assert str(SENTINEL) not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (np.ones(3), "1 dimension"),
        (np.ones((2, 2, 2)), "3 dimension"),
        (scipy.sparse.coo_array(np.ones(3)), "1 dimension"),
        (pd.Series([1.0]), "1 dimension"),
        ([[1.0], [1.0, 2.0]], "cannot be made an array"),
        (np.array([["a"]]), "array of real numbers"),
        (np.array([[1j]]), "Complex data not supported"),
        (np.array([[object()]]), "is no number"),
        (scipy.sparse.csr_array([[1j]]), "real numbers"),
        (np.ma.masked_array([[1.0]], [[True]]), "Masked"),
        (None, "a NoneType, must be"),
        ({"x": [1.0]}, "a dict, must be"),
        (np.empty((3, 0)), "0 feature"),
        (pd.DataFrame(np.ones((2, 2)), columns=["x", "x"]), "same name|several columns"),
        ([[1.0, np.nan]], "NaN or infinity"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(data, match):
    with pytest.raises(InvalidDataError, match=match):
        second_moments(data, BOUND)


def test_objects_that_are_numbers_are_taken_and_others_are_not_quoted():
    objects = ROWS.astype(object)
    assert second_moments(objects, BOUND) == second_moments(ROWS, BOUND)
    objects[3, 1] = f"about {SENTINEL}"
    with pytest.raises(InvalidDataError) as caught:
        second_moments(objects, BOUND)
    assert str(SENTINEL) not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("columns", "error", "match"),
    [
        (["mass", "nothing"], InvalidDataError, "no column 'nothing'"),
        (["mass", "mass"], InvalidParameterError, "'mass' more than once"),
        ("mass", InvalidParameterError, "list of at least one"),
        ([["mass"]], InvalidParameterError, "list of at least one"),
    ],
)
def test_columns_that_cannot_be_chosen(columns, error, match):
    with pytest.raises(error, match=match):
        open_source(FRAMES["polars"](ROWS), columns)


@pytest.mark.parametrize("columns", [["age"], [4], [-1]])
def test_positions_that_an_array_does_not_have(columns):
    with pytest.raises(InvalidDataError, match="numbered from 0 to 3"):
        open_source(ROWS, columns)


@pytest.mark.parametrize(("progress", "terminal", "shown"), [(None, False, 0), (None, True, 1), (False, True, 0)])
def test_progress_shows_on_a_terminal_only(monkeypatch, capsys, progress, terminal, shown):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert second_moments(ROWS, BOUND, progress=progress) == REFERENCE
    out, err = capsys.readouterr()
    assert out == ""
    assert bool(shown) == ("reading rows" in err)


def test_progress_on_demand_counts_the_rows(capsys):
    assert second_moments(pl.LazyFrame(ROWS), BOUND, progress=True) == REFERENCE
    places = pl.LazyFrame({"place": np.arange(70_000.0)}).filter(pl.col("place") >= 0)
    read = np.concatenate(list(open_source(places).batches()))[:, 0]
    assert np.array_equal(read, np.arange(70_000.0))  # rows are compared by their places
    assert "700" in capsys.readouterr().err


def test_batches_are_closed_before_an_error_is_shown():
    """Else files stay open, and a progress bar is drawn over the error."""

    class Watched:
        n_features, feature_names, n_rows_hint, closed = 2, None, None, False

        def batches(self):
            try:
                for _ in range(50):
                    yield np.full((10, 2), np.nan)
            finally:
                self.closed = True

    source = Watched()
    with pytest.raises(InvalidDataError) as info:
        second_moments(source, RowBound(1.0))
    assert source.closed
    assert info.tb is not None  # which would have kept them open
