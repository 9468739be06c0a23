"""What one replaced row changes on the ring: k comparisons, so k times the sensitivities of a row; by brute force."""

import itertools

import numpy as np
import pytest

from eigenveil import RowBound, SecondMoments
from eigenveil.accounting.sensitivity import frobenius_squared, nuclear
from eigenveil.guarantee import Adjacency
from eigenveil.mechanisms import MECHANISMS
from eigenveil.moments.comparisons import NeighbourDifferences

GRID = [np.array(point, dtype=float) for point in itertools.product((-1, 0, 1), repeat=2)]


KINDS = ("spatial_sign", "kendall", "shortened")


def rule_of(kind, k):
    """Where signs are shortened, those of a comparison without ties are."""
    if kind == "spatial_sign":
        return RowBound(1.0, bits=4, statistic=kind, comparisons=k)
    return RowBound(2**0.5, bits=4, statistic="kendall", comparisons=k, most_untied=1 if kind == "shortened" else None)


def gram(rule, rows):
    differences_buffer = NeighbourDifferences(rule)
    comparisons = np.concatenate([*differences_buffer.push(np.array(rows)), *differences_buffer.closing()])
    return np.array(SecondMoments(rule, 2).update(comparisons).gram)


def moves(kind, k, n, tables):
    """Yield by how much the sum moves when one row of a table is replaced by any other of the grid."""
    rule = rule_of(kind, k)
    for table in tables:
        before = gram(rule, table)
        for place, other in itertools.product(range(n), GRID):
            changed = list(table)
            changed[place] = other
            yield gram(rule, changed) - before


def some_tables(n, seed=0):
    """All tables of two rows; of more, some, and those where one replaced row changes most."""
    if n == 2:
        return list(itertools.product(GRID, repeat=2))
    rng = np.random.default_rng(seed)
    drawn = [[GRID[i] for i in rng.integers(0, len(GRID), n)] for _ in range(4)]
    worst = [[np.zeros(2)] * n, [np.array([1.0, 1.0]), *([np.zeros(2)] * (n - 1))]]
    return drawn + worst


def largest(changes):
    """The largest tr D+, tr D- and |D|_F^2 among changes D of an integer sum."""
    changes = np.array(list(changes))
    values = np.linalg.eigvalsh(changes.astype(float))
    up, down = (np.maximum(sign * values, 0).sum(axis=1).max() for sign in (1, -1))
    squared = max(int(square) for square in (changes.astype(object) ** 2).sum(axis=(1, 2)))
    return up, down, squared


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("k", "n"),
    [
        (2, 2),
        (4, 3),
        (4, 7),
        (8, 5),
        *(pytest.param(*one, marks=pytest.mark.heavy) for one in ((2, 5), (4, 4), (8, 2), (8, 3), (8, 4), (8, 9))),
    ],
)
def test_one_row_moves_the_sum_by_no_more_than_is_proved_and_by_nearly_that(kind, k, n):
    limit = rule_of(kind, k).limit_squared
    assert limit == k * 4**4
    up, down, squared = largest(moves(kind, k, n, some_tables(n)))
    assert max(up, down) <= limit * (1 + 1e-12)
    assert squared <= frobenius_squared(Adjacency.REPLACE_ONE) * limit**2
    assert max(up, down) * 2 <= nuclear(Adjacency.REPLACE_ONE) * limit * (1 + 1e-12)
    # It is attained but for rounding to a grid of 16, so that a claim of k - 1 comparisons would be refuted.
    smaller = (k - 1) * 4**4
    assert min(up, down) > smaller
    if n > 2:  # of two rows the one that stays cannot be far from both in different directions
        assert squared > frobenius_squared(Adjacency.REPLACE_ONE) * smaller**2


@pytest.mark.parametrize("kind", KINDS)
def test_a_replaced_row_moves_its_own_comparisons_and_no_others(kind):
    """Also across the seam: D is the sum over the new row's k comparisons minus that over the old one's."""
    rng = np.random.default_rng(1)
    for n in (9, 10, 14):
        rule = rule_of(kind, 8)
        rows = rng.integers(-5, 6, size=(n, 2)).astype(float)
        for place in range(n):
            changed = rows.copy()
            changed[place] = rng.integers(-5, 6, size=2)
            own = []
            for table in (rows, changed):
                partners = [table[(place + step) % n] for step in range(-4, 5) if step]
                moments = SecondMoments(rule, 2)
                for other in partners:
                    differences_buffer = NeighbourDifferences(rule_of(kind, 2))
                    moments.update(*differences_buffer.push(np.array([table[place], other])))
                own.append(np.array(moments.gram))
            assert np.array_equal(gram(rule, changed) - gram(rule, rows), own[1] - own[0])


def test_control_a_ring_that_compares_across_the_seam_twice_is_caught():
    class Twice(NeighbourDifferences):
        def closing(self):
            return itertools.chain(super().closing(), super().closing())

    rule, zeros = rule_of("kendall", 8), np.zeros((12, 2))
    sums = []
    for first in (np.zeros(2), np.ones(2)):
        rows, moments, differences_buffer = zeros.copy(), SecondMoments(rule, 2), Twice(rule)
        rows[0] = first
        for part in itertools.chain(differences_buffer.push(rows), differences_buffer.closing()):
            moments.update(part)
        sums.append(np.array(moments.gram))
    assert np.trace(sums[1] - sums[0]) > rule.limit_squared


def test_control_signs_that_are_not_shortened_are_caught(monkeypatch):
    """On the finer grid of a bound for one untied feature, two of them as they are would be too long."""
    longest = rule_of("shortened", 8)
    monkeypatch.setattr(RowBound, "single_bits", 8)
    monkeypatch.setattr("eigenveil.moments.kernels.compiled", lambda: None)  # which read the bits of the rule
    up, down, _ = largest(moves("shortened", 8, 5, some_tables(5)))
    assert min(up, down) > 1.9 * longest.limit_squared


def test_mechanisms_get_k_times_the_grid():
    """The noise is that of k comparisons: k times that of one row on the sum, and the same on the mean."""
    one, differences_buffer = RowBound(1.0), RowBound(1.0, statistic="spatial_sign", comparisons=8)
    mechanism = MECHANISMS["gaussian"](epsilon=1.0, delta=1e-6, n_features=2)
    drawn = []
    for rule, n in ((one, 200), (differences_buffer, 400)):
        gram, count = np.zeros((2, 2), dtype=np.int64), 400
        generator = np.random.default_rng(5)
        noise = [mechanism.draw(gram, rule.limit_squared, n, generator)["matrix"][0, 1] for _ in range(count)]
        drawn.append((np.std(noise), np.std(noise) * rule.unit_squared / n))
    assert drawn[1][0] / drawn[0][0] == pytest.approx(8, rel=0.3)
    assert drawn[1][1] == pytest.approx(drawn[0][1], rel=0.3)
    assert differences_buffer.reach_squared / 400 == one.reach_squared / 200
