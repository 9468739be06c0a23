"""The private choice of a norm bound: near the quantile, and within its epsilon on worst-case neighbours."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from eigenveil import gate
from eigenveil.audit import epsilon_lower_bound
from eigenveil.gate import choose_magnitudes
from eigenveil.randomness import secure_generator, seeded_generator
from eigenveil.rows.norm_counts import LADDER, MagnitudeCounts

DRAWS = 20_000
CONFIDENCE = 1 - 1e-6


def counts_of(magnitudes):
    return MagnitudeCounts(1).update(np.asarray(magnitudes, dtype=float)[:, None])


def lower_bound(first, second):
    """Return the audit's lower bound from two samples of choices; the events are "at least" or "at most" a rung."""
    return epsilon_lower_bound(first, second, confidence=CONFIDENCE).epsilon


def draws(counts, epsilon, seed):
    generator = seeded_generator(seed)
    return np.array([choose_magnitudes(counts, 0.8, Fraction(epsilon), generator)[0] for _ in range(DRAWS)])


# One row moves the count across the target: the neighbour has a short row replaced by a long one.
CLOSE = [1.0] * 80 + [4.0] * 20
NEIGHBOUR = [1.0] * 79 + [4.0] * 21


@pytest.fixture(scope="module")
def audited():
    return lower_bound(draws(counts_of(CLOSE), 1, 1), draws(counts_of(NEIGHBOUR), 1, 2))


def test_the_audit_finds_no_more_than_epsilon(audited):
    assert audited <= 1.0
    assert audited > 0.1  # the pair is a hard one, so the audit has something to find


def test_the_audit_catches_noise_of_a_sixth(monkeypatch, audited):
    honest = gate.largest_score
    monkeypatch.setattr(gate, "largest_score", lambda scores, scale, generator: honest(scores, scale / 6, generator))
    assert lower_bound(draws(counts_of(CLOSE), 1, 3), draws(counts_of(NEIGHBOUR), 1, 4)) > 1.0


def test_the_secure_choice_has_the_law_of_the_seeded_one():
    counts, n = counts_of(NEIGHBOUR), 3000
    secure, seeded = secure_generator(), seeded_generator(0)
    first = [choose_magnitudes(counts, 0.8, Fraction(1), secure)[0] for _ in range(n)]
    second = [choose_magnitudes(counts, 0.8, Fraction(1), seeded)[0] for _ in range(n)]
    weaker = [choose_magnitudes(counts, 0.8, Fraction(4), seeded)[0] for _ in range(n)]

    def differ(a, b):
        top = np.sum(np.array(a) == 4.0), np.sum(np.array(b) == 4.0)
        return scipy.stats.fisher_exact([[top[0], n - top[0]], [top[1], n - top[1]]]).pvalue < 1e-9

    assert not differ(first, second)
    assert differ(first, weaker)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_it_lands_on_the_rung_above_the_quantile(size):
    rng = np.random.default_rng(0)
    magnitudes = size * rng.lognormal(size=5000)
    chosen = choose_magnitudes(counts_of(magnitudes), 0.8, Fraction(1, 10), secure_generator())[0]
    quantile = np.quantile(magnitudes, 0.8)
    assert quantile / 2 < chosen < quantile * 2


def test_magnitudes_beyond_the_ladder_are_counted_and_columns_are_independent():
    counts = MagnitudeCounts(2).update(np.array([[0.0, 1e300], [1.0, np.inf], [2.0, 3.0]]))
    assert counts.at_most()[0, -1] == 3
    assert counts.at_most()[1, -1] == 1
    assert LADDER[0] < 1e-8
    assert LADDER[-1] > 1e8
