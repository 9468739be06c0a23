"""The noisy power method: the sensitivity of a product, the noise of an iteration, and what it does to directions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from contract.catalogue import make
from eigenveil.accounting.calibration import gaussian_mu
from eigenveil.mechanisms import noisy_power
from eigenveil.mechanisms.base import integer_directions, orthonormal
from eigenveil.sampling.certified import ExactMatrix
from statistical.constants import EXACT_FACTOR, SIGMAS

GRID, D = 2**32, 6
SPECTRUM = np.array([0.4, 0.25, 0.1, 0.05, 0.03, 0.02])
ROWS = 30_000


def gram_of(rows):
    integers = np.trunc(np.asarray(rows) * 2**16).astype(np.int64)
    return integers.T @ integers


@pytest.mark.parametrize("k", [1, 2, 3])
def test_no_two_neighbours_are_farther_apart_than_the_sensitivity(k):
    """By a search over rows, and reached where two rows lie in the span of the directions."""
    generator = np.random.default_rng(k)
    directions = integer_directions(orthonormal(generator.standard_normal((k, D))))
    bound = noisy_power.image_sensitivity(directions, GRID, Fraction(min(k, 2)))
    rows = generator.normal(size=(300, D)) @ (np.eye(D) + 9 * orthonormal(directions).T @ orthonormal(directions))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[:k] = orthonormal(directions)
    images = [noisy_power._image(ExactMatrix(gram_of([row])), directions).astype(float) for row in rows]
    images.append(np.zeros((k, D)))
    moved = max(np.linalg.norm(one - other) for i, one in enumerate(images) for other in images[:i])
    assert 0.999 * bound < moved <= bound


def test_the_product_with_directions_is_exact():
    generator = np.random.default_rng(0)
    gram = gram_of(generator.normal(size=(500, D)) * 10)
    directions = integer_directions(orthonormal(generator.standard_normal((2, D))))
    direct = [[sum(int(a) * int(b) for a, b in zip(row, one, strict=True)) >> 24 for row in gram] for one in directions]
    assert noisy_power._image(ExactMatrix(gram), directions).tolist() == direct


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("k", [1, 3])
def test_the_noise_of_an_iteration_is_that_of_the_proof(k, adjacency, monkeypatch):
    scales, directions = [], []

    def noted(scale, size, generator):
        scales.append(scale / GRID)
        return drawn(scale, size, generator)

    def seen(matrix, one):
        directions.append(one * 2.0**-24)
        return image(matrix, one)

    drawn, image = noisy_power.discrete_gaussian, noisy_power._image
    monkeypatch.setattr(noisy_power, "discrete_gaussian", noted)
    monkeypatch.setattr(noisy_power, "_image", seen)
    change = math.sqrt(min(k, 2)) if adjacency == "replace_one" else 1.0
    for calibration in ("tight", "paper"):
        scales.clear()
        directions.clear()
        mechanism = make("noisy_power", calibration, adjacency, d=D, k=k, epsilon=0.8, iterations=7)
        mechanism.draw(gram_of(np.eye(D)), GRID, 10, np.random.default_rng(1))
        assert len(scales) == 7
        published = math.sqrt(4 * k * 7 * math.log(1e6)) / 0.8
        if calibration == "tight":
            mu = gaussian_mu(0.8, 0.99e-6)
            assert scales == pytest.approx([change * math.sqrt(7) / mu] * 7, rel=1e-5)
        else:
            mu = change * math.sqrt(7 * D) / published
            assert scales == pytest.approx([published * np.abs(one).max() for one in directions], rel=1e-9)
            assert min(scales) * math.sqrt(D) >= published * (1 - 1e-5)
        assert mechanism.guarantee().mu == pytest.approx(mu, rel=1.1e-3)
        assert mechanism.guarantee().rho == pytest.approx(mechanism.guarantee().mu ** 2 / 2, rel=1e-6)


def mean_loss(epsilon, draws, seed):
    """Return the mean of the variance that is lost, and its standard error."""
    mechanism = make("noisy_power", "tight", d=D, k=2, epsilon=epsilon, iterations=12)
    gram, generator = np.diag(np.rint(SPECTRUM * ROWS * GRID).astype(np.int64)), np.random.default_rng(seed)
    lost = []
    for _ in range(draws):
        directions = orthonormal(mechanism.draw(gram, GRID, ROWS, generator)["directions"].astype(float))
        lost.append(SPECTRUM[:2].sum() - float(np.sum(directions**2 @ SPECTRUM)))
    return np.mean(lost), np.std(lost) / math.sqrt(draws)


@pytest.mark.parametrize("draws", [400, pytest.param(8_000, marks=pytest.mark.heavy)])
def test_directions_are_as_far_off_as_the_noise_makes_them(draws):
    """By the first-order loss; a noise that is 1.2 times too large is seen."""
    mechanism = make("noisy_power", "tight", d=D, k=2, epsilon=2.0, iterations=12)
    predicted, _ = mechanism.first_order_loss(SPECTRUM, ROWS)
    mean, error = mean_loss(2.0, draws, 1)
    assert abs(mean - predicted) < SIGMAS * error + 0.02 * predicted  # the second order
    mean, error = mean_loss(2.0 / EXACT_FACTOR, draws, 2)
    assert abs(mean - predicted) > SIGMAS * error + 0.02 * predicted


def test_the_number_of_iterations_is_public():
    assert make("noisy_power", d=2).iterations == 4
    assert make("noisy_power", d=500).iterations == 13
    with pytest.raises(ValueError, match="iterations"):
        make("noisy_power", iterations=0)
