"""Tables of pages are what the saved results of the benchmarks say; the programs named here write them."""

import copy
import importlib
import json
import sys
from pathlib import Path

import pytest

from page_snippets import ROOT

BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    """Return what imports a script of the benchmarks, which must not stay importable for other tests."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "").parent == BENCHMARKS:
            del sys.modules[name]


def test_regressions(load):
    """And `python benchmarks/inference.py --write` writes it."""
    inference = load("inference")
    results = json.loads(inference.RESULTS.read_text(encoding="utf-8"))
    page = inference.PAGE.read_text(encoding="utf-8")
    assert inference.filled(page, inference.parts(results), inference.MARK) == page
    changed = copy.deepcopy(results)
    changed["cells"][0]["delta"]["coverage"] += 0.5
    assert inference.filled(page, inference.parts(changed), inference.MARK) != page


def test_raw_tables(load):
    """And `python benchmarks/raw_tables.py --write` writes it."""
    raw_tables = load("raw_tables")
    results = json.loads(raw_tables.RESULTS.read_text(encoding="utf-8"))
    assert {"commits", "days", "versions", "machine", "data"} <= results["origin"].keys()
    page = raw_tables.PAGE.read_text(encoding="utf-8")
    assert raw_tables.filled(page, raw_tables.page_part(results), raw_tables.MARK) == page
    losses = results["cells"][0]["losses"]
    losses["default"] = [10 * one + 0.1 for one in losses["default"]]
    assert raw_tables.filled(page, raw_tables.page_part(results), raw_tables.MARK) != page


def test_other_packages(load):
    """And `python benchmarks/peers_table.py --write` writes it."""
    peers_table, filled = load("peers_table"), load("frontier_page").filled
    results = json.loads(peers_table.RESULTS.read_text(encoding="utf-8"))
    assert {"commits", "days", "versions", "machine", "data"} <= results["origin"].keys()
    texts = {page: page.read_text(encoding="utf-8") for page in peers_table.pages(results)}
    for page, parts in peers_table.pages(results).items():
        assert filled(texts[page], parts, peers_table.MARK) == texts[page]
    results["cases"][0]["packages"]["eigenveil"]["losses"][0] += 1
    readme = peers_table.README
    assert filled(texts[readme], peers_table.pages(results)[readme], peers_table.MARK) != texts[readme]


def test_frontier(load):
    """And `python benchmarks/frontier_page.py` writes it."""
    page = load("frontier_page")
    results = json.loads(page.RESULTS.read_text(encoding="utf-8"))
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.filled(text, page.sections(results)) == text
