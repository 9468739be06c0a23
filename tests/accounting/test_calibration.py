"""Conversions of privacy numbers: right by an independent computation, and rounded to the safe side."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenveil.accounting.calibration import (
    decimal_above,
    exact,
    float_above,
    pure_rho,
    square_root_above,
    zcdp_epsilon,
    zcdp_rho,
)
from eigenveil.errors import InvalidParameterError
from helpers import refused

RHOS = [1e-7, 1e-3, 0.1, 0.5, 10.0]
EPSILONS = [1e-3, 0.1, 1.0, 8.0, 20.0]
DELTAS = [1e-12, 1e-6, 0.1]


def log_delta_at(rho, epsilon, alpha):
    """Canonne, Kamath and Steinke (2020), Proposition 12, at one order; any precision."""
    return (alpha - 1) * (alpha * rho - epsilon) + (alpha - 1) * mpmath.log1p(-1 / alpha) - mpmath.log(alpha)


def reference_log_delta(rho, epsilon):
    """The least value over all orders, to 50 digits, by golden-section search on the logarithm of alpha - 1.

    The logarithm of delta is convex in alpha: a Renyi divergence times (alpha - 1) plus convex terms.
    """
    with mpmath.workdps(50):
        rho, epsilon = mpmath.mpf(rho), mpmath.mpf(epsilon)

        def value(t):
            return log_delta_at(rho, epsilon, 1 + mpmath.exp(t))

        low, high = mpmath.mpf(-40), mpmath.mpf(80)
        ratio = (mpmath.sqrt(5) - 1) / 2
        for _ in range(120):
            left, right = high - ratio * (high - low), low + ratio * (high - low)
            if value(left) <= value(right):
                high = right
            else:
                low = left
        return min(value((low + high) / 2), mpmath.mpf(0))


def gaussian_log_delta(rho, epsilon):
    """The exact delta of the Gaussian mechanism with that rho (Balle and Wang 2018), as a logarithm."""
    with mpmath.workdps(80):
        rho, epsilon = mpmath.mpf(rho), mpmath.mpf(epsilon)
        sigma = 1 / mpmath.sqrt(2 * rho)
        upper = mpmath.ncdf(1 / (2 * sigma) - epsilon * sigma)
        lower = mpmath.exp(epsilon) * mpmath.ncdf(-1 / (2 * sigma) - epsilon * sigma)
        return mpmath.log(upper - lower)


def test_epsilon_covers_the_exact_gaussian_and_not_one_with_a_tenth_less_noise():
    broken = []
    for rho, delta in itertools.product(RHOS, DELTAS):
        epsilon = zcdp_epsilon(rho, delta)
        assert gaussian_log_delta(rho, epsilon) <= math.log(delta)
        broken.append(gaussian_log_delta(rho / 0.9**2, epsilon) > math.log(delta))
    assert any(broken)  # the control


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", RHOS)
def test_epsilon_is_on_the_safe_side_and_tight(rho, delta):
    epsilon = zcdp_epsilon(rho, delta)
    with mpmath.workdps(50):
        assert reference_log_delta(rho, epsilon) <= mpmath.log(mpmath.mpf(delta))
        if epsilon > 0:
            assert reference_log_delta(rho, epsilon * (1 - 1e-8)) > mpmath.log(mpmath.mpf(delta))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_rho_is_on_the_safe_side_and_tight(epsilon, delta):
    rho = zcdp_rho(epsilon, delta)
    assert rho > 0
    assert zcdp_epsilon(rho, delta) <= epsilon
    with mpmath.workdps(50):
        assert reference_log_delta(rho, epsilon) <= mpmath.log(mpmath.mpf(delta))
        assert reference_log_delta(rho * (1 + 1e-8), epsilon) > mpmath.log(mpmath.mpf(delta))


@settings(max_examples=60)
@given(st.floats(1e-3, 20), st.floats(-12, -1))
def test_search_finds_no_rho_on_the_unsafe_side(epsilon, log_delta):
    delta = 10.0**log_delta
    rho = zcdp_rho(epsilon, delta)
    with mpmath.workdps(50):
        assert reference_log_delta(rho, epsilon) <= mpmath.log(mpmath.mpf(delta))
    assert zcdp_epsilon(rho, delta) <= epsilon


@pytest.mark.parametrize("rho", [1e-8, 1e-12, 1e-20, 1e-30])
@pytest.mark.parametrize("delta", [1e-12, 1e-6])
def test_a_tiny_rho_still_costs_an_epsilon(rho, delta):
    epsilon = zcdp_epsilon(rho, delta)
    with mpmath.workdps(50):
        assert reference_log_delta(rho, epsilon) <= mpmath.log(mpmath.mpf(delta))


def test_no_rho_costs_nothing():
    assert zcdp_epsilon(0.0, 1e-6) == 0.0
    assert zcdp_epsilon(0.0, 0.0) == 0.0


@pytest.mark.parametrize("arguments", [(0.0, 1e-6), (-1.0, 1e-6), (math.nan, 1e-6), (1.0, 0.0), (1.0, 1.0), (1.0, -1)])
def test_rho_needs_an_epsilon_and_a_delta(arguments):
    with refused(InvalidParameterError):
        zcdp_rho(*arguments)


def test_epsilon_needs_a_delta():
    for delta in (0.0, -1.0, math.nan):
        with refused(InvalidParameterError):
            zcdp_epsilon(0.1, delta)


fractions = st.builds(Fraction, st.integers(1, 10**30), st.integers(1, 10**30))


@given(st.decimals(0, 1000, places=6, allow_nan=False))
def test_exact_reads_the_decimal_that_was_written(decimal):
    assert exact(float(decimal)) == Fraction(decimal)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_exact_prints_as_the_float(value):
    assert float(exact(value)) == value
    assert exact(exact(value)) == exact(value)


@settings(max_examples=300)
@given(fractions)
def test_decimal_above_is_the_next_printed_decimal(value):
    result = decimal_above(value)
    assert exact(result) >= value
    assert exact(math.nextafter(result, 0)) <= value


@given(st.floats(1e-300, 1e300))
def test_decimal_above_keeps_a_printed_decimal(value):
    assert decimal_above(exact(value)) == value


@settings(max_examples=300)
@given(fractions)
def test_float_above_is_the_next_float(value):
    result = float_above(value)
    assert Fraction(result) >= value
    assert Fraction(math.nextafter(result, 0)) < value


@settings(max_examples=300)
@given(fractions | st.integers(0, 10**12).map(Fraction))
def test_square_root_above_is_at_most_two_floats_above(value):
    result = square_root_above(value)
    assert Fraction(result) ** 2 >= value
    three_below = result
    for _ in range(3):
        three_below = math.nextafter(three_below, -1)
    assert three_below < 0 or Fraction(three_below) ** 2 < value


@settings(max_examples=200)
@given(st.floats(1e-6, 100))
def test_pure_rho_is_half_the_square_from_above(epsilon):
    assert exact(pure_rho(epsilon)) >= exact(epsilon) ** 2 / 2
    assert pure_rho(epsilon) <= epsilon**2 / 2 * (1 + 1e-14)
