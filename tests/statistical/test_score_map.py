"""The noise of a score map by its law, cell by cell, with controls that must fail; cells are independent."""

import numpy as np
import pytest
import scipy.stats

from eigenveil.guarantee import Relation
from eigenveil.mechanisms.choices import CountLaw
from eigenveil.sampling.randomness import secure_generator
from statistical.constants import ALPHA, PERTURB, SIGMAS, N
from statistical.laws import follows

TRUTH = np.array([0, 3, 1000, 1_000_000])


def noise_of(law, draws=N // TRUTH.size):
    """Return the noise on private counts, in counts, one column a cell."""
    counts = np.tile(TRUTH, (draws, 1))
    return (law.draw(counts, secure_generator()) * law.unit) - counts


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


@pytest.mark.parametrize(("relation", "change"), [(Relation.REPLACE, 2), (Relation.ADD_REMOVE, 1)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_laplace_noise_has_the_scale_that_the_proof_needs(relation, change, epsilon):
    law = CountLaw(epsilon, relation=relation)
    assert law.scale >= change / epsilon
    noise = noise_of(law)
    assert laplace_accepts(noise, change / epsilon)
    assert not laplace_accepts(noise, change / epsilon * (1 - PERTURB))
    assert noise.std() == pytest.approx(law.noise_sd, rel=SIGMAS * np.sqrt(5 / noise.size))


@pytest.mark.parametrize("relation", Relation)
def test_gaussian_noise_has_the_deviation_of_its_curve(relation):
    law = CountLaw(1.0, 1e-6, relation, "gaussian")
    noise = noise_of(law)
    assert follows(noise, scipy.stats.norm(scale=law.scale).cdf)
    assert not follows(noise, scipy.stats.norm(scale=law.scale * (1 - PERTURB)).cdf)


def correlated(noise):
    """Return whether cells of the same draw go together, at level ALPHA."""
    pairs = np.corrcoef(noise.T)[np.triu_indices(noise.shape[1], 1)]
    return bool(np.abs(pairs).max() > SIGMAS / np.sqrt(len(noise)))


def test_cells_have_noise_of_their_own():
    noise = noise_of(CountLaw(1.0))
    assert not correlated(noise)
    assert correlated(noise + noise[:, [1, 0, 2, 3]])  # control: noise that two cells share


def test_empty_cells_pass_the_noise_level_in_one_of_twenty_maps():
    for law in (CountLaw(1.0), CountLaw(1.0, 1e-6, kind="gaussian")):
        cells = 100
        empty = law.draw(np.zeros((4000, cells), dtype=np.int64), secure_generator()) * law.unit
        passed = np.mean((empty > law.level(cells)).any(axis=1))
        assert passed <= 0.05 + SIGMAS * np.sqrt(0.05 / 4000)
        assert np.mean((empty > law.level(cells) / 2).any(axis=1)) > 0.2  # control: half of it is passed often
