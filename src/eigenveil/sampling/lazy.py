"""Lazy reals: uniform and normal numbers whose further bits are drawn when they are asked for, and kept.

Lazy normals and discrete Gaussian numbers are both proposed here, in units of their standard deviation. Cell k begins
at k/16 and is proposed with probability m_k/2¹⁶, m_k = ⌈c·exp(−(k/16)²/2)⌉; a number z within it is kept with
probability (c/m_k)·exp(−z²/2) <= 1. What is kept is then in proportion to exp(−z²/2) everywhere.
"""

import decimal
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from randomgen import AESCounter

from ..numerics import FloatArray
from .certified import Interval, exp_interval

CELL_BITS = 16
TABLE_CELLS = 128
"""Cells below |z| = 8. The last entry of the table stands for all beyond, cell 128 + j with probability 2^-(j + 1)."""
_NEVER = 255


def _tables() -> tuple[int, NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint16], NDArray[np.uint32]]:
    """Return c, the weights m of the cells, the cell of every 16-bit word, and bounds on when a coin falls.

    A 16-bit prefix of the coin's uniform number below `sure` keeps a proposal, one from `never` on does not.
    """
    with decimal.localcontext(prec=40):
        height = [(-((decimal.Decimal(k) / 16) ** 2) / 2).exp() for k in range(TABLE_CELLS + 1)]
        hair = decimal.Decimal("1e-30")  # more than the rounding of all that is below
        # The largest c whose weights fit: they grow with it, so halving the interval finds it.
        c, too_large = 1, 2**CELL_BITS
        while too_large - c > 1:
            middle = (c + too_large) // 2
            fits = sum(math.ceil(middle * h + hair) for h in height[:-1]) + 1 <= 2**CELL_BITS
            c, too_large = (middle, too_large) if fits else (c, middle)
        weights = [math.ceil(c * h + hair) for h in height[:-1]] + [1]
        sure, never = np.zeros(256, np.uint16), np.zeros(256, np.uint32)
        for k in range(TABLE_CELLS):
            sure[k] = math.floor(2**16 * c * height[k + 1] / weights[k] * (1 - hair))
            never[k] = min(2**16, math.ceil(2**16 * c * height[k] / weights[k] * (1 + hair)))
        never[TABLE_CELLS] = 1  # far below 2^-16, decided exactly
    cell = np.full(2**CELL_BITS, _NEVER, np.uint8)
    cell[: sum(weights)] = np.repeat(np.arange(TABLE_CELLS + 1, dtype=np.uint8), weights)
    return c, np.array(weights + [1] * (255 - TABLE_CELLS), np.int64), cell, sure, never


HEIGHT, WEIGHTS, CELL, _SURE, UNSURE_BELOW = _tables()
RATIO = HEIGHT / WEIGHTS
# By the 16 bits that choose the cell, which saves a step.
SURE_BY_WORD = _SURE[CELL]


def settled_cell(cell: int, generator: np.random.Generator) -> tuple[int, Fraction]:
    """Return the number of a cell, drawn now if it is beyond the table, and its c/m."""
    beyond = 0
    if cell == TABLE_CELLS:
        while generator.integers(0, 2):
            beyond += 1
        return cell + beyond, Fraction(HEIGHT * 2 ** (beyond + 1))
    return cell, Fraction(HEIGHT, int(WEIGHTS[cell]))


WordArray = NDArray[np.uint64]
Coins = tuple[NDArray[np.int64], NDArray[np.uint16]]

# z = (cell·2⁴⁷ + digits + θ)·2⁻⁵¹: cells of width 1/16. Of a random word the first 16 bits choose the cell by a table,
# the next one is the sign, and the other 47 are digits.
DIGITS, UNIT_BITS = 47, 51
_DIGITS_MASK = np.uint64(2**DIGITS - 1)
_BESIDE_CELL, _BEFORE_SIGN = np.uint64(64 - CELL_BITS), np.uint64(CELL_BITS)
COIN_TOLERANCE = 2.0**-44
"""Floats decide a coin where they differ by more from its probability.

Far above the rounding of a uniform word (2⁻⁵³) and of probabilities in floats (2⁻⁴⁸ at most), and far below what would
make exact decisions frequent: docs/research/samplers.md.
"""
FIRST_DIGITS = 40
"""Of the first comparison with a probability: its first 64 bits are 20 of them."""
_CHUNK = 2**17  # words; shorter pieces leave threads waiting for the interpreter
_CELL_START = CELL / 16.0
# Whose raw output is the words that `integers` gives; that of others may have fewer bits.
_GIVE_WORDS = (AESCounter, np.random.PCG64)


def random_words(generator: np.random.Generator, size: int) -> WordArray:
    """Return uniform 64-bit words."""
    if isinstance(generator.bit_generator, _GIVE_WORDS):
        words: WordArray = generator.bit_generator.random_raw(size)
        return words
    # With its end: 2^64 is no uint64, and to find that out takes NumPy half of the time of a small call.
    return generator.integers(0, 2**64 - 1, size, dtype=np.uint64, endpoint=True)


def random_word(generator: np.random.Generator) -> int:
    """Return one uniform 64-bit word."""
    return int(generator.integers(0, 2**64, dtype=np.uint64))


class LazyUniform:
    """A number in [0, 1): value/2^bits is at most it, and (value + 1)/2^bits above it.

    Examples
    --------
    >>> number = LazyUniform(1, 1, np.random.default_rng(0))
    >>> number.interval
    Interval(low=Fraction(1, 2), high=Fraction(1, 1))
    >>> number.more()
    >>> number.bits
    65
    """

    def __init__(self, value: int, bits: int, generator: np.random.Generator) -> None:
        self.value, self.bits, self._generator = value, bits, generator

    def more(self) -> None:
        """Draw 64 more bits."""
        self.value, self.bits = (self.value << 64) | random_word(self._generator), self.bits + 64

    @property
    def interval(self) -> Interval:
        """The interval of all numbers with the bits drawn so far."""
        return Interval(Fraction(self.value, 2**self.bits), Fraction(self.value + 1, 2**self.bits))

    def below(self, chance: Callable[[int], Interval]) -> bool:
        """Return whether the number is below one that `chance` brackets to as many digits as it is asked for."""
        while True:
            # Three bits are less than a digit; some more digits make the interval far narrower than the last bit.
            bounds, known = chance(FIRST_DIGITS + self.bits // 3), self.interval
            if known.high <= bounds.low:
                return True
            if known.low >= bounds.high:
                return False
            self.more()


class LazyNormals:
    """Independent standard normals, as floats with a known error, and as integers with as many bits as wanted.

    Parameters
    ----------
    size : int
    generator : numpy.random.Generator

    Attributes
    ----------
    value : ndarray of float64
    error : float
        No entry of `value` is farther from its number.
    exact_coins : int
        How many proposals floats left undecided.
    """

    def __init__(self, size: int, generator: np.random.Generator) -> None:
        self._generator = generator
        self._word = np.empty(size, np.uint64)
        self.value: FloatArray = np.empty(size)
        self._further: dict[int, tuple[int, int]] = {}  # by index: how many bits were drawn, and which
        self._far_cell: dict[int, int] = {}
        self.exact_coins = 0
        for low in range(0, size, _CHUNK):
            self._fill(low, min(low + _CHUNK, size))
        largest = max([8.0, *(abs(float(self.value[i])) for i in self._far_cell)])
        self.error: float = 2.0**-UNIT_BITS * (1 + largest / 4)  # θ, and the rounding of Z to 53 bits

    @property
    def size(self) -> int:
        """The number of normals."""
        return self._word.size

    def forget_values(self) -> None:
        """Free the floats; the numbers stay."""
        self.value = np.empty(0)

    def _fill(self, low: int, high: int) -> None:
        words, values = self._word[low:high], self.value[low:high]
        pending = low + self._refused(np.arange(low, high), words, values, self._propose(words, values))
        while pending.size:
            words, values = np.empty(pending.size, np.uint64), np.empty(pending.size)
            coins = self._propose(words, values)
            self._word[pending], self.value[pending] = words, values
            pending = pending[self._refused(pending, words, values, coins)]

    def _propose(self, words: WordArray, values: FloatArray) -> Coins:
        """Fill in proposals; return the bits that chose their cells, and the first 16 bits of their coins."""
        drawn = random_words(self._generator, words.size + (words.size + 3) // 4)
        words[...] = drawn[: words.size]
        leading = (words >> _BESIDE_CELL).view(np.int64)
        values[...] = (words & _DIGITS_MASK).view(np.int64)
        values += 0.5
        values *= 2.0**-UNIT_BITS
        values += _CELL_START.take(leading)
        np.copysign(values, (words << _BEFORE_SIGN).view(np.float64), out=values)
        return leading, drawn[words.size :].view(np.uint16)[: words.size]

    def _refused(
        self, indices: NDArray[np.intp], words: WordArray, values: FloatArray, coins: Coins
    ) -> NDArray[np.intp]:
        """Return the positions, within the given ones, whose proposals are not kept."""
        leading, prefix = coins
        open_ = (prefix >= SURE_BY_WORD.take(leading)).nonzero()[0]
        if not open_.size:
            return open_
        kept = np.zeros(open_.size, bool)
        cell = CELL[leading[open_]]
        maybe = (prefix[open_] < UNSURE_BELOW[cell]).nonzero()[0]
        at, cell = open_[maybe], cell[maybe]
        more = random_words(self._generator, maybe.size)
        uniform = (prefix[at] + more * 2.0**-64) * 2.0**-16
        chance = RATIO[cell] * np.exp(-0.5 * np.square(values[at]))
        kept[maybe] = uniform < chance
        doubtful = (np.abs(uniform - chance) <= COIN_TOLERANCE) | (cell == TABLE_CELLS)
        for j in doubtful.nonzero()[0]:
            position = int(at[j])
            coin = LazyUniform((int(prefix[position]) << 64) | int(more[j]), 80, self._generator)
            kept[maybe[j]] = self._kept(int(indices[position]), int(words[position]), coin, values, position)
        return open_[~kept]

    def _kept(self, index: int, word: int, coin: LazyUniform, values: FloatArray, position: int) -> bool:
        """Decide a coin with as many digits as it takes; a number that is kept keeps the digits drawn for it."""
        self.exact_coins += 1
        cell, factor = settled_cell(int(CELL[word >> (64 - CELL_BITS)]), self._generator)
        digits = LazyUniform(word & int(_DIGITS_MASK), DIGITS, self._generator)
        while True:
            ends = [Fraction((cell << digits.bits) + digits.value + one, 2 ** (digits.bits + 4)) for one in (0, 1)]
            exponent = Interval(-(ends[1] ** 2) / 2, -(ends[0] ** 2) / 2)
            chance = exp_interval(exponent, 20 + digits.bits // 3) * Interval.point(factor)
            if coin.interval.high <= chance.low or coin.interval.low >= chance.high:
                break
            digits.more()
            coin.more()
        if coin.interval.low >= chance.high:
            return False
        if digits.bits > DIGITS:
            further = digits.bits - DIGITS
            self._further[index] = (further, digits.value & (2**further - 1))
        if cell >= TABLE_CELLS:
            self._far_cell[index] = cell
            size = ((cell << DIGITS) + (word & int(_DIGITS_MASK)) + 0.5) * 2.0**-UNIT_BITS
            values[position] = self.value[index] = math.copysign(size, values[position])
        return True

    def integer(self, index: int, bits: int) -> int:
        """Return n: the number lies between n and n ± 1, away from zero, in units of 2^-(51 + bits).

        A zero says nothing about the sign; its number is within one unit on either side.
        """
        word = int(self._word[index])
        cell = self._far_cell.get(index, int(CELL[word >> (64 - CELL_BITS)]))
        size = (cell << DIGITS) | (word & int(_DIGITS_MASK))
        if bits:
            drawn, further = self._further.get(index, (0, 0))
            while drawn < bits:
                further, drawn = (further << 64) | random_word(self._generator), drawn + 64
            self._further[index] = (drawn, further)
            size = (size << bits) | (further >> (drawn - bits))
        return -size if word >> DIGITS & 1 else size
