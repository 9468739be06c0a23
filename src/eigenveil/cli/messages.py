"""What a command prints: results as tables and JSON, and warnings and errors in the words of its own options."""

import json
import math
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text
from typer.core import TyperCommand

from ..errors import EigenveilError, NoiseWarning, PrivacyWarning, ReleaseFileWarning
from .terminal import BROKEN_PIPE, INTERRUPTED, TERMINATED, say, untold_failure, visible

REFUSED = 1
"""Exit code of an error, beside 0 (done), 2 (wrong usage, from typer) and 3 (an audit found a violation)."""

# Results.


def output_console() -> Console:
    """Return the console for results: stdout, coloured on a terminal only."""
    return _console(sys.stdout.isatty())


def note_console(quiet: bool = False) -> Console:
    """Return the console for everything but results: stderr."""
    return _console(sys.stderr.isatty(), stderr=True, quiet=quiet)


class _VisibleConsole(Console):
    """A console in which every text is `visible`; colours and bars are its own."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def _console(terminal: bool, **options: Any) -> Console:
    # Names of files and columns are not markup, and a pipe has no width of its own.
    return _VisibleConsole(width=None if terminal else 100, markup=False, highlight=False, emoji=False, **options)


def new_table(*headings: str, left: int = 1) -> Grid:
    """Return a table without frames; so many columns are aligned left, the others right."""
    grid = Grid(header_style="bold", show_header=bool(headings), box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for position, heading in enumerate(headings):
        grid.add_column(heading, justify="left" if position < left else "right")
    return grid


def print_table(console: Console, title: str, grid: Grid) -> None:
    """Print a table below its title."""
    console.print(title, style="bold", soft_wrap=True)
    console.print(grid)


def facts_table(facts: Iterable[tuple[str, str]]) -> Grid:
    """Return a table of facts with their headings."""
    grid = new_table()
    grid.add_column(no_wrap=True)
    grid.add_column()
    for heading, text in facts:
        grid.add_row(f"{heading}:" if heading else "", text)
    return grid


def print_json(value: Any) -> None:
    """Write a JSON text to stdout; arrays are lists, and infinity and NaN, which JSON lacks, are null."""
    typer.echo(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# Warnings and errors.

_PHRASES = {
    "encode it,": "encode it with --categories,",
    "columns= of open_table": "--columns",
    "tables.draft_schema(data)": "`eigenveil schema`",
    "columns=": "--columns",
    " by a schema, by missing= of open_table, or by a RowBound of on_invalid='zero'": " with --missing or --schema",
    " (of an estimator in mechanism_options)": "",
    "by memory= of open_table": "in Python, by memory= of open_table",
    "make one with PrivacyLedger.create": "make one with `eigenveil ledger create`",
    "open it with PrivacyLedger(path), or name another": "name another",
    "; Schema.from_dict takes a mapping": "",
    " (in Python, use schema.confirmed())": "",
}
"""What has no option of the same name."""
_ALIASES = {"n_components": "components", "n_features": "features", "n_rows": "rows"}
_ARGUMENT = re.compile(r"\b([a-z]\w*)=(?:'([^'\s]+)'|([\w.]+?))(?=[\s,;:.)]|$)")
_SUBJECT = re.compile(r"^[a-z_]+(?= must )")
_NAME = re.compile(r"(?<![\w'-])[a-z]+(?:_[a-z]+)+(?![\w'=])")


def in_options(text: str, options: Mapping[str, str]) -> str:
    """Return a sentence that names options where it names arguments, as far as the command has them.

    Parameters
    ----------
    text : str
    options : mapping of str to str
        The options of the command by the names of their parameters.

    Examples
    --------
    >>> options = {"norm_bound": "--norm-bound", "adjacency": "--adjacency", "accept_inexact": "--accept-inexact"}
    >>> in_options("norm_bound must be above 0; or give adjacency='replace_one'.", options)
    '--norm-bound must be above 0; or give --adjacency replace_one.'
    >>> in_options("It needs accept_inexact=True, and a seeded_generator.", options)
    'It needs --accept-inexact, and a seeded_generator.'
    >>> in_options("Give delimiter=';'.", {"delimiter": "--delimiter"})
    "Give --delimiter ';'."
    >>> in_options("epsilon must be above 0.", {"epsilon": "--epsilon"})
    '--epsilon must be above 0.'
    """

    def option(name: str) -> str | None:
        return options.get(_ALIASES.get(name, name)) or options.get(name)

    def argument(found: re.Match[str]) -> str:
        known, value = option(found[1]), found[2] or found[3]
        if known is None or value == "False":
            return found[0]
        return known if value == "True" else f"{known} {shlex.quote(value.replace('above_noise', 'above-noise'))}"

    for phrase, words in _PHRASES.items():
        text = text.replace(phrase, words)
    text = _SUBJECT.sub(lambda found: option(found[0]) or found[0], text)
    return _NAME.sub(lambda found: option(found[0]) or found[0], _ARGUMENT.sub(argument, text))


@dataclass
class _Running:
    """The running command: its options by the names of their parameters, and the warnings that it has printed."""

    options: Mapping[str, str] = field(default_factory=dict)
    quiet: bool = False
    warned: list[str] = field(default_factory=list)


_running: ContextVar[_Running] = ContextVar("running", default=_Running())  # noqa: B039 - it prints no warnings


def in_own_options(text: str) -> str:
    """Return a sentence with the options of the running command."""
    return in_options(text, _running.get().options)


def printed_warnings() -> list[str]:
    """Return the warnings that the running command has printed."""
    return list(_running.get().warned)


def _print_warning(message: Warning | str, *_: Any) -> None:
    """Print a warning once, as a line of stderr."""
    running = _running.get()
    text = in_own_options(" ".join(str(message).split()))
    if text not in running.warned:
        running.warned.append(text)
        if not running.quiet:
            print(visible(f"eigenveil: warning: {text}"), file=sys.stderr)  # above a progress bar, where there is one


class Command(TyperCommand):
    """A command whose errors and warnings name its own options; a warning is one line of stderr."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Warnings of other packages are dropped: they could quote a cell."""
        options = {str(one.name): max(one.opts, key=len) for one in self.params if one.param_type_name == "option"}
        before = _running.set(_Running(options, bool(ctx.params.get("quiet"))))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for kind in (NoiseWarning, PrivacyWarning, ReleaseFileWarning):
                    warnings.simplefilter("always", kind)
                warnings.showwarning = _print_warning  # type: ignore[assignment]
                return super().invoke(ctx)
        except EigenveilError as error:  # its text is changed in place, so that no second error holds it
            error.args = (in_own_options(str(error)), *error.args[1:])
            raise
        finally:
            _running.reset(before)


class Debug:
    """Whether `--debug` was given; set once, by the options before the command."""

    on = False


def run(app: Callable[..., Any]) -> None:
    """Run the command line: an error of ours is one sentence on stderr and exit code 1, a signal has its own."""
    wrong_usage: Any = typer.BadParameter.__base__  # which typer does not export
    try:
        code = app(prog_name="eigenveil", standalone_mode=False) or 0
    except SystemExit as end:
        code = end.code
    except wrong_usage as error:
        error.message = visible(error.message)
        error.show()
        code = error.exit_code
    except EigenveilError as error:
        error.__cause__ = error.__context__ = None  # --debug must not show what another library said about a cell
        _stop(f"eigenveil: {error}", REFUSED)
    except MemoryError:
        _stop("eigenveil: not enough memory; use fewer columns or smaller files.", REFUSED)
    except Exception as error:
        # Its text is not shown: it comes from a library, and may quote private values.
        name = type(error).__name__
        _stop(f"eigenveil: unexpected {name}; run `eigenveil --debug ...` on public data to see where.", REFUSED)
    if code in (INTERRUPTED, TERMINATED):  # typer has made an exit of Ctrl-C
        _stop("eigenveil: interrupted; no half-written file is left, and what a ledger has recorded stays spent.", code)
    # A command fails whose result could not be printed, unless it has spent budget and named its file.
    failure = None if code else untold_failure()
    if failure is not None and failure != BROKEN_PIPE:  # `| head` ends a command without a message
        _stop(f"eigenveil: the result could not be printed on standard output: {failure}.", REFUSED)
    raise SystemExit(code if failure is None else REFUSED)


def _stop(sentence: str, code: int) -> None:
    if Debug.on and sys.exception() is not None:
        say(traceback.format_exc())
    say(sentence)
    raise SystemExit(code) from None
