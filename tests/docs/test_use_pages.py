"""The Python of the pages on using a release and on score maps, run as written in an empty folder."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")


@pytest.mark.parametrize("page", ["how_to/use_a_release.md", "research/score_map.md"])
def test_the_python_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    known: dict[str, object] = {}
    for block in blocks:
        exec(block, known)
