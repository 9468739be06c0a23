"""The site, built by Zensical and checked as it was built.

python tools/build_site.py FOLDER    build the site in FOLDER; a warning or a broken link is an error

Zensical is strict and checks links between pages. The built pages are checked here again, with what Zensical does not
look at: links and images in HTML, alternative texts, and whether a page loads anything from another host.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
LOADS = {"src", "srcset", "poster", "data"}
# Links of the head that lead to pages; every other one of the head is loaded.
LEADS = {"canonical", "next", "prev", "alternate"}
UNRELEASED = "development"  # in zensical.toml, in place of a version
SILENT = r"(?m)^(Build started|No issues found|Build finished in .*)$"  # all that a build without a warning prints


class Page(HTMLParser):
    """What a built page refers to, which anchors it has, and which of its images say nothing.

    Examples
    --------
    >>> page = Page('<h1 id="top">A</h1><a href="b/#c">b</a><img src="x.png">')
    >>> page.anchors, page.links, page.loads, page.silent
    ({'top'}, ['b/#c'], ['x.png'], ['x.png'])
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.silent: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one tag refers to."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given and (name == "id" or tag == "a")}
        if tag == "img" and not given.get("alt", "").strip():
            self.silent.append(given.get("src", "an image"))
        for name in LOADS & given.keys():
            parts = given[name].split(",") if name == "srcset" else [given[name]]
            self.loads += [part.split()[0] for part in parts if part.split()]
        for name in {"href", "xlink:href"} & given.keys():
            leads = tag in ("a", "area") or LEADS & set(given.get("rel", "").split())
            (self.links if leads else self.loads).append(given[name])
        self.loads += re.findall(r"url\(\s*['\"]?([^'\")]+)", given.get("style", ""))


def problems(site: Path) -> list[str]:
    """Return what is wrong in a built site: one line each, with the page where it is."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    wrong = []
    for path, page in pages.items():
        here = str(path.relative_to(site))
        wrong += [f"{here}: the image {image} has no alternative text" for image in page.silent]
        wrong += [f"{here}: loads {load} from another host" for load in page.loads if _leaves(load)]
        for target in page.links + page.loads:
            if not urlsplit(target).scheme and not _leaves(target) and not _exists(target, path, site, pages):
                wrong.append(f"{here}: {target} leads nowhere")
    for path in sorted(site.rglob("*.css")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"(?:url\(|@import)\s*['\"]?([^'\")\s;]+)", text):
            if _leaves(target):
                wrong.append(f"{path.relative_to(site)}: loads {target} from another host")
    return wrong


def _leaves(target: str) -> bool:
    parts = urlsplit(target)
    return bool(parts.netloc) or parts.scheme in ("http", "https", "ftp")


def _exists(target: str, path: Path, site: Path, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(target)
    # The page of errors is shown at any address, so its links begin at the root of the site; those of others must not.
    name = unquote(parts.path).lstrip("/" if path == site / "404.html" else "")
    file = Path(os.path.normpath(path.parent / name)) if name else path
    file = file / "index.html" if file.is_dir() else file
    if not (file.is_file() and file.is_relative_to(site)):
        return False
    return not parts.fragment or file not in pages or unquote(parts.fragment) in pages[file].anchors


def settings(project: Path) -> str:
    """Return zensical.toml with what the package knows: its version and, where there is one, its repository."""
    text = (project / "zensical.toml").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"', (ROOT / "src/eigenveil/__init__.py").read_text(), re.MULTILINE)
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls", {})
    if version is None or text.count(f'"{UNRELEASED}"') != 1:
        raise SystemExit("The version of the package has no place in zensical.toml.")
    text = text.replace(f'"{UNRELEASED}"', f'"{version[1]}"')
    return (
        text.replace("[project]\n", f'[project]\nrepo_url = "{urls["Repository"]}"\n', 1)
        if "Repository" in urls
        else text
    )


def build(folder: Path, project: Path = ROOT) -> Path:
    """Build a project's site, and return its folder.

    Parameters
    ----------
    folder : Path
        Made anew.
    project : Path
        With zensical.toml, docs, src and tools.
    """
    with tempfile.TemporaryDirectory() as copy:
        # Zensical writes a cache, and the site, inside the project: a copy has neither when it starts.
        for name in ("docs", "src", "tools"):
            shutil.copytree(project / name, Path(copy, name), ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        Path(copy, "zensical.toml").write_text(settings(project), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict"], cwd=copy, stdout=-1, stderr=-2, text=True
        )
        print(done.stdout, end="")
        # A docstring that does not match its function is a warning, and no error for Zensical, even when it is strict.
        if done.returncode or re.sub(SILENT, "", done.stdout).strip():
            raise SystemExit("Zensical reports an error or a warning.")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(Path(copy, "site"), folder)
    return folder


def main() -> None:
    """Build and check the site."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="where the site goes")
    site = build(parser.parse_args().folder)
    wrong = problems(site)
    pages = len(list((ROOT / "docs").rglob("*.md")))
    built = len(list(site.rglob("*.html"))) - (site / "404.html").exists()
    if built != pages:
        wrong.append(f"{built} pages were built of {pages}")
    print(f"{built} pages, {len(wrong)} problems", *wrong, sep="\n  ")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
