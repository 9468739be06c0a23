"""Wishart matrices by Bartlett's decomposition: in floats, and as lazy triangles for exact noise."""

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError, integer_between, positive_number
from ..numerics import FloatArray
from .certified import (
    UNIT_ROUNDOFF,
    Interval,
    exp_interval,
    ln_interval,
    power_interval,
    rounding_of_sum,
    sqrt_interval,
    weighted_grams,
)
from .lazy import COIN_TOLERANCE, FIRST_DIGITS, UNIT_BITS, LazyNormals, LazyUniform, random_word, random_words
from .matrices import below, mirror_upper
from .randomness import check_generator


def wishart(
    degrees: float, scale: float, n_features: int, generator: np.random.Generator, size: int | None = None
) -> FloatArray:
    """Draw W from the Wishart distribution with `degrees` degrees of freedom and scale matrix scale·I.

    Parameters
    ----------
    degrees : float
        Degrees of freedom, a real number above n_features − 1. E[W] = degrees·scale·I.
    scale : float
        The factor of the identity in the scale matrix, above 0.
    n_features : int
        d, the side of W.
    generator : numpy.random.Generator
        The source of randomness.
    size : int, optional
        The number of independent draws. By default one, returned without a leading axis.

    Returns
    -------
    ndarray of shape (n_features, n_features) or (size, n_features, n_features)
        Positive definite matrices, symmetric to the last bit.

    Notes
    -----
    W = scale·LLᵀ, where L is lower triangular with standard normals below its diagonal, and on it the square
    roots of chi-square variables with degrees, …, degrees − d + 1 degrees of freedom (Bartlett 1933).
    The cost is one matrix product, whatever the degrees of freedom.

    Examples
    --------
    >>> import numpy as np
    >>> W = wishart(4.5, 2.0, 3, np.random.default_rng(0))
    >>> W.shape, bool((W == W.T).all()), bool((np.linalg.eigvalsh(W) > 0).all())
    ((3, 3), True, True)
    """
    check_generator(generator)
    d = integer_between("n_features", n_features, 1)
    scale = positive_number("scale", scale)
    degrees = positive_number("degrees", degrees)
    if degrees <= d - 1:
        raise InvalidParameterError("degrees must be above n_features - 1, else the distribution has no density.")
    count = 1 if size is None else integer_between("size", size, 1)
    factors = generator.standard_normal((count, d, d))
    np.copyto(factors, 0.0, where=below(d).T)
    np.einsum("nii->ni", factors)[...] = np.sqrt(generator.chisquare(degrees - np.arange(d), (count, d)))
    factors *= np.sqrt(scale)
    products: FloatArray = factors @ factors.swapaxes(1, 2)
    # BLAS may sum the two triangles in different orders; the lower one is mirrored, so symmetry is exact.
    mirror_upper(products.swapaxes(1, 2))
    return products[0] if size is None else products


_CENTRE_BITS = 20  # of the public numbers, after the point
PROPOSALS = 8
"""For every root: 7 of 10 are kept, so that all being refused is rare."""


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
    """

    def __init__(
        self, degrees: NDArray[np.int64], generator: np.random.Generator, normals: LazyNormals | None = None
    ) -> None:
        self._generator, self._powers = generator, degrees - 1
        self._centre = np.rint(np.sqrt(self._powers) * 2.0**_CENTRE_BITS).astype(np.int64)  # in units of 2^-20
        self.value: FloatArray = np.empty(degrees.size)
        self._drawn: list[LazyNormals] = []
        self._round, self._place = (np.empty(degrees.size, np.intp) for _ in range(2))
        self.exact_coins, self.error = 0, 0.0
        pending = np.arange(degrees.size)
        while pending.size:
            if normals is None:
                normals = LazyNormals(PROPOSALS * pending.size, generator)
            first = normals.size - PROPOSALS * pending.size
            kept = self._kept(normals, first, pending)
            place = first + kept.argmax(axis=0) * pending.size + np.arange(pending.size)  # the first that is kept
            self._round[pending], self._place[pending] = len(self._drawn), place
            self.value[pending] = normals.value[place] + self._centre[pending] * 2.0**-_CENTRE_BITS
            self._drawn.append(normals)
            self.error = max(self.error, normals.error)
            pending, normals = pending[~kept.any(axis=0)], None
        self.error += UNIT_ROUNDOFF * float(self.value.max(initial=0.0))

    def _kept(self, normals: LazyNormals, first: int, which: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Toss the coins of the proposals for the roots `which`, from the first one on: a row has one for each root."""
        power, centre = self._powers[which], self._centre[which] * 2.0**-_CENTRE_BITS
        x = normals.value[first:].reshape(PROPOSALS, -1) + centre
        words = random_words(self._generator, x.size).reshape(x.shape)
        # Where x is nearly 0 digits decide, and not its float.
        positive = np.maximum(x, 2.0**-30)
        ratio = np.where(power > 0, positive * centre / np.maximum(power, 1), 1.0)
        log = np.log(ratio)
        chance = np.exp(np.minimum(power * (log + (1 - ratio)), 0.0))
        shift = normals.error / positive + 4 * UNIT_ROUNDOFF
        # The error of the exponent; it is at most 0, and so this is more than the error of the probability.
        error = 2 * power * (shift * (1 + ratio) + 16 * UNIT_ROUNDOFF * (1 + ratio + np.abs(log)))
        uniform = words * 2.0**-64
        kept = (x > 0) & (uniform < chance)
        doubtful = (np.abs(uniform - chance) <= error + COIN_TOLERANCE) & (x > -normals.error * 2)
        doubtful |= np.abs(x) <= 2.0**-30
        for i in np.flatnonzero(doubtful).tolist():
            root = int(which[i % which.size])
            kept.flat[i] = self._kept_exactly(normals, first + i, root, int(words.flat[i]))
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
        rows[np.tri(d, columns, -1, np.bool_)] = normals.value[self._start[0] : self._start[-1]]
        self.value: FloatArray = rows.ravel()
        self.value[: columns**2 : columns + 1] = roots.value[self._first_root : self._first_root + columns]
        self.error: float = max(roots.error, normals.error)
        self.size: int = rows.size

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
    """Return independent lazy triangles: a call for all of their numbers takes as long as one for a small triangle."""
    columns = min(n_features, degrees)
    starts = list(accumulate((min(i, degrees) for i in range(n_features)), initial=0))
    normals = LazyNormals(how_many * (starts[-1] + PROPOSALS * columns), generator)
    roots = LazyChis(np.concatenate(how_many * [degrees - np.arange(columns)]), generator, normals)
    triangles = [LazyTriangle(starts, columns, normals, roots, which) for which in range(how_many)]
    normals.forget_values()
    return triangles


SECOND_ORDER = 1 + 2.0**-20
"""Covers products of relative errors, each of which is below 2^-22."""
_SQUARES_AT_ONCE = 64


class LazyNumbers(Protocol):
    """Real numbers: floats with a proved error, and integers within one unit of them, in units as small as asked."""

    value: FloatArray
    error: float

    @property
    def size(self) -> int:
        """The number of numbers."""

    def integer(self, index: int, bits: int) -> int:
        """Return an integer within one unit of 2^-(51 + bits) of the number."""


class SquaredNorm:
    """The sum of the squares of lazy numbers.

    Attributes
    ----------
    value : float
    relative : float
        The number is within (1 ± relative) of `value`.
    """

    def __init__(self, lazy: LazyNumbers) -> None:
        self._lazy = lazy
        numbers, size = lazy.value, lazy.size
        even = size - size % _SQUARES_AT_ONCE
        blocks = numbers[:even].reshape(-1, _SQUARES_AT_ONCE)
        sums = np.einsum("ij,ij->i", blocks, blocks).tolist()
        self.value: float = math.fsum(sums + np.square(numbers[even:]).tolist())
        shift = lazy.error * math.sqrt(size / self.value)
        self.relative: float = (rounding_of_sum(_SQUARES_AT_ONCE + 2) + 2 * shift + shift**2) * SECOND_ORDER

    def interval(self, level: int) -> Interval:
        """Return an interval that holds the sum: at level 1 by floats, then from all digits, then from ever more."""
        if level == 1 and self.relative < 2.0**-22:
            slack = Fraction(self.relative)
            return Interval.point(self.value) * Interval(1 - slack, 1 + slack)
        bits = 64 * max(0, level - 2)
        low = high = 0
        for index in range(self._lazy.size):
            size = abs(self._lazy.integer(index, bits))
            low += max(0, size - 1) ** 2
            high += (size + 1) * (size + 1)
        return Interval(Fraction(low, 4 ** (51 + bits)), Fraction(high, 4 ** (51 + bits)))


_THREADS_FROM = 300  # features; below, the start of a thread takes longer than the numbers
_UNDERFLOW = 2.0**-900  # what products below the least normal number lose, many times over


class LazyWishart:
    """scale·L Lᵀ with a lazy triangle L of `n_features` rows: Wishart(degrees, scale·I).

    docs/explanation/exact_numerics.md derives `error`. Subclasses combine two such products.

    Parameters
    ----------
    n_features : int
    degrees : int
    scale : float
        Taken as an exact number.
    generator : numpy.random.Generator
    """

    signs: tuple[int, ...] = (1,)

    def __init__(self, n_features: int, degrees: int, scale: float, generator: np.random.Generator) -> None:
        self.d, self.degrees, self.scale = n_features, degrees, scale
        draw, n_factors = partial(lazy_triangles, n_features=n_features, degrees=degrees), len(self.signs)
        if n_factors == 1 or n_features < _THREADS_FROM:
            self.factors: list[LazyTriangle] = draw(n_factors, generator=generator)
        else:  # wide ones on all cores, each by a generator of its own, as in `symmetric`
            with ThreadPoolExecutor(n_factors) as pool:
                drawn = pool.map(lambda own: draw(1, generator=own)[0], generator.spawn(n_factors))
                self.factors = list(drawn)
        weights, relative = self._weights(generator)
        self.value, longest = weighted_grams(
            [triangle.value.reshape(n_features, -1) for triangle in self.factors], weights
        )
        size = rows_error = 0.0
        for triangle, weight, squared in zip(self.factors, weights, longest, strict=True):
            triangle.forget_values()  # floats are not needed any more, and a wide matrix wants the memory
            # Every row is at most `length`, and at most `length * moved` from the row of the true numbers.
            length = math.sqrt(squared) * (1 + rounding_of_sum(degrees + 4))
            moved = triangle.error * math.sqrt(degrees) / length * (1 + 4 * UNIT_ROUNDOFF)
            rows_error = max(rows_error, 2 * moved + moved**2)
            size += abs(weight) * length**2
        bound = size * (rounding_of_sum(degrees) + rows_error + relative + 4 * UNIT_ROUNDOFF)
        small = max(rows_error, relative) < 2.0**-22
        self.error: float = bound * SECOND_ORDER + _UNDERFLOW if small else math.inf

    def _weights(self, generator: np.random.Generator) -> tuple[list[float], float]:
        """Return the factors of the products, and a relative bound of their errors."""
        return [sign * self.scale for sign in self.signs], 0.0

    def _weight_intervals(self, level: int) -> list[Interval]:
        """Return intervals that hold the factors of the products."""
        return [Interval.point(sign * self.scale) for sign in self.signs]

    def interval(self, i: int, j: int, level: int) -> Interval:
        """Return an interval that holds entry (i, j), from 64·level further digits of its two rows."""
        total, bits = Interval.point(0), 64 * level
        for weight, triangle in zip(self._weight_intervals(level), self.factors, strict=True):
            width, terms = triangle.columns, min(i + 1, triangle.columns)
            first = [triangle.integer(i * width + k, bits) for k in range(terms)]
            second = first if i == j else [triangle.integer(j * width + k, bits) for k in range(terms)]
            middle = sum(x * y for x, y in zip(first, second, strict=True))
            slack = sum(abs(x) + abs(y) + 1 for x, y in zip(first, second, strict=True))  # a unit for each integer
            unit = 4 ** (51 + bits)
            total += weight * Interval(Fraction(middle - slack, unit), Fraction(middle + slack, unit))
        return total


class LazyWishartDifference(LazyWishart):
    """scale·(L₁L₁ᵀ − L₂L₂ᵀ): joint density of the two terms ∝ exp(−(tr W₁ + tr W₂)/(2 scale)) at d + 1 degrees."""

    signs = (1, -1)


class LazyBalancedDifference(LazyWishartDifference):
    """W₁ − W₂ with joint density ∝ exp(−max(tr W₁, tr W₂)/(2 scale)), at d + 1 degrees.

    With n_i = ‖L_i‖², p = d(d+1)/2 and U uniform it is ±scale·((1 + n₂/n₁)·L₁L₁ᵀ − U^(1/p)·(1 + n₁/n₂)·L₂L₂ᵀ).
    """

    def __init__(self, n_features: int, scale: float, generator: np.random.Generator) -> None:
        super().__init__(n_features, n_features + 1, scale, generator)

    def _weights(self, generator: np.random.Generator) -> tuple[list[float], float]:
        self._norms = [SquaredNorm(triangle) for triangle in self.factors]
        self._sign = 1 - 2 * (random_word(generator) >> 63)
        self._uniform = LazyUniform(random_word(generator), 64, generator)
        while self._uniform.value < 2**54:  # so that it is known to a share of 2^-54
            self._uniform.more()
        log_share = math.log(self._uniform.value / 2**self._uniform.bits) * 2 / (self.d * (self.d + 1))
        share = math.exp(log_share)
        share_error = 2.0**-49 * (1 + abs(log_share))  # log and exp within 4 units of the last place
        first, second = (norm.value for norm in self._norms)
        weights = [
            self._sign * self.scale * (1 + second / first),
            -self._sign * self.scale * share * (1 + first / second),
        ]
        return weights, sum(norm.relative for norm in self._norms) + share_error + 16 * UNIT_ROUNDOFF

    def _weight_intervals(self, level: int) -> list[Interval]:
        while self._uniform.bits < 64 * level:
            self._uniform.more()
        # The norms of all numbers cost most and come last; where floats know too little of them, earlier.
        first, second = (norm.interval(level) for norm in self._norms)
        while min(first.low, second.low) <= 0:
            level += 1
            first, second = (norm.interval(level) for norm in self._norms)
        one, scale = Interval.point(1), Interval.point(self._sign * Fraction(self.scale))
        # U^(1/p), the ratio of the smaller trace to the larger.
        exponent = Fraction(2, self.d * (self.d + 1))
        share = power_interval(self._uniform.interval, exponent, 20 + self._uniform.bits // 3)
        return [scale * (one + second / first), Interval.point(-1) * scale * share * (one + first / second)]


class LazyFrobenius:
    """Symmetric N with density ∝ exp(−‖N‖_F/scale).

    z and z′ are p = d(d+1)/2 lazy normals each. The diagonal entries are a·z and those beside it a·z/√2, a =
    scale·(|z|² + |z′|²)/(2|z|): the direction z/|z| is uniform, and the radius scale·(|z|² + |z′|²)/2 is Gamma(p,
    scale) and independent.

    Parameters
    ----------
    n_features : int
    scale : float
        Taken as an exact number.
    generator : numpy.random.Generator
    """

    def __init__(self, n_features: int, scale: float, generator: np.random.Generator) -> None:
        d, self.scale = n_features, scale
        numbers = d * (d + 1) // 2
        self._direction, other = LazyNormals(numbers, generator), LazyNormals(numbers, generator)
        self._norms = [SquaredNorm(normals) for normals in (self._direction, other)]
        first, second = (norm.value for norm in self._norms)
        factor = scale * ((first + second) / (2 * math.sqrt(first)))
        # Row i of the triangle begins with its diagonal entry, at number i·d − i(i−1)/2.
        self._row_start = [i * d - i * (i - 1) // 2 for i in range(d)]
        self.value: FloatArray = np.zeros((d, d))
        z, beside = self._direction.value, factor * math.sqrt(0.5)
        for i, start in enumerate(self._row_start):
            np.multiply(z[start : start + d - i], beside, out=self.value[i, i:])
        self.value[np.diag_indices(d)] = z[self._row_start] * factor
        relative = sum(norm.relative for norm in self._norms) + 16 * UNIT_ROUNDOFF
        largest = float(np.abs(z).max())
        bound = factor * (largest * relative + self._direction.error) * SECOND_ORDER
        self.error: float = bound if relative < 2.0**-22 else math.inf

    def interval(self, i: int, j: int, level: int) -> Interval:
        """Return an interval that holds entry (i, j), i <= j, from 64·level further digits of its number."""
        bits = 64 * level
        first, second = (norm.interval(level) for norm in self._norms)
        precision = 64 + bits
        while (root := sqrt_interval(first if i == j else first * Interval.point(2), precision)).low <= 0:
            level, precision = level + 1, precision + 64
            first, second = (norm.interval(level) for norm in self._norms)
        size = self._direction.integer(self._row_start[i] + j - i, bits)
        z = Interval(Fraction(size - 1, 2 ** (51 + bits)), Fraction(size + 1, 2 ** (51 + bits)))
        return Interval.point(Fraction(self.scale) / 2) * (first + second) / root * z
