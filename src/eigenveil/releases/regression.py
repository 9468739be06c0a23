"""Regressions of columns on others, with confidence intervals, from a released matrix. Spends no budget."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import (
    InvalidParameterError,
    NoiseWarning,
    features_in_words,
    listed,
    number_from_zero,
    positive_number,
    quoted,
    warn_caller,
)
from ..numerics import FloatArray
from ..postprocess.entries import block_of
from ..postprocess.intervals import holding
from ..postprocess.least_squares import Estimate, LeastSquares
from ..postprocess.regression import RidgeFit, ridge_from_covariance, shrunk_mean
from ..postprocess.spectrum import threads_for
from ..uncertainty import ANY, SHARE
from .intervals import LEVEL
from .origin import RegressionRequest

if TYPE_CHECKING:
    from .record import Release


# What noise on the means may take of R² without a warning.
_MEAN_MAY_COST = 0.1
# A target whose released variance is not so many standard deviations of its error above 0 may vary by any smaller one.
_VISIBLE_SDS = 2.5
# A feature that is left out is named beside another one that predicts it by at least so many of its standard
# deviations, if its variance is that many deviations of noise; and so many sentences at most.
_NAMED_SIZE, _VISIBLE, _MOST_NAMED = 0.3, 5.0, 5
Weights = ArrayLike | Mapping[str, float]


@dataclass(frozen=True, eq=False)
class _Inference:
    """Least squares in the units of the rows, and what turns them into the units of the features.

    `known` are the places of the features that have a range; `scale`, `shift` and `mean` are those of these features,
    and of the target last; the mean is about the shift.
    """

    fit: LeastSquares
    known: list[int]
    scale: FloatArray
    shift: FloatArray
    mean: FloatArray
    bound: float | None

    @property
    def ratio(self) -> FloatArray:
        return np.asarray(self.scale[:-1] / self.scale[-1])

    def contrasts(self, weights: FloatArray) -> list[Estimate]:
        unknown = np.ones(weights.shape[1], np.bool_)
        unknown[self.known] = False
        found = self.fit.contrasts(weights[:, self.known] * self.ratio, self.bound)
        opened = np.asarray(weights[:, unknown].any(axis=1))
        return [Estimate(one.value, _OPEN.copy()) if lost else one for one, lost in zip(found, opened, strict=True)]

    def fitted_mean(self, row: FloatArray) -> Estimate:
        scale, shift = self.scale, self.shift
        found = self.fit.fitted_mean(self.mean, (row[self.known] - shift[:-1]) * scale[:-1], self.bound)
        return Estimate(
            float(shift[-1] + found.value / scale[-1]),
            shift[-1] + found.interval / scale[-1],
            float(found.noise_error / scale[-1]),
            float(found.sampling_error / scale[-1]),
            found.resolved_share,
        )


_OPEN = np.array([-math.inf, math.inf])


@dataclass(frozen=True, eq=False)
class Regression:
    """A linear regression of one column on others, in the units of the features.

    Errors, intervals and notes are computed when they are first asked for.

    Attributes
    ----------
    coef : ndarray of shape (len(features),)
        Coefficients: least squares with ``alpha=0``, else shrunk by the ridge.
    intercept : float
    r2 : float
        Share of the variance of the target that the fit explains.
    alpha : float
        Regularization per row, for the scaled features.
    target : int
    features : tuple of int
    """

    coef: FloatArray
    intercept: float
    r2: float
    alpha: float
    target: int
    features: tuple[int, ...]
    feature_names: tuple[str, ...]
    _question: "_Question" = field(repr=False)

    @property
    def of(self) -> str:
        """The target of the intervals: "data" or "population"."""
        return self._question.of

    @property
    def _inference(self) -> _Inference | None:
        with threads_for(len(self.features)):
            return self._question.inference

    @cached_property
    def _each(self) -> list[Estimate]:
        inference, p = self._inference, len(self.features)
        with threads_for(p):
            return [Estimate(0.0, _OPEN)] * p if inference is None else inference.contrasts(np.eye(p))

    @cached_property
    def coef_interval(self) -> FloatArray:
        """Confidence intervals for the least-squares coefficients, of shape (len(features), 2).

        They are those of the data or the population, widened if needed to include `coef`. Infinite where no finite
        interval is honest.
        """
        return holding(np.array([one.interval for one in self._each]), self.coef, ANY)

    @cached_property
    def intercept_error(self) -> float:
        """Standard error of the intercept."""
        inference, p = self._inference, len(self.features)
        with threads_for(p):
            return math.inf if inference is None else inference.fitted_mean(np.zeros(p)).noise_error

    @cached_property
    def r2_interval(self) -> FloatArray:
        """Confidence interval for the R² of least squares, widened if needed to include `r2`.

        The upper end is 1 if some direction of the features is not distinguishable from noise and no bound is given.
        """
        inference = self._inference
        if inference is None:
            return np.array(SHARE)
        with threads_for(len(self.features)):
            return holding(inference.fit.r2_interval(self._question.bound), np.array(self.r2), SHARE)

    @cached_property
    def determined(self) -> bool:
        """Whether all coefficients have finite intervals without a bound on their size."""
        inference = self._inference
        with threads_for(len(self.features)):
            return inference is not None and inference.fit.bounded and not self._question.without_range

    @property
    def noise_error(self) -> FloatArray:
        """Standard errors of the least-squares coefficients for the privacy noise; infinite where not determined."""
        return np.array([one.noise_error for one in self._each])

    @property
    def sampling_error(self) -> FloatArray:
        """Standard errors of the least-squares coefficients for sampling the rows; infinite where not determined."""
        return np.array([one.sampling_error for one in self._each])

    @property
    def resolved_share(self) -> FloatArray:
        """Share of each coefficient in directions of the features that are distinguishable from noise."""
        return np.array([one.resolved_share for one in self._each])

    @property
    def sign_certain_up_to(self) -> FloatArray:
        """Up to which length of the other coefficients the sign of each coefficient is certain.

        That is the length of the part of the coefficients in directions that are not distinguishable from noise, as a
        vector for the scaled features; infinite where all are resolved, 0 where the sign is not certain.
        """
        return np.array([one.sign_certain_up_to for one in self._each])

    @property
    def dropped(self) -> tuple[int, ...]:
        """Features that `reduced` leaves out, since their variation beside the others is below the noise."""
        return self._fewer[0]

    @cached_property
    def reduced(self) -> "Regression | None":
        """The regression on the features that can be resolved, if that is not this one.

        Its intervals pay for the choice of the features.
        """
        return self._fewer[1]

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions, and features that were left out, in sentences."""
        return self._fewer[2]

    @cached_property
    def _fewer(self) -> tuple[tuple[int, ...], "Regression | None", tuple[str, ...]]:
        return _fewer_features(self._question, self)

    @property
    def distinguishable(self) -> NDArray[np.bool_]:
        """Whether each coefficient is significantly different from 0: its interval does not contain 0."""
        low, high = self.coef_interval.T
        return np.asarray((low > 0) | (high < 0))

    def contrast(self, weights: Weights) -> Estimate:
        """Return the estimate of a weighted sum of coefficients, with its interval.

        Parameters
        ----------
        weights : array of shape (len(features),) or mapping
            One weight per feature, or weights by name; features that are not named have weight 0.
        """
        w = self._by_feature("weights", weights, 0.0)
        value = float(w @ self.coef)
        if self._inference is None:
            return Estimate(value, _OPEN.copy())
        return _about(value, self._inference.contrasts(w[None])[0])

    def fitted_mean(self, row: Weights) -> Estimate:
        """Return the estimate of the mean of the target at given values of the features, with its interval.

        Parameters
        ----------
        row : array of shape (len(features),) or mapping
            One value per feature, in the order of `features` or by name.
        """
        x = self._by_feature("row", row, None)
        value = float(self.intercept + x @ self.coef)
        if self._inference is None or len(self._inference.known) < len(x):
            return Estimate(value, _OPEN.copy())
        return _about(value, self._inference.fitted_mean(x))

    def _by_feature(self, what: str, given: Weights, otherwise: float | None) -> FloatArray:
        if isinstance(given, Mapping):
            unknown = [name for name in given if name not in self.feature_names]
            missing = [name for name in self.feature_names if name not in given]
            if unknown or (missing and otherwise is None):
                wrong = f"has no feature {quoted(unknown[0])}" if unknown else f"needs a value for {quoted(missing[0])}"
                raise InvalidParameterError(f"This regression {wrong}; {what} is by the names of its features.")
            given = [given.get(name, otherwise or 0.0) for name in self.feature_names]
        numbers = np.asarray(given, np.float64)
        if numbers.shape != (len(self.features),) or not np.isfinite(numbers).all():
            raise InvalidParameterError(f"{what} must be {len(self.features)} finite numbers, one for each feature.")
        return numbers


def _about(value: float, found: Estimate) -> Estimate:
    """Return an estimate with another value, in an interval that contains it."""
    return replace(found, value=value, interval=holding(found.interval, np.array(value), ANY))


@overload
def regress(  # type: ignore[overload-overlap]  # a name is a sequence of letters too
    release: "Release",
    target: int | str,
    features: Sequence[int | str] | None = None,
    *,
    alpha: float | None = None,
    level: float = LEVEL,
    of: str = "data",
    bound: float | None = None,
    base: Mapping[str, str] | None = None,
) -> Regression: ...


@overload
def regress(
    release: "Release",
    target: Sequence[int | str],
    features: Sequence[int | str] | None = None,
    *,
    alpha: float | None = None,
    level: float = LEVEL,
    of: str = "data",
    bound: float | None = None,
    base: Mapping[str, str] | None = None,
) -> tuple[Regression, ...]: ...


def regress(
    release: "Release",
    target: int | str | Sequence[int | str],
    features: Sequence[int | str] | None = None,
    *,
    alpha: float | None = None,
    level: float = LEVEL,
    of: str = "data",
    bound: float | None = None,
    base: Mapping[str, str] | None = None,
) -> Regression | tuple[Regression, ...]:
    """Regress columns on others, from the released matrix. Spends no budget.

    Parameters
    ----------
    target : int, str or list of these
        The column to predict, by position or name. For a list, a tuple of regressions is returned, and no target is
        among the features.
    features : sequence, optional
        The columns to predict from; all others by default.
    alpha : float, optional
        Regularization per row, for the scaled features; 0 is least squares. By default it is chosen from the noise
        scale.
    level, of
        Of the intervals, as in `IntervalView.covariance`.
    bound : float, optional
        An upper bound on the length of the vector of coefficients for the scaled features (each coefficient times the
        scale of the target over the scale of its feature, `release.matrix.row_scale`), known from elsewhere. With it
        all intervals are finite; without it some may be infinite.
    base : mapping of str to str, optional
        Base level by column for one-hot encoded categories: that level is left out, so that coefficients are
        differences from it. By default with ``alpha=0`` the first category of every column all of whose categories are
        features; with an empty mapping none.
    """
    release.intervals.sampled(level, of)  # which checks both
    if not release.matrix.has_known_noise:
        raise InvalidParameterError(
            "A regression needs a matrix with noise of a known distribution; choose a mechanism that adds noise."
        )
    if not release.origin.row_rule.keeps_lengths:
        raise InvalidParameterError(
            "This release was made from directions of rows. A regression needs statistic='clipped'."
        )
    alpha = alpha if alpha is None else number_from_zero("alpha", alpha)
    bound = bound if bound is None else positive_number("bound", bound)
    one = isinstance(target, str) or not isinstance(target, Sequence)
    targets = release.matrix.positions(target)
    if features is None:
        positions = [position for position in range(release.n_features) if position not in targets]
    else:
        positions = release.matrix.positions(features)
    bases = _base_levels(release, positions, base or {})
    if base is not None:
        left_out = {position: column for position, column in bases.items() if column in base}
    else:
        left_out = bases if alpha == 0 else {}
    positions = [position for position in positions if position not in left_out]
    if not positions or {*targets} & {*positions}:
        raise InvalidParameterError("features must be distinct columns other than the target, at least one.")
    asked = _Question(release, targets[0], positions, alpha, level, of, bound, bases)
    if len(targets) == 1:
        fits: tuple[Regression, ...] = (_fitted(asked),)
    else:
        words = [f"the target {asked.names[each]}" for each in targets]
        fits = tuple(
            _fitted(replace(asked, target=each, target_in_words=word))
            for each, word in zip(targets, words, strict=True)
        )
    return fits[0] if one else fits


def _base_levels(release: "Release", positions: list[int], base: Mapping[str, str]) -> dict[int, str]:
    """Return the positions of base levels, with their columns: of each category all of whose levels are used."""
    schema, names, found = release.origin.schema, list(release.feature_names or ()), {}
    used = {names[position] for position in positions} if names else set()
    columns = {} if schema is None else {one.name: one for one in schema.used if one.kind == "category"}
    complete = {name: one for name, one in columns.items() if {*one.features} <= used}
    for name, level in base.items():
        if name not in complete or level not in complete[name].categories:
            raise InvalidParameterError(
                f"base must name columns of categories that are among the features, with one of their categories; got "
                f"{quoted(name)}: {quoted(level)}."
            )
    for name, column in complete.items():
        if release.matrix.centred:
            level = base.get(name, column.categories[0])
            found[names.index(column.features[list(column.categories).index(level)])] = name
    return found


@dataclass(frozen=True, eq=False)
class _Question:
    """One regression that is asked for.

    `chosen` counts the features that were left out after a look at the release; `about_choice` says why.
    """

    release: "Release"
    target: int
    features: list[int]
    alpha: float | None
    level: float
    of: str
    bound: float | None
    bases: Mapping[int, str]
    chosen: int | None = None
    about_choice: tuple[str, ...] = ()
    target_in_words: str = "the target"

    @property
    def names(self) -> list[str]:
        """Names of all features, as sentences call them."""
        return features_in_words(self.release.feature_names, self.release.n_features)

    @cached_property
    def without_range(self) -> list[int]:
        return [one for one in self.features if one in self.release.origin.without_range]

    @cached_property
    def inference(self) -> _Inference | None:
        """Least squares with intervals; None where there are no intervals, or no feature has a range."""
        release = self.release
        known = [place for place, one in enumerate(self.features) if one not in self.without_range]
        if release.intervals.unavailable or not known or self.target in release.origin.without_range:
            return None
        columns = [*(self.features[place] for place in known), self.target]
        matrix = block_of(release.matrix.row_matrix, columns)
        level = 1 - (1 - self.level) / (1 + (self.chosen or 0))
        per_row, population = release.intervals.sampled(level, "population"), self.of == "population"
        error = release.intervals.row_matrix_error(level).of(columns)
        return _Inference(
            LeastSquares(matrix, error, per_row=per_row, population=population),
            known,
            release.matrix.row_scale[columns],
            _shift(release)[columns],
            release.matrix.scaled_mean[columns],
            self.bound,
        )


def _shift(release: "Release") -> FloatArray:
    shift = release.origin.row_rule.shift
    return np.zeros(release.n_features) if shift is None else np.asarray(shift)


def _fitted(question: _Question) -> Regression:
    names, features = question.release.feature_names or question.names, question.features
    coef, intercept, r2, alpha = _estimates(question)
    named = tuple(names[one] for one in features)
    return Regression(coef, intercept, r2, alpha, question.target, tuple(features), named, question)


def _estimates(question: _Question) -> tuple[FloatArray, float, float, float]:
    """Return coefficients and intercept in the units of the features, R² and alpha."""
    release, target, features, alpha = question.release, question.target, question.features, question.alpha
    mean = float(release.mean[target])
    if target in release.origin.without_range or len(question.without_range) == len(features):
        return np.zeros(len(features)), mean, 0.0, alpha or 0.0
    if alpha == 0:
        coef, inference = np.zeros(len(features)), question.inference
        if inference is None:
            return coef, mean, 0.0, 0.0
        coef[inference.known] = inference.fit.coef * inference.ratio
        return coef, float(mean - coef @ release.mean[features]), inference.fit.r2, 0.0
    matrix, columns = release.matrix, [*features, target]
    block = block_of(matrix.scaled_matrix, columns)
    fit = ridge_from_covariance(
        block,
        matrix.shrunk(block, positions=columns),
        release.intervals.scaled_matrix_error(question.level).of(columns),
        excess=0.0 if matrix.noise_facts is None else matrix.noise_facts.excess,
        alpha=alpha,
    )
    means = _mean_to_predict_from(question, fit)
    coef = fit.coef * release.scale[features] / release.scale[target]
    return coef, float(means[target] - coef @ means[features]), fit.r2, fit.alpha


def _fewer_features(
    question: _Question, found: Regression
) -> tuple[tuple[int, ...], Regression | None, tuple[str, ...]]:
    """Return the features to leave out, the regression on those that can be resolved, and the notes on `found`."""
    inference, features, bases = question.inference, question.features, question.bases
    if inference is None:
        return (), None, (question.release.intervals.unavailable or "No range was found for the columns.",)
    notes = (*question.about_choice, *_notes(question, found))
    if found.determined or question.chosen is not None:
        return (), None, notes
    known = [features[place] for place in inference.known]
    rest = [place for place, one in enumerate(known) if one not in bases]
    hidden = [known[rest[place]] for place in inference.fit.of(rest).hidden_features()] if rest else []
    dropped = [one for one in features if one in {*question.without_range, *bases, *hidden}]
    kept = [one for one in features if one not in dropped]
    if not kept:
        note = "No feature is distinguishable from noise, so there is no regression on fewer features."
        return (), None, (*notes, note)
    base = [one for one in dropped if one in bases]
    reasons = [
        *([f"{_in_words(question, hidden)}, whose variation beside the others is below the noise"] if hidden else []),
        *([f"{_in_words(question, base)}, the base level{'s' if base[1:] else ''}"] if base else []),
        *([f"{_in_words(question, question.without_range)}, without a range"] if question.without_range else []),
    ]
    without = f"Regression without {'; and without '.join(reasons)}."
    about = (without, *_notes_on_hidden(question, inference, kept, hidden))
    fewer = replace(question, features=kept, bound=None, chosen=len(hidden), about_choice=about)
    return tuple(dropped), _fitted(fewer), notes


def _notes(question: _Question, found: Regression) -> tuple[str, ...]:
    """Return the assumptions of a regression, in sentences."""
    notes, inference, names = [], question.inference, question.names
    assert inference is not None
    if found.alpha:
        notes.append("The intervals are for the least-squares coefficients, widened to include the ridge coefficients.")
    for position, column in question.bases.items():
        if position not in found.features:
            notes.append(f"The coefficients of {column} are differences from the base level {names[position]}.")
    if found.of == "population":
        notes.append(
            "The sampling error assumes independent rows with a residual variance that does not depend on the features."
        )
    if question.without_range:
        notes.append(f"Nothing is known of {_in_words(question, question.without_range)}: no range was found.")
    if inference.fit.bounded:
        return tuple(notes)
    if inference.bound is not None:
        notes.append(
            "The intervals assume that the coefficients for the scaled features have a length of at most "
            f"{inference.bound:.3g}. This bound was given, not estimated."
        )
        return tuple(notes)
    notes.append(
        "The variation of the features is not distinguishable from noise in some directions. Without a bound on the "
        "coefficients, there is no finite confidence interval for a coefficient of this regression."
    )
    sizes = found.sign_certain_up_to
    for place in np.argsort(-sizes, kind="stable")[:_MOST_NAMED]:
        if 0 < sizes[place] < np.inf:
            sign = "positive" if found._each[place].value > 0 else "negative"
            notes.append(
                f"The coefficient of {names[found.features[place]]} is {sign} if the part of the coefficients in these "
                f"directions is at most {sizes[place]:.2g}, for the scaled features."
            )
    return tuple(notes)


def _notes_on_hidden(question: _Question, inference: _Inference, kept: list[int], hidden: list[int]) -> list[str]:
    """Explain, in sentences, how coefficients on fewer features relate to those on all features."""
    known = [question.features[place] for place in inference.known]
    rows, columns = [known.index(one) for one in kept], [known.index(one) for one in hidden]
    matrix, scale = inference.fit.matrix, inference.scale
    variances = np.diag(matrix)
    visible = variances[columns] > _VISIBLE * np.sqrt(inference.fit.error.diagonal_variances()[columns])
    # A feature that is left out is predicted by the others with these weights.
    weights = np.linalg.solve(matrix[np.ix_(rows, rows)], matrix[np.ix_(rows, columns)])
    sizes = np.abs(weights) * np.sqrt(variances[rows])[:, None] / np.sqrt(np.where(visible, variances[columns], np.inf))
    weights = weights * scale[rows][:, None] / scale[columns]
    found, names = [], question.names
    for i, j in sorted(np.ndindex(weights.shape), key=lambda at: -sizes[at])[:_MOST_NAMED]:
        if sizes[i, j] >= _NAMED_SIZE:
            one, other, sign = names[kept[i]], names[hidden[j]], "plus" if weights[i, j] > 0 else "minus"
            times = f"{abs(weights[i, j]):.2g} times that of {other}"
            found.append(f"The coefficient of {one} stands for that of {one} {sign} {times}.")
    return found


def _in_words(question: _Question, positions: Sequence[int]) -> str:
    names = [question.names[one] for one in positions]
    return listed("", names, names).partition(" ")[2]


def _mean_to_predict_from(question: _Question, fit: RidgeFit) -> FloatArray:
    """Return the mean, shrunk by its noise; warn where its noise, or that on the target, may spoil a prediction."""
    release, target = question.release, question.target_in_words
    if release.origin.centred:
        sd = (release.noise_sd or 0.0) / release.origin.row_rule.constant_value
    else:
        divisors = release.matrix.divisors
        sd = (release.origin.mean_sd or 0.0) / (1.0 if divisors is None else float(np.min(divisors)))
    # A mean that was measured first is off by some e, and the moment of the target about it too large by e².
    first = 0.0 if release.origin.centred else sd**2
    error = math.hypot(fit.target_sd, math.sqrt(2) * first)
    least_variance = fit.target_moment - first - _VISIBLE_SDS * error
    if question.chosen is not None:
        pass  # the regression on all features has warned
    elif sd**2 * (1 + float(fit.coef @ fit.coef)) > _MEAN_MAY_COST * least_variance:
        warn_caller(
            f"The variance of {target} is not distinguishable from noise, so predictions may be worse than its mean. "
            f"Use more {release.matrix.counted}, a larger epsilon, fewer features, or narrower bounds of the target.",
            NoiseWarning,
        )
    elif fit.evidence == 0:
        warn_caller(
            f"The relation of {target} to the features is not distinguishable from noise, so predictions are close to "
            f"its mean. Use more {release.matrix.counted}, a larger epsilon, or fewer features.",
            NoiseWarning,
        )
    return _shift(release) + shrunk_mean(release.matrix.scaled_mean, sd) / release.scale


def requested(release: "Release") -> tuple[Regression, ...]:
    """Return the regressions of the request, one for each target; none for another request."""
    request = release.origin.request
    if not isinstance(request, RegressionRequest):
        return ()
    # Predictions use all features, so that no base level is left out.
    return regress(release, request.targets(release.n_features), alpha=request.alpha, base={})
