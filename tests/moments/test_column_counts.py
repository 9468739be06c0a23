"""Counts of columns: what a naive count gives, compiled or by NumPy, whatever the cuts, the layout and the numbers."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenveil.errors import InvalidDataError
from eigenveil.moments import column_counts, kernels, numpy_kernels
from eigenveil.moments.column_counts import SIZES, ColumnCounts, RangeCounts
from eigenveil.moments.comparisons import public_order

SOURCE = Path(kernels.__file__).with_name("column_counts.c")
FLAGS = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared"]
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
def way(request, tmp_path_factory):
    """Count by what is compiled here, whether the package was installed with it or not, and by NumPy."""
    path = tmp_path_factory.mktemp("compiled") / "compiled_pass.so"
    if request.param == "compiled":
        if shutil.which("cc") is None or sys.platform == "win32":
            pytest.skip("no compiler")
        subprocess.run(["cc", *FLAGS, str(SOURCE), "-o", str(path), "-lm"], check=True)
    caches = column_counts._compiled, kernels._compiled_order
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_LIBRARY", path)
        for cache in caches:
            cache.cache_clear()
            assert (cache() is None) == (request.param == "numpy")
        yield request.param
    for cache in caches:
        cache.cache_clear()


def naive_above(numbers, points):
    return [sum(number > point for number in numbers) for point in points]


def octaves_from(half):
    positive = 2.0 ** (half // 2) * (2**0.5 if half % 2 else 1.0) * 2.0 ** np.arange(5)
    return np.concatenate([-positive[::-1], positive])


@given(TABLES, CUTS, st.integers(-200, 313), st.booleans())
@settings(max_examples=60)
def test_pairs_and_numbers_are_those_of_a_naive_count(way, table, cuts, half, by_column):
    rows, block = np.array(table), 10
    columns = range(rows.shape[1])[::-1]
    laid_out = np.asfortranarray(rows) if by_column else rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_counts, "block_rows", lambda _: block)
        counts = RangeCounts(columns).update_from(np.split(laid_out, sorted(min(cut, len(rows)) for cut in cuts)))
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


@given(TABLES, st.lists(ENTRIES, min_size=1, max_size=20, unique=True), st.integers(2, 20), st.booleans())
@settings(max_examples=60)
def test_counts_between_any_points_are_those_of_a_naive_count(way, table, some, many, by_column):
    rows = np.array(table)
    kinds = [np.sort(some) + 0.0, np.linspace(-3, 2, many), np.array([0.25])]
    points = kinds[: rows.shape[1]]
    counts = ColumnCounts(points).update(np.asfortranarray(rows) if by_column else rows)
    for at, above in enumerate(counts.above()):
        assert above.tolist() == naive_above([row[at] for row in table], points[at])


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 2, 4])
def test_a_number_that_is_none_is_refused_in_every_column(way, entry, at):
    rows = np.zeros((5, 2))
    rows[at, 1] = entry
    with pytest.raises(InvalidDataError, match="NaN or infinity"):
        RangeCounts([0]).update_from([rows])
    with pytest.raises(InvalidDataError, match="NaN or infinity"):
        ColumnCounts([np.array([0.0])], [1]).update(rows)


@pytest.mark.parametrize("first", [1, 2**40 + 1, 2**64 - 3])
def test_the_order_of_hashes_is_the_same(way, first):
    for n in (0, 1, 2, 3, 1000, 4097):
        assert np.array_equal(kernels.places_by_hash(first, n), numpy_kernels.places_by_hash(first, n))


def test_points_that_were_not_counted_are_refused(way):
    """A control: what `at` returns for other points would be no count of numbers between them."""
    counts = RangeCounts([0]).update_from([np.ones((4, 1))])
    with pytest.raises(AssertionError):
        counts.at([np.array([0.3])])
