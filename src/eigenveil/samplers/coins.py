"""Coins that fall with exactly their probability, as far as the words of the generator are uniform.

A 53-bit uniform number compared with a float has a probability that is wrong in its last bits, and where a lie has the
probability e^-30, wrong in its first ones. Here the probability is known as an interval of any width, and a uniform
word is compared with its first 64 bits, in integers. One word in 2^64 is not decided by them, and draws more.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .certified import Interval, exp_interval
from .lazy import FIRST_DIGITS, LazyUniform, random_words

_WORD = 64


class Coin:
    """A coin of one probability, tossed many times.

    Parameters
    ----------
    chance : callable
        Returns an interval that holds the probability, to as many digits as it is asked for.
    bits : int
        How many bits of a word are looked at first. Tests take few, so that most tosses need more.

    Attributes
    ----------
    undecided : int
        How many tosses the first bits have left open.

    Examples
    --------
    >>> coin = Coin(lambda digits: Interval.point(Fraction(3, 4)))
    >>> int(coin.toss(10_000, np.random.default_rng(0)).sum()) in range(7300, 7700)
    True
    """

    def __init__(self, chance: Callable[[int], Interval], *, bits: int = _WORD) -> None:
        self._chance, self._bits = lru_cache(maxsize=64)(chance), bits
        known = self._chance(FIRST_DIGITS)
        most = 2**bits - 1
        # Below the first of these words the number is below the probability, above the second it is not.
        self._sure, self._never = (np.uint64(min(most, (end * 2**bits).__floor__())) for end in known)
        self.undecided = 0

    def toss(self, size: int, generator: np.random.Generator) -> NDArray[np.bool_]:
        """Return so many independent tosses."""
        words = random_words(generator, size) >> np.uint64(_WORD - self._bits)
        fallen = words < self._sure
        for i in np.flatnonzero((words >= self._sure) & (words <= self._never)):
            self.undecided += 1
            fallen[i] = LazyUniform(int(words[i]), self._bits, generator).below(self._chance)
        return np.asarray(fallen)


def logistic_coin(epsilon: Fraction, *, bits: int = _WORD) -> Coin:
    """Return the coin of randomized response, which tells the truth with probability 1/(1 + exp(-epsilon)).

    Truth and lie then have the odds exp(epsilon), exactly (Warner 1965).

    Examples
    --------
    >>> bool(logistic_coin(Fraction(30)).toss(1000, np.random.default_rng(0)).all())
    True
    """
    one = Interval.point(1)
    return Coin(lambda digits: one / (one + exp_interval(Interval.point(-epsilon), digits)), bits=bits)


def rational_coin(chance: Fraction, *, bits: int = _WORD) -> Coin:
    """Return the coin of a rational probability.

    Examples
    --------
    >>> bool(rational_coin(Fraction(0)).toss(1000, np.random.default_rng(0)).any())
    False
    """
    return Coin(lambda digits: Interval.point(chance), bits=bits)
