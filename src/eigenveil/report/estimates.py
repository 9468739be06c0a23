"""The values that a report shows of a release, and notes on them."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError, InvalidParameterError, NoiseWarning
from ..numerics import FloatArray
from ..releases.origin import RegressionRequest, Request, SparseRequest
from ..releases.record import Release
from ..releases.regression import Regression
from ..releases.summary import noted, shown_names
from ..uncertainty import (
    ANY,
    CORRELATION,
    INTERVAL,
    LEGEND,
    Limits,
    angle_in_words,
    around,
    for_readers,
    holds_zero,
    with_error,
)

SHOWN_EIGENVALUES = 15
SHOWN_COMPONENTS = 6
SHOWN_FEATURES = 24
SHOWN_LOADINGS = 100
# Up to this width all eigenvalues are computed; beyond it only those of the components.
_ALL_EIGENVALUES = 2000
# Requests whose result is the matrix, or is shown beside it.
_MATRIX_REQUESTS = (Request.kind, RegressionRequest.kind)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Values with their 95 % intervals, which are None where the errors are not known."""

    values: FloatArray
    intervals: FloatArray | None

    def interval(self, i: int) -> FloatArray | None:
        """Return the interval of one value; None where it is not known."""
        return None if self.intervals is None else self.intervals[i]

    def in_words(self, i: int, limits: Limits = ANY, *, percent: bool = False) -> str:
        """Return one value with its interval, for readers."""
        return for_readers(with_error(float(self.values[i]), self.interval(i), limits, percent=percent))


@dataclass(frozen=True, eq=False)
class Estimates:
    """The values of a release that are shown; a value is None where the release does not contain it.

    Attributes
    ----------
    names : tuple of str
        Of the features, in order and printable; x0, x1, ... where the release has none.
    components : ndarray of shape (k, d)
        Directions.
    sparse : bool
        Whether they are sparse, so that `released_eigenvalues` are not theirs.
    variances, shares, running : Estimate
        Variances along the components; as shares of the total; shares of the first 1, 2, ... together.
    released_eigenvalues : ndarray of shape (m,)
        The largest eigenvalues of the released matrix.
    edges : ndarray of shape (m,)
        The noise level that each of them must exceed; for correlations that of noise and uncorrelated features.
    of_correlation : bool
        Whether all of them are of the correlation matrix.
    above_noise : ndarray of bool, shape (k,)
        Which components are above the noise.
    angles, angle_bounds : ndarray of shape (k,)
        Angle errors in degrees, and their 95 % bounds; 90 where a direction is not determined.
    loading_errors : ndarray of shape (k, d)
        Standard errors of the loadings.
    correlations, correlation_intervals : ndarray of shape (d, d), (d, d, 2)
        Where the matrix was requested; about the origin if not centred.
    regressions : tuple of Regression
        Where they were requested, one for each target.
    spreads : Estimate
        Standard deviations of the features, where the matrix was requested and has units.
    means : Estimate
        Where the mean was released.
    notes : tuple of str
        What a reader should know about these numbers.
    interval_name, legend : str
        What to call an interval, and the line that says what intervals are.
    """

    names: tuple[str, ...]
    components: FloatArray
    sparse: bool = False
    variances: Estimate | None = None
    shares: Estimate | None = None
    running: Estimate | None = None
    released_eigenvalues: FloatArray | None = None
    edges: FloatArray | None = None
    of_correlation: bool = False
    above_noise: NDArray[np.bool_] | None = None
    angles: FloatArray | None = None
    angle_bounds: FloatArray | None = None
    loading_errors: FloatArray | None = None
    correlations: FloatArray | None = None
    correlation_intervals: FloatArray | None = None
    regressions: tuple[Regression, ...] = ()
    spreads: Estimate | None = None
    means: Estimate | None = None
    notes: tuple[str, ...] = ()
    interval_name: str = INTERVAL
    legend: str = LEGEND

    @property
    def has_intervals(self) -> bool:
        """True where the variances along the components have confidence intervals."""
        return self.variances is not None and self.variances.intervals is not None

    def not_above(self, i: int) -> bool:
        """Return whether a component is not above the noise; False where this is not known."""
        return self.above_noise is not None and not self.above_noise[i]

    def angle_in_words(self, i: int) -> str:
        """Return the angle error of a component; empty where it is not known."""
        if self.angles is None or self.angle_bounds is None:
            return ""
        return angle_in_words(float(self.angles[i]), float(self.angle_bounds[i]))

    def loading_interval(self, i: int, j: int) -> tuple[float, float] | None:
        """Return the 95 % confidence interval of a loading; None where it is not known."""
        if self.loading_errors is None or self.angle_bounds is None or self.angle_bounds[i] >= 90:
            return None
        return around(float(self.components[i, j]), float(self.loading_errors[i, j]), CORRELATION)

    def loading_may_be_zero(self, i: int, j: int) -> bool:
        """Return whether the errors of loadings are known and this loading may be 0."""
        ends = self.loading_interval(i, j)
        return self.loading_errors is not None and (ends is None or holds_zero(ends))

    @property
    def needs_root_scale(self) -> bool:
        """True where the first eigenvalue would flatten all others on a linear axis."""
        assert self.released_eigenvalues is not None
        values = self.released_eigenvalues[:SHOWN_EIGENVALUES]
        return bool(values[values.size // 2] < 0.05 * values[0])

    def top(self, count: int) -> float:
        """Return the largest value in a plot of the first `count` eigenvalues."""
        assert self.released_eigenvalues is not None
        ends = [self.released_eigenvalues[:count]]
        if self.variances is not None:
            ends.append(self.variances.values[:count])
            ends += [] if self.variances.intervals is None else [self.variances.intervals[:count, 1]]
        ends += [] if self.edges is None else [self.edges[:count]]
        return max(0.0, *(float(end.max()) for end in ends))

    def effects(self, fit: Regression) -> FloatArray:
        """Return the effect of one standard deviation of each feature on the prediction; of one unit if unknown."""
        size = np.abs(fit.coef)
        return size if self.spreads is None else size * self.spreads.values[list(fit.features)]

    def predictors(self, fit: Regression) -> list[int]:
        """Return the positions of the coefficients that move the prediction most, in their own order."""
        return sorted(int(place) for place in np.argsort(-self.effects(fit), kind="stable")[:SHOWN_FEATURES])

    def leading_features(self, count: int = SHOWN_FEATURES) -> list[int]:
        """Return the features with the largest loadings on the shown components, in their own order."""
        weight = (self.components[:SHOWN_COMPONENTS] ** 2).sum(axis=0)
        return sorted(int(j) for j in np.argsort(-weight, kind="stable")[:count])


def read_estimates(release: Release) -> Estimates:
    """Return the values that are shown of a release.

    Examples
    --------
    >>> from eigenveil.guarantee import Guarantee
    >>> from eigenveil.releases.origin import Origin
    >>> from eigenveil.moments.row_rule import RowRule
    >>> origin = Origin(mechanism="a mechanism of tomorrow", parameters={}, row_rule=RowRule(1.0), n_rows=4)
    >>> release = Release({"matrix": np.diag([6, 2])}, {"matrix": 1.0}, Guarantee(1.0), origin)
    >>> estimates = read_estimates(release)
    >>> estimates.names, estimates.variances.values.tolist(), estimates.edges
    (('x0', 'x1'), [1.5, 0.5], None)
    """
    if not release.integers:
        raise InvalidDataError("The release has no values, so there is nothing to show.")
    matrix = release.integers.get("matrix")
    if matrix is not None and (matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]):
        raise InvalidDataError("The matrix of the release is not square, so there is nothing to show.")
    estimates, heard = noted(release, _read)
    return replace(estimates, notes=(*estimates.notes, *heard))


def _read(release: Release) -> Estimates:
    matrix, spectrum, intervals, origin = release.matrix, release.spectrum, release.intervals, release.origin
    if matrix.has_matrix:
        _ = matrix.scaled_matrix  # may warn of features that are not distinguishable from noise
    components, names, notes = _components(release), shown_names(release), tuple(_notes(release))
    if not matrix.has_matrix:
        return Estimates(names, components, notes=notes)
    if release.mechanism is not None and release.mechanism.releases == "directions":
        # Variances of sampled directions were released; eigenvalues of a matrix that is rebuilt from them were not.
        eigenvalues = spectrum.eigenvalues
    elif release.n_features > _ALL_EIGENVALUES:
        eigenvalues = spectrum.leading[0]
    else:
        eigenvalues = matrix.eigensystem[0]
    variances, shares, running = release.explained_variance, release.explained_variance_ratio, spectrum.running_ratio
    assert variances is not None  # they belong to every matrix, as their shares do
    assert shares is not None
    assert running is not None
    test, errors = spectrum.noise_test, spectrum.loading_errors()
    estimates = Estimates(
        names=names,
        components=components,
        sparse=isinstance(origin.request, SparseRequest),
        variances=Estimate(variances, release.explained_variance_interval),
        shares=Estimate(shares, spectrum.explained_variance_ratio_interval),
        running=Estimate(running, spectrum.running_ratio_interval),
        released_eigenvalues=eigenvalues,
        # After the last tested eigenvalue the noise level is constant.
        edges=None if test is None else np.pad(test.edges, (0, release.n_features - len(test.edges)), mode="edge"),
        of_correlation=matrix.of_correlation,
        above_noise=release.above_noise,
        angles=None if errors is None else errors.angle,
        angle_bounds=None if errors is None else errors.angle_bound,
        loading_errors=None if errors is None else errors.standard_errors,
        notes=notes,
        interval_name=intervals.name,
        legend=intervals.legend,
    )
    if matrix.centred and origin.row_rule.keeps_lengths:
        estimates = replace(estimates, means=Estimate(release.mean, intervals.mean()))
    if origin.request.kind not in _MATRIX_REQUESTS:
        return estimates
    if origin.request.kind == Request.kind:
        spectrum.warn_of_features()
    if origin.row_rule.keeps_lengths:
        entries, ends = np.asarray(release.covariance), intervals.covariance()
        places = np.arange(release.n_features)
        roots = None if ends is None else np.sqrt(np.maximum(ends[places, places], 0.0))
        estimates = replace(estimates, spreads=Estimate(np.sqrt(np.maximum(np.diag(entries), 0.0)), roots))
    return replace(
        estimates,
        correlations=release.correlation,
        correlation_intervals=intervals.correlation(),
        regressions=release.regressions if matrix.has_known_noise else (),
    )


def _components(release: Release) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)  # the page says it, beside the noise edge
        try:
            return release.components
        except (InvalidDataError, InvalidParameterError) as error:
            if release.mechanism is not None:
                raise
            raise InvalidDataError(
                f"This version of eigenveil does not know the mechanism {release.origin.mechanism!r}, so it cannot "
                "compute components from this release. Use the version that made it."
            ) from error


def _notes(release: Release) -> Iterator[str]:
    """Yield notes for the reader, from the mechanism, the rows and the request."""
    mechanism, origin, matrix = release.mechanism, release.origin, release.matrix
    request, rows, screening = origin.request, origin.row_rule, origin.screening
    local, has_matrix = origin.model == "local", matrix.has_matrix
    if mechanism is None:
        if has_matrix:
            yield "The distribution of the noise is not known here, so eigenvalues are shown without correction."
        else:
            yield "The mechanism of this release is not known here, so the order of the directions is not known either."
    if not has_matrix:
        yield "Only directions were released, so there are no eigenvalues and no shares of variance."
    if mechanism is not None and not release.spectrum.ordered:
        yield "The directions span the released subspace and have no order of importance."
    if rows.scale is not None and not request.own_units:
        yield "Loadings and variances refer to the features after scaling."
    if not has_matrix:
        return
    if request.correlation and rows.keeps_lengths:
        yield "Components and variances are those of the correlation matrix, computed with the released variances."
    if rows.statistic == "kendall":
        yield "Only the signs of differences between rows were used. This is a correlation matrix, by the sine rule."
    elif rows.compares:
        yield "Only directions of differences between rows were used, so variances have no unit. Compare shares."
    elif not rows.keeps_lengths:
        yield "All rows were scaled to length 1, so variances have no unit. Compare shares."
    elif not matrix.centred:
        about = "the origin" if rows.shift is None else "the public shift"
        yield f"Variances are about {about}: the mean was not subtracted, so the first component may be the mean."
    if rows.mapped_from is not None:
        yield (
            "Preconditioning was used: rows were transformed after a pilot estimate, and the release is transformed "
            "back. The noise is larger along directions with a large variance."
        )
    if local and not matrix.has_known_noise:
        yield "In the local model variances are shown without bias correction."
        if release.noise_sd is not None:
            yield "The noise is treated as Gaussian noise of the same size, because it is the sum of many reports."
    if mechanism is not None and mechanism.releases == "directions":
        yield (
            "Directions were sampled, and their variances were released with separate noise. All other directions get "
            "an equal part of the remaining variance. Which components are above the noise is not known."
        )
    if screening is not None:
        yield (
            f"The release is about {release.n_features:,} of {screening.n_features:,} features, which were chosen "
            "privately. It says nothing about the others: loadings, shares of the variance and intervals are about the "
            "features that were kept."
        )
    if isinstance(request, SparseRequest):
        yield (
            "The components are sparse and were computed from the released matrix. Loadings of 0 are exactly 0. The "
            "eigenvalues are those of the whole matrix."
        )
    if isinstance(request, RegressionRequest):
        targets = "targets" if isinstance(request.target, tuple) and request.target[1:] else "target"
        yield (
            f"The matrix contains the features and the {targets} of the regression; the coefficients are computed from "
            f"it. Correlations and loadings include the {targets}."
        )
    if release.intervals.unavailable and local:
        yield release.intervals.unavailable
    if "approximate" in (release.spectrum.explained_variance_interval_kind or ()):
        yield "The coverage of the intervals of variances is known by experiment, not by proof."
