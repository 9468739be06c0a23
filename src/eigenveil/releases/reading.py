"""`Reading`: what a release says, in the user's units, from the release alone and free of privacy cost.

`Release` is a reading of itself, so an estimator, a file and a report give the same numbers in the same words. Nothing
here can reach a row: it knows integers that have left, the public mechanism behind them, and the public rule of the rows.
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError
from ..numerics import FloatArray
from ..postprocess.fantope import SparseComponents, screened_components
from ..postprocess.loadings import LoadingErrors, Rest, loading_errors
from ..postprocess.spectrum import sorted_eigh
from .intervals import LEVEL
from .origin import ComponentsRequest, SparseRequest
from .regression import Regressing
from .spectrum import ShareReading

# Errors of loadings need all eigenvectors; beyond this width so many more than the components, and the rest in bulk.
_LOADINGS_OF_ALL, _MORE = 1000, 5
NO_UNITS = (
    "statistic='kendall' releases neither means nor sizes of the features, so raw rows cannot be projected; multiply rows "
    "that are standardized already by the components."
)

ABOUT_THE_MEAN = (
    "This needs a release about the mean, with a matrix; fit with center=True by a mechanism that releases one."
)


class Reading(ShareReading, Regressing):
    """What integers that left say together with their origin. Base of `Release`, not used by itself."""

    # Directions, of the scaled features.

    @property
    def ordered(self) -> bool:
        """Whether the first component is known to be the most important one."""
        return self.has_matrix if self.mechanism is None else self.mechanism.ordered

    @cached_property
    def components(self) -> FloatArray:
        """The directions that were asked for (k x d), of the scaled features, most important first if `ordered`."""
        if isinstance(self.origin.request, SparseRequest):
            return self.sparse.components
        k = self._n_components
        if self._drawn is not None and k <= len(self._drawn):
            return self._drawn[:k]
        values, vectors = self._leading
        self._warn_of_noise((values[:k] - self.without_signal).tolist())
        return vectors[:k]

    @property
    def _n_components(self) -> int:
        request, most = self.origin.request, self.n_features if self._drawn is None else len(self._drawn)
        wanted = request.n_components if isinstance(request, ComponentsRequest) else None
        if isinstance(wanted, str):
            return max(1, self.n_above_noise)
        if not isinstance(wanted, float):
            return most if wanted is None else wanted
        return self._enough(wanted, most)

    def _enough(self, share: float, most: int) -> int:
        """Return the least number of components that capture a share of the total, by the variances along them."""
        along = self.leading_variances(most)
        captured = np.cumsum(self.eigenvalues) if along is None else along.totals
        return min(int(np.searchsorted(self._shares(captured), share)) + 1, most)

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

    def loading_errors(self, level: float = LEVEL, of: str = "data") -> LoadingErrors | None:
        """Return how far the components may be from the true ones: angles with bounds, and errors of loadings.

        None where directions were sampled, or are sparse. Parameters are as in `entry_interval`.
        """
        sampled = self._sampled(level, of)
        if self.no_interval or self._drawn is not None or isinstance(self.origin.request, SparseRequest):
            return None
        k, matrix = len(self.components), self.scaled_matrix
        whole = self.n_features <= _LOADINGS_OF_ALL or "_eigensystem" in self.__dict__
        values, rows = self._eigensystem if whole else sorted_eigh(matrix, min(k + _MORE, self.n_features))
        rest, error = Rest.of(matrix, values), self._scaled_error(level)
        return loading_errors(values, rows, k, error, level=level, sampled=sampled, rest=rest)

    @cached_property
    def may_be_noise(self) -> NDArray[np.bool_] | None:
        """Which components may be noise alone; None where nothing is known of it.

        Those that are not `above_noise`, but for those of a known direction: a small share of the variance is not noise
        where it is surely above 0, and belongs to no other direction.
        """
        above, ends, errors = self.above_noise, self.explained_variance_interval, self.loading_errors()
        if above is None or ends is None or errors is None:
            return None if above is None else ~above
        passed = self.of_correlation | (np.arange(len(above)) < self.n_above_noise)
        return np.asarray(~(above | (passed & (ends[:, 0] > 0) & ~errors.may_be_noise)))

    # Use.

    def transform(self, X: Any) -> FloatArray:
        """Project rows of all features on the components; the projections of private rows are private data themselves.

        A raw table is encoded and projected by ``PrivatePCA.from_release(release).transform``.
        """
        self.check_units()
        X = self._by_name(X)
        directions = (self.components * self.scale).T.astype(X.dtype if hasattr(X, "dtype") else np.float64)
        projected = X @ directions
        mean = self.mean
        return np.asarray(projected - (mean @ directions).astype(directions.dtype) if mean.any() else projected)

    def inverse_transform(self, projected: Any) -> FloatArray:
        """Map projections back to the space of the features."""
        self.check_units()
        rows = np.asarray(projected)
        kind = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
        return np.asarray(rows @ (self.components / self.scale).astype(kind) + self.mean.astype(kind))

    def check_units(self) -> None:
        """Refuse to project rows in the units of a table of which the release tells none."""
        if self._of_signs:
            raise InvalidParameterError(NO_UNITS)
