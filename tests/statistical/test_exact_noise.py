"""Exact noise has the distribution of the proof: against known ones, plain float samplers and a rejection sampler.

A change of a constant by 1.2 is caught. Slow paths are forced: they decide as floats do, and have the same
distribution.
"""

from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats

from eigenveil.mechanisms import MECHANISMS
from eigenveil.sampling import lazy
from eigenveil.sampling.certified import Interval
from eigenveil.sampling.matrices import public_shift, rounded_sum
from eigenveil.sampling.randomness import seeded_generator
from eigenveil.sampling.wishart import LazyBalancedDifference, LazyFrobenius, LazyWishart, LazyWishartDifference
from statistical.constants import ALPHA, EXACT_DRAWS, EXACT_FACTOR, SIGMAS
from statistical.mechanisms import folded, follows

GRID = 2**32
SCALE = 300.0  # of noise in units of the grid that it is rounded to

NOISES = {
    "balanced": lambda d, generator, scale=SCALE: LazyBalancedDifference(d, scale, generator),
    "difference": lambda d, generator, scale=SCALE: LazyWishartDifference(d, d + 1, scale, generator),
    "wishart": lambda d, generator, scale=SCALE: LazyWishart(d, d + 4, scale, generator),
    "frobenius": lambda d, generator, scale=SCALE: LazyFrobenius(d, scale, generator),
}
MECHANISM_CASES = {
    "matrix_laplace-replace_one": ("matrix_laplace", 0.0, "replace_one"),
    "matrix_laplace-add_remove": ("matrix_laplace", 0.0, "add_or_remove_one"),
    "frobenius": ("frobenius", 0.0, "replace_one"),
    "wishart": ("wishart", 1e-2, "replace_one"),
}


def made(name, delta, adjacency, d):
    return MECHANISMS[name](epsilon=1.3, delta=delta, n_features=d, adjacency=adjacency)


@cache
def exact_draws_of(case):
    """Return a mechanism and what leaves by it for C = 0, drawn once for all tests of it."""
    mechanism = made(*MECHANISM_CASES[case], d=3)
    return mechanism, exact_draws(mechanism, EXACT_DRAWS, 1)


def exact_draws(mechanism, size, seed):
    """Return what leaves for C = 0, in units of C."""
    generator, zero = seeded_generator(seed), np.zeros((mechanism.n_features,) * 2, np.int64)
    unit = mechanism.units(GRID, 1 / GRID)["matrix"]
    return np.array([mechanism.draw(zero, GRID, 1, generator)["matrix"] for _ in range(size)]) * unit


def float_draws(mechanism, size, seed):
    generator = seeded_generator(seed)
    return np.array([mechanism.noise(generator) for _ in range(size)])


def reference(mechanism, size, seed):
    """Return noise by plain NumPy, straight from the definition of the mechanism, many matrices at once."""
    generator, d, c = seeded_generator(seed), mechanism.n_features, mechanism.noise_scale()
    p = d * (d + 1) // 2
    if mechanism.name == "frobenius":
        numbers = np.triu(generator.standard_normal((size, d, d))) / np.sqrt(2)
        direction = numbers + np.swapaxes(numbers, 1, 2)
        direction[:, np.arange(d), np.arange(d)] /= np.sqrt(2)
        radius = generator.gamma(p, c, size) / np.linalg.norm(direction, axis=(1, 2))
        return direction * radius[:, None, None]
    if mechanism.name == "wishart":
        return scipy.stats.wishart(mechanism.degrees_and_scale[0], c * np.eye(d)).rvs(size, random_state=generator)
    factors = generator.standard_normal((2, size, d, d + 1))
    first, second = factors @ np.swapaxes(factors, 2, 3)
    if not getattr(mechanism, "balanced", False):
        return c * (first - second)
    first, second = (W / np.trace(W, axis1=1, axis2=2)[:, None, None] for W in (first, second))
    larger = generator.gamma(2 * p, 2 * c, size)
    smaller = larger * generator.random(size) ** (1 / p)
    signs = generator.choice([-1, 1], size)
    return signs[:, None, None] * (larger[:, None, None] * first - smaller[:, None, None] * second)


def functionals(noise):
    beside = noise[:, 0, -1] if noise.shape[1] > 1 else noise[:, 0, 0]
    return {
        "diagonal": noise[:, 0, 0],
        "beside": beside,
        "trace": np.trace(noise, axis1=1, axis2=2),
        "largest eigenvalue": np.linalg.eigvalsh(noise)[:, -1],
    }


def same_size(x, y):
    """Return whether two samples have the same mean size."""
    x, y = np.abs(x), np.abs(y)
    return abs(x.mean() - y.mean()) < SIGMAS * np.sqrt(x.var() / x.size + y.var() / y.size)


def differences(first, second):
    """Return the functionals whose mechanisms differ in two samples of matrices."""
    pairs = zip(functionals(first).items(), functionals(second).values(), strict=True)
    return [name for (name, x), y in pairs if scipy.stats.ks_2samp(x, y).pvalue <= ALPHA or not same_size(x, y)]


# In the default run test_wishart_has_its_degrees and test_noise_mechanisms.py hold these.
LONG = {"wishart", "matrix_laplace-add_remove"}


@pytest.mark.parametrize(
    "case", [case if case not in LONG else pytest.param(case, marks=pytest.mark.heavy) for case in MECHANISM_CASES]
)
def test_what_leaves_has_the_distribution_of_the_plain_sampler(case):
    mechanism, exact = exact_draws_of(case)
    plain = reference(mechanism, 10 * EXACT_DRAWS, 2)
    assert not differences(exact, plain)
    assert differences(EXACT_FACTOR * exact, plain) == list(functionals(plain))
    assert not differences(float_draws(mechanism, EXACT_DRAWS // 2, 3), plain)  # what post-processing simulates


def test_one_feature_is_the_laplace_distribution():
    mechanism = made("matrix_laplace", 0.0, "replace_one", d=1)
    sample, cdf = exact_draws(mechanism, EXACT_DRAWS, 3), scipy.stats.laplace(scale=1 / 1.3).cdf
    assert follows(sample, cdf)
    assert follows(np.abs(sample), folded(cdf))
    assert not follows(EXACT_FACTOR * np.abs(sample), folded(cdf))
    assert mechanism.off_diagonal_sd == pytest.approx(np.sqrt(2) / 1.3)


def rejected_pairs(epsilon, d, size, generator):
    """Return W1 - W2 of the joint density exp(-epsilon max(tr W1, tr W2)), by rejection from a product mechanism."""
    factors = generator.standard_normal((2, size, d, d + 1)) / np.sqrt(epsilon)
    first, second = factors @ np.swapaxes(factors, 2, 3)  # density exp(-epsilon tr W/2) each
    gap = np.abs(np.trace(first, axis1=1, axis2=2) - np.trace(second, axis1=1, axis2=2))
    return (first - second)[generator.random(size) < np.exp(-epsilon * gap / 2)]


def test_the_balanced_mechanism_is_its_joint_density():
    mechanism = made("matrix_laplace", 0.0, "replace_one", d=2)
    naive = rejected_pairs(1.3, 2, 20 * EXACT_DRAWS, seeded_generator(4))
    assert len(naive) > 2 * EXACT_DRAWS
    exact = exact_draws(mechanism, EXACT_DRAWS, 5)
    assert not differences(exact, naive)
    assert not differences(reference(mechanism, 20 * EXACT_DRAWS, 6), naive)
    independent = MECHANISMS["matrix_laplace"](epsilon=1.3, n_features=2, calibration="tight")
    assert differences(reference(independent, 20 * EXACT_DRAWS, 6), naive)  # its traces are not balanced


@pytest.mark.parametrize("d", [1, 2, 6])
def test_the_moments_of_the_balanced_mechanism(d):
    mechanism, p = made("matrix_laplace", 0.0, "replace_one", d=d), d * (d + 1) / 2
    noise = reference(mechanism, 40 * EXACT_DRAWS, 7)
    if d > 1:
        beside = noise[:, np.arange(0, d - 1, 2), np.arange(1, d, 2)]
        assert np.sqrt(np.mean(beside**2)) == pytest.approx(mechanism.off_diagonal_sd, rel=0.03)
    trace_variance = 4 * p * (2 * p + 1) / ((p + 1) * (p + 2)) / 1.3**2
    assert np.var(np.trace(noise, axis1=1, axis2=2)) == pytest.approx(trace_variance, rel=0.05)


def test_the_radius_of_frobenius_is_gamma():
    mechanism, drawn = exact_draws_of("frobenius")
    radius, d = np.linalg.norm(drawn, axis=(1, 2)), mechanism.n_features
    for shape, right in ((d * (d + 1) / 2, True), (d * (d + 1) / 2 - 0.5, False)):
        assert follows(radius, scipy.stats.gamma(shape, scale=mechanism.noise_scale()).cdf) is right


def test_wishart_has_its_degrees():
    mechanism = made("wishart", 1e-2, "replace_one", d=40)
    degrees, scale = mechanism.degrees_and_scale
    assert degrees == int(degrees)
    diagonal = np.diagonal(exact_draws(mechanism, 60, 10), axis1=1, axis2=2)
    assert follows(diagonal, scipy.stats.chi2(degrees, scale=scale).cdf)
    assert not follows(diagonal, scipy.stats.chi2(degrees * EXACT_FACTOR, scale=scale).cdf)


class Forced:
    """Lazy noise whose floats decide nothing, and whose first levels are left out."""

    def __init__(self, noise, skip=0):
        self.noise, self.skip = noise, skip
        self.value, self.error, self.asked = noise.value, np.inf, 0

    def interval(self, i, j, level):
        self.asked += 1
        return self.noise.interval(i, j, level + self.skip)


def symmetric_integers(d, generator):
    numbers = generator.integers(-(2**55), 2**55, (d, d))
    return np.triu(numbers) + np.triu(numbers, 1).T


@pytest.mark.parametrize("skip", [0, 2])
@pytest.mark.parametrize("name", NOISES)
def test_slow_paths_decide_as_floats_do(name, skip):
    """The same lazy numbers, rounded by floats and by refinement alone: not one integer differs."""
    for seed in range(10):
        d = 1 + seed % 5
        data = symmetric_integers(d, seeded_generator(seed))
        quick = NOISES[name](d, seeded_generator(seed))
        forced = Forced(NOISES[name](d, seeded_generator(seed)), skip)
        assert np.array_equal(rounded_sum(data, 20, quick), rounded_sum(data, 20, forced))
        assert forced.asked >= d * (d + 1) / 2


@pytest.mark.parametrize("name", NOISES)
def test_slow_paths_have_the_same_distribution(name):
    """Noise of a size of one unit, so that its rounding counts."""
    generator, zero = seeded_generator(11), np.zeros((2, 2), np.int64)
    quick = np.array([rounded_sum(zero, 0, NOISES[name](2, generator, 0.2))[0] for _ in range(300)])
    slow = np.array([rounded_sum(zero, 0, Forced(NOISES[name](2, generator, 0.2)))[0] for _ in range(300)])
    for first, second in zip(quick.T, slow.T, strict=True):
        assert same_counts(first, second)
        assert not same_counts(first, second + 1)


def same_counts(first, second):
    counts = np.array([np.bincount(np.clip(sample, -8, 8) + 8, minlength=17) for sample in (first, second)])
    return scipy.stats.chi2_contingency(counts[:, counts.sum(axis=0) > 10]).pvalue > ALPHA


@pytest.mark.parametrize("name", NOISES)
def test_errors_stay_within_their_bound_and_near_it(name):
    """Floats against intervals of 128 further digits; the bound is not idle either."""
    closest = 0.0
    for seed in range(40):
        d = (1, 2, 5, 20)[seed % 4]
        noise = NOISES[name](d, seeded_generator(seed))
        for i, j in {(0, 0), (0, d - 1), (d // 2, d - 1)}:
            surely = noise.interval(i, j, 3)
            observed = abs(Fraction(noise.value[i, j]) - (surely.low + surely.high) / 2)
            assert observed <= noise.error
            closest = max(closest, float(observed) / noise.error)
    assert closest > 1e-3


@pytest.mark.parametrize("name", NOISES)
def test_levels_narrow_down_the_same_number(name):
    noise = NOISES[name](3, seeded_generator(12))
    found = [noise.interval(0, 2, level) for level in (1, 2, 3, 4)]
    for before, after in pairwise(found):
        assert after.high >= before.low
        assert after.low <= before.high
    widths = [interval.high - interval.low for interval in found]
    assert widths[-1] < widths[-2] * 2.0**-40
    assert widths[0] <= 2 * noise.error


def test_a_vanishing_norm_is_no_exception():
    """One feature, and the number of a factor tiny: floats say nothing, and refinement finds the norm."""
    noise = LazyBalancedDifference(1, SCALE, seeded_generator(13))
    triangle = noise.factors[0]
    roots = triangle._roots
    # The root of a chi-square of 2 degrees is 1 + z; here z is -1 but for what is not drawn yet.
    before_one = int(np.flatnonzero(np.equal(lazy.CELL, 15))[0]) << 48
    roots._drawn[roots._round[0]]._word[roots._place[0]] = before_one | (2**48 - 1)
    triangle.value = np.full(1, 2.0**-52)
    noise._norms[0] = type(noise._norms[0])(triangle)
    assert noise._norms[0].relative > 0.1
    noise.interval(0, 0, 1)
    finest = noise.interval(0, 0, 4)
    assert 0 < finest.high - finest.low < abs(finest.high + finest.low) * 2.0**-20


def test_the_shift_is_a_thousandth_of_the_noise():
    for sd in (1e-3, 1.0, 2.0**11 - 1, 2.0**11, 3.3e9, 2.0**61):
        shift = public_shift(sd)
        assert 2.0**10 <= sd / 2**shift < 2.0**11 or (shift == 0 and sd < 2.0**11)


class Beyond:
    """Noise that passes the end of int64, which no mechanism reaches in practice."""

    value, error = np.full((1, 1), 2.0**80), np.inf

    def interval(self, i, j, level):
        return Interval.point(2**80)


@pytest.mark.parametrize("shift", [0, 3])
def test_what_is_cut_off_does_not_show_what_it_hides(shift):
    cut = [rounded_sum(np.array([[number]]), shift, Beyond())[0, 0] for number in (0, 1000, -(2**40))]
    assert len(set(cut)) == 1
