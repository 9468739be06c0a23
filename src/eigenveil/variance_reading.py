"""`VarianceReading`: variances along the released directions, with what the known noise says of their error.

What is reported is about what was released: the variance along a direction that the noise has turned, and not the
eigenvalue that the noise has raised. docs/explanation/uncertainty.md has the formulas, and the coverage measured.
"""

from abc import abstractmethod
from functools import cached_property

import numpy as np

from .laws.sampled import orthonormal
from .matrix_reading import FloatArray
from .origin import ComponentsRequest
from .postprocess.along import VariancesAlong, variances_along
from .postprocess.intervals import eigenvalue_intervals
from .postprocess.noise_along import (
    NoiseAlong,
    isotropic_noise,
    mapped_noise,
    simulated_noise,
    simulated_trace_sd,
    simulation,
    trace_sizes,
)
from .postprocess.spectrum import sorted_eigh, spectrum_beyond
from .scaled_reading import ScaledReading

# Up to this width all eigenvectors are as quick to have as a few, and everything below needs one decomposition only.
_DECOMPOSED_WHOLE = 256
# From this width on, points stand for the eigenvalues that are not asked for.
_WIDE = 2000
# Up to this width variances are estimated along all directions at once; beyond, along so many more than asked for.
_TOLD_WHOLE, _MORE = 100, 20


class VarianceReading(ScaledReading):
    """Variances along directions, of the scaled features. Base of `Reading`, which knows the directions."""

    @property
    @abstractmethod
    def components(self) -> FloatArray:
        """The directions that were asked for (k x d), of the scaled features."""

    @property
    @abstractmethod
    def _n_components(self) -> int:
        """How many there are."""

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
    def _leading(self) -> tuple[FloatArray, FloatArray]:
        """At least as many eigenvalues and eigenvectors as there are components."""
        whole = self.n_features <= _DECOMPOSED_WHOLE or "_eigensystem" in self.__dict__
        return self._eigensystem if whole else sorted_eigh(self.scaled_matrix, self._n_components)

    # What is known of the noise in the basis of the directions.

    def _noise_along(self, leading: FloatArray, others: FloatArray, values: FloatArray) -> NoiseAlong:
        facts, k = self.noise_facts, len(leading)
        if facts is None or self.of_correlation:
            noise = simulated_noise(np.vstack([leading, others]), k, self.moment_draw)
            if self._of_signs:
                shift = np.einsum("ki,ij,kj->k", leading, self._signs.tie_shift, leading)
                noise = noise.shifted(shift)
            return noise.scaled(self._noise_that_fits) if self.of_correlation else noise
        unit, mapping = self._noise_unit, self._noise_map
        beside, shared = facts.off_variance * unit**2, facts.shared_variance * unit**2
        if mapping is None:
            sizes, noise = np.ones(k), isotropic_noise(k, len(others), beside, shared)
        else:
            rows = leading @ mapping
            sizes, noise = np.square(rows).sum(axis=1), mapped_noise(rows, others @ mapping, beside, shared)
        n_rows = max(1, self.n_rows or 1)
        with_own = sizes * (facts.trace_with_count / facts.n_features * unit / n_rows)
        noise = noise.with_miscount(values, facts.count_variance / n_rows**2, with_own)
        return noise.drifting(self._drift(leading))

    @property
    def _noise_that_fits(self) -> float:
        """The share of the variance of the noise that fits into correlations, which end at 1 however large it is."""
        d = self.n_features
        seen = float(np.square(self.scaled_matrix - np.eye(d)).sum())
        drawn = float(np.square(self.moment_draw(simulation())).sum())
        return min(1.0, seen / max(drawn, np.finfo(float).tiny))

    def _drift(self, rows: FloatArray) -> FloatArray:
        """Return the means of u'Nu for some directions: noise squared, of a mean that is subtracted, has one."""
        facts, about = self.noise_facts, self._mean_noise_map()
        if facts is None or about is None or self.of_correlation:
            return np.zeros(len(rows))
        directions = (rows if self._divisors is None else rows / self._divisors) @ about[0]
        inner = (directions @ about[1]) ** 2
        lengths = np.square(directions).sum(axis=1) * np.square(about[1]).sum()
        squares = facts.off_variance * (lengths + inner) + facts.shared_variance * inner
        return np.asarray(-(self._noise_unit**2) * squares)

    def leading_variances(self, count: int) -> VariancesAlong | None:
        """Return variances along the first `count` eigenvectors of the matrix; None where no law of noise is known."""
        if count not in self._variances:
            found = self.variances_by_law(count)
            if found is not None and self.n_features < _WIDE:
                found = found.informed(self.estimate.shrunk_eigenvalues[: found.estimate.size])
            self._variances[count] = None if found is None else found.first(count)
        return self._variances[count]

    def _counted_with(self, count: int) -> int:
        """Return with how many directions they are estimated: some more tell where eigenvalues are nearly tied."""
        request = self.origin.request
        share = isinstance(request, ComponentsRequest) and isinstance(request.n_components, float)
        if share or self.n_features <= _TOLD_WHOLE:
            return self.n_features
        return count if self.n_features >= _WIDE else min(self.n_features, count + _MORE)

    @cached_property
    def _variances(self) -> dict[int, VariancesAlong | None]:
        return {}

    def variances_by_law(self, count: int) -> VariancesAlong | None:
        """Return unbiased estimates and intervals of at least so many variances, without any simulated spectrum."""
        if not self.has_noise_law:
            return None
        count = self._counted_with(count)
        if self.n_features < _WIDE or count > self.n_features // 50:
            values, rows = self._eigensystem
            others, weights, rest = values[count:], np.ones(values.size - count), rows[count:]
        else:
            values, rows = self._leading
            if values.size < count:
                values, rows = sorted_eigh(self.scaled_matrix, count)
            others, weights, rest = spectrum_beyond(self.scaled_matrix, rows[:count])
        values, leading = values[:count], rows[:count]
        noise = self._noise_along(leading, rest, values)
        facts = self.noise_facts
        straight = self._noise_map is None and not self.of_correlation
        found = variances_along(
            values,
            others,
            weights,
            noise,
            total=self.total_variance,
            total_sd=self._total_sd,
            excess=0.0 if facts is None else facts.excess,
            exact=facts is not None and facts.gaussian and straight and facts.count_variance == 0,
        )
        return found.untold(self.total_variance) if self._of_signs and self._signs.saturated else found

    # Totals.

    @cached_property
    def total_variance(self) -> float:
        """What shares of variance refer to: the trace as it was released, or 0 where that is below."""
        if self.of_correlation:
            return float(self.n_features)
        if self._released_variances is not None:
            return float(self._released_variances.sum())
        trace = float(np.trace(self.scaled_matrix))
        return max(0.0, trace - float(self._drift(np.eye(self.n_features)).sum()))

    @cached_property
    def _total_sd(self) -> float:
        """Standard deviation of the released trace; 0 where it is known."""
        facts, unit = self.noise_facts, self._noise_unit
        if self.of_correlation or not self.has_noise_law:
            return 0.0
        if facts is None:
            return simulated_trace_sd(self.n_features, self.moment_draw)
        squares, trace = trace_sizes(self._noise_map, self.n_features)
        own = unit**2 * (2 * facts.off_variance * squares + facts.shared_variance * trace**2)
        miscounted = self.total_variance / max(1, self.n_rows or 1)
        with_count = unit * trace * facts.trace_with_count / facts.n_features
        return float(np.sqrt(max(0.0, own + miscounted**2 * facts.count_variance - 2 * miscounted * with_count)))

    # What is told of the components.

    @cached_property
    def _released_variances(self) -> FloatArray | None:
        if self.law is None or self._drawn is None:
            return None
        released = self.law.variances(self._values, max(1, self.n_rows or 1))
        unit = self.origin.rows.reach_squared * self._units_per_weight
        return None if released is None else np.asarray(released * unit)

    @cached_property
    def eigenvalues(self) -> FloatArray:
        """All variances of the truth, descending, freed of the bias that known noise has on them, or as released."""
        if self.has_noise_law:
            return self.estimate.eigenvalues
        released = self._released_variances
        return np.asarray(np.maximum(self._eigensystem[0], 0.0) if released is None else released)

    def eigenvalue_interval(self, count: int) -> FloatArray | None:
        """Return 95 % intervals for the first `count` eigenvalues of the truth, by simulation of the noise."""
        if not self.has_noise_law:
            return None
        return eigenvalue_intervals(self.scaled_matrix, self.error_draw, n_components=count)
