"""An epsilon above 10 is hardly any protection, and that is said before it is spent, wherever it is shown."""

import warnings

import numpy as np
import pytest

from eigenveil import Guarantee, PrivacyLedger, PrivatePCA, RowBound, SecondMoments, score_map
from eigenveil.errors import PrivacyWarning
from eigenveil.gate import release
from eigenveil.mechanisms import MECHANISMS
from helpers import assert_one_sentence

ROWS = np.random.default_rng(0).normal(size=(500, 3)) * [3, 2, 1]
SENTENCE = (
    "epsilon = 50 is hardly any protection: the odds about one person can change by a factor of 10^22. Use at most 10, "
    "and 1 or less if possible."
)


def heard(action):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(one.message) for one in caught if issubclass(one.category, PrivacyWarning)]


def moments():
    return SecondMoments(RowBound(1.0), 3).update(np.eye(3))


@pytest.mark.parametrize(
    "action",
    [
        lambda: PrivatePCA(1, epsilon=50.0, norm_bound=10.0).fit(ROWS),
        lambda: PrivatePCA(1, epsilon=50.0, norm_bound=10.0).partial_fit(ROWS).fit_moments(),
        lambda: PrivatePCA(1, epsilon=50.0).fit(ROWS),
        lambda: release(MECHANISMS["laplace"](epsilon=50.0, n_features=3), moments()),
        lambda: score_map(ROWS, PrivatePCA(2, epsilon=5.0, norm_bound=10.0).fit(ROWS).release_, epsilon=50.0),
    ],
)
def test_every_way_through_the_gate_says_it_once(action):
    assert heard(action) == [SENTENCE]


@pytest.mark.parametrize(("epsilon", "weak"), [(1.0, False), (10.0, False), (10.000001, True), (1e6, True)])
def test_it_begins_above_10(epsilon, weak):
    assert (heard(lambda: PrivatePCA(1, epsilon=epsilon, norm_bound=10.0).fit(ROWS)) != []) is weak
    assert (Guarantee(epsilon).weakness is not None) is weak
    assert any("hardly any protection" in line for line in Guarantee(epsilon).in_words()) is weak


def test_a_seeded_fit_promises_nothing_that_could_be_weak():
    assert heard(lambda: PrivatePCA(1, epsilon=50.0, norm_bound=10.0, random_state=0).fit(ROWS)) == []
    assert Guarantee(50.0).marked_reproducible().weakness is None
    assert Guarantee(float("inf")).weakness is None


def test_who_makes_errors_of_warnings_has_spent_nothing(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "study.ledger", epsilon=100.0, data_set="study")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PrivacyWarning, match="hardly any protection") as info:
            PrivatePCA(1, epsilon=50.0, norm_bound=10.0, ledger=ledger).fit(ROWS)
    assert_one_sentence(info.value)
    assert ledger.entries() == []
