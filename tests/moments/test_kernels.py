"""The compiled kernels give the integers of NumPy, number for number, and are not used where they do not."""

import copy
import dataclasses
import pickle

import numpy as np
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenveil import RowBound, SecondMoments, numerics
from eigenveil.errors import InvalidDataError
from eigenveil.moments import kernels, numpy_kernels
from eigenveil.moments.comparisons import NeighbourDifferences, chosen_rows
from eigenveil.moments.counts import NORM_GRID, RowSizes, doubt, norm_candidates, norm_table
from eigenveil.moments.kernels import RowsByColumn
from eigenveil.moments.numpy_kernels import EXACT_LIMIT, SINGLE_BITS, Comparing, Shortening
from eigenveil.moments.sums import SumsByNorm
from eigenveil.moments.units import Blocks
from eigenveil.tables.open import open_table
from made_units import WEIGHTS, visits
from sums_by_hand import sum_by_hand

RNG = np.random.default_rng(7)
NORMS = (0.4, 3.0)
SPECIAL = np.array([0.0, -0.0, 5e-324, -2e-308, 1e-300, 0.5, 2.0**52 + 0.5, 1e150, -1e308, np.inf, -np.inf, np.nan])


@pytest.fixture(scope="module")
def library():
    """The passes that the package was installed with, which must agree with NumPy to be used at all."""
    if not numerics.LIBRARY.exists():
        pytest.skip("installed without a compiler")
    found = kernels.compiled()
    assert found is not None
    return found


def tables():
    for d in (1, 3, 8, 19, 40):
        near = np.rint(RNG.normal(size=(50, d)) * 40) / 7 * (1 + RNG.integers(-2, 3, (50, d)) * 2.0**-52)
        yield near
        yield RNG.normal(size=(30, d)) * 10.0 ** RNG.integers(-320, 300, (30, d))
        yield RNG.choice(SPECIAL, size=(60, d))


@pytest.mark.parametrize("bits", [None, 2, 24])
def test_integers_and_norms_are_those_of_numpy(library, bits):
    for rows in tables():
        d = rows.shape[1]
        for shift, factor in ((None, np.array(7.0)), (RNG.normal(size=d), np.exp(RNG.normal(size=d)))):
            ours, its = np.empty(rows.shape), np.empty(rows.shape)
            squared = numpy_kernels.integers(rows, shift, factor, bits, ours)
            found = library.integers(rows, shift, factor, bits, its)
            assert np.array_equal(np.isnan(ours), np.isnan(its))
            assert np.array_equal(np.nan_to_num(ours), np.nan_to_num(its))
            exact = squared < EXACT_LIMIT
            assert np.array_equal(squared[exact], found[exact])
            assert np.array_equal(exact, found < EXACT_LIMIT)
            assert np.array_equal(*(norms_counted(way, rows, shift, factor) for way in (numpy_kernels, library)))


def norms_counted(way, rows, shift, factor):
    """Return counts of norms; which rows are left, and added here, depends on how their squares are summed."""
    counts = np.zeros(NORM_GRID.size + 1, dtype=np.int64)
    left = way.count_by_norm(rows, shift, factor, norm_table(doubt(rows.shape[1]), np.empty((0, 0))), counts)
    assert np.all(np.diff(left) > 0)
    assert counts.sum() + left.size == rows.shape[0]
    ordinary = left[np.isfinite(rows[left]).all(axis=1)]
    with np.errstate(over="ignore"):
        changed = factor * (rows[ordinary] - (0.0 if shift is None else shift))
    return counts + np.bincount(norm_candidates(changed), minlength=counts.size)


@pytest.mark.parametrize("width", [1, 3, 8, 21])
def test_rows_are_put_at_their_places(library, width):
    rows, places = RNG.normal(size=(100, width)), RNG.permutation(130)[:100]
    rows[3], rows[4] = np.nan, 1e-310
    wanted = np.zeros((130, width))
    wanted[places] = rows
    lying = (rows, np.asfortranarray(rows), np.repeat(rows, 2, axis=1)[:, ::2], kernels.RowsByColumn(list(rows.T)))
    for some in lying:
        out = np.zeros((130, width))
        assert not library.put_rows(some, places, out)
        assert np.array_equal(out, wanted, equal_nan=True)
        for part in (slice(0), slice(3), slice(4, None)):
            assert library.put_rows(some[part], places[part], out)
    assert np.array_equal(out, wanted, equal_nan=True)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", [(0, 0), (33, 18), (99, 7)])
def test_numbers_that_are_not_finite_are_noticed_wherever_rows_are_put(library, number, place):
    rows = RNG.normal(size=(100, 19))
    rows[place] = number
    for some in (rows, np.asfortranarray(rows), rows.astype(np.float32)):
        assert not library.put_rows(some, np.arange(100), np.empty((100, 19)))


KERNELS = ("integers", "add_products", "add_unit_products", "compared_integers", "add_compared")


@pytest.mark.parametrize("wrong", KERNELS)
@pytest.mark.parametrize("column", [0, 7, 18])
def test_a_wrong_rounding_is_noticed(library, column, wrong):
    """One factor is a bit off: of the row rule, of a unit, or of comparisons."""
    if wrong in ("add_products", "add_unit_products", "add_compared") and not library.multiplies:
        pytest.skip("the processor has no wide registers, so BLAS multiplies")
    error = np.ones(19)
    error[column] += 2.0**-52 if wrong == "integers" else 1e-3 if "compared" in wrong else 1e-9

    class Wrong:
        def __getattr__(self, name):
            def call(rows, *given):
                if wrong in ("integers", "add_products"):
                    shift, factor, *others = given
                    return getattr(library, name)(rows, shift, factor * error, *others)
                other, how, *others = given
                part = "factor" if wrong == "add_unit_products" else "scale"
                how = dataclasses.replace(how, **{part: getattr(how, part) * error})
                return getattr(library, name)(rows, other, how, *others)

            return call if name == wrong else getattr(library, name)

    assert kernels._agrees(library)
    assert not kernels._agrees(Wrong())


def layouts(rows):
    padded = np.empty((rows.shape[0], rows.shape[1] + 3))
    padded[:, 1:-2] = rows
    shifted = np.frombuffer(b"x" + rows.tobytes(), dtype=np.uint8)[1:].view(np.float64).reshape(rows.shape)
    return {
        "as it is": rows,
        "columns": np.asfortranarray(rows),
        "every second": np.repeat(rows, 2, axis=0)[::2],
        "backwards": rows[::-1].copy()[::-1],
        "inside another": padded[:, 1:-2],
        "every second column": np.repeat(rows, 2, axis=1)[:, ::2],
        "not aligned": shifted,
        "columns apart": RowsByColumn([column.copy() for column in rows.T]),
        "columns of any stride": RowsByColumn([np.repeat(column, 2)[::2][::-1].copy()[::-1] for column in rows.T]),
        "other bytes": rows.astype(">f8"),
    }


@pytest.mark.parametrize("cores", [1, 2])
def test_every_layout_gives_the_same_statistics_with_and_without(library, monkeypatch, cores):
    monkeypatch.setattr(numerics, "available_cores", lambda: cores)
    rows = RNG.normal(size=(400, 11)) * np.exp(RNG.normal(size=(400, 1)))
    rows[7] = 1e200  # longer than any square
    shift, scale = RNG.normal(size=11), np.exp(RNG.normal(size=11))
    for bound in (
        RowBound(3.0),
        RowBound(3.0, shift=shift, scale=scale, constant=1.0),
    ):
        found = []
        for compiled in (library, None):
            monkeypatch.setattr(kernels, "compiled", lambda compiled=compiled: compiled)
            for layout in layouts(rows).values():
                batches = [layout[:100], layout[100:350], layout[350:]]
                moments = SecondMoments(bound, 11).update_from(batches)
                sizes = RowSizes(shift, scale).update_from(batches)
                by_norm = SumsByNorm(bound, 11).update_from(batches)
                means = [by_norm.within(norm).tolist() for norm in NORMS]
                found.append([moments.gram.tolist(), sizes.above().tolist(), means])
        assert all(one == found[0] for one in found)
        assert found[0][2] == [sum_by_hand(bound, rows, norm) for norm in NORMS]


TYPES = ["f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1"]
OTHER_TYPES = ["f2", "?", "g", ">f8", ">i4"]
EXTREME = [*SPECIAL.tolist(), 1.5, -3.25, 255.0, -129.0, 2.0**31, 2.0**63, -(2.0**63), 2.0**53 + 2]


@st.composite
def columns(draw):
    """Columns of one length, each of a type and a stride of its own."""
    n, d = draw(st.integers(0, 70)), draw(st.integers(1, 21))
    values = np.array(draw(st.lists(st.sampled_from(EXTREME), min_size=1, max_size=9)))
    made = []
    for place in range(d):
        step = draw(st.sampled_from([1, 1, 2, -1, -3]))
        whole = np.resize(np.roll(values, place) + place, n * abs(step))
        with np.errstate(all="ignore"):
            made.append(whole.astype(draw(st.sampled_from(TYPES * 2 + OTHER_TYPES)))[::step])
    return made


@settings(max_examples=60, deadline=None)
@given(columns=columns(), low=st.integers(0, 40), centred=st.booleans())
def test_columns_of_any_type_and_stride_are_read_as_numpy_reads_them(library, columns, low, centred):
    table = RowsByColumn(columns)[low:]
    rows = np.column_stack([column[low:].astype(np.float64) for column in columns])
    assert table.shape == rows.shape
    assert np.array_equal(np.asarray(table), rows, equal_nan=True)
    some = np.arange(len(rows))[::-3]
    assert np.array_equal(table[some], rows[some], equal_nan=True)
    d = rows.shape[1]
    shift, factor = (np.linspace(-2, 2, d) if centred else None), np.linspace(0.5, 40, d)
    for read in (table, np.asfortranarray(rows)):
        ours, its = np.empty(rows.shape), np.empty(rows.shape)
        norms = numpy_kernels.integers(rows, shift, factor, 6, ours)
        found = library.integers(read, shift, factor, 6, its)
        assert np.array_equal(ours, its, equal_nan=True)
        exact = norms < EXACT_LIMIT
        assert np.array_equal(norms[exact], found[exact])
        ways = (numpy_kernels, rows), (library, read)
        assert np.array_equal(*(norms_counted(way, table, shift, factor) for way, table in ways))
        room = library.room_for_products(d)
        if room is not None:
            library.add_products(read, shift, factor, 6, 0.0, room)
            assert np.array_equal(np.triu(room[:d, :d]), np.triu(ours[exact].T @ ours[exact]))


@pytest.mark.parametrize("d", [1, 8, 47, 48, 49, 159])
@pytest.mark.parametrize("n", [1, 64, 130])
def test_tiles_of_any_width_and_length_give_the_products_and_norms_of_numpy(library, n, d):
    rows = RNG.normal(size=(n, d)) * np.exp(RNG.normal(size=(n, 1)))
    rows[n // 2] = 1e30  # without an exact square
    rows[-1, d // 2] = np.nan if n > 1 else 0.3
    shift, factor, bits, constant = RNG.normal(size=d), np.exp(RNG.normal(size=d)) * 2.0**12, 13, 700.0
    ours = np.empty(rows.shape)
    norms = numpy_kernels.integers(rows, shift, factor, bits, ours)
    exact = norms < EXACT_LIMIT
    whole = np.column_stack([ours, np.full(n, constant)])[exact]
    for name, read in layouts(rows).items():
        if name == "other bytes":  # which nothing was compiled for
            continue
        assert np.array_equal(
            *(norms_counted(way, table, shift, factor) for way, table in ((numpy_kernels, rows), (library, read)))
        )
        room = library.room_for_products(d + 1)
        if room is not None:
            found = library.add_products(read, shift, factor, bits, constant, room)
            assert np.array_equal(found < EXACT_LIMIT, exact), name
            assert np.array_equal(found[exact], norms[exact]), name
            assert np.array_equal(np.triu(room[: d + 1, : d + 1]), np.triu(whole.T @ whole)), name


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda rows: pickle.loads(pickle.dumps(rows))], ids=["copy", "pickle"]
)
def test_a_copy_of_rows_by_column_reads_its_own_memory(copied):
    columns = [np.arange(50.0), np.arange(50)]
    rows = RowsByColumn(columns)[5:]
    again, expected, out = copied(rows), np.asarray(rows), np.empty((45, 2))
    for column in columns:
        column[:] = 7  # what the copy was made of is no longer there
    kernels.kernels_for(again).integers(again, None, np.array(1.0), None, out)
    assert np.array_equal(out, expected)


def test_columns_with_missing_numbers_are_what_they_were():
    polars = pl.DataFrame({"a": [1, None, 3], "b": [0.5, None, float("nan")], "c": [True, False, None]})
    for frame in (polars, polars.to_arrow(), polars.to_pandas()):
        (batch,) = open_table(frame, ["a", "b"]).batches()
        assert np.array_equal(np.asarray(batch), [[1, 0.5], [np.nan, np.nan], [3, np.nan]], equal_nan=True)
        (filled,) = open_table(frame, ["a", "b"], missing=7.0).batches()
        assert filled.tolist() == [[1, 0.5], [7, 7], [3, 7]]


FINITE = [number for number in EXTREME if np.isfinite(number)]


@st.composite
def compared(draw):
    """Rows with ties and numbers of any size, how they are compared, and which of the comparisons are made."""
    d, half, bits = draw(st.integers(1, 40)), draw(st.integers(1, 10)), draw(st.sampled_from([4, 16, 24]))
    n = half + draw(st.integers(1, 40))
    values = np.array(draw(st.lists(st.sampled_from(FINITE), min_size=1, max_size=11)))
    sizes = draw(st.lists(st.sampled_from([1.0, 0.0, -0.5, 2.0**-30]), min_size=1))
    rows = np.resize(values, (n, d)) * np.resize(sizes, (n, 1))
    signs, scaled = draw(st.booleans()), draw(st.booleans())
    large = np.abs(values[np.abs(values) > 1e-290])
    scale = np.resize(large, d) if scaled and large.size and not signs else None
    factor = float(int(2.0**bits / d**0.25) if signs else 2.0**bits)
    low = draw(st.integers(0, (n - half) * half))
    how = Comparing(half, signs, scale, factor, bits)
    return rows, range(low, draw(st.integers(low, (n - half) * half))), how


@settings(max_examples=80, deadline=None)
@given(compared=compared())
def test_comparisons_are_those_of_numpy(library, compared):
    rows, places, how = compared
    ours, d = numpy_kernels.compared_integers(rows, places, how), rows.shape[1]
    which, steps = (numbers.astype(int) for numbers in np.divmod(np.array(places, dtype=int), how.half))
    pairs = rows[how.half + which], rows[how.half + which - 1 - steps]
    assert np.array_equal(numpy_kernels.compared(rows, places, how), numpy_kernels.compared_rows(*pairs, how))
    assert np.array_equal(ours, library.compared_integers(rows, places, how))
    assert (numpy_kernels.squared_norms(ours) <= 4**how.bits).all()
    room = library.room_for_products(d)
    if room is not None and how.bits < 24:  # where so many products are exact
        library.add_compared(rows, places, how, room)
        assert np.array_equal(np.triu(room[:d, :d]), np.triu(ours.T @ ours))


@pytest.mark.parametrize("statistic", ["spatial_sign", "kendall"])
@pytest.mark.parametrize("width", [7, 170])
def test_compared_moments_are_the_same_with_and_without_and_in_any_batches(library, monkeypatch, statistic, width):
    rows = np.round(RNG.normal(size=(60, width)) * 2)  # many ties
    untied = 3 if statistic == "kendall" else None
    bound = RowBound(width**0.5 if untied else 1.0, statistic=statistic, comparisons=8, most_untied=untied)
    found = []
    for compiled in (library, None):
        monkeypatch.setattr(kernels, "compiled", lambda compiled=compiled: compiled)
        for cuts in ([], [3, 4, 20], [59]):
            ring, moments = NeighbourDifferences(bound), SecondMoments(bound, width)
            for part in np.split(rows, cuts):
                moments.update_from(ring.push(part))
            found.append(moments.update_from(ring.closing()))
    assert all(one == found[0] for one in found)
    assert found[0].n_samples == 60


def test_rungs_are_those_of_the_ladder_far_beyond_its_ends_too(library):
    lengths = np.array([0.0, 1e-320, 1e-12, 2.0**-31, 2.0**-30, 1.0, 2.0**30, 2.0**30.01, 2.0**31, 1e200])
    candidates = norm_candidates(lengths[:, None])
    assert candidates.tolist()[:5] == [0, 0, 0, 0, 0]
    assert candidates.tolist()[5:] == [240, 480, 481, 481, 481]
    counted = RowSizes(None, None).update(lengths[:, None]).above()
    assert [counted[0], counted[240], counted[480]] == [5, 4, 3]


def test_a_library_of_other_c_files_is_not_used(library, monkeypatch):
    monkeypatch.setattr(numerics, "_sources", lambda: b"others")
    assert numerics.compiled_library() is None
    assert numerics.compiled_function("eigenveil_bases") is None


def test_without_a_library_numpy_does_it(monkeypatch, tmp_path):
    kernels.compiled.cache_clear()
    monkeypatch.setattr(numerics, "LIBRARY", tmp_path / "there is none")
    assert kernels.compiled() is None
    kernels.compiled.cache_clear()


BOUNDS = {
    "plain": {},
    "centred": {"constant": 1.0, "shift": (0.5, 0.0, -1.0, 0.0, 2.0)},
    "scaled": {"scale": (1.0, 0.5, 3.0, 1 / 3, 10.0), "constant": 0.3},
    "fine": {"bits": 24},
}


def batches(extra=()):
    """Yield the same persons with their rows in order, strided, and column by column."""
    persons = [*visits(), *extra]
    rows = np.concatenate(persons)
    starts = np.cumsum([0, *(len(one) for one in persons[:-1])])
    keys = np.arange(2 * len(persons), dtype=np.uint64).reshape(-1, 2) * np.uint64(977)
    yield Blocks(rows, starts, keys)
    yield Blocks(np.column_stack([rows, rows])[:, :5], starts, keys)
    yield Blocks(np.asfortranarray(rows), starts, keys)


LONG = (
    np.array([[1e300, 0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0, 1.0]]),
    np.array([[1e9, -1e9, 3.0, 0.0, 1e5]] * 3),
    np.array([[5e-324, -0.0, 0.0, 1e-300, 0.0]]),
)


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("name", BOUNDS)
def test_moments_and_counts_of_units(library, monkeypatch, weight, name):
    bound, found = RowBound(2.0, unit_weight=weight, **BOUNDS[name]), []
    shift, scale = (None if one is None else np.asarray(one) for one in (bound.shift, bound.scale))
    for compiled in (library, None):
        monkeypatch.setattr(kernels, "compiled", lambda compiled=compiled: compiled)
        for batch in batches(LONG):
            sizes = RowSizes(shift, scale, unit_weight=weight).update(batch)
            found.append((SecondMoments(bound, 5).update(batch), sizes.above().tolist(), chosen_rows(batch).tolist()))
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("average", [True, False])
def test_units_without_an_exact_square_are_left(library, average):
    rows, room = np.concatenate([*visits(), *LONG]), library.room_for_products(6)
    starts = np.cumsum([0, *map(len, [*visits(), *LONG[:-1]])])
    if room is None:
        pytest.skip("the processor has no wide registers, so BLAS multiplies")
    constants = library.add_unit_products(rows, starts, Shortening(None, np.array(2.0**16), 16, 3, average), room)
    squared = numpy_kernels.integers(rows, None, np.array(2.0**16), SINGLE_BITS, np.empty(rows.shape))
    left = np.add.reduceat(~(squared < EXACT_LIMIT), starts)
    assert np.array_equal(constants < 0, left > 0)
    assert 0 < (left > 0).sum() < left.size


@pytest.mark.parametrize("size", [2, 3, 100])
def test_different_rows_of_one_hash_are_chosen_as_by_numpy(library, monkeypatch, size):
    monkeypatch.setattr(numpy_kernels, "hash_weights", lambda d: np.zeros(d, dtype=np.uint64))
    rows, starts, hashes = np.ones((size + 1, 2)), np.array([0, size]), np.array([3, 4], dtype=np.uint64)
    for different in (False, True):
        rows[size - 1] = 2.0 if different else 1.0
        found, wanted = (way.smallest_hashes(rows, starts, hashes) for way in (library, numpy_kernels))
        assert np.array_equal(rows[found], rows[wanted])
        assert (np.searchsorted(starts, found, side="right") == [1, 2]).all()


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_units_that_are_not_finite_are_refused(number, weight):
    for batch in batches((np.array([[1.0, 1.0, number, 1.0, 1.0]]),)):
        for work in (
            lambda b=batch: SecondMoments(RowBound(1.0, unit_weight=weight), 5).update(b),
            lambda b=batch: RowSizes(None, None, unit_weight=weight).update(b),
            lambda b=batch: chosen_rows(b),
        ):
            with pytest.raises(InvalidDataError, match="NaN or infinity"):
                work()


@pytest.mark.parametrize("options", [{}, {"constant": 0.5}, {"scale": tuple(0.1 * np.arange(1, 41))}])
def test_products_of_csr_rows(library, monkeypatch, options):
    generator = np.random.default_rng(2)
    rows = scipy.sparse.csr_array(np.where(generator.random((500, 40)) < 0.1, generator.random((500, 40)), 0.0))
    rows.data *= 10.0 ** generator.choice([-5.0, 0.0, 1.0, 9.0, 200.0], rows.nnz)
    bound = RowBound(2.0, **options)
    for some in (rows, rows.minimum(9.0).astype(np.float32), rows[:, ::-1], rows.tocoo()):
        monkeypatch.setattr(kernels, "compiled", lambda: library)
        ours = SecondMoments(bound, 40).update(some)
        monkeypatch.setattr(kernels, "compiled", lambda: None)
        assert ours == SecondMoments(bound, 40).update(some)
        assert ours == SecondMoments(bound, 40).update(some.toarray())
