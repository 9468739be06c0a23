"""The skeleton of a new mechanism runs, is true, and is what docs/how_to/add_a_mechanism.md quotes."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eigenveil import PrivatePCA, forecast, load_release
from eigenveil.mechanisms import MECHANISMS
from eigenveil.report import render_report

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "new_mechanism.py"
PAGE = ROOT / "docs" / "how_to" / "add_a_mechanism.md"
BEGIN, END = "<!-- from examples/new_mechanism.py -->", "<!-- end of examples/new_mechanism.py -->"


@pytest.fixture
def new_mechanism(monkeypatch):
    spec = importlib.util.spec_from_file_location("new_mechanism", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(MECHANISMS, "new_mechanism", module.NewMechanism)
    return module.NewMechanism


def test_the_example_runs():
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True)
    assert "planned: 5-DP (pure)" in done.stdout
    assert "shares of variance" in done.stdout


def test_the_page_quotes_the_first_part_of_the_example():
    text = EXAMPLE.read_text(encoding="utf-8")
    quoted = text[text.index("import math") : text.index("    # What is known about the noise")].rstrip()
    between = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()
    assert between == f"```python\n{quoted}\n```"


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
def test_its_promise_is_true(new_mechanism, adjacency):
    """It is the mechanism `laplace`, whose noise is tested by its distribution."""
    mine, known = (
        mechanism(epsilon=0.7, n_features=6, adjacency=adjacency)
        for mechanism in (new_mechanism, MECHANISMS["laplace"])
    )
    assert mine.noise_scale() == known.noise_scale()
    assert mine.guarantee() == known.guarantee()
    assert np.array_equal(mine.noise(np.random.default_rng(0), 2.0**32), known.noise(np.random.default_rng(0), 2.0**32))


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_the_house_takes_it_from_the_table(new_mechanism, tmp_path):
    rows = np.random.default_rng(1).normal(size=(500, 4))
    model = PrivatePCA(2, epsilon=5.0, norm_bound=4.0, mechanism="new_mechanism").fit(rows)
    loaded = load_release(model.release_.save(tmp_path / "r.npz"))
    assert isinstance(loaded.mechanism, new_mechanism)
    assert np.array_equal(loaded.covariance, model.covariance_)
    assert "new_mechanism" in render_report(loaded)
    forecasts = forecast(PrivatePCA(2, epsilon=5.0, norm_bound=4.0), 4, 500, repeats=4)
    assert forecasts["new_mechanism"].mean > 0
