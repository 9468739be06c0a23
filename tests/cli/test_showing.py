"""What fits, `show` and `compare` print of a release: its summary, and as JSON every number with its interval."""

import json
import math

import numpy as np
import pytest

from eigenveil import load_release
from eigenveil.errors import InvalidParameterError
from helpers import invoked

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # noise is what this is about
ROWS = 3000


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
