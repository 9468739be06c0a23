"""Samplers: the laws of random numbers, matrices and directions that laws of release draw from."""

from eigenveil.samplers.bingham import bingham
from eigenveil.samplers.diagnostics import ChainDiagnostics, effective_sample_size, split_r_hat
from eigenveil.samplers.matrix_bingham import MatrixBinghamDraw, default_updates, matrix_bingham
from eigenveil.samplers.wishart import wishart

__all__ = [
    "ChainDiagnostics",
    "MatrixBinghamDraw",
    "bingham",
    "default_updates",
    "effective_sample_size",
    "matrix_bingham",
    "split_r_hat",
    "wishart",
]
