"""Attacks on the last bits of what is released: parities, representable floats, fingerprints of eigenvectors."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..accounting.calibration import exact, float_above
from ..accounting.sensitivity import diagonal_l1
from ..mechanisms.additive import AdditiveMechanism
from ..mechanisms.base import CentralMechanism, Values
from ..numerics import FloatArray, IntArray

Stacks = Mapping[str, NDArray[Any]]
"""The integers of many releases by name, one array a name, stacked along the first axis."""


def shift(mechanism: CentralMechanism, grid: int, name: str) -> int:
    """Return s where one of the integers `name` is worth 2^s units: of the grid, or of the grid of directions.

    A mechanism that leaves coarser or finer integers than these says so by `shifts(grid)`, which maps names to s.
    """
    return mechanism.shifts(grid).get(name, 0)


def unit(mechanism: CentralMechanism, grid: int, name: str) -> float:
    """Return the value of one of the integers `name`, for rows of norm at most 1."""
    return mechanism.units(grid, 1 / grid)[name]


def stacked(drawn: Sequence[Mapping[str, Any]]) -> Stacks:
    """Return the arrays of many releases, stacked."""
    return {name: np.array([one[name] for one in drawn]) for name in drawn[0]}


def numbers(mechanism: CentralMechanism, grid: int, integers: Stacks) -> Values:
    """Return stacked integers as numbers, for rows of norm at most 1."""
    return {name: stack * unit(mechanism, grid, name) for name, stack in integers.items()}


# Products of longdoubles are slow; wider matrices are left out.
WIDEST = 256
# Below what longdouble can tell.
_NOTHING = 1e-22


class Fingerprint:
    """The eigenvectors of two data sets to the last bit, as the code of a mechanism may have computed them.

    Parameters
    ----------
    mechanism : CentralMechanism
    grams : pair of ndarray
        The integer second moments of D and D'.
    grid : int
    """

    bases: list[list[tuple[NDArray[Any], NDArray[Any]]]]

    def __init__(self, mechanism: CentralMechanism, grams: tuple[IntArray, IntArray], grid: int) -> None:
        self.unit = np.longdouble(unit(mechanism, grid, "directions"))
        self.bases = [_bases(gram.astype(np.float64), mechanism.strength, grid) for gram in grams]

    def __call__(self, integers: Stacks) -> tuple[FloatArray, FloatArray]:
        """Return log-odds of D against D' from the norms of directions, and from all their products."""
        directions = integers["directions"].astype(np.longdouble) * self.unit
        excess = _products(directions, directions) - np.eye(directions.shape[1], dtype=np.longdouble)
        first, second = (_misses(directions, excess, bases) for bases in self.bases)
        return second[0] - first[0], second[1] - first[1]


def _bases(gram: FloatArray, strength: float | None, grid: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return eigenvectors and their E, for each way in which the exponent may have been computed."""
    ways = [gram, gram / grid]
    if strength is not None:
        ways += [gram * (strength / grid), strength * (gram / grid)]
    found = []
    for matrix in ways:
        basis = np.linalg.eigh((matrix + matrix.T) / 2)[1].astype(np.longdouble)
        found.append((basis, basis.T @ basis - np.eye(len(basis), dtype=np.longdouble)))
    return found


def _misses(
    directions: np.ndarray, excess: np.ndarray, bases: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[FloatArray, FloatArray]:
    """Return the log of the least miss of a norm, and of the largest miss of a product, for the best basis."""
    norms, products = [], []
    for basis, own in bases:
        inside = directions @ basis
        miss = np.abs(excess - _products(inside @ own, inside))
        # Only the first of several directions may have met the whole matrix, and they are sorted afterwards.
        norms.append(np.einsum("nii->ni", miss).min(axis=1))
        products.append(miss.max(axis=(1, 2)))
    least, largest = (np.log(np.min(part, axis=0) + _NOTHING).astype(np.float64) for part in (norms, products))
    return least, largest


def _products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.asarray(left @ right.swapaxes(1, 2))


BoolArray = NDArray[np.bool_]

# Trailing zeros are counted up to here: a random integer has more with probability 2^-16.
_MOST_ZEROS = 16
# Below this the steps of products and squares of float64 are finer than half a unit, and nothing is missed.
_ALL_REACHED = 2**50
_ULPS = 4
# Uniform numbers tried on either side of the one that an integer asks for.
_NEARBY = 3


def trailing_zeros(integers: IntArray) -> IntArray:
    """Return how often two divides each integer, 16 at most.

    Examples
    --------
    >>> trailing_zeros(np.array([1, -2, 12, 0])).tolist()
    [0, 1, 2, 16]
    """
    bits = np.asarray(integers, dtype=np.int64).view(np.uint64)
    lowest = bits & (~bits + np.uint64(1))
    return np.minimum(np.bitwise_count(lowest - np.uint64(1)), _MOST_ZEROS).astype(np.int64)


def is_float(integers: IntArray) -> BoolArray:
    """Return whether each integer is a float64: all up to 2^53, the even ones up to 2^54, and so on.

    Examples
    --------
    >>> is_float(np.array([2**53 - 1, 2**53 + 1, 2**53 + 2])).tolist()
    [True, False, True]
    """
    return np.asarray(integers.astype(np.float64).astype(np.int64) == integers)


def is_scaled_float(integers: IntArray, scale: float) -> BoolArray:
    """Return whether each integer is a float64 times `scale`, rounded: a product skips floats near the upper end.

    Examples
    --------
    >>> near = np.arange(2**53 - 8, 2**53 - 2)
    >>> is_scaled_float(near, 1.75).tolist()
    [True, False, True, False, True, False]
    """
    found = np.abs(integers) < _ALL_REACHED
    asked = integers[~found]
    quotient = asked / scale
    hit = np.zeros(asked.shape, dtype=bool)
    for factor in (quotient, np.nextafter(quotient, -np.inf), np.nextafter(quotient, np.inf)):
        hit |= np.rint(factor * scale).astype(np.int64) == asked
    found[~found] = hit
    return found


def is_float_square(integers: IntArray) -> BoolArray:
    """Return whether each integer is the square of a float64, with any last bits that a float64 does not have.

    Examples
    --------
    >>> is_float_square(np.array([9, -1, 6**22, 6**22 + 20])).tolist()
    [True, False, True, False]
    """
    root = np.sqrt(np.maximum(integers, 0).astype(np.longdouble)).astype(np.float64)
    found = (integers >= 0) & (integers < _ALL_REACHED)
    for ulps in range(-_ULPS, _ULPS + 1):
        factor = root + ulps * np.spacing(root)
        square = factor * factor
        miss = (integers.astype(np.longdouble) - square).astype(np.float64)
        half = np.maximum(1.0, np.spacing(square)) / 2
        # A tie at half a unit may have been rounded either way; last bits drawn at random end below half a spacing.
        found |= (integers >= 0) & (miss >= -half) & np.where(half > 0.5, miss < half, miss <= half)
    return np.asarray(found)


def is_float_laplace(integers: IntArray, centre: FloatArray, scale: float) -> BoolArray:
    """Return whether each integer is centre + L rounded, L a Laplace number made of a uniform one of 53 bits.

    NumPy's Laplace numbers are scale log(2U) and -scale log(2 - U - U) for U a multiple of 2^-53. Around their scale
    these steps are as wide as the spacing of float64, so that a sum on a grid as fine has values that no U reaches
    (Mironov 2012).

    Examples
    --------
    >>> generator, scale = np.random.default_rng(0), 2.0**55
    >>> drawn = np.rint(3.0 + generator.laplace(0.0, scale, 1000)).astype(np.int64)
    >>> float(is_float_laplace(drawn, np.full(1000, 3.0), scale).mean())
    1.0
    >>> bool(is_float_laplace(drawn, np.full(1000, 2.0**40 + 1), scale).mean() < 0.7)
    True
    """
    noise = (integers - centre.astype(np.longdouble)).astype(np.float64)
    wanted = np.exp(-np.abs(noise) / scale) * 2.0**52
    width = np.maximum(1.0, np.spacing(np.abs(integers.astype(np.float64))))
    found = np.asarray(wanted * width > _NEARBY * scale)
    asked = ~found
    at, above, target = centre[asked], noise[asked] > 0, integers[asked]
    nearest = np.rint(np.where(above, 2.0**53 - wanted[asked], wanted[asked]))
    hit = np.zeros(target.shape, dtype=bool)
    for offset in range(-_NEARBY, _NEARBY + 1):
        uniform = np.clip(nearest + offset, 1.0, 2.0**53 - 1) * 2.0**-53
        size = -scale * np.log(np.where(above, 2.0 - uniform - uniform, uniform + uniform))
        # The logarithm of NumPy's arrays may differ in the last place from that of its random numbers.
        for one in (size, np.nextafter(size, 0.0), np.nextafter(size, np.inf)):
            hit |= np.rint(at + np.where(above, one, -one)).astype(np.int64) == target
    found[asked] = hit
    return found


PARITY = "parity of the released integers"
PARITY_BESIDE = "parity of the released integers beside the diagonal"
ZEROS = "trailing zeros of the released integers"
ZEROS_BESIDE = "trailing zeros of the released integers beside the diagonal"
ZEROS_TRACE = "trailing zeros of the released trace, or number of rows less the trace"
FLOATS = "released integers that float64 noise reaches"
SCALED = "released integers that a float64 times the scale reaches"
FIRST_SQUARE = "first corners that the square of a float64 reaches"
LAST_SQUARE = "last corners that the square of a float64 reaches"
LAPLACE = "quotients that float64 Laplace noise reaches"
NORMS = "norms of the directions, to the last bit"
ANGLES = "products of the directions, to the last bit"
STATISTICS = (
    *(PARITY, PARITY_BESIDE, ZEROS, ZEROS_BESIDE, ZEROS_TRACE),
    *(FLOATS, SCALED, FIRST_SQUARE, LAST_SQUARE, LAPLACE),
    *(NORMS, ANGLES),
)
"""The statistics in words, in the order of their columns."""

Residues = tuple[IntArray, IntArray]


class LastBits:
    """The scores of releases of a mechanism on two candidate data sets, high where the last bits fit D.

    Parameters
    ----------
    mechanism : CentralMechanism
    grams : pair of ndarray
        The integer second moments of D and D'.
    grid : int
    sizes : pair of int
        Their numbers of rows.
    """

    mechanism: CentralMechanism
    grams: tuple[IntArray, IntArray]
    grid: int
    sizes: tuple[int, int]

    def __init__(
        self, mechanism: CentralMechanism, grams: tuple[IntArray, IntArray], grid: int, sizes: tuple[int, int] = (0, 0)
    ) -> None:
        self.mechanism, self.grams, self.grid, self.sizes = mechanism, grams, grid, sizes
        wide = mechanism.n_features > WIDEST or mechanism.releases == "matrix"
        self.fingerprint: Fingerprint | None = None if wide else Fingerprint(mechanism, grams, grid)

    def __call__(self, integers: Stacks) -> FloatArray:
        """Return one row of scores for every release, in the order of `STATISTICS`; 0 where nothing is said."""
        whole = {name: stack for name, stack in integers.items() if stack.dtype.kind == "i"}
        n = len(next(iter(integers.values())))
        scores: dict[str, NDArray[Any]] = {}
        if "matrix" in whole:
            scores |= self._of_matrices(whole["matrix"])
        for name in ("trace", "slack"):
            if name in whole:
                rest = self._of_traces(whole[name], name)
                scores[ZEROS_TRACE] = _zeros(rest)
                scores[FLOATS] = scores.get(FLOATS, 0) + _fits(is_float(rest[0]), is_float(rest[1]))
        if "quotients" in whole and "directions" in whole:
            scores |= self._of_quotients(whole)
        if "directions" in whole and self.fingerprint is not None:
            scores[NORMS], scores[ANGLES] = self.fingerprint(whole)
        table = np.zeros((n, len(STATISTICS)))
        for column, name in enumerate(STATISTICS):
            if name in scores:
                table[:, column] = scores[name]
        return table

    def _of_matrices(self, matrices: IntArray) -> dict[str, NDArray[Any]]:
        d = self.mechanism.n_features
        s = shift(self.mechanism, self.grid, "matrix")
        rows, columns = np.triu_indices(d, 1)
        # In the unit that left: what is finer of the sums was rounded away with the noise.
        rest = [matrices - _rounded(gram, s) for gram in self.grams]
        diagonal = rest[0].diagonal(axis1=1, axis2=2), rest[1].diagonal(axis1=1, axis2=2)
        beside = rest[0][:, rows, columns], rest[1][:, rows, columns]
        scores: dict[str, Any] = {PARITY: _parity(diagonal), ZEROS: _zeros(diagonal)}
        if d > 1:
            scores |= {PARITY_BESIDE: _parity(beside), ZEROS_BESIDE: _zeros(beside)}
        scores[FLOATS] = sum(_fits(is_float(one), is_float(two)) for one, two in (diagonal, beside))
        if isinstance(self.mechanism, AdditiveMechanism):
            reached = partial(is_scaled_float, scale=self.mechanism.noise_scale() * self.grid / 2.0**s)
            scores[SCALED] = sum(_fits(reached(one), reached(two)) for one, two in (diagonal, beside))
        # Of a product of triangular matrices, one corner is the square of a single number.
        for name, corner in ((FIRST_SQUARE, slice(1)), (LAST_SQUARE, slice(-1, None))):
            one, two = (part[:, corner] for part in diagonal)
            scores[name] = _fits(is_float_square(one), is_float_square(two))
        return scores

    def _of_traces(self, released: IntArray, name: str) -> Residues:
        """Return what is left of a released trace, or of rows less the trace, with that of D and of D' taken away."""
        traces = [int(np.trace(gram)) for gram in self.grams]
        if name == "slack":
            traces = [size * self.grid - trace for size, trace in zip(self.sizes, traces, strict=True)]
        return released[:, None] - traces[0], released[:, None] - traces[1]

    def _of_quotients(self, whole: Stacks) -> dict[str, NDArray[Any]]:
        s = shift(self.mechanism, self.grid, "quotients")
        quotients = whole["quotients"]
        directions = whole["directions"].astype(np.longdouble) * unit(self.mechanism, self.grid, "directions")
        forms = [_forms(directions, gram)[:, : quotients.shape[1]] / 2.0**s for gram in self.grams]
        quotients = quotients[:, : forms[0].shape[1]]
        rest = quotients - np.rint(forms[0]).astype(np.int64), quotients - np.rint(forms[1]).astype(np.int64)
        scores = {PARITY: _parity(rest), ZEROS: _zeros(rest), FLOATS: _fits(is_float(rest[0]), is_float(rest[1]))}
        share = getattr(self.mechanism, "eigenvalue_share", None)
        if share is not None:
            epsilon = self.mechanism.matrix_epsilon * exact(share)
            scale = float_above(diagonal_l1(self.mechanism.adjacency) / epsilon) * self.grid / 2.0**s
            first, second = (is_float_laplace(quotients, form.astype(np.float64), scale) for form in forms)
            scores[LAPLACE] = _fits(first, second)
        return scores


def _rounded(gram: IntArray, s: int) -> IntArray:
    """Return integers over 2^s, rounded to nearest."""
    return (gram + (1 << (s - 1))) >> s if s > 0 else gram


def _forms(directions: np.ndarray, gram: IntArray) -> np.ndarray:
    """Return u'Gu for every direction, and what they leave of the trace, in longdouble."""
    matrix = gram.astype(np.longdouble)
    forms = np.asarray(((directions @ matrix) * directions).sum(axis=2))
    return np.hstack([forms, np.trace(matrix) - forms.sum(axis=1, keepdims=True)])


def _parity(rest: Residues) -> IntArray:
    return np.asarray((rest[1] & 1).sum(axis=1) - (rest[0] & 1).sum(axis=1))


def _zeros(rest: Residues) -> IntArray:
    return np.asarray(trailing_zeros(rest[0]).sum(axis=1) - trailing_zeros(rest[1]).sum(axis=1))


def _fits(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> IntArray:
    return np.asarray(first.sum(axis=1) - second.sum(axis=1))
