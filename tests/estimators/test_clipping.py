"""How many rows a private bound leaves beyond it, and where rows of unit length take its place."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateSparsePCA, SecondMoments
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.estimators.plan import LEAST_ROWS, rows_beyond
from eigenveil.estimators.split import NORM_SHARE
from eigenveil.mechanisms import MECHANISMS
from eigenveil.moments import RowBound
from eigenveil.moments.row_rule import RowRule

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # small tables, on purpose
TENTH = Fraction(1, 10)
PLAIN = RowRule(1.0)


def gaussian(d, adjacency="replace_one"):
    return MECHANISMS["gaussian"](epsilon=1.0, delta=1e-6, n_features=d, adjacency=adjacency)


def rows(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_noise_and_search_decide_how_many_rows_are_clipped():
    """By hand: the noise is 4 tau d, a search of 1/10 takes 60 rows beyond the bound and 160 within it."""
    mechanism = gaussian(50)
    assert rows_beyond(mechanism, PLAIN, TENTH, 10**6) == int(4 * mechanism.off_diagonal_sd * 50)
    assert rows_beyond(mechanism, PLAIN, TENTH, 1000) == 500  # no more than half
    assert rows_beyond(mechanism, PLAIN, TENTH, 250) == 90  # 160 of them within
    few = gaussian(2)
    assert rows_beyond(few, PLAIN, TENTH, 10**6) == 60
    assert rows_beyond(few, PLAIN, TENTH, 200) == 40
    assert rows_beyond(few, PLAIN, TENTH, 100) == 0
    # The constant of a centred fit lengthens the rows, and with them the noise.
    centred = RowRule(1.0, constant=0.5)
    assert rows_beyond(mechanism, centred, TENTH, 10**6) == int(1.25 * 4 * mechanism.off_diagonal_sd * 50)


def test_where_the_number_of_rows_is_private_it_plays_no_role():
    mechanism = gaussian(50, "add_or_remove_one")
    assert len({rows_beyond(mechanism, PLAIN, TENTH, n) for n in (0, 10, 1000, 10**6)}) == 1


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_says_how_much_it_blurs(name):
    mechanism = MECHANISMS[name](
        epsilon=1.0, delta=1e-6 if MECHANISMS[name].needs_delta else 0.0, n_features=10, n_components=1
    )
    if mechanism.adds_noise:
        assert mechanism.equivalent_sd == mechanism.off_diagonal_sd
    elif mechanism.baseline:
        assert mechanism.equivalent_sd == 0
    else:
        # sqrt(d/2)/s; one direction of ppca blurs about as much as matrix noise of the same budget.
        assert mechanism.equivalent_sd == pytest.approx(math.sqrt(5) / mechanism.strength)
        assert (
            0.7
            < mechanism.equivalent_sd / MECHANISMS["matrix_laplace"](epsilon=1.0, n_features=10).off_diagonal_sd
            < 1.5
        )


# Rows of unit length.


def test_few_rows_are_brought_to_unit_length_and_nothing_is_spent_on_a_bound(tmp_path):
    model = PrivatePCA(2, epsilon=1.0, delta=1e-6, center=False)
    plan = model.plan(20)
    below, _ = next((rows, route) for rows, route in plan.routes if route.rule.statistic == "clipped")
    few = plan.route(below - 1)
    mechanism = few.mechanism
    assert mechanism.epsilon == 1.0
    assert below == math.ceil(8 * 20 * mechanism.off_diagonal_sd)
    assert few.choices == {}
    assert plan.route(below).choices.keys() == {"norm_bound"}
    assert plan.guarantee.epsilon == 1.0
    assert below in [one["from_rows"] for one in json.loads(json.dumps(plan.to_dict()))["routes"]]
    assert model.plan(20, n_rows=below - 1).most_rows.rule.statistic == "normalized"
    assert model.plan(20, n_rows=below).most_rows.rule.statistic == "clipped"
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=1.0, delta=1e-6, data_set="study")
    fitted = model.set_params(ledger=ledger).fit(100.0 * rows(below - 1, 20))
    assert fitted.release_.origin.row_rule.statistic == "normalized"
    assert fitted.release_.origin.chosen_privately == ()
    assert fitted.norm_bound_ == 1.0
    assert [entry.guarantee for entry in ledger.entries()] == [fitted.guarantee_]
    # The trace is that of rows of length 1.
    assert np.trace(fitted.release_.matrix.scaled_matrix) == pytest.approx(1, abs=0.2)
    more = PrivatePCA(2, epsilon=1.0, delta=1e-6, center=False).fit(rows(below, 20))
    assert more.release_.origin.row_rule.statistic == "clipped"


def test_lengths_that_matter_are_kept():
    origin = {"center": False}
    for model in (
        PrivateCovariance(**origin),
        PrivateRidge(target=0, fit_intercept=False),
        PrivatePCA(1, statistic="clipped"),
    ):
        assert model.plan(20).route(0).rule.statistic == "clipped"
    assert PrivatePCA(1, adjacency="add_or_remove_one", **origin).plan(20).route(0).rule.statistic == "clipped"
    assert PrivatePCA(1, norm_bound=1.0, **origin).plan(20).route(0).rule.statistic == "clipped"
    assert PrivateSparsePCA(1, **origin).plan(20).route(0).rule.statistic == "normalized"
    moments = SecondMoments(RowBound(1.0, statistic="normalized"), 3).update(rows(50, 3))
    with pytest.raises(InvalidParameterError, match="lengths"):
        PrivateRidge(target=0).fit_moments(moments)
    with pytest.raises(InvalidParameterError, match="directions"):
        PrivateCovariance().fit_moments(moments).regress(0)


def test_unit_rows_can_be_asked_for():
    unit = {"statistic": "normalized", "center": False}
    pca = PrivatePCA(1, epsilon=50.0, **unit)
    X = rows(2000, 3) * [5, 1, 1] * np.exp(3 * rows(2000, 1, seed=1))
    assert abs(pca.fit(X).components_[0, 0]) > 0.95
    parts = PrivatePCA(1, random_state=3, **unit).partial_fit(X[:7]).partial_fit(X[7:]).fit_moments()
    assert np.array_equal(parts.components_, PrivatePCA(1, random_state=3, **unit).fit(X).components_)
    with pytest.raises(InvalidParameterError, match="leave them out"):
        PrivatePCA(1, norm_bound=1.0, **unit).plan(3)


# Refusals.


def test_too_few_rows_to_find_a_bound_are_refused_before_the_spend(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=1.0, data_set="study")
    model = PrivateCovariance(statistic="clipped", ledger=ledger)
    least = math.ceil(LEAST_ROWS / NORM_SHARE)
    sentence = (
        rf"{least - 1} rows are too few.*Give a public norm_bound, or bounds, at least {least} rows, or an epsilon"
    )
    for attempt in (lambda: model.fit(rows(least - 1, 3)), lambda: model.plan(3, n_rows=least - 1)):
        with pytest.raises(InvalidDataError, match=sentence):
            attempt()
    assert ledger.entries() == []
    assert model.fit(rows(least, 3)).norm_bound_ > 0
    # Where the number of rows is private, it refuses nothing.
    assert PrivateCovariance(adjacency="add_or_remove_one").fit(rows(5, 3)).norm_bound_ > 0
