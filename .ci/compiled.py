"""Fail unless the installed package runs its compiled passes: a build that falls back to Python hides broken C code."""

import sys

import eigenveil
from eigenveil import numerics
from eigenveil.mechanisms.local import directions
from eigenveil.moments import kernels

if None in (kernels.compiled(), directions._compiled_bases()):
    sys.exit(
        f"{eigenveil.__file__}: the compiled passes are missing, made of other C files, or do not agree with NumPy."
    )
print(f"Compiled passes: {numerics.LIBRARY}")
