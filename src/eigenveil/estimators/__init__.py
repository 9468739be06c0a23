"""scikit-learn estimators: the one place, with the command line, where private rows meet released values.

Names are loaded when they are asked for: who fits a PCA does not wait for the local model.
"""

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .covariance import PrivateCovariance, PrivateScaler
    from .local_pca import LocalPCA, LocalSparsePCA
    from .pca import PrivatePCA, PrivateSparsePCA
    from .ridge import PrivateRidge

__all__ = [
    "LocalPCA",
    "LocalSparsePCA",
    "PrivateCovariance",
    "PrivatePCA",
    "PrivateRidge",
    "PrivateScaler",
    "PrivateSparsePCA",
]

_HOMES = {
    "LocalPCA": "local_pca",
    "LocalSparsePCA": "local_pca",
    "PrivateCovariance": "covariance",
    "PrivatePCA": "pca",
    "PrivateRidge": "ridge",
    "PrivateScaler": "covariance",
    "PrivateSparsePCA": "pca",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
