"""The log-likelihood ratio of a mechanism's output on two data sets: the best number to tell them apart by.

Any statistic gives a valid audit. By the lemma of Neyman and Pearson this one gives the strongest. Outputs that are
impossible on one of the data sets get an infinite score, and nothing else does.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ..guarantee import Relation
from ..mechanisms import AdditiveMechanism, Mechanism
from ..mechanisms.base import COUNT_SHARE
from ..mechanisms.eigenvector_sampling import EigenvectorSampling
from ..mechanisms.frobenius import Frobenius
from ..mechanisms.gaussian import GaussianNoise
from ..mechanisms.laplace import Laplace
from ..mechanisms.matrix_laplace import MatrixLaplace
from ..mechanisms.ppca import Ppca
from ..mechanisms.wishart import Wishart
from ..moments import SecondMoments

FloatArray = NDArray[np.float64]
Outputs = Mapping[str, FloatArray]
"""Arrays of releases by name, stacked along the first axis."""
Statistic = Callable[[Outputs], FloatArray]

# The noise is rounded to a grid of 2^-32, so an eigenvalue this far below zero is no rounding.
_ROUNDING = 1e-7


def log_likelihood_ratio(mechanism: Mechanism, first: SecondMoments, second: SecondMoments) -> Statistic | None:
    """Return log p(output | first) - log p(output | second), up to a constant; None where it is not known."""
    C, other = (moments.gram / moments.bound.limit_squared for moments in (first, second))
    norm = first.bound.norm
    count = _count_ratio(mechanism, first.n_rows, second.n_rows)
    if isinstance(mechanism, AdditiveMechanism):
        density = _noise_density(mechanism)
        if density is None:
            return None

        def additive(outputs: Outputs) -> FloatArray:
            noisy = outputs["covariance"] * (outputs["n_rows"] / norm**2)[:, None, None]
            return ratio(density(noisy - C), density(noisy - other)) + count(outputs)

        return additive
    if isinstance(mechanism, Ppca):
        return lambda outputs: mechanism.strength * _forms(outputs["components"], C - other).sum(axis=1)
    if isinstance(mechanism, EigenvectorSampling) and mechanism.calibration == "tight":
        return lambda outputs: _sampled_ratio(mechanism, outputs, C, other, norm) + count(outputs)
    return None


def ratio(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the difference of log densities; 0 where rounding made an output impossible on both."""
    with np.errstate(invalid="ignore"):
        difference = first - second
    return np.asarray(np.where(np.isnan(difference), 0.0, difference))


def _noise_density(mechanism: AdditiveMechanism) -> Callable[[FloatArray], FloatArray] | None:
    """Return the log density of the noise on C, for a stack of matrices."""
    d, scale = mechanism.n_features, mechanism.noise_scale()
    upper = np.triu(np.ones((d, d)))
    if isinstance(mechanism, GaussianNoise):
        weights = np.triu(np.full((d, d), mechanism.off_diagonal_sd**-2), 1) + np.eye(d) * scale**-2
        return lambda noise: np.asarray(-0.5 * np.einsum("nij,ij->n", np.square(noise), weights))
    if isinstance(mechanism, Laplace):
        return lambda noise: np.asarray(-np.einsum("nij,ij->n", np.abs(noise), upper) / scale)
    if isinstance(mechanism, Frobenius):
        return lambda noise: np.asarray(-np.linalg.norm(noise, axis=(1, 2)) / scale)
    if isinstance(mechanism, MatrixLaplace):
        # The leading term of the density: exact where the noise has one sign, and a factor of slow growth beside it.
        return lambda noise: np.asarray(-np.abs(np.linalg.eigvalsh(noise)).sum(axis=1) / (2 * scale))
    if isinstance(mechanism, Wishart):
        power = (mechanism._law[0] - d - 1) / 2

        def wishart(noise: FloatArray) -> FloatArray:
            eigenvalues = np.linalg.eigvalsh(noise)
            logs = power * np.log(np.maximum(eigenvalues, _ROUNDING)) - eigenvalues / (2 * scale)
            return np.where(eigenvalues[:, 0] < -_ROUNDING, -np.inf, logs.sum(axis=1))

        return wishart
    return None


def _count_ratio(mechanism: Mechanism, n_first: int, n_second: int) -> Statistic:
    """Return the part of the private number of rows, which add/remove releases beside the matrix."""
    if mechanism.relation is Relation.REPLACE or isinstance(mechanism, Ppca):
        return lambda outputs: np.zeros(len(next(iter(outputs.values()))))
    if isinstance(mechanism, GaussianNoise):
        precision = mechanism.total_mu() ** 2 * float(COUNT_SHARE) / 2
        return lambda outputs: (
            precision * (np.square(outputs["n_rows"] - n_second) - np.square(outputs["n_rows"] - n_first))
        )
    rate = mechanism.epsilon * float(COUNT_SHARE)
    return lambda outputs: rate * (np.abs(outputs["n_rows"] - n_second) - np.abs(outputs["n_rows"] - n_first))


def _forms(directions: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return u'Mu for every direction of every release."""
    return np.asarray(np.einsum("nki,ij,nkj->nk", directions, matrix, directions, optimize=True))


def _sampled_ratio(
    mechanism: EigenvectorSampling, outputs: Outputs, C: FloatArray, other: FloatArray, norm: float
) -> FloatArray:
    """Directions and their noisy Rayleigh quotients; the normalizers of later directions are left out."""
    k = mechanism.n_components
    cost = k + 1 if mechanism.relation is Relation.REPLACE else k
    strength = float(mechanism._direction_epsilon / cost)
    rate = float(mechanism._eigenvalue_epsilon) / (2 if mechanism.relation is Relation.REPLACE else 1)
    unit = outputs["n_rows"] / norm**2
    values = outputs["eigenvalues"] * unit[:, None]
    rest = np.trace(outputs["covariance"], axis1=1, axis2=2) * unit - values.sum(axis=1)

    def log_density(matrix: FloatArray) -> FloatArray:
        forms = _forms(outputs["components"], matrix)
        misses = np.abs(values - forms).sum(axis=1)
        if k < mechanism.n_features:
            misses = misses + np.abs(rest - (np.trace(matrix) - forms.sum(axis=1)))
        return np.asarray(strength * forms.sum(axis=1) - rate * misses)

    return log_density(C) - log_density(other)


def features(outputs: Outputs) -> FloatArray:
    """Return what a learned statistic sees of releases: matrices, projectors and numbers, and their logarithms."""
    columns = []
    for name, values in sorted(outputs.items()):
        stack = values[:, None] if values.ndim == 1 else values
        if name == "components":  # a direction has no sign
            stack = np.einsum("nki,nkj->nij", stack, stack)
        if stack.ndim == 3 and stack.shape[1] == stack.shape[2]:
            rows, cols = np.triu_indices(stack.shape[1])
            stack = stack[:, rows, cols]
        columns.append(stack.reshape(len(stack), -1))
    table = np.hstack(columns)
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(np.abs(table)), math.log(1e-300))
    return np.hstack([table, logs])
