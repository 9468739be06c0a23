"""Eigenvector sampling: the constants it draws with, their cost by quadrature, and the distribution of its draws."""

import math

import numpy as np
import pytest
import scipy.special

from contract.catalogue import make
from eigenveil import Adjacency
from eigenveil.mechanisms import sampling_directions as module
from statistical.constants import SIGMAS

GRID = 2**32
# What is left of an epsilon of 1 beside a paid count.
WHOLE = {Adjacency.REPLACE_ONE: 1.0, Adjacency.ADD_OR_REMOVE_ONE: 0.95}
# Calibration, k, relation, what is stated of an epsilon of 1, and which share of it neighbours are found to cost. The
# published mechanism draws all directions whatever k is, and its Laplace scale is that of replace for both relations.
CASES = [
    ("tight", 1, "replace_one", 1.0, 0.8),
    ("tight", 1, "add_or_remove_one", 1.0, 0.8),
    ("tight", 2, "replace_one", 1.0, 0.8),
    ("tight", 2, "add_or_remove_one", 1.0, 0.8),
    ("paper", 2, "replace_one", 0.75, 0.8),
    ("paper", 2, "add_or_remove_one", 0.625, 0.5),
]
both_adjacencies = pytest.mark.parametrize("adjacency", Adjacency)


class Spy(np.random.Generator):
    """A generator that remembers the scale of the last Laplace numbers it was asked for."""

    scale = 0.0

    def laplace(self, loc=0.0, scale=1.0, size=None):
        self.scale = scale
        return super().laplace(loc, scale, size)


@pytest.fixture
def constants(monkeypatch):
    """Return the strengths of the directions and the scale of the Laplace numbers that a draw hands to its samplers."""

    def found(mechanism, C):
        seen = {}

        def exact_directions(matrix, factor, count, generator):
            seen["strengths"] = np.full(count, float(factor * GRID))
            return directions(matrix, factor, count, generator)

        def discrete_laplace(scale, size, generator):
            seen["scale"] = scale * 2.0 ** mechanism.shifts(GRID)["quotients"] / GRID
            return np.zeros(size, dtype=np.int64)

        def sample_directions(matrix, strengths, generator):
            seen["strengths"], seen["scale"] = strengths, generator.scale
            return sample(matrix, strengths, generator)

        directions, sample = module.exact_directions, module.sample_directions
        with monkeypatch.context() as patch:
            patch.setattr(module, "exact_directions", exact_directions)
            patch.setattr(module, "discrete_laplace", discrete_laplace)
            patch.setattr(module, "sample_directions", sample_directions)
            drawn = mechanism.draw(np.rint(C * GRID).astype(np.int64), GRID, 100, Spy(np.random.PCG64(0)))
        return seen["strengths"], seen["scale"], drawn

    return found


@both_adjacencies
@pytest.mark.parametrize(("k", "cost"), [(1, (2, 1)), (2, (3, 2)), (3, (4, 3))])
def test_our_constants_are_those_of_the_proof(constants, adjacency, k, cost):
    """Replace: (k + 1) h and a l1 change of 2; add or remove: k h and 1."""
    mechanism = make("eigenvector_sampling", "tight", adjacency, d=3, k=k)
    strengths, scale, _ = constants(mechanism, np.diag([5.0, 2.0, 1.0]))
    replaced = adjacency is Adjacency.REPLACE_ONE
    spent = np.array([len(strengths), strengths[0] * cost[0 if replaced else 1], (2 if replaced else 1) / scale])
    assert spent == pytest.approx([k, 0.9 * WHOLE[adjacency], 0.1 * WHOLE[adjacency]], rel=1e-5)
    assert (spent[1:] <= np.array([0.9, 0.1]) * WHOLE[adjacency]).all()
    assert mechanism.strength == pytest.approx(strengths[0], rel=1e-5)


@both_adjacencies
def test_the_published_constants_are_those_of_the_paper(constants, adjacency):
    """Laplace(2/e_0) on eigenvalues, then e_i/4 with e_i proportional to sqrt(1/e_0 + eigenvalue_i), all d of them."""
    mechanism = make("eigenvector_sampling", "paper", adjacency, d=3, k=1)
    strengths, scale, drawn = constants(mechanism, np.diag([50.0, 9.0, 0.0]))
    first = 0.5 * WHOLE[adjacency]
    eigenvalues = drawn["quotients"] / GRID
    weights = np.sqrt(1 / first + np.maximum(eigenvalues, 0))
    assert scale == pytest.approx(2 / first)
    assert strengths == pytest.approx(first * weights / weights.sum() / 4)
    assert np.ptp(strengths) > 0.2 * strengths.max()  # so a uniform split is another one


def test_the_epsilons_of_the_paper_can_be_given(constants):
    """e_0 for the eigenvalues, e_i/4 in the exponents; the true cost is e_0 + (max e_i + sum e_i)/4."""
    own = [0.4, 0.3, 0.2, 0.1]
    mechanism = make("eigenvector_sampling", "paper", d=3, k=1, epsilons=own)
    strengths, scale, _ = constants(mechanism, np.diag([50.0, 9.0, 0.0]))
    assert scale == pytest.approx(2 / 0.4)
    assert strengths == pytest.approx(np.array(own[1:]) / 4)
    assert mechanism.guarantee().epsilon == pytest.approx(0.4 + (0.3 + 0.6) / 4)
    assert mechanism.guarantee().claimed == (1.0, 0.0)
    assert type(mechanism)(**mechanism.parameters()).parameters() == mechanism.parameters()
    assert mechanism.with_epsilon(2.0).epsilons == (0.8, 0.6, 0.4, 0.2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilons": [0.4, 0.3, 0.2]}, "4 numbers"),
        ({"epsilons": [0.4, 0.3, 0.2, 0.2]}, "add up to 1.1"),
        ({"epsilons": [0.7, 0.3, 0.2, -0.2]}, "epsilons must be"),
        ({"epsilons": 1.0}, "4 numbers"),
        ({"epsilons": [0.4, 0.3, 0.2, 0.1], "eigenvalue_share": 0.4}, "no eigenvalue_share"),
        ({"epsilons": [0.4, 0.3, 0.2, 0.1], "adjacency": "add_or_remove_one"}, "replace_one"),
        ({"epsilons": [0.4, 0.3, 0.2, 0.1], "calibration": "tight"}, "calibration='paper'"),
    ],
)
def test_epsilons_that_are_not_those_of_the_paper_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        make("eigenvector_sampling", **{"calibration": "paper", "d": 3, **options})


# What they cost, by quadrature on the sphere of three dimensions.


def sphere():
    """Return points on the sphere and their weights."""
    heights, weights = np.polynomial.legendre.leggauss(24)
    turns = np.arange(48) * 2 * np.pi / 48
    sines = np.sqrt(1 - heights**2)
    points = [np.outer(sines, np.cos(turns)), np.outer(sines, np.sin(turns)), np.outer(heights, np.ones(48))]
    return np.stack(points, axis=-1).reshape(-1, 3), np.repeat(weights, 48) / 96


POINTS, MASS = sphere()


def forms(matrix, one, other=None):
    """Return u'Mv along two lists of vectors."""
    return np.einsum("ni,ij,nj->n", one, matrix, one if other is None else other)


def log_density(matrix, first, second, strengths):
    """Return the log of the joint density of two directions, the second drawn on the complement of the first."""
    h, later = strengths
    on_sphere = h * forms(matrix, POINTS)
    normal = np.log(MASS @ np.exp(on_sphere - on_sphere.max())) + on_sphere.max()
    third = np.cross(first, second)
    a, b, c = (later * forms(matrix, x, y) for x, y in ((second, second), (third, third), (second, third)))
    half = np.hypot((a - b) / 2, c)  # the circle's normalizer is a Bessel function
    plane = np.log(scipy.special.ive(0, half)) + half + (a + b) / 2
    return h * forms(matrix, first) - normal + a - plane


def pairs_of_directions(generator, size=400):
    """Return orthonormal pairs, the axes first."""
    first = generator.standard_normal((size, 3))
    first[0] = [1, 0, 0]
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second = np.cross(first, generator.standard_normal((size, 3)))
    second[0] = [0, 1, 0]
    return first, second / np.linalg.norm(second, axis=1, keepdims=True)


def variances(matrix, first, second, calibration, k):
    """Return what Laplace noise is added to, for each pair of directions."""
    if calibration == "paper":
        return np.tile(np.linalg.eigvalsh(matrix), (len(first), 1))
    along = [forms(matrix, first), forms(matrix, second)][:k]
    return np.stack([*along, np.trace(matrix) - sum(along)], axis=1)


@pytest.mark.parametrize(("calibration", "k", "adjacency", "stated", "found"), CASES)
def test_a_whole_release_costs_what_it_is_given_and_not_much_less(constants, calibration, k, adjacency, stated, found):
    """The joint density of directions and variances; that of the latter moves by their l1 change over the scale."""
    mechanism, adjacency = make("eigenvector_sampling", calibration, adjacency, d=3, k=k), Adjacency(adjacency)
    strengths, scale, _ = constants(mechanism, np.diag([500.0, 1.0, 0.0]))  # the published split at its least even
    strengths = [*strengths, 0.0][:2]  # of a third direction only the sign is random
    generator = np.random.default_rng(0)
    first, second = pairs_of_directions(generator)
    worst = 0.0
    for rest in (0.0, 10.0, 300.0):
        for trial in range(12):
            x, y = np.eye(3)[[0, 2]] if trial == 0 else generator.standard_normal((2, 3))
            x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
            other = np.outer(y, y) if adjacency is Adjacency.REPLACE_ONE else np.zeros((3, 3))
            for base in (rest * np.diag([1.0, 1.0, 0.0]), rest * np.outer(y, y)):
                matrices = base + np.outer(x, x), base + other
                logs = [log_density(matrix, first, second, strengths) for matrix in matrices]
                moved = [variances(matrix, first, second, calibration, k) for matrix in matrices]
                cost = np.abs(np.subtract(*logs)) + np.abs(np.subtract(*moved)).sum(axis=1) / scale
                worst = max(worst, cost.max())
    stated *= WHOLE[adjacency]
    assert mechanism.guarantee().epsilon == pytest.approx(stated + 1 - WHOLE[adjacency])  # with the count
    assert found * stated < worst <= stated * (1 + 1e-9)


# The distribution of draws in the plane: the angle has density exp(h gap cos^2), whose moments are Bessel functions.


def standardized(angles, kappa):
    """Return the sum of cos(2 angle) less its mean under exp(kappa cos(2 angle)), over its standard deviation."""
    bessel = [scipy.special.ive(order, kappa) for order in (0, 1, 2)]
    mean = bessel[1] / bessel[0]
    variance = (1 + bessel[2] / bessel[0]) / 2 - mean**2
    return np.sum(np.cos(2 * angles) - mean) / np.sqrt(np.sum(variance * np.ones_like(angles)))


def drawn_in_the_plane(mechanism, values, runs):
    """Return the angles of the first directions to the first axis, the noise of the variances, and the variances."""
    C, generator = np.diag(np.array(values) * float(GRID)).astype(np.int64), np.random.default_rng(1)
    draws = [mechanism.draw(C, GRID, 100, generator) for _ in range(runs)]
    directions = np.array([draw["directions"] for draw in draws]) * 2.0**-24
    unit = 2.0 ** mechanism.shifts(GRID).get("quotients", 0) / GRID
    released = np.array([draw["quotients"] for draw in draws]) * unit
    return directions, released


def agrees(noise, scale):
    """Return whether the mean size of Laplace noise is that of the scale."""
    return abs(np.mean(np.abs(noise)) / scale - 1) * math.sqrt(noise.size) < SIGMAS


@both_adjacencies
@pytest.mark.parametrize("k", [1, 2])
def test_draws_have_their_distribution(k, adjacency):
    """Rejected at half and at twice a constant; the constants themselves are read off above."""
    mechanism = make("eigenvector_sampling", "tight", adjacency, d=2, k=k)
    replaced = adjacency is Adjacency.REPLACE_ONE
    h, scale = 0.9 * WHOLE[adjacency] / (k + replaced), (2 if replaced else 1) / (0.1 * WHOLE[adjacency])
    values = np.array([30.0, 20.0])
    directions, released = drawn_in_the_plane(mechanism, values, 400)
    angles = np.arctan2(directions[:, 0, 1], directions[:, 0, 0])
    along = np.einsum("nki,i->nk", directions**2, values)
    noise = released - np.hstack([along, 50 - along.sum(axis=1, keepdims=True)])
    for factor, kept in ((1, True), (2, False), (0.5, False)):
        assert bool(abs(standardized(angles, factor * h * 5.0)) < SIGMAS) is kept
        assert bool(agrees(noise, factor * scale)) is kept


def test_published_draws_have_their_distribution():
    """Each direction given the variances released before it; a uniform split and a factor of 1.25 are rejected."""
    mechanism, first = make("eigenvector_sampling", "paper", d=2, k=1), 0.5
    values = np.array([300.0, 10.0])
    directions, released = drawn_in_the_plane(mechanism, values, 4000)
    angles = np.arctan2(directions[:, 0, 1], directions[:, 0, 0])
    weights = np.sqrt(1 / first + np.maximum(released, 0))
    shares = weights[:, 0] / weights.sum(axis=1)
    for factor, kept in ((1, True), (1.25, False), (0.8, False)):
        assert bool(abs(standardized(angles, factor * first * shares / 4 * 145.0)) < SIGMAS) is kept
        assert bool(agrees(released - values, factor * 2 / first)) is kept
    assert abs(standardized(angles, first / 8 * 145.0 * np.ones(4000))) > SIGMAS
