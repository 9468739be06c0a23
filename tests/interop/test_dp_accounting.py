"""Events for the accountants of dp-accounting: whoever accepts one counts it right, however often; and ours agree."""

import math

import mpmath
import pytest

from eigenveil.accounting import compose, zcdp_epsilon
from eigenveil.guarantee import Adjacency, Guarantee

dp_accounting = pytest.importorskip("dp_accounting", reason="needs the extra accounting, which pins attrs<24")
from dp_accounting.pld import PLDAccountant, common, privacy_loss_distribution  # noqa: E402
from dp_accounting.rdp import RdpAccountant  # noqa: E402

from eigenveil.interop.dp_accounting import pld_event, rdp_event, relation  # noqa: E402

GRID = 1e-4  # to which their accountant rounds every loss up
REPLACE_ONE = dp_accounting.NeighboringRelation.REPLACE_ONE


def test_the_events_of_each_kind():
    pure, gaussian, pair = Guarantee(1.0), Guarantee(1.0, 1e-6, rho=0.1), Guarantee(1.0, 1e-6)
    kinds = {
        pure: ("DiscreteLaplaceDpEvent", "ZCDpEvent"),
        gaussian: ("UnsupportedDpEvent", "ZCDpEvent"),
        pair: ("UnsupportedDpEvent", "UnsupportedDpEvent"),
        Guarantee(math.inf): ("NonPrivateDpEvent", "NonPrivateDpEvent"),
        pure.marked_reproducible(): ("NonPrivateDpEvent", "NonPrivateDpEvent"),
        Guarantee(0.0): ("NoOpDpEvent", "ZCDpEvent"),
        compose([pure, pure]): ("ComposedDpEvent", "ComposedDpEvent"),
    }
    for guarantee, names in kinds.items():
        assert (type(pld_event(guarantee)).__name__, type(rdp_event(guarantee)).__name__) == names


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0, 7.7])
def test_a_pure_event_costs_epsilon_each_time(epsilon, adjacency):
    guarantee = Guarantee(epsilon, adjacency=adjacency)
    for count in (1, 2, 3):
        accountant = PLDAccountant(relation(guarantee)).compose(pld_event(guarantee), count)
        assert count * epsilon * (1 - 1e-12) <= accountant.get_epsilon(0.0) <= count * (epsilon + 2 * GRID)
        one_by_one = PLDAccountant(relation(guarantee))
        for _ in range(count):
            one_by_one.compose(pld_event(guarantee))
        assert accountant.get_epsilon(1e-5) == pytest.approx(one_by_one.get_epsilon(1e-5), rel=1e-9)


def test_control_randomized_response_is_counted_once():
    # Which is why it is not what we export; once this fails, a later release of dp-accounting counts it.
    noise = 2 / (1 + math.exp(0.7))
    event = dp_accounting.RandomizedResponseDpEvent(noise, 2)
    assert PLDAccountant(REPLACE_ONE).compose(event, 3).get_epsilon(0.0) < 0.71


def test_events_are_refused_where_they_would_be_counted_wrong():
    with pytest.raises(Exception, match="Unsupported"):
        PLDAccountant(REPLACE_ONE).compose(pld_event(Guarantee(1.0)))
    with pytest.raises(Exception, match="Unsupported"):
        RdpAccountant().compose(pld_event(Guarantee(1.0)))
    for accountant in (PLDAccountant(), RdpAccountant()):
        with pytest.raises(Exception, match="Unsupported"):
            accountant.compose(pld_event(Guarantee(1.0, 1e-6)))


@pytest.mark.parametrize(("epsilon", "count"), [(0.05, 40), (0.3, 10), (1.0, 3)])
@pytest.mark.parametrize("delta", [1e-9, 1e-4])
def test_our_composition_of_pure_events_is_theirs_without_the_grid(epsilon, count, delta):
    guarantee = Guarantee(epsilon)
    theirs = PLDAccountant(relation(guarantee)).compose(pld_event(guarantee), count).get_epsilon(delta)
    ours = compose([guarantee] * count, delta=delta).epsilon
    assert theirs - 2 * GRID * count <= ours <= theirs * (1 + 1e-9)


@pytest.mark.parametrize("delta", [3e-5, 1e-3, 0.1])
def test_our_composition_of_pairs_is_theirs_without_the_grid(delta):
    pairs = [(0.31, 1e-5), (0.7, 0.0), (0.123456789, 1e-6), (0.31, 1e-5), (1.2, 1e-9)]
    total = privacy_loss_distribution.identity(GRID)
    for pair in pairs:
        parameters = common.DifferentialPrivacyParameters(*pair)
        total = total.compose(privacy_loss_distribution.from_privacy_parameters(parameters, GRID))
    theirs = total.get_epsilon_for_delta(delta)
    ours = compose([Guarantee(*pair) for pair in pairs], delta=delta).epsilon
    assert theirs - 2 * GRID * len(pairs) <= ours <= theirs * (1 + 1e-9)


@pytest.mark.parametrize("count", [1, 5])
def test_the_renyi_accountant_agrees_on_concentrated_events(count):
    for rho in (1e-4, 0.02, 0.5, 2.0):
        guarantee = Guarantee(5.0, 1e-6, rho=rho)
        theirs = RdpAccountant(neighboring_relation=REPLACE_ONE).compose(rdp_event(guarantee), count).get_epsilon(1e-6)
        # Its orders are a fixed list, ours are searched: ours is at most theirs, and not by much.
        assert theirs * 0.9 <= zcdp_epsilon(count * rho, 1e-6) <= theirs * (1 + 1e-9)


def test_the_renyi_accountant_takes_pure_parts_beside_gaussian_ones():
    whole = compose([Guarantee(0.3), Guarantee(1.0, 1e-6, rho=0.02)])
    once = RdpAccountant(neighboring_relation=REPLACE_ONE).compose(rdp_event(whole))
    assert zcdp_epsilon(0.3**2 / 2 + 0.02, 1e-6) * (1 - 1e-9) <= once.get_epsilon(1e-6)


def test_a_non_private_event_is_infinite():
    accountant = PLDAccountant(relation(Guarantee(1.0))).compose(pld_event(compose([Guarantee(0.3), Guarantee(0.4)])))
    assert 0.7 <= accountant.get_epsilon(0.0) <= 0.7 + 4 * GRID
    accountant.compose(pld_event(Guarantee(math.inf)))
    assert accountant.get_epsilon(1e-3) == math.inf


def test_a_pure_event_is_never_more_private_than_its_decimal_epsilon():
    with mpmath.workdps(60):
        for epsilon in (1e-9, 0.1, 0.3, 1.1, 2.7, 800.0):
            assert mpmath.mpf(pld_event(Guarantee(epsilon)).noise_parameter) >= mpmath.mpf(repr(epsilon))
