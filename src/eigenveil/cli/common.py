"""What the commands share: where output goes, JSON, files written whole, one sentence for an error."""

import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

import typer
from rich.console import Console
from rich.text import Text

from eigenveil.errors import EigenveilError, InvalidParameterError
from eigenveil.whole_file import whole_file as written_whole

if TYPE_CHECKING:
    from eigenveil.releases import Release

REFUSED, INTERRUPTED, TERMINATED = 1, 130, 143
"""Exit codes beside 0 (done), 2 (wrong usage, from typer) and 3 (an audit found a violation)."""

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else on stdout.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")]
RelationName = Literal["replace", "add_remove"]
Relation = Annotated[RelationName, typer.Option(help="Neighbouring data.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only; no progress, no result.")]

_INTERRUPTED_SENTENCE = (
    "eigenveil: interrupted; no half-written file is left, and a spend that a ledger had recorded stays spent."
)


def output_console() -> Console:
    """Return the console for results: stdout, coloured on a terminal only."""
    return _console(sys.stdout.isatty())


def note_console(quiet: bool = False) -> Console:
    """Return the console for everything that is no result: stderr."""
    return _console(sys.stderr.isatty(), stderr=True, quiet=quiet)


def visible(text: str) -> str:
    r"""Return a text in which all that steers a terminal, or cannot be printed for another reason, is an escape.

    Names of files, columns and data sets come from others, and a terminal obeys what it is sent.

    Examples
    --------
    >>> print(visible("age\x1b[2J"))
    age\x1b[2J
    """
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


def say(text: str, *, err: bool = True) -> None:
    """Print a text as it is, but for what steers a terminal; on stderr by default."""
    typer.echo(visible(text), err=err)


class _VisibleConsole(Console):
    """A console in which every text is `visible`; colours and bars are its own."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def _console(terminal: bool, **options: Any) -> Console:
    # Names of files and columns are not markup, and a pipe has no width of its own.
    return _VisibleConsole(width=None if terminal else 100, markup=False, highlight=False, emoji=False, **options)


def print_json(value: Any) -> None:
    """Write a JSON text to stdout; JSON has no infinity and no NaN, so they become null."""
    typer.echo(json.dumps(_finite(value), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when all of it has been written."""
    try:
        with written_whole(path) as file:
            yield file
    except OSError as error:
        raise InvalidParameterError(f"{path} cannot be written: {error.strerror}.") from error


def check_output(path: Path, force: bool, inputs: Sequence[str | Path] = (), option: str = "--output") -> None:
    """Refuse, before anything is spent, a place where the result could not or must not be written."""
    if path.resolve() in [Path(name).resolve() for name in inputs]:
        raise InvalidParameterError(f"{path} is read from and cannot be the output; name another {option}.")
    if path.exists() and not force:
        raise InvalidParameterError(f"{path} is already there; name another {option}, or add --force.")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise InvalidParameterError(f"{path} cannot be written; name another {option}.")


class Debug:
    """Whether `--debug` was given; set once, by the options before the command."""

    on = False


class LargestFile:
    """The most bytes of a release file that are read; None is the default of `load_release`. Set as `Debug` is."""

    limit: int | None = None

    @classmethod
    def given(cls) -> dict[str, int]:
        """Return it as `load_release` takes it."""
        return {} if cls.limit is None else {"max_bytes": cls.limit}


def opened_release(path: str | Path) -> "Release":
    """Read a release file, as large as `--largest-file` allows."""
    from eigenveil.releases import load_release

    return load_release(path, **LargestFile.given())


def run(app: Callable[[], Any]) -> None:
    """Run the command line: an error of ours is one sentence on stderr and exit code 1, a signal has its own."""
    try:
        app()
    except KeyboardInterrupt:
        _stop(_INTERRUPTED_SENTENCE, INTERRUPTED)
    except SystemExit as end:  # typer has made an exit of the interrupt
        if end.code in (INTERRUPTED, TERMINATED):
            _stop(_INTERRUPTED_SENTENCE, int(end.code))
        raise
    except EigenveilError as error:
        error.__cause__ = error.__context__ = None  # --debug must not show what another library said about a cell
        _stop(f"eigenveil: {error}", REFUSED)
    except MemoryError:
        _stop("eigenveil: there is not enough memory for this.", REFUSED)
    except Exception as error:
        # Its text is not shown: it comes from a library, and may quote private values.
        name = type(error).__name__
        _stop(
            f"eigenveil: an unexpected {name}; `eigenveil --debug ...` shows where, on data that are public.", REFUSED
        )


def _stop(sentence: str, code: int) -> None:
    if Debug.on:
        say(traceback.format_exc())
    say(sentence)
    raise SystemExit(code) from None
