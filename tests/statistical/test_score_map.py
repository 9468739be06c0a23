"""The noise of a score map by its distribution, cell by cell, with controls that must fail; cells are independent."""

import numpy as np
import pytest
import scipy.stats

from eigenveil.guarantee import Adjacency
from eigenveil.mechanisms.choices import CountMechanism
from eigenveil.sampling.randomness import secure_generator
from statistical.constants import ALPHA, PERTURB, SIGMAS, N
from statistical.mechanisms import follows

TRUTH = np.array([0, 3, 1000, 1_000_000])


def noise_of(mechanism, draws=N // TRUTH.size):
    """Return the noise on private counts, in counts, one column a cell."""
    counts = np.tile(TRUTH, (draws, 1))
    return (mechanism.draw(counts, secure_generator()) * mechanism.unit) - counts


def laplace_accepts(noise, scale):
    """Chi-square at level ALPHA against exp(-|x|/scale) on the integers, tails pooled."""
    reach = int(12 * scale)
    values = np.arange(-reach, reach + 1)
    ratio = np.exp(-1 / scale)
    expected = (1 - ratio) / (1 + ratio) * ratio ** np.abs(values) * noise.size
    observed = np.bincount(
        np.clip(noise.ravel(), -reach - 1, reach + 1).astype(int) + reach + 1, minlength=2 * reach + 3
    )
    rest = noise.size - expected.sum()
    expected = np.array([rest / 2, *expected, rest / 2])
    common = expected >= 10
    seen = np.append(observed[common], observed[~common].sum())
    wanted = np.append(expected[common], expected[~common].sum())
    return scipy.stats.chisquare(seen, wanted * seen.sum() / wanted.sum()).pvalue > ALPHA


@pytest.mark.parametrize(("adjacency", "change"), [(Adjacency.REPLACE_ONE, 2), (Adjacency.ADD_OR_REMOVE_ONE, 1)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_laplace_noise_has_the_scale_that_the_proof_needs(adjacency, change, epsilon):
    mechanism = CountMechanism(epsilon, adjacency=adjacency)
    assert mechanism.scale >= change / epsilon
    noise = noise_of(mechanism)
    assert laplace_accepts(noise, change / epsilon)
    assert not laplace_accepts(noise, change / epsilon * (1 - PERTURB))
    assert noise.std() == pytest.approx(mechanism.noise_sd, rel=SIGMAS * np.sqrt(5 / noise.size))


@pytest.mark.parametrize("adjacency", Adjacency)
def test_gaussian_noise_has_the_deviation_of_its_curve(adjacency):
    mechanism = CountMechanism(1.0, 1e-6, adjacency, "gaussian")
    noise = noise_of(mechanism)
    assert follows(noise, scipy.stats.norm(scale=mechanism.scale).cdf)
    assert not follows(noise, scipy.stats.norm(scale=mechanism.scale * (1 - PERTURB)).cdf)


def correlated(noise):
    """Return whether cells of the same draw go together, at level ALPHA."""
    pairs = np.corrcoef(noise.T)[np.triu_indices(noise.shape[1], 1)]
    return bool(np.abs(pairs).max() > SIGMAS / np.sqrt(len(noise)))


def test_cells_have_noise_of_their_own():
    noise = noise_of(CountMechanism(1.0))
    assert not correlated(noise)
    assert correlated(noise + noise[:, [1, 0, 2, 3]])  # control: noise that two cells share


def test_empty_cells_pass_the_noise_level_in_one_of_twenty_maps():
    for mechanism in (CountMechanism(1.0), CountMechanism(1.0, 1e-6, kind="gaussian")):
        cells = 100
        empty = mechanism.draw(np.zeros((4000, cells), dtype=np.int64), secure_generator()) * mechanism.unit
        passed = np.mean((empty > mechanism.level(cells)).any(axis=1))
        assert passed <= 0.05 + SIGMAS * np.sqrt(0.05 / 4000)
        assert np.mean((empty > mechanism.level(cells) / 2).any(axis=1)) > 0.2  # control: half of it is passed often
