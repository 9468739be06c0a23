"""Post-processing of released values: free of privacy cost, and unable to reach a row."""

from .fantope import SparseComponents, fantope_components, screened_components
from .intervals import eigenvalue_intervals
from .ridge import RidgeFit, ridge_from_covariance
from .shrinkage import NoiseDraw, Shrunk, noise_edge, project_psd, shrink
from .spectrum import sorted_eigh, top_components

__all__ = [
    "NoiseDraw",
    "RidgeFit",
    "Shrunk",
    "SparseComponents",
    "eigenvalue_intervals",
    "fantope_components",
    "noise_edge",
    "project_psd",
    "ridge_from_covariance",
    "screened_components",
    "shrink",
    "sorted_eigh",
    "top_components",
]
