"""Packages whose names are loaded when they are asked for."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package, from the module that each public name lives in.

    A client on a device then needs neither scikit-learn nor SQLite to encode a row.
    """

    def getattribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f".{homes[name]}", package), name)

    def listed() -> list[str]:
        return sorted(homes)

    return getattribute, listed
