"""`IntervalView`: confidence intervals from the public distribution of the noise.

Intervals are for the rows of this data set after clipping ("data": privacy noise only), or for the population that the
rows were sampled from ("population": sampling error included). They are computed from the unshrunk release, cut to the
possible range, and widened if needed to include the estimate. docs/research/intervals_of_entries.md has the formulas
and the measured coverage.
"""

from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from ..display import INTERVAL, LEGEND
from ..errors import InvalidParameterError, one_of
from ..limits import ANY, CORRELATION
from ..mechanisms.additive import AdditiveMechanism
from ..numerics import FloatArray
from ..postprocess.entries import MatrixError, correlation_intervals, covariance_intervals, sign_intervals
from ..postprocess.holding import holding
from .matrix import MatrixView

KINDS = ("data", "population")
LEVEL = 0.95
HIDDEN_ROWS = "The number of rows is not distinguishable from noise, so the error of averages is unknown."


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
        """What ± and brackets mean; it says what intervals are for, unless for the rows as they are."""
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

    def correlation(self, level: float = LEVEL, of: str = "data") -> FloatArray | None:
        """Return a confidence interval for every correlation; None if noise is unknown. Parameters as in `covariance`.

        If a variance is not distinguishable from noise, the intervals of its correlations are [-1, 1]. Each interval is
        widened if needed to include the shrunk `Release.correlation`.
        """
        matrix = self.matrix
        sampled = self.sampled(level, of)
        if self.unavailable:
            return None
        if matrix.of_signs:
            comparisons, error = self.origin.row_rule.comparisons, self.row_matrix_error(level)
            ends = sign_intervals(matrix.row_matrix, matrix.signs, error, comparisons=comparisons, sampled=sampled)
            return holding(ends, np.asarray(matrix.correlation), CORRELATION)
        thirds = self.row_matrix_error(1 - (1 - level) / 3)
        ends = correlation_intervals(matrix.row_matrix, self.row_matrix_error(level), thirds, sampled=sampled)
        without = list(self.origin.without_range)
        ends[without] = ends[:, without] = (-1.0, 1.0)
        ends[without, without] = 1.0
        return holding(ends, np.asarray(matrix.correlation), CORRELATION)

    def mean(self, level: float = LEVEL, of: str = "data") -> FloatArray | None:
        """Return a confidence interval for every mean; None if no mean was released, or its noise is unknown.

        Parameters as in `covariance`.
        """
        matrix = self.matrix
        sampled = self.sampled(level, of)
        if self.unavailable or not matrix.centred or (not self.origin.centred and self.origin.mean_sd is None):
            return None
        error = self.row_matrix_error(level)
        noise = error.mean + error.count * matrix.scaled_mean**2
        variances = np.maximum(np.diag(matrix.row_matrix), 0.0)
        quantile = error.quantiles[0] if self.origin.centred else error.normal
        reach = np.sqrt(quantile**2 * noise + error.normal**2 * sampled * variances) / matrix.row_scale
        reach[list(self.origin.without_range)] = np.inf
        return np.stack([matrix.mean - reach, matrix.mean + reach], axis=-1)

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
        matrix = self.matrix
        mechanism = matrix.mechanism
        assert isinstance(mechanism, AdditiveMechanism)
        n_rows, rows = max(1, matrix.n_rows or 1), self.origin.row_rule
        facts, unit = mechanism.noise_facts(), matrix.noise_unit
        d, mean = matrix.n_features, matrix.scaled_mean
        constant = rows.constant_value if self.origin.centred else 0.0
        lever = mean / constant if constant else np.zeros(d)
        products = np.eye(d) if matrix.inverse_map is None else matrix.inverse_map @ matrix.inverse_map.T
        beside, shared, extra = (
            of_sum * unit**2 for of_sum in (facts.off_variance, facts.shared_variance, facts.diagonal_extra)
        )
        count = facts.count_variance / n_rows**2, facts.trace_with_count / facts.n_features / n_rows * unit
        if matrix.counts_by_constant:  # off which the number of rows is read, with the noise of a diagonal entry
            count = (2 * beside + shared + extra) / constant**4, shared / constant**2
        first = (self.origin.mean_sd or 0.0) ** 2
        return MatrixError(
            products=np.asarray(products + np.outer(lever, lever)),
            lever=lever,
            beside=beside,
            shared=shared,
            extra=np.full(d, extra),
            per_row=matrix.row_matrix - np.outer(mean, mean),
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
