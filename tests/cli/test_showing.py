"""Nothing is shown without its error: the same intervals, in the same words, wherever a number appears."""

import json
import math
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris

from eigenveil import PrivateCovariance, PrivatePCA, RowBound, SecondMoments, load_release, release
from eigenveil.display import with_error
from eigenveil.errors import InvalidParameterError, NoiseWarning
from eigenveil.mechanisms import MECHANISMS
from eigenveil.releases.compare import compare
from helpers import invoked
from made_releases import drawn, quietly

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # noise is what this is about
ROWS = 3000


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


# The command line.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = rng.uniform(-1, 1, (ROWS, 2)) @ [[0.5, 0.4, 0.0], [0.0, 0.02, 0.01]]
    np.savetxt(tmp_path / "table.csv", table, delimiter=",", header="a,b,c", comments="", fmt="%.5f")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*words):
    return invoked(*words).stdout


FIT = ("table.csv", "--epsilon", 5, "--norm-bound", 1, "--force")


def as_told(value):
    """Return an attribute as JSON tells it."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return [as_told(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@pytest.mark.parametrize("command", [("pca", "-k", 2), ("sparse-pca", "-k", 1), ("show",)])
def test_json_of_components_has_the_attributes_of_the_release(folder, command):
    if command[0] == "show":
        invoke("pca", *FIT, "-k", 2)
    told = json.loads(invoke(command[0], *(("release.npz",) if command[0] == "show" else FIT), *command[1:], "--json"))
    of_file = load_release("release.npz")
    names = [name for name in told if name.startswith(("explained", "captured")) or name.endswith("noise")]
    assert len(names) == 10
    for name in names:
        assert told[name] == as_told(getattr(of_file.spectrum, name)), name
    assert told["no_interval"] is None
    assert told["location_interval"] == as_told(of_file.intervals.mean())
    errors = of_file.spectrum.loading_errors()
    assert (told["loading_errors"] is None) == (errors is None)
    if errors is not None:
        assert told["loading_errors"]["angle_bound"] == as_told(errors.angle_bound)


def test_json_of_a_matrix_and_of_a_regression_has_their_intervals(folder):
    told = json.loads(invoke("covariance", *FIT, "--json"))
    of_file = load_release("release.npz")
    for name, interval in (("entry", "covariance"), ("correlation", "correlation"), ("location", "mean")):
        assert told[f"{name}_interval"] == as_told(getattr(of_file.intervals, interval)())
    assert told["features_below_noise"] == list(of_file.spectrum.features_below_noise)
    assert told["interval_of"] == of_file.intervals.about
    told = json.loads(invoke("ridge", "release.npz", "--target", "b", "--json"))
    fit = of_file.regress("b")
    assert list(told["coef_interval"].values()) == as_told(fit.coef_interval)
    assert told["r2_interval"] == as_told(fit.r2_interval)
    assert told["determined"] == fit.determined
    assert told["intercept_error"] == as_told(fit.intercept_error)
    told = json.loads(invoke("pca", *FIT, "-k", 1, "--no-center", "--mechanism", "ppca", "--accept-inexact", "--json"))
    assert told["explained_variance_interval"] is None
    assert "directions only" in told["no_interval"]


def test_fits_and_show_print_the_summary_of_the_release_and_its_file(folder):
    for words in (("pca", *FIT, "-k", 3), ("covariance", *FIT), ("ridge", *FIT, "--target", "b")):
        printed = invoke(*words)
        tables, _, notes = str(load_release("release.npz").summary()).partition("[1]")
        assert tables in printed
        assert "release.npz" in printed.splitlines()[-1]
        shown = invoke("show", "release.npz")
        assert tables in shown
        assert notes in shown  # what a fit warns of stands on its standard error
    for words in ((), ("--alpha", 0.1)):
        printed = invoke("ridge", "release.npz", "--target", "c", *words)
        told = json.loads(invoke("ridge", "release.npz", "--target", "c", *words, "--json"))
        assert f"ridge, alpha = {told['alpha']:.4g} on" in printed


def test_a_subspace_says_why_nothing_has_an_error(folder):
    text = invoke("pca", *FIT, "-k", 1, "--no-center", "--mechanism", "ppca", "--accept-inexact")
    assert "Only directions were released, so there are no variances." in " ".join(text.split())


def test_compare_tells_noise_from_difference(folder):
    rows = np.loadtxt("table.csv", delimiter=",", skiprows=1)
    turned = rows @ np.linalg.qr(np.arange(9).reshape(3, 3) ** 2.0)[0]
    np.savetxt("other.csv", turned, delimiter=",", header="a,b,c", comments="", fmt="%.5f")
    for name, table in (("one", "table.csv"), ("two", "table.csv"), ("other", "other.csv")):
        invoke("pca", table, *FIT[1:], "-k", 1, "--output", f"{name}.npz")
    told = json.loads(invoke("compare", "one.npz", "two.npz", "--json"))
    assert told["affinity"] > 0.99
    assert told["distance"] < 8  # three entries, each a difference of two draws of heavy tails
    assert told["together"]["epsilon"] == 10.0
    assert "in common" in invoke("compare", "one.npz", "two.npz")
    told = json.loads(invoke("compare", "one.npz", "other.npz", "--json"))
    assert told["affinity"] < 0.9
    assert told["distance"] > 20
    invoke("pca", *FIT, "-k", 1, "--columns", "a,b", "--output", "narrow.npz")
    invoked("compare", "one.npz", "narrow.npz", fails=InvalidParameterError)


def test_two_releases_are_as_near_as_noise_alone_would_bring_them(folder):
    rows = np.random.default_rng(1).normal(size=(20_000, 4)) * [1.0, 0.5, 0.2, 0.2]
    pair = [drawn("gaussian", rows, bound=RowBound(4.0), names=None, n_components=4) for _ in range(2)]
    found = compare(*pair)
    assert found.cosines_by_noise[0] > 0.9
    assert found.cosines[0] > found.cosines_by_noise[0] - 0.02
    assert found.cosines_by_noise[2] < 0.9  # a tie
    turned = drawn("gaussian", rows[:, [1, 0, 2, 3]], bound=RowBound(4.0), names=None, n_components=4)
    assert compare(pair[0], turned).cosines[0] < 0.5 < found.cosines_by_noise[0]
