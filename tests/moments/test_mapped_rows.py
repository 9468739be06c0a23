"""Sums and mapped rows in integers: bounds by brute force, and the same bits whatever the batch, layout or engine."""

import itertools
import math
import pickle

import numpy as np
import pytest
import scipy.sparse

from eigenveil import RowBound, SecondMoments
from eigenveil.accounting.sensitivity import sum_squared
from eigenveil.errors import InvalidDataError
from eigenveil.guarantee import Adjacency
from eigenveil.moments.bound import MAP_BITS, integer_map, mapped_bound
from eigenveil.moments.counts import NORM_GRID, MappedSizes
from eigenveil.moments.sums import SumsByNorm

GENERATOR = np.random.default_rng(5)
ROWS = GENERATOR.standard_t(2, size=(157, 6)) * np.array([3.0, 1.0, 1.0, 0.1, 1e-3, 5.0])
BEFORE = RowBound(4.0, shift=(0.5,) * 6)


def random_map(d, generator):
    """Return a symmetric map of norm 1 with factors down to 1/20."""
    basis = np.linalg.qr(generator.normal(size=(d, d)))[0]
    factors = np.append(generator.uniform(0.05, 1.0, d - 1), 1.0)
    return integer_map((basis * factors) @ basis.T)


MAP = random_map(6, GENERATOR)
MAPPED = mapped_bound(BEFORE, MAP, 1.5)


def grid_rows(d, bits):
    span = range(-(2**bits), 2**bits + 1)
    return np.array([row for row in itertools.product(span, repeat=d) if sum(q * q for q in row) <= 4**bits])


@pytest.mark.parametrize(("d", "bits"), [(1, 3), (2, 2), (3, 2)])
def test_a_replaced_row_moves_the_sum_by_at_most_twice_the_norm(d, bits):
    rows = grid_rows(d, bits)
    largest = np.square(rows[:, None] - rows[None]).sum(axis=-1).max()
    assert largest == sum_squared(Adjacency.REPLACE_ONE) * 4**bits
    assert np.square(rows).sum(axis=-1).max() == sum_squared(Adjacency.ADD_OR_REMOVE_ONE) * 4**bits


@pytest.mark.parametrize("bits", [2, 4])
def test_every_row_of_a_tiny_grid_stays_within_the_bound_whatever_the_map(bits):
    rows = grid_rows(2, bits) / 2.0**bits
    for seed in range(40):
        generator = np.random.default_rng(seed)
        matrix = integer_map(generator.normal(size=(2, 2)) * 10.0 ** generator.uniform(-3, 2))
        norm = float(2.0 ** generator.uniform(-7, 3))
        integers = mapped_bound(RowBound(1.0, bits=bits), matrix, norm).quantize(rows)
        assert np.square(integers).sum(axis=1).max() <= 4**bits
        assert np.array_equal(integers, np.rint(integers))


@pytest.mark.parametrize("norm", [4.0, 1.5, 2.0**-6])
def test_adversarial_rows_stay_within_the_bound(norm):
    extreme = np.vstack([ROWS * 10.0**p for p in (-300, -10, 0, 10, 300)] + [np.full((1, 6), 1e308)])
    integers = mapped_bound(BEFORE, MAP, norm).quantize(extreme)
    assert max(sum(int(q) ** 2 for q in row) for row in integers) <= 4**16
    assert np.isfinite(integers).all()


def test_mapped_rows_are_those_of_python_integers():
    before = BEFORE.quantize(ROWS)
    factor = math.ldexp(BEFORE.norm / MAPPED.norm, -MAP_BITS)
    longest = 0
    for row, got in zip(before, MAPPED.quantize(ROWS), strict=True):
        product = [sum(int(q) * int(m) for q, m in zip(row, column, strict=True)) for column in MAP.T]
        rounded = [round(entry * factor) for entry in product]  # half to even, as rint
        length = sum(entry**2 for entry in rounded)
        longest = max(longest, length)
        if length <= 4**16:
            assert rounded == [int(q) for q in got]
        else:
            exact = [entry * 2**16 / math.sqrt(length) for entry in rounded]
            assert np.abs(np.array(exact) - got).max() <= 1
    assert longest > 4**16  # some were shortened


def layouts(rows):
    yield np.asfortranarray(rows)
    yield np.repeat(rows, 2, axis=1)[:, ::2]
    yield scipy.sparse.csr_array(rows)
    yield rows[::-1][::-1]


def test_any_layout_batch_and_order_gives_the_same_bits(monkeypatch):
    reference = SecondMoments(MAPPED, 6).update(ROWS)
    for rows in layouts(ROWS):
        assert SecondMoments(MAPPED, 6).update(rows) == reference
    one_by_one = SecondMoments(MAPPED, 6).update_from(ROWS[i : i + 1] for i in range(len(ROWS)))
    assert one_by_one == reference
    assert SecondMoments(MAPPED, 6).update(ROWS[:50]) + SecondMoments(MAPPED, 6).update(ROWS[50:][::-1]) == reference
    monkeypatch.setattr("eigenveil.moments.sums._WIDEST_THREADED", 2)
    assert SecondMoments(MAPPED, 6).update(ROWS) == reference
    assert SecondMoments(MAPPED, 6).update(scipy.sparse.csr_array(ROWS)) == reference


@pytest.mark.parametrize("make", [lambda: SumsByNorm(BEFORE, 6), lambda: MappedSizes(BEFORE, MAP)])
def test_sums_and_counts_are_the_same_in_parts(make):
    def bits(statistic):
        held = [getattr(statistic, name, None) for name in ("_bins", "_totals")]
        return statistic.n_rows, [array.tolist() for array in held if array is not None]

    reference = bits(make().update(ROWS))
    for rows in layouts(ROWS):
        assert bits(make().update(rows)) == reference
    assert bits(make().update_from(ROWS[i : i + 1] for i in range(len(ROWS)))) == reference
    assert bits(make().update(ROWS[:50]) + make().update(ROWS[50:][::-1])) == reference
    assert bits(pickle.loads(pickle.dumps(make())).update(ROWS)) == reference


def test_one_row_moves_every_count_by_at_most_one():
    counts = MappedSizes(BEFORE, MAP).update(ROWS).above()
    for i in range(20):
        other = ROWS.copy()
        other[i] = 10.0 ** GENERATOR.uniform(-5, 5) * GENERATOR.normal(size=6)
        change = MappedSizes(BEFORE, MAP).update(other).above() - counts
        assert np.abs(change).max() <= 1
        assert len({*change} - {0}) <= 1  # and all one way


def test_counts_are_of_the_norms_of_mapped_rows():
    counts = MappedSizes(BEFORE, MAP).update(ROWS)
    lengths = np.linalg.norm(BEFORE.quantize(ROWS) @ MAP * 2.0**-MAP_BITS, axis=1) * BEFORE.norm / 2.0**16
    for candidate in range(200, 280, 7):
        assert abs(int(counts.above()[candidate]) - int((lengths > NORM_GRID[candidate]).sum())) <= 1


def test_a_map_too_large_for_exact_products_or_a_bound_too_low_is_an_error():
    with pytest.raises(ValueError, match="exact"):
        mapped_bound(BEFORE, MAP * 2**13, 1.0)
    with pytest.raises(ValueError, match="below"):
        mapped_bound(BEFORE, MAP, BEFORE.norm / 300)


def test_moments_of_different_maps_do_not_add():
    other = mapped_bound(BEFORE, random_map(6, GENERATOR), 1.5)
    with pytest.raises(InvalidDataError, match="different bounds"):
        SecondMoments(MAPPED, 6) + SecondMoments(other, 6)
    assert pickle.loads(pickle.dumps(MAPPED)) == MAPPED != BEFORE


def test_nan_is_refused_without_a_value():
    rows = ROWS.copy()
    rows[3, 2] = np.nan
    for statistic in (SumsByNorm(BEFORE, 6), MappedSizes(BEFORE, MAP), SecondMoments(MAPPED, 6)):
        with pytest.raises(InvalidDataError, match="NaN"):
            statistic.update(rows)


def test_a_grid_too_fine_for_exact_norms_is_refused():
    assert mapped_bound(RowBound(1.0, bits=18), integer_map(np.eye(2)), 1.0).bits == 18
    with pytest.raises(ValueError, match="too fine"):
        mapped_bound(RowBound(1.0, bits=19), integer_map(np.eye(2)), 1.0)
