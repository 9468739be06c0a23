"""`python -m experiments` itself: with and without the data sets it ends, writes its page, and keeps full results."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.parent.name for path in (ROOT / "experiments").glob("*/run.py"))
KEPT = [path for name in NAMES for path in (ROOT / "experiments" / name).glob("*.json*")]


def run(folder, *words, data=None, **environment):
    """Run the command with its cache in a folder; return what it did, and its page."""
    pytest.importorskip("matplotlib", reason="sections draw figures")
    before = {path: path.read_bytes() for path in KEPT}
    surroundings = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment}
    if data is not None:
        surroundings["EIGENVEIL_DATA"] = str(data)
    done = subprocess.run(
        [sys.executable, "-m", "experiments", *words, "--cache", str(folder)],
        cwd=ROOT,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert before == {path: path.read_bytes() for path in KEPT}
    pages = list(folder.glob("*/research/reproduction.md"))
    return done, pages[0].read_text() if pages else ""


def test_one_repeat_without_data_gives_a_page(tmp_path):
    """The smallest run that there is: every section is there, and says what it lacks."""
    (tmp_path / "data").mkdir()
    names = ["amin2018", "beyond", "chaudhuri2013"]  # those that need data most
    done, page = run(tmp_path / "cache", *names, "--quick", "--repeats", "1", data=tmp_path / "data")
    assert done.returncode == 0, done.stderr
    assert "airfoil not found, left out" in " ".join(done.stderr.split())
    assert page.count("\n## ") == len(NAMES)
    assert "A part is left out here" in page
    assert page.count("Not run yet.") == 3  # one has no cells without data, two were not asked for


@pytest.mark.heavy
def test_one_repeat_with_data_gives_a_page(tmp_path):
    done, page = run(tmp_path, "beyond", "--quick", "--repeats", "1")
    if "not found" in done.stderr:
        pytest.skip("the data sets are not here")
    assert done.returncode == 0, done.stderr
    assert "rows for correlation 0.99" in page


@pytest.mark.heavy
def test_the_quick_size_without_data_agrees_with_what_is_expected(tmp_path):
    (tmp_path / "data").mkdir()
    done, page = run(tmp_path / "cache", "--quick", data=tmp_path / "data")
    assert done.returncode == 0, done.stderr
    assert page.count("\n## ") == len(NAMES)


@pytest.mark.heavy
def test_the_quick_size_with_data_agrees_with_what_is_expected(tmp_path):
    done, page = run(tmp_path, "--quick")
    assert done.returncode == 0, done.stderr
    assert page.count("\n## ") == len(NAMES)
