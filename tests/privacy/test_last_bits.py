"""Attacks on the last bits of additive noise: they fail on what leaves now, and succeed on the float noise of 0.1.0.

An attacker who sees one release guesses which of two neighbouring data sets it is about. Epsilon allows an accuracy of
e^epsilon/(1 + e^epsilon); more right guesses than chance gives there with probability ALPHA are a violation.
"""

import math

import numpy as np
import pytest
import scipy.stats

from eigenveil.mechanisms import MECHANISMS
from eigenveil.sampling.randomness import secure_generator
from statistical.constants import ALPHA


def float_noise(mechanism, gram, grid, generator):
    """Return what version 0.1 released: float noise, rounded, with even draws for the bits that floats lack."""
    noise = mechanism.noise(generator, float(grid))
    whole = np.rint(noise).astype(np.int64)
    spacing = np.maximum(1.0, np.spacing(np.abs(noise))).astype(np.int64)
    filled = np.triu(whole + generator.integers(0, spacing) - spacing // 2)
    return filled + np.triu(filled, 1).T + gram


def rounded_float_noise(mechanism, gram, grid, generator):
    """Return float noise, rounded and added; beyond 2^53 it has no last bits."""
    return np.rint(mechanism.noise(generator, float(grid))).astype(np.int64) + gram


def exact(mechanism, gram, grid, generator):
    return mechanism.draw(gram, grid, 4, generator)["matrix"]


def neighbours(d, bits):
    """Return two data sets whose only rows have all entries equal, even in one and odd in the other."""
    k = int(2**bits / math.sqrt(d)) // 2 * 2 - 2
    return [np.full((d, d), (k + odd) ** 2, np.int64) for odd in (0, 1)]


def evenness(residual):
    """Return the excess of even numbers on the diagonal and above it."""
    parity = 1.0 - 2 * (residual & 1)
    return np.array([parity.diagonal().mean(), parity[np.triu_indices(len(parity), 1)].mean()])


def right_guesses(mechanism, bits, release, trials, generator):
    """Learn how evenness tells the two apart on a third of the trials, and guess on the rest."""
    grid, data = 4**bits, neighbours(mechanism.n_features, bits)
    shift = mechanism.shifts(grid)["matrix"] if release is exact else 0
    sides = generator.integers(0, 2, trials)
    seen = np.array([evenness(release(mechanism, data[s], grid, generator) - (data[0] >> shift)) for s in sides])
    cut = trials // 3
    known, labels = seen[:cut], sides[:cut]
    weights = known[labels == 0].mean(axis=0) - known[labels == 1].mean(axis=0)
    weights /= known.std(axis=0) ** 2 + 1e-12
    middle = (known[labels == 0].mean(axis=0) + known[labels == 1].mean(axis=0)) / 2
    guesses = ((seen[cut:] - middle) @ weights < 0).astype(int)
    return int(np.sum(guesses == sides[cut:])), trials - cut


def allowed(right, trials, epsilon):
    """Return whether so many right guesses are no surprise at the accuracy that epsilon allows."""
    return scipy.stats.binom.sf(right - 1, trials, 1 / (1 + math.exp(-epsilon))) > ALPHA


PARITY = [
    pytest.param("matrix_laplace", 200, 0.1, 20, id="wide"),
    pytest.param("frobenius", 120, 0.1, 20, id="frobenius"),
    pytest.param("matrix_laplace", 10, 0.5, 24, id="finest grid"),
    pytest.param("matrix_laplace", 1000, 0.1, 16, id="very wide", marks=pytest.mark.heavy),
]


@pytest.mark.parametrize(("name", "d", "epsilon", "bits"), PARITY)
def test_parities_tell_nothing(name, d, epsilon, bits):
    mechanism = MECHANISMS[name](epsilon=epsilon, n_features=d)
    right, trials = right_guesses(mechanism, bits, exact, 150, secure_generator())
    assert allowed(right, trials, epsilon)


@pytest.mark.parametrize(("name", "d", "epsilon", "bits"), PARITY[:3])
def test_parities_of_float_noise_tell_the_data(name, d, epsilon, bits):
    mechanism = MECHANISMS[name](epsilon=epsilon, n_features=d)
    right, trials = right_guesses(mechanism, bits, rounded_float_noise, 150, secure_generator())
    assert not allowed(right, trials, epsilon)


@pytest.mark.parametrize("mechanism", ["matrix_laplace", "frobenius"])
def test_low_bits_are_even(mechanism):
    """What Mironov's attack lives on: floats reach some integers only."""
    mechanism, generator, grid = MECHANISMS[mechanism](epsilon=0.5, n_features=10), secure_generator(), 4**24
    data = neighbours(10, 24)[1]
    upper = np.triu_indices(10)

    def uneven(release, shift):
        drawn = [(release(mechanism, data, grid, generator) - (data >> shift))[upper] & 7 for _ in range(60)]
        return scipy.stats.chisquare(np.bincount(np.ravel(drawn), minlength=8)).pvalue < ALPHA

    assert not uneven(exact, mechanism.shifts(grid)["matrix"])
    assert uneven(rounded_float_noise, 0)


def is_a_square(number):
    """Return whether rounding the square of some float64, with random bits below its spacing, gives the integer."""
    near = np.sqrt(float(number))
    candidates = near + np.spacing(near) * np.arange(-6, 7)
    squares = candidates * candidates
    whole = np.rint(squares).astype(np.int64)
    spacing = np.maximum(1.0, np.spacing(squares)).astype(np.int64)
    return bool(np.any((whole - spacing // 2 <= number) & (number < whole - spacing // 2 + spacing)))


def ruled_out(release, bits, trials):
    """Guess the data set under which alone the corner of a Wishart release is possible; count right guesses and all."""
    mechanism, grid, generator = (
        MECHANISMS["wishart"](epsilon=1.0, delta=1e-6, n_features=2),
        4**bits,
        secure_generator(),
    )
    data = [np.diag([(2**bits // 2 + more) ** 2, 0]) for more in (0, 7)]
    shift = mechanism.shifts(grid)["matrix"] if release is exact else 0
    right = guesses = 0
    for side in generator.integers(0, 2, trials):
        corner = int(release(mechanism, data[side], grid, generator)[0, 0]) << shift
        possible = [is_a_square(corner - int(gram[0, 0])) for gram in data]
        guesses += possible[0] != possible[1]
        right += possible[side] and not possible[1 - side]
    return right, guesses


def test_the_corner_of_wishart_rules_nothing_out():
    assert allowed(*ruled_out(exact, 22, 500), 1.0)


def test_the_corner_of_float_wishart_rules_data_out():
    assert not allowed(*ruled_out(float_noise, 22, 500), 1.0)
