"""Ranges that are found privately: what one row changes, what the searches cost, and how often they go astray."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from eigenveil import PrivateCovariance, gate
from eigenveil.estimators import fit
from eigenveil.estimators.plan import rows_for_ranges
from eigenveil.estimators.split import NORM_SHARE, RANGES_SHARES, SEARCHES
from eigenveil.mechanisms.choices import PureSearch
from eigenveil.moments.column_counts import ColumnCounts
from eigenveil.moments.numpy_kernels import half_differences
from eigenveil.sampling.randomness import secure_generator
from eigenveil.tables.open import open_source
from privacy.test_selection import enumerated, worst_loss

GRID = (-1.5, -1.0, 0.0, 1.0, 1.5)
POINTS = [np.array([-1.0, 0.0, 1.0])]


def pair_counts(column):
    counts = ColumnCounts([np.array([0.0, 0.3, 0.7, 1.3])])
    return counts.update(half_differences(np.array(column)[:, None])).above()[0]


def place_counts(column):
    return ColumnCounts(POINTS).update(np.array(column)[:, None]).above()[0]


def neighbouring(statistic, n_rows):
    """Yield the counts of all tables of one column on the grid, and of all of their neighbours."""
    for table in itertools.product(GRID, repeat=n_rows):
        for place, other in itertools.product(range(n_rows), GRID):
            changed = [*table[:place], other, *table[place + 1 :]]
            yield statistic(table), statistic(changed)


@pytest.mark.parametrize("statistic", [pair_counts, place_counts])
@pytest.mark.parametrize("n_rows", [2, 3, pytest.param(4, marks=pytest.mark.heavy)])
def test_one_row_moves_all_counts_one_way_by_at_most_one(statistic, n_rows):
    moved = False
    for one, other in neighbouring(statistic, n_rows):
        change = other - one
        assert set(change) <= {0, 1} or set(change) <= {0, -1}
        moved |= bool(change.any())
    assert moved


@pytest.mark.parametrize("statistic", [pair_counts, place_counts])
def test_a_search_costs_its_epsilon_and_no_less(statistic):
    """By enumeration over all tables of four rows: at most epsilon, and more with noise 1.2 times too small."""
    epsilon, unique = 0.5, {}
    for one, other in neighbouring(statistic, 4):
        unique[tuple(one), tuple(other)] = (one, other)
    pairs = list(unique.values())
    assert worst_loss(pairs, 2 / epsilon) <= epsilon * (1 + 1e-9)
    assert worst_loss(pairs, 2 / epsilon / 1.2) > epsilon


def test_control_overlapping_pairs_would_be_caught():
    """In neighbouring differences a row has two parts, and counts move by two."""

    def overlapping(column):
        rows = np.array(column)
        return ColumnCounts([np.array([0.3])]).update(np.abs(np.diff(rows))[:, None] / 2).above()[0]

    assert max(abs(other - one).max() for one, other in neighbouring(overlapping, 3)) == 2


def test_the_places_are_drawn_by_the_enumerated_distribution_with_a_share_of_epsilon_each():
    counts = ColumnCounts([np.arange(4.0), np.arange(4.0)]).update(np.repeat([[0.5, 2.5]], 6, axis=0))
    generator, draws, epsilon = secure_generator(), 4000, Fraction(1)
    found = np.array([gate.choose_places(counts, 3, PureSearch(epsilon), generator) for _ in range(draws)])
    for column, above in enumerate(counts.above()):
        expected = enumerated(above, 3, 2 / (float(epsilon) / 2))
        seen = np.bincount(found[:, column], minlength=4) / draws
        assert np.abs(seen - expected).max() < 6 * np.sqrt(0.25 / draws)
        wrong = enumerated(above, 3, 2 / float(epsilon))  # all of epsilon for each of them
        assert np.abs(seen - wrong).max() > 6 * np.sqrt(0.25 / draws)


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # payments are what is tested
@pytest.mark.parametrize("constants", [0, 1])
def test_searches_share_what_was_paid(monkeypatch, constants):
    """A fourth one is made where a column was lost in the first, of that column alone."""
    spent, searched = [], []
    original = gate.choose_places

    def counted(counts, most, search, generator, only=None):
        spent.append(search.epsilon)
        searched.append(len(counts.points) if only is None else len(only))
        return original(counts, most, search, generator, only)

    monkeypatch.setattr(gate, "choose_places", counted)
    X = np.random.default_rng(0).normal(size=(16_000, 3)) + np.array([0, 50, -3e6])
    X[:, :constants] = 1.0
    model = PrivateCovariance(epsilon=2.0).fit(X)
    assert searched == [3, *[constants] * bool(constants), 3, 3]
    ranges = RANGES_SHARES[-1]
    assert sum(spent) <= 2 * ranges
    assert set(spent) == {2 * ranges / SEARCHES}
    shares = (ranges, NORM_SHARE, 1 - ranges - NORM_SHARE)
    assert [part.epsilon for part in model.guarantee_.parts] == [float(2 * share) for share in shares]


@pytest.mark.parametrize("middle", [0.0, 3.0, -2015.0, 1.7e9, 1e-6, -1e12])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e7])
def test_the_middle_half_is_within_the_range_and_the_range_is_no_wider_than_need_be(middle, spread):
    """At the least number of rows that is not refused."""
    d, epsilon = 4, Fraction(1)
    n = int(rows_for_ranges(PureSearch(epsilon / SEARCHES), d))
    rng = np.random.default_rng(5)
    X = middle + spread * rng.normal(size=(n, d))
    generator, astray = secure_generator(), 0
    for _ in range(5):
        source = open_source(X)
        middles, half, none = fit.found_ranges(
            source, fit.range_counts(source, range(d)), lambda: PureSearch(epsilon / SEARCHES), generator
        )
        step = abs(middle) / 2**16
        known = not none and (np.abs(middles - middle) < 1.5 * half).all()
        astray += not (known and (half > 0.9 * spread).all() and (half < 8 * max(spread, step)).all())
    assert astray <= 2  # 0.3 % of the searches do
