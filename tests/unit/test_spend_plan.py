"""`SpendPlan`: made of public numbers; what `fit` executes, what is printed, what an audit takes as the claim."""

import json
import math

import numpy as np
import pytest

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateSparsePCA, Relation
from eigenveil.accounting.calibration import exact
from eigenveil.errors import CapacityError, InvalidParameterError
from eigenveil.laws import LAWS, choose_law
from eigenveil.moments import SecondMoments

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # small tables, on purpose

ROWS = np.random.default_rng(2).normal(size=(300, 5))
MODELS = [
    PrivatePCA(1),
    PrivatePCA(2, norm_bound=2.0),
    PrivatePCA(0.8, epsilon=0.3, standardize=True),
    PrivatePCA(2, norm_bound=2.0, delta=1e-6),
    PrivatePCA(2, delta=1e-6, relation="add_remove"),
    PrivatePCA(2, rows="pairs"),
    PrivatePCA(2, bounds=(-4, 4), center=True, law="laplace"),
    PrivateCovariance(epsilon=0.1, delta=1e-9, standardize=True, center=True),
    PrivateSparsePCA(1, norm_bound=2.0),
    PrivateRidge(target=4, norm_bound=2.0, law="gaussian", delta=1e-6, law_options={"calibration": "paper"}),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_fit_spends_what_the_plan_says(model, tmp_path):
    ledger = PrivacyLedger.create(
        tmp_path / "ledger", epsilon=10.0, delta=1e-3, relation=model.relation, data_set="study"
    )
    plan = model.plan(5)
    law = plan.law(150 if model.rows == "pairs" else 300)
    fitted = model.set_params(ledger=ledger).fit(ROWS)
    model.set_params(ledger=None)
    assert fitted.law_ == law.name
    assert fitted.guarantee_ == plan.guarantee_of(law) == plan.guarantees[law.name]
    assert [entry.guarantee for entry in ledger.entries()] == [fitted.guarantee_]
    assert dict(fitted.release_.origin.parameters) == law.parameters()
    assert fitted.release_.origin.chosen_privately == tuple(sorted(plan.choices))


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_the_parts_add_up_to_the_budget(model):
    plan = model.plan(5)
    for _, law in plan.laws:
        parts = sum(exact(part.epsilon) for part in plan.choices.values()) + exact(law.epsilon)
        assert parts <= exact(model.epsilon)
        assert float(parts) == pytest.approx(model.epsilon, rel=1e-15)
    assert all(promise.epsilon <= plan.guarantee.epsilon for promise in plan.guarantees.values())


def test_private_choices_cost_a_tenth_and_a_fifth():
    choices = PrivatePCA(2, epsilon=2.0, standardize=True).plan(5).choices
    assert {name: part.epsilon for name, part in choices.items()} == {"feature_scale": 0.4, "norm_bound": 0.2}
    assert PrivatePCA(2, norm_bound=1.0).plan(5).choices == {}


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("epsilon", [0.07, 1.0])
def test_the_law_changes_where_auto_changes_it(k, epsilon):
    plan = PrivatePCA(k, epsilon=epsilon, norm_bound=1.0).plan(20)
    (start, few), (crossing, many) = plan.laws
    assert start == 0
    assert crossing == pytest.approx({1: 12, 3: 1}[k] * 20 / epsilon, abs=1)
    for n_rows, law in ((crossing - 1, few), (crossing, many), (10**9, many)):
        assert plan.law(n_rows) is law
        assert law.name == choose_law(n_rows=n_rows, n_features=20, n_components=k, epsilon=epsilon)
    known = PrivatePCA(k, epsilon=epsilon, norm_bound=1.0).plan(20, n_rows=crossing)
    assert [law.name for _, law in known.laws] == [many.name]


def test_a_private_number_of_rows_decides_nothing():
    assert len(PrivatePCA(1, norm_bound=1.0, relation="add_remove").plan(20).laws) == 1


def test_fit_executes_the_plan_that_it_is_given():
    model = PrivatePCA(1, norm_bound=1.0)
    plan = model.plan(5, n_rows=10)
    assert [law.name for _, law in plan.laws] == ["ppca"]
    assert model.fit(ROWS, plan=plan).law_ == "ppca"
    assert model.fit(ROWS).law_ == "matrix_laplace"
    with pytest.raises(InvalidParameterError, match="another plan"):
        model.fit(ROWS[:, :4], plan=plan)


def test_a_plan_reads_no_rows_and_makes_no_moments(monkeypatch):
    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr(SecondMoments, "__init__", refuse)
    for model in MODELS:
        plan = model.plan(5)
        assert json.loads(json.dumps(plan.to_dict()))["n_features"] == 5
        assert math.isfinite(plan.guarantee.epsilon)


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (PrivatePCA(6), InvalidParameterError),
        (PrivatePCA(1.5), InvalidParameterError),
        (PrivatePCA(2, law="nonsense"), InvalidParameterError),
        (PrivatePCA(2, law="laplace", delta=1e-6), InvalidParameterError),
        (PrivatePCA(2, law="gaussian"), InvalidParameterError),
        (PrivatePCA(0.5, law="ppca"), InvalidParameterError),
        (PrivatePCA(2, law="ppca", center=True), InvalidParameterError),
        (PrivatePCA(2, rows="pairs", relation="add_remove"), InvalidParameterError),
        (PrivatePCA(2, rows="pairs", center=True), InvalidParameterError),
        (PrivatePCA(2, epsilon=1e-12), CapacityError),
        (PrivateCovariance(law="random_projection"), InvalidParameterError),
        (PrivateSparsePCA(1, law="eigenvector_sampling"), InvalidParameterError),
        (PrivateSparsePCA(1, penalty=-1.0), InvalidParameterError),
        (PrivateRidge(law="none"), InvalidParameterError),
        (PrivateRidge(target=7), InvalidParameterError),
        (PrivateRidge(-1.0), InvalidParameterError),
    ],
    ids=repr,
)
def test_what_can_be_refused_without_rows_is_refused_by_the_plan(model, error):
    with pytest.raises(error) as caught:
        model.plan(5)
    assert str(caught.value).endswith(".")


def test_a_new_law_is_planned_and_fitted_by_its_facts(monkeypatch):
    class Newcomer(LAWS["laplace"]):
        name = "newcomer"

    monkeypatch.setitem(LAWS, "newcomer", Newcomer)
    model = PrivatePCA(2, norm_bound=1.0, law="newcomer").fit(ROWS)
    assert model.law_ == "newcomer"
    assert model.release_.has_noise_law
    assert model.guarantee_.relation is Relation.REPLACE
