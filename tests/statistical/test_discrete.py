"""Discrete Laplace and Gaussian numbers against their probabilities, with OpenDP's samplers as the reference."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats

from eigenveil.errors import InvalidParameterError
from eigenveil.sampling import discrete, lazy
from eigenveil.sampling.certified import Interval, exp_interval
from eigenveil.sampling.discrete import discrete_gaussian, discrete_laplace, geometric, geometric_reaches
from eigenveil.sampling.randomness import secure_generator, seeded_generator
from statistical.constants import ALPHA, PERTURB, N
from statistical.mechanisms import follows


def opendp_draws(mechanism, scale, size):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    make, metric = (
        (dp.m.make_laplace, dp.l1_distance(T="i64"))
        if mechanism is discrete_laplace
        else (dp.m.make_gaussian, dp.l2_distance(T="f64"))
    )
    measurement = make(dp.vector_domain(dp.atom_domain(T="i64")), metric, scale=scale)
    return np.array(measurement([0] * size))


SOURCES = {
    "secure": lambda mechanism, scale, size: mechanism(scale, size, secure_generator()),
    "seeded": lambda mechanism, scale, size: mechanism(scale, size, seeded_generator(5)),
    "opendp": opendp_draws,
}
SCALES = [0.3, 7.5]
# Cells of the Gaussian sampler with no or one integer, one or two; 16 divides 48 and all are alike.
GAUSSIAN_SCALES = [0.45, 17.0, 48.0]
every_source = pytest.mark.parametrize(
    "draw",
    [
        # The other package's draws are slow, and show only that the test accepts an independent sampler.
        pytest.param(draw, id=source, marks=pytest.mark.heavy if source == "opendp" else ())
        for source, draw in SOURCES.items()
    ],
)


def probabilities(mechanism, scale, values):
    exponent = values**2 / (2 * scale**2) if mechanism is discrete_gaussian else np.abs(values) / scale
    weights = np.exp(-exponent) * ((values >= 0) | (mechanism is not geometric))
    return weights / weights.sum()


def accepted(sample, mechanism, scale) -> bool:
    """Chi-square at level ALPHA, with the two tails pooled."""
    reach = int(np.ceil(25 * scale)) + 3
    values = np.arange(-reach, reach + 1)
    expected = probabilities(mechanism, scale, values) * sample.size
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
@pytest.mark.parametrize("mechanism", [discrete_laplace, discrete_gaussian])
@pytest.mark.parametrize("scale", SCALES)
def test_draws_have_their_probabilities(mechanism, scale, draw):
    sample = draw(mechanism, scale, N // 2)
    assert accepted(sample, mechanism, scale)
    assert not accepted(sample, mechanism, scale * (1 + 2 * PERTURB))
    assert not accepted(sample, mechanism, scale * (1 - 2 * PERTURB))


@pytest.mark.parametrize("scale", GAUSSIAN_SCALES)
def test_gaussian_draws_have_their_probabilities_whatever_their_cells_hold(scale):
    sample = discrete_gaussian(scale, 4 * N, seeded_generator(6))
    assert accepted(sample, discrete_gaussian, scale)
    for factor in (1 + PERTURB, 1 - PERTURB):
        assert not accepted(sample, discrete_gaussian, scale * factor)
    zeros = np.zeros(int((sample == 0).sum()), np.int64)  # as many again: what keeps minus zero draws
    assert not accepted(np.append(sample, zeros), discrete_gaussian, scale)
    assert not accepted(np.abs(sample), discrete_gaussian, scale)


@pytest.mark.parametrize("source", ["secure", "seeded"])
@pytest.mark.parametrize("scale", SCALES)
def test_geometric_draws_have_their_probabilities(scale, source):
    sample = SOURCES[source](geometric, scale, N // 2)
    assert accepted(sample, geometric, scale)
    assert not accepted(sample, geometric, scale * (1 + 2 * PERTURB))
    assert not accepted(sample, geometric, scale * (1 - 2 * PERTURB))
    assert not accepted(sample + 1, geometric, scale)


def reached_as_often(limits, scale, generator, n, by):
    """Tell whether every limit is reached as often as a geometric number of scale `by` reaches it."""
    reached = geometric_reaches(np.tile(limits, n), scale, generator).reshape(n, -1).sum(axis=0)
    chances = np.exp(-np.maximum(limits, 0) / by)
    found = [scipy.stats.binomtest(int(one), n, p).pvalue for one, p in zip(reached, chances, strict=True)]
    return min(found) > ALPHA


@pytest.mark.parametrize("source", [secure_generator, lambda: seeded_generator(12)])
def test_limits_are_reached_as_often_as_by_geometric_draws(source):
    limits = np.array([-(10**12), -1, 0, 1, 5, 20, 60, 10**15])
    assert reached_as_often(limits, 20.0, source(), 50_000, by=20.0)
    for factor in (1 + PERTURB, 1 - PERTURB):
        assert not reached_as_often(limits, 20.0, source(), 50_000, by=20.0 * factor)


def test_limits_that_are_settled_in_decimals_are_reached_as_often(monkeypatch):
    monkeypatch.setattr(discrete, "COIN_TOLERANCE", 1.0)
    limits = np.array([-3, 0, 1, 2, 900])
    assert reached_as_often(limits, 1.5, seeded_generator(9), 1200, by=1.5)
    assert not reached_as_often(limits, 1.5, seeded_generator(9), 1200, by=2.0)


@pytest.mark.parametrize("mechanism", [discrete_laplace, geometric, discrete_gaussian])
def test_coins_settled_in_decimals_have_the_same_distribution(mechanism, monkeypatch):
    """With a tolerance of 1 every coin is undecided, and goes through the exact path."""
    monkeypatch.setattr(discrete, "COIN_TOLERANCE", 1.0)
    sample = mechanism(1.5, 2500, seeded_generator(8))
    assert accepted(sample, mechanism, 1.5)
    assert not accepted(sample, mechanism, 2.0)


def test_the_exact_path_decides_as_float64_does_wherever_that_is_sure(monkeypatch):
    class OneWord:
        """Hands out the same words again, so that both paths judge the same coins."""

        bit_generator = None

        def integers(self, low, high, size=None, **_):
            return words.copy() if size is not None else np.uint64(0)

    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**64, 500, dtype=np.uint64)
    gammas = rng.exponential(size=500) * rng.choice([1e-6, 0.5, 20.0], 500)

    def exactly(i):
        return Fraction(float(gammas[i]))

    fast = discrete._falls(gammas, exactly, OneWord())
    monkeypatch.setattr(discrete, "COIN_TOLERANCE", 1.0)
    assert np.array_equal(fast, discrete._falls(gammas, exactly, OneWord()))


def words_of(cell):
    """Return the words of 16 bits that choose a cell."""
    return np.flatnonzero(np.equal(lazy.CELL, cell))


EVERY_SIZE = [5e-324, 0.3, 16.0, 100.3, 1e12 / 3, 2.0**57]


@pytest.mark.parametrize("scale", [3.7, 1e15])
def test_gaussian_coins_settled_in_decimals_fall_as_in_floats(scale, monkeypatch):
    """The same words: not one number differs, where every coin that a prefix leaves open is settled exactly."""
    quick = discrete_gaussian(scale, 20_000, seeded_generator(9))
    monkeypatch.setattr(discrete, "COIN_TOLERANCE", 1.0)
    assert np.array_equal(quick, discrete_gaussian(scale, 20_000, seeded_generator(9)))


def test_gaussian_coins_have_the_same_distribution_without_prefixes(monkeypatch):
    monkeypatch.setattr(discrete, "COIN_TOLERANCE", 1.0)
    monkeypatch.setattr(lazy, "SURE_BY_WORD", np.zeros_like(lazy.SURE_BY_WORD))
    sample = discrete_gaussian(20.5, 6000, seeded_generator(10))
    assert accepted(sample, discrete_gaussian, 20.5)
    assert not accepted(sample, discrete_gaussian, 1.2 * 20.5)


def test_without_coins_the_gaussian_mechanism_is_another(monkeypatch):
    """The control: proposals that are all kept follow the steps of the table."""
    monkeypatch.setattr(lazy, "SURE_BY_WORD", np.where(lazy.SURE_BY_WORD > 0, 2**16 - 1, 0).astype(np.uint16))
    assert not accepted(discrete_gaussian(100.3, 20 * N, seeded_generator(11)), discrete_gaussian, 100.3)


def test_numbers_beyond_the_table_have_the_distribution_of_the_tail(monkeypatch):
    """Every proposal is one of 8 standard deviations and more, and coins are 10^9 times as likely to fall."""
    scale = 20.5
    monkeypatch.setattr(lazy, "CELL", np.full_like(lazy.CELL, lazy.TABLE_CELLS))
    monkeypatch.setattr(lazy, "SURE_BY_WORD", np.zeros_like(lazy.SURE_BY_WORD))
    monkeypatch.setattr(lazy, "UNSURE_BELOW", np.full_like(lazy.UNSURE_BELOW, 2**16))
    monkeypatch.setattr(lazy, "HEIGHT", lazy.HEIGHT * 10**9)
    mechanism, kept = discrete._GaussianCells(scale, seeded_generator(12)), []
    while len(kept) < 500:
        kept.extend(mechanism.kept(500).tolist())
    first, sizes = 164, np.abs(kept)
    values = np.arange(first, first + 60)
    assert sizes.min() == first  # 8 * 20.5, which is in the mechanism
    for power, right in ((1.0, True), (0.6, False)):
        tail = np.exp(-(values**2 - first**2) / (2 * scale**2) * power)
        expected = np.array([tail[:2].sum(), tail[2:5].sum(), tail[5:9].sum(), tail[9:].sum()])
        observed = np.histogram(sizes, [first, first + 2, first + 5, first + 9, 10**6])[0]
        expected *= observed.sum() / expected.sum()
        assert bool(scipy.stats.chisquare(observed, expected).pvalue > ALPHA) is right
    assert scipy.stats.binomtest(int((np.array(kept) > 0).sum()), len(kept)).pvalue > ALPHA


@pytest.mark.parametrize("scale", EVERY_SIZE)
def test_every_integer_is_in_its_cell_and_within_the_bounds_of_its_coin(scale):
    mechanism, rounded = discrete._GaussianCells(scale, seeded_generator(0)), discrete._rounded_up(scale)
    starts = [-((-k * rounded) // 16) for k in range(lazy.TABLE_CELLS + 2)]
    assert mechanism._first.tolist() == starts
    sizes = [after - before for before, after in pairwise(starts)]
    assert max(sizes) == mechanism._width
    assert min(sizes) >= mechanism._width - 1
    for k in (0, 1, 16, 50, 127):
        sure, never = int(lazy.SURE_BY_WORD[words_of(k)[0]]), int(lazy.UNSURE_BELOW[k])
        factor = Fraction(lazy.HEIGHT, words_of(k).size)
        for number in {starts[k], starts[k + 1] - 1} if sizes[k] else ():
            chance = mechanism.chance(number, factor)(60)
            assert Fraction(sure, 2**16) <= chance.low
            assert chance.high <= min(1, Fraction(never, 2**16)) * (1 + Fraction(1, 10**40))
            assert mechanism._settled(k, starts[k + 1] - number)[0] == number


@pytest.mark.parametrize("scale", [0.3, 100.3, 2.0**57])
def test_the_probability_in_floats_is_as_near_as_the_proof_says(scale):
    mechanism, rng = discrete._GaussianCells(scale, seeded_generator(0)), np.random.default_rng(1)
    numbers = np.unique((rng.random(800) * 8 * scale).astype(np.int64))
    cell = (np.searchsorted(mechanism._first, numbers, side="right") - 1).astype(np.uint8)
    inside = cell < lazy.TABLE_CELLS
    numbers, cell = numbers[inside], cell[inside]
    worst = 0.0
    for number, k, chance in zip(numbers.tolist(), cell.tolist(), mechanism.float_chance(cell, numbers), strict=True):
        exponent = -(Fraction(number) ** 2) / (2 * discrete._rounded_up(scale) ** 2)
        true = exp_interval(Interval.point(exponent), 40).low * Fraction(lazy.HEIGHT, words_of(k).size)
        worst = max(worst, abs(float(Fraction(chance) - true)))
    assert worst < 2.0**-49 < discrete.COIN_TOLERANCE / 16


def test_scales_beyond_int64_and_no_scales_are_refused():
    assert np.abs(discrete_gaussian(2.0**57, 1000, seeded_generator(13))).max() > 2**57
    for scale, words in ((2.0**58, "int64"), (0.0, "scale"), (np.nan, "scale")):
        with pytest.raises(InvalidParameterError, match=words):
            discrete_gaussian(scale, 1, seeded_generator(13))


@pytest.mark.parametrize("scale", [1e-3, 7.3, 2.0**50 + 1])
def test_scales_are_rounded_up_and_hardly(scale):
    rounded = discrete._rounded_up(scale)
    assert Fraction(scale) <= rounded <= Fraction(scale) * (1 + Fraction(1, 2**38))


@every_source
@pytest.mark.parametrize("scale", [1e6, 2.0**45 / 3])
def test_large_scales_look_continuous(draw, scale):
    for mechanism, cdf in ((discrete_laplace, scipy.stats.laplace.cdf), (discrete_gaussian, scipy.stats.norm.cdf)):
        sample = draw(mechanism, scale, 20_000) / scale
        assert follows(sample, cdf)
        assert not follows(sample * 1.2, cdf)
