"""Which features to keep after a noisy diagonal, by a forecast of what sparse components of them capture."""

import math
from collections.abc import Callable

import numpy as np

from ..numerics import FloatArray, IntArray

_CANDIDATES = 40
# Features stand out where their signal passes so many standard deviations of its noise.
_SDS = 3.0


def kept_signal(values: FloatArray, scale: float, count: int) -> float:
    """Return an estimate of what the `count` largest of noisy values add up to without their noise.

    The sum of the largest noisy values is too large, since they were chosen by their noise. For a number a and Laplace
    noise of scale b, v 1(v > t) - b exp(-|v - t|/b) has the mean a P(v > t) at every threshold t, so the second term
    takes the excess off. Here t is halfway between the last value that is kept and the first that is not.

    Parameters
    ----------
    values : ndarray of shape (d,)
        In falling order.
    scale : float
        Of their noise.
    count : int

    Examples
    --------
    >>> noise = -np.sort(-np.random.default_rng(0).laplace(size=(400, 1000)))
    >>> signals = [kept_signal(one, 1.0, 50) for one in noise]
    >>> round(float(noise[:, :50].sum(axis=1).mean())), round(float(np.mean(signals)))
    (165, -1)
    """
    if count == values.size:
        return float(values.sum())
    threshold = (values[count - 1] + values[count]) / 2
    return float(values[:count].sum() - scale * np.exp(-np.abs(values - threshold) / scale).sum())


def worth_screening(tenth: float, half: float, n_features: int, scale: float) -> bool:
    """Return whether few features stand out of a diagonal with Laplace noise of this scale, and the others do not.

    Parameters
    ----------
    tenth, half : float
        By how much the largest tenth, and the largest half, of the entries exceed as many average ones, all together.
        With all signal in a tenth of the features, the half exceeds by about half as much as the tenth.
    n_features : int
    scale : float

    Examples
    --------
    >>> [worth_screening(tenth, 200, 100, 8.0) for tenth in (100, 300)]
    [False, True]
    """
    count = n_features // 10
    # Noise that passes a threshold t does so by its scale on average, and t is about scale log(d/(2m)).
    sd = scale * math.sqrt(count) * (1 + math.log(n_features / (2 * count)))
    return tenth > max(half, _SDS * sd)


def kept_features(diagonal: FloatArray, scale: float, n_components: int, noise_sd: Callable[[int], float]) -> IntArray:
    """Return the features to keep, in rising order: those with the largest values, as many as have the best forecast.

    The signal of a feature is its excess over the median feature, since few features have any. With K the signal that m
    features keep, s = K^2/sum of its squares the number of features that share it, and t the standard deviation of the
    noise of a matrix of that width, k components capture about K/(1 + q) of the signal, with
    q = (k t/K)^2 min(m, s^2 log m). The m of the largest forecast is taken, up to half of the features.

    Parameters
    ----------
    diagonal : ndarray of shape (d,)
        The noisy diagonal of the second moment.
    scale : float
        Of its Laplace noise.
    n_components : int
        The least number of features that is kept.
    noise_sd : callable
        Returns the standard deviation of the noise beside the diagonal of a matrix of so many features.

    Examples
    --------
    >>> diagonal = np.array([190.0, 0, 2, 180, 1, -1])
    >>> kept_features(diagonal, 1.0, 1, lambda width: 10.0 * width**0.5)
    array([0, 3])
    """
    order = np.argsort(-diagonal, kind="stable")
    values = diagonal[order] - np.median(diagonal)

    def forecast(count: int) -> float:
        signal = kept_signal(values, scale, count)
        if signal <= 0:
            return 0.0
        shared = max(1.0, signal**2 / float(np.square(values[:count]).sum()))
        blurred = min(count, shared**2 * math.log(max(2, count)))
        return signal / (1 + (n_components * noise_sd(count) / signal) ** 2 * blurred)

    most = max(n_components, values.size // 2)
    counts = {round(count) for count in np.geomspace(n_components, most, _CANDIDATES)}
    return np.sort(order[: max(sorted(counts), key=forecast)])
