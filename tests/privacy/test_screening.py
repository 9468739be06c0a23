"""The noisy diagonal that features are screened by: sensitivities by brute force, noise by its distribution."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from eigenveil import PrivateSparsePCA, RowBound
from eigenveil.accounting.calibration import exact
from eigenveil.accounting.composition import compose
from eigenveil.errors import CapacityError
from eigenveil.guarantee import Adjacency
from eigenveil.mechanisms.choices import DiagonalMechanism, unevenness
from eigenveil.moments.second_moments import SecondMoments
from eigenveil.moments.units import Blocks

BITS, WIDTH = 6, 20
BOUNDS = {
    "clipped": RowBound(1.0, bits=BITS),
    "with a constant": RowBound(1.0, bits=BITS, constant=0.7),
    "persons": RowBound(1.0, bits=BITS, constant=0.7, unit_weight="equal"),
    "pooled": RowBound(1.0, bits=BITS, constant=0.125, unit_weight="by_rows"),
}


def diagonal(bound: RowBound, rows: np.ndarray) -> np.ndarray:
    moments = SecondMoments(bound, WIDTH)
    if bound.takes_units:
        return np.diagonal(moments.update(Blocks(rows, np.array([0]), np.array([[1, 2]], np.uint64))).gram)[:WIDTH]
    return np.diagonal(moments.update(rows).gram)[:WIDTH]


def worst_rows(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Units that reach the bound: one feature, few, or all, far outside of it."""
    found = []
    for _ in range(count):
        row = np.zeros(WIDTH)
        chosen = rng.choice(WIDTH, rng.integers(1, WIDTH + 1), replace=False)
        row[chosen] = rng.normal(size=chosen.size)
        found.append(10 * row / np.linalg.norm(row))
    return found


@pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)
def test_one_unit_moves_the_diagonal_and_its_unevenness_by_no_more_than_stated(bound: RowBound) -> None:
    rng = np.random.default_rng(0)
    limit = bound.feature_limit_squared
    rows = [*worst_rows(rng, 60), 10 * np.eye(WIDTH)[0], 10 * np.eye(WIDTH)[-1]]
    many = 1 if not bound.takes_units else 4
    parts = [diagonal(bound, np.tile(row, (many, 1))) for row in rows]
    rest = rng.integers(0, 3 * limit, WIDTH)
    rests = [rest, np.zeros(WIDTH, np.int64), np.sort(rest)]
    largest = moved = 0
    for first in parts:
        assert first.sum() <= limit
        for second in parts:
            largest = max(largest, int(np.abs(first - second).sum()))
            for others in rests:
                for count in (WIDTH // 10, WIDTH // 2):
                    change = unevenness(others + first, count) - unevenness(others + second, count)
                    moved = max(moved, abs(change))
    assert largest <= 2 * limit
    assert moved <= limit
    # The bounds are reached but for what truncation takes, so that a factor of 1.2 would be seen.
    if bound.unit_weight != "by_rows":
        assert largest > 2 * limit / 1.2
        assert moved > limit / 1.2


@pytest.mark.parametrize(("adjacency", "changed"), [(Adjacency.REPLACE_ONE, 2), (Adjacency.ADD_OR_REMOVE_ONE, 1)])
def test_noise_has_the_scale_that_the_guarantee_takes(adjacency: Adjacency, changed: int) -> None:
    mechanism, grid = DiagonalMechanism(0.5, 0.25, adjacency), 4**8
    assert mechanism.scale(grid) == changed * grid / 0.5
    assert mechanism.test_scale(grid) == 2 * grid / 0.25
    rng, entries = np.random.default_rng(0), np.arange(40_000)
    sizes = np.abs(mechanism.draw(entries, grid, rng) - entries) / mechanism.scale(grid)
    tests = [mechanism.draw_unevenness(np.zeros(20, np.int64), grid, rng) for _ in range(5000)]
    for found in (sizes, np.abs(np.array(tests)) / mechanism.test_scale(grid)):
        # Absolute Laplace noise is exponential: mean and standard deviation 1.
        error = 4 / np.sqrt(found.size)
        assert abs(found.mean() - 1) < error
        assert abs((1.2 * found).mean() - 1) > error


def test_noise_is_drawn_anew_for_every_entry() -> None:
    mechanism = DiagonalMechanism(1.0, 1.0, Adjacency.REPLACE_ONE)
    noise = mechanism.draw(np.zeros(5000, np.int64), 4**16, np.random.default_rng(0))
    assert np.unique(noise).size > 4990
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 0.06


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
def test_parts_of_epsilon_add_up_on_both_ways(adjacency: str) -> None:
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(4000, 120)) * np.sqrt(np.linspace(0.1, 2, 120))
    sparse = dense.copy()
    sparse[:, :4] += 8 * rng.normal(size=(4000, 1))
    options = {"epsilon": 8.0, "norm_bound": 20.0, "adjacency": adjacency, "tol": 0.1}
    screening = PrivateSparsePCA(1, **options).plan(120).most_rows.screening
    assert screening is not None
    for rows, width in ((sparse, None), (dense, 120)):
        release = PrivateSparsePCA(1, **options).fit(rows).release_
        spent = exact(screening.test_epsilon) + exact(release.mechanism.epsilon)
        if width is None:
            assert release.origin.screening is not None
            spent += exact(screening.epsilon)
        else:
            assert release.origin.screening is None
            assert release.n_features == width
        assert spent == Fraction(8)
        assert release.guarantee.epsilon == 8.0


def test_the_guarantee_is_that_of_all_parts() -> None:
    route = PrivateSparsePCA(1, epsilon=1.0, norm_bound=1.0).plan(100).most_rows
    assert route.screening is not None
    whole = compose((*route.screening.guarantees, route.mechanism.guarantee()))
    assert route.guarantee.epsilon == whole.epsilon == 1.0
    twice = replace(route.screening, epsilon=2 * route.screening.epsilon)
    assert replace(route, screening=twice).guarantee.epsilon > 1.0


def test_noise_that_does_not_fit_is_refused() -> None:
    mechanism = DiagonalMechanism(1e-3, 1e-4, Adjacency.REPLACE_ONE)
    mechanism.check_grid(4**16)
    with pytest.raises(CapacityError, match="int64"):
        mechanism.check_grid(4**24)
