"""Least squares from a released second moment, with confidence intervals at any strength of identification.

At the true coefficients b of a release M = A + N the score M_xy - M_xx b is pure noise, of a variance that is a
quadratic form of b. So a value of a contrast c'b is kept if some b with this value has a score that noise may have: the
subset Anderson-Rubin test, inverted in closed form. The kept set is bounded or not; where it is not, no finite interval
is honest without a bound on b (Dufour 1997). docs/research/regression_intervals.md has proofs and measured coverage.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ..numerics import FloatArray
from .entries import MatrixError, block_of
from .spectrum import Eigensystem

# The second-order correction of the score may be this share of the smallest variance of the features, by experiment:
# beyond it coverage falls below 0.93.
_CROWDED = 0.6
# A contrast with less than this share in resolved directions is not identified: a bound is then all that is known.
_IDENTIFIED_SHARE = 0.9
# The largest eigenvalue of p by p noise is about 2 sqrt(p) deviations, and fluctuates.
_BEYOND_EDGE = 1.0
# Numbers of so many contrasts at once.
_AT_ONCE = 2**18
# A target whose variance is below so many deviations of its noise has no share of it to explain.
_VISIBLE = 5.0


@dataclass(frozen=True, eq=False)
class Estimate:
    """An estimate of one number of a regression: a contrast of coefficients or a fitted mean.

    Attributes
    ----------
    value : float
    interval : ndarray of shape (2,)
        Confidence interval; infinite where no finite one is honest.
    noise_error, sampling_error : float
        Standard errors of the privacy noise and of sampling the rows; infinite where the value is not resolved.
    resolved_share : float
        Share of the contrast that lies in directions of the features that are distinguishable from noise.
    sign_certain_up_to : float
        The sign is certain if the part of the coefficients in the other directions, as a vector for the scaled
        features, is no longer than this; infinite where all are resolved, 0 where the sign is not certain.
    """

    value: float
    interval: FloatArray
    noise_error: float = math.inf
    sampling_error: float = math.inf
    resolved_share: float = 0.0
    sign_certain_up_to: float = 0.0

    @property
    def resolved(self) -> bool:
        """Whether the interval is finite."""
        return bool(np.isfinite(self.interval).all())


@dataclass(frozen=True)
class _Extent:
    """The extent of the kept coefficients along a contrast: centre -+ sqrt(spread allowance).

    The allowance grows by `noise` for a unit of squared length of further coefficients, and by `score_variance` for a
    unit of sampling variance.
    """

    centre: float
    spread: float
    allowance: float
    noise: float
    score_variance: float

    def interval(self, sampling: float, more: float = 0.0) -> FloatArray:
        allowance = self.allowance + sampling * self.score_variance + self.noise * more
        half = math.sqrt(self.spread * allowance)
        return np.array([self.centre - half, self.centre + half])

    def certain_up_to(self, sampling: float, hidden: float, longer: tuple[float, float]) -> float:
        """Return up to which length B of the coefficients the interval does not contain 0.

        That is the smaller root of (|centre| - hidden B)^2 = spread (allowance + noise (square B^2 + linear B)).
        """
        size, (square, linear) = abs(self.centre), longer
        constant = size**2 - self.spread * (self.allowance + sampling * self.score_variance)
        if constant <= 0:
            return 0.0
        first = 2 * size * hidden + self.spread * self.noise * linear
        second = self.spread * self.noise * square - hidden**2
        root = math.sqrt(max(first**2 + 4 * second * constant, 0.0))
        return 2 * constant / (first + root) if first + root > 0 else math.inf  # without cancellation


class LeastSquares:
    """Least squares of the last column of M = A + N on all others.

    Parameters
    ----------
    matrix : ndarray of shape (p + 1, p + 1)
        M, raw.
    error : MatrixError
        Of M; its quantiles have the level of the intervals.
    per_row : float
        One over the number of rows, for sampling errors.
    population : bool
        Whether intervals are for the population that the rows were sampled from, or for the rows.

    Examples
    --------
    >>> from eigenveil.postprocess.entries import plain_error
    >>> A = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0], [2.0, -1.0, 5.5]])
    >>> fit = LeastSquares(A, plain_error(3, 1e-4, level=0.95))
    >>> fit.contrast([1.0, 0.0]).interval.round(2), fit.contrast([1.0, 1.0]).interval.round(2)
    (array([1.94, 2.06]), array([0.93, 1.07]))
    >>> LeastSquares(A, plain_error(3, 0.2, level=0.95)).contrast([1.0, 0.0]).interval
    array([-inf,  inf])
    """

    def __init__(
        self, matrix: FloatArray, error: MatrixError, *, per_row: float = 0.0, population: bool = False
    ) -> None:
        self._released, self.error, self.per_row, self.population = matrix, error, per_row, population
        self._known: dict[int, FloatArray] = {}
        self.n_features = len(matrix) - 1
        self._quantile = max(error.quantiles)
        # Negative values of `extra` are left out, which is safe: they lower every variance.
        self._variance = error.beside + max(0.0, float(np.max(error.extra, initial=0.0)))

    @cached_property
    def matrix(self) -> FloatArray:
        """M without the bias of a noisy mean."""
        matrix = self._released.copy()
        matrix.flat[:: len(matrix) + 1] -= self.error.mean_bias
        return matrix

    # Directions v of the features, in units in which noise is the same in all of them: v'Gv = 1.

    @cached_property
    def _system(self) -> Eigensystem | None:
        root, p = self.error.inverse_product_root(self.n_features), self.n_features
        return None if root is None else Eigensystem(root(root(self.matrix[:p, :p]).T))

    @cached_property
    def _of_uneven_noise(self) -> tuple[FloatArray, FloatArray]:
        p = self.n_features
        try:
            values, vectors = scipy.linalg.eigh(self.matrix[:p, :p], self.error.products[:p, :p])
        except np.linalg.LinAlgError:  # a mean so far off that the features cannot be told apart beside it
            return np.zeros(p), np.eye(p)
        return values, vectors

    @cached_property
    def _values(self) -> FloatArray:
        """Variances along the directions, ascending."""
        return self._of_uneven_noise[0] if self._system is None else self._system.values[::-1]

    def _top(self, kept: NDArray[np.bool_]) -> FloatArray:
        """Return the directions that are kept, which are those of the largest variances, as columns."""
        count, root = int(np.sum(kept)), self.error.inverse_product_root(self.n_features)
        if self._system is None or root is None:
            return self._of_uneven_noise[1][:, kept]
        if count not in self._known:
            self._known[count] = root(self._system.rows(count)[::-1].T)
        return self._known[count]

    @property
    def _vectors(self) -> FloatArray:
        """All directions as columns."""
        return self._top(np.ones(self.n_features, np.bool_))

    @cached_property
    def bounded(self) -> bool:
        """Whether every contrast has a finite interval without a bound on the coefficients."""
        values, q = self._values, self._quantile**2 * self._variance
        if values[0] <= 0 or values[0] ** 2 <= q or self._crowding(values) > _CROWDED:
            return False
        everything = np.ones(self.n_features, np.bool_)
        return all(one is not None for one in self._extents(self._vectors, everything))

    @cached_property
    def resolved(self) -> NDArray[np.bool_]:
        """Mask of the directions that are distinguishable from noise."""
        return self._resolved(self._quantile)

    def _resolved(self, quantile: float) -> NDArray[np.bool_]:
        values, noise = self._values, 2 * math.sqrt(self._variance)
        kept, count = np.ones(len(values), np.bool_), -1
        while count != np.sum(~kept):
            count = int(np.sum(~kept))
            kept = values > noise * max(quantile, math.sqrt(count))
        while kept.any() and self._crowding(values[kept]) > _CROWDED:
            kept[np.argmax(kept)] = False
        return kept

    def _crowding(self, values: FloatArray) -> float:
        return self._variance * float(np.sum(1 / values)) / float(values[0])

    @cached_property
    def _in_use(self) -> NDArray[np.bool_]:
        return np.ones(self.n_features, np.bool_) if self.bounded else self.resolved

    def _score(self, kept: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Return the slope and the level of the score along the kept directions, with a mean of 0 to second order.

        The inverse of M_xx depends on the noise of the score: Stein's identity gives the mean of their product.
        """
        values = self._values[kept]
        more = self._variance * float(np.sum(1 / values)) + max(self._variance + self.error.shared, 0.0) / values
        covariances, of_target, _ = self._along(kept)
        return values + more, covariances + more * of_target

    def _along(self, kept: NDArray[np.bool_]) -> FloatArray:
        """M_xy, its products G_xy and the lever of the features, in some of their directions."""
        p = self.n_features
        columns = np.column_stack([self.matrix[:p, p], self.error.product_column(p)[:p], self.error.lever[:p]])
        return np.asarray((self._top(kept).T @ columns).T)

    @cached_property
    def coef(self) -> FloatArray:
        """Coefficients: least squares, corrected for the bias of noise; 0 along directions that are not resolved."""
        slope, level = self._score(self._in_use)
        return np.asarray(self._used @ (level / slope))

    @cached_property
    def _used(self) -> FloatArray:
        return self._top(self._in_use)

    @cached_property
    def _towards(self) -> FloatArray:
        return np.append(-self.coef, 1.0)

    def _score_variances(self, weights: FloatArray | None = None) -> FloatArray:
        """Return the variances of the noise of the score along sums of the directions in use; or along each of them."""
        p, towards, vectors = self.n_features, self._towards, self._used.T
        factor, columns, covariance = self.error.residual_terms(towards)
        along, extra = vectors @ columns[:p], self.error.extra[:p] * towards[:p] ** 2
        if weights is not None:
            along, factor = weights @ along, factor * np.square(weights).sum(axis=1)
        found = np.sum((along @ covariance) * along, axis=1) + factor
        if extra.any():
            found += np.square(vectors if weights is None else weights @ vectors) @ extra
        return np.asarray(found)

    @cached_property
    def _residual_noise(self) -> float:
        return math.sqrt(self.error.variance_along(self._towards))

    @cached_property
    def _residual(self) -> float:
        """The variance of the target beside the fit."""
        # To second order least squares fit noise, by so much.
        fitted = self._score_variances() @ (1 / self._score(self._in_use)[0])
        return float(self._towards @ self.matrix @ self._towards + fitted)

    # Contrasts of coefficients.

    def contrast(self, weights: object, bound: float | None = None) -> Estimate:
        """Return the estimate of a weighted sum of coefficients.

        Parameters
        ----------
        weights : array of shape (p,)
        bound : float, optional
            An upper bound on the length of the coefficients. Without it, the interval is infinite where M_xx has
            directions that are not distinguishable from noise.
        """
        return self.contrasts(np.asarray(weights, np.float64)[None], bound)[0]

    def contrasts(self, weights: FloatArray, bound: float | None = None) -> list[Estimate]:
        """Return the estimates of several weighted sums of coefficients, one for each row of `weights`."""
        # The residual variance at most, as far as noise goes.
        residual = max(0.0, self._residual + self._quantile * self._residual_noise)
        sampling = self.error.normal**2 * self.per_row * residual * self.population
        values, along = weights @ self.coef, weights @ self._used
        (noise, of_rows), extents = self._errors(along), self._extents_of(along, self._in_use)
        unresolved = not self.bounded or None in extents
        hidden = np.linalg.norm(self._hidden_part(weights.T), axis=0) if unresolved else np.zeros(len(weights))
        found = []
        for place, one in enumerate(extents):
            value = float(values[place])
            if self.bounded and one is not None:
                errors = float(noise[place]), float(of_rows[place])
                found.append(Estimate(value, one.interval(sampling), *errors, 1.0, math.inf))
                continue
            c = weights[place]
            (one,) = self._extents_of(c[None] @ self._top(self.resolved), self.resolved) if self.bounded else (one,)
            found.append(self._unresolved(c, float(hidden[place]), value, one, sampling, bound))
        return found

    def _extents_of(self, along: FloatArray, kept: NDArray[np.bool_]) -> list[_Extent | None]:
        return list(self._extents(along, kept)) if kept.any() else [None] * len(along)

    def _unresolved(
        self, c: FloatArray, hidden: float, value: float, found: _Extent | None, sampling: float, bound: float | None
    ) -> Estimate:
        """Return the estimate of a contrast with so much of it in directions not distinguishable from noise."""
        longer, ends, whole = self._longer, np.array([-1.0, 1.0]), float(np.linalg.norm(c))
        share = 1 - (hidden / whole) ** 2 if whole > 0 else 1.0
        if found is None:  # nothing is known but the bound
            ends = ends * (math.inf if bound is None else whole * bound)
            return Estimate(value, ends, math.inf, math.inf, share, 0.0)
        # How far a contrast may move by coefficients of length 1 in directions that are not resolved.
        hidden = whole if share < _IDENTIFIED_SHARE else hidden
        sure = found.certain_up_to(sampling, hidden, longer)
        if bound is None:
            ends = ends * math.inf
        else:
            more = longer[0] * bound**2 + longer[1] * bound
            ends = found.interval(sampling, more) + ends * hidden * bound
        return Estimate(value, ends, math.inf, math.inf, share, sure)

    def _beside(self, kept: NDArray[np.bool_]) -> FloatArray:
        """Return an orthonormal basis of what is orthogonal to all directions that are not kept: of Gv, v'Gv = 1."""
        return np.asarray(np.linalg.qr(self.error.products_times(self._top(kept)))[0])

    @cached_property
    def _beside_hidden(self) -> FloatArray:
        return self._beside(self.resolved)

    def _hidden_part(self, columns: FloatArray) -> FloatArray:
        """Return the parts of columns in the span of the directions that are not resolved."""
        if self.resolved.all():
            return np.zeros_like(columns)
        return np.asarray(columns - self._beside_hidden @ (self._beside_hidden.T @ columns))

    @cached_property
    def _longer(self) -> tuple[float, float]:
        """The factors of B^2 and of B in the noise that coefficients of length B in hidden directions add."""
        if self.resolved.all():
            return 0.0, 0.0
        of_target = self.error.product_column(self.n_features)[: self.n_features]
        longest = self.error.largest_product(self._beside_hidden)
        return longest, 2 * float(np.linalg.norm(self._hidden_part(of_target)))

    @cached_property
    def _counted(self) -> FloatArray:
        """The change of M by a relative error of the number of rows, in the directions of the features."""
        p, P = self.n_features, self.error.per_row
        assert P is not None
        return np.vstack([self._vectors.T @ P[:p, :p] @ self._vectors, P[p, :p] @ self._vectors])

    def _extents(self, contrasts: FloatArray, kept: NDArray[np.bool_]) -> Iterator[_Extent | None]:
        """Yield the extent of the kept set along each contrast, for the privacy noise; None if it is unbounded.

        In these directions the noise of M has the covariance of isotropic noise, G = I, but for terms of rank 3. The
        kept coefficients b have |level - slope b|^2 <= q g'Qg, g = (-b, 1), where Q = a G + B S B' is the variance of
        the noise along u, the direction of the score that moves the contrast.
        """
        step = max(1, _AT_ONCE // len(kept))
        for start in range(0, len(contrasts), step):
            yield from self._block_extents(contrasts[start : start + step], kept)

    def _block_extents(self, along: FloatArray, kept: NDArray[np.bool_]) -> list[_Extent | None]:
        error, p, a, q = self.error, self.n_features, self._variance, self._quantile**2
        values = self._values[kept]
        raw = values**2 - q * a
        found: list[_Extent | None] = [None] * len(along)
        if raw.min() <= 0:
            return found
        slope, level = self._score(kept)
        u = along / slope
        sizes = np.linalg.norm(u, axis=1)
        u /= np.where(sizes > 0, sizes, 1.0)[:, None]
        _, of_target, lever = self._along(kept)
        levered = u @ lever
        B, B_target = np.zeros((*u.shape, 3)), np.zeros((len(u), 3))
        B[..., 0], B[..., 1] = u, lever
        B_target[:, 0], B_target[:, 1] = u @ of_target, error.lever[p]
        if error.count:
            counted = self._counted[:, kept]
            B[..., 2], B_target[:, 2] = u @ counted[:p][kept].T, u @ counted[p]
        traces = np.zeros((len(u), 3))
        traces[:, 0], traces[:, 1] = 1.0, -levered
        S = error.shared * traces[:, :, None] * traces[:, None, :]
        S[:, 0, 0] += a
        S[:, 1, 1] -= 2 * error.beside * levered**2
        S[:, 2, 2] += error.count
        S[:, 2] -= error.count_shared * traces
        S[:, :, 2] -= error.count_shared * traces
        turned = B.transpose(0, 2, 1)
        D = 1 / (slope**2 - q * a)
        products = q * S @ (turned @ (B / raw[:, None]))
        finite = np.asarray(np.isfinite(products).all(axis=(1, 2)))
        eigenvalues = np.linalg.eigvals(np.where(finite[:, None, None], products, 0.0))
        bounded = finite & (np.real(eigenvalues).max(axis=1) < 1)
        system = np.where(bounded[:, None, None], np.eye(3) - q * S @ (turned @ (D[:, None] * B)), np.eye(3))
        inner = np.asarray(np.linalg.solve(system, q * S), np.float64)
        linear = slope * level - q * (a * of_target + _times(B, _times(S, B_target)))

        def solved(y: FloatArray) -> FloatArray:
            return np.asarray(D * y + D * _times(B, _times(inner, _times(turned, D * y))))

        of_square = a * float(error.product_column(p)[p]) + np.sum(B_target * _times(S, B_target), axis=1)
        constant = float(level @ level) - q * of_square
        centre = solved(linear)
        parts = (
            np.sum(along * centre, axis=1),
            np.maximum(0.0, np.sum(along * solved(along), axis=1)),
            np.maximum(0.0, np.sum(linear * centre, axis=1) - constant),
            u**2 @ values,
        )
        for place in np.flatnonzero(bounded):
            middle, spread, allowance, score_variance = (float(part[place]) for part in parts)
            found[place] = _Extent(middle, spread, allowance, q * a, score_variance)
        return found

    def _errors(self, along: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the standard errors of noise and of sampling, to first order, of each contrast."""
        if not self.bounded:
            return np.full(len(along), np.inf), np.full(len(along), np.inf)
        lean = along / self._score(self._in_use)[0]
        noise = np.maximum(0.0, self._score_variances(lean))
        sampling = self.per_row * max(self._residual, self._residual_noise) * np.sum(along * lean, axis=1)
        return np.sqrt(noise), np.sqrt(sampling)

    # Fitted means.

    def fitted_mean(self, mean: FloatArray, row: FloatArray, bound: float | None = None) -> Estimate:
        """Return the estimate of the mean of the target at a row of features.

        Parameters
        ----------
        mean : ndarray of shape (p + 1,)
            The released means of the features and of the target, about the origin that rows were shifted to.
        row : ndarray of shape (p,)
        bound : float, optional
            As in `contrast`.
        """
        p, error, towards = self.n_features, self.error, self._towards
        slope = self.contrast(row - mean[:p], bound)
        lean = np.append(self._used @ (((mean[:p] - row) @ self._used) / self._score(self._in_use)[0]), 0.0)
        apart = error.mean * float(towards @ towards) + error.count * float(towards @ mean) ** 2
        if error.constant:  # the noise of the mean is part of that of the matrix
            across = (towards @ lean) * (towards @ error.lever) + (towards @ towards) * (lean @ error.lever)
            apart += 2 * error.beside / error.constant * float(across)
        by_slope = slope.noise_error if self.bounded else 0.0
        noise = max(0.0, by_slope**2 + apart)
        sampling = self.per_row * max(self._residual, self._residual_noise)
        squares = (slope.interval - np.mean(slope.interval)) ** 2 if slope.resolved else np.array([math.inf, math.inf])
        squares = np.maximum(squares + self._quantile**2 * (noise - by_slope**2), self._quantile**2 * noise)
        squares += error.normal**2 * sampling * self.population
        middle = mean[p] + (float(np.mean(slope.interval)) if slope.resolved else 0.0)
        return Estimate(
            float(mean[p]) + slope.value,
            middle + np.array([-1.0, 1.0]) * np.sqrt(squares),
            math.sqrt(noise) if self.bounded else math.inf,
            math.hypot(slope.sampling_error, math.sqrt(sampling)),
            slope.resolved_share,
        )

    # Shares of the variance of the target.

    @property
    def r2(self) -> float:
        """Share of the variance of the target that least squares explain."""
        total = float(self.matrix[-1, -1])
        return float(np.clip(1 - self._residual / total, 0.0, 1.0)) if total > 0 else 0.0

    def r2_interval(self, bound: float | None = None) -> FloatArray:
        """Return an interval for the share of the variance of the target that least squares explain.

        It only grows with further features, so the directions above the edge of the noise give the lower end. The upper
        end is 1 if there are others and no bound on the coefficients.
        """
        p, error = self.n_features, self.error
        total = float(self.matrix[-1, -1])
        if total <= _VISIBLE * math.sqrt(float(error.diagonal_variances()[-1])):
            return np.array([0.0, 1.0])
        edge = 2 * math.sqrt(self._variance) * (math.sqrt(p) + _BEYOND_EDGE)
        above = self._values > edge
        low, high = self._r2_of(above, total)
        if above.all() or high >= 1:
            return np.array([low, high])
        if bound is None:
            return np.array([low, 1.0])
        # They may explain as much more as their variance allows.
        longest = error.largest_product(self._beside(above)) * bound**2
        more = longest * (max(float(self._values[~above][-1]), 0.0) + edge) / total
        return np.array([low, min(1.0, high + more)])

    def _r2_of(self, above: NDArray[np.bool_], total: float) -> tuple[float, float]:
        """Return the interval for the features along some directions.

        The residual variance g'Mg is stationary in b, so that its first-order error is g'Ng alone; to second order it
        comes out too small by e'M_xx^(-1)e, where e is the noise of the residual.
        """
        p, error = self.n_features, self.error
        vectors, values = self._top(above), self._values[above]
        towards = np.append(-vectors @ ((self.matrix[:p, p] @ vectors) / values), 1.0)
        factor, columns, covariance = error.residual_terms(towards)
        columns, roots = vectors.T @ columns[:p], np.sqrt(values)
        product = factor * np.eye(len(values)) + columns @ covariance @ columns.T
        product += (vectors.T * (error.extra[:p] * towards[:p] ** 2)) @ vectors
        product /= np.outer(roots, roots)
        residual = float(towards @ self.matrix @ towards)
        weights = -np.outer(towards, towards) / total
        weights[-1, -1] += residual / total**2
        sampled = self.per_row * self.population
        each = sampled * residual / total
        r2 = 1 - (residual + float(np.trace(product))) / total - each * len(values)
        noise = error.variance(weights) + 2 * float(np.sum(product**2)) / total**2
        share = min(max(r2, 0.0), 1.0)
        chance = 4 * sampled * share * (1 - share) ** 2 + 2 * each**2 * len(values)
        square = self._quantile**2 * noise + error.normal**2 * chance
        # A larger share has a larger error than this one, from 0 on like its root: so the upper end solves
        # (r - r2)^2 = square + growth (r - share), and the lower end need not.
        steepest = float(np.linalg.eigvalsh(product)[-1]) / total if len(values) else 0.0
        growth = 4 * (1 - share) ** 2 * (self._quantile**2 * steepest + error.normal**2 * each)
        below = share - r2
        inside = (growth / 2 - below) ** 2 + square - below**2
        upper = share + max(growth / 2 - below + math.sqrt(max(inside, 0.0)), math.sqrt(square) - below)
        return min(max(r2 - math.sqrt(square), 0.0), 1.0), min(max(upper, 0.0), 1.0)

    # Features that can be resolved.

    def hidden_features(self) -> list[int]:
        """Return features to leave out so that all others have finite intervals, each with a large part in the noise.

        Their variation beside the other features is below the noise.
        """
        kept = list(range(self.n_features))
        fit, tail = self, ndtr(-self.error.normal)
        while kept:
            # The intervals of what is left pay for the choice, and are wider by so much.
            wider = -float(ndtri(tail / (1 + self.n_features - len(kept)))) / self.error.normal
            hidden = ~fit._resolved(self._quantile * wider)
            if not hidden.any():
                break
            weights = np.sum(np.square(fit._vectors[:, hidden]), axis=1) * fit.error.sizes[:-1]
            many = max(1, int(np.sum(hidden)) // 4)  # one by one where there are few
            gone = set(np.argsort(weights)[::-1][:many].tolist())
            kept = [feature for place, feature in enumerate(kept) if place not in gone]
            fit = self.of(kept)
        return [feature for feature in range(self.n_features) if feature not in set(kept)]

    def of(self, features: list[int]) -> "LeastSquares":
        """Return least squares on some of the features."""
        columns = [*features, self.n_features]
        matrix, error = block_of(self._released, columns), self.error.of(columns)
        return LeastSquares(matrix, error, per_row=self.per_row, population=self.population)


def _times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return each matrix times its vector."""
    return np.asarray((matrices @ vectors[..., None])[..., 0])
