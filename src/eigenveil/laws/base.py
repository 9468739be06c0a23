"""What every law is, central or local: facts that it declares, a guarantee without data, a privacy curve."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..accounting.calibration import guaranteed_epsilon
from ..guarantee import Guarantee, Numerics

if TYPE_CHECKING:
    from .noise_facts import NoiseFacts

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Integers = Mapping[str, IntArray]
"""What leaves, by name: "matrix", "trace", "directions", "quotients", "count", "slack"; locally "sums", "ones"."""
Values = Mapping[str, FloatArray]
"""The same as numbers, for rows of norm at most 1."""
Releases = Literal["matrix", "directions", "subspace"]

IN_UNITS_OF_C = frozenset({"matrix", "quotients", "trace", "slack"})
"""What is counted in squared units of the rows; the rest has the same unit whatever the rows are."""


class Law(ABC):
    """A random law that turns private numbers into public ones, known by its parameters alone.

    What a law can do is declared on it and never asked by its name.

    Attributes
    ----------
    name : str
        Its key in the table.
    needs_delta : bool
        Whether it is calibrated to a delta above 0; the others are pure.
    releases : {"matrix", "directions", "subspace"}
        What leaves: a second moment; directions with their variances, from which one is rebuilt; or a subspace alone.
    numerics : Numerics
        What the running code adds to the mathematics, at its worst over all parameters.
    source : str
        Who proposed it: paper and theorem.
    use_when : str
        One line for those who choose.
    adds_noise : bool
        Whether what leaves is the second moment plus noise that `simulated_noise` can draw again.
    """

    name: ClassVar[str]
    needs_delta: ClassVar[bool] = False
    releases: ClassVar[Releases]
    numerics: ClassVar[Numerics]
    source: ClassVar[str]
    use_when: ClassVar[str]
    adds_noise: ClassVar[bool] = False

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Return what one release promises; a function of the parameters alone."""

    def epsilon_at(self, delta: float) -> float:
        """Return the least epsilon proved at another delta: by the privacy curve where a law knows its own."""
        return guaranteed_epsilon(self.guarantee(), delta)

    # What released values say.

    def second_moment(self, values: Values, n_rows: int) -> FloatArray | None:
        """Return A, the mean of x x' over rows of norm at most 1, as released values tell it; None for a subspace."""
        del values, n_rows
        return None

    def estimated_rows(self, values: Values) -> float | None:
        """Return the number of rows as a law tells it by more than a count; None where there is no more."""
        del values
        return None

    def directions(self, values: Values) -> FloatArray | None:
        """Return the directions that were drawn as orthonormal rows, in their order; None where there are none."""
        del values
        return None

    def variances(self, values: Values, n_rows: int) -> FloatArray | None:
        """Return released variances of all directions for rows of norm 1, in their order; None where none left."""
        del values, n_rows
        return None

    @property
    def ordered(self) -> bool:
        """Whether the first direction is the most important one."""
        return self.releases != "subspace"

    def noise_sd(self, n_rows: int) -> float | None:
        """Return the standard deviation beside the diagonal of `second_moment`; None where it is not known."""
        del n_rows
        return None

    @property
    def rotation_invariant(self) -> bool:
        """Whether its noise is known to have the same law in every basis, as proofs about eigenvalues want it."""
        return False

    @property
    def sharp_trace(self) -> bool:
        """Whether its noise is much smaller on the trace than a sum over the diagonal would be."""
        return False

    def simulated_noise(self, generator: np.random.Generator) -> FloatArray:
        """Return noise of the same law, less its mean, for post-processing: nothing secret depends on it."""
        raise NotImplementedError(f"{self.name} adds no noise.")

    def simulated_errors(self, generator: np.random.Generator) -> tuple[FloatArray, float]:
        """Return such noise, and together with it the error of the number of rows that the sum is divided by."""
        return self.simulated_noise(generator), 0.0

    def noise_facts(self) -> "NoiseFacts | None":
        """Return the second moments of `simulated_errors` in closed form; None where they are not known so."""
        return None

    def variance_reach(self, n_rows: int) -> float | None:
        """Return how far noise takes one of `variances` in 95 of 100 times; None where they are no such variances."""
        del n_rows
        return None

    @classmethod
    def privacy(cls) -> str:
        """Return the kind of promise in words, for tables."""
        return "(epsilon, delta)" if cls.needs_delta else "epsilon"

    @classmethod
    def numerics_in_words(cls) -> str:
        """Return `numerics`, and what it depends on, for tables."""
        return cls.numerics.value
