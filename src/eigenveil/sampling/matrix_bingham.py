"""The matrix Bingham distribution by Gibbs sampling, several chains at once.

All work in the eigenbasis of B, on states of shape (chains, d, k) with orthonormal columns, for the density
exp(−tr VᵀAV) where A = diag(gaps) and 0 = gaps[0] ≤ gaps[1] ≤ …. docs/research/samplers.md has the derivations.

`ColumnKernel` redraws a whole column exactly. Given the other columns W its distribution is Bingham on the unit sphere
of W's complement, of dimension m = d − k + 1. The proposal is the direction of a Gaussian with precision
D = 2A + β conditioned on Wᵀy = 0; it is accepted as on the full sphere, with m for d. β may be negative: D
has to be positive definite on the complement only, and a negative β follows A's smallest eigenvalue there.

`PlaneKernel` turns V in the plane of two eigenvectors of B by an angle drawn exactly, for every pair of them.

`BlockKernel` does both in one update. `HoffKernel` is the sampler of Hoff (2009).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import integer_between, one_of
from ..numerics import FloatArray
from .bingham import BATCH_ENTRIES, bingham, eigensystem, envelope_width, log_acceptance, symmetric_matrix
from .randomness import check_generator


def haar_orthogonal(count: int, rows: int, columns: int, generator: np.random.Generator) -> FloatArray:
    """Draw `count` uniform matrices with orthonormal columns, shape (count, rows, columns)."""
    q, r = np.linalg.qr(generator.standard_normal((count, rows, columns)))
    # QR alone is not uniform: the signs of R's diagonal must be put back.
    uniform: FloatArray = q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, np.newaxis, :]
    return uniform


@dataclass(frozen=True)
class _Envelope:
    """The Gaussian N(0, D⁻¹) conditioned on Wᵀy = 0, for each chain, in a form that costs O(dk) a draw.

    With x = D₊^{1/2} y, where D₊ is D made positive on the first k − 1 coordinates, the condition reads
    x ∈ X = (D₊^{−1/2}W)^⊥ and the precision is the identity on X but for k − 1 directions.
    """

    scales: FloatArray  # D₊^{−1/2}: (chains, d)
    normal: FloatArray  # orthonormal basis of D₊^{−1/2}W, which X avoids: (chains, d, k − 1)
    special: FloatArray  # the directions of X where the precision is not 1: (chains, d, k − 1)
    precisions: FloatArray  # the precision there: (chains, k − 1)

    @classmethod
    def build(cls, gaps: FloatArray, others: FloatArray, beta: FloatArray) -> "_Envelope":
        n_others = others.shape[-1]
        precision = beta[:, np.newaxis] + 2.0 * gaps
        positive = precision.copy()
        top = np.abs(precision[:, :n_others])
        positive[:, :n_others] = np.maximum(top, 1.0)
        defect = 1.0 - precision[:, :n_others] / positive[:, :n_others]
        scales = 1.0 / np.sqrt(positive)
        normal = np.linalg.qr(scales[:, :, np.newaxis] * others)[0]
        # The coordinate directions e_1 .. e_{k−1}, projected on X.
        projected = -normal @ normal[:, :n_others, :].mT
        projected[:, np.arange(n_others), np.arange(n_others)] += 1.0
        special, upper = np.linalg.qr(projected)
        values, vectors = np.linalg.eigh((upper * defect[:, np.newaxis, :]) @ upper.mT)
        return cls(scales, normal, special @ vectors, 1.0 - values)

    def traces(self) -> tuple[FloatArray, FloatArray]:
        """Return tr C and tr C² of the covariance C of y, by its form diagonal + low rank."""
        variances = np.square(self.scales)
        frame = np.concatenate([self.normal, self.special], axis=2)
        weights = np.concatenate([-np.ones_like(self.precisions), 1.0 / self.precisions - 1.0], axis=1)
        inner = frame.mT @ (variances[:, :, np.newaxis] * frame)
        squares = np.einsum("cij,ci,cij->cj", frame, np.square(variances), frame)
        weighted = inner * weights[:, np.newaxis, :]
        first = variances.sum(axis=1) + np.trace(weighted, axis1=1, axis2=2)
        second = np.square(variances).sum(axis=1) + 2.0 * (weights * squares).sum(axis=1)
        return first, second + np.einsum("cij,cji->c", weighted, weighted)

    def propose(
        self, chosen: NDArray[np.intp], count: int, generator: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Draw `count` proposals y for each chosen chain, with their q = yᵀDy/yᵀy."""
        normal, special = self.normal[chosen], self.special[chosen]
        x = generator.standard_normal((normal.shape[0], count, normal.shape[1]))
        x -= (x @ normal) @ normal.mT
        energy = np.einsum("cij,cij->ci", x, x)
        stretch = 1.0 / np.sqrt(self.precisions[chosen]) - 1.0
        x += ((x @ special) * stretch[:, np.newaxis, :]) @ special.mT
        y = x * self.scales[chosen][:, np.newaxis, :]
        return y, energy / np.einsum("cij,cij->ci", y, y)


class ColumnKernel:
    """Rotate the columns at random, then redraw one of them exactly, given the others."""

    def __init__(self, gaps: FloatArray, k: int) -> None:
        self.gaps = gaps
        self.dimension: int = gaps.size - k + 1
        # By interlacing, the eigenvalues of A on any complement lie between these two sets of gaps, so the
        # best β lies between the β of either. At the upper end D is positive: a β that always works.
        head, tail = gaps[: self.dimension], gaps[k - 1 :]
        self.highest: float = envelope_width(head)
        self.lowest: float = min(envelope_width(tail - tail[0]) - 2.0 * tail[0], self.highest)

    def update(self, states: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Return the next states of all chains."""
        k = states.shape[-1]
        # The distribution does not change under V → VH, so a random H leaves it alone, and mixes the columns at once.
        states = states @ haar_orthogonal(states.shape[0], k, k, generator)
        column = self.redraw(states[:, :, 0], states[:, :, 1:], generator)
        return np.concatenate([states[:, :, 1:], column[:, :, np.newaxis]], axis=2)

    def redraw(self, column: FloatArray, others: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Draw a column from its distribution given the others; the old one only helps to tune the proposal."""
        envelope = self._envelope(column, others)
        chains, d = column.shape
        drawn = np.empty_like(column)
        waiting = np.arange(chains)
        while waiting.size:
            tries = max(1, min(int(2 * self.dimension**0.5) + 2, BATCH_ENTRIES // (waiting.size * d)))
            proposals, quotients = envelope.propose(waiting, tries, generator)
            exponentials = generator.standard_exponential(quotients.shape)
            accepted = exponentials >= -log_acceptance(quotients, self.dimension)
            first, hit = accepted.argmax(axis=1), accepted.any(axis=1)
            drawn[waiting[hit]] = proposals[hit, first[hit]]
            waiting = waiting[~hit]
        # y is orthogonal to W already; once more, for the last digits, after scaling to length 1.
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        drawn -= np.einsum("cij,cj->ci", others, np.einsum("cij,ci->cj", others, drawn))
        unit: FloatArray = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        return unit

    def _envelope(self, column: FloatArray, others: FloatArray) -> _Envelope:
        """Tune β so that tr C = 1, where the acceptance rate is highest: Newton's method in a bracket."""
        chains = column.shape[0]
        low, high = np.full(chains, self.lowest), np.full(chains, self.highest)
        # A typical column has q = m ± √(2m). So the old one tells where to look, on the side where D is
        # positive definite; a chain that has not settled steps away from there, further each time.
        spread = 3.0 * (2.0 * self.dimension) ** 0.5
        beta = np.clip(self.dimension + spread - 2.0 * np.square(column) @ self.gaps, low, high)
        for _ in range(60):
            envelope = _Envelope.build(self.gaps, others, beta)
            with np.errstate(all="ignore"):
                total, square = envelope.traces()
                # D is positive definite on the complement, with room for rounding.
                good = (envelope.precisions.min(axis=1) > 1e-15) & (total > 0) & (square > 0)
                newton = beta + total * (total - 1.0) / square
                # Stop where the loss in the log of the rate, (1 − tr C)²/(4 tr C²), is below 0.05.
                done = good & (np.square(1.0 - total) <= 0.2 * square)
            if done.all():
                return envelope
            below = ~good | (total > 1.0)
            low, high = np.where(below, beta, low), np.where(below, high, beta)
            inside = good & (newton > low) & (newton < high)
            spread *= 4.0
            other = np.where(good, (low + high) / 2, np.minimum(low + spread, (low + high) / 2))
            beta = np.where(done, beta, np.where(inside, newton, other))
        return _Envelope.build(self.gaps, others, np.where(done, beta, high))


class PlaneKernel:
    """Turn every pair of eigendirections by an angle from its exact distribution, in an order drawn at random."""

    def __init__(self, gaps: FloatArray) -> None:
        self.gaps = gaps
        # Rounds of disjoint pairs, as of a tournament: all but one move round a table, and every two meet once.
        d, seats = gaps.size, gaps.size + gaps.size % 2
        table = np.arange(seats)
        self.rounds: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
        for _ in range(seats - 1):
            left, right = table[: seats // 2], table[: seats // 2 - 1 : -1]
            playing = (left < d) & (right < d)
            self.rounds.append((left[playing], right[playing]))
            table = np.concatenate([table[:1], table[-1:], table[1:-1]])

    def update(self, states: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Return the next states of all chains.

        Turning rows x, y of V by θ makes tr VᵀBV a constant plus (λ_x − λ_y)/2·(p cos 2θ + q sin 2θ), where
        p = ‖x‖² − ‖y‖² and q = 2 x·y: the distribution of 2θ is von Mises. Disjoint pairs do not touch each other, so
        d/2 of them turn at once; the schedule of a tournament brings every pair together once.
        """
        states = states.copy()
        order = generator.permutation(self.gaps.size)
        for first, second in self.rounds:
            i, j = order[first], order[second]
            x, y = states[:, i], states[:, j]
            p = np.einsum("cik,cik->ci", x, x) - np.einsum("cik,cik->ci", y, y)
            q = 2.0 * np.einsum("cik,cik->ci", x, y)
            pull = (self.gaps[j] - self.gaps[i]) / 2.0
            # A negative pull has its mode on the other side of the circle.
            mode = np.arctan2(pull * q, pull * p)
            angle = (mode + generator.vonmises(0.0, np.abs(pull) * np.hypot(p, q))) / 2.0
            cosine, sine = np.cos(angle)[:, :, np.newaxis], np.sin(angle)[:, :, np.newaxis]
            states[:, i], states[:, j] = cosine * x + sine * y, cosine * y - sine * x
        return states


class BlockKernel:
    """One column redrawn, then every pair of eigendirections turned.

    Each part alone leaves the distribution unchanged, and each alone would do. The column moves over the whole sphere
    at once; but it leaves slowly what is tilted between eigenvalues much closer than the rest, where the
    planes need one turn. docs/research/samplers.md compares the two.
    """

    def __init__(self, gaps: FloatArray, k: int) -> None:
        self.parts: tuple[ColumnKernel, PlaneKernel] = ColumnKernel(gaps, k), PlaneKernel(gaps)

    def update(self, states: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Return the next states of all chains."""
        for part in self.parts:
            states = part.update(states, generator)
        return states


# Below this share of the whole, what is left beside a coordinate is summed again: a difference would lose its digits.
_SMALL_REST = 1e-3


class HoffKernel:
    """Hoff's sampler: a pass over all columns, and in each over its coordinates in the eigenbasis.

    The coordinates of a column are redrawn as masses without a common scale, as only their shares matter: then one of
    them costs a few operations on numbers, whatever d is.
    """

    def __init__(self, gaps: FloatArray, k: int) -> None:
        self.gaps = gaps
        self.dimension: int = gaps.size - k + 1

    def update(self, states: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Return the next states of all chains: one step of the papers, which is a pass over all columns."""
        states = states.copy()
        for index in generator.permutation(states.shape[-1]):
            others = np.delete(states, index, axis=2)
            complement = np.linalg.qr(others, mode="complete")[0][:, :, others.shape[-1] :]
            energies, rotation = np.linalg.eigh(complement.mT @ (self.gaps[:, np.newaxis] * complement))
            column = states[:, :, index, np.newaxis]
            masses = np.square(rotation.mT @ (complement.mT @ column))[:, :, 0]
            for chain, (own, energy) in enumerate(zip(masses.tolist(), energies.tolist(), strict=True)):
                masses[chain] = self._swept(own, energy, generator)
            y = np.sqrt(masses / masses.sum(axis=1, keepdims=True))
            y *= generator.choice([-1.0, 1.0], size=y.shape)
            states[:, :, index] = (complement @ (rotation @ y[:, :, np.newaxis]))[:, :, 0]
        return states

    def _swept(self, masses: list[float], energies: list[float], generator: np.random.Generator) -> list[float]:
        """Redraw every mass once, given the shares of the others, in an order drawn at random; in place."""
        proposals = self._proposals(generator)
        total = math.fsum(masses)
        energy = math.fsum(map(float.__mul__, masses, energies))
        for i in generator.permutation(self.dimension).tolist():
            rest, rest_energy = total - masses[i], energy - masses[i] * energies[i]
            if rest < _SMALL_REST * total:
                masses[i] = 0.0
                rest, rest_energy = sum(masses), sum(map(float.__mul__, masses, energies))
            masses[i] = rest * _odds(rest_energy / rest - energies[i], self.dimension, proposals)
            total, energy = rest + masses[i], rest_energy + masses[i] * energies[i]
        return masses

    def _proposals(self, generator: np.random.Generator) -> Iterator[tuple[float, float, float]]:
        """Yield two chi-square variables, of 1 and of m - 1 degrees, and an exponential one to accept them by."""
        while True:
            one = np.square(generator.standard_normal(self.dimension))
            others = generator.chisquare(self.dimension - 1, self.dimension)
            exponentials = generator.standard_exponential(self.dimension)
            yield from zip(one.tolist(), others.tolist(), exponentials.tolist(), strict=True)


def _odds(pull: float, dimension: int, proposals: Iterator[tuple[float, float, float]]) -> float:
    """Draw t/(1 - t), t with the density t^{-1/2} (1 - t)^{(m-3)/2} exp(c t), c the pull and m the dimension.

    It is the distribution of u_1^2 under exp(c u_1^2) on the sphere of R^m: Bingham with two distinct eigenvalues, so b
    of its proposal (`bingham.py`) solves a quadratic equation.
    """
    gap = abs(pull)
    linear = dimension - 2.0 * gap
    constant = 2.0 * gap * (1.0 if pull >= 0 else dimension - 1.0)
    root = math.hypot(linear, 2.0 * math.sqrt(constant))
    # Of the two forms of the positive root, the one without a difference of like numbers.
    b = (linear + root) / 2.0 if linear >= 0 else 2.0 * constant / (root - linear)
    own, other = (b, b + 2.0 * gap) if pull >= 0 else (b + 2.0 * gap, b)
    half = dimension / 2
    for one, others, exponential in proposals:
        t, s = one / own, others / other
        quotient = (one + others) / (t + s)
        # `log_acceptance` of one number, without the cost of an array.
        if exponential >= -(half - quotient / 2 + half * math.log(quotient / dimension)):
            return t / s
    raise AssertionError("proposals do not end")


HOFF_UPDATES = 20_000
"""The number of steps that Chaudhuri, Sarwate and Sinha (2013) run Hoff's sampler for."""


def default_updates(d: int, k: int, method: str = "block") -> int:
    """Return the number of updates run by default, a function of d and k alone.

    For the block method it is 20 + ⌈16·log₂(1 + min(k, d − k))⌉: at least 1.8 times what chains from the
    uniform distribution needed to settle at any spectrum tried, up to a concentration of 1e12
    (docs/research/samplers.md).

    Examples
    --------
    >>> default_updates(116, 4), default_updates(513, 8)
    (58, 71)
    """
    if method == "hoff":
        return HOFF_UPDATES
    return 20 + math.ceil(16 * math.log2(1 + min(k, d - k)))


def matrix_bingham(
    B: ArrayLike,
    k: int,
    generator: np.random.Generator,
    size: int | None = None,
    *,
    method: str = "block",
    updates: int | None = None,
) -> FloatArray:
    """Draw V with orthonormal columns from the density proportional to exp(tr VᵀBV).

    Parameters
    ----------
    B : array_like of shape (d, d) or (d,)
        A symmetric matrix, of any sign; or, in one dimension, the diagonal of one.
    k : int
        The number of columns, from 1 to d.
    generator : numpy.random.Generator
        The source of randomness.
    size : int, optional
        The number of independent draws, each by a chain of its own. By default one, returned without a leading axis.
    method : {"block", "hoff"}, default "block"
        Block Gibbs: an update redraws a whole column exactly, after a random rotation of the columns, then
        turns every pair of eigendirections by an exact angle. Or the sampler of Hoff (2009), where an update
        is a pass over all columns, coordinate by coordinate; kept to repeat published experiments.
    updates : int, optional
        The number of updates of each chain, by default `default_updates`. It must not be chosen by looking at
        private data.

    Returns
    -------
    ndarray of shape (d, k) or (size, d, k)
        Matrices with orthonormal columns.

    Notes
    -----
    For k = 1 and k = d the draw is exact. Otherwise it is the state of a Markov chain after a fixed number of
    updates, started from the uniform distribution: its convergence is checked, not proved. A start that knows nothing
    of B errs on the side of privacy if it is left too early.

    Examples
    --------
    >>> import numpy as np
    >>> V = matrix_bingham(np.diag([900.0, 800.0, 1.0, 0.0]), 2, np.random.default_rng(0))
    >>> V.shape, bool(np.linalg.norm(V[:2]) > 1.3)  # √2 where the span is that of the first two axes
    ((4, 2), True)
    """
    check_generator(generator)
    one_of("method", method, ("block", "hoff"))
    chains = 1 if size is None else integer_between("size", size, 1)
    eigenvalues, basis = eigensystem(symmetric_matrix(B))
    d = eigenvalues.size
    k = integer_between("k", k, 1, d)
    if updates is None:
        updates = default_updates(d, k, method)
    updates = integer_between("updates", updates, 1)
    if k == 1:
        return bingham(B, generator, size)[..., np.newaxis]
    if k == d:
        # tr VᵀBV = tr B for every orthogonal V, so the distribution is uniform.
        draws = haar_orthogonal(chains, d, d, generator)
        return np.asarray(draws[0] if size is None else draws)

    order = np.argsort(-eigenvalues, kind="stable")
    gaps = eigenvalues[order[0]] - eigenvalues[order]
    kernel = BlockKernel(gaps, k) if method == "block" else HoffKernel(gaps, k)
    states = haar_orthogonal(chains, d, k, generator)
    for _ in range(updates):
        states = kernel.update(states, generator)
    # One Newton-Schulz step takes the rounding of all updates out of the columns.
    states = states @ (1.5 * np.eye(k) - 0.5 * (states.mT @ states))
    if basis is None:
        draws = np.empty_like(states)
        draws[:, order] = states
    else:
        draws = basis[:, order] @ states
    return np.asarray(draws[0] if size is None else draws)
