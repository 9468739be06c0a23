"""The README runs, in order, in an empty folder, and shows what comes out; the Python of the docs runs too."""

import json
import re
import sys

import pytest

from eigenveil import load_release
from page_snippets import ROOT, assert_same_release, run_page, said, snippets

# Installing is what was done before these tests, and running them what is being done.
INSTALLED = ("pip install", "pytest")


@pytest.mark.usefixtures("noise_that_repeats")
@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # which one fit in four has, by chance
def test_every_snippet_of_the_readme_runs_in_order_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run_page("README.md", left_out=INSTALLED)
    ran = [snippet.text for snippet in done if snippet.kind == "command"]
    assert ran[0] == "eigenveil demo"
    (program,) = (snippet for snippet in done if snippet.kind == "python")
    assert program.printed.splitlines() == said(program) != []
    shown = next(snippet.text for snippet in snippets("README.md") if snippet.kind == "text")
    assert_shown(shown.splitlines(), done[0].printed.splitlines())
    assert load_release("tumours.npz").components.shape == (2, 10)
    assert_same_release(load_release("again.npz"), load_release("eigenveil-demo/tumours.npz"))


def cells(line):
    """Return the columns of a line of a table; a line without columns is one cell."""
    return re.split(r" {2,}", line.strip())


def assert_shown(shown, printed):
    """The README shows lines of the demo in order and may leave some out; only drawn numbers differ, by little."""
    rest = iter([cells(line) for line in printed])
    tables = 0
    for mine in map(cells, shown):
        if mine in ([""], ["..."]):
            continue
        true = next((one for one in rest if one[0] == mine[0]), None)
        assert true is not None, f"the demo does not print {mine} there"
        if "±" not in "".join(mine[1:]) or not re.match(r"-?[0-9]", mine[1]):
            assert mine == true
            continue
        tables += 1
        assert len(mine) == len(true)
        percent = "%" in mine[1]
        for i, (cell, true_cell) in enumerate(zip(mine[1:], true[1:], strict=True)):
            if i == len(mine) - 2 or (not percent and i % 2):  # without privacy, so without chance
                assert cell == true_cell
            else:
                value, true_value = (float(re.match(r"-?[0-9.]+", one)[0]) for one in (cell, true_cell))
                assert value == pytest.approx(true_value, abs=8 if percent else 0.25)
    assert tables >= 4  # both components of the first table, and some rows of the second


def test_readme_names_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "    pip install . && eigenveil demo\n" in text
    assert "    pip install '.[test]' && pytest\n" in text


def test_the_comparison_is_what_the_saved_results_say(monkeypatch):
    """And `python benchmarks/peers_table.py --write` writes it."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    try:
        import frontier_page
        import peers_table
    finally:
        for name in (set(sys.modules) - before) & {"frontier_page", "peers_table"}:
            del sys.modules[name]
    results = json.loads(peers_table.RESULTS.read_text(encoding="utf-8"))
    assert {"commits", "days", "versions", "machine", "data"} <= results["origin"].keys()
    for page, parts in peers_table.pages(results).items():
        text = page.read_text(encoding="utf-8")
        assert frontier_page.filled(text, parts, peers_table.MARK) == text
    results["cases"][0]["packages"]["eigenveil"]["losses"][0] += 1
    changed = peers_table.pages(results)[peers_table.README]
    assert frontier_page.filled((ROOT / "README.md").read_text(encoding="utf-8"), changed, peers_table.MARK) != (
        ROOT / "README.md"
    ).read_text(encoding="utf-8")


# These are run by tests of their own, which bring devices, engines or smaller sizes, and commands.
RUN_ELSEWHERE = {
    "collect_from_devices",
    "dask",
    "federation",
    "spark",
    "planning",
    "first_release",
    "medical_table",
    "papers",
}
WITH_EXAMPLES = [
    page
    for page in sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))
    if not page.startswith("docs/gallery/")  # test_gallery.py runs the scripts of these
    if page.rpartition("/")[2].removesuffix(".md") not in RUN_ELSEWHERE
    and any(snippet.kind == "python" for snippet in snippets(page))
]


@pytest.mark.parametrize("page", WITH_EXAMPLES)
# A reader of small examples is told that the noise hides some of what they ask for.
@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
# Ibis calls a method of DuckDB that newer versions rename.
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
def test_examples_in_docs_run_and_print_what_they_say(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if any("plots" in snippet.text for snippet in snippets(page) if snippet.kind == "python"):
        pytest.importorskip("matplotlib", reason="plots are an extra")
    for module in ("dp_accounting", "ibis", "opendp"):
        if any(re.search(rf"^(from|import) {module}\b", snippet.text, re.MULTILINE) for snippet in snippets(page)):
            pytest.importorskip(module, reason=f"{module} is an extra")
    done = run_page(page, left_out=("",))  # their commands are examples
    printed = [line for snippet in done for line in snippet.printed.splitlines()]
    for snippet in done:
        assert set(said(snippet)) <= set(printed)
