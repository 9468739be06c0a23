"""What scikit-learn does around a fit: steps before it, wrappers that fit many times, clones.

A step that learned from the rows hands on rows of which each depends on all others: one person then changes every row,
and the sensitivity is no longer what was paid for. A wrapper that fits many clones spends epsilon for each of them.

scikit-learn gives an estimator no information about its caller: a pipeline passes on arrays only, and callbacks and
metadata are set by the user on the outermost object. Two sources are left, and both are used. Clones are made by
`__sklearn_clone__`, so all clones of an estimator share one `FitCount`. What stands around a fit is computed from the
Python stack, where everything that is not known to hand on row by row is named. The stack of a joblib worker does not
show what is outside of it; a fit in one says so.
"""

import math
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple, Self, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from ..accounting.ledger import opened_ledger
from ..errors import InvalidParameterError, PrivacyWarning, warn_caller
from ..guarantee import ONLY_IF, Assumption, Guarantee

Estimator: TypeAlias = Any
"""An estimator with the interface of scikit-learn, which has no type information."""

_ROW_BY_ROW = "made one row from each row, and from that row alone"


class FitCount:
    """How often an estimator and its clones were fitted without a seed, and what that cost.

    Copies within a process share it. A pickled one says only that it is from elsewhere, in bytes that never change:
    a pipeline with a `memory` looks its fits up by the hash of these bytes, and pays again for what it does not find.

    Parameters
    ----------
    elsewhere : bool
        Whether it came out of a pickle, so that fits in other processes are not in it.
    """

    def __init__(self, elsewhere: bool = False) -> None:
        self.elsewhere = elsewhere
        self.cloned = False
        self.cloned_unseeded = False
        self.said: set[str] = set()
        self._paid: list[tuple[float, float]] = []  # appending is safe in threads, and no lock survives a fork

    def add(self, guarantee: Guarantee) -> None:
        """Count a fit that was paid for."""
        self._paid.append((guarantee.epsilon, guarantee.delta))

    @property
    def n_fits(self) -> int:
        """How many fits were paid for."""
        return len(self._paid)

    def total_with(self, guarantee: Guarantee) -> str:
        """Return the sum of all fits and one more, in words."""
        epsilon, delta = (math.fsum(one) for one in zip(*self._paid, (guarantee.epsilon, guarantee.delta), strict=True))
        return f"epsilon = {epsilon:g}" if delta == 0 else f"epsilon = {epsilon:g} and delta = {delta:g}"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> Any:
        return type(self), (True,)


def fit_count(estimator: Estimator) -> FitCount:
    """Return the count that an estimator shares with its clones."""
    count: FitCount = estimator.__dict__.setdefault("_fit_count", FitCount())
    return count


def share_count(estimator: Estimator, clone: Estimator) -> None:
    """Let a clone count its fits with those of the estimator it was made of."""
    count = fit_count(estimator)
    count.cloned = True
    count.cloned_unseeded |= estimator.random_state is None
    clone.__dict__["_fit_count"] = count


# Fits under a wrapper, for as long as its object is there: it may hold several estimators, each with its own count.
_UNDER: WeakKeyDictionary[Any, FitCount] = WeakKeyDictionary()


@dataclass(frozen=True)
class FitContext:
    """What is known of the surroundings of a fit.

    Parameters
    ----------
    estimator : str
        Name of the class that is fitted.
    own : FitCount
        Of the estimator and its clones.
    row_wise : tuple of str
        What handed on the rows, and is known to make each row from one row, or from private releases.
    unknown : tuple of str
        What handed on the rows, and is not known to.
    wrapper : (str, FitCount), optional
        The outermost object that may fit several times, and the fits under it.
    in_worker : bool
        Whether the fit runs in a worker of joblib: what is around that is not seen.
    searched : bool
        Whether a search or cross-validation fits.
    in_union : bool
        Whether a FeatureUnion fits, all of whose output is what its parts transform.
    tracked : bool
        Whether a ledger adds up the fits.
    """

    estimator: str
    own: FitCount
    row_wise: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    wrapper: tuple[str, FitCount] | None = None
    in_worker: bool = False
    searched: bool = False
    in_union: bool = False
    tracked: bool = False

    def stated(self, guarantee: Guarantee, seeded: bool) -> Guarantee:
        """Return the guarantee of a fit with what it assumes of the steps before, and that it is for one fit alone."""
        others = None if seeded else self._other_fits()
        return self.stated_steps(guarantee if others is None else guarantee.with_assumption(others))

    def stated_steps(self, guarantee: Guarantee) -> Guarantee:
        """Return the guarantee of a fit with what it assumes of the steps before."""
        if self.unknown:
            guarantee = guarantee.with_assumption(
                Assumption(
                    f"{ONLY_IF}{_joined(self.unknown)} {_ROW_BY_ROW}. If a step learned from the rows, nothing is "
                    "guaranteed.",
                    f"{_joined(self.unknown)} {_ROW_BY_ROW}",
                )
            )
        if self.in_worker:
            guarantee = guarantee.with_assumption(
                Assumption(
                    f"{ONLY_IF}every step before {_ROW_BY_ROW}. The fit ran in a joblib worker, which cannot see these "
                    "steps.",
                    f"every step before {_ROW_BY_ROW}",
                )
            )
        if self.row_wise:
            guarantee = guarantee.with_assumption(
                Assumption(
                    f"Assumes that {_joined(self.row_wise)} {_ROW_BY_ROW}, with public parameters or with private "
                    "releases that spend their own budget.",
                    f"assumes row-wise {_joined(self.row_wise)}",
                )
            )
        return guarantee

    def warn_once(self, sentence: str) -> None:
        """Warn; within what fits many times, once."""
        said = self.wrapper[1].said if self.wrapper is not None else self.own.said if self.in_worker else set()
        if sentence not in said:
            said.add(sentence)
            warn_caller(sentence, PrivacyWarning)

    def warn_of_many_fits(self, guarantee: Guarantee) -> None:
        """Warn once, before the spend, where an estimator, its clones or a wrapper fit a second time."""
        name, count = max(self._counts(), key=lambda one: one[1].n_fits)
        said = self._counts()[0][1].said
        if self.tracked or count.n_fits == 0 or "many fits" in said:
            return
        said.add("many fits")
        warn_caller(
            f"{name} used private rows in {count.n_fits + 1} fits so far, and each guarantee is for one fit alone: if "
            f"the rows were the same, the total is {count.total_with(guarantee)}, and every further fit adds to it; "
            "give a ledger= to track the total.",
            PrivacyWarning,
        )

    def count(self, guarantee: Guarantee) -> None:
        """Count a fit that was paid for."""
        for _, count in self._counts():
            count.add(guarantee)

    def _other_fits(self) -> Assumption | None:
        """Return the assumption about other fits on the same rows."""
        name, most = max(self._counts(), key=lambda one: one[1].n_fits)
        if most.n_fits and not self.tracked:  # without a number, the guarantees of a ledger have one sentence in all
            number = most.n_fits + 1
            return Assumption(
                f"Covers this fit only: it is fit number {number} of {name}, and fits on the same rows add up.",
                f"covers fit {number} only",
            )
        if most.n_fits or self.own.cloned or self.own.elsewhere or self.in_worker or self.wrapper is not None:
            return Assumption(
                f"Covers this fit only: other fits of this {self.estimator} and its clones on the same rows add up.",
                "covers this fit only",
            )
        return None

    def _counts(self) -> list[tuple[str, FitCount]]:
        """Return the counts that this fit adds to, the outermost first."""
        of_wrapper = [] if self.wrapper is None else [self.wrapper]
        return [*of_wrapper, (f"{self.estimator} with its clones", self.own)]


def fit_context(estimator: Estimator) -> FitContext:
    """Return what is around a fit, as `steps_before` does; refuse a search that nobody counts.

    Asked before a row is read. A ledger that cannot be opened is refused here too.
    """
    ledger = opened_ledger(estimator.ledger)
    context = steps_before(estimator, tracked=ledger is not None)
    # A seeded fit is marked as not private anyway.
    if estimator.random_state is not None or not context.searched:
        return context
    if ledger is None:
        raise InvalidParameterError(
            "A search or cross-validation fits many times, and every fit spends epsilon again; give a ledger= that "
            "counts them, or on data that are public a random_state=."
        )
    context.warn_once(
        "The ledger counts every fit of this search or cross-validation, but scores are computed from the rows "
        "themselves: neither they nor what is chosen by them is private."
    )
    return context


def steps_before(estimator: Estimator, *, tracked: bool = False) -> FitContext:
    """Return what is around a fit, and warn of what may void its guarantee."""
    calls = list(_calls(sys._getframe(1)))
    if not any(_is_other(call, estimator) for call in calls):
        return FitContext(type(estimator).__name__, fit_count(estimator), tracked=tracked)
    wrapper = next((one for one in map(_wrapper, reversed(calls)) if one is not None and one is not estimator), None)
    context = FitContext(
        type(estimator).__name__,
        fit_count(estimator),
        *_before(estimator, calls),
        wrapper=_counted_wrapper(wrapper),
        in_worker=_in_worker(estimator, calls),
        searched=any(map(_refits, calls)),
        in_union=any(_is_of_sklearn(call.around, ("FeatureUnion",)) for call in calls),
        tracked=tracked,
    )
    seeded = estimator.random_state is not None
    if seeded and context.own.cloned_unseeded and (wrapper is not None or context.in_worker):
        context.warn_once(
            f"This {context.estimator} is a clone of one without random_state, and was given one by a wrapper: its "
            "noise can be computed from the seed, so its release is not private."
        )
    elif context.unknown:
        context.warn_once(
            f"The guarantee of {context.estimator} holds only if {_joined(context.unknown)} {_ROW_BY_ROW}, which is "
            "not known: leave out what learns from rows, give public ranges or a schema, or put PrivateScaler in its "
            "place."
        )
    elif context.in_worker and not seeded and not context.searched:  # of which more is said
        context.warn_once(
            f"This {context.estimator} is fitted in a worker of joblib, where neither the steps before it nor other "
            "fits of the same rows are seen: its guarantee is for one fit alone, and only if those steps "
            f"{_ROW_BY_ROW}."
        )
    return context


def _joined(names: tuple[str, ...]) -> str:
    return " and ".join(names)


def _counted_wrapper(wrapper: Any) -> tuple[str, FitCount] | None:
    if wrapper is None or not isinstance(wrapper, Hashable):  # a data class may compare by value, and has no hash
        return None
    return type(wrapper).__name__, _UNDER.setdefault(wrapper, FitCount())


# The stack.

# Packages that fit an estimator many times on the same rows and that are refused without a ledger.
_REFITTING = (
    "sklearn.ensemble._stacking",
    "sklearn.feature_selection._rfe",
    "sklearn.model_selection",
    "sklearn.multioutput",
)
_JOBLIB = "joblib.parallel"
_FITTING = (*_REFITTING, _JOBLIB)
_CONTAINERS = ("Pipeline", "FeatureUnion", "ColumnTransformer")
# Wrappers that hand rows on as they are. Others choose rows by labels or predictions (OneVsOneClassifier,
# SelfTrainingClassifier, RANSACRegressor, CalibratedClassifierCV by stratified folds), choose columns by the rows
# (RFE), repeat rows (Bagging) or hand on what was learned (Stacking, IterativeImputer).
_HANDS_ON = (
    *_CONTAINERS,
    "TransformedTargetRegressor",
    "VotingClassifier",
    "VotingRegressor",
    "OneVsRestClassifier",
    "MultiOutputClassifier",
    "MultiOutputRegressor",
    "SelectFromModel",
    "GridSearchCV",
    "RandomizedSearchCV",
)


class Call(NamedTuple):
    """A function that is running."""

    module: str
    names: Mapping[str, Any]
    """Its local names."""
    around: Any
    """The estimator whose method it is, or what has steps as a pipeline has; or None."""


def _calls(frame: FrameType | None) -> Iterator[Call]:
    """Yield what is running, from the inside out."""
    from sklearn.base import BaseEstimator  # there for whoever fits an estimator; a forecast does without

    while frame is not None:
        names = frame.f_locals  # made anew whenever it is asked for
        around = names.get("self")
        found = around is not None and (isinstance(around, BaseEstimator) or _steps(around))
        yield Call(str(frame.f_globals.get("__name__", "")), names, around if found else None)
        frame = frame.f_back


def _is_other(call: Call, estimator: Estimator) -> bool:
    """Return whether a call is none of the estimator itself, and may say something about the fit."""
    if call.around is not None and call.around is not estimator:
        return True
    return call.module.startswith(_FITTING)


def _refits(call: Call) -> bool:
    return call.module.startswith(_REFITTING)


def _wrapper(call: Call) -> Any:
    """Return what may fit several times: an object that is no pipeline, or the estimator that a function searches."""
    if call.around is None and _refits(call):
        from sklearn.base import BaseEstimator

        searched = call.names.get("estimator")
        return searched if isinstance(searched, BaseEstimator) else None
    return None if _is_of_sklearn(call.around, ("Pipeline",)) else call.around


def _is_of_sklearn(thing: object, names: tuple[str, ...]) -> bool:
    """Tell a class of scikit-learn itself; one that is derived from it may do anything."""
    return type(thing).__name__ in names and type(thing).__module__.startswith("sklearn.")


def _in_worker(estimator: Estimator, calls: list[Call]) -> bool:
    """Tell a worker of joblib: the outermost call of `joblib.parallel` is that of a task, and not of who gave it.

    An estimator that was made within the task is in no pipeline outside of it: it has no clones, and no pickle behind
    it. In a thread that cannot be detected.
    """
    of_joblib = [call for call in calls if call.module == _JOBLIB]
    if not of_joblib or type(of_joblib[-1].names.get("self")).__name__ == "Parallel":
        return False
    count = fit_count(estimator)
    return count.cloned or count.elsewhere or threading.current_thread() is not threading.main_thread()


def _before(estimator: Estimator, calls: list[Call]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of what handed the rows on to this estimator: what is known to be row-wise, and what is not."""
    found: dict[str, bool] = {}
    at_work: set[int] = set()
    enclosing = [place for place, call in enumerate(calls) if call.around is not None and call.around is not estimator]
    for call in calls[: enclosing[-1] + 1 if enclosing else 0]:
        # A pipeline may fit a clone of its step, but holds the step itself meanwhile, and that which it fitted before.
        at_work.update(id(one) for one in call.names.values() if one is not None and not isinstance(one, str))
        around = call.around
        if around is None or around is estimator:
            continue
        steps = _steps(around)
        # All steps where none is found at work.
        now = max((place for place, step in enumerate(steps) if id(step) in at_work), default=len(steps))
        before = steps[:now]
        if hasattr(around, "transformer_") and hasattr(around, "regressor"):  # a target that is scaled
            before = [around.transformer_]
        named = [one for step in before for one in _judged(step, estimator)]
        if not _is_of_sklearn(around, _HANDS_ON) or _chooses_by_function(around):
            named.append((type(around).__name__, False))
        for name, known in named:
            found[name] = found.get(name, True) and known
    return tuple(name for name in found if found[name]), tuple(name for name in found if not found[name])


def _steps(around: Any) -> list[Any]:
    """Return the steps of a pipeline, in order; what stands beside each other hands nothing on."""
    steps = getattr(around, "__dict__", {}).get("steps")
    pairs = steps if isinstance(steps, list) else []
    return [one[1] for one in pairs if isinstance(one, tuple | list) and len(one) == 2]


# Steps.


def _is_of_numpy(function: Any) -> bool:
    """Tell a function of NumPy itself: `numpy.frompyfunc` makes one of anything."""
    return isinstance(function, np.ufunc) and getattr(np, function.__name__, None) is function


def _is_elementwise(function: Any) -> bool:
    return function is None or (_is_of_numpy(function) and function.nin == 1 and function.signature is None)


def _is_nothing(value: Any) -> bool:
    return not value


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _is_none(value: Any) -> bool:
    return value is None


_GIVEN_CATEGORIES: dict[str, Callable[[Any], bool]] = {
    "categories": _is_list,
    "min_frequency": _is_none,
    "max_categories": _is_none,
}
# Classes of scikit-learn that make each row from one row, for parameters that pass these checks.
_ROW_WISE: dict[str, dict[str, Callable[[Any], bool]]] = {
    "AdditiveChi2Sampler": {},
    "Binarizer": {},
    "FeatureHasher": {},
    "FunctionTransformer": {"func": _is_elementwise, "kw_args": _is_nothing},
    "GaussianRandomProjection": {"n_components": _is_number},
    "HashingVectorizer": {},
    "Normalizer": {},
    "OneHotEncoder": _GIVEN_CATEGORIES,
    "OrdinalEncoder": _GIVEN_CATEGORIES,
    "PolynomialFeatures": {},
    "RBFSampler": {"gamma": _is_number},  # "scale" is the variance of the rows
    # Otherwise it learns which columns there are: those with a value, and indicators of those without.
    "SimpleImputer": {
        "strategy": "constant".__eq__,
        "keep_empty_features": bool,
        "add_indicator": _is_nothing,
    },
    "SparseRandomProjection": {"n_components": _is_number},
}


def _judged(step: Any, estimator: Estimator) -> Iterator[tuple[str, bool]]:
    """Yield the name of a step, or those of its parts, each with whether it is known to make a row from one row."""
    if step is None or isinstance(step, str):  # "passthrough" or "drop"
        return
    name = type(step).__name__
    if _is_of_sklearn(step, _CONTAINERS):
        for part in _parts(step):
            yield from _judged(part, estimator)
        # A function may choose columns by what is in them; that of scikit-learn chooses by names and types.
        if _chooses_by_function(step):
            yield name, False
    elif isinstance(guarantee := getattr(step, "guarantee_", None), Guarantee):
        # A seeded step is not private; beside another seeded one, that is said already.
        yield name, guarantee.is_private or estimator.random_state is not None
    else:
        checks = _ROW_WISE.get(name) if _is_of_sklearn(step, (name,)) else None
        yield name, checks is not None and all(check(getattr(step, key)) for key, check in checks.items())


def _chooses_by_function(step: Any) -> bool:
    columns = [one[2] for one in getattr(step, "transformers", ()) if len(one) == 3]
    return any(callable(one) and not _is_of_sklearn(one, ("make_column_selector",)) for one in columns)


def _parts(step: Any) -> list[Any]:
    """Return what a pipeline, union or column transformer is made of."""
    several = getattr(step, "transformer_list", None) or getattr(step, "transformers_", None)
    return _steps(step) if several is None else [one[1] for one in several]
