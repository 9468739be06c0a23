"""Samplers: the laws of random numbers, matrices and directions that laws of release draw from."""

from .bingham import bingham
from .matrix_bingham import (
    ChainDiagnostics,
    MatrixBinghamDraw,
    default_updates,
    effective_sample_size,
    matrix_bingham,
    split_r_hat,
)
from .wishart import wishart

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
