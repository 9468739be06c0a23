"""What a report shows of a release, and what a reader should know about these numbers."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..display import INTERVAL, LEGEND, angle_in_words, around, holds_zero
from ..errors import InvalidDataError, InvalidParameterError, NoiseWarning
from ..limits import CORRELATION
from ..numerics import FloatArray
from ..releases.origin import RegressionRequest, Request, SparseRequest
from ..releases.record import Release
from ..releases.regression import Regression


def notes_on(release: Release, n_components: int) -> Iterator[str]:
    """Yield what a reader should know, from the facts of mechanism, rows and request."""
    mechanism, rows = release.mechanism, release.origin.row_rule
    if mechanism is None and release.matrix.has_matrix:
        yield "The distribution of the noise is not known here, so the eigenvalues are shown as released."
    elif mechanism is None:
        yield "The mechanism of this release is not known here, and with it the order of any directions."
    if not n_components:
        yield "This version of eigenveil cannot tell components from it; a later one may."
    elif not release.matrix.has_matrix:
        yield "Only directions were released, so there are no eigenvalues and no shares of variance."
    if mechanism is not None and not release.spectrum.ordered:
        yield "The directions span the released subspace and have no order of importance."
    if rows.scale is not None and not release.origin.request.own_units:
        yield "Loadings and variances refer to the features after scaling."
    if release.matrix.has_matrix:
        yield from _matrix_notes(release, n_components)


def _matrix_notes(release: Release, n_components: int) -> Iterator[str]:
    mechanism, rows, request = release.mechanism, release.origin.row_rule, release.origin.request
    if request.correlation and rows.keeps_lengths:
        yield "Components and variances are those of the correlation matrix, by the variances that were released."
    if rows.statistic == "kendall":
        yield "Only signs of differences between rows were used: this is a correlation matrix, by the sine rule."
    elif rows.compares:
        yield "Rows are directions of differences between rows, so variances have no unit; compare shares."
    elif not rows.keeps_lengths:
        yield "Rows were all brought to length 1, so variances have no unit; compare shares."
    elif not release.matrix.centred:
        about = "the origin" if rows.shift is None else "the public shift"
        yield f"Variances are about {about}: the mean was not subtracted, so the first direction may be it."
    if rows.mapped_from is not None:
        yield (
            "Rows were mapped by a public matrix after a pilot estimate, and the release is mapped back: its noise is "
            "larger along strong directions than along weak ones."
        )
    if release.origin.model == "local" and not release.matrix.has_known_noise:
        yield "In the local model variances are shown as released: they are not freed of bias here."
        if release.noise_sd is not None:
            yield "The noise is taken for Gaussian noise of the same size: the sum of many reports is close to it."
    if mechanism is not None and mechanism.releases == "directions":
        yield (
            "Directions were sampled and their variances released with noise of their own; other directions share the "
            "rest of the total evenly. Nothing tells which are above the noise."
        )
    if isinstance(request, SparseRequest):
        yield (
            "The components are sparse: they are computed from the released matrix, loadings that are zero are exactly "
            "so, and variances are those along them. The eigenvalues are those of the whole matrix."
        )
    if isinstance(request, RegressionRequest):
        yield (
            "The matrix holds the features and the target of a regression, which are shown alike in correlations and "
            "loadings; the coefficients are computed from it."
        )
    if release.intervals.unavailable and release.origin.model == "local":
        yield release.intervals.unavailable
    kinds = release.spectrum.explained_variance_interval_kind if n_components else None
    if kinds is not None and "approximate" in kinds:
        yield "For this release the coverage of the intervals of variances is known by experiment, not by proof."


SHOWN_EIGENVALUES = 15
SHOWN_COMPONENTS = 6
SHOWN_FEATURES = 24
# Up to this width all released eigenvalues are at hand, and beyond those of the components.
_ALL_EIGENVALUES = 2000
# Requests for which the matrix itself is the answer, or half of it.
_MATRIX_REQUESTS = (Request.kind, RegressionRequest.kind)


@dataclass(frozen=True, eq=False)
class Shown:
    """What can be shown of a release; a value is None where the release does not tell it.

    Attributes
    ----------
    names : tuple of str
        Of the features, in order and printable; x0, x1, ... where the release has none.
    components : ndarray of shape (k, d)
        Directions; none of them (k = 0) where this version cannot tell them.
    sparse : bool
        Whether they are sparse components, and so not the eigenvectors that belong to `released_eigenvalues`.
    variances, intervals : ndarray of shape (k,), (k, 2)
        Variances along the components, and their 95 % intervals.
    shares, share_intervals : ndarray of shape (k,), (k, 2)
        The same as shares of the total.
    running, running_intervals : ndarray of shape (k,), (k, 2)
        Shares of the first 1, 2, ... together.
    released_eigenvalues : ndarray of shape (m,)
        The largest ones of the matrix as it was released.
    edges : ndarray of shape (m,)
        What each of these must pass to be above the noise; of correlations, the noise and what uncorrelated features
        have.
    of_correlation : bool
        Whether all of them are of the correlation matrix.
    above_noise : ndarray of bool, shape (k,)
        Which components are above the noise.
    angles, angle_bounds : ndarray of shape (k,)
        To the true components, in degrees, and what they stay below; 90 where a direction may be any.
    loading_errors : ndarray of shape (k, d)
        Standard errors of the loadings.
    correlations, correlation_intervals : ndarray of shape (d, d), (d, d, 2)
        Where the matrix is what was asked for; about the origin if not centred.
    regression : Regression
        Where one was asked for.
    predictors : tuple of int
        Positions of the coefficients that move the prediction most.
    spreads, spread_intervals : ndarray of shape (d,), (d, 2)
        Standard deviations of the features, where the matrix is what was asked for and tells units.
    means, mean_intervals : ndarray of shape (d,), (d, 2)
        Where the mean left too.
    notes : tuple of str
        What a reader should know about these numbers.
    interval_name, legend : str
        What to call an interval, and the line that says what intervals are.
    """

    names: tuple[str, ...]
    components: FloatArray
    sparse: bool = False
    variances: FloatArray | None = None
    intervals: FloatArray | None = None
    shares: FloatArray | None = None
    share_intervals: FloatArray | None = None
    running: FloatArray | None = None
    running_intervals: FloatArray | None = None
    released_eigenvalues: FloatArray | None = None
    edges: FloatArray | None = None
    of_correlation: bool = False
    above_noise: NDArray[np.bool_] | None = None
    angles: FloatArray | None = None
    angle_bounds: FloatArray | None = None
    loading_errors: FloatArray | None = None
    correlations: FloatArray | None = None
    correlation_intervals: FloatArray | None = None
    regression: Regression | None = None
    predictors: tuple[int, ...] = ()
    spreads: FloatArray | None = None
    spread_intervals: FloatArray | None = None
    means: FloatArray | None = None
    mean_intervals: FloatArray | None = None
    notes: tuple[str, ...] = ()
    interval_name: str = INTERVAL
    legend: str = LEGEND

    def not_above(self, i: int) -> bool:
        """Return whether a component is not above the noise; False where nothing tells."""
        return self.above_noise is not None and not self.above_noise[i]

    def angle_in_words(self, i: int) -> str:
        """Return how far a component is from the true one; empty where nothing tells."""
        if self.angles is None or self.angle_bounds is None:
            return ""
        return angle_in_words(float(self.angles[i]), float(self.angle_bounds[i]))

    def loading_interval(self, i: int, j: int) -> tuple[float, float] | None:
        """Return the 95 % interval of a loading; None where nothing tells its error, or it may be anything."""
        if self.loading_errors is None or self.angle_bounds is None or self.angle_bounds[i] >= 90:
            return None
        return around(float(self.components[i, j]), float(self.loading_errors[i, j]), CORRELATION)

    def loading_may_be_zero(self, i: int, j: int) -> bool:
        """Return whether the errors of loadings are known, and leave it open if this one is 0."""
        ends = self.loading_interval(i, j)
        return self.loading_errors is not None and (ends is None or holds_zero(ends))

    @property
    def needs_root_scale(self) -> bool:
        """Whether the first eigenvalue would flatten all others on a linear axis."""
        if self.released_eigenvalues is None:
            return False
        values = self.released_eigenvalues[:SHOWN_EIGENVALUES]
        return bool(values[values.size // 2] < 0.05 * values[0])

    def top(self, count: int) -> float:
        """Return the largest value in a plot of the first `count` eigenvalues."""
        assert self.released_eigenvalues is not None
        ends = [self.released_eigenvalues[:count]]
        ends += [] if self.variances is None else [self.variances[:count]]
        ends += [] if self.intervals is None else [self.intervals[:count, 1]]
        ends += [] if self.edges is None else [self.edges[:count]]
        return max(0.0, *(float(end.max()) for end in ends))

    def leading_features(self, count: int = SHOWN_FEATURES) -> list[int]:
        """Return the features with the largest loadings on the shown components, in their own order."""
        weight = (self.components[:SHOWN_COMPONENTS] ** 2).sum(axis=0)
        return sorted(int(j) for j in np.argsort(-weight, kind="stable")[:count])


def read(release: Release) -> Shown:
    """Return what is shown of a release; the release is all it takes.

    Examples
    --------
    >>> from eigenveil.guarantee import Guarantee
    >>> from eigenveil.releases.origin import Origin
    >>> from eigenveil.moments.row_rule import RowRule
    >>> origin = Origin(mechanism="a mechanism of tomorrow", parameters={}, row_rule=RowRule(1.0), n_rows=4)
    >>> release = Release({"matrix": np.diag([6, 2])}, {"matrix": 1.0}, Guarantee(1.0), origin)
    >>> shown = read(release)
    >>> shown.names, shown.variances.tolist(), shown.edges
    (('x0', 'x1'), [1.5, 0.5], None)
    """
    _check(release)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NoiseWarning)  # what it says is read by whoever reads the numbers
        shown = _read(release)
    heard = dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, NoiseWarning))
    return replace(shown, notes=(*shown.notes, *(_by_name(one, shown.names) for one in heard)))


def _by_name(warning: str, names: tuple[str, ...]) -> str:
    """Return a warning with names for x0, x1, ..., which it says of names that might be data: a page shows them all."""
    if any(re.fullmatch(r"x\d+", name) for name in names):
        return warning
    return re.sub(r"\bx(\d+)\b", lambda at: names[int(at[1])] if int(at[1]) < len(names) else at[0], warning)


def _read(release: Release) -> Shown:
    if release.matrix.has_matrix:
        _ = release.matrix.scaled_matrix  # which may say that noise hides a feature
    components = _components(release)
    names, notes = _names(release), tuple(notes_on(release, len(components)))
    if not release.matrix.has_matrix:
        return Shown(names, components, notes=notes)
    # Sampled directions left with variances of their own; the eigenvalues of a matrix rebuilt from them did not.
    drawn = release.mechanism is not None and release.mechanism.releases == "directions"
    few = release.n_features > _ALL_EIGENVALUES and not drawn and len(components) > 0
    shown = Shown(
        names=names,
        components=components,
        sparse=isinstance(release.origin.request, SparseRequest),
        released_eigenvalues=release.spectrum.eigenvalues
        if drawn
        else release.spectrum.leading[0]
        if few
        else release.matrix.eigensystem[0],
        edges=_edges(release),
        of_correlation=release.matrix.of_correlation,
        notes=notes,
        interval_name=release.intervals.name,
        legend=release.intervals.legend,
    )
    if len(components):
        shown = replace(shown, **_of_components(release))
    if release.matrix.centred and release.origin.row_rule.keeps_lengths:
        shown = replace(shown, means=release.mean, mean_intervals=release.intervals.mean())
    if release.origin.request.kind not in _MATRIX_REQUESTS:
        return shown
    if release.origin.request.kind == Request.kind:
        release.spectrum.warn_of_features()
    regression = release.regression if release.matrix.has_known_noise else None
    if release.origin.row_rule.keeps_lengths:
        shown = replace(shown, **_spreads(release))
    return replace(
        shown,
        correlations=release.correlation,
        correlation_intervals=release.intervals.correlation(),
        regression=regression,
        predictors=() if regression is None else _predictors(shown, regression),
    )


def _of_components(release: Release) -> dict[str, Any]:
    """Return what a release tells of its components and of their error, by the names of `Shown`."""
    errors = release.spectrum.loading_errors()
    return {
        "variances": release.explained_variance,
        "intervals": release.explained_variance_interval,
        "shares": release.explained_variance_ratio,
        "share_intervals": release.spectrum.explained_variance_ratio_interval,
        "running": release.spectrum.running_ratio,
        "running_intervals": release.spectrum.running_ratio_interval,
        "above_noise": release.above_noise,
        "angles": None if errors is None else errors.angle,
        "angle_bounds": None if errors is None else errors.angle_bound,
        "loading_errors": None if errors is None else errors.standard_errors,
    }


def _check(release: Release) -> None:
    if not release.integers:
        raise InvalidDataError("The release holds no values, so there is nothing to show.")
    matrix = release.integers.get("matrix")
    if matrix is not None and (matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]):
        raise InvalidDataError("The matrix of the release is not square, so there is nothing to show.")


def _components(release: Release) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)  # the page says it, beside the noise edge
        try:
            return release.components
        except (InvalidDataError, InvalidParameterError):
            if release.mechanism is not None:
                raise
            # Integers of a mechanism of a later version may mean nothing here; its guarantee and its origin still do.
            return np.empty((0, release.n_features))


def _edges(release: Release) -> FloatArray | None:
    """Return what eigenvalues must pass to be above the noise; after the last tested one all have its edge."""
    test = release.spectrum.noise_test
    return None if test is None else np.pad(test.edges, (0, release.n_features - len(test.edges)), mode="edge")


def _spreads(release: Release) -> dict[str, Any]:
    """Return the standard deviations of the features with their intervals, by the names of `Shown`."""
    places, ends = np.arange(release.n_features), release.intervals.covariance()
    variances = np.diag(np.asarray(release.covariance))
    return {
        "spreads": np.sqrt(np.maximum(variances, 0.0)),
        "spread_intervals": None if ends is None else np.sqrt(np.maximum(ends[places, places], 0.0)),
    }


def _predictors(shown: Shown, regression: Regression) -> tuple[int, ...]:
    effects = np.abs(regression.coef)
    if shown.spreads is not None:
        effects = effects * shown.spreads[list(regression.features)]
    largest = np.argsort(-effects, kind="stable")[:SHOWN_FEATURES]
    return tuple(sorted(int(position) for position in largest))


def _names(release: Release) -> tuple[str, ...]:
    names, width = release.feature_names, release.n_features
    if names is None or len(names) != width:
        return tuple(f"x{position}" for position in range(width))
    return tuple(map(printable, names))


def printable(name: object) -> str:
    """Return a public name that is not trusted: what cannot be printed, as a change of direction, is made visible.

    Examples
    --------
    >>> printable("a" + chr(7) + "b") == "a" + chr(0xFFFD) + "b"
    True
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(name))
