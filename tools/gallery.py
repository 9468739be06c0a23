"""The gallery of docs/gallery, made by running the scripts of examples/gallery.

python tools/gallery.py               run every example and write all pages
python tools/gallery.py spark audit   run these; the other pages stay as they are

An example is one script: its docstring is the title, what it shows (the first paragraph is its line in the index), and
after "Figure:" the alternative text of the picture. The page shows the code above the line "# Figure". The script runs
in an empty folder and writes NAME.png there.
"""

import argparse
import ast
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPTS, PAGES = ROOT / "examples" / "gallery", ROOT / "docs" / "gallery"
SHOWN = 480  # pixels: text in a figure is as large as text on the page
WIDTH = 84  # characters that a page is wide enough for
GROUPS = {
    "Tables": ("raw_table", "standardized", "categories", "privacy_units"),
    "Files, databases, clusters": ("larger_than_memory", "sql_duckdb", "spark"),
    "Rows in several places": ("local_collection", "federation"),
    "Results": ("regression", "sparse", "score_map", "comparing"),
    "Plan and audit": ("planning", "audit"),
}
NAMES = tuple(name for names in GROUPS.values() for name in names)


@dataclass(frozen=True)
class Example:
    """The parts of a script: title, one line, further prose, words for the figure, and the code that is shown."""

    name: str
    title: str
    line: str
    prose: tuple[str, ...]
    words: str
    code: str


def read(name: str) -> Example:
    """Return an example from its script."""
    text = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    docstring = ast.get_docstring(tree)
    if docstring is None or "\n\nFigure: " not in docstring:
        raise SystemExit(f"{name}.py needs a docstring that ends in a paragraph 'Figure: ...'.")
    title, line, *prose, words = (" ".join(part.split()) for part in docstring.split("\n\n"))
    code, figure, _ = "\n".join(text.splitlines()[tree.body[0].end_lineno or 0 :]).partition("\n# Figure\n")
    if not figure:
        raise SystemExit(f"{name}.py needs a line '# Figure' above the code of its figure.")
    sentence = words.removeprefix("Figure: ").rstrip(".")
    return Example(name, title.rstrip("."), line, tuple(prose), sentence[0].upper() + sentence[1:], code.strip())


def page_start(example: Example) -> str:
    """Return the page of an example up to its output: all that follows from the script alone."""
    parts = [f"# {example.title}", example.line, *example.prose, f"```python\n{example.code}\n```"]
    return "\n\n".join(parts) + "\n"


def page(example: Example, printed: str) -> str:
    """Return the whole page of an example that has been run."""
    shown = "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="    ") for line in printed.rstrip().splitlines())
    figure = f'![{example.words}](images/{example.name}.png){{ width="{SHOWN}" }}'
    source = f"Source: `examples/gallery/{example.name}.py`"
    return "\n".join([page_start(example), f"```text\n{shown}\n```\n", f"{figure}\n", f"{source}\n"])


def index() -> str:
    """Return the page with a card for every example."""
    parts = [
        "---\nhide: [toc]\n---",
        "# Gallery",
        "Each script runs in an empty folder. The data ship with scikit-learn or are synthetic, so a page can show "
        "true values beside private ones. Each run draws new noise and prints slightly different numbers. Intervals "
        "are 95 % confidence intervals. Pages leave out the code of the figures.",
    ]
    for group, names in GROUPS.items():
        cards = []
        for one in map(read, names):
            picture = f"[![{one.words}](images/{one.name}.png)]({one.name}.md)"
            cards.append(f"-   {picture}\n\n    **[{one.title}]({one.name}.md)**\n\n    {one.line}")
        parts += [f"## {group}", '<div class="grid cards" markdown>', *cards, "</div>"]
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
    from PIL import Image

    example, images = read(name), PAGES / "images"
    images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        printed, drawn = run(example, Path(folder))
        with Image.open(drawn) as picture:
            # 64 colours are plenty for a chart, and save most of the bytes.
            picture.convert("RGB").quantize(64).save(images / f"{name}.png", optimize=True)
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
