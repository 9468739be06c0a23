"""The one table of laws of several sites."""

from .base import FederatedLaw
from .gaussian import FederatedGaussian
from .matrix_laplace import FederatedMatrixLaplace

FEDERATED_LAWS: dict[str, type[FederatedLaw]] = {
    law.kind.name: law for law in (FederatedGaussian, FederatedMatrixLaplace)
}
"""By the name of the central law that each of them is for several sites."""
