"""Several releases together: exact sums, and never better than the exact optimum."""

import itertools
import math
from functools import reduce
from operator import add

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenveil.accounting import compose, zcdp_epsilon, zcdp_rho
from eigenveil.accounting.calibration import gaussian_epsilon
from eigenveil.errors import InvalidParameterError
from eigenveil.guarantee import Adjacency, Guarantee, Numerics
from helpers import refused


def optimal_delta(parts, epsilon):
    """The exact delta of the best composition (Kairouz, Oh and Viswanath 2015), all outcomes listed.

    Every (e, d) mechanism is a post-processing of: infinite loss with chance d, else randomized response.
    """
    with mpmath.workdps(60):
        epsilon = mpmath.mpf(epsilon)
        kept, inside = mpmath.mpf(1), mpmath.mpf(0)
        for _, d in parts:
            kept *= 1 - mpmath.mpf(d)
        losses = [mpmath.mpf(e) for e, _ in parts]
        for signs in itertools.product((1, -1), repeat=len(parts)):
            loss = sum(sign * e for sign, e in zip(signs, losses, strict=True))
            if loss > epsilon:
                chance = mpmath.mpf(1)
                for sign, e in zip(signs, losses, strict=True):
                    chance *= 1 / (1 + mpmath.exp(-sign * e))
                inside += chance * (1 - mpmath.exp(epsilon - loss))
        return 1 - kept * (1 - inside)


def optimal_delta_of_equals(k, e, epsilon):
    """The same for k equal pure mechanisms, in the published form of a sum over binomials."""
    with mpmath.workdps(60):
        epsilon, e = mpmath.mpf(epsilon), mpmath.mpf(e)
        total = mpmath.mpf(0)
        for wrong in range(k + 1):
            loss = (k - 2 * wrong) * e
            if loss > epsilon:
                chance = mpmath.binomial(k, wrong) * mpmath.exp((k - wrong) * e) / (1 + mpmath.exp(e)) ** k
                total += chance * (1 - mpmath.exp(epsilon - loss))
        return total


def optimal_epsilon(delta_at, delta, most):
    """Solve for epsilon by halving; 0 where no loss is left."""
    with mpmath.workdps(60):
        delta = mpmath.mpf(delta)
        if delta_at(0) <= delta:
            return mpmath.mpf(0)
        low, high = mpmath.mpf(0), mpmath.mpf(most)
        for _ in range(100):
            middle = (low + high) / 2
            if delta_at(middle) > delta:
                low = middle
            else:
                high = middle
        return high


def test_the_two_forms_of_the_optimum_agree():
    for epsilon in (0.0, 0.35, 1.1):
        listed = optimal_delta([(0.4, 0.0)] * 6, epsilon)
        assert mpmath.almosteq(listed, optimal_delta_of_equals(6, 0.4, epsilon), 1e-40)


def test_pure_epsilons_add_up_in_exact_decimals():
    assert compose([Guarantee(0.1)] * 10).epsilon == 1.0
    assert compose([Guarantee(0.1)] * 3).epsilon == 0.3
    assert compose([Guarantee(0.7), Guarantee(0.1), Guarantee(0.1)]).epsilon == 0.9
    assert reduce(add, [0.1] * 10) != 1.0  # the control: floats do not
    assert compose([Guarantee(0.1)] * 10).delta == 0.0


def test_deltas_add_up_in_exact_decimals():
    whole = compose([Guarantee(1e-9, 1e-7)] * 10)
    assert whole.delta == 1e-6
    assert whole.epsilon <= 1e-8


def test_one_guarantee_is_itself():
    for guarantee in (Guarantee(0.3), Guarantee(0.3, 1e-6), Guarantee(0.3, 1e-6, rho=0.01)):
        alone = compose([guarantee])
        assert (alone.epsilon, alone.delta, alone.parts) == (guarantee.epsilon, guarantee.delta, ())


def test_nothing_does_not_compose():
    with refused(InvalidParameterError):
        compose([])


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan, "0.1"])
def test_a_delta_out_of_range_is_refused(delta):
    with refused(InvalidParameterError):
        compose([Guarantee(0.1)], delta=delta)


def test_relations_do_not_mix():
    with refused(InvalidParameterError):
        compose([Guarantee(0.1), Guarantee(0.1, adjacency=Adjacency.ADD_OR_REMOVE_ONE)])
    whole = compose([Guarantee(0.1, adjacency=Adjacency.ADD_OR_REMOVE_ONE)] * 2)
    assert whole.adjacency is Adjacency.ADD_OR_REMOVE_ONE


def test_the_weakest_numerics_win():
    for first, second in itertools.product(Numerics, repeat=2):
        whole = compose([Guarantee(0.1, numerics=first), Guarantee(0.1, numerics=second)])
        assert whole.numerics is max(first, second, key=lambda numerics: numerics.gap)


def test_caveats_are_kept_once_each():
    whole = compose([Guarantee(0.1, assumptions=("A.", "B.")), Guarantee(0.1, assumptions=("B.", "C."))])
    assert whole.assumptions == ("A.", "B.", "C.")


def test_one_seed_makes_the_whole_reproducible():
    whole = compose([Guarantee(0.1), Guarantee(0.1).marked_reproducible()])
    assert whole.reproducible
    assert not whole.is_private
    assert not compose([Guarantee(0.1), Guarantee(0.1)]).reproducible


def test_one_infinite_part_makes_the_whole_infinite():
    for delta in (None, 1e-6):
        whole = compose([Guarantee(0.1), Guarantee(math.inf)], delta=delta)
        assert whole.epsilon == math.inf
        assert not whole.is_private


def test_compositions_compose_as_their_parts():
    inner = compose([Guarantee(0.1), Guarantee(0.2)])
    whole = compose([inner, Guarantee(0.3)])
    assert [part.epsilon for part in whole.parts] == [0.1, 0.2, 0.3]
    assert whole.epsilon == 0.6


def test_what_was_said_of_a_composition_outlives_the_next():
    inner = compose([Guarantee(0.1), Guarantee(0.2)])
    assert compose([inner.marked_reproducible(), Guarantee(0.3)]).reproducible
    assert "Read this." in compose([inner.with_assumption("Read this."), Guarantee(0.3)]).assumptions


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3, 0.05])
@pytest.mark.parametrize(
    ("k", "e"), [(2, 0.1), (2, 1.0), (5, 0.3), (10, 0.1), (10, 1.0), (30, 0.05), (60, 0.2), (3, 4.0)]
)
def test_equal_pure_parts_are_never_better_than_the_optimum_and_close_to_it(k, e, delta):
    whole = compose([Guarantee(e)] * k, delta=delta)
    best = optimal_epsilon(lambda epsilon: optimal_delta_of_equals(k, e, epsilon), delta, k * e)
    assert whole.delta == delta
    assert best <= whole.epsilon <= best * (1 + mpmath.mpf("2e-9"))  # all losses are on a grid
    assert whole.epsilon <= k * e * (1 + 1e-12)


@pytest.mark.parametrize("delta", [1e-15, 1e-13, 1e-11])
def test_very_small_deltas_are_not_lost_in_rounding(delta):
    for k, e in ((10, 0.5), (40, 0.1), (100, 0.05)):
        best = optimal_epsilon(lambda epsilon, k=k, e=e: optimal_delta_of_equals(k, e, epsilon), delta, k * e)
        assert compose([Guarantee(e)] * k, delta=delta).epsilon >= best


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.floats(0.01, 2), st.sampled_from([0.0, 1e-8, 1e-5])), min_size=2, max_size=6),
    st.sampled_from([1e-6, 1e-4, 1e-2]),
)
@pytest.mark.heavy
def test_mixed_parts_are_never_better_than_the_optimum_and_close_to_it(parts, delta):
    most = sum(e for e, _ in parts)
    if optimal_delta(parts, most) > delta:  # then no finite epsilon is true
        assert compose([Guarantee(e, d) for e, d in parts], delta=delta).epsilon == math.inf
        return
    whole = compose([Guarantee(e, d) for e, d in parts], delta=delta)
    best = optimal_epsilon(lambda epsilon: optimal_delta(parts, epsilon), delta, most)
    assert best <= whole.epsilon <= best + 1e-3 * len(parts)


def test_control_a_composition_with_losses_rounded_down_is_caught():
    # Rounding every loss down to the grid instead of up is the classical slip; the optimum shows it.
    k, e, delta = 60, 0.2, 1e-6
    best = optimal_epsilon(lambda epsilon: optimal_delta_of_equals(k, e, epsilon), delta, k * e)
    assert compose([Guarantee(e)] * k, delta=delta).epsilon >= best
    flawed = compose([Guarantee(e - 1e-9)] * k, delta=delta).epsilon
    assert flawed < best


@pytest.mark.parametrize("e", [40.0, 700.0, 710.5, 5000.0])
def test_epsilons_beyond_the_range_of_floats(e):
    for delta in (1e-12, 0.3):
        whole = compose([Guarantee(e), Guarantee(e), Guarantee(0.1234567)], delta=delta)
        best = optimal_epsilon(lambda at: optimal_delta([(e, 0), (e, 0), (0.1234567, 0)], at), delta, 3 * e)
        assert best <= whole.epsilon <= best + mpmath.mpf("1e-4") * e


@pytest.mark.parametrize("mu", [0.05, 0.2, 0.4])
def test_gaussian_parts_have_the_exact_curve(mu):
    delta, count = 1e-6, 4
    part = Guarantee(gaussian_epsilon(mu, delta * 0.99), delta, rho=mu**2 / 2, mu=mu)
    whole = compose([part] * count, delta=delta)
    with mpmath.workdps(40):
        total = mpmath.sqrt(count) * mpmath.mpf(mu)

        def curve(epsilon):
            above = mpmath.ncdf(total / 2 - epsilon / total)
            return above - mpmath.exp(epsilon) * mpmath.ncdf(-total / 2 - epsilon / total)

        distance = count * mpmath.mpf("0.01") * delta / (1 + mpmath.exp(part.epsilon))
        paid = curve(mpmath.mpf(whole.epsilon)) + (1 + mpmath.exp(whole.epsilon)) * distance
        assert delta * 0.4 <= paid <= delta
        assert curve(mpmath.mpf(whole.epsilon) * mpmath.mpf("0.8")) > delta  # the control
    assert whole.epsilon < zcdp_epsilon(count * mu**2 / 2, delta)


def test_gaussian_parts_whose_discrete_noise_would_cost_too_much_are_concentrated():
    part = Guarantee(gaussian_epsilon(1.0, 0.99e-6), 1e-6, rho=0.5, mu=1.0)
    assert compose([part] * 4, delta=1e-6).epsilon == zcdp_epsilon(2.0, 1e-6)


def test_no_part_of_a_composition_costs_nothing_and_many_cost_little_time():
    assert compose([Guarantee(0.0)] * 3, delta=1e-6).epsilon == 0
    odd = [Guarantee(0.01 + n * 1.0000123e-5, 1e-12) for n in range(300)]
    assert compose(odd, delta=1e-6).epsilon < 1.5
    assert compose([Guarantee(1e-300), Guarantee(1e100)], delta=1e-6).epsilon >= 1e100


@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_concentrated_parts_add_their_rho(delta):
    rho = zcdp_rho(0.5, 1e-9)
    part = Guarantee(0.5, 1e-9, rho=rho)
    whole = compose([part] * 8, delta=delta)
    assert math.isclose(whole.rho, 8 * rho, rel_tol=1e-14)
    assert whole.rho >= 8 * rho * (1 - 1e-15)
    assert zcdp_epsilon(8 * rho, delta) * (1 - 1e-9) <= whole.epsilon <= zcdp_epsilon(whole.rho, delta)


def test_a_bare_approximate_part_has_no_rho():
    whole = compose([Guarantee(0.1, 1e-9), Guarantee(0.1, 1e-6, rho=0.001)])
    assert whole.rho is None
    assert whole.epsilon == 0.2
    assert whole.delta == 1.001e-6


def test_a_smaller_delta_than_the_parts_have_is_infinite_unless_rho_is_known():
    assert compose([Guarantee(0.1, 1e-6)] * 2, delta=1e-7).epsilon == math.inf
    known = Guarantee(0.5, 1e-6, rho=zcdp_rho(0.5, 1e-6))
    assert math.isfinite(compose([known] * 2, delta=1e-9).epsilon)
    assert math.isfinite(compose([known], delta=1e-9).epsilon)
