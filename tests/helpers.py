"""What several test files need: one-sentence checks, and work done in forked child processes."""

import contextlib
import os
import pickle
import re
import signal
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest


def assert_one_sentence(error: BaseException, *private: object) -> None:
    """The message is one sentence that ends with a period and holds none of the `private` values."""
    text = str(error)
    assert text.endswith("."), text
    assert "\n" not in text, text
    assert not re.search(r"[.!?]\s+[A-Z]", text), text
    assert len(text.split()) > 3, text
    for value in private:
        assert str(value) not in text, text


@contextlib.contextmanager
def refused(kind: type[BaseException], *private: object) -> Any:
    """Like `pytest.raises`, and the message must be one sentence without the `private` values."""
    with pytest.raises(kind) as info:
        yield info
    assert_one_sentence(info.value, *private)


def fork() -> int:
    """`os.fork` without the warning about threads: children here use only what is safe after a fork."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


@dataclass
class Child:
    """A forked process that runs one function and sends back what it returned or raised."""

    pid: int
    pipe: int

    def kill(self) -> bool:
        """Kill without warning, as a power cut would; return whether it was still running."""
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.pipe)
        return os.WIFSIGNALED(os.waitpid(self.pid, 0)[1])

    def result(self) -> Any:
        """Wait, and return what the function returned, or the exception it raised."""
        with os.fdopen(self.pipe, "rb") as pipe:
            content = pipe.read()
        status = os.waitpid(self.pid, 0)[1]
        assert content, f"the child died without an answer, status {status}"
        kind, value = pickle.loads(content)
        assert kind != "crash", value
        return value


def start_child(function: Callable[[], Any], expected: tuple[type[BaseException], ...] = ()) -> Child:
    """Run `function` in a forked process; exceptions of the `expected` kinds are returned, others fail."""
    reading, writing = os.pipe()
    pid = fork()
    if pid:
        os.close(writing)
        return Child(pid, reading)
    try:  # the child must never return into pytest
        try:
            answer: tuple[str, Any] = ("value", function())
        except expected as error:
            answer = ("value", error)
        except BaseException:
            answer = ("crash", traceback.format_exc())
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
    finally:
        os._exit(0)


def in_child(function: Callable[[], Any], expected: tuple[type[BaseException], ...] = ()) -> Any:
    """Run `function` in a forked process and return its result."""
    return start_child(function, expected).result()
