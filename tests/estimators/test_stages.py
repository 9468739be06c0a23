"""Fits in stages: which are made, what they refuse before the spend, and releases that read themselves."""

import numpy as np
import pytest

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, PrivateRidge, load_release
from eigenveil.errors import CapacityError, InvalidDataError, InvalidParameterError
from eigenveil.estimators.split import PILOT_SHARE
from eigenveil.mechanisms.budget import MOST_WEIGHT
from eigenveil.postprocess.preconditioning import (
    MOST_RELATIVE_LOSS,
    PilotSpectrum,
    Preconditioner,
    best_preconditioner,
    forecast_loss,
    pilot_spectrum,
)
from eigenveil.releases.file import MEANS
from eigenveil.report import render_report
from helpers import left_for_the_matrix, refused

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # small tables, on purpose

GENERATOR = np.random.default_rng(8)
D = 20
STEEP = GENERATOR.normal(size=(5000, D)) * np.arange(1, D + 1) ** -1.5
MOVED = STEEP + 3.0
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
PLAIN = {**BUDGET, "statistic": "clipped", "center": False}


# Which stages there are, from public numbers.


def test_two_stages_of_rows_of_which_nothing_is_public_clip_them():
    for rows in (5000, 10**6):  # where rows would be compared, and where their ranges would be found
        plan = PrivatePCA(2, **BUDGET, stages=2).plan(D, rows)
        assert plan.most_rows.rule.statistic == "clipped"
        assert plan.most_rows.split.pilot > 0


def test_all_shares_add_up_to_at_most_one():
    for center in (False, True):
        for _, route in PrivateCovariance(**BUDGET, center=center).plan(D).routes:
            split = route.split
            assert split.ranges + split.norm < 1
            assert 0 < left_for_the_matrix(split) <= 1
            assert set(split.to_dict()) == {name for name, share in vars(split).items() if share}


# Refusals, all of them before the spend.


@pytest.mark.parametrize("stages", [0, 3, "two", None, True, 1.5])
def test_stages_that_are_none_are_refused(stages):
    with refused(InvalidParameterError):
        PrivatePCA(2, stages=stages).plan(D)


@pytest.mark.parametrize(
    "parameters",
    [
        {"delta": 0.0},
        {"adjacency": "add_or_remove_one"},
        {"statistic": "spatial_sign"},
        {"mechanism": "matrix_laplace", "delta": 0.0},
        {"norm_bound": 1e12},
    ],
)
def test_two_stages_that_cannot_be_are_refused(parameters, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=9.0, delta=0.1, data_set="rows")
    model = PrivatePCA(2, **BUDGET | {"stages": 2, "ledger": ledger} | parameters)
    with refused(InvalidParameterError):
        model.fit(STEEP)
    assert not ledger.entries()


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_rows_that_are_read_once_say_so():
    twice = PrivatePCA(2, **BUDGET, norm_bound=3.0, stages=2)
    with refused(InvalidParameterError) as info:
        twice.partial_fit(STEEP)
    assert "reads the rows twice" in str(info.value)
    once = PrivatePCA(2, **BUDGET, norm_bound=3.0, center=True)
    once.partial_fit(MOVED[:1000]).partial_fit(MOVED[1000:])
    moments = once._collected
    with refused(InvalidParameterError):
        twice.fit_moments(moments)
    collected = once.fit_moments()
    assert set(collected.release_.integers) == {"matrix", "trace"}
    assert collected.release_.origin.centred  # by the constant
    same = PrivatePCA(2, **BUDGET, norm_bound=3.0, center=True, stages=1).fit(MOVED)
    assert np.array_equal(same.components_, collected.components_)


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("norm_bound", [None, 16.0])
def test_a_mean_that_is_near_is_measured_once_and_one_that_is_far_twice(norm_bound, rounds):
    rows = np.random.default_rng(6).normal(size=(60_000, 4)) + (0.05 if rounds == 1 else 3.0)
    release = (
        PrivateCovariance(**BUDGET, statistic="clipped", center=True, mechanism="gaussian", norm_bound=norm_bound)
        .fit(rows)
        .release_
    )
    assert [name for name in MEANS if name in release.integers] == list(MEANS[:rounds])
    assert np.abs(release.mean - rows.mean(axis=0)).max() < 0.02
    assert np.abs(release.covariance - np.cov(rows.T)).max() < 0.05
    # A bound that is found is that of the rows about their mean, whatever was given for them before.
    assert 3.0 < release.origin.row_rule.norm < 6.0


@pytest.mark.parametrize(("times", "rounds"), [(1, 2), (10, 3), (1000, 4)])
def test_ranges_that_are_far_too_wide_take_further_rounds(times, rounds):
    """Where the middle of a wide range is far from the rows, each round comes several times nearer."""
    rows = np.random.default_rng(6).normal(size=(2000, 8))
    bounds = (-4.0 - 0.5 * times, 4.0 + 2.0 * times)
    release = PrivatePCA(2, **BUDGET, bounds=bounds).fit(rows).release_
    assert [name for name in MEANS if name in release.integers] == list(MEANS[:rounds])
    assert release.origin.row_rule.norm / release.scale[0] < 6  # about the middle of the range up to 2,000


def test_rows_that_are_not_numbers_are_refused_before_the_spend(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=9.0, delta=0.1, data_set="rows")
    rows = MOVED.copy()
    rows[7, 3] = np.nan
    for parameters in ({"center": True, "norm_bound": 9.0}, {"center": True}, {"stages": 2, "norm_bound": 9.0}):
        with refused(InvalidDataError):
            PrivatePCA(2, **BUDGET, ledger=ledger, **parameters).fit(rows)
    assert not ledger.entries()


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 10.0, 20.0])
def test_stages_fit_the_grid_wherever_one_release_does(epsilon):
    """What `auto` chooses must not refuse a budget that the appended constant could be released with."""
    for stages in (1, "auto"):
        PrivateCovariance(epsilon=epsilon, delta=1e-6, center=True, norm_bound=3.0, stages=stages).plan(D, 10**6)


# What comes of it.


def loss(components, truth):
    best = np.linalg.eigvalsh(truth)[-len(components) :].sum()
    return 1 - np.trace(components @ truth @ components.T) / best


@pytest.fixture(scope="module")
def releases():
    made = {
        "mean first": PrivatePCA(2, **BUDGET, center=True, stages="auto", norm_bound=16.0),
        "two stages": PrivateCovariance(**PLAIN, stages=2),
        "both": PrivatePCA(2, **BUDGET, center=True, stages=2),
        "ridge": PrivateRidge(target=0, **BUDGET, fit_intercept=True, stages=2, norm_bound=16.0),
        "scaled": PrivateCovariance(**BUDGET, center=True, bounds=(-20.0, 20.0), stages=2),
    }
    return {name: model.fit(MOVED if name != "two stages" else STEEP).release_ for name, model in made.items()}


@pytest.mark.parametrize("name", ["mean first", "two stages", "both", "ridge", "scaled"])
def test_a_release_reads_itself_from_its_file_too(name, releases, tmp_path):
    release = releases[name]
    again = load_release(release.save(tmp_path / "r.npz"))
    assert ("map" in again.integers) == (release.origin.row_rule.mapped_from is not None)
    for attribute in ("mean", "covariance", "components", "explained_variance"):
        assert np.array_equal(getattr(again, attribute), getattr(release, attribute)), attribute
    assert np.array_equal(again.transform(MOVED[:5]), release.transform(MOVED[:5]))
    assert np.array_equal(again.regress(0).coef, release.regress(0).coef)
    assert again.noise_sd == release.noise_sd
    assert again.origin == release.origin
    if name == "both":  # intervals take long
        assert np.array_equal(again.explained_variance_interval, release.explained_variance_interval)
        assert render_report(again) == render_report(release)


@pytest.mark.parametrize("name", ["mean first", "both", "ridge", "scaled"])
def test_the_mean_is_found_and_taken_off(name, releases):
    release = releases[name]
    assert release.matrix.centred
    assert not release.origin.centred
    assert release.integers["mean"].shape == (D,)
    assert np.abs(release.mean - MOVED.mean(axis=0)).max() < 0.2
    shift = (
        sum(release.integers[mean] * release.unit[mean] for mean in MEANS if mean in release.integers) / release.scale
    )
    assert release.mean == pytest.approx(shift)
    covariance = np.cov(MOVED.T, bias=True)
    assert np.linalg.norm(release.covariance - covariance) < 0.5 * np.linalg.norm(covariance)
    assert loss(release.components[:2], covariance) < 0.05


def test_a_mapped_release_is_mapped_back_and_so_is_its_noise(releases):
    release = releases["two stages"]
    P = release.integers["map"] * release.unit["map"]
    factors, basis = np.linalg.eigh(P)
    assert factors.max() == pytest.approx(1.0, abs=1e-5)
    assert factors.min() > 0.01
    mapped = (
        release.mechanism.second_moment(release.matrix.values, release.n_rows) * release.origin.row_rule.reach_squared
    )
    assert pytest.approx(mapped, abs=1e-9) == P @ release.matrix.scaled_matrix @ P
    generator = np.random.default_rng(1)
    draws = basis.T @ release.matrix.noise_draw(generator, 400) @ basis
    tau = release.mechanism.noise_sd(release.n_rows) * release.origin.row_rule.reach_squared
    upper = np.triu_indices(D, 1)
    ratio = draws.std(axis=0)[upper] / (tau / np.outer(factors, factors)[upper])
    assert 0.97 < ratio.mean() < 1.03
    assert 0.7 < ratio.min() < ratio.max() < 1.3
    spread = release.matrix.noise_draw(generator, 200)[:, *upper]
    assert np.sqrt(np.mean(spread**2)) == pytest.approx(release.noise_sd, rel=0.1)
    assert release.matrix.noise_is_mapped


def test_a_release_without_a_map_is_that_of_one_stage_in_all_but_its_unit():
    rows = GENERATOR.normal(size=(500, D))
    one, two = (PrivateCovariance(**PLAIN, norm_bound=8.0, stages=stages).fit(rows).release_ for stages in (1, 2))
    assert set(one.integers) == set(two.integers) == {"matrix", "trace"}
    weighed = PILOT_SHARE.limit_denominator(MOST_WEIGHT).denominator  # of the average of both
    assert two.unit["matrix"] == one.unit["matrix"] / weighed
    assert two.noise_sd == pytest.approx(one.noise_sd, rel=1e-9)
    assert two.origin.parameters == one.origin.parameters
    assert not two.matrix.noise_is_mapped


# The forecast.


def test_the_forecast_is_the_sum_over_pairs():
    variances, factors = np.array([4.0, 2.0, 0.5, 0.1]), np.array([0.5, 0.7, 1.0, 1.0])
    pilot = PilotSpectrum(variances, np.eye(4), 0.3, n_visible=3)
    by_hand = sum(
        (0.1 / (factors[i] * factors[j])) ** 2 / (variances[i] - variances[j]) for i in range(2) for j in range(2, 4)
    )
    assert forecast_loss(pilot, factors, 0.1, 2) == pytest.approx(by_hand)
    entries = [(i, j) for i in range(4) for j in range(4) if min(i, j) < 3]
    everything = sum((0.1 / (factors[i] * factors[j])) ** 2 for i, j in entries)
    assert forecast_loss(pilot, factors, 0.1, None) == pytest.approx(everything)


def test_a_map_is_chosen_only_where_it_promises_enough():
    pilot = pilot_spectrum(np.diag(np.arange(1.0, 101) ** -2), 1e-4)
    chosen = best_preconditioner(pilot, 3, 1e-4, 1.1e-4)
    assert chosen is not None
    assert chosen.relative_loss <= MOST_RELATIVE_LOSS
    assert chosen.is_good_enough(chosen.squared_reach)
    assert not chosen.is_good_enough(chosen.squared_reach * (MOST_RELATIVE_LOSS / chosen.relative_loss) ** 0.5 * 1.01)
    assert best_preconditioner(pilot, 3, 1e-4, 1e-2) is None
    assert best_preconditioner(pilot_spectrum(np.eye(50), 1.0), 3, 1.0, 1.0) is None  # nothing is visible
    assert Preconditioner(0.5, np.eye(2), 0.5, 0.4).is_good_enough(0.7)


def test_visible_variances_are_freed_of_their_bias():
    d, sd = 200, 0.01
    generator = np.random.default_rng(2)
    noise = generator.normal(size=(d, d)) * sd
    truth = np.append([1.0, 0.5], np.zeros(d - 2))
    pilot = pilot_spectrum(np.diag(truth) + (noise + noise.T) / np.sqrt(2), sd)
    assert pilot.n_visible == 2
    assert pilot.variances[:2] == pytest.approx([1.0, 0.5], abs=0.03)


def test_a_mechanism_that_auto_does_not_take_refuses_nothing():
    options = {"epsilon": 15.0, "delta": 1e-12, "center": True, "norm_bound": 1.0}  # too little noise for the grid
    whole, one = (PrivateCovariance(**options, stages=stages).plan(5).route(100).mechanism for stages in ("auto", 1))
    assert whole.parameters() == one.parameters()
    with refused(CapacityError):
        PrivateCovariance(**options, stages=2).plan(5)
