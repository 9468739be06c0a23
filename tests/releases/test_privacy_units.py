"""What releases of persons and of weighted rows tell: the target of each weight, and the errors that noise makes."""

import math

import numpy as np
import pytest
import scipy.sparse

from eigenveil import RowBound, SecondMoments, load_release, release
from eigenveil.errors import InvalidDataError, InvalidParameterError, NoiseWarning
from eigenveil.mechanisms import MECHANISMS
from eigenveil.moments.column_counts import ColumnCounts
from eigenveil.moments.counts import RowSizes
from eigenveil.moments.row_rule import RowRule
from eigenveil.moments.sums import SumsByNorm
from eigenveil.moments.units import Weighted
from eigenveil.sampling.randomness import seeded_generator
from helpers import refused
from made_units import blocks_of

D = 3


def privacy_units_of(n=400, seed=1):
    """Persons of one to nine rows, that lie apart from one another and have a mean."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        m = int(generator.integers(1, 10))
        found.append(generator.normal(size=D) + [0.5, 0.0, -0.5] + 0.1 * m + 0.5 * generator.normal(size=(m, D)))
    return found


PRIVACY_UNITS = privacy_units_of()
ROWS = np.concatenate(PRIVACY_UNITS)


def exact(moments):
    """Return the release without noise."""
    mechanism = MECHANISMS["none"](epsilon=1.0, n_features=moments.width)
    return release(mechanism, moments, generator=seeded_generator(1))


def gaussian(moments, seed, epsilon=1.0):
    mechanism = MECHANISMS["gaussian"](epsilon=epsilon, delta=1e-6, n_features=moments.width)
    return release(mechanism, moments, generator=seeded_generator(seed))


def collected(batch, **options):
    return SecondMoments(RowBound(bits=22, **options), D).update(batch)


def test_averages_of_persons_are_read_per_person():
    told = exact(collected(blocks_of(PRIVACY_UNITS), norm=8.0, constant=4.0, unit_weight="equal"))
    mean = np.mean([rows.mean(axis=0) for rows in PRIVACY_UNITS], axis=0)
    moment = np.mean([rows.T @ rows / len(rows) for rows in PRIVACY_UNITS], axis=0)
    assert np.allclose(told.mean, mean, atol=1e-4)
    assert np.allclose(told.matrix.row_matrix, moment - np.outer(mean, mean), atol=1e-3)
    assert told.n_rows == len(PRIVACY_UNITS)


def test_pooled_rows_are_read_per_row_with_a_constant_and_per_person_without():
    told = exact(collected(blocks_of(PRIVACY_UNITS), norm=40.0, constant=8.0, unit_weight="by_rows"))
    assert np.allclose(told.mean, ROWS.mean(axis=0), atol=1e-4)
    assert np.allclose(told.matrix.row_matrix, np.cov(ROWS.T, bias=True), atol=1e-3)
    assert told.n_rows == len(PRIVACY_UNITS)  # and the number of rows is read off the corner alone
    told = exact(collected(blocks_of(PRIVACY_UNITS), norm=40.0, unit_weight="by_rows"))
    assert np.allclose(told.matrix.row_matrix, ROWS.T @ ROWS / len(PRIVACY_UNITS), atol=1e-3)


def test_pooled_persons_who_are_shortened_count_less_and_bias_neither_mean_nor_scale():
    same = [np.tile([[1.0, 2.0, 3.0]], (m, 1)) for m in (1, 3, 50)]
    told = exact(collected(blocks_of(same), norm=4.0, constant=2.0, unit_weight="by_rows"))
    assert np.allclose(told.mean, [1.0, 2.0, 3.0], atol=1e-4)
    assert np.abs(told.matrix.row_matrix).max() < 1e-4


@pytest.mark.parametrize(("weight", "norm", "constant"), [("equal", 6.0, 3.0), ("by_rows", 16.0, 0.7)])
def test_simulated_noise_is_the_error_of_the_reading(weight, norm, constant):
    moments = collected(blocks_of(8 * PRIVACY_UNITS), norm=norm, constant=constant, unit_weight=weight)
    truth = exact(moments).matrix.row_matrix
    told = [gaussian(moments, seed, epsilon=8.0) for seed in range(200)]
    found = np.std([one.matrix.row_matrix - truth for one in told], axis=0)

    def simulated():
        return np.std([one.matrix.noise_draw(np.random.default_rng(seed)) for seed, one in enumerate(told)], axis=0)

    assert np.all(np.abs(found / simulated() - 1) < 0.3)  # the ratio of two such sds has an sd of .07
    if weight == "by_rows":  # control: what the error of the number of rows adds is seen
        for one in told:
            vars(one.matrix)["counts_by_constant"] = False
        assert (found / simulated()).max() > 1.5


def test_a_number_of_rows_that_the_noise_hides_is_said():
    moments = collected(blocks_of(PRIVACY_UNITS[:4]), norm=40.0, constant=0.5, unit_weight="by_rows")
    with pytest.warns(NoiseWarning, match="number of rows is not distinguishable from noise"):
        told = gaussian(moments, 3, epsilon=0.1).matrix.row_matrix
    assert np.isfinite(told).all()


def test_mechanisms_that_hide_one_row_refuse_persons():
    moments = collected(blocks_of(PRIVACY_UNITS), norm=8.0, unit_weight="equal")
    mechanism = MECHANISMS["wishart"](epsilon=1.0, delta=1e-6, n_features=D)
    with refused(InvalidParameterError):
        release(mechanism, moments)


# Public weights.

WEIGHTS = np.random.default_rng(9).uniform(0.0, 3.0, len(ROWS))
WEIGHTS[::7] = 0.0


def weighted(low=0, high=None, rows=ROWS, **options):
    return collected(Weighted(rows[low:high], WEIGHTS[low:high]), most_weight=3.0, **options)


@pytest.mark.parametrize("constant", [None, 4.0])
def test_weighted_rows_are_read_as_weighted_averages(constant):
    told = exact(weighted(norm=8.0, constant=constant))
    mean = np.average(ROWS, axis=0, weights=WEIGHTS)
    target = (ROWS.T * WEIGHTS) @ ROWS / WEIGHTS.sum()
    assert math.isclose(told.origin.total_weight, WEIGHTS.sum() / 3.0, rel_tol=1e-8)
    assert np.allclose(
        told.matrix.row_matrix, target if constant is None else np.cov(ROWS.T, aweights=WEIGHTS, ddof=0), atol=1e-3
    )
    if constant is not None:
        assert np.allclose(told.mean, mean, atol=1e-4)


def test_weights_change_no_bit_by_order_batch_or_layout():
    wanted = weighted(norm=2.0, constant=1.0)
    assert weighted(0, 70, norm=2.0, constant=1.0) + weighted(70, norm=2.0, constant=1.0) == wanted
    assert weighted(rows=scipy.sparse.csr_array(ROWS), norm=2.0, constant=1.0) == wanted
    order = np.random.default_rng(2).permutation(len(ROWS))
    mixed = Weighted(ROWS[order], WEIGHTS[order])
    assert collected(mixed, most_weight=3.0, norm=2.0, constant=1.0) == wanted
    assert wanted.n_samples == len(ROWS)


def test_rows_of_the_largest_weight_are_rows_and_none_is_longer():
    full = collected(Weighted(ROWS, np.full(len(ROWS), 3.0)), most_weight=3.0, norm=2.0, constant=1.0)
    assert np.array_equal(full.gram, collected(ROWS, norm=2.0, constant=1.0).gram)
    assert full.total_weight == len(ROWS)
    for place in range(60):
        one = weighted(place, place + 1, norm=2.0, constant=1.0)
        assert np.trace(one.gram) <= one.bound.limit_squared * min(1.0, WEIGHTS[place] / 3.0 + 2.0**-32)


def test_noise_of_weighted_rows_is_told_for_their_average():
    moments = weighted(norm=8.0, constant=4.0)
    told, plain = gaussian(moments, 4), gaussian(collected(ROWS, norm=8.0, constant=4.0), 4)
    assert math.isclose(told.matrix.row_noise_sd, plain.matrix.row_noise_sd * len(ROWS) / moments.total_weight)


def test_a_release_file_keeps_units_and_weights(tmp_path):
    for moments in (
        weighted(norm=8.0, constant=4.0),
        collected(blocks_of(PRIVACY_UNITS), norm=40.0, constant=8.0, unit_weight="by_rows"),
    ):
        told = gaussian(moments, 5)
        told.save(tmp_path / "told.json")
        read = load_release(tmp_path / "told.json")
        assert read.origin.row_rule == told.origin.row_rule
        assert np.array_equal(read.matrix.row_matrix, told.matrix.row_matrix)


def test_counts_of_weighted_rows_are_of_rows():
    batch = Weighted(ROWS, WEIGHTS)
    assert np.array_equal(RowSizes(None, None).update(batch).above(), RowSizes(None, None).update(ROWS).above())
    points = [np.array([0.0])] * D
    assert ColumnCounts(points).update(batch).n_rows == len(ROWS)


def test_weights_that_mean_nothing_are_refused():
    for options in ({"unit_weight": "equal"}, {"statistic": "spatial_sign", "comparisons": 8}, {"mapped_from": 2.0}):
        with refused(InvalidParameterError):
            RowRule(1.0, most_weight=1.0, **options)
    for most in (0.0, -1.0, math.inf):
        with refused(InvalidParameterError):
            RowRule(1.0, most_weight=most)
    with refused(InvalidParameterError):
        SumsByNorm(RowBound(1.0, most_weight=1.0), D)
    moments = SecondMoments(RowBound(1.0, most_weight=3.0), D)
    for weights in (WEIGHTS[:-1], WEIGHTS * 2, -WEIGHTS, WEIGHTS * math.nan):
        with refused(InvalidDataError):
            moments.update(Weighted(ROWS, weights))
    with refused(InvalidDataError):
        moments.update(ROWS)
    for bound in (RowBound(1.0), RowBound(1.0, unit_weight="by_rows")):
        with refused(InvalidDataError):
            SecondMoments(bound, D).update(Weighted(ROWS, WEIGHTS))
    mechanism = MECHANISMS["laplace"](epsilon=1.0, n_features=D, adjacency="add_or_remove_one")
    with refused(InvalidParameterError):
        release(mechanism, weighted(norm=1.0))
    nothing = SecondMoments(RowBound(1.0, most_weight=3.0), D).update(Weighted(ROWS, 0 * WEIGHTS))
    with refused(InvalidDataError):
        release(MECHANISMS["laplace"](epsilon=1.0, n_features=D), nothing)
