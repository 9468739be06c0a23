"""Streams, signals and progress of a command.

Standard output and standard error never raise: a command that failed after a spend would have to spend again. A closed
terminal, a pipe without a reader, a full disk and a missing letter of an encoding do not end a command. What cannot be
printed is left out; `untold_failure` returns the reason, once.

Ctrl-C and SIGTERM end a command. Once a ledger has recorded a spend, the release is finished and written first. To draw
again under the entry of an interrupted draw would be sound only if nobody had seen anything of the first one. No
program can know that, and whoever could ask for another draw might ask until one pleases. So a signal waits instead.
"""

import io
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TextIO, cast

import typer

from ..errors import InvalidDataError

if TYPE_CHECKING:
    from ..accounting.ledger import LedgerEntry, PrivacyLedger
    from ..guarantee import Guarantee


def visible(text: str) -> str:
    r"""Return a text with escapes in place of control characters and other characters that cannot be printed.

    Names of files, columns and data sets come from others, and a terminal obeys control characters.

    Examples
    --------
    >>> print(visible("age\x1b[2J"))
    age\x1b[2J
    """
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


def say(text: str, *, err: bool = True) -> None:
    """Print a text without control characters; on stderr by default."""
    typer.echo(visible(text), err=err)


# Standard output and standard error.

BROKEN_PIPE = "nobody reads it any more"


class _Lasting(io.RawIOBase):
    """A file under a stream: from the first write that fails on, whose reason it keeps, nothing more is written."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self.failure: str | None = None

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._raw is not None and self._raw.isatty()

    def write(self, content: Any) -> int:
        if self.failure is None:
            try:
                _write_all(self._raw, content)
            except BrokenPipeError:
                self.failure = BROKEN_PIPE
            except OSError as error:
                self.failure = error.strerror or "it cannot be written"
        return len(content)


def _write_all(raw: Any, content: Any) -> None:
    if raw is None:
        raise OSError(None, "it is closed")
    rest = memoryview(content)
    while rest:
        written = raw.write(rest)
        if written is None:  # a pipe that does not wait by itself, and is full
            select.select([], [raw], [])
        rest = rest[written or 0 :]


def _raw(stream: TextIO | None) -> Any:
    return None if stream is None else getattr(stream.buffer, "raw", stream.buffer)


class Shown(io.TextIOWrapper):
    """A standard stream that never raises; letters that its encoding lacks are escapes.

    Parameters
    ----------
    beneath : text file or None
        The stream in whose place this one stands; None is one that was closed before Python began.
    """

    def __init__(self, beneath: TextIO | None) -> None:
        self.beneath = beneath
        self.lasting: _Lasting = _Lasting(_raw(beneath))
        self.told = False
        encoding = "utf-8" if beneath is None else beneath.encoding
        super().__init__(io.BufferedWriter(self.lasting), encoding, "backslashreplace", line_buffering=True)


@contextmanager
def lasting_output() -> Iterator[None]:
    """Let standard output and standard error never raise inside."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass  # a file that is opened later must not get the number of a stream that is closed
    os.close(number)
    before = sys.stdout, sys.stderr
    for stream in before:
        if stream is not None:
            stream.flush()
    sys.stdout, sys.stderr = map(Shown, before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


def untold_failure() -> str | None:
    """Return why the result could not be printed, the first time it is asked."""
    stream = sys.stdout
    if not isinstance(stream, Shown) or stream.told:
        return None
    stream.flush()
    stream.told = stream.lasting.failure is not None
    return stream.lasting.failure


def write_data(content: bytes) -> None:
    """Write data that are themselves the result to standard output, or raise `OSError`."""
    _write_all(_raw(sys.stdout.beneath if isinstance(sys.stdout, Shown) else sys.stdout), content)


# Signals.

INTERRUPTED, TERMINATED = 130, 143
_SIGNALS = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}


class HeldSignals:
    """Inside, a signal ends the command; once the ledger is charged, a first one waits until the end.

    All that follows a charge happens inside, to the last line that is printed: whatever goes wrong there, the entry
    that was paid for and the file are named, so that nobody pays again.

    Parameters
    ----------
    ledger : PrivacyLedger, optional
        The ledger that is charged inside.

    Attributes
    ----------
    written : Path or None
        Where the release was written to; set by who has written it.
    """

    def __init__(self, ledger: "PrivacyLedger | None" = None) -> None:
        self._ledger = ledger
        self.written: Path | None = None
        self._entry: int | None = None
        self._holding = False
        self._waiting: int | None = None
        self._before: dict[signal.Signals, Any] = {}

    def _spend(self, guarantee: "Guarantee", what: str) -> "LedgerEntry":
        """Charge the ledger, with signals held from before the charge on."""
        assert self._ledger is not None
        self._holding = True
        try:
            made = type(self._ledger).spend(self._ledger, guarantee, what)
        except Exception:  # nothing was spent
            self._holding = False
            if self._waiting is not None:
                raise SystemExit(self._waiting) from None
            raise
        self._entry = made.entry
        return made

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        code = _SIGNALS[signal.Signals(number)]
        if not self._holding or self._waiting is not None:
            self._holding = False
            raise SystemExit(code)
        self._waiting = code
        # Straight to the terminal: Python's own stderr may be in the middle of something, or of a progress bar.
        with suppress(OSError):
            os.write(2, b"eigenveil: the budget is spent, so the release is being finished; press again to stop.\n")

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # where Python handles signals
            for one in _SIGNALS:
                if signal.getsignal(one) is not signal.SIG_IGN:  # as under nohup
                    self._before[one] = signal.signal(one, self._arrived)
        if self._ledger is not None:  # whoever charges this ledger inside calls `_spend`
            vars(self._ledger)["spend"] = self._spend
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)
        if self._ledger is not None:
            del vars(self._ledger)["spend"]
        entry = f"entry {self._entry} of the ledger {self._ledger and self._ledger.path}"
        if self.written is None:
            if self._entry is not None:
                say(f"eigenveil: {entry} is spent, and no release was written.")
            return
        unshown = untold_failure()
        if unshown is not None:
            say(f"eigenveil: the result could not be printed on standard output: {unshown}.")
        if unshown is not None or kind is not None or self._waiting is not None:
            paid = "" if self._entry is None else f", {entry},"
            say(f"eigenveil: the release{paid} is complete in {self.written}.")
        if kind is None and self._waiting is not None:
            raise SystemExit(self._waiting)


class _Interruptible(io.RawIOBase):
    """A file whose reading a signal ends: a read that began just after the signal would wait for input first."""

    def __init__(self, number: int) -> None:
        self._number = number

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not select.select([self._number], [], [], 0.2)[0]:
            pass  # Python runs the handlers of signals here
        return os.readv(self._number, [buffer])


def standard_input() -> BinaryIO:
    """Return standard input for reading bytes; on Windows, which selects sockets alone, a signal waits for input."""
    if sys.stdin is None:
        raise InvalidDataError("Standard input is closed; give a file.")
    try:
        number = sys.stdin.fileno()
    except OSError:
        return sys.stdin.buffer
    return sys.stdin.buffer if os.name == "nt" else cast(BinaryIO, io.BufferedReader(_Interruptible(number)))


# Progress.


@contextmanager
def fit_progress(source: Any, quiet: bool = False) -> Iterator[None]:
    """Show the progress of a fit: readers show a bar for each pass over the rows; an engine computes out of sight."""
    from ..tables.base import EngineSource

    if quiet:
        with redirect_stderr(io.StringIO()):
            yield
    else:
        with busy("computing on the engine", not isinstance(source, EngineSource)):
            yield


PATIENCE = 2.0
"""Seconds after which a command that still works says so."""


@contextmanager
def busy(doing: str, quiet: bool = False) -> Iterator[None]:
    """Show what is being done, with the time that it has taken, once it takes longer than two seconds.

    For steps that cannot count rows. Nothing is shown unless stderr is a terminal.
    """
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    console = Console(file=sys.stderr, markup=False)
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=False)
    bar.add_task(doing, total=None)
    timer = threading.Timer(PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # or the bar could start after it was stopped
        bar.stop()
