"""Comparison of two releases: what they have in common, and whether noise explains the differences."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..accounting.composition import compose
from ..errors import InvalidParameterError
from ..guarantee import Guarantee
from ..notebook import notebook_table
from ..uncertainty import ANGLE, with_error

if TYPE_CHECKING:
    from .record import Release


_BOTH = 0.975


@dataclass(frozen=True, eq=False)
class Comparison:
    """Comparison of two releases; a value is None if it cannot be computed.

    Attributes
    ----------
    affinity : float or None
        Share of the smaller set of components that lies in the span of the other: 1 for the same subspace, about k/d
        for unrelated ones. None where the features were scaled differently, or one alone is of correlations.
    cosines : ndarray of shape (k,) or None
        Of the angles between components of the same rank, without sign.
    cosines_by_noise : ndarray of shape (k,) or None
        95 % lower bounds of these cosines if the releases differ by noise only; 0 if a direction is undetermined.
    distance : float or None
        Root mean square of the off-diagonal differences of the matrices, in standard deviations of the noise: about 1
        if they differ by noise only.
    together : Guarantee or None
        Guarantee of both releases together, if they used the same rows; None for different adjacencies or units.
    notes : tuple of str
        Why a value is None.
    angle : float or None
        The largest angle between the two subspaces, in degrees.
    angle_interval : ndarray of shape (2,) or None
        95 % confidence interval for this angle without noise.
    """

    affinity: float | None
    cosines: NDArray[np.float64] | None
    distance: float | None
    together: Guarantee | None
    notes: tuple[str, ...] = ()
    cosines_by_noise: NDArray[np.float64] | None = None
    angle: float | None = None
    angle_interval: NDArray[np.float64] | None = None

    def facts(self) -> dict[str, str]:
        """Return the comparison in words, by topic."""
        told = {}
        if self.affinity is not None:
            told["subspaces"] = f"{self.affinity:.1%} in common (100 % is the same)"
        if self.angle is not None:
            told["largest angle"] = f"{with_error(self.angle, self.angle_interval, ANGLE)} degrees"
        if self.cosines is not None:
            least = [None] * len(self.cosines) if self.cosines_by_noise is None else self.cosines_by_noise
            cosines = []
            for value, one in zip(self.cosines, least, strict=True):
                by_noise = "" if one is None else f" (noise alone: {f'{one:.3f} to 1' if one > 0 else 'any'})"
                cosines.append(f"{value:.3f}{by_noise}")
            told["components"] = f"cosines {', '.join(cosines)}"
        if self.distance is not None:
            told["matrices"] = f"{self.distance:.2g} standard deviations of the noise apart (about 1 is noise alone)"
        if self.together is not None:
            told["both together, if about the same rows"] = str(self.together)
        return told

    def _repr_html_(self) -> str:
        """Return the comparison as HTML for a notebook."""
        return notebook_table("Comparison", self.facts(), self.notes)


def compare(first: "Release", second: "Release") -> Comparison:
    """Compare two releases of the same features. Spends no budget.

    Examples
    --------
    >>> from eigenveil import RowBound, SecondMoments, release
    >>> from eigenveil.mechanisms import MECHANISMS
    >>> rows = np.random.default_rng(0).normal(size=(50_000, 3)) * [1.0, 0.2, 0.1]
    >>> moments = SecondMoments(RowBound(1.0), 3).update(rows)
    >>> mechanism = MECHANISMS["matrix_laplace"](epsilon=1.0, n_features=3, n_components=1)
    >>> found = compare(release(mechanism, moments), release(mechanism, moments))
    >>> round(found.affinity, 2), found.distance < 10, found.together.epsilon
    (1.0, True, 2.0)
    """
    if first.n_features != second.n_features:
        raise InvalidParameterError("The releases have different numbers of features, so nothing can be compared.")
    if None not in (first.feature_names, second.feature_names) and first.feature_names != second.feature_names:
        raise InvalidParameterError("The releases are about different features, so nothing can be compared.")
    notes = []
    affinity = cosines = least = angle = ends = None
    # Features that are brought to variance 1 are the same, whatever each release tells of their sizes.
    correlations = first.matrix.of_correlation and second.matrix.of_correlation
    if correlations or (
        first.matrix.of_correlation == second.matrix.of_correlation and np.allclose(first.scale, second.scale)
    ):
        overlaps = first.components @ second.components.T
        k = min(overlaps.shape)
        affinity = float(np.sum(overlaps**2) / k)
        angle = float(np.degrees(np.arccos(min(1.0, float(np.linalg.svd(overlaps, compute_uv=False)[-1])))))
        errors = first.spectrum.loading_errors(_BOTH), second.spectrum.loading_errors(_BOTH)
        ordered = first.spectrum.ordered and second.spectrum.ordered
        if ordered:
            cosines = np.abs(np.diag(overlaps))[:k]
        if errors[0] is not None and errors[1] is not None:
            # Each angle to the truth stays below its bound in 97.5 of 100 releases, and angles add up at most.
            off = errors[0].subspace_bound + errors[1].subspace_bound
            ends = np.clip([angle - off, angle + off], *ANGLE)
            if ordered:
                farthest = np.minimum(errors[0].angle_bound[:k] + errors[1].angle_bound[:k], 90.0)
                least = np.where(farthest < 90, np.cos(np.radians(farthest)), 0.0)
    else:
        notes.append("The features were scaled differently, so components are not compared.")
    distance = _distance(first, second)
    if distance is None:
        notes.append("The matrices are not of the same kind with known noise, so they are not compared.")
    kinds = [(one.guarantee.adjacency, one.guarantee.unit, one.origin.model) for one in (first, second)]
    together = compose([first.guarantee, second.guarantee]) if kinds[0] == kinds[1] else None
    if first.guarantee.unit is not second.guarantee.unit:
        notes.append("The releases have different privacy units, so their guarantees do not compose.")
    return Comparison(affinity, cosines, distance, together, tuple(notes), least, angle, ends)


def _distance(first: "Release", second: "Release") -> float | None:
    one, other = first.matrix.row_noise_sd, second.matrix.row_noise_sd
    kinds = [
        (release.matrix.centred, release.origin.row_rule.statistic, release.matrix.has_known_noise)
        for release in (first, second)
    ]
    if kinds[0] != kinds[1] or not kinds[0][2] or one is None or other is None:
        return None
    if not first.origin.row_rule.keeps_lengths and not np.allclose(first.matrix.row_scale, second.matrix.row_scale):
        return None  # directions have no units to go back to
    still = {*first.origin.without_range, *second.origin.without_range}
    told = [feature for feature in range(first.n_features) if feature not in still]
    if len(told) < 2:
        return None
    # In the user's units, where both mean the same; correlations are made of the same matrix.
    units = [np.outer(release.matrix.row_scale, release.matrix.row_scale) for release in (first, second)]
    difference = first.matrix.row_matrix / units[0] - second.matrix.row_matrix / units[1]
    sd = np.hypot(one / units[0], other / units[1])
    beside = np.triu_indices(len(told), 1)
    return float(np.sqrt(np.mean((difference / sd)[np.ix_(told, told)][beside] ** 2)))
