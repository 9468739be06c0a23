"""What a page or a figure shows of a release: the release's own numbers, cut to size, with what to know about them.

The one owner of what `eigenveil.report` and `eigenveil.plots` share. It estimates nothing: a release reads itself, and
what is said of its numbers follows from the facts that its law declares and from what was asked for.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError, InvalidParameterError, NoiseWarning
from ..origin import RegressionRequest, Request, SparseRequest
from ..reading import Regression
from ..releases import Release

FloatArray = NDArray[np.float64]

SHOWN_EIGENVALUES = 15
SHOWN_COMPONENTS = 6
SHOWN_FEATURES = 24
# Intervals simulate 199 noise matrices, which takes ten seconds at this many features.
INTERVAL_FEATURES = 300
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
        Whether they are sparse components, and so not the eigenvectors that belong to `eigenvalues`.
    eigenvalues : ndarray of shape (d,)
        Estimates, freed of the bias of the noise where its law is known.
    released_eigenvalues : ndarray of shape (d,)
        Of the matrix as it was released.
    shares : ndarray of shape (d,) or (k,)
        Of the total variance, of all eigenvalues; of the components where these are sparse.
    intervals : ndarray of shape (m, 2)
        95 % intervals of the first eigenvalues.
    edge : float
        A released eigenvalue below it may be noise alone.
    alignments : ndarray of shape (d,)
        Estimated squared cosine between each released eigenvector and the true one.
    correlations : ndarray of shape (d, d)
        Where the matrix is what was asked for; about the origin if not centred.
    regression : Regression
        Where one was asked for.
    predictors : tuple of int
        Positions of the coefficients that move the prediction most.
    notes : tuple of str
        What a reader should know about these numbers.
    """

    names: tuple[str, ...]
    components: FloatArray
    sparse: bool = False
    eigenvalues: FloatArray | None = None
    released_eigenvalues: FloatArray | None = None
    shares: FloatArray | None = None
    intervals: FloatArray | None = None
    edge: float | None = None
    alignments: FloatArray | None = None
    correlations: FloatArray | None = None
    regression: Regression | None = None
    predictors: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def n_visible(self) -> int | None:
        """How many released eigenvalues pass the noise edge."""
        if self.edge is None or self.released_eigenvalues is None:
            return None
        return int(np.sum(self.released_eigenvalues > self.edge))

    @property
    def running_shares(self) -> FloatArray | None:
        """Shares of the first components together."""
        return None if self.shares is None else np.minimum(np.cumsum(self.shares), 1.0)

    @property
    def needs_root_scale(self) -> bool:
        """Whether the first eigenvalue would flatten all others on a linear axis."""
        if self.eigenvalues is None:
            return False
        values = self.eigenvalues[:SHOWN_EIGENVALUES]
        return bool(values[values.size // 2] < 0.05 * values[0])

    def top(self, count: int) -> float:
        """Return the largest value in a plot of the first `count` eigenvalues."""
        assert self.eigenvalues is not None
        assert self.released_eigenvalues is not None
        ends = [self.eigenvalues[:count], self.released_eigenvalues[:count]]
        ends += [] if self.intervals is None else [self.intervals[:count, 1]]
        return max(0.0, self.edge or 0.0, *(float(end.max()) for end in ends))

    def leading_features(self, count: int = SHOWN_FEATURES) -> list[int]:
        """Return the features with the largest loadings on the shown components, in their own order."""
        weight = (self.components[:SHOWN_COMPONENTS] ** 2).sum(axis=0)
        return sorted(int(j) for j in np.argsort(-weight, kind="stable")[:count])


def read(release: Release, *, with_intervals: bool = True) -> Shown:
    """Return what is shown of a release; the release is all it takes.

    Examples
    --------
    >>> from eigenveil.guarantee import Guarantee
    >>> from eigenveil.origin import Origin
    >>> from eigenveil.row_rule import RowRule
    >>> origin = Origin(law="a law of tomorrow", parameters={}, rows=RowRule(1.0), n_rows=4)
    >>> release = Release({"matrix": np.diag([6, 2])}, {"matrix": 1.0}, Guarantee(1.0), origin)
    >>> shown = read(release)
    >>> shown.names, shown.eigenvalues.tolist(), shown.edge
    (('x0', 'x1'), [1.5, 0.5], None)
    """
    _check(release)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NoiseWarning)  # what it says is read by whoever reads the numbers
        shown = _read(release, with_intervals)
    heard = dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, NoiseWarning))
    return replace(shown, notes=(*shown.notes, *heard))


def _read(release: Release, with_intervals: bool) -> Shown:
    d = release.n_features
    if release.has_matrix:
        _ = release.scaled_matrix  # which may say that noise hides a feature
    components = _components(release)
    names, notes = _names(release), tuple(_notes(release, len(components)))
    if not release.has_matrix:
        return Shown(names, components, notes=notes)
    estimate = release.estimate if release.has_noise_law else None
    # Sampled directions left with variances of their own; the eigenvalues of a matrix rebuilt from them did not.
    drawn = release.law is not None and release.law.releases == "directions"
    regression = release.regression if release.has_noise_law else None
    return Shown(
        names=names,
        components=components,
        sparse=isinstance(release.origin.request, SparseRequest),
        eigenvalues=release.eigenvalues,
        released_eigenvalues=release.eigenvalues if drawn else release._eigensystem[0],
        shares=_shares(release, len(components)),
        intervals=release.eigenvalue_interval(min(SHOWN_EIGENVALUES, d))
        if with_intervals and d <= INTERVAL_FEATURES
        else None,
        edge=_gaussian_edge(release) if estimate is None else estimate.edge + release.without_signal,
        alignments=None if estimate is None else estimate.alignments,
        correlations=release.correlation if release.origin.request.kind in _MATRIX_REQUESTS else None,
        regression=regression,
        predictors=() if regression is None else _predictors(release, regression),
        notes=notes,
    )


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
            if release.law is not None:
                raise
            # Integers of a law of a later version may mean nothing here; its guarantee and its origin still do.
            return np.empty((0, release.n_features))


def _shares(release: Release, n_components: int) -> FloatArray | None:
    if isinstance(release.origin.request, SparseRequest) and n_components:
        return release.explained_variance_ratio
    total = release.total_variance
    values = release.eigenvalues
    return np.minimum(values / total, 1.0) if total > 0 else np.zeros_like(values)


def _gaussian_edge(release: Release) -> float | None:
    """Return the edge of Gaussian noise of the same size, which the sum of many local reports is close to."""
    if release.origin.model != "local" or release.noise_sd is None:
        return None
    return 2 * release.noise_sd * math.sqrt(release.n_features)


def _predictors(release: Release, regression: Regression) -> tuple[int, ...]:
    assert release.covariance is not None
    spread = np.sqrt(np.maximum(np.diag(release.covariance), 0.0))[list(regression.features)]
    largest = np.argsort(-np.abs(regression.coef) * spread, kind="stable")[:SHOWN_FEATURES]
    return tuple(sorted(int(position) for position in largest))


def _notes(release: Release, n_components: int) -> Iterator[str]:
    """Yield what a reader should know, from the facts of law, rows and request."""
    law, rows = release.law, release.origin.rows
    if law is None and release.has_matrix:
        yield "The law of the noise is not known here, so the eigenvalues are shown as released."
    elif law is None:
        yield "The law of this release is not known here, and with it the order of any directions."
    if not n_components:
        yield "This version of eigenveil cannot tell components from it; a later one may."
    elif not release.has_matrix:
        yield "Only directions were released, so there are no eigenvalues and no shares of variance."
    if law is not None and not release.ordered:
        yield "The directions span the released subspace and have no order of importance."
    if rows.scale is not None:
        yield "Loadings and variances refer to the features after scaling."
    if release.has_matrix:
        yield from _matrix_notes(release)


def _matrix_notes(release: Release) -> Iterator[str]:
    law, rows, request = release.law, release.origin.rows, release.origin.request
    if request.correlation and rows.keeps_lengths:
        yield "Components and variances are those of the correlation matrix, by the variances that were released."
    if rows.rows == "signs":
        yield "Only signs of differences between rows were used: this is a correlation matrix, by the sine rule."
    elif rows.compares:
        yield "Rows are directions of differences between rows, so variances have no unit; compare shares."
    elif not rows.keeps_lengths:
        yield "Rows were all brought to length 1, so variances have no unit; compare shares."
    elif not release.centred:
        about = "the origin" if rows.shift is None else "the public shift"
        yield f"Variances are about {about}: the mean was not subtracted, so the first direction may be it."
    if rows.mapped_from is not None:
        yield (
            "Rows were mapped by a public matrix after a first look, and the release is mapped back: its noise is "
            "larger along strong directions than along weak ones."
        )
    if release.origin.model == "local" and not release.has_noise_law:
        yield "In the local model variances are shown as released: they are not freed of bias here."
        if release.noise_sd is not None:
            yield "The noise edge is that of Gaussian noise of the same size: the sum of many reports is close to it."
    if law is not None and law.releases == "directions":
        yield (
            "Directions were sampled and their variances released with noise of their own; other directions share the "
            "rest of the total evenly. There are no intervals and no noise edge."
        )
    if isinstance(request, SparseRequest):
        yield (
            "The components are sparse: they are computed from the released matrix, loadings that are zero are exactly "
            "so, and shares are of the variance along them. The eigenvalues are those of the whole matrix."
        )
    if isinstance(request, RegressionRequest):
        yield (
            "The matrix holds the features and the target of a regression, which are shown alike in correlations and "
            "loadings; the coefficients are computed from it."
        )
    if not release.has_noise_law:
        return
    if release.n_features > INTERVAL_FEATURES:
        yield f"Intervals are left out above {INTERVAL_FEATURES} features, where they take long."
        return
    if release.centred:
        yield "The intervals take the released mean as it is, so they are approximate."
    if law is not None and not release.isotropic:
        yield "For this noise the coverage of the intervals is known by experiment, not by proof."


def _names(release: Release) -> tuple[str, ...]:
    names, width = release.feature_names, release.n_features
    if names is None or len(names) != width:
        return tuple(f"x{position}" for position in range(width))
    # Names are public but not trusted: whatever cannot be printed, such as a change of direction, becomes visible.
    return tuple("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(name)) for name in names)
