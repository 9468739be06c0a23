"""Sensitivity of every statistic by brute force through the whole reader: layouts, cuts, files, partitions, dtypes.

A statistic of one row is read off the reader by itself. Then tables with that row among others, read in every way there
is, must differ from the table without it by exactly that, in Python integers.
"""

from bisect import bisect_left
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from eigenveil import PrivateCovariance, RowBound, SecondMoments
from eigenveil.estimators.fit import whole_moments
from eigenveil.estimators.parameters import Features, FitParameters
from eigenveil.estimators.preparation import prepared
from eigenveil.moments import counts as norm_counts
from eigenveil.moments.column_counts import ColumnCounts
from eigenveil.moments.counts import NORM_GRID, RowSizes
from eigenveil.moments.sums import SumsByNorm
from eigenveil.tables import base, text
from eigenveil.tables.open import collect, open_source
from helpers import scales

D = 3
BITS = 8
# Extremes: overflow, subnormal numbers, both zeros, rows at the bound and one bit beside it, norms on a rung.
ROWS = [
    [0.0, 0.0, 0.0],
    [-0.0, 1.0, 0.0],
    [1e308, -1e308, 1e308],
    [5e-324, -5e-324, 0.0],
    [0.6, 0.8, 0.0],
    [np.nextafter(0.6, 1), np.nextafter(0.8, 1), 0.0],
    [1 / np.sqrt(3)] * 3,
    [np.nextafter(1.0, 2), 0.0, 0.0],
    [np.sqrt(2.0), 0.0, 5e-324],
    [1.0, 1.0, 1.0],
    [2.0**-30, 0.0, 2.0**-80],
    [3.0, -4.0, 12.0],
]
COMPANY = np.array([[0.1, 0.2, -0.3], [100.0, 0.0, 0.0], [-0.7, 0.7, 0.1], [0.5, 0.5, 0.5], [7.0, 1e-3, 2.0]])
BOUNDS = {
    "plain": RowBound(1.0, bits=BITS),
    "shifted and scaled": RowBound(1.5, bits=BITS, shift=(0.1, -0.2, 0.3), scale=(1.0, 3.0, 1e-3)),
    "with a constant": RowBound(1.0, bits=BITS, constant=0.5),
    "unit": RowBound(1.0, bits=BITS, statistic="normalized", scale=(1.0, 3.0, 1e-3)),
}


NORMS = (0.2, 1.0, 30.0)


def statistics(source_of, rows):
    """Return all integer statistics of a table that a reader reads, as tuples of Python integers."""
    found = {}
    for name, bound in BOUNDS.items():
        source = source_of(rows)
        moments = collect(source, partial(SecondMoments, bound, D), progress=False)
        found[name] = (moments.n_rows, *map(int, moments.gram.ravel()))
    shift, scale = np.array([0.1, -0.2, 0.3]), np.array([1.0, 3.0, 1e-3])
    for name, make in {
        "norms": partial(RowSizes, None, None),
        "scaled norms": partial(RowSizes, shift, scale),
        "columns": partial(ColumnCounts, [NORM_GRID, -NORM_GRID[::-1], np.linspace(-2, 2, NORM_GRID.size)]),
    }.items():
        sizes = collect(source_of(rows), make, progress=False)
        found[name] = (sizes.n_rows, *(sizes.n_rows - int(count) for count in np.ravel(sizes.above())))
    sums = collect(source_of(rows), partial(SumsByNorm, BOUNDS["shifted and scaled"], D), progress=False)
    return found | {("sums", norm): (sums.n_rows, *map(int, sums.within(norm))) for norm in NORMS}


def minus(one, other):
    return {name: tuple(a - b for a, b in zip(one[name], other[name], strict=True)) for name in one}


def plain(rows):
    return open_source(np.array(rows, dtype=np.float64))


def strided(rows):
    wide = np.full((2 * len(rows), 2 * D), np.nan)
    wide[::2, ::2] = rows
    return open_source(wide[::2, ::2])


def backwards(rows):
    return open_source(np.array(rows)[:, ::-1].copy()[:, ::-1])


LAYOUTS = {
    "C": plain,
    "F": lambda rows: open_source(np.asfortranarray(rows)),
    "strided": strided,
    "backwards": backwards,
    "pandas": lambda rows: open_source(pd.DataFrame(np.array(rows), columns=list("abc"))),
    "arrow": lambda rows: open_source(pa.table({name: np.array(rows)[:, j].copy() for j, name in enumerate("abc")})),
    "list": lambda rows: open_source([list(map(float, row)) for row in rows]),
    "long double": lambda rows: open_source(np.array(rows, dtype=np.longdouble)),
    "objects": lambda rows: open_source(np.array(rows, dtype=object)),
    "sparse": lambda rows: open_source(scipy.sparse.coo_array(np.array(rows))),
}


# Four that become a plain array at once are for the long run.
SOME_LAYOUTS = [
    pytest.param(name, marks=pytest.mark.heavy) if name in ("backwards", "list", "long double", "objects") else name
    for name in LAYOUTS
]


def written_csv(path, rows, pad=0):
    """Write the rows; `pad` zeros after the numbers of the first one move every later cut between blocks."""
    lines = [",".join(repr(float(x)) for x in row) for row in rows]
    if pad and rows[0][0] == 0.1:
        lines[0] = "0.1" + "0" * pad + lines[0][3:]
    path.write_text("a,b,c\n" + "\n".join(lines) + "\n")
    return open_source(path)


@pytest.fixture(
    params=[1, pytest.param(2, marks=pytest.mark.heavy), None], ids=lambda size: f"{size or 'all'} rows a batch"
)
def batch_size(request, monkeypatch):
    """Cut all tables into batches of so many rows."""
    if request.param is not None:
        monkeypatch.setattr("eigenveil.tables.frames.batch_rows", lambda width: request.param)
        monkeypatch.setattr("eigenveil.tables.arrays.view_rows", lambda n_rows, width: request.param)
        monkeypatch.setattr("eigenveil.tables.arrays.SPARSE_BATCH_ENTRIES", D * request.param)
        monkeypatch.setattr(text, "_BLOCK", 40 * request.param)
    return request.param


OWN = {index: statistics(plain, [row]) for index, row in enumerate(ROWS)}


@pytest.mark.parametrize("layout", SOME_LAYOUTS)
def test_a_row_adds_its_own_share_in_every_layout_batch_and_place(layout, batch_size):
    read = LAYOUTS[layout]
    without = statistics(plain, COMPANY)
    assert statistics(read, COMPANY) == without
    for index, row in enumerate(ROWS):
        for place in (0, len(COMPANY)):
            table = np.insert(COMPANY, place, row, axis=0)
            assert minus(statistics(read, table), without) == OWN[index], (row, place)


@pytest.mark.parametrize("pad", [pytest.param(0, marks=pytest.mark.heavy), 17])
def test_csv_blocks_cut_anywhere(tmp_path, batch_size, pad):
    without = statistics(plain, COMPANY)
    read = partial(written_csv, tmp_path / "table.csv", pad=pad)
    assert statistics(read, COMPANY) == without
    for index, row in enumerate(ROWS):
        assert minus(statistics(read, np.vstack([COMPANY, row])), without) == OWN[index], row


@pytest.mark.parametrize("group", [1, pytest.param(100, marks=pytest.mark.heavy)])
def test_parquet_row_groups_and_parts(tmp_path, batch_size, group):
    def read(rows):
        table = pa.table({name: np.array(rows)[:, j].copy() for j, name in enumerate("abc")})
        paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
        for path, part in zip(paths, (table.slice(0, 2), table.slice(2)), strict=True):
            pq.write_table(part, path, row_group_size=group)
        return open_source(paths)

    without = statistics(plain, COMPANY)
    for index, row in enumerate(ROWS):
        assert minus(statistics(read, np.vstack([COMPANY, row])), without) == OWN[index], row


@pytest.mark.parametrize("partitions", [1, 5])
def test_dask_partitions(partitions):
    frames = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    arrays = pytest.importorskip("dask.array", reason="Dask is not installed")
    without = statistics(plain, COMPANY)
    for index in (2, 3, 5, 8):
        table = np.vstack([COMPANY, ROWS[index]])
        frame = frames.from_pandas(pd.DataFrame(table, columns=list("abc")), npartitions=partitions)
        chunked = arrays.from_array(table, chunks=(-(-len(table) // partitions), 2))
        for data in (frame, chunked):
            assert minus(statistics(lambda _, data=data: open_source(data), table), without) == OWN[index]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8, np.uint8, bool])
def test_other_dtypes_are_their_float64_values(dtype):
    table = np.array([[0, 1, 1], [1, 0, 0], [1, 1, 1], [0, 0, 0]]).astype(dtype)
    if np.dtype(dtype).kind == "f":
        table = (table * 0.7).astype(dtype)
    want = statistics(plain, table.astype(np.float64))
    for read in (open_source, lambda rows: open_source(np.asfortranarray(rows))):
        assert statistics(read, table) == want
    assert statistics(lambda rows: open_source(pd.DataFrame(rows, columns=list("abc"))), table) == want


def test_one_row_changes_the_moments_by_no_more_than_is_proved():
    """|q q'|_F^2 = (q'q)^2 <= grid^2 for one row, and so |q q' - r r'|_F^2 <= 2 grid^2 for two; some come near."""
    for name, bound in BOUNDS.items():
        grid = bound.limit_squared
        shares = [np.array(own[name][1:], dtype=object) for own in OWN.values()]
        assert all(own[name][0] == 1 for own in OWN.values())
        one = max(int((share * share).sum()) for share in shares)
        two = max(int(((a - b) ** 2).sum()) for a in shares for b in shares)
        assert 0.9 * grid**2 < one <= grid**2
        assert grid**2 < two <= 2 * grid**2


@pytest.mark.parametrize("norm", NORMS)
def test_one_row_changes_a_sum_under_any_bound_by_no_more_than_is_proved(norm):
    """|w q| <= 4^bits for one row, and twice that for a row in place of another; some come near."""
    shares = [np.array(own["sums", norm][1:], dtype=object) for own in OWN.values()]
    assert all(own["sums", norm][0] == 1 for own in OWN.values())
    assert 0.8 * 16**BITS < max(int((share * share).sum()) for share in shares) <= 16**BITS
    two = max(int(((a - b) ** 2).sum()) for a in shares for b in shares)
    assert 16**BITS < two <= 4 * 16**BITS


def test_one_row_changes_every_count_by_one_at_most_and_all_one_way():
    for own in OWN.values():
        for name in ("norms", "scaled norms", "columns"):
            n, *counts = own[name]
            assert n == 1
            for column in np.array(counts).reshape(-1, NORM_GRID.size):
                assert set(column) <= {0, 1}
                assert (np.diff(column) >= 0).all()


@pytest.mark.parametrize("width", [1, 2, 50, 1000])
def test_the_quick_rung_is_the_exact_one(width, monkeypatch):
    """Rows whose norm is a rung but for the last bits, where floats summed in two orders disagree."""
    rng = np.random.default_rng(width)
    rows = rng.normal(size=(400, width))
    rows *= (NORM_GRID[rng.integers(0, NORM_GRID.size, 400)] / np.linalg.norm(rows, axis=1))[:, None]
    rows[::2] *= 1 + rng.normal(size=(200, 1)) * 10.0 ** rng.integers(-16, -2, size=(200, 1))
    quick = norm_counts.norm_candidates(rows)
    for layout in (np.asfortranarray(rows), rows[:, ::-1]):
        assert np.array_equal(norm_counts.norm_candidates(layout), quick)
    assert np.array_equal(np.concatenate([norm_counts.norm_candidates(row[None]) for row in rows]), quick)
    monkeypatch.setattr(norm_counts, "doubt", lambda n_features: 1.0)  # every row is asked twice
    assert np.array_equal(norm_counts.norm_candidates(rows), quick)
    integers, exponents, squared = norm_counts.integer_rows(rows)
    exact = [sum(int(entry) ** 2 for entry in row) for row in integers]
    assert [int(value) for value in squared] == exact
    # In fractions: the first rung whose square is no smaller, squares being 2^(j/4) rounded to 53 bits.
    quarters = [Fraction(float(np.sqrt(np.sqrt(2.0**i)))) for i in range(4)]
    squares = [quarters[j % 4] * Fraction(2) ** (j // 4) for j in range(-240, 241)]
    want = [bisect_left(squares, N * Fraction(4) ** int(s)) for N, s in zip(exact, exponents, strict=True)]
    assert quick.tolist() == want


def test_control_float_norms_depend_on_the_batch():
    """What the counts rested on before: a norm of 1 by one order of summation, above 1 by another."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 50))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    together = np.einsum("ij,ij->i", np.asfortranarray(rows), np.asfortranarray(rows)) <= 1
    alone = np.array([np.einsum("ij,ij->i", row[None], row[None])[0] <= 1 for row in rows])
    assert (together != alone).any()
    sizes = [RowSizes(None, None).update(np.asfortranarray(rows)), RowSizes(None, None)]
    for row in rows:
        sizes[1].update(row[None])
    assert np.array_equal(sizes[0].above(), sizes[1].above())


def ring_gram(read, rows, kind="spatial_sign", scale=None):
    model = PrivateCovariance(statistic=kind, schema=None if scale is None else scales(*scale))
    parameters = FitParameters.of(model)
    preparation = prepared(parameters, model._needs(), Features.declared(D, parameters))
    moments = whole_moments(read(rows), preparation)
    return moments.n_samples, tuple(map(int, moments.gram.ravel()))


@pytest.mark.parametrize("layout", SOME_LAYOUTS)
@pytest.mark.parametrize(
    ("kind", "scale"),
    [("spatial_sign", None), ("spatial_sign", (1.0, 1e-3, 1e130)), ("kendall", None)],
    ids=["plain", "scaled", "kendall"],
)
def test_comparisons_are_the_same_in_every_layout_and_batch(layout, kind, scale, batch_size):
    rows = np.vstack([COMPANY, *ROWS])
    assert ring_gram(LAYOUTS[layout], rows, kind, scale) == ring_gram(plain, rows, kind, scale)


def test_batches_of_the_reader_are_the_ones_that_are_cut(batch_size):
    """Control: the cuts above are cuts."""
    blocks = [block.shape[0] for block in plain(COMPANY).batches()]
    assert max(blocks) == (batch_size or len(COMPANY))
    assert base.batch_rows(D) > len(COMPANY)


def test_a_row_added_at_the_end_of_a_full_batch_moves_no_other_row():
    """The attack on version 0.1.0: alone in its batch the last row was longer than 1, with company it was not."""
    rng = np.random.default_rng(0)
    while True:
        row = rng.normal(size=50)
        row /= np.linalg.norm(row)
        batches = [np.asfortranarray(np.tile(row, (count, 1))) for count in (1, 2)]
        alone, with_company = (np.sqrt(np.einsum("ij,ij->i", batch, batch)[0]) for batch in batches)
        if alone > 1 >= with_company:
            break
    table = np.zeros((base.batch_rows(50) + 1, 50))
    table[:, 0] = 100.0
    table[-1] = row
    added = np.zeros((1, 50))
    added[0, 0] = 0.1
    counts = [
        collect(open_source(pd.DataFrame(rows).rename(columns=str)), partial(RowSizes, None, None), progress=False)
        for rows in (table, np.vstack([table, added]))
    ]
    assert {*(counts[1].above() - counts[0].above())} == {0, 1}
