"""Least squares with intervals: limits of small noise, a slow search for the ends, bounds, signs, what is left out."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

from eigenveil.postprocess.entries import plain_error
from eigenveil.postprocess.least_squares import LeastSquares
from helpers import residual_covariance

P = 3


def moment(least=0.5, seed=0):
    """Return a second moment of three features and a target; the least variance of the features is given."""
    generator = np.random.default_rng(seed)
    axes = np.linalg.qr(generator.standard_normal((P, P)))[0]
    features = (axes * [least, 1.0, 2.0]) @ axes.T
    coef = np.array([1.0, -0.5, 0.25])
    covariance = features @ coef
    return np.block([[features, covariance[:, None]], [covariance, np.array([[coef @ covariance + 0.7]])]]), coef


def fitted(sd, least=0.5, **more):
    return LeastSquares(moment(least)[0], plain_error(P + 1, sd**2, level=0.95), **more)


def general_error(generator, sd):
    """Return an error with every term: a map, a mean in a constant, a free trace, a noisy number of rows."""
    root = np.eye(P + 1) + 0.3 * generator.standard_normal((P + 1, P + 1))
    lever, per_row = 0.5 * generator.standard_normal(P + 1), moment()[0]
    return replace(
        plain_error(P + 1, sd**2, level=0.95),
        traces=root @ root.T,
        lever=lever,
        shared=-0.3 * sd**2,
        per_row=per_row,
        count=0.5 * sd**2,
        count_shared=0.1 * sd**2,
    )


@pytest.mark.parametrize("sd", [1e-3, 0.1, 0.3])
def test_what_has_a_closed_form_without_a_map_is_the_same_with_an_even_one(sd):
    """Traces as a diagonal, and as a matrix of the same numbers, which takes the general way."""
    plain = replace(general_error(np.random.default_rng(3), sd), traces=np.full(P + 1, 1.7))
    mapped = replace(plain, traces=np.diag(plain.traces))
    fits = [LeastSquares(moment()[0], error) for error in (plain, mapped)]
    for weights in (*np.eye(P), np.array([1.0, 1.0, -2.0])):
        found = [fit.contrast(weights, bound=4.0) for fit in fits]
        for one, other in zip(*(vars(each).values() for each in found), strict=True):
            assert one == pytest.approx(other, rel=1e-6)
    assert fits[0].r2_interval(4.0) == pytest.approx(fits[1].r2_interval(4.0))
    assert plain.product_sizes(P) == pytest.approx(mapped.product_sizes(P))
    vector = np.arange(1.0, P + 2)
    assert plain.variance_along(vector) == pytest.approx(mapped.variance(np.outer(vector, vector)))
    assert plain.sizes.sum() == pytest.approx(np.trace(mapped.products))
    for one, other in zip(*(each.traces_along(np.eye(P + 1)[1:], 2) for each in (plain, mapped)), strict=True):
        assert one == pytest.approx(other)


def test_small_noise_gives_the_delta_method():
    """The interval is the estimate -+ 1.96 standard errors, up to the order of the noise."""
    for error in (plain_error(P + 1, 1e-8, level=0.95), general_error(np.random.default_rng(1), 1e-4)):
        fit = LeastSquares(moment()[0], error)
        assert fit.coef == pytest.approx(moment()[1], abs=1e-6)
        for weights in (*np.eye(P), np.array([1.0, 1.0, -2.0])):
            found = fit.contrast(weights)
            inverse = np.linalg.inv(moment()[0][:P, :P])
            covariance = inverse @ residual_covariance(error, np.append(-fit.coef, 1.0))[:P, :P] @ inverse
            assert found.noise_error == pytest.approx(np.sqrt(weights @ covariance @ weights), rel=1e-3)
            assert found.interval == pytest.approx(
                found.value + 1.959964 * found.noise_error * np.array([-1, 1]), abs=1e-6
            )
            assert found.resolved_share == 1
            assert found.sign_certain_up_to == np.inf


def test_sampling_is_that_of_ordinary_least_squares():
    fit = fitted(1e-7, per_row=1e-3, population=True)
    inverse = np.linalg.inv(moment()[0][:P, :P])
    for j, axis in enumerate(np.eye(P)):
        found = fit.contrast(axis)
        assert found.sampling_error == pytest.approx(np.sqrt(0.7e-3 * inverse[j, j]), rel=1e-3)
        assert np.diff(found.interval)[0] == pytest.approx(2 * 1.959964 * found.sampling_error, rel=1e-3)


@pytest.mark.parametrize("general", [False, True])
def test_the_ends_are_those_of_all_coefficients_that_noise_allows(general):
    """A search over coefficients: |score|^2 <= q times the variance of the noise along the score that moves c'b."""
    generator = np.random.default_rng(3)
    error = general_error(generator, 0.05) if general else plain_error(P + 1, 0.05**2, level=0.95)
    fit, c = LeastSquares(moment()[0], error), np.array([1.0, 0.5, 0.0])
    low, high = fit.contrast(c).interval
    G, kept = error.products[:P, :P], np.ones(P, bool)
    slope, level = fit._score(kept)
    back = np.linalg.inv(fit._vectors).T  # from the units of the directions to those of the features
    slope, level = back @ np.diag(slope) @ back.T, back @ level
    u = np.linalg.solve(slope, c)
    u /= np.sqrt(u @ G @ u)
    inverse = np.linalg.inv(G)

    def excess(b):
        score, towards = level - slope @ b, np.append(-b, 1.0)
        return score @ inverse @ score - 1.959964**2 * u @ residual_covariance(error, towards)[:P, :P] @ u

    for sign, end in ((1, low), (-1, high)):
        constraint = {"type": "ineq", "fun": lambda b: -1e3 * excess(b)}
        found = scipy.optimize.minimize(
            lambda b, sign=sign: sign * c @ b, fit.coef, constraints=constraint, method="SLSQP", tol=1e-10
        )
        assert found.success
        assert c @ found.x == pytest.approx(end, rel=1e-4)


def test_more_noise_gives_longer_intervals_until_there_are_none():
    widths = [np.diff(fitted(sd).contrast([1, 0, 0]).interval)[0] for sd in (0.01, 0.03, 0.06, 0.1, 0.3)]
    assert np.all(np.diff(widths[:4]) > 0)
    assert np.isinf(widths[4])
    assert not fitted(0.3).bounded


def test_a_bound_gives_nested_intervals_and_tells_up_to_where_the_sign_is_certain():
    fit = fitted(0.05, least=1e-3)
    assert not fit.bounded
    axes = np.linalg.eigh(moment(1e-3)[0][:P, :P])[1]
    seen = axes[:, 2] + 0.02 * axes[:, 0]  # nearly all of it in a direction that is resolved
    assert np.isinf(fit.contrast(seen).interval).all()
    assert fit.contrast(seen).resolved_share > 0.99
    assert fit.contrast(axes[:, 0]).resolved_share < 0.01
    ends = np.array([fit.contrast(seen, bound=bound).interval for bound in (0.1, 1.0, 3.0)])
    assert np.all(np.diff(ends[:, 0]) < 0)
    assert np.all(np.diff(ends[:, 1]) > 0)
    sure = fit.contrast(seen).sign_certain_up_to
    assert 0.1 < sure < np.inf
    assert (
        np.prod(fit.contrast(seen, bound=0.999 * sure).interval)
        > 0
        > np.prod(fit.contrast(seen, bound=1.001 * sure).interval)
    )
    # Nothing but the bound is known of what is hidden, nor of anything where nothing is resolved.
    assert fitted(5.0).contrast(seen, bound=2.0).interval == pytest.approx(np.array([-2, 2]) * np.linalg.norm(seen))
    assert fit.contrast(axes[:, 0], bound=2.0).interval[1] > 1.9
    assert fitted(0.05).contrast(seen, bound=2.0).interval.tolist() == fitted(0.05).contrast(seen).interval.tolist()


def test_r2_has_a_lower_end_where_directions_are_hidden_and_an_upper_one_with_a_bound():
    fit, true = fitted(0.02, least=1e-3), 1 - 0.7 / moment(1e-3)[0][-1, -1]
    low, high = fit.r2_interval()
    assert 0.1 < low < true < high == 1
    assert low == fit.r2_interval(bound=0.5)[0]
    assert true < fit.r2_interval(bound=0.5)[1] < fit.r2_interval(bound=1.0)[1] <= 1
    assert fit.r2 == pytest.approx(true, abs=0.02)
    whole = fitted(1e-3)
    assert np.all(np.abs(whole.r2_interval() - whole.r2) < 0.01)
    assert fitted(1.0).r2_interval().tolist() == [0, 1]


def test_the_feature_to_leave_out_is_one_of_a_collinear_pair():
    A = np.eye(5)
    A[0, 1] = A[1, 0] = 0.9999
    A[4, :4] = A[:4, 4] = [0.5, 0.5, 0.3, 0.0]
    fit = LeastSquares(A, plain_error(5, 1e-4, level=0.95))
    assert not fit.bounded
    hidden = fit.hidden_features()
    assert len(hidden) == 1
    assert hidden[0] in (0, 1)
    fewer = fit.of([feature for feature in range(4) if feature not in hidden])
    assert fewer.bounded
    assert fewer.coef == pytest.approx([0.5, 0.3, 0.0], abs=0.01)
    assert fit.contrast([1, 1, 0, 0], bound=5.0).interval[0] > 0.3
    assert LeastSquares(A, plain_error(5, 1.0, level=0.95)).hidden_features() == [0, 1, 2, 3]
