"""Persons in integers: every small block by brute force, the same bits whatever the order, the batch or the layout."""

import itertools
import math
import pickle
import re

import numpy as np
import pytest
import scipy.sparse

from eigenveil import RowBound, SecondMoments, numerics, release
from eigenveil.accounting import sensitivity
from eigenveil.errors import CapacityError, InvalidDataError, InvalidParameterError
from eigenveil.gate import check_capacity
from eigenveil.guarantee import Adjacency, Unit
from eigenveil.mechanisms import MECHANISMS
from eigenveil.moments import numpy_kernels
from eigenveil.moments import sums as product_sums
from eigenveil.moments.row_rule import RowRule
from eigenveil.moments.units import Blocks, Units, Weighted
from helpers import refused
from made_units import WEIGHTS, blocks_of, small_blocks, visits


def added_by_each(bound, batch):
    """Return what every person adds to the Gram matrix, and the squares of their integer rows: exact integers."""
    rows, constants = bound.quantize_units(Units(batch.rows, batch.starts))
    rows = np.hstack([rows, constants[:, None]]) if bound.constant else rows
    added = np.add.reduceat((rows[:, :, None] * rows[:, None, :]).astype(np.int64), batch.starts)
    traces = np.trace(added, axis1=1, axis2=2)
    if bound.constant and bound.knows_corner:
        missing = bound.constant_units**2 - added[:, -1, -1]
        assert missing.min() >= 0
        added[:, -1, -1] += missing
        traces = traces + missing
    return added, traces


@pytest.mark.parametrize("constant", [None, 0.5, 1.0])
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize(("bits", "entries"), [(2, (-7, -4, -2, 0, 1, 3, 4)), (3, (-9, -6, -5, 0, 2, 8))])
def test_no_small_block_moves_a_statistic_further_than_the_table_says(bits, entries, weight, constant):
    bound = RowBound(2.0**bits, bits, constant=constant and constant * 2**bits, unit_weight=weight)
    privacy_units = small_blocks(entries, 3)
    batch = blocks_of([np.array(block, dtype=np.float64) for block in privacy_units])
    added, traces = added_by_each(bound, batch)
    limit = bound.limit_squared
    assert limit == 4**bits + bound.constant_units**2
    assert traces.max() == limit  # some block has all of it, and none more
    # The moments add up just these matrices.
    assert np.array_equal(SecondMoments(bound, 2).update(batch).gram, added.sum(axis=0))
    distinct = np.unique(added.reshape(len(added), -1), axis=0).reshape(-1, *added.shape[1:])
    some = distinct[np.argsort(-np.trace(distinct, axis1=1, axis2=2), kind="stable")[:250]]
    some = np.concatenate([some, distinct[:: max(1, len(distinct) // 100)]])
    width = added.shape[-1]
    for adjacency, changes in {
        Adjacency.ADD_OR_REMOVE_ONE: distinct,
        Adjacency.REPLACE_ONE: (some[:, None] - some[None]).reshape(-1, width, width),
    }.items():
        values = np.linalg.eigvalsh(changes.astype(np.float64)) / limit
        frobenius = np.square(changes).sum(axis=(1, 2))
        other = np.trace(changes, axis1=1, axis2=2) - (limit if adjacency is Adjacency.ADD_OR_REMOVE_ONE else 0)
        upper = np.abs(changes[:, *np.triu_indices(width)]).sum(axis=1)
        slack = 1 + 1e-12
        assert frobenius.max() <= sensitivity.frobenius_squared(adjacency) * limit**2
        assert (frobenius + other**2).max() <= sensitivity.frobenius_with_trace_squared(adjacency) * limit**2
        assert np.abs(values).sum(axis=1).max() <= float(sensitivity.nuclear(adjacency)) * slack
        assert np.clip(values, 0, None).sum(axis=1).max() <= slack
        assert upper.max() ** 2 <= sensitivity.upper_triangle_l1_squared(adjacency, width) * limit**2
        if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
            assert values.min() >= -1e-9


@pytest.mark.parametrize("weight", WEIGHTS)
def test_control_rows_that_are_clipped_one_by_one_are_caught(weight, monkeypatch):
    monkeypatch.setattr("eigenveil.moments.kernels.compiled", lambda: None)
    monkeypatch.setattr("eigenveil.moments.bound.units_together", lambda grid, starts, *_, **__: np.zeros(len(grid)))
    monkeypatch.setattr(RowBound, "single_bits", property(lambda self: self.bits))
    bound = RowBound(4.0, 2, unit_weight=weight)
    _, traces = added_by_each(bound, blocks_of([np.array([[4.0, 0.0], [3.0, 0.0]])]))
    assert traces.max() > bound.limit_squared


def one_unit(bound, rows):
    """Return the integer rows of one person, in Python's integers and floats, one number at a time."""
    shift = np.zeros(rows.shape[1]) if bound.shift is None else bound.shift
    factor = np.broadcast_to(bound.grid_factor, rows.shape[1])
    integers = []
    for row in rows:
        entries = [math.trunc((x - s) * f) for x, s, f in zip(row.tolist(), shift, factor.tolist(), strict=True)]
        assert sum(q * q for q in entries) <= 4**26
        integers.append(entries)
    m, c, squared = len(rows), bound.constant_units, sum(q * q for entries in integers for q in entries)
    if bound.unit_weight == "equal":
        f = min(1 / math.sqrt(m), 2.0**bound.bits / math.sqrt(max(squared, 1)))
        constant, corner = math.trunc(c / math.sqrt(m)), c * c
    else:
        limit, squared = 4**bound.bits + c * c, squared + m * c * c
        f = math.sqrt(limit) / math.sqrt(squared) if squared > limit else 1.0
        constant = math.trunc(c * f)
        corner = m * constant**2
    return [[math.trunc(q * f) for q in entries] for entries in integers], constant, corner


OPTIONS = {
    "plain": {},
    "centred": {"constant": 1.0, "shift": (0.5, 0.0, -1.0, 0.0, 2.0)},
    "scaled": {"scale": (1.0, 0.5, 3.0, 1 / 3, 10.0)},
    "scaled and centred": {"scale": (1.0, 0.5, 3.0, 1 / 3, 10.0), "constant": 0.3},
    "fine": {"bits": 24, "constant": 2.0},
}


@pytest.fixture(params=[(weight, name) for weight in WEIGHTS for name in OPTIONS], ids=str)
def bound(request):
    weight, name = request.param
    return RowBound(2.0, **OPTIONS[name], unit_weight=weight)


def test_the_gram_matrix_is_that_of_python_integers(bound):
    privacy_units = [rows for rows in visits() if np.abs(rows).max() < (50 if bound.bits == 16 else 0.3)]
    d = privacy_units[0].shape[1]
    wanted = np.zeros((d + 1, d + 1), dtype=object)
    for rows in privacy_units:
        integers, constant, corner = one_unit(bound, rows)
        full = np.array([[*entries, constant] for entries in integers], dtype=object)
        product = full.T @ full
        product[-1, -1] = corner
        wanted += product
        assert sum(q * q for entries in integers for q in entries) + corner <= bound.limit_squared
    moments = SecondMoments(bound, d).update(blocks_of(privacy_units))
    assert moments.gram.tolist() == wanted[: moments.width, : moments.width].tolist()
    assert moments.n_samples == moments.n_rows == len(privacy_units)


def collected(bound, privacy_units, d=5, first=0):
    return SecondMoments(bound, d).update(blocks_of(privacy_units, first))


def test_any_order_and_any_batch_give_the_same_bits(bound):
    privacy_units = visits()
    wanted, generator = collected(bound, privacy_units), np.random.default_rng(1)
    for _ in range(3):
        mixed = [generator.permutation(privacy_units[place]) for place in generator.permutation(len(privacy_units))]
        assert collected(bound, mixed) == wanted
        cuts = [0, *sorted(generator.choice(range(1, len(mixed)), 4, replace=False)), len(mixed)]
        parts = (blocks_of(mixed[low:high], low) for low, high in itertools.pairwise(cuts))
        assert SecondMoments(bound, 5).update_from(parts) == wanted
        halves = collected(bound, mixed[:20]) + pickle.loads(pickle.dumps(collected(bound, mixed[20:], first=20)))
        assert halves == wanted
        assert halves.n_samples == len(privacy_units)


@pytest.mark.parametrize("cores", [1, 2])
def test_a_person_who_comes_twice_is_refused(bound, cores, monkeypatch):
    monkeypatch.setattr(numerics, "available_cores", lambda: cores)
    privacy_units = visits()
    january, february = collected(bound, privacy_units[:20]), collected(bound, privacy_units[19:], first=19)
    with refused(InvalidDataError) as caught:
        january + february
    assert "two units" in str(caught.value)
    before = january.gram.copy()
    with refused(InvalidDataError):
        january.update(blocks_of(privacy_units[19:], first=19))
    assert np.array_equal(january.gram, before)  # all of a batch, or none
    assert january.update(blocks_of(privacy_units[20:], first=20)) == collected(bound, privacy_units)
    with refused(InvalidDataError):
        SecondMoments(bound, 5).update_from(blocks_of(privacy_units[place:][:2], first=place) for place in range(9))
    with refused(InvalidDataError):
        SecondMoments(bound, 5).update(
            Blocks(privacy_units[5], np.array([0, 1]), np.array([[3, 4], [3, 4]], np.uint64))
        )


@pytest.mark.parametrize("wide", [False, True])
def test_the_layout_the_blocks_and_the_threads_change_no_bit(bound, wide, monkeypatch):
    privacy_units = visits()
    wanted, batch = collected(bound, privacy_units), blocks_of(privacy_units)
    if wide:
        monkeypatch.setattr(product_sums, "_WIDEST_THREADED", 4)
    for rows in (scipy.sparse.csr_array(batch.rows), np.asfortranarray(batch.rows), batch.rows.astype(np.float32)):
        for entries, cores in ((5, 1), (60, 3), (2**19, 2)):
            monkeypatch.setattr(product_sums, "_BLOCK_ENTRIES", entries)
            monkeypatch.setattr(product_sums, "_SMALLEST_PART", 5)
            monkeypatch.setattr(numerics, "available_cores", lambda cores=cores: cores)
            assert SecondMoments(bound, 5).update(Blocks(rows, batch.starts, batch.keys)) == wanted


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("options", [{}, {"scale": (1.0, 0.5, 3.0, 1 / 3, 10.0)}, {"bits": 24}])
def test_persons_of_one_row_are_rows(weight, options):
    rows = np.concatenate(visits())
    rows = rows[np.square(rows).sum(axis=1) < 5]  # clipped ones among them
    one_each = blocks_of(rows[:, None])
    as_units = SecondMoments(RowBound(1.0, unit_weight=weight, **options), 5).update(one_each)
    as_rows = SecondMoments(RowBound(1.0, **options), 5).update(rows)
    assert np.array_equal(as_units.gram, as_rows.gram)
    assert as_units != as_rows  # the promise is another


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("bits", [2, 16, 24])
@pytest.mark.parametrize("constant", [None, 1.0])
def test_rows_of_any_length_and_number_keep_the_limit(weight, bits, constant):
    generator = np.random.default_rng(bits)
    bound = RowBound(1.0, bits, constant=constant, unit_weight=weight)
    privacy_units = [generator.normal(size=(m, 3)) * 10.0**e for m in (1, 2, 5, 3000) for e in (-320, -8, 0, 9, 300)]
    privacy_units += [
        generator.normal(size=(m, 3)) * 10.0 ** generator.uniform(-2, 9, size=(m, 1)) for m in range(1, 300)
    ]
    for rows in privacy_units:
        rows[np.abs(rows) > 1e308] = 1e308
    _, traces = added_by_each(bound, blocks_of(privacy_units))
    assert 0.8 * bound.limit_squared < traces.max() <= bound.limit_squared


@pytest.mark.parametrize("constant", [None, 2.0])
def test_the_target_of_each_weight(constant):
    privacy_units = [rows for rows in visits() if np.square(rows).sum() < 30]
    average = sum(rows.T @ rows / len(rows) for rows in privacy_units)
    pooled = sum(rows.T @ rows for rows in privacy_units)
    for weight, target, norm in (("equal", average, 6.0), ("by_rows", pooled, 40.0)):
        bound = RowBound(norm, 22, constant=constant, unit_weight=weight)
        moments = collected(bound, privacy_units)
        read = moments.gram * bound.unit_squared
        assert np.allclose(read[:5, :5], target, atol=1e-3, rtol=1e-5)
        if constant is not None:
            means = [rows.mean(axis=0) if weight == "equal" else rows.sum(axis=0) for rows in privacy_units]
            assert np.allclose(read[:5, 5] / bound.constant_value, sum(means), atol=1e-3)
            count = len(privacy_units) if weight == "equal" else sum(map(len, privacy_units))
            assert math.isclose(read[5, 5] / bound.constant_value**2, count, rel_tol=1e-9)


def test_directions_are_averaged_over_each_person():
    privacy_units = [np.array([[3.0, 4.0], [-30.0, -40.0]]), np.array([[0.0, 0.1]])]
    moments = collected(RowBound(1.0, 20, statistic="normalized", unit_weight="equal"), privacy_units, 2)
    assert np.allclose(moments.gram / 4.0**20, [[0.36, 0.48], [0.48, 1.64]], atol=1e-5)


def test_batches_of_other_units_are_refused():
    privacy_units = RowBound(1.0, unit_weight="equal")
    with refused(InvalidDataError):
        SecondMoments(privacy_units, 2).update(np.ones((3, 2)))
    with refused(InvalidDataError):
        privacy_units.quantize(np.ones((3, 2)))
    good = blocks_of([np.ones((2, 2)), np.ones((1, 2))])
    with refused(InvalidDataError):
        SecondMoments(RowBound(1.0), 2).update(good)
    with refused(InvalidDataError):
        SecondMoments(privacy_units, 2).update_from([good, np.ones((3, 2))])
    for starts in ([0, 0], [1, 2], [0, 3], [0.0, 1.0], []):
        with refused(InvalidDataError):
            SecondMoments(privacy_units, 2).update(Blocks(good.rows, np.array(starts), good.keys))
    with refused(InvalidDataError):
        SecondMoments(privacy_units, 2).update(Blocks(good.rows, good.starts, good.keys[:1]))
    with refused(InvalidDataError):
        SecondMoments(privacy_units, 2).update(good) + SecondMoments(RowBound(1.0), 2)
    rows = good.rows.copy()
    rows[1] = np.nan
    with refused(InvalidDataError):
        SecondMoments(privacy_units, 2).update(Blocks(rows, good.starts, good.keys))
    kept = SecondMoments(RowBound(1.0, unit_weight="equal", on_invalid="zero"), 2)
    assert np.trace(kept.update(Blocks(rows, good.starts, good.keys)).gram) > 4**16


def test_squares_of_more_rows_than_one_limb_holds_are_rounded_once():
    generator = np.random.default_rng(4)
    squared = generator.integers(0, 2**52, 2**21 + 3).astype(np.float64)
    squared[-3:] = [1, 2, 3]
    starts = np.array([0, 5, 2**21 + 1])
    whole = squared.astype(np.int64).tolist()
    sums = [float(sum(whole[low:high])) for low, high in itertools.pairwise([*starts, len(whole)])]
    assert numpy_kernels._sums(squared, starts).tolist() == sums


def test_batches_print_no_rows():
    batch = blocks_of([np.full((37, 1), 0.125)])
    for private in (batch, Units(batch.rows, batch.starts), Weighted(batch.rows, np.ones(37))):
        assert not re.search("37|125", repr(private).partition(" at ")[0])


def test_capacity_is_by_persons_and_the_number_of_rows_is_nowhere():
    bound = RowBound(1.0, 24, unit_weight="equal")
    moments = SecondMoments(bound, 1).update(blocks_of([np.ones((5, 1))]))
    mechanism = MECHANISMS["laplace"](epsilon=1.0, n_features=1)
    assert release(mechanism, moments).n_rows == 1
    check_capacity(mechanism, bound.rule, 2**14 - 1)
    with refused(CapacityError):
        check_capacity(mechanism, bound.rule, 2**14)
    kept = {name: value for name, value in vars(moments).items() if np.ndim(value) == 0}
    assert 5 not in kept.values()


def test_the_rule_tells_its_unit_and_refuses_what_has_no_meaning():
    assert RowRule(1.0).unit is Unit.ROW
    assert RowRule(1.0, unit_weight="by_rows").unit is Unit.PERSON
    assert "unit_weight" not in RowRule(1.0).to_dict() or RowRule(1.0).to_dict()["unit_weight"] is None
    for options in (
        {"unit_weight": "visits"},
        {"unit_weight": "by_rows", "statistic": "spatial_sign", "comparisons": 8},
        {"unit_weight": "by_rows", "statistic": "normalized"},
        {"unit_weight": "equal", "mapped_from": 2.0, "constant": 0.5},
    ):
        with refused(InvalidParameterError):
            RowRule(1.0, **options)
