"""Where a fit runs: what scikit-learn does around it can void the guarantee without a word, so a word is said here.

A step before a private estimator that has learned from the rows hands on rows of which each depends on all others: one
person then changes every row, and the sensitivity of the release is no longer what was paid for. A search fits many
times, and each fit spends anew. Both are seen on the stack, where scikit-learn's own objects stand.
"""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

from ..accounting.ledger import opened_ledger
from ..errors import InvalidParameterError, PrivacyWarning, warn_caller
from ..guarantee import Adjacency, Guarantee

# Packages that fit an estimator many times on the same rows. (Ensembles seed what they fit, which a release tells.)
_REFITTING = ("sklearn.model_selection", "sklearn.feature_selection._rfe", "sklearn.multioutput")
# What was said of a search, for as long as its object is there.
_SAID: WeakKeyDictionary[BaseEstimator, set[str]] = WeakKeyDictionary()
# Steps that scikit-learn wants fitted, and that learn nothing from rows for these parameters.
_LEARNS_NOTHING: dict[str, dict[str, Any]] = {
    "PolynomialFeatures": {},
    "GaussianRandomProjection": {"n_components": int},
    "SparseRandomProjection": {"n_components": int},
    "OneHotEncoder": {"categories": list, "min_frequency": type(None), "max_categories": type(None)},
    "OrdinalEncoder": {"categories": list, "min_frequency": type(None), "max_categories": type(None)},
    # Otherwise it learns which columns there are: those with a value, and indicators of those without.
    "SimpleImputer": {"strategy": "constant", "keep_empty_features": True, "add_indicator": False},
}


def check_surroundings(estimator: Any) -> None:
    """Refuse a search that nobody counts, and warn of steps before this fit that void its guarantee.

    Asked before a row is read. A ledger that cannot be opened is refused here too.
    """
    ledger = opened_ledger(estimator.ledger)
    frames = list(_stack(sys._getframe(1)))
    learned = list(_learned_before(estimator, frames))
    search = next((frame for frame in reversed(frames) if _refits(frame)), None)
    if learned:
        _warn_once(
            search,
            f"The guarantee of {type(estimator).__name__} does not hold for the rows before "
            f"{' and '.join(dict.fromkeys(learned))}, which learned from them: leave it out, give public ranges or a "
            "schema, or put PrivateScaler in its place.",
        )
    # A seeded fit is marked as not private anyway.
    if estimator.random_state is not None or search is None:
        return
    if ledger is None:
        raise InvalidParameterError(
            "A search or cross-validation fits many times, and every fit spends epsilon again; give a ledger= that "
            "counts them, or on data that are public a random_state=."
        )
    _warn_once(
        search,
        "The ledger counts every fit of this search or cross-validation, but scores are computed from the rows "
        "themselves: neither they nor what is chosen by them is private.",
    )


def _warn_once(search: FrameType | None, sentence: str) -> None:
    """Warn; within a search, which fits many times, once for the object that searches or is searched."""
    known = {} if search is None else search.f_locals
    around = next((known[name] for name in ("self", "estimator") if isinstance(known.get(name), BaseEstimator)), None)
    if around is not None and sentence in _SAID.setdefault(around, set()):
        return
    if around is not None:
        _SAID[around].add(sentence)
    warn_caller(sentence, PrivacyWarning)


def check_delta(promise: Guarantee, n: int) -> None:
    """Warn, before the spend, of a delta that promises nothing to single persons."""
    large = delta_of_a_unit(promise, n)
    if large is not None:
        warn_caller(large, PrivacyWarning)


def delta_of_a_unit(promise: Guarantee, n: int) -> str | None:
    """Return a sentence about a delta of at least 1/n, or None; n is public under replace alone."""
    delta, unit = promise.delta, promise.unit
    if promise.adjacency is not Adjacency.REPLACE_ONE or delta * n < 1:
        return None
    return (
        f"delta = {delta:g} is at least 1/n for these {n:,} {unit.counted}, which even the publication of "
        f"{unit.in_words}, taken at random, would satisfy; choose one far below 1/n."
    )


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _refits(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(_REFITTING)


def _learned_before(estimator: Any, frames: list[FrameType]) -> Iterator[str]:
    """Yield the names of the steps that learned from rows and hand them on to this estimator."""
    at_work: set[int] = set()
    for frame in frames:
        around = frame.f_locals.get("self")
        # A pipeline may fit a clone of its step, but holds the step itself meanwhile, and that which it fitted before.
        at_work.update(id(one) for one in frame.f_locals.values() if isinstance(one, BaseEstimator))
        if around is estimator or not isinstance(around, BaseEstimator):
            continue
        steps = _steps(around)
        now = max((place for place, step in enumerate(steps) if id(step) in at_work), default=len(steps))
        for step in steps[:now]:
            yield from _learned(step)
        if hasattr(around, "transformer_") and hasattr(around, "regressor"):  # a target that is scaled
            yield from _learned(around.transformer_)


def _steps(around: Any) -> list[Any]:
    """Return the steps of a pipeline, in order; what stands beside each other hands nothing on."""
    return [step for _, step in around.steps] if isinstance(getattr(around, "steps", None), list) else []


def _learned(step: Any) -> Iterator[str]:
    parts = _steps(step) or [one[1] for one in getattr(step, "transformer_list", ())]
    parts = parts or [one[1] for one in getattr(step, "transformers_", ())]
    if parts:
        for part in parts:
            yield from _learned(part)
    elif isinstance(step, BaseEstimator) and not hasattr(step, "guarantee_") and get_tags(step).requires_fit:
        name = type(step).__name__
        allowed = _LEARNS_NOTHING.get(name)
        if allowed is None or not all(_is(getattr(step, key), value) for key, value in allowed.items()):
            yield name


def _is(given: Any, allowed: Any) -> bool:
    return isinstance(given, allowed) if isinstance(allowed, type) else bool(given == allowed)
