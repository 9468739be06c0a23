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
    from .estimators.score_map import score_map
    from .gate import release
    from .guarantee import Guarantee, Relation
    from .moments import SecondMoments
    from .releases import Release, load_release
    from .rows import RowBound
    from .schema import Schema
    from .score_maps import load_score_map

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
    "Relation": "guarantee",
    "Release": "releases",
    "RowBound": "rows",
    "Schema": "schema",
    "SecondMoments": "moments",
    "load_release": "releases",
    "load_score_map": "score_maps",
    "release": "gate",
    "score_map": "estimators.score_map",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
