"""Discrete Laplace and Gaussian numbers against their probabilities, with OpenDP's samplers as the reference."""

import decimal
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from eigenveil.errors import InvalidParameterError
from eigenveil.randomness import secure_generator, seeded_generator
from eigenveil.samplers import discrete
from eigenveil.samplers.discrete import discrete_gaussian, discrete_laplace, geometric
from statistical.constants import ALPHA, PERTURB, N


def opendp_draws(law, scale, size):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    make, metric = (
        (dp.m.make_laplace, dp.l1_distance(T="i64"))
        if law is discrete_laplace
        else (dp.m.make_gaussian, dp.l2_distance(T="f64"))
    )
    measurement = make(dp.vector_domain(dp.atom_domain(T="i64")), metric, scale=scale)
    return np.array(measurement([0] * size))


SOURCES = {
    "secure": lambda law, scale, size: law(scale, size, secure_generator()),
    "seeded": lambda law, scale, size: law(scale, size, seeded_generator(5)),
    "opendp": opendp_draws,
}
SCALES = [0.3, 1.0, 7.5]
every_source = pytest.mark.parametrize(
    "draw",
    [
        # The other package's draws are slow, and show only that the test accepts an independent sampler.
        pytest.param(draw, id=source, marks=pytest.mark.heavy if source == "opendp" else ())
        for source, draw in SOURCES.items()
    ],
)


def probabilities(law, scale, values):
    exponent = values**2 / (2 * scale**2) if law is discrete_gaussian else np.abs(values) / scale
    weights = np.exp(-exponent) * ((values >= 0) | (law is not geometric))
    return weights / weights.sum()


def accepted(sample, law, scale) -> bool:
    """Chi-square at level ALPHA, with the two tails pooled."""
    reach = int(np.ceil(25 * scale)) + 3
    values = np.arange(-reach, reach + 1)
    expected = probabilities(law, scale, values) * sample.size
    observed = np.bincount(sample[np.abs(sample) <= reach] + reach, minlength=values.size)
    common = expected >= 10
    observed = np.append(observed[common], sample.size - observed[common].sum())
    expected = np.append(expected[common], sample.size - expected[common].sum())
    keep = expected > 0.5
    return bool(
        scipy.stats.chisquare(observed[keep], expected[keep] * observed[keep].sum() / expected[keep].sum()).pvalue
        > ALPHA
    )


@every_source
@pytest.mark.parametrize("law", [discrete_laplace, discrete_gaussian])
@pytest.mark.parametrize("scale", SCALES)
def test_draws_have_their_probabilities(law, scale, draw):
    sample = draw(law, scale, N // 2)
    assert accepted(sample, law, scale)
    assert not accepted(sample, law, scale * (1 + 2 * PERTURB))
    assert not accepted(sample, law, scale * (1 - 2 * PERTURB))


@pytest.mark.parametrize("source", ["secure", "seeded"])
@pytest.mark.parametrize("scale", SCALES)
def test_geometric_draws_have_their_probabilities(scale, source):
    sample = SOURCES[source](geometric, scale, N // 2)
    assert accepted(sample, geometric, scale)
    assert not accepted(sample, geometric, scale * (1 + 2 * PERTURB))
    assert not accepted(sample, geometric, scale * (1 - 2 * PERTURB))
    assert not accepted(sample + 1, geometric, scale)


@pytest.mark.parametrize("law", [discrete_laplace, geometric, discrete_gaussian])
def test_coins_settled_in_decimals_have_the_same_law(law, monkeypatch):
    """With a tolerance of 1 every coin is undecided, and goes through the exact path."""
    monkeypatch.setattr(discrete, "TOLERANCE", 1.0)
    sample = law(1.5, 6000, seeded_generator(8))
    assert accepted(sample, law, 1.5)
    assert not accepted(sample, law, 2.0)


def test_the_exact_path_decides_as_float64_does_wherever_that_is_sure(monkeypatch):
    class OneWord:
        """Hands out the same words again, so that both paths judge the same coins."""

        def integers(self, low, high, size=None, dtype=None):
            return words.copy() if size is not None else np.uint64(0)

    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**64, 500, dtype=np.uint64)
    gammas = rng.exponential(size=500) * rng.choice([1e-6, 0.5, 20.0], 500)

    def exactly(i):
        return Fraction(float(gammas[i]))

    fast = discrete._falls(gammas, exactly, OneWord())
    monkeypatch.setattr(discrete, "TOLERANCE", 1.0)
    assert np.array_equal(fast, discrete._falls(gammas, exactly, OneWord()))


def test_a_coin_at_the_edge_asks_for_more_bits():
    """A word equal to the first 64 bits of exp(-1) cannot be decided without further ones."""

    class Words:
        def __init__(self, *words):
            self.words = list(words)

        def integers(self, *_, **__):
            return np.uint64(self.words.pop(0))

    with decimal.localcontext(prec=80):
        first, rest = divmod(decimal.Decimal(-1).exp() * 2**64, 1)
        second = int(rest * 2**64)
    below = discrete._Uniform(int(first), Words(second - 1))
    above = discrete._Uniform(int(first), Words(second + 1))
    assert below.below_exp(Fraction(1))
    assert not above.below_exp(Fraction(1))


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 7.3, 1e10 / 3, 2.0**50 + 1])
def test_scales_are_rounded_up_and_hardly(scale):
    rounded = discrete._rounded_up(scale)
    assert Fraction(scale) <= rounded <= Fraction(scale) * (1 + Fraction(1, 2**38))


@every_source
def test_large_scales_look_continuous(draw):
    scale = 1e10
    for law, cdf in ((discrete_laplace, scipy.stats.laplace.cdf), (discrete_gaussian, scipy.stats.norm.cdf)):
        sample = draw(law, scale, 20_000) / scale
        assert scipy.stats.kstest(sample, cdf).pvalue > ALPHA
        assert scipy.stats.kstest(sample * 1.2, cdf).pvalue < ALPHA


def test_secure_draws_do_not_repeat():
    first, second = (discrete_laplace(1e9, 50, secure_generator()) for _ in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_bad_scales_are_refused(bad):
    with pytest.raises(InvalidParameterError):
        discrete_gaussian(bad, 1, seeded_generator(0))
