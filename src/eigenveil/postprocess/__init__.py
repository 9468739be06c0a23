"""Post-processing of released values: free of privacy cost, and unable to reach a row.

Names are loaded when they are asked for: who asks for the facts of a mechanism does not wait for an optimizer.
"""

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .above_noise import NoiseTest, above_edges, simulated_edges
    from .fantope import SparseComponents, fantope_components, screened_components
    from .intervals import eigenvalue_intervals
    from .regression import RidgeFit, ridge_from_covariance
    from .shrinkage import NoiseDraw, Shrunk, noise_edge, project_psd, shrink
    from .spectrum import sorted_eigh, top_components


__all__ = [
    "NoiseDraw",
    "NoiseTest",
    "RidgeFit",
    "Shrunk",
    "SparseComponents",
    "above_edges",
    "eigenvalue_intervals",
    "fantope_components",
    "noise_edge",
    "project_psd",
    "ridge_from_covariance",
    "screened_components",
    "shrink",
    "simulated_edges",
    "sorted_eigh",
    "top_components",
]

_HOMES = {
    "NoiseDraw": "shrinkage",
    "NoiseTest": "above_noise",
    "RidgeFit": "regression",
    "Shrunk": "shrinkage",
    "SparseComponents": "fantope",
    "eigenvalue_intervals": "intervals",
    "fantope_components": "fantope",
    "noise_edge": "shrinkage",
    "project_psd": "shrinkage",
    "ridge_from_covariance": "regression",
    "screened_components": "fantope",
    "shrink": "shrinkage",
    "simulated_edges": "above_noise",
    "sorted_eigh": "spectrum",
    "above_edges": "above_noise",
    "top_components": "spectrum",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
