"""The table of raw tables on its page is what the saved results say, and made tables are what their names say."""

import copy
import json
import sys

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
