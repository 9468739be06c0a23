"""SecondMoments: exact integers, the same bits whatever the order, the batch, the layout or the engine."""

import copy
import dataclasses
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenveil import numerics, release
from eigenveil.errors import CapacityError, InvalidDataError, InvalidParameterError
from eigenveil.mechanisms import MECHANISMS
from eigenveil.moments import RowBound
from eigenveil.moments import sums as product_sums
from eigenveil.moments.second_moments import SecondMoments
from eigenveil.moments.sums import ProductSum
from eigenveil.moments.units import Units
from helpers import refused

D = 7
OPTIONS = {
    "plain": {},
    "scale": {"scale": [1.0, 0.5, 3.0, 1 / 3, 2.0, 10.0, 0.1]},
    "shift": {"shift": [0.1, -0.2, 0.0, 1.0, 0.0, 0.3, -4.0]},
    "both": {"shift": [0.1, -0.2, 0.0, 1.0, 0.0, 0.3, -4.0], "scale": [1.0, 0.5, 3.0, 1 / 3, 2.0, 10.0, 0.1]},
}


def mixed_rows(n=211):
    """Ordinary, clipped, very long, tiny, sparse and zero rows; all of them float32 numbers."""
    rng = np.random.default_rng(20)
    lengths = 10.0 ** rng.choice([-40, -3, -1, 0, 1, 4, 9, 20, 37], size=(n, 1))
    rows = rng.normal(size=(n, D)) * lengths * (rng.random((n, D)) < 0.5)
    rows[::13] = 0.0
    return rows.astype(np.float32).astype(np.float64)


def brute_force_gram(bound, rows):
    """Python integers, one row at a time."""
    d = rows.shape[1]
    total = [[0] * d for _ in range(d)]
    for row in rows:
        q = [int(entry) for entry in bound.quantize(row[None, :])[0]]
        for i in range(d):
            for j in range(d):
                total[i][j] += q[i] * q[j]
    return total


def collected(bound, rows):
    return SecondMoments(bound, D).update(rows)


@pytest.fixture(params=OPTIONS, scope="module")
def bound(request):
    return RowBound(1.5, bits=16, **OPTIONS[request.param])


@pytest.mark.parametrize("bits", [2, 11, 16, 24])
@pytest.mark.parametrize("name", OPTIONS)
def test_the_gram_matrix_is_that_of_python_integers(bits, name):
    bound, rows = RowBound(1.5, bits=bits, **OPTIONS[name]), mixed_rows()
    result = collected(bound, rows)
    assert result.gram.dtype == np.int64
    assert result.gram.tolist() == brute_force_gram(bound, rows)
    assert result.n_rows == rows.shape[0]


def test_any_order_of_rows_gives_the_same_bits(bound):
    rows = mixed_rows()
    wanted = collected(bound, rows)
    rng = np.random.default_rng(3)
    for _ in range(5):
        assert collected(bound, rows[rng.permutation(len(rows))]) == wanted


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("entries", [1, 1000])
def test_any_block_size_and_thread_count_gives_the_same_bits(monkeypatch, bound, entries, cores):
    rows = mixed_rows()
    wanted = collected(bound, rows)
    monkeypatch.setattr(product_sums, "_BLOCK_ENTRIES", entries)
    monkeypatch.setattr(product_sums, "_SMALLEST_PART", D)
    monkeypatch.setattr(numerics, "available_cores", lambda: cores)
    assert collected(bound, rows) == wanted
    assert collected(bound, sp.csr_array(rows)) == wanted


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("widest", [0, 1024])
def test_batches_multiplied_while_others_are_read_give_the_same_bits(monkeypatch, bound, cores, widest):
    rows = mixed_rows()
    monkeypatch.setattr(numerics, "available_cores", lambda: cores)
    monkeypatch.setattr(product_sums, "_WIDEST_THREADED", widest)
    batches = [rows[:1], sp.csr_array(rows[1:50]), rows[50:51].astype(np.float32), rows[51:200], rows[200:]]
    assert SecondMoments(bound, D).update_from(iter(batches)) == collected(bound, rows)


def test_batches_are_read_no_further_ahead_than_the_threads_can_use(monkeypatch):
    monkeypatch.setattr(numerics, "available_cores", lambda: 2)
    finished = []
    add = product_sums.ProductSum.add
    monkeypatch.setattr(product_sums.ProductSum, "add", lambda *of: (add(*of), finished.append(1))[0])

    def batches():
        for count in range(20):
            assert len(finished) >= count - 2  # else more than two batches wait in memory
            yield np.ones((1, D))

    assert SecondMoments(RowBound(3.0), D).update_from(batches()).n_rows == 20


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sp.csr_array])
@pytest.mark.parametrize("constant", [None, 0.5])
def test_wide_rows_give_the_same_bits(monkeypatch, bound, make, constant):
    bound = dataclasses.replace(bound, constant=constant)
    rows = make(mixed_rows())
    wanted = collected(bound, rows)
    monkeypatch.setattr(product_sums, "_WIDEST_THREADED", 0)
    monkeypatch.setattr(product_sums, "_WIDE_BLOCK", 50)
    assert collected(bound, rows) == wanted


def layouts(rows):
    yield "fortran", np.asfortranarray(rows)
    yield "float32", rows.astype(np.float32)
    yield "float32 fortran", np.asfortranarray(rows.astype(np.float32))
    yield "swapped bytes", rows.astype(">f8")
    yield "strided", np.repeat(np.repeat(rows, 2, axis=0), 3, axis=1)[::2, ::3]
    yield "reversed twice", rows[::-1, ::-1].copy()[::-1, ::-1]
    frozen = rows.copy()
    frozen.flags.writeable = False
    yield "read-only", frozen
    yield "list", rows.tolist()
    yield "data frame", pd.DataFrame(rows)


def sparse_layouts(rows):
    for form in ("csr", "csc", "coo", "lil", "dok", "bsr"):
        yield f"{form} array", sp.coo_array(rows).asformat(form)
        yield f"{form} matrix", sp.coo_matrix(rows).asformat(form)
    yield "float32", sp.csr_array(rows.astype(np.float32))
    unsorted = sp.csr_array(rows)
    for low, high in zip(unsorted.indptr[:-1], unsorted.indptr[1:], strict=True):
        unsorted.indices[low:high] = unsorted.indices[low:high][::-1].copy()
        unsorted.data[low:high] = unsorted.data[low:high][::-1].copy()
    unsorted.has_sorted_indices = False
    unsorted.has_canonical_format = False
    yield "unsorted indices", unsorted
    every = sp.csr_array(np.ones_like(rows))
    every.data[:] = rows.ravel()
    yield "stored zeros", every
    coo = sp.coo_array(rows)
    halves = (np.tile(coo.data / 2, 2), (np.tile(coo.row, 2), np.tile(coo.col, 2)))
    yield "duplicate coo", sp.coo_array(halves, shape=rows.shape)
    order = np.argsort(halves[1][0], kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(halves[1][0], minlength=len(rows)))])
    yield (
        "duplicate csr",
        sp.csr_array((halves[0][order], halves[1][1][order], indptr), shape=rows.shape),
    )


def test_any_dense_layout_gives_the_same_bits(bound):
    rows = mixed_rows()
    wanted = collected(bound, rows)
    for name, variant in layouts(rows):
        assert collected(bound, variant) == wanted, name


def test_any_sparse_layout_gives_the_same_bits_and_is_left_as_it_was(bound):
    rows = mixed_rows()
    rows[np.abs(rows) < 1e-37] = 0.0  # halving the smallest float32 numbers is not exact
    wanted = collected(bound, rows)
    for name, variant in sparse_layouts(rows):
        before = copy.deepcopy(variant)
        assert collected(bound, variant) == wanted, name
        assert variant.nnz == before.nnz, name
        if hasattr(variant, "indptr"):
            assert np.array_equal(variant.indptr, before.indptr), name
            assert np.array_equal(variant.indices, before.indices), name
            assert np.array_equal(variant.data, before.data), name


@pytest.mark.parametrize("dtype", ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2"])
def test_every_real_dtype_counts_as_its_numbers(bound, dtype):
    small = np.random.default_rng(4).integers(0, 2 if dtype == "bool" else 100, size=(40, D)).astype(dtype)
    wanted = collected(bound, small.astype(np.float64))
    assert collected(bound, small) == wanted
    if dtype != "f2":
        assert collected(bound, sp.csr_array(small)) == wanted


@settings(max_examples=60)
@given(st.data())
def test_any_tree_of_sums_gives_the_same_bits(data):
    rows = mixed_rows(60)
    bound = RowBound(1.5, **OPTIONS[data.draw(st.sampled_from(sorted(OPTIONS)))])
    order = data.draw(st.permutations(range(len(rows))))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(rows) - 1), max_size=8)))
    pieces = [SecondMoments(bound, D)]  # an empty one changes nothing
    for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        part = rows[order[low:high]]
        pieces.append(collected(bound, sp.csr_array(part) if data.draw(st.booleans()) else part))
    while len(pieces) > 1:
        first = pieces.pop(data.draw(st.integers(0, len(pieces) - 1)))
        second = pieces.pop(data.draw(st.integers(0, len(pieces) - 1)))
        pieces.append(first + second)
    assert pieces[0] == collected(bound, rows)


def odd_rows(n):
    """Rows whose quantized entries are odd and as long as they may be at bits=24."""
    return np.full((n, 1), (2.0**24 - 1) / 2.0**24)


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sp.csr_array])
@pytest.mark.parametrize("n", [32, 33, 1001])
def test_sums_beyond_the_exact_range_of_float64_are_exact(n, make):
    result = SecondMoments(RowBound(1.0, bits=24), 1).update(make(odd_rows(n)))
    assert int(result.gram[0, 0]) == n * (2**24 - 1) ** 2


MOST = 2**14 - 1
"""Rows of 24 bits with n * 4^24 < 2^62: half of int64, the other half is room for the noise."""


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("d", "most"), [(1, MOST), (3, MOST), (1025, 3)])
def test_sums_beyond_int64_are_exact_however_they_are_made(monkeypatch, make, d, most):
    """The number of rows may be private, so that none is too many."""
    monkeypatch.setattr(product_sums, "MOST_SUM", (most + 1) * 4**24)
    bound = RowBound(1.0, bits=24)
    few, rows = np.zeros((1, d)), np.zeros((most, d))
    few[:, -1], rows[:, -1] = 1.0, -1.0
    full = SecondMoments(bound, d).update(make(rows))
    assert full.gram.dtype == np.int64
    one = SecondMoments(bound, d).update(make(few))
    doubled = SecondMoments(bound, d).update_from([make(rows), make(rows), make(few)])
    for total, n in ((full + one, most + 1), (one + full, most + 1), (full + full + one, 2 * most + 1)):
        assert total.gram.dtype == object
        assert total.n_rows == n
        assert int(total.gram[-1, -1]) == n * 4**24
        assert not total.gram[:-1].any()
    assert doubled == full + full + one
    assert full.update(make(few)) == one + SecondMoments(bound, d).update(make(rows))


def test_one_long_product_widens_on_its_way():
    products = ProductSum(RowBound(1.0, bits=24), 1)
    for _ in range(5):
        products.add(Units(np.ones((MOST, 1))))
    assert products.total().tolist() == [[5 * MOST * 4**24]]


@pytest.mark.parametrize("n", [0, MOST, MOST + 1])
def test_the_number_of_rows_is_refused_only_where_it_is_public(n):
    moments = SecondMoments(RowBound(1.0, bits=24), 1).update(np.zeros((n, 1)))
    for adjacency in ("replace_one", "add_or_remove_one"):
        mechanism = MECHANISMS["matrix_laplace"](epsilon=1.0, n_features=1, adjacency=adjacency)
        if n == MOST or adjacency == "add_or_remove_one":
            assert release(mechanism, moments).integers["matrix"].shape == (1, 1)
        else:
            with refused(CapacityError if n else InvalidDataError, n):
                release(mechanism, moments)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_no_rows_add_nothing(make):
    for d in (2, 1025):
        rows = make(np.zeros((0, d)))
        moments = SecondMoments(RowBound(1.0), d)
        assert moments.update(rows).update_from([rows, rows]) == SecondMoments(RowBound(1.0), d)


@pytest.mark.parametrize("widest", [0, 1024])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_an_update_adds_all_rows_or_none(monkeypatch, bound, make, widest):
    monkeypatch.setattr(product_sums, "_BLOCK_ENTRIES", D)
    monkeypatch.setattr(product_sums, "_SMALLEST_PART", D)
    monkeypatch.setattr(product_sums, "_WIDEST_THREADED", widest)
    good = mixed_rows(50)
    result = collected(bound, good)
    bad = mixed_rows(200)
    bad[-1, -1] = math.nan
    with refused(InvalidDataError):
        result.update(make(bad))
    assert result == collected(bound, good)


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_array])
def test_rows_that_are_not_finite_may_count_as_zero(make):
    rows = mixed_rows()
    bad = rows.copy()
    bad[5, 2], bad[17, 0], bad[17, 1], bad[100] = math.nan, math.inf, -math.inf, math.nan
    zeroed = rows.copy()
    zeroed[[5, 17, 100]] = 0.0
    for name in ("plain", "scale"):
        lenient = RowBound(1.5, **OPTIONS[name], on_invalid="zero")
        assert collected(lenient, make(bad)) == collected(lenient, zeroed)
        with refused(InvalidDataError):
            collected(RowBound(1.5, **OPTIONS[name]), make(bad))
    shifted = RowBound(1.5, **OPTIONS["shift"], on_invalid="zero")
    kept = np.delete(rows, [5, 17, 100], axis=0)
    result = collected(shifted, make(bad))
    assert np.array_equal(result.gram, collected(shifted, kept).gram)
    assert result.n_rows == len(rows)


SECRET = 98765.4321


@pytest.mark.parametrize(
    "data",
    [
        np.array([[SECRET, math.nan]]),
        np.array([[SECRET, math.inf]]),
        np.array([[SECRET, -math.inf]]),
        sp.csr_array(np.array([[SECRET, math.nan]])),
        np.array([[SECRET]]),
        np.array([[SECRET] * 3]),
        sp.csr_array(np.array([[SECRET] * 3])),
        np.zeros((0, 0)),
        [],
        [[]],
        np.array(SECRET),
        np.array([SECRET, SECRET]),
        np.full((1, 2, 2), SECRET),
        [["98765.4321", "b"]],
        np.array([["98765.4321", "b"]]),
        np.array([["98765.4321", 1.0]], dtype=object),
        np.array([[b"98765.4321", b""]]),
        np.array([[SECRET, 1j]]),
        sp.csr_array(np.array([[SECRET, 1j]])),
        np.array([["2020-01-01", "2020-01-02"]], dtype="M8[D]"),
        np.ma.masked_array([[SECRET, 1.0]], mask=[[True, False]]),
        [[SECRET, 1.0], [SECRET]],
        "98765.4321",
        None,
        {"a": SECRET},
        pd.DataFrame({"a": [SECRET], "b": ["98765.4321"]}),
    ],
    ids=lambda data: f"{type(data).__name__} {getattr(data, 'shape', '')}",
)
def test_unusable_data_are_refused_in_one_sentence_without_a_value(data):
    result = SecondMoments(RowBound(1.0), 2)
    with refused(InvalidDataError, "98765"):
        result.update(data)
    assert result == SecondMoments(RowBound(1.0), 2)


def test_an_error_about_text_does_not_tell_its_length():
    # The dtype of a text column names the length of its longest cell, which is a fact about one person.
    texts = []
    for cell in ("a", "a" * 37):
        with refused(InvalidDataError) as info:
            SecondMoments(RowBound(1.0), 2).update(np.array([[cell, "b"]]))
        texts.append(str(info.value))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("n_features", [0, -1, 2.0, "2", None, True])
def test_a_width_that_is_no_count_is_refused(n_features):
    with refused(InvalidParameterError):
        SecondMoments(RowBound(1.0), n_features)


def test_parameters_of_another_width_are_refused():
    for options in ({"shift": [1.0, 2.0]}, {"scale": [1.0, 2.0]}):
        with refused(InvalidParameterError):
            SecondMoments(RowBound(1.0, **options), 3)
    with refused(InvalidParameterError):
        SecondMoments(RowBound(1.0), 3, ["a", "b"])


def test_different_moments_do_not_add():
    base = SecondMoments(RowBound(1.0), 2, ["a", "b"])
    others = [
        SecondMoments(RowBound(2.0), 2),
        SecondMoments(RowBound(1.0, bits=8), 2),
        SecondMoments(RowBound(1.0, shift=[0.0, 0.0]), 2),
        SecondMoments(RowBound(1.0), 3),
        SecondMoments(RowBound(1.0), 2, ["a", "c"]),
    ]
    for other in others:
        with refused(InvalidDataError):
            base + other
    with pytest.raises(TypeError):
        base + 1
    assert (base + SecondMoments(RowBound(1.0), 2)).feature_names == ("a", "b")
    assert (SecondMoments(RowBound(1.0), 2) + base).feature_names == ("a", "b")


def test_a_sum_is_a_new_object():
    first, second = collected(RowBound(1.5), mixed_rows(20)), collected(RowBound(1.5), mixed_rows(30))
    kept = copy.deepcopy(first), copy.deepcopy(second)
    total = first + second
    total.update(mixed_rows(10))
    assert (first, second) == kept


def test_the_gram_matrix_cannot_be_written():
    result = collected(RowBound(1.5), mixed_rows())
    for write in (lambda g: g.__setitem__((0, 0), 1), lambda g: g.__iadd__(1), lambda g: g.sort()):
        with pytest.raises(ValueError, match="read-only"):
            write(result.gram)
    with pytest.raises(AttributeError):
        result.gram = np.zeros((D, D))
    assert result == collected(RowBound(1.5), mixed_rows())


def test_equality_sees_every_part():
    rows = mixed_rows()
    base = collected(RowBound(1.5), rows)
    assert base == collected(RowBound(1.5), rows)
    assert base != collected(RowBound(1.5), rows[:-1])
    assert base != collected(RowBound(1.4), rows)
    assert base != collected(RowBound(1.5), np.vstack([rows, np.zeros((1, D))]))
    assert base != "moments"
    with pytest.raises(TypeError):
        hash(base)


def test_the_text_tells_nothing_about_the_rows():
    empty, full = SecondMoments(RowBound(1.0), 2), SecondMoments(RowBound(1.0), 2)
    full.update(np.full((4321, 2), 0.3))
    assert repr(empty) == repr(full)
    assert str(empty) == str(full)


def test_moments_survive_pickling():
    result = collected(RowBound(1.5), mixed_rows())
    assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.parametrize("d", [1, 1_100])
def test_one_feature_and_many(d):
    rows = np.random.default_rng(8).normal(size=(30, d))
    bound = RowBound(0.5, bits=12)
    q = bound.quantize(rows).astype(np.int64)
    for variant in (rows, sp.csr_array(rows)):
        assert np.array_equal(SecondMoments(bound, d).update(variant).gram, q.T @ q)


@pytest.mark.parametrize("bits", [4, 16, 24])
def test_a_constant_is_one_more_column_of_the_integer_rows(bits):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 6)) * (rng.random((300, 6)) < 0.5)
    bound = RowBound(2.0, bits=bits, constant=1.3)
    rows = np.hstack([bound.quantize(X), np.full((300, 1), bound.constant_units)]).astype(object).astype(int)
    expected = rows.astype(object).T @ rows.astype(object)
    for data in (X, np.asfortranarray(X), sp.csr_array(X)):
        moments = SecondMoments(bound, 6).update(data)
        assert moments.gram.tolist() == expected.tolist()
    assert int(np.max(np.sum(rows.astype(object) ** 2, axis=1))) <= bound.limit_squared


@pytest.mark.parametrize("d", [3, product_sums._WIDEST_THREADED + 1])
def test_moments_whose_update_was_broken_off_are_of_no_use(d):
    """Part of the rows may be in: whoever repeats the update would count them twice."""
    moments = SecondMoments(RowBound(1.0), d).update(np.eye(3, d))

    def interrupted():
        yield np.eye(2, d)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        moments.update_from(interrupted())
    mechanism = MECHANISMS["laplace"](epsilon=1.0, n_features=d)
    for use in (lambda: moments.update(np.eye(2, d)), lambda: moments + moments, lambda: moments.gram):
        with refused(InvalidDataError):
            use()
    with refused(InvalidDataError):
        release(mechanism, moments)


def test_duplicates_that_add_to_infinity_are_refused_before_anything_is_added(monkeypatch):
    d = product_sums._WIDEST_THREADED + 1
    monkeypatch.setattr(product_sums, "_BLOCK_ENTRIES", 2)
    rows = sp.csr_array((np.array([0.5, 1e308, 1e308]), np.array([0, 1, 1]), np.array([0, 1, 3])), shape=(2, d))
    moments = SecondMoments(RowBound(1.0), d)
    with np.errstate(over="ignore"), refused(InvalidDataError):
        moments.update(rows)
    assert not moments.gram.any()
    assert moments.update(np.eye(1, d)).n_rows == 1
