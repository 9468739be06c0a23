"""Fits as OpenDP measurements: their maps, and what its compositors, odometers and contexts do with them."""

import math

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA, Release
from eigenveil.errors import InvalidParameterError
from helpers import refused

dp = pytest.importorskip("opendp.prelude", reason="needs the extra opendp")
from eigenveil.interop.opendp import measurement  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # noise may be large by chance
ROWS = np.random.default_rng(0).normal(size=(500, 3)) / 3
SYMMETRIC = {"adjacency": "add_or_remove_one"}
PURE, APPROXIMATE, ZCDP = (
    dp.max_divergence(),
    dp.approximate(dp.max_divergence()),
    dp.zero_concentrated_divergence(),
)


@pytest.fixture(autouse=True)
def features():
    dp.enable_features("contrib", "honest-but-curious")


def made(*, metric=None, measure=None, n_rows=500, **parameters):
    model = PrivatePCA(1, **{"epsilon": 0.75, "norm_bound": 1.0, **parameters})
    return measurement(model, 3, None if parameters.get("adjacency") else n_rows, metric=metric, measure=measure)


def too_much(call):
    with pytest.raises(dp.OpenDPException):
        call()


def test_a_call_is_a_release_with_the_stated_guarantee():
    fit = made()
    drawn = fit(ROWS)
    assert isinstance(drawn, Release)
    assert drawn.guarantee.epsilon == fit.map(1) == 0.75
    assert not np.array_equal(fit(ROWS).integers["matrix"], drawn.integers["matrix"])
    assert not fit(ROWS).guarantee.assumptions  # calls do not warn of one another: OpenDP counts them


@pytest.mark.parametrize("parameters", [{}, SYMMETRIC], ids=["replace", "add_or_remove"])
def test_the_pure_map_counts_rows(parameters):
    fit = made(**parameters)
    assert [fit.map(k) for k in (0, 1, 3)] == [0.0, 0.75, 2.25]
    assert fit(ROWS).guarantee.epsilon <= 0.75


def test_the_map_of_a_gaussian_release_in_both_measures():
    gaussian = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "gaussian"}
    fit = made(**gaussian)
    assert fit.map(1) == (1.0, 1e-6)
    epsilon, delta = fit.map(3)
    assert epsilon == 3.0
    assert delta == pytest.approx(1e-6 * (1 + math.e + math.e**2))
    concentrated = made(**gaussian, measure=ZCDP)
    rho = fit(ROWS).guarantee.rho
    assert concentrated.map(1) == pytest.approx(rho)
    assert concentrated.map(3) == pytest.approx(9 * rho)
    assert made(measure=ZCDP).map(1) == pytest.approx(0.75**2 / 2)
    assert made(measure=APPROXIMATE).map(2) == (1.5, 0.0)
    with refused(InvalidParameterError):
        made(**gaussian, measure=PURE)


def test_a_compositor_answers_what_was_paid_and_no_more():
    if not hasattr(dp.c, "make_adaptive_composition"):
        pytest.skip("this OpenDP has no adaptive composition")
    fit = made()
    compositor = dp.c.make_adaptive_composition(fit.input_domain, fit.input_metric, PURE, 1, [0.8, 0.75])
    assert compositor.map(1) == 1.55
    queryable = compositor(ROWS)
    assert queryable(fit).guarantee.epsilon == 0.75
    queryable(fit)
    too_much(lambda: queryable(fit))
    poor = dp.c.make_adaptive_composition(fit.input_domain, fit.input_metric, PURE, 1, [0.5])(ROWS)
    too_much(lambda: poor(fit))


def test_a_context_answers_it():
    fit = made(epsilon=0.5)
    context = dp.Context.compositor(
        data=ROWS,
        privacy_unit=dp.unit_of(changes=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        domain=fit.input_domain,
        split_evenly_over=2,
    )
    for _ in range(2):
        assert context(fit).components.shape == (1, 3)
    too_much(lambda: context(fit))


WRONG = {
    "rows": ROWS[:10],
    "columns": ROWS[:, :2],
    "type": ROWS.astype(np.float32),
    "dimensions": ROWS[0],
    "list": ROWS.tolist(),
}


@pytest.mark.parametrize("kind", WRONG)
def test_data_of_another_shape_are_refused(kind):
    with pytest.raises((dp.OpenDPException, TypeError), match=r"must (have|be)"):
        made()(WRONG[kind])


def test_a_private_number_of_rows_is_not_checked():
    fit = made(**SYMMETRIC, epsilon=9.0)
    for n in (100, 400):
        assert fit(ROWS[:n]).guarantee.epsilon == 9.0


@pytest.mark.parametrize(
    ("parameters", "metric", "holds"),
    [
        ({}, dp.change_one_distance(), True),
        ({}, dp.hamming_distance(), True),
        ({}, dp.symmetric_distance(), False),
        (SYMMETRIC, dp.symmetric_distance(), True),
        (SYMMETRIC, dp.insert_delete_distance(), True),
        (SYMMETRIC, dp.change_one_distance(), False),
        ({"norm_bound": None}, dp.hamming_distance(), True),
        ({"norm_bound": None}, dp.change_one_distance(), False),  # compares neighbouring rows: their order matters
    ],
)
def test_a_metric_for_which_the_guarantee_does_not_hold_is_refused(parameters, metric, holds):
    if holds:
        assert str(made(**parameters, metric=metric).input_metric) == str(metric)
    else:
        with refused(InvalidParameterError):
            made(**parameters, metric=metric)


def test_what_is_no_measurement_is_refused():
    for parameters in ({"random_state": 0}, {"n_rows": None}, {"privacy_unit": 0}, {"n_rows": 0}):
        with refused(InvalidParameterError):
            made(**parameters)
    with refused(InvalidParameterError):
        measurement(PrivatePCA(1, **SYMMETRIC, norm_bound=1.0), 3, 500)


def test_a_measurement_keeps_the_parameters_that_its_map_is_for():
    options = {"calibration": "tight"}
    model = PrivateCovariance(epsilon=0.5, norm_bound=1.0, center=False, mechanism="laplace", mechanism_options=options)
    fit = measurement(model, 3, 500)
    model.set_params(epsilon=50.0)
    options["calibration"] = "no such one"
    assert fit(ROWS).guarantee.epsilon == fit.map(1) == 0.5
