"""Intervals for the entries of a covariance behind a release, its mean and its correlations, by closed forms.

All of them start from the raw release, M = A + N, and the second moments of N. docs/research/intervals_of_entries.md
derives every formula.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ..numerics import FloatArray
from .correlations import DETERMINED_FROM, SignCorrelation


def block_of(matrix: FloatArray, positions: list[int]) -> FloatArray:
    """Return the rows and columns of some of the features, in this order: no copy of all of them as they are.

    Examples
    --------
    >>> block_of(np.diag([1.0, 2.0, 3.0]), [2, 0])
    array([[3., 0.],
           [0., 1.]])
    """
    return matrix if positions == list(range(len(matrix))) else matrix[np.ix_(positions, positions)]


@dataclass(frozen=True, eq=False)
class MatrixError:
    """Second moments of the error of a released matrix M of d features, to first order in the noise.

    The noise of an entry is that of p_i' N p_j, less that of x_i x_j N_cc: p_i are rows of the map that brings the
    matrix that left back to M, x the mean in units of an appended constant c, zero where there is none.

    Attributes
    ----------
    traces : ndarray of shape (d,) or (d, d)
        What is summed up in each entry, p_i'p_j - x_i x_j; the diagonal alone where there is nothing beside it.
    lever : ndarray of shape (d,)
        x.
    beside, shared : float
        The variance of an entry of N beside the diagonal, and the covariance of two on it.
    extra : ndarray of shape (d,)
        What the variance of a diagonal entry has beyond 2 beside + shared: 0 for noise invariant under rotations.
    per_row : ndarray of shape (d, d) or None
        What a relative error of the number of rows takes from M; None where that number is public.
    count, count_shared : float
        The variance of that relative error, and its covariance with a diagonal entry of N.
    mean : float
        The variance of the noise of an entry of the mean.
    mean_bias : ndarray of shape (d,)
        What that noise adds to the diagonal of M on average.
    constant : float
        c, or 0 where the mean is independent of M.
    quantiles : (float, float)
        What noise beside the diagonal and on it stays within, in standard deviations.
    normal : float
        The same of a normal number, for sampling errors.
    common_size : float
        The relative variance of the squared size that entries of one row of N have in common.
    """

    traces: FloatArray
    lever: FloatArray
    beside: float
    shared: float
    extra: FloatArray
    per_row: FloatArray | None
    count: float
    count_shared: float
    mean: float
    mean_bias: FloatArray
    constant: float
    quantiles: tuple[float, float]
    normal: float
    common_size: float = 0.0

    def of(self, positions: list[int]) -> "MatrixError":
        """Return the error of the matrix of some of the features, in this order."""
        return replace(
            self,
            traces=self.traces[positions] if self.traces.ndim == 1 else block_of(self.traces, positions),
            lever=self.lever[positions],
            extra=self.extra[positions],
            per_row=None if self.per_row is None else block_of(self.per_row, positions),
            mean_bias=self.mean_bias[positions],
        )

    def divided(self, sizes: FloatArray) -> "MatrixError":
        """Return the error of the matrix of features that are divided by `sizes`."""
        return replace(
            self,
            traces=self.traces / (sizes**2 if self.traces.ndim == 1 else np.outer(sizes, sizes)),
            lever=self.lever / sizes,
            extra=self.extra / sizes**4,
            per_row=None if self.per_row is None else self.per_row / np.outer(sizes, sizes),
            mean_bias=self.mean_bias / sizes**2,
        )

    @cached_property
    def products(self) -> FloatArray:
        """G, of products p_i'p_j, of shape (d, d)."""
        return self._entry_traces + np.outer(self.lever, self.lever)

    @property
    def _entry_traces(self) -> FloatArray:
        return np.diag(self.traces) if self.traces.ndim == 1 else self.traces

    @property
    def own_traces(self) -> FloatArray:
        """The diagonal of the traces."""
        return self.traces if self.traces.ndim == 1 else np.diag(self.traces)

    @property
    def sizes(self) -> FloatArray:
        """The diagonal of G."""
        return np.asarray(self.own_traces + self.lever**2)

    def traces_times(self, weights: FloatArray) -> FloatArray:
        """Return the traces times a vector."""
        return np.asarray(self.traces * weights if self.traces.ndim == 1 else self.traces @ weights)

    def traces_along(self, rows: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
        """Return u'Tv for the traces T, of the first k rows u and all rows v, and u'Tu of all of them."""
        if self.traces.ndim == 1:
            return (rows[:k] * self.traces) @ rows.T, np.square(rows) @ self.traces
        return rows[:k] @ self.traces @ rows.T, np.sum(rows @ self.traces * rows, axis=1)

    @property
    def even(self) -> bool:
        """Whether the traces are a multiple of the identity."""
        return self.traces.ndim == 1 and bool((self.traces == self.traces[0]).all())

    def product_sizes(self, p: int) -> FloatArray:
        """Return the eigenvalues of G of the first p features, ascending."""
        lever = self.lever[:p]
        if self.even:
            return self.traces[:p] + np.append(np.zeros(p - 1), lever @ lever)
        return np.asarray(np.linalg.eigvalsh(self.products[:p, :p]))

    def product_column(self, place: int) -> FloatArray:
        """Return a column of G."""
        column = self.lever * self.lever[place]
        if self.traces.ndim == 2:
            return np.asarray(column + self.traces[:, place])
        column[place] += self.traces[place]
        return np.asarray(column)

    def products_times(self, columns: FloatArray) -> FloatArray:
        """Return G of the first features, as many as columns have rows, times the columns."""
        p = len(columns)
        own = self.traces[:p, None] * columns if self.traces.ndim == 1 else self.traces[:p, :p] @ columns
        return np.asarray(own + np.outer(self.lever[:p], self.lever[:p] @ columns))

    def largest_product(self, beside: FloatArray) -> float:
        """Return the largest b'Gb over b of length 1 orthogonal to an orthonormal basis, both of the first features."""
        p = len(beside)
        lever = self.lever[:p] - beside @ (self.lever[:p] @ beside)
        if self.even:
            return float(self.traces[0] + lever @ lever)
        part = self.products[:p, :p] - beside @ (beside.T @ self.products[:p, :p])
        return float(np.linalg.eigvalsh(part - (part @ beside) @ beside.T)[-1])

    def inverse_product_root(self, p: int) -> Callable[[FloatArray], FloatArray] | None:
        """Return the product with R = G^(-1/2) of the first p features; None where it has no closed form.

        For G = t (I + mm') that is R = t^(-1/2) (I - mm'/(r + r^2)), where r^2 = 1 + |m|^2.
        """
        if not self.even:
            return None
        size = 1 / math.sqrt(float(self.traces[0]))
        lever = size * self.lever[:p]
        square = 1 + float(lever @ lever)
        lever /= math.sqrt(square + math.sqrt(square))

        def product(matrix: FloatArray) -> FloatArray:
            return np.asarray(size * matrix - np.outer(size * lever, lever @ matrix))

        return product

    def entry_variances(self) -> FloatArray:
        """Return the variance of the error of every entry.

        That is t^2 (G_ii G_jj + G_ij^2 - 2 k_ij^2) + s T_ij^2 for traces T and k_ij = x_i x_j, and what the errors of
        the mean, squared, and of the number of rows add. Beside the diagonal G is k where traces have nothing there.
        """
        squares = self.lever**2
        whole = self.traces.ndim == 2
        found = sum_of_products(
            (self.beside, self.sizes, self.sizes),
            (-2 * self.beside if whole else -self.beside, squares, squares),
            (1.0, self.mean_bias, self.mean_bias),
        )
        if whole:
            found += self.beside * self.products**2 + self.shared * self.traces**2
        if self.per_row is not None:
            found += self._of_count(self.per_row, self._entry_traces)
        found.flat[:: len(found) + 1] = self.diagonal_variances()
        return np.asarray(np.maximum(found, 0.0, out=found))

    def diagonal_variances(self) -> FloatArray:
        """Return the variances of the errors on the diagonal."""
        own = self.own_traces
        found = 2 * self.beside * (self.sizes**2 - self.lever**4) + self.shared * own**2 + self.extra
        found += 2 * self.mean_bias**2  # the noise of the mean enters squared too
        return np.maximum(found if self.per_row is None else found + self._of_count(np.diag(self.per_row), own), 0.0)

    def variance(self, weights: FloatArray) -> float:
        """Return the variance of the error of sum_ij weights_ij M_ij, for symmetric weights."""
        product = weights @ self.products
        centred = float(self.lever @ weights @ self.lever)
        trace = float(np.trace(product)) - centred
        squares = float(np.sum(product * product.T)) - centred**2
        own = float(self.extra @ np.diag(weights) ** 2)
        found = 2 * self.beside * squares + self.shared * trace**2 + own
        if self.per_row is not None:
            found += float(self._of_count(np.asarray(np.sum(weights * self.per_row)), np.asarray(trace)))
        return max(0.0, found)

    def variance_along(self, weights: FloatArray) -> float:
        """Return the variance of the error of w'Mw for a vector of weights w."""
        factor, columns, covariance = self.residual_terms(weights)
        along = weights @ columns
        return max(0.0, float(factor * along[0] + along @ covariance @ along + self.extra @ weights**4))

    def residual_terms(self, weights: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return f, B and S of the covariance of the errors of M times `weights`.

        That is f G + B S B', but for what is extra on its diagonal.
        """
        traces, lever = self.traces_times(weights), self.lever * (self.lever @ weights)
        towards = traces + lever
        counted = np.zeros_like(lever) if self.per_row is None else self.per_row @ weights
        columns = np.column_stack([towards, lever, traces, counted])
        covariance = np.diag([self.beside, -2 * self.beside, self.shared, self.count])
        covariance[2, 3] = covariance[3, 2] = -self.count_shared
        return self.beside * float(weights @ towards), columns, covariance

    def _of_count(self, counted: FloatArray, traces: FloatArray) -> FloatArray:
        return np.asarray(self.count * counted**2 - 2 * self.count_shared * counted * traces)


def sum_of_products(*terms: tuple[float, FloatArray, FloatArray]) -> FloatArray:
    """Return the sum of f a_i b_j over factors f and vectors a, b: by one product, in which memory is passed once.

    Examples
    --------
    >>> sum_of_products((1.0, np.ones(2), np.ones(2)), (2.0, np.array([0.0, 1.0]), np.array([1.0, 0.0])))
    array([[1., 1.],
           [3., 1.]])
    """
    factors, left, right = zip(*terms, strict=True)
    return np.asarray((np.stack(left, axis=1) * factors) @ np.stack(right))


def covariance_intervals(matrix: FloatArray, error: MatrixError, *, sampled: float = 0.0) -> FloatArray:
    """Return an interval for every entry of the covariance behind a raw release.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
        M.
    error : MatrixError
    sampled : float
        One over the number of rows where the answer is about the population they come from; 0 where it is about them.

    Returns
    -------
    ndarray of shape (d, d, 2)

    Examples
    --------
    >>> error = plain_error(2, 0.01, level=0.95)
    >>> covariance_intervals(np.diag([2.0, 1.0]), error)[0, 0].round(3)
    array([1.723, 2.277])
    """
    middle = _unbiased(matrix, error)
    return _about(middle, half_widths(middle, error, sampled))


def _unbiased(matrix: FloatArray, error: MatrixError) -> FloatArray:
    found = matrix.copy()
    found.flat[:: len(found) + 1] -= error.mean_bias
    return found


def _about(middle: FloatArray, reach: FloatArray) -> FloatArray:
    """Return the ends of intervals, all lower ones together in memory: they are passed over one after the other."""
    ends = np.empty((2, *middle.shape))
    np.subtract(middle, reach, out=ends[0])
    np.add(middle, reach, out=ends[1])
    return np.moveaxis(ends, 0, -1)


def half_widths(middle: FloatArray, error: MatrixError, sampled: float) -> FloatArray:
    """Return half of the length of the interval of every entry."""
    beside, diagonal = error.quantiles
    squares = error.entry_variances()
    on_it = diagonal**2 * squares.diagonal()
    squares *= beside**2
    squares.flat[:: len(squares) + 1] = on_it
    if sampled:
        sizes = np.maximum(np.diag(middle), 0.0)
        squares += error.normal**2 * sampled * (np.outer(sizes, sizes) + middle**2)
    return np.sqrt(squares, out=squares)


def correlation_intervals(
    matrix: FloatArray, error: MatrixError, wider: MatrixError, *, sampled: float = 0.0
) -> FloatArray:
    """Return an interval for every correlation behind a raw release, by the delta method.

    Parameters
    ----------
    matrix, error, sampled
        As for `covariance_intervals`.
    wider : MatrixError
        The same with quantiles for three answers at once: where the noise is more than a fifth of a variance, a
        correlation is between the extremes that its covariance and its two variances allow.

    Examples
    --------
    >>> error = plain_error(2, 1e-4, level=0.95)
    >>> correlation_intervals(np.array([[4.0, 1.0], [1.0, 1.0]]), error, error)[0, 1].round(3)
    array([0.488, 0.512])
    """
    found = _correlations(matrix, error)
    if found.hidden.any():
        # The smallest and largest quotients that intervals of the covariance and of both variances allow.
        reach = half_widths(found.middle, wider, sampled)
        variances, deviations = np.diag(found.middle), np.diag(reach)
        least = np.sqrt(np.maximum(variances - deviations, 0.0))
        most = np.sqrt(np.maximum(variances + deviations, 0.0))
        small, large = np.outer(least, least), np.outer(most, most)
        extremes = _about(found.middle, reach)
        for place, sign in enumerate((-1.0, 1.0)):
            end = extremes[..., place]
            with np.errstate(divide="ignore", invalid="ignore"):
                end /= np.where(sign * end > 0, small, large)
            end[(small <= 0) | np.isnan(end)] = sign
    if found.hidden.all():
        ends = extremes
    else:
        reach = error.quantiles[0] ** 2 * found.noise
        if sampled:
            reach += error.normal**2 * sampled * (1 - found.r**2) ** 2
        ends = _about(found.r, np.sqrt(reach, out=reach))
        if found.hidden.any():
            ends[found.lost] = extremes[found.lost]
    np.clip(ends, -1.0, 1.0, out=ends)
    ends[np.diag_indices(len(matrix))] = 1.0
    return ends


@dataclass(frozen=True, eq=False)
class _Correlations:
    """Raw correlations with the variance of their noise; `lost` with features whose variance is close to its noise."""

    middle: FloatArray
    error: MatrixError
    sizes: FloatArray
    hidden: NDArray[np.bool_]

    @property
    def lost(self) -> NDArray[np.bool_]:
        return np.asarray(self.hidden[:, None] | self.hidden)

    @cached_property
    def r(self) -> FloatArray:
        found = np.outer(self.sizes, self.sizes)
        return np.clip(np.divide(self.middle, found, out=found), -1.0, 1.0, out=found)

    @cached_property
    def noise(self) -> FloatArray:
        return _correlation_variances(self.r, self.error.divided(self.sizes))


def _correlations(matrix: FloatArray, error: MatrixError) -> _Correlations:
    middle = _unbiased(matrix, error)
    variances = np.diag(middle)
    hidden = ~(variances > DETERMINED_FROM * np.sqrt(error.diagonal_variances()))
    return _Correlations(middle, error, np.sqrt(np.where(hidden, 1.0, variances)), hidden)


def correlation_errors(matrix: FloatArray, error: MatrixError, sampled: float) -> tuple[FloatArray, FloatArray]:
    """Return standard errors of the correlations, from noise and from sampling; NaN where a variance may be noise.

    Where noise made a correlation larger than 1, nothing is known of its sampling error.
    """
    found = _correlations(matrix, error)
    noise, sampling = np.sqrt(found.noise), np.sqrt(sampled) * (1 - found.r**2)
    sampling[np.abs(found.r) == 1] = np.nan
    noise[found.lost] = sampling[found.lost] = np.nan
    noise[np.diag_indices(len(matrix))] = sampling[np.diag_indices(len(matrix))] = 0.0
    return noise, sampling


def largest_correlation_error(matrix: FloatArray, error: MatrixError, sampled: float) -> Callable[[FloatArray], float]:
    """Return a function from an error of M to the largest error of `correlation_intervals`, in its deviations.

    Where a variance is close to its noise, the covariance and both variances count in place of the correlation.
    """
    found = _correlations(matrix, error)
    ones = replace(error, quantiles=(1.0, 1.0), normal=1.0)
    entries = half_widths(found.middle, ones, sampled)
    deviations = np.sqrt(found.noise + sampled * (1 - found.r**2) ** 2)
    beside = ~np.eye(len(matrix), dtype=bool)
    kept, lost = beside & ~found.lost, found.lost | ~beside

    def largest(drawn: FloatArray) -> float:
        centred = _unbiased(drawn, error)
        scaled = centred / np.outer(found.sizes, found.sizes)
        own = np.diag(scaled)
        moved = scaled - found.r / 2 * (own[:, None] + own)
        worst = _largest_ratio(moved[kept], deviations[kept])
        return max(worst, _largest_ratio(centred[lost], entries[lost])) if found.hidden.any() else worst

    return largest


def _largest_ratio(errors: FloatArray, deviations: FloatArray) -> float:
    moved = deviations > 0
    return float(np.max(np.abs(errors[moved]) / deviations[moved], initial=0.0))


def _correlation_variances(r: FloatArray, error: MatrixError) -> FloatArray:
    """Return the variances of N_ij - r/2 (N_ii + N_jj), of the noise of features divided by their deviations.

    They are a + b r + c r^2, where a, b and c are sums of few products of vectors, as far as traces have nothing beside
    the diagonal; what is on the diagonal is not used.
    """
    t, s, lever, sizes, own = error.beside, error.shared, error.lever, error.sizes, error.own_traces
    ones, squares, itself = np.ones_like(own), lever**2, error.sizes**2 - lever**4
    each = t / 2 * itself + s / 4 * own**2 + error.extra / 4
    found = sum_of_products((1.0, each, ones), (1.0, ones, each), (s / 2, own, own))
    found *= r
    found -= sum_of_products((2 * t, own * lever, lever), (2 * t, lever, own * lever))
    found *= r
    found += sum_of_products((t, sizes, sizes), (-t, squares, squares))
    if error.traces.ndim == 2:
        T, k = error.traces - np.diag(own), np.outer(lever, lever)
        gained = T * (T + 2 * k)  # G^2 - k^2
        with_own = T * sizes[:, None]
        found += 2 * t * (gained / 2 + r**2 / 2 * gained - r * (with_own + with_own.T))
        found += s * T * (T - r * (own[:, None] + own))
    if error.per_row is not None:
        counted, traces = (
            each - r / 2 * (np.diag(each)[:, None] + np.diag(each)) for each in (error.per_row, error._entry_traces)
        )
        found += error._of_count(counted, traces)
    return np.asarray(np.maximum(found, 0.0, out=found))


def plain_error(d: int, beside: float, *, level: float) -> MatrixError:
    """Return the error of a matrix plus symmetric Gaussian noise of variance `beside`, twice that on the diagonal."""
    normal = float(ndtri((1 + level) / 2))
    none = np.zeros(d)
    return MatrixError(np.ones(d), none, beside, 0.0, none, None, 0.0, 0.0, 0.0, none, 0.0, (normal, normal), normal)


def sampling_variances(tau: FloatArray, comparisons: int, n_rows: int) -> FloatArray:
    """Return the variances of mean products of signs, over rows drawn from a Gaussian distribution with these values.

    Notes
    -----
    A mean over the nk/2 comparisons of cyclic neighbours, h = ss' of two rows each, has the variance
    (2/(nk)) (z2 + 2 (k - 1) z1): z2 = 1 - tau^2 is that of one comparison, and z1 the covariance of two that share a
    row. For Gaussian rows z1 = 1/9 - (2/pi arcsin(r/2))^2, r = sin(pi tau/2) (Esscher 1924). It is at most z2/2
    for rows of any distribution (Hoeffding 1948), so that the variance is at most 2 (1 - tau^2)/n.

    Examples
    --------
    >>> round(float(sampling_variances(np.array(0.0), 8, 1)), 3)
    0.639
    """
    alone = 1 - tau**2
    if comparisons == 1:  # pairs that share no row
        return np.asarray(alone / n_rows)
    together = np.maximum(1 / 9 - (2 / np.pi * np.arcsin(np.sin(np.pi / 2 * tau) / 2)) ** 2, 0.0)
    return np.asarray(2 / (n_rows * comparisons) * (alone + 2 * (comparisons - 1) * together))


def sign_intervals(
    tau: FloatArray, signs: SignCorrelation, error: MatrixError, *, comparisons: int, sampled: float = 0.0
) -> FloatArray:
    """Return an interval for every correlation sin(pi tau / 2) behind a released Kendall matrix.

    Parameters
    ----------
    tau : ndarray of shape (d, d)
        As released.
    signs : SignCorrelation
        What was made of it.
    error : MatrixError
        Of `tau`.
    comparisons : int
        How many a row takes part in.
    sampled : float
        As for `covariance_intervals`.
    """
    found = _signs(tau, signs, error, comparisons, sampled)
    reach = np.sqrt(error.quantiles[0] ** 2 * found.noise + error.normal**2 * found.sampling)
    ends = np.stack([found.scaled - reach, found.scaled + reach], axis=-1)
    ends = np.sin(np.pi / 2 * np.clip(ends, -1.0, 1.0))
    lost = list(signs.undetermined)
    ends[lost] = ends[:, lost] = (-1.0, 1.0)
    ends[np.diag_indices(len(tau))] = 1.0
    return np.asarray(ends)


@dataclass(frozen=True, eq=False)
class _Signs:
    """Kendall's tau without ties, with the variances of its errors."""

    scaled: FloatArray
    roots: FloatArray
    noise: FloatArray
    sampling: FloatArray


def _signs(tau: FloatArray, signs: SignCorrelation, error: MatrixError, comparisons: int, sampled: float) -> _Signs:
    roots = signs.roots.copy()
    roots[list(signs.undetermined)] = 1.0
    scaled = tau / np.outer(roots, roots)
    of_ties = signs.ties.kept * (error.beside * 2 + error.shared + error.extra) / roots**4
    noise = error.beside / np.outer(roots, roots) ** 2 + scaled**2 / 4 * (of_ties[:, None] + of_ties)
    sampling = sampling_variances(np.clip(scaled, -1.0, 1.0), comparisons, 1) * sampled
    return _Signs(scaled, roots, noise, sampling)


def sign_errors(
    tau: FloatArray, signs: SignCorrelation, error: MatrixError, *, comparisons: int, sampled: float
) -> tuple[FloatArray, FloatArray]:
    """Return standard errors of the correlations sin(pi tau / 2), from noise and from sampling; NaN where unknown."""
    found = _signs(tau, signs, error, comparisons, sampled)
    slope = np.pi / 2 * np.cos(np.pi / 2 * np.clip(found.scaled, -1.0, 1.0))
    noise, sampling = slope * np.sqrt(found.noise), slope * np.sqrt(found.sampling)
    lost = list(signs.undetermined)
    for errors in (noise, sampling):
        errors[lost] = errors[:, lost] = np.nan
        errors[np.diag_indices(len(tau))] = 0.0
    return noise, sampling


def largest_sign_error(
    tau: FloatArray, signs: SignCorrelation, error: MatrixError, *, comparisons: int, sampled: float
) -> Callable[[FloatArray, np.random.Generator], float]:
    """Return a function from an error of tau to the largest error of `sign_intervals`, in its deviations.

    Sampling errors are drawn as if they were independent. For Gaussian errors of these variances that is the widest
    case (Sidak 1967).
    """
    found = _signs(tau, signs, error, comparisons, sampled)
    deviations, kept = np.sqrt(found.noise + found.sampling), np.triu(np.ones(tau.shape, bool), 1)
    lost = list(signs.undetermined)
    kept[lost] = kept[:, lost] = False

    def largest(drawn: FloatArray, generator: np.random.Generator) -> float:
        own = np.diag(drawn) * (np.sqrt(signs.ties.kept) / found.roots**2)
        moved = drawn / np.outer(found.roots, found.roots) - found.scaled / 2 * (own[:, None] + own)
        moved += np.sqrt(found.sampling) * generator.standard_normal(tau.shape)
        return _largest_ratio(moved[kept], deviations[kept])

    return largest
