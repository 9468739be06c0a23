"""Ctrl-C and SIGTERM end a command; during a fit, what a ledger has paid for is first finished and written, or named.

To draw again under the entry of an interrupted draw would be sound only if nobody had seen anything of the first one.
No program can know that, and whoever could ask for another draw might ask until one pleases. So a signal waits instead.
"""

import io
import os
import re
import select
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, suppress
from contextvars import ContextVar
from pathlib import Path
from types import FrameType, MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

from typer.core import TyperCommand

from ..errors import EigenveilError, InvalidDataError
from .options import INTERRUPTED, TERMINATED, say, visible
from .output import untold_failure

if TYPE_CHECKING:
    from rich.progress import Progress


_SIGNALS = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}


class HeldSignals:
    """Inside, a signal ends the command; from `hold` on, a first one waits until the end, and a second one does not.

    All that follows a charge happens inside, to the last line that is printed: whatever goes wrong there, the entry
    that was paid for and the file are named, so that nobody pays again.

    Parameters
    ----------
    ledger : Path, optional
        The ledger that is charged.

    Attributes
    ----------
    entry : int or None
        The entry of the ledger that has been paid for.
    written : Path or None
        Where the release was written to; set by who has written it.
    """

    def __init__(self, ledger: Path | None = None) -> None:
        self._ledger = ledger
        self.entry: int | None = None
        self.written: Path | None = None
        self._holding = False
        self._waiting: int | None = None
        self._before: dict[signal.Signals, Any] = {}

    def hold(self) -> None:
        """Let signals wait from now on."""
        self._holding = True

    def let_go(self) -> None:
        """End at once with the signal that waited, if there is one, and with every further one."""
        self._holding = False
        if self._waiting is not None:
            raise SystemExit(self._waiting)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        del frame
        code = _SIGNALS[signal.Signals(number)]
        if not self._holding or self._waiting is not None:
            self._holding = False
            raise SystemExit(code)
        self._waiting = code
        # Straight to the terminal: Python's own stderr may be in the middle of something, or of a progress bar.
        with suppress(OSError):
            os.write(2, b"eigenveil: the release has been paid for and is being finished; once more stops it.\n")

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # where Python handles signals
            for one in _SIGNALS:
                if signal.getsignal(one) is not signal.SIG_IGN:  # as under nohup
                    self._before[one] = signal.signal(one, self._arrived)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)
        entry = f"entry {self.entry} of the ledger {self._ledger}"
        if self.written is None:
            if self.entry is not None:
                say(f"eigenveil: {entry} was paid for, and no release came of it.")
            return
        unshown = untold_failure()
        if unshown is not None:
            say(f"eigenveil: the result could not be printed on standard output: {unshown}.")
        if unshown is not None or kind is not None or self._waiting is not None:
            paid = "" if self.entry is None else f", paid for by {entry},"
            say(f"eigenveil: the release{paid} is whole in {self.written}.")
        if kind is None and self._waiting is not None:
            raise SystemExit(self._waiting)


@contextmanager
def standard_input() -> Iterator[BinaryIO]:
    """Open standard input for reading; what was not read before the end is lost."""
    if sys.stdin is None:
        raise InvalidDataError("Standard input is closed; name a file.")
    stream = sys.stdin.buffer
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        yield stream
        return
    try:
        number = stream.fileno()
    except (OSError, ValueError):  # no file, as in tests
        yield stream
        return
    noted, note = os.pipe()
    os.set_blocking(note, False)  # as `set_wakeup_fd` wants it
    before = signal.set_wakeup_fd(note, warn_on_full_buffer=False)
    try:
        yield cast(BinaryIO, io.BufferedReader(_Interruptible(number, noted)))
    finally:
        signal.set_wakeup_fd(before)
        os.close(noted)
        os.close(note)


class _Interruptible(io.RawIOBase):
    """A file that is read when it has something, or when a signal was noted and did not end all."""

    def __init__(self, number: int, noted: int) -> None:
        self._number, self._noted = number, noted

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            ready = select.select([self._number, self._noted], [], [])[0]  # after which handlers run, and may raise
            if self._noted in ready:
                os.read(self._noted, 64)
            if self._number in ready:
                return os.readv(self._number, [buffer])


class Watched:
    """A source whose rows are counted by a bar each time they are read; who reads them says what for.

    Parameters
    ----------
    source : Source
    bar : Progress
        With one task.
    afterwards : str
        What follows each time when they have been read.
    """

    def __init__(self, source: Any, bar: "Progress", afterwards: str) -> None:
        self._source, self._bar, self._afterwards = source, bar, afterwards
        self._purpose = "opening"
        self._task = bar.add_task(self._purpose, total=source.n_rows_hint)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def announce(self, purpose: str) -> None:
        """Take what the rows are read for next, in words."""
        self._purpose = purpose

    def batches(self) -> Iterator[Any]:
        """Yield the batches of the source."""
        from ..tables.base import units_in

        self._bar.reset(self._task, description=self._purpose, total=self._source.n_rows_hint)
        seen = 0
        for batch in self._source.batches():
            yield batch
            seen += units_in(batch)
            self._bar.update(self._task, completed=seen)
        # The hint may have been a guess.
        self._bar.update(self._task, description=self._afterwards, total=seen, completed=seen)


@contextmanager
def one_bar(source: Any, afterwards: str, quiet: bool = False) -> Iterator[Any]:
    """Yield the source, watched by a bar on stderr where that is a terminal; readers then show none of their own."""
    terminal, screen = not quiet and sys.stderr.isatty(), sys.stderr
    with redirect_stderr(io.StringIO()):
        if not terminal:
            yield source
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from ..tables.engines import EngineSource

        # Of persons it is their number that is counted: that of their rows is private.
        counted = "persons" if getattr(source, "by_unit", False) else "rows"
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn(f"{{task.completed:,.0f}} {counted}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(file=screen), redirect_stdout=False, redirect_stderr=False) as bar:
            if isinstance(source, EngineSource):  # which reads no rows here
                bar.add_task("adding up rows on the engine", total=None)
                yield source
            else:
                yield Watched(source, bar, afterwards)


_PHRASES = {
    "encode it,": "encode it with --categories,",
    "columns= of open_table": "--columns",
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
# The options of the command that runs, by the names of their parameters.
_running: ContextVar[Mapping[str, str]] = ContextVar("running", default=MappingProxyType({}))
_ARGUMENT = re.compile(r"\b([a-z]\w*)='?([\w.]+?)'?(?=[\s,;:.)]|$)")
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
    """

    def option(name: str) -> str | None:
        return options.get(_ALIASES.get(name, name)) or options.get(name)

    def argument(found: re.Match[str]) -> str:
        known, value = option(found[1]), found[2]
        if known is None or value == "False":
            return found[0]
        return known if value == "True" else f"{known} {value.replace('above_noise', 'above-noise')}"

    for phrase, words in _PHRASES.items():
        text = text.replace(phrase, words)
    return _NAME.sub(lambda found: option(found[0]) or found[0], _ARGUMENT.sub(argument, text))


def in_own_options(text: str) -> str:
    """Return a sentence with the options of the command that runs."""
    return in_options(text, _running.get())


class Command(TyperCommand):
    """A command whose errors and warnings name its own options."""

    def make_context(self, *words: Any, **options: Any) -> Any:
        """Read what was typed; an error about it, which is typer's, quotes it."""
        try:
            return super().make_context(*words, **options)
        except Exception as error:
            if isinstance(getattr(error, "message", None), str):
                vars(error)["message"] = visible(vars(error)["message"])
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        options = {str(one.name): max(one.opts, key=len) for one in self.params if one.param_type_name == "option"}
        before = _running.set(options)
        try:
            return super().invoke(ctx)
        except EigenveilError as error:  # one of ours: its text is changed in place, so that no second error holds it
            error.args = (in_own_options(str(error)), *error.args[1:])
            raise
        finally:
            _running.reset(before)
