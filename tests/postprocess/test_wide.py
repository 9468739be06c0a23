"""What wide matrices need: blocks on all cores, no copies, and a solver for a few directions."""

from dataclasses import replace

import numpy as np
import pytest

from eigenveil.errors import CapacityError
from eigenveil.mechanisms import MECHANISMS
from eigenveil.moments import RowBound
from eigenveil.moments.second_moments import SecondMoments
from eigenveil.postprocess import ridge_from_covariance, shrink, spectrum
from eigenveil.postprocess.entries import plain_error
from eigenveil.postprocess.least_squares import LeastSquares
from eigenveil.releases.multivariate import inverse
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


WIDE = {
    "noise": lambda d, generator: np.sort(generator.standard_normal(d)),
    "a spike": lambda d, generator: np.append(generator.uniform(0, 1, d - 1), 1e6),
    "ties": lambda d, generator: np.repeat([-1.0, 0.0, 2.0], [d // 2, d - d // 2 - 3, 3]),
    "far from 1": lambda d, generator: 1e150 * generator.standard_normal(d),
    "zero": lambda d, generator: np.zeros(d),
}


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("count", [0, 2, 20, 200, 300])
def test_an_eigensystem_is_what_numpy_finds_however_much_of_it_is_asked_for(name, count):
    d, generator = 300, np.random.default_rng(4)
    basis = np.linalg.qr(generator.standard_normal((d, d)))[0]
    matrix = (basis * WIDE[name](d, generator)) @ basis.T
    matrix = (matrix + matrix.T) / 2
    system, size = spectrum.Eigensystem(matrix), max(float(np.abs(matrix).max()), 1e-300)
    rows = system.rows(count)
    assert np.allclose(system.values / size, np.linalg.eigvalsh(matrix)[::-1] / size, atol=1e-10)
    assert np.allclose(rows @ rows.T, np.eye(count), atol=1e-11)
    assert np.allclose((rows @ matrix - system.values[:count, None] * rows) / size, 0.0, atol=1e-10)
    assert (np.abs(rows).max(axis=1) == rows.max(axis=1)).all()
    columns = generator.standard_normal((d, 2))
    along = system.coordinates(columns)
    assert np.allclose(system.combined(along[:, 0]), columns[:, 0])
    product = np.stack([system.combined(one) for one in (system.values / size * along.T)], axis=1)
    assert np.allclose(product, matrix @ columns / size, atol=1e-9)
    assert not np.allclose(system.combined(along[::-1, 0]), columns[:, 0])  # the control: in another order


@pytest.mark.parametrize("sd", [1e-4, 0.05, 0.3])
def test_regressions_are_the_same_whether_all_eigenvectors_are_computed_or_few(monkeypatch, sd):
    generator = np.random.default_rng(6)
    basis = np.linalg.qr(generator.standard_normal((17, 17)))[0]
    noise = generator.standard_normal((17, 17))
    matrix = (basis * np.geomspace(5.0, 0.5, 17)) @ basis.T + sd / 3 * (noise + noise.T)
    lever = 0.2 * generator.standard_normal(17)
    error = replace(plain_error(17, sd**2, level=0.95), lever=lever, mean_bias=-(sd**2) * np.ones(17))

    def numbers():
        fit = LeastSquares(matrix, error, per_row=1e-4, population=True)
        each = [(one.value, *one.interval, one.resolved_share) for one in fit.contrasts(np.eye(16), 2.0)]
        ridge = ridge_from_covariance(matrix, shrink(matrix, sd**2), error)
        return np.concatenate([np.ravel(each), fit.coef, fit.r2_interval(2.0), ridge.coef, [ridge.evidence, ridge.r2]])

    whole = numbers()
    monkeypatch.setattr(spectrum, "_DECOMPOSED_AT_ONCE", 1)
    few = numbers()
    assert np.allclose(few, whole, atol=1e-9)
    assert not np.array_equal(few, whole)  # the control: they did go another way


@pytest.mark.parametrize("above", [0, 1, 5, 6, 40])
def test_the_inverse_is_that_of_the_raised_variances(above):
    generator = np.random.default_rng(above)
    basis = np.linalg.qr(generator.standard_normal((40, 40)))[0]
    values = np.append(generator.uniform(2, 50, above), generator.uniform(0, 1, 40 - above))
    values = np.sort(values)[::-1]
    found = inverse(values, spectrum.Eigensystem((basis * values) @ basis.T), 1.0)
    raised = (basis * np.maximum(values, 1.0)) @ basis.T
    assert np.allclose(found @ raised, np.eye(40))
    assert above == 40 or not np.allclose(found @ (basis * values) @ basis.T, np.eye(40))  # the control: not raised


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
