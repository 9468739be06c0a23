"""RowBound: the norm of a quantized row is bounded as a fact about integers, whatever the row."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.moments import RowBound
from helpers import refused

BITS = (2, 3, 8, 16, 23, 24)


def squared_norms(quantized):
    """The squared norms in Python integers; every entry must be an integer."""
    assert np.array_equal(quantized, np.trunc(quantized))
    return [sum(int(entry) ** 2 for entry in row) for row in quantized.tolist()]


def within_bound(bound, quantized):
    return all(squared <= 4**bound.bits for squared in squared_norms(quantized))


def reference_row(bound, row):
    """The rule of DESIGN section 3, one entry at a time; the clip in exact integers."""
    d = len(row)
    shift, scale = bound.shift or (0.0,) * d, bound.scale or (1.0,) * d
    r = [math.trunc((x - s) * (2.0**bound.bits * (c / bound.norm))) for x, s, c in zip(row, shift, scale, strict=True)]
    squared = sum(entry**2 for entry in r)
    if squared <= 4**bound.bits:
        return r
    return [int(math.copysign(math.isqrt(entry**2 * 4**bound.bits // squared), entry)) for entry in r]


def adversarial_rows(d, norm):
    """Rows of width d that try to pass the bound."""
    unit = np.zeros(d)
    unit[d // 2] = 1.0
    flat = np.full(d, 1 / math.sqrt(d))
    alternating = flat * (-1.0) ** np.arange(d)
    tail = np.full(d, 1e-3)
    tail[0] = 1.0
    rows = []
    for direction in (unit, flat, alternating, tail / np.linalg.norm(tail)):
        at_bound = direction * norm
        rows += [at_bound, np.nextafter(at_bound, math.inf), np.nextafter(at_bound, -math.inf)]
        rows += [at_bound * factor for factor in (1 + 1e-15, 1.5, 3.0, 1e6, 1e8, 1e20, 1e100, 1e-100)]
    rows += [np.full(d, value) for value in (1e308, -1e308, 5e-324, -5e-324, 2.2e-308, 0.0, -0.0)]
    for huge in (1e308, -1.7976931348623157e308, 1e154, 1e155, 2.0**26.5, 2.0**27):
        rows += [unit * huge, unit * huge + flat * norm, unit * huge + 5e-324]
    ramp = np.ldexp(1.0, np.clip(np.arange(d) - d // 2, -1000, 1000))
    return np.array([*rows, ramp, ramp * norm])


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("norm", [1.0, 0.1, 3.7e-9, 1e150, 1e-150])
def test_adversarial_rows_stay_within_the_bound(bits, norm):
    for d in (1, 2, 3, 17):
        bound = RowBound(norm, bits=bits)
        rows = adversarial_rows(d, norm)
        quantized = bound.quantize(rows)
        assert within_bound(bound, quantized)
        assert np.all(np.sign(quantized) * np.sign(rows) >= 0)  # no sign turned


@pytest.mark.parametrize("bits", [2, 16, 24])
def test_adversarial_rows_of_5000_features_stay_within_the_bound(bits):
    for norm in (1.0, 0.1):
        rows = adversarial_rows(5_000, norm)
        plain = RowBound(norm, bits=bits)
        moved = RowBound(norm, bits=bits, shift=np.full(5_000, -1e308), scale=np.linspace(1e-3, 1e3, 5_000))
        assert within_bound(plain, plain.quantize(rows))
        assert within_bound(moved, moved.quantize(rows))


finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def bound_and_rows(draw):
    d = draw(st.integers(1, 6))
    norm = draw(st.floats(1e-200, 1e200))
    options = {"bits": draw(st.integers(2, 24))}
    if draw(st.booleans()):
        options["shift"] = draw(st.lists(finite, min_size=d, max_size=d))
    if draw(st.booleans()):
        options["scale"] = draw(st.lists(st.floats(1e-200, 1e200), min_size=d, max_size=d))
    try:
        bound = RowBound(norm, **options)
    except InvalidParameterError:
        assume(False)
    near = st.floats(-2, 2).map(lambda x: x * norm)
    rows = draw(st.lists(st.lists(finite | near, min_size=d, max_size=d), min_size=1, max_size=5))
    return bound, np.array(rows)


@settings(max_examples=400)
@given(bound_and_rows())
@pytest.mark.heavy
def test_search_finds_no_row_beyond_the_bound(case):
    bound, rows = case
    quantized = bound.quantize(rows)
    assert within_bound(bound, quantized)
    # The same integers whatever the batch, the layout and the buffer.
    alone = np.vstack([bound.quantize(row[None, :]) for row in rows])
    assert np.array_equal(quantized, alone)
    assert np.array_equal(quantized, bound.quantize(np.asfortranarray(rows)))
    assert np.array_equal(bound.quantize(rows[::-1]), quantized[::-1])


@settings(max_examples=200)
@given(st.integers(2, 24), st.lists(st.integers(-(2**26), 2**26), min_size=1, max_size=8))
def test_search_over_integer_rows_near_the_bound(bits, entries):
    # norm = 2^bits makes one unit of the grid 1, so the rows are the grid's own integers before clipping.
    bound = RowBound(2.0**bits, bits=bits)
    assert within_bound(bound, bound.quantize(np.array([entries], dtype=float)))


def test_control_a_float_normalization_passes_the_bound_and_is_caught():
    # The usual rule, scale to the norm in floating point and round, is what the integer rule replaces.
    rows = np.random.default_rng(0).normal(size=(200, 7))
    bound = RowBound(1.0, bits=8)
    naive = np.rint(rows / np.linalg.norm(rows, axis=1, keepdims=True) * 2.0**8)
    assert not within_bound(bound, naive)
    assert within_bound(bound, bound.quantize(rows))


@settings(max_examples=300)
@given(
    st.integers(2, 24),
    st.lists(st.floats(-3, 3), min_size=1, max_size=6),
    st.sampled_from([None, 0.25, -1.0]),
    st.sampled_from([None, 0.5, 3.0]),
)
def test_ordinary_rows_follow_the_rule(bits, row, shift, scale):
    d = len(row)
    bound = RowBound(
        1.7,
        bits=bits,
        shift=None if shift is None else [shift] * d,
        scale=None if scale is None else [scale] * d,
    )
    got = [int(entry) for entry in bound.quantize(np.array([row]))[0]]
    wanted = reference_row(bound, row)
    unclipped = sum(entry**2 for entry in wanted) < 4**bits - 4 * d * 2**bits
    # Where the row is clipped, an entry within rounding of an integer may fall on either side of it.
    tolerance = 0 if unclipped else 1
    assert max(abs(a - b) for a, b in zip(got, wanted, strict=True)) <= tolerance


@settings(max_examples=200)
@given(st.lists(st.floats(-0.4, 0.4), min_size=1, max_size=5), st.integers(2, 24))
def test_quantizing_moves_an_entry_by_less_than_one_unit_towards_zero(row, bits):
    bound = RowBound(1.0, bits=bits)
    for x, q in zip(row, bound.quantize(np.array([row]))[0], strict=True):
        value = Fraction(x) * 2**bits
        assert abs(int(q)) <= abs(value) < abs(int(q)) + 1


@pytest.mark.parametrize("bits", [8, 16, 20])
def test_long_rows_keep_their_direction(bits):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(50, 5))
    for length in (1e3, 1e9, 1e100, 1e300):
        quantized = RowBound(1.0, bits=bits).quantize(rows * length)
        directions = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        assert np.abs(quantized / 2.0**bits - directions).max() <= 2.0 ** (1 - bits)


def test_a_row_whose_difference_from_the_shift_overflows_is_clipped_not_refused():
    bound = RowBound(1.0, bits=8, shift=[-1e308, 0.0])
    quantized = bound.quantize(np.array([[1e308, 0.0], [1e308, 1e308]]))
    assert quantized[0].tolist() == [256.0, 0.0]
    assert np.abs(quantized[1] - 256 * np.array([2, 1]) / math.sqrt(5)).max() <= 1
    assert within_bound(bound, quantized)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("options", [{}, {"shift": [0.5, 1.0, 2.0]}, {"scale": [1.0, 2.0, 3.0]}])
def test_a_row_that_is_not_finite_is_an_error_or_the_zero_row(bad, options):
    rows = np.array([[0.125, 0.25, 0.5], [0.125, bad, 987.654], [0.1, 0.2, 0.3]])
    with refused(InvalidDataError, "987", "nan,", "0.125"):
        RowBound(1.0, **options).quantize(rows)
    bound = RowBound(1.0, **options, on_invalid="zero")
    quantized = bound.quantize(rows)
    assert not quantized[1].any()
    good = rows[[0, 2]]
    assert np.array_equal(quantized[[0, 2]], RowBound(1.0, **options).quantize(good))


def test_invalid_rows_count_as_zero_beside_huge_ones():
    bound = RowBound(1.0, bits=8, on_invalid="zero")
    rows = np.array([[math.nan, 1e308], [1e308, 0.0], [math.inf, -math.inf]])
    assert bound.quantize(rows).tolist() == [[0.0, 0.0], [256.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("norm", [0, -1.0, math.nan, math.inf, "1", None, True, [1.0], 10**400])
def test_a_bound_that_is_no_positive_number_is_refused(norm):
    with refused(InvalidParameterError):
        RowBound(norm)


@pytest.mark.parametrize(
    "options",
    [
        {"bits": 1},
        {"bits": 25},
        {"bits": 8.0},
        {"bits": True},
        {"shift": []},
        {"shift": [math.nan]},
        {"shift": [math.inf, 1.0]},
        {"shift": ["a"]},
        {"shift": 3.0},
        {"shift": [[1.0, 2.0], [3.0]]},
        {"scale": [0.0, 1.0]},
        {"scale": [-1.0]},
        {"scale": [math.nan]},
        {"scale": [[1.0]]},
        {"scale": [1e-320], "norm": 1e300},
        {"scale": [1e300], "norm": 1e-300},
        {"shift": [1.0], "scale": [1.0, 2.0]},
        {"on_invalid": "ignore"},
        {"on_invalid": None},
    ],
)
def test_parameters_out_of_range_are_refused(options):
    with refused(InvalidParameterError):
        RowBound(**{"norm": 1.0, **options})


def test_a_bound_is_a_frozen_value():
    bound = RowBound(2, shift=np.array([1, 2]), scale=(1.0, 2.0))
    assert bound == RowBound(2.0, 16, [1.0, 2.0], np.array([1.0, 2.0]))
    assert hash(bound) == hash(RowBound(2.0, 16, [1.0, 2.0], np.array([1.0, 2.0])))
    assert bound != RowBound(2.0)
    assert bound.limit_squared == 4**16
    assert bound.unit_squared == (2.0 / 2**16) ** 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        bound.norm = 5.0
    with refused(InvalidParameterError):
        bound.check_width(3)
    bound.check_width(2)
