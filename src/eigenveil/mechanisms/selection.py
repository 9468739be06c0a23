"""Private choice of a norm bound or of feature scales: the exponential mechanism over a public ladder."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..accounting.calibration import float_above
from ..rows.norm_counts import LADDER, MagnitudeCounts
from ..randomness import is_secure

# Scores are counted in hundredths of a row, so that quantiles in per cent keep them integers.
_UNITS = 100


def choose_magnitudes(
    counts: MagnitudeCounts, quantile: float, epsilon: Fraction, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return, for every column, a rung of the ladder near the given quantile of its magnitudes.

    Formal guarantee
    ----------------
    Pure epsilon over all columns together, for both relations. The wanted rung is where the count of rows at or below
    it passes quantile * n, so the score is minus the number of rows by which it misses: the larger of how many are
    lacking at the rung, and how many are too many at the rung before. One row moves a count by at most 1, and so the
    score, in every column; each column is chosen with epsilon divided by their number, by permute-and-flip (McKenna
    and Sheldon 2020; OpenDP's exact sampler from a secure generator).
    """
    excess = _UNITS * counts.at_most() - round(_UNITS * quantile) * counts.n_rows
    before = np.pad(excess, ((0, 0), (1, 0)), constant_values=np.iinfo(np.int64).min // 2)[:, :-1]
    scores = -np.maximum(0, np.maximum(-excess, before))
    share = epsilon / scores.shape[0]
    scale = float_above(2 * _UNITS / share)
    return LADDER[[_select(column, scale, generator) for column in scores]]


def _select(scores: NDArray[np.int64], scale: float, generator: np.random.Generator) -> int:
    """Return the index of the largest score plus exponential noise, which is the law of permute-and-flip."""
    if not is_secure(generator):
        return int(np.argmax(scores + generator.exponential(scale, scores.size)))
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    return int(dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale)(scores.tolist()))
