"""Coins fall with exactly their probability: their distribution, the slow path forced, bits that a float would miss."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from eigenveil.sampling import discrete
from eigenveil.sampling.certified import Interval
from eigenveil.sampling.discrete import Coin, logistic_coin, rational_coin
from statistical.constants import ALPHA, PERTURB, N

EPSILONS = [Fraction(1, 100), Fraction(1), Fraction(6)]


def chance_of(epsilon):
    with mpmath.workdps(60):
        return 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator))


def fits(count, chance, size=N):
    """Return whether so many of `size` tosses may come from this probability."""
    return stats.binomtest(int(count), size, float(chance)).pvalue > ALPHA


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_distribution_of_randomized_response(epsilon):
    count = logistic_coin(epsilon).toss(N, np.random.default_rng(1)).sum()
    assert fits(count, chance_of(epsilon))
    assert not fits(count, chance_of(epsilon) * (1 - PERTURB))  # the control


def test_the_distribution_of_a_rational_coin():
    count = rational_coin(Fraction(1, 3)).toss(N, np.random.default_rng(2)).sum()
    assert fits(count, Fraction(1, 3))
    assert not fits(count, Fraction(1, 3) * Fraction(21, 20))


def test_certain_coins():
    generator = np.random.default_rng(3)
    assert rational_coin(Fraction(1)).toss(1000, generator).all()
    assert not rational_coin(Fraction(0)).toss(1000, generator).any()


def decided_by_words(monkeypatch, coin, first, more):
    """Toss once with chosen words: the first, and then those that a doubtful toss asks for."""
    waiting = iter(more)
    monkeypatch.setattr(discrete, "random_words", lambda generator, size: np.array([first], dtype=np.uint64))
    monkeypatch.setattr("eigenveil.sampling.lazy.random_word", lambda generator: next(waiting))
    found = bool(coin.toss(1, None)[0])
    assert next(waiting, None) is None, "a word too few was asked for"
    return found


@pytest.mark.parametrize("epsilon", [*EPSILONS, Fraction(30), Fraction(285, 10), Fraction(1, 10**6)])
def test_words_are_compared_with_all_bits_of_the_probability(monkeypatch, epsilon):
    """Beside the 64-bit prefix of 1/(1 + e^-epsilon), and beside its 128-bit one: every decision is the true one."""
    with mpmath.workdps(120):
        power = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        bits = int(mpmath.floor(mpmath.mpf(2) ** 192 / (1 + mpmath.exp(-power))))
    words = [bits >> 128, (bits >> 64) % 2**64, bits % 2**64]
    coin = logistic_coin(epsilon)
    assert decided_by_words(monkeypatch, coin, words[0] - 1, [])
    assert words[0] == 2**64 - 1 or not decided_by_words(monkeypatch, coin, words[0] + 1, [])
    assert decided_by_words(monkeypatch, coin, words[0], [words[1] - 1])
    assert not decided_by_words(monkeypatch, coin, words[0], [words[1] + 1])
    assert decided_by_words(monkeypatch, coin, words[0], [words[1], words[2] - 1])
    assert not decided_by_words(monkeypatch, coin, words[0], [words[1], words[2] + 1])


def test_a_lie_at_epsilon_30_has_its_probability():
    """Of the words of 64 bits, as many lie as should; 53-bit floats are wrong by a part in a thousand."""
    with mpmath.workdps(60):
        lie = 1 / (1 + mpmath.exp(mpmath.mpf(30)))
        odds = mpmath.exp(mpmath.mpf(30))
        sure = int(logistic_coin(Fraction(30)).sure)
        lies = mpmath.mpf(2**64 - sure) / 2**64
        assert abs(lies / lie - 1) < mpmath.mpf(2) ** -20
        # The control: uniform numbers are multiples of 2^-53, and the float nearest to the probability is one too.
        truthful = 1 / (1 + np.exp(-30.0))
        by_floats = 1 - mpmath.mpf(truthful)
        assert abs((1 - by_floats) / by_floats / odds - 1) > mpmath.mpf(1) / 1000


def test_a_wide_interval_is_asked_for_more_digits_and_its_coin_has_the_same_distribution():
    asked = set()

    def vague(digits):
        asked.add(digits)
        width = Fraction(1, 10 ** (digits // 20))
        return Interval(Fraction(1, 3) - width, Fraction(1, 3) + width)

    coin = Coin(vague)
    count = coin.toss(N, np.random.default_rng(4)).sum()
    assert fits(count, 1 / 3)
    assert not fits(count, (1 + PERTURB) / 3)
    assert len(asked) > 2
