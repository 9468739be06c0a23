"""`PrivateRidge` gives no wild answer: it refuses before the spend, warns, or predicts at worst about the mean."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from eigenveil import PrivacyLedger, PrivateRidge, Release, RowBound, SecondMoments
from eigenveil.errors import InvalidDataError, NoiseWarning
from helpers import scales

X, Y = load_diabetes(return_X_y=True, scaled=False)
TABLE = np.column_stack([X, Y])
RANGES = TABLE.min(axis=0), TABLE.max(axis=0)


def ridge(**parameters):
    return PrivateRidge(**{"bounds": RANGES, "fit_intercept": True, **parameters})


def test_too_few_rows_are_refused_before_the_spend(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "a.ledger", epsilon=10.0, data_set="diabetes")
    for fit in (
        lambda: ridge(ledger=ledger).fit(X[:370], Y[:370]),
        lambda: ridge(ledger=ledger).partial_fit(X[:370], Y[:370]).fit_moments(),
        # Also where the norm bound would be found first.
        lambda: ridge(ledger=ledger, bounds=None, schema=scales(*[1.0] * 11), target=10).fit(TABLE[:370]),
        lambda: ridge(ledger=ledger).plan(11, 370),
    ):
        with pytest.raises(InvalidDataError, match="times the rows"):
            fit()
    with pytest.raises(InvalidDataError, match="too few to estimate the ranges"):
        ridge(ledger=ledger, bounds=None).fit(X[:370], Y[:370])
    assert ledger.spent == (0, 0)


def test_what_the_refusal_says_would_do():
    with pytest.raises(InvalidDataError, match=r"1\.\d times the rows \(there are 370\)") as told:
        ridge().plan(11, 370)
    factor = float(str(told.value).split(" times")[0].split()[-1])
    ridge(epsilon=factor).plan(11, 370)
    ridge().plan(11, math.ceil(370 * factor))
    ridge(fit_intercept=False).plan(11, 370)


def test_a_private_number_of_rows_is_not_refused():
    with pytest.warns(NoiseWarning):
        ridge(adjacency="add_or_remove_one", epsilon=0.1, random_state=0).fit(X, Y)


def test_the_median_fit_of_a_small_hard_table_is_no_worse_than_the_mean(recwarn):
    """442 rows, 11 columns, just above what is refused; least squares on the same releases is the control."""
    model = ridge(epsilon=1.1)
    shift, scale = (RANGES[0] + RANGES[1]) / 2, 2 / (RANGES[1] - RANGES[0])
    bound = RowBound(11**0.5, shift=tuple(shift), scale=tuple(scale), constant=11**0.5 / 2)
    moments = SecondMoments(bound, 11).update(TABLE)
    scores, naive = [], []
    for seed in range(9):
        release = model.set_params(random_state=seed).fit_moments(moments).release_
        scores.append(model.score(X, Y))
        matrix = release.matrix.scaled_matrix / np.outer(scale, scale)
        coef = np.linalg.solve(matrix[:-1, :-1], matrix[:-1, -1])
        errors = Y - release.mean[-1] - (X - release.mean[:-1]) @ coef
        naive.append(1 - np.mean(errors**2) / Y.var())
    assert np.median(scores) > 0
    assert min(scores) > -0.5
    assert np.median(naive) < -1


def test_a_target_whose_range_is_much_too_wide_is_warned_of():
    wide = RANGES[0].copy(), RANGES[1].copy()
    wide[1][-1] = 50 * RANGES[1][-1]
    with pytest.warns(NoiseWarning, match="variance of the target is not distinguishable"):
        ridge(epsilon=2.0, bounds=wide, random_state=0).fit(X, Y)


def warned_of(release):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", NoiseWarning)
        release.regress(release.origin.request.target)
    return any("variance of the target is not distinguishable" in str(one.message) for one in seen)


def test_noise_on_a_mean_that_was_measured_first_is_part_of_the_warning():
    """The moment about such a mean is too large by the square of its error: the target may vary less."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, size=(20_000, 3))
    rows[:, 2] = 0.6 * rows[:, 0] + 0.4 * rows[:, 1]
    model = PrivateRidge(epsilon=2.0, delta=1e-6, mechanism="gaussian", bounds=(-1, 1), random_state=0)
    model.fit(rows[:, :2], rows[:, 2])
    release, variance = model.release_, rows[:, 2].var()
    assert not release.origin.centred
    assert not warned_of(release)
    slope = 1 + model.coef_ @ model.coef_
    # A share of 0.1 less that of what the square of the error and its standard deviation hide.
    limit = 0.1 * variance / (slope + 0.1 * (1 + 2.5 * math.sqrt(2)))
    for factor, expected in ((0.8, False), (1.25, True)):
        origin = replace(release.origin, mean_sd=math.sqrt(factor * limit))
        told = Release(dict(release.integers), dict(release.unit), release.guarantee, origin)
        assert warned_of(told) is expected


@pytest.mark.heavy
def test_no_bad_fit_of_a_mean_that_was_measured_first_is_silent():
    """Diabetes, ranges twice too wide: some fits predict much worse than the mean, and none in silence."""
    low, high = RANGES
    wide = low - (high - low) / 2, high + (high - low) / 2
    bad = 0
    for seed in range(100):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", NoiseWarning)
            model = PrivateRidge(epsilon=0.7, delta=1e-6, bounds=wide, random_state=seed).fit(X, Y)
        assert "mean" in model.release_.integers
        if model.release_.origin.mean_sd > 0.01:  # after further rounds it is not the mean that is to blame
            bad += model.score(X, Y) < -0.1
            assert seen or model.score(X, Y) >= -0.1
    assert bad > 0


def test_a_target_without_relation_is_predicted_by_its_mean_with_a_warning():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, size=(3_000, 5))
    unrelated = 0
    for seed in range(8):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", NoiseWarning)
            model = PrivateRidge(bounds=(-1, 1), fit_intercept=True, random_state=seed).fit(rows[:, :4], rows[:, 4])
        assert model.score(rows[:, :4], rows[:, 4]) > -0.01
        assert model.coef_.any() or seen
        unrelated += bool(seen)
    assert unrelated > 0
