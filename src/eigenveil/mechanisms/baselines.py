"""The two ends of every comparison: a random subspace, and no privacy at all."""

import math
from typing import ClassVar

import numpy as np

from ..guarantee import Adjacency, Guarantee, Numerics
from ..numerics import FloatArray, IntArray
from ..sampling.matrices import cut_off
from .base import CentralMechanism, Integers, Releases, Values, integer_directions


class RandomProjection(CentralMechanism):
    """A uniformly random subspace: perfectly private, and the utility that any mechanism must beat.

    Examples
    --------
    >>> RandomProjection(epsilon=1.0, n_features=3).guarantee().epsilon
    0.0
    """

    name = "random_projection"
    releases: ClassVar[Releases] = "subspace"
    numerics = Numerics.EXACT
    source = "baseline"
    use_when = "comparison: knows nothing"
    baseline = True

    def guarantee(self) -> Guarantee:
        """Return epsilon 0: the data are not read."""
        return Guarantee(0.0, 0.0, self.adjacency, Numerics.EXACT)

    @classmethod
    def privacy(cls) -> str:
        """Return the kind of guarantee in words."""
        return "epsilon = 0"

    def draw(self, gram: IntArray, grid: int, n_rows: int, generator: np.random.Generator) -> Integers:
        """Draw a subspace without a look at the data."""
        gaussian = generator.standard_normal((self.n_features, self.n_components))
        return {"directions": integer_directions(np.linalg.qr(gaussian)[0].T)}


class NoPrivacy(CentralMechanism):
    """The exact second moment and its eigenvectors: not private, for comparisons on public data.

    Examples
    --------
    >>> NoPrivacy(epsilon=1.0, n_features=3).guarantee().is_private
    False
    """

    name = "none"
    releases: ClassVar[Releases] = "matrix"
    numerics = Numerics.EXACT
    source = "baseline"
    use_when = "comparison on public data: hides nothing"
    baseline = True

    def guarantee(self) -> Guarantee:
        """Return an infinite epsilon."""
        return Guarantee(math.inf, 0.0, self.adjacency, Numerics.EXACT)

    @classmethod
    def privacy(cls) -> str:
        """Return the kind of guarantee in words."""
        return "none"

    def draw(self, gram: IntArray, grid: int, n_rows: int, generator: np.random.Generator) -> Integers:
        """Return the sums themselves, and the number of rows."""
        count = {"count": np.array(n_rows)} if self.adjacency is Adjacency.ADD_OR_REMOVE_ONE else {}
        return {"matrix": cut_off(gram), **count}

    def second_moment(self, values: Values, n_rows: int) -> FloatArray:
        """Return the second moment."""
        return np.asarray(values["matrix"] / max(1, n_rows))
