"""Sums of rows by their norms: the mean under any bound from one reading, and no row moves it by more than it may."""

import itertools

import numpy as np
import pytest
import scipy.sparse

from eigenveil import PrivatePCA, RowBound, SecondMoments
from eigenveil.errors import InvalidDataError
from eigenveil.moments import kernels
from eigenveil.moments.counts import NORM_GRID, RowSizes
from eigenveil.moments.sums import SumsByNorm
from sums_by_hand import sum_by_hand

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(300, 4)) * np.exp(3 * RNG.normal(size=(300, 1)))
ABOVE = [[1.2 * 2.0**30, 0, 0, 0], [0, 2.0**30, 2.0**29, 0]]  # a little above the ladder
HARD = np.array(
    [[0.0] * 4, [1e200, 0, 0, 0], [-3e-300] * 4, [2.0**30, 0, 0, 0], [0.6, 0.8, 0, 0], [2.0**0.125, 0, 0, 0], *ABOVE]
)
BOUNDS = {
    "plain": {"bits": 16},
    "coarse": {"bits": 4},
    "moved and scaled": {"bits": 10, "shift": (1.0, -0.5, 0.0, 1e-3), "scale": (1.0, 7.0, 1e-2, 0.3)},
}


@pytest.fixture(params=BOUNDS)
def options(request):
    return BOUNDS[request.param]


@pytest.fixture(params=["compiled", "NumPy"], autouse=True)
def way(request, monkeypatch):
    """Both ways, where there are two."""
    if request.param == "NumPy":
        monkeypatch.setattr(kernels, "compiled", lambda: None)
    elif kernels.compiled() is None:
        pytest.skip("no compiled passes here")


@pytest.mark.parametrize("norm", [0.3, 1.0, 17.0, 1e9])
def test_the_sum_is_that_of_the_definition(options, norm):
    rows = np.vstack([ROWS, HARD])
    sums = SumsByNorm(RowBound(1.0, **options), 4).update(rows)
    assert sums.within(norm).tolist() == sum_by_hand(sums.bound, rows, norm)
    assert sums.n_rows == len(rows)


def test_counts_are_those_of_norms_alone(options):
    rows = np.vstack([ROWS, HARD])
    bound = RowBound(1.0, **options)
    shift, scale = (None if part is None else np.asarray(part) for part in (bound.shift, bound.scale))
    assert np.array_equal(SumsByNorm(bound, 4).update(rows).above(), RowSizes(shift, scale).update(rows).above())


def test_no_row_is_longer_than_the_bound_whatever_it_is(options):
    """In Python's integers; and rows at the bound come near it, so that a bound 1.2 times as large would be seen."""
    bits, longest = options["bits"], 0.0
    grid = np.array(list(itertools.product([-9.0, -1.0, 0.0, 0.3, 1.0], repeat=4)))
    for row in np.vstack([grid, ROWS[:60], HARD]):
        sums = SumsByNorm(RowBound(1.0, **options), 4).update(row[None])
        for norm in (0.25, 1.0, 3.0, NORM_GRID[-1]):
            squared = sum(int(entry) ** 2 for entry in sums.within(norm))
            assert squared <= 16**bits
            longest = max(longest, squared)
    assert longest > 0.9 * 16**bits


def test_a_mean_under_the_bound_is_that_of_clipped_rows():
    rows, norm = ROWS / 4, 2.0
    clipped = rows * np.minimum(1.0, norm / np.linalg.norm(rows, axis=1))[:, None]
    found = SumsByNorm(RowBound(1.0), 4).update(rows).within(norm) * norm / 4.0**16
    # Those beyond the bound come to within a step of the ladder below it.
    assert np.allclose(found, clipped.sum(axis=0), atol=(1 - 2**-0.125) * norm * len(rows) ** 0.5)
    inside = rows[np.linalg.norm(rows, axis=1) < norm]
    assert np.allclose(
        SumsByNorm(RowBound(1.0), 4).update(inside).within(norm) * norm / 4.0**16, inside.sum(axis=0), atol=0.02
    )


@pytest.mark.parametrize("seed", range(20))
def test_one_replaced_row_moves_the_sum_by_twice_the_bound_at_most(options, seed):
    rng = np.random.default_rng(seed)
    rows = ROWS[:20].copy()
    before = SumsByNorm(RowBound(1.0, **options), 4).update(rows)
    rows[rng.integers(20)] = (
        HARD[rng.integers(len(HARD))] if seed % 2 else 10.0 ** rng.uniform(-9, 9) * rng.normal(size=4)
    )
    after = SumsByNorm(RowBound(1.0, **options), 4).update(rows)
    for norm in (0.1, 1.0, 5.0):
        change = after.within(norm) - before.within(norm)
        assert sum(int(entry) ** 2 for entry in change) <= 4 * 16 ** options["bits"]


def test_rows_on_rungs_are_summed_alike_one_by_one_and_many_at_once(options):
    rows = np.vstack([HARD, NORM_GRID[100:180, None] * np.eye(1, 4)])
    bound = RowBound(1.0, **options)
    together, apart = SumsByNorm(bound, 4).update(rows), SumsByNorm(bound, 4)
    for row in rows:
        apart.update(row[None])
    assert together._totals.tolist() == apart._totals.tolist()
    assert together.above().tolist() == apart.above().tolist()


def test_few_rows_that_are_no_numbers_are_refused():
    with pytest.raises(InvalidDataError, match="NaN"):
        SumsByNorm(RowBound(1.0), 4).update(np.vstack([ROWS, [np.nan, 0, 0, 0]]))


def sparse_rows(d, dtype):
    rows = RNG.normal(size=(120, d)) * 10.0 ** RNG.integers(-2, 3, size=(120, d))
    rows[RNG.random(rows.shape) < 0.8] = 0.0
    rows[5] = 0.0
    rows = rows.astype(dtype)
    if np.dtype(dtype).kind == "f":
        rows[7, 0], rows[8] = 1e30, 1e-30
    return rows


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
@pytest.mark.parametrize("d", [1, 9, 40])
def test_sparse_rows_give_what_dense_ones_give(d, dtype):
    rows = sparse_rows(d, dtype)
    small, far = tuple(RNG.normal(size=d) / 50), tuple(10 + RNG.normal(size=d))  # a zero row within the bound or beyond
    scale = tuple(np.exp(RNG.normal(size=d)))
    sparse = scipy.sparse.csr_array(rows)
    for bound in (
        RowBound(3.0),
        RowBound(3.0, scale=scale),
        RowBound(3.0, shift=small),
        RowBound(3.0, shift=small, scale=scale, constant=1.0),
        RowBound(3.0, shift=far, constant=1.0),
        RowBound(3.0, shift=small, bits=24),
    ):
        assert SecondMoments(bound, d).update(sparse) == SecondMoments(bound, d).update(rows)
        of_sparse, of_dense = SumsByNorm(bound, d).update(sparse), SumsByNorm(bound, d).update(rows)
        for norm in (1e-12, 0.7, 5.0):
            assert np.array_equal(of_sparse.within(norm), of_dense.within(norm))
        assert np.array_equal(of_sparse.above(), of_dense.above())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("shift", [None, (0.1, 0.2, 0.3)])
def test_sparse_rows_that_are_not_finite_are_refused(bad, shift):
    rows = scipy.sparse.csr_array(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, bad]]))
    for statistic in (SecondMoments, SumsByNorm):
        with pytest.raises(InvalidDataError, match="NaN or infinity"):
            statistic(RowBound(1.0, shift=shift), 3).update(rows)


@pytest.mark.parametrize("bound", [RowBound(1.0), RowBound(1.0, constant=1.0), RowBound(1.0, shift=(0.1, 0.2, 0.3))])
def test_an_entry_that_comes_twice_is_clipped_as_one_whatever_the_matrix_says_of_itself(bound):
    entries, columns = [0.8, 0.8, 0.1, -0.5, 0.5, 0.3], [0, 0, 1, 2, 2, 0]
    twice = scipy.sparse.csr_array((entries, columns, [0, 3, 6]), shape=(2, 3))
    twice.has_canonical_format = True
    expected = SecondMoments(bound, 3).update(twice.toarray()).gram
    assert np.array_equal(SecondMoments(bound, 3).update(twice).gram, expected)


@pytest.mark.parametrize("column", [-5, 3])
def test_an_entry_outside_of_the_matrix_is_refused(column):
    rows = scipy.sparse.csr_array(np.eye(3))
    rows.indices[1] = column
    with pytest.raises(InvalidDataError, match="impossible positions"):
        SecondMoments(RowBound(1.0), 3).update(rows)
    with pytest.raises(InvalidDataError, match="impossible positions"):
        PrivatePCA(1, norm_bound=1.0).fit(rows)
