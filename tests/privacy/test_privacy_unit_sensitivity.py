"""Sensitivity by brute force through the whole reader, where one person with all of their rows is the unit.

What a person adds is read off the reader by themselves. Then tables with that person among others, their rows scattered
and read in every way there is, must differ from the table without them by exactly that, in Python integers; and any two
such shares differ by no more than the table of sensitivities says.
"""

import itertools
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from eigenveil import Adjacency, RowBound, SecondMoments
from eigenveil.accounting import sensitivity
from eigenveil.moments.counts import NORM_GRID, RowSizes
from eigenveil.moments.sums import SumsByNorm
from eigenveil.tables import base, text
from eigenveil.tables.open import collect, open_table

D, BITS = 3, 8
NAMES = list("abc")
TURNS = np.random.default_rng(8).normal(size=(40, D))
# Extremes: one row and many, at the bound together and one bit beside it, overflow, subnormal numbers, zeros, rank 3.
PRIVACY_UNITS = {
    "one row at the bound": [[0.6, 0.8, 0.0]],
    "one bit beyond": [[np.nextafter(0.6, 1), np.nextafter(0.8, 1), 0.0]],
    "fifty rows of norm 1": [[1.0, 0.0, 0.0]] * 50,
    "another way": [[0.0, 0.0, -1.0]] * 50,
    "two that share the bound": [[0.6, 0.0, 0.0], [0.0, 0.8, 0.0]],
    "three that pass it by a bit": [[0.6, 0.0, 0.0], [0.0, 0.8, 0.0], [0.0, 0.0, 2.0**-BITS]],
    "all around and long": (1e6 * TURNS).tolist(),
    "beyond float64": [[1e308, -1e308, 1e308], [5e-324, 0.0, -5e-324], [-0.0, 1.0, 0.0]],
    "nothing but zeros": [[0.0, 0.0, 0.0]] * 7,
    "one long row among short ones": [[0.1, 0.0, 0.0]] * 9 + [[0.0, 30.0, 0.0]],
}
COMPANY = {
    "ann": [[0.1, 0.2, -0.3], [7.0, 1e-3, 2.0], [0.5, 0.5, 0.5]],
    "bob": [[100.0, 0.0, 0.0]],
    "cy": [[-0.7] * 3] * 4,
}
NORMS = (0.2, 1.0, 30.0)
SHIFT, SCALE = (0.1, -0.2, 0.3), (1.0, 3.0, 1e-3)
BOUNDS = {
    (weight, name): RowBound(norm, bits=BITS, unit_weight=weight, **more)
    for weight in ("equal", "by_rows")
    for name, norm, more in (
        ("plain", 1.0, {}),
        ("shifted and scaled", 1.5, {"shift": SHIFT, "scale": SCALE}),
        ("with a constant", 1.0, {"constant": 0.5}),
    )
}


def statistics(source):
    """Return all integer statistics of persons that a reader reads, as tuples of Python integers."""
    found = {}
    for name, bound in BOUNDS.items():
        moments = collect(source, partial(SecondMoments, bound, D), progress=False)
        found[name] = (moments.n_samples, *map(int, moments.gram.ravel()))
    for weight in ("equal", "by_rows"):
        sizes = collect(source, partial(RowSizes, None, None, unit_weight=weight), progress=False)
        found[weight, "norms"] = (sizes.n_rows, *(sizes.n_rows - int(count) for count in sizes.above()))
    by_norm = collect(source, partial(SumsByNorm, RowBound(1.0, bits=BITS, unit_weight="equal"), D), progress=False)
    for norm in NORMS:
        found["persons", norm] = (by_norm.n_rows, *map(int, by_norm.within(norm)))
    return found


def table_of(privacy_units, order):
    """Return rows and identifiers: person after person, row after row in turn, or shuffled."""
    listed = [(name, row) for name, rows in privacy_units.items() for row in rows]
    if order == "in turn":
        listed = [
            one
            for turn in itertools.zip_longest(*([(name, row) for row in rows] for name, rows in privacy_units.items()))
            for one in turn
            if one is not None
        ]
    if order == "shuffled":
        listed = [listed[place] for place in np.random.default_rng(len(listed)).permutation(len(listed))]
    return np.array([row for _, row in listed]), np.array([name for name, _ in listed])


def frame_of(rows, ids):
    return pd.DataFrame(rows, columns=NAMES).assign(who=ids)[["a", "who", "b", "c"]]


def parts_of(frame, count):
    """Cut a table anywhere, so that a person's rows lie in several parts."""
    return [frame.iloc[low:high] for low, high in itertools.pairwise(np.linspace(0, len(frame), count + 1, dtype=int))]


def csv_files(folder, rows, ids):
    paths = []
    for number, part in enumerate(parts_of(frame_of(rows, ids), 3)):
        lines = [",".join([repr(a), str(who), repr(b), repr(c)]) for a, who, b, c in part.itertuples(index=False)]
        paths.append(folder / f"{number}.csv")
        paths[-1].write_text("\n".join(["a,who,b,c", *lines, ""]))
    return open_table(paths, privacy_unit="who")


def parquet_files(folder, rows, ids):
    paths = []
    for number, part in enumerate(parts_of(frame_of(rows, ids), 2)):
        paths.append(folder / f"{number}.parquet")
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), paths[-1], row_group_size=2)
    return open_table(paths, privacy_unit="who")


READERS = {
    "array": lambda _, rows, ids: open_table(rows, privacy_unit=ids),
    "F": lambda _, rows, ids: open_table(np.asfortranarray(rows), privacy_unit=list(ids)),
    "sparse": lambda _, rows, ids: open_table(scipy.sparse.csr_array(rows), privacy_unit=ids),
    "pandas": lambda _, rows, ids: open_table(frame_of(rows, ids), privacy_unit="who"),
    "arrow": lambda _, rows, ids: open_table(pa.Table.from_pandas(frame_of(rows, ids)), privacy_unit="who"),
    "csv": csv_files,
    "parquet": parquet_files,
}
OWN = {
    name: statistics(open_table(np.array(rows), privacy_unit=[name] * len(rows)))
    for name, rows in PRIVACY_UNITS.items()
}
WITHOUT = statistics(open_table(table_of(COMPANY, "")[0], privacy_unit=table_of(COMPANY, "")[1]))


def plus(*shares):
    return {name: tuple(map(sum, zip(*(share[name] for share in shares), strict=True))) for name in shares[0]}


@pytest.fixture(params=[3, None], ids=lambda size: f"{size or 'all'} rows a batch")
def batch_size(request, monkeypatch):
    """Cut all tables into batches of so many rows; persons are never cut."""
    if request.param is not None:
        monkeypatch.setattr(base, "BATCH_BYTES", 8 * D * request.param)
        monkeypatch.setattr(text, "_BLOCK", 40 * request.param)


@pytest.mark.parametrize(
    "order",
    [
        pytest.param("after each other", marks=pytest.mark.heavy),
        pytest.param("in turn", marks=pytest.mark.heavy),
        "shuffled",
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_a_person_adds_their_own_share_wherever_their_rows_lie(reader, order, batch_size, tmp_path):
    read = partial(READERS[reader], tmp_path)
    assert statistics(read(*table_of(COMPANY, order))) == WITHOUT
    # Neighbours of each other: tables with some of them, and then with one more or less.
    for number in (0, 2, 6):
        some = list(PRIVACY_UNITS)[number:]
        found = statistics(read(*table_of({**COMPANY, **{name: PRIVACY_UNITS[name] for name in some}}, order)))
        assert found == plus(WITHOUT, *(OWN[name] for name in some)), some


def test_every_person_adds_their_own_share_alone(batch_size):
    for name, rows in PRIVACY_UNITS.items():
        for privacy_units in ({**COMPANY, "zoe": rows}, {"zoe": rows, **COMPANY}):
            rows_of_all, ids = table_of(privacy_units, "in turn")
            assert statistics(open_table(rows_of_all, privacy_unit=ids)) == plus(WITHOUT, OWN[name]), name


@pytest.mark.parametrize("partitions", [5])
def test_a_person_adds_their_own_share_over_dask_partitions(partitions):
    frames = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    for some in (list(PRIVACY_UNITS), list(PRIVACY_UNITS)[2:]):
        frame = frame_of(*table_of({**COMPANY, **{name: PRIVACY_UNITS[name] for name in some}}, "shuffled"))
        source = open_table(frames.from_pandas(frame, npartitions=partitions), privacy_unit="who")
        assert statistics(source) == plus(WITHOUT, *(OWN[name] for name in some))


@pytest.mark.parametrize("bound", BOUNDS, ids=" ".join)
def test_two_persons_differ_by_no_more_than_the_table_says(bound):
    grid, width = BOUNDS[bound].limit_squared, D + (BOUNDS[bound].constant is not None)
    assert all(own[bound][0] == 1 for own in OWN.values())
    shares = [np.array(own[bound][1:], dtype=object).reshape(width, width) for own in OWN.values()]
    for adjacency in Adjacency:
        added = adjacency is Adjacency.ADD_OR_REMOVE_ONE
        changes = shares if added else [one - other for one in shares for other in shares]
        squared = [int((change * change).sum()) for change in changes]
        # Under add/remove n - tr C leaves beside the matrix: one person more adds the grid less their trace.
        beside = [int(np.trace(change)) - (grid if added else 0) for change in changes]
        assert 0.8 * grid**2 < max(squared) <= sensitivity.frobenius_squared(adjacency) * grid**2
        both = max(s + b * b for s, b in zip(squared, beside, strict=True))
        assert both <= sensitivity.frobenius_with_trace_squared(adjacency) * grid**2
        upper = [int(sum(abs(change[i, j]) for i in range(width) for j in range(i, width))) for change in changes]
        assert max(upper) ** 2 <= sensitivity.upper_triangle_l1_squared(adjacency, width) * grid**2
        values = np.linalg.eigvalsh(np.array(changes, dtype=np.float64)) / grid
        assert np.abs(values).sum(axis=1).max() <= float(sensitivity.nuclear(adjacency)) + 1e-9
        assert np.maximum(values, 0).sum(axis=1).max() <= 1 + 1e-9
        assert values.min() >= (-1e-9 if added else -1 - 1e-9)


def test_one_person_moves_counts_one_way_by_one_and_sums_within_the_bound():
    for own in OWN.values():
        for weight in ("equal", "by_rows"):
            n, *counts = own[weight, "norms"]
            assert n == 1
            assert len(counts) == NORM_GRID.size
            assert counts == sorted(counts)
            assert set(counts) <= {0, 1}
        for norm in NORMS:
            n, *total = own["persons", norm]
            assert n == 1
            assert sum(entry * entry for entry in total) <= 16**BITS


def test_control_rows_clipped_one_by_one_pass_the_table(monkeypatch):
    def one_by_one(grid, starts, bits, constant, average):
        del starts, average
        squared = np.einsum("ij,ij->i", grid, grid)
        grid *= np.minimum(1.0, 2.0**bits / np.sqrt(np.maximum(squared, 1.0)))[:, None]
        np.trunc(grid, out=grid)
        return np.full(len(grid), float(constant))

    monkeypatch.setattr("eigenveil.moments.kernels.compiled", lambda: None)
    monkeypatch.setattr("eigenveil.moments.bound.units_together", one_by_one)
    rows = np.array(PRIVACY_UNITS["fifty rows of norm 1"])
    found = statistics(open_table(rows, privacy_unit=["x"] * len(rows)))
    for bound in BOUNDS:
        share = np.array(found[bound][1:], dtype=object)
        if bound[1] != "shifted and scaled":
            assert int((share * share).sum()) > BOUNDS[bound].limit_squared ** 2
