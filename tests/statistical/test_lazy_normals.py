"""Lazy normals are normal, whichever path decides their coins, and their digits are those of their floats."""

import numpy as np
import pytest
import scipy.stats
from randomgen import AESCounter

from eigenveil.sampling import lazy
from eigenveil.sampling.lazy import LazyNormals, LazyUniform
from eigenveil.sampling.randomness import seeded_generator
from statistical.constants import PERTURB, N
from statistical.mechanisms import folded, follows


@pytest.mark.parametrize("kind", [AESCounter, np.random.PCG64, np.random.MT19937])
def test_words_are_those_of_the_generator_and_have_all_their_bits(kind):
    seed = {"key": 5} if kind is AESCounter else {"seed": 5}
    ours, plain = (np.random.Generator(kind(**seed)) for _ in range(2))
    for size in (1, 7, 500):  # with half a word in a buffer, or without
        assert ours.integers(0, 9, 3, np.uint32).tolist() == plain.integers(0, 9, 3, np.uint32).tolist()
        words = lazy.random_words(ours, size)
        assert words.tolist() == plain.integers(0, 2**64, size, np.uint64).tolist()
    assert np.bitwise_or.reduce(words) == np.uint64(2**64 - 1)  # a raw number of MT19937 has 32 bits


def test_they_are_normal_and_a_change_of_scale_is_caught():
    numbers = LazyNormals(N, seeded_generator(1)).value
    cdf = scipy.stats.norm.cdf
    assert follows(numbers, cdf)
    assert follows(np.abs(numbers), folded(cdf))
    assert not follows(np.abs(numbers) * (1 + PERTURB), folded(cdf))
    tail = np.abs(numbers)[np.abs(numbers) > 2.5]
    assert follows(tail, lambda x: 1 - scipy.stats.norm.sf(x) / scipy.stats.norm.sf(2.5))


def test_coins_decided_exactly_have_the_same_distribution(monkeypatch):
    monkeypatch.setattr(lazy, "COIN_TOLERANCE", 1.0)
    monkeypatch.setattr(lazy, "SURE_BY_WORD", np.zeros_like(lazy.SURE_BY_WORD))
    normals = LazyNormals(3000, seeded_generator(2))
    assert normals.exact_coins >= 3000
    assert follows(normals.value, scipy.stats.norm.cdf)
    assert not follows(np.abs(normals.value) * 1.2, folded(scipy.stats.norm.cdf))


def test_without_coins_the_mechanism_is_another(monkeypatch):
    """The control: proposals that are all kept follow the steps of the table."""
    monkeypatch.setattr(lazy, "SURE_BY_WORD", np.full_like(lazy.SURE_BY_WORD, 2**16 - 1))
    assert not follows(LazyNormals(4 * N, seeded_generator(3)).value, scipy.stats.norm.cdf)


@pytest.mark.parametrize("bits", [0, 64, 128])
def test_digits_are_those_of_the_float(bits):
    normals = LazyNormals(2000, seeded_generator(4))
    worst = 0.0
    for index in range(2000):
        exact = (normals.integer(index, bits) + (0.5 if bits == 0 else 0)) / 2 ** (51 + bits)
        worst = max(worst, abs(exact - normals.value[index]))
        if bits:
            assert abs(normals.integer(index, bits)) >> bits == abs(normals.integer(index, 0))
    assert normals.error / 1000 < worst <= normals.error


def test_further_digits_are_uniform():
    normals = LazyNormals(4000, seeded_generator(5))
    further = [(abs(normals.integer(index, 64)) % 2**64) / 2**64 for index in range(4000)]
    assert follows(further, scipy.stats.uniform.cdf)
    assert [abs(normals.integer(index, 64)) % 2**64 / 2**64 for index in range(4000)] == further  # drawn once


def test_a_number_beyond_the_table_keeps_its_digits():
    generator = seeded_generator(6)
    normals = LazyNormals(4, generator)
    far = int(np.flatnonzero(lazy.CELL == lazy.TABLE_CELLS)[0])
    word = (far << 48) | (1 << 47) | 12345  # a minus sign, and some digits
    normals._word[2] = word
    normals.value[2] = -8.0
    while not normals._kept(2, word, LazyUniform(0, 80, generator), normals.value, 2):
        pass
    assert normals.value[2] <= -8
    assert abs(normals.integer(2, 0)) >> 47 == normals._far_cell[2]
    assert abs(normals.integer(2, 0)) % 2**47 == 12345
    assert abs(normals.integer(2, 0) / 2**51 - normals.value[2]) <= 2.0**-51 * (1 + abs(normals.value[2]) / 4)
