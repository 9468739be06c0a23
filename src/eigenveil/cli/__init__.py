"""The command line. The overview is printed without loading anything: a terminal should not wait for a list."""

import gc
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer

    app: typer.Typer

__all__ = ["COMMANDS", "app", "main", "overview"]

ABOUT = "Differentially private PCA, covariance, correlation and regression for tabular data."
COMMANDS = {
    "demo": "Run a private PCA on a public medical table and write a release and a report.",
    "schema": "Draft a schema for a table, or show a schema file.",
    "pca": "Release private principal components of a table.",
    "sparse-pca": "Release private principal components that use few features.",
    "covariance": "Release the private covariance matrix of a table.",
    "ridge": "Release a private ridge regression, or compute one from a release at no cost.",
    "scores": "Release a private histogram of the scores on two released components.",
    "plan": "Forecast the accuracy of a fit from public numbers. Reads no data, spends nothing.",
    "show": "Show a release: its guarantee, components and intervals. Spends nothing.",
    "summary": "Print tables of a release with standard errors and intervals. Spends nothing.",
    "compare": "Compare two releases of the same features. Spends nothing.",
    "export": "Convert a release to JSON or to an ONNX model. Spends nothing.",
    "sample": "Write synthetic rows with the mean and covariance of a release. Spends nothing.",
    "report": "Write an HTML report about a release for readers and data-protection officers.",
    "audit": "Try to refute the privacy claim of a mechanism. Exit code 3: refuted; 0: not refuted.",
    "mechanisms": "List the mechanisms: what they release, their guarantee and when to use them.",
    "ledger": "Track the privacy budget of a data set.",
    "local": "Local differential privacy: clients encode rows, a server aggregates reports.",
    "federation": "One release from several data owners who do not share rows.",
}
"""Every command and every group of commands, in the order of the overview; each describes itself by the same line."""

_OPTIONS = {
    "--version": "Print the version.",
    "--debug": "Show the traceback of an error; it may quote private values.",
    "--largest-file BYTES": "Refuse larger release files. Default: 2 GiB.",
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Print completion for the current shell.",
    "-h, --help": "Show this message.",
}
MOST_COLUMNS = 100
"""Help is never wider than this."""
_LEFT = 26  # columns for an option and its value; a longer one has a line of its own
# Modules make objects that stay. To look for cycles among them as often as usual takes a tenth of a short command.
_OBJECTS_BETWEEN_COLLECTIONS = 10_000
WRONG_USAGE = 2
"""The exit code of wrong usage, as typer has it."""


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .commands import app_with

    return app_with(*COMMANDS)


def help_width() -> int:
    """Return the columns that help is written in."""
    return min(shutil.get_terminal_size().columns, MOST_COLUMNS)


def two_columns(entries: Iterable[tuple[str, str]], width: int, left: int = _LEFT) -> list[str]:
    """Return lines with a term at the left and its sentence at the right; no word is broken.

    Examples
    --------
    >>> two_columns([("--epsilon NUMBER", "Privacy budget."), ("--json", "As JSON.")], 40, 20)
    ['  --epsilon NUMBER  Privacy budget.', '  --json            As JSON.']
    """
    lines = []
    for term, sentence in entries:
        first = f"  {term}".ljust(left)
        if not first[: left + 1].endswith("  "):
            lines.append(first.rstrip())
            first = " " * left
        lines += textwrap.wrap(
            sentence,
            width,
            initial_indent=first,
            subsequent_indent=" " * left,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [first.rstrip()]
    return lines


def overview(width: int) -> str:
    """Return what `eigenveil --help` prints, in lines of this width.

    Examples
    --------
    >>> print(overview(80)[:41])
    Usage: eigenveil [OPTIONS] COMMAND ...
    <BLANKLINE>
    D
    """
    lines = ["Usage: eigenveil [OPTIONS] COMMAND ...", "", *textwrap.wrap(ABOUT, width)]
    for title, entries in (("Commands", COMMANDS), ("Options", _OPTIONS)):
        lines += ["", f"{title}:", *two_columns(entries.items(), width)]
    return "\n".join([*lines, "", "`eigenveil COMMAND --help` shows the options of a command."])


def main() -> None:
    """Run the command line; docs/reference/command_line.md lists the exit codes."""
    completes = "_EIGENVEIL_COMPLETE" in os.environ  # set by the shell, which gives no words
    if not completes and sys.argv[1:] in ([], ["-h"], ["--help"]):
        print(overview(help_width()))
        raise SystemExit(0 if sys.argv[1:] else WRONG_USAGE)
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    from .commands import app_with
    from .options import run
    from .output import lasting_output
    from .terminal import HeldSignals

    known = not completes and sys.argv[1] in COMMANDS
    app = app_with(*(sys.argv[1:2] if known else COMMANDS))
    with lasting_output(), HeldSignals():
        run(lambda: app(prog_name="eigenveil"))
