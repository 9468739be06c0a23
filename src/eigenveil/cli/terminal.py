"""Signals, standard input and progress of a command.

Ctrl-C and SIGTERM end a command. Once a ledger has recorded a spend, the release is finished and written first.

To draw again under the entry of an interrupted draw would be sound only if nobody had seen anything of the first one.
No program can know that, and whoever could ask for another draw might ask until one pleases. So a signal waits instead.
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
from typing import Any, BinaryIO, Self, cast

from ..errors import InvalidDataError
from .options import INTERRUPTED, TERMINATED, say
from .output import untold_failure

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
            os.write(2, b"eigenveil: the budget is spent, so the release is being finished; press again to stop.\n")

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
                say(f"eigenveil: {entry} is spent, and no release was written.")
            return
        unshown = untold_failure()
        if unshown is not None:
            say(f"eigenveil: the result could not be printed on standard output: {unshown}.")
        if unshown is not None or kind is not None or self._waiting is not None:
            paid = "" if self.entry is None else f", {entry},"
            say(f"eigenveil: the release{paid} is complete in {self.written}.")
        if kind is None and self._waiting is not None:
            raise SystemExit(self._waiting)


@contextmanager
def standard_input() -> Iterator[BinaryIO]:
    """Open standard input for reading; what was not read before the end is lost."""
    if sys.stdin is None:
        raise InvalidDataError("Standard input is closed; give a file.")
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


@contextmanager
def fit_progress(source: Any, quiet: bool = False) -> Iterator[None]:
    """Show the progress of a fit: readers show a bar for each pass over the rows; an engine computes out of sight."""
    from ..tables.engines import EngineSource

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
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
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
