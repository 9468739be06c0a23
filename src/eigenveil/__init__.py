"""Differentially private PCA and covariance with guarantees you can defend."""

from typing import TYPE_CHECKING

from .lazy import lazily
from .version import __version__

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
    from .gate import release
    from .guarantee import Guarantee, Relation
    from .moments import SecondMoments
    from .releases import Release, load_release
    from .rows import RowBound
    from .schema import Schema

__all__ = [
    "Guarantee",
    "LocalPCA",
    "LocalSparsePCA",
    "PrivacyLedger",
    "PrivateCovariance",
    "PrivatePCA",
    "PrivateRidge",
    "PrivateScaler",
    "PrivateSparsePCA",
    "Relation",
    "Release",
    "RowBound",
    "Schema",
    "SecondMoments",
    "__version__",
    "load_release",
    "release",
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
    "Relation": "guarantee",
    "Release": "releases",
    "RowBound": "rows",
    "Schema": "schema",
    "SecondMoments": "moments",
    "load_release": "releases",
    "release": "gate",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
