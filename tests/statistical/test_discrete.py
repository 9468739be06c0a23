"""Discrete Laplace and Gaussian numbers: the exact sampler and the seeded one against their probabilities."""

import numpy as np
import pytest
import scipy.stats

from eigenveil.errors import InvalidParameterError
from eigenveil.randomness import secure_generator, seeded_generator
from eigenveil.samplers.discrete import discrete_gaussian, discrete_laplace
from statistical.constants import ALPHA, PERTURB, N

GENERATORS = {"opendp": secure_generator, "seeded": lambda: seeded_generator(5)}
SCALES = [0.3, 1.0, 7.5]


def probabilities(law, scale, values):
    exponent = np.abs(values) / scale if law is discrete_laplace else values**2 / (2 * scale**2)
    weights = np.exp(-exponent)
    return weights / weights.sum()


def accepted(sample, law, scale) -> bool:
    """Chi-square at level ALPHA, with the two tails pooled."""
    reach = int(np.ceil(25 * scale)) + 3
    values = np.arange(-reach, reach + 1)
    expected = probabilities(law, scale, values) * sample.size
    observed = np.array([np.count_nonzero(sample == value) for value in values])
    common = expected >= 10
    observed = np.append(observed[common], sample.size - observed[common].sum())
    expected = np.append(expected[common], sample.size - expected[common].sum())
    keep = expected > 0.5
    return bool(
        scipy.stats.chisquare(observed[keep], expected[keep] * observed[keep].sum() / expected[keep].sum()).pvalue
        > ALPHA
    )


@pytest.mark.parametrize("make_generator", GENERATORS.values(), ids=GENERATORS)
@pytest.mark.parametrize("law", [discrete_laplace, discrete_gaussian])
@pytest.mark.parametrize("scale", SCALES)
def test_draws_have_their_probabilities(law, scale, make_generator):
    sample = law(scale, N // 2, make_generator())
    assert accepted(sample, law, scale)
    assert not accepted(sample, law, scale * (1 + 2 * PERTURB))
    assert not accepted(sample, law, scale * (1 - 2 * PERTURB))


@pytest.mark.parametrize("make_generator", GENERATORS.values(), ids=GENERATORS)
def test_large_scales_look_continuous(make_generator):
    scale = 1e10
    for law, cdf in ((discrete_laplace, scipy.stats.laplace.cdf), (discrete_gaussian, scipy.stats.norm.cdf)):
        sample = law(scale, 20_000, make_generator()) / scale
        assert scipy.stats.kstest(sample, cdf).pvalue > ALPHA
        assert scipy.stats.kstest(sample * 1.2, cdf).pvalue < ALPHA


def test_secure_draws_do_not_repeat():
    first, second = (discrete_laplace(1e9, 50, secure_generator()) for _ in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_bad_scales_are_refused(bad):
    with pytest.raises(InvalidParameterError):
        discrete_gaussian(bad, 1, seeded_generator(0))
