"""No object that outlives a fit holds a private number: walked through and pickled, with a sentinel in the rows."""

import copy
import gc
import io
import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from eigenveil import PrivateCovariance, PrivatePCA, PrivateRidge, PrivateSparsePCA, RowBound, SecondMoments
from eigenveil.estimators import LocalPCA
from eigenveil.moments.comparisons import NeighbourDifferences

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")

SENTINEL = 31337.2109375
ROWS = np.random.default_rng(0).normal(size=(301, 4))
ROWS[-1] = SENTINEL  # the last row, and an odd one: what pairs leave over

ESTIMATORS = {
    "pca": PrivatePCA(2, norm_bound=1e6),
    "pca, private bound": PrivatePCA(2, epsilon=10.0, statistic="clipped"),
    "pca, correlations": PrivatePCA(2, norm_bound=1e6, standardize=True),
    "pca, pairs": PrivatePCA(2, statistic="spatial_sign"),
    "pca, signs": PrivatePCA(2, statistic="kendall"),
    "pca, centred": PrivatePCA(2, norm_bound=1e6, center=True),
    "pca, mean first": PrivatePCA(2, norm_bound=1e6, center=True, epsilon=10.0, delta=1e-6, mechanism="gaussian"),
    "pca, two stages": PrivatePCA(
        2, norm_bound=1e6, center=True, epsilon=10.0, delta=1e-6, mechanism="gaussian", stages=2
    ),
    "pca, sampled": PrivatePCA(1, norm_bound=1e6, epsilon=1e-3, center=False),
    "covariance, add or remove": PrivateCovariance(norm_bound=1e6, adjacency="add_or_remove_one"),
    "sparse": PrivateSparsePCA(1, norm_bound=1e6, mechanism="gaussian", delta=1e-6),
    "ridge": PrivateRidge(norm_bound=1e6, target=0),
    "local": LocalPCA(1, norm_bound=1e6),
}
COLLECTING = {
    name: est for name, est in ESTIMATORS.items() if name not in ("local", "pca, private bound", "pca, two stages")
}


def made(name):
    """Return an estimator of its own; a clone would share the count of fits with all others."""
    return type(ESTIMATORS[name])(**ESTIMATORS[name].get_params())


def private_facts(estimator):
    """Return what must not be found: the sentinel, and entries of the exact integer sums."""
    if isinstance(estimator, LocalPCA) or estimator.norm_bound is None:
        return {SENTINEL}
    bound = RowBound(estimator.norm_bound, constant=estimator.norm_bound / 2 if estimator.center else None)
    gram = SecondMoments(bound, 4).update(ROWS).gram
    return {SENTINEL, *map(int, gram[:4, :4].ravel())}


def reachable(start):
    """Yield everything that attributes, containers, arrays and their bases lead to, code left out."""
    seen, waiting = set(), [start]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type) or (callable(value) and not hasattr(value, "__dict__")):
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        elif isinstance(value, np.ndarray):
            waiting += [value.base] if value.base is not None else []
            waiting += list(value.ravel()) if value.dtype == object else []
        elif hasattr(value, "items"):  # a read-only mapping
            waiting += list(value.items())
        elif type(value).__module__.partition(".")[0] in ("eigenveil", "functools", "numpy"):
            waiting += list(getattr(value, "__dict__", {}).values())
            waiting += gc.get_referents(value) if type(value).__module__ == "functools" else []


def holding(start, facts):
    """Return what is reachable from `start` and equals a fact, in an array or by itself."""
    found = []
    for value in reachable(start):
        if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
            found += [value] if np.isin(value, sorted(facts)).any() else []
        elif isinstance(value, int | float | np.number) and not isinstance(value, bool) and value in facts:
            found.append(value)
    return found


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_fitted_estimator_holds_no_private_number(name):
    model = made(name).fit(ROWS)
    facts = private_facts(model)
    assert holding(model, facts) == []
    assert np.float64(SENTINEL).tobytes() not in pickle.dumps(model) + _dumped(model)
    assert holding(pickle.loads(pickle.dumps(model)), facts) == []
    assert holding(joblib.load(io.BytesIO(_dumped(model))), facts) == []
    assert holding(model.release_, facts) == []
    assert all(value.base is None or value.base.size == value.size for value in model.release_.integers.values())


def _dumped(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    return file.getvalue()


@pytest.mark.parametrize("name", COLLECTING)
def test_a_partially_fitted_estimator_is_neither_pickled_nor_copied(name):
    model = made(name).partial_fit(ROWS)
    for take in (pickle.dumps, _dumped, copy.copy, copy.deepcopy):
        with pytest.raises(ValueError, match="holds private sums") as refusal:
            take(model)
        assert refusal.value.__cause__ is None
    again = clone(model)
    assert holding(again, private_facts(model)) == []
    assert "_collected" not in vars(again)
    model.fit_moments()
    assert holding(model, private_facts(model)) == []
    pickle.loads(pickle.dumps(model))
    copy.deepcopy(model)


def test_the_exact_number_of_rows_is_nowhere():
    """At this epsilon the noisy count is the exact one in less than one of 100,000 fits."""
    rows = np.zeros((4321, 3))
    for options in ({}, {"delta": 1e-9, "mechanism": "gaussian"}):
        model = PrivatePCA(2, epsilon=1e-4, norm_bound=1.0, adjacency="add_or_remove_one", **options).fit(rows)
        assert holding(model, {4321}) == []
    assert holding(PrivatePCA(2, norm_bound=1.0).fit(rows), {4321})  # a control: there it is public


def test_control_the_walk_finds_what_is_there():
    model = made("pca").partial_fit(ROWS)
    assert holding(model, private_facts(model))  # the exact sums
    pairs = made("pca, pairs").partial_fit(ROWS)
    assert holding(pairs, {SENTINEL})  # the row left over
    model.fit_moments()._remembered = ROWS[:1]  # a view: its base is the whole table
    assert holding(model, {SENTINEL})


@pytest.mark.parametrize("step", ["another fit", "a failed fit"])
def test_sums_do_not_stay_behind(step):
    model = PrivatePCA(2, statistic="spatial_sign").partial_fit(ROWS)
    if step == "another fit":
        model.fit(ROWS[:-1])
    else:
        with pytest.raises(ValueError, match="NaN"):
            model.fit(np.where(ROWS == SENTINEL, np.nan, ROWS))
    assert holding(model, {SENTINEL}) == []
    pickle.dumps(model)


def test_a_refused_release_keeps_the_sums_for_the_next_try_and_to_itself():
    model = PrivatePCA(2, statistic="spatial_sign").partial_fit(ROWS)
    with pytest.raises(ValueError, match="mechanism must be"):
        model.set_params(mechanism="nonsense").fit_moments()
    with pytest.raises(ValueError, match="holds private sums"):
        pickle.dumps(model)
    assert holding(model.set_params(mechanism="auto").fit_moments(), {SENTINEL}) == []


def test_a_plan_and_the_pairs_in_the_making():
    assert holding(PrivatePCA(2).fit(ROWS).plan(4), {SENTINEL}) == []
    differences_buffer = NeighbourDifferences(RowBound(1.0, statistic="spatial_sign", comparisons=8))
    list(differences_buffer.push(ROWS))
    for take in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ValueError, match="private row"):
            take(differences_buffer)
