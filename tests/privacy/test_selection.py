"""The private choice of a bound: its privacy loss by exact enumeration, its mechanism, and how often it goes astray."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from eigenveil.audit import epsilon_lower_bound
from eigenveil.errors import CapacityError
from eigenveil.gate import choose_magnitudes
from eigenveil.mechanisms import choices
from eigenveil.mechanisms.choices import first_at_most, noise_scale
from eigenveil.moments.counts import NORM_GRID, MagnitudeCounts
from eigenveil.sampling.randomness import secure_generator, seeded_generator
from statistical.constants import ALPHA

EPSILON = Fraction(1, 2)


def enumerated(counts, most, scale):
    """Return the probability of every outcome, with the rule written out: a sum over the noise of the threshold."""
    z = np.arange(int(60 * scale))  # e^-60 is left out
    chances = np.exp(-z / scale) * -np.expm1(-1 / scale)
    outcomes, going_on = [], chances
    for count in counts[:-1]:
        # v >= count - most + z
        stops = np.exp(-np.maximum(0, count - most + z) / scale)
        outcomes.append(np.sum(going_on * stops))
        going_on = going_on * (1 - stops)
    return np.array([*outcomes, np.sum(going_on)])


def tables(n_rows, n_candidates):
    """Return the counts above every rung of all tables of so many rows; a row is the first rung that holds it."""
    for candidates in itertools.combinations_with_replacement(range(n_candidates + 1), n_rows):
        yield candidates, np.array([sum(candidate > j for candidate in candidates) for j in range(n_candidates)])


def neighbours(n_rows, n_candidates):
    """Return the pairs of tables that differ by a replaced row, and those that differ by an added one."""
    same, fewer = list(tables(n_rows, n_candidates)), list(tables(n_rows - 1, n_candidates))
    replaced = [
        (one, other)
        for (a, one), (b, other) in itertools.combinations(same, 2)
        if any(sorted([*b, x]) == sorted([*a, y]) for x in a for y in b)
    ]
    added = [
        (one, other)
        for a, one in same
        for b, other in fewer
        if any(sorted([*b, candidate]) == sorted(a) for candidate in a)
    ]
    return {"replace_one": replaced, "add_or_remove_one": added}


def worst_loss(pairs, scale):
    """Return the largest log ratio of any outcome on any pair, both ways, at thresholds from below to above."""
    worst = 0.0
    for (one, other), most in itertools.product(pairs, (-1, 0, 1, 3, 5)):
        p, q = enumerated(one, most, scale), enumerated(other, most, scale)
        worst = max(worst, float(np.abs(np.log(p / q)).max()))
    return worst


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
def test_the_privacy_loss_is_epsilon_and_no_more(adjacency):
    pairs = neighbours(3, 4)[adjacency]
    scale = float(noise_scale(EPSILON))
    assert 0.8 * float(EPSILON) < worst_loss(pairs, scale) <= float(EPSILON) * (1 + 1e-12)
    # A scale of 1.2 times too little is seen.
    assert worst_loss(pairs, scale / 1.2) > float(EPSILON)


def test_the_draws_have_the_enumerated_distribution():
    counts, most, n = np.array([12] * 20 + [8] * 6 + [0, 0]), 2, 4000
    for generator in (seeded_generator(3), secure_generator()):
        drawn = first_at_most([counts] * n, most, EPSILON, generator)
        seen = np.bincount(drawn, minlength=counts.size)

        def fits(scale, seen=seen):
            return scipy.stats.chisquare(seen, n * enumerated(counts, most, scale)).pvalue > ALPHA

        scale = float(noise_scale(EPSILON))
        assert fits(scale)
        assert not fits(scale * 1.2)
        assert not fits(scale / 1.2)


def test_the_scale_is_two_over_epsilon():
    """It is all that the loss above depends on."""
    assert noise_scale(Fraction(1, 10)) == 20
    assert noise_scale(Fraction(10**9)) > 0
    with pytest.raises(CapacityError, match="larger epsilon"):
        noise_scale(Fraction(1, 10**17))


# One row that the second place holds, and the first does not. The second place has a loss of epsilon.
CLOSE, NEIGHBOUR = np.array([1, 0, 0]), np.array([0, 0, 0])


def audited(seed):
    draws = []
    for i, counts in enumerate((CLOSE, NEIGHBOUR)):
        generator = seeded_generator(seed + i)
        draws.append(first_at_most([counts] * 3000, 0, Fraction(1), generator) == 1)
    return epsilon_lower_bound(*np.array(draws, dtype=float), confidence=1 - 1e-6).epsilon


def test_the_audit_finds_no_more_than_epsilon_and_catches_noise_of_a_sixth(monkeypatch):
    assert 0.4 < audited(1) <= 1.0
    monkeypatch.setattr(choices, "_float_scale", lambda epsilon: float(noise_scale(epsilon)) / 6)
    assert audited(3) > 1.0


def test_columns_share_the_epsilon():
    """With two columns each of them is asked with half of it, and independently."""
    rows = np.repeat([[1.0, 8.0], [4.0, 64.0]], [70, 30], axis=0)
    counts, generator = MagnitudeCounts(2).update(rows), seeded_generator(5)
    drawn = np.array([choose_magnitudes(counts, 25, Fraction(1), generator) for _ in range(2000)])
    scale = float(noise_scale(Fraction(1, 2)))
    for column, low in ((0, 1.0), (1, 8.0)):
        mechanism = enumerated(counts.above()[column], 25, scale)
        early = np.sum(drawn[:, column] <= low)
        assert scipy.stats.binomtest(int(early), 2000, mechanism[low >= NORM_GRID].sum()).pvalue > ALPHA
    assert np.unique(drawn[:, 0] == 1.0).size == 2
    assert abs(np.corrcoef(np.log(drawn).T)[0, 1]) < 0.1
