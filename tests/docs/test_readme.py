"""The README runs, in order, in an empty folder, and shows what comes out; the Python of the docs runs too."""

import re

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


def assert_shown(shown, printed):
    """The README shows lines of the demo in order, by their first words, and may leave some out; numbers are drawn."""
    rest = iter(printed)
    for line in shown:
        label = re.split(r" {2,}", line.strip())[0]
        if label not in ("", "..."):
            assert any(one.strip().startswith(label) for one in rest), f"the demo does not print {label!r} there"


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
