"""The Python of some pages, run as written in an empty folder."""

from pathlib import Path

import pytest

from eigenveil.cli.mechanisms import PAPERS, SHORTHANDS
from eigenveil.mechanisms import sampling_directions
from page_snippets import run_page

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")


def test_the_calls_of_the_papers_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sampling_directions, "PUBLISHED_UPDATES", 200)  # far shorter chains than the paper has
    assert run_page("docs/reference/papers.md")


def test_the_survey_runs_with_its_command(tmp_path, monkeypatch):
    pytest.importorskip("statsmodels", reason="the survey is one of its data sets")
    pytest.importorskip("matplotlib", reason="the page draws a figure")
    monkeypatch.chdir(tmp_path)
    done = run_page("docs/how_to/survey.md")
    command = next(snippet for snippet in done if snippet.kind == "command")
    assert "Private regression of rate_marriage" in command.printed
    assert "base level job=white-collar" in command.printed


def test_the_page_of_the_papers_has_the_calls_of_the_command_line():
    page = (DOCS / "reference" / "papers.md").read_text(encoding="utf-8")
    lines = page.splitlines()
    for published in PAPERS:
        assert published.call in lines
        assert f"| {published.name} |" in page
    for name, value in SHORTHANDS.items():
        assert f"{name} = {value}" in lines
