"""Fail unless the installed package runs its compiled passes: a build that falls back to Python hides broken C code."""

import sys

import eigenveil
from eigenveil.moments import kernels

if kernels._compiled() is None:
    sys.exit(f"{eigenveil.__file__}: the compiled passes are missing, or do not agree with NumPy.")
print(f"Compiled passes: {kernels._LIBRARY}")
