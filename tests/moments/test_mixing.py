"""The public order of rows on the ring: what it is, that it depends on places alone, and what it is good for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenveil import PrivacyLedger, PrivatePCA, RowBound
from eigenveil.errors import InvalidDataError
from eigenveil.moments import comparisons
from eigenveil.moments.comparisons import (
    MixedDifferences,
    Mixer,
    NeighbourDifferences,
    block_rows,
    public_order,
)
from eigenveil.moments.kernels import RowsByColumn
from eigenveil.moments.numpy_kernels import half_differences
from helpers import moments_on, refused


def naive_hash(place):
    """SplitMix64 of a place, in Python integers."""
    z = place * 0x9E3779B97F4A7C15 % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
@pytest.mark.parametrize("block", [0, 1, 70_000])
def test_the_order_is_that_of_hashes_of_places(n, block):
    expected = sorted(range(n), key=lambda place: naive_hash(place + 1 + (block << 32)))
    assert public_order(n, block).tolist() == expected
    assert n < 7 or public_order(n, block).tolist() != public_order(n, block + 1).tolist()


def test_neighbours_on_the_ring_were_no_neighbours():
    """A place and the next one on the ring are as far apart as two drawn at random: n/3 on average, sd n/sqrt(18)."""
    n = 20_000
    distances = np.abs(np.diff(public_order(n)))
    assert abs(distances.mean() - n / 3) < 6 * n / np.sqrt(18 * n)
    assert abs(np.corrcoef(public_order(n)[:-1], public_order(n)[1:])[0, 1]) < 6 / np.sqrt(n)


def test_blocks_are_even_and_of_a_fixed_size():
    assert all(block_rows(d) % 2 == 0 for d in (1, 3, 7, 784, 10**6))
    assert block_rows(784) * 784 <= 2**22 < (block_rows(784) + 2) * 784
    assert block_rows(10**6) == 1024


@given(st.integers(2, 60), st.lists(st.integers(0, 60), max_size=6), st.sampled_from(["spatial_sign", "kendall"]))
@settings(max_examples=30)
def test_cuts_change_nothing_and_all_rows_are_compared(n, cuts, kind):
    rule = RowBound(1.0 if kind == "spatial_sign" else 2**0.5, statistic=kind, comparisons=8)
    rows = np.random.default_rng(n).normal(size=(n, 2))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(comparisons, "block_rows", lambda _: 10)
        whole = moments_on(MixedDifferences(rule), rule, rows, ())
        assert moments_on(MixedDifferences(rule), rule, rows, [min(cut, n) for cut in cuts]) == whole
        blocks = [rows[start : start + 10] for start in range(0, n, 10)]
        order = np.concatenate([block[public_order(len(block), number)] for number, block in enumerate(blocks)])
        assert moments_on(NeighbourDifferences(rule), rule, order, ()) == whole
        mixer = Mixer()
        mixed = [block for part in np.split(rows, 2 if n % 2 == 0 else [1]) for block in mixer.push(part)]
        assert np.array_equal(np.concatenate([*mixed, *mixer.rest()]), order)
    assert whole.n_samples == n


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, lambda rows: RowsByColumn([*rows.T])])
def test_rows_are_mixed_alike_however_they_lie(layout, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(57, 3))
    monkeypatch.setattr(comparisons, "block_rows", lambda _: 20)
    again = Mixer()
    expected = [block.tolist() for block in (*again.push(rows), *again.rest())]
    parts = [layout(part) for part in np.split(rows, [5, 30, 49])]
    for lasting in (False, True):
        mixed = Mixer(lasting)
        blocks = [*(block for part in parts for block in mixed.push(part)), *mixed.rest()]
        assert [block.tolist() for block in blocks] == expected
        assert any(part is given for part in mixed._waiting for given in parts) == lasting  # or a copy waits


@pytest.mark.parametrize("place", [(0, 0), (19, 2), (24, 1)])
def test_rows_that_are_not_finite_are_refused_when_they_come(place, monkeypatch):
    """Also those that wait: of a partial_fit, nobody asks for them before the spend."""
    monkeypatch.setattr(comparisons, "block_rows", lambda _: 20)
    for number in (np.nan, np.inf):
        rows = np.zeros((25, 3))
        rows[place] = number
        with refused(InvalidDataError):
            Mixer().push(rows)
        if place[0] >= 20:  # those that last are asked when they are mixed, and a fit mixes all before it spends
            lasting = Mixer(lasting=True)
            lasting.push(rows)
            with refused(InvalidDataError):
                lasting.rest()


@pytest.mark.parametrize("number", [np.nan, -np.inf])
def test_a_fit_refuses_them_before_it_spends(number, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger.db", epsilon=9.0, data_set="rows")
    rows = np.random.default_rng(0).normal(size=(50, 3))
    rows[31, 1] = number
    for standardize in (False, True):
        with refused(InvalidDataError):
            PrivatePCA(1, standardize=standardize, ledger=ledger).fit(rows)
    assert not ledger.entries()


def test_the_ring_stays_open_and_to_itself():
    import copy
    import pickle

    rule = RowBound(1.0, statistic="spatial_sign", comparisons=8)
    differences_buffer = MixedDifferences(rule)
    list(differences_buffer.push(np.eye(9)))
    first = [np.asarray(part).tolist() for part in differences_buffer.closing()]
    branch = differences_buffer.branch()
    list(branch.push(np.ones((3, 9))))
    assert [np.asarray(part).tolist() for part in differences_buffer.closing()] == first
    for take in (pickle.dumps, copy.copy, copy.deepcopy):
        for holder in (differences_buffer, differences_buffer._mixer):
            with refused(InvalidDataError):
                take(holder)


def test_rows_that_wait_are_no_views_of_the_callers():
    differences_buffer, batch = MixedDifferences(RowBound(1.0, statistic="spatial_sign", comparisons=2)), np.eye(3)
    list(differences_buffer.push(batch))
    expected = [np.asarray(part).tolist() for part in differences_buffer.closing()]
    batch[:] = 7.0
    assert [np.asarray(part).tolist() for part in differences_buffer.closing()] == expected


def test_half_differences_of_disjoint_pairs():
    rows = np.array([[1.0, 1e308], [3.0, -1e308], [10.0, 0.0], [4.0, 5e-324], [100.0, 1.0]])
    pairs = half_differences(rows)
    assert pairs.tolist() == [[1.0, 1e308], [3.0, 0.0]]


@pytest.mark.parametrize("statistic", ["spatial_sign", "kendall"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 9, 50])
def test_the_ring_of_one_block_is_compared_at_once_and_as_neighbours_are(n, statistic):
    """The first rows come again after the last, so that nothing is left to wrap around; few rows are an exception."""
    bound = RowBound(1.0, statistic=statistic, comparisons=8)
    rows = np.random.default_rng(n).standard_normal((n, 3))
    ring, mixed = NeighbourDifferences(bound), MixedDifferences(bound)
    plain = [*ring.push(rows[public_order(n)]), *ring.closing()]
    assert not list(mixed.push(rows[:2])) + list(mixed.push(rows[2:]))
    found = list(mixed.closing())
    assert len(found) == (1 if n > 4 else len(plain))
    expected, whole = (np.vstack([np.empty((0, 3)), *map(np.asarray, parts)]) for parts in (plain, found))
    assert sorted(expected.tolist()) == sorted(whole.tolist())
    assert len(whole) == (n * 4 if n > 1 else 0)
    assert all(np.array_equal(one, again) for one, again in zip(found, mixed.closing(), strict=True))  # left open
