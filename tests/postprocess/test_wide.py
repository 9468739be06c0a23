"""What wide matrices need: blocks on all cores, no copies, and a solver for a few directions."""

import numpy as np
import pytest

from eigenveil.errors import CapacityError
from eigenveil.mechanisms import MECHANISMS
from eigenveil.moments import RowBound
from eigenveil.moments.second_moments import SecondMoments
from eigenveil.postprocess import spectrum
from eigenveil.sampling import matrices as symmetric_module
from eigenveil.sampling.matrices import mirror_upper, symmetric
from eigenveil.sampling.randomness import secure_generator, seeded_generator
from helpers import refused


def numbers(size, generator):
    return generator.integers(1, 2**60, size)


@pytest.mark.parametrize("d", [1, 2, 3, 10, 31])
@pytest.mark.parametrize("block", [1, 7, 40, 2**17])
def test_every_entry_is_drawn_once_and_mirrored(monkeypatch, d, block):
    monkeypatch.setattr(symmetric_module, "_BLOCK", block)
    matrix = symmetric(d, numbers, secure_generator())
    assert np.array_equal(matrix, matrix.T)
    assert not matrix.diagonal().any()
    above = matrix[np.triu_indices(d, 1)]
    assert above.all()
    assert np.unique(above).size == above.size  # a repeated block would repeat its numbers


def test_a_seeded_matrix_does_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(symmetric_module, "_BLOCK", 10)
    threaded = symmetric(20, numbers, seeded_generator(5))
    monkeypatch.setattr(symmetric_module, "available_cores", lambda: 1)
    assert np.array_equal(threaded, symmetric(20, numbers, seeded_generator(5)))
    assert not np.array_equal(threaded, symmetric(20, numbers, seeded_generator(6)))


@pytest.mark.parametrize("block", [1, 5, 100])
def test_the_upper_triangle_is_mirrored_in_place(monkeypatch, block):
    monkeypatch.setattr(symmetric_module, "_STRIP", block)
    matrix = np.arange(36.0).reshape(6, 6)
    wanted = np.triu(matrix) + np.triu(matrix, 1).T
    mirror_upper(matrix)
    assert np.array_equal(matrix, wanted)


@pytest.mark.parametrize("signal", [0.0, 10.0])
def test_the_solver_for_few_directions_agrees_with_the_full_one(monkeypatch, signal):
    generator = np.random.default_rng(3)
    noise = generator.standard_normal((400, 400))
    matrix = (noise + noise.T) / 20
    matrix[0, 0] += signal
    full = spectrum.sorted_eigh(matrix, 4)
    monkeypatch.setattr(spectrum, "_WIDE", 100)
    few = spectrum.sorted_eigh(matrix, 4)
    assert np.allclose(few[0], full[0], rtol=1e-12)
    assert np.allclose(few[1], full[1], atol=1e-9)
    assert np.array_equal(few[1], spectrum.sorted_eigh(matrix, 4)[1])  # one matrix has one answer


def test_a_width_beyond_memory_is_refused_before_anything_is_allocated():
    with refused(CapacityError):
        SecondMoments(RowBound(1.0), 10_000_000)


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_noise_beyond_float64_keeps_its_last_bit(name):
    """Noise that was rounded above 2^53 would be even there, and the last bit of the sum would be that of the data."""
    delta = 1e-6 if name == "gaussian" else 0.0
    mechanism = MECHANISMS[name](epsilon=0.01, delta=delta, n_features=60)
    noise = mechanism.noise(seeded_generator(3), 2.0**48)
    large = noise[np.triu_indices(60)]
    large = large[np.abs(large) > 2**53]
    assert large.size > 1000
    assert abs((large % 2).mean() - 0.5) < 3.3 / np.sqrt(large.size)  # 6.6 standard deviations
    assert not (large.astype(np.float64).astype(np.int64) % 2).any()  # what float64 would make of it


def test_the_zero_matrix_has_directions_too():
    values, directions = spectrum.sorted_eigh(np.zeros((2000, 2000)), 2)  # where Lanczos has no vector to start from
    assert not values.any()
    assert np.allclose(directions @ directions.T, np.eye(2))
