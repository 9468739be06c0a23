"""Reading a released second moment: its centre, and the public law of its noise."""

import warnings
from functools import cached_property

import numpy as np

from ..errors import NoiseWarning
from ..postprocess import Shrunk, project_psd, shrink, sorted_eigh
from ..release import Release
from ..rows import RowBound
from .base import AdditiveMechanism, FloatArray, Mechanism

# The largest eigenvalue of pure noise in units of sd * sqrt(d), for large d: 2 for independent entries, and a little
# more for matrix_laplace, which has the heaviest tail of the table.
EDGE = 2.4


class ReleasedMatrix:
    """The released matrix of the features, centred where the rows had a constant, with its noise law.

    Everything here is computed from the release and public parameters: whoever holds the file can do the same.

    Parameters
    ----------
    release : Release
        With a covariance, as a mechanism or an estimator made it.
    mechanism : Mechanism
        The one that made it, or one with the parameters that the release states.
    """

    def __init__(self, release: Release, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        bound = RowBound(**release.provenance["bound"])
        matrix = np.array(release.arrays["covariance"])
        self._n_rows = int(release.provenance["n_rows"])
        self._unit = bound.limit_squared * bound.unit_squared / self._n_rows  # of noise for rows of norm 1, on A
        if isinstance(mechanism, AdditiveMechanism):
            np.fill_diagonal(matrix, matrix.diagonal() - mechanism.noise_mean * self._unit)
        # Sampled directions are what was paid for; eigenvectors of the matrix rebuilt from them would lose those
        # whose noisy eigenvalue falls below the average of the rest.
        sampled = release.arrays.get("eigenvalues") if bound.constant is None else None
        self._sampled = None if sampled is None else (sampled, np.array(release.arrays["components"]))
        self._constant = bound.constant_units * bound.norm / 2.0**bound.bits
        if bound.constant is None:
            self.value, self.mean = matrix, np.zeros(matrix.shape[0])
        else:
            # The last row holds the mean times the constant.
            self.mean = matrix[:-1, -1] / self._constant
            self.value = matrix[:-1, :-1] - np.outer(self.mean, self.mean)

    @property
    def has_noise_law(self) -> bool:
        """Whether the matrix is the truth plus noise of a known law."""
        return isinstance(self._mechanism, AdditiveMechanism)

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise beside the diagonal."""
        assert isinstance(self._mechanism, AdditiveMechanism)
        return self._mechanism.off_diagonal_sd * self._unit

    def noise_draw(self, generator: np.random.Generator) -> FloatArray:
        """Return a fresh draw of the noise in `value`, at the released mean."""
        assert isinstance(self._mechanism, AdditiveMechanism)
        noise = self._mechanism.simulated_noise(generator) * self._unit
        if not self._constant:
            return noise
        shift = noise[:-1, -1] / self._constant
        cross = np.outer(self.mean, shift)
        return np.asarray(noise[:-1, :-1] - cross - cross.T - np.outer(shift, shift))

    def top_components(self, k: int) -> FloatArray:
        """Return the first k directions as rows, and warn where even the first is lost in noise."""
        if self._sampled is not None and k <= self._sampled[0].size:
            return self._sampled[1][:k]
        values, vectors = sorted_eigh(self.value, k)
        if self.has_noise_law and values[0] < EDGE * self.noise_sd * np.sqrt(self.value.shape[0]):
            wide = self._n_rows < self.value.shape[0]
            help_for_wide = ", and so would a public random projection of the features, or PrivateSparsePCA"
            warnings.warn(
                "The noise swamps the signal: no released eigenvalue is above the noise edge; more rows, a larger "
                f"epsilon, a delta above 0 or fewer features would help{help_for_wide if wide else ''}.",
                NoiseWarning,
                stacklevel=6,
            )
        return vectors

    # Shrinking simulates the noise, which may take longer than the fit, so it waits until somebody asks.

    @cached_property
    def estimate(self) -> Shrunk:
        """What the release and the known noise say about the truth; there only with a noise law."""
        return shrink(self.value, self.noise_draw)

    @property
    def shrunk(self) -> FloatArray:
        """The matrix, positive semidefinite and shrunk."""
        return self.estimate.covariance if self.has_noise_law else project_psd(self.value)

    @property
    def eigenvalues(self) -> FloatArray:
        """Eigenvalues, freed of the bias that the noise has on them."""
        if self.has_noise_law:
            return self.estimate.eigenvalues
        if self._sampled is None:
            return np.maximum(sorted_eigh(self.value)[0], 0.0)
        # The other directions share evenly what the sampled ones leave of the trace.
        values = np.maximum(self._sampled[0], 0.0)
        others = self.value.shape[0] - values.size
        rest = max(0.0, float(np.trace(self.value) - values.sum())) / max(1, others)
        return np.append(values, np.full(others, rest))
