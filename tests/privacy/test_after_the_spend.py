"""What has been paid for is delivered: nothing raises after the spend, whatever the noise and the rows are."""

import itertools

import numpy as np
import pandas as pd
import pytest

from eigenveil import (
    PrivacyLedger,
    PrivateCovariance,
    PrivatePCA,
    PrivateRidge,
    PrivateSparsePCA,
    RowBound,
    Schema,
    SecondMoments,
    load_release,
    release,
)
from eigenveil.errors import EigenveilError, InvalidParameterError
from eigenveil.mechanisms import MECHANISMS
from eigenveil.tables.schema import Column
from helpers import assert_one_sentence, scales

pytestmark = [
    pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning"),
    pytest.mark.filterwarnings("ignore:Fantope selection stopped"),
]

MAKERS = {
    "components": lambda **options: PrivatePCA(1, **options),
    "share of variance": lambda **options: PrivatePCA(0.5, **options),
    "covariance": PrivateCovariance,
    "sparse": lambda **options: PrivateSparsePCA(1, max_iter=20, **options),
    "ridge": lambda *, center=True, **options: PrivateRidge(target=0, fit_intercept=center, **options),
}
READ = ("explained_variance_", "explained_variance_ratio_", "covariance_", "correlation_", "mean_", "n_samples_")
TABLES = {"zeros": np.zeros((1, 2)), "huge": np.full((1, 2), 1e308), "one column": np.zeros((1, 1))}


def delivered(model, table, monkeypatch):
    """Fit and read everything; a refusal is fine as long as nothing has been paid."""
    from eigenveil import gate

    paid = []
    pay = gate.pay

    def noted(*args):
        paid.append(True)
        return pay(*args)

    monkeypatch.setattr(gate, "pay", noted)
    try:
        model.fit(table)
    except EigenveilError:
        assert not paid
        return False
    assert paid == [True]
    for name in READ:
        getattr(model, name, None)
    if hasattr(model, "transform"):
        model.transform(table)
    monkeypatch.setattr(gate, "pay", pay)
    return True


@pytest.mark.parametrize("estimator", MAKERS)
@pytest.mark.parametrize("epsilon", [1e-300, 1e-5, pytest.param(1e9, marks=pytest.mark.heavy)])
@pytest.mark.parametrize("table", TABLES)
def test_nothing_raises_after_the_spend(estimator, epsilon, table, monkeypatch):
    fits = 0
    for adjacency, center, norm in itertools.product(["replace_one", "add_or_remove_one"], [False, True], [1.0, None]):
        options = {"epsilon": epsilon, "adjacency": adjacency, "center": center, "norm_bound": norm}
        fits += delivered(MAKERS[estimator](**options), TABLES[table], monkeypatch)
    # Public numbers alone refuse: tiny epsilons overflow, and a regression needs two columns.
    assert fits or epsilon == 1e-300 or (estimator, table) == ("ridge", "one column")


@pytest.mark.parametrize("adjacency", ["replace_one", pytest.param("add_or_remove_one", marks=pytest.mark.heavy)])
@pytest.mark.parametrize("mechanism", [name for name, mechanism in MECHANISMS.items() if not mechanism.baseline])
def test_nothing_raises_after_the_spend_by_any_mechanism(mechanism, adjacency, monkeypatch):
    delta = 1e-6 if MECHANISMS[mechanism].needs_delta else 0.0
    for table in TABLES.values():
        options = {
            "epsilon": 1e-5,
            "delta": delta,
            "adjacency": adjacency,
            "norm_bound": 1.0,
            "mechanism": mechanism,
            "center": False,
        }
        try:
            delivered(PrivatePCA(1, **options), table, monkeypatch)
        except EigenveilError:
            pytest.fail("raised after the spend")


@pytest.mark.parametrize(("size", "rows"), [(1e145, "auto"), (1e-145, "clipped")])
def test_scales_that_some_private_choice_would_not_fit_are_refused_before(size, rows, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=1.0, data_set="rows")
    with pytest.raises(EigenveilError, match="too far apart"):
        PrivateCovariance(ledger=ledger, statistic=rows, schema=scales(size, size)).fit(np.ones((5, 2)))
    assert ledger.entries() == []


@pytest.mark.parametrize("estimator", MAKERS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_nothing_raises_whatever_the_private_searches_find(estimator, delta, monkeypatch):
    """Every place of a ladder has a probability above 0: the first, the last, and what is drawn at random."""
    from eigenveil.mechanisms import choices
    from eigenveil.mechanisms.budget import BudgetShare

    generator = np.random.default_rng(0)
    rows = generator.normal(size=(1000, 2)) + np.array([0.0, -3e6])
    places = {"first": lambda size: 0, "last": lambda size: size - 1, "any": lambda size: int(generator.integers(size))}
    for place in places.values():
        found = lambda counts, *_, place=place: place(len(counts))  # noqa: E731
        of_columns = lambda columns, *_, found=found: np.array([*map(found, columns)])  # noqa: E731
        monkeypatch.setattr(choices, "first_at_most", of_columns)
        monkeypatch.setattr(BudgetShare, "first_at_most", lambda self, counts, *_, found=found: found(counts))
        for options in ({}, {"statistic": "clipped"}) if estimator != "ridge" else ({},):
            assert delivered(MAKERS[estimator](epsilon=30.0, delta=delta, **options), rows, monkeypatch)


LONG = "x" * 10_001
UNSAVABLE = {
    "a feature name": (pd.DataFrame({LONG: [0.2, 0.4], "b": [0.2, 0.4]}), None),
    "a name in the schema": (pd.DataFrame({LONG: [0.2, 0.4]}), Schema([Column(LONG, range=(0, 1))])),
    "a header of more than 4 MB": (pd.DataFrame({f"{LONG[:9000]}{i}": [0.2, 0.4] for i in range(470)}), None),
}


@pytest.mark.parametrize("table", UNSAVABLE)
@pytest.mark.parametrize("bounds", [{"norm_bound": 1.0}, {}], ids=["public bound", "private bound"])
def test_what_could_not_be_saved_is_refused_before_the_spend(table, bounds, tmp_path):
    rows, schema = UNSAVABLE[table]
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=9.0, data_set="study")
    model = PrivatePCA(1, ledger=ledger, schema=schema, **({} if schema else bounds))
    with pytest.raises(InvalidParameterError, match="nothing was spent") as caught:
        model.fit(rows)
    assert_one_sentence(caught.value)
    with pytest.raises(InvalidParameterError, match="nothing was spent"):
        model.partial_fit(rows).fit_moments()
    assert ledger.entries() == []
    assert not hasattr(model, "release_")


def test_the_gate_refuses_what_could_not_be_saved_before_the_spend(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=9.0, data_set="study")
    mechanism = MECHANISMS["matrix_laplace"](epsilon=1.0, n_features=2)
    for name in (LONG, "\ud800"):
        moments = SecondMoments(RowBound(1.0), 2, (name, "b")).update(np.ones((3, 2)))
        with pytest.raises(InvalidParameterError, match="nothing was spent"):
            release(mechanism, moments, ledger=ledger)
    assert ledger.entries() == []
    moments = SecondMoments(RowBound(1.0), 2, (LONG[1:], "b")).update(np.ones((3, 2)))  # the longest there may be
    drawn = release(mechanism, moments, ledger=ledger)
    assert load_release(drawn.save(tmp_path / "r.npz")).feature_names == (LONG[1:], "b")
