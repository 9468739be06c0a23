"""Counts of columns: what a naive count gives, compiled or by NumPy, whatever the cuts, the layout and the numbers."""

import pickle
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenveil.errors import InvalidDataError
from eigenveil.moments import column_counts, kernels, numpy_kernels
from eigenveil.moments.column_counts import ColumnCounts, RangeCounts, SizesAndColumns
from eigenveil.moments.comparisons import public_order
from eigenveil.moments.counts import RowSizes
from eigenveil.moments.numpy_kernels import SIZES
from helpers import refused

# Powers of the root of 2, numbers a bit beside them, numbers that differ by a bit, and the extreme ones.
POWERS = [float(2.0 ** (half // 2) * (2**0.5 if half % 2 else 1.0)) for half in (-2101, -2000, -201, -3, 0, 1, 7, 321)]
BESIDE = [float(np.nextafter(one, end)) for one in POWERS for end in (0.0, np.inf)]
NUMBERS = [*POWERS, *BESIDE, 0.0, 5e-324, 0.3, 1e300, 1.7e308]
ENTRIES = st.sampled_from([*NUMBERS, *(-number for number in NUMBERS)]) | st.floats(-4, 4)
TABLES = st.integers(1, 3).flatmap(
    lambda d: st.lists(st.lists(ENTRIES, min_size=d, max_size=d), min_size=1, max_size=30)
)
CUTS = st.lists(st.integers(0, 30), max_size=4)


@pytest.fixture(scope="module", params=["compiled", "numpy"])
def way(request):
    """Count by the compiled kernels, and by NumPy."""
    if request.param == "compiled":
        if kernels.compiled() is None:
            pytest.skip("installed without a compiler")
        yield request.param
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "compiled", lambda: None)
        yield request.param


LAYOUTS = st.sampled_from(
    [
        lambda rows: rows,
        np.asfortranarray,
        lambda rows: kernels.RowsByColumn([column.copy() for column in rows.T]),
    ]
)


def naive_above(numbers, points):
    return [sum(number > point for number in numbers) for point in points]


def octaves_from(half):
    positive = 2.0 ** (half // 2) * (2**0.5 if half % 2 else 1.0) * 2.0 ** np.arange(5)
    return np.concatenate([-positive[::-1], positive])


@given(TABLES, CUTS, st.integers(-200, 313), LAYOUTS)
@settings(max_examples=60)
def test_pairs_and_numbers_are_those_of_a_naive_count(way, table, cuts, half, layout):
    rows, block = np.array(table), 10
    columns = range(rows.shape[1])[::-1]
    laid_out, ends = layout(rows), [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_counts, "block_rows", lambda _: block)
        counts = RangeCounts(columns).update_from([laid_out[low:high] for low, high in pairwise(ends)])
    pairs = []
    for number, start in enumerate(range(0, len(rows), block)):
        ordered = [table[start + at] for at in public_order(min(block, len(rows) - start), number)]
        pairs += [(one, other) for one, other in zip(ordered[::2], ordered[1::2], strict=False)]
    assert (counts.n_rows, counts.pairs.n_rows) == (len(rows), len(pairs))
    points, found, sizes = octaves_from(half), [], counts.pairs.above()
    found = counts.at([points] * len(columns)).above()
    for at, column in enumerate(columns):
        assert found[at].tolist() == naive_above([row[column] for row in table], points)
        apart = [abs(0.5 * one[column] - 0.5 * other[column]) for one, other in pairs]
        assert sizes[at].tolist() == naive_above(apart, SIZES)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_columns_in_parts_are_counted_as_one_wherever_the_parts_lie(way, kind):
    """Parts of one array follow one another in memory; a part that lies elsewhere must not be read from there."""
    rows = np.asfortranarray(np.random.default_rng(0).standard_normal((40, 3)).astype(kind))
    apart = [rows[:10], np.asfortranarray(rows[10:25]), rows[25:]]
    counted = [RangeCounts([0, 2]).update_from(parts) for parts in ([rows], [rows[:10], rows[10:25], rows[25:]], apart)]
    for one in counted[1:]:
        assert np.array_equal(one._pairs, counted[0]._pairs)
        assert np.array_equal(one._values, counted[0]._values)


@given(TABLES, st.lists(ENTRIES, min_size=1, max_size=20, unique=True), st.integers(2, 20), LAYOUTS)
@settings(max_examples=60)
def test_counts_between_any_points_are_those_of_a_naive_count(way, table, some, many, layout):
    rows = np.array(table)
    kinds = [np.sort(some) + 0.0, np.linspace(-3, 2, many), np.array([0.25])]
    points = kinds[: rows.shape[1]]
    counts = ColumnCounts(points).update(layout(rows))
    for at, above in enumerate(counts.above()):
        assert above.tolist() == naive_above([row[at] for row in table], points[at])


@pytest.mark.parametrize("d", [1, 70])
@pytest.mark.parametrize("step", [1.0, 1 / 3, 1e300])
def test_numbers_on_even_points_and_a_bit_beside_them_are_counted_where_they_lie(way, d, step):
    """Points as ranges are searched by, of which the place of a number is guessed: the guess is never trusted there."""
    points = [-step * (30 + column % 7) + step * np.arange(1, 101 - column % 5) for column in range(d)]
    on = np.column_stack([np.resize(places, 120) for places in points])
    rows = np.concatenate([np.nextafter(on, -np.inf), on, np.nextafter(on, np.inf), on * 1.003, -3 * on])
    columns = list(range(d))[::-1]
    for table in (rows, np.asfortranarray(rows), kernels.RowsByColumn([column.copy() for column in rows.T])):
        counts = ColumnCounts([points[column] for column in columns], columns).update(table)
        for column, above in zip(columns, counts.above(), strict=True):
            assert np.array_equal(above, (rows[:, [column]] > points[column]).sum(axis=0))


@pytest.mark.parametrize("kind", ["f4", "i8", "i2", "u1", "?", "f2"])
def test_numbers_of_other_types_are_counted_as_float64(way, kind):
    rows = np.random.default_rng(0).integers(0, 200, (90, 3)).astype(kind)
    points = [np.arange(20.0) * 7, np.array([3.0, 60.0]), np.array([0.0])]
    for table in (rows, np.asfortranarray(rows), kernels.RowsByColumn([column.copy() for column in rows.T])):
        wide, its = (ColumnCounts(points).update(one).above() for one in (rows.astype(np.float64), table))
        assert all(map(np.array_equal, wide, its))
        wide, its = (RangeCounts([2, 0]).update_from([one]) for one in (rows.astype(np.float64), table))
        assert np.array_equal(wide._pairs, its._pairs)
        assert np.array_equal(wide._values, its._values)


@pytest.mark.parametrize("d", [63, 515, 1030])
@pytest.mark.parametrize("n", [1, 2, 67])
def test_wide_rows_are_counted_as_by_numpy(d, n):
    """As wide as what is counted at once, and wider; some columns are not counted."""
    rows = np.random.default_rng(d).standard_normal((n, d)) * np.exp2(np.arange(d) % 40 - 20)
    columns, order = [column for column in range(d) if column % 7 != 3][::-1], public_order(n)
    points = [np.linspace(-2, 2, 9 + column % 5) for column in columns]
    for table in (rows, np.asfortranarray(rows)):
        found = kernels.kernels_for(table)
        pairs = (way.count_pairs([table], order, columns) for way in (found, numpy_kernels))
        assert all(map(np.array_equal, *pairs))
        between = (way.between(table, points, columns) for way in (found, numpy_kernels))
        assert all(map(np.array_equal, *between))
    rows[n // 2, 3] = np.nan  # not counted, and refused
    with refused(InvalidDataError):
        RangeCounts(columns).update_from([rows])


def test_norms_and_columns_of_one_reading_are_those_of_two(way):
    rows = np.random.default_rng(0).standard_normal((500, 20))
    columns, shift, scale = [5, 0], np.full(20, 0.2), np.linspace(0.5, 3.0, 20)
    points = [np.linspace(-2, 2, 30), np.array([-1.0, 0.0, 1.0])]
    make = partial(SizesAndColumns, shift, scale, None, points, columns)
    sizes, counts = RowSizes(shift, scale).update(rows), ColumnCounts(points, columns).update(rows)
    both = pickle.loads(pickle.dumps(make().update(rows[:200]))) + make().update_from([rows[200:]])
    assert both.n_rows == both.columns.n_rows == 500
    assert np.array_equal(both.above(), sizes.above())
    assert all(map(np.array_equal, both.columns.above(), counts.above()))


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 70])
def test_one_reading_refuses_numbers_that_are_none_in_every_column(way, entry, at):
    for column in (0, 1):
        rows = np.ones((80, 2))
        rows[at, column] = entry
        with pytest.raises(InvalidDataError, match="NaN or infinity"):
            SizesAndColumns(None, None, None, [np.linspace(0, 2, 20)], [1]).update(rows)


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 2, 4])
def test_a_number_that_is_none_is_refused_in_every_column(way, entry, at):
    rows = np.zeros((5, 2))
    rows[at, 1] = entry
    for table in (rows, np.asfortranarray(rows)):
        for columns in ([0], [1]):
            with pytest.raises(InvalidDataError, match="NaN or infinity"):
                RangeCounts(columns).update_from([table])
    with pytest.raises(InvalidDataError, match="NaN or infinity"):
        ColumnCounts([np.array([0.0])], [1]).update(rows)


@pytest.mark.parametrize("first", [1, 2**40 + 1, 2**64 - 3])
def test_the_order_of_hashes_is_the_same(first):
    found = kernels.compiled() or numpy_kernels
    for n in (0, 1, 2, 3, 1000, 4097):
        assert np.array_equal(found.places_by_hash(first, n), numpy_kernels.places_by_hash(first, n))


def test_points_that_were_not_counted_are_refused(way):
    """A control: what `at` returns for other points would be no count of numbers between them."""
    counts = RangeCounts([0]).update_from([np.ones((4, 1))])
    with pytest.raises(AssertionError):
        counts.at([np.array([0.3])])
