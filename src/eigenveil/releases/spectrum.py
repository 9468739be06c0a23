"""`SpectrumView`: components, the variances along them, and their error.

Variances are those of the rows along the released directions, not the eigenvalues, which the noise raises.
docs/explanation/uncertainty.md has the formulas and the measured coverage.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError, InvalidParameterError, NoiseWarning, features_in_words, listed, warn_caller
from ..mechanisms.base import orthonormal
from ..numerics import FloatArray
from ..postprocess.components import (
    APPROXIMATE,
    ComponentNoise,
    ComponentVariances,
    LoadingErrors,
    Rest,
    drawn_along,
    isotropic_noise,
    largest_loading_error,
    levered_noise,
    loading_errors,
    mapped_noise,
    simulated_noise,
    simulated_trace_sd,
    simulation,
    variances_along,
)
from ..postprocess.fantope import SparseComponents, fantope_components
from ..postprocess.intervals import critical_value, sampling_error, sampling_root
from ..postprocess.noise_spectrum import (
    NoiseTest,
    above_edges,
    edge_quantile,
    edges_from_few_draws,
    isotropic_edges,
    levered_edges,
    simulated_edges,
)
from ..postprocess.spectrum import spectrum_beyond, threads_for
from ..uncertainty import CORRELATION
from .intervals import LEVEL, IntervalView
from .matrix import MatrixView, real_rows
from .origin import ComponentsRequest, SparseRequest

# From this width on, points stand for the eigenvalues that are not asked for.
_WIDE = 2000
# Up to this width variances are estimated along all directions at once; beyond, along so many more than asked for.
_ESTIMATED_WHOLE, _MORE_VARIANCES = 100, 20
# Errors of loadings need all eigenvectors; beyond this width so many more than the components, and the rest in bulk.
_LOADINGS_OF_ALL, _MORE_LOADINGS = 1000, 5
# What 95 of 100 standard normals are within.
Z = 1.96
# Draws that estimate the mean size of noise whose distribution depends on the basis.
_DRAWS = 3
# A feature whose variance is within so many standard deviations of its noise may not vary at all.
_FEATURE_SDS = 2.0
_A_FEW = 20
# Up to this width noise that is not alike in every basis is drawn by its own distribution, often enough for a quantile.
_SIMULATED, _MANY_DRAWS = 30, 99
# The closed edge of a block of noise is up to 1 + this/size times too far, and hardly any noise passes this level.
_TOO_FAR, _UNNOTICED = 1.3, 0.001
# Closed edges about a mean have this level where noise is up to so many times as large in one direction as in all
# others. With more, and with few draws, the level 0.01 is used for a stated 0.05; by experiment:
# tests/postprocess/test_above_noise.py.
_EVEN, _ALPHA, _TOO_MANY = 1.5, 0.05, 0.01


class SpectrumView:
    """Components and the variances along them, with their error; available as `Release.spectrum`.

    Parameters
    ----------
    matrix : MatrixView
    intervals : IntervalView
    """

    def __init__(self, matrix: MatrixView, intervals: IntervalView) -> None:
        self.matrix, self.intervals, self.origin = matrix, intervals, matrix.origin

    # Directions.

    @property
    def ordered(self) -> bool:
        """Whether components are sorted by importance."""
        matrix = self.matrix
        return matrix.has_matrix if matrix.mechanism is None else matrix.mechanism.ordered

    @cached_property
    def components(self) -> FloatArray:
        """The requested directions (k x d) of the scaled features, most important first if `ordered`.

        Warns of those that are not distinguishable from noise.
        """
        k, drawn = len(self.directions), self.drawn_directions
        if not isinstance(self.origin.request, SparseRequest) and (drawn is None or k > len(drawn)):
            self._warn_of_noise(self.leading[0][:k])
        return self.directions

    @cached_property
    def directions(self) -> FloatArray:
        """The components, without the warning, which may have to simulate noise."""
        if isinstance(self.origin.request, SparseRequest):
            return self.sparse.components
        k, drawn = self._n_components, self.drawn_directions
        return drawn[:k] if drawn is not None and k <= len(drawn) else self.leading[1][:k]

    @property
    def _n_components(self) -> int:
        request, drawn = self.origin.request, self.drawn_directions
        most = self.matrix.n_features if drawn is None else len(drawn)
        wanted = request.n_components if isinstance(request, ComponentsRequest) else None
        if isinstance(wanted, str):
            return max(1, self.n_above_noise)
        if not isinstance(wanted, float):
            return most if wanted is None else wanted
        # The least number that captures this share of the total.
        along = self.leading_variances(most)
        captured = np.cumsum(self.eigenvalues) if along is None else along.totals
        return min(int(np.searchsorted(self._shares(captured), wanted)) + 1, most)

    @cached_property
    def sparse(self) -> SparseComponents:
        """The requested sparse components of the matrix."""
        request = self.origin.request
        if not isinstance(request, SparseRequest):
            raise InvalidParameterError("This release was not made for sparse components.")
        return fantope_components(
            self.matrix.scaled_matrix,
            request.n_components,
            screen=request.screen,
            penalty=request.penalty,
            noise_sd=self.matrix.noise_sd,
            tol=request.tol,
            max_iter=request.max_iter,
        )

    @cached_property
    def drawn_directions(self) -> FloatArray | None:
        """Directions that the mechanism drew by themselves, as rows; None where components are those of the matrix."""
        matrix = self.matrix
        # Sampled directions are what was paid for; eigenvectors of the matrix rebuilt from them would lose those
        # whose noisy variance falls below the average of the rest.
        if self.origin.row_rule.needs_matrix or matrix.of_correlation:
            return None
        if matrix.mechanism is not None:
            return matrix.mechanism.directions(matrix.values)
        released = matrix.values.get("directions")  # they mean the same whatever the mechanism
        return None if released is None else orthonormal(released)

    @cached_property
    def leading(self) -> tuple[FloatArray, FloatArray]:
        """At least as many eigenvalues and eigenvectors as there are components."""
        matrix = self.matrix
        return matrix.eigensystem if matrix.system.is_whole else matrix.system.leading(self._n_components)

    # What is known of the noise in the basis of the directions.

    @property
    def _noise_is_levered(self) -> bool:
        """Whether the noise follows from products of eigenvectors with the mean, so that few of these are needed."""
        matrix = self.matrix
        known = matrix.noise_facts is not None and not matrix.of_correlation
        return known and matrix.mapped_by_mean and not self.origin.without_range

    def _noise_along(self, leading: FloatArray, others: FloatArray | None, values: FloatArray) -> ComponentNoise:
        """Return moments of the noise between `leading` and others; by default all other eigenvectors."""
        matrix = self.matrix
        facts, k = matrix.noise_facts, len(leading)
        if others is None and not self._noise_is_levered:
            others = matrix.system.rows()[k:]
        if facts is None or matrix.of_correlation:
            assert others is not None
            noise = simulated_noise(np.vstack([leading, others]), k, matrix.moment_draws)
            if matrix.of_signs:
                shift = np.einsum("ki,ij,kj->k", leading, matrix.signs.tie_shift, leading)
                noise = replace(noise, own=noise.own + np.outer(shift, shift))  # a shift which is there or is not
            if not matrix.of_correlation:
                return noise
            # The share of the variance of noise that fits into correlations, which end at 1 however large it is.
            seen = float(np.square(matrix.scaled_matrix - np.eye(matrix.n_features)).sum())
            drawn = float(np.square(matrix.moment_draws(simulation(), 1)).sum())
            fits = min(1.0, seen / max(drawn, np.finfo(float).tiny))
            return replace(noise, cross=noise.cross * fits, own=noise.own * fits)
        unit = matrix.noise_unit
        beside, shared = facts.off_variance * unit**2, facts.shared_variance * unit**2
        if not matrix.noise_is_mapped:
            rest = matrix.n_features - k if others is None else len(others)
            sizes, noise = np.ones(k), isotropic_noise(k, rest, beside, shared)
        elif others is None:
            lever = matrix.system.coordinates(matrix.lever[:, None])[:, 0]
            scale = 1.0 if matrix.divisors is None else float(matrix.divisors[0]) ** -2
            sizes = scale * (1 + lever[:k] ** 2)
            noise = levered_noise(lever, k, beside * scale**2, shared * scale**2)
        else:
            rows, through = matrix.through_noise_map(leading), matrix.through_noise_map(others)
            sizes, noise = np.square(rows).sum(axis=1), mapped_noise(rows, through, beside, shared)
        n_rows = max(1, matrix.n_rows or 1)
        with_own = sizes * (facts.trace_with_count / facts.n_features * unit / n_rows)
        # An error of the number of rows divides variances by too large a number, and has covariances with the n_ii.
        together = np.outer(values, with_own)
        own = noise.own + np.outer(values, values) * (facts.count_variance / n_rows**2) - together - together.T
        return replace(noise, own=own, drift=self._drift(leading))

    def _drift(self, rows: FloatArray | None) -> FloatArray:
        """Return the means of u'Nu for some directions: noise squared, of a mean that is subtracted, has one."""
        matrix, facts = self.matrix, self.matrix.noise_facts
        if facts is None or not self.origin.centred or matrix.of_correlation:
            return np.zeros(matrix.n_features if rows is None else len(rows))
        # The error of the scaled mean is BNb, for noise N of the mechanism.
        back = np.eye(matrix.n_features + 1) if matrix.inverse_map is None else matrix.inverse_map
        B, b = back[:-1].copy(), back[-1] / self.origin.row_rule.constant_value
        B[list(self.origin.without_range)] = 0.0
        divisors = np.ones(matrix.n_features) if matrix.divisors is None else matrix.divisors
        directions = B / divisors[:, None] if rows is None else (rows / divisors) @ B
        inner = (directions @ b) ** 2
        lengths = np.square(directions).sum(axis=1) * np.square(b).sum()
        squares = facts.off_variance * (lengths + inner) + facts.shared_variance * inner
        return np.asarray(-(matrix.noise_unit**2) * squares)

    def leading_variances(self, count: int) -> ComponentVariances | None:
        """Return variances along the first `count` eigenvectors; None where no distribution of noise is known."""
        if count not in self._variances:
            with threads_for(self.matrix.n_features):
                found = self.variances_by_distribution(count)
                if found is not None and self.matrix.n_features < _WIDE:
                    found = found.informed(self.matrix.estimate.shrunk_eigenvalues[: found.estimate.size])
            self._variances[count] = None if found is None else found.first(count)
        return self._variances[count]

    @cached_property
    def _variances(self) -> dict[int, ComponentVariances | None]:
        return {}

    def variances_by_distribution(self, count: int) -> ComponentVariances | None:
        """Return unbiased estimates and intervals of at least so many variances, without any simulated spectrum."""
        matrix = self.matrix
        if not matrix.has_known_noise:
            return None
        request = self.origin.request
        share = isinstance(request, ComponentsRequest) and isinstance(request.n_components, float)
        if share or matrix.n_features <= _ESTIMATED_WHOLE:
            count = matrix.n_features
        elif matrix.n_features < _WIDE:  # some more, for eigenvalues that are nearly tied
            count = min(matrix.n_features, count + _MORE_VARIANCES)
        if matrix.n_features < _WIDE or count > matrix.n_features // 50:
            values, rows, rest = matrix.system.values, matrix.system.rows(count), None
            others, weights = values[count:], np.ones(values.size - count)
        else:
            values, rows = self.leading
            if values.size < count:
                values, rows = matrix.system.leading(count)
            others, weights, rest = spectrum_beyond(matrix.scaled_matrix, rows[:count])
        values, leading = values[:count], rows[:count]
        noise = self._noise_along(leading, rest, values)
        facts = matrix.noise_facts
        straight = not (matrix.noise_is_mapped or matrix.of_correlation)
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
        if matrix.of_signs and matrix.signs.saturated:  # nothing is known but the total
            ends = np.tile(np.array([0.0, self.total_variance]), (found.estimate.size, 1))
            found = replace(found, interval=ends, total_interval=ends)
        return found

    # Totals.

    @cached_property
    def total_variance(self) -> float:
        """The total variance that shares refer to: the released trace, at least 0."""
        matrix = self.matrix
        if matrix.of_correlation:
            return float(matrix.n_features)
        if self._released_variances is not None:
            return float(self._released_variances.sum())
        return max(0.0, float(np.trace(matrix.scaled_matrix) - self._drift(None).sum()))

    @cached_property
    def _total_sd(self) -> float:
        """Standard deviation of the released trace; 0 where it is known."""
        matrix = self.matrix
        facts, unit = matrix.noise_facts, matrix.noise_unit
        if matrix.of_correlation or not matrix.has_known_noise:
            return 0.0
        if facts is None:
            return simulated_trace_sd(matrix.n_features, matrix.moment_draws)
        # The variance of the trace of BNB' has |B'B|^2 and tr B'B.
        sizes = matrix.noise_sizes[: matrix.n_features - len(self.origin.without_range)]
        squares, trace = float(np.square(sizes).sum()), float(sizes.sum())
        own = unit**2 * (2 * facts.off_variance * squares + facts.shared_variance * trace**2)
        miscounted = self.total_variance / max(1, matrix.n_rows or 1)
        with_count = unit * trace * facts.trace_with_count / facts.n_features
        return float(np.sqrt(max(0.0, own + miscounted**2 * facts.count_variance - 2 * miscounted * with_count)))

    # Estimates for the components.

    @cached_property
    def _released_variances(self) -> FloatArray | None:
        matrix = self.matrix
        if matrix.mechanism is None or self.drawn_directions is None:
            return None
        released = matrix.mechanism.variances(matrix.values, max(1, matrix.n_rows or 1))
        unit = self.origin.row_rule.reach_squared * matrix.units_per_weight
        return None if released is None else np.asarray(released * unit)

    @cached_property
    def eigenvalues(self) -> FloatArray:
        """Estimates of all true eigenvalues, descending, corrected for the bias of known noise; else as released."""
        matrix = self.matrix
        if matrix.has_known_noise:
            return matrix.estimate.eigenvalues
        released = self._released_variances
        return np.asarray(np.maximum(matrix.eigensystem[0], 0.0) if released is None else released)

    # Variances along the components.

    @cached_property
    def _component_variances(self) -> ComponentVariances | None:
        """Variances along the components with their intervals; None where their error is unknown."""
        matrix = self.matrix
        if matrix.rows_hidden:
            return None
        narrow = matrix.has_known_noise and matrix.n_features < _WIDE
        if narrow and not self._noise_is_levered and "leading" not in vars(self):
            _ = matrix.eigensystem  # which is needed below, and then not in part before
        k, released, hidden = len(self.components), self._released_variances, list(matrix.undetermined)
        if isinstance(self.origin.request, SparseRequest):
            found = self._variances_of_sparse(k)
        elif released is None:
            found = self.leading_variances(k)
        else:
            mechanism = matrix.mechanism
            reach = None if mechanism is None else mechanism.variance_reach(max(1, matrix.n_rows or 1))
            unit = self.origin.row_rule.reach_squared * matrix.units_per_weight
            found = None if reach is None else drawn_along(released[:k], reach * unit)
        if found is None or not hidden:
            return found
        return found.with_unknown(np.abs(self.components[:, hidden]).sum(axis=1), matrix.n_features)

    @property
    def _with_intervals(self) -> ComponentVariances | None:
        return self._component_variances if self.matrix.has_matrix else None

    def _variances_of_sparse(self, k: int) -> ComponentVariances | None:
        """Return variances along sparse directions, which follow the noise no more than eigenvectors do."""
        matrix = self.matrix
        free = self.leading_variances(k)
        if free is None:
            return None
        shrunk = self._shrunk_variances
        raised = np.einsum("ki,ij,kj->k", self.components, matrix.scaled_matrix, self.components)
        values = self.leading[0][:k] if self.leading[0].size >= k else matrix.eigensystem[0][:k]
        noise = self._noise_along(self.components, np.zeros((0, matrix.n_features)), raised)
        sds = np.sqrt(np.diag(noise.own)), np.sqrt(np.cumsum(np.cumsum(noise.own, 0), 1).diagonal())
        found = []
        for at, top, ends, sd, middle in (
            (raised, values, free.interval, sds[0], shrunk),
            (np.cumsum(raised), np.cumsum(values), free.total_interval, sds[1], np.cumsum(shrunk)),
        ):
            low = np.maximum(at - np.maximum(top - ends[:, 0], Z * sd), 0.0)
            found.append(np.stack([np.minimum(low, middle), np.maximum(at + Z * sd, middle)], axis=1))
        return ComponentVariances(shrunk, found[0], np.cumsum(shrunk), found[1], APPROXIMATE)

    @property
    def _shrunk_variances(self) -> FloatArray:
        along = np.einsum("ki,ij,kj->k", self.components, self.matrix.scaled_covariance, self.components)
        return np.asarray(np.maximum(along, 0.0))

    @property
    def explained_variance(self) -> FloatArray | None:
        """Variances of the rows along the components; None if only a subspace was released.

        If their error is unknown, the values are as released.
        """
        if not self.matrix.has_matrix:
            return None
        if self._component_variances is not None:
            return self._component_variances.estimate
        if isinstance(self.origin.request, SparseRequest):
            return self._shrunk_variances
        released, k = self._released_variances, len(self.components)
        return np.asarray(np.maximum(self.leading[0][:k], 0.0) if released is None else released[:k])

    @property
    def explained_variance_ratio(self) -> FloatArray | None:
        """Shares of the total variance; None if only a subspace was released."""
        variances = self.explained_variance
        return None if variances is None else self._shares(variances)

    @property
    def explained_variance_interval(self) -> FloatArray | None:
        """95 % confidence intervals for the variances along the components; None if their error is unknown."""
        found = self._with_intervals
        return None if found is None else found.interval

    @property
    def explained_variance_interval_kind(self) -> tuple[str, ...] | None:
        """The kind of each interval, "exact distribution" or "approximate"; None without intervals."""
        found = self._with_intervals
        return None if found is None else (found.kind,) * len(self.components)

    @property
    def captured_variance(self) -> float | None:
        """Variance along all components together; None if only a subspace was released."""
        running = self._running_variances
        return None if running is None else float(running[-1])

    @property
    def captured_variance_interval(self) -> FloatArray | None:
        """95 % confidence interval for `captured_variance`; None if its error is unknown."""
        found = self._with_intervals
        return None if found is None else found.total_interval[-1]

    @property
    def captured_variance_ratio(self) -> float | None:
        """Share of the total variance for all components together; None if only a subspace was released."""
        running = self.running_ratio
        return None if running is None else float(running[-1])

    def _shares(self, variances: FloatArray) -> FloatArray:
        total = self.total_variance
        return np.minimum(variances / total, 1.0) if total > 0 else np.zeros_like(variances)

    @property
    def singular_values(self) -> FloatArray | None:
        """Singular values of the centred rows along the components; None if only a subspace was released."""
        variances = self.explained_variance
        return None if variances is None else np.sqrt(variances * max(1, (self.matrix.n_rows or 1) - 1))

    @property
    def noise_variance(self) -> float | None:
        """Mean variance beside the components, as in probabilistic PCA; None if only a subspace was released."""
        variances = self.explained_variance
        if variances is None:
            return None
        left = self.matrix.n_features - len(variances)
        return max(0.0, self.total_variance - float(variances.sum())) / left if left else 0.0

    # Components and features against the noise.

    @cached_property
    def noise_test(self) -> NoiseTest | None:
        """Test of which components are distinguishable from noise; None if the noise is unknown.

        Component k counts if the hypothesis "only noise beyond the first k - 1 components" is rejected. The probability
        of counting too many is at most 5 %. For correlations the null hypothesis is that no features are correlated.
        """
        return self._tested(self.matrix.n_features)

    def _tested(self, most: int) -> NoiseTest | None:
        """Test the first eigenvalues: the few that are known already, and more of them only where these are above."""
        matrix, edges = self.matrix, self._noise_edges
        if edges is None:
            return None
        if matrix.system.is_whole:
            values, rows = matrix.eigensystem
        elif "leading" in vars(self):
            values, rows = self.leading
        else:
            values, rows = matrix.system.leading(min(_A_FEW, matrix.n_features))
        without_signal = 1.0 if matrix.of_correlation else 0.0
        found = above_edges(values[:most], (without_signal + edge for edge in edges(rows)))
        if found.count < values.size or values.size >= most:
            return found
        values, rows = matrix.eigensystem
        return above_edges(values[:most], (without_signal + edge for edge in edges(rows)))

    def _count_of(self, values: FloatArray) -> int:
        """Return the number of first eigenvalues above the noise: bounds on the edges nearly always tell."""
        for k, value in enumerate(values.tolist()):
            least, farthest = self._edge_bounds(k, float(values[0]))
            if value <= least:
                return k
            if value <= farthest:
                found = self._tested(len(values))
                return len(values) if found is None else found.count
        return len(values)

    def _edge_bounds(self, k: int, largest: float) -> tuple[float, float]:
        """Return bounds below and above an edge that is simulated; infinite for others, and where none is known.

        The largest eigenvalue of BNB' is that of as large a block of N, times a number between the least and the
        largest eigenvalue of BB'. The error of correlations is E less (LR + RL)/2, L the diagonal of E.
        """
        matrix, facts = self.matrix, self.matrix.noise_facts
        left = matrix.n_features - len(self.origin.without_range) - k
        simulated = matrix.of_correlation or (matrix.noise_is_mapped and matrix.n_features <= _SIMULATED)
        if facts is None or left < 1 or matrix.inverse_map is not None or not simulated:
            return -np.inf, np.inf
        unit, excess = math.sqrt(facts.off_variance) * matrix.noise_unit, facts.excess * left / facts.n_features
        if matrix.of_correlation:
            if matrix.of_signs:
                most = float(matrix.signs.noise_ratio[~np.eye(matrix.n_features, dtype=bool)].max(initial=0.0))
            else:
                farther = (1 + largest) * (1 + float(matrix.lever @ matrix.lever))
                most = farther / float(np.min(matrix.standardized.sizes)) ** 2
            return -np.inf, 1 + unit * most * edge_quantile(left, 1.0, excess, _UNNOTICED)
        edge = unit * edge_quantile(left, 1.0, excess)
        return edge * float(matrix.noise_sizes[0]) / (1 + _TOO_FAR / left), edge * float(matrix.noise_sizes[-1])

    @cached_property
    def _noise_edges(self) -> Callable[[FloatArray], Iterable[float]] | None:
        """Function from leading eigenvectors to the edges of the noise beside none, one, two, ... of them."""
        matrix, d = self.matrix, self.matrix.n_features
        if self.origin.model == "local" and matrix.noise_sd is not None:
            # Sums of many reports are close to Gaussian noise of the same size in every basis.
            of_sums = matrix.noise_sd
            return lambda rows: isotropic_edges(d, of_sums)
        if not matrix.has_known_noise:
            return None
        facts, generator = matrix.noise_facts, self.intervals.own_simulation
        excess = 0.0 if facts is None else facts.excess
        if facts is not None and not matrix.of_correlation:
            sd, left = math.sqrt(facts.off_variance) * matrix.noise_unit, d - len(self.origin.without_range)
            if not matrix.noise_is_mapped:
                sharp = matrix.mechanism is not None and matrix.mechanism.sharp_trace
                return lambda rows: isotropic_edges(d, sd, excess, sharp_trace=sharp)
            if matrix.mapped_by_mean and left > _SIMULATED:
                level = _ALPHA if matrix.noise_sizes[-1] <= _EVEN * matrix.noise_sizes[0] else _TOO_MANY
                least, reach = float(matrix.noise_sizes[0]), self._reach_along(level)
                share = excess * left / facts.n_features
                return lambda rows: levered_edges(rows, matrix.lever, left, sd * least, reach * least, share, level)
        if d <= _SIMULATED:
            noises = matrix.noise_draw(generator, _MANY_DRAWS)
            return lambda rows: simulated_edges(rows, noises)
        few, along_one = list(matrix.moment_draws(generator, _DRAWS)), None
        if not matrix.of_correlation:
            mapping = matrix.through_noise_map(np.eye(d)) if matrix.noise_is_mapped else np.eye(d)
            along_one = self._reach_along(_TOO_MANY) * (mapping @ mapping.T)
        return lambda rows: edges_from_few_draws(rows, few, along_one, excess)

    def _reach_along(self, level: float) -> float:
        """Return the level that noise of the mechanism passes along one direction with this probability."""
        matrix, mechanism = self.matrix, self.matrix.noise_mechanism
        facts = mechanism.noise_facts()
        variance = max(facts.diagonal_variance, facts.diagonal_variance - facts.diagonal_extra)
        return matrix.noise_unit * math.sqrt(variance) * mechanism.noise_quantiles(1 - 2 * level)[1]

    @property
    def n_above_noise(self) -> int:
        """Number of all components that are distinguishable from noise; see `noise_test`."""
        if self.noise_test is None:
            raise InvalidParameterError(
                "n_components='above_noise' needs a mechanism that adds noise of a known distribution to a matrix."
            )
        return self.noise_test.count

    @property
    def above_noise(self) -> NDArray[np.bool_] | None:
        """Whether each component is distinguishable from noise, by `noise_test`; None if the noise is unknown."""
        found = self._tested(len(self.components))
        return None if found is None else np.arange(len(self.components)) < found.count

    @cached_property
    def features_below_noise(self) -> tuple[int, ...]:
        """Positions of features whose variance is not distinguishable from noise; none for correlations."""
        matrix = self.matrix
        if not matrix.has_known_noise or matrix.of_correlation:
            return ()
        variances, still = np.diag(matrix.scaled_matrix), set(self.origin.without_range)
        sds = matrix.row_variance_sds if matrix.divisors is None else matrix.row_variance_sds / matrix.divisors**2
        low = np.flatnonzero(variances <= _FEATURE_SDS * sds)
        return tuple(int(position) for position in low if position not in still)

    def _warn_of_noise(self, values: FloatArray) -> None:
        """Warn of components and features that are not distinguishable from noise; uses released values only."""
        matrix = self.matrix
        if matrix.of_correlation and matrix.n_features == 1:  # which is 1, whatever the noise
            return
        request = self.origin.request
        chosen = isinstance(request, ComponentsRequest) and isinstance(request.n_components, int)
        # Who asks for all gets some that are noise, and correlations near 1 are what features have by themselves.
        needed = 1 if matrix.of_correlation or not chosen else len(values)
        count = self._count_of(values[:needed]) if matrix.has_known_noise else needed
        if count >= needed:
            return
        if count == 0:
            what = "No component is distinguishable from noise."
        else:
            below = list(range(count + 1, len(values) + 1))
            verb = "is" if len(below) == 1 else "are"
            what = f"{listed('Component', below, below)} {verb} not distinguishable from noise."
        names = features_in_words(self.origin.feature_names, matrix.n_features) if self.features_below_noise else []
        features = [names[position] for position in self.features_below_noise]
        below_noise = f" Neither is the variance of {listed('feature', features, features)}." if features else ""
        fewer = "a public random projection of the features, PrivateSparsePCA"
        fixes = "fewer features" if (matrix.n_rows or 0) >= matrix.n_features else fewer
        last = "" if count == 0 else ', or n_components="above_noise"'
        fixes = f"delta > 0, or {fixes}" if count == 0 else f"delta > 0, {fixes}"
        warn_caller(
            f"{what}{below_noise} Use more {matrix.counted}, a larger epsilon, {fixes}{last}.",
            NoiseWarning,
        )

    # Shares of the components in the total, whose own noise counts too.

    @property
    def explained_variance_ratio_interval(self) -> FloatArray | None:
        """95 % confidence intervals for the shares of the components; None if their error is unknown."""
        shares, ends = self.explained_variance_ratio, self.explained_variance_interval
        return None if shares is None or ends is None else self._share_interval(shares, ends)

    @property
    def captured_variance_ratio_interval(self) -> FloatArray | None:
        """95 % confidence interval for the share of all components together; None if its error is unknown."""
        ends = self.running_ratio_interval
        return None if ends is None else ends[-1]

    @property
    def running_ratio(self) -> FloatArray | None:
        """Cumulative shares of the first 1, 2, ... components; None if only a subspace was released."""
        running = self._running_variances
        return None if running is None else self._shares(running)

    @property
    def _running_variances(self) -> FloatArray | None:
        variances, found = self.explained_variance, self._component_variances
        if variances is None:
            return None
        return np.cumsum(variances) if found is None else found.totals

    @property
    def running_ratio_interval(self) -> FloatArray | None:
        """95 % confidence intervals for the cumulative shares, one at a time; None if their error is unknown."""
        shares = self.running_ratio
        found = self._with_intervals
        return None if shares is None or found is None else self._share_interval(shares, found.total_interval)

    def _share_interval(self, shares: FloatArray, ends: FloatArray) -> FloatArray:
        """Return intervals for shares from those for variances: the error of the total adds to theirs.

        Both errors mostly have the same sign, so their squares add up to too much rather than too little.
        """
        total, sd, matrix = self.total_variance, self._total_sd, self.matrix
        if self._released_variances is not None and matrix.mechanism is not None:
            reach = matrix.mechanism.variance_reach(1)
            if reach is not None:
                # The total is a sum of variances along all directions that were drawn and of the rest, each with noise.
                terms = matrix.values["quotients"].size
                sd = float(np.sqrt(2 * terms) / np.log(20)) * reach * matrix.noise_unit
        reach = Z * sd
        if total <= reach:
            return np.tile([0.0, 1.0], (len(shares), 1))
        off = np.abs(ends / total - shares[:, None])
        whole = np.hypot(off, shares[:, None] * reach / total)
        return np.asarray(np.clip(shares[:, None] + whole * np.array([-1.0, 1.0]), 0.0, 1.0))

    def warn_of_features(self) -> None:
        """Warn of features whose variance is not distinguishable from noise; uses released values only."""
        matrix = self.matrix
        names = features_in_words(self.origin.feature_names, matrix.n_features)
        below = [str(names[position]) for position in self.features_below_noise]
        if below:
            warn_caller(
                f"The variance of {listed('feature', below, below)} is not distinguishable from noise. Use more "
                f"{matrix.counted}, a larger epsilon, delta > 0, fewer features, or narrower ranges.",
                NoiseWarning,
            )

    # The error of directions.

    def loading_errors(self, level: float = LEVEL, of: str = "data") -> LoadingErrors | None:
        """Return angle errors of the components and errors of their loadings.

        None for sampled or sparse directions. Parameters as in `IntervalView.covariance`.
        """
        matrix = self.matrix
        sampled = self.intervals.sampled(level, of)
        sparse = isinstance(self.origin.request, SparseRequest)
        if self.intervals.unavailable or self.drawn_directions is not None or sparse:
            return None
        scaled, whole = matrix.scaled_matrix, matrix.n_features <= _LOADINGS_OF_ALL or matrix.system.is_whole
        everything = matrix.eigensystem if whole else None  # before the components, which are then part of it
        k = len(self.components)
        values, rows = everything or matrix.system.leading(min(k + _MORE_LOADINGS, matrix.n_features))
        rest, error = Rest.of(scaled, values), self.intervals.scaled_matrix_error(level)
        with threads_for(matrix.n_features):
            return loading_errors(values, rows, k, error, level=level, sampled=sampled, rest=rest)

    def loading_bands(self, level: float = LEVEL, of: str = "data") -> FloatArray | None:
        """Return simultaneous intervals (k x d x 2) for all loadings of the components that are determined.

        Their factor is the quantile of the largest standardized error, simulated as for correlations. [-1, 1] where a
        direction is not determined; None where `loading_errors` is, and for more than 1,000 features.
        """
        errors, matrix = self.loading_errors(level, of), self.matrix
        if errors is None or matrix.n_features > _LOADINGS_OF_ALL:
            return None
        generator, sampled = self.intervals.own_simulation, self.intervals.sampled(level, of)
        root = sampling_root(matrix.scaled_covariance) if sampled else None

        def drawn() -> FloatArray:
            quick = self.intervals.quick_draws
            noise = np.asarray(matrix.moment_draws(generator, 1)[0]) if quick else matrix.error_draw(generator)
            return noise if root is None else noise + sampling_error(root, sampled, generator)

        bands = np.tile(CORRELATION, (*errors.standard_errors.shape, 1))
        known = ~errors.undetermined
        if known.any():
            largest = largest_loading_error(*matrix.eigensystem, errors)
            reach = critical_value(lambda: largest(drawn()), level, matrix.n_features) * errors.standard_errors
            ends = np.stack([self.components - reach, self.components + reach], axis=-1)
            bands[known] = np.clip(ends, *CORRELATION)[known]
        return np.asarray(bands)

    # Use.

    @property
    def divisors(self) -> FloatArray:
        """Divisors of projections in `transform`: ones, or where it whitens, `deviations`."""
        request = self.origin.request
        whitened = isinstance(request, ComponentsRequest) and request.whiten
        return self.deviations if whitened else np.ones(len(self.components))

    @property
    def deviations(self) -> FloatArray:
        """Standard deviations along the components, of variances at least as large as the noise on an entry."""
        variances = self.explained_variance
        if variances is None:
            raise InvalidDataError("This release has directions only, no variances to divide by.")
        least = max(self.matrix.noise_sd or 0.0, float(np.finfo(np.float64).tiny))
        return np.sqrt(np.maximum(variances, least))

    @property
    def projection(self) -> FloatArray:
        """The matrix (d x k) that rows about the mean are multiplied by."""
        return np.asarray((self.components * self.matrix.scale).T / self.divisors)

    def transform(self, X: Any) -> FloatArray:
        """Project rows of all features on the components. Projections of private rows are private data.

        For raw tables use ``PrivatePCA.from_release(release).transform``, which encodes them.
        """
        matrix = self.matrix
        matrix.check_units()
        rows = matrix.rows(X)
        directions = self.projection.astype(rows.dtype)
        projected = rows @ directions
        mean = matrix.mean
        return np.asarray(projected - (mean @ directions).astype(directions.dtype) if mean.any() else projected)

    def inverse_transform(self, projected: Any) -> FloatArray:
        """Map projections back to the space of all features of the table; those that were not kept are 0."""
        matrix = self.matrix
        matrix.check_units()
        rows = real_rows(projected, len(self.components))
        kind = rows.dtype
        found = np.asarray(
            rows @ (self.components * self.divisors[:, None] / matrix.scale).astype(kind) + matrix.mean.astype(kind)
        )
        return matrix.of_all(found, 0.0).astype(kind, copy=False)
