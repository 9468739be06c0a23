"""`ScaledReading`: the matrix that answers are read off: of the features as scaled, in own units, or correlations.

Correlations are asked for by a request, or are all that signs of differences tell. Either way they cost nothing more.
"""

from functools import cached_property

import numpy as np

from .errors import NoiseWarning, features_in_words, listed, warn_caller
from .matrix_reading import FloatArray, MatrixReading
from .postprocess.kendall import SignCorrelation, correlation_from_signs
from .postprocess.shrinkage import Shrunk, project_psd, shrink
from .postprocess.spectrum import sorted_eigh
from .postprocess.standardizing import Standardized, correlation_from_covariance
from .postprocess.thinning import SIZE, shrink_wide

# Noise that was mapped back is far from the same in every basis: up to this width it is simulated as it is.
_MAPPED_WIDE = 1000


class ScaledReading(MatrixReading):
    """The matrix of the scaled features, its noise, and what both say of the truth. Base of `Reading`."""

    @property
    def _of_signs(self) -> bool:
        return self.origin.rows.rows == "signs"

    @property
    def of_correlation(self) -> bool:
        """Whether components and variances are those of the correlation matrix."""
        return self._of_signs or self.origin.request.correlation

    @property
    def kendall(self) -> FloatArray | None:
        """Kendall's matrix as it left, from signs of differences; its diagonal is 1 but for ties and noise."""
        return self._bordered if self._of_signs else None

    @cached_property
    def _signs(self) -> SignCorrelation:
        gaussian = self.noise_facts is not None and self.noise_facts.gaussian  # then a quick draw has the same law
        draw = None if not self.has_noise_law else self.row_moment_draw if gaussian else self.row_noise_draw
        signs = correlation_from_signs(self.row_matrix, (self.row_noise_sd or 0.0) if draw else 0.0, draw)
        self._warn_of(
            signs.undetermined,
            "Ties or the noise hide how rows differ in {features}; the correlations there are set to 0.",
        )
        return signs

    @cached_property
    def _standardized(self) -> Standardized:
        found = correlation_from_covariance(self.row_matrix, self.row_noise_draw if self.has_noise_law else None)
        self._warn_of(
            found.undetermined,
            "The noise hides how much {features} {vary}, so correlations with {them} come out too small; more rows, a "
            "larger epsilon or narrower ranges would help, and so would rows='signs', which needs none.",
        )
        return found

    @property
    def _undetermined(self) -> tuple[int, ...]:
        """Positions of features whose correlations are not told, since the noise hides how much they vary."""
        if not self.of_correlation:
            return ()
        return self._signs.undetermined if self._of_signs else self._standardized.undetermined

    def _warn_of(self, positions: tuple[int, ...], sentence: str) -> None:
        if positions:
            names = features_in_words(self.feature_names, self.n_features)
            hidden = [names[position] for position in positions]
            words = {"vary": "vary", "them": "them"} if len(hidden) > 1 else {"vary": "varies", "them": "it"}
            warn_caller(sentence.format(features=listed("feature", hidden, hidden), **words), NoiseWarning)

    @property
    def scale(self) -> FloatArray:
        """What features are multiplied by before they are projected; ones where they are not.

        Where correlations were asked for, one over the standard deviations that the release tells.
        """
        if self._divisors is None or not self.has_matrix:
            return self.row_scale
        return np.asarray(self.row_scale / self._divisors)

    @property
    def isotropic(self) -> bool:
        """Whether the noise is known to have the same law in every basis, as proofs about eigenvalues want it."""
        return super().isotropic and not self.of_correlation and self._one_scale

    @property
    def _one_scale(self) -> bool:
        """Whether all features have one scale, so that noise in another unit is the same but for a factor."""
        return self._divisors is None or bool(np.all(self._divisors == self._divisors[0]))

    @property
    def _divisors(self) -> FloatArray | None:
        """What `row_matrix` is divided by, feature by feature, to be `scaled_matrix`; None where it is that already."""
        if self._of_signs:
            return None
        if self.of_correlation:
            return self._standardized.sizes
        return self.row_scale if self.origin.request.own_units else None

    # The matrix.

    @property
    def scaled_matrix(self) -> FloatArray:
        """The released matrix of the scaled features, as it left: centred where the mean left too, and raw.

        Of signs, and where correlations were asked for, those, each estimated by itself.
        """
        if self.of_correlation:
            return self._signs.matrix if self._of_signs else self._standardized.matrix
        return self.row_matrix if self._divisors is None else self.row_matrix / np.outer(self._divisors, self._divisors)

    @property
    def noise_sd(self) -> float | None:
        """Standard deviation of the noise beside the diagonal of `scaled_matrix`; None where it is not known."""
        sd = self.row_noise_sd
        sizes = self._divisors
        if sd is None or (sizes is None and not self._of_signs):
            return sd
        ratio = self._signs.noise_ratio if sizes is None else 1 / np.outer(sizes, sizes)
        ratio = np.delete(np.delete(ratio, without := list(self.origin.without_range), 0), without, 1)
        squares = ratio[np.triu_indices(len(ratio), 1)] ** 2
        # Where there is nothing beside the diagonal, or nothing that is told, any positive number will do.
        return sd * (float(np.sqrt(squares.sum() / max(1, squares.size))) or 1.0)

    def noise_draw(self, generator: np.random.Generator) -> FloatArray:
        """Return a fresh draw of the noise in `scaled_matrix`, at the released mean or correlations."""
        return self._as_scaled(self.row_noise_draw(generator))

    def error_draw(self, generator: np.random.Generator) -> FloatArray:
        """Return such noise, and what the error of a noisy number of rows adds to it, at the released matrix."""
        return self._as_scaled(self.row_error_draw(generator))

    def moment_draw(self, generator: np.random.Generator) -> FloatArray:
        """Return an error with the second moments of `error_draw`, of whatever law is quickest to draw."""
        noise = self.row_moment_draw(generator)
        return self._signs.noise(noise) if self._of_signs else self._as_scaled(noise)

    @property
    def _noise_map(self) -> FloatArray | None:
        """B, for noise of the law N and the error BNB' of `scaled_matrix`; None for the identity.

        Not for correlations, whose error is no such product.
        """
        rows, sizes = self._row_noise_map, self._divisors
        if sizes is None:
            return rows
        return np.diag(1 / sizes) if rows is None else rows / sizes[:, None]

    def _as_scaled(self, noise: FloatArray) -> FloatArray:
        if self.of_correlation:
            return np.asarray(noise * self._signs.noise_ratio) if self._of_signs else self._standardized.noise(noise)
        return noise if self._divisors is None else noise / np.outer(self._divisors, self._divisors)

    @property
    def without_signal(self) -> float:
        """The eigenvalues that `scaled_matrix` would have without signal and noise: 1 for correlations, else 0."""
        return 1.0 if self.of_correlation else 0.0

    @cached_property
    def _eigensystem(self) -> tuple[FloatArray, FloatArray]:
        """All eigenvalues of `scaled_matrix`, descending, and their eigenvectors as rows."""
        return sorted_eigh(self.scaled_matrix)

    # Shrinking simulates the noise, which may take longer than the fit, so it waits until somebody asks.

    @cached_property
    def estimate(self) -> Shrunk:
        """What the release and the known noise say about the true matrix; there only with a noise law."""
        # The trace of correlations is known. That of rows as they were used is told sharply, which says little of it
        # mapped back, or in other units.
        same = self._inverse_map is None and (self.of_correlation or self._one_scale)
        sharp = same and self.law is not None and self.law.sharp_trace
        keep_trace = sharp or self.of_correlation
        if self.n_features > (_MAPPED_WIDE if self._inverse_map is not None else SIZE) and self.noise_sd:
            excess = 0.0 if self.noise_facts is None else self.noise_facts.excess
            return shrink_wide(*self._eigensystem, self.noise_sd**2, excess, keep_trace=keep_trace)
        return shrink(self.scaled_matrix, self.noise_draw, self._eigensystem, keep_trace=keep_trace)

    @cached_property
    def scaled_covariance(self) -> FloatArray:
        """The matrix of the scaled features: shrunk with the known noise, or made positive semidefinite.

        In the local model it is the unbiased estimate as it is. Of correlations it has a diagonal of ones.
        """
        if self.of_correlation:
            return _unit_diagonal(self.estimate.covariance if self.has_noise_law else project_psd(self.scaled_matrix))
        if self.has_noise_law:
            return self._still(self.estimate.covariance)
        return self.scaled_matrix if self.origin.model == "local" else project_psd(self.scaled_matrix)

    @property
    def covariance(self) -> FloatArray | None:
        """`scaled_covariance` in the units of the features; None where only a subspace was released.

        The second moment about the origin (or the middle of public bounds) where the mean is not part of the release;
        the correlation where only signs were compared, which tell no units.
        """
        if not self.has_matrix:
            return None
        return self.scaled_covariance / np.outer(self.scale, self.scale)

    @property
    def correlation(self) -> FloatArray | None:
        """`covariance` with its diagonal brought to 1; a feature without variance correlates with nothing."""
        if not self.has_matrix:
            return None
        return self.scaled_covariance if self.of_correlation else _scaled_to_ones(self.scaled_covariance)


def _scaled_to_ones(covariance: FloatArray) -> FloatArray:
    sizes = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    sizes[sizes == 0] = np.inf
    return np.asarray(np.clip(covariance / np.outer(sizes, sizes), -1.0, 1.0))


def _unit_diagonal(covariance: FloatArray) -> FloatArray:
    correlation = _scaled_to_ones(covariance)
    np.fill_diagonal(correlation, 1.0)
    return correlation
