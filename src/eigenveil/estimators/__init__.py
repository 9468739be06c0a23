"""scikit-learn estimators: the one place, with the command line, where private rows meet released values."""

from .covariance import PrivateCovariance
from .local_pca import LocalPCA, LocalSparsePCA
from .pca import PrivatePCA
from .ridge import PrivateRidge
from .scaler import PrivateScaler
from .sparse_pca import PrivateSparsePCA

__all__ = [
    "LocalPCA",
    "LocalSparsePCA",
    "PrivateCovariance",
    "PrivatePCA",
    "PrivateRidge",
    "PrivateScaler",
    "PrivateSparsePCA",
]
