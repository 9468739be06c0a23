"""Nothing is shown without its error, and what may be noise is said to be."""

import math
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris

from eigenveil import PrivateCovariance, PrivatePCA, RowBound, SecondMoments, release
from eigenveil.errors import NoiseWarning
from eigenveil.mechanisms import MECHANISMS
from eigenveil.releases.compare import compare
from eigenveil.uncertainty import with_error
from made_releases import drawn, quietly

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # noise is what this is about


# Words.

NUMBER = r"-?[\d,]+(?:\.\d+)?"


def read_back(text: str) -> list[float]:
    """Return the numbers of a text: the value, and its error or the ends of its interval."""
    power = float("1" + found[0]) if (found := re.findall(r"e[+-]\d\d", text)) else 1.0
    return [power * float(number.replace(",", "")) for number in re.findall(NUMBER, re.sub(r"e[+-]\d\d", "", text))]


@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-9, 1e7),
    st.floats(0.0, 3.0),
)
def test_what_is_told_is_the_interval_to_the_digits_of_its_width(value, width, lean):
    low, high = value - width, value + lean * width
    if not low < value < high:
        return
    text = with_error(value, (low, high))
    told = read_back(text)
    coarse = (high - low) / 2 * 0.53  # a first digit of 1 is told with a second one
    if "±" in text:
        assert told[1] >= max(value - low, high - value) * (1 - 1e-5)
        assert told[1] <= 1.6 * max(value - low, high - value)
        assert abs(told[0] - value) <= coarse
    else:
        assert np.abs(np.array(told) - [value, low, high]).max() <= coarse


def test_an_interval_that_does_not_hold_its_value_is_told_by_its_ends():
    assert with_error(0.1, (0.3, 0.5)) == "0.10 (0.30 to 0.50)"
    assert with_error(-2.5, (-3.0, -2.0)) == "-2.5 ± 0.5"
    assert with_error(0.0, (-0.04, 0.04)) == "0.00 ± 0.04"
    assert with_error(1.0, (1.0, 1.0)) == "1"
    assert with_error(0.2, (-math.inf, 0.5)) == "0.2 (0.5 or less)"


# What is above the noise.


def test_noise_is_marked_and_a_small_share_is_not():
    moments = SecondMoments(RowBound(1.0), 4).update(np.zeros((500, 4)))
    mechanism = MECHANISMS["matrix_laplace"](epsilon=1.0, n_features=4, n_components=2)
    marked = sum(not quietly(lambda: release(mechanism, moments).above_noise).any() for _ in range(30))
    assert marked >= 20  # nearly all of 30: one in twenty may seem to be more than noise
    iris = PrivatePCA(4, epsilon=1e4, norm_bound=12.0).fit(load_iris().data)
    assert iris.above_noise_.all()
    assert iris.explained_variance_ratio_[3] < 0.01


def test_a_covariance_that_the_noise_drowns_is_not_returned_in_silence():
    rows = np.random.default_rng(0).normal(size=(500, 9)) * [100.0, *[0.4] * 8]
    with pytest.warns(
        NoiseWarning, match=r"variance of features? x[1-8].* is not distinguishable from noise.* larger epsilon"
    ) as caught:
        model = PrivateCovariance(epsilon=10.0, norm_bound=300.0).fit(rows)
    assert "x0" not in str(caught[0].message)
    assert (model.entry_interval_[range(1, 9), range(1, 9), 0] <= 0).sum() >= 2  # of eight, nearly all
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoiseWarning)
        PrivateCovariance(epsilon=1e7, norm_bound=300.0).fit(rows)


def test_two_releases_are_as_near_as_noise_alone_would_bring_them():
    rows = np.random.default_rng(1).normal(size=(20_000, 4)) * [1.0, 0.5, 0.2, 0.2]
    pair = [drawn("gaussian", rows, bound=RowBound(4.0), names=None, n_components=4) for _ in range(2)]
    found = compare(*pair)
    assert found.cosines_by_noise[0] > 0.9
    assert found.cosines[0] > found.cosines_by_noise[0] - 0.02
    assert found.cosines_by_noise[2] < 0.9  # a tie
    turned = drawn("gaussian", rows[:, [1, 0, 2, 3]], bound=RowBound(4.0), names=None, n_components=4)
    assert compare(pair[0], turned).cosines[0] < 0.5 < found.cosines_by_noise[0]
