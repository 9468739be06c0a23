"""Intervals for correlations behind a released Kendall matrix: noise, and the sampling of comparisons on a ring."""

import numpy as np

from .entry_intervals import FloatArray, MatrixError
from .kendall import SignCorrelation


def sampling_variances(tau: FloatArray, comparisons: int, n_rows: int) -> FloatArray:
    """Return the variances of mean products of signs, over rows drawn from a Gaussian law with these values.

    Notes
    -----
    A mean over the nk/2 comparisons of a ring, h = ss' of two rows each, has the variance
    (2/(nk)) (z2 + 2 (k - 1) z1): z2 = 1 - tau^2 is that of one comparison, and z1 the covariance of two that share a
    row. For Gaussian rows z1 = 1/9 - (2/pi arcsin(r/2))^2, r = sin(pi tau/2) (Esscher 1924). It is at most z2/2
    for rows of any law (Hoeffding 1948), so that the variance is at most 2 (1 - tau^2)/n.

    Examples
    --------
    >>> round(float(sampling_variances(np.array(0.0), 8, 1)), 3)
    0.639
    """
    alone = 1 - tau**2
    if comparisons == 1:  # pairs that share no row
        return np.asarray(alone / n_rows)
    together = np.maximum(1 / 9 - (2 / np.pi * np.arcsin(np.sin(np.pi / 2 * tau) / 2)) ** 2, 0.0)
    return np.asarray(2 / (n_rows * comparisons) * (alone + 2 * (comparisons - 1) * together))


def sign_intervals(
    tau: FloatArray, signs: SignCorrelation, error: MatrixError, *, comparisons: int, sampled: float = 0.0
) -> FloatArray:
    """Return an interval for every correlation sin(pi tau / 2) behind a released Kendall matrix.

    Parameters
    ----------
    tau : ndarray of shape (d, d)
        As it left.
    signs : SignCorrelation
        What was made of it.
    error : MatrixError
        Of `tau`.
    comparisons : int
        How many a row takes part in.
    sampled : float
        As for `covariance_intervals`.
    """
    scaled = tau / np.outer(signs.roots, signs.roots)
    of_ties = np.where(signs.roots < 1, error.beside * 2 + error.shared + error.extra, 0.0) / signs.roots**4
    noise = error.beside / np.outer(signs.roots, signs.roots) ** 2 + scaled**2 / 4 * (of_ties[:, None] + of_ties)
    middle = np.clip(scaled, -1.0, 1.0)
    sampling = sampling_variances(middle, comparisons, 1) * sampled
    reach = np.sqrt(error.quantiles[0] ** 2 * noise + error.normal**2 * sampling)
    ends = np.stack([scaled - reach, scaled + reach], axis=-1)
    ends = np.sin(np.pi / 2 * np.clip(ends, -1.0, 1.0))
    lost = list(signs.undetermined)
    ends[lost] = ends[:, lost] = (-1.0, 1.0)
    ends[np.diag_indices(len(tau))] = 1.0
    return np.asarray(ends)
