"""Errors of loadings where eigenvalues are exactly tied."""

import numpy as np

from eigenveil.postprocess.components import loading_errors
from eigenveil.postprocess.entries import plain_error


def test_exact_ties_are_not_determined_and_bring_no_warning_of_numpy():
    error = plain_error(3, 1e-4, level=0.95)
    tied = loading_errors(np.array([1.0, 1.0, 0.5]), np.eye(3), 2, error, level=0.95)
    assert tied.undetermined.tolist() == [True, True]
    apart = loading_errors(np.array([2.0, 1.0, 0.5]), np.eye(3), 2, error, level=0.95)  # control
    assert not apart.undetermined.any()
