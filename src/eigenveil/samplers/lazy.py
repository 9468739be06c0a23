"""Lazy reals: numbers whose leading bits are known and whose further bits are drawn when somebody asks for them.

A float has no further bits, and that is how it betrays what was added to it. A lazy normal is ±(Z + θ)·2⁻⁵¹ with an
integer Z and θ uniform on [0, 1), not drawn yet: the digits of the number itself are the lazy bits, so to refine it is
to append random bits. docs/explanation/exact_sampling.md proves the law.
"""

import decimal
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .certified import Interval, exp_interval

FloatArray = NDArray[np.float64]
WordArray = NDArray[np.uint64]

# z = (cell·2⁴⁷ + digits + θ)·2⁻⁵¹: cells of width 1/16. Of a random word the first 16 bits choose the cell by a table,
# the next one is the sign, and the other 47 are digits.
CELL_BITS, DIGITS, UNIT_BITS = 16, 47, 51
TABLE_CELLS = 128
"""Cells below |z| = 8. The last entry of the table stands for all beyond, cell 128 + j with probability 2^-(j + 1)."""
_NEVER = 255
_DIGITS_MASK = np.uint64(2**DIGITS - 1)
# Floats decide a coin where they differ by more: z is within 3·2⁻⁵¹, its exponential within 2⁻⁴⁸ of the truth.
COIN_TOLERANCE = 2.0**-44
_CHUNK = 2**16  # words that stay in a cache


def _tables() -> tuple[int, NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint16], NDArray[np.uint32]]:
    """Return c, the weights m of the cells, the cell of every 16-bit word, and bounds on when a coin falls.

    Cell k is proposed with probability m_k/2¹⁶, m_k = ⌈c·exp(−(k/16)²/2)⌉, and kept with probability
    (c/m_k)·exp(−z²/2) <= 1. A 16-bit prefix of the uniform number below `sure` keeps it, one from `never` on does not.
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


HEIGHT, WEIGHTS, _CELL, _SURE, _UNSURE_BELOW = _tables()
_RATIO = HEIGHT / WEIGHTS
# The same by the 16 bits that choose the cell, which saves a step.
_CELL_START, _SURE_BY_WORD = _CELL / 16.0, _SURE[_CELL]


def random_words(generator: np.random.Generator, size: int) -> WordArray:
    """Return uniform 64-bit words."""
    return generator.integers(0, 2**64, size, dtype=np.uint64)


def random_word(generator: np.random.Generator) -> int:
    """Return one uniform 64-bit word."""
    return int(generator.integers(0, 2**64, dtype=np.uint64))


def _leading(words: WordArray) -> NDArray[np.int64]:
    """Return the bits that choose the cells."""
    return (words >> np.uint64(64 - CELL_BITS)).view(np.int64)


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
        """What is known of the number."""
        return Interval(Fraction(self.value, 2**self.bits), Fraction(self.value + 1, 2**self.bits))


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

    Examples
    --------
    >>> normals = LazyNormals(3, np.random.default_rng(0))
    >>> abs(normals.integer(0, 64)) >> 64 == abs(normals.integer(0, 0))
    True
    """

    def __init__(self, size: int, generator: np.random.Generator) -> None:
        self._generator = generator
        self._word = np.empty(size, np.uint64)
        self.value = np.empty(size)
        self._further: dict[int, tuple[int, int]] = {}  # by index: how many bits were drawn, and which
        self._far_cell: dict[int, int] = {}
        self.exact_coins = 0
        for low in range(0, size, _CHUNK):
            self._fill(low, min(low + _CHUNK, size))
        largest = max([8.0, *(abs(float(self.value[i])) for i in self._far_cell)])
        self.error = 2.0**-UNIT_BITS * (1 + largest / 4)  # θ, and the rounding of Z to 53 bits

    @property
    def size(self) -> int:
        """How many they are."""
        return self._word.size

    def forget_values(self) -> None:
        """Free the floats; the numbers stay."""
        self.value = np.empty(0)

    def _fill(self, low: int, high: int) -> None:
        words, values = self._word[low:high], self.value[low:high]
        prefix = self._propose(words, values)
        pending = low + self._refused(np.arange(low, high), words, values, prefix)
        while pending.size:
            words, values = np.empty(pending.size, np.uint64), np.empty(pending.size)
            prefix = self._propose(words, values)
            self._word[pending], self.value[pending] = words, values
            pending = pending[self._refused(pending, words, values, prefix)]

    def _propose(self, words: WordArray, values: FloatArray) -> NDArray[np.uint16]:
        """Fill in proposals, and return the first 16 bits of their coins."""
        drawn = random_words(self._generator, words.size + (words.size + 3) // 4)
        words[...] = drawn[: words.size]
        values[...] = (words & _DIGITS_MASK).view(np.int64)
        values += 0.5
        values *= 2.0**-UNIT_BITS
        values += np.take(_CELL_START, _leading(words))
        np.copysign(values, (words << np.uint64(CELL_BITS)).view(np.float64), out=values)
        return drawn[words.size :].view(np.uint16)[: words.size]

    def _refused(
        self, indices: NDArray[np.intp], words: WordArray, values: FloatArray, prefix: NDArray[np.uint16]
    ) -> NDArray[np.intp]:
        """Return the positions, within the given ones, whose proposals are not kept."""
        open_ = np.flatnonzero(prefix >= np.take(_SURE_BY_WORD, _leading(words)))
        if not open_.size:
            return open_
        kept = np.zeros(open_.size, bool)
        maybe = np.flatnonzero(prefix[open_] < _UNSURE_BELOW[_CELL[_leading(words[open_])]])
        at = open_[maybe]
        cells = _CELL[_leading(words[at])]
        more = random_words(self._generator, maybe.size)
        uniform = (prefix[at] + more * 2.0**-64) * 2.0**-16
        chance = _RATIO[cells] * np.exp(-0.5 * np.square(values[at]))
        kept[maybe] = uniform < chance
        doubtful = (np.abs(uniform - chance) <= COIN_TOLERANCE) | (cells == TABLE_CELLS)
        for j in np.flatnonzero(doubtful):
            position = int(at[j])
            coin = LazyUniform((int(prefix[position]) << 64) | int(more[j]), 80, self._generator)
            kept[maybe[j]] = self._kept(int(indices[position]), int(words[position]), coin, values, position)
        return open_[~kept]

    def _kept(self, index: int, word: int, coin: LazyUniform, values: FloatArray, position: int) -> bool:
        """Decide a coin with as many digits as it takes; a number that is kept keeps the digits drawn for it."""
        self.exact_coins += 1
        cell = int(_CELL[word >> (64 - CELL_BITS)])
        factor = Fraction(HEIGHT, int(WEIGHTS[cell]))
        if cell == TABLE_CELLS:
            beyond = 0
            while random_word(self._generator) >> 63:
                beyond += 1
            cell, factor = cell + beyond, factor * 2 ** (beyond + 1)
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
        cell = self._far_cell.get(index, int(_CELL[word >> (64 - CELL_BITS)]))
        size = (cell << DIGITS) | (word & int(_DIGITS_MASK))
        if bits:
            drawn, further = self._further.get(index, (0, 0))
            while drawn < bits:
                further, drawn = (further << 64) | random_word(self._generator), drawn + 64
            self._further[index] = (drawn, further)
            size = (size << bits) | (further >> (drawn - bits))
        return -size if word >> DIGITS & 1 else size
