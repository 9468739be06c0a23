"""Exact discrete draws: coins, geometric, discrete Laplace and discrete Gaussian numbers.

A 53-bit uniform number compared with a float has a probability that is wrong in its last bits, and where a lie has the
probability e^-30, wrong in its first ones. Here the probability is known as an interval of any width, and a uniform
word is compared with its first 64 bits, in integers. One word in 2^64 is not decided by them, and draws more.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError, integer_between, positive_number
from ..numerics import FloatArray, IntArray
from . import lazy
from .certified import Interval, exp_interval
from .lazy import COIN_TOLERANCE, FIRST_DIGITS, LazyUniform, random_words


class Coin:
    """A coin of one probability, tossed many times.

    Parameters
    ----------
    chance : callable
        Returns an interval that holds the probability, to as many digits as it is asked for.

    Attributes
    ----------
    sure, never : numpy.uint64
        A toss falls if its first 64 bits are below `sure`, and does not if they are above `never`.

    Examples
    --------
    >>> coin = Coin(lambda digits: Interval.point(Fraction(3, 4)))
    >>> int(coin.toss(10_000, np.random.default_rng(0)).sum()) in range(7300, 7700)
    True
    """

    def __init__(self, chance: Callable[[int], Interval]) -> None:
        self._chance = lru_cache(maxsize=64)(chance)
        ends = self._chance(FIRST_DIGITS)
        self.sure, self.never = (np.uint64(min(2**64 - 1, (end * 2**64).__floor__())) for end in ends)

    def toss(self, size: int, generator: np.random.Generator) -> NDArray[np.bool_]:
        """Return `size` independent tosses."""
        words = random_words(generator, size)
        fallen = words < self.sure
        for i in np.flatnonzero((words >= self.sure) & (words <= self.never)):
            fallen[i] = LazyUniform(int(words[i]), 64, generator).below(self._chance)
        return np.asarray(fallen)


def logistic_coin(epsilon: Fraction) -> Coin:
    """Return the coin of randomized response, which answers truthfully with probability 1/(1 + exp(-epsilon)).

    Truth and lie then have the odds exp(epsilon), exactly (Warner 1965).

    Examples
    --------
    >>> bool(logistic_coin(Fraction(30)).toss(1000, np.random.default_rng(0)).all())
    True
    """
    one = Interval.point(1)
    return Coin(lambda digits: one / (one + exp_interval(Interval.point(-epsilon), digits)))


def rational_coin(chance: Fraction) -> Coin:
    """Return the coin of a rational probability.

    Examples
    --------
    >>> bool(rational_coin(Fraction(0)).toss(1000, np.random.default_rng(0)).any())
    False
    """
    return Coin(lambda digits: Interval.point(chance))


# Scales are rounded up to this many bits, so that all integers below stay inside int64.
_SCALE_BITS = 40
_LARGEST_SCALE = 2.0**57  # 64 standard deviations are within int64
LAPLACE_SCALES = Fraction(1, 2**20), Fraction(2**50)
"""Scales of Laplace noise that are drawn in int64. Below the first, noise is zero but for one draw in e^(2^20)."""
_CHUNK = 2**16  # numbers; shorter pieces leave threads waiting for the interpreter
_CELL_ENDS = np.arange(lazy.TABLE_CELLS + 2)
_PREFIX = 15  # bits of a coin that come with its proposal


def discrete_laplace(scale: float, size: int, generator: np.random.Generator) -> IntArray:
    """Return draws with probability proportional to exp(-|x| / scale) at every integer x.

    The scale is rounded up to 40 significant bits.

    Examples
    --------
    >>> bool(np.abs(discrete_laplace(1e6, 1000, np.random.default_rng(0))).mean() > 5e5)
    True
    """
    exact = _rounded_up(positive_number("scale", scale))

    def signed(wanted: int) -> IntArray:
        magnitude = _magnitudes(exact, wanted, generator)
        negative = generator.integers(0, 2, magnitude.size).astype(bool)
        # Minus zero is drawn again.
        return np.asarray(np.where(negative, -magnitude, magnitude)[~(negative & (magnitude == 0))])

    return _drawn(integer_between("size", size, 1), signed)


def geometric(scale: float, size: int, generator: np.random.Generator) -> IntArray:
    """Return draws with probability proportional to exp(-x / scale) at every integer x of 0 and above.

    The scale is rounded up to 40 significant bits.

    Examples
    --------
    >>> draws = geometric(1e6, 1000, np.random.default_rng(0))
    >>> bool(draws.min() >= 0 and draws.mean() > 5e5)
    True
    """
    exact = _rounded_up(positive_number("scale", scale))
    return _drawn(integer_between("size", size, 1), lambda wanted: _magnitudes(exact, wanted, generator))


def geometric_reaches(limits: IntArray, scale: float, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Return whether a draw of `geometric`, one for each limit, is at least as large as the limit.

    Each answer is a coin of probability exp(-limit / scale), so that no number is drawn.

    Examples
    --------
    >>> geometric_reaches(np.array([-5, 0, 10**9]), 20.0, np.random.default_rng(0)).tolist()
    [True, True, False]
    """
    exact, limits = _rounded_up(positive_number("scale", scale)), np.maximum(limits, 0)
    # Floats leave open what is less likely than exp(-45), and the smallest of them take long.
    return _falls(np.minimum(limits / float(exact), 45.0), lambda i: int(limits[i]) / exact, generator)


def discrete_gaussian(scale: float, size: int, generator: np.random.Generator) -> IntArray:
    """Return draws with probability proportional to exp(-x^2 / (2 scale^2)) at every integer x.

    The scale is rounded up to 40 significant bits.
    """
    scale, size = positive_number("scale", scale), integer_between("size", size, 1)
    if scale > _LARGEST_SCALE:
        raise InvalidParameterError(f"scale must be at most 2^57, beyond which int64 ends, got {scale!r}.")
    return _drawn(size, _GaussianCells(scale, generator).kept)


def _drawn(size: int, accepted: Callable[[int], IntArray]) -> IntArray:
    """Return `size` numbers from rounds of rejection sampling, each of which is told how many are missing."""
    rounds, missing = [], size
    while missing > 0:
        rounds.append(accepted(missing)[:missing])
        missing -= rounds[-1].size
    return np.concatenate(rounds)


class _GaussianCells:
    """Proposals for the discrete Gaussian distribution: cell k has the integers x with k <= 16 |x|/scale < k + 1."""

    def __init__(self, scale: float, generator: np.random.Generator) -> None:
        self._mantissa, self._exponent = _forty_bits(scale)
        self._scale = math.ldexp(self._mantissa, self._exponent)  # exact: it has no more than 53 bits
        self._generator = generator
        # The first integers of the cells, scale·k/16 rounded up. A shift by 62 leaves as little as one by more.
        shift = min(4 - self._exponent, 62)
        ends = _CELL_ENDS * self._mantissa
        self._first = ends << -shift if shift <= 0 else (ends + (2**shift - 1)) >> shift
        self._width = int(self._first[1])  # integers of cell 0; no cell has more, and none has two fewer
        # How many proposals it takes for one that is kept, about.
        self._trials = 2 ** (lazy.CELL_BITS + 1) / lazy.HEIGHT * self._width / max(1.0, 2.5 * self._scale)

    def kept(self, wanted: int) -> IntArray:
        """Return accepted proposals: about as many as wanted, and no more than a chunk."""
        trials = wanted * self._trials
        size = min(int(trials + 2 * math.sqrt(trials)) + 1, _CHUNK)
        # Of 32 bits 16 choose the cell, 15 begin the coin and the last is the sign.
        halves = random_words(self._generator, (size + 1) // 2).view(np.uint16)
        chosen, coin = halves[:size], halves[size : 2 * size]
        cell = lazy.CELL.take(chosen)
        from_end = self._generator.integers(1, self._width + 1, size)
        out = self._first[1:].take(cell, mode="clip")
        out -= from_end
        kept = (coin | 1) < lazy.SURE_BY_WORD.take(chosen)
        open_ = (~kept).nonzero()[0]
        if open_.size:
            its_coin, its_cell = coin.take(open_), cell.take(open_)
            maybe = (its_coin & 0xFFFE) < lazy.UNSURE_BELOW.take(its_cell)
            open_ = open_[maybe]
            kept[open_] = self._tossed(out, open_, its_cell[maybe], its_coin[maybe], from_end)
        # A cell may have one integer less than cell 0, and in cell 0 this place is that of zero, which has no minus.
        edge = (from_end == self._width).nonzero()[0]
        if edge.size:
            number, minus = out[edge], (coin[edge] & 1).astype(bool)
            kept[edge[(number < self._first.take(cell[edge], mode="clip")) | (minus & (number == 0))]] = False
        flip = np.negative(coin & 1, dtype=np.int64)
        out ^= flip  # -x - 1 where the sign is minus
        out -= flip
        return np.asarray(out[kept])

    def _tossed(
        self, out: IntArray, at: NDArray[np.intp], cell: NDArray[np.uint8], coin: NDArray[np.uint16], from_end: IntArray
    ) -> NDArray[np.bool_]:
        """Toss the coins at some positions, of which 15 bits are known; numbers beyond the table are drawn here."""
        prefix, more = coin >> 1, random_words(self._generator, at.size)
        uniform = (prefix + more * 2.0**-64) * 2.0**-_PREFIX
        chance = self.float_chance(cell, out.take(at))
        kept = uniform < chance
        for j in ((np.abs(uniform - chance) <= COIN_TOLERANCE) | (cell == lazy.TABLE_CELLS)).nonzero()[0]:
            number, factor = self._settled(int(cell[j]), int(from_end[at[j]]))
            uniform_number = LazyUniform((int(prefix[j]) << 64) | int(more[j]), _PREFIX + 64, self._generator)
            kept[j] = number is not None and uniform_number.below(self.chance(number, factor))
            out[at[j]] = number or 0
        return np.asarray(kept)

    def _settled(self, cell: int, from_end: int) -> tuple[int | None, Fraction]:
        """Return the integer that is so far before the end of its cell, if it is in it, and c/m of the cell."""
        cell, factor = lazy.settled_cell(cell, self._generator)
        width = Fraction(self._mantissa) * Fraction(2) ** (self._exponent - 4)
        number = math.ceil((cell + 1) * width) - from_end
        return (number if number >= cell * width else None), factor

    def float_chance(self, cell: NDArray[np.uint8], numbers: IntArray) -> FloatArray:
        """Return the probabilities to keep integers of cells within the table, each within 2^-49."""
        return np.asarray(lazy.RATIO.take(cell) * np.exp(-0.5 * np.square(numbers / self._scale)))

    def chance(self, number: int, factor: Fraction) -> Callable[[int], Interval]:
        """Return the probability to keep an integer, as a function from digits to an interval that holds it."""
        exponent = Interval.point(-((Fraction(number) / Fraction(self._scale)) ** 2) / 2)
        return lambda digits: exp_interval(exponent, digits) * Interval.point(factor)


def _magnitudes(scale: Fraction, wanted: int, generator: np.random.Generator) -> IntArray:
    """Draw about `wanted` integers x >= 0 with probability proportional to exp(-x/scale).

    With scale = a/b, b a power of 2, each is ⌊(u + a v)/b⌋: u is uniform below a and kept with probability exp(-u/a), v
    is geometric with ratio 1/e.
    """
    a, b = scale.numerator, scale.denominator
    u = generator.integers(0, a, 2 * wanted + 16)
    u = u[_falls(u / a, lambda i: Fraction(int(u[i]), a), generator)]
    drawn = _geometric(u.size, generator)
    drawn *= a
    drawn += u
    drawn >>= b.bit_length() - 1
    return drawn


# The powers of 1/e that a word of 64 bits can be near, and some more.
_POWERS = np.exp(-np.arange(64.0))


def _geometric(size: int, generator: np.random.Generator) -> IntArray:
    """Draw v with probability of v >= j equal to exp(-j), by inversion of one word each."""
    words = random_words(generator, size)
    uniform = words * 2.0**-64
    # What is near zero is undecided, and not asked for its logarithm.
    logs = np.maximum(uniform, COIN_TOLERANCE)
    np.log(logs, out=logs)
    result: IntArray = np.negative(logs, out=logs).astype(np.int64)
    # As is a word that is near one of the two powers of 1/e around it.
    near = uniform < COIN_TOLERANCE
    for powers in (_POWERS, _POWERS[1:]):
        powers.take(result, out=logs, mode="clip")
        logs -= uniform
        near |= np.abs(logs, out=logs) <= COIN_TOLERANCE
    for i in near.nonzero()[0]:
        uniform_number = LazyUniform(int(words[i]), 64, generator)
        j = 0
        while uniform_number.below(_below_exp(Fraction(j + 1))):
            j += 1
        result[i] = j
    return result


def _falls(gamma: FloatArray, exactly: Callable[[int], Fraction], generator: np.random.Generator) -> NDArray[np.bool_]:
    """Toss a coin for each entry, true with probability exp(-gamma); `exactly` gives the true gamma of an entry."""
    words = random_words(generator, gamma.size)
    below = np.exp(-gamma)
    below -= words * 2.0**-64
    result = below > 0
    for i in (np.abs(below, out=below) <= COIN_TOLERANCE).nonzero()[0]:
        result[i] = LazyUniform(int(words[i]), 64, generator).below(_below_exp(exactly(int(i))))
    return result


def _below_exp(gamma: Fraction) -> Callable[[int], Interval]:
    """Return exp(-gamma), as a function from digits to an interval that holds it."""
    return lambda digits: exp_interval(Interval.point(-gamma), digits)


def _forty_bits(scale: float) -> tuple[int, int]:
    """Return m and e: the scale is m·2^e, rounded up to 40 significant bits."""
    mantissa, exponent = math.frexp(scale)
    return math.ceil(math.ldexp(mantissa, _SCALE_BITS)), exponent - _SCALE_BITS


@lru_cache(maxsize=64)
def _rounded_up(scale: float) -> Fraction:
    """Return the scale as a fraction of at most 40 significant bits, rounded up."""
    mantissa, exponent = _forty_bits(scale)
    return mantissa * Fraction(2) ** exponent
