"""What scikit-learn does around a fit: steps before it, wrappers that fit many times, clones.

A step that learned from the rows hands on rows of which each depends on all others: one person then changes every row,
and the sensitivity is no longer what was paid for. A wrapper that fits many clones spends epsilon for each of them.

scikit-learn tells an estimator nothing of what calls it: a pipeline passes on arrays alone, and callbacks and metadata
are set by the user on the outermost object. Two sources are left, and both are used. Clones are made by
`__sklearn_clone__`, so all clones of an estimator share one `FitCount`. What stands around a fit is read off the Python
stack, where everything that is not known to hand on row by row is named. The stack of a joblib worker does not show
what is outside of it; a fit in one says so.
"""

import math
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator

from ..accounting.ledger import opened_ledger
from ..errors import InvalidParameterError, PrivacyWarning, warn_caller
from ..guarantee import ONLY_IF, Guarantee


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


def fit_count(estimator: BaseEstimator) -> FitCount:
    """Return the count that an estimator shares with its clones."""
    count: FitCount = vars(estimator).setdefault("_fit_count", FitCount())
    return count


def share_count(estimator: BaseEstimator, clone: BaseEstimator) -> None:
    """Let a clone count its fits with those of the estimator it was made of."""
    count = fit_count(estimator)
    count.cloned = True
    count.cloned_unseeded |= estimator.random_state is None
    vars(clone)["_fit_count"] = count


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
    tracked : bool
        Whether a ledger adds up the fits.
    """

    estimator: str
    own: FitCount
    row_wise: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    wrapper: tuple[str, FitCount] | None = None
    in_worker: bool = False
    tracked: bool = False

    def stated(self, guarantee: Guarantee, seeded: bool) -> Guarantee:
        """Return the guarantee of a fit with what it assumes of the steps before, and that it is for one fit alone."""
        others = None if seeded else self._other_fits()
        if others is not None:
            guarantee = guarantee.with_assumption(others)
        if self.unknown:
            guarantee = guarantee.with_assumption(
                f"{ONLY_IF}{_joined(self.unknown)} made each row from that row alone; where rows were learned from, "
                "nothing is guaranteed."
            )
        if self.in_worker:
            guarantee = guarantee.with_assumption(
                f"{ONLY_IF}every step before made each row from that row alone; the fit ran in a worker of joblib, "
                "where these steps are not seen."
            )
        if self.row_wise:
            guarantee = guarantee.with_assumption(
                f"Assumes that {_joined(self.row_wise)} made each row from that row alone, by public parameters or by "
                "private releases, which spend budgets of their own."
            )
        return guarantee

    def warn_of_many_fits(self, guarantee: Guarantee) -> None:
        """Warn once, before the spend, where an estimator, its clones or a wrapper fit a second time."""
        counts = self._counts()
        name, count = max(counts, key=lambda one: one[1].n_fits)
        if self.tracked or count.n_fits == 0 or any("many" in one.said for _, one in counts):
            return
        for _, one in counts:
            one.said.add("many")
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

    def _other_fits(self) -> str | None:
        """Return what a guarantee says of fits beside its own."""
        name, most = max(self._counts(), key=lambda one: one[1].n_fits)
        if most.n_fits and not self.tracked:  # without a number, the guarantees of a ledger have one sentence in all
            number = most.n_fits + 1
            return f"Covers this fit alone: it is fit number {number} of {name}, and fits on the same rows add up."
        if most.n_fits or self.own.cloned or self.own.elsewhere or self.in_worker or self.wrapper is not None:
            return f"Covers this fit alone: other fits of this {self.estimator} and its clones on the same rows add up."
        return None

    def _counts(self) -> list[tuple[str, FitCount]]:
        of_wrapper = [] if self.wrapper is None else [self.wrapper]
        return [*of_wrapper, (f"{self.estimator} with its clones", self.own)]


def fit_context(estimator: BaseEstimator) -> FitContext:
    """Return what is around a fit; refuse a search that nobody counts, and warn of steps that may void the guarantee.

    Asked before a row is read. A ledger that cannot be opened is refused here too.
    """
    ledger = opened_ledger(estimator.ledger)
    frames = list(_stack(sys._getframe(1)))
    wrapper = next((one for one in map(_wrapper, reversed(frames)) if one is not None and one is not estimator), None)
    context = FitContext(
        type(estimator).__name__,
        fit_count(estimator),
        *_before(estimator, frames),
        wrapper=_counted_wrapper(wrapper),
        in_worker=_in_worker(estimator, frames),
        tracked=ledger is not None,
    )
    once = None if context.wrapper is None else context.wrapper[1].said
    seeded = estimator.random_state is not None
    if seeded and context.own.cloned_unseeded and (wrapper is not None or context.in_worker):
        _warn_once(
            once,
            f"This {context.estimator} is a clone of one without random_state, and was given one by a wrapper: its "
            "noise can be computed from the seed, so its release is not private.",
        )
    elif context.unknown:
        _warn_once(
            once,
            f"The guarantee of {context.estimator} holds only if {_joined(context.unknown)} made each row from that "
            "row alone, which is not known: leave out what learns from rows, give public ranges or a schema, or put "
            "PrivateScaler in its place.",
        )
    # A seeded fit is marked as not private anyway.
    if seeded:
        return context
    searched = any(map(_refits, frames))
    if searched and ledger is None:
        raise InvalidParameterError(
            "A search or cross-validation fits many times, and every fit spends epsilon again; give a ledger= that "
            "counts them, or on data that are public a random_state=."
        )
    if searched:
        _warn_once(
            once,
            "The ledger counts every fit of this search or cross-validation, but scores are computed from the rows "
            "themselves: neither they nor what is chosen by them is private.",
        )
    elif context.in_worker:
        _warn_once(
            context.own.said,
            f"This {context.estimator} is fitted in a worker of joblib, where neither the steps before it nor other "
            "fits of the same rows are seen: its guarantee is for one fit alone, and only if those steps made each row "
            "from that row alone.",
        )
    return context


def _joined(names: tuple[str, ...]) -> str:
    return " and ".join(names)


def _warn_once(said: set[str] | None, sentence: str) -> None:
    """Warn; within what fits many times, once."""
    if said is None or sentence not in said:
        warn_caller(sentence, PrivacyWarning)
    if said is not None:
        said.add(sentence)


def _counted_wrapper(wrapper: Any) -> tuple[str, FitCount] | None:
    if not isinstance(wrapper, Hashable) or wrapper is None:  # a data class may compare by value, and has no hash
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


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _refits(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(_REFITTING)


def _around(frame: FrameType) -> Any:
    """Return the estimator, or what has steps as a pipeline has, whose method is running; or None."""
    around = frame.f_locals.get("self")
    return around if isinstance(around, BaseEstimator) or _steps(around) else None


def _wrapper(frame: FrameType) -> Any:
    """Return what may fit several times: an object that is no pipeline, or the estimator that a function searches."""
    around = _around(frame)
    if around is None and _refits(frame):
        searched = frame.f_locals.get("estimator")
        return searched if isinstance(searched, BaseEstimator) else None
    return None if _is_of_sklearn(around, ("Pipeline",)) else around


def _is_of_sklearn(thing: object, names: tuple[str, ...]) -> bool:
    """Tell a class of scikit-learn itself; one that is derived from it may do anything."""
    return type(thing).__name__ in names and type(thing).__module__.startswith("sklearn.")


def _in_worker(estimator: BaseEstimator, frames: list[FrameType]) -> bool:
    """Tell a worker of joblib: the outermost frame of `joblib.parallel` is that of a task, and not of who gave it.

    An estimator that was made within the task is in no pipeline outside of it: it has no clones, and no pickle behind
    it. In a thread that cannot be told.
    """
    of_joblib = [frame for frame in frames if frame.f_globals.get("__name__") == "joblib.parallel"]
    if not of_joblib or type(of_joblib[-1].f_locals.get("self")).__name__ == "Parallel":
        return False
    count = fit_count(estimator)
    return count.cloned or count.elsewhere or threading.current_thread() is not threading.main_thread()


def _before(estimator: BaseEstimator, frames: list[FrameType]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of what handed the rows on to this estimator: what is known to be row-wise, and what is not."""
    found: dict[str, bool] = {}
    at_work: set[int] = set()
    for frame in frames:
        # A pipeline may fit a clone of its step, but holds the step itself meanwhile, and that which it fitted before.
        at_work.update(id(one) for one in frame.f_locals.values() if not isinstance(one, str | None))
        around = _around(frame)
        if around is None or around is estimator:
            continue
        steps = _steps(around)
        # All steps where none is found at work.
        now = max((place for place, step in enumerate(steps) if id(step) in at_work), default=len(steps))
        before = steps[:now]
        if hasattr(around, "transformer_") and hasattr(around, "regressor"):  # a target that is scaled
            before = [around.transformer_]
        named = [one for step in before for one in _judged(step, estimator)]
        if not _is_of_sklearn(around, _HANDS_ON):
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


def _is_elementwise(function: Any) -> bool:
    return function is None or (isinstance(function, np.ufunc) and function.nin == 1 and function.signature is None)


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


def _judged(step: Any, estimator: BaseEstimator) -> Iterator[tuple[str, bool]]:
    """Yield the name of a step, or those of its parts, each with whether it is known to make a row from one row."""
    if step is None or isinstance(step, str):  # "passthrough" or "drop"
        return
    name = type(step).__name__
    if _is_of_sklearn(step, _CONTAINERS):
        for part in _parts(step):
            yield from _judged(part, estimator)
        # A function may choose columns by what is in them; that of scikit-learn chooses by names and types.
        columns = [one[2] for one in getattr(step, "transformers", ())]
        if any(callable(one) and not _is_of_sklearn(one, ("make_column_selector",)) for one in columns):
            yield name, False
    elif isinstance(guarantee := getattr(step, "guarantee_", None), Guarantee):
        # A seeded step is not private; beside another seeded one, that is said already.
        yield name, guarantee.is_private or estimator.random_state is not None
    else:
        checks = _ROW_WISE.get(name) if _is_of_sklearn(step, (name,)) else None
        yield name, checks is not None and all(check(getattr(step, key)) for key, check in checks.items())


def _parts(step: Any) -> list[Any]:
    """Return what a pipeline, union or column transformer is made of."""
    several = getattr(step, "transformer_list", None) or getattr(step, "transformers_", None)
    return _steps(step) if several is None else [one[1] for one in several]
