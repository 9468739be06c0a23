"""PPCA: the exponential mechanism on subspaces (Chaudhuri, Sarwate and Sinha 2012, 2013)."""

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ..accounting.calibration import exact
from ..errors import integer_between, one_of
from ..guarantee import Adjacency, Assumption, Guarantee, Numerics
from ..numerics import FloatArray, IntArray
from ..sampling.bingham import ExactBingham
from ..sampling.certified import ExactMatrix
from ..sampling.matrix_bingham import matrix_bingham
from .base import Integers, Releases, SamplingMechanism, Values, integer_directions, quadratic_forms

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

    method: str
    updates: int | None

    name = "ppca"
    releases: ClassVar[Releases] = "subspace"
    numerics = Numerics.EMPIRICAL  # but for one component
    source = "Chaudhuri, Sarwate and Sinha 2013, Theorem 6"
    use_when = "one direction, few rows, delta = 0"
    calibrations: ClassVar[tuple[str, ...]] = ("tight", "paper")

    def __init__(self, *, updates: int | None = None, method: str | None = None, **parameters: Any) -> None:
        super().__init__(**parameters)
        default = "hoff" if self.calibration == "paper" else "block"
        self.method = one_of("method", default if method is None else method, ("block", "hoff"))
        steps = PUBLISHED_UPDATES if updates is None and self.calibration == "paper" else updates
        self.updates = None if steps is None else integer_between("updates", steps, 1, _MOST_UPDATES)

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types."""
        return {**super().parameters(), "updates": self.updates, "method": self.method}

    @classmethod
    def numerics_in_words(cls) -> str:
        """Return what the numerics depend on."""
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
        del n_rows
        if self.n_components == 1:
            sampler = ExactBingham(ExactMatrix(gram), self._exact_strength / grid)
            return {"directions": sampler.draw(generator)[np.newaxis]}
        # The whole space is the same for all data, and so is what is drawn of it.
        B = gram.astype(np.float64) * (0.0 if self._drawn_at_once else self.strength / grid)
        drawn = matrix_bingham(B, self.n_components, generator, method=self.method, updates=self.updates)
        return {"directions": integer_directions(drawn.T)}

    def log_likelihood(self, values: Values, C: FloatArray, n_rows: int) -> FloatArray:
        """Return the exponent of the density; the normalizer is a constant of the data, and left out."""
        del n_rows
        return np.asarray(self.strength * quadratic_forms(values["directions"], C).sum(axis=1))
