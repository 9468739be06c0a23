"""From signs to correlations: the sine rule, its bias under noise, ties, constant columns, and what is refused."""

import math
import warnings

import numpy as np
import pytest
import scipy.special
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from eigenveil import PrivateCovariance, PrivatePCA, PrivateSparsePCA, RowBound, load_release
from eigenveil.errors import InvalidParameterError, NoiseWarning
from eigenveil.mechanisms import MECHANISMS
from eigenveil.metrics import captured_variance
from eigenveil.moments.comparisons import NeighbourDifferences, most_untied
from eigenveil.postprocess import shrink
from eigenveil.postprocess.correlations import correlation_from_signs, mean_cosine, untied_shares
from eigenveil.report import render_report
from helpers import moments_on, refused

HALF_PI = math.pi / 2


def correlated(n=20_000, seed=0):
    """Elliptical rows with heavy tails, in wildly different units and far from the origin."""
    rng = np.random.default_rng(seed)
    loadings = np.array([[2.0, 1.0, 1.0, 0.0, -1.0], [0.0, 0.0, 1.0, 2.0, 0.5]])
    scatter = loadings.T @ loadings + np.eye(5)
    rows = rng.multivariate_normal(np.zeros(5), scatter, n) / np.sqrt(rng.chisquare(3, size=(n, 1)) / 3)
    sizes = np.sqrt(np.diag(scatter))
    return rows * np.array([1e-8, 1.0, 1e3, 1e9, 5.0]) + 7.0, scatter / np.outer(sizes, sizes)


def test_correlations_of_elliptical_rows_in_any_units():
    rows, truth = correlated()
    model = PrivateCovariance(statistic="kendall", epsilon=2.0).fit(rows)
    assert np.abs(model.correlation_ - truth).max() < 0.06
    assert np.array_equal(model.correlation_, model.covariance_)
    assert (np.diag(model.correlation_) == 1).all()
    assert np.linalg.eigvalsh(model.correlation_).min() > -1e-12
    assert np.abs(np.corrcoef(rows.T) - truth).max() > 0  # heavy tails: Pearson's is there for comparison only
    kendall = model.release_.matrix.row_matrix
    assert np.allclose(np.sin(HALF_PI * kendall[np.triu_indices(5, 1)]), truth[np.triu_indices(5, 1)], atol=0.06)
    # Any increasing change of units changes no comparison, and so not a bit.
    other = PrivateCovariance(statistic="kendall", epsilon=2.0, random_state=1).fit(np.cbrt(rows))
    same = PrivateCovariance(statistic="kendall", epsilon=2.0, random_state=1).fit(rows)
    assert np.array_equal(other.release_.integers["matrix"], same.release_.integers["matrix"])


def test_components_are_those_of_standardized_rows():
    rng = np.random.default_rng(2)
    rows = rng.multivariate_normal(np.zeros(5), correlated(10)[1], 20_000) * 10.0 ** np.arange(5)
    wanted = PCA(2).fit(StandardScaler().fit_transform(rows))
    correlation = np.corrcoef(rows.T)
    model = PrivatePCA(2, statistic="kendall", epsilon=2.0).fit(rows)
    best = captured_variance(correlation, wanted.components_)
    assert captured_variance(correlation, model.components_) > 0.999 * best
    assert model.explained_variance_ == pytest.approx(wanted.explained_variance_, rel=0.03)
    assert model.explained_variance_ratio_ == pytest.approx(wanted.explained_variance_ratio_, rel=0.03)
    assert (model.explained_variance_interval_[:, 0] <= model.explained_variance_interval_[:, 1]).all()
    sparse = PrivateSparsePCA(1, statistic="kendall", epsilon=2.0).fit(rows)
    assert captured_variance(correlation, sparse.components_) > 0.9 * captured_variance(
        correlation, model.components_[:1]
    )


@pytest.mark.parametrize("mechanism", ["eigenvector_sampling", "none"])
def test_mechanisms_without_a_known_noise_give_a_correlation_too(mechanism):
    rows, truth = correlated()
    model = PrivatePCA(2, statistic="kendall", epsilon=30.0, mechanism=mechanism).fit(rows)
    assert np.abs(model.correlation_ - truth).max() < 0.1
    assert model.components_.shape == (2, 5)


def test_projections_are_refused_before_anything_is_spent(tmp_path):
    rows, _ = correlated(200)
    model = PrivatePCA(2, statistic="kendall", epsilon=20.0)
    with refused(InvalidParameterError):
        model.fit_transform(rows)
    assert not hasattr(model, "release_")
    model.fit(rows)
    for use in (model.transform, lambda X: model.inverse_transform(X[:, :2])):
        with refused(InvalidParameterError):
            use(rows)
    loaded = load_release(model.release_.save(tmp_path / "signs.npz"))
    assert loaded.origin.row_rule.comparisons == 8
    assert np.array_equal(loaded.components, model.components_)
    assert "correlation matrix" in render_report(loaded)


def balanced_cosine(d, t):
    """E cos(t N_ij) for the balanced mechanism at epsilon = 1, as docs/explanation/kendall.md derives it."""
    p, q = d * (d + 1) / 2, (d + 1) / 2
    nodes, weights = scipy.special.roots_genlaguerre(40, 2 * p)
    m = np.arange(60)
    logs = scipy.special.gammaln(q + m) - scipy.special.gammaln(q) - scipy.special.gammaln(m + 1)
    logs += scipy.special.gammaln(p + 1) - scipy.special.gammaln(p + 2 * m + 1)
    series = np.array([np.sum((-1.0) ** m * np.exp(logs + m * np.log((t * z) ** 2 / 4))) for z in nodes])
    return float(np.sum(weights * series**2) / np.sum(weights))


@pytest.mark.parametrize("sd", [0.2, 0.5])
@pytest.mark.parametrize("d", [2, 5])
def test_the_mean_cosine_of_the_noise(d, sd):
    """Against Fourier transforms of the distributions: exact for independent Wisharts, and near for balanced ones."""
    tight = MECHANISMS["matrix_laplace"](epsilon=1.0, n_features=d, calibration="tight")
    t = HALF_PI * sd / tight.off_diagonal_sd
    exact = (1 + (tight.noise_scale() * t) ** 2) ** -(d + 1)
    assert mean_cosine(HALF_PI * sd, tight.heaviness) == pytest.approx(exact, rel=1e-9)
    balanced = MECHANISMS["matrix_laplace"](epsilon=1.0, n_features=d)
    exact = balanced_cosine(d, HALF_PI * sd / balanced.off_diagonal_sd)
    assert mean_cosine(HALF_PI * sd, balanced.heaviness) == pytest.approx(exact, rel=0.002)
    # Control: a factor of 1.2 in the deviation is caught.
    assert mean_cosine(1.2 * HALF_PI * sd, balanced.heaviness) != pytest.approx(exact, rel=0.002)


@pytest.mark.parametrize("name", ["matrix_laplace", "laplace", "frobenius"])
def test_heaviness_and_tails_are_those_of_the_draws(name):
    """Against whole matrices; control: a factor of 1.2 in the deviation moves both."""
    mechanism = MECHANISMS[name](epsilon=1.0, n_features=4)
    generator = np.random.default_rng(2)
    noise = np.stack([mechanism.simulated_noise(generator) for _ in range(2000)])
    for entries, quantile in zip((noise[:, 0, 1], noise[:, 0, 0]), mechanism.noise_quantiles(0.95), strict=True):
        sizes = np.abs(entries) / np.sqrt(np.mean(entries**2))
        assert np.mean(sizes > quantile) == pytest.approx(0.05, abs=5 * 0.0049)
        assert np.mean(sizes > quantile / 1.2) > 0.05 + 5 * 0.0049
    sd = 1 / mechanism.off_diagonal_sd
    seen = float(np.mean(np.cos(sd * noise[:, 0, 1])))
    assert mean_cosine(1.0, mechanism.heaviness) == pytest.approx(seen, abs=0.03)
    assert mean_cosine(1.2, mechanism.heaviness) != pytest.approx(seen, abs=0.03)


def test_the_bias_of_a_sine_is_taken_away():
    """Mean over the noise of the estimate; control: without the factor it is too small by 20 %."""
    rng, sd, rho = np.random.default_rng(3), 0.3, 0.6
    tau = np.array([[1.0, math.asin(rho) / HALF_PI], [math.asin(rho) / HALF_PI, 1.0]])
    released = rng.normal(size=4000) * sd + tau[0, 1]
    cosine = mean_cosine(HALF_PI * sd)
    estimates = np.sin(HALF_PI * released) / cosine
    error = estimates.std() / math.sqrt(estimates.size)
    assert abs(estimates.mean() - rho) < 6 * error
    assert abs(estimates.mean() * cosine - rho) > 6 * error
    # The spread that intervals and shrinkage are told is that of the estimates.
    told = correlation_from_signs(tau, sd, spread=0.0)
    assert estimates.std() == pytest.approx(sd * told.noise_ratio[0, 1], rel=0.15)


def tied_rows(n=30_000):
    """Normal rows, one rounded to a few values, one of zeros and ones, one constant."""
    rng = np.random.default_rng(4)
    rows = rng.multivariate_normal(np.zeros(2), [[1.0, 0.8], [0.8, 1.0]], n)
    return np.column_stack([rows, np.round(rows[:, 0]), rows[:, 1] > 1.0, np.full(n, 3.0)])


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_ties_and_constant_columns(delta):
    rows = tied_rows()
    with pytest.warns(NoiseWarning, match="in feature x4, "):
        model = PrivateCovariance(statistic="kendall", epsilon=2.0, delta=delta, random_state=0).fit(rows)
    correlation = model.correlation_
    assert correlation[0, 1] == pytest.approx(0.8, abs=0.04)
    assert correlation[0, 2] > 0.9  # dividing by the released diagonal makes up for ties
    assert np.allclose(correlation[4], [0, 0, 0, 0, 1], atol=0.05)
    assert np.isfinite(correlation).all()
    kendall = model.release_.matrix.row_matrix
    signs = np.sign(rows[:10_000] - rows[10_000:20_000])
    weights = 5 / np.maximum(np.abs(signs).sum(axis=1), 3)  # those with more than three untied features count less
    assert np.diag(kendall) == pytest.approx(weights @ signs**2 / len(signs), abs=0.05)
    assert np.trace(kendall) < 5


def test_a_feature_that_is_told_by_name_and_all_columns_constant():
    import pandas as pd

    with pytest.warns(NoiseWarning, match="in feature wage, "):
        PrivateCovariance(statistic="kendall", epsilon=5.0, random_state=0).fit(
            pd.DataFrame({"age": np.random.default_rng(0).normal(size=5000), "wage": np.ones(5000)})
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        model = PrivatePCA(1, statistic="kendall", epsilon=5.0, random_state=0).fit(np.ones((5000, 3)))
        assert np.allclose(model.correlation_, np.eye(3), atol=0.05)


def test_large_noise_does_not_lose_features_without_ties():
    """Where the noise on the diagonal is 0.3, a diagonal of 1 is as good as sure to be one without ties."""
    signs = correlation_from_signs(np.eye(3) + np.diag([-0.4, 0.2, -1.0]), 0.2, spread=0.3)
    assert signs.undetermined == (2,)


def test_no_cliff_at_ties():
    """As one diagonal entry goes from 1.5 to -0.5, no correlation jumps; a rule that sets a column to 0 would."""
    d, sd = 10, 0.1
    tau = np.full((d, d), 0.4) + 0.6 * np.eye(d)
    found = []
    for entry in np.linspace(1.5, -0.5, 201):
        tau[0, 0] = entry
        found.append(correlation_from_signs(tau, sd).matrix[0, 1:])
    assert np.abs(np.diff(found, axis=0)).max() < 0.05
    assert found[0].min() > 0.5 > 0.05 > found[-1].max()


@pytest.mark.parametrize("spread", [0.05, 0.2, 0.8])
def test_shares_are_estimated_together(spread):
    """The error is below that of each entry by itself, cut to [0, 1]; without ties it is far below."""
    rng = np.random.default_rng(9)
    for shares, gain in ((np.ones(20), 2.0), (np.linspace(0.05, 1, 20), 1.0), (np.repeat([0.1, 1.0], 10), 0.85)):
        errors, alone = [], []
        for _ in range(300):
            noise = rng.normal(size=20)
            diagonal = shares + (noise - noise.mean()) * spread
            errors.append(np.square(untied_shares(diagonal, spread).shares - shares).mean())
            alone.append(np.square(np.clip(diagonal, 0, 1) - shares).mean())
        assert np.sqrt(np.mean(errors)) * gain < np.sqrt(np.mean(alone)) * 1.02, shares


def test_shares_may_be_larger_than_one_where_comparisons_are_shortened():
    """Features without ties beside others with many; the mean is 1 at most all the same."""
    certain = untied_shares(np.array([3.0, 0.5, 0.5, 0.0]), 0.0, 4.0)
    assert certain.shares.tolist() == [3.0, 0.5, 0.5, 0.0]
    assert untied_shares(np.array([5.0, 0.0, 0.0, 0.0]), 0.0, 4.0).shares[0] == pytest.approx(4.0, abs=0.3)
    assert untied_shares(np.full(4, 1.2), 0.1, 4.0).shares.tolist() == [1.0] * 4


def loss_of_rare_events(shortened, seed):
    """What components of 30 rare events lose, by a release of signs that are shortened or not."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(4000, 2)) @ np.repeat(np.eye(2), 15, axis=1)
    rows = (1.5 * scores + rng.normal(size=scores.shape) > 2.5) * 1.0
    correlation = np.corrcoef(rows.T)
    bound = RowBound(30**0.5, statistic="kendall", comparisons=8, most_untied=most_untied(30) if shortened else None)
    moments = moments_on(NeighbourDifferences(bound), bound, rows)
    model = PrivatePCA(2, statistic="kendall", epsilon=1.0, delta=1e-6, random_state=seed).fit_moments(moments)
    best = np.linalg.eigvalsh(correlation)[-2:].sum()
    return 1 - captured_variance(correlation, model.components_) / best


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_rare_events_lose_several_times_less_where_comparisons_are_shortened():
    losses = [np.mean([loss_of_rare_events(shortened, seed) for seed in range(5)]) for shortened in (True, False)]
    assert 0 < losses[0] * 2 < losses[1]


def test_pure_noise_is_reported():
    """In all fits but one of 20, on average; fewer than 12 of 20 would warn by chance once in 10^7 runs."""
    rng, warned = np.random.default_rng(6), 0
    for _ in range(20):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            PrivatePCA(1, statistic="kendall", epsilon=0.05, mechanism="gaussian", delta=1e-6).fit(
                rng.normal(size=(500, 5))
            )
        warned += any("No component is" in str(one.message) for one in caught)
    assert warned >= 12


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
@pytest.mark.parametrize("d", [1, 6])
def test_a_paid_release_of_undetermined_features_is_read_all_the_same(d):
    rare = (np.random.default_rng(0).random((5000, d)) < 0.02) * 1.0
    model = PrivateSparsePCA(1, epsilon=0.1, delta=1e-6, statistic="kendall", random_state=0).fit(rare)
    assert np.isfinite(model.components_).all()


def test_correlations_cut_by_large_noise_are_shrunk_all_the_same():
    """Entries were cut at 1, so noise of several times that is not in them; the control takes it as it is told."""
    rows = np.random.default_rng(0).normal(size=(300, 30))
    matrix = PrivateCovariance(statistic="kendall", epsilon=1.0, random_state=0).fit(rows).release_.matrix
    told = matrix.noise_sd**2
    assert told > 4
    as_told = shrink(matrix.scaled_matrix, told, matrix.noise_facts.excess, keep_trace=True).covariance
    lost, control = (np.linalg.norm(one - np.eye(30)) for one in (matrix.estimate.covariance, as_told))
    assert lost < 0.5 * control
