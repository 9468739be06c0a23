"""The ring of comparisons: which rows are compared, whatever the cuts, against a naive double loop."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenveil import PrivateCovariance, PrivatePCA, PrivateRidge, RowBound, SecondMoments, release
from eigenveil.errors import CapacityError, InvalidDataError, InvalidParameterError
from eigenveil.estimators.base import PrivateEstimator
from eigenveil.estimators.fit import with_last_differences
from eigenveil.mechanisms import MECHANISMS
from eigenveil.moments.comparisons import COMPARISONS, NeighbourDifferences
from eigenveil.moments.row_rule import RowRule
from helpers import moments_on, refused

KINDS = ("spatial_sign", "kendall")


def bound(kind, d, k=COMPARISONS, bits=16, scale=None):
    return RowBound(1.0 if kind == "spatial_sign" else d**0.5, bits=bits, statistic=kind, comparisons=k, scale=scale)


def naive_partners(n, h):
    """The comparisons of the docs, one at a time: h after each row, around again where there are no more rows."""
    for i in range(n):
        for step in range(h):
            yield i, (i + 1 + (step % (n - 1) if n <= h else step)) % n


def naive_comparison(rule, x, y):
    """One integer row, in Python integers: rows are small whole numbers here."""
    if rule.statistic == "kendall":
        unit = math.isqrt(4**rule.bits // len(x))
        return [unit * ((a > b) - (a < b)) for a, b in zip(x, y, strict=True)]
    difference = [a - b for a, b in zip(x, y, strict=True)]
    squared = sum(entry**2 for entry in difference)
    return [
        int(math.copysign(math.isqrt(4**rule.bits * entry**2 // squared), entry)) if squared else 0
        for entry in difference
    ]


def naive_gram(rule, rows):
    rows = [[int(entry) for entry in row] for row in rows]
    d = len(rows[0])
    gram = [[0] * d for _ in range(d)]
    for i, j in naive_partners(len(rows), rule.comparisons // 2):
        q = naive_comparison(rule, rows[i], rows[j])
        for a in range(d):
            for b in range(d):
                gram[a][b] += q[a] * q[b]
    return gram


def ring_moments(rule, rows, cuts=()):
    return moments_on(NeighbourDifferences(rule), rule, rows, cuts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [2, 4, 8])
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 8, 9, 30])
def test_the_sum_is_that_of_a_double_loop(kind, k, n):
    rows = np.random.default_rng(n).integers(-3, 4, size=(n, 3)).astype(float)
    moments = ring_moments(bound(kind, 3, k), rows)
    assert moments.gram.tolist() == naive_gram(moments.bound, rows)
    assert moments.n_samples == n
    assert moments.n_rows == n * k // 2


@pytest.mark.parametrize("h", [1, 2, 4])
@pytest.mark.parametrize("n", range(2, 12))
def test_every_row_takes_part_in_k_comparisons_and_in_none_with_itself(n, h):
    """What the divisor n k/2 and the sensitivity k rest on, few rows included."""
    parts = np.zeros(n, dtype=int)
    for i, j in naive_partners(n, h):
        assert i != j
        parts[i] += 1
        parts[j] += 1
    assert (parts == 2 * h).all()


@given(st.integers(1, 40), st.lists(st.integers(0, 40), max_size=8), st.sampled_from(KINDS), st.sampled_from([2, 8]))
@settings(max_examples=30)
def test_cuts_between_batches_change_nothing(n, cuts, kind, k):
    rows = np.random.default_rng(n).normal(size=(n, 2)) ** 3
    rule = bound(kind, 2, k)
    whole = ring_moments(rule, rows)
    assert ring_moments(rule, rows, [min(cut, n) for cut in cuts]) == whole
    assert ring_moments(rule, rows, range(1, n)) == whole
    assert whole.n_samples == (n if n > 1 else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_closing_leaves_the_ring_open(kind):
    rows = np.random.default_rng(0).normal(size=(20, 3))
    differences_buffer = NeighbourDifferences(bound(kind, 3))
    list(differences_buffer.push(rows[:11]))
    branch = differences_buffer.branch()
    first = [np.asarray(part).tolist() for part in differences_buffer.closing()]
    list(branch.push(rows[11:]))
    assert [
        np.asarray(part).tolist() for part in differences_buffer.closing()
    ] == first  # neither closing nor a branch moves it
    assert sum(part.shape[0] for part in differences_buffer.push(rows[11:])) == 9 * 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_a_refused_release_leaves_the_ring_open_for_more_rows(kind):
    rows = np.random.default_rng(1).normal(size=(57, 3))
    model = PrivateCovariance(statistic=kind, epsilon=5.0, random_state=3)
    whole = PrivateCovariance(statistic=kind, epsilon=5.0, random_state=3).fit(rows)
    model.partial_fit(rows[:3]).partial_fit(rows[3:30])
    with pytest.raises(InvalidParameterError):
        model.set_params(mechanism="nonsense").fit_moments()
    model.set_params(mechanism="auto").partial_fit(rows[30:]).fit_moments()
    assert np.array_equal(model.release_.integers["matrix"], whole.release_.integers["matrix"])
    assert model.n_samples_ == whole.n_samples_ == 57


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_is_refused_and_two_are_enough(kind):
    rows = np.array([[1.0, 2.0], [2.0, 4.0]])
    with refused(InvalidDataError):
        PrivateCovariance(statistic=kind).fit(rows[:1])
    with refused(InvalidDataError):
        PrivateCovariance(statistic=kind).partial_fit(rows[:1]).fit_moments()
    gram = ring_moments(bound(kind, 2), rows)
    mean = gram.gram * gram.bound.unit_squared / gram.n_samples
    assert np.allclose(mean, [[0.2, 0.4], [0.4, 0.8]] if kind == "spatial_sign" else np.ones((2, 2)), atol=1e-4)


def test_signs_are_exact_comparisons_of_numbers_of_any_size():
    """No subtraction: neither 1e308 overflows nor the smallest difference is lost."""
    tiny = 5e-324
    rows = np.array([[1e308, 1.0, 0.0], [-1e308, np.nextafter(1.0, 2.0), tiny], [1.7e308, 1.0, -tiny]])
    differences_buffer = NeighbourDifferences(bound("kendall", 3, 2))
    (streamed,) = map(np.asarray, differences_buffer.push(rows))
    assert streamed.tolist() == [[-1.0, 1.0, 1.0], [1.0, -1.0, -1.0]]
    moments = ring_moments(bound("kendall", 3, 2), rows)
    unit = math.isqrt(4**16 // 3)
    assert moments.gram[0, 0] == 2 * unit**2 + unit**2
    assert moments.gram[1, 1] == 2 * unit**2  # one tie


def test_directions_of_numbers_of_any_size():
    differences_buffer = NeighbourDifferences(bound("spatial_sign", 2, 2))
    rows = np.array([[1.5e308, 0.0], [-1.5e308, 1e308], [3e-320, 0.0], [0.0, 4e-320]])
    (streamed,) = map(np.asarray, differences_buffer.push(rows))
    assert np.allclose(streamed[0], [-3 / 10**0.5, 1 / 10**0.5])
    assert np.allclose(streamed[2], [-0.6, 0.8], atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_no_number_is_refused_and_adds_nothing(kind, bad):
    rows = np.random.default_rng(0).normal(size=(9, 2))
    rule = bound(kind, 2)
    differences_buffer = NeighbourDifferences(rule)
    before = [np.asarray(part).tolist() for part in differences_buffer.push(rows)]
    with refused(InvalidDataError):
        differences_buffer.push(np.array([[bad, 1.0]]))
    fresh = NeighbourDifferences(rule)
    assert [np.asarray(part).tolist() for part in fresh.push(rows)] == before
    assert [np.asarray(part).tolist() for part in differences_buffer.closing()] == [
        np.asarray(part).tolist() for part in fresh.closing()
    ]


@pytest.mark.parametrize("d", [1, 2, 3, 7, 784, 10_000])
@pytest.mark.parametrize("bits", [8, 16, 24])
def test_a_sign_is_the_largest_integer_that_fits(d, bits):
    rule = bound("kendall", d, bits=bits)
    unit = int(rule.grid_factor)
    assert d * unit**2 <= 4**bits < d * (unit + 1) ** 2
    signs = np.random.default_rng(d).choice([-1.0, 0.0, 1.0], size=(5, d))
    assert np.array_equal(rule.quantize(signs), unit * signs)  # never clipped
    # A mean over all comparisons of s s' is what the unit makes of the sums.
    assert rule.unit_squared * unit**2 * rule.comparisons / 2 == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"norm": 1.0, "statistic": "spatial_sign"},  # disjoint: for older files alone
        {"norm": 1.0, "statistic": "spatial_sign", "comparisons": 3},
        {"norm": 1.0, "comparisons": 8},
        {"norm": 2.0, "statistic": "kendall"},
        {"norm": 2.0, "statistic": "kendall", "comparisons": 8, "scale": (1.0,) * 4},
        {"norm": 2.0, "statistic": "kendall", "comparisons": 8, "constant": 1.0},
        {"norm": 2.0, "statistic": "kendall", "comparisons": 8, "most_untied": 0},
        {"norm": 2.0, "statistic": "kendall", "comparisons": 8, "most_untied": 5},
        {"norm": 2.0, "statistic": "spatial_sign", "comparisons": 8, "most_untied": 1},
        {"norm": 2.0, "most_untied": 1},
        {"norm": 2.0, "statistic": "spatial_sign", "comparisons": 8},
    ],
)
def test_rules_that_make_no_sense_are_refused(options):
    with refused(InvalidParameterError):
        RowBound(**options)


def test_a_rule_of_an_older_file_is_one_of_disjoint_pairs():
    older = {"norm": 1.0, "bits": 16, "shift": None, "scale": None, "on_invalid": "error", "constant": None}
    rule = RowRule(**older, statistic="spatial_sign")
    assert (rule.limit_squared, rule.unit_squared, rule.reach_squared) == (4**16, 4.0**-16, 1.0)
    differences_buffer = RowRule(**older, statistic="spatial_sign", comparisons=8)
    assert (
        differences_buffer.limit_squared,
        differences_buffer.row_limit_squared,
        differences_buffer.reach_squared,
    ) == (8 * 4**16, 4**16, 2.0)


def test_signs_bounded_for_another_width_are_refused():
    with refused(InvalidParameterError):
        SecondMoments(bound("kendall", 3), 4)


def test_capacity_counts_comparisons():
    rule = RowBound(1.0, bits=24, statistic="spatial_sign", comparisons=8)
    mechanism = MECHANISMS["laplace"](epsilon=1.0, n_features=2)
    comparisons = np.zeros((2**14, 2))
    assert release(mechanism, SecondMoments(rule, 2).update(comparisons[4:])).n_rows == 2**12 - 1
    with refused(CapacityError):
        release(mechanism, SecondMoments(rule, 2).update(comparisons))


@pytest.mark.parametrize("kind", KINDS)
def test_regressions_refuse_comparisons(kind):
    moments = ring_moments(bound(kind, 3), np.random.default_rng(0).normal(size=(30, 3)))
    with refused(InvalidParameterError):
        PrivateRidge(norm_bound=1.0).fit_moments(moments)
    model = PrivateCovariance(statistic=kind, epsilon=100.0).fit(np.random.default_rng(0).normal(size=(300, 3)))
    with refused(InvalidParameterError):
        model.regress(0)


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_choices_of_a_mechanism_change_with_half_the_rows(kind):
    """A comparison takes two rows, so n rows are worth n/2 of norm 1 to a mechanism, whatever k is."""
    compared = PrivatePCA(1, statistic=kind).plan(50).routes
    clipped = PrivatePCA(1, norm_bound=1.0, center=False).plan(50).routes
    if kind == "kendall":  # a correlation needs the matrix
        assert [route.mechanism.name for _, route in compared] == ["matrix_laplace"]
    else:
        assert compared[1][0] == 2 * clipped[1][0]


def test_an_interrupt_anywhere_in_a_part_leaves_all_of_it_counted_or_nothing():
    parts = [np.random.default_rng(seed).normal(size=(6, 2)) for seed in range(3)]

    def collected(chosen, interrupted_at=None):
        model, lines = PrivatePCA(1, statistic="kendall"), 0

        def trace(frame, event, _):
            nonlocal lines
            if frame.f_code.co_name != "partial_fit" or frame.f_globals["__name__"] != PrivateEstimator.__module__:
                return None
            lines += event == "line"
            if event == "line" and lines == interrupted_at:
                raise KeyboardInterrupt
            return trace

        for part in chosen:
            if part is parts[1]:
                before = sys.gettrace()
                sys.settrace(trace)
                try:
                    model.partial_fit(part)
                except KeyboardInterrupt:
                    assert interrupted_at is not None
                finally:
                    sys.settrace(before)
            else:
                model.partial_fit(part)
        return with_last_differences(model._collected, model._differences_buffer), lines

    (whole, lines), (without, _) = collected(parts), collected([parts[0], parts[2]])
    assert lines > 10
    for line in range(1, lines + 1):
        assert collected(parts, line)[0] in (whole, without)


@pytest.mark.parametrize("bits", [4, 16, 24])
@pytest.mark.parametrize("d", [1, 2, 7, 40])
def test_signs_beyond_the_bound_are_shortened_to_it_and_others_are_not(d, bits):
    """Every number of untied features m, for every bound b: integers of squared norm at most 4^bits, in Python's."""
    signs = np.tril(np.ones((d, d))) * np.where(np.arange(d) % 2, -1.0, 1.0)
    untied = range(1, d + 1)
    for most in untied:
        rule = RowBound(d**0.5, bits=bits, statistic="kendall", comparisons=8, most_untied=most)
        unit = math.isqrt(4**bits // most)
        for m, row, wanted in zip(untied, rule.quantize(signs).astype(np.int64).tolist(), signs, strict=True):
            sizes = {abs(entry) for entry in row[:m]}
            assert sizes == {unit} if m <= most else sizes <= {math.isqrt(4**bits // m), math.isqrt(4**bits // m) - 1}
            assert sum(entry**2 for entry in row) <= rule.row_limit_squared == 4**bits
            assert np.array_equal(np.sign(row), wanted)


@pytest.mark.parametrize("most", [1, 3, 6, None])
def test_a_comparison_of_m_untied_features_counts_d_over_the_larger_of_m_and_the_bound(most):
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.normal(size=(400, 2)), rng.integers(0, 3, size=(400, 2)), rng.random((400, 2)) < 0.1])
    n, d = rows.shape
    rule = RowBound(d**0.5, statistic="kendall", comparisons=8, most_untied=most)
    partners = list(naive_partners(n, 4))
    signs = np.sign(rows[[i for i, _ in partners]] - rows[[j for _, j in partners]])
    weights = d / np.maximum(np.abs(signs).sum(axis=1), d if most is None else most)
    wanted = (signs * weights[:, None]).T @ signs / len(partners)
    found = ring_moments(rule, rows).gram * rule.unit_squared / n
    assert np.allclose(found, wanted, rtol=1e-3)
    assert np.trace(wanted) <= d + 1e-9
    assert np.diag(found).max() <= rule.largest_share
    assert rule.reach_squared == pytest.approx(2 * d, rel=1e-3)  # without ties the noise is the same for every bound
