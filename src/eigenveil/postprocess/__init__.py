"""Post-processing of released values: free of privacy cost, and unable to reach a row.

Names are loaded when they are asked for: who asks for the facts of a mechanism does not wait for an optimizer.
"""

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .fantope import SparseComponents, fantope_components
    from .noise_spectrum import NoiseTest, above_edges, edge_quantile
    from .regression import RidgeFit, ridge_from_covariance
    from .shrinkage import Shrunk, project_psd, shrink, shrink_by_simulation
    from .spectrum import Eigensystem, sorted_eigh, top_components


__all__ = [
    "Eigensystem",
    "NoiseTest",
    "RidgeFit",
    "Shrunk",
    "SparseComponents",
    "above_edges",
    "edge_quantile",
    "fantope_components",
    "project_psd",
    "ridge_from_covariance",
    "shrink",
    "shrink_by_simulation",
    "sorted_eigh",
    "top_components",
]

_HOMES = {
    "Eigensystem": "spectrum",
    "NoiseTest": "noise_spectrum",
    "RidgeFit": "regression",
    "Shrunk": "shrinkage",
    "SparseComponents": "fantope",
    "edge_quantile": "noise_spectrum",
    "fantope_components": "fantope",
    "project_psd": "shrinkage",
    "ridge_from_covariance": "regression",
    "shrink": "shrinkage",
    "shrink_by_simulation": "shrinkage",
    "sorted_eigh": "spectrum",
    "above_edges": "noise_spectrum",
    "top_components": "spectrum",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
