"""Lazy triangles: what Bartlett's decomposition leaves of a matrix of normals, every number with further digits.

G Gᵀ has the law of L Lᵀ, L lower triangular with normals below its diagonal and the root of a chi-square on it. Such a
root is drawn as a lazy normal about a public number, so it is refined as normals are, and no square root is taken.
docs/explanation/exact_sampling.md proves the law.
"""

from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from .certified import UNIT_ROUNDOFF, Interval, exp_interval, ln_interval
from .lazy import FIRST_DIGITS, UNIT_BITS, FloatArray, LazyNormals, LazyUniform, random_words

_CENTRE_BITS = 20  # of the public numbers, after the point
PROPOSALS = 8
"""For every root: 7 of 10 are kept, so that all being refused is rare."""
# Floats decide a coin where they differ by more, beside the error of the exponent.
COIN_TOLERANCE = 2.0**-44


class LazyChis:
    """Independent roots of chi-squares, x = centre + z with a lazy normal z.

    With ν degrees the density is ∝ x^(ν−1)·exp(−x²/2), that of x = a + z ∝ exp(−(x − a)²/2). Their quotient is ∝
    x^(ν−1)·exp(−a·x), largest at x = (ν − 1)/a. So z is kept with probability exp((ν−1)·(ln r + 1 − r)), r = a·x/(ν−1),
    if x > 0. Any a > 0 is right; near the root of ν − 1 seven of ten are kept. One degree has a = 0, and keeps all.

    Parameters
    ----------
    degrees : ndarray of int64
    generator : numpy.random.Generator
    normals : LazyNormals, optional
        The last `PROPOSALS` of them for every root are the first proposals, and are used for nothing else.

    Attributes
    ----------
    value : ndarray of float64
    error : float
        No entry of `value` is farther from its number.
    exact_coins : int
        How many proposals floats left undecided.

    Examples
    --------
    >>> roots = LazyChis(np.array([1, 50]), np.random.default_rng(0))
    >>> bool((roots.value > 0).all() and abs(roots.integer(1, 64) / 2**115 - roots.value[1]) < 1e-14)
    True
    """

    def __init__(
        self, degrees: NDArray[np.int64], generator: np.random.Generator, normals: LazyNormals | None = None
    ) -> None:
        self._generator, self._powers = generator, degrees - 1
        self._centre = np.rint(np.sqrt(self._powers) * 2.0**_CENTRE_BITS).astype(np.int64)  # in units of 2^-20
        self.value = np.empty(degrees.size)
        self._drawn: list[LazyNormals] = []
        self._round, self._place = (np.empty(degrees.size, np.intp) for _ in range(2))
        self.exact_coins, self.error = 0, 0.0
        pending = np.arange(degrees.size)
        while pending.size:
            if normals is None:
                normals = LazyNormals(PROPOSALS * pending.size, generator)
            first = normals.size - PROPOSALS * pending.size
            kept = self._kept(normals, first, np.tile(pending, PROPOSALS)).reshape(PROPOSALS, -1)
            place = first + kept.argmax(axis=0) * pending.size + np.arange(pending.size)  # the first that is kept
            self._round[pending], self._place[pending] = len(self._drawn), place
            self.value[pending] = normals.value[place] + self._centre[pending] * 2.0**-_CENTRE_BITS
            self._drawn.append(normals)
            self.error = max(self.error, normals.error)
            pending, normals = pending[~kept.any(axis=0)], None
        self.error += UNIT_ROUNDOFF * float(self.value.max(initial=0.0))

    def _kept(self, normals: LazyNormals, first: int, which: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Toss the coins of proposals for the roots `which`, from the first one on."""
        power, centre = self._powers[which], self._centre[which] * 2.0**-_CENTRE_BITS
        x = normals.value[first:] + centre
        words = random_words(self._generator, x.size)
        # Where x is nearly 0 digits decide, and not its float.
        positive = np.maximum(x, 2.0**-30)
        ratio = np.where(power > 0, positive * centre / np.maximum(power, 1), 1.0)
        log = np.log(ratio)
        chance = np.exp(np.minimum(power * (log + (1 - ratio)), 0.0))
        shift = normals.error / positive + 4 * UNIT_ROUNDOFF
        # Of the exponent; it is at most 0, and so this is more than the error of the probability.
        error = 2 * power * (shift * (1 + ratio) + 16 * UNIT_ROUNDOFF * (1 + ratio + np.abs(log)))
        uniform = words * 2.0**-64
        kept = (x > 0) & (uniform < chance)
        doubtful = (np.abs(uniform - chance) <= error + COIN_TOLERANCE) & (x > -normals.error * 2)
        doubtful |= np.abs(x) <= 2.0**-30
        for i in np.flatnonzero(doubtful):
            kept[i] = self._kept_exactly(normals, first + int(i), int(which[i]), int(words[i]))
        return np.asarray(kept)

    def _kept_exactly(self, normals: LazyNormals, index: int, which: int, word: int) -> bool:
        """Decide a coin with as many digits as it takes."""
        self.exact_coins += 1
        power, uniform, bits = int(self._powers[which]), LazyUniform(word, 64, self._generator), 0
        while True:
            number = self._shifted(normals.integer(index, bits), which, bits)
            x = Interval(Fraction(number - 1, 2 ** (UNIT_BITS + bits)), Fraction(number + 1, 2 ** (UNIT_BITS + bits)))
            if x.high <= 0:
                return False
            if x.low > 0:
                if power == 0:
                    return True
                digits = FIRST_DIGITS + uniform.bits // 3
                ratio = x * Interval.point(Fraction(int(self._centre[which]), power << _CENTRE_BITS))
                exponent = ln_interval(ratio, digits) + Interval.point(1) - ratio
                chance = exp_interval(exponent * Interval.point(power), digits)
                if uniform.interval.high <= chance.low:
                    return True
                if uniform.interval.low >= chance.high:
                    return False
                uniform.more()
            bits += 64

    def _shifted(self, number: int, which: int, bits: int) -> int:
        return number + (int(self._centre[which]) << (UNIT_BITS - _CENTRE_BITS + bits))

    def integer(self, index: int, bits: int) -> int:
        """Return n: the number is within one unit of it, in units of 2^-(51 + bits)."""
        normals = self._drawn[self._round[index]]
        return self._shifted(normals.integer(int(self._place[index]), bits), index, bits)


class LazyTriangle:
    """L with `n_features` rows, such that L Lᵀ is Wishart(degrees, I): no number above its diagonal.

    Made by `lazy_triangles`, which draws the numbers of several at once.

    Attributes
    ----------
    value : ndarray of float64
        Row after row, zeros included; a row has `columns` numbers.
    error : float
        No entry of `value` is farther from its number.
    """

    def __init__(self, starts: list[int], columns: int, normals: LazyNormals, roots: LazyChis, which: int) -> None:
        d, self.columns = len(starts) - 1, columns
        self._below, self._roots = normals, roots
        self._first_root = which * columns
        self._start = [which * starts[-1] + start for start in starts]
        rows = np.zeros((d, columns))
        for i, (low, high) in enumerate(pairwise(self._start)):
            rows[i, : high - low] = normals.value[low:high]
        rows[np.diag_indices(columns)] = roots.value[self._first_root : self._first_root + columns]
        self.value: FloatArray = rows.ravel()
        self.error = max(roots.error, normals.error)
        self.size = rows.size

    def integer(self, index: int, bits: int) -> int:
        """Return n: the number is within one unit of it, in units of 2^-(51 + bits); 0 above the diagonal."""
        i, j = divmod(index, self.columns)
        if j > i:
            return 0
        return (
            self._roots.integer(self._first_root + i, bits) if i == j else self._below.integer(self._start[i] + j, bits)
        )

    def forget_values(self) -> None:
        """Free the floats; the numbers stay."""
        self.value = np.empty(0)


def lazy_triangles(how_many: int, n_features: int, degrees: int, generator: np.random.Generator) -> list[LazyTriangle]:
    """Return independent lazy triangles: a call for all of their numbers takes as long as one for a small triangle.

    Examples
    --------
    >>> (triangle,) = lazy_triangles(1, 3, 4, np.random.default_rng(0))
    >>> np.flatnonzero(triangle.value == 0).tolist(), triangle.integer(1, 0)
    ([1, 2, 5], 0)
    """
    columns = min(n_features, degrees)
    starts = list(accumulate((min(i, degrees) for i in range(n_features)), initial=0))
    normals = LazyNormals(how_many * (starts[-1] + PROPOSALS * columns), generator)
    roots = LazyChis(np.tile(degrees - np.arange(columns), how_many), generator, normals)
    triangles = [LazyTriangle(starts, columns, normals, roots, which) for which in range(how_many)]
    normals.forget_values()
    return triangles
