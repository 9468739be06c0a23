"""Assumed spectra: what a plan knows of the data, from public sources or from a guess."""

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InvalidParameterError, integer_between, positive_number
from ..numerics import FloatArray


def power_law(n_features: int, exponent: float = 1.0) -> FloatArray:
    """Return eigenvalues proportional to 1, 2^-exponent, 3^-exponent, ..., with sum 1.

    Examples
    --------
    >>> power_law(3, 1.0).round(3)
    array([0.545, 0.273, 0.182])
    """
    d = integer_between("n_features", n_features, 1)
    values = np.arange(1, d + 1) ** -positive_number("exponent", exponent)
    return np.asarray(values / values.sum())


def normalized_spectrum(spectrum: ArrayLike | None, n_features: int, energy: float) -> FloatArray:
    """Return eigenvalues of A, falling, with sum `energy`, for rows of norm at most 1.

    Parameters
    ----------
    spectrum : array_like of shape (n_features,), optional
        Eigenvalues in any unit and order; the power law 1, 1/2, 1/3, ... by default.
    n_features : int
        How many there must be.
    energy : float
        The mean squared norm of a row over the square of the norm bound, above 0 and at most 1.
    """
    if positive_number("energy", energy) > 1:
        raise InvalidParameterError("energy must be at most 1: no row is longer than the norm bound.")
    if spectrum is None:
        return power_law(n_features) * energy
    try:
        values = np.asarray(spectrum, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError("spectrum must be a list of numbers, one for every feature.") from None
    if values.ndim != 1 or values.size != n_features:
        raise InvalidParameterError(
            f"spectrum must have {n_features} numbers, one for every feature, and has {values.size}."
        )
    if not (np.isfinite(values).all() and values.min() >= 0 and values.max() > 0):
        raise InvalidParameterError("spectrum must be finite numbers of at least 0, not all of them 0.")
    values = np.sort(values)[::-1] / values.max()  # a sum of huge numbers could overflow
    return np.asarray(values * (energy / values.sum()))
