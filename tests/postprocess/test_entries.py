"""Errors of all entries at once are those of each entry by itself."""

from dataclasses import replace

import numpy as np
import pytest

from eigenveil.postprocess.entries import MatrixError, correlation_errors, covariance_intervals, plain_error

D = 5


def some_error(mapped, counted):
    """An error with something in every term, and a matrix far above it."""
    generator = np.random.default_rng(7)
    factor = generator.standard_normal((D, D))
    symmetric = factor + factor.T
    error = replace(
        plain_error(D, 1e-4, level=0.95),
        traces=factor @ factor.T if mapped else generator.uniform(0.5, 2.0, D),
        lever=generator.standard_normal(D),
        shared=3e-5,
        extra=generator.uniform(0, 1e-4, D),
        mean_bias=generator.uniform(0, 1e-3, D),
        **({"per_row": symmetric, "count": 1e-5, "count_shared": 2e-5} if counted else {}),
    )
    return 100 * (factor @ factor.T + np.eye(D)), error


def between(i, j, own):
    """Weights of N_ij, less `own` times N_ii + N_jj."""
    weights = np.zeros((D, D))
    weights[i, j] += 0.5
    weights[j, i] += 0.5
    weights[i, i] -= own
    weights[j, j] -= own
    return weights


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("counted", [False, True])
def test_every_entry_has_the_variance_of_its_own_weights(mapped, counted):
    matrix, error = some_error(mapped, counted)
    found = error.entry_variances()
    alone = np.array([[error.variance(between(i, j, 0.0)) for j in range(D)] for i in range(D)])
    squared = np.outer(error.mean_bias, error.mean_bias) + np.diag(error.mean_bias**2)
    np.testing.assert_allclose(found, alone + squared)
    np.testing.assert_allclose(np.diag(found), error.diagonal_variances())
    assert not np.allclose(replace(error, lever=1.1 * error.lever).entry_variances(), found, rtol=1e-3)  # the control
    ends = covariance_intervals(matrix, error)
    np.testing.assert_allclose((ends[..., 1] - ends[..., 0]) / 2, error.normal * np.sqrt(found))


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("counted", [False, True])
def test_every_correlation_has_the_variance_of_its_own_weights(mapped, counted):
    matrix, error = some_error(mapped, counted)
    middle = matrix - np.diag(error.mean_bias)
    sizes = np.sqrt(np.diag(middle))
    r, scaled = middle / np.outer(sizes, sizes), error.divided(sizes)

    def deviations(error: MatrixError, r):
        pairs = [(i, j) for i in range(D) for j in range(i)]
        return np.sqrt([error.variance(between(i, j, r[i, j] / 2)) for i, j in pairs])

    found = correlation_errors(matrix, error, 0.0)[0][np.tril_indices(D, -1)]
    np.testing.assert_allclose(found, deviations(scaled, r))
    assert not np.allclose(found, deviations(scaled, 0.9 * r), rtol=1e-3)  # the control
