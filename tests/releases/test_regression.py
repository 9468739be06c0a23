"""Regressions from one release: contrasts, fitted means, several targets, base levels, and what is said of them."""

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivateRidge
from eigenveil.errors import InvalidParameterError
from eigenveil.tables.schema import Column, Schema
from helpers import refused

N, COEF = 20_000, np.array([1.0, -0.5, 0.0])


def table(seed=0, twin=False):
    """Return three features, with a near copy of the first one where asked for, and a target."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, size=(N, 3))
    y = 2 + X @ COEF + generator.uniform(-0.3, 0.3, N)
    copy = [X[:, 0] + generator.uniform(-0.01, 0.01, N)] if twin else []
    return np.column_stack([*X.T, *copy, y])


@pytest.fixture(scope="module")
def model():
    return PrivateCovariance(epsilon=20.0, bounds=(-4, 4), random_state=0).fit(table())


@pytest.fixture(scope="module")
def twins():
    return PrivateCovariance(epsilon=3.0, bounds=(-4, 4), random_state=0).fit(table(twin=True))


def test_least_squares_by_default_and_ridge_where_asked_for(model):
    fit, ridge = model.regress(3), model.regress(3, alpha=0.2)
    assert fit.alpha == 0 < ridge.alpha
    assert np.linalg.norm(ridge.coef) < np.linalg.norm(fit.coef)
    assert np.all(np.abs(fit.coef - COEF) < 6 * np.hypot(fit.noise_error, fit.sampling_error))
    assert fit.distinguishable[:2].all()
    assert fit.determined
    assert fit.reduced is None
    assert "ridge" in ridge.notes[0]
    assert np.all(fit.sampling_error > 0)
    population = model.regress(3, of="population")
    assert np.all(np.diff(population.coef_interval) > np.diff(fit.coef_interval))
    assert any("assumes independent rows" in note for note in population.notes)
    assert model.release_.regress(3).alpha > 0  # chosen from the noise


def test_contrasts_and_fitted_means_are_by_position_or_name():
    import pandas as pd

    frame = pd.DataFrame(table(), columns=["a", "b", "c", "y"])
    fit = PrivateCovariance(epsilon=20.0, bounds=(-4, 4), random_state=0).fit(frame).regress("y")
    by_name, by_place = fit.contrast({"a": 1.0, "b": 2.0}), fit.contrast([1.0, 2.0, 0.0])
    assert by_name.value == by_place.value
    assert abs(by_name.value) < 6 * np.hypot(by_name.noise_error, by_name.sampling_error)
    assert fit.contrast({"a": 1}).interval.tolist() == fit.coef_interval[0].tolist()
    at = fit.fitted_mean({"a": 1.0, "b": 0.0, "c": 0.0})
    assert abs(at.value - 3) < 6 * np.hypot(at.noise_error, at.sampling_error)
    assert at.value == pytest.approx(fit.intercept + fit.coef[0])
    mean = fit.fitted_mean([0.0, 0.0, 0.0])
    assert mean.noise_error == fit.intercept_error < at.noise_error
    for wrong in ({"z": 1.0}, [1.0], [np.nan, 0, 0]):
        with refused(InvalidParameterError):
            fit.contrast(wrong)
    with refused(InvalidParameterError):
        fit.fitted_mean({"a": 1.0})


def test_several_targets_are_a_tuple_and_no_target_is_a_feature(model):
    first, second = model.regress([2, 3])
    assert (first.target, second.target) == (2, 3)
    assert first.features == second.features == (0, 1)
    assert np.array_equal(second.coef, model.regress(3, [0, 1]).coef)
    with refused(InvalidParameterError):
        model.regress([2, 3], [0, 2])


def test_a_near_copy_leaves_a_regression_without_it(twins):
    fit = twins.regress(4)
    assert not fit.determined
    assert np.isinf(fit.coef_interval).all()
    assert np.isinf(fit.coef_interval).all()
    assert fit.resolved_share[1] > 0.9
    assert 0.2 < fit.resolved_share[0] < 0.8
    assert any("no finite confidence interval" in note for note in fit.notes)
    assert any("is negative if the part" in note for note in fit.notes)
    assert fit.dropped in ((0,), (3,))
    reduced, kept = fit.reduced, 3 - fit.dropped[0]
    assert reduced.determined
    assert reduced.features == tuple(feature for feature in range(4) if feature not in fit.dropped)
    assert reduced.notes[0].startswith(f"Regression without x{fit.dropped[0]}, whose variation beside the others")
    assert reduced.notes[1].startswith(f"The coefficient of x{kept} stands for that of x{kept} plus ")
    place = reduced.features.index(kept)
    assert abs(reduced.coef[place] - 1) < 6 * reduced.noise_error[place]
    # The choice has its price.
    plain = twins.regress(4, list(reduced.features))
    assert np.all(np.diff(reduced.coef_interval) > np.diff(plain.coef_interval))


def test_a_bound_is_never_set_and_is_said_where_given(twins):
    fit = twins.regress(4, bound=2.0)
    assert np.isfinite(fit.coef_interval).all()
    assert not fit.determined
    assert any("at most 2. This bound was given" in note for note in fit.notes)
    both = fit.contrast([1.0, 0.0, 0.0, 1.0])
    assert np.diff(both.interval) < np.diff(fit.coef_interval[0])
    assert both.interval.mean() == pytest.approx(1, abs=3 * np.diff(both.interval)[0])
    with refused(InvalidParameterError):
        twins.regress(4, bound=0.0)


def test_coefficients_of_a_category_are_differences_from_a_base_level():
    import pandas as pd

    generator = np.random.default_rng(1)
    kind = generator.choice(["a", "b", "c"], N)
    y = np.select([kind == "a", kind == "b"], [1.0, 2.0], 4.0) + generator.uniform(-0.5, 0.5, N)
    schema = Schema((Column("kind", "category", categories=("a", "b", "c")), Column("y", range=(0, 5))))
    frame = pd.DataFrame({"kind": kind, "y": y})
    model = PrivateCovariance(epsilon=20.0, schema=schema, random_state=0).fit(frame)
    fit = model.regress("y")
    assert fit.feature_names == ("kind=b", "kind=c")
    true = np.array([y[kind == level].mean() - y[kind == "a"].mean() for level in ("b", "c")])
    assert np.all(np.abs(fit.coef - true) < 6 * fit.noise_error)
    assert "The coefficients of kind are differences from the base level kind=a." in fit.notes
    assert fit.fitted_mean([1.0, 0.0]).value == pytest.approx(2, abs=0.1)
    other = model.regress("y", ["kind"], base={"kind": "c"})
    assert other.feature_names == ("kind=a", "kind=b")
    assert other.coef == pytest.approx([-3, -2], abs=0.1)
    whole = model.regress("y", base={})
    assert not whole.determined
    assert whole.reduced.notes[0] == "Regression without kind=a, the base level."
    assert whole.reduced.coef == pytest.approx(fit.coef)
    assert whole.reduced.coef_interval == pytest.approx(fit.coef_interval)  # a base level is no choice by the release
    for wrong in ({"kind": "z"}, {"y": "a"}):
        with refused(InvalidParameterError):
            model.regress("y", base=wrong)
    ridge = PrivateRidge(epsilon=20.0, schema=schema, target="y", random_state=0).fit(frame)
    assert ridge.coef_.shape == (3,)
    assert ridge.release_.regression.dropped == (0,)


def test_an_estimator_with_alpha_0_is_least_squares():
    rows = table()
    ridge = PrivateRidge(alpha=0, epsilon=20.0, bounds=(-4, 4), random_state=0).fit(rows[:, :3], rows[:, 3])
    assert ridge.alpha_ == 0
    assert ridge.coef_ == pytest.approx(ridge.release_.regress(3, alpha=0).coef)
    assert ridge.predict(np.zeros((1, 3))) == pytest.approx([2], abs=0.1)
    with refused(InvalidParameterError):
        PrivateRidge(alpha=-1.0, bounds=(-4, 4)).fit(rows[:, :3], rows[:, 3])
