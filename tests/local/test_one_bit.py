"""`one_bit` in integers: what its bits are a function of, in every layout, and the noise of `gaussian_paper`."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from eigenveil.accounting.calibration import gaussian_epsilon, zcdp_epsilon
from eigenveil.guarantee import Numerics
from eigenveil.local import LocalProtocol, mechanism_of
from eigenveil.local.client import new_ids
from eigenveil.mechanisms.local import local_mechanism_from
from eigenveil.mechanisms.local.directions import public_bases
from eigenveil.mechanisms.local.one_bit import NEAR_TOLERANCE
from statistical.constants import ALPHA

TOLERANCE = "eigenveil.mechanisms.local.one_bit.NEAR_TOLERANCE"


def one_bit(d, epsilon=1.0, **more):
    return local_mechanism_from({"mechanism": "one_bit", "n_features": d, "epsilon": epsilon, **more})


def with_threshold(mechanism, threshold):
    """Return a mechanism of another public threshold."""
    other = one_bit(mechanism.n_features, rank=mechanism.rank)
    vars(other)["bit"] = replace(mechanism.bit, threshold=float(threshold))
    return other


def integer_rows(n, d, generator):
    rows = generator.normal(size=(n, d))
    rows *= generator.uniform(0.01, 1, (n, 1)) * 2**16 / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.trunc(rows)


def near_by_fractions(mechanism, rows, public):
    """The definition, in Python's integers."""
    threshold = Fraction(mechanism.bit.threshold)
    found = []
    for q, basis in zip(rows.astype(int).tolist(), public.astype(int).tolist(), strict=True):
        products = sum(sum(a * b for a, b in zip(q, v, strict=True)) ** 2 for v in basis)
        size = sum(a * a for v in basis for a in v)
        found.append(mechanism.rank * products > threshold * size * sum(a * a for a in q))
    return np.array(found)


@pytest.mark.parametrize(("d", "rank"), [(2, 1), (40, 1), (5, 2), (40, 20)])
def test_near_is_what_it_says_and_so_is_the_slow_path(d, rank, monkeypatch):
    generator = np.random.default_rng(d)
    mechanism, rows = one_bit(d, rank=rank), integer_rows(1000, d, generator)
    public = public_bases(new_ids(1000, generator), d, rank)
    wanted = near_by_fractions(mechanism, rows, public)
    assert 0 < wanted.mean() < 1
    assert np.array_equal(mechanism.near(rows, public), wanted)
    monkeypatch.setattr(TOLERANCE, math.inf)
    assert np.array_equal(mechanism.near(rows, public), wanted)  # every decision in integers


@pytest.mark.parametrize(("d", "rank"), [(3, 1), (6, 3)])
def test_a_threshold_that_floats_cannot_decide(d, rank, monkeypatch):
    """At thresholds beside the true square of a cosine the exact order counts, and floats alone get it wrong."""
    generator = np.random.default_rng(0)
    mechanism, rows = one_bit(d, rank=rank), integer_rows(300, d, generator)
    public = public_bases(new_ids(300, generator), d, rank)
    missed = 0
    for row, basis in zip(rows, public, strict=True):
        row, basis = row[None], basis[None]
        products = rank * sum(int(product) ** 2 for product in basis[0] @ row[0])
        sizes = int(np.square(basis).sum()) * int(row[0] @ row[0])
        nearest = float(Fraction(products, sizes))
        for threshold in (math.nextafter(nearest, 0), nearest, math.nextafter(nearest, 1)):
            beside = with_threshold(mechanism, threshold)
            assert beside.near(row, basis) == near_by_fractions(beside, row, basis)
            with monkeypatch.context() as floats_alone:
                floats_alone.setattr(TOLERANCE, -1.0)
                missed += bool(beside.near(row, basis) != near_by_fractions(beside, row, basis))
    assert missed > 10  # the control: without integers many are wrong
    assert NEAR_TOLERANCE < 2.0**-40  # and yet they are asked for once in a trillion


@pytest.mark.parametrize("mechanism", ["one_bit", "double_cap"])
def test_the_longest_and_the_zero_row(mechanism):
    protocol = LocalProtocol(3, 30.0, mechanism=mechanism, trace_share=0.5)
    generator = np.random.default_rng(0)
    rows = np.repeat([[2.0**16, 0, 0], [0, 0, 0]], 500, axis=0)
    ids = new_ids(1000, generator)
    kept = mechanism_of(protocol).perturb(rows, ids, generator)[:, -1]
    kept = kept >> 1 if mechanism == "one_bit" else kept
    # At this epsilon no trace bit lies: the longest row always keeps its direction, the zero row never.
    assert kept[:500].all()
    assert not kept[500:].any()


@pytest.mark.parametrize("rank", [1, 3])
def test_reports_do_not_depend_on_the_layout(rank):
    mechanism, rows = one_bit(7, rank=rank), integer_rows(200, 7, np.random.default_rng(1))
    ids = new_ids(200, np.random.default_rng(2))
    wanted = mechanism.perturb(rows, ids, np.random.default_rng(3))
    wide = np.zeros((200, 14))
    wide[:, ::2] = rows
    for layout in (np.asfortranarray(rows), wide[:, ::2], rows[::-1].copy()[::-1]):
        assert np.array_equal(mechanism.perturb(layout, ids, np.random.default_rng(3)), wanted)


@pytest.mark.parametrize(("d", "rank", "share"), [(3, 1, 0.05), (4, 2, 0.3)])
def test_the_distribution_of_a_report_given_its_identifier(d, rank, share):
    """All four payloads against their probabilities, for a row of norm 0.6; a factor of 1.2 in epsilon is seen."""
    n, epsilon = 100_000, 1.5
    mechanism, other = (one_bit(d, e, trace_share=share, rank=rank) for e in (epsilon, 1.2 * epsilon))
    row = np.trunc(np.r_[0.36, 0.48, np.zeros(d - 2)] * 2**16)
    generator = np.random.default_rng(4)
    ids = np.repeat(new_ids(1, generator), n, axis=0)
    counts = np.bincount(mechanism.perturb(np.tile(row, (n, 1)), ids, generator)[:, 0], minlength=4)

    def fits(candidate):
        payloads = np.arange(4, dtype=np.uint8)[:, None]
        chances = np.exp(candidate.log_likelihood(payloads, ids[:4], row))
        assert chances.sum() == pytest.approx(1, abs=1e-12)
        return stats.chisquare(counts, n * chances / chances.sum()).pvalue > ALPHA

    assert fits(mechanism)
    vars(other)["bit"] = mechanism.bit
    assert not fits(other)


# The paper's Gaussian.


@pytest.mark.parametrize("d", [2, 60])
@pytest.mark.parametrize("delta", [1e-9, 1e-4, 0.3])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 8.0, 30.0])
def test_the_paper_s_noise_is_exact_with_a_proved_epsilon(d, delta, epsilon):
    mechanism = local_mechanism_from(
        {"mechanism": "gaussian_paper", "n_features": d, "epsilon": epsilon, "delta": delta}
    )
    guarantee = mechanism.guarantee()
    assert guarantee.numerics is Numerics.EXACT
    # Never below what real noise of that scale has, never above what its rho implies.
    assert gaussian_epsilon(math.sqrt(2) / mechanism.sigma, delta) <= guarantee.epsilon
    assert guarantee.epsilon <= zcdp_epsilon(guarantee.rho, delta)
    assert Fraction(guarantee.rho) * Fraction(mechanism.sigma) ** 2 >= 1 - Fraction(1, 10**15)
    by_rho = guarantee.epsilon == zcdp_epsilon(guarantee.rho, delta)
    assert by_rho or guarantee.epsilon < 30  # where e^epsilon is large, discrete and real noise are too far apart


def test_the_paper_s_noise_is_a_discrete_gaussian_of_its_scale():
    mechanism = local_mechanism_from({"mechanism": "gaussian_paper", "n_features": 400, "epsilon": 1.0, "delta": 1e-4})
    noise = mechanism.noise(1, np.random.default_rng(6))
    assert noise.dtype == np.int64
    scale = mechanism.sigma * mechanism.grid

    def fits(factor):
        return stats.kstest(noise, "norm", args=(0, factor * scale)).pvalue > ALPHA

    assert fits(1.0)
    assert not fits(1.05)
    assert not fits(0.95)
