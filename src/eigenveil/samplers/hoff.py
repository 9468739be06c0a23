"""The sampler of Hoff (2009) for the matrix Bingham law, to repeat published experiments: one coordinate at a time."""

import math
from collections.abc import Iterator

import numpy as np

from eigenveil.samplers.bingham import FloatArray

# Below this share of the whole, what is left beside a coordinate is summed again: a difference would lose its digits.
_SMALL_REST = 1e-3


class HoffKernel:
    """Hoff's sampler: a pass over all columns, in each over its coordinates in the eigenbasis of its conditional law.

    The coordinates of a column are redrawn as masses without a common scale, as only their shares matter: then one of
    them costs a few operations on numbers, whatever d is.
    """

    def __init__(self, gaps: FloatArray, k: int) -> None:
        self.gaps = gaps
        self.dimension = gaps.size - k + 1

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

    It is the law of u_1^2 under exp(c u_1^2) on the sphere of R^m: Bingham with two distinct eigenvalues, so b of its
    proposal (`bingham.py`) solves a quadratic equation.
    """
    gap = abs(pull)
    linear = dimension - 2.0 * gap
    constant = 2.0 * gap * (1.0 if pull >= 0 else dimension - 1.0)
    root = math.hypot(linear, 2.0 * math.sqrt(constant))
    # Of the two forms of the positive root, the one without a difference of like numbers.
    b = (linear + root) / 2.0 if linear >= 0 else 2.0 * constant / (root - linear)
    own, other = (b, b + 2.0 * gap) if pull >= 0 else (b + 2.0 * gap, b)
    for one, others, exponential in proposals:
        t, s = one / own, others / other
        if exponential >= -_log_acceptance((one + others) / (t + s), dimension):
            return t / s
    raise AssertionError("proposals do not end")


def _log_acceptance(quotient: float, dimension: int) -> float:
    """Return `bingham._log_acceptance` of one number, without the cost of an array."""
    half = dimension / 2
    return half - quotient / 2 + half * math.log(quotient / dimension)
