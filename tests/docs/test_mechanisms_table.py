"""The table in docs/reference/mechanisms.md is what tools/mechanisms_table.py makes from the table of mechanisms."""

import importlib.util
import re
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "mechanisms_table.py"
spec = importlib.util.spec_from_file_location("mechanisms_table", TOOL)
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


class Example:
    """A mechanism that exists in no table, by its declared facts."""

    releases, source, use_when = "matrix", "A | B (2026)", "never"

    @classmethod
    def privacy(cls):
        return "epsilon"

    @classmethod
    def numerics_in_words(cls):
        return "exact"


class Approximate(Example):
    @classmethod
    def privacy(cls):
        return "(epsilon, delta)"


def test_the_page_holds_the_table_that_the_mechanisms_make():
    from eigenveil.mechanisms import MECHANISMS

    page = tool.PAGE.read_text(encoding="utf-8")
    assert page == tool.with_table(page, tool.mechanisms_table(MECHANISMS)), (
        "run: python tools/mechanisms_table.py --write"
    )


def test_a_line_says_what_the_mechanism_declares():
    lines = tool.mechanisms_table({"example": Example, "approximate": Approximate}).splitlines()
    assert lines[2] == "| `example` | matrix | epsilon | exact | A \\| B (2026) | never |"
    assert "| (epsilon, delta) |" in lines[3]


def test_a_page_that_differs_is_noticed():
    page = tool.with_table(f"# Mechanisms\n\n{tool.BEGIN}\n{tool.END}\n", tool.mechanisms_table({"example": Example}))
    assert page == tool.with_table(page, tool.mechanisms_table({"example": Example}))
    assert page != tool.with_table(page, tool.mechanisms_table({"example": Approximate}))
    assert page != tool.with_table(page.replace("never", "always"), tool.mechanisms_table({"other": Example}))


def test_a_page_without_markers_is_refused():
    with pytest.raises(SystemExit):
        tool.with_table("# Mechanisms\n", "")


def test_the_page_names_the_calibration_that_releases_record_by_default():
    page = tool.PAGE.read_text(encoding="utf-8")
    from eigenveil.mechanisms import MECHANISMS

    said = page[page.index("The default constants are ours") :].split(". A release")[0]
    named = {name: calibration for calibration, name in re.findall(r'`"(\w+)"` for `(\w+)`', said)}
    (others,) = re.findall(r'`"(\w+)"` for all others', said)
    for name, mechanism in MECHANISMS.items():
        made = mechanism(epsilon=1.0, delta=1e-6 if mechanism.needs_delta else 0.0, n_features=3, n_components=1)
        assert made.parameters()["calibration"] == named.get(name, others), name
