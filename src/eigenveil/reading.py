"""`Reading`: what a release says, in the user's units, from the release alone and free of privacy cost.

`Release` is a reading of itself, so an estimator, a file and a report give the same numbers in the same words. Nothing
here can reach a row: it knows integers that have left, the public law behind them, and the public rule of the rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .errors import InvalidParameterError, NoiseWarning, warn_caller
from .laws.sampled import orthonormal
from .matrix_reading import FloatArray
from .origin import ComponentsRequest, RegressionRequest, SparseRequest
from .postprocess.above_noise import n_above_noise
from .postprocess.fantope import SparseComponents, screened_components
from .postprocess.intervals import eigenvalue_intervals
from .postprocess.ridge import RidgeFit, ridge_from_covariance, shrunk_mean
from .postprocess.spectrum import sorted_eigh
from .scaled_reading import ScaledReading

# The largest eigenvalue of pure noise in units of sd * sqrt(d), for large d: 2 for independent entries, and a little
# more for matrix_laplace, which has the heaviest tail of the table.
EDGE = 2.4
# Up to this width all eigenvectors are as quick to have as a few, and everything below needs one decomposition only.
_DECOMPOSED_WHOLE = 256
NO_UNITS = (
    "rows='signs' releases neither means nor sizes of the features, so raw rows cannot be projected; multiply rows "
    "that are standardized already by the components."
)
# What noise on the mean of the target may take of R² without a warning.
_MEAN_MAY_COST = 0.1


@dataclass(frozen=True, eq=False)
class Regression:
    """A linear prediction of one column by others, in the user's units.

    Attributes
    ----------
    coef : ndarray of shape (len(features),)
    intercept : float
    r2 : float
        Share of the target's variation that the fit explains, in the shrunk release.
    alpha : float
        Regularization on the scale of one row, of the scaled features.
    target : int
    features : tuple of int
    """

    coef: FloatArray
    intercept: float
    r2: float
    alpha: float
    target: int
    features: tuple[int, ...]


class Reading(ScaledReading):
    """What integers that left say together with their origin. Base of `Release`, not used by itself."""

    # Directions, of the scaled features.

    @property
    def ordered(self) -> bool:
        """Whether the first component is known to be the most important one."""
        return self.has_matrix if self.law is None else self.law.ordered

    @cached_property
    def _drawn(self) -> FloatArray | None:
        # Sampled directions are what was paid for; eigenvectors of the matrix rebuilt from them would lose those
        # whose noisy variance falls below the average of the rest.
        if self.origin.rows.needs_matrix or self.of_correlation:
            return None
        if self.law is not None:
            return self.law.directions(self._values)
        released = self._values.get("directions")  # they mean the same whatever the law
        return None if released is None else orthonormal(released)

    @cached_property
    def components(self) -> FloatArray:
        """The directions that were asked for (k x d), of the scaled features, most important first if `ordered`."""
        if isinstance(self.origin.request, SparseRequest):
            return self.sparse.components
        k = self._n_components
        if self._drawn is not None and k <= len(self._drawn):
            return self._drawn[:k]
        values, vectors = self._leading
        self._warn_of_noise(float(values[0]) - self.without_signal)
        return vectors[:k]

    @cached_property
    def _leading(self) -> tuple[FloatArray, FloatArray]:
        """At least as many eigenvalues and eigenvectors as there are components."""
        whole = self.n_features <= _DECOMPOSED_WHOLE or "_eigensystem" in self.__dict__
        return self._eigensystem if whole else sorted_eigh(self.scaled_matrix, self._n_components)

    @cached_property
    def n_above_noise(self) -> int:
        """How many components rise above the noise: more than there are with a probability of at most 5 %.

        Of correlations, how many rise above it from 1, which is what all of them are where nothing is correlated.
        """
        if not self.has_noise_law:
            raise InvalidParameterError("Components above the noise need a released matrix plus noise of a known law.")
        values, vectors = self._eigensystem
        return n_above_noise(values - self.without_signal, vectors, self.noise_draw)

    @property
    def _n_components(self) -> int:
        request, most = self.origin.request, self.n_features if self._drawn is None else len(self._drawn)
        wanted = request.n_components if isinstance(request, ComponentsRequest) else None
        if isinstance(wanted, str):
            return max(1, self.n_above_noise)
        if not isinstance(wanted, float):
            return most if wanted is None else wanted
        ratio = np.cumsum(self.eigenvalues) / max(self.eigenvalues.sum(), np.finfo(float).tiny)
        return min(int(np.searchsorted(ratio, wanted)) + 1, int(ratio.size))

    def _warn_of_noise(self, largest: float) -> None:
        if self.of_correlation and self.n_features == 1:  # which is 1, whatever the noise
            return
        if not self.has_noise_law or largest >= EDGE * (self.noise_sd or 0.0) * np.sqrt(self.n_features):
            return
        wide = (self.n_rows or 0) < self.n_features
        help_for_wide = ", and so would a public random projection of the features, or PrivateSparsePCA"
        warn_caller(
            "The noise swamps the signal: no released eigenvalue is above the noise edge; more rows, a larger "
            f"epsilon, a delta above 0 or fewer features would help{help_for_wide if wide else ''}.",
            NoiseWarning,
        )

    @cached_property
    def sparse(self) -> SparseComponents:
        """Sparse components of the matrix, as they were asked for."""
        request = self.origin.request
        if not isinstance(request, SparseRequest):
            raise InvalidParameterError("This release was not made for sparse components.")
        return screened_components(
            self.scaled_matrix,
            request.n_components,
            screen=request.screen,
            penalty=request.penalty,
            noise_sd=self.noise_sd,
            tol=request.tol,
            max_iter=request.max_iter,
        )

    # Variances.

    @cached_property
    def eigenvalues(self) -> FloatArray:
        """All variances, descending, freed of the bias that known noise has on them, or as they were released."""
        if self.has_noise_law:
            return self.estimate.eigenvalues
        released = self._released_variances
        return np.asarray(np.maximum(self._eigensystem[0], 0.0) if released is None else released)

    @cached_property
    def _released_variances(self) -> FloatArray | None:
        if self.law is None or self._drawn is None:
            return None
        released = self.law.variances(self._values, max(1, self.n_rows or 1))
        return None if released is None else np.asarray(released * self.origin.rows.reach_squared)

    @property
    def total_variance(self) -> float:
        """What shares of variance refer to."""
        if self.of_correlation:
            return float(self.n_features)
        if self.origin.model == "local":
            return max(0.0, float(np.trace(self.scaled_matrix)))
        sparse = isinstance(self.origin.request, SparseRequest)
        return float(np.trace(self.scaled_covariance) if sparse else self.eigenvalues.sum())

    @property
    def explained_variance(self) -> FloatArray | None:
        """Variances of the components; None where only a subspace was released."""
        if not self.has_matrix:
            return None
        if not isinstance(self.origin.request, SparseRequest):
            k = len(self.components)
            as_released = not self.has_noise_law and self._released_variances is None
            return np.asarray(np.maximum(self._leading[0][:k], 0.0) if as_released else self.eigenvalues[:k])
        along = np.einsum("ki,ij,kj->k", self.components, self.scaled_covariance, self.components)
        return np.asarray(np.maximum(along, 0.0))

    @property
    def explained_variance_ratio(self) -> FloatArray | None:
        """Shares of the components in the total; None where only a subspace was released."""
        variances = self.explained_variance
        if variances is None:
            return None
        total = self.total_variance
        return np.minimum(variances / total, 1.0) if total > 0 else np.zeros_like(variances)

    @cached_property
    def explained_variance_interval(self) -> FloatArray | None:
        """95 % intervals for the eigenvalues of the rows as they were used, by simulation of the public noise law."""
        return self.eigenvalue_interval(len(self.components))

    def eigenvalue_interval(self, count: int) -> FloatArray | None:
        """Return the same for the first `count` eigenvalues, more or fewer than there are components."""
        if not self.has_noise_law:
            return None
        return eigenvalue_intervals(self.scaled_matrix, self.error_draw, n_components=count)

    # Use.

    def transform(self, X: Any) -> FloatArray:
        """Project rows on the components; the projections of private rows are private data themselves."""
        self._check_units()
        directions = (self.components * self.scale).T.astype(X.dtype if hasattr(X, "dtype") else np.float64)
        projected = X @ directions
        mean = self.mean
        return np.asarray(projected - (mean @ directions).astype(directions.dtype) if mean.any() else projected)

    def inverse_transform(self, projected: Any) -> FloatArray:
        """Map projections back to the space of the features."""
        self._check_units()
        rows = np.asarray(projected)
        kind = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
        return np.asarray(rows @ (self.components / self.scale).astype(kind) + self.mean.astype(kind))

    def _check_units(self) -> None:
        if self._of_signs:
            raise InvalidParameterError(NO_UNITS)

    def regress(
        self, target: int | str, features: Sequence[int | str] | None = None, *, alpha: float | None = None
    ) -> Regression:
        """Regress one column on others, from the released matrix and at no further privacy cost.

        Parameters
        ----------
        target : int or str
            The column to predict, by position or name.
        features : sequence, optional
            The columns to predict from; all others by default.
        alpha : float, optional
            Regularization on the scale of one row of the scaled features; by default it follows from the noise.
        """
        if not self.has_noise_law:
            raise InvalidParameterError(
                "A regression needs a released matrix plus noise of a known law; choose a law that adds noise."
            )
        if not self.origin.rows.keeps_lengths:
            raise InvalidParameterError("This release was made from directions, and a regression needs lengths.")
        position = self._position(target)
        positions = None if features is None else [self._position(feature) for feature in features]
        if position in self.origin.without_range or len(self.origin.without_range) == self.n_features:
            others = [other for other in range(self.n_features) if other != position]
            known = tuple(others if positions is None else positions)
            return Regression(np.zeros(len(known)), float(self.mean[position]), 0.0, alpha or 0.0, position, known)
        fit = ridge_from_covariance(self.scaled_matrix, position, positions, noise_draw=self.noise_draw, alpha=alpha)
        used, mean = list(fit.features), self._mean_to_predict_from(fit)
        coef = fit.coef * self.scale[used] / self.scale[position]
        return Regression(coef, float(mean[position] - coef @ mean[used]), fit.r2, fit.alpha, position, fit.features)

    def _mean_to_predict_from(self, fit: RidgeFit) -> FloatArray:
        """Return the mean, shrunk by its noise; warn where that, or the noise on the target, may spoil a prediction."""
        sd = (self.noise_sd or 0.0) / self.origin.rows.constant_value if self.origin.centred else 0.0
        if fit.least_target <= 0 or sd**2 > _MEAN_MAY_COST * fit.least_target:
            warn_caller(
                "The noise hides how much the target varies, so predictions may be worse than its mean; more rows, a "
                "larger epsilon, fewer features or narrower bounds of the target would help.",
                NoiseWarning,
            )
        elif fit.evidence == 0:
            warn_caller(
                "The noise hides any relation of the target to the features: predictions are about its mean, and "
                "coefficients may be noise; more rows, a larger epsilon or fewer features would help.",
                NoiseWarning,
            )
        shift = self.origin.rows.shift
        return (0.0 if shift is None else np.asarray(shift)) + shrunk_mean(self._scaled_mean, sd) / self.scale

    @cached_property
    def regression(self) -> Regression | None:
        """The regression that was asked for; None where none was."""
        request = self.origin.request
        if not isinstance(request, RegressionRequest):
            return None
        return self.regress(request.target, alpha=request.alpha)

    def _position(self, column: int | str) -> int:
        if not isinstance(column, str):
            return int(column)
        names = list(self.feature_names or ())
        if column not in names:
            raise InvalidParameterError(f"There is no feature {column!r}.")
        return names.index(column)
