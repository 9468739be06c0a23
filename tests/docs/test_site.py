"""The site: what tools/build_site.py finds in built pages, and that a warning stops the build.

Small sites have the mistakes that must be found; `.ci/run` builds the whole one.
"""

import importlib.util
import re
import shutil
from pathlib import Path

import absolute_links
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


def project(folder: Path, page: str, code: str = "") -> Path:
    """Make a project of two pages with the settings of ours."""
    config = re.sub(r"(?ms)^nav = \[.*?^\]\n", "", (ROOT / "zensical.toml").read_text(encoding="utf-8"))
    (folder / "docs").mkdir(parents=True)
    for name in re.findall(r"[\w./-]+\.(?:css|js|svg)\b", config):
        (folder / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "docs" / name, folder / "docs" / name)
    (folder / "src").mkdir()
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "src" / "thing.py").write_text(f'"""A module."""\n{code}')
    (folder / "zensical.toml").write_text(config, encoding="utf-8")
    (folder / "docs" / "index.md").write_text("# Home\n\n[the other](other.md#part)\n")
    (folder / "docs" / "other.md").write_text(f"# Other\n\n## Part\n\n::: thing\n\n{page}\n")
    return folder


def test_a_small_site_builds(tmp_path):
    pytest.importorskip("zensical", reason="needs the docs extra")
    site = tool.build(tmp_path / "built", project(tmp_path / "project", "Fine."))
    assert "A module." in (site / "other" / "index.html").read_text(encoding="utf-8")
    assert tool.problems(site) == []


def test_links_of_the_readme_are_absolute_once_the_repository_is_known(tmp_path):
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    readme, project = tmp_path / "README.md", tmp_path / "pyproject.toml"
    if not absolute_links.change(tmp_path):
        assert readme.read_bytes() == (ROOT / "README.md").read_bytes()
        text = project.read_text(encoding="utf-8")
        project.write_text(text.replace("[project]", '[project]\nurls.Repository = "https://example.org/us/thing/"', 1))
        assert absolute_links.change(tmp_path)
    text = readme.read_text(encoding="utf-8")
    assert re.findall(r"\]\((?!https?:|#)", text) == []
    assert text.count("/blob/HEAD/docs/") > 5
    text = absolute_links.with_absolute_links(
        '[![a](b.png)](c.md#d) [e](#f) <img src="g.png"> [h](https://i)', "https://x/y"
    )
    links = [
        "https://x/y/raw/HEAD/b.png",
        "https://x/y/blob/HEAD/c.md#d",
        "#f",
        "https://x/y/raw/HEAD/g.png",
        "https://i",
    ]
    assert text == '[![a]({})]({}) [e]({}) <img src="{}"> [h]({})'.format(*links)


WRONG = (
    'def f(a: int) -> int:\n    """Return a.\n\n    Parameters\n    ----------\n    b : int\n        Gone.\n    """\n'
)


@pytest.mark.parametrize(
    ("mistake", "code"),
    [
        ("[an anchor](index.md#gone)", ""),
        ("A docstring of another function.", WRONG),
        pytest.param("[a page](gone.md)", "", marks=pytest.mark.heavy),
        pytest.param("::: gone", "", marks=pytest.mark.heavy),
        pytest.param("$\\gone{x}$", "", marks=pytest.mark.heavy),
    ],
)
def test_a_warning_stops_the_build(mistake, code, tmp_path):
    pytest.importorskip("zensical", reason="needs the docs extra")
    with pytest.raises(SystemExit):
        tool.build(tmp_path / "built", project(tmp_path / "project", mistake, code))


NEEDED = {
    "eigenveil.federation": "cryptography",
    "eigenveil.interop.dp_accounting": "dp_accounting",
    "eigenveil.interop.opendp": "opendp",
}
MODULES = ("eigenveil", "eigenveil.local", "eigenveil.audit", "eigenveil.theory", *NEEDED)


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_its_place_in_the_api_reference(module):
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/reference/api").glob("*.md"))
    listed = set(re.findall(rf"^::: {module}\.(\w+)$", pages, flags=re.MULTILINE))
    pytest.importorskip(NEEDED.get(module, "numpy"))
    public = set(importlib.import_module(module).__all__) - {"__version__"}
    assert listed == public
