"""Manners of the estimators: ledgers by path, clear refusals, methods that say why they are not there."""

import numpy as np
import pandas as pd
import pytest

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, PrivateRidge, RowBound, SecondMoments, release
from eigenveil.errors import InvalidDataError, InvalidParameterError, NoiseWarning
from eigenveil.mechanisms import MECHANISMS
from eigenveil.releases.record import Release
from eigenveil.report.estimates import read_estimates
from helpers import refused

X = np.random.default_rng(0).normal(size=(200, 3))


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # the noise is meant
def test_a_ledger_may_be_given_by_its_path(tmp_path):
    path = tmp_path / "x.ledger"
    book = PrivacyLedger.create(path, epsilon=4.0, data_set="x")
    for ledger in (path, str(path), book):
        PrivatePCA(1, norm_bound=3.0, ledger=ledger).fit(X)
    moments = SecondMoments(RowBound(3.0), 3).update(X)
    drawn = release(MECHANISMS["laplace"](epsilon=1.0, n_features=3), moments, ledger=str(path))
    assert book.spent == (4.0, 0.0)
    assert len(book.entries()) == 4
    assert drawn.guarantee.epsilon == 1.0


@pytest.mark.parametrize("name", ["center", "standardize"])
@pytest.mark.parametrize("value", [[0.0, 1.0, 2.0], 1, "yes", np.zeros(3), None])
def test_truth_values_are_nothing_else(name, value):
    with refused(InvalidParameterError) as info:
        PrivateCovariance(norm_bound=1.0, **{name: value}).fit(X)
    assert f"{name} must be True or False" in str(info.value)
    PrivateCovariance(norm_bound=1.0, **{name: np.bool_(False)}).plan(3)


@pytest.mark.parametrize(
    "estimator",
    [
        PrivatePCA(1, statistic="clipped"),
        PrivatePCA(1, center=False),
        PrivatePCA(1, standardize=True, adjacency="add_or_remove_one"),
        PrivateRidge(),
        PrivateCovariance(),
    ],
)
def test_partial_fit_says_why_it_is_not_there(estimator):
    assert not hasattr(estimator, "partial_fit")
    with pytest.raises(AttributeError) as info:
        estimator.partial_fit(X)
    assert "another pass" in str(info.value)
    assert "norm_bound" in str(info.value)
    assert hasattr(type(estimator)(norm_bound=1.0), "partial_fit")
    assert type(estimator).partial_fit.__doc__.startswith("Collect rows")


def test_errors_name_options_that_the_caller_has():
    frame = pd.DataFrame({"a": [1.0, 2.0], "city": ["Rome", "Lima"]})
    with refused(InvalidDataError, "Rome") as info:
        PrivatePCA(1, norm_bound=1.0).fit(frame)
    assert "open_table(data, columns=...)" in str(info.value)
    with refused(InvalidDataError) as info:
        PrivatePCA(1, norm_bound=1.0).fit([[np.nan, 1.0]])
    assert "schema" in str(info.value)
    with refused(InvalidParameterError) as info:
        PrivatePCA(2, norm_bound=1.0, center=False, mechanism="ppca").fit(X)
    assert "mechanism_options" in str(info.value)


def test_what_the_noise_hides_is_a_note_for_readers():
    with pytest.warns(NoiseWarning, match="variance of the target is not distinguishable") as warned:
        drawn = (
            PrivateRidge(target=0, epsilon=0.001, norm_bound=6.0, fit_intercept=False, random_state=0).fit(X).release_
        )
    again = Release(drawn.integers, drawn.unit, drawn.guarantee, drawn.origin)
    assert str(warned[0].message) in read_estimates(again).notes
