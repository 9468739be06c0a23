"""`IntervalView`: confidence intervals from the public distribution of the noise.

Intervals are for the rows of this data set after clipping ("data": privacy noise only), or for the population that the
rows were sampled from ("population": sampling error included). They are computed from the unshrunk release, cut to the
possible range, and widened if needed to include the estimate. docs/research/intervals_of_entries.md has the formulas
and the measured coverage.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ..errors import InvalidParameterError, one_of
from ..mechanisms.additive import AdditiveMechanism
from ..numerics import FloatArray
from ..postprocess.entries import (
    MatrixError,
    correlation_errors,
    correlation_intervals,
    covariance_intervals,
    half_widths,
    largest_correlation_error,
    largest_sign_error,
    sampling_variances,
    sign_errors,
    sign_intervals,
)
from ..postprocess.intervals import adjusted_p_values, critical_value, holding, sampling_error, sampling_root
from ..postprocess.noise_spectrum import SIMULATION_SEED
from ..uncertainty import ANY, CORRELATION, INTERVAL, LEGEND
from .matrix import MatrixView

KINDS = ("data", "population")
LEVEL = 0.95
FALSE_DISCOVERIES = 0.05
# Up to this width noise is drawn by its own distribution.
_OWN_DISTRIBUTION = 400
HIDDEN_ROWS = "The number of rows is not distinguishable from noise, so the error of averages is unknown."


@dataclass(frozen=True, eq=False)
class CorrelationTests:
    """Tests that correlations are 0; for ``statistic="kendall"``, that Kendall's tau is 0, and so its sine.

    Attributes
    ----------
    p_values : ndarray of shape (d, d)
        P-value of every pair by itself; 1 on the diagonal.
    adjusted_p_values : ndarray of shape (d, d)
        Adjusted for all pairs, by Benjamini and Yekutieli: valid whatever the dependence between pairs.
    fdr : float
        The false discovery rate that was asked for.
    """

    p_values: FloatArray
    adjusted_p_values: FloatArray
    fdr: float

    @property
    def rejected(self) -> NDArray[np.bool_]:
        """Mask of the correlations that differ from 0: at most a share `fdr` of them is expected to be 0."""
        return np.asarray(self.adjusted_p_values <= self.fdr)


class IntervalView:
    """Confidence intervals for the covariance, the correlation and the mean; available as `Release.intervals`.

    Parameters
    ----------
    matrix : MatrixView
    """

    def __init__(self, matrix: MatrixView) -> None:
        self.matrix, self.origin = matrix, matrix.origin

    @property
    def unavailable(self) -> str | None:
        """Why there are no intervals; None if there are intervals."""
        matrix = self.matrix
        if self.origin.model == "local":
            return "Intervals are not implemented for the local model."
        if not matrix.has_matrix:
            return "This release has directions only. Intervals need a released matrix."
        if not isinstance(matrix.mechanism, AdditiveMechanism):
            return "Intervals need a mechanism that adds noise of a known distribution."
        if matrix.rows_hidden:
            return HIDDEN_ROWS
        return None

    @property
    def about(self) -> str:
        """The quantity that covariance intervals are for, in words; it depends on the statistic."""
        rows = "the clipped rows" if self.origin.may_clip else "the rows"
        return {
            "clipped": f"the {'covariance' if self.matrix.centred else 'second moment'} of {rows}",
            "normalized": "the mean of u u', u the directions of the rows",
            "spatial_sign": "the mean of u u', u the directions of differences of rows (the spatial-sign covariance)",
            "kendall": "sin(pi tau / 2) of Kendall's tau, which is Pearson's correlation for elliptical data only; "
            "with ties, comparisons with many untied features count less",
        }[self.origin.row_rule.statistic]

    @property
    def name(self) -> str:
        """The name of an interval in tables and figures; it says of what it is, unless of the rows as they are."""
        of = {
            "clipped": "of the clipped rows" if self.origin.may_clip else "",
            "normalized": "of directions",
            "spatial_sign": "of directions",
            "kendall": "of Kendall's tau",
        }[self.origin.row_rule.statistic]
        return f"{INTERVAL} {of}".rstrip()

    @property
    def legend(self) -> str:
        """The meaning of ± and brackets, with the quantity that intervals are for unless it is the rows as they are."""
        return LEGEND if self.name == INTERVAL else f"{LEGEND} They are for {self.about}."

    def covariance(self, level: float = LEVEL, of: str = "data") -> FloatArray | None:
        """Return a confidence interval for every covariance, in the units of the features; None if noise is unknown.

        Parameters
        ----------
        level : float
            Confidence level of each interval, not of all together.
        of : {"data", "population"}
            "data" covers the privacy noise only. "population" also covers sampling error, assuming the fourth moments
            of a Gaussian distribution.

        Returns
        -------
        ndarray of shape (d, d, 2) or None
            Lower and upper ends; those of variances are at least 0. For ``statistic="kendall"``, which has no units,
            the intervals of `correlation`. Infinite for features without an estimated range. Each interval is widened
            if needed to include the shrunk `Release.covariance`.
        """
        matrix = self.matrix
        sampled = self.sampled(level, of)
        if self.unavailable:
            return None
        if matrix.of_signs:
            return self.correlation(level, of)
        ends = covariance_intervals(matrix.row_matrix, self.row_matrix_error(level), sampled=sampled)
        without = list(self.origin.without_range)
        ends[without] = ends[:, without] = (-np.inf, np.inf)
        ends /= np.outer(matrix.row_scale, matrix.row_scale)[..., None]
        variances = np.arange(matrix.n_features)
        ends[variances, variances] = np.maximum(ends[variances, variances], 0.0)
        return holding(ends, np.asarray(matrix.covariance), ANY)

    def correlation(self, level: float = LEVEL, of: str = "data", *, simultaneous: bool = False) -> FloatArray | None:
        """Return a confidence interval for every correlation; None if noise is unknown. Parameters as in `covariance`.

        If a variance is not distinguishable from noise, the intervals of its correlations are [-1, 1]. Each interval is
        widened if needed to include the shrunk `Release.correlation`.

        Parameters
        ----------
        level, of
            As in `covariance`.
        simultaneous : bool
            Whether all intervals together hold the true values at this level. Their factor is the quantile of the
            largest standardized error (max-t), simulated from the known distribution of the noise.
        """
        matrix = self.matrix
        sampled = self.sampled(level, of)
        if self.unavailable:
            return None
        error, thirds = self.row_matrix_error(level), self.row_matrix_error(1 - (1 - level) / 3)
        comparisons = self.origin.row_rule.comparisons
        if simultaneous and matrix.n_features > 1:
            generator = self.own_simulation
            draw = self.row_error_draw(sampled, generator)
            if matrix.of_signs:
                of_signs = largest_sign_error(
                    matrix.row_matrix, matrix.signs, error, comparisons=comparisons, sampled=sampled
                )
                factor = critical_value(lambda: of_signs(draw(), generator), level, matrix.n_features)
            else:
                largest = largest_correlation_error(matrix.row_matrix, error, sampled)
                factor = critical_value(lambda: largest(draw()), level, matrix.n_features)
            error = thirds = replace(error, quantiles=(factor, factor), normal=factor)
        if matrix.of_signs:
            ends = sign_intervals(matrix.row_matrix, matrix.signs, error, comparisons=comparisons, sampled=sampled)
            return holding(ends, np.asarray(matrix.correlation), CORRELATION)
        ends = correlation_intervals(matrix.row_matrix, error, thirds, sampled=sampled)
        without = list(self.origin.without_range)
        ends[without] = ends[:, without] = (-1.0, 1.0)
        ends[without, without] = 1.0
        return holding(ends, np.asarray(matrix.correlation), CORRELATION)

    def row_error_draw(self, sampled: float, generator: np.random.Generator) -> Callable[[], FloatArray]:
        """Return a function that draws errors of `row_matrix`: noise, and Gaussian sampling errors but for signs."""
        matrix = self.matrix

        def noise() -> FloatArray:
            if self.quick_draws:
                return np.asarray(matrix.row_moment_draws(generator, 1)[0])
            return matrix.row_error_draw(generator)

        if not sampled or matrix.of_signs:
            return noise
        scale = np.outer(matrix.row_scale, matrix.row_scale)
        root = sampling_root(np.asarray(matrix.covariance) * scale)
        return lambda: noise() + sampling_error(root, sampled, generator)

    @property
    def quick_draws(self) -> bool:
        """Whether Gaussian draws stand for the noise: it is Gaussian, or so wide that its entries are nearly so."""
        facts = self.matrix.noise_facts
        return self.matrix.n_features > _OWN_DISTRIBUTION or (facts is not None and facts.gaussian)

    @property
    def own_simulation(self) -> np.random.Generator:
        """A generator with the same draws for this release only: its noise may be unlucky in no other one."""
        return np.random.default_rng([SIMULATION_SEED, zlib.crc32(self.matrix.integers["matrix"].tobytes())])

    def correlation_tests(self, fdr: float = FALSE_DISCOVERIES, of: str = "data") -> CorrelationTests | None:
        """Test for every pair of features that its correlation is 0; None if noise is unknown.

        A correlation is 0 where its covariance is, so a test compares the released covariance with its noise and, for
        the population, with its sampling error.

        Parameters
        ----------
        fdr : float
            Largest expected share of false discoveries among the correlations that are found.
        of : {"data", "population"}
            As in `covariance`.

        Examples
        --------
        >>> from eigenveil import PrivateCovariance
        >>> rows = np.random.default_rng(0).normal(size=(20_000, 3)) @ [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
        >>> release = PrivateCovariance(epsilon=2.0, bounds=(-5, 5)).fit(rows).release_
        >>> bool(release.intervals.correlation_tests().rejected[0, 1])
        True
        """
        matrix = self.matrix
        sampled = self.sampled(1 - fdr, of)
        if self.unavailable:
            return None
        error, released = self.row_matrix_error(1 - fdr), matrix.row_matrix
        if matrix.of_signs:
            none = float(sampling_variances(np.array(0.0), self.origin.row_rule.comparisons, 1))
            deviations = np.full_like(released, np.sqrt(error.beside + sampled * none))
        else:
            ones = replace(error, quantiles=(1.0, 1.0), normal=1.0)
            deviations = half_widths(np.diag(np.diag(released)), ones, sampled)
        pairs = np.triu_indices(matrix.n_features, 1)
        size = np.abs(released[pairs]) / np.maximum(deviations[pairs], np.finfo(float).tiny)
        found = matrix.noise_mechanism.noise_beyond(size)
        # Noise and sampling errors together have tails between those of the two.
        found = np.maximum(found, 2 * ndtr(-size)) if sampled else found
        alone, adjusted = np.ones_like(released), np.ones_like(released)
        for square, values in ((alone, found), (adjusted, adjusted_p_values(found))):
            square[pairs] = square.T[pairs] = np.minimum(values, 1.0)
        return CorrelationTests(alone, adjusted, fdr)

    def mean(self, level: float = LEVEL, of: str = "data") -> FloatArray | None:
        """Return a confidence interval for every mean; None if no mean was released, or its noise is unknown.

        Parameters as in `covariance`.
        """
        matrix = self.matrix
        sampled = self.sampled(level, of)
        if self.unavailable or not matrix.centred or (not self.origin.centred and self.origin.mean_sd is None):
            return None
        error = self.row_matrix_error(level)
        noise, sampling = self._mean_errors(error, sampled)
        quantile = error.quantiles[0] if self.origin.centred else error.normal
        reach = np.hypot(quantile * noise, error.normal * sampling)
        reach[list(self.origin.without_range)] = np.inf
        return np.stack([matrix.mean - reach, matrix.mean + reach], axis=-1)

    def standard_errors(self, quantity: str) -> tuple[FloatArray, FloatArray | None] | None:
        """Return standard errors of the released values before shrinking: from noise, and from sampling.

        Parameters
        ----------
        quantity : {"mean", "covariance", "correlation"}

        Returns
        -------
        (ndarray, ndarray or None) or None
            NaN where a variance is not distinguishable from noise, infinite without an estimated range. The second is
            None if the number of rows is unknown, both if the noise is.
        """
        one_of("quantity", quantity, ("mean", "covariance", "correlation"))
        matrix, known = self.matrix, self.matrix.n_rows is not None
        if self.unavailable or (quantity == "mean" and self.mean() is None):
            return None
        sampled, error, without = self.sampled(LEVEL, KINDS[1]), self.row_matrix_error(LEVEL), self.origin.without_range
        released, lost = matrix.row_matrix, list(without)
        if matrix.of_signs:
            found = sign_errors(
                released, matrix.signs, error, comparisons=self.origin.row_rule.comparisons, sampled=sampled
            )
        elif quantity == "correlation":
            found = correlation_errors(released, error, sampled)
            lost = []
        elif quantity == "covariance":
            ones = replace(error, quantiles=(1.0, 1.0), normal=1.0)
            noise = half_widths(released, ones, 0.0)
            both = half_widths(released, ones, sampled)
            scale = np.outer(matrix.row_scale, matrix.row_scale)
            found = noise / scale, np.sqrt(np.maximum(both**2 - noise**2, 0.0)) / scale
        else:
            found = self._mean_errors(error, sampled)
        for errors in found:
            errors[..., lost] = np.inf
            errors[lost] = np.inf
        return found if known else (found[0], None)

    def _mean_errors(self, error: MatrixError, sampled: float) -> tuple[FloatArray, FloatArray]:
        matrix = self.matrix
        noise = np.sqrt(error.mean + error.count * matrix.scaled_mean**2) / matrix.row_scale
        variances = np.maximum(np.diag(matrix.row_matrix), 0.0)
        return noise, np.sqrt(sampled * variances) / matrix.row_scale

    # The error of `row_matrix`.

    def sampled(self, level: float, of: str) -> float:
        """Return one over the number of rows where the answer is about their population, else 0.

        Weights w make rows worth (sum of w)^2 / sum of w^2, and no fewer than their sum where none is above 1.
        """
        if not 0 < level < 1:
            raise InvalidParameterError("level must lie strictly between 0 and 1.")
        if one_of("of", of, KINDS) == "data":
            return 0.0
        # Comparisons of rows that share them have at most twice the variance of as many rows.
        shared = 2.0 if self.origin.row_rule.compares_neighbours and not self.matrix.of_signs else 1.0
        return shared / (self.origin.total_weight or max(1, self.matrix.n_rows or 1))

    def row_matrix_error(self, level: float) -> MatrixError:
        """Return the error of `row_matrix`."""
        matrix, mechanism = self.matrix, self.matrix.noise_mechanism
        n_rows, rows = max(1, matrix.n_rows or 1), self.origin.row_rule
        facts, unit = mechanism.noise_facts(), matrix.noise_unit
        d, mean = matrix.n_features, matrix.scaled_mean
        constant = rows.constant_value if self.origin.centred else 0.0
        lever = mean / constant if constant else np.zeros(d)
        beside, shared, extra = (
            of_sum * unit**2 for of_sum in (facts.off_variance, facts.shared_variance, facts.diagonal_extra)
        )
        count = facts.count_variance / n_rows**2, facts.trace_with_count / facts.n_features / n_rows * unit
        if matrix.counts_by_constant:  # off which the number of rows is read, with the noise of a diagonal entry
            count = (2 * beside + shared + extra) / constant**4, shared / constant**2
        first = (self.origin.mean_sd or 0.0) ** 2
        return MatrixError(
            traces=np.ones(d) if matrix.inverse_map is None else matrix.inverse_map @ matrix.inverse_map.T,
            lever=lever,
            beside=beside,
            shared=shared,
            extra=np.full(d, extra),
            per_row=matrix.row_matrix - np.outer(mean, mean) if any(count) else None,
            count=count[0],
            count_shared=count[1],
            mean=beside / constant**2 if constant else first,
            mean_bias=np.full(d, -beside / constant**2 if constant else first),
            constant=constant,
            quantiles=mechanism.noise_quantiles(level),
            normal=float(ndtri((1 + level) / 2)),
            common_size=mechanism.common_size,
        )

    def scaled_matrix_error(self, level: float) -> MatrixError:
        """Return the error of `scaled_matrix`; for Kendall's tau as if it were equal in every entry."""
        matrix = self.matrix
        error = self.row_matrix_error(level)
        if matrix.of_signs:
            return replace(error, beside=(matrix.noise_sd or 0.0) ** 2, shared=0.0)
        return error if matrix.divisors is None else error.divided(matrix.divisors)
