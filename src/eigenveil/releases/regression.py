"""Regressions of one column on others, with confidence intervals, from a released matrix. Spends no budget."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InvalidParameterError, NoiseWarning, warn_caller
from ..limits import ANY, SHARE
from ..numerics import FloatArray
from ..postprocess.holding import holding
from ..postprocess.regression import (
    RegressionIntervals,
    RidgeFit,
    regression_intervals,
    ridge_from_covariance,
    shrunk_mean,
)
from .intervals import LEVEL
from .origin import RegressionRequest

if TYPE_CHECKING:
    from .record import Release


# What noise on the means may take of R² without a warning.
_MEAN_MAY_COST = 0.1
# A target whose released variance is not so many standard deviations of its error above 0 may vary by any smaller one.
_VISIBLE_SDS = 2.5


def _nothing_known(p: int) -> RegressionIntervals:
    return RegressionIntervals(np.tile([-np.inf, np.inf], (p, 1)), np.inf, np.array([0.0, 1.0]), False)


@dataclass(frozen=True, eq=False)
class Regression:
    """A linear regression of one column on others, in the units of the features.

    Attributes
    ----------
    coef : ndarray of shape (len(features),)
        Coefficients, shrunk by the ridge.
    intercept : float
    r2 : float
        Share of the variance of the target that the fit explains.
    alpha : float
        Regularization per row, for the scaled features.
    target : int
    features : tuple of int
    coef_interval : ndarray of shape (len(features), 2)
        Confidence intervals for the least-squares coefficients of the data or the population, widened if needed to
        include `coef`.
    intercept_error : float
        Standard error of the intercept.
    r2_interval : ndarray of shape (2,)
        Confidence interval for the R² of least squares, widened if needed to include `r2`.
    determined : bool
        Whether the smallest variance of the features in any direction is distinguishable from noise. If not, most
        coefficient intervals are infinite and `r2_interval` is [0, 1].
    """

    coef: FloatArray
    intercept: float
    r2: float
    alpha: float
    target: int
    features: tuple[int, ...]
    coef_interval: FloatArray = field(default_factory=lambda: np.empty((0, 2)))
    intercept_error: float = np.inf
    r2_interval: FloatArray = field(default_factory=lambda: np.array([0.0, 1.0]))
    determined: bool = False


def regress(
    release: "Release",
    target: int | str,
    features: Sequence[int | str] | None = None,
    *,
    alpha: float | None = None,
    level: float = LEVEL,
    of: str = "data",
) -> Regression:
    """Regress one column on others, from the released matrix. Spends no budget.

    Parameters
    ----------
    target : int or str
        The column to predict, by position or name.
    features : sequence, optional
        The columns to predict from; all others by default.
    alpha : float, optional
        Regularization per row, for the scaled features; chosen from the noise scale by default.
    level, of
        Of the intervals, as in `IntervalView.covariance`.
    """
    sampled = release.intervals.sampled(level, of)
    if not release.matrix.has_known_noise:
        raise InvalidParameterError(
            "A regression needs a matrix with noise of a known distribution; choose a mechanism that adds noise."
        )
    if not release.origin.row_rule.keeps_lengths:
        raise InvalidParameterError(
            "This release was made from directions of rows. A regression needs statistic='clipped'."
        )
    position = release.matrix.position(target)
    positions = None if features is None else release.matrix.positions(features)
    others = [other for other in range(release.n_features) if other != position] if positions is None else positions
    if position in release.origin.without_range or set(others) <= set(release.origin.without_range):
        nothing, mean = vars(_nothing_known(len(others))), float(release.mean[position])
        return Regression(np.zeros(len(others)), mean, 0.0, alpha or 0.0, position, tuple(others), **nothing)
    fit = ridge_from_covariance(
        release.matrix.scaled_matrix, position, positions, noise_draw=release.matrix.noise_draw, alpha=alpha
    )
    used, means = list(fit.features), _mean_to_predict_from(release, fit)
    coef = fit.coef * release.scale[used] / release.scale[position]
    intercept = float(means[position] - coef @ means[used])
    found = _regression_intervals(release, position, used, level, sampled)
    return Regression(
        coef,
        intercept,
        fit.r2,
        fit.alpha,
        position,
        fit.features,
        coef_interval=holding(found.coef_interval, coef, ANY),
        intercept_error=found.intercept_error,
        r2_interval=holding(found.r2_interval, np.array(fit.r2), SHARE),
        determined=found.determined,
    )


def _regression_intervals(
    release: "Release", target: int, features: list[int], level: float, sampled: float
) -> RegressionIntervals:
    """Return the intervals of a regression in the units of the features.

    Features without an estimated range are left out, and their coefficients are unknown.
    """
    known = [place for place, feature in enumerate(features) if feature not in release.origin.without_range]
    nothing, scale = _nothing_known(len(features)), release.matrix.row_scale
    if release.intervals.unavailable or not known:
        return nothing
    columns = [*(features[place] for place in known), target]
    mean = release.mean[columns] * scale[columns]
    matrix = release.matrix.row_matrix[np.ix_(columns, columns)]
    found = regression_intervals(
        matrix, release.intervals.row_matrix_error(level).of(columns), mean, level=level, sampled=sampled
    )
    coef_interval = nothing.coef_interval
    coef_interval[known] = found.coef_interval * (scale[columns[:-1]] / scale[target])[:, None]
    error = float(found.intercept_error / scale[target])
    return RegressionIntervals(coef_interval, error, found.r2_interval, found.determined)


def _first_mean_sd(release: "Release") -> float:
    """Return the noise on a mean that was measured first, in the units of the scaled features."""
    sizes = 1.0 if release.matrix.divisors is None else float(np.min(release.matrix.divisors))
    return (release.origin.mean_sd or 0.0) / sizes


def _mean_to_predict_from(release: "Release", fit: RidgeFit) -> FloatArray:
    """Return the mean, shrunk by its noise; warn where its noise, or that on the target, may spoil a prediction."""
    if release.origin.centred:
        sd = (release.noise_sd or 0.0) / release.origin.row_rule.constant_value
    else:
        sd = _first_mean_sd(release)
    # A mean that was measured first is off by some e, and the moment of the target about it too large by e².
    first = 0.0 if release.origin.centred else sd**2
    error = math.hypot(fit.target_sd, math.sqrt(2) * first)
    least_variance = fit.target_moment - first - _VISIBLE_SDS * error
    if sd**2 * (1 + float(fit.coef @ fit.coef)) > _MEAN_MAY_COST * least_variance:
        warn_caller(
            "The variance of the target is not distinguishable from noise, so predictions may be worse than its mean. "
            f"Use more {release.matrix.counted}, a larger epsilon, fewer features, or narrower bounds of the target.",
            NoiseWarning,
        )
    elif fit.evidence == 0:
        warn_caller(
            "The relation of the target to the features is not distinguishable from noise, so predictions are close to "
            f"its mean. Use more {release.matrix.counted}, a larger epsilon, or fewer features.",
            NoiseWarning,
        )
    shift = release.origin.row_rule.shift
    return (0.0 if shift is None else np.asarray(shift)) + shrunk_mean(release.matrix.scaled_mean, sd) / release.scale


def requested(release: "Release") -> Regression | None:
    """Return the regression of the request; None if there is none."""
    request = release.origin.request
    return regress(release, request.target, alpha=request.alpha) if isinstance(request, RegressionRequest) else None
