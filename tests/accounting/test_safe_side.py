"""Parts of a budget, and scales made of them, are rounded to the safe side: in exact arithmetic, at many epsilons."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from eigenveil import Adjacency, PrivacyLedger, PrivateCovariance, PrivatePCA
from eigenveil.accounting.calibration import DISCRETE_SHARE, exact, float_above, share_below
from eigenveil.accounting.sensitivity import frobenius_squared
from eigenveil.errors import BudgetError
from eigenveil.guarantee import Guarantee
from eigenveil.mechanisms import MECHANISMS

GENERATOR = np.random.default_rng(20)
EPSILONS = [0.1, 0.3, 0.7, 1.0, 1.1, *np.exp(GENERATOR.uniform(-7, 3.4, 200)).tolist()]


def test_a_share_is_below_whichever_way_it_is_read():
    nearest_was_above = 0
    for epsilon in EPSILONS:
        for share in (Fraction(1, 2), Fraction(1, 3), Fraction(1, 20), Fraction(19, 20), exact(0.05), Fraction(1, 7)):
            value = exact(epsilon) * share
            part = share_below(value)
            for read in (exact, Fraction):
                assert value * (1 - Fraction(1, 2**51)) <= read(part) <= value
            nearest_was_above += Fraction(float(value)) > value
    assert nearest_was_above > 100  # the control


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_matrix_and_count_of_a_pure_mechanism_cost_epsilon_at_most(adjacency):
    for epsilon in EPSILONS:
        mechanism = MECHANISMS["laplace"](epsilon=epsilon, n_features=3, adjacency=adjacency)
        spent = mechanism._sensitivity() / Fraction(mechanism.noise_scale())
        if adjacency is Adjacency.ADD_OR_REMOVE_ONE:  # the scale that `draw_count` hands to its sampler
            spent += 1 / Fraction(float_above(1 / (exact(epsilon) - mechanism.matrix_epsilon)))
        assert exact(epsilon) * (1 - Fraction(1, 2**48)) <= spent <= exact(epsilon)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_frobenius_noise_costs_epsilon_at_most(adjacency):
    for epsilon in EPSILONS:
        mechanism = MECHANISMS["frobenius"](epsilon=epsilon, n_features=3, adjacency=adjacency)
        spent_squared = frobenius_squared(adjacency) / Fraction(mechanism.noise_scale()) ** 2
        assert mechanism.matrix_epsilon**2 * (1 - Fraction(1, 2**46)) <= spent_squared <= mechanism.matrix_epsilon**2


def true_delta(mu, epsilon):
    """The curve of the Gaussian mechanism to sixty digits (Balle and Wang 2018, Theorem 8)."""
    above, below = mpmath.ncdf(mu / 2 - epsilon / mu), mpmath.ncdf(-mu / 2 - epsilon / mu)
    return above - mpmath.exp(epsilon) * below


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 0.01])
def test_gaussian_noise_has_the_delta_it_says_at_the_decimal_epsilon(delta):
    with mpmath.workdps(60):
        for epsilon in EPSILONS[::8]:
            mechanism = MECHANISMS["gaussian"](epsilon=epsilon, delta=delta, n_features=3)
            mu = mpmath.sqrt(2) / mpmath.mpf(mechanism.noise_scale())
            share = mpmath.mpf(str(delta)) * (1 - mpmath.mpf(str(DISCRETE_SHARE)))
            found = true_delta(mu, mpmath.mpf(repr(epsilon)))
            assert share * (1 - mpmath.mpf("1e-6")) <= found <= share
            assert true_delta(mu * mpmath.mpf("1.2"), mpmath.mpf(repr(epsilon))) > share  # the control


@pytest.mark.parametrize(
    "model",
    [
        PrivatePCA(1),
        PrivatePCA(1, statistic="clipped"),
        PrivateCovariance(),
        PrivatePCA(2, standardize=True, statistic="clipped"),
    ],
)
def test_the_parts_of_a_plan_cost_epsilon_at_most(model):
    for epsilon in EPSILONS[:60]:
        plan = model.set_params(epsilon=epsilon).plan(5, n_rows=10**9)
        route = plan.route(10**9)
        parts = [part.epsilon for part in route.choices.values()] + [route.mechanism.epsilon]
        total = sum(map(exact, parts))
        assert exact(epsilon) * (1 - Fraction(1, 2**48)) <= total <= exact(epsilon)
        assert exact(plan.guarantee.epsilon) >= total


def test_what_a_ledger_says_remains_can_be_spent_to_the_last(tmp_path):
    for number, costs in enumerate(np.array_split(EPSILONS[:80], 20)):
        ledger = PrivacyLedger.create(tmp_path / str(number), epsilon=100.0, data_set="study")
        for cost in costs:
            ledger.spend(Guarantee(float(cost)), "part")
        ledger.spend(Guarantee(ledger.remaining[0]), "the rest")
        assert exact(ledger.spent[0]) <= 100
        with pytest.raises(BudgetError):
            ledger.spend(Guarantee(1e-13), "more")
