"""The two ends of every comparison: a random subspace, and no privacy at all."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..guarantee import Guarantee, Numerics, Relation
from ..moments import SecondMoments
from ..postprocess import top_components
from .base import FloatArray, Mechanism


class RandomProjection(Mechanism):
    """A uniformly random subspace: perfectly private, and the utility that any mechanism must beat."""

    name = "random_projection"

    def guarantee(self) -> Guarantee:
        """Return epsilon 0: the data are not read."""
        return Guarantee(0.0, 0.0, self.relation, Numerics.EXACT)

    def _draw(self, moments: SecondMoments, generator: np.random.Generator) -> Mapping[str, Any]:
        n_rows = moments.n_rows if self.relation is Relation.REPLACE else None
        return {"components": self._subspace(generator), "n_rows": n_rows}

    def _subspace(self, generator: np.random.Generator) -> FloatArray:
        gaussian = generator.standard_normal((self.n_features, self.n_components))
        return np.asarray(np.linalg.qr(gaussian)[0].T)

    def simulate(self, second_moment: FloatArray, generator: np.random.Generator, size: int = 1) -> FloatArray:
        """Return random subspaces."""
        del second_moment
        return np.stack([self._subspace(generator) for _ in range(size)])


class NoPrivacy(Mechanism):
    """The exact second moment and its eigenvectors: not private, for comparisons on public data."""

    name = "none"

    def guarantee(self) -> Guarantee:
        """Return an infinite epsilon."""
        return Guarantee(float("inf"), 0.0, self.relation, Numerics.EXACT)

    def _draw(self, moments: SecondMoments, generator: np.random.Generator) -> Mapping[str, Any]:
        del generator
        covariance = moments.gram.astype(np.float64) * (moments.bound.unit_squared / max(1, moments.n_rows))
        components = top_components(covariance, self.n_components)
        return {"covariance": covariance, "components": components, "n_rows": moments.n_rows}

    def simulate(self, second_moment: FloatArray, generator: np.random.Generator, size: int = 1) -> FloatArray:
        """Return the top eigenvectors, as often as asked for."""
        del generator
        return np.stack([top_components(second_moment, self.n_components)] * size)
