"""The command line. What it offers is told without loading anything: a terminal should not wait for a list."""

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .commands import app


__all__ = ["COMMANDS", "app", "main", "overview"]

COMMANDS = {
    "demo": "Fit a private PCA on a medical table that ships with scikit-learn, and write the release and its report.",
    "schema": "Draft a schema from the names and types of a table, for you to check; or show a schema file.",
    "pca": "Release principal components of a table.",
    "sparse-pca": "Release principal components that use few features.",
    "covariance": (
        "Release the covariance of a table, or with --no-center its second moment, for others to use freely."
    ),
    "ridge": "Release a ridge regression; or, from a release file (.npz) of `covariance`, compute one at no cost.",
    "scores": "Release a private map of scores: how many rows lie in each cell of two released components.",
    "plan": "Forecast what a fit will report, by mechanism, from public numbers. No data are read, nothing is spent.",
    "show": "Show what a release says: its guarantee, where it comes from, components and variances. It costs nothing.",
    "compare": "Compare two releases of the same features: directions, matrices, and what both promise together.",
    "export": (
        "Write a release in another form: JSON for any language, or an ONNX model that projects rows. It costs nothing."
    ),
    "sample": "Write synthetic rows with the mean and covariance of a release, in its declared categories and ranges.",
    "report": "Write a report on a release: its answer with errors, then what a data-protection officer asks.",
    "audit": "Try to refute a privacy claim. Exit code 0: not refuted, which proves nothing; 3: refuted.",
    "mechanisms": "List the mechanisms: what each releases, what it promises, where it comes from and when to use it.",
    "ledger": "Keep a privacy budget for a data set.",
    "local": "Private PCA without a trusted collector: clients encode, a server aggregates.",
    "federation": "One release of several custodians who share no rows.",
}
"""Every command and every group of commands, in the order of the overview; each says the same of itself."""

_OPTIONS = {
    "--version": "Print the version.",
    "--debug": "Show the traceback of an error; it may quote private values.",
    "--largest-file": "Read no release file that is larger; 2 GiB by default.",
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Show completion for the current shell, to copy it or customize the installation.",
    "-h, --help": "Show this message, or that of a command.",
}
_WIDEST = 110
WRONG_USAGE = 2
"""The exit code of words that are no command, as typer has it."""

__getattr__, __dir__ = lazily(__name__, {"app": "commands"})


def overview(width: int) -> str:
    """Return what `eigenveil --help` prints, in lines of this width.

    Examples
    --------
    >>> print(overview(80)[:44])
    Usage: eigenveil [OPTIONS] COMMAND [ARGS]...
    """
    indent = 2 + max(map(len, (*COMMANDS, *_OPTIONS))) + 2
    parts = [
        "Usage: eigenveil [OPTIONS] COMMAND [ARGS]...\n",
        "Differentially private PCA with guarantees you can defend.",
    ]
    for title, entries in (("Commands", COMMANDS), ("Options", _OPTIONS)):
        parts.append(f"\n{title}:")
        for name, sentence in entries.items():
            first = f"  {name}".ljust(indent)
            parts.append(textwrap.fill(sentence, width, initial_indent=first, subsequent_indent=" " * indent))
    return "\n".join(parts)


def main() -> None:
    """Run the command line; docs/reference/command_line.md lists the exit codes."""
    if sys.argv[1:] in ([], ["-h"], ["--help"]):
        print(overview(min(shutil.get_terminal_size().columns, _WIDEST)))
        raise SystemExit(0 if sys.argv[1:] else WRONG_USAGE)
    from .commands import app
    from .options import run
    from .output import lasting_output
    from .terminal import HeldSignals

    with lasting_output(), HeldSignals():
        run(app)
