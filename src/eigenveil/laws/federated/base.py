"""What every law of several sites is: a central law whose noise comes in shares."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from ...caveats import MASKS_CAVEAT, ONE_SITE_CAVEAT, sites_caveat
from ...errors import integer_between
from ...guarantee import Guarantee, Relation
from ..additive import AdditiveLaw
from ..base import IntArray, Integers

UNITS = "units"
"""The name of the exact number of units among the numbers of a site, where the relation makes it public."""


class FederatedLaw(AdditiveLaw):
    """A law whose noise comes in shares of `n_sites` sites, of which `n_colluding` may tell theirs to whoever adds up.

    Parameters
    ----------
    n_sites : int
        K, each with units of its own.
    n_colluding : int
        t, less than K: the promise holds against every coalition of so many sites with whoever adds up.
    **parameters
        As of every central law.

    Attributes
    ----------
    part : AdditiveLaw
        The law that is left of the sum in the worst case, and from which the promise follows.
    kind : type of AdditiveLaw
        Of `part`.
    beside : tuple of str
        Noisy numbers that leave beside the matrix, in units of it.
    """

    kind: ClassVar[type[AdditiveLaw]]
    part: AdditiveLaw
    beside: tuple[str, ...]

    def __init__(self, *, n_sites: int, n_colluding: int, **parameters: Any) -> None:
        self.n_sites = integer_between("n_sites", n_sites, 2)
        self.n_colluding = integer_between("n_colluding", n_colluding, 0, self.n_sites - 1)
        super().__init__(**parameters)

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types."""
        return {**super().parameters(), "n_sites": self.n_sites, "n_colluding": self.n_colluding}

    def guarantee(self) -> Guarantee:
        """Return what holds of the sum, with what it rests on."""
        promise = super().guarantee()  # type: ignore[safe-super]  # that of the law which is shared
        guarantee = promise.with_caveat(sites_caveat(self.n_sites, self.n_colluding))
        return guarantee.with_caveat(MASKS_CAVEAT).with_caveat(ONE_SITE_CAVEAT)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of all numbers that a site sends beside the matrix, in order."""
        return (*self.beside, UNITS) if self.relation is Relation.REPLACE else self.beside

    def site_capacity(self, grid: int) -> int:
        """Return how many units a site may have, so that the sum over all sites stays below 2^62."""
        return int((2**62 - 1) // (grid * self.n_sites))

    def site_draw(self, gram: IntArray, grid: int, n_rows: int, place: int, generator: np.random.Generator) -> Integers:
        """Draw the numbers of the site at this place, its own sums plus its share of the noise, modulo 2^64.

        `gram`, `grid` and `n_rows` are those of the site, as for `draw`. The number of units is among them where the
        relation makes it public: it has no noise, and no neighbour has another one.
        """
        units = {UNITS: np.array(n_rows)} if UNITS in self.numbers else {}
        return {**self._site_draw(gram, grid, n_rows, place, generator), **units}

    @abstractmethod
    def _site_draw(
        self, gram: IntArray, grid: int, n_rows: int, place: int, generator: np.random.Generator
    ) -> Integers:
        """Draw the numbers that have noise."""

    def combined(self, sums: Integers, grid: int) -> Integers:
        """Return what leaves from the sums over all sites, whose noisy number of rows is rounded."""
        sums = {name: value for name, value in sums.items() if name != UNITS}
        if "count" not in sums:
            return sums
        return {**sums, "count": np.array(max(1, (2 * int(sums["count"]) + grid) // (2 * grid)))}
