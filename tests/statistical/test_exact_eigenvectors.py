"""Exact eigenvector sampling: the distribution of later directions, the slack of rounding, quotients, cost."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from contract.catalogue import make
from eigenveil import Adjacency
from eigenveil.errors import CapacityError
from eigenveil.mechanisms import MECHANISMS
from eigenveil.sampling import bingham
from eigenveil.sampling.bingham import (
    Complement,
    complement_tilt,
    direction_slack,
    exact_directions,
    variances_along,
    variances_sensitivity,
)
from eigenveil.sampling.certified import ExactMatrix
from eigenveil.sampling.randomness import seeded_generator
from statistical.constants import ALPHA

GRID = 2**32
UNIT = 2.0**-24
Z_LIMIT = scipy.stats.norm.isf(ALPHA / 2)
C = np.array([[5, 1, 0], [1, 3, 1], [0, 1, 1]], dtype=np.int64) * 2**31


def plane_transform(pair, strength):
    """Return the quantile of the second direction given the first, and the mean of its exponent."""
    basis = np.linalg.svd(pair[:1])[2][1:]
    values, vectors = np.linalg.eigh(basis @ (C / GRID) @ basis.T * strength)
    along = vectors.T @ basis @ pair[1]
    gap = values[1] - values[0]
    grid = np.linspace(0, min(np.pi / 2, 8 / np.sqrt(gap)), 2001)
    density = np.exp(-gap * np.sin(grid) ** 2)
    total = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
    return np.interp(np.arctan2(abs(along[0]), abs(along[1])), grid, total / total[-1])


@pytest.mark.parametrize(
    ("strength", "size"), [(0.5, 500), (3, 150), pytest.param(10**5, 500, marks=pytest.mark.heavy)]
)
def test_the_second_direction_has_its_distribution_given_the_first(strength, size, monkeypatch):
    if strength == 3:  # floats decide nothing
        monkeypatch.setattr(bingham, "_WIDENED", 2.0**60)
    generator = np.random.default_rng(int(2 * strength))
    drawn = [exact_directions(ExactMatrix(C), Fraction(strength) / GRID, 2, generator) * UNIT for _ in range(size)]
    found = [plane_transform(pair, strength) for pair in drawn]
    assert scipy.stats.kstest(found, "uniform").pvalue > ALPHA
    wrong = [plane_transform(pair, 4 * strength + 4) for pair in drawn]
    assert scipy.stats.kstest(wrong, "uniform").pvalue < ALPHA


@pytest.mark.parametrize("d", [3, 20, 200])
def test_the_complement_is_orthogonal_and_its_tilt_bounded(d):
    generator = np.random.default_rng(d)
    directions = np.rint(np.linalg.qr(generator.standard_normal((d, 2)))[0].T / UNIT).astype(np.int64)
    complement = Complement(d)
    for direction in directions:
        complement.leave_out(direction)
    tilts = []
    for direction in directions:  # the largest |q'u| over the unit vectors u of the complement is the norm of its part
        numbers, scale = [int(x) for x in direction], 1
        for reflection in complement.chain:
            numbers, factor = reflection.exactly(numbers)
            numbers, scale = numbers[1:], scale * factor
        tilts.append(np.sqrt(float(sum(x * x for x in numbers) / Fraction(scale) ** 2)) * UNIT)
    assert max(tilts) <= complement_tilt(d)
    inner = [int(x) for x in generator.integers(-(10**6), 10**6, d - 2)]
    outer, scale = complement.exactly(inner)
    assert sum(x * x for x in outer) == scale**2 * sum(x * x for x in inner)  # orthogonal without an error
    assert tilts[0] > 1e-3 * complement_tilt(d)


@pytest.mark.parametrize(("d", "bits"), [(4, 4), (30, 16)])
def test_the_form_on_the_complement_is_that_of_the_whole_space_within_its_slack(d, bits):
    generator = np.random.default_rng(d)
    rows = np.trunc(generator.standard_normal((3 * d, d)) * 2.0**bits / np.sqrt(4 * d)).astype(np.int64)
    gram = rows.T @ rows
    matrix, complement = ExactMatrix(gram), Complement(d)
    for direction in np.rint(np.linalg.qr(generator.standard_normal((d, 2)))[0].T / UNIT).astype(np.int64):
        matrix = matrix.reflected(complement.leave_out(direction).vector).without_first()
    inner = [int(x) for x in generator.integers(-(10**6), 10**6, d - 2)]
    outer, scale = complement.exactly(inner)
    square = sum(x * x for x in inner)
    there = Fraction(
        int(np.array(inner, dtype=object) @ matrix.objects @ np.array(inner, dtype=object)), 2**20 * square
    )
    here = np.array(outer, dtype=object) @ gram.astype(object) @ np.array(outer, dtype=object)
    miss = abs(float(there - Fraction(int(here), scale**2 * square)))
    assert miss <= 2 * d * 1.01 * 2.0**-20
    assert miss > 1e-3 * 2 * d * 2.0**-20


def test_released_directions_are_as_orthonormal_as_the_slack_says():
    d, k = 40, 4
    generator = np.random.default_rng(1)
    worst = 0.0
    for seed in range(5):
        rows = np.random.default_rng(seed).integers(-(2**13), 2**13, (d, d))
        drawn = exact_directions(ExactMatrix(rows.T @ rows), Fraction(1, GRID), k, generator)
        gram = drawn.astype(object) @ drawn.T.astype(object)
        deviation = np.array((gram - 2**48 * np.eye(k, dtype=object)) / 2**48, dtype=float)
        worst = max(worst, np.linalg.norm(deviation - np.diag(np.diag(deviation)), 2))
    # The slack is about the points behind the rounded ones; these add as much again.
    assert 1e-3 * float(direction_slack(d, k, GRID)) < worst < 2 * float(direction_slack(d, k, GRID))


def test_strengths_are_rounded_down():
    mechanism = make("eigenvector_sampling", d=50, k=3)
    for adjacency, cost in ((Adjacency.REPLACE_ONE, 4), (Adjacency.ADD_OR_REMOVE_ONE, 3)):
        mechanism = make("eigenvector_sampling", adjacency=adjacency, d=50, k=3)
        strength = mechanism._exact_strength(GRID)
        assert strength * cost * (1 + direction_slack(50, 3, GRID)) <= mechanism._direction_epsilon
        assert strength > mechanism.strength * (1 - 1e-6)
    for epsilon in (1e-100, 3e-100, 0.1, 1 / 3):
        mechanism = make("ppca", d=3, k=1, epsilon=epsilon)
        assert mechanism._exact_strength * 2 <= Fraction(repr(epsilon))


def test_a_concentration_without_a_certificate_is_refused_from_public_numbers():
    for name in ("ppca", "eigenvector_sampling"):
        mechanism = MECHANISMS[name](epsilon=1e6, n_features=2000, n_components=1)
        mechanism.check_grid(4**16)
        with pytest.raises(CapacityError, match="smaller epsilon"):
            mechanism.check_grid(4)


# Quotients.


def test_variances_are_exact():
    generator = np.random.default_rng(2)
    for d, k in ((4, 1), (50, 5)):
        rows = generator.integers(-(2**25), 2**25, (3 * d, d))
        gram = rows.T @ rows
        directions = np.rint(np.linalg.qr(generator.standard_normal((d, k)))[0].T / UNIT).astype(np.int64)
        forms = [int(u @ gram.astype(object) @ u) for u in directions.astype(object)]
        rest = (int(gram.astype(object).trace()) << 48) - sum(forms)
        assert variances_along(ExactMatrix(gram), directions) == [*forms, rest]


@pytest.mark.parametrize("adjacency", Adjacency)
def test_no_two_neighbours_are_farther_apart_than_the_sensitivity(adjacency):
    d, k, bits, shift = 6, 3, 7, 46
    worst = 0.0
    for seed in range(1500):
        generator = np.random.default_rng(seed)
        basis = np.linalg.qr(generator.standard_normal((d, k)))[0].T / UNIT
        # Not as orthogonal as ours: the bound holds for any public directions.
        directions = np.rint(basis * (1 + generator.uniform(-0.1, 0.1, (k, 1)) * (seed % 3))).astype(np.int64)
        rows = generator.integers(-50, 50, (5, d))
        gram = rows.T @ rows

        def a_row(generator=generator, basis=basis, seed=seed):
            x = generator.standard_normal(k) @ basis if seed % 2 else generator.standard_normal(d)
            return np.trunc(x / np.linalg.norm(x) * 2**bits).astype(np.int64)

        x, y = a_row(), a_row() if adjacency is Adjacency.REPLACE_ONE else np.zeros(d, np.int64)
        values = [
            [v >> shift for v in variances_along(ExactMatrix(gram + np.outer(row, row)), directions)] for row in (x, y)
        ]
        rows_moved = 2 if adjacency is Adjacency.REPLACE_ONE else 1
        bound = variances_sensitivity(directions, 4**bits, rows_moved, shift)
        worst = max(worst, sum(abs(a - b) for a, b in zip(*values, strict=True)) / bound)
    assert 0.8 < worst <= 1


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("bits", [6, pytest.param(16, marks=pytest.mark.heavy)])
def test_quotients_carry_discrete_laplace_noise_of_their_scale(adjacency, bits):
    grid = 4**bits
    mechanism = make("eigenvector_sampling", "tight", adjacency, d=1, k=1)
    generator, gram = seeded_generator(3), np.array([[5 * grid]])
    shift = mechanism.shifts(grid)["quotients"]
    assert (shift > 0) == (bits == 16)
    noise = []
    for _ in range(1600):
        drawn = mechanism.draw(gram, grid, 10, generator)
        exact = variances_along(ExactMatrix(gram), drawn["directions"])
        noise.extend(int(q) - (v >> (48 + shift)) for q, v in zip(drawn["quotients"], exact, strict=True))
    moved = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    scale = moved * grid / 2**shift / float(mechanism._eigenvalue_epsilon)
    scale += 2 / float(mechanism._eigenvalue_epsilon)  # k + 1 roundings
    sizes = np.abs(noise)
    for factor, accepted in ((1.0, True), (1.2, False), (1 / 1.2, False)):
        z = (sizes.mean() - factor * scale) / (factor * scale / np.sqrt(sizes.size))
        assert bool(abs(z) < Z_LIMIT) is accepted
    assert abs(np.mean(noise)) < Z_LIMIT * scale * np.sqrt(2 / sizes.size)


def test_the_whole_space_tells_nothing():
    mechanism = make("ppca", d=3, k=3)
    drawn = [mechanism.draw(gram, GRID, 5, seeded_generator(1))["directions"] for gram in (C, C * 0)]
    assert np.array_equal(*drawn)
    assert mechanism.guarantee().numerics == "exact"
