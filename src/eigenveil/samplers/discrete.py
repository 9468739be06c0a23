"""Discrete Laplace, geometric and discrete Gaussian numbers on the integers: exact, and fast.

The algorithms are those of Canonne, Kamath and Steinke (2020), which build both laws from coins that fall with
probability exp(-g) for a rational g. A coin is decided in float64 where the answer is beyond doubt: where a 64-bit
uniform word and the computed probability are further apart than the rounding of both. The rare undecided ones (one in
2^43) are settled in decimals of any length, with further words. So every draw has exactly its probability, as far as
the words of the generator are uniform. OpenDP's samplers are the reference in the tests.
"""

import decimal
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..errors import integer_between, positive_number

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# Far above the rounding of a uniform word (2^-53) and of exp(-g) below (a few times 2^-51;
# docs/explanation/samplers.md), far below what would make exact decisions frequent.
TOLERANCE = 2.0**-44
# Scales are rounded up to this many bits, so that all integers below stay inside int64.
_SCALE_BITS = 40


def discrete_laplace(scale: float, size: int, generator: np.random.Generator) -> IntArray:
    """Return draws with probability proportional to exp(-|x| / scale) at every integer x.

    The scale is rounded up to 40 significant bits.

    Examples
    --------
    >>> bool(np.abs(discrete_laplace(1e6, 1000, np.random.default_rng(0))).mean() > 5e5)
    True
    """
    scale, size = positive_number("scale", scale), integer_between("size", size, 1)
    return _laplace(_rounded_up(scale), size, generator)


def geometric(scale: float, size: int, generator: np.random.Generator) -> IntArray:
    """Return draws with probability proportional to exp(-x / scale) at every integer x of 0 and above.

    The scale is rounded up to 40 significant bits.

    Examples
    --------
    >>> draws = geometric(1e6, 1000, np.random.default_rng(0))
    >>> bool(draws.min() >= 0 and draws.mean() > 5e5)
    True
    """
    scale, size = positive_number("scale", scale), integer_between("size", size, 1)
    accepted = np.empty(0, dtype=np.int64)
    while accepted.size < size:
        accepted = np.append(accepted, _magnitudes(_rounded_up(scale), size - accepted.size, generator))
    return accepted[:size]


def discrete_gaussian(scale: float, size: int, generator: np.random.Generator) -> IntArray:
    """Return draws with probability proportional to exp(-x^2 / (2 scale^2)) at every integer x.

    The scale is rounded up to 40 significant bits.
    """
    scale, size = positive_number("scale", scale), integer_between("size", size, 1)
    variance = _rounded_up(scale) ** 2
    envelope = Fraction(int(scale) + 1)
    mode, spread = float(variance / envelope), float(variance)
    accepted: list[IntArray] = []
    missing = size
    while missing > 0:
        # About three of four proposals are accepted at large scales, and never fewer than one in three.
        proposal = _laplace(envelope, missing + missing // 2 + 16, generator)
        magnitude = np.abs(proposal)
        gamma = (magnitude - mode) ** 2 / (2 * spread)

        def exactly(i: int, magnitude: IntArray = magnitude) -> Fraction:
            return (int(magnitude[i]) - variance / envelope) ** 2 / (2 * variance)

        kept = proposal[_falls(gamma, exactly, generator)][:missing]
        accepted.append(kept)
        missing -= kept.size
    return np.concatenate(accepted)


def _laplace(scale: Fraction, size: int, generator: np.random.Generator) -> IntArray:
    """Draw from the discrete Laplace law: a magnitude and a coin for its sign, and minus zero is drawn again."""
    accepted: list[IntArray] = []
    missing = size
    while missing > 0:
        magnitude = _magnitudes(scale, missing, generator)
        negative = generator.integers(0, 2, magnitude.size).astype(bool)
        kept = np.where(negative, -magnitude, magnitude)[~(negative & (magnitude == 0))][:missing]
        accepted.append(kept)
        missing -= kept.size
    return np.concatenate(accepted)


def _magnitudes(scale: Fraction, wanted: int, generator: np.random.Generator) -> IntArray:
    """Draw about as many as wanted with probability proportional to exp(-x/scale), scale a/b: the floor of (u + a v)/b.

    u is uniform below a and kept with probability exp(-u/a), v is geometric with ratio 1/e.
    """
    a, b = scale.numerator, scale.denominator
    u = generator.integers(0, a, 2 * wanted + 16)
    u = u[_falls(u / a, lambda i: Fraction(int(u[i]), a), generator)]
    return np.asarray((u + a * _geometric(u.size, generator)) // b)


def _geometric(size: int, generator: np.random.Generator) -> IntArray:
    """Draw v with probability of v >= j equal to exp(-j), by inversion of one word each."""
    words = generator.integers(0, 2**64, size, dtype=np.uint64)
    uniform = words * 2.0**-64
    with np.errstate(divide="ignore"):
        v = np.floor(-np.log(uniform))
    # Undecided where the word is near one of the two powers of 1/e around it; a word near zero is near all of them.
    v[uniform < TOLERANCE] = 0.0
    near = (np.abs(uniform - np.exp(-v)) <= TOLERANCE) | (np.abs(uniform - np.exp(-v - 1)) <= TOLERANCE)
    result: IntArray = v.astype(np.int64)
    for i in np.flatnonzero(near | (uniform < TOLERANCE)):
        uniform_number = _Uniform(int(words[i]), generator)
        j = 0
        while uniform_number.below_exp(Fraction(j + 1)):
            j += 1
        result[i] = j
    return result


def _falls(gamma: FloatArray, exactly: Callable[[int], Fraction], generator: np.random.Generator) -> NDArray[np.bool_]:
    """Toss a coin for each entry, true with probability exp(-gamma); `exactly` gives the true gamma of an entry."""
    words = generator.integers(0, 2**64, gamma.size, dtype=np.uint64)
    uniform = words * 2.0**-64
    chance = np.exp(-gamma)
    result = uniform < chance
    for i in np.flatnonzero(np.abs(uniform - chance) <= TOLERANCE):
        result[i] = _Uniform(int(words[i]), generator).below_exp(exactly(int(i)))
    return result


class _Uniform:
    """A uniform number whose first 64 bits are known; more are drawn when a comparison asks for them."""

    def __init__(self, word: int, generator: np.random.Generator) -> None:
        self._value, self._bits, self._generator = word, 64, generator

    def below_exp(self, gamma: Fraction) -> bool:
        """Return whether the number is below exp(-gamma), exactly."""
        while True:
            # 64 bits are 20 digits; 15 more make the error of the decimal far smaller than the last bit.
            with decimal.localcontext(prec=int(self._bits * 0.302) + 15) as context:
                context.Emin, context.Emax = decimal.MIN_EMIN, decimal.MAX_EMAX
                power = decimal.Decimal(-gamma.numerator) / decimal.Decimal(gamma.denominator)
                # Correctly rounded; the rounding of the exponent moves it by at most |power| units more.
                chance = power.exp()
                error = chance * (abs(power) + 2) * decimal.Decimal(10) ** (2 - context.prec)
                low = decimal.Decimal(self._value)
                unit = decimal.Decimal(2) ** self._bits
                if (low + 1) <= (chance - error) * unit:
                    return True
                if low >= (chance + error) * unit:
                    return False
            more = int(self._generator.integers(0, 2**64, dtype=np.uint64))
            self._value, self._bits = (self._value << 64) | more, self._bits + 64


def _rounded_up(scale: float) -> Fraction:
    """Return the scale as a fraction of at most 40 significant bits, rounded up."""
    exact = Fraction(scale)
    excess = exact.numerator.bit_length() - exact.denominator.bit_length() - _SCALE_BITS
    unit = Fraction(2) ** (excess + 1)
    return -(-exact // unit) * unit
