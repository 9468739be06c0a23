"""How heavy the tails of a noise law are, entry by entry."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Tails are simulated at no more than this width: they only get lighter with it.
WIDEST = 24
# Simulated entries of each kind, and draws of a matrix, at most.
_ENTRIES, _DRAWS = 20_000, 1_000
_SEED = 20160711


@dataclass(frozen=True, eq=False)
class Tails:
    """Simulated sizes of noise in units of its standard deviation, ascending: beside the diagonal and on it."""

    beside: FloatArray
    diagonal: FloatArray

    def quantiles(self, level: float) -> tuple[float, float]:
        """Return what noise beside the diagonal, and on it, stays within at this probability."""
        return float(np.quantile(self.beside, level)), float(np.quantile(self.diagonal, level))

    @property
    def common_size(self) -> float:
        """The relative variance of the size that entries share, if they are normal but for it: by their kurtosis."""
        return max(0.0, float(np.mean(self.beside**4)) / 3 - 1)


def simulated_tails(draw: Callable[[np.random.Generator], FloatArray], d: int) -> Tails:
    """Return sizes of entries of simulated noise, d by d; for one number the diagonal serves for both."""
    generator = np.random.default_rng(_SEED)
    count = int(np.clip(_ENTRIES // d, 1, _DRAWS))
    noise = np.stack([draw(generator) for _ in range(count)])
    diagonal = np.abs(np.diagonal(noise, axis1=1, axis2=2)).ravel()
    beside = np.abs(noise[:, *np.triu_indices(d, 1)]).ravel() if d > 1 else diagonal
    return Tails(_in_deviations(beside), _in_deviations(diagonal))


def _in_deviations(sizes: FloatArray) -> FloatArray:
    return np.asarray(np.sort(sizes) / np.sqrt(np.mean(np.square(sizes))))
