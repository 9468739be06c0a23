"""PPCA: the exponential mechanism on subspaces (Chaudhuri, Sarwate and Sinha 2012, 2013)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ..errors import one_of
from ..guarantee import Guarantee, Numerics, Relation
from ..moments import SecondMoments
from ..samplers import matrix_bingham
from .base import FloatArray, Mechanism, require_pure

_CHAIN_CAVEAT = (
    "For more than one component the subspace is the state of a Markov chain after a fixed number of updates; its "
    "convergence is checked in tests, not proved."
)


class Ppca(Mechanism):
    """A subspace V drawn with density proportional to exp((epsilon/2) tr V'CV), the matrix Bingham law.

    Formal guarantee
    ----------------
    Pure epsilon: one row moves tr V'CV by at most 1 whatever the rank of V, in either direction for replace, and in
    one direction for add/remove, where the factor is therefore epsilon in place of epsilon/2 (McSherry and Talwar
    2007; JMLR 2013, Theorem 6). One component is drawn exactly. More come from a Gibbs sampler, so their privacy is
    empirical. ``calibration="paper"`` draws by Hoff's coordinate-wise sampler with 20,000 steps and the factor
    epsilon/2 for both relations.
    """

    name = "ppca"
    calibrations = ("tight", "paper")

    def __init__(self, *, updates: int | None = None, method: str | None = None, **parameters: Any) -> None:
        super().__init__(**parameters)
        require_pure(self.name, self.delta)
        default = "hoff" if self.calibration == "paper" else "block"
        self.method = one_of("method", default if method is None else method, ("block", "hoff"))
        self.updates = 20_000 if updates is None and self.calibration == "paper" else updates

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types."""
        return {**super().parameters(), "updates": self.updates, "method": self.method}

    @property
    def strength(self) -> float:
        """The factor of C in the exponent."""
        one_sided = self.relation is Relation.ADD_REMOVE and self.calibration == "tight"
        return self.epsilon if one_sided else self.epsilon / 2

    def guarantee(self) -> Guarantee:
        """Return pure epsilon: idealized for one component, empirical for more."""
        if self.n_components in (1, self.n_features):
            return Guarantee(self.epsilon, 0.0, self.relation, Numerics.IDEALIZED)
        return Guarantee(self.epsilon, 0.0, self.relation, Numerics.EMPIRICAL, caveats=(_CHAIN_CAVEAT,))

    def _draw(self, moments: SecondMoments, generator: np.random.Generator) -> Mapping[str, Any]:
        B = moments.gram.astype(np.float64) * (self.strength / moments.bound.limit_squared)
        drawn = matrix_bingham(B, self.n_components, generator, method=self.method, updates=self.updates)
        n_rows = moments.n_rows if self.relation is Relation.REPLACE else None
        return {"components": drawn.components.T, "n_rows": n_rows}

    def simulate(self, second_moment: FloatArray, generator: np.random.Generator, size: int = 1) -> FloatArray:
        """Return one draw of each of `size` chains, which run together; an exact draw has no chain."""
        draw = partial(matrix_bingham, second_moment * self.strength, self.n_components, generator)
        if self.n_components in (1, self.n_features):
            return np.stack([draw().components.T for _ in range(size)])
        # Chains are kept apart only by the diagnostics, which a single one has none of.
        drawn = draw(method=self.method, updates=self.updates, chains=max(2, size))
        assert drawn.diagnostics is not None
        return np.asarray(drawn.diagnostics.states.mT[:size])
