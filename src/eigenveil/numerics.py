"""Types of arrays, and the cores that work on them."""

import ctypes
import functools
import hashlib
import os
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
# An editable install has several folders. Their package, which reads private rows, is not imported by this.
_FOLDERS = getattr(find_spec(f"{__package__}.moments"), "submodule_search_locations", None) or [""]
_PLACES = [Path(folder, "compiled_pass.so").absolute() for folder in _FOLDERS]
LIBRARY = next(filter(Path.exists, _PLACES), _PLACES[0])
"""Where the compiled passes are, if they are there."""


def taking_arrays(function: Any, *types: Any, returns: Any = None) -> Callable[..., Any]:
    """Return a function that calls a compiled one with the addresses of arrays, which live as long as the call."""
    function.argtypes, function.restype = types, returns

    def call(*arguments: Any) -> Any:
        return function(*(one.ctypes.data if isinstance(one, np.ndarray) else one for one in arguments))

    return call


def compiled_library() -> ctypes.CDLL | None:
    """Return the compiled passes, if they are there and were made of the C files beside this module.

    A library of other files, as an installation that is older than a checkout has one, might write anywhere.
    """
    try:
        library = ctypes.CDLL(str(LIBRARY))
        made_of = library.eigenveil_sources
    except (OSError, AttributeError):
        return None
    made_of.restype = ctypes.c_char_p
    return library if made_of() == _sources() else None


@functools.cache
def _sources() -> bytes:
    """Return a digest of all C files, as CMakeLists.txt puts it into the library."""
    files = Path(__file__).parent.glob("*/*.[ch]")
    digests = sorted(hashlib.sha256(one.read_bytes()).hexdigest() for one in files)
    return hashlib.sha256(";".join(digests).encode()).hexdigest().encode()


def compiled_function(name: str, *types: Any, returns: Any = None) -> Callable[..., Any] | None:
    """Return a function of the compiled library, which takes the places of arrays; None where it is not there."""
    library = compiled_library()
    return None if library is None else taking_arrays(getattr(library, name), *types, returns=returns)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class OneBlasThread:
    """A context in which BLAS uses one thread, in all threads of the process; the last to leave it lifts the limit.

    The limit is one number of the process: where each thread put back what it had found, one that came while another
    was inside would leave it at 1 for good.

    Examples
    --------
    >>> import numpy as np
    >>> with one_blas_thread():
    ...     float(np.linalg.eigvalsh(np.eye(3)).sum())
    3.0
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._guard = threading.Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        with self._guard:
            if self._inside == 0:
                loaded = _blas("scipy.linalg" in sys.modules)
                self._before = [(library, library.get_num_threads()) for library in loaded]
                for library in loaded:
                    library.set_num_threads(1)
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._guard:
            self._inside -= 1
            if self._inside == 0:
                for library, threads in self._before:
                    library.set_num_threads(threads)


_one_blas_thread = OneBlasThread()
if hasattr(os, "register_at_fork"):  # a child has none of the other threads, so none of them will leave
    os.register_at_fork(after_in_child=_one_blas_thread._begin)


def one_blas_thread() -> OneBlasThread:
    """Return the context in which BLAS uses one thread."""
    return _one_blas_thread


@functools.cache
def _blas(with_scipy: bool) -> list[Any]:
    """Return the handles of all BLAS that are loaded, SciPy's own among them; to look for them takes milliseconds."""
    del with_scipy
    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]
