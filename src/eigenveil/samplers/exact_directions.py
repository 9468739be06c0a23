"""Directions one after the other, each on the complement of those *released* before it, and variances along them."""

import math
from fractions import Fraction

import numpy as np

from .exact_bingham import DIRECTION_BITS, ExactBingham
from .exact_matrix import LIMB, REFLECTION_ERROR, ExactMatrix, IntArray
from .reflections import Complement, complement_tilt

NORM_SQUARED: int = 4**DIRECTION_BITS
"""The square of a direction's length, in its integers."""


def exact_directions(
    matrix: ExactMatrix, factor: Fraction, count: int, generator: np.random.Generator, *, widen: float = 1.0
) -> IntArray:
    """Return directions as integers of 2⁻²⁴, each drawn from exp(factor·uᵀMu) on the complement of the earlier ones.

    The complement is that of the rounded directions, so it is public. On it the matrix is known by its reflection,
    rounded as `direction_slack` accounts for.

    Examples
    --------
    >>> drawn = exact_directions(ExactMatrix(np.eye(3, dtype=int)), Fraction(1), 3, np.random.default_rng(0))
    >>> bool(np.abs(drawn @ drawn.T / 2.0**48 - np.eye(3)).max() < 1e-6)
    True
    """
    complement = Complement(matrix.width)
    drawn = [ExactBingham(matrix, factor, widen=widen).draw(generator)]
    while len(drawn) < count:
        reflection = complement.leave_out(drawn[-1])
        matrix = matrix.reflected(reflection.vector).without_first()
        drawn.append(ExactBingham(matrix, factor, complement, widen=widen).draw(generator))
    return np.array(drawn)


def direction_slack(width: int, count: int, grid: int) -> Fraction:
    """Return by which share the joint cost of rounded directions may pass that of orthonormal ones.

    ζ + 4ρ: the directions behind the rounded ones satisfy |UᵀU − I| ≤ ζ = (k − 1)(2⁻²⁵√d + tilt), and on the complement
    uᵀCu is known within ρ = (k − 1)·d·2⁻²⁰·1.01 of a squared unit (docs/explanation/exact_directions.md).

    Examples
    --------
    >>> direction_slack(10, 1, 2**32), float(direction_slack(500, 3, 2**32)) < 2e-6
    (Fraction(0, 1), True)
    """
    root = math.isqrt(width - 1) + 1 if width > 1 else 1
    tilt = Fraction(root, 2 ** (DIRECTION_BITS + 1)) + complement_tilt(width)
    return (count - 1) * (tilt + 4 * width * Fraction(REFLECTION_ERROR) / grid)


def variances_along(matrix: ExactMatrix, directions: IntArray) -> list[int]:
    """Return K_iᵀMK_i for integer directions, then 2⁴⁸ tr M less their sum: exact, for a matrix of integers.

    Examples
    --------
    >>> variances_along(ExactMatrix(np.diag([3, 1])), np.array([[2**24, 0]])) == [3 * 2**48, 2**48]
    True
    """
    forms = []
    for direction in directions:
        image = matrix.times_vector(direction)
        forms.append(sum(int(x) * y for x, y in zip(direction, image, strict=True)) >> LIMB)
    trace = sum(int(x) for x in matrix.whole.diagonal())
    return [*forms, NORM_SQUARED * trace - sum(forms)]


def variances_sensitivity(directions: IntArray, grid: int, rows: int, shift: int) -> int:
    """Return how far the integers ⌊variance/2^shift⌋ move in ℓ1 when so many rows of squared norm `grid` come or go.

    With Z ≥ |KKᵀ − 2⁴⁸I|, one row moves the variances and the rest by x'K'Kx + |2⁴⁸x'x − x'K'Kx| ≤ (2⁴⁸ + 2Z)·grid, and
    each of the k + 1 roundings adds less than one.

    Examples
    --------
    >>> variances_sensitivity(np.array([[2**24, 0]]), 2**32, 2, 48) == 2**33 + 2
    True
    """
    gram = directions.astype(object) @ directions.T.astype(object)
    gram[np.diag_indices(len(gram))] -= NORM_SQUARED
    deviation = max(sum(abs(int(x)) for x in row) for row in gram)
    moved = rows * (NORM_SQUARED + 2 * deviation) * grid
    return ((moved - 1) >> shift) + 1 + len(directions) + 1
