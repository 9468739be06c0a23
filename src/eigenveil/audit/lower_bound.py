"""Lower bounds on epsilon from two samples of one number: the statistics of an audit.

If a mechanism is (epsilon, delta)-private, every event E satisfies P(E) <= e^epsilon Q(E) + delta, where P and Q are
the distributions of its output on two neighbouring data sets. So P(E) >= p and Q(E) <= q together prove that epsilon is
at least log((p - delta)/q). The event is chosen on one half of the draws; the other half, which knows nothing of the
choice, gives p and q. docs/how_to/audit.md has the proof.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv

from ..errors import InvalidDataError, InvalidParameterError, integer_between, positive_number, probability_below_one
from ..mechanisms.base import Values
from ..numerics import FloatArray

# Thresholds tried in the half that chooses: every quantile of a fine grid, finer towards both ends.
_CANDIDATES = 500


@dataclass(frozen=True)
class Event:
    """A set of outputs: "the score is at least (or at most) a threshold", and which data set makes it likely.

    Attributes
    ----------
    threshold : float
    above : bool
        Whether the event is score >= threshold; else it is score <= threshold.
    likely : int
        The sample that plays P: 0 for the first, 1 for the second.
    """

    threshold: float
    above: bool
    likely: int

    def count(self, scores: FloatArray) -> int:
        """Return the number of scores in the event."""
        return int(np.count_nonzero(scores >= self.threshold if self.above else scores <= self.threshold))

    @property
    def direction(self) -> str:
        """The event in words."""
        side, data = ">=" if self.above else "<=", "D" if self.likely == 0 else "D'"
        return f"score {side} {self.threshold:.6g}, likely under {data}"


@dataclass(frozen=True)
class LowerBound:
    """Result of one test: with the stated confidence, epsilon is at least `epsilon`.

    Attributes
    ----------
    epsilon : float
        The lower bound; 0 where the test shows nothing.
    event : Event
        The event it was evaluated on.
    counts : (int, int)
        Draws in the event, for the data set where it is likely and for the other.
    draws : (int, int)
        Draws evaluated, in the same order.
    p_low, q_high : float
        The Clopper-Pearson bounds on the two probabilities.
    """

    epsilon: float
    event: Event
    counts: tuple[int, int]
    draws: tuple[int, int]
    p_low: float
    q_high: float


def epsilon_lower_bound(
    first: ArrayLike,
    second: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.99,
    n_tests: int = 1,
) -> LowerBound:
    """Return a lower bound on epsilon from scores drawn on a data set and on its neighbour.

    Parameters
    ----------
    first, second : array_like
        Independent draws of one number computed from the output, on D and on D'. Infinite scores are allowed, NaN is
        not. What computes the number must not have been fitted to these draws.
    delta : float
        The delta at which epsilon is bounded.
    confidence : float
        The chance that the bound is right, or that all of `n_tests` are.
    n_tests : int
        Number of tests whose bounds are to hold together (Bonferroni).

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> laplace = generator.laplace(size=20_000)
    >>> bound = epsilon_lower_bound(laplace, generator.laplace(size=20_000) + 1)
    >>> 0.8 < bound.epsilon < 1
    True
    """
    one, two = _scores(first), _scores(second)
    halves = one.size // 2, two.size // 2
    _, event = choose_event(one[: halves[0]], two[: halves[1]], delta=delta, confidence=confidence, n_tests=n_tests)
    return evaluate(event, one[halves[0] :], two[halves[1] :], delta=delta, confidence=confidence, n_tests=n_tests)


def choose_event(
    first: ArrayLike, second: ArrayLike, *, delta: float, confidence: float, n_tests: int = 1
) -> tuple[float, Event]:
    """Return the event with the largest bound on these draws, and this bound, which is optimistic and not valid."""
    samples = _scores(first), _scores(second)
    level = error_level(delta, confidence, n_tests)
    ordered = np.sort(samples[0]), np.sort(samples[1])
    # Quantiles of both samples, dense at the ends where the largest ratios of a pure mechanism lie.
    ends = np.geomspace(1e-4, 0.5, _CANDIDATES // 4)
    levels = np.concatenate([[0.0], ends, 1 - ends, [1.0]])
    thresholds = np.unique(np.concatenate([part[np.rint(levels * (part.size - 1)).astype(int)] for part in ordered]))
    at_most = [np.searchsorted(part, thresholds, side="right") for part in ordered]
    at_least = [part.size - np.searchsorted(part, thresholds, side="left") for part in ordered]
    best = (-math.inf, Event(float(thresholds[0]), True, 0))
    for above, counts in ((True, at_least), (False, at_most)):
        for likely in (0, 1):
            values = _log_ratio(
                _lower(counts[likely], samples[likely].size, level),
                _upper(counts[1 - likely], samples[1 - likely].size, level),
                delta,
            )
            i = int(np.argmax(values))
            if values[i] > best[0]:
                best = (float(values[i]), Event(float(thresholds[i]), above, likely))
    return best


def evaluate(
    event: Event, first: ArrayLike, second: ArrayLike, *, delta: float, confidence: float, n_tests: int = 1
) -> LowerBound:
    """Return the bound that an event, fixed before these draws were seen, gives on them."""
    samples = _scores(first), _scores(second)
    level = error_level(delta, confidence, n_tests)
    p, q = samples[event.likely], samples[1 - event.likely]
    counts = event.count(p), event.count(q)
    p_low = float(_lower(np.array(counts[0]), p.size, level))
    q_high = float(_upper(np.array(counts[1]), q.size, level))
    epsilon = max(0.0, float(_log_ratio(np.array(p_low), np.array(q_high), delta)))
    return LowerBound(epsilon, event, counts, (p.size, q.size), p_low, q_high)


def error_level(delta: float, confidence: float, n_tests: int) -> float:
    """Return the chance of error of each of the two one-sided bounds of each test."""
    probability_below_one("delta", delta)
    if not 0 < positive_number("confidence", confidence) < 1:
        raise InvalidParameterError(f"confidence must lie between 0 and 1, got {confidence!r}.")
    return (1 - confidence) / (2 * integer_between("n_tests", n_tests, 1))


def _lower(counts: NDArray[np.int64], size: int, level: float) -> FloatArray:
    """Clopper-Pearson from below: P(at least this many | p) = level at the returned p."""
    return np.asarray(np.where(counts > 0, betaincinv(np.maximum(counts, 1), size - counts + 1, level), 0.0))


def _upper(counts: NDArray[np.int64], size: int, level: float) -> FloatArray:
    """Clopper-Pearson from above."""
    inverse = betainccinv(counts + 1, np.maximum(size - counts, 1), level)
    return np.asarray(np.where(counts < size, inverse, 1.0))


def _log_ratio(p: FloatArray, q: FloatArray, delta: float) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(p > delta, np.log((p - delta) / q), -np.inf))


def _scores(values: ArrayLike) -> FloatArray:
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or scores.size < 2:
        raise InvalidDataError("An audit needs at least two scores of each data set, as one-dimensional arrays.")
    if np.isnan(scores).any():
        raise InvalidDataError("A score is NaN; make the statistic return a number for every output.")
    return scores


def features(values: Values) -> FloatArray:
    """Return the features of releases for a learned score: entries, projectors, numbers, and their logarithms."""
    columns = []
    for name, stack in sorted(values.items()):
        seen = stack[:, None] if stack.ndim == 1 else stack
        if name == "directions":  # a direction has no sign
            seen = np.einsum("nki,nkj->nij", seen, seen)
        if seen.ndim == 3 and seen.shape[1] == seen.shape[2]:
            rows, cols = np.triu_indices(seen.shape[1])
            seen = seen[:, rows, cols]
        columns.append(seen.reshape(len(seen), -1))
    table = np.hstack(columns)
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(np.abs(table)), math.log(1e-300))
    return np.hstack([table, logs])


def judged(
    first: FloatArray, second: FloatArray, *, delta: float, confidence: float
) -> tuple[float, Callable[[FloatArray], FloatArray]]:
    """Return the bound of the best event on these draws, and the statistic that it is about; for use on other draws.

    The statistic is the score itself. A table of features is turned into a score, high for outputs of D, by a
    classifier that is learned on one half of these draws. A separable half is no problem: the regression is penalized.
    """
    if first.ndim == 1:
        return choose_event(first, second, delta=delta, confidence=confidence)[0], np.asarray
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    halves = len(first) // 2, len(second) // 2
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=200))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rough direction is a valid one
        model.fit(np.vstack([first[: halves[0]], second[: halves[1]]]), np.repeat([1, 0], halves))

    def score(outputs: FloatArray) -> FloatArray:
        return np.asarray(model.decision_function(outputs))

    rest = score(first[halves[0] :]), score(second[halves[1] :])
    return choose_event(*rest, delta=delta, confidence=confidence)[0], score
