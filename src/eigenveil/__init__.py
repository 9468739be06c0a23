"""Differentially private PCA, covariance, correlation and regression for tabular data."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .accounting.ledger import PrivacyLedger
    from .estimators import (
        LocalPCA,
        LocalSparsePCA,
        PrivateCovariance,
        PrivatePCA,
        PrivateRidge,
        PrivateScaler,
        PrivateSparsePCA,
    )
    from .estimators.forecast import forecast
    from .estimators.score_map import score_map
    from .gate import release
    from .guarantee import Adjacency, Guarantee
    from .moments import RowBound
    from .moments.second_moments import SecondMoments
    from .releases.record import Release, load_release
    from .releases.score_map import load_score_map
    from .tables.schema import Schema


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


__version__ = "0.2.0"


__all__ = [
    "Adjacency",
    "Guarantee",
    "LocalPCA",
    "LocalSparsePCA",
    "PrivacyLedger",
    "PrivateCovariance",
    "PrivatePCA",
    "PrivateRidge",
    "PrivateScaler",
    "PrivateSparsePCA",
    "Release",
    "RowBound",
    "Schema",
    "SecondMoments",
    "__version__",
    "forecast",
    "load_release",
    "load_score_map",
    "release",
    "score_map",
]

# Loaded on first use: a client on a device needs neither scikit-learn nor SQLite to encode a row.
_HOMES = {
    "Guarantee": "guarantee",
    "LocalPCA": "estimators",
    "LocalSparsePCA": "estimators",
    "PrivacyLedger": "accounting.ledger",
    "PrivateCovariance": "estimators",
    "PrivatePCA": "estimators",
    "PrivateRidge": "estimators",
    "PrivateScaler": "estimators",
    "PrivateSparsePCA": "estimators",
    "Adjacency": "guarantee",
    "Release": "releases.record",
    "RowBound": "moments",
    "Schema": "tables.schema",
    "SecondMoments": "moments.second_moments",
    "forecast": "estimators.forecast",
    "load_release": "releases.record",
    "load_score_map": "releases.score_map",
    "release": "gate",
    "score_map": "estimators.score_map",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
