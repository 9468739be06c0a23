"""Counts, sums, mapped and chosen rows of persons: one person moves each as far as one row does, whatever the order."""

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import chisquare

from eigenveil import RowBound, SecondMoments
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.moments import numpy_kernels
from eigenveil.moments.bound import integer_map, integer_rows, mapped_bound
from eigenveil.moments.column_counts import ColumnCounts
from eigenveil.moments.comparisons import ChosenRows, MixedDifferences, chosen_rows
from eigenveil.moments.counts import _QUARTERS, NORM_GRID, MappedSizes, RowSizes, norm_candidates
from eigenveil.moments.sums import SumsByNorm
from eigenveil.moments.units import Blocks, Units
from helpers import refused
from made_units import WEIGHTS, blocks_of, small_blocks, visits
from statistical.constants import ALPHA
from sums_by_hand import unit_by_hand, weighed

MAP = integer_map(np.diag([1.0, 0.5, 0.25, 0.8, 0.9]) + 0.05)
STATISTICS = {
    **{f"sizes, {weight}": lambda weight=weight: RowSizes(None, None, unit_weight=weight) for weight in WEIGHTS},
    **{
        f"mapped sizes, {weight}": lambda weight=weight: MappedSizes(RowBound(2.0, unit_weight=weight), MAP)
        for weight in WEIGHTS
    },
    **{
        f"mapped, {weight}": lambda weight=weight: SecondMoments(
            mapped_bound(RowBound(2.0, unit_weight=weight), MAP, 0.7), 5
        )
        for weight in WEIGHTS
    },
    "sums by norm": lambda: SumsByNorm(RowBound(2.0, shift=(1.0,) * 5, unit_weight="equal"), 5),
    "columns": lambda: ColumnCounts([np.array([-1.0, 0.0, 0.3])] * 5),
    "chosen": lambda: ChosenRows(5),
}


def told(statistic):
    """Return what a statistic holds, as arrays."""
    if isinstance(statistic, SecondMoments):
        return [statistic.gram, statistic.n_samples]
    if isinstance(statistic, ChosenRows):
        return [np.concatenate(list(statistic.batches())), statistic.n_rows]
    sums = [statistic.within(norm) for norm in (0.3, 2.0)] if isinstance(statistic, SumsByNorm) else []
    return [*statistic.above(), *sums, statistic.n_rows]


def keyed(privacy_units):
    """Return persons with their keys, which go with them whatever the order."""
    return [(rows, np.array([place * 31 % 17, place], dtype=np.uint64)) for place, rows in enumerate(privacy_units)]


def batch_of(privacy_units):
    batch = blocks_of([rows for rows, _ in privacy_units])
    return Blocks(batch.rows, batch.starts, np.array([key for _, key in privacy_units]))


@pytest.mark.parametrize("name", STATISTICS)
def test_any_order_batch_and_layout_give_the_same_integers(name):
    make, privacy_units, generator = STATISTICS[name], keyed(visits()), np.random.default_rng(6)
    wanted = told(make().update(batch_of(privacy_units)))
    assert wanted[-1] == len(privacy_units)
    for _ in range(3):
        mixed = [privacy_units[place] for place in generator.permutation(len(privacy_units))]
        mixed = [(generator.permutation(rows), key) for rows, key in mixed]
        parts = [batch_of(mixed[:7]), batch_of(mixed[7:8]), batch_of(mixed[8:])]
        added = make().update_from(parts[:2]) + pickle.loads(pickle.dumps(make().update(parts[2])))
        sparse = [Blocks(scipy.sparse.csr_array(part.rows), part.starts, part.keys) for part in parts]
        for found in (told(added), told(make().update_from(sparse))):
            assert all(np.array_equal(mine, its) for mine, its in zip(found, wanted, strict=True))


@pytest.mark.parametrize("name", [name for name in STATISTICS if name != "columns"])
def test_rows_of_no_person_are_refused(name):
    with refused(InvalidDataError):
        STATISTICS[name]().update(np.ones((3, 5)))


def test_what_has_no_meaning_for_persons_is_refused():
    with refused(InvalidDataError):
        RowSizes(None, None).update(blocks_of(visits()))
    with refused(InvalidParameterError):
        RowSizes(None, None, unit_weight="visits")
    with refused(InvalidParameterError):
        SumsByNorm(RowBound(1.0, unit_weight="by_rows"), 5)


# Norms of persons.


def exact_candidate(rows, average):
    """Return the first rung that is no shorter, in fractions."""
    integers, exponents, _ = integer_rows(rows)
    value = sum(
        (Fraction(int(q)) * Fraction(2) ** int(s)) ** 2 for row, s in zip(integers, exponents, strict=True) for q in row
    ) / (len(rows) if average else 1)
    squares = (Fraction(_QUARTERS[j % 4]) * Fraction(2) ** (j // 4) for j in range(-240, 241))
    return next((place for place, candidate in enumerate(squares) if value <= candidate), len(NORM_GRID))


@pytest.mark.parametrize("average", [True, False])
def test_rungs_of_persons_are_those_of_fractions(average):
    generator = np.random.default_rng(2)
    privacy_units = visits(privacy_units=30)
    # On a rung, a hair above and below it; beyond the ladder; and where squares leave the range of float64.
    for m in (1, 2, 3, 8):
        for factor in (1.0, 1 + 2**-40, 1 - 2**-40, 1e12, 1e-12, 1e200, 1e-200):
            rows = np.zeros((m, 5))
            rows[:, 0] = factor * (1.0 if average else math.sqrt(1 / m))
            privacy_units += [rows, generator.permutation(rows.T).T]
    privacy_units += [np.zeros((2, 5)), np.array([[1e-300] * 5, [1.0, 0, 0, 0, 0]])]
    batch = blocks_of(privacy_units)
    found = norm_candidates(batch.rows, batch.starts, average)
    assert found.tolist() == [exact_candidate(rows, average) for rows in privacy_units]
    assert norm_candidates(np.array([[np.inf, 0.0], [1.0, 0.0]]), np.array([0]))[0] == len(NORM_GRID)


def test_rungs_of_single_rows_are_those_of_persons_of_one_row():
    rows = np.concatenate([*visits(), np.eye(5), 2 * np.eye(5)])
    assert np.array_equal(norm_candidates(rows), norm_candidates(rows, np.arange(len(rows)), True))


@pytest.mark.parametrize("weight", WEIGHTS)
def test_a_person_moves_all_counts_one_way_by_at_most_one(weight):
    privacy_units = [np.array(block, dtype=np.float64) for block in small_blocks((-4, 0, 1, 2), 2)]
    counts = [RowSizes(None, None, unit_weight=weight).update(blocks_of([rows])).above() for rows in privacy_units]
    for mine, its in itertools.combinations(np.unique(counts, axis=0), 2):
        assert {*np.unique(mine - its)} <= {0, 1} or {*np.unique(mine - its)} <= {-1, 0}


# Sums of averages.


@pytest.mark.parametrize("bits", [2, pytest.param(3, marks=pytest.mark.heavy)])
def test_a_person_moves_the_sum_as_far_as_a_row_does(bits):
    privacy_units = [np.array(block, dtype=np.float64) for block in small_blocks((-9, -4, -1, 0, 3, 8), 3)]
    sums = SumsByNorm(RowBound(1.0, bits, unit_weight="equal"), 2).update(blocks_of(privacy_units))
    of_candidates = [unit_by_hand(rows, bits) for rows in privacy_units]
    for norm in (1.0, 2.0**bits):
        each = [weighed(integers, candidate, norm, bits) for integers, candidate in of_candidates]
        assert max(sum(entry**2 for entry in own) for own in each) == 16**bits
        assert sums.within(norm).tolist() == [sum(column) for column in zip(*each, strict=True)]
    for rows, own in list(zip(privacy_units, each, strict=True))[::20]:
        alone = SumsByNorm(sums.bound, 2).update(blocks_of([rows]))
        assert alone.within(norm).tolist() == own


def test_sums_are_of_averages():
    privacy_units = [rows for rows in visits() if np.abs(rows).max() < 2]
    sums = SumsByNorm(RowBound(1.0, 20, unit_weight="equal"), 5).update(blocks_of(privacy_units))
    assert np.allclose(sums.within(8.0) * 8.0 / 4**20, sum(rows.mean(axis=0) for rows in privacy_units), atol=1e-3)
    long = [np.array([[1e300, 0.0, 0.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0, 0.0]])]
    beyond = SumsByNorm(RowBound(1.0, 4, unit_weight="equal"), 5).update(blocks_of(long))
    assert beyond.within(1.0).tolist() == beyond.within(2.0**30).tolist() == [16 * 16, 0, 0, 0, 0]
    assert beyond.within(2.0**31).tolist() == [8 * 16, 0, 0, 0, 0]


# Mapped rows.


@pytest.mark.parametrize("weight", WEIGHTS)
def test_mapped_rows_of_a_person_keep_the_limit(weight):
    for seed, norm in itertools.product(range(5), (0.02, 0.3, 2.0)):
        generator = np.random.default_rng(seed)
        before = RowBound(2.0, 6, unit_weight=weight)
        bound = mapped_bound(before, integer_map(generator.normal(size=(5, 5)) / 3), norm)
        batch = blocks_of(visits(seed))
        rows, _ = bound.quantize_units(Units(batch.rows, batch.starts))
        assert np.add.reduceat(np.square(rows).sum(axis=1), batch.starts).max() <= 4**6


def test_a_map_that_changes_nothing_changes_nothing():
    plain = RowBound(2.0, unit_weight="equal")
    same = mapped_bound(plain, integer_map(np.eye(5)), 2.0)
    batch = blocks_of(visits())
    assert np.array_equal(SecondMoments(plain, 5).update(batch).gram, SecondMoments(same, 5).update(batch).gram)


# Chosen rows.


def test_every_row_of_a_person_is_chosen_as_often_as_it_comes():
    rows = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])  # the first as often as three
    n = 4000
    keys = np.stack([np.arange(n), np.zeros(n)], axis=1).astype(np.uint64)
    chosen = chosen_rows(Blocks(np.tile(rows, (n, 1)), 5 * np.arange(n), keys))
    counts = [np.count_nonzero((chosen == row).all(axis=1)) for row in ([0, 0], [1, 0], [0, 2])]
    assert sum(counts) == n
    assert chisquare(counts, np.array([0.6, 0.2, 0.2]) * n).pvalue > ALPHA
    assert chisquare(counts, np.full(3, n / 3)).pvalue < ALPHA  # control: not each of the different rows alike


def test_neighbouring_identifiers_choose_independently():
    n = 4000
    for key in (0, 1):  # of either half of the key
        keys = np.zeros((n, 2), dtype=np.uint64)
        keys[:, key] = np.arange(n)
        first = chosen_rows(Blocks(np.tile([[1.0], [2.0]], (n, 1)), 2 * np.arange(n), keys))[:, 0] == 1
        pairs = np.bincount(2 * first[:-1] + first[1:], minlength=4)
        assert chisquare(pairs).pvalue > ALPHA


def test_rows_of_one_hash_are_told_apart_by_their_entries(monkeypatch):
    monkeypatch.setattr(numpy_kernels, "hash_weights", lambda d: np.zeros(d, dtype=np.uint64))
    privacy_units, generator = keyed(visits()), np.random.default_rng(3)
    wanted = told(ChosenRows(5).update(batch_of(privacy_units)))[0]
    for _ in range(5):
        mixed = [(generator.permutation(rows), key) for rows, key in privacy_units]
        assert np.array_equal(told(ChosenRows(5).update(batch_of(mixed)))[0], wanted)


def test_negative_zero_is_zero():
    keys = np.array([[5, 6]], dtype=np.uint64)
    for rows in ([[0.0, 1.0], [-0.0, 1.0]], [[-0.0, 1.0], [0.0, 1.0]]):
        assert not np.signbit(chosen_rows(Blocks(np.array(rows), np.array([0]), keys))).any()


def test_a_person_in_two_parts_is_refused():
    batch = batch_of(keyed(visits()))
    with refused(InvalidDataError):
        list((ChosenRows(5).update(batch) + ChosenRows(5).update(batch)).batches())


@pytest.mark.parametrize("rows", ["spatial_sign", "kendall"])
def test_a_replaced_person_changes_its_own_comparisons_alone(rows):
    generator = np.random.default_rng(8)
    norm = 1.0 if rows == "spatial_sign" else math.sqrt(5)
    bound = RowBound(norm, 6, statistic=rows, comparisons=4, unit_weight="equal")
    privacy_units = keyed(visits())

    def gram(privacy_units):
        differences_buffer, moments = MixedDifferences(bound), SecondMoments(bound, 5)
        for batch in ChosenRows(5).update(batch_of(privacy_units)).batches():
            moments.update_from(differences_buffer.push(batch))
        moments.update_from(differences_buffer.closing())
        assert moments.n_samples == len(privacy_units)
        return moments.gram

    before = gram(privacy_units)
    assert np.trace(before) <= len(privacy_units) * bound.limit_squared // 2
    for place in (0, 20, 59):
        others = list(privacy_units)
        others[place] = (generator.normal(size=(12, 5)), privacy_units[place][1])
        change = np.linalg.eigvalsh((gram(others) - before).astype(np.float64))
        assert np.clip(change, 0, None).sum() <= bound.limit_squared
        assert np.clip(-change, 0, None).sum() <= bound.limit_squared
