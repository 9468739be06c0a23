"""The constants that reach the samplers are those of the proofs: what is drawn is what was calculated.

The mechanisms of the samplers themselves are tested in tests/statistical.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from contract.catalogue import make
from eigenveil.mechanisms import base, gaussian, laplace, sampling_directions
from eigenveil.mechanisms.local import LOCAL_MECHANISMS
from eigenveil.mechanisms.local import gaussian as local_gaussian
from eigenveil.sampling.bingham import ExactBingham
from eigenveil.sampling.wishart import LazyBalancedDifference, LazyFrobenius, LazyWishart, LazyWishartDifference
from statistical.constants import SIGMAS

GRID, D, EPSILON = 2**32, 4, 0.8
MATRIX = {"replace_one": EPSILON, "add_or_remove_one": 0.95 * EPSILON}  # a twentieth pays for a private number of rows
TRIANGLE = {"replace_one": math.sqrt(D * (D + 3) / 2), "add_or_remove_one": (D + 1) / 2}
C = np.diag([7, 5, 3, 1]) * GRID


@pytest.mark.parametrize("adjacency", MATRIX)
def test_lazy_matrices(adjacency):
    """Scale and degrees of every mechanism whose real noise is rounded with a certificate."""
    matrix, generator = MATRIX[adjacency], np.random.default_rng(0)
    change, nuclear = (math.sqrt(2), 2) if adjacency == "replace_one" else (1, 1)
    balanced = LazyBalancedDifference if adjacency == "replace_one" else LazyWishartDifference
    cases = [
        ("matrix_laplace", "balanced", balanced, D + 1, 1 / (2 * matrix)),
        ("matrix_laplace", "tight", LazyWishartDifference, D + 1, nuclear / (2 * matrix)),
        ("wishart", "paper", LazyWishart, D + 1, 1.5 / matrix),
        ("frobenius", "tight", LazyFrobenius, None, change / matrix),
        ("frobenius", "paper", LazyFrobenius, None, 2 * change / matrix),
    ]
    for name, calibration, kind, degrees, scale in cases:
        mechanism = make(name, calibration, adjacency, d=D, epsilon=EPSILON)
        drawn = mechanism.lazy_noise(Fraction(1000), generator)
        assert type(drawn) is kind
        assert getattr(drawn, "degrees", None) == degrees
        assert drawn.scale == pytest.approx(1000 * scale, rel=1e-12)
        assert mechanism.noise_scale() == pytest.approx(scale, rel=1e-12)
    corrected = make("wishart", "tight", adjacency, d=D, epsilon=EPSILON)
    drawn, (degrees, scale) = corrected.lazy_noise(Fraction(1000), generator), corrected.degrees_and_scale
    assert (drawn.degrees, drawn.scale) == pytest.approx((degrees, 1000 * scale), rel=1e-12)


def test_quick_draws_have_the_sizes_of_their_distributions():
    """What plans simulate, at d = 2 where p = 3: mean trace 2p/((p + 1) epsilon), and a radius of p/epsilon."""
    generator, draws = np.random.default_rng(1), 4000
    cases = [
        ("matrix_laplace", 1.5, lambda noise: abs(np.trace(noise))),
        ("frobenius", 3 * math.sqrt(2), np.linalg.norm),
    ]
    for name, expected, size in cases:
        mechanism = make(name, d=2, epsilon=1.0)
        sizes = np.array([size(mechanism.noise(generator)) for _ in range(draws)])
        reach = SIGMAS * sizes.std() / math.sqrt(draws)
        assert abs(sizes.mean() - expected) < reach < 0.14 * expected  # so that what is one off is seen


@pytest.fixture
def scales(monkeypatch):
    """Return a list that notes the scales of all discrete noise in a grid's units, and stop the draws."""
    noted = []

    def note(scale, size, generator):
        noted.append(float(scale) / GRID)
        return np.zeros(size, dtype=np.int64)

    for module, name in (
        (gaussian, "discrete_gaussian"), (laplace, "discrete_laplace"), (base, "discrete_laplace"),
        (local_gaussian, "discrete_gaussian"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, note)
    return noted


@pytest.mark.parametrize("adjacency", MATRIX)
def test_discrete_entries_and_counts(scales, adjacency):
    for calibration, scale in (("tight", TRIANGLE[adjacency]), ("paper", 2 * D)):
        mechanism = make("laplace", calibration, adjacency, d=D, epsilon=EPSILON)
        mechanism.noise(np.random.default_rng(0), GRID)
        assert scales[-2:] == pytest.approx([scale / MATRIX[adjacency]] * 2, rel=1e-12)
    mechanism.draw_count(100, GRID, np.random.default_rng(0))
    paid = [1 / (0.05 * EPSILON) / GRID] if adjacency == "add_or_remove_one" else []
    assert scales[4:] == pytest.approx(paid, rel=1e-12)


@pytest.mark.parametrize("adjacency", MATRIX)
@pytest.mark.parametrize(
    ("name", "calibration"),
    [("gaussian", "traced"), ("gaussian", "tight"), ("gaussian", "paper"), ("mod_sulq", "paper")],
)
def test_gaussian_entries(scales, name, calibration, adjacency):
    """Beside the diagonal, on it, then the paid count and the number more, all of one mu."""
    mechanism = make(name, calibration, adjacency, d=D, epsilon=EPSILON)
    mechanism.draw(C, GRID, 100, np.random.default_rng(0))
    diagonal, beside = mechanism.standard_deviations
    change = math.sqrt(2) if adjacency == "replace_one" else 1
    paid = adjacency == "add_or_remove_one" and calibration != "traced"  # 4 features need no paid count
    mu = change / diagonal / math.sqrt(0.95 if paid else 1)
    more = [1 / (mu * math.sqrt(0.05))] * paid + [diagonal] * (calibration == "traced")
    assert scales == pytest.approx([beside, diagonal, *more], rel=1e-9)
    assert mechanism.total_mu() == pytest.approx(mu, rel=1e-9)
    assert mechanism.guarantee().rho == pytest.approx(mu**2 / 2, rel=1e-6)


@pytest.mark.parametrize(("adjacency", "calibration", "strength"), [
    ("replace_one", "tight", 0.4), ("add_or_remove_one", "tight", 0.8),
    ("replace_one", "paper", 0.4), ("add_or_remove_one", "paper", 0.4),
])  # fmt: skip
def test_subspaces(monkeypatch, adjacency, calibration, strength):
    """PPCA: epsilon/2, or epsilon where a row moves the exponent one way only. No share is paid for a count."""
    noted = []

    class Noting(ExactBingham):
        def __init__(self, matrix, factor):
            noted.append(float(factor * GRID))
            super().__init__(matrix, factor)

    def chain(B, k, generator, **options):
        noted.append(B[0, 0] / 7)
        return drawn(B, k, generator, **options)

    drawn = sampling_directions.matrix_bingham
    monkeypatch.setattr(sampling_directions, "ExactBingham", Noting)
    monkeypatch.setattr(sampling_directions, "matrix_bingham", chain)
    for k in (1, 2):
        mechanism = make("ppca", calibration, adjacency, d=D, k=k, epsilon=EPSILON, updates=2)
        mechanism.draw(C, GRID, 100, np.random.default_rng(0))
        assert mechanism.strength == pytest.approx(strength)
    assert noted == pytest.approx([strength, strength])


def test_local_entries(scales):
    """zCDP: sigma^2 = 1/rho on the diagonal and half of that beside it; the paper's scale on every entry."""
    for name in ("gaussian", "gaussian_paper"):
        mechanism = LOCAL_MECHANISMS[name](n_features=D, epsilon=EPSILON, delta=1e-4)
        mechanism.noise(9, np.random.default_rng(0))
        diagonal = 1 / math.sqrt(mechanism.rho)
        beside = diagonal / math.sqrt(2) if name == "gaussian" else diagonal
        assert scales[-2:] == pytest.approx([3 * x * mechanism.grid / GRID for x in (diagonal, beside)], rel=1e-9)
    assert diagonal == pytest.approx(math.sqrt(2 * math.log(1.25e4)) / EPSILON)


def test_local_bits():
    """The shares of epsilon for the direction and the trace, and the coins that they toss."""
    for name in ("double_cap", "one_bit"):
        mechanism = LOCAL_MECHANISMS[name](n_features=D, epsilon=EPSILON, trace_share=0.1)
        assert (mechanism.direction_epsilon, mechanism.trace_epsilon) == pytest.approx(
            (0.9 * EPSILON, 0.1 * EPSILON), rel=1e-12
        )
        unit = LOCAL_MECHANISMS[name](n_features=D, epsilon=EPSILON, trace_share=0.1, row_norms="unit")
        assert unit.direction_epsilon == pytest.approx(EPSILON, rel=1e-12)
        truths = [(mechanism.trace_coin, 0.1 * EPSILON)]
        truths += [(mechanism.direction_coin, 0.9 * EPSILON)] if name == "one_bit" else []
        for coin, epsilon in truths:
            assert int(coin.sure) / 2**64 == pytest.approx(1 / (1 + math.exp(-epsilon)), rel=1e-9)
    caps = LOCAL_MECHANISMS["double_cap"](n_features=D, epsilon=EPSILON, trace_share=0.1).caps
    assert caps.hit / caps.mass / ((1 - caps.hit) / (1 - caps.mass)) == pytest.approx(math.exp(0.9 * EPSILON))
    aimed = int(caps.aim.sure) / 2**64
    assert 1 + aimed / (1 - aimed) / caps.mass == pytest.approx(math.exp(0.9 * EPSILON))
