"""The cores that this process may use, and BLAS held to one of them while each core has work of its own."""

import functools
import os
from typing import Any

from threadpoolctl import ThreadpoolController


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def one_blas_thread() -> Any:
    """Return a context in which BLAS uses one thread, where each core has work of its own."""
    return _blas().limit(limits=1, user_api="blas")


@functools.cache
def _blas() -> ThreadpoolController:
    """Return the handle of NumPy's BLAS; to look for it takes as long as a small fit."""
    return ThreadpoolController()
