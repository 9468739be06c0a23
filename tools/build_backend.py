"""The build backend: scikit-build-core, and a package that is all Python where there is no CMake.

scikit-build-core falls back by itself where CMake fails (`if.failed` in pyproject.toml), but not where it is missing
and cannot be fetched, as with ``pip install --no-build-isolation`` on a machine without network.
"""

import os
from collections.abc import Callable
from typing import Any

from scikit_build_core import build
from scikit_build_core.build import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)
from scikit_build_core.errors import CMakeNotFoundError

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]


def build_wheel(directory: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """Build a wheel, and return its name."""
    return _built(build.build_wheel, directory, settings, metadata)


def build_editable(directory: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """Build an editable wheel, and return its name."""
    return _built(build.build_editable, directory, settings, metadata)


def _built(how: Callable[..., str], directory: str, settings: dict[str, Any] | None, metadata: str | None) -> str:
    try:
        return how(directory, settings, metadata)
    except CMakeNotFoundError:
        if os.environ.get("EIGENVEIL_MUST_COMPILE"):
            raise
        print("No CMake: rows are read more slowly, and what is released is the same.")
        return how(directory, {**(settings or {}), "wheel.cmake": "false"}, metadata)
