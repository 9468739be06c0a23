"""Every link, image and mention of a page leads somewhere; the nav of zensical.toml is the one table of contents."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "experiments/README.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / ".github").rglob("*.md")),
]
FOLDERS = ("src", "tests", "benchmarks", "experiments", "examples", "tools")
CODE = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


def prose(text: str) -> str:
    """Return Markdown without its code, where brackets are no links and a sharp sign is no heading."""
    text = re.sub(r"^(```|~~~).*?^\1[ \t]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))


def links(text: str) -> list[str]:
    """Return what the links and images of a page point to, without those that leave the project."""
    text = prose(text)
    found = re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", text)
    found += re.findall(r"^\s*\[[^\]]+\]:\s*(\S+)", text, flags=re.MULTILINE)
    found += re.findall(r"\b(?:href|src)=[\"']([^\"']+)", text)
    return [target for target in found if not re.match(r"[a-z][a-z0-9+.-]*:", target)]


def anchors(text: str) -> set[str]:
    """Return the anchors that headings make, by the rule of Python-Markdown's table of contents."""
    text = re.sub(r"^(```|~~~).*?^\1[ \t]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set(re.findall(r"\bid=[\"']([^\"']+)", text))
    for heading in re.findall(r"^#{1,6} +(.*?)[ \t#]*$", text, flags=re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        plain = shown.encode("ascii", "ignore").decode()
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        name, count = slug, 0
        while name in found:
            count += 1
            name = f"{slug}_{count}"
        found.add(name)
    return found


def broken(page: Path, root: Path = ROOT) -> list[str]:
    """Return the links of a page that lead nowhere, or out of the project."""
    wrong = []
    for target in links(page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page.resolve()
        inside = file.exists() and file.is_relative_to(root.resolve())
        if not inside or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            wrong.append(target)
    return wrong


def nav_pages(config: str) -> list[str]:
    """Return the pages that the nav of zensical.toml names, in its order."""

    def pages(entry: str | dict | list) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in pages(part)]

    return pages(tomllib.loads(config)["project"]["nav"])


def mentions(text: str) -> set[str]:
    """Return the pages of docs/ that a text names by path."""
    return set(re.findall(r"(?<![\w/.])docs/[\w./-]*\.md\b", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page):
    assert broken(page) == []


def test_every_page_is_in_the_nav_exactly_once():
    assert sorted(nav_pages((ROOT / "zensical.toml").read_text(encoding="utf-8"))) == sorted(
        str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")
    )


def test_a_page_stands_in_a_folder_of_its_kind():
    folders = {page.relative_to(DOCS).parts[0] for page in DOCS.rglob("*.md") if page.name != "index.md"}
    assert folders == {"tutorials", "how_to", "reference", "explanation", "research", "gallery"}


def test_every_page_that_is_named_by_its_path_exists():
    named = {(path, page) for path in [*CODE, *PAGES] for page in mentions(path.read_text(encoding="utf-8"))}
    named = {(path, page) for path, page in named if path != Path(__file__).resolve()}
    assert len(named) > 20
    assert sorted(f"{path.relative_to(ROOT)}: {page}" for path, page in named if not (ROOT / page).exists()) == []


# The controls: each of these is a mistake that the tests above must find.


@pytest.mark.parametrize(
    "link",
    [
        "[a page](missing.md)",
        "![an image](images/missing.png)",
        "[an anchor](other.md#missing)",
        "[here](#missing)",
        "[out](../../elsewhere.md)",
        "[a title](missing.md 'which it has')".replace("'", '"'),
        "[by name][x]\n\n[x]: missing.md",
        '<img src="missing.png">',
    ],
)
def test_a_broken_link_is_found(tmp_path, link):
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "elsewhere.md").write_text("# Elsewhere\n")
    (root / "other.md").write_text("# There\n\n```\n# missing\n```\n")
    page = root / "page.md"
    page.write_text(f"# Page\n\n[fine](other.md#there), [fine](#page), `[code](missing.md)`\n\n{link}\n")
    assert len(broken(page, root)) == 1


def test_a_page_outside_the_nav_or_twice_in_it_is_found():
    config = '[project]\nnav = [{"Home" = "index.md"}, {"Part" = ["a/b.md", {"Again" = "a/b.md"}]}]\nother = "c.md"\n'
    assert nav_pages(config) == ["index.md", "a/b.md", "a/b.md"]
