"""`MatrixView`: the released matrix and mean in the units of the features, and the distribution of their noise."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse

from ..errors import (
    InvalidDataError,
    InvalidParameterError,
    NoiseWarning,
    features_in_words,
    integer_between,
    listed,
    own_words,
    quoted,
    warn_caller,
)
from ..mechanisms.additive import AdditiveMechanism, NoiseFacts
from ..mechanisms.base import IN_UNITS_OF_C, Mechanism
from ..numerics import FloatArray, IntArray
from ..postprocess.correlations import (
    SignCorrelation,
    Standardized,
    correlation_from_covariance,
    correlation_from_signs,
)
from ..postprocess.shrinkage import Shrunk, project_psd, shrink, shrink_by_simulation
from ..postprocess.spectrum import Eigensystem
from .origin import Origin, Request

# A number of rows from the corner of the matrix is distinguishable from noise beyond so many noise sds.
_VISIBLE_SDS = 5.0
# Noise is taken to be alike in all directions up to this ratio of its largest to its smallest variance along one.
_EVEN = 2.0
# The noise of correlations, up to this ratio of the standard deviations that were divided by.
_EVEN_DIVISORS = 3.0
# Up to this width noise that is not is simulated; up to a larger one after a map back, where it is farthest from alike.
_SIMULATED, _MAPPED_SIMULATED = 400, 1000
FOR_UNITS = "bounds, norm_bound or a schema with ranges"
"""Parameters with which means and standard deviations are released for any number of rows."""
ABOUT_THE_MEAN = (
    "This needs a release of a matrix about the mean. Fit with center=True and a mechanism that releases a matrix."
)
Columns: TypeAlias = int | str | Sequence[int | str]


def without_units(request: Request) -> str:
    """Return why raw rows cannot be used with Kendall's tau."""
    asked = (
        "With so few rows and without public ranges, standardize=True releases"
        if request.correlation
        else "statistic='kendall' releases"
    )
    return f"{asked} correlations only, no means or standard deviations, so raw rows cannot be transformed"


@own_words
def real_rows(X: Any, width: int) -> Any:
    """Return rows of so many real numbers: a sparse matrix as it is, anything else as an array of floats.

    Examples
    --------
    >>> real_rows([[1, 2]], 2)
    array([[1., 2.]])
    """
    rows = X if scipy.sparse.issparse(X) else np.asarray(X)
    if rows.dtype.kind not in "fiubO" or rows.ndim != 2 or rows.shape[1] != width:
        raise InvalidDataError(f"The rows must be a table of real numbers with {width} column(s).")
    return rows if rows.dtype.kind == "f" else rows.astype(np.float64)


class MatrixView:
    """The released matrix, its mean and its noise; available as `Release.matrix`.

    Parameters
    ----------
    integers, unit, origin, drawn_by
        As of the release.
    """

    def __init__(
        self,
        integers: Mapping[str, IntArray],
        unit: Mapping[str, float],
        origin: Origin,
        drawn_by: Mechanism | None = None,
    ) -> None:
        self.integers, self.unit, self.origin, self._drawn_by = integers, unit, origin, drawn_by
        self._has_constant = origin.centred

    # The released values, and by which mechanism.

    @cached_property
    def mechanism(self) -> Mechanism | None:
        """The mechanism of the release; None if this version does not know it."""
        if self._drawn_by is not None:
            return self._drawn_by
        from ..mechanisms import mechanism_from
        from ..mechanisms.local import local_mechanism_from

        try:
            if self.origin.model == "local":
                return local_mechanism_from(self.origin.parameters)
            return mechanism_from(self.origin.mechanism, self.origin.parameters)
        except (TypeError, KeyError, ValueError):
            # The file of a later version may name parameters, or values of them, that are not there yet.
            return None

    @property
    def noise_mechanism(self) -> AdditiveMechanism:
        """The mechanism that added noise of a known distribution, or an error where there is none."""
        if not isinstance(self.mechanism, AdditiveMechanism):
            raise InvalidDataError("This release has no matrix with noise of a known distribution.")
        return self.mechanism

    @cached_property
    def n_rows(self) -> int | None:
        """Number of rows, privacy units or reports, public or noisy; None if unknown."""
        told = None if self.mechanism is None else self.mechanism.estimated_rows(self.values)
        if told is not None:
            return max(1, round(told))
        return int(self.integers["count"]) if "count" in self.integers else self.origin.n_rows

    @property
    def counted(self) -> str:
        """The unit that `n_rows` counts, in words."""
        return self.origin.row_rule.unit.counted

    @cached_property
    def n_features(self) -> int:
        """Number of features, without the constant that a centred release appends."""
        first = next(self.integers[name] for name in ("matrix", "directions", "sums") if name in self.integers)
        return int(first.shape[-1]) - self._has_constant

    @cached_property
    def values(self) -> dict[str, FloatArray]:
        """The released values in the units of the mechanism, where rows have norm at most 1."""
        rows = self.origin.row_rule
        whole = {name: self.unit[name] / (rows.reach_squared if name in IN_UNITS_OF_C else 1) for name in self.unit}
        return {name: np.asarray(value * whole[name]) for name, value in self.integers.items()}

    @cached_property
    def unit_moment(self) -> FloatArray | None:
        """The average contribution of one unit to the second moment of the scaled rows and the constant."""
        if self.mechanism is None:
            released = self.values.get("matrix")
            moment = None if released is None else released / max(1, self.n_rows or 1)
        else:
            moment = self.mechanism.second_moment(self.values, max(1, self.n_rows or 1))
        return None if moment is None else self._mapped_back(moment * self.origin.row_rule.reach_squared)

    @cached_property
    def _bordered(self) -> FloatArray | None:
        """The second moment of the scaled rows, with the constant's row and column where there are such."""
        factor = self.units_per_weight
        return self.unit_moment if self.unit_moment is None or factor == 1 else self.unit_moment * factor

    @cached_property
    def counts_by_constant(self) -> bool:
        """Whether the number of rows is private and estimated from the square of the constant."""
        return self._has_constant and self.origin.row_rule.unit_weight == "by_rows"

    @cached_property
    def units_per_weight(self) -> float:
        """Number of units per unit of weight: 1 except for weighted rows and pooled rows of privacy units.

        For pooled rows without a constant the number of rows is private and unknown.
        """
        if self.origin.total_weight is not None:
            return (self.n_rows or 1) / self.origin.total_weight
        if self.unit_moment is None or not self.counts_by_constant:
            return 1.0
        if self.rows_hidden:
            warn_caller(
                "The number of rows is not distinguishable from noise, so variances and means are known only up to a "
                "factor. Use more privacy units, a larger epsilon, unit_weight='equal', or center=False.",
                NoiseWarning,
            )
        return self.origin.row_rule.constant_value**2 / max(float(self.unit_moment[-1, -1]), self._least_corner)

    @property
    def _least_corner(self) -> float:
        """The least corner at which the number of rows is distinguishable from noise."""
        sd = 0.0 if self.mechanism is None else self.mechanism.noise_sd(max(1, self.n_rows or 1)) or 0.0
        rows = self.origin.row_rule
        return max(_VISIBLE_SDS * sd * rows.reach_squared, 2.0**-40 * rows.constant_value**2)

    @property
    def rows_hidden(self) -> bool:
        """Whether the number of rows is private and not distinguishable from noise; then all errors are unknown."""
        corner = self.unit_moment if self.counts_by_constant else None
        return corner is not None and float(corner[-1, -1]) < self._least_corner

    @cached_property
    def inverse_map(self) -> FloatArray | None:
        """The inverse of the public map of preconditioning; None without preconditioning."""
        return np.asarray(np.linalg.inv(self.values["map"]), np.float64) if "map" in self.values else None

    def _mapped_back(self, matrix: FloatArray) -> FloatArray:
        """Return a second moment of mapped rows as that of the rows before."""
        back = self.inverse_map
        if back is None:
            return matrix
        product = back @ matrix @ back.T
        return np.asarray((product + product.swapaxes(-1, -2)) / 2)

    @property
    def has_matrix(self) -> bool:
        """Whether variances were released; a subspace has none."""
        return self._bordered is not None

    @cached_property
    def has_known_noise(self) -> bool:
        """Whether the matrix is the true matrix plus noise of a known distribution."""
        return self.mechanism is not None and self.mechanism.adds_noise

    # Features by name.

    def rows(self, X: Any) -> Any:
        """Return the features of rows of a table: of a frame by their names, of an array those that were kept."""
        columns, names, screening = getattr(X, "columns", None), self.origin.feature_names, self.origin.screening
        if screening is not None and (columns is None or screening.feature_names is None):
            return real_rows(X, screening.n_features)[:, list(screening.kept)]
        if columns is None or names is None:
            return real_rows(X, self.n_features)
        if not set(names) <= set(columns):
            raise InvalidDataError(
                "The frame lacks features of the release. Use PrivatePCA.from_release(release).transform for tables."
            )
        try:
            rows = X[list(names)].to_numpy()
        except Exception:  # of a frame that is not in memory, or of another kind than pandas' and Polars'
            raise InvalidDataError(
                f"A release projects arrays and frames in memory, not a {type(X).__name__} of "
                f"{type(X).__module__.partition('.')[0]}. Use PrivatePCA.from_release(release).transform."
            ) from None
        return real_rows(rows, self.n_features)

    @property
    def table_features(self) -> tuple[int, tuple[str, ...] | None]:
        """Number and names of all features of the table, those that were not kept included."""
        screening = self.origin.screening
        if screening is None:
            return self.n_features, self.origin.feature_names
        return screening.n_features, screening.feature_names

    def of_all(self, values: FloatArray, otherwise: float) -> FloatArray:
        """Return values of the features as those of all features of the table; `otherwise` where one was not kept."""
        screening = self.origin.screening
        if screening is None:
            return values
        whole = np.full((*values.shape[:-1], screening.n_features), otherwise)
        whole[..., list(screening.kept)] = values
        return whole

    def position(self, column: int | str) -> int:
        """Return the position of a feature: by position, or by name."""
        if not isinstance(column, str):
            return integer_between("A column", column, 0, self.n_features - 1)
        names = list(self.origin.feature_names or ())
        if column not in names:
            raise InvalidParameterError(f"There is no feature {quoted(column)}.")
        return names.index(column)

    def positions(self, columns: Columns) -> list[int]:
        """Return the positions of columns: by position, by name, or all features of a column of the schema."""
        listed = [columns] if isinstance(columns, str) or not isinstance(columns, Sequence) else columns
        schema, found = self.origin.schema, []
        encoded = {} if schema is None else {one.name: one.features for one in schema.used}
        for column in listed:
            if isinstance(column, str):
                known = column in (self.origin.feature_names or ())
                found += [self.position(one) for one in ((column,) if known else encoded.get(column, (column,)))]
            else:
                found.append(integer_between("A column", column, 0, self.n_features - 1))
        if len({*found}) < len(found):
            raise InvalidParameterError("A column was named twice. Name each column once.")
        return found

    # Location and scale.

    @property
    def centred(self) -> bool:
        """Whether the mean is part of the release."""
        return self._has_constant or "mean" in self.integers

    @cached_property
    def row_scale(self) -> FloatArray:
        """Factors that features were multiplied by first (read-only); ones without scaling."""
        scale = np.ones(self.n_features) if self.origin.row_rule.scale is None else np.array(self.origin.row_rule.scale)
        scale[list(self.origin.without_range)] = 1.0
        scale.flags.writeable = False
        return scale

    @cached_property
    def scaled_mean(self) -> FloatArray:
        """The mean of the scaled, shifted rows; zeros where it is not part of the release."""
        if self._bordered is None or not self._has_constant:
            return np.zeros(self.n_features)
        mean = np.asarray(self._bordered[:-1, -1] / self.origin.row_rule.constant_value)
        mean[list(self.origin.without_range)] = 0.0
        return mean

    @property
    def mean(self) -> FloatArray:
        """The released mean, or else the middle of the public bounds or zero."""
        shift = self.origin.row_rule.shift
        return (0.0 if shift is None else np.asarray(shift)) + self.scaled_mean / self.row_scale

    # The matrix of the rows as they were used, and its noise.

    @cached_property
    def row_matrix(self) -> FloatArray:
        """The released matrix of the clipped rows, not shrunk; centred if the mean was released."""
        if self._bordered is None:
            raise InvalidDataError("This release has directions only, no matrix.")
        if not self._has_constant:
            return self._still(self._bordered)
        products = np.outer(self.scaled_mean, self.scaled_mean)
        return self._still(np.subtract(self._bordered[:-1, :-1], products, out=products))

    def _still(self, matrix: FloatArray) -> FloatArray:
        """Return a matrix with nothing for the features that are read as if all rows agreed in them."""
        without = list(self.origin.without_range)
        if without:
            matrix = matrix.copy()
            matrix[..., without, :] = matrix[..., without] = 0.0
        return matrix

    @property
    def row_noise_sd(self) -> float | None:
        """Standard deviation of the noise beside the diagonal of `row_matrix`; None where it is not known."""
        sd = None if self.mechanism is None else self.mechanism.noise_sd(max(1, self.n_rows or 1))
        if sd is None:
            return None
        # Beside the diagonal, the noise of mapped rows has, mapped back, the root mean square tr(Q^2)/d, Q the inverse.
        growth = 1.0 if self.inverse_map is None else float(np.square(self.inverse_map).sum()) / self.n_features
        return sd * growth * self.origin.row_rule.reach_squared * self.units_per_weight

    @property
    def row_variance_sds(self) -> FloatArray:
        """Standard deviations of the noise on the diagonal of `row_matrix`; zeros where nothing is known of noise."""
        mechanism, d = self.mechanism, self.n_features
        if not isinstance(mechanism, AdditiveMechanism):
            return np.zeros(d)
        if self.inverse_map is not None:
            sizes = np.square(self._rows_through_map(np.eye(d))).sum(axis=1)
        else:
            sizes = 1 + np.square(self.lever)
            sizes[list(self.origin.without_range)] = 0.0
        return np.asarray(sizes * (self.noise_unit * math.sqrt(mechanism.noise_facts().diagonal_variance)))

    def row_error_draw(self, generator: np.random.Generator) -> FloatArray:
        """Return a draw of the error of `row_matrix`: noise, and the error of a noisy number of rows."""
        return self._row_error(*self.noise_mechanism.simulated_errors(generator))

    def row_moment_draws(self, generator: np.random.Generator, count: int) -> FloatArray:
        """Return errors with the second moments of `row_error_draw`, of whatever mechanism is quickest to draw."""
        if self.noise_facts is None:
            return np.stack([self.row_error_draw(generator) for _ in range(count)])
        return self._row_error(*self.noise_facts.draws(generator, count))

    def _row_error(self, noise: FloatArray, miscounted: FloatArray | float) -> FloatArray:
        assert self._bordered is not None
        noise = noise * self.noise_unit
        if np.any(miscounted) and not self.counts_by_constant:  # rows are not mapped then
            noise -= self._bordered * (np.asarray(miscounted)[..., None, None] / max(1, self.n_rows or 1))
        return self._about_the_mean(noise)

    @cached_property
    def noise_facts(self) -> NoiseFacts | None:
        """Second moments of the noise that was added to the sum over the rows; None where there is no closed form."""
        # Where the number of rows is computed from the matrix, its noise is no linear map of that of the mechanism.
        mechanism = self.mechanism
        if not isinstance(mechanism, AdditiveMechanism) or not mechanism.rotation_invariant or self.counts_by_constant:
            return None
        return mechanism.noise_facts()

    @cached_property
    def noise_unit(self) -> float:
        """Factor from noise of the mechanism to noise of the mean over the rows."""
        return self.origin.row_rule.reach_squared / max(1, self.n_rows or 1) * self.units_per_weight

    def _rows_through_map(self, rows: FloatArray) -> FloatArray:
        """Return u'B for directions u as rows: noise N of the mechanism is BNB' in `row_matrix`, to first order."""
        still = list(self.origin.without_range)
        if still:
            rows = rows.copy()
            rows[:, still] = 0.0
        if self._has_constant:
            rows = np.column_stack([rows, rows @ -self.lever])
        return rows if self.inverse_map is None else rows @ self.inverse_map

    @property
    def lever(self) -> FloatArray:
        """The mean in units of the appended constant; zeros where there is none."""
        return self.scaled_mean / self.origin.row_rule.constant_value if self._has_constant else self.scaled_mean

    def _about_the_mean(self, noise: FloatArray) -> FloatArray:
        """Return the noise of `row_matrix` that noise of the matrix with the constant's row and column leads to."""
        noise = self._mapped_back(noise)
        if not self._has_constant:
            return self._still(noise)
        if self.counts_by_constant and self._bordered is not None:  # what the error of that number adds, to first order
            noise = noise - self._bordered * (noise[..., -1:, -1:] / self.origin.row_rule.constant_value**2)
        shift = noise[..., :-1, -1:] / self.origin.row_rule.constant_value
        across = shift.swapaxes(-1, -2)
        mean = self.scaled_mean
        return self._still(noise[..., :-1, :-1] - mean[:, None] * across - shift * mean - shift * across)

    # The scaled features: what was asked for is about these.

    @cached_property
    def of_signs(self) -> bool:
        """Whether the matrix is Kendall's tau, from signs of differences, which have no units."""
        return self.origin.row_rule.statistic == "kendall"

    def check_units(self) -> None:
        """Refuse raw rows where the release has no units."""
        if self.of_signs:
            raise InvalidParameterError(
                f"{without_units(self.origin.request)}. Give {FOR_UNITS}, or call fit_transform, which estimates "
                "ranges privately if there are enough rows."
            )

    @cached_property
    def of_correlation(self) -> bool:
        """Whether components and variances are those of the correlation matrix."""
        return self.of_signs or self.origin.request.correlation

    @cached_property
    def signs(self) -> SignCorrelation:
        """Correlations from Kendall's tau; warns of features with too many ties or too much noise."""
        mechanism, noise = self.mechanism, {}
        if isinstance(mechanism, AdditiveMechanism):
            facts, sd = mechanism.noise_facts(), self.row_noise_sd or 0.0
            about = 2 + facts.diagonal_extra / facts.off_variance if facts.off_variance > 0 else 2.0
            noise = {"noise_sd": sd, "heaviness": mechanism.heaviness, "spread": sd * math.sqrt(max(0.0, about))}
        largest = self.origin.row_rule.largest_share
        signs = correlation_from_signs(self.row_matrix, **noise, largest_share=largest)
        self._warn_of(
            signs.undetermined,
            "Nearly all rows have the same value in {features}, as far as the noise allows to see; the correlations "
            "there are not determined.",
        )
        return signs

    @cached_property
    def standardized(self) -> Standardized:
        """Correlations from the matrix of the rows; warns of variances that are not distinguishable from noise."""
        found = correlation_from_covariance(self.row_matrix, self.row_variance_sds)
        self._warn_of(
            found.undetermined,
            "The variance of {features} is not distinguishable from noise, so correlations with {them} are too small. "
            "Use more rows, a larger epsilon, narrower ranges, or statistic='kendall', which needs no ranges.",
        )
        return found

    @property
    def undetermined(self) -> tuple[int, ...]:
        """Positions of features whose correlations cannot be estimated because of noise."""
        if not self.of_correlation:
            return ()
        return self.signs.undetermined if self.of_signs else self.standardized.undetermined

    def _warn_of(self, positions: tuple[int, ...], sentence: str) -> None:
        if positions:
            names = features_in_words(self.origin.feature_names, self.n_features)
            hidden = [names[position] for position in positions]
            them = "them" if len(hidden) > 1 else "it"
            warn_caller(sentence.format(features=listed("feature", hidden, hidden), them=them), NoiseWarning)

    @property
    def scale(self) -> FloatArray:
        """Factors that features are multiplied by before projection; ones without scaling.

        For correlations, one over the released standard deviations.
        """
        if self.divisors is None or not self.has_matrix:
            return self.row_scale.copy()
        return np.asarray(self.row_scale / self.divisors)

    @cached_property
    def _one_scale(self) -> bool:
        """Whether all features have one scale, so that noise in another unit is the same but for a factor."""
        return self.divisors is None or bool(np.all(self.divisors == self.divisors[0]))

    @cached_property
    def divisors(self) -> FloatArray | None:
        """Divisors of the features that turn `row_matrix` into `scaled_matrix`; None if both are equal."""
        if self.of_signs:
            return None
        if self.of_correlation:
            return self.standardized.sizes
        return self.row_scale if self.origin.request.own_units else None

    # The matrix.

    @property
    def scaled_matrix(self) -> FloatArray:
        """The released matrix of the scaled features, not shrunk; centred if the mean was released.

        For Kendall's tau and for correlations, the correlation matrix, each entry estimated by itself.
        """
        if self.of_correlation:
            return self.signs.matrix if self.of_signs else self.standardized.matrix
        return self.row_matrix if self.divisors is None else self.row_matrix / np.outer(self.divisors, self.divisors)

    @property
    def noise_sd(self) -> float | None:
        """Standard deviation of the noise beside the diagonal of `scaled_matrix`; None where it is not known."""
        sd = self.row_noise_sd
        sizes = self.divisors
        if sd is None or (sizes is None and not self.of_signs):
            return sd
        ratio = self.signs.noise_ratio if sizes is None else 1 / np.outer(sizes, sizes)
        ratio = np.delete(np.delete(ratio, without := list(self.origin.without_range), 0), without, 1)
        squares = ratio[np.triu_indices(len(ratio), 1)] ** 2
        # Where there is nothing beside the diagonal, or nothing that is told, any positive number will do.
        return sd * (float(np.sqrt(squares.sum() / max(1, squares.size))) or 1.0)

    def noise_draw(self, generator: np.random.Generator, count: int | None = None) -> FloatArray:
        """Return a draw of the noise in `scaled_matrix`, at the released mean or correlations; or so many, quickly."""
        mechanism = self.noise_mechanism
        noise = mechanism.simulated_noise(generator) if count is None else mechanism.simulated_noises(generator, count)
        return self._as_scaled(self._about_the_mean(np.asarray(noise * self.noise_unit)))

    def error_draw(self, generator: np.random.Generator) -> FloatArray:
        """Return a draw of the error of `scaled_matrix`: noise, and the error of a noisy number of rows."""
        return self._as_scaled(self.row_error_draw(generator))

    def moment_draws(self, generator: np.random.Generator, count: int) -> FloatArray:
        """Return errors with the second moments of `error_draw`, of whatever mechanism is quickest to draw."""
        noise = self.row_moment_draws(generator, count)
        return self.signs.noise(noise) if self.of_signs else self._as_scaled(noise)

    @property
    def noise_is_mapped(self) -> bool:
        """Whether the noise of `scaled_matrix` is BNB' for noise N of the mechanism, and not N itself."""
        mapped = self._has_constant or bool(self.origin.without_range) or self.inverse_map is not None
        return mapped or self.divisors is not None

    @cached_property
    def mapped_by_mean(self) -> bool:
        """Whether B is the map of a subtracted mean alone: BB' = c(I + ll') for the `lever` l, up to still features."""
        return self.inverse_map is None and self._one_scale

    def through_noise_map(self, rows: FloatArray) -> FloatArray:
        """Return u'B for directions u as rows; not for correlations, whose error is no such product."""
        return self._rows_through_map(rows if self.divisors is None else rows / self.divisors)

    def _as_scaled(self, noise: FloatArray) -> FloatArray:
        if self.of_correlation:
            return np.asarray(noise * self.signs.noise_ratio) if self.of_signs else self.standardized.noise(noise)
        return noise if self.divisors is None else noise / np.outer(self.divisors, self.divisors)

    @cached_property
    def system(self) -> Eigensystem:
        """Eigenvalues and eigenvectors of `scaled_matrix`, as far as they are asked for."""
        return Eigensystem(self.scaled_matrix)

    @property
    def eigensystem(self) -> tuple[FloatArray, FloatArray]:
        """All eigenvalues of `scaled_matrix`, descending, and their eigenvectors as rows."""
        return self.system.values, self.system.rows()

    # Shrinking may take longer than the fit, so it waits until somebody asks.

    @cached_property
    def estimate(self) -> Shrunk:
        """Shrinkage estimate of the true matrix; only with a known noise distribution."""
        # The trace of correlations is known. That of clipped rows is estimated accurately, but not after a map back or
        # in other units.
        same = self.inverse_map is None and (self.of_correlation or self._one_scale)
        sharp = same and self.mechanism is not None and self.mechanism.sharp_trace
        return self.shrunk(self.scaled_matrix, self.system, keep_trace=sharp or self.of_correlation)

    def shrunk(
        self,
        matrix: FloatArray,
        system: Eigensystem | None = None,
        positions: list[int] | None = None,
        keep_trace: bool = False,
    ) -> Shrunk:
        """Return the shrunk `scaled_matrix`, or that of some of the features, at these positions."""
        facts, variance = self.noise_facts, None  # the latter of noise that hardly differs between directions
        if facts is not None and self.of_correlation:
            divisors = np.ones(1) if self.of_signs else self.standardized.sizes
            if float(divisors.max()) <= _EVEN_DIVISORS * float(divisors.min()):
                # Entries lie in [-1, 1]: what is cut there has no noise of a larger deviation.
                variance = min(1.0, (self.noise_sd or 0.0) ** 2)
        elif facts is not None and self.noise_sizes[-1] <= _EVEN * self.noise_sizes[0]:
            variance = facts.off_variance * (self.noise_unit * float(self.noise_sizes.mean())) ** 2
        widest = _SIMULATED if self.inverse_map is None else _MAPPED_SIMULATED
        if variance is None and len(matrix) > widest:
            variance = (self.noise_sd or 0.0) ** 2
        if variance is not None:
            excess = 0.0 if facts is None else facts.excess * len(matrix) / self.n_features
            return shrink(matrix, variance, excess, system, keep_trace=keep_trace)

        def draws(generator: np.random.Generator, count: int) -> FloatArray:
            noise = self.noise_draw(generator, count)
            return noise if positions is None else noise[:, positions][:, :, positions]

        return shrink_by_simulation(matrix, draws, system, keep_trace=keep_trace)

    @cached_property
    def noise_sizes(self) -> FloatArray:
        """Eigenvalues of BB' of the map of noise, ascending: its variance along directions; not for correlations."""
        still = len(self.origin.without_range)
        if self.mapped_by_mean:
            sizes = np.append(np.ones(max(0, self.n_features - still - 1)), 1 + float(self.lever @ self.lever))
            return sizes / (1.0 if self.divisors is None else float(self.divisors[0]) ** 2)
        mapping = self.through_noise_map(np.eye(self.n_features))
        return np.asarray(np.linalg.eigvalsh(mapping @ mapping.T)[still:])

    @cached_property
    def scaled_covariance(self) -> FloatArray:
        """The matrix of the scaled features, shrunk with the known noise or made positive semidefinite.

        In the local model it is the unbiased estimate. For correlations it has a diagonal of ones.
        """
        if self.of_correlation:
            shrunk = self.estimate.covariance if self.has_known_noise else project_psd(self.scaled_matrix)
            correlation = _scaled_to_ones(shrunk)
            np.fill_diagonal(correlation, 1.0)
            return correlation
        if self.has_known_noise:
            return self._still(self.estimate.covariance)
        return self.scaled_matrix if self.origin.model == "local" else project_psd(self.scaled_matrix)

    @property
    def covariance(self) -> FloatArray | None:
        """The covariance in the units of the features; None if only a subspace was released.

        Without a released mean it is the second moment about the origin or the middle of public bounds. For Kendall's
        tau, which has no units, it is the correlation.
        """
        if not self.has_matrix:
            return None
        units = np.outer(self.scale, self.scale)
        return np.divide(self.scaled_covariance, units, out=units)

    @property
    def correlation(self) -> FloatArray | None:
        """Correlations: `covariance` scaled to a diagonal of 1; 0 for a feature without variance."""
        if not self.has_matrix:
            return None
        return self.scaled_covariance if self.of_correlation else _scaled_to_ones(self.scaled_covariance)


def _scaled_to_ones(covariance: FloatArray) -> FloatArray:
    sizes = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    sizes[sizes == 0] = np.inf
    found = np.outer(sizes, sizes)
    return np.asarray(np.clip(np.divide(covariance, found, out=found), -1.0, 1.0, out=found))
