"""The compiled passes over rows of privacy units and CSR rows give what NumPy gives, number for number."""

import numpy as np
import pytest
import scipy.sparse

from eigenveil import RowBound, SecondMoments
from eigenveil.errors import InvalidDataError
from eigenveil.moments import numpy_kernels, unit_kernels
from eigenveil.moments.comparisons import chosen_rows
from eigenveil.moments.counts import RowSizes
from eigenveil.moments.units import Blocks, units_of
from made_units import WEIGHTS, visits

needs_compiled = pytest.mark.skipif(unit_kernels.compiled() is None, reason="nothing was compiled")
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
    yield "in order", Blocks(rows, starts, keys)
    yield "strided", Blocks(np.column_stack([rows, rows])[:, :5], starts, keys)
    yield "by column", Blocks(np.asfortranarray(rows), starts, keys)


LONG = (
    np.array([[1e300, 0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0, 1.0]]),
    np.array([[1e9, -1e9, 3.0, 0.0, 1e5]] * 3),
    np.array([[5e-324, -0.0, 0.0, 1e-300, 0.0]]),
)


def by_numpy(monkeypatch, work):
    with monkeypatch.context() as patch:
        patch.setattr(unit_kernels, "compiled", lambda: None)
        return work()


@needs_compiled
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("name", BOUNDS)
def test_moments_and_counts_of_units(monkeypatch, weight, name):
    bound = RowBound(2.0, unit_weight=weight, **BOUNDS[name])
    shift, scale = (None if one is None else np.asarray(one) for one in (bound.shift, bound.scale))

    def found(batch):
        integers = bound.quantize_units(units_of(True, batch))
        sizes = RowSizes(shift, scale, unit_weight=weight).update(batch)
        return [*integers, SecondMoments(bound, 5).update(batch).gram, sizes.at_most()]

    for _, batch in batches(LONG):
        for ours, its in zip(by_numpy(monkeypatch, lambda b=batch: found(b)), found(batch), strict=True):
            np.testing.assert_array_equal(ours, its)


@needs_compiled
def test_rows_are_chosen_alike_also_equal_ones(monkeypatch):
    generator = np.random.default_rng(5)
    same = [generator.integers(-1, 2, (size, 5)) * generator.choice([-1.0, 0.0, 1.0]) for size in (2, 9, 32, 33, 200)]
    for _, batch in batches((*LONG, *same)):
        assert np.array_equal(by_numpy(monkeypatch, lambda b=batch: chosen_rows(b)), chosen_rows(batch))


@needs_compiled
def test_different_rows_of_one_hash_are_left_to_numpy(monkeypatch):
    rows, starts = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([0, 2])
    hashes = np.array([3, 4], dtype=np.uint64)
    assert (unit_kernels.smallest_hashes(rows, starts, hashes) >= 0).all()
    monkeypatch.setattr(unit_kernels, "hash_weights", lambda d: np.zeros(d, dtype=np.uint64))
    assert unit_kernels.smallest_hashes(rows, starts, hashes).tolist() == [-1, 2]
    wanted = rows[numpy_kernels.smallest_hashes(rows, starts, numpy_kernels.split_mix(hashes))]
    keys = np.zeros((2, 2), dtype=np.uint64)
    keys[:, 0] = hashes - numpy_kernels.split_mix(keys[:, 1])
    assert np.array_equal(chosen_rows(Blocks(rows, starts, keys)), wanted)


@needs_compiled
@pytest.mark.parametrize("size", [3, 32, 33, 100])
def test_a_unit_with_different_rows_of_one_hash_is_left_however_many_it_has(monkeypatch, size):
    rows, hashes = np.ones((size + 1, 2)), np.array([3, 4], dtype=np.uint64)
    monkeypatch.setattr(unit_kernels, "hash_weights", lambda d: np.zeros(d, dtype=np.uint64))
    found = unit_kernels.smallest_hashes(rows, np.array([0, size]), hashes)
    assert 0 <= found[0] < size
    assert found[1] == size
    rows[size - 1] = 2.0
    assert unit_kernels.smallest_hashes(rows, np.array([0, size]), hashes).tolist() == [-1, size]


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_what_is_not_finite_is_refused(number, weight):
    broken = (np.array([[1.0, 1.0, number, 1.0, 1.0]]),)
    for _, batch in batches(broken):
        for work in (
            lambda b=batch: SecondMoments(RowBound(1.0, unit_weight=weight), 5).update(b),
            lambda b=batch: RowSizes(None, None, unit_weight=weight).update(b),
            lambda b=batch: chosen_rows(b),
        ):
            with pytest.raises(InvalidDataError, match="NaN or infinity"):
                work()


@needs_compiled
@pytest.mark.parametrize("options", [{}, {"constant": 0.5}, {"scale": tuple(0.1 * np.arange(1, 41))}])
def test_products_of_csr_rows(monkeypatch, options):
    generator = np.random.default_rng(2)
    rows = scipy.sparse.csr_array(np.where(generator.random((500, 40)) < 0.1, generator.random((500, 40)), 0.0))
    rows.data *= 10.0 ** generator.choice([-5.0, 0.0, 1.0, 9.0, 200.0], rows.nnz)
    bound = RowBound(2.0, **options)
    dense = SecondMoments(bound, 40).update(rows.toarray())
    for some in (rows, rows.minimum(9.0).astype(np.float32), rows[:, ::-1], rows.tocoo()):
        ours = SecondMoments(bound, 40).update(some)
        assert ours == by_numpy(monkeypatch, lambda s=some: SecondMoments(bound, 40).update(s))
    assert SecondMoments(bound, 40).update(rows) == dense
