"""Private choice of a rung: the first of many counts that is small enough."""

from fractions import Fraction

import numpy as np

from ..accounting.calibration import float_above
from ..errors import CapacityError
from ..samplers.discrete import geometric
from .base import IntArray

# Scales that the sampler draws in int64. Below the first of them the noise is zero but for one draw in e^(2^20), and
# more noise than needed is safe.
_LEAST_SCALE, _LARGEST_SCALE = Fraction(1, 2**20), Fraction(2**50)


def noise_scale(epsilon: Fraction) -> Fraction:
    """Return the scale of the geometric noise on the threshold and on every count, or refuse an epsilon too small.

    Examples
    --------
    >>> noise_scale(Fraction(1, 10))
    Fraction(20, 1)
    """
    scale = 2 / epsilon
    if scale > _LARGEST_SCALE:
        raise CapacityError("The noise of a private choice at this epsilon does not fit int64; use a larger epsilon.")
    return max(scale, _LEAST_SCALE)


def first_at_most(counts: IntArray, most: int, epsilon: Fraction, generator: np.random.Generator) -> int:
    """Return the first place where a count, less noise, is at most `most`, less noise; the last place if there is none.

    AboveThreshold (Dwork et al. 2009) with one-sided noise: the first i with ``counts[i] - v_i <= most - z``, where z
    and all v_i are geometric, P(j) proportional to exp(-epsilon j / 2).

    Formal guarantee
    ----------------
    Pure epsilon where one row moves all counts one way, each by at most 1, which holds for both relations where they
    count the rows beyond a growing bound. Proof: docs/explanation/row_bound.md.

    Parameters
    ----------
    counts : ndarray of int64
        The private counts, in the order in which they are asked.
    most : int
        A public number.
    epsilon : Fraction
        The cost of the choice.
    generator : numpy.random.Generator

    Examples
    --------
    >>> counts = np.array([5000, 5000, 3000, 40, 0, 0])
    >>> first_at_most(counts, 500, Fraction(1), np.random.default_rng(0))
    3
    """
    noise = geometric(float_above(noise_scale(epsilon)), counts.size, generator)
    # One for the threshold, and one for every count but the last, whose place is what is left.
    low_enough = counts[:-1] - noise[1:] <= most - noise[0]
    return int(np.argmax(np.append(low_enough, True)))
