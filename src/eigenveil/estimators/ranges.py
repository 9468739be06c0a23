"""Ranges of the features, found privately: how far rows lie apart, then where they lie.

Three searches by `first_at_most` (AboveThreshold), each of all features: the size of differences of disjoint pairs; the
octave of the median, in units of that size; the place of the median within the octave. Features that are 0 or 1 by
construction are not searched. docs/explanation/raw_tables.md derives the numbers.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import gate
from ..errors import NoiseWarning, features_in_words, own_words, warn_caller
from ..moments.comparisons import ChosenRows, mixed_blocks
from ..moments.counts import ColumnCounts, half_differences
from ..numerics import FloatArray
from ..tables.base import tracked_batches
from ..tables.open import collect
from .preparation import CHOICES

SEARCHES = 3
"""Searches, which share what the ranges cost evenly."""
LEAST_ROWS_EACH = 100
"""Rows times the epsilon of one search in one feature, below which some range goes astray too often."""
COVARIANCE_FROM, CORRELATIONS_FROM = 2, 5
"""From so many times the rows that ranges take on, components of rows within them beat those of compared rows."""
_PURPOSE = f"finding {CHOICES['bounds']}"
# Half of a difference: steps of half an octave from 2^-1000 to 2^100. What is found below 2^-100 is no size: almost all
# rows agree in that feature. A search that stops before it meets any difference does so there, where most steps are.
# Nor is the last step one: what lies beyond it ends there too.
_HALVES = np.arange(-2000, 201)
_SIZES = np.ldexp(np.where(_HALVES % 2, math.sqrt(2.0), 1.0), _HALVES // 2)
_NO_SIZE_BELOW, _NO_SIZE_FROM = 1800, 2200
# Pairs beyond the size, in units of one over epsilon: enough to be seen.
_BEYOND = 12
# Octaves of the median beyond the size of its feature, and steps within an octave. Numbers that differ at all differ by
# 2^-53 of themselves; only where rows agree may the median lie farther out.
_OCTAVES, _OCTAVES_WITHOUT, _STEPS = 60, 230, 2**16
# Half the width of a feature without a range, which is read as constant: so wide that it lengthens no row.
_NO_RANGE = 2.0**300


def rows_to_compare(source: Any, purpose: str) -> Iterator[Any]:
    """Yield the rows that stand on the ring in batches: all of a table, or one of every person by their identifiers."""
    if getattr(source, "by_unit", False):
        chosen: ChosenRows = collect(source, partial(ChosenRows, source.n_features), purpose=purpose)
        return chosen.batches()
    return tracked_batches(source, purpose=purpose)


def rows_for_ranges(epsilon: Fraction, n_features: int) -> Fraction:
    """Return how many rows it takes to find ranges of so many features at this epsilon.

    Examples
    --------
    >>> rows_for_ranges(Fraction(3, 10), 5)
    Fraction(5000, 1)
    """
    return LEAST_ROWS_EACH * SEARCHES * n_features / epsilon


def pairs_beyond(n_pairs: int, n_features: int, epsilon: Fraction) -> Fraction:
    """Return how many of so many pairs of rows should differ by more than a size that a search of this epsilon finds.

    Examples
    --------
    >>> pairs_beyond(10_000, 5, Fraction(1, 10))
    Fraction(600, 1)
    """
    return min(_BEYOND * n_features / epsilon, Fraction(3 * n_pairs, 4))


@own_words
def pair_sizes(source: Any, features: Sequence[int]) -> tuple[int, ColumnCounts]:
    """Return the number of rows, and counts of half the distances of disjoint pairs of them in these features."""
    counts, n_rows = ColumnCounts([_SIZES] * len(features), features), 0
    for block in mixed_blocks(rows_to_compare(source, _PURPOSE)):
        counts.update_from(half_differences([block]))
        n_rows += block.shape[0]
    return n_rows, counts


def found_ranges(
    source: Any, pairs: ColumnCounts, epsilon: Fraction, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray, tuple[int, ...]]:
    """Return middles and half widths of ranges, and the features that have none; what they cost has been paid.

    A feature of which no pairs were counted is 0 or 1, and keeps that; a truth value has the range [0, 1].
    """
    each = epsilon / SEARCHES
    sizes, known = _sizes(pairs, each, generator)
    units = np.where(known, sizes, _SIZES[_NO_SIZE_BELOW])  # without a size, in what is worth knowing
    octaves = [_octaves(unit, of_known) for unit, of_known in zip(units, known, strict=True)]
    searched = list(pairs.columns)
    counts = _counted(source, octaves, searched)
    middle = counts.n_rows // 2
    places = gate.choose_places(counts, middle, each, generator)
    steps = [_within_octave(*found) for found in zip(units, octaves, map(int, places), strict=True)]
    places = gate.choose_places(_counted(source, steps, searched), middle, each, generator)
    chosen = [(points[place], points[1] - points[0]) for points, place in zip(steps, places, strict=True)]
    medians, widths = np.array(chosen).T
    middles, half = np.zeros(source.n_features), np.ones(source.n_features)
    truths = np.flatnonzero(getattr(source, "truths", ()))
    middles[truths] = half[truths] = 0.5
    middles[searched] = medians - widths / 2
    # A median that is known up to a step only needs a range that is no narrower than that.
    half[searched] = np.where(known, np.maximum(sizes, widths), _NO_RANGE)
    return middles, half, tuple(feature for feature, found in zip(searched, known, strict=True) if not found)


def warn_of_features_without_range(source: Any, positions: tuple[int, ...]) -> None:
    """Name features without a range, once the release is there; that they have none has been paid for too."""
    if not positions:
        return
    names = features_in_words(source.feature_names, source.n_features)
    told = ", ".join(str(names[position]) for position in positions)
    warn_caller(
        f"No range was found of {told}: almost all rows agree in it to within 1e-29, or too many differ by more than "
        "1e30. It is read as if all agreed; give bounds, or leave it out.",
        NoiseWarning,
    )


def _sizes(
    pairs: ColumnCounts, epsilon: Fraction, generator: np.random.Generator
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return a distance that most pairs of rows do not pass, for every feature, and of which it was found."""
    beyond = pairs_beyond(pairs.n_rows, len(pairs.points), epsilon)
    places = gate.choose_places(pairs, math.floor(beyond), epsilon, generator)
    return 2 * _SIZES[places], (places >= _NO_SIZE_BELOW) & (places < _NO_SIZE_FROM)


def _octaves(size: float, known: bool) -> FloatArray:
    """Return the points between which the median is looked for first: all octaves in units of the size."""
    positive = size * 2.0 ** np.arange((_OCTAVES if known else _OCTAVES_WITHOUT) + 1)
    return np.concatenate([-positive[::-1], positive])


def _within_octave(size: float, points: FloatArray, place: int) -> FloatArray:
    """Return equal steps up to one of the octaves' points, from the one before, each about a size."""
    high, low = points[place], points[place - 1] if place else 2 * points[0]
    count = int(min(_STEPS, max(2, math.ceil((high - low) / size))))
    return np.asarray(low + (high - low) * np.arange(1, count + 1) / count)


def _counted(source: Any, points: Sequence[FloatArray], columns: Sequence[int]) -> ColumnCounts:
    counts: ColumnCounts = collect(source, partial(ColumnCounts, points, columns), False, _PURPOSE)
    return counts
