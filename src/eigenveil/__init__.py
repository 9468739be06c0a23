"""Differentially private PCA and covariance with guarantees you can defend."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .accounting.ledger import PrivacyLedger
    from .estimators import PrivateCovariance, PrivatePCA, PrivateRidge, PrivateSparsePCA
    from .guarantee import Guarantee, Relation
    from .moments import SecondMoments
    from .release import Release, load_release
    from .rows import RowBound

__all__ = [
    "Guarantee",
    "PrivacyLedger",
    "PrivateCovariance",
    "PrivatePCA",
    "PrivateRidge",
    "PrivateSparsePCA",
    "Relation",
    "Release",
    "RowBound",
    "SecondMoments",
    "__version__",
    "load_release",
]

# Loaded on first use: a client on a device needs neither scikit-learn nor SQLite to encode a row.
_HOMES = {
    "Guarantee": "guarantee",
    "PrivacyLedger": "accounting.ledger",
    "PrivateCovariance": "estimators",
    "PrivatePCA": "estimators",
    "PrivateRidge": "estimators",
    "PrivateSparsePCA": "estimators",
    "Relation": "guarantee",
    "Release": "release",
    "RowBound": "rows",
    "SecondMoments": "moments",
    "load_release": "release",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'eigenveil' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
