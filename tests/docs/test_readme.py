"""The README's Python blocks run, in order, as a reader would run them, and its claims hold."""

import re
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # small tables, on purpose

ROOT = Path(__file__).parents[2]
# A reader of small examples is told that the noise hides some of what they ask for.
pytestmark = pytest.mark.filterwarnings("ignore:The noise:eigenveil.errors.NoiseWarning")


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def test_readme_blocks_run(tmp_path, monkeypatch, capsys):
    import pyarrow as pa
    import pyarrow.parquet

    monkeypatch.chdir(tmp_path)
    table = pa.table({f"x{j}": 20 * np.random.default_rng(j).normal(size=5000) for j in range(4)})
    pyarrow.parquet.write_table(table, "table.parquet")
    blocks = python_blocks("README.md")
    assert len(blocks) == 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    said = re.findall(r"print\(.*\)\s+# (.*)", "\n".join(blocks))
    assert printed == said


# These are run by tests of their own, which bring devices, engines or smaller sizes.
RUN_ELSEWHERE = {"collect_from_devices", "dask", "federation", "spark", "planning"}
WITH_EXAMPLES = [
    page
    for page in sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))
    if not page.startswith("docs/gallery/")  # test_gallery.py runs the scripts of these
    if Path(page).stem not in RUN_ELSEWHERE and python_blocks(page)
]


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_examples_in_docs_run_and_print_what_they_say(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(page)
    if any("plots" in block for block in blocks):
        pytest.importorskip("matplotlib", reason="plots are an extra")
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    for said in re.findall(r"^print\(.*\)\s+# (.*)", "\n".join(blocks), flags=re.MULTILINE):
        assert said in printed


def test_readme_names_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "    pip install . && eigenveil demo\n" in text
    assert "    pip install '.[test]' && pytest\n" in text
