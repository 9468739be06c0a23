"""Which linear map should rows go through before a second release, computed from a first one.

A pilot estimate M = A + N shows the strong directions of A. Rows mapped by P = A^(-g/2), as far as M shows it, are
shorter in these, so a bound on them is lower, and the noise of a second release is too; mapped back, it is larger again
along the strong directions, where it matters least. What is gained is forecast to first order from M, which is public.
docs/explanation/privacy_budget.md derives the formulas.
"""

import math
import operator
from dataclasses import dataclass

import numpy as np

from ..numerics import FloatArray
from .spectrum import sorted_eigenvalues, sorted_eigh, surely_below

POWERS = (0.25, 0.5, 0.75, 1.0)
"""Exponents g that are considered, beside 0: no map."""
MOST_RELATIVE_LOSS = 0.8
"""A map is used if its expected loss is at most this share of the loss without a map."""


@dataclass(frozen=True, eq=False)
class PilotSpectrum:
    """The spectrum as a first release shows it.

    Attributes
    ----------
    variances : ndarray of shape (d,)
        Estimated eigenvalues of A, descending: of those above the noise edge without their bias, of the rest the
        average that the trace leaves.
    matrix : ndarray of shape (d, d)
        The release. Its eigenvectors take longer to find than its eigenvalues, and are asked for where a map is made.
    edge : float
        The noise edge, 2 sd sqrt(d).
    n_visible : int
        Eigenvalues above it.
    """

    variances: FloatArray
    matrix: FloatArray
    edge: float
    n_visible: int


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """A map for rows, and its expected loss.

    Attributes
    ----------
    power : float
        The exponent g.
    matrix : ndarray of shape (d, d)
        P, symmetric, of norm 1.
    squared_reach : float
        The expected squared bound of mapped rows, in units of that before.
    relative_loss : float
        The forecast loss in units of that without a map, if the bound is as expected.
    """

    power: float
    matrix: FloatArray
    squared_reach: float
    relative_loss: float

    def is_good_enough(self, squared_reach: float) -> bool:
        """Return whether its expected loss is still low enough with the bound that was found."""
        return self.relative_loss * (squared_reach / self.squared_reach) ** 2 <= MOST_RELATIVE_LOSS


def _edge(d: int, noise_sd: float) -> float:
    return 2 * noise_sd * math.sqrt(d)


def pilot_spectrum(matrix: FloatArray, noise_sd: float) -> PilotSpectrum:
    """Read the spectrum off a release with rotation-invariant noise of this sd beside the diagonal.

    Examples
    --------
    >>> pilot = pilot_spectrum(np.diag([10.0, 1.0, 0.0, 0.0]), 0.1)
    >>> pilot.n_visible, pilot.variances.round(2).tolist()
    (2, [10.0, 0.96, 0.02, 0.02])
    """
    values, edge = sorted_eigenvalues(matrix), _edge(len(matrix), noise_sd)
    d = values.size
    visible = values > edge
    # A spike a of A shows at a + sd^2 d / a.
    spikes = np.where(visible, (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))) / 2, 0.0)
    rest = (values.sum() - spikes.sum()) / max(1, d - visible.sum())
    variances = np.where(visible, spikes, np.clip(rest, 1e-3 * edge / d, edge / 2))
    return PilotSpectrum(variances, matrix, edge, int(visible.sum()))


def forecast_loss(pilot: PilotSpectrum, factors: FloatArray, noise_sd: float, n_components: int | None) -> float:
    """Return the expected loss to first order where rows were mapped by these factors in their eigenbasis.

    The noise of entry (i, j), mapped back, has sd noise_sd/(f_i f_j). For k directions the loss of captured variance is
    the sum over i <= k < j of its variance divided by the gap. For a matrix it is the sum of the variances of all
    entries in rows or columns of visible directions: in the others shrinkage takes the noise away.
    """
    growth, variances = 1 / factors**2, pilot.variances
    if n_components is None or n_components >= variances.size:
        visible = growth[: pilot.n_visible].sum()
        return float(noise_sd**2 * visible * (2 * growth.sum() - visible))
    k = n_components
    gaps = np.maximum(variances[:k, None] - variances[k:], 1e-12 * variances[0])
    return float(noise_sd**2 * np.sum(growth[:k, None] * growth[k:] / gaps))


def preconditioner_after(
    matrix: FloatArray, first_sd: float, n_components: int | None, noise_sd: float, second_noise_sd: float
) -> Preconditioner | None:
    """Return the `best_preconditioner` after a pilot estimate with noise of `first_sd`; no spectrum if none is needed.

    Where no eigenvalue is above the edge e there is no map. Else factors f of a map are at most 1, so that what they do
    to the noise raises the loss, and its relative loss is at least (s r)^2, s the noise of the second release over that
    without a map and r the squared reach, a mean of f^2. f^2 is at least (a/e)^(-g) for the largest spike a, if that is
    above e, and g at most 1. So no map is good enough as long as a is below e s/sqrt(`MOST_RELATIVE_LOSS`); and an
    eigenvalue at a shows at a + e^2/(4a).

    Examples
    --------
    >>> spectrum = np.arange(1, 101) ** -2.0
    >>> preconditioner_after(np.diag(spectrum), 1e-4, 3, 1e-4, 1.1e-4).power
    0.5
    >>> preconditioner_after(np.eye(100), 0.04, 3, 0.01, 0.011) is None
    True
    """
    least = second_noise_sd / noise_sd / math.sqrt(MOST_RELATIVE_LOSS)
    if surely_below(matrix, _edge(len(matrix), first_sd) * (least + 1 / (4 * least) if least > 1 else 1.0)):
        return None
    return best_preconditioner(pilot_spectrum(matrix, first_sd), n_components, noise_sd, second_noise_sd)


def best_preconditioner(
    pilot: PilotSpectrum, n_components: int | None, noise_sd: float, second_noise_sd: float
) -> Preconditioner | None:
    """Return the map of least expected loss; None if none is good enough.

    Parameters
    ----------
    pilot : PilotSpectrum
    n_components : int, optional
        How many directions are wanted; None for the matrix.
    noise_sd : float
        Of a release without a map, of all that is left of the budget.
    second_noise_sd : float
        Of a second release, on the scale of mapped rows whose bound is that of the rows before.

    Examples
    --------
    >>> spectrum = np.arange(1, 101) ** -2.0
    >>> best_preconditioner(pilot_spectrum(np.diag(spectrum), 1e-4), 3, 1e-4, 1.1e-4).power
    0.5
    >>> best_preconditioner(pilot_spectrum(np.eye(100), 1e-4), 3, 1e-4, 1.1e-4) is None
    True
    """
    if pilot.n_visible == 0:
        return None
    variances = pilot.variances
    floored = np.maximum(variances, pilot.edge)
    alone = forecast_loss(pilot, np.ones_like(variances), noise_sd, n_components)
    candidates: list[tuple[float, float, float, FloatArray]] = []
    for power in POWERS:
        factors = (floored / floored.min()) ** (-power / 2)
        squared_reach = float(variances @ factors**2 / variances.sum())
        relative_loss = forecast_loss(pilot, factors, second_noise_sd * squared_reach, n_components) / alone
        if relative_loss <= MOST_RELATIVE_LOSS:
            candidates.append((relative_loss, power, squared_reach, factors))
    if not candidates:
        return None
    relative_loss, power, squared_reach, factors = min(candidates, key=operator.itemgetter(0))
    directions = sorted_eigh(pilot.matrix)[1]
    return Preconditioner(power, np.asarray((directions.T * factors) @ directions), squared_reach, relative_loss)
