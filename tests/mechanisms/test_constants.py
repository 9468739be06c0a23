"""The constants of each mechanism, checked against values computed another way."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from contract.catalogue import make, some_moments
from eigenveil import Adjacency, RowBound, SecondMoments, release
from eigenveil.accounting.calibration import discrete_gaussian_excess, gaussian_delta
from eigenveil.errors import CapacityError, InvalidParameterError
from eigenveil.mechanisms.wishart import adding_delta, removing_delta, wishart_delta
from eigenveil.sampling.randomness import seeded_generator


def gaussian_curve(mu, epsilon):
    """Hockey-stick divergence of N(0, 1) and N(mu, 1) by quadrature."""
    cut = epsilon / mu + mu / 2
    value, _ = scipy.integrate.quad(
        lambda x: scipy.stats.norm.pdf(x - mu) - math.exp(epsilon) * scipy.stats.norm.pdf(x), cut, cut + 12, epsabs=0
    )
    return value


def test_gaussian_constants():
    tight = make("gaussian")
    mu = math.sqrt(2) / tight.noise_scale()
    assert gaussian_delta(mu, 1.0) <= 1e-6 * 0.99
    assert gaussian_delta(mu, 1.0) == pytest.approx(1e-6 * 0.99, rel=1e-6)
    assert tight.off_diagonal_sd == tight.noise_scale() / math.sqrt(2)
    paper = make("gaussian", "paper")
    assert paper.noise_scale() == paper.off_diagonal_sd == math.sqrt(2 * math.log(1.25e6))
    assert paper.guarantee().epsilon == pytest.approx(1.1389, abs=1e-3)  # what it claims is 1
    assert gaussian_curve(math.sqrt(2) / paper.noise_scale(), paper.guarantee().epsilon) <= 1e-6


def test_discrete_and_rounded_gaussians_are_as_close_as_stated():
    """The chi-square bound 1/(140 s^4) behind `discrete_gaussian_excess`, by summation."""
    for scale in (100.0, 150.0, 400.0):
        x = np.arange(-40 * int(scale), 40 * int(scale) + 1)
        p = np.exp(-(x**2) / (2 * scale**2))
        p /= p.sum()
        q = scipy.stats.norm.cdf((x + 0.5) / scale) - scipy.stats.norm.cdf((x - 0.5) / scale)
        inside = np.abs(x) < 6 * scale  # beyond, the difference of distribution functions is rounding
        divergence = np.sum((q - p)[inside] ** 2 / p[inside])
        assert divergence <= 1 / (140 * scale**4)
        assert divergence >= 0.4 / (140 * scale**4)  # and the bound is not idle
        assert 0.5 * math.sqrt(divergence) <= discrete_gaussian_excess(0.0, 1, scale)
        # Half the root of n of them bounds the total variation, which is paid on both sides, once times e^epsilon.
        paid = (1 + math.exp(0.7)) * 0.5 * math.sqrt(9 / (140 * scale**4))
        assert 1 <= discrete_gaussian_excess(0.7, 9, scale) / paid < 1.05


def test_a_grid_too_coarse_for_discrete_noise_is_refused():
    moments = SecondMoments(RowBound(1.0, bits=4), 5).update(np.eye(5))
    with pytest.raises(CapacityError, match="coarse"):
        release(make("gaussian"), moments)


def test_mod_sulq_constants():
    d, epsilon, delta, n = 10, 0.1, 0.01, 1000
    mechanism = make("mod_sulq", d=d, epsilon=epsilon, delta=delta)
    beta = (d + 1) / (n * epsilon) * math.sqrt(2 * math.log((d * d + d) / (delta * 2 * math.sqrt(2 * math.pi)))) + 1 / (
        n * math.sqrt(epsilon)
    )
    assert mechanism.noise_scale() == pytest.approx(n * beta, rel=1e-12)
    exact = make("mod_sulq", d=d, epsilon=epsilon, delta=delta, beta="root").noise_scale() / n
    # The proof: epsilon = (2 (d + 1) gamma/n + 2/n^2)/(2 beta^2), gamma being beta times the root of the logarithm.
    gamma = exact * math.sqrt(2 * math.log((d * d + d) / (delta * 2 * math.sqrt(2 * math.pi))))
    assert (2 * (d + 1) * gamma / n + 2 / n**2) / (2 * exact**2) == pytest.approx(epsilon, rel=1e-12)
    assert 0.99 * beta < exact < beta
    large = make("mod_sulq", d=64, epsilon=1.0, delta=1e-6)
    assert large.guarantee().epsilon == pytest.approx(0.0104, abs=1e-4)  # a hundredth of the claim


@pytest.mark.parametrize("d", [1, 2, 7, 50])
def test_laplace_and_frobenius_constants(d):
    assert make("laplace", d=d, k=1).noise_scale() == pytest.approx(math.sqrt(d * (d + 3) / 2))
    assert make("laplace", adjacency="add_or_remove_one", d=d, k=1).noise_scale() == pytest.approx((d + 1) / 2 / 0.95)
    paper = make("laplace", "paper", d=d, k=1)
    assert paper.noise_scale() == 2 * d
    assert paper.guarantee().epsilon == pytest.approx(math.sqrt(d * (d + 3) / 2) / (2 * d))
    assert make("frobenius", d=d, k=1).noise_scale() == pytest.approx(math.sqrt(2))
    assert make("frobenius", "paper", d=d, k=1).guarantee().epsilon == 0.5
    balanced, p = make("matrix_laplace", d=d, k=1), d * (d + 1) / 2
    assert balanced.noise_scale() == 0.5
    assert balanced.off_diagonal_sd == pytest.approx(math.sqrt((d + 1) * (2 * p + 1) / (p + 2)))
    independent = make("matrix_laplace", "tight", d=d, k=1)
    assert independent.noise_scale() == 1.0
    assert independent.off_diagonal_sd == pytest.approx(math.sqrt(2 * (d + 1)))
    assert make("matrix_laplace", adjacency="add_or_remove_one", d=d, k=1).noise_scale() == pytest.approx(0.5 / 0.95)


# Wishart.


def divergence(first, second, epsilon):
    """Hockey-stick divergence of two densities on a fine grid."""
    x = np.linspace(0, 400, 2_000_001)
    return np.trapezoid(np.maximum(first(x) - math.exp(epsilon) * second(x), 0), x)


@pytest.mark.parametrize(("nu", "scale"), [(8.0, 1.0), (30.0, 0.7), (128.0, 0.396)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_wishart_deltas_are_the_divergences_of_the_scalar_mechanism(nu, scale, epsilon):
    without = scipy.stats.chi2(nu, scale=scale).pdf
    with_row = scipy.stats.chi2(nu, loc=1, scale=scale).pdf
    assert adding_delta(epsilon, nu, scale) == pytest.approx(divergence(without, with_row, epsilon), abs=1e-8)
    assert removing_delta(epsilon, nu, scale) == pytest.approx(divergence(with_row, without, epsilon), abs=1e-8)


def test_the_design_point_of_the_wishart_mechanism():
    # nu = 128, c = 0.396 at (1, 1e-6) for add/remove.
    assert wishart_delta(1.0, 128.0, 0.396, Adjacency.ADD_OR_REMOVE_ONE) == pytest.approx(1e-6, rel=0.05)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_wishart_calibration_is_met_and_the_release_is_positive_semidefinite(adjacency):
    mechanism = make("wishart", adjacency=adjacency, d=20)
    degrees, scale = mechanism.degrees_and_scale
    epsilon = float(mechanism.matrix_epsilon)
    assert wishart_delta(epsilon, degrees - 20 + 1, scale, adjacency) <= 1e-6
    assert wishart_delta(epsilon, degrees - 20 + 1, scale * 0.99, adjacency) > 1e-6
    assert degrees - 20 + 1 in np.rint(np.geomspace(4, 8192, 34))  # the excess that the scale was found for
    drawn = release(mechanism, some_moments(d=20, n=50)).integers["matrix"]
    assert np.linalg.eigvalsh(drawn.astype(float)).min() > 0


def test_the_published_wishart_betrays_a_unit_row():
    """The output is impossible under the neighbour with probability 1 - exp(-epsilon/3)."""
    epsilon, d, draws = 1.0, 4, 4000
    mechanism = make("wishart", "paper", d=d, epsilon=epsilon)
    rng = seeded_generator(11)
    x = np.eye(d)[0]
    betrayed = sum(np.linalg.eigvalsh(mechanism.noise(rng) - np.outer(x, x))[0] < 0 for _ in range(draws))
    expected = 1 - math.exp(-epsilon / 3)
    error = math.sqrt(expected * (1 - expected) / draws)
    assert abs(betrayed / draws - expected) < 7 * error
    assert mechanism.guarantee().delta == pytest.approx(expected)
    assert mechanism.guarantee().claimed == (1.0, 0.0)
    with pytest.raises(InvalidParameterError, match="allow_unsound"):
        make("wishart", "paper", d=d).__class__(epsilon=1.0, n_features=4, calibration="paper")


# Sampling mechanisms, by their densities on the circle.


def circle_density(C, strength, angles):
    u = np.stack([np.cos(angles), np.sin(angles)])
    log = strength * np.einsum("ia,ij,ja->a", u, C, u)
    weights = np.exp(log - log.max())
    return weights / weights.sum()


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_exponential_mechanism_meets_its_epsilon_and_not_much_less(adjacency):
    mechanism = make("ppca", adjacency=adjacency, d=2, k=1)
    angles = np.linspace(0, np.pi, 4001)
    worst = 0.0
    rng = np.random.default_rng(0)
    pairs = [(np.eye(2)[0], np.eye(2)[1])] + [tuple(rng.normal(size=(2, 2))) for _ in range(100)]
    for rest in (0.0, 1.0, 30.0):
        for x, y in pairs:
            x, y = (v / np.linalg.norm(v) for v in (x, y))
            base = rest * np.outer(y, y)
            other = np.outer(y, y) if adjacency is Adjacency.REPLACE_ONE else np.zeros((2, 2))
            first = circle_density(base + np.outer(x, x), mechanism.strength, angles)
            second = circle_density(base + other, mechanism.strength, angles)
            worst = max(worst, np.abs(np.log(first / second)).max())
    assert worst <= 1.0
    assert worst > 0.6  # epsilon is 1


def test_eigenvector_sampling_finds_the_directions_when_epsilon_is_large():
    for calibration in ("tight", "paper"):
        mechanism = make("eigenvector_sampling", calibration, d=6, k=6, epsilon=5e4)
        drawn = release(mechanism, some_moments(d=6, n=20_000), generator=seeded_generator(0))
        truth = release(make("none", d=6, k=6), some_moments(d=6, n=20_000))
        assert np.allclose(drawn.covariance, truth.covariance, atol=5e-3)
        assert np.allclose(np.abs(np.diag(drawn.components @ truth.components.T)), 1, atol=1e-2)


# The choice.
