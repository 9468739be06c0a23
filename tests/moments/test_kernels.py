"""The compiled pass over rows gives the integers of NumPy, number for number, and is not used where it does not."""

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eigenveil import RowBound, SecondMoments, numerics
from eigenveil.errors import InvalidDataError
from eigenveil.moments import kernels, numpy_kernels
from eigenveil.moments.counts import RowSizes, norm_candidates
from eigenveil.moments.sums import SumsByNorm
from sums_by_hand import sum_by_hand

SOURCE = Path(kernels.__file__).with_name("one_pass.c")
FLAGS = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared"]
RNG = np.random.default_rng(7)
NORMS = (0.4, 3.0)
SPECIAL = np.array([0.0, -0.0, 5e-324, -2e-308, 1e-300, 0.5, 2.0**52 + 0.5, 1e150, -1e308, np.inf, -np.inf, np.nan])


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The passes as they are compiled here, whether the package was installed with them or not."""
    if shutil.which("cc") is None or sys.platform == "win32":
        pytest.skip("no compiler")
    path = tmp_path_factory.mktemp("compiled") / "compiled_pass.so"
    subprocess.run(["cc", *FLAGS, str(SOURCE), "-o", str(path), "-lm"], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_LIBRARY", path)
        kernels._compiled.cache_clear()
        found = kernels._compiled()
        assert found is not None
        yield found
    kernels._compiled.cache_clear()


def tables():
    for d in (1, 3, 8, 19, 40):
        near = np.rint(RNG.normal(size=(50, d)) * 40) / 7 * (1 + RNG.integers(-2, 3, (50, d)) * 2.0**-52)
        yield near
        yield RNG.normal(size=(30, d)) * 10.0 ** RNG.integers(-320, 300, (30, d))
        yield RNG.choice(SPECIAL, size=(60, d))


@pytest.mark.parametrize("bits", [None, 2, 6, 16, 24])
def test_integers_and_norms_are_those_of_numpy(library, bits):
    for rows in tables():
        d = rows.shape[1]
        for shift, factor in ((None, np.array(7.0)), (RNG.normal(size=d), np.exp(RNG.normal(size=d)))):
            ours, its = np.empty(rows.shape), np.empty(rows.shape)
            squared = numpy_kernels.integers(rows, shift, factor, bits, ours)
            found = library.integers(rows, shift, factor, bits, its)
            assert np.array_equal(np.isnan(ours), np.isnan(its))
            assert np.array_equal(np.nan_to_num(ours), np.nan_to_num(its))
            exact = squared < kernels.EXACT_LIMIT
            assert np.array_equal(squared[exact], found[exact])
            assert np.array_equal(exact, found < kernels.EXACT_LIMIT)
            loose = (numpy_kernels.squares(rows, shift, factor), library.squares(rows, shift, factor))
            assert np.allclose(*loose, rtol=1e-13, equal_nan=True)


@pytest.mark.parametrize("width", [1, 7, 8, 9, 16, 31, 160])
@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 200])
def test_products_are_those_of_numpy(library, n, width):
    for constant in (None, 3.0):
        room = library.room_for_products(width + (constant is not None))
        if room is None:
            assert width == 160 or not library._multiplies  # with a constant it is too wide
            continue
        rows = RNG.normal(size=(n, width)) * np.exp(RNG.normal(size=(n, 1)))
        rows[5:6], rows[6:7] = np.inf, 1e200  # without an exact square: neither they nor their constants count
        shift, factor, integers = RNG.normal(size=width), np.full(width, 40.0), np.empty(rows.shape)
        norms = numpy_kernels.integers(rows, shift, factor, 6, integers)
        squared = library.add_products(rows, shift, factor, 6, constant or 0.0, room)
        assert np.array_equal(squared, norms, equal_nan=True)
        if constant is not None:
            integers = np.column_stack([integers, np.full(n, constant)])
        counted = integers[norms < kernels.EXACT_LIMIT]
        wanted = np.zeros(room.shape)
        wanted[: counted.shape[1], : counted.shape[1]] = counted.T @ counted
        assert np.array_equal(np.triu(room), np.triu(wanted))


@pytest.mark.parametrize("wrong", ["integers", "add_by_norm", "add_products"])
@pytest.mark.parametrize("column", range(19))
def test_a_wrong_rounding_is_noticed(library, column, wrong):
    if wrong == "add_products" and not library._multiplies:
        pytest.skip("the processor has no wide registers, so BLAS multiplies")

    class Wrong:
        room_for_products = staticmethod(library.room_for_products)

        def __getattr__(self, name):
            def call(rows, shift, factor, *others):
                # One bit of one factor; in a sum, where hard rows are left out, some more.
                error = np.ones(19)
                error[column] += 2.0**-52 if wrong == "integers" else 1e-9
                if name == wrong == "add_by_norm":
                    bits, candidates, sums = others
                    others = bits, dataclasses.replace(candidates, factors=candidates.factors * error), sums
                elif name == wrong:
                    factor = factor * error
                return getattr(library, name)(rows, shift, factor, *others)

            return call

    assert kernels._agrees(library)
    assert not kernels._agrees(Wrong())


def test_errors_that_cancel_in_a_sum_are_noticed(library):
    class Wrong:
        def __getattr__(self, name):
            return getattr(library, name)

        def add_by_norm(self, rows, shift, scale, bits, candidates, sums):
            left = library.add_by_norm(rows, shift, scale, bits, candidates, sums)
            # Of single rows one too much or too little, of all of them as it should be.
            sums.totals[:] += np.sign(sums.totals) * (len(rows) == 1)
            return left

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
        RowBound(1.0, statistic="normalized"),
    ):
        found = []
        for compiled in (library, None):
            monkeypatch.setattr(kernels, "_compiled", lambda compiled=compiled: compiled)
            for layout in layouts(rows).values():
                batches = [layout[:100], layout[100:350], layout[350:]]
                moments = SecondMoments(bound, 11).update_from(batches)
                sizes = RowSizes(shift, scale).update_from(batches)
                by_norm = SumsByNorm(bound, 11).update_from(batches)
                means = [by_norm.within(norm).tolist() for norm in NORMS]
                found.append([moments.gram.tolist(), sizes.above().tolist(), means])
        assert all(one == found[0] for one in found)
        assert found[0][2] == [sum_by_hand(bound, rows, norm) for norm in NORMS]


@pytest.mark.parametrize("dtype", [np.float32, np.int16, bool, np.longdouble])
def test_other_numbers_are_read_as_float64(library, monkeypatch, dtype):
    rows = (RNG.normal(size=(50, 5)) * 3).astype(dtype)
    for compiled in (library, None):
        monkeypatch.setattr(kernels, "_compiled", lambda compiled=compiled: compiled)
        of_float64 = RowBound(2.0).quantize(rows.astype(np.float64))
        assert np.array_equal(RowBound(2.0).quantize(rows), of_float64)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [lambda: SumsByNorm(RowBound(1.0), 4), lambda: RowSizes(None, None)])
def test_what_is_not_finite_is_refused_without_its_value(library, monkeypatch, make, bad):
    rows = np.ones((60, 4))
    rows[31, 2] = bad
    for compiled in (library, None):
        monkeypatch.setattr(kernels, "_compiled", lambda compiled=compiled: compiled)
        with pytest.raises(InvalidDataError, match="NaN or infinity"):
            make().update(rows)


def test_rungs_are_those_of_the_ladder_far_beyond_its_ends_too(library):
    lengths = np.array([0.0, 1e-320, 1e-12, 2.0**-31, 2.0**-30, 1.0, 2.0**30, 2.0**30.01, 2.0**31, 1e200])
    candidates = norm_candidates(lengths[:, None])[:, 0]
    assert candidates.tolist()[:5] == [0, 0, 0, 0, 0]
    assert candidates.tolist()[5:] == [240, 480, 481, 481, 481]
    counted = RowSizes(None, None).update(lengths[:, None]).above()[0]
    assert [counted[0], counted[240], counted[480]] == [5, 4, 3]


def test_without_a_library_numpy_does_it(monkeypatch, tmp_path):
    kernels._compiled.cache_clear()
    monkeypatch.setattr(kernels, "_LIBRARY", tmp_path / "there is none")
    assert kernels._compiled() is None
    kernels._compiled.cache_clear()
