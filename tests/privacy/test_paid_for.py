"""What was planned and recorded is what draws: no plan, mechanism or moments can be changed on the way."""

import warnings

import numpy as np
import pytest

from eigenveil import (
    PrivacyLedger,
    PrivateCovariance,
    PrivatePCA,
    PrivateRidge,
    PrivateSparsePCA,
    RowBound,
    SecondMoments,
)
from eigenveil.errors import BudgetError, EigenveilError, InvalidDataError, InvalidParameterError
from eigenveil.estimators.parameters import Needs
from eigenveil.mechanisms import MECHANISMS

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # small tables, on purpose
ROWS = np.random.default_rng(0).normal(size=(300, 5))


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger.create(tmp_path / "ledger", epsilon=1000.0, delta=0.1, data_set="rows")


class Growing:
    """A source whose second reading has more rows than the first."""

    n_features, feature_names, n_rows_hint = 50, None, None

    def __init__(self):
        self.readings = 0

    def batches(self):
        self.readings += 1
        yield np.random.default_rng(0).normal(size=(400 if self.readings == 1 else 700, 50))


def test_the_mechanism_that_was_paid_for_draws_whatever_the_source_does(ledger, monkeypatch):
    # Lengths matter, or so few rows would be brought to unit length, and no choice paid.
    needs = Needs("PrivatePCA", matrix=False, lengths=True, n_directions=1)
    monkeypatch.setattr(PrivatePCA, "_needs", lambda self: needs)
    model = PrivatePCA(1, statistic="clipped", center=False, ledger=ledger)
    fitted = model.fit(Growing())
    few, many = (model.plan(50).route(n).mechanism.name for n in (400, 700))
    assert few == "ppca" != many
    assert fitted.mechanism_ == "ppca"
    assert ledger.entries()[0].guarantee == fitted.guarantee_


def test_a_plan_is_executed_by_the_parameters_that_made_it_alone(ledger):
    plan = PrivatePCA(1).plan(5)
    others = [PrivatePCA(1, epsilon=0.01), PrivatePCA(2), PrivateCovariance(), PrivateRidge(target=0), PrivatePCA(0.5)]
    for model in others:
        with pytest.raises(InvalidParameterError, match="other parameters"):
            model.set_params(ledger=ledger).fit(ROWS, plan=plan)
    assert ledger.entries() == []
    assert PrivatePCA(1, ledger=ledger, random_state=None).fit(ROWS, plan=plan).release_ is not None


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_cannot_be_changed(name):
    mechanism = MECHANISMS[name](epsilon=1.0, delta=1e-6 if MECHANISMS[name].needs_delta else 0.0, n_features=3)
    for attribute in ("epsilon", "delta", "adjacency", "n_features", "n_components", "calibration"):
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(mechanism, attribute, 7)


def test_moments_keep_their_rule_and_broken_ones_do_not_add():
    moments = SecondMoments(RowBound(1.0), 5).update(ROWS)
    with pytest.raises(AttributeError):
        moments.bound = RowBound(1.0, bits=2)
    with pytest.raises(AttributeError):
        moments.n_features = 4

    def interrupted():
        yield ROWS
        raise KeyboardInterrupt

    broken = SecondMoments(RowBound(1.0), 5)
    with pytest.raises(KeyboardInterrupt):
        broken.update_from(interrupted())
    for total in (lambda: moments + broken, lambda: broken + moments):
        with pytest.raises(InvalidDataError, match="broken off"):
            total()


def test_what_could_not_be_used_is_refused_before_it_is_paid_for(ledger):
    pairs = SecondMoments(RowBound(1.0, statistic="spatial_sign", comparisons=8), 5).update(np.eye(5))
    chain = {"accept_inexact": True, "updates": -1}
    attempts = [
        lambda: PrivateRidge(ledger=ledger).fit_moments(pairs),
        lambda: PrivatePCA(
            2, norm_bound=1.0, center=False, mechanism="ppca", mechanism_options=chain, ledger=ledger
        ).fit(ROWS),
        lambda: PrivatePCA(2, bounds=(0, 1), mechanism="eigenvector_sampling", epsilon=1e-18, ledger=ledger).fit(ROWS),
    ]
    for attempt in attempts:
        with pytest.raises(EigenveilError):
            attempt()
    assert ledger.entries() == []


def test_a_refused_spend_leaves_the_collected_rows(tmp_path):
    small = PrivacyLedger.create(tmp_path / "small", epsilon=0.1, data_set="rows")
    model = PrivatePCA(1, norm_bound=1.0, ledger=small).partial_fit(ROWS)
    with pytest.raises(BudgetError):
        model.fit_moments()
    assert model.set_params(ledger=None).fit_moments().n_samples_ == 300
    with pytest.raises(InvalidDataError, match="no moments"):
        model.fit_moments()


def test_a_paid_release_can_always_be_written(tmp_path):
    numbers = {"penalty": np.float32(0.1), "max_iter": np.int64(5), "tol": np.float64(0.1)}
    model = PrivateSparsePCA(np.int64(1), norm_bound=1.0, epsilon=50.0, **numbers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # five iterations do not converge
        model.fit(ROWS)
    assert model.release_.save(tmp_path / "r.npz").exists()
