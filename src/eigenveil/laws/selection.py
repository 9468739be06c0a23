"""Private choice of one of several candidates by their scores."""

import numpy as np

from ..randomness import is_secure
from .base import IntArray


def largest_score(scores: IntArray, scale: float, generator: np.random.Generator) -> int:
    """Return the index of the largest score plus exponential noise, which is the law of permute-and-flip.

    Pure epsilon for ``scale = 2 * sensitivity / epsilon`` (McKenna and Sheldon 2020), half of that where all scores
    move one way. From a secure generator the sampler is OpenDP's exact one.

    Examples
    --------
    >>> largest_score(np.array([0, 1000, 0]), 1.0, np.random.default_rng(0))
    1
    """
    if not is_secure(generator):
        return int(np.argmax(scores + generator.exponential(scale, scores.size)))
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    return int(dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale)(scores.tolist()))
