"""Public ranges that are right and far too wide: medians and norm bounds that are found privately at pure epsilon."""

from fractions import Fraction

import numpy as np
import pytest

from eigenveil import PrivatePCA, PrivateRidge, gate
from eigenveil.accounting.calibration import exact
from eigenveil.estimators import fit
from eigenveil.estimators.parameters import Features, FitParameters
from eigenveil.estimators.preparation import prepared_about_medians
from eigenveil.estimators.split import MEDIAN_PLACES
from eigenveil.mechanisms.choices import PureSearch
from eigenveil.metrics import captured_variance
from eigenveil.tables.open import open_table

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")

# Ten times as wide as the rows, each reaching much farther on one side.
WIDE = ([-4.0, -56.0, -4.0, -28.0, -56.0], [56.0, 4.0, 56.0, 32.0, 4.0])


def rows(n=4000, seed=0):
    """Two directions and noise: columns of five, within [-4, 4] or a little beyond."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 2)) @ np.array([[1.0, 1, 1, 0, 0], [0, 0, 0.4, 1, 1]])
    return np.clip(common + 0.3 * rng.normal(size=(n, 5)), -4, 4)


def lost(X, model):
    truth = np.corrcoef(X.T) if model.standardize else np.cov(X.T)
    return 1 - captured_variance(truth, model.components_) / np.linalg.eigvalsh(truth)[-len(model.components_) :].sum()


@pytest.mark.parametrize("standardize", [True, False])
def test_wide_ranges_cost_components_little(standardize):
    X, losses = rows(), {}
    for stages in ("auto", 1):
        models = [
            PrivatePCA(2, epsilon=1.0, bounds=WIDE, standardize=standardize, stages=stages, random_state=seed).fit(X)
            for seed in range(5)
        ]
        losses[stages] = np.mean([lost(X, model) for model in models])
    assert losses["auto"] < 0.05 < 0.2 < losses[1]  # where nothing is found privately, most is lost


def test_wide_ranges_cost_regressions_little():
    X, scores = rows(), {}
    for stages in ("auto", 1):
        models = [PrivateRidge(epsilon=1.0, bounds=WIDE, stages=stages, random_state=seed) for seed in range(5)]
        scores[stages] = np.mean([model.fit(X[:, :4], X[:, 4]).score(X[:, :4], X[:, 4]) for model in models])
    assert scores["auto"] > 0.6 > 0.2 > scores[1]


def test_rows_that_fill_their_ranges_stay_about_the_middle():
    X = np.random.default_rng(0).choice([0.0, 1.0], size=(8000, 6))
    rule = PrivatePCA(2, epsilon=1.0, bounds=(0.0, 1.0), random_state=0).fit(X).release_.origin.row_rule
    assert rule.shift == (0.5,) * 6


@pytest.mark.parametrize("n", [3000, 6000, 30_000])
def test_what_is_spent_adds_up_to_epsilon(monkeypatch, n):
    spent = []

    def places(counts, most, search, generator, only=None):
        spent.append(search.epsilon)
        return gate_places(counts, most, search, generator, only)

    def magnitudes(counts, most, epsilon, generator):
        spent.append(epsilon)
        return gate_magnitudes(counts, most, epsilon, generator)

    gate_places, gate_magnitudes = gate.choose_places, gate.choose_norm
    monkeypatch.setattr(gate, "choose_places", places)
    monkeypatch.setattr(gate, "choose_norm", magnitudes)
    model = PrivatePCA(2, epsilon=1.0, bounds=WIDE, random_state=0).fit(rows(n))
    assert len(spent) == 3
    assert sum(spent) + exact(model.release_.mechanism.epsilon) == 1
    assert model.release_.guarantee.epsilon == 1.0
    assert model.release_.origin.chosen_privately == ("medians", "norm_bound")


def test_medians_are_found_within_the_range():
    X = rows(20_000) + np.array([1.0, -2.0, 3.0, 0.5, 0.0])
    medians = found(X, Fraction(5))
    steps = (np.array(WIDE[1]) - WIDE[0]) / MEDIAN_PLACES
    assert np.all(np.abs(medians - np.median(X, axis=0)) <= steps)


def test_a_replaced_row_moves_the_counts_of_a_feature_one_way_by_at_most_1(monkeypatch):
    """What a search asks, for all neighbours of a small table: by more than 1, its epsilon would not pay for it."""
    asked = []
    monkeypatch.setattr(gate, "choose_places", lambda counts, *_: asked.append(counts.above()) or np.zeros(2, int))
    values = [[-1.0, 1.0], [-0.3, 0.0], [0.1, 9.0], [1.0, -1.0]]
    table = np.array(values[:3])
    for row in values:
        found(np.array([row, *table[1:]]), Fraction(1), ([-1.0, -1.0], [1.0, 1.0]))
    moves = [after - before for one in asked for other in asked for before, after in zip(one, other, strict=True)]
    assert max(np.max(np.abs(move)) for move in moves) == 1
    assert all(np.all(move >= 0) or np.all(move <= 0) for move in moves)


def found(X, epsilon, bounds=WIDE, seed=0):
    model = PrivatePCA(1, epsilon=1.0, bounds=bounds)
    source = open_table(X)
    preparation = prepared_about_medians(FitParameters.of(model), model._needs(), Features.of(source))
    counts = fit.sizes_and_columns(source, preparation).columns
    return fit.found_medians(counts, preparation, PureSearch(epsilon), np.random.default_rng(seed))


def test_what_is_0_or_1_by_construction_is_not_moved():
    model = PrivatePCA(1, epsilon=1.0, bounds=dict(zip("ab", zip(*WIDE, strict=True), strict=False)))
    features = Features(4, ("a", "b", "x", "y"), (False, False, True, True), n_categorical=1)
    preparation = prepared_about_medians(FitParameters.of(model), model._needs(), features)
    assert preparation.medians == (0, 1)
    X = np.column_stack([rows()[:, :2], np.eye(2)[np.arange(4000) % 2]])
    counts = fit.sizes_and_columns(open_table(X), preparation).columns
    medians = fit.found_medians(counts, preparation, PureSearch(Fraction(5)), np.random.default_rng(0))
    assert medians[2:].tolist() == preparation.shift[2:].tolist() == [0.0, 0.0]
    assert abs(medians[0]) < 1 < 26 == preparation.shift[0]
