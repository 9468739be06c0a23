"""`ComponentReading`: what a release tells of the variances along its components, and of their error."""

from functools import cached_property

import numpy as np

from .matrix_reading import FloatArray
from .origin import SparseRequest
from .postprocess.along import APPROXIMATE, VariancesAlong, drawn_along
from .variance_reading import VarianceReading

# What 95 of 100 standard normals are within.
Z = 1.96


class ComponentReading(VarianceReading):
    """Variances along the components that were asked for, with intervals. Base of `NoiseReading`."""

    @cached_property
    def _along(self) -> VariancesAlong | None:
        """Variances along the components with their intervals; None where nothing can be said of their error."""
        if self.rows_hidden:
            return None
        k, released, hidden = len(self.components), self._released_variances, list(self._undetermined)
        if isinstance(self.origin.request, SparseRequest):
            found = self._along_sparse(k)
        else:
            found = self.leading_variances(k) if released is None else self._along_drawn(released[:k])
        if found is None or not hidden:
            return found
        return found.with_unknown(np.abs(self.components[:, hidden]).sum(axis=1), self.n_features)

    def _along_drawn(self, variances: FloatArray) -> VariancesAlong | None:
        """Return released variances of directions with the known noise on each of them."""
        reach = None if self.law is None else self.law.variance_reach(max(1, self.n_rows or 1))
        if reach is None:
            return None
        return drawn_along(variances, reach * self.origin.rows.reach_squared * self._units_per_weight)

    def _along_sparse(self, k: int) -> VariancesAlong | None:
        """Return variances along sparse directions, which follow the noise no more than eigenvectors do."""
        free = self.leading_variances(k)
        if free is None:
            return None
        shrunk = self._along_shrunk
        raised = np.einsum("ki,ij,kj->k", self.components, self.scaled_matrix, self.components)
        values = self._leading[0][:k] if self._leading[0].size >= k else self._eigensystem[0][:k]
        noise = self._noise_along(self.components, np.zeros((0, self.n_features)), raised)
        sds = np.sqrt(np.diag(noise.own)), np.sqrt(np.cumsum(np.cumsum(noise.own, 0), 1).diagonal())
        found = []
        for at, top, ends, sd, middle in (
            (raised, values, free.interval, sds[0], shrunk),
            (np.cumsum(raised), np.cumsum(values), free.total_interval, sds[1], np.cumsum(shrunk)),
        ):
            low = np.maximum(at - np.maximum(top - ends[:, 0], Z * sd), 0.0)
            found.append(np.stack([np.minimum(low, middle), np.maximum(at + Z * sd, middle)], axis=1))
        return VariancesAlong(shrunk, found[0], np.cumsum(shrunk), found[1], APPROXIMATE)

    @property
    def _along_shrunk(self) -> FloatArray:
        along = np.einsum("ki,ij,kj->k", self.components, self.scaled_covariance, self.components)
        return np.asarray(np.maximum(along, 0.0))

    @property
    def explained_variance(self) -> FloatArray | None:
        """Variances of the rows along the components; None where only a subspace was released.

        Where nothing is known of their error, as they were released.
        """
        if not self.has_matrix:
            return None
        if self._along is not None:
            return self._along.estimate
        if isinstance(self.origin.request, SparseRequest):
            return self._along_shrunk
        released, k = self._released_variances, len(self.components)
        return np.asarray(np.maximum(self._leading[0][:k], 0.0) if released is None else released[:k])

    @property
    def explained_variance_ratio(self) -> FloatArray | None:
        """Shares of the components in the total; None where only a subspace was released."""
        variances = self.explained_variance
        return None if variances is None else self._shares(variances)

    @property
    def explained_variance_interval(self) -> FloatArray | None:
        """95 % intervals for the variances along the components; None where nothing can be said of their error."""
        return self._along.interval if self.has_matrix and self._along is not None else None

    @property
    def explained_variance_interval_kind(self) -> tuple[str, ...] | None:
        """What each of these intervals rests on: "exact law", or "approximate"; None where there are none."""
        return (self._along.kind,) * len(self.components) if self.has_matrix and self._along is not None else None

    @property
    def captured_variance(self) -> float | None:
        """Variance along all components together; None where only a subspace was released."""
        variances = self.explained_variance
        return None if variances is None else float(variances.sum())

    @property
    def captured_variance_interval(self) -> FloatArray | None:
        """95 % interval for it, narrower than the single ones add up to; None where nothing tells its error."""
        return self._along.total_interval[-1] if self.has_matrix and self._along is not None else None

    @property
    def captured_variance_ratio(self) -> float | None:
        """Share of the components together in the total; None where only a subspace was released."""
        captured = self.captured_variance
        return None if captured is None else float(self._shares(np.array([captured]))[0])

    def _shares(self, variances: FloatArray) -> FloatArray:
        total = self.total_variance
        return np.minimum(variances / total, 1.0) if total > 0 else np.zeros_like(variances)
