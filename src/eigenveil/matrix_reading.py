"""`MatrixReading`: from integers that left to the matrix they stand for, its centre, and the public law of its noise.

The one place where integers and their unit become numbers in the user's units.
"""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidDataError, InvalidParameterError
from .laws.base import IN_UNITS_OF_C, Law
from .origin import Origin
from .postprocess.shrinkage import Shrunk, project_psd, shrink
from .postprocess.spectrum import sorted_eigh

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class MatrixReading:
    """The matrix, its centre and its noise, from integers that left and their origin. Base of `Reading`."""

    integers: Mapping[str, IntArray]
    unit: Mapping[str, float]
    origin: Origin

    # What left, and by which law.

    @cached_property
    def law(self) -> Law | None:
        """The public law that drew the release; None where this version does not know it, or not its parameters."""
        from .laws.local import local_law_from
        from .laws.table import LAWS

        try:
            if self.origin.model == "local":
                return local_law_from(self.origin.parameters)
            return LAWS[self.origin.law](**self.origin.parameters) if self.origin.law in LAWS else None
        except (TypeError, InvalidParameterError):
            # The file of a later version may name parameters, or values of them, that are not there yet.
            return None

    @property
    def n_rows(self) -> int | None:
        """Number of rows, pairs or reports: public, or released with noise; None where it is not told."""
        return int(self.integers["count"]) if "count" in self.integers else self.origin.n_rows

    @property
    def n_features(self) -> int:
        """Number of features, without the constant that a centred release appends."""
        first = next(value for name, value in self.integers.items() if name not in ("count", "quotients", "ones"))
        return int(first.shape[-1]) - self.origin.centred

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Public names of the features, where the source had them."""
        return self.origin.feature_names

    @cached_property
    def _values(self) -> dict[str, FloatArray]:
        """What left, in the units of the law: rows of norm at most 1."""
        rows = self.origin.rows
        whole = {name: self.unit[name] / (rows.reach_squared if name in IN_UNITS_OF_C else 1) for name in self.unit}
        return {name: np.asarray(value * whole[name]) for name, value in self.integers.items()}

    @cached_property
    def _bordered(self) -> FloatArray | None:
        """The second moment of the scaled rows, with the constant's row and column where there are such."""
        if self.law is None:
            released = self._values.get("matrix")
            moment = None if released is None else released / max(1, self.n_rows or 1)
        else:
            moment = self.law.second_moment(self._values, max(1, self.n_rows or 1))
        return None if moment is None else moment * self.origin.rows.reach_squared

    @property
    def has_matrix(self) -> bool:
        """Whether the release tells variances; a subspace alone does not."""
        return self._bordered is not None

    @property
    def has_noise_law(self) -> bool:
        """Whether the matrix is the truth plus noise of a known law that can be drawn again."""
        return self.law is not None and self.law.adds_noise

    # Location and scale.

    @property
    def scale(self) -> FloatArray:
        """What features were multiplied by before anything else; ones where they were not."""
        scale = self.origin.rows.scale
        return np.ones(self.n_features) if scale is None else np.asarray(scale)

    @property
    def _scaled_mean(self) -> FloatArray:
        """The mean of the scaled, shifted rows; zeros where it is not part of the release."""
        if self._bordered is None or not self.origin.centred:
            return np.zeros(self.n_features)
        return np.asarray(self._bordered[:-1, -1] / self.origin.rows.constant_value)

    @property
    def mean(self) -> FloatArray:
        """The released mean; without one, the middle of the public bounds, or zero."""
        shift = self.origin.rows.shift
        return (0.0 if shift is None else np.asarray(shift)) + self._scaled_mean / self.scale

    # The matrix.

    @cached_property
    def scaled_matrix(self) -> FloatArray:
        """The released matrix of the scaled features, as it left: centred where the mean left too, and raw."""
        if self._bordered is None:
            raise InvalidDataError("This release holds directions only; it has no matrix.")
        if not self.origin.centred:
            return self._bordered
        return np.asarray(self._bordered[:-1, :-1] - np.outer(self._scaled_mean, self._scaled_mean))

    @property
    def noise_sd(self) -> float | None:
        """Standard deviation of the noise beside the diagonal of `scaled_matrix`; None where it is not known."""
        sd = None if self.law is None else self.law.noise_sd(max(1, self.n_rows or 1))
        return None if sd is None else sd * self.origin.rows.reach_squared

    def noise_draw(self, generator: np.random.Generator) -> FloatArray:
        """Return a fresh draw of the noise in `scaled_matrix`, at the released mean."""
        if self.law is None or not self.law.adds_noise:
            raise InvalidDataError("This release holds no matrix plus noise of a known law.")
        unit = self.origin.rows.reach_squared / max(1, self.n_rows or 1)
        noise = self.law.simulated_noise(generator) * unit
        if not self.origin.centred:
            return noise
        shift = noise[:-1, -1] / self.origin.rows.constant_value
        cross = np.outer(self._scaled_mean, shift)
        return np.asarray(noise[:-1, :-1] - cross - cross.T - np.outer(shift, shift))

    @cached_property
    def _eigensystem(self) -> tuple[FloatArray, FloatArray]:
        """All eigenvalues of `scaled_matrix`, descending, and their eigenvectors as rows."""
        return sorted_eigh(self.scaled_matrix)

    # Shrinking simulates the noise, which may take longer than the fit, so it waits until somebody asks.

    @cached_property
    def estimate(self) -> Shrunk:
        """What the release and the known noise say about the true matrix; there only with a noise law."""
        return shrink(self.scaled_matrix, self.noise_draw, self._eigensystem)

    @cached_property
    def scaled_covariance(self) -> FloatArray:
        """The matrix of the scaled features: shrunk with the known noise, or made positive semidefinite.

        In the local model it is the unbiased estimate as it is.
        """
        if self.has_noise_law:
            return self.estimate.covariance
        return self.scaled_matrix if self.origin.model == "local" else project_psd(self.scaled_matrix)

    @property
    def covariance(self) -> FloatArray | None:
        """`scaled_covariance` in the units of the features; None where only a subspace was released.

        The second moment about the origin (or the middle of public bounds) where the mean is not part of the release.
        """
        if not self.has_matrix:
            return None
        return self.scaled_covariance / np.outer(self.scale, self.scale)

    @property
    def correlation(self) -> FloatArray | None:
        """`covariance` with its diagonal brought to 1; a feature without variance correlates with nothing."""
        if not self.has_matrix:
            return None
        sizes = np.sqrt(np.maximum(np.diag(self.scaled_covariance), 0.0))
        sizes[sizes == 0] = np.inf
        return np.asarray(np.clip(self.scaled_covariance / np.outer(sizes, sizes), -1.0, 1.0))
