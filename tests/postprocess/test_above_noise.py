"""`n_components="above_noise"`: more components than there are at most once in twenty times; the control sees that."""

import numpy as np
import pytest

from eigenveil import PrivatePCA, load_release
from eigenveil.errors import InvalidParameterError
from eigenveil.mechanisms import MECHANISMS
from eigenveil.postprocess import above_edges, sorted_eigh
from eigenveil.postprocess.noise_spectrum import edges_from_few_draws, levered_edges, simulated_edges

D, ALPHA = 8, 0.1
REPEATS, DRAWS = 300, 199
# Given one simulation of 199 draws the probability is of the mechanism Beta(20, 180), of mean 0.1 and sd 0.021; so 300
# answers are 30 on average with an sd of 8.3, and twice as many are 3.6 of these away.
MOST = 60


def answers(name, spikes, shrunk=1.0):
    """Return the answers for fresh noise on a matrix of these eigenvalues; the noise simulated may be made smaller."""
    mechanism = MECHANISMS[name](epsilon=1.0, delta=1e-6 if MECHANISMS[name].needs_delta else 0.0, n_features=D)
    rng = np.random.default_rng(8)
    simulated = np.stack([shrunk * mechanism.simulated_noise(rng) for _ in range(DRAWS)])
    truth = np.diag(np.array([*spikes, *[0.0] * (D - len(spikes))]) * mechanism.off_diagonal_sd)
    found = []
    for _ in range(REPEATS):
        values, rows = sorted_eigh(truth + mechanism.simulated_noise(rng))
        found.append(above_edges(values, simulated_edges(rows, simulated, ALPHA)).count)
    return np.array(found)


@pytest.mark.parametrize(("name", "spikes"), [("matrix_laplace", (200.0, 100.0)), ("gaussian", ())])
@pytest.mark.heavy
def test_more_than_the_rank_is_found_with_probability_alpha_at_most(name, spikes):
    found = answers(name, spikes)
    assert np.sum(found > len(spikes)) <= MOST
    assert np.sum(found > len(spikes)) > 10  # the quantile is not wasteful: pure noise is told from signal just so
    assert np.all(found >= len(spikes))  # and what is far above the noise is seen every time


def test_control_noise_taken_a_fifth_too_small_is_caught():
    assert np.sum(answers("gaussian", (), shrunk=1 / 1.2) > 0) > MOST


def test_edges_are_quantiles_of_largest_eigenvalues():
    rows = np.linalg.qr(np.random.default_rng(2).standard_normal((5, 5)))[0]
    noises = np.random.default_rng(3).standard_normal((39, 5, 5))
    noises += noises.swapaxes(1, 2).copy()
    found = [*simulated_edges(rows, noises)]
    for k, edge in zip((0, 1, 2, 2, 4), found, strict=True):  # each block serves until it is twice as small
        beside = rows[k:] @ noises @ rows[k:].T
        assert np.isclose(edge, np.sort(np.linalg.eigvalsh(beside)[:, -1])[37])  # of rank 0.95 (39 + 1)


@pytest.mark.parametrize("name", ["matrix_laplace", "gaussian"])
@pytest.mark.parametrize("d", [31, pytest.param(120, marks=pytest.mark.heavy)])
@pytest.mark.parametrize("square", [0.1, 4.0])
def test_edges_from_few_draws_are_passed_once_in_twenty_times_at_most(name, d, square):
    """Noise about a noisy mean, beside no component and beside one that takes half of it; control: edges too low."""
    mechanism = MECHANISMS[name](epsilon=1.0, delta=1e-6 if MECHANISMS[name].needs_delta else 0.0, n_features=d + 1)
    facts, times, at_once = mechanism.noise_facts(), 15, 20
    first = np.append(np.ones(d // 2), np.zeros(d - d // 2)) / np.sqrt(d // 2)
    mapping = np.column_stack([np.eye(d), -np.sqrt(square / d) * np.ones(d)])
    one = facts.diagonal_variance**0.5 * mechanism.noise_quantiles(0.98)[1] * mapping @ mapping.T
    rest = np.linalg.qr(np.column_stack([first, np.eye(d)[:, 1:]]))[0][:, 1:]
    rng, above, control = np.random.default_rng(5), [], []

    for _ in range(times):
        few = mapping @ facts.draws(rng, 3)[0] @ mapping.T
        edges = np.array([*edges_from_few_draws(np.stack([first, first]), few, one, facts.excess)])
        noise = mapping @ mechanism.simulated_noises(rng, at_once) @ mapping.T
        tops = np.stack([np.linalg.eigvalsh(each)[:, -1] for each in (noise, rest.T @ noise @ rest)], axis=1)
        above.append((tops > edges).mean(axis=0))
        control.append((tops > 0.7 * edges).mean(axis=0))
    most = 0.05 + 4 * 0.2179 / np.sqrt(times * at_once)
    assert (np.mean(above, axis=0) < most).all()
    assert (np.mean(control, axis=0) > most).all()


@pytest.mark.parametrize("name", ["matrix_laplace", "gaussian"])
@pytest.mark.parametrize(
    ("d", "square", "alpha"),
    [(31, 0.02, 0.05), (31, 0.5, 0.05), (31, 4.0, 0.01), pytest.param(120, 4.0, 0.01, marks=pytest.mark.heavy)],
)
def test_closed_edges_of_noise_about_a_noisy_mean_are_passed_once_in_twenty_times_at_most(name, d, square, alpha):
    """Beside no component and beside one that takes half of the mean; control: edges a quarter too low."""
    mechanism = MECHANISMS[name](epsilon=1.0, delta=1e-6 if MECHANISMS[name].needs_delta else 0.0, n_features=d + 1)
    facts, draws = mechanism.noise_facts(), 1000
    lever = np.sqrt(square / d) * np.ones(d)
    first = np.append(np.ones(d // 2), np.zeros(d - d // 2)) / np.sqrt(d // 2)
    mapping = np.column_stack([np.eye(d), -lever])
    rng, one = np.random.default_rng(5), facts.diagonal_variance**0.5 * mechanism.noise_quantiles(1 - 2 * alpha)[1]
    beside = np.linalg.qr(np.column_stack([first, np.eye(d)[:, 1:]]))[0][:, 1:]
    tops = []
    for _ in range(draws // 20):
        noise = mapping @ mechanism.simulated_noises(rng, 20) @ mapping.T
        tops += [*zip(*(np.linalg.eigvalsh(each)[:, -1] for each in (noise, beside.T @ noise @ beside)), strict=True)]
    edges = [*levered_edges(np.stack([first, first]), lever, d, facts.off_variance**0.5, one, facts.excess, alpha)]
    most = 0.05 + 4 * 0.2179 / np.sqrt(draws)
    assert (np.mean(np.array(tops) > edges, axis=0) < most).all()
    assert (np.mean(np.array(tops) > 0.75 * np.array(edges), axis=0) > most).all()


def test_an_estimator_finds_one_strong_direction_and_at_least_one_in_noise(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 6)) * 1e-3
    X[:, 0] += rng.normal(size=20_000)
    pca = PrivatePCA("above_noise", epsilon=2.0, norm_bound=3.0, random_state=1).fit(X)
    assert pca.n_components_ == 1
    assert abs(pca.components_[0, 0]) > 0.99
    pca.release_.save(tmp_path / "r.npz")
    assert load_release(tmp_path / "r.npz").components.shape == (1, 6)
    with pytest.warns(UserWarning, match="No component is distinguishable from noise"):
        nothing = PrivatePCA("above_noise", epsilon=0.1, norm_bound=3.0, random_state=1).fit(np.zeros((50, 6)))
    assert nothing.n_components_ >= 1


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # "swamps", where nothing is correlated
@pytest.mark.parametrize(
    "options",
    [pytest.param({"statistic": "clipped", "bounds": (-1.0, 1.0)}, marks=pytest.mark.heavy), {"statistic": "kendall"}],
)
def test_of_correlations_only_what_is_correlated_is_above_the_noise(options):
    # With noise far above what 20,000 rows are correlated by chance.
    options = options | {"epsilon": 0.1, "standardize": True}
    apart = np.random.default_rng(0).uniform(-1, 1, size=(20_000, 6))
    shared = apart.copy()
    shared[:, 1] = shared[:, 0]  # two features that say the same: eigenvalues 2, 1, 1, 1, 1, 0
    found = {}
    for name, rows in {"apart": apart, "shared": shared}.items():
        fits = [PrivatePCA("above_noise", random_state=seed, **options).fit(rows) for seed in range(12)]
        found[name] = np.array([pca.release_.spectrum.n_above_noise for pca in fits])
        assert all(pca.n_components_ == max(1, n) for pca, n in zip(fits, found[name], strict=True))
    # Each too many with probability 0.05 at most: more than five of twelve once in 100,000 times.
    assert np.sum(found["apart"] > 0) <= 5
    assert np.sum(found["shared"] > 1) <= 5
    assert np.all(found["shared"] >= 1)


def test_what_cannot_be_is_refused_before_it_is_paid_for():
    for mechanism in ("ppca", "eigenvector_sampling"):
        with pytest.raises(InvalidParameterError, match="number"):
            PrivatePCA("above_noise", mechanism=mechanism, norm_bound=1.0).plan(4)
    with pytest.raises(InvalidParameterError, match="above_noise"):
        PrivatePCA("mle", norm_bound=1.0).plan(4)
    with pytest.raises(InvalidParameterError, match="draws"):
        above_edges(np.ones(2), simulated_edges(np.eye(2), np.zeros((19, 2, 2)), alpha=0.01))
