"""Iterative eigenvector sampling (Amin, Dick, Kulesza, Munoz and Vassilvitskii 2018), with its joint cost."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..accounting.calibration import decimal_above, exact, float_above
from ..accounting.sensitivity import diagonal_l1
from ..errors import InvalidParameterError
from ..guarantee import Guarantee, Numerics, Relation
from ..moments import SecondMoments
from ..samplers import bingham
from .base import FloatArray, Mechanism, require_pure


class EigenvectorSampling(Mechanism):
    """Directions drawn one after the other with density exp(h_i u'Cu) on the complement of the earlier ones.

    Formal guarantee
    ----------------
    Pure epsilon. The directions u_1, u_2, ... are orthonormal, so one row x moves sum h_i (u_i . x)^2 by at most
    max h_i, and each normalizer by at most exp(h_i): together max h_i + sum h_i for replace and sum h_i for
    add/remove (docs/eigenvector_sampling.md). ``"tight"``: equal strengths for the k wanted directions, then the
    Rayleigh quotients u_i'Cu_i, and what is left of the trace, plus Laplace noise. ``"paper"``: eigenvalues of C plus
    Laplace(2/e_0) first, h_i = e_i/4 with e_i proportional to sqrt(1/e_0 + eigenvalue_i), all d directions, stated
    cost e_0 + sum e_i; the true cost is at most e_0 + (max e_i + sum e_i)/4 <= e_0 + sum e_i / 2.

    Parameters
    ----------
    eigenvalue_share : float
        Share of epsilon for the eigenvalues: a tenth by default, half with the paper's constants (which leaves it
        open).
    """

    name = "eigenvector_sampling"
    calibrations = ("tight", "paper")

    def __init__(self, *, eigenvalue_share: float | None = None, **parameters: Any) -> None:
        super().__init__(**parameters)
        require_pure(self.name, self.delta)
        default = 0.5 if self.calibration == "paper" else 0.1
        self.eigenvalue_share = default if eigenvalue_share is None else float(eigenvalue_share)
        if not 0 < self.eigenvalue_share < 1:
            raise InvalidParameterError("eigenvalue_share must lie between 0 and 1.")

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types."""
        return {**super().parameters(), "eigenvalue_share": self.eigenvalue_share}

    @property
    def _eigenvalue_epsilon(self) -> Fraction:
        return self.matrix_epsilon * exact(self.eigenvalue_share)

    @property
    def _direction_epsilon(self) -> Fraction:
        return self.matrix_epsilon - self._eigenvalue_epsilon

    def guarantee(self) -> Guarantee:
        """Return pure epsilon, idealized; with the paper's constants the smaller epsilon they really cost."""
        epsilon, claimed = self.epsilon, None
        if self.calibration == "paper":
            # The split e_i depends on released eigenvalues, so the bound is taken over all splits.
            factor = Fraction(1, 2) if self.relation is Relation.REPLACE else Fraction(1, 4)
            epsilon = decimal_above(exact(self.epsilon) - self._direction_epsilon * (1 - factor))
            claimed = (self.epsilon, 0.0)
        return Guarantee(epsilon, 0.0, self.relation, Numerics.IDEALIZED, claimed=claimed)

    def _draw(self, moments: SecondMoments, generator: np.random.Generator) -> Mapping[str, Any]:
        C = moments.gram.astype(np.float64) / moments.bound.limit_squared
        directions, values, rest = self._sampled(C, generator)
        n_rows = self._released_count(moments, generator)
        unit = moments.bound.norm**2 / n_rows
        values, rest = values * unit, rest * unit
        d, k = directions.shape[1], directions.shape[0]
        covariance = (directions.T * values) @ directions
        if k < d:  # what the sampled directions leave is spread evenly over the others
            covariance += rest / (d - k) * (np.eye(d) - directions.T @ directions)
        order = self._order(values)
        return {
            "covariance": (covariance + covariance.T) / 2,
            "components": directions[order],
            "eigenvalues": values[order],
            "n_rows": n_rows,
        }

    def simulate(self, second_moment: FloatArray, generator: np.random.Generator, size: int = 1) -> FloatArray:
        """Return sampled directions of the public matrix, by falling noisy eigenvalues."""
        draws = (self._sampled(second_moment, generator) for _ in range(size))
        return np.stack([directions[self._order(values)] for directions, values, _ in draws])

    def _order(self, values: FloatArray) -> NDArray[np.intp]:
        return np.argsort(-values, kind="stable")[: self.n_components]

    def _sampled(self, C: FloatArray, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, float]:
        """Return directions, their noisy eigenvalues, and what these leave of the trace."""
        draw = self._draw_as_published if self.calibration == "paper" else self._draw_tight
        return draw(C, generator)

    @property
    def strength(self) -> float:
        """The factor of C in the exponent of every direction, with our constants."""
        cost = self.n_components + 1 if self.relation is Relation.REPLACE else self.n_components
        return float(self._direction_epsilon / cost)

    def _draw_tight(self, C: FloatArray, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, float]:
        k = self.n_components
        directions = _sample_directions(C, np.full(k, self.strength), generator)
        # The quotients and the rest of the trace are the diagonal of V'CV in a basis of the whole space.
        quotients = np.einsum("ki,ij,kj->k", directions, C, directions, optimize=True)
        rest = float(np.trace(C) - quotients.sum())
        scale = float_above(diagonal_l1(self.relation) / self._eigenvalue_epsilon)
        noisy = np.append(quotients, rest) + generator.laplace(0.0, scale, k + 1)
        return directions, noisy[:k], max(0.0, float(noisy[k]))

    def _draw_as_published(self, C: FloatArray, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, float]:
        d = self.n_features
        epsilon_0 = float(self._eigenvalue_epsilon)
        eigenvalues = np.linalg.eigvalsh(C)[::-1] + generator.laplace(0.0, 2 / epsilon_0, d)
        weights = np.sqrt(1 / epsilon_0 + np.maximum(eigenvalues, 0.0))
        strengths = float(self._direction_epsilon) * weights / weights.sum() / 4
        return _sample_directions(C, strengths, generator), eigenvalues, 0.0


def _sample_directions(C: FloatArray, strengths: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Return orthonormal rows, each drawn on the complement of those before it."""
    d = C.shape[0]
    basis = np.eye(d)  # rows span the complement of what was drawn
    directions = np.empty((strengths.size, d))
    for i, strength in enumerate(strengths):
        u = bingham(strength * (basis @ C @ basis.T), generator) if len(basis) > 1 else generator.choice([-1.0, 1.0], 1)
        directions[i] = u @ basis
        if len(basis) > 1:
            basis = scipy.linalg.null_space(u[None, :]).T @ basis
    return directions
