"""From a release to the numbers that a report or a plot shows; the release file is all it takes."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidDataError, InvalidParameterError
from ..mechanisms import MECHANISMS, ReleasedMatrix
from ..postprocess import eigenvalue_intervals, sorted_eigh
from ..postprocess.shrinkage import released_matrix
from ..release import Release

FloatArray = NDArray[np.float64]

SHOWN_EIGENVALUES = 15
# Intervals simulate 199 noise matrices, which takes ten seconds at this many features.
INTERVAL_FEATURES = 300
# Their noise is not the same in every direction, where the proof of the intervals wants it so.
_NOT_INVARIANT = ("laplace", "mod_sulq")
_MATRIX_ESTIMATORS = ("PrivateCovariance", "PrivateRidge")


@dataclass(frozen=True, eq=False)
class Reading:
    """What can be shown of a release; a value is None where the release does not tell it.

    Attributes
    ----------
    names : tuple of str
        Of the features, in order; x0, x1, ... where the release has none.
    components : ndarray of shape (k, d)
        Directions, most important first unless `ordered` is False.
    eigenvalues : ndarray of shape (d,)
        Estimates, freed of the bias of the noise where its law is known; `total` is what shares refer to.
    released_eigenvalues : ndarray of shape (d,)
        Of the matrix as it was released.
    intervals : ndarray of shape (m, 2)
        95 % intervals of the first eigenvalues.
    edge : float
        A released eigenvalue below it may be noise alone.
    alignments : ndarray of shape (d,)
        Estimated squared cosine between each direction and the true one.
    correlations : ndarray of shape (d, d)
        Of the shrunk matrix, where the matrix itself is what was asked for; about the origin if not centred.
    notes : tuple of str
        What a reader should know about these numbers.
    """

    names: tuple[str, ...]
    components: FloatArray
    ordered: bool = True
    eigenvalues: FloatArray | None = None
    total: float = 0.0
    released_eigenvalues: FloatArray | None = None
    intervals: FloatArray | None = None
    edge: float | None = None
    alignments: FloatArray | None = None
    correlations: FloatArray | None = None
    notes: tuple[str, ...] = ()

    @property
    def shares(self) -> FloatArray | None:
        """Explained variance of every direction as a share of the total."""
        if self.eigenvalues is None:
            return None
        return np.minimum(self.eigenvalues / (self.total if self.total > 0 else 1.0), 1.0)

    @property
    def n_visible(self) -> int | None:
        """How many released eigenvalues pass the noise edge."""
        if self.edge is None or self.released_eigenvalues is None:
            return None
        return int(np.sum(self.released_eigenvalues > self.edge))


def read(release: Release, *, with_intervals: bool = True) -> Reading:
    """Return what a report shows of a release."""
    for value in release.arrays.values():
        if not np.isfinite(value).all():
            raise InvalidDataError("The release holds values that are not finite, so there is nothing to show.")
    if release.covariance is None:
        return _directions_only(release)
    if release.provenance.get("model") == "local":
        return _local(release)
    matrix = _matrix(release)
    if matrix is None:
        note = "The law of the noise is not known here, so the eigenvalues are shown as released."
        return _plain(release, released_matrix(release.covariance), note)
    return _central(release, matrix, with_intervals)


def _directions_only(release: Release) -> Reading:
    if release.components is None or release.components.ndim != 2:
        raise InvalidDataError("The release has neither a covariance nor components, so there is nothing to show.")
    notes = ["Only directions were released, so there are no eigenvalues and no shares of variance."]
    ordered = release.provenance.get("mechanism") not in ("ppca", "random_projection")
    if not ordered:
        notes.append("The directions span the released subspace and have no order of importance.")
    return Reading(_names(release, release.components.shape[1]), release.components, ordered, notes=tuple(notes))


def _matrix(release: Release) -> ReleasedMatrix | None:
    """Rebuild the mechanism from the public parameters in the file; None where this version does not know it."""
    facts = release.provenance
    if facts.get("mechanism") not in MECHANISMS or release.covariance is None:
        return None
    try:
        mechanism = MECHANISMS[facts["mechanism"]](**facts["parameters"])
        if mechanism.n_features != released_matrix(release.covariance).shape[0]:
            return None
        return ReleasedMatrix(release, mechanism)
    except (KeyError, TypeError, InvalidParameterError):
        return None


def _central(release: Release, matrix: ReleasedMatrix, with_intervals: bool) -> Reading:
    facts = release.provenance
    centred = facts["bound"].get("constant") is not None
    notes = _notes(facts, centred)
    values, directions = sorted_eigh(matrix.value)
    components = directions if centred or release.components is None else release.components
    alignments, edge, intervals = None, None, None
    if not matrix.has_noise_law:
        if "eigenvalues" in release.arrays:
            values = matrix.eigenvalues
            notes.append(
                "Directions were sampled and their variances released with noise of their own; the other directions "
                "share the rest of the total evenly. There are no intervals and no noise edge."
            )
    else:
        alignments, edge = matrix.estimate.alignments, matrix.estimate.edge
        if not with_intervals:
            pass
        elif values.size > INTERVAL_FEATURES:
            notes.append(f"Intervals are left out above {INTERVAL_FEATURES} features, where they take long.")
        else:
            count = min(SHOWN_EIGENVALUES, values.size)
            intervals = eigenvalue_intervals(matrix.value, matrix.noise_draw, n_components=count)
            if centred:
                notes.append("The intervals take the released mean as it is, so they are approximate.")
            if facts["mechanism"] in _NOT_INVARIANT or facts["parameters"].get("calibration") == "paper":
                notes.append("For this noise the coverage of the intervals is known by experiment, not by proof.")
    return Reading(
        names=_names(release, values.size),
        components=components,
        eigenvalues=matrix.eigenvalues,
        total=float(matrix.eigenvalues.sum()),
        released_eigenvalues=values,
        intervals=intervals,
        edge=edge,
        alignments=alignments,
        correlations=_correlations(matrix.shrunk) if facts.get("estimator") in _MATRIX_ESTIMATORS else None,
        notes=tuple(notes),
    )


def _correlations(matrix: FloatArray) -> FloatArray:
    sizes = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    sizes[sizes == 0] = np.inf  # a feature without variance correlates with nothing
    return np.asarray(np.clip(matrix / np.outer(sizes, sizes), -1.0, 1.0))


def _notes(facts: Any, centred: bool) -> list[str]:
    notes = []
    bound = facts["bound"]
    if not centred and facts.get("rows") != "pairs":
        notes.append("Variances are about the origin: the mean was not subtracted, so the first direction may be it.")
    if facts.get("rows") == "pairs":
        notes.append("Rows are directions of differences within pairs, so variances have no unit; compare shares.")
    if bound.get("scale") is not None:
        notes.append("Loadings and variances refer to the features after scaling.")
    if facts.get("estimator") == "PrivateSparsePCA":
        notes.append("The sparse components of the fit are computed from this matrix and are not part of the release.")
    if facts.get("estimator") == "PrivateRidge":
        notes.append("The matrix holds the features and the target of a regression, which are shown alike here.")
    return notes


def _local(release: Release) -> Reading:
    """Return the reading of a collection: its noise is the sum of many reports, nearly Gaussian."""
    from ..local.protocol import LocalProtocol

    facts = release.provenance
    assert release.covariance is not None
    note = "Variances are about the origin, and as released: in the local model they are not freed of bias here."
    reading = _plain(release, released_matrix(release.covariance), note)
    try:
        parameters = {name: value for name, value in facts["parameters"].items() if name != "format"}
        protocol = LocalProtocol(**parameters)
        sd = protocol.law.off_diagonal_sd * protocol.norm_bound**2 / math.sqrt(facts["n_rows"])
    except (KeyError, TypeError, AttributeError, ValueError, ZeroDivisionError):
        return reading
    edge_note = "The noise edge is that of Gaussian noise of the same size, which the sum of many reports is close to."
    return Reading(
        names=reading.names,
        components=reading.components,
        eigenvalues=reading.eigenvalues,
        total=reading.total,
        released_eigenvalues=reading.released_eigenvalues,
        edge=2 * sd * math.sqrt(len(reading.names)),
        notes=(*reading.notes, edge_note),
    )


def _plain(release: Release, matrix: FloatArray, note: str) -> Reading:
    """Return a reading without any knowledge of the noise."""
    values, directions = sorted_eigh(matrix)
    components = directions if release.components is None else release.components
    if components.ndim != 2 or components.shape[1] != values.size:
        raise InvalidDataError("The components of the release do not have the width of its covariance.")
    return Reading(
        names=_names(release, values.size),
        components=components,
        eigenvalues=np.maximum(values, 0.0),
        total=max(0.0, float(np.trace(matrix))),
        released_eigenvalues=values,
        notes=(note,),
    )


def _names(release: Release, width: int) -> tuple[str, ...]:
    names = release.feature_names
    if names is None or len(names) != width:
        return tuple(f"x{position}" for position in range(width))
    # Names are public but not trusted: whatever cannot be printed, such as a change of direction, becomes visible.
    return tuple("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(name)) for name in names)
