"""Ridge from a release: least squares without noise, and no blow-up when the noise dominates."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine

from eigenveil.errors import InvalidParameterError
from eigenveil.postprocess import ridge_from_covariance, shrink
from eigenveil.postprocess.regression import shrunk_mean
from helpers import refused


def second_moment(X):
    X = X / np.abs(X).max(axis=0)
    X = X / np.linalg.norm(X, axis=1).max()
    return X.T @ X / len(X)


TRUTHS = {
    "wine": second_moment(load_wine().data),
    "diabetes": second_moment(np.column_stack(load_diabetes(return_X_y=True))),
}


def gaussian(d, sd):
    def draw(generator):
        entries = generator.standard_normal((d, d))
        return sd * (entries + entries.T) / np.sqrt(2)

    return draw


def true_r2(coef, truth):
    """R² of a prediction of the last column from all others."""
    residual = np.append(coef, -1.0)
    return 1 - residual @ truth @ residual / truth[-1, -1]


def sd_for(truth, ratio):
    return ratio * np.linalg.eigvalsh(truth)[-1] / (2 * np.sqrt(len(truth)))


def runs(name, ratio, repeats=8):
    truth = TRUTHS[name]
    d, draw = len(truth), gaussian(len(truth), sd_for(truth, ratio))
    generator = np.random.default_rng([d, round(1e6 * ratio)])
    ours, naive, reported = [], [], []
    for _ in range(repeats):
        release = truth + draw(generator)
        fit = ridge_from_covariance(release, d - 1, noise_draw=draw)
        ours.append(true_r2(fit.coef, truth))
        reported.append(fit.r2)
        plain = np.linalg.solve(release[:-1, :-1] + 1e-6 * np.eye(d - 1), release[:-1, -1])
        naive.append(true_r2(plain, truth))
    return np.array(ours), np.array(naive), np.array(reported)


@pytest.mark.parametrize("name", TRUTHS)
def test_without_noise_it_is_least_squares(name):
    truth = TRUTHS[name]
    d = len(truth)
    fit = ridge_from_covariance(truth, d - 1, noise_draw=gaussian(d, 1e-12))
    exact = np.linalg.solve(truth[:-1, :-1], truth[:-1, -1])
    np.testing.assert_allclose(fit.coef, exact, rtol=1e-4)
    assert fit.r2 == pytest.approx(true_r2(exact, truth), abs=1e-6)


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize(
    "ratio", [pytest.param(0.01, marks=pytest.mark.heavy), 0.1, 1.0, pytest.param(10.0, marks=pytest.mark.heavy)]
)
def test_it_does_not_blow_up_where_naive_ridge_does(name, ratio):
    ours, naive, reported = runs(name, ratio)
    # Single swamped fits may predict worse than 0 does, by less than 1 in all that was measured; naive ones by 100s.
    assert ours.min() > -2
    assert ours.mean() > naive.mean() - 0.01
    assert ((reported >= 0) & (reported <= 1)).all()


def test_control_naive_ridge_blows_up():
    assert runs("wine", 1.0)[1].min() < -1


def test_reported_r2_is_near_the_truth_when_the_noise_is_small():
    ours, _, reported = runs("wine", 0.001)
    np.testing.assert_allclose(reported, ours, atol=0.05)


def test_coefficients_vanish_as_the_noise_grows():
    truth = TRUTHS["wine"]
    d = len(truth)
    draw = gaussian(d, sd_for(truth, 1.0))
    # The same release, told that its noise is a thousand times larger: it must then believe nothing.
    release = truth + draw(np.random.default_rng(0))
    large = gaussian(d, sd_for(truth, 1000.0))
    sizes = [
        np.linalg.norm(ridge_from_covariance(release, 0, noise_draw=mechanism).coef) for mechanism in (draw, large)
    ]
    assert sizes[1] < 0.05 * sizes[0]
    assert ridge_from_covariance(release, 0, noise_draw=large).r2 == 0


def test_features_and_alpha_are_taken():
    truth = TRUTHS["wine"]
    draw = gaussian(len(truth), 1e-12)
    fit = ridge_from_covariance(truth, 3, [5, 0], noise_draw=draw, alpha=0.01)
    exact = np.linalg.solve(truth[np.ix_([5, 0], [5, 0])] + 0.01 * np.eye(2), truth[[5, 0], 3])
    np.testing.assert_allclose(fit.coef, exact, rtol=1e-6)
    assert (fit.alpha, fit.target, fit.features) == (0.01, 3, (5, 0))


@pytest.mark.parametrize("features", [[], [0], [1, 1], [9]])
def test_bad_features_are_refused(features):
    with refused(InvalidParameterError):
        ridge_from_covariance(np.eye(3), 0, features, noise_draw=gaussian(3, 0.1))


def test_the_second_pass_is_a_ridge_on_what_the_first_left_over():
    truth = TRUTHS["wine"]
    d = len(truth)
    draw = gaussian(d, sd_for(truth, 0.03))
    release = truth + draw(np.random.default_rng(1))
    fit = ridge_from_covariance(release, d - 1, noise_draw=draw)
    moment = shrink(release, draw).covariance
    X, y, ridge = moment[:-1, :-1], moment[:-1, -1], moment[:-1, :-1] + fit.alpha * np.eye(d - 1)
    first = np.linalg.solve(ridge, y)
    left_over = np.linalg.solve(ridge, y - X @ first)
    np.testing.assert_allclose(fit.coef, first + fit.evidence * np.linalg.solve(ridge, X @ left_over), rtol=1e-8)
    plain = ridge_from_covariance(release, d - 1, noise_draw=draw, alpha=fit.alpha)
    np.testing.assert_allclose(plain.coef, first, rtol=1e-8)
    assert 0.5 < fit.evidence == plain.evidence < 1


def test_boosting_gains_where_it_was_measured_to():
    truth = TRUTHS["wine"]
    d, draw = len(truth), gaussian(len(truth), sd_for(truth, 0.3))
    generator, gains = np.random.default_rng(2), []
    for _ in range(12):
        release = truth + draw(generator)
        boosted = ridge_from_covariance(release, d - 1, noise_draw=draw)
        plain = ridge_from_covariance(release, d - 1, noise_draw=draw, alpha=boosted.alpha)
        gains.append(true_r2(boosted.coef, truth) - true_r2(plain.coef, truth))
    assert np.mean(gains) > 3 * np.std(gains) / np.sqrt(len(gains))


def test_evidence_is_the_fitted_variance_against_that_of_noise():
    """Of independent noise of variance v on the border, the fitted variance is v times the sum of the weights."""
    truth, sd = np.diag([1.0, 0.5, 0.2, 1.0]), 1e-3
    truth[:3, 3] = truth[3, :3] = [0.01, 0.0, 0.0]
    fit = ridge_from_covariance(truth, 3, noise_draw=gaussian(4, sd), alpha=0.1)
    weights = np.array([1.0, 0.5, 0.2]) / (np.array([1.0, 0.5, 0.2]) + 0.1) ** 2
    by_chance, fitted = sd**2 * weights.sum(), weights[0] * 1e-4
    assert 1 - fit.evidence == pytest.approx(by_chance / fitted, rel=0.3)  # 100 draws
    assert fit.target_moment == 1
    assert fit.target_sd == pytest.approx(np.sqrt(2) * sd, rel=0.4)  # 100 draws


@pytest.mark.parametrize("border", [0.0, 0.5])
def test_no_relation_is_the_mean_and_no_variance_of_the_target_too(border):
    """Forced: nothing but noise on the border, or a target whose released variance is below 0."""
    release = np.eye(4)
    release[3, 3] = -1.0 if border else 1.0
    release[0, 3] = release[3, 0] = 0.01 * border
    fit = ridge_from_covariance(release, 3, noise_draw=gaussian(4, 0.1))
    assert not fit.coef.any()
    assert fit.r2 == 0
    assert fit.target_moment == release[3, 3]


def test_without_a_relation_half_of_the_fits_have_no_evidence_and_none_is_wild():
    truth, draw = np.diag([1.0, 0.7, 0.5, 0.3, 0.3]), gaussian(5, 0.05)
    generator = np.random.default_rng(4)
    fits = [ridge_from_covariance(truth + draw(generator), 4, noise_draw=draw) for _ in range(30)]
    assert 0.2 < np.mean([fit.evidence == 0 for fit in fits]) < 0.95
    assert 0 < np.mean([not fit.coef.any() for fit in fits]) < 0.6
    assert min(true_r2(fit.coef, truth) for fit in fits) > -0.3


def test_a_shrunk_mean_is_nearer_to_the_truth():
    """The error falls by half where the means are as large as their noise, and stays where they are larger."""
    generator = np.random.default_rng(5)
    for size, low, high in ((0.0, 0.0, 0.2), (1.0, 0.4, 0.75), (10.0, 0.9, 1.05)):
        means = size * generator.standard_normal((4000, 8))
        released = means + generator.standard_normal(means.shape)
        shrunk = np.array([shrunk_mean(row, 1.0) for row in released])
        assert low < np.mean((shrunk - means) ** 2) < high
    assert not shrunk_mean(np.zeros(3), 0.0).any()
