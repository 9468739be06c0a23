"""Every example of the gallery runs in an empty folder; the pages are what tools/gallery.py makes of the scripts."""

import importlib.util
import re
import runpy
import shutil
from pathlib import Path

import pytest

from figure_checks import unlabelled

pytest.importorskip("matplotlib", reason="figures are an extra")

import matplotlib
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "gallery"
# What an example needs beyond the packages of the tests; one that is missing is named by the skip.
NEEDS = {"spark": "pyspark", "federation": "cryptography"}
# A third of a minute or more: an engine starts, fits or draws by the thousand, files of hundreds of MB are written.
LONG = {"spark", "audit", "larger_than_memory", "planning"}


@pytest.fixture(scope="module")
def gallery():
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "tools" / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def names():
    return sorted(path.stem for path in (ROOT / "examples" / "gallery").glob("*.py"))


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Return what runs an example in an empty folder, in the look that it asks for, and gives back its figure."""
    monkeypatch.chdir(tmp_path)
    with matplotlib.rc_context():
        yield lambda name: runpy.run_path(str(ROOT / "examples" / "gallery" / f"{name}.py"))["figure"]
        plt.close("all")


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # which one fit in a hundred has, by chance
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.heavy) if n in LONG else n for n in names()])
def test_an_example_runs_in_an_empty_folder_and_labels_every_axis(name, drawn, tmp_path, capsys):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"the example needs {NEEDS[name]}")
    if name == "spark" and not shutil.which("java"):
        pytest.skip("Spark needs Java")
    figure = drawn(name)
    assert figure.axes
    assert unlabelled(figure) == []
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "DP" in capsys.readouterr().out or name in ("planning", "audit", "comparing")


def test_an_example_that_labels_nothing_is_found(drawn, tmp_path, monkeypatch):
    text = (ROOT / "examples" / "gallery" / "raw_table.py").read_text(encoding="utf-8")
    worse = re.sub(r"axes\.set\(xlabel=.*\)\n", "", text)
    assert worse != text
    (tmp_path / "worse.py").write_text(worse, encoding="utf-8")
    figure = runpy.run_path(str(tmp_path / "worse.py"))["figure"]
    assert unlabelled(figure) == ["x of panel 0", "y of panel 0"]


@pytest.mark.parametrize("name", names())
def test_the_page_is_made_of_the_script(name, gallery):
    example = gallery.read(name)
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(gallery.page_start(example))
    (printed,) = re.findall(r"^```text\n(.*?)\n```$", page, flags=re.DOTALL | re.MULTILINE)
    assert page == gallery.page(example, printed)
    assert printed.strip()
    assert 10 <= len(example.code.splitlines()) <= 60
    assert f"`examples/gallery/{name}.py`" in page
    assert "shared" not in example.code


def test_the_index_shows_every_example_with_its_picture_and_words_for_it(gallery):
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert text == gallery.index()
    shown = re.findall(r"\[!\[([^\]]+)\]\(images/(\w+)\.png\)\]\((\w+)\.md\)", text)
    assert sorted(name for _, name, _ in shown) == sorted(page for _, _, page in shown) == names()
    assert all(len(words.split()) > 8 for words, _, _ in shown)


def test_a_page_of_another_script_is_found(gallery):
    """The control: one changed line of a script, and its page is not what the tool would make."""
    example = gallery.read("raw_table")
    changed = gallery.Example(**{**vars(example), "code": example.code.replace("epsilon=1.0", "epsilon=9.0")})
    page = (DOCS / "raw_table.md").read_text(encoding="utf-8")
    assert not page.startswith(gallery.page_start(changed))
