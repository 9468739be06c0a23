"""Standard output and standard error that never raise: a command that failed after a spend would have to spend again.

A closed terminal, a pipe without a reader, a full disk and a missing letter of an encoding do not end a command.
What cannot be printed is left out; `untold_failure` returns the reason, once.
"""

import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

BROKEN_PIPE = "nobody reads it any more"


class _Lasting(io.RawIOBase):
    """A file under a stream: from the first write that fails on, nothing more is written.

    Attributes
    ----------
    failure : str or None
        Why it failed, in words.
    """

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self.failure: str | None = None

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._raw is not None and self._raw.isatty()

    def fileno(self) -> int:
        if self._raw is None:
            raise io.UnsupportedOperation("fileno")
        return int(self._raw.fileno())

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
