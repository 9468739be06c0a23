"""Synthetic rows from a mean and a covariance: categories one after another, then Gaussian numbers given them.

The chance of a category is linear in the categories that were drawn before, and the mean of the numbers is linear in
all of them, both by least squares in the covariance. So wherever those chances lie between 0 and 1, rows have the mean
and the covariance that were given: docs/how_to/use_a_release.md.
"""

from collections.abc import Sequence

import numpy as np
import scipy.linalg

from ..numerics import FloatArray

# Variances below this share of the largest are rounding.
_TINY = 2.0**-30


def synthetic_rows(
    mean: FloatArray,
    covariance: FloatArray,
    blocks: Sequence[Sequence[int]],
    n_rows: int,
    generator: np.random.Generator,
) -> FloatArray:
    """Return rows with this mean and covariance.

    Parameters
    ----------
    mean, covariance : ndarray of shape (d,), (d, d)
        The covariance positive semidefinite.
    blocks : sequence of sequences of int
        Positions of features that are 0 or 1, at most one of each block 1. All others are Gaussian.
    n_rows : int
    generator : numpy.random.Generator

    Examples
    --------
    >>> rows = synthetic_rows(np.array([0.3, 5.0]), np.array([[0.21, 0.2], [0.2, 1.0]]), [[0]], 4000,
    ...                       np.random.default_rng(0))
    >>> sorted(set(rows[:, 0].tolist())), np.abs(rows.mean(axis=0) - [0.3, 5.0]).max() < 0.1
    ([0.0, 1.0], np.True_)
    """
    rows = np.zeros((n_rows, len(mean)))
    drawn: list[int] = []
    for block in blocks:
        chances = np.maximum(_given(mean, covariance, list(block), drawn, rows)[0], 0.0)
        chances /= np.maximum(chances.sum(axis=1, keepdims=True), 1.0)  # what is left is none of them
        place = (generator.random((n_rows, 1)) >= np.cumsum(chances, axis=1)).sum(axis=1)
        hit = np.flatnonzero(place < len(block))
        rows[hit, np.asarray(block)[place[hit]]] = 1.0
        drawn += block
    others = [position for position in range(len(mean)) if position not in set(drawn)]
    if others:
        middle, left = _given(mean, covariance, others, drawn, rows)
        values, vectors = scipy.linalg.eigh(left)
        spread = vectors * np.sqrt(np.maximum(values, 0.0))
        rows[:, others] = middle + generator.standard_normal((n_rows, len(others))) @ spread.T
    return rows


def _given(
    mean: FloatArray, covariance: FloatArray, wanted: list[int], known: list[int], rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the best linear predictions of some features by others that are known, and the covariance they leave."""
    own = covariance[np.ix_(wanted, wanted)]
    if not known:
        return np.tile(mean[wanted], (len(rows), 1)), own
    across = covariance[np.ix_(wanted, known)]
    inverse = scipy.linalg.pinvh(covariance[np.ix_(known, known)], rtol=_TINY)
    slopes = across @ inverse
    return mean[wanted] + (rows[:, known] - mean[known]) @ slopes.T, own - slopes @ across.T
