"""Ctrl-C and SIGTERM end a command; during a fit, what a ledger has paid for is first finished and written, or named.

To draw again under the entry of an interrupted draw would be sound only if nobody had seen anything of the first one.
No program can know that, and whoever could ask for another draw might ask until one pleases. So a signal waits instead.
"""

import os
import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from .common import INTERRUPTED, TERMINATED, say

_SIGNALS = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}


class HeldSignals:
    """Inside, a signal ends the command; from `hold` on, a first one waits until the end, and a second one does not.

    Attributes
    ----------
    entry : int or None
        The entry of the ledger that has been paid for.
    written : Path or None
        Where the release was written to; set by who has written it.
    """

    def __init__(self) -> None:
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
        os.write(2, b"eigenveil: the release has been paid for and is being finished; once more stops and loses it.\n")

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
        if self.entry is not None and self.written is None:
            say(f"eigenveil: entry {self.entry} of the ledger was paid for, and no release came of it.")
        if kind is None and self._waiting is not None:
            paid = "" if self.entry is None else f", paid for by entry {self.entry} of the ledger,"
            say(f"eigenveil: the release{paid} is whole in {self.written}.")
            raise SystemExit(self._waiting)
