"""What every mechanism is: parameters in, a guarantee without data, a release with its spend recorded first."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..accounting.calibration import exact, float_above
from ..accounting.ledger import PrivacyLedger
from ..errors import (
    CapacityError,
    InvalidDataError,
    InvalidParameterError,
    integer_between,
    one_of,
    positive_number,
    probability_below_one,
)
from ..guarantee import Guarantee, Relation
from ..moments import SecondMoments
from ..postprocess import top_components
from ..randomness import is_secure, secure_generator
from ..release import Release
from ..samplers.discrete import discrete_laplace
from ..samplers.symmetric import mirror_upper
from ..version import __version__

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Where the number of rows is private, this share of epsilon pays for a noisy count to divide by.
COUNT_SHARE = Fraction(1, 20)
# Noise and moments meet in blocks of rows, so that a wide matrix is not copied on the way.
_ROWS_AT_ONCE = 512


class Mechanism(ABC):
    """A private way to release principal components, or the second moment they come from.

    Parameters
    ----------
    epsilon : float
        The budget of one release.
    delta : float
        0 is pure differential privacy.
    n_features : int
        Width of a row, d.
    n_components : int, optional
        Number of directions to release, k; all of them by default.
    relation : Relation or str
        The neighbouring relation.
    calibration : {"tight", "paper"}, optional
        Our constants, or those of the paper that proposed the mechanism; by default the first that the mechanism
        has, ours where there are two.
    """

    name: ClassVar[str]
    calibrations: ClassVar[tuple[str, ...]] = ("tight",)

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float = 0.0,
        n_features: int,
        n_components: int | None = None,
        relation: Relation | str = Relation.REPLACE,
        calibration: str | None = None,
    ) -> None:
        self.epsilon = positive_number("epsilon", epsilon)
        self.delta = probability_below_one("delta", delta)
        self.n_features = integer_between("n_features", n_features, 1)
        k = self.n_features if n_components is None else n_components
        self.n_components = integer_between("n_components", k, 1, self.n_features)
        self.relation = Relation.parse(relation)
        self.calibration = one_of("calibration", calibration or self.calibrations[0], self.calibrations)

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Return what a release promises; a function of the parameters alone."""

    @abstractmethod
    def _draw(self, moments: SecondMoments, generator: np.random.Generator) -> Mapping[str, Any]:
        """Sample the release: its arrays, and under "n_rows" the public or noisy number of rows."""

    def release(
        self,
        moments: SecondMoments,
        generator: np.random.Generator | None = None,
        *,
        ledger: PrivacyLedger | None = None,
    ) -> Release:
        """Draw one release; every call spends the full budget again.

        Parameters
        ----------
        moments : SecondMoments
            The private statistic.
        generator : numpy.random.Generator, optional
            The secure generator by default. Any other marks the release as reproducible and not private.
        ledger : PrivacyLedger, optional
            Records the spend, durably, before anything is sampled.
        """
        generator = secure_generator() if generator is None else generator
        self.check(moments)
        guarantee = self.guarantee() if is_secure(generator) else self.guarantee().marked_reproducible()
        entry = None if ledger is None else ledger.spend(guarantee, f"{self.name} release")
        drawn = dict(self._draw(moments, generator))
        provenance = {
            "package_version": __version__,
            "mechanism": self.name,
            "parameters": self.parameters(),
            "n_rows": drawn.pop("n_rows", None),
            "bound": asdict(moments.bound),
            "feature_names": None if moments.feature_names is None else list(moments.feature_names),
            "ledger_entry": None if entry is None else entry.entry,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        return Release(drawn, guarantee, provenance)

    def simulate(self, second_moment: FloatArray, generator: np.random.Generator, size: int = 1) -> FloatArray:
        """Return the directions of `size` releases on a *public* matrix C, shape (size, k, d), for planning.

        C is assumed, a sum over rows of norm at most 1. Nothing is spent or recorded, so it must never be private.
        """
        raise InvalidParameterError(f"{self.name} has no simulation to plan with.")

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "n_features": self.n_features,
            "n_components": self.n_components,
            "relation": self.relation.value,
            "calibration": self.calibration,
        }

    def check(self, moments: SecondMoments) -> None:
        """Refuse what cannot be released, before any budget is spent."""
        if moments.width != self.n_features:
            raise InvalidDataError(
                f"The moments are {moments.width} wide where the mechanism was made for {self.n_features}."
            )
        moments.check_whole()
        # Under add/remove, whether there are any rows at all is private and gets no error of its own.
        if self.relation is Relation.REPLACE and moments.n_rows == 0:
            raise InvalidDataError("There are no rows to release anything about; update the moments first.")

    @property
    def matrix_epsilon(self) -> Fraction:
        """What is left of epsilon for the matrix: all of it, or less a share for the private count."""
        share = COUNT_SHARE if self.relation is Relation.ADD_REMOVE else Fraction(0)
        return exact(self.epsilon) * (1 - share)

    def _released_count(self, moments: SecondMoments, generator: np.random.Generator) -> int:
        """Return the number of rows: public under replace, noisy and paid for under add/remove."""
        if self.relation is Relation.REPLACE:
            return moments.n_rows
        scale = float_above(1 / (exact(self.epsilon) - self.matrix_epsilon))
        return max(1, moments.n_rows + int(discrete_laplace(scale, 1, generator)[0]))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.parameters().items())
        return f"{type(self).__name__}({fields})"


class AdditiveMechanism(Mechanism):
    """Releases the integer second moment plus integer noise; directions are its eigenvectors."""

    @abstractmethod
    def noise_scale(self) -> float:
        """Return the scale parameter of the noise on C, for rows of norm at most 1."""

    @abstractmethod
    def noise(self, generator: np.random.Generator, grid: float = 1.0) -> FloatArray | IntArray:
        """Return symmetric noise for C, times `grid`, the squared row norm on the grid; int64 where it is exact."""

    def simulated_noise(self, generator: np.random.Generator) -> FloatArray:
        """Return noise of the same law, less its mean, for post-processing: nothing secret depends on it."""
        return np.asarray(self.noise(generator, 2.0**32) / 2.0**32 - self.noise_mean * np.eye(self.n_features))

    @property
    @abstractmethod
    def off_diagonal_sd(self) -> float:
        """Standard deviation of an off-diagonal entry of the noise on C."""

    @property
    def noise_mean(self) -> float:
        """The noise has this multiple of the identity as its mean: 0 but for one-sided noise."""
        return 0.0

    @property
    @abstractmethod
    def noise_reach(self) -> float:
        """A size in units of C that no entry of the noise passes in practice, to keep int64 from overflow."""

    def check(self, moments: SecondMoments) -> None:
        """Refuse moments that cannot be released, and noise that would overflow int64."""
        super().check(moments)
        self._check_reach(moments.bound.limit_squared)

    def _check_reach(self, grid: float) -> None:
        if self.noise_reach * grid >= 2.0**62:
            raise CapacityError(
                "The noise at this epsilon does not fit int64 on this grid; use fewer bits in the RowBound."
            )

    def simulate(self, second_moment: FloatArray, generator: np.random.Generator, size: int = 1) -> FloatArray:
        """Return the top eigenvectors of the public matrix plus simulated noise."""
        self._check_reach(2.0**32)
        noisy = (second_moment + self.simulated_noise(generator) for _ in range(size))
        return np.stack([top_components(matrix, self.n_components) for matrix in noisy])

    def _draw(self, moments: SecondMoments, generator: np.random.Generator) -> Mapping[str, Any]:
        noise = self.noise(generator, float(moments.bound.limit_squared))
        if noise.dtype != np.int64 and max(noise.max(), -noise.min()) >= 2.0**53:
            noise = with_last_bits(noise, generator)
        covariance = noise.view(np.float64)  # the same memory, taken over block by block
        n_rows = self._released_count(moments, generator)
        for low in range(0, self.n_features, _ROWS_AT_ONCE):
            rows = slice(low, low + _ROWS_AT_ONCE)
            # The noise is an integer before it meets the data, so the sum is exact; both sides stay below 2^62.
            drawn = noise[rows] if noise.dtype == np.int64 else np.rint(noise[rows])
            integers = np.clip(drawn, -(2**62), 2**62).astype(np.int64)
            covariance[rows] = (moments.gram[rows] + integers) * (moments.bound.unit_squared / n_rows)
        components = top_components(covariance, self.n_components)
        return {"covariance": covariance, "components": components, "n_rows": n_rows}


def with_last_bits(noise: FloatArray | IntArray, generator: np.random.Generator) -> IntArray:
    """Return real noise as integers, with random last bits where float64 has none.

    Beyond 2^53 floats are multiples of 2, 4, ..., and so coarse a noise would leave the last bits of the data alone. An
    even draw within the spacing of the floats is what a sampler of more bits would have there, up to its 53 bits.
    """
    whole = np.rint(noise).astype(np.int64)
    rows, columns = np.triu_indices(noise.shape[0])
    spacing = np.maximum(1.0, np.spacing(np.abs(noise[rows, columns]))).astype(np.int64)
    whole[rows, columns] += generator.integers(0, spacing) - spacing // 2
    mirror_upper(whole)
    return whole


def require_pure(name: str, delta: float) -> None:
    """Refuse a delta that a pure mechanism would leave unused."""
    if delta != 0:
        raise InvalidParameterError(
            f"{name} is pure and has no use for delta = {delta:g}; set delta=0 or choose another mechanism."
        )
