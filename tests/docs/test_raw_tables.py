"""The table of raw tables on its page is what the saved results say, and made tables are what their names say."""

import copy
import json
import sys

import numpy as np
import pytest

from page_snippets import ROOT

MODULES = ("datasets", "frontier_page", "raw_tables", "raw_tables_data")


@pytest.fixture
def raw_tables(monkeypatch):
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import raw_tables

    yield raw_tables
    for name in (set(sys.modules) - before) & set(MODULES):
        del sys.modules[name]


@pytest.fixture
def results(raw_tables):
    return json.loads(raw_tables.RESULTS.read_text(encoding="utf-8"))


def test_the_table_is_what_the_saved_results_say(raw_tables, results):
    """And `python benchmarks/raw_tables.py --write` writes it."""
    assert {"commits", "days", "versions", "machine", "data"} <= results["origin"].keys()
    page = raw_tables.PAGE.read_text(encoding="utf-8")
    assert raw_tables.filled(page, raw_tables.page_part(results), raw_tables.MARK) == page
    changed = copy.deepcopy(results)
    cell = changed["cells"][0]
    cell["losses"]["default"] = [10 * one + 0.1 for one in cell["losses"]["default"]]
    assert raw_tables.filled(page, raw_tables.page_part(changed), raw_tables.MARK) != page


def test_the_saved_results_hold_tables_of_every_kind(results):
    tables = {cell["table"] for cell in results["cells"]}
    assert len(tables) >= 12
    assert {"wine", "binary", "one_hot", "zero_inflated", "likert", "heavy_tails", "lognormal"} <= tables
    assert {"duplicated", "constants"} <= tables
    assert {cell["target"] for cell in results["cells"]} == {"correlations", "covariance"}
    assert {cell["delta"] for cell in results["cells"]} == {0.0, 1e-6}
    epsilons, rows, widths = ({cell[of] for cell in results["cells"]} for of in ("epsilon", "n", "d"))
    assert min(epsilons) <= 0.1
    assert max(epsilons) >= 3
    assert min(rows) <= 200
    assert min(widths) <= 3
    assert max(widths) >= 200


def test_a_ratio_of_losses_has_the_standard_error_of_both(raw_tables):
    rng = np.random.default_rng(0)
    mine, best = 0.3 + 0.03 * rng.standard_normal((4_000, 10)), 0.1 + 0.02 * rng.standard_normal((4_000, 10))
    cells = [
        {"losses": {"default": list(one), "oracle": list(other)}, "random": 0.9}
        for one, other in zip(mine, best, strict=True)
    ]
    logs, errors = np.array([raw_tables.log_ratio(cell) for cell in cells]).T
    assert np.exp(logs.mean()) == pytest.approx(3, rel=0.02)
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(logs.std(), rel=0.05)
    refused = {"losses": {"default": [], "oracle": [0.1, 0.1]}, "random": 0.9}
    assert raw_tables.log_ratio(refused) == pytest.approx((np.log(9), 0))
    small = {"losses": {"default": [1e-9, 1e-9], "oracle": [1e-12, 1e-12]}, "random": 0.9}
    assert raw_tables.log_ratio(small)[0] == 0


def test_an_oracle_loses_nothing_without_noise_and_with_much_noise_what_random_directions_lose(raw_tables):
    X = raw_tables.load("normal")

    class Noise:
        def __init__(self, size):
            self.size = size

        def simulated_noise(self, generator):
            noise = self.size * generator.standard_normal((X.shape[1], X.shape[1]))
            return noise + noise.T

    for target in raw_tables.POWERS:
        oracle = raw_tables.Oracle(X, target)
        assert np.mean(oracle.answers(Noise(0.0), 1)[0]) < 1e-6
    oracle = raw_tables.Oracle(X, "correlations")  # of the covariance it knows the large columns
    assert np.mean(oracle.answers(Noise(1e9), 200)[0]) == pytest.approx(raw_tables.random_loss(oracle.truth), abs=0.03)


def test_made_tables_repeat_and_are_what_they_are_called(raw_tables):
    binary, one_hot, sparse, likert = (raw_tables.load(n) for n in ("binary", "one_hot", "zero_inflated", "likert"))
    assert set(np.unique(binary)) == set(np.unique(one_hot)) == {0.0, 1.0}
    assert np.all(one_hot.sum(axis=1) == 6)
    assert 0.85 < np.mean(sparse == 0) < 0.95
    assert set(np.unique(likert)) == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert np.sum(raw_tables.load("constants").std(axis=0) == 0) == 6
    raw_tables.load.cache_clear()
    assert np.array_equal(raw_tables.load("binary"), binary)
    assert len(raw_tables.load("long", 10_000)) == 10_000
