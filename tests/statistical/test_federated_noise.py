"""The noise of several sites by its distribution: in the sum, for every coalition, hidden in one contribution."""

import math

import numpy as np
import pytest
import scipy.stats

from eigenveil.accounting.calibration import summed_gaussians_excess
from eigenveil.federation import site
from eigenveil.federation.contributions import opened
from eigenveil.gate import pay_for_share
from eigenveil.mechanisms.federated import FEDERATED_MECHANISMS, LOW_DIGITS_SHARE
from eigenveil.sampling.randomness import secure_generator
from made_rounds import GAUSSIAN, contributions, drafted, joined, needs_cryptography, site_rows
from statistical.constants import ALPHA, EXACT_DRAWS, EXACT_FACTOR, N
from statistical.mechanisms import follows

GRID = 4**16
D, SITES, COLLUDING = 3, 5, 2
ZERO = np.zeros((D, D), np.int64)


def make(name, d=D, sites=SITES, colluding=COLLUDING, epsilon=1.0, **options):
    mechanism = FEDERATED_MECHANISMS[name]
    delta = 1e-6 if mechanism.needs_delta else 0.0
    return mechanism(epsilon=epsilon, delta=delta, n_features=d, n_sites=sites, n_colluding=colluding, **options)


def sums(mechanism, places, draws):
    """Return the noise that sites at some places add together, in units of C."""
    generator, zero = secure_generator(), np.zeros((mechanism.n_features,) * 2, np.int64)
    total = [sum(mechanism.site_draw(zero, GRID, 0, k, generator)["matrix"] for k in places) for _ in range(draws)]
    return np.array(total) / GRID


def beside(drawn):
    """Return all numbers beside the diagonal."""
    return drawn[:, *np.triu_indices(drawn.shape[1], 1)].ravel()


# The distribution of the sum.


def test_the_gaussian_sum_has_the_distribution_of_the_whole():
    mechanism = make("gaussian", d=60)
    drawn = sums(mechanism, range(SITES), 5)
    assert follows(drawn[:, range(60), range(60)], scipy.stats.norm(scale=mechanism.noise_scale()).cdf)
    assert follows(beside(drawn), scipy.stats.norm(scale=mechanism.off_diagonal_sd).cdf)
    # Controls: the noise of the central mechanism, the diagonal's beside it, and that of two sites fewer.
    assert not follows(beside(drawn), scipy.stats.norm(scale=mechanism.part.off_diagonal_sd).cdf)
    assert not follows(beside(drawn), scipy.stats.norm(scale=mechanism.noise_scale()).cdf)
    fewer = beside(sums(mechanism, range(SITES - 2), 5))
    assert not follows(fewer, scipy.stats.norm(scale=mechanism.off_diagonal_sd).cdf)


@pytest.mark.parametrize("name", FEDERATED_MECHANISMS)
def test_simulated_noise_is_that_of_all_sites(name):
    mechanism = make(name, d=10)
    drawn = beside(mechanism.simulated_noises(np.random.default_rng(0), 400))
    assert drawn.std() == pytest.approx(mechanism.off_diagonal_sd, rel=0.03)
    assert drawn.std() > 1.1 * mechanism.part.off_diagonal_sd  # the control: the noise of one data owner alone


def test_the_number_beside_the_gaussian_matrix_has_its_distribution():
    mechanism = make("gaussian", d=1)
    generator, zero = secure_generator(), np.zeros((1, 1), np.int64)
    draws = [
        sum(int(mechanism.site_draw(zero, GRID, 0, k, generator)["trace"]) for k in range(SITES)) for _ in range(400)
    ]
    assert follows(np.array(draws) / GRID, scipy.stats.norm(scale=mechanism.noise_scale()).cdf)
    # Control: as if every site had added the noise of all.
    assert not follows(np.array(draws) / GRID, scipy.stats.norm(scale=mechanism.noise_scale() * SITES).cdf)


def test_the_matrix_laplace_sum_has_the_spread_of_so_many_draws():
    mechanism = make("matrix_laplace", d=12)
    drawn = sums(mechanism, range(SITES), 150)
    spread = np.mean(beside(drawn) ** 2)
    assert mechanism.off_diagonal_sd**2 / EXACT_FACTOR < spread < mechanism.off_diagonal_sd**2 * EXACT_FACTOR
    assert spread > mechanism.part.off_diagonal_sd**2 * EXACT_FACTOR  # more than one draw has
    assert (drawn == drawn.transpose(0, 2, 1)).all()


def quadratic_forms(drawn):
    """Return u'Nu for one direction and the trace: two numbers whose mechanisms tell scale and shape."""
    u = np.array([1.0, -2.0, 2.0]) / 3
    return np.einsum("i,nij,j->n", u, drawn, u), np.trace(drawn, axis1=1, axis2=2)


def same_distribution(first, second):
    return scipy.stats.ks_2samp(first, second).pvalue > ALPHA


@pytest.mark.heavy
def test_the_matrix_laplace_sum_has_the_distribution_of_so_many_draws():
    mechanism = make("matrix_laplace")
    drawn = sums(mechanism, range(SITES), EXACT_DRAWS)
    generator = np.random.default_rng(0)
    expected = np.array([mechanism.noise(generator) for _ in range(EXACT_DRAWS)])
    wrong = np.array(
        [mechanism.part.noise(generator) for _ in range(EXACT_DRAWS)]
    )  # one draw only, as of one custodian
    for ours, theirs, others in zip(*map(quadratic_forms, (drawn, expected, wrong)), strict=True):
        assert same_distribution(ours, theirs)
        assert not same_distribution(ours, others)


def test_only_the_first_sites_draw_matrix_laplace_noise():
    mechanism = make("matrix_laplace", adjacency="add_or_remove_one")
    generator = secure_generator()
    for place in range(SITES):
        numbers = mechanism.site_draw(ZERO, GRID, 7, place, generator)
        assert bool(numbers["matrix"].any()) == (place <= COLLUDING)
        assert (int(numbers["count"]) == 7 * GRID) or place <= COLLUDING


def test_one_matrix_laplace_draw_has_its_distribution_and_uniform_digits_below():
    mechanism = make("matrix_laplace")
    generator = secure_generator()
    numbers = np.array([mechanism.site_draw(ZERO, GRID, 0, 0, generator)["matrix"] for _ in range(1_500)])
    reference = np.array([mechanism.part.noise(np.random.default_rng(k)) for k in range(EXACT_DRAWS)])
    for ours, theirs in zip(quadratic_forms(numbers / GRID), quadratic_forms(reference), strict=True):
        assert same_distribution(ours, theirs)
    s = mechanism.low_digits(GRID)
    assert s > 8
    low = (numbers[:, *np.triu_indices(D)].ravel() + 2 ** (s - 1)) % 2**s
    assert scipy.stats.chisquare(np.bincount(low >> (s - 6), minlength=64)).pvalue > ALPHA
    assert scipy.stats.chisquare(np.bincount(low & 63, minlength=64)).pvalue > ALPHA
    # Control: noise that was rounded to multiples of 2^s shows the digits of other sites' sums.
    rounded = (numbers[:, *np.triu_indices(D)].ravel() >> s << s) & 63
    assert scipy.stats.chisquare(np.bincount(rounded, minlength=64)).pvalue < ALPHA


def test_the_cost_of_low_digits_is_paid_for():
    for d in (1, 2, 10, 100, 1000):
        for bits in (8, 16, 20):
            mechanism, grid = make("matrix_laplace", d=d), 4**bits
            s = mechanism.low_digits(grid)
            assert s == 0 or d**1.5 * 2**s <= float(LOW_DIGITS_SHARE) * grid
    mechanism = make("matrix_laplace", epsilon=0.3)
    assert mechanism.part.epsilon * (1 + LOW_DIGITS_SHARE) <= 0.3
    # The worst change of floors on a small grid: all 2 x 2 changes of sums against the bound of nuclear norms.
    rng = np.random.default_rng(0)
    for _ in range(2_000):
        z, change, s = rng.integers(-500, 500, (2, 2)), rng.integers(-64, 64, (2, 2)), 3
        z, change = z + z.T, change + change.T
        moved = ((z + change) >> s) - (z >> s)
        extra = np.abs(np.linalg.eigvalsh(moved * 2.0**s - change)).sum()
        assert extra <= 2**1.5 * 2**s


# Coalitions.


@pytest.mark.parametrize("name", FEDERATED_MECHANISMS)
def test_what_is_left_without_colluding_sites_is_noise_enough(name):
    """The coalition takes its own noise off: what the others have added is that of the promise."""
    mechanism, draws = (make(name, d=60), 3) if name == "gaussian" else (make(name, d=12), 100)
    least = mechanism.part.off_diagonal_sd**2
    for coalition in ({0, 1}, {3, 4}, {0, 4}):
        honest = [k for k in range(SITES) if k not in coalition]
        assert np.mean(beside(sums(mechanism, honest, draws)) ** 2) > least / EXACT_FACTOR
    # Control: one more site that colludes leaves too little.
    assert np.mean(beside(sums(mechanism, [3, 4], draws)) ** 2) < least / EXACT_FACTOR


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
def test_the_promise_is_that_of_the_honest_part(adjacency):
    for name in FEDERATED_MECHANISMS:
        mechanism = make(name, adjacency=adjacency)
        assert mechanism.part.guarantee().epsilon <= mechanism.guarantee().epsilon == 1.0
        assert mechanism.part.adjacency == mechanism.adjacency
    gaussian = make("gaussian", adjacency=adjacency, d=40)
    honest = (SITES - COLLUDING) / SITES
    assert math.isclose(gaussian.noise_scale() ** 2 * honest, gaussian.part.noise_scale() ** 2, rel_tol=1e-12)
    assert math.isclose(gaussian.count_sd**2 * honest, gaussian.part.count_sd**2, rel_tol=1e-12)


def test_sums_of_discrete_gaussians_are_as_near_as_the_bound_says():
    """By convolution, on scales so small that the difference can be seen at all."""
    reach = np.arange(-60, 61)

    def discrete(scale):
        mass = np.exp(-(reach**2) / (2 * scale**2))
        return mass / mass.sum()

    for scale in (0.5, 0.6, 0.8):
        for terms in (2, 3, 6):
            total = discrete(scale)
            for _ in range(terms - 1):
                total = np.convolve(total, discrete(scale), mode="same")
            whole = discrete(scale * math.sqrt(terms))
            seen = np.abs(reach) <= 12
            far = np.abs(np.log(total[seen] / whole[seen])).max()
            exact = 10 * sum(math.exp(-2 * math.pi**2 * scale**2 * k / (k + 1)) for k in range(1, terms))
            assert far <= exact <= summed_gaussians_excess(terms, scale)
    # Control: at this scale they do differ, so that a bound of zero would be wrong.
    pair = np.convolve(discrete(0.5), discrete(0.5), mode="same")
    assert np.abs(np.log(pair[60] / discrete(math.sqrt(0.5))[60])) > 1e-3


# One contribution by itself.


def words_of(tmp_path, mechanism, masked, monkeypatch):
    agreed, keys = joined(drafted(2, d=40, **mechanism), tmp_path)
    if not masked:
        monkeypatch.setattr(site, "mask", lambda agreed, place, key, size: np.zeros(size, np.uint64))
    files = contributions(agreed, keys, tmp_path, site_rows(2, d=40))
    return [opened(agreed, file.read_bytes()).words for file in files.values()]


def uniform_bytes(words):
    """Return whether each of the eight bytes of the words is uniform, by a chi-square test each."""
    columns = words.astype("<u8").view(np.uint8).reshape(-1, 8).T
    tests = [scipy.stats.chisquare(np.bincount(column, minlength=256)).pvalue for column in columns]
    return min(tests) > ALPHA


@pytest.mark.parametrize(
    "mechanism", [GAUSSIAN, {"mechanism": "matrix_laplace"}], ids=lambda mechanism: mechanism["mechanism"]
)
def test_one_contribution_alone_is_uniform(tmp_path, mechanism, monkeypatch):
    needs_cryptography()
    for place in range(6):
        (tmp_path / f"{place}").mkdir()
    words = np.concatenate([
        word for place in range(3) for word in words_of(tmp_path / f"{place}", mechanism, True, monkeypatch)[:1]
    ])  # fmt: skip
    assert uniform_bytes(words)
    # Control: without masks it is not.
    plain = np.concatenate([
        word for place in range(3, 6) for word in words_of(tmp_path / f"{place}", mechanism, False, monkeypatch)[:1]
    ])  # fmt: skip
    assert not uniform_bytes(plain)


def test_masks_of_two_rounds_or_pairs_have_nothing_in_common(tmp_path):
    needs_cryptography()
    from eigenveil.federation import SiteKeys
    from eigenveil.federation.rounds import mask

    agreed, keys = joined(drafted(3), tmp_path)
    own = {name: SiteKeys.load(key) for name, key in keys.items()}
    drawn = [mask(agreed, place, own[name].agreement, N // 20) for place, name in enumerate(agreed.sites)]
    assert not sum(drawn).any()
    for words in (*drawn, drawn[0] - drawn[1], drawn[0] + drawn[1]):
        assert uniform_bytes(words)
    # The same keys for another round, which no site would use, have other streams.
    again = agreed.terms
    other = type(agreed)(again, agreed.members[:2] + agreed.members[2:], closed=False)
    assert not (mask(other, 0, own["site 0"].agreement, 100) == drawn[0][:100]).any()


def test_a_share_is_paid_for_with_the_mechanism_that_draws(tmp_path):
    needs_cryptography()
    agreed, _ = joined(drafted(3), tmp_path)
    moments = site.site_moments(agreed, site_rows(3)[0])
    assert pay_for_share(agreed.mechanism, moments, secure_generator(), None, "test").mechanism is agreed.mechanism
