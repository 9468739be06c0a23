"""Which features to keep after a noisy diagonal, by a forecast of what sparse components of them capture."""

import math
from collections.abc import Callable

import numpy as np

from ..numerics import FloatArray, IntArray

_CANDIDATES = 40
# Features stand out where their signal passes so many standard deviations of its noise.
_SDS = 3.0


def kept_signal(values: FloatArray, scales: FloatArray, count: int) -> float:
    """Return an estimate of what the `count` largest of noisy values add up to without their noise.

    The sum of the largest noisy values is too large, since they were chosen by their noise. For a number a and Laplace
    noise of scale b, v 1(v > t) - b exp(-|v - t|/b) has the mean a P(v > t) at every threshold t, so the second term
    takes the excess off. Here t is halfway between the last value that is kept and the first that is not.

    Parameters
    ----------
    values : ndarray of shape (d,)
        In falling order.
    scales : ndarray of shape (d,)
        Scales of their noise.
    count : int
        Below d.

    Examples
    --------
    >>> noise = -np.sort(-np.random.default_rng(0).laplace(size=(400, 1000)))
    >>> signals = [kept_signal(one, np.ones(1000), 50) for one in noise]
    >>> round(float(noise[:, :50].sum(axis=1).mean())), round(float(np.mean(signals)))
    (165, -1)
    """
    threshold = (values[count - 1] + values[count]) / 2
    excess = np.sum(scales * np.exp(-np.abs(values - threshold) / scales))
    return float(values[:count].sum() - excess)


def kept_features(
    diagonal: FloatArray, scales: FloatArray, n_components: int, noise_sd: Callable[[int], float], sizes: FloatArray
) -> IntArray:
    """Return the features to keep, in rising order: those with the largest values, as many as promise most.

    The signal of a feature is its excess over the median feature, since sparse components use fewer than half of them.
    With K the signal that m features keep, s = K^2/sum of its squares the number of features that share it, and t the
    standard deviation of the noise of a matrix of that width, k components capture about K/(1 + q) of the signal, with
    q = (k t/K)^2 min(m, s^2 log m). The m of the largest forecast is taken; where no features stand out, all are kept.

    Parameters
    ----------
    diagonal, scales : ndarray of shape (d,)
        The noisy diagonal of the second moment, and the scales of its Laplace noise.
    n_components : int
        The least number of features that is kept.
    noise_sd : callable
        Returns the standard deviation of the noise beside the diagonal of a matrix of so many features.
    sizes : ndarray of shape (d,)
        What squares of the features are multiplied by to be in the units that they are compared in.

    Examples
    --------
    >>> diagonal = np.array([190.0, 0, 2, 180, 1, -1])
    >>> kept_features(diagonal, np.ones(6), 1, lambda width: 10.0 * width**0.5, np.ones(6))
    array([0, 3])
    """
    d, values = diagonal.size, diagonal * sizes
    order = np.argsort(-values, kind="stable")
    values, sizes, scales = values[order] - np.median(values), sizes[order], (scales * sizes)[order]
    scales = np.maximum(scales, np.finfo(np.float64).tiny)  # a feature of size 0 has no noise
    stands_out, forecasts = False, {d: 0.0}
    for count in {round(count) for count in np.geomspace(n_components, max(n_components, d // 2), _CANDIDATES)} - {d}:
        signal, kept = kept_signal(values, scales, count), slice(count)
        # Noise that passes the threshold t does so by its scale on average, and is as large as t/scale = log(d/(2 m)).
        sd = float(np.linalg.norm(scales[kept])) * (1 + max(0.0, math.log(d / (2 * count))))
        stands_out |= signal > _SDS * sd
        if signal > 0:
            shared = max(1.0, signal**2 / float(np.sum(values[kept] ** 2)))
            noise = n_components * noise_sd(count) * float(sizes[kept].mean())
            blurred = min(count, shared**2 * math.log(max(2, count)))
            forecasts[count] = signal / (1 + (noise / signal) ** 2 * blurred)
    return np.sort(order[: max(forecasts, key=lambda count: forecasts[count])] if stands_out else order)
