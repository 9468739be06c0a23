"""The table of other methods on the page of regressions is what the saved results say."""

import copy
import json
import sys

from page_snippets import ROOT

MODULES = ("datasets", "frontier_page", "inference", "ridge")


def test_the_table_is_what_the_saved_results_say(monkeypatch):
    """And `python benchmarks/inference.py --write` writes it."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import inference

    try:
        results = json.loads(inference.RESULTS.read_text(encoding="utf-8"))
        page = inference.PAGE.read_text(encoding="utf-8")
        assert inference.filled(page, inference.parts(results), inference.MARK) == page
        changed = copy.deepcopy(results)
        changed["cells"][0]["delta"]["coverage"] += 0.5
        assert inference.filled(page, inference.parts(changed), inference.MARK) != page
    finally:
        for name in (set(sys.modules) - before) & set(MODULES):
            del sys.modules[name]
