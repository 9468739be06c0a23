"""The map of docs/how_to/which_call.md: one table of questions and calls, drawn wide and narrow, and written as a list.

python tools/call_map.py --write    draw both pictures, and put the list into the page
"""

import argparse
from dataclasses import dataclass
from html import escape
from pathlib import Path

from marked_part import with_part

from eigenveil.report.plots import BLUE, BROWN, INK

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "how_to" / "which_call.md"
BEGIN = "<!-- calls: begin; made by tools/call_map.py, do not edit by hand -->"
END = "<!-- calls: end -->"


@dataclass(frozen=True)
class Row:
    """A question, as the lines in which it is drawn, what answers it, and the pages that say more.

    Calls are names within `eigenveil`, with a keyword in brackets where that is what counts.
    """

    question: tuple[str, ...]
    calls: tuple[str, ...]
    commands: tuple[str, ...]
    pages: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Part:
    """A part of the map: its heading, what it costs, and its rows."""

    title: str
    cost: str
    rows: tuple[Row, ...]


def row(question: str, calls: str = "", commands: str = "", **pages: str) -> Row:
    """Return a row from its words: lines are parted by a bar, names by blanks, and pages are named by their titles."""
    titles = tuple((title.replace("_", " "), path) for title, path in pages.items())
    return Row(tuple(question.split("|")), tuple(calls.split()), tuple(commands.split()), titles)


PARTS = (
    Part(
        "Before you spend",
        "costs nothing",
        (
            row(
                "Which ranges and|categories are public?",
                "Schema",
                "schema",
                tutorial="tutorials/first_release.md",
                schema="how_to/schema.md",
            ),
            row("How accurate will it be?", "forecast", "plan", planning="how_to/planning.md"),
            row("How much budget is left?", "PrivacyLedger", "ledger", ledger="reference/ledger.md"),
        ),
    ),
    Part(
        "Where are the rows?",
        "the first that fits",
        (
            row(
                "On devices,|one row each?",
                "LocalPCA LocalSparsePCA",
                "local",
                devices="how_to/collect_from_devices.md",
            ),
            row("With several data owners?", "federation", "federation", federation="how_to/federation.md"),
            row(
                "In a frame, a file, SQL,|on Dask or Spark?",
                "tables.open_table",
                "",
                SQL="how_to/sql.md",
                Dask="how_to/dask.md",
                Spark="how_to/spark.md",
                pipelines="how_to/pipelines.md",
                missing_values="how_to/missing_data.md",
                categories="how_to/categorical.md",
            ),
            row(
                "Several rows per person?", "PrivatePCA(privacy_unit=...)", "", privacy_units="how_to/privacy_units.md"
            ),
        ),
    ),
    Part(
        "What do you release?",
        "spends epsilon",
        (
            row("Principal components?", "PrivatePCA", "pca", estimators="reference/estimators.md"),
            row(
                "PCA of columns with|different units?",
                "PrivatePCA(standardize=True)",
                "",
                raw_tables="explanation/raw_tables.md",
            ),
            row(
                "Sparse components, of a|few columns each?",
                "PrivateSparsePCA",
                "sparse-pca",
                estimators="reference/estimators.md",
            ),
            row(
                "A covariance matrix, for|any later analysis?",
                "PrivateCovariance",
                "covariance",
                estimators="reference/estimators.md",
            ),
            row("A prediction of one|column?", "PrivateRidge", "ridge", estimators="reference/estimators.md"),
            row("Means and variances, to|scale columns?", "PrivateScaler", "", pipelines="how_to/pipelines.md"),
            row(
                "A histogram of scores on|two components?",
                "score_map load_score_map",
                "scores",
                score_map="research/score_map.md",
            ),
            row(
                "A mechanism of|your own?",
                "RowBound SecondMoments release",
                "mechanisms",
                add_a_mechanism="how_to/add_a_mechanism.md",
                mechanisms="reference/mechanisms.md",
            ),
        ),
    ),
    Part(
        "What do you do with a release?",
        "no further cost",
        (
            row("Inspect it?", "load_release", "show", release_file="reference/release_file.md"),
            row(
                "Write a report?",
                "report.write_report",
                "report",
                report="how_to/reading_the_report.md",
            ),
            row("Other components?", "Release.pca", "", use_a_release="how_to/use_a_release.md"),
            row(
                "Project new rows, find|outliers?",
                "Release.transform Release.mahalanobis",
                "",
                use_a_release="how_to/use_a_release.md",
            ),
            row(
                "Correlations?",
                "Release.correlation",
                "",
                intervals="research/intervals_of_entries.md",
            ),
            row("Tables to publish?", "Release.summary", "summary", survey="how_to/survey.md"),
            row("Regress one column on|others?", "Release.regress", "", intervals="research/regression_intervals.md"),
            row(
                "Discriminants, canonical|correlations, factors?",
                "Release.lda Release.cca Release.factor_analysis",
                "",
                use_a_release="how_to/use_a_release.md",
            ),
            row(
                "Synthetic rows?",
                "Release.sample",
                "sample",
                use_a_release="how_to/use_a_release.md#synthetic-rows",
            ),
            row("Compare two releases?", "Release.compare", "compare", use_a_release="how_to/use_a_release.md#compare"),
            row(
                "Use it in other tools?",
                "Release.to_sklearn Release.to_json Release.to_onnx",
                "export",
                use_a_release="how_to/use_a_release.md#other-tools",
            ),
        ),
    ),
    Part(
        "Check it",
        "on public rows",
        (
            row("Does the code satisfy its|guarantee?", "audit.audit", "audit", audit="how_to/audit.md"),
            row("Try it on public data?", "", "demo", tutorial="tutorials/medical_table.md"),
        ),
    ),
)

WIDTH, BETWEEN, LINE, HEAD, GAP = 400, 36, 16, 40, 26
PALE, CARD = "#e4edf4", "#f6f7f9"


def shown(call: str) -> str:
    """Return a call as a reader would write it."""
    return call.replace("Release.", "release.")


def _boxed(entry: Row) -> list[str]:
    calls = [line for call in entry.calls for line in shown(call).replace("(", "|  (").split("|")]
    if len(calls) > 1 and calls[0].startswith("release."):  # the object is named once
        calls[1:] = [call.removeprefix("release") for call in calls[1:]]
    return calls + [f"$ eigenveil {command}" for command in entry.commands]


def _text(x: float, y: float, words: str, look: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" {look}>{escape(words)}</text>'


def _card(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}" stroke="{BLUE}"/>'


def _arrow(path: str, colour: str, tip: str, width: float) -> str:
    look = f'fill="none" stroke="{colour}" stroke-width="{width:g}" marker-end="url(#{tip})"'
    return f'<path d="{path}" {look}/>'


def _part(part: Part, x: float, y: float) -> tuple[list[str], float]:
    """Return the drawing of a part at a place, and where it ends."""
    drawn, top = [], y
    y += HEAD + 6
    last = y
    for entry in part.rows:
        boxed = _boxed(entry)
        height = LINE * max(len(boxed), len(entry.question)) + 8
        last = y + height / 2
        first = last - LINE * (len(entry.question) - 1) / 2 + 4
        drawn += [_text(x + 30, first + LINE * i, line, 'class="q"') for i, line in enumerate(entry.question)]
        drawn.append(f'<circle cx="{x + 16:g}" cy="{last:g}" r="4" fill="{BLUE}"/>')
        drawn.append(_arrow(f"M{x + 192:g} {last:g}h14", BLUE, "tip", 1.6))
        size = LINE * len(boxed) + 6
        drawn.append(_card(x + 212, last - size / 2, 180, size, PALE))
        first = last - LINE * (len(boxed) - 1) / 2 + 4
        for i, line in enumerate(boxed):
            look = "s" if line.startswith("$") else "c"
            drawn.append(_text(x + 220, first + LINE * i, line, f'class="{look}" xml:space="preserve"'))
        y += height + 4
    card = [
        _card(x, top, WIDTH, y - top + 4, CARD),
        f'<path d="M{x + 16:g} {top + HEAD - 8:g}V{last:g}" stroke="{BLUE}" stroke-width="1.6"/>',
        _card(x, top, WIDTH, HEAD - 8, BLUE),
        _text(x + 12, top + 21, part.title, 'class="h"'),
        _text(x + WIDTH - 12, top + 21, part.cost, 'class="k" text-anchor="end"'),
    ]
    return card + drawn, y + 4


def picture(name: str, columns: tuple[tuple[Part, ...], ...]) -> str:
    """Return the map as SVG, its parts in columns; on a background of its own, so that both themes can hold it."""
    drawn, bottom, top = [], 0.0, 0.0
    for i, column in enumerate(columns):
        x, y = 8 + i * (WIDTH + BETWEEN), 8.0
        if i:  # from the head of the last part to that of this column
            drawn.append(
                _arrow(f"M{x - BETWEEN:g} {top + 16:g}h{BETWEEN / 2:g}V24h{BETWEEN / 2 - 8:g}", BROWN, "on", 3)
            )
        for j, part in enumerate(column):
            if j:
                drawn.append(_arrow(f"M{x + WIDTH / 2:g} {y:g}v{GAP - 10}", BROWN, "on", 3))
                y += GAP
            top = y
            more, y = _part(part, x, y)
            drawn += more
        bottom = max(bottom, y + 8)
    width = len(columns) * (WIDTH + BETWEEN) - BETWEEN + 16
    tips = "".join(
        f'<marker id="{tip}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="{size}" markerHeight="{size}" '
        f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
        for tip, size, colour in (("tip", 6, BLUE), ("on", 4, BROWN))
    )
    fonts = {"q": (INK, "13px sans-serif"), "h": ("#fff", "bold 15px sans-serif"), "k": ("#fff", "12px sans-serif")}
    fonts |= {"c": (INK, "bold 12px monospace"), "s": (BROWN, "12px monospace")}
    style = "".join(f".{key}{{fill:{colour};font:{font}}}" for key, (colour, font) in fonts.items())
    space = f'xmlns="http://www.w3.org/2000/svg" id="{name}" role="img"'
    lines = [
        f'<svg {space} viewBox="0 0 {width} {bottom:g}" width="{width}" height="{bottom:g}">',
        "<title>Which call for which question; the same as a list below</title>",
        f"<style>{style}</style><defs>{tips}</defs>",
        f'<rect width="{width}" height="{bottom:g}" rx="6" fill="#fff"/>',
        *drawn,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def listed() -> str:
    """Return the map as Markdown: a list for each part, with links."""
    lists = []
    for part in PARTS:
        lines = [f"### {part.title}", "", f"*{part.cost.capitalize()}.*", ""]
        for entry in part.rows:
            names = [f"`{shown(call)}`" for call in entry.calls]
            names += [f"`eigenveil {command}`" for command in entry.commands]
            pages = [f"[{title}](../{path})".replace("(../how_to/", "(") for title, path in entry.pages]
            lines.append(f"- **{' '.join(entry.question)}** {', '.join(names)} → {', '.join(pages)}")
        lists.append("\n".join(lines))
    return "\n\n".join(lists)


def with_list(page: str) -> str:
    """Return the page with the list between its two marks."""
    return with_part(page, BEGIN, END, listed())


def pictures() -> dict[Path, str]:
    """Return what both files of the map hold."""
    images = DOCS / "images"
    return {
        images / "which_call_wide.svg": picture("wide", (PARTS[:3], PARTS[3:])),
        images / "which_call_narrow.svg": picture("narrow", (PARTS,)),
    }


def main() -> None:
    """Print the list, or write it and both pictures."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--write", action="store_true", help="update the page and its pictures")
    if not parser.parse_args().write:
        print(listed())
        return
    PAGE.write_text(with_list(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for path, text in pictures().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
