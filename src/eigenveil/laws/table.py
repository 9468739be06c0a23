"""The one table of central laws."""

from collections.abc import Mapping
from typing import Any

from ..errors import one_of
from .baselines import NoPrivacy, RandomProjection
from .central import CentralLaw
from .eigenvector_sampling import EigenvectorSampling
from .frobenius import Frobenius
from .gaussian import Gaussian
from .laplace import Laplace
from .matrix_laplace import MatrixLaplace
from .mod_sulq import ModSulq
from .ppca import Ppca
from .wishart import Wishart

LAWS: dict[str, type[CentralLaw]] = {
    law.name: law
    for law in (
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


def law_from(name: str, parameters: Mapping[str, Any]) -> CentralLaw:
    """Return the law of a name with the parameters that `CentralLaw.parameters` wrote.

    Examples
    --------
    >>> law_from("matrix_laplace", {"epsilon": 1.0, "n_features": 3}).off_diagonal_sd > 0
    True
    """
    return LAWS[one_of("law", name, tuple(LAWS))](**parameters)
