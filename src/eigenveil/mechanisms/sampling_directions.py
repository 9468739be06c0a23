"""Mechanisms that sample directions: PPCA, and iterative eigenvector sampling with its joint cost."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg

from ..accounting.calibration import decimal_above, exact, float_above
from ..accounting.sensitivity import diagonal_l1
from ..errors import CapacityError, InvalidParameterError, integer_between, one_of, positive_number
from ..guarantee import DIRECTION_ASSUMPTION, FLOAT_ASSUMPTION, Adjacency, Assumption, Guarantee, Numerics
from ..numerics import FloatArray, IntArray
from ..sampling.bingham import (
    ExactBingham,
    bingham,
    certifiable,
    direction_slack,
    exact_directions,
    variances_along,
    variances_sensitivity,
)
from ..sampling.certified import ExactMatrix
from ..sampling.discrete import LAPLACE_SCALES, discrete_laplace
from ..sampling.matrices import cut_off
from ..sampling.matrix_bingham import matrix_bingham
from .base import CentralMechanism, Integers, Releases, Values, integer_directions, orthonormal


class SamplingMechanism(CentralMechanism):
    """Draws directions with density that grows with the variance along them."""

    @property
    @abstractmethod
    def strength(self) -> float:
        """The factor of C in the exponent of the density."""

    @property
    def equivalent_sd(self) -> float:
        """sqrt(d/2)/s: that of noise as large as the mechanism's own where a direction is just found.

        The gap g of C turns a direction by a mean square of 1/(2 s g) in each of the others, where noise of standard
        deviation t would turn it by (t/g)^2. A direction is found from g = d/s on, up to a factor, and there both
        agree for t^2 = d/(2 s^2).
        """
        return math.sqrt(self.n_features / 2) / self.strength

    def check_strength(self, strength: Fraction, grid: int) -> None:
        """Refuse a strength at which some data, of any number of rows that a grid can count, have no sure envelope."""
        if not certifiable(strength / grid, self.n_features):
            raise CapacityError(
                f"{self.name} at this epsilon concentrates directions more than can be certified on this grid; use a "
                "smaller epsilon, or more bits in the RowBound."
            )

    def first_order_loss(self, eigenvalues: FloatArray, n_rows: float) -> tuple[float, float] | None:
        """Return k(d - k)/(2 n s), s the factor of C in the exponent."""
        k, d = self.n_components, eigenvalues.size
        gap = float(eigenvalues[k - 1] - eigenvalues[k])
        rate = 2 * n_rows * self.strength
        return k * (d - k) / rate, d / (rate * gap) if gap > 0 else math.inf


def quadratic_forms(directions: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return u'Mu for every direction of every release of a stack."""
    return np.asarray(np.einsum("nki,ij,nkj->nk", directions, matrix, directions, optimize=True))


_MOST_UPDATES = 10**7
PUBLISHED_UPDATES = 20_000
"""Steps of the chain in the experiments of JMLR 2013."""
_CHAIN_ASSUMPTION = Assumption(
    "For more than one component the subspace is the state of a Markov chain after a fixed number of updates, and the "
    "convergence of the chain is tested, not proved.",
    "Markov chain without proof of convergence",
)


class Ppca(SamplingMechanism):
    """A subspace V drawn with density proportional to exp((epsilon/2) tr V'CV), the matrix Bingham distribution.

    Formal guarantee
    ----------------
    Pure epsilon: one row moves tr V'CV by at most 1 whatever the rank of V, in either direction for replace, and in
    one direction for add/remove, where the factor is therefore epsilon in place of epsilon/2 (McSherry and Talwar
    2007; JMLR 2013, Theorem 6). One component has exactly this distribution, rounded to multiples of 2^-24, and all d
    of them are the whole space, which contains no information. Those between come from a Gibbs sampler, so their
    privacy is empirical. ``calibration="paper"`` draws by Hoff's coordinate-wise sampler with 20,000 steps and the
    factor epsilon/2 for both relations.

    Examples
    --------
    >>> Ppca(epsilon=1.0, n_features=10, n_components=1).strength
    0.5
    """

    name = "ppca"
    releases: ClassVar[Releases] = "subspace"
    numerics = Numerics.EMPIRICAL  # but for one component
    source = "Chaudhuri, Sarwate and Sinha 2013, Theorem 6"
    use_when = "one direction, few rows, delta = 0"
    calibrations: ClassVar[tuple[str, ...]] = ("tight", "paper")

    def __init__(self, *, updates: int | None = None, method: str | None = None, **parameters: Any) -> None:
        super().__init__(**parameters)
        default = "hoff" if self.calibration == "paper" else "block"
        self.method: str = one_of("method", default if method is None else method, ("block", "hoff"))
        steps = PUBLISHED_UPDATES if updates is None and self.calibration == "paper" else updates
        self.updates: int | None = None if steps is None else integer_between("updates", steps, 1, _MOST_UPDATES)

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types."""
        return {**super().parameters(), "updates": self.updates, "method": self.method}

    @classmethod
    def numerics_in_words(cls) -> str:
        """Return the numerics for one component and for more."""
        return f"{Numerics.EXACT.value} for one component, {Numerics.EMPIRICAL.value} for more"

    @property
    def strength(self) -> float:
        """The factor of C in the exponent."""
        return float(self._exact_strength)

    @property
    def _exact_strength(self) -> Fraction:
        one_sided = self.adjacency is Adjacency.ADD_OR_REMOVE_ONE and self.calibration == "tight"
        # A fraction: half of the least float is no float.
        return exact(self.epsilon) / (1 if one_sided else 2)

    def check_grid(self, grid: int) -> None:
        """Refuse a strength that no certificate is sure to reach."""
        if self.n_components == 1:
            self.check_strength(self._exact_strength, grid)

    @property
    def _drawn_at_once(self) -> bool:
        """Whether no chain is needed: one direction, or the whole space."""
        return self.n_components in (1, self.n_features)

    def guarantee(self) -> Guarantee:
        """Return pure epsilon: exact for one component, empirical for more."""
        if self._drawn_at_once:
            return Guarantee(self.epsilon, 0.0, self.adjacency, Numerics.EXACT)
        return Guarantee(self.epsilon, 0.0, self.adjacency, Numerics.EMPIRICAL, assumptions=(_CHAIN_ASSUMPTION,))

    def draw(self, gram: IntArray, grid: int, n_rows: int, generator: np.random.Generator) -> Integers:
        """Draw a subspace; under add/remove the number of rows is not released."""
        if self.n_components == 1:
            sampler = ExactBingham(ExactMatrix(gram), self._exact_strength / grid)
            return {"directions": sampler.draw(generator)[np.newaxis]}
        # The whole space is the same for all data, and so is what is drawn of it.
        B = gram.astype(np.float64) * (0.0 if self._drawn_at_once else self.strength / grid)
        drawn = matrix_bingham(B, self.n_components, generator, method=self.method, updates=self.updates)
        return {"directions": integer_directions(drawn.T)}

    def log_likelihood(self, values: Values, C: FloatArray, n_rows: int) -> FloatArray:
        """Return the exponent of the density; the normalizer is a constant of the data, and left out."""
        return np.asarray(self.strength * quadratic_forms(values["directions"], C).sum(axis=1))


_LEAST_SHARE = 1e-6


class EigenvectorSampling(SamplingMechanism):
    """Directions drawn one after the other with density exp(h_i u'Cu) on the complement of the earlier ones.

    Formal guarantee
    ----------------
    Pure epsilon. The directions u_1, u_2, ... are orthonormal, so one row x moves sum h_i (u_i . x)^2 by at most
    max h_i, and each normalizer by at most exp(h_i): together max h_i + sum h_i for replace and sum h_i for
    add/remove (docs/research/sampling_directions.md). ``"tight"``: equal strengths for the k wanted directions, then
    the Rayleigh quotients u_i'Cu_i, and what is left of the trace, plus discrete Laplace noise; exact, the rounding of
    the directions included (docs/research/exact_directions.md). ``"paper"``, in floats: eigenvalues of C plus
    Laplace(2/e_0) first, h_i = e_i/4 with e_i proportional to sqrt(1/e_0 + eigenvalue_i), all d directions, stated cost
    e_0 + sum e_i; the true cost is at most e_0 + (max e_i + sum e_i)/4 <= e_0 + sum e_i / 2.

    Parameters
    ----------
    eigenvalue_share : float
        Share of epsilon for the eigenvalues: a tenth by default, half with the paper's constants (which leaves it
        open).
    epsilons : sequence of float, optional
        With the paper's constants its own e_0, ..., e_d: of the eigenvalues, and of every direction. They add up to
        epsilon, under "replace_one". By default e_0 is a half, and the others follow from the noisy eigenvalues.

    Examples
    --------
    >>> published = {"n_features": 2, "calibration": "paper"}
    >>> EigenvectorSampling(epsilon=1.0, epsilons=[0.4, 0.4, 0.2], **published).guarantee().epsilon
    0.65
    """

    name = "eigenvector_sampling"
    releases: ClassVar[Releases] = "directions"
    numerics = Numerics.IDEALIZED  # with the published constants
    source = "Amin et al. 2018, Algorithm 1, with its joint cost"
    use_when = "comparison: several directions, one after the other"
    calibrations: ClassVar[tuple[str, ...]] = ("tight", "paper")

    def __init__(
        self, *, eigenvalue_share: float | None = None, epsilons: Sequence[float] | None = None, **parameters: Any
    ) -> None:
        super().__init__(**parameters)
        self.epsilons = None if epsilons is None else self._own_epsilons(epsilons, eigenvalue_share)
        if self.epsilons is not None:
            eigenvalue_share = self.epsilons[0] / self.epsilon
        default = 0.5 if self.calibration == "paper" else 0.1
        self.eigenvalue_share: float = (
            default if eigenvalue_share is None else positive_number("eigenvalue_share", eigenvalue_share)
        )
        if not _LEAST_SHARE <= self.eigenvalue_share <= 1 - _LEAST_SHARE:
            raise InvalidParameterError(
                "eigenvalue_share must lie between 0 and 1, and a millionth from both at least."
            )

    def _own_epsilons(self, epsilons: Sequence[float], share: float | None) -> tuple[float, ...]:
        """Return the d + 1 epsilons of the paper's Algorithm 1, or refuse them."""
        if self.calibration != "paper" or self.adjacency is not Adjacency.REPLACE_ONE or share is not None:
            raise InvalidParameterError(
                "epsilons are those of the paper: they need calibration='paper' and adjacency='replace_one', and no "
                "eigenvalue_share."
            )
        if isinstance(epsilons, str) or not isinstance(epsilons, Sequence) or len(epsilons) != self.n_features + 1:
            raise InvalidParameterError(
                f"epsilons must be {self.n_features + 1} numbers: one for the eigenvalues, and one for each direction."
            )
        own = tuple(positive_number("epsilons", epsilon) for epsilon in epsilons)
        if abs(sum(map(exact, own)) - exact(self.epsilon)) > exact(self.epsilon) / 10**9:
            raise InvalidParameterError(
                f"epsilons must add up to epsilon = {self.epsilon:g}; they add up to {math.fsum(own):g}."
            )
        return own

    def with_epsilon(self, epsilon: float) -> Self:
        """Return a mechanism of another epsilon, split in the same way."""
        if self.epsilons is None:
            return super().with_epsilon(epsilon)
        own = [one * epsilon / self.epsilon for one in self.epsilons]
        return type(self)(**{**self.parameters(), "epsilon": epsilon, "epsilons": own})

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types."""
        if self.epsilons is not None:
            return {**super().parameters(), "epsilons": list(self.epsilons)}
        return {**super().parameters(), "eigenvalue_share": self.eigenvalue_share}

    @classmethod
    def numerics_in_words(cls) -> str:
        """Return the numerics with our constants and with the published ones."""
        return f"{Numerics.EXACT.value}; {Numerics.IDEALIZED.value} with the published constants"

    @property
    def _eigenvalue_epsilon(self) -> Fraction:
        if self.epsilons is not None:
            return exact(self.epsilons[0])
        return self.matrix_epsilon * exact(self.eigenvalue_share)

    @property
    def _direction_epsilon(self) -> Fraction:
        return self.matrix_epsilon - self._eigenvalue_epsilon

    def guarantee(self) -> Guarantee:
        """Return pure epsilon, exact; with the paper's constants the smaller epsilon they really cost, idealized."""
        if self.calibration == "tight":
            return Guarantee(self.epsilon, 0.0, self.adjacency, Numerics.EXACT)
        if self.epsilons is None:
            # The split e_i depends on released eigenvalues, so the bound is taken over all splits.
            factor = Fraction(1, 2) if self.adjacency is Adjacency.REPLACE_ONE else Fraction(1, 4)
            epsilon = decimal_above(exact(self.epsilon) - self._direction_epsilon * (1 - factor))
        else:
            first, *others = map(exact, self.epsilons)
            epsilon = decimal_above(first + (max(others) + sum(others)) / 4)
        assumptions = (DIRECTION_ASSUMPTION, FLOAT_ASSUMPTION)
        return Guarantee(
            epsilon, 0.0, self.adjacency, Numerics.IDEALIZED, assumptions=assumptions, claimed=(self.epsilon, 0.0)
        )

    def check_grid(self, grid: int) -> None:
        """Refuse a strength that no certificate is sure to reach."""
        self.check_count()
        if self.calibration == "tight":
            self.check_strength(self._exact_strength(grid), grid)
            # However coarse their integers, a quotient moves by one for every direction and two more.
            if (self.n_components + 2) / self._eigenvalue_epsilon > LAPLACE_SCALES[1]:
                raise CapacityError("The noise at this epsilon does not fit int64; use a larger epsilon.")

    def shifts(self, grid: int) -> Mapping[str, int]:
        """Return the number of low bits dropped from quotients: the noise scale is then about 2^34 of their units."""
        if self.calibration == "paper":
            return {}
        scale = int(diagonal_l1(self.adjacency) * grid / self._eigenvalue_epsilon)
        return {"quotients": max(0, scale.bit_length() - 34)}

    def draw(self, gram: IntArray, grid: int, n_rows: int, generator: np.random.Generator) -> Integers:
        """Draw directions, then the variances along them and, with our constants, what they leave of the trace."""
        if self.calibration == "paper":
            return {**self._draw_as_published(gram, grid, generator), **self.draw_count(n_rows, grid, generator)}
        matrix, shift = ExactMatrix(gram), 48 + self.shifts(grid)["quotients"]
        directions = exact_directions(matrix, self._exact_strength(grid) / grid, self.n_components, generator)
        values = np.array([value >> shift for value in variances_along(matrix, directions)], dtype=object)
        sensitivity = variances_sensitivity(directions, grid, int(diagonal_l1(self.adjacency)), shift)
        scale = float_above(sensitivity / self._eigenvalue_epsilon)
        return {
            "directions": directions,
            "quotients": cut_off(values + discrete_laplace(scale, values.size, generator)),
            **self.draw_count(n_rows, grid, generator),
        }

    def _draw_as_published(self, gram: IntArray, grid: int, generator: np.random.Generator) -> Integers:
        """Draw noisy eigenvalues, and all d directions by strengths that depend on them, in floats."""
        C, epsilon_0 = gram.astype(np.float64) / grid, float(self._eigenvalue_epsilon)
        noise = generator.laplace(0.0, 2 / epsilon_0, self.n_features)
        eigenvalues = np.linalg.eigvalsh(C)[::-1] + noise
        if self.epsilons is None:
            weights = np.sqrt(1 / epsilon_0 + np.maximum(eigenvalues, 0.0))
            shares = float(self._direction_epsilon) * weights / weights.sum()
        else:
            shares = np.array(self.epsilons[1:])
        directions = sample_directions(C, shares / 4, generator)
        return {"directions": integer_directions(directions), "quotients": cut_off(np.rint(eigenvalues * grid))}

    def directions(self, values: Values) -> FloatArray:
        """Return the sampled directions, by falling noisy variance."""
        drawn = orthonormal(values["directions"])
        order = np.argsort(-values["quotients"][: len(drawn)], kind="stable")
        return np.asarray(drawn[order][: self.n_components])

    def variances(self, values: Values, n_rows: int) -> FloatArray:
        """Return the noisy variances of the sampled directions; the other ones share the rest of the trace evenly."""
        quotients, d = values["quotients"] / n_rows, self.n_features
        count = len(values["directions"])
        others = np.full(d - count, max(0.0, float(quotients[count:].sum())) / max(1, d - count))
        return np.append(np.maximum(np.sort(quotients[:count])[::-1], 0.0), others)

    def variance_reach(self, n_rows: int) -> float | None:
        """Return ln 20 scales of the Laplace noise; the published constants release no variances along directions."""
        if self.calibration == "paper":
            return None
        return math.log(20) * float(diagonal_l1(self.adjacency) / self._eigenvalue_epsilon) / n_rows

    def second_moment(self, values: Values, n_rows: int) -> FloatArray:
        """Rebuild the matrix; what the sampled directions leave of the trace is spread evenly over the others."""
        drawn, quotients = orthonormal(values["directions"]), values["quotients"] / n_rows
        k, d = drawn.shape
        matrix = (drawn.T * quotients[:k]) @ drawn
        if k < d:
            matrix += max(0.0, float(quotients[k])) / (d - k) * (np.eye(d) - drawn.T @ drawn)
        return np.asarray((matrix + matrix.T) / 2)

    def first_order_loss(self, eigenvalues: FloatArray, n_rows: float) -> tuple[float, float] | None:
        """Return the loss with our constants; the published strengths depend on the data."""
        return None if self.calibration == "paper" else super().first_order_loss(eigenvalues, n_rows)

    def log_likelihood(self, values: Values, C: FloatArray, n_rows: int) -> FloatArray | None:
        """Return the exponents of directions and quotients; the normalizers of later directions are left out."""
        if self.calibration == "paper":
            return None
        forms = quadratic_forms(values["directions"], C)
        rest = np.trace(C) - forms.sum(axis=1, keepdims=True)
        misses = np.abs(values["quotients"] - np.hstack([forms, rest])).sum(axis=1)
        rate = float(self._eigenvalue_epsilon / diagonal_l1(self.adjacency))
        return np.asarray(self.strength * forms.sum(axis=1) - rate * misses) + self.count_log_density(values, n_rows)

    @property
    def strength(self) -> float:
        """The factor of C in the exponent of every direction, with our constants and on a fine grid."""
        return float(self._direction_epsilon / self._cost)

    @property
    def _cost(self) -> int:
        return self.n_components + 1 if self.adjacency is Adjacency.REPLACE_ONE else self.n_components

    def _exact_strength(self, grid: int) -> Fraction:
        """Return the strength less the slack of rounded directions, rounded down to 64 bits."""
        slack = direction_slack(self.n_features, self.n_components, grid)
        strength = self._direction_epsilon / (self._cost * (1 + slack))
        unit = Fraction(2) ** (strength.numerator.bit_length() - strength.denominator.bit_length() - 64)
        return strength // unit * unit


def sample_directions(C: FloatArray, strengths: FloatArray, generator: np.random.Generator) -> FloatArray:
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
