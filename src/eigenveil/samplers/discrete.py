"""Discrete Laplace and discrete Gaussian numbers on the integers.

From a secure generator the draws are OpenDP's, exact in integer arithmetic. A seeded generator cannot drive
OpenDP, so reproducible draws come from float64 code of the same law.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import integer_between, positive_number
from ..randomness import is_secure

IntArray = NDArray[np.int64]


def discrete_laplace(scale: float, size: int, generator: np.random.Generator) -> IntArray:
    """Return draws with probability proportional to exp(-|x| / scale) at every integer x."""
    scale, size = positive_number("scale", scale), integer_between("size", size, 1)
    if is_secure(generator):
        return _opendp_draws("make_laplace", scale, size)
    return _float_laplace(scale, size, generator)


def discrete_gaussian(scale: float, size: int, generator: np.random.Generator) -> IntArray:
    """Return draws with probability proportional to exp(-x^2 / (2 scale^2)) at every integer x."""
    scale, size = positive_number("scale", scale), integer_between("size", size, 1)
    if is_secure(generator):
        return _opendp_draws("make_gaussian", scale, size)
    return _float_gaussian(scale, size, generator)


def _opendp_draws(constructor: str, scale: float, size: int) -> IntArray:
    import opendp.prelude as dp  # seconds of import time that other mechanisms do not need

    dp.enable_features("contrib")
    metric = dp.l1_distance(T="i64") if constructor == "make_laplace" else dp.l2_distance(T="f64")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    measurement: Any = getattr(dp.m, constructor)(domain, metric, scale=scale)
    return np.asarray(measurement([0] * size), dtype=np.int64)


def _float_laplace(scale: float, size: int, generator: np.random.Generator) -> IntArray:
    # A geometric variable is the floor of an exponential one, and a difference of two of them is Laplace.
    first, second = np.floor(generator.exponential(scale, (2, size)))
    return np.asarray(first - second, dtype=np.int64)


def _float_gaussian(scale: float, size: int, generator: np.random.Generator) -> IntArray:
    # Rejection from the discrete Laplace law (Canonne, Kamath and Steinke 2020, Algorithm 3).
    envelope = np.floor(scale) + 1
    accepted = np.empty(0, dtype=np.int64)
    while accepted.size < size:
        proposal = _float_laplace(envelope, 2 * (size - accepted.size) + 16, generator)
        excess = (np.abs(proposal) - scale**2 / envelope) / scale
        keep = generator.exponential(size=proposal.size) > excess**2 / 2
        accepted = np.concatenate([accepted, proposal[keep]])
    return accepted[:size]
