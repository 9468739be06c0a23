"""The competitors of the benchmark: noise of the stated privacy, and the truth where privacy is cheap."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
if not BENCHMARKS.exists():
    pytest.skip("the benchmarks are not part of this installation", allow_module_level=True)

FREE = 1e7  # an epsilon at which noise is nearly nothing


@pytest.fixture(scope="module")
def modules():
    # The scripts import each other by their short names, which must not stay importable for other tests.
    before = set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import competitors
        import frontier
        import frontier_tables

        yield {
            "competitors": competitors,
            "frontier": frontier,
            "tables": frontier_tables,
        }
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in set(sys.modules) - before:
            if getattr(sys.modules[name], "__file__", None) and Path(sys.modules[name].__file__).parent == BENCHMARKS:
                del sys.modules[name]


@pytest.fixture
def table(modules):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 6)) * np.sqrt([4.0, 2.0, 1.0, 0.3, 0.1, 0.05])
    return modules["tables"].Table("made", "raw", X)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (3.0, 1e-6), (1.0, 1e-3)])
def test_mu_lies_on_the_exact_curve(modules, epsilon, delta):
    mu = modules["competitors"].gaussian_mu(epsilon, delta)

    def spent(mu):
        return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)

    assert spent(mu) == pytest.approx(delta, rel=1e-6)
    assert spent(1.2 * mu) > 1.5 * delta > delta > spent(mu / 1.2) * 1.5


def differences(d, rng, size):
    """Return D = xx' - yy' for unit and shorter rows, the orthogonal pairs that are worst among them."""
    for _ in range(size):
        x, y = rng.standard_normal((2, d))
        x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
        for other in (y, y - (x @ y) * x, 0.5 * y):
            other = other / max(1.0, np.linalg.norm(other))
            yield np.outer(x, x) - np.outer(other, other)


def test_sensitivities_that_the_competitors_are_given_hold_and_are_nearly_reached():
    rng = np.random.default_rng(0)
    largest = {"one column": 0.0, "columns": 0.0, "eigenvalues l2": 0.0, "eigenvalues l1": 0.0, "frobenius": 0.0}
    base = rng.standard_normal((4, 4))
    base = base @ base.T
    for D in differences(4, rng, 300):
        columns = np.linalg.svd(D)[1]
        moved = np.linalg.eigvalsh(base + D) - np.linalg.eigvalsh(base)
        found = {
            "one column": columns[0],
            "columns": np.linalg.norm(columns[:2]),
            "eigenvalues l2": np.linalg.norm(moved),
            "eigenvalues l1": np.abs(moved).sum(),
            "frobenius": np.linalg.norm(D),
        }
        largest = {name: max(largest[name], value) for name, value in found.items()}
    assert largest["one column"] <= 1 + 1e-9
    for name in ("columns", "frobenius", "eigenvalues l2"):
        assert largest[name] <= 2**0.5 + 1e-9
    assert largest["eigenvalues l1"] <= 2 + 1e-9
    assert largest["one column"] > 0.95
    assert largest["columns"] > 0.95 * 2**0.5


def test_where_noise_is_nearly_nothing_everybody_finds_the_truth(modules, table):
    frontier = modules["frontier"]
    for delta in frontier.DELTAS:
        budget = frontier.Budget(FREE if delta == 0 else 1e3, delta)
        for name, contestant in frontier.CONTESTANTS.items():
            if name in ("nothing", "eigenveil", "PPCA", "eigenvector sampling") or delta not in contestant.deltas:
                continue
            choice = {"radius": table.radii[0]} if contestant.clips else {}
            choice |= {"steps": 60} if name == "power method" else {}
            choice |= {"factor": 3.0, "steps": 1} if name == "CoinPress" else {}
            choice |= {"batches": 1, "step": 1e6} if name == "DP-Oja" else {}
            found = contestant.draw(table, budget, np.random.default_rng(5), ("1", "matrix"), **choice)
            limit = 0.5 if name == "DP-Oja" else 0.05  # one batch and a large step are one step of the power method
            assert found["1"] < limit, name
            assert found.get("matrix", 0.0) < 0.2, name
