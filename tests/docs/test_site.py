"""The site: what tools/build_site.py finds in built pages, and that a warning stops the build.

The whole site is built by `.ci/run` and by the heavy test; here are small ones, and mistakes that must be found.
"""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("build_site", ROOT / "tools" / "build_site.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


@pytest.fixture
def site(tmp_path):
    """Return a site of two pages, without a mistake."""
    (tmp_path / "other").mkdir()
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a b.png").write_bytes(b"")
    (tmp_path / "look.css").write_text("a { color: red } /* https://example.org */")
    (tmp_path / "other" / "index.html").write_text('<h2 id="there">There</h2><a href="..">back</a>')
    (tmp_path / "404.html").write_text('<a href="/other/">other</a>')
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="look.css"><link rel="canonical" href="https://example.org/">'
        '<h1 id="top">Here</h1><a href="other/#there">there</a> <a href="#top">up</a> <a href="https://example.org">out</a>'
        '<img src="images/a%20b.png" alt="two letters"><img src="data:image/png;base64,xx" alt="a dot">'
    )
    return tmp_path


def test_a_site_without_mistakes_has_no_problems(site):
    assert tool.problems(site) == []


@pytest.mark.parametrize(
    "mistake",
    [
        '<a href="gone/">a page</a>',
        '<a href="other/#gone">an anchor</a>',
        '<a href="#gone">here</a>',
        '<a href="/other/">from the root, where the site need not be</a>',
        '<a href="../../elsewhere/">out of the site</a>',
        '<img src="images/gone.png" alt="gone">',
        '<img src="images/a%20b.png">',
        '<img src="images/a%20b.png" alt=" ">',
        '<source srcset="images/gone.png 2x">',
        '<svg><image href="images/gone.png"/></svg>',
        '<script src="https://example.org/x.js"></script>',
        '<script src="//example.org/x.js"></script>',
        '<link rel="preconnect" href="https://example.org">',
        '<link rel="stylesheet" href="https://example.org/font.css">',
        '<p style="background: url(https://example.org/x.png)">',
        "<iframe src='https://example.org'></iframe>",
    ],
)
def test_a_mistake_in_a_page_is_found(site, mistake):
    page = site / "index.html"
    page.write_text(page.read_text() + mistake)
    assert len(tool.problems(site)) == 1


@pytest.mark.parametrize("rule", ['@import "https://example.org/x.css";', "a { background: url(//example.org/x.png) }"])
def test_a_style_sheet_that_loads_from_elsewhere_is_found(site, rule):
    (site / "look.css").write_text(rule)
    assert len(tool.problems(site)) == 1


def project(folder: Path, page: str) -> Path:
    """Make a project of two pages with the settings of ours."""
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[0]
    (folder / "docs").mkdir(parents=True)
    for name in re.findall(r"[\w./-]+\.(?:css|js)\b", config):
        (folder / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "docs" / name, folder / "docs" / name)
    (folder / "src").mkdir()
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "src" / "thing.py").write_text('"""A module."""\n')
    (folder / "mkdocs.yml").write_text(config, encoding="utf-8")
    (folder / "docs" / "index.md").write_text("# Home\n\n[the other](other.md#part)\n")
    (folder / "docs" / "other.md").write_text(f"# Other\n\n## Part\n\n::: thing\n\n{page}\n")
    return folder


def test_a_small_site_builds(tmp_path):
    pytest.importorskip("mkdocs", reason="needs the docs extra")
    site = tool.build(tmp_path / "built", project(tmp_path / "project", "Fine."))
    assert "A module." in (site / "other" / "index.html").read_text(encoding="utf-8")
    assert tool.problems(site) == []


@pytest.mark.parametrize(
    "mistake",
    [
        "[an anchor](index.md#gone)",
        pytest.param("[a page](gone.md)", marks=pytest.mark.heavy),
        pytest.param("::: gone", marks=pytest.mark.heavy),
    ],
)
def test_a_warning_stops_the_build(mistake, tmp_path):
    pytest.importorskip("mkdocs", reason="needs the docs extra")
    with pytest.raises(subprocess.CalledProcessError):
        tool.build(tmp_path / "built", project(tmp_path / "project", mistake))


@pytest.mark.heavy
def test_the_site_builds_and_holds_together(tmp_path):
    pytest.importorskip("mkdocs", reason="needs the docs extra")
    site = tool.build(tmp_path / "built")
    assert tool.problems(site) == []
    assert len(list(site.rglob("index.html"))) == len(list((ROOT / "docs").rglob("*.md")))


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_the_home_page_quotes_what_its_example_prints():
    """The noise is new each time; the guarantee is not, nor how many components there are."""
    pytest.importorskip("matplotlib", reason="plots are an extra")
    found = importlib.util.spec_from_file_location("home_picture", ROOT / "tools" / "home_picture.py")
    home = importlib.util.module_from_spec(found)
    found.loader.exec_module(home)
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^    (.*)$", page.partition("printed: begin")[2].partition("printed: end")[0], re.MULTILINE)
    printed = home.example(page)[1].splitlines()
    assert quoted[0] == printed[0]
    assert len(re.findall(r"\d\.", quoted[1])) == len(re.findall(r"\d\.", printed[1])) == 2
    assert home.with_printed(page, "\n".join(quoted)) == page
    assert home.with_printed(page, "other") != page
