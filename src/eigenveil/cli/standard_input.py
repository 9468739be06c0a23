"""Standard input that a signal interrupts at once, whenever it comes.

Python notes a signal when it comes and acts on it before its next step. One that comes just before a read begins is
noted, and then the read waits for input all the same, as long as none comes. So here a read waits for input or for such
a note, which Python also writes into a pipe.
"""

import io
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast


@contextmanager
def standard_input() -> Iterator[BinaryIO]:
    """Open standard input for reading; what was not read before the end is lost."""
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
