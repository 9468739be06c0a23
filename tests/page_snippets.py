"""What a page of the docs tells to run, in its order: blocks of Python, and commands that stand indented."""

import contextlib
import io
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from eigenveil.cli import app

ROOT = Path(__file__).parents[1]
_SNIPPET = re.compile(r"^```(?P<kind>\w*)\n(?P<block>.*?)^```|^ {4}(?P<command>\S[^\n]*)$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    """A block with its kind, or a command; what it printed once it has run."""

    kind: str
    text: str
    printed: str = ""


def snippets(page: str) -> list[Snippet]:
    """Return the snippets of a page; commands that stand in one line are apart."""
    found = []
    for match in _SNIPPET.finditer((ROOT / page).read_text(encoding="utf-8")):
        if match["command"] is None:
            found.append(Snippet(match["kind"], match["block"]))
        else:
            found += [Snippet("command", command) for command in match["command"].split(" && ")]
    return found


def run_page(page: str, *, left_out: tuple[str, ...] = ()) -> list[Snippet]:
    """Run the Python and the commands of a page in the current folder, and return them with what they printed.

    Commands that begin with one of `left_out` are not run; all others have to be ours.
    """
    done, names = [], {"__name__": "__main__"}
    for snippet in snippets(page):
        if snippet.kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(snippet.text, page, "exec"), names)
            done.append(Snippet("python", snippet.text, printed.getvalue()))
        elif snippet.kind == "command" and not snippet.text.startswith(left_out):
            done.append(Snippet("command", snippet.text, run_command(snippet.text)))
    return done


def run_command(line: str) -> str:
    """Run a command line of ours in the current folder, and return what it printed as a result."""
    program, *words = shlex.split(line)
    assert program == "eigenveil", line
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, (line, result.output, result.exception)
    assert "warning:" not in result.stderr, (line, result.stderr)
    return result.stdout


def said(snippet: Snippet) -> list[str]:
    """Return what the comments of a block say that it prints."""
    return re.findall(r"^print\(.*\)\s+# (.*)$", snippet.text, flags=re.MULTILINE)


def assert_same_release(one, other) -> None:
    """Two releases with the same noise were asked for in the same way, and told the same."""
    for fact in ("mechanism", "parameters", "row_rule", "n_rows", "request", "estimator", "schema", "feature_names"):
        assert getattr(one.origin, fact) == getattr(other.origin, fact), fact
    assert one.guarantee == other.guarantee
    assert one.integers.keys() == other.integers.keys()
    assert all((values == other.integers[name]).all() for name, values in one.integers.items())
