"""The table of mechanisms. A new one is its file, one line here, its unit test and one docs line."""

from .base import AdditiveMechanism, Mechanism
from .baselines import NoPrivacy, RandomProjection
from .choice import choose_mechanism
from .eigenvector_sampling import EigenvectorSampling
from .frobenius import Frobenius
from .gaussian import Gaussian
from .laplace import Laplace
from .matrix_laplace import MatrixLaplace
from .mod_sulq import ModSulq
from .ppca import Ppca
from .released import ReleasedMatrix
from .wishart import Wishart

MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.name: mechanism
    for mechanism in (
        Gaussian,
        MatrixLaplace,
        Laplace,
        Frobenius,
        ModSulq,
        Wishart,
        Ppca,
        EigenvectorSampling,
        RandomProjection,
        NoPrivacy,
    )
}

__all__ = ["MECHANISMS", "AdditiveMechanism", "Mechanism", "ReleasedMatrix", "choose_mechanism"]
