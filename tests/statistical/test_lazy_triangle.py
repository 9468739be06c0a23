"""Roots of chi-squares and lazy triangles have their distributions, whichever path decides their coins."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from eigenveil.sampling import wishart as module
from eigenveil.sampling.randomness import seeded_generator
from eigenveil.sampling.wishart import LazyChis, lazy_triangles
from statistical.constants import ALPHA, EXACT_FACTOR, PERTURB, N
from statistical.mechanisms import follows

DEGREES = [1, 2, 10, 9000]


def roots(degrees, size, seed):
    return LazyChis(np.full(size, degrees), seeded_generator(seed))


@pytest.mark.parametrize("degrees", DEGREES)
def test_roots_of_chi_squares_have_their_distribution(degrees):
    sample = roots(degrees, N, 1).value
    assert follows(sample, scipy.stats.chi(degrees).cdf)
    assert not follows(sample, scipy.stats.chi(degrees, scale=1 + PERTURB).cdf)
    # About the right centre, a little narrower or wider.
    centre = sample.mean()
    for factor in (1 - PERTURB, 1 + PERTURB):
        assert not follows(centre + (sample - centre) * factor, scipy.stats.chi(degrees).cdf)


def test_without_coins_the_mechanism_is_another(monkeypatch):
    """The control: all positive proposals are kept."""

    def all_kept(self, normals, first, which):
        return normals.value[first:].reshape(-1, which.size) + self._centre[which] * 2.0**-20 > 0

    monkeypatch.setattr(LazyChis, "_kept", all_kept)
    for degrees in DEGREES[1:]:
        assert not follows(roots(degrees, 20_000, 2).value, scipy.stats.chi(degrees).cdf)


@pytest.mark.parametrize("degrees", DEGREES)
def test_coins_decided_exactly_fall_as_in_floats(degrees, monkeypatch):
    """The same words, and not one root differs."""
    quick = roots(degrees, 60, 3)
    monkeypatch.setattr(module, "COIN_TOLERANCE", 2.0)
    slow = roots(degrees, 60, 3)
    assert slow.exact_coins >= 60 * (1 if degrees > 1 else 0.5)
    assert quick.exact_coins < 3
    assert np.array_equal(quick.value, slow.value)


def test_many_rounds_of_few_proposals_have_the_same_distribution(monkeypatch):
    monkeypatch.setattr(module, "PROPOSALS", 1)
    sample = roots(3, 20_000, 4)
    assert len(sample._drawn) > 5
    assert follows(sample.value, scipy.stats.chi(3).cdf)
    assert worst_error(sample, range(0, 20_000, 100)) <= sample.error


def worst_error(numbers, indices):
    exact = ((Fraction(numbers.integer(i, 64), 2**115), float(numbers.value[i])) for i in indices)
    return max(abs(number - Fraction(value)) for number, value in exact)


def test_digits_are_those_of_the_floats():
    numbers = LazyChis(np.arange(1, 2001), seeded_generator(5))
    assert numbers.error / 1000 < worst_error(numbers, range(2000)) <= numbers.error
    first, triangle = lazy_triangles(2, 30, 31, seeded_generator(6))
    assert triangle.error / 1000 < worst_error(triangle, range(900)) <= triangle.error
    above = np.triu_indices(30, 1)
    assert not triangle.value.reshape(30, 30)[above].any()
    assert not any(triangle.integer(30 * i + j, 64) for i, j in zip(*above, strict=True))
    # No number is used twice.
    assert len({one.integer(i, 0) for one in (first, triangle) for i in np.flatnonzero(one.value)}) == 2 * 465


@pytest.mark.parametrize(("d", "degrees"), [(4, 2), (3, 9)])
def test_triangles_have_the_distribution_of_a_matrix_of_normals(d, degrees):
    """Fewer degrees than features, as many and more."""
    generator = seeded_generator(7)
    pairs = [lazy_triangles(2, d, degrees, generator) for _ in range(1500)]
    rows = np.array([triangle.value.reshape(d, -1) for pair in pairs for triangle in pair])
    drawn = rows @ np.swapaxes(rows, 1, 2)
    normals = generator.standard_normal((30_000, d, degrees))
    plain = normals @ np.swapaxes(normals, 1, 2)
    for functional in (
        lambda W: W[:, -1, -1],
        lambda W: W[:, 0, -1],
        lambda W: np.trace(W, axis1=1, axis2=2),
        lambda W: np.linalg.eigvalsh(W)[:, -min(d, degrees)],
    ):
        assert scipy.stats.ks_2samp(functional(drawn), functional(plain)).pvalue > ALPHA
    trace = np.trace(drawn, axis1=1, axis2=2)
    assert scipy.stats.spearmanr(trace[::2], trace[1::2]).pvalue > ALPHA  # the two of a pair
    assert follows(trace, scipy.stats.chi2(d * degrees).cdf)
    assert not follows(trace * EXACT_FACTOR, scipy.stats.chi2(d * degrees).cdf)
