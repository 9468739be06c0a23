"""Attacks on the last bits of sampled directions and quotients: they work on floats, and on nothing that leaves now."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from eigenveil import RowBound, SecondMoments
from eigenveil.accounting.calibration import float_above
from eigenveil.accounting.sensitivity import diagonal_l1
from eigenveil.mechanisms import MECHANISMS
from eigenveil.sampling.bingham import bingham
from eigenveil.sampling.matrix_bingham import matrix_bingham
from statistical.constants import ALPHA

GRID = 4**16
UNIT = 2.0**-24


def neighbours(d, n, seed=0):
    """Return the Gram matrices of two tables, of which one row differs in length by 0.02 %."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d)) * np.linspace(2, 0.3, d)
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    Y = X.copy()
    Y[0] = X[0] * (1 - 2e-4)
    return [SecondMoments(RowBound(1.0), d).update(rows).gram for rows in (X, Y)]


def tries(mechanism, grams, released, decide, size, seed=1):
    """Return how many releases an attack decides, and how many of these rightly."""
    generator = np.random.default_rng(seed)
    decided = right = 0
    for _ in range(size):
        side = int(generator.integers(2))
        guess = decide(released(mechanism, grams[side], generator))
        decided += guess is not None
        right += guess == side
    return decided, right


def better_than_allowed(decided, right, epsilon):
    """Return whether that is more than any test of neighbours can have."""
    if not decided:
        return False
    allowed = 1 / (1 + math.exp(-epsilon))
    return scipy.stats.binomtest(right, decided, allowed, alternative="greater").pvalue < ALPHA


# Attack 3: |u|^2 - 1 is z'(Q'Q - I)z for u = Qz, and Q'Q - I is a fingerprint of the data.


def as_floats(mechanism, gram, generator):
    """Return what version 0.1.0 released."""
    B = gram.astype(np.float64) * (mechanism.strength / GRID)
    k = mechanism.n_components
    return bingham(B, generator)[None] if k == 1 else matrix_bingham(B, k, generator, updates=5).components.T


def as_integers(mechanism, gram, generator):
    return mechanism.draw(gram, GRID, 500, generator)["directions"] * UNIT


def fingerprint(mechanism, grams):
    wide = np.longdouble
    bases = [np.linalg.eigh(gram.astype(np.float64) * (mechanism.strength / GRID))[1].astype(wide) for gram in grams]
    errors = [Q.T @ Q - np.eye(len(Q), dtype=wide) for Q in bases]

    def decide(directions):
        V = directions.astype(wide)
        misses = []
        for Q, E in zip(bases, errors, strict=True):
            Z = Q.T @ V.T
            misses.append(np.abs(V @ V.T - np.eye(len(V), dtype=wide) - Z.T @ E @ Z).max())
        return int(misses[1] < misses[0])

    return decide


@pytest.mark.parametrize("k", [1, 5])
def test_last_bits_of_directions_are_no_fingerprint(k):
    if np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("the attack needs wider floats than this platform has")
    d = 50 if k == 1 else 20
    grams = neighbours(d, 10_000)
    mechanism = MECHANISMS["ppca"](epsilon=0.1, n_features=d, n_components=k, updates=5)
    decide = fingerprint(mechanism, grams)
    size = {1: 600, 5: 40}[k]
    # The same bits that gave 0.1.0 away; k = 1 has one of them a release, so it takes more releases.
    assert better_than_allowed(*tries(mechanism, grams, as_floats, decide, size), mechanism.epsilon)
    assert not better_than_allowed(*tries(mechanism, grams, as_integers, decide, size), mechanism.epsilon)


# Attack 2 (Mironov 2012): a float quotient plus float noise can be some floats and not others.


def possible(value, quotient, scale):
    """Return whether some 53-bit uniform number makes NumPy's Laplace noise fit."""
    noise = value - quotient
    if noise == 0:
        return True
    spacing = np.spacing(abs(value))
    middle = np.exp(-abs(noise) / scale) * 2.0**52
    span = int(4 + np.ceil(middle * 1.5 * spacing / scale))
    if span > 50_000:
        return True
    near = np.arange(-span, span + 1) + np.rint(middle)
    uniform = near[(near > 0) & (near <= 2.0**52)] * 2.0**-52
    uniform = uniform[np.abs(scale * np.abs(np.log(uniform)) - abs(noise)) < 4 * spacing]
    sign = math.copysign(1.0, noise)
    return any(quotient - sign * scale * math.log(x) == value for x in uniform)


def quotient_floats(mechanism, gram, generator):
    """Return what version 0.1.0 released: directions, and floats of their quotients."""
    return mechanism._draw_tight(gram.astype(np.float64) / GRID, generator)


def quotient_integers(mechanism, gram, generator):
    drawn = mechanism.draw(gram, GRID, 400, generator)
    unit = 2.0 ** mechanism.shifts(GRID)["quotients"] / GRID
    return drawn["directions"] * UNIT, drawn["quotients"] * unit


def representable(mechanism, grams):
    scale = float_above(diagonal_l1(mechanism.adjacency) / mechanism._eigenvalue_epsilon)
    matrices = [gram.astype(np.float64) / GRID for gram in grams]

    def decide(released):
        directions, values = released
        scores = []
        for matrix in matrices:
            quotients = np.einsum("ki,ij,kj->k", directions, matrix, directions, optimize=True)
            scores.append(sum(possible(v, float(q), scale) for v, q in zip(values[:-1], quotients, strict=True)))
        return None if scores[0] == scores[1] else int(scores[1] > scores[0])

    return decide


def test_no_quotient_is_possible_on_one_data_set_alone():
    mechanism = MECHANISMS["eigenvector_sampling"](epsilon=0.1, n_features=20, n_components=2)
    grams = neighbours(20, 400)
    decide = representable(mechanism, grams)
    assert better_than_allowed(*tries(mechanism, grams, quotient_floats, decide, 100), mechanism.epsilon)
    assert not better_than_allowed(*tries(mechanism, grams, quotient_integers, decide, 100), mechanism.epsilon)


def test_low_bits_of_quotients_tell_nothing():
    """The noise is wide, so parities and remainders of the integers are even whatever the quotients are."""
    mechanism = MECHANISMS["eigenvector_sampling"](epsilon=0.5, n_features=4, n_components=2)
    generator = np.random.default_rng(4)
    for gram in neighbours(4, 50):
        drawn = np.array([mechanism.draw(gram, GRID, 50, generator)["quotients"] for _ in range(250)]).ravel()
        for modulus in (2, 8):
            counts = np.bincount(drawn % modulus, minlength=modulus)
            assert scipy.stats.chisquare(counts).pvalue > ALPHA
        exact = np.rint(drawn / 16).astype(np.int64) * 16  # a planted spacing is seen
        assert scipy.stats.chisquare(np.bincount(exact % 8, minlength=8)).pvalue < ALPHA


def test_every_release_of_directions_is_near_the_sphere_and_on_the_grid():
    generator = np.random.default_rng(5)
    for name, k in itertools.product(("ppca", "eigenvector_sampling"), (1, 2)):
        mechanism = MECHANISMS[name](epsilon=1.0, n_features=6, n_components=k)
        directions = mechanism.draw(neighbours(6, 50)[0], GRID, 50, generator)["directions"]
        assert directions.dtype == np.int64
        assert np.abs(np.linalg.norm(directions * UNIT, axis=1) - 1).max() < UNIT * math.sqrt(6)
