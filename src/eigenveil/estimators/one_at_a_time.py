"""One estimator is fitted by one thread at a time, and what it paid for is named where no release came of it."""

import functools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import InvalidParameterError

_Method = TypeVar("_Method", bound=Callable[..., Any])


@dataclass
class _Work:
    thread: int
    entry: int | None = None


# By process and estimator: a lock in the estimator itself could not be pickled, and a forked child has no such thread.
_at_work: dict[tuple[int, int], _Work] = {}
_guard = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_guard.release)


def one_fit_at_a_time(method: _Method) -> _Method:
    """Let a method that fits refuse a second thread before anything is spent: each would overwrite the other's release.

    An error after the spend gets a note with the entry of the ledger.
    """

    @functools.wraps(method)
    def alone(self: Any, *args: Any, **options: Any) -> Any:
        key = os.getpid(), id(self)
        with _guard:
            work, outer = _at_work.get(key), key in _at_work
            if work is None:
                work = _at_work[key] = _Work(threading.get_ident())
        if work.thread != threading.get_ident():
            raise InvalidParameterError(
                f"This {type(self).__name__} is being fitted in another thread; nothing was spent, give every thread "
                "an estimator of its own, as sklearn.base.clone makes them."
            )
        try:
            return method(self, *args, **options)
        except BaseException as error:
            if work.entry is not None and not outer and _entry_of_release(self) != work.entry:
                error.add_note(f"Entry {work.entry} of the ledger has been paid for, and no release came of it.")
            raise
        finally:
            if not outer:
                del _at_work[key]

    return alone  # type: ignore[return-value]


def note_paid(estimator: Any, entry: int | None) -> None:
    """Remember the entry of the ledger that the fit at work has paid for."""
    work = _at_work.get((os.getpid(), id(estimator)))
    if work is not None:
        work.entry = entry


def _entry_of_release(estimator: Any) -> int | None:
    release = getattr(estimator, "release_", None)
    entry: int | None = None if release is None else release.origin.ledger_entry
    return entry
