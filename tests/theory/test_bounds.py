"""The bounds of theory/: against independent evaluations, exact integrals and brute force."""

import math

import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from eigenveil import theory
from eigenveil.errors import InvalidParameterError
from eigenveil.theory.ours import NoiseBlocks, largest_singular, smallest_singular
from helpers import refused

JMLR = {"n_features": 10, "epsilon": 1.0, "gap": 0.5, "correlation": 0.9, "failure_probability": 0.05}
LOCAL = {
    "n_rows": 1e6,
    "n_features": 40,
    "n_components": 10,
    "epsilon": 0.5,
    "top_eigenvalue": 0.2,
    "kth_eigenvalue": 0.1,
    "next_eigenvalue": 0.05,
}
SPARSE = {**LOCAL, "sparsity": 30}
AMIN = {"epsilon_0": 1.0, "epsilons": [1.0], "eigenvalues": [1.0]}
LOSS = {"mechanism": "ppca", "eigenvalues": [0.5, 0.1], "n_components": 1, "n_rows": 9, "epsilon": 1.0}


def ppca_failure(d, strength, rho):
    """P(|u1| < rho) for a density proportional to exp(strength u1^2) on the sphere, by quadrature over the angle."""

    def mass(low, high):
        def density(angle):
            return math.exp(-strength * math.sin(angle) ** 2) * math.sin(angle) ** (d - 2)

        middle = low + (high - low) / 4
        return sum(
            scipy.integrate.quad(density, *ends, epsabs=0, epsrel=1e-9)[0] for ends in [(low, middle), (middle, high)]
        )

    angle = math.acos(rho)
    missed = mass(angle, math.pi / 2)
    return missed / (missed + mass(0, angle))


# Chaudhuri, Sarwate and Sinha


@pytest.mark.parametrize("rho", [0.05, 0.3, 0.7, 0.95])
@pytest.mark.parametrize("d", [2, 5, 20, 60])
def test_theorem_7_holds_for_the_exact_distribution(d, rho):
    """All eigenvalues but the first equal the second, so that d - 1 directions compete with it."""
    for eta in (0.2, 1e-3, 1e-8):
        for gap, top in ((1.0, 1.0), (0.1, 0.2), (0.1, 1.0)):
            setting = {**JMLR, "n_features": d, "gap": gap, "correlation": rho, "failure_probability": eta}
            sharp, printed = (theory.jmlr_theorem_7(**setting, top_eigenvalue=top, sharp=x) for x in (True, False))
            assert sharp < printed
            assert ppca_failure(d, sharp * gap / 2, rho) <= eta


def test_theorem_3_of_nips_is_false():
    setting = {"n_features": 15, "epsilon": 1.0, "gap": 1.0, "correlation": 0.1, "failure_probability": 1e-3}
    n = theory.nips_theorem_3(**setting)
    assert n == pytest.approx(30.95, abs=0.01)
    assert ppca_failure(15, n / 2, 0.1) == pytest.approx(8.12e-3, rel=1e-3)
    assert ppca_failure(15, 31 / 2, 0.1) == pytest.approx(8.01e-3, rel=1e-3)  # rows are whole numbers
    setting.update(n_features=20, failure_probability=1e-10)
    assert ppca_failure(20, theory.nips_theorem_3(**setting) / 2, 0.1) / 1e-10 == pytest.approx(456_186, rel=1e-3)


def test_theorem_7_by_an_independent_evaluation():
    with mpmath.workdps(40):
        d, epsilon, gap, rho, eta, top = 37, mpmath.mpf("0.3"), mpmath.mpf("0.02"), mpmath.mpf("0.97"), 0.01, 0.4
        expected = d / (epsilon * gap * (1 - rho))
        expected *= 4 * mpmath.log(1 / mpmath.mpf(eta)) / d + 2 * mpmath.log(8 * top / ((1 - rho**2) * gap))
    found = theory.jmlr_theorem_7(
        n_features=d, epsilon=0.3, gap=0.02, correlation=0.97, failure_probability=eta, top_eigenvalue=top
    )
    assert found == pytest.approx(float(expected), rel=1e-12)


def printed_room(d, **options):
    """Return 1 - phi of Theorem 8, read off the smallest rho for which it says something."""
    low, high = 0.5, 1 - 1e-15
    for _ in range(80):
        middle = (low + high) / 2
        says = theory.jmlr_theorem_8(n_features=d, epsilon=1.0, gap=0.1, correlation=middle, **options)
        low, high = (low, middle) if says else (middle, high)
    return 16 * (1 - high)


def test_theorem_8_has_the_numbers_of_the_text():
    assert printed_room(3) == pytest.approx(3.5e-5, rel=0.01)
    assert printed_room(100) == pytest.approx(0.12, abs=0.005)


@pytest.mark.parametrize("d", [5, 20, 100])
def test_theorem_8_corrected_has_the_packing_of_lemma_11(d):
    """ln(K - 1) = d needs K = (1 - phi^2)^(-(d-2)/2)/8 on the sphere of R^(d-1)."""
    phi = 1 - printed_room(d, corrected=True)
    assert math.log((1 - phi**2) ** (-(d - 2) / 2) / 8 - 1) == pytest.approx(d, rel=1e-4)
    phi = 1 - printed_room(d)
    assert math.log((1 - phi**2) ** (-(d - 2) / 2) / 8) < 0.8 * d


def test_the_packing_that_theorem_8_prints_does_not_exist_in_high_dimension():
    """The bound of Kabatyanskii and Levenshtein on the rate of codes, in nats; e^d + 1 lines have the rate 1."""

    def largest_rate(phi):
        sine = math.sqrt(1 - phi**2)
        high, low = (1 + sine) / (2 * sine), (1 - sine) / (2 * sine)
        return high * math.log(high) - low * math.log(low)

    limit = math.exp(-2)  # of x as d grows
    assert printed_room(5000) == pytest.approx(limit, rel=0.01)
    assert largest_rate(1 - limit) < 0.96
    assert largest_rate(math.sqrt(1 - limit)) > 1.1


def test_theorem_8_construction_has_the_gap_and_the_angles():
    rng = np.random.default_rng(1)
    d, gap, beta = 6, 0.4, 0.15
    w = rng.normal(size=(2, d - 1))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    m = math.sqrt(gap**2 - beta**2) / (1 - beta)
    tops = []
    for one in w:
        row = np.append(one, 1.0) / math.sqrt(2)
        A = beta * np.outer(row, row)
        A[-1, -1] += (1 - beta) * m
        values, vectors = np.linalg.eigh(A)
        assert values[-1] - values[-2] == pytest.approx(gap)
        tops.append(vectors[:, -1])
    phi = abs(w[0] @ w[1])
    assert 1 - abs(tops[0] @ tops[1]) >= (1 - phi) * beta**2 / (5 * gap**2)


def test_theorem_8_values_and_silence():
    setting = {"n_features": 100, "epsilon": 0.5, "gap": 0.1, "correlation": 0.9999}
    x = math.exp(-2 * (math.log(8) + 100) / 98)
    assert theory.jmlr_theorem_8(**setting) == pytest.approx(2000 * math.sqrt(x / 0.008))
    assert theory.jmlr_theorem_8(**{**setting, "correlation": 0.9945}) == 2000  # the 1 of the maximum
    assert 0 < theory.jmlr_theorem_8(**setting, corrected=True) < theory.jmlr_theorem_8(**setting)
    for silent in ({"correlation": 0.9}, {"gap": 0.6}, {"n_features": 2}):
        assert theory.jmlr_theorem_8(**{**setting, **silent}) == 0
    assert theory.jmlr_theorem_8(**{**setting, "n_features": 5000}) > 0  # exp(5000) does not overflow


def test_theorem_9_grows_as_it_says():
    setting = {"n_features": 100, "epsilon": 0.5, "delta": 0.01, "correlation": 0.9}
    value = theory.jmlr_theorem_9(**setting, constant=2.0, correlation_constant=3.0)
    assert value == pytest.approx(2 * 1000 * math.sqrt(math.log(1e4)) / 0.5 * 0.7)
    assert theory.jmlr_theorem_9(**setting, correlation_constant=20.0) == 0


@pytest.mark.parametrize(("d", "n", "epsilon"), [(2, 3, 0.1), (10, 50, 1), (50, 500, 1), (100, 700, 2), (1000, 3e4, 1)])
def test_theorem_15_against_a_grid_of_phi(d, n, epsilon):
    delta = 0.01
    beta = (d + 1) / (n * epsilon) * math.sqrt(2 * math.log((d * d + d) / (delta * 2 * math.sqrt(2 * math.pi))))
    beta += 1 / (n * math.sqrt(epsilon))
    low = max(
        1 / math.sqrt(2 * math.pi * d),
        math.sqrt(1 - math.exp(-2 * math.log(8 * d) / (d - 1))),
        math.sqrt(1 - math.exp(-(2 / beta**2 + math.log(256)) / (d - 1))),
    )
    phi = np.linspace(low, 1, 400_001)[1:-1]
    inner = 1 - (1 / beta**2 + math.log(2)) / ((d - 1) * np.log(1 / np.sqrt(1 - phi**2)) - math.log(8))
    brute = float(np.min(1 - (1 - phi) / 4 * inner**2))
    found = theory.jmlr_theorem_15(n_rows=n, n_features=d, epsilon=epsilon)
    assert found <= brute + 1e-12
    assert found == pytest.approx(brute, abs=1e-6)


def test_theorem_15_solved_for_rows():
    for d, rho in ((50, 0.95), (200, 0.9), (1000, 0.99)):
        setting = {"n_features": d, "epsilon": 0.7}
        n = theory.jmlr_theorem_15_rows(correlation=rho, **setting)
        assert theory.jmlr_theorem_15(n_rows=n, **setting) == pytest.approx(rho, abs=1e-9)
    assert theory.jmlr_theorem_15_rows(correlation=0.76, n_features=50, epsilon=1.0) == 0


def test_figure_1():
    rows = np.logspace(1, 9, 17)
    curves = theory.jmlr_figure_1(rows)
    assert len(curves) == 20
    for curve in curves.values():
        assert (np.diff(curve) >= -1e-12).all()
        assert 0.75 < curve[0] < 0.95
        assert curve[-1] == pytest.approx(1, abs=1e-3)
    for epsilon in (0.01, 1.0):  # wider data and stronger privacy need more rows
        reached = [int(np.argmax(curves[d, epsilon] > 0.98)) for d in (50, 100, 500, 1000)]
        assert reached == sorted(reached)
        assert reached[0] < reached[-1]
    assert np.argmax(curves[50, 0.01] > 0.98) > np.argmax(curves[50, 2.0] > 0.98)


# Jiang, Xie and Zhang


def test_jiang_theorem_5():
    assert theory.jiang_theorem_5(n_features=400)
    assert not theory.jiang_theorem_5(n_features=10)
    assert theory.jiang_theorem_5(n_features=10, corrected=True)
    assert not theory.jiang_theorem_5(n_features=400, l1_sensitivity=1.0, nuclear_sensitivity=1.0)


def top_projection(A, k):
    vectors = np.linalg.eigh(A)[1][:, -k:]
    return vectors @ vectors.T


@pytest.mark.parametrize("k", [1, 2, 3])
def test_jiang_theorem_6_is_true_though_its_proof_is_not(k):
    rng = np.random.default_rng(2)
    d, worst, worst_sharp = 6, 0.0, 0.0
    for _ in range(600):
        values = np.r_[rng.uniform(1, 1.5, k), rng.uniform(-0.5, 0, d - k)]
        values[0], values[k] = 1.0, 0.0  # a gap of exactly 1
        A = np.diag(values)
        W = rng.normal(size=(d, rng.integers(1, d + 1)))
        semidefinite = W @ W.T
        W = rng.normal(size=(d, d))
        # Noise that couples the two sides only is the worst kind.
        coupling = np.zeros((d, d))
        coupling[:k, k:] = rng.normal(size=(k, d - k))
        for noise in (W + W.T, coupling + coupling.T, semidefinite):
            noise = noise * rng.uniform(0.01, 0.5) / np.linalg.norm(noise, 2)
            norm = np.linalg.norm(noise, 2)
            distance = np.linalg.norm(top_projection(A + noise, k) - top_projection(A, k))
            worst = max(worst, distance / theory.jiang_theorem_6(noise_norm=norm, gap=1.0, n_components=k))
        noise = semidefinite * rng.uniform(0.01, 1) / np.linalg.norm(semidefinite, 2)
        norm = np.linalg.norm(noise, 2)
        distance = np.linalg.norm(top_projection(A + noise, k) - top_projection(A, k))
        bound = theory.jiang_theorem_6(noise_norm=norm, gap=1.0, n_components=k, sharp=True)
        worst_sharp = max(worst_sharp, distance / bound)
    assert worst <= 1 + 1e-9
    assert worst_sharp <= 1 + 1e-9


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.99])
def test_jiang_theorem_6_sharp_is_reached(ratio):
    """W = w u u' with u at the angle that turns diag(1, 0) most."""
    angles = np.linspace(0, math.pi, 20_001)
    u = np.array([np.cos(angles), np.sin(angles)])
    a, b, c = 1 + ratio * u[0] ** 2, ratio * u[0] * u[1], ratio * u[1] ** 2
    turned = np.abs(np.arctan2(2 * b, a - c)) / 2
    bound = theory.jiang_theorem_6(noise_norm=ratio, gap=1.0, sharp=True)
    assert math.sqrt(2) * np.sin(turned).max() == pytest.approx(bound, rel=1e-6)


def test_jiang_theorem_6_says_nothing_about_large_noise():
    assert theory.jiang_theorem_6(noise_norm=0.6, gap=1.0, n_components=2) == 2
    assert theory.jiang_theorem_6(noise_norm=1.1, gap=1.0, n_components=2, sharp=True) == 2


def test_jiang_theorem_7():
    theta = math.log(10 / 0.05)
    size = 11 + math.sqrt(2 * 11 * 12 * theta) + 20 * theta
    assert theory.jiang_theorem_7(**JMLR) == pytest.approx(3 * size / (2 * 0.19 * 0.5))
    assert theory.jiang_theorem_7(**JMLR, sharp=True) < theory.jiang_theorem_7(**JMLR) / 4
    low, lower = (theory.jiang_theorem_7(**{**JMLR, "correlation": rho}) for rho in (math.sqrt(0.5), 0.2))
    assert low == pytest.approx(lower)


def test_jiang_theorems_9_and_10_and_table_1():
    assert theory.jiang_theorem_9(n_features=8, epsilon=2.0, next_eigenvalue=5.0, constant=3.0) == pytest.approx(
        5 + 3 * 8 * math.log(8) / 2
    )
    sharp = theory.jiang_theorem_9(n_features=8, epsilon=2.0, failure_probability=0.1, sharp=True)
    assert sharp == pytest.approx(2 * 0.75 * (3 + math.sqrt(8) + math.sqrt(2 * math.log(10))) ** 2)
    assert theory.jiang_theorem_10(n_features=10, epsilon=0.5, n_components=4) == 12
    table = theory.jiang_table_1(n_features=100, n_rows=1000, epsilon=0.1)
    assert table == pytest.approx(
        {"laplace": 10.0, "sulq": 10 * math.log(100), "wishart": math.log(100), "gaussian": 0.1}
    )


# Wang and Xu; Amin et al.


def test_wang_xu_values():
    scale = 1 / (1e6 * 0.25 * 0.05**2)
    assert theory.wang_xu_theorem_1(**LOCAL) == pytest.approx(0.2 * 0.05 * 400 * scale)
    assert theory.wang_xu_theorem_2(**LOCAL, delta=1e-4) == pytest.approx(0.04 * 400 * math.log(1e4) * scale)
    assert theory.wang_xu_theorem_3(**SPARSE, constant=2.0) == pytest.approx(
        2 * 0.2 * 0.05 * 30 * (10 + math.log(40)) * scale
    )
    assert theory.wang_xu_theorem_4(**SPARSE) == pytest.approx(0.04 * 900 * math.log(40) * scale)
    assert theory.wang_xu_theorem_4(**SPARSE, delta=1e-4, corrected=True) == pytest.approx(
        2 * math.log(1.25e4) * 900 * math.log(40) * scale
    )


def test_wang_xu_lower_bounds_are_silent_outside_their_range():
    for outside in ({"epsilon": 0.6}, {"n_components": 9}, {"n_components": 31}):
        assert theory.wang_xu_theorem_1(**{**LOCAL, **outside}) == 0
    for outside in ({"epsilon": 0.6}, {"sparsity": 29}, {"n_components": 37, "sparsity": 40}):
        assert theory.wang_xu_theorem_3(**{**SPARSE, **outside}) == 0


def test_wang_xu_theorem_2_does_not_see_the_size_of_the_rows():
    """Smaller rows drown in the same noise: the printed bound stays, the corrected one falls back to k."""
    names = ("top_eigenvalue", "kth_eigenvalue", "next_eigenvalue")
    small = {**LOCAL, **{name: LOCAL[name] / 100 for name in names}, "n_rows": 1e8, "delta": 1e-4}
    large = {**LOCAL, "n_rows": 1e8, "delta": 1e-4}
    assert theory.wang_xu_theorem_2(**small) == pytest.approx(theory.wang_xu_theorem_2(**large))
    assert theory.wang_xu_theorem_2(**large, corrected=True) < 1
    assert theory.wang_xu_theorem_2(**small, corrected=True) == 10


def test_amin_theorem_2_is_smallest_at_the_split_of_the_paper():
    rng = np.random.default_rng(3)
    values = np.array([40.0, 9.0, 2.0, 0.1])
    weights = np.sqrt(1 / 0.3 + values)
    best = theory.amin_theorem_2(epsilon_0=0.3, epsilons=list(weights / weights.sum()), eigenvalues=list(values))
    assert best == pytest.approx(4 / 0.3 + 2 * weights.sum())
    for shares in rng.dirichlet(np.ones(4), size=200):
        assert theory.amin_theorem_2(epsilon_0=0.3, epsilons=list(shares), eigenvalues=list(values)) >= best


# Ours


def test_the_angle_lemma_by_brute_force():
    """tan(2 theta) <= 2 |R|/(gap + lambda_min(P) - lambda_max(Q)) for every noise, and reached by some."""
    rng = np.random.default_rng(4)
    reached = 0.0
    for _ in range(3000):
        d = int(rng.integers(2, 7))
        k = int(rng.integers(1, d))
        A = np.diag(np.r_[1 + rng.exponential(size=k), -rng.exponential(size=d - k)])
        A[0, 0], A[k, k] = 1.0, 0.0
        noise = rng.normal(size=(d, d)) * rng.uniform(0, 0.6)
        noise += noise.T
        closing = np.linalg.eigvalsh(noise[k:, k:])[-1] - np.linalg.eigvalsh(noise[:k, :k])[0]
        blocks = NoiseBlocks(closing, np.linalg.norm(noise[k:, :k], 2))
        squared_sine = np.linalg.norm(top_projection(A + noise, k) - top_projection(A, k), 2) ** 2
        bound = blocks.squared_sine(1.0)
        assert squared_sine <= bound + 1e-9
        reached = max(reached, squared_sine / bound if bound < 1 else 0)
    assert reached > 0.999


def test_block_sizes_and_their_inverse():
    blocks = NoiseBlocks(closing=3.0, turning=2.0)
    for rho in (0.75, 0.9, 0.999):
        assert 1 - blocks.squared_sine(blocks.gap_for(rho)) == pytest.approx(rho**2)
    assert blocks.gap_for(0.1) == blocks.gap_for(0.7) == 3
    assert blocks.squared_sine(3.0) == 1
    assert blocks.squared_sine(3.001) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(("mechanism", "delta"), [("matrix_laplace", 0.0), ("gaussian", 1e-6), ("mod_sulq", 0.01)])
def test_sample_size_and_guaranteed_correlation_agree(mechanism, delta):
    common = {"n_features": 30, "epsilon": 0.5, "delta": delta, "gap": 0.1, "failure_probability": 0.01}
    for k, adjacency in ((1, "replace_one"), (5, "replace_one"), (29, "add_or_remove_one")):
        setting = {**common, "n_components": k, "adjacency": adjacency}
        n = theory.sample_size(mechanism, **setting, correlation=0.95)
        assert theory.guaranteed_correlation(mechanism, **setting, n_rows=n) == pytest.approx(0.95)
        assert theory.guaranteed_correlation(mechanism, **setting, n_rows=n / 100) == 0


@pytest.mark.parametrize(("mechanism", "delta"), [("matrix_laplace", 0.0), ("gaussian", 1e-6)])
def test_sample_size_grows_with_everything_that_makes_it_harder(mechanism, delta):
    easy = {**JMLR, "delta": delta}
    n = theory.sample_size(mechanism, **easy)
    harder = [("n_features", 11), ("epsilon", 0.9), ("gap", 0.4), ("correlation", 0.91), ("failure_probability", 0.04)]
    for name, value in harder:
        assert theory.sample_size(mechanism, **{**easy, name: value}) > n


def test_our_bounds_are_sharp_as_the_correlation_nears_one():
    """n gap sin(theta) tends to the size of the noise beside v1: tau sqrt(d), for d large and eta fixed."""
    d, rho = 100_000, 1 - 1e-12
    setting = {"n_features": d, "epsilon": 1.0, "gap": 1.0, "correlation": rho, "failure_probability": 0.5}
    sine = math.sqrt(1 - rho**2)
    n = theory.sample_size("matrix_laplace", **setting)
    assert n * sine / math.sqrt(2 * d * (d + 1)) == pytest.approx(1, abs=0.02)
    n = theory.sample_size("gaussian", delta=1e-6, **setting)
    assert n * sine / math.sqrt(d) == pytest.approx(5.978 / math.sqrt(2), rel=0.01)


def test_pure_rate_of_ours_is_that_of_the_lower_bound():
    """d/(epsilon gap sqrt(1 - rho)): the ratio to the corrected Theorem 8 does not grow with d, nor as rho nears 1."""

    def ratio(d, epsilon, rho):
        setting = {"n_features": d, "epsilon": epsilon, "gap": 0.1, "correlation": rho}
        n = theory.sample_size("matrix_laplace", failure_probability=0.05, **setting)
        return n / theory.jmlr_theorem_8(**setting, corrected=True)

    ratios = [ratio(d, 0.1, 0.9999) for d in (100, 400, 1600, 6400)]
    assert 100 > ratios[0] > ratios[1] > ratios[2] > ratios[3] > 1
    assert ratio(100, 0.001, 0.9999) == pytest.approx(ratios[0])
    assert 0.9 * ratios[0] < ratio(100, 0.1, 1 - 1e-9) < ratios[0]


def test_expected_loss_formulas():
    values = [0.1, 0.5, 0.3, 0.1]  # any order
    setting = {"eigenvalues": values, "n_components": 2, "n_rows": 1000, "epsilon": 0.5}
    assert theory.expected_loss("ppca", **setting).loss == pytest.approx(4 / 500)
    assert theory.expected_loss("ppca", **setting, adjacency="add_or_remove_one").loss == pytest.approx(2 / 500)
    tau_squared = 5 * 21 / 12 / 500**2  # (d + 1)(2p + 1)/(p + 2), p = 10
    found = theory.expected_loss("matrix_laplace", **setting)
    assert found.loss == pytest.approx(tau_squared * (2 / 0.4 + 2 / 0.2))
    assert found.ratio == pytest.approx(2 * math.sqrt(tau_squared * 4) / 0.2)


def test_singular_values_of_vectors():
    assert largest_singular(1, 9, 0.5) == largest_singular(9, 1, 0.5) == 3.5
    assert largest_singular(4, 9, 0.5) == 5.5
    assert smallest_singular(9, 4, 0.5) == 0.5
    assert smallest_singular(4, 4, 0.5) == 0


@pytest.mark.parametrize(
    ("function", "good", "bad"),
    [
        (theory.jmlr_theorem_7, JMLR, {"gap": 0.0}),
        (theory.jmlr_theorem_7, JMLR, {"gap": 0.5, "top_eigenvalue": 0.4}),
        (theory.jmlr_theorem_7, JMLR, {"top_eigenvalue": 2.0}),
        (theory.nips_theorem_3, JMLR, {"correlation": 1.0}),
        (theory.jiang_theorem_7, JMLR, {"failure_probability": 0.0}),
        (theory.jiang_theorem_6, {"noise_norm": 0.1, "gap": 1.0}, {"n_components": 0}),
        (theory.wang_xu_theorem_1, LOCAL, {"kth_eigenvalue": 0.3}),
        (theory.wang_xu_theorem_2, {**LOCAL, "delta": 1e-4}, {"next_eigenvalue": 0.1}),
        (theory.wang_xu_theorem_3, SPARSE, {"sparsity": 41}),
        (theory.wang_xu_theorem_4, SPARSE, {"corrected": True}),
        (theory.amin_theorem_2, AMIN, {"eigenvalues": []}),
        (theory.amin_theorem_2, AMIN, {"eigenvalues": [math.nan]}),
        (theory.sample_size, {**JMLR, "mechanism": "matrix_laplace"}, {"mechanism": "ppca"}),
        (theory.sample_size, {**JMLR, "mechanism": "matrix_laplace"}, {"n_components": 10}),
        (theory.sample_size, {**JMLR, "mechanism": "matrix_laplace"}, {"delta": 1e-6}),
        (theory.sample_size, {**JMLR, "mechanism": "matrix_laplace"}, {"n_features": 2.5}),
        (theory.expected_loss, LOSS, {"eigenvalues": [0.5, 0.5]}),
        (theory.expected_loss, LOSS, {"mechanism": "random_projection"}),
    ],
)
def test_bad_input_is_refused(function, good, bad):
    function(**good)
    with refused(InvalidParameterError):
        function(**{**good, **bad})
