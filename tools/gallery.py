"""The gallery of docs/gallery, made by running the scripts of examples/gallery.

python tools/gallery.py               run every example and write all pages
python tools/gallery.py spark audit   run these; the other pages stay as they are

An example is one script: its docstring is the title, what it shows (the first paragraph is its line of the index), and
after "Figure:" the words for those who do not see the picture. It runs in an empty folder, and leaves NAME.png there.
"""

import argparse
import ast
import re
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPTS, PAGES = ROOT / "examples" / "gallery", ROOT / "docs" / "gallery"
THUMBNAIL = (240, 150)  # pixels: three beside each other on a page
WIDTH = 84  # characters that a page is wide enough for
GROUPS = {
    "From a table": ("raw_table", "standardized", "categories"),
    "Whose rows, and where they are": ("privacy_units", "larger_than_memory", "sql_duckdb"),
    "Not all in one place": ("spark", "local_collection", "federation"),
    "What is asked": ("regression", "sparse", "score_map"),
    "Before and after": ("planning", "audit", "comparing"),
}
NAMES = tuple(name for names in GROUPS.values() for name in names)


@dataclass(frozen=True)
class Example:
    """What a script says of itself: title, one line, further prose, words for the figure, and its code."""

    name: str
    title: str
    line: str
    prose: tuple[str, ...]
    words: str
    code: str


def read(name: str) -> Example:
    """Return an example as its script tells it."""
    text = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    told = ast.get_docstring(tree)
    if told is None or "\n\nFigure: " not in told:
        raise SystemExit(f"{name}.py needs a docstring that ends in a paragraph 'Figure: ...'.")
    title, line, *prose, words = (" ".join(part.split()) for part in told.split("\n\n"))
    code = "\n".join(text.splitlines()[tree.body[0].end_lineno or 0 :]).strip()
    sentence = words.removeprefix("Figure: ").rstrip(".")
    return Example(name, title.rstrip("."), line, tuple(prose), sentence[0].upper() + sentence[1:], code)


def page_start(example: Example) -> str:
    """Return the page of an example up to its output: all that follows from the script alone."""
    parts = [f"# {example.title}", example.line, *example.prose, f"```python\n{example.code}\n```"]
    return "\n\n".join(parts) + "\n"


def page(example: Example, printed: str) -> str:
    """Return the whole page of an example that has been run."""
    seeded = (
        "Its noise is drawn from a seed, so that this page can be made again; a release from a seed promises nothing."
    )
    made = f"`examples/gallery/{example.name}.py`, run by `python tools/gallery.py {example.name}`."
    note = f"{made} {seeded}" if re.search(r"random_state=|generator=|seed=", example.code) else made
    shown = "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="    ") for line in printed.rstrip().splitlines())
    figure = f"![{example.words}](images/{example.name}.png)"
    return "\n".join([page_start(example), f"```text\n{shown}\n```\n", f"{figure}\n", f"{note}\n"])


def index() -> str:
    """Return the page with a thumbnail of every example."""
    parts = [
        "# Gallery",
        "Short scripts, each run as it stands in an empty folder, on data that ship with scikit-learn or are made up "
        "there: so the truth may stand beside the private release. Where noise is seeded, so that a page can be made "
        "again, the release says that it is not private: leave `random_state` out.",
    ]
    for group, names in GROUPS.items():
        rows = [read(name) for name in names]
        cells = [
            [f"[{one.title}]({one.name}.md)" for one in rows],
            ["---"] * len(rows),
            [f"[![{one.words}](images/{one.name}_small.png)]({one.name}.md)" for one in rows],
            [one.line.replace("|", "\\|") for one in rows],
        ]
        parts += [f"## {group}", "\n".join(f"| {' | '.join(row)} |" for row in cells)]
    return "\n\n".join(parts) + "\n"


def run(example: Example, folder: Path) -> tuple[str, Path]:
    """Run an example in a folder; return what it printed, and its picture."""
    command = [sys.executable, "-W", "error", str(SCRIPTS / f"{example.name}.py")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{example.name}.py fails:\n{done.stderr}")
    return done.stdout, folder / f"{example.name}.png"


def make(name: str) -> None:
    """Run one example and write its page and pictures."""
    from PIL import Image, ImageOps

    example, images = read(name), PAGES / "images"
    images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        printed, drawn = run(example, Path(folder))
        with Image.open(drawn) as picture:
            # 256 colours are plenty for a chart, and a quarter of the bytes.
            whole = picture.convert("RGB")
            whole.quantize(256).save(images / f"{name}.png", optimize=True)
            small = ImageOps.pad(whole, THUMBNAIL, Image.Resampling.LANCZOS, color="white")
            small.quantize(64).save(images / f"{name}_small.png", optimize=True)
    (PAGES / f"{name}.md").write_text(page(example, printed), encoding="utf-8")


def main() -> None:
    """Make the pages that are named, or all of them, and the index."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}")
    chosen = parser.parse_args().names or NAMES
    if unknown := sorted(set(chosen) - set(NAMES)):
        parser.error(f"there is no example {unknown[0]}; choose from {', '.join(NAMES)}")
    for name in chosen:
        print(name, flush=True)
        make(name)
    (PAGES / "index.md").write_text(index(), encoding="utf-8")


if __name__ == "__main__":
    main()
